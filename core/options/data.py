"""Options of the data: what is learned from, and how batches are made of it."""

from typing import Annotated

from core.options.choices import ChatTemplate, LossOn, Padding, Toggle
from core.options.declare import (
    FOR_CHAT,
    FOR_CONVERSATIONS,
    FOR_IMAGES,
    FOR_LABEL_COLUMN,
    FOR_SINGLE_TEXTS,
    FOR_TEXT,
    FOR_TEXT_COLUMNS,
    Section,
    about,
)


class DataOptions(Section, frozen=True, kw_only=True):
    """What it learns from."""

    train: Annotated[
        str,
        about(
            "Training data",
            "A CSV, TSV, JSON, JSONL or Parquet file; text or Markdown to go on writing; CoNLL to label words; for "
            "images a folder with one folder a class, a table of paths, or an IDX file as MNIST ships. "
            "`hub:OWNER/NAME` is a data set of the Hugging Face Hub that was downloaded, `hub:OWNER/NAME/SUBSET` "
            "one of its parts; `builtin:digits` 1,797 handwritten digits that "
            "come with Hone; `synthetic:512x128` is 512 random samples of 128 tokens (or 128 pixels), for timing, "
            "`synthetic:512x64-128` texts of 64 to 128.",
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
    train_split: Annotated[
        str | None,
        about(
            "Training split",
            "The name of the split to train on, where the data has several: a folder with train.csv and test.csv, "
            "train-00000-of-00002.parquet or folders train/ and test/; or a data set of the Hub. Empty: the one called "
            "train.",
            advanced=True,
            group="Splits",
        ),
    ] = None
    eval_split: Annotated[
        str | None,
        about(
            "Evaluation split",
            "The name of the split to evaluate on, in place of other data or a share. Empty: neither, or what those "
            "say.",
            advanced=True,
            group="Splits",
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
            "One column of text, or two for pairs. Empty: guessed from the data.",
            needs=FOR_TEXT_COLUMNS,
        ),
    ] = ()
    label_column: Annotated[
        str | None,
        about(
            "Label column",
            "The column that holds the answer: a label, a number, or a label a word. Empty: guessed from the data.",
            needs=FOR_LABEL_COLUMN,
        ),
    ] = None
    header: Annotated[
        Toggle,
        about(
            "Header",
            "Whether the first row of a CSV or TSV file names its columns. Automatic: judged by what stands there.",
            advanced=True,
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = Toggle.AUTO
    skip_bad_rows: Annotated[
        bool,
        about(
            "Leave out bad rows",
            "Rows that would stop a run are left out and counted: an empty answer, something else than a number, "
            "words and tags that don't match, a speaker nobody knows.",
            advanced=True,
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = False
    drop_duplicates: Annotated[
        bool,
        about(
            "Leave out repeated rows",
            "Training rows that are the same as an earlier one are left out, before a share is held out.",
            advanced=True,
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = False
    image_column: Annotated[
        str | None,
        about(
            "Image column",
            "In a table: the column that holds images, or paths to them. Empty: guessed from the data.",
            needs=FOR_IMAGES,
        ),
    ] = None
    columns: Annotated[
        dict[str, str],
        about(
            "Columns",
            "Which column is what: conversation, system, prompt, input, history, answer, chosen, rejected, tools or "
            "text. Empty: guessed from the data.",
            needs=FOR_CONVERSATIONS,
        ),
    ] = {}
    roles: Annotated[
        dict[str, str],
        about(
            "Roles",
            "What names of speakers in the data mean, where Hone doesn't know them: system, user, assistant or tool.",
            advanced=True,
            group="Conversations",
            needs=FOR_CONVERSATIONS,
        ),
    ] = {}
    chat_template: Annotated[
        ChatTemplate,
        about(
            "Chat template",
            "How a conversation is written as one text. It is saved with the model.",
            advanced=True,
            group="Conversations",
            needs=FOR_CONVERSATIONS,
        ),
    ] = ChatTemplate.AUTO
    loss_on: Annotated[
        LossOn,
        about(
            "Learn from",
            "Which part of a conversation the model learns to say.",
            advanced=True,
            group="Conversations",
            needs=FOR_CHAT,
        ),
    ] = LossOn.ANSWERS
    packing: Annotated[
        bool,
        about(
            "Packing",
            "Put several conversations into one row, up to the longest text: fewer steps, little padding. "
            "They don't see each other.",
            advanced=True,
            group="Batches",
            needs=FOR_CHAT,
        ),
    ] = False
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
            needs=FOR_SINGLE_TEXTS,
        ),
    ] = Padding.DYNAMIC
    group_by_length: Annotated[
        Toggle,
        about(
            "Group by length",
            "Put texts of like length into one batch, so that less is padding: faster, a little less random.",
            advanced=True,
            group="Batches",
            needs=FOR_SINGLE_TEXTS,
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
            "Use the first so many rows only, to try something out; the held-out share is taken of these. To go on "
            "writing a text: train on so many rows of tokens, of the part that isn't held out. Empty: all.",
            unit="rows",
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
            unit="rows",
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
