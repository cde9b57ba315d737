"""Options of the data."""

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
    Option,
    Section,
)


class DataOptions(Section, frozen=True, kw_only=True):
    """The data and how batches are made of it."""

    train: Annotated[
        str,
        Option(
            "Training data",
            "A CSV, TSV, JSON, JSONL or Parquet file. Text or Markdown files for text generation. CoNLL files for "
            "token classification. For images: a folder with one subfolder per class, a table of paths, or an MNIST "
            "IDX file. `hub:OWNER/NAME` is a downloaded data set of the Hugging Face Hub, `hub:OWNER/NAME/SUBSET` one "
            "of its subsets. `builtin:digits` are 1,797 handwritten digits included with Hone. `synthetic:512x128` "
            "generates 512 random samples of 128 tokens (or pixels) for timing, `synthetic:512x64-128` texts of 64 to "
            "128 tokens.",
            is_path=True,
        ),
    ] = ""
    eval: Annotated[
        str | None,
        Option(
            "Validation data",
            "Data in the same format for evaluation; never trained on. Empty: part of the training data is used.",
            is_path=True,
        ),
    ] = None
    train_split: Annotated[
        str | None,
        Option(
            "Training split",
            "Name of the split to train on if the data has several: a folder with train.csv and test.csv, "
            "train-00000-of-00002.parquet or subfolders train/ and test/, or a data set of the Hub. Empty: `train`.",
            group="Splits",
        ),
    ] = None
    eval_split: Annotated[
        str | None,
        Option(
            "Validation split",
            "Name of the split to evaluate on, instead of other data or a fraction of the training data.",
            group="Splits",
        ),
    ] = None
    eval_fraction: Annotated[
        float,
        Option(
            "Validation fraction",
            "Fraction of the training data used for evaluation if no validation data is given.",
            limits=(0.0, 0.9),
        ),
    ] = 0.1
    text_columns: Annotated[
        tuple[str, ...],
        Option(
            "Text columns",
            "One column of text, or two for text pairs. Empty: detected.",
            needs=FOR_TEXT_COLUMNS,
        ),
    ] = ()
    label_column: Annotated[
        str | None,
        Option(
            "Label column",
            "Column with the target: a label, a number, or one label per word. Empty: detected.",
            needs=FOR_LABEL_COLUMN,
        ),
    ] = None
    header: Annotated[
        Toggle,
        Option(
            "Header",
            "Whether the first row of a CSV or TSV file contains column names. Automatic: detected.",
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = Toggle.AUTO
    skip_bad_rows: Annotated[
        bool,
        Option(
            "Skip invalid rows",
            "Skip and count rows that would stop a run: an empty answer, a value that is not a number, different "
            "numbers of words and tags, an unknown role.",
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = False
    drop_duplicates: Annotated[
        bool,
        Option(
            "Drop duplicate rows",
            "Drop training rows equal to an earlier one, before the validation split is made.",
            group="Reading",
            needs=FOR_TEXT,
        ),
    ] = False
    image_column: Annotated[
        str | None,
        Option(
            "Image column",
            "In a table: the column with images or their paths. Empty: detected.",
            needs=FOR_IMAGES,
        ),
    ] = None
    columns: Annotated[
        dict[str, str],
        Option(
            "Columns",
            "What each column contains: conversation, system, prompt, input, history, answer, chosen, rejected, "
            "tools or text. Empty: detected.",
            needs=FOR_CONVERSATIONS,
        ),
    ] = {}
    roles: Annotated[
        dict[str, str],
        Option(
            "Roles",
            "Maps unknown role names in the data to system, user, assistant or tool.",
            group="Conversations",
            needs=FOR_CONVERSATIONS,
        ),
    ] = {}
    chat_template: Annotated[
        ChatTemplate,
        Option(
            "Chat template",
            "How a conversation is formatted as one text. Saved with the model.",
            group="Conversations",
            needs=FOR_CONVERSATIONS,
        ),
    ] = ChatTemplate.AUTO
    loss_on: Annotated[
        LossOn,
        Option(
            "Loss on",
            "Which tokens of a conversation the loss is computed on.",
            group="Conversations",
            needs=FOR_CHAT,
        ),
    ] = LossOn.ANSWERS
    packing: Annotated[
        bool,
        Option(
            "Packing",
            "Put several conversations into one row, up to the maximum length: fewer steps, less padding. "
            "Attention doesn't cross conversations.",
            group="Batches",
            needs=FOR_CHAT,
        ),
    ] = False
    max_length: Annotated[
        int,
        Option(
            "Maximum length",
            "Longer texts are truncated. Memory and time grow with this value.",
            unit="tokens",
            needs=FOR_TEXT,
            limits=(8, 1_048_576),  # room for the special tokens around a pair, and something between them
        ),
    ] = 128
    padding: Annotated[
        Padding,
        Option(
            "Padding",
            "To which length the rows of a batch are padded.",
            group="Batches",
            needs=FOR_SINGLE_TEXTS,
        ),
    ] = Padding.DYNAMIC
    group_by_length: Annotated[
        Toggle,
        Option(
            "Group by length",
            "Batch texts of similar length together: less padding and faster, slightly less random.",
            group="Batches",
            needs=FOR_SINGLE_TEXTS,
        ),
    ] = Toggle.AUTO
    image_size: Annotated[
        int,
        Option(
            "Image size",
            "Images are resized to this width and height. Time grows with the square of it.",
            unit="pixels",
            needs=FOR_IMAGES,
            limits=(32, 2048),
        ),
    ] = 224
    max_train_samples: Annotated[
        int | None,
        Option(
            "Maximum training samples",
            "Use only this many rows from the start, for a quick test; the validation fraction is taken from them. "
            "For text generation: train on this many rows of tokens. Empty: all.",
            unit="rows",
            group="How much",
            limits=(1, None),
        ),
    ] = None
    max_eval_samples: Annotated[
        int | None,
        Option(
            "Maximum validation samples",
            "Evaluate on only this many rows. Empty: all.",
            unit="rows",
            group="How much",
            limits=(1, None),
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            "Data loader workers",
            "Processes that prepare batches while the device computes. 0: none. Empty: chosen for this computer and "
            "the data.",
            unit="processes",
            group="Loading",
            aliases=("dataloader_num_workers",),
            limits=(0, 64),
        ),
    ] = None
    prefetch: Annotated[
        int,
        Option(
            "Prefetch factor",
            "Batches prepared in advance by each worker.",
            unit="batches",
            group="Loading",
            aliases=("dataloader_prefetch_factor",),
            limits=(1, 64),
        ),
    ] = 2
    pin_memory: Annotated[
        Toggle,
        Option(
            "Pinned memory",
            "Keep batches in page-locked memory, so that an NVIDIA GPU copies them while it computes.",
            group="Loading",
            aliases=("dataloader_pin_memory",),
        ),
    ] = Toggle.AUTO
