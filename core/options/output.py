"""Options of what is kept."""

from typing import Annotated

from core.options.declaring import FOR_WRITING, Section, about


class OutputOptions(Section, frozen=True, kw_only=True):
    """What is kept."""

    name: Annotated[
        str | None, about("Name", "What the run is called in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        about(
            "Keep checkpoints",
            "Newest checkpoints kept, from which a run can go on. 0: one is saved only where the run is stopped or "
            "paused, and a finished run can't be made longer. The trained model is saved in any case.",
            advanced=True,
            group="Checkpoints",
            ge=0,
            le=1000,
        ),
    ] = 1
    save_steps: Annotated[
        int,
        about(
            "Save every",
            "A checkpoint is saved after so many steps, and at the end. 0: after each epoch.",
            unit="steps",
            advanced=True,
            group="Checkpoints",
            ge=0,
            le=10_000_000,
        ),
    ] = 0
    keep_best: Annotated[
        bool,
        about(
            "Keep the best",
            "The trained model is the one that was best at an evaluation, not the last: its checkpoint is kept as "
            "well. Judged by the first of accuracy, F1, Pearson, perplexity and loss that the task has. It needs data "
            "to evaluate on.",
            advanced=True,
            group="Checkpoints",
        ),
    ] = False
    predictions: Annotated[
        int,
        about(
            "Examples to watch",
            "Held-out examples, chosen by seed, whose predictions are kept at every evaluation, so that one sees the "
            "model learn. 0: none.",
            unit="examples",
            advanced=True,
            group="Predictions",
            ge=0,
            le=256,
        ),
    ] = 16
    prompts: Annotated[
        tuple[str, ...],
        about(
            "Own prompts",
            "Texts of your own that the model goes on from, or answers, at every evaluation.",
            advanced=True,
            group="Predictions",
            needs=FOR_WRITING,
        ),
    ] = ()
    tensorboard: Annotated[
        bool,
        about(
            "TensorBoard files",
            "Write the figures of each step and evaluation for TensorBoard, too, into the run's folder `tensorboard`.",
            advanced=True,
            group="Also write",
        ),
    ] = False
