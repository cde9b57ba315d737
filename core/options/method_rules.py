"""Rules between training methods: combinations that are refused."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix, Problem
from core.base.formats import counted
from core.options import RunOptions
from core.options.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Precision, Schedule, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import VISION_MODELS, Scheme, is_scratch, scheme_of

# --- Models that are too large


@dataclass(frozen=True)
class Advice:
    """One branch: where `condition` holds, do as `advice` says; `changes` sets the options that are meant."""

    condition: str
    advice: str
    changes: dict[str, Any]


def big_model_advice() -> tuple[Advice, ...]:
    """The branches from the smallest model to the largest; the first that holds is the one to take.

    Source: the decision tree in the guides "Efficient training on a single GPU" and "DeepSpeed" of transformers.
    """
    return (
        Advice(
            "The model fits comfortably on the GPU",
            "Leave DeepSpeed off: it would only cost time.",
            {"memory.deepspeed": "off"},
        ),
        Advice(
            "The weights and a batch fit; gradients and optimizer state do not",
            "ZeRO-2, with the optimizer state in main memory.",
            {"memory.deepspeed": "zero-2", "memory.offload": "cpu"},
        ),
        Advice(
            "The weights alone do not fit",
            "ZeRO-3, with weights and optimizer state in main memory.",
            {"memory.deepspeed": "zero-3", "memory.offload": "cpu"},
        ),
        Advice(
            "Main memory is too small as well",
            "ZeRO-3, with both on a fast disk: choose a folder on an NVMe drive.",
            {"memory.deepspeed": "zero-3", "memory.offload": "nvme"},
        ),
        Advice(
            "Its largest layer does not fit on the GPU by itself",
            "ZeRO has to bring a layer whole. QLoRA packs it into a quarter of its size in bf16.",
            {"memory.deepspeed": "off", "model.method": "qlora"},
        ),
    )


# --- Length of a run


MOST_EPOCHS = 20
"""So many epochs are worth their time for a pretrained model: Mosbach et al. recommend them for small data, where 3 are
usual ("On the Stability of Fine-tuning BERT", 2021). Of text read again, little is left to learn after 4 epochs and
next to nothing after 40 (Muennighoff et al., "Scaling Data-Constrained Language Models", 2023)."""

MOST_EPOCHS_FROM_NOTHING = 90
"""For a model that has learned nothing yet: those of ResNet on ImageNet (Goyal et al., 2017)."""

SAMPLE_PATHS = frozenset({"data.eval_fraction", "data.max_train_samples"})
BATCH_PATHS = frozenset({"memory.batch_size", "memory.gradient_accumulation_steps"})
STEP_PATHS = SAMPLE_PATHS | BATCH_PATHS | {"training.epochs", "training.max_steps"}
"""Options that samples, batches and steps are made from."""


@dataclass(frozen=True)
class Extent:
    """Samples trained on and held out, and steps. `evaluated` is None where a file of its own is evaluated."""

    trained: int
    evaluated: int | None
    steps: int
    steps_per_epoch: int


def extent(options: RunOptions, rows: int) -> Extent:
    """Count samples and steps as Trainer does; rows that have to be dropped are not known yet.

    A last, smaller batch counts as one, and so do batches left over from accumulation.
    """
    data = options.data
    used = min(rows, data.max_train_samples or rows)
    is_apart = bool(data.eval or data.eval_split)
    held_out = 0 if is_apart else round(used * data.eval_fraction)
    trained = max(1, used - held_out)
    return Extent(trained, None if is_apart else held_out, *steps_of(options, trained))


def steps_of(options: RunOptions, trained: int) -> tuple[int, int]:
    """The steps of a run on so many samples, and those of an epoch."""
    batches = math.ceil(trained / options.memory.batch_size)
    per_epoch = max(1, math.ceil(batches / options.memory.gradient_accumulation_steps))
    return options.training.max_steps or math.ceil(options.training.epochs * per_epoch), per_epoch


def with_batch_within(options: RunOptions, rows: int) -> RunOptions:
    """The request with the largest batch that so many rows can make, which is what takes memory."""
    batch = max(1, min(options.memory.batch_size, rows))
    return msgspec.structs.replace(options, memory=msgspec.structs.replace(options.memory, batch_size=batch))


def batch_hint(options: RunOptions, trained: int) -> Problem | None:
    """What is worth knowing of a batch larger than the data: it never comes to be; None: it isn't.

    Args:
        options: The request.
        trained: How many samples are trained on.
    """
    if options.memory.batch_size <= trained:
        return None
    return Problem(
        "memory.batch_size",
        f"larger than the data, which has {counted(trained, 'row')} to train on: an epoch is one step",
        (Fix(f"Use {trained:,}", {"memory.batch_size": trained}),),
    )


def most_epochs(options: RunOptions) -> float:
    """How many epochs are worth their time: those asked for at least."""
    most = MOST_EPOCHS_FROM_NOTHING if options.starts_random else MOST_EPOCHS
    return max(most, options.training.epochs)


def useful_steps(options: RunOptions, trained: int) -> int:
    """The steps of so many epochs on so many samples."""
    return math.ceil(most_epochs(options) * steps_of(options, trained)[1])


def steps_hint(options: RunOptions, trained: int) -> Problem | None:
    """What is worth knowing of more steps than are worth their time; None: they aren't more.

    Args:
        options: The request.
        trained: How many samples are trained on.
    """
    steps, useful = options.training.max_steps or 0, useful_steps(options, trained)
    if steps <= useful:
        return None
    epochs = steps / steps_of(options, trained)[1]
    return Problem(
        "training.max_steps",
        f"{steps:,} steps are {epochs:,.0f} epochs of this data; more than {useful:,} steps seldom help",
        (Fix(f"Use {useful:,}", {"training.max_steps": useful}),),
    )


def warmup_problem(options: RunOptions, steps: int) -> Problem | None:
    """What is wrong with a warm-up of as many steps as the run or more; None: nothing.

    Args:
        options: The request.
        steps: The steps of the run, as Trainer counts them.
    """
    training = options.training
    if training.max_steps is not None or training.warmup < max(
        steps, 2
    ):  # a run of one step has no end to reach
        return None
    return Problem(
        "training.warmup",
        f"{training.warmup:,g} steps of warm-up are no shorter than the run of {steps:,}: the learning rate would "
        "never be reached",
        (Fix("A tenth of the run", {"training.warmup": 0.1}),),
    )


# --- Defaults by task


ENCODER = ModelOptions(source="distilbert-base-uncased")
WRITER = ModelOptions(source="HuggingFaceTB/SmolLM2-135M")
FINE_TUNING = TrainingOptions(epochs=3, learning_rate=2e-5, warmup=0.1, weight_decay=0.01)


def _encoder(task: Task, train: str) -> RunOptions:
    """What suits an encoder, whatever it says of a text."""
    return RunOptions(
        task=task,
        model=ENCODER,
        data=DataOptions(train=train),
        memory=MemoryOptions(batch_size=16),
        training=FINE_TUNING,
    )


_STARTS = (
    _encoder(Task.TEXT_CLASSIFICATION, "train.csv"),
    _encoder(Task.TEXT_REGRESSION, "train.csv"),
    _encoder(Task.TOKEN_CLASSIFICATION, "train.conll"),
    RunOptions(
        task=Task.CAUSAL_LM,
        model=WRITER,
        data=DataOptions(train="text.txt", max_length=256),
        memory=MemoryOptions(batch_size=8),
        training=TrainingOptions(epochs=3, learning_rate=5e-5, schedule=Schedule.COSINE, warmup=0.05),
    ),
    RunOptions(
        task=Task.CHAT,
        model=ModelOptions(source=WRITER.source, method=Method.LORA),
        data=DataOptions(train="conversations.jsonl", max_length=1024),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=4),
        training=TrainingOptions(epochs=2, learning_rate=2e-4, schedule=Schedule.COSINE, warmup=0.05),
    ),
    RunOptions(
        task=Task.PREFERENCE,
        model=ModelOptions(source=f"{WRITER.source}-Instruct", method=Method.LORA),
        data=DataOptions(train="pairs.json", max_length=1024),
        memory=MemoryOptions(batch_size=2, gradient_accumulation_steps=8),
        training=TrainingOptions(epochs=1, learning_rate=5e-6, schedule=Schedule.LINEAR, warmup=0.1),
    ),
    RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18"),
        data=DataOptions(train="images"),
        memory=MemoryOptions(batch_size=32),
        training=TrainingOptions(
            epochs=5, learning_rate=1e-4, schedule=Schedule.COSINE, warmup=0.1, weight_decay=0.01
        ),
    ),
)


def starting_options(task: Task) -> RunOptions:
    """Options that suit a first run of `task`; the names of its data are there to be replaced."""
    return next(options for options in _STARTS if options.task is task)


# --- Rules


DIVISIBLE = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.SGD)
"""Optimizers of PyTorch's own, whose state is one number a weight or two, wherever the weight lies."""

Rule = Callable[[RunOptions], Iterator[Problem]]

LARGEST_RATE = 0.1
"""Beyond it AdamW and its kin move each weight by more than most weights measure."""


def _learning_rate(options: RunOptions) -> Iterator[Problem]:
    rate = options.training.learning_rate
    if rate > LARGEST_RATE and options.training.optimizer is not Optimizer.SGD:
        suits = starting_options(options.task).training.learning_rate
        yield Problem(
            "training.learning_rate",
            f"{rate:g} would destroy the weights within a few steps; {suits:g} is usual",
            (Fix(f"Use {suits:g}", {"training.learning_rate": suits}),),
        )


def _warm_up(options: RunOptions) -> Iterator[Problem]:
    training = options.training
    if training.warmup >= 1 and training.warmup != int(training.warmup):
        yield Problem(
            "training.warmup", f"must be a whole number of steps, or below 1; got {training.warmup:g}"
        )
    if training.max_steps is not None and training.warmup >= max(training.max_steps, 2):
        yield Problem(
            "training.warmup",
            f"{training.warmup:g} steps of warm-up are no shorter than the run of {training.max_steps:,}: the learning "
            "rate would never be reached",
            (Fix("A tenth of the run", {"training.warmup": 0.1}),),
        )


def _packed_weights(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is not Method.QLORA:
        return
    instead = Fix("Train LoRA beside unpacked weights", {"model.method": "lora"})
    if options.task.reads_images:
        yield Problem(
            "model.method", "QLoRA packs text models; a vision model is small enough for LoRA", (instead,)
        )
    elif options.starts_random:
        yield Problem(
            "model.method",
            "QLoRA packs what a model has learned; random weights have to move",
            (Fix("Train everything", {"model.method": "full"}),),
        )
    if options.memory.deepspeed is not DeepSpeed.OFF:
        yield Problem(
            "memory.deepspeed", "ZeRO can't divide packed weights", (Fix("Off", {"memory.deepspeed": "off"}),)
        )


def _frozen_and_random(options: RunOptions) -> Iterator[Problem]:
    """Random data is for timing: nothing is learned from it, whatever moves."""
    if scheme_of(options.data.train) is Scheme.SYNTHETIC:
        return
    if options.model.method in (Method.LORA, Method.HEAD) and options.starts_random:
        pretrained = Fix("Pretrained weights", {"model.pretrained": True})
        yield Problem(
            "model.method",
            "would freeze random weights; start from pretrained ones or train everything",
            (
                Fix("Train everything", {"model.method": "full"}),
                *(() if is_scratch(options.model.source) else (pretrained,)),
            ),
        )


def _optimizer_elsewhere(options: RunOptions) -> Iterator[Problem]:
    training = options.training
    if options.memory.offload_optimizer and training.optimizer is not Optimizer.ADAMW:
        fix = Fix("Use AdamW", {"training.optimizer": "adamw"})
        yield Problem(
            "memory.offload_optimizer", f"moves AdamW's state, not that of {training.optimizer}", (fix,)
        )
    if options.memory.offload_optimizer and options.memory.deepspeed is not DeepSpeed.OFF:
        fix = Fix("Leave it to DeepSpeed", {"memory.offload_optimizer": False})
        yield Problem("memory.offload_optimizer", "DeepSpeed moves the optimizer itself; choose one", (fix,))


def _gradients_already_gone(options: RunOptions) -> Iterator[Problem]:
    """Clipping and unscaling come too late for gradients that torchao has moved (its README says so of clipping)."""
    if not options.memory.offload_optimizer:
        return
    if options.training.max_grad_norm:
        fix = Fix("Don't clip", {"training.max_grad_norm": 0.0})
        yield Problem(
            "training.max_grad_norm", "can't clip gradients that are in main memory already; use 0", (fix,)
        )
    if options.device.precision is Precision.FP16:
        fix = Fix("Compute in bf16", {"device.precision": "bf16"})
        yield Problem(
            "device.precision",
            "fp16's loss scaling doesn't reach gradients that are in main memory already",
            (fix,),
        )


def _half_precision_attention(options: RunOptions) -> Iterator[Problem]:
    flash = options.model.attention in (Attention.FLASH_2, Attention.FLASH_3)
    if flash and options.device.precision in (Precision.FP32, Precision.TF32):
        yield Problem(
            "model.attention",
            f"{options.model.attention} computes in bf16 or fp16, and {options.device.precision} is asked for",
            (
                Fix("Compute in bf16", {"device.precision": "bf16"}),
                Fix("Use sdpa", {"model.attention": "sdpa"}),
            ),
        )


def _offload_folder(options: RunOptions) -> Iterator[Problem]:
    memory = options.memory
    if memory.deepspeed is DeepSpeed.OFF or memory.offload is not Offload.NVME:
        return
    folder = memory.offload_folder
    if not folder:
        yield Problem("memory.offload_folder", "choose a folder on a fast disk")
    elif Path(folder).is_absolute() and not Path(folder).is_dir():
        yield Problem("memory.offload_folder", f"there is no folder {folder}")
    # DeepSpeed 0.19.8 takes it without a word, and keeps the state in memory
    if memory.deepspeed is DeepSpeed.ZERO_2:
        yield Problem(
            "memory.offload",
            "only ZeRO-3 can put something on a disk",
            (
                Fix("Use ZeRO-3", {"memory.deepspeed": "zero-3"}),
                Fix("Use main memory", {"memory.offload": "cpu"}),
            ),
        )


def _divided(options: RunOptions) -> Iterator[Problem]:
    """What doesn't go together with ZeRO, which cuts weights and state into flat pieces and runs the model itself."""
    if options.memory.deepspeed is DeepSpeed.OFF:
        return
    optimizer = options.training.optimizer
    if optimizer not in DIVISIBLE:
        reason = (
            "keeps its state by rows and columns"
            if optimizer is Optimizer.ADAFACTOR
            else "is not one of PyTorch's own"
        )
        yield Problem(
            "training.optimizer",
            f"ZeRO divides an optimizer's state, and {optimizer} {reason}",
            (Fix("Use AdamW", {"training.optimizer": "adamw"}),),
        )
    if options.device.compile:
        yield Problem(
            "device.compile",
            "DeepSpeed runs the model in an engine of its own, which is not compiled",
            (Fix("Don't compile", {"device.compile": False}),),
        )


def _compiled_statistics(options: RunOptions) -> Iterator[Problem]:
    """Found with torch 2.13: the compiled recomputation reads statistics that the forward has changed by then."""
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    recomputes = options.memory.activation_checkpointing and options.device.compile
    if recomputes and limits is not None and limits.normalises_batch:
        yield Problem(
            "memory.activation_checkpointing",
            f"{name} normalises batches, and a compiled model can't compute that again",
            (
                Fix("Keep the activations", {"memory.activation_checkpointing": False}),
                Fix("Don't compile", {"device.compile": False}),
            ),
        )


def _last_layer_of_writer(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is Method.HEAD and options.task.writes_text:
        yield Problem(
            "model.method",
            "a model that writes has no last layer of its own: it is the table of its tokens",
            (
                Fix("Train LoRA", {"model.method": "lora"}),
                Fix("Train everything", {"model.method": "full"}),
            ),
        )


METHOD_RULES: tuple[Rule, ...] = (
    _warm_up,
    _frozen_and_random,
    _optimizer_elsewhere,
    _gradients_already_gone,
    _half_precision_attention,
    _offload_folder,
    _compiled_statistics,
    _divided,
)
"""Those that hold whatever the task is."""

METHOD_TASK_RULES: tuple[Rule, ...] = (_learning_rate, _packed_weights, _last_layer_of_writer)
"""Those that look at the task."""
