"""Options of the data."""

from core.base.language import _
from core.options.choices import Augmentation, ChatTemplate, ImageFit, LossOn, Padding, Toggle
from core.options.declare import (
    FOR_CHAT,
    FOR_CLASSES,
    FOR_CONVERSATIONS,
    FOR_IMAGES,
    FOR_LABEL_COLUMN,
    FOR_SINGLE_TEXTS,
    FOR_TEXT,
    FOR_TEXT_COLUMNS,
    FOR_WRITING,
    WITH_DYNAMIC_PADDING,
    Section,
    Unit,
    option,
)


class DataOptions(Section, frozen=True, kw_only=True):
    """The data and how batches are made of it."""

    train: str = option(
        "",
        _("Training data"),
        _(
            "A CSV, TSV, JSON, JSONL or Parquet file. Text or Markdown files for text generation. CoNLL files for "
            "token classification. For images: a folder with one subfolder per class, a table of paths, or an MNIST "
            "IDX file. `hub:OWNER/NAME` is a downloaded data set of the Hugging Face Hub, `hub:OWNER/NAME/SUBSET` one "
            "of its subsets. `builtin:digits` are 1,797 handwritten digits included with Hone. `synthetic:512x128` "
            "generates 512 random examples of 128 tokens (or pixels) for timing, `synthetic:512x64-128` texts of 64 to "
            "128 tokens."
        ),
        is_path=True,
    )
    eval: str | None = option(
        None,
        _("Validation file"),
        _(
            "A file or folder of validation data in the same format; never trained on. Empty: part of the "
            "training data is used."
        ),
        is_path=True,
    )
    train_split: str | None = option(
        None,
        _("Training split"),
        _(
            "Name of the split to train on if the data has several: a folder with train.csv and test.csv, "
            "train-00000-of-00002.parquet or subfolders train/ and test/, or a data set of the Hub. Empty: `train`."
        ),
        group=_("Splits"),
    )
    eval_split: str | None = option(
        None,
        _("Validation split"),
        _("Name of the split to evaluate on, instead of other data or a fraction of the training data."),
        group=_("Splits"),
    )
    eval_fraction: float = option(
        0.1,
        _("Validation fraction"),
        _("Fraction of the training data that is taken as validation data if none is given."),
        limits=(0.0, 0.9),
    )
    text_columns: tuple[str, ...] = option(
        (),
        _("Text columns"),
        _("One column of text, or two for text pairs. Empty: detected."),
        needs=FOR_TEXT_COLUMNS,
    )
    label_column: str | None = option(
        None,
        _("Label column"),
        _("Column with the target: a label, a number, or one label per word. Empty: detected."),
        needs=FOR_LABEL_COLUMN,
    )
    header: Toggle = option(
        Toggle.AUTO,
        _("Header"),
        _("Whether the first row of a CSV or TSV file contains column names. Automatic: detected."),
        group=_("Reading"),
        needs=FOR_TEXT,
    )
    skip_bad_rows: bool = option(
        False,
        _("Skip invalid examples"),
        _(
            "Leave out examples that would stop a run, and name them: an image or a row that can't be read, an empty "
            "text, label or answer, a value that is not a number, different numbers of words and tags, an unknown role."
        ),
        group=_("Reading"),
    )
    drop_duplicates: bool = option(
        False,
        _("Remove duplicates"),
        _("Leave out training examples equal to an earlier one, before a fraction is taken for validation."),
        group=_("Reading"),
        needs=FOR_TEXT,
    )
    label_names: dict[str, str] = option(
        {},
        _("Label names"),
        _(
            "Names for labels, such as `0 = negative, 1 = positive`. The trained model answers with these names."
        ),
        group=_("Labels"),
        needs=FOR_CLASSES,
    )
    image_column: str | None = option(
        None,
        _("Image column"),
        _("In a table: the column with images or their paths. Empty: detected."),
        needs=FOR_IMAGES,
    )
    columns: dict[str, str] = option(
        {},
        _("Columns"),
        _(
            "What each column contains: conversation, system, prompt, input, history, answer, chosen, rejected, "
            "rating, tools or text. Empty: detected."
        ),
        needs=FOR_WRITING,
    )
    roles: dict[str, str] = option(
        {},
        _("Roles"),
        _("Maps unknown role names in the data to system, user, assistant or tool."),
        group=_("Conversations"),
        needs=FOR_WRITING,
    )
    chat_template: ChatTemplate = option(
        ChatTemplate.AUTO,
        _("Chat template"),
        _("How a conversation is formatted as one text. Saved with the model."),
        group=_("Conversations"),
        needs=FOR_CONVERSATIONS,
    )
    loss_on: LossOn = option(
        LossOn.ANSWERS,
        _("Loss on"),
        _("Which parts of a conversation the model learns to write."),
        group=_("Conversations"),
        needs=FOR_CHAT,
    )
    packing: bool = option(
        False,
        _("Packing"),
        _(
            "Put several conversations into one sequence, up to the maximum length: fewer steps, less padding. "
            "Attention doesn't cross conversations."
        ),
        group=_("Batches"),
        needs=FOR_CHAT,
    )
    max_length: int = option(
        128,
        _("Maximum length"),
        _("Longer texts are truncated. Memory and time grow with this value."),
        unit=Unit.TOKENS,
        needs=FOR_TEXT,
        limits=(8, 1_048_576),  # room for the special tokens around a pair, and something between them
    )
    padding: Padding = option(
        Padding.DYNAMIC,
        _("Padding"),
        _("To which length the examples of a batch are padded."),
        group=_("Batches"),
        needs=FOR_SINGLE_TEXTS,
    )
    pad_to_multiple_of: int | None = option(
        None,
        _("Pad to multiples of"),
        _(
            "Examples are padded to the next multiple of so many tokens, up to the maximum length; the loss stays the "
            "same. Empty: 32 with MLX, which compiles for each new length, 64 with PyTorch on Apple GPUs, which keep "
            "memory for each, 8 on NVIDIA GPUs in bf16 or fp16, which compute that faster, otherwise 1."
        ),
        unit=Unit.TOKENS,
        group=_("Batches"),
        needs=WITH_DYNAMIC_PADDING,
        limits=(1, 1024),
    )
    group_by_length: Toggle = option(
        Toggle.AUTO,
        _("Group by length"),
        _("Batch texts of similar length together: less padding and faster, slightly less random."),
        group=_("Batches"),
        needs=FOR_SINGLE_TEXTS,
    )
    image_size: int = option(
        224,
        _("Image size"),
        _("Images are resized to this width and height. Time grows with the square of it."),
        unit=Unit.PIXELS,
        needs=FOR_IMAGES,
        limits=(32, 2048),
    )
    image_fit: ImageFit = option(
        ImageFit.SQUASH,
        _("Images that aren't square"),
        _("How they become square, in training, validation, tests and predictions alike."),
        needs=FOR_IMAGES,
    )
    augmentation: Augmentation = option(
        Augmentation.OFF,
        _("Augmentation"),
        _(
            "Changes training images at random, anew in each epoch: for little data and many epochs. It costs CPU "
            "time. Validation, tests and predictions use the images as they are."
        ),
        needs=FOR_IMAGES,
    )
    horizontal_flip: bool = option(
        False,
        _("Horizontal flip"),
        _("Mirrors half of the training images. Good for photos, wrong for digits, letters and signs."),
        needs={**FOR_IMAGES, "data.augmentation": (Augmentation.LIGHT, Augmentation.STRONG)},
    )
    max_train_samples: int | None = option(
        None,
        _("Maximum examples"),
        _(
            "Use only this many examples from the start of the training data, for a quick test; a validation fraction "
            "is taken from them. For text generation: train on this many blocks of tokens. Empty: all."
        ),
        unit=Unit.EXAMPLES,
        group=_("How much"),
        limits=(1, None),
    )
    max_eval_samples: int | None = option(
        None,
        _("Maximum validation examples"),
        _("Evaluate on only this many examples. Empty: all."),
        unit=Unit.EXAMPLES,
        group=_("How much"),
        limits=(1, None),
    )
    workers: int | None = option(
        None,
        _("Data loader workers"),
        _(
            "Processes that prepare batches while the device computes. 0: none. Empty: chosen for this computer and "
            "the data."
        ),
        unit=Unit.PROCESSES,
        group=_("Loading"),
        aliases=("dataloader_num_workers",),
        limits=(0, 64),
    )
    prefetch: int = option(
        2,
        _("Prefetch factor"),
        _("Batches prepared in advance by each worker."),
        unit=Unit.BATCHES,
        group=_("Loading"),
        aliases=("dataloader_prefetch_factor",),
        limits=(1, 64),
    )
    pin_memory: Toggle = option(
        Toggle.AUTO,
        _("Pinned memory"),
        _("Keep batches in page-locked memory, so that an NVIDIA GPU copies them while it computes."),
        group=_("Loading"),
        aliases=("dataloader_pin_memory",),
    )
