"""Options of the data: what is learned from, and how batches are made of it."""

from typing import Annotated

from core.choices import Padding, Toggle
from core.options.declaring import FOR_IMAGES, FOR_TEXT, Section, about


class DataOptions(Section, frozen=True, kw_only=True):
    """What it learns from."""

    train: Annotated[
        str,
        about(
            "Training data",
            "A CSV, TSV, JSON, JSONL or Parquet file; for images a folder with one folder a class, or an IDX file "
            "as MNIST ships. `builtin:digits` is 1,797 handwritten digits that come with Hone; `synthetic:512x128` "
            "is 512 random samples of 128 tokens (or 128 pixels), for timing.",
            path=True,
        ),
    ] = ""
    eval: Annotated[
        str | None,
        about(
            "Evaluation data",
            "Held-out data in the same form, never trained on. Empty: a part of the training data is held out.",
            path=True,
        ),
    ] = None
    eval_fraction: Annotated[
        float,
        about(
            "Hold out",
            "Share of the training data kept for evaluation where no evaluation data is given.",
            ge=0.0,
            le=0.9,
        ),
    ] = 0.1
    text_columns: Annotated[
        tuple[str, ...],
        about(
            "Text columns",
            "One column of text, or two to classify pairs. Empty: guessed from the data.",
            needs=FOR_TEXT,
        ),
    ] = ()
    label_column: Annotated[
        str | None,
        about(
            "Label column",
            "The column that holds the answer. Empty: guessed from the data.",
            needs=FOR_TEXT,
        ),
    ] = None
    max_length: Annotated[
        int,
        about(
            "Longest text",
            "Longer texts are cut off here. Memory and time grow with it.",
            unit="tokens",
            needs=FOR_TEXT,
            ge=8,  # room for the special tokens around a pair, and something between them
            le=1_048_576,
        ),
    ] = 128
    padding: Annotated[
        Padding,
        about(
            "Padding",
            "How long the rows of a batch are made.",
            advanced=True,
            group="Batches",
            needs=FOR_TEXT,
        ),
    ] = Padding.DYNAMIC
    group_by_length: Annotated[
        Toggle,
        about(
            "Group by length",
            "Put texts of like length into one batch, so that less is padding: faster, a little less random.",
            advanced=True,
            group="Batches",
            needs=FOR_TEXT,
        ),
    ] = Toggle.AUTO
    image_size: Annotated[
        int,
        about(
            "Image size",
            "Images are resized to this width and height. Time grows with its square.",
            unit="pixels",
            needs=FOR_IMAGES,
            ge=32,
            le=2048,
        ),
    ] = 224
    max_train_samples: Annotated[
        int | None,
        about(
            "Use at most",
            "Train on the first so many rows only, to try something out. Empty: all.",
            unit="samples",
            advanced=True,
            group="How much",
            ge=1,
        ),
    ] = None
    max_eval_samples: Annotated[
        int | None,
        about(
            "Evaluate at most",
            "Evaluate on the first so many rows only. Empty: all.",
            unit="samples",
            advanced=True,
            group="How much",
            ge=1,
        ),
    ] = None
    workers: Annotated[
        int | None,
        about(
            "Workers",
            "Processes that prepare batches while the device computes. 0: none; empty: as many as suit this machine "
            "and the data.",
            unit="processes",
            advanced=True,
            group="Loading",
            aliases=("dataloader_num_workers",),
            ge=0,
            le=64,
        ),
    ] = None
    prefetch: Annotated[
        int,
        about(
            "Prepare ahead",
            "Batches each worker keeps ready.",
            unit="batches",
            advanced=True,
            group="Loading",
            aliases=("dataloader_prefetch_factor",),
            ge=1,
            le=64,
        ),
    ] = 2
    pin_memory: Annotated[
        Toggle,
        about(
            "Pinned memory",
            "Keep batches where an NVIDIA GPU can fetch them by itself, while it computes.",
            advanced=True,
            group="Loading",
            aliases=("dataloader_pin_memory",),
        ),
    ] = Toggle.AUTO
