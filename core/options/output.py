"""Options of what is kept."""

from typing import Annotated

from core.options.declaring import Section, about


class OutputOptions(Section, frozen=True, kw_only=True):
    """What is kept."""

    name: Annotated[
        str | None, about("Name", "What the run is called in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        about(
            "Keep checkpoints",
            "Newest checkpoints kept, one saved each epoch. 0: one is saved only where the run is stopped. The "
            "trained model is saved in any case.",
            advanced=True,
            group="Checkpoints",
            ge=0,
            le=1000,
        ),
    ] = 1
    tensorboard: Annotated[
        bool,
        about(
            "TensorBoard files",
            "Write the figures of each step and evaluation for TensorBoard, too, into the run's folder `tensorboard`.",
            advanced=True,
            group="Also write",
        ),
    ] = False
