"""What a run can be asked to do: every option, declared once.

Type, default, limits, title and help of each option stand here and nowhere else. The form, the command line, the
run file, its checks and the reference page are made from these declarations (see `core.catalogue`).
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

SCHEMA = 1

FP16_NEEDS_GPU = "needs a GPU: PyTorch has no fp16 training on the CPU"


class Task(StrEnum):
    """What the model learns to do."""

    TEXT_CLASSIFICATION = "text-classification"
    IMAGE_CLASSIFICATION = "image-classification"


class Precision(StrEnum):
    """Number format of the forward and backward passes; the weights themselves stay fp32."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Schedule(StrEnum):
    """How the learning rate moves after the warm-up."""

    LINEAR = "linear"
    COSINE = "cosine"
    CONSTANT = "constant"


CHOICE_TITLES: dict[StrEnum, tuple[str, str]] = {
    Task.TEXT_CLASSIFICATION: ("Text classification", "Give each text, or each pair of texts, a label."),
    Task.IMAGE_CLASSIFICATION: ("Image classification", "Give each image a label."),
    Precision.AUTO: (
        "Automatic",
        "bf16 where this device computes it in hardware, fp16 on older NVIDIA GPUs, else fp32.",
    ),
    Precision.FP32: ("fp32", "Full precision: slowest, never a surprise."),
    Precision.BF16: ("bf16", "Half the activation memory, the range of fp32; needs no loss scaling."),
    Precision.FP16: ("fp16", "Half the activation memory with loss scaling; needs a GPU."),
    Schedule.LINEAR: ("Linear", "Falls in a straight line to zero."),
    Schedule.COSINE: ("Cosine", "Falls along half a cosine to zero: slow, fast, slow."),
    Schedule.CONSTANT: ("Constant", "Stays where it is."),
}
"""Title and one-sentence help of every choice of every enumeration above."""


def _meta(
    title: str,
    description: str,
    *,
    unit: str = "",
    advanced: bool = False,
    task: Task | None = None,
    path: bool = False,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Meta:
    """Describe one option.

    Args:
        title: The label a form shows.
        description: One or two plain sentences.
        unit: What the number counts, shown behind its field.
        advanced: Whether the form keeps it under "More".
        task: The only task it applies to, or None for all.
        path: Whether its value may be a file or folder (relative to the run file).
        ge: The smallest value allowed.
        gt: The value it must be above, in place of `ge`.
        le: The largest value allowed.
    """
    extra = {"unit": unit, "advanced": advanced, "task": task, "path": path}
    if gt is not None:
        return Meta(title=title, description=description, extra=extra, gt=gt, le=le)
    return Meta(title=title, description=description, extra=extra, ge=ge, le=le)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the sections of a run file."""


class ModelOptions(Section, frozen=True, kw_only=True):
    """Which model is trained."""

    source: Annotated[
        str,
        _meta(
            "Start from",
            "A folder with a model in it, an id on the Hugging Face Hub such as `bert-base-cased`, or a vision "
            "model as `torchvision:resnet18`.",
            path=True,
        ),
    ] = ""
    pretrained: Annotated[
        bool,
        _meta(
            "Pretrained weights",
            "Start from what the model has already learned. Off: the same architecture with random weights, "
            "which needs far more data.",
        ),
    ] = True


class DataOptions(Section, frozen=True, kw_only=True):
    """What it learns from."""

    train: Annotated[
        str,
        _meta(
            "Training data",
            "A CSV, TSV, JSON, JSONL or Parquet file; for images a folder with one folder a class, or an IDX file "
            "as MNIST ships. `builtin:digits` is 1,797 handwritten digits that come with Hone; `synthetic:512x128` "
            "is 512 random samples of 128 tokens (or 128 pixels), for timing.",
            path=True,
        ),
    ] = ""
    eval: Annotated[
        str | None,
        _meta(
            "Evaluation data",
            "Held-out data in the same form, never trained on. Empty: a part of the training data is held out.",
            path=True,
        ),
    ] = None
    eval_fraction: Annotated[
        float,
        _meta(
            "Hold out",
            "Share of the training data kept for evaluation where no evaluation data is given.",
            ge=0.0,
            le=0.9,
        ),
    ] = 0.1
    text_columns: Annotated[
        tuple[str, ...],
        _meta(
            "Text columns",
            "One column of text, or two to classify pairs. Empty: guessed from the data.",
            task=Task.TEXT_CLASSIFICATION,
        ),
    ] = ()
    label_column: Annotated[
        str | None,
        _meta(
            "Label column",
            "The column that holds the answer. Empty: guessed from the data.",
            task=Task.TEXT_CLASSIFICATION,
        ),
    ] = None
    max_length: Annotated[
        int,
        _meta(
            "Longest text",
            "Longer texts are cut off here. Memory and time grow with it.",
            unit="tokens",
            task=Task.TEXT_CLASSIFICATION,
            ge=8,  # room for the special tokens around a pair, and something between them
            le=1_048_576,
        ),
    ] = 128
    group_by_length: Annotated[
        bool,
        _meta(
            "Group by length",
            "Put texts of like length into one batch, so that less is padding: faster, a little less random.",
            advanced=True,
            task=Task.TEXT_CLASSIFICATION,
        ),
    ] = False
    image_size: Annotated[
        int,
        _meta(
            "Image size",
            "Images are resized to this width and height. Time grows with its square.",
            unit="pixels",
            task=Task.IMAGE_CLASSIFICATION,
            ge=32,
            le=2048,
        ),
    ] = 224
    max_train_samples: Annotated[
        int | None,
        _meta(
            "Use at most",
            "Train on the first so many rows only, to try something out. Empty: all.",
            unit="samples",
            advanced=True,
            ge=1,
        ),
    ] = None
    max_eval_samples: Annotated[
        int | None,
        _meta(
            "Evaluate at most",
            "Evaluate on the first so many rows only. Empty: all.",
            unit="samples",
            advanced=True,
            ge=1,
        ),
    ] = None


class DeviceOptions(Section, frozen=True, kw_only=True):
    """Where it is computed."""

    name: Annotated[
        str,
        _meta(
            "Device", "`auto` takes CUDA, then Apple's MPS, then the CPU. Or `cuda`, `cuda:1`, `mps`, `cpu`."
        ),
    ] = "auto"
    precision: Annotated[
        Precision,
        _meta("Precision", "Number format of the computation. Fewer bits: less memory, usually faster."),
    ] = Precision.AUTO
    mps_fallback: Annotated[
        bool,
        _meta(
            "CPU for missing operators",
            "On a Mac, compute operators that MPS lacks on the CPU instead of ending the run "
            "(PYTORCH_ENABLE_MPS_FALLBACK).",
            advanced=True,
        ),
    ] = True


class MemoryOptions(Section, frozen=True, kw_only=True):
    """How much of the model's work is held at once."""

    batch_size: Annotated[
        int,
        _meta(
            "Batch size",
            "Samples computed together. The first thing to lower when memory runs out.",
            ge=1,
            le=65_536,
        ),
    ] = 16
    gradient_accumulation_steps: Annotated[
        int,
        _meta(
            "Gradient accumulation",
            "Batches added up before the weights move: the effect of a larger batch in the memory of a small one.",
            unit="batches",
            ge=1,
            le=65_536,
        ),
    ] = 1


class TrainingOptions(Section, frozen=True, kw_only=True):
    """How it learns."""

    epochs: Annotated[
        float,
        _meta("Epochs", "Passes over the training data.", unit="epochs", gt=0.0, le=100_000.0),
    ] = 3.0
    max_steps: Annotated[
        int | None,
        _meta(
            "Stop after",
            "Ends after so many steps, whatever the epochs. Empty: by epochs.",
            unit="steps",
            advanced=True,
            ge=1,
        ),
    ] = None
    learning_rate: Annotated[
        float,
        _meta(
            "Learning rate",
            "How far each step moves the weights. 2e-5 to 5e-5 suits fine-tuning a text model, 1e-3 a vision model "
            "from scratch.",
            gt=0.0,
            le=10.0,
        ),
    ] = 5e-5
    schedule: Annotated[
        Schedule, _meta("Schedule", "How the learning rate moves after the warm-up.", advanced=True)
    ] = Schedule.LINEAR
    warmup: Annotated[
        float,
        _meta(
            "Warm-up",
            "Steps over which the learning rate rises from zero; below 1 it is a share of the run.",
            unit="steps",
            advanced=True,
            ge=0.0,
        ),
    ] = 0.0
    weight_decay: Annotated[
        float,
        _meta(
            "Weight decay",
            "Pulls weights (not biases and norms) towards zero.",
            advanced=True,
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    max_grad_norm: Annotated[
        float,
        _meta(
            "Clip gradients at",
            "Longest gradient a step may take; 0 switches clipping off.",
            advanced=True,
            ge=0.0,
        ),
    ] = 1.0
    seed: Annotated[
        int,
        _meta(
            "Seed", "The same seed on the same machine gives the same run.", advanced=True, ge=0, le=2**32 - 1
        ),
    ] = 42


class OutputOptions(Section, frozen=True, kw_only=True):
    """What is kept."""

    name: Annotated[
        str | None, _meta("Name", "What the run is called in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        _meta(
            "Keep checkpoints",
            "Newest checkpoints kept, one saved each epoch. 0: one is saved only where the run is stopped. The "
            "trained model is saved in any case.",
            advanced=True,
            ge=0,
            le=1000,
        ),
    ] = 1


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run file."""

    task: Annotated[Task, _meta("Task", "What the model learns to do.")]
    schema: int = SCHEMA
    model: ModelOptions = ModelOptions()
    data: DataOptions = DataOptions()
    device: DeviceOptions = DeviceOptions()
    memory: MemoryOptions = MemoryOptions()
    training: TrainingOptions = TrainingOptions()
    output: OutputOptions = OutputOptions()

    @property
    def effective_batch(self) -> int:
        """Samples that move the weights once: batch size times gradient accumulation."""
        return self.memory.batch_size * self.memory.gradient_accumulation_steps


SECTIONS: dict[str, type[Section]] = {
    "model": ModelOptions,
    "data": DataOptions,
    "device": DeviceOptions,
    "memory": MemoryOptions,
    "training": TrainingOptions,
    "output": OutputOptions,
}


class ImageLimits(msgspec.Struct, frozen=True):
    """Sizes in pixels below which a model can't be trained.

    `smallest` holds for every batch, `smallest_alone` for a batch of one image: batch normalisation needs more than
    one value a channel, so a single image must still be larger than 1 x 1 where the network ends.
    """

    smallest: int
    smallest_alone: int


VISION_MODELS: dict[str, ImageLimits] = {
    "resnet18": ImageLimits(1, 33),
    "mobilenet_v2": ImageLimits(1, 33),
    "efficientnet_b0": ImageLimits(1, 33),
    "squeezenet1_0": ImageLimits(21, 21),
    "alexnet": ImageLimits(63, 63),
    "vgg16": ImageLimits(32, 32),
}
"""The torchvision models Hone trains, smallest computation per accuracy first, each with what a test found it needs."""
