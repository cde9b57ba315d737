"""Rules between training methods: combinations that are refused."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from core.base.errors import Fix, Problem
from core.base.formats import counted
from core.base.language import _
from core.options import RunOptions
from core.options.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Precision, Schedule, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import VISION_MODELS, Scheme, is_scratch, scheme_of

# --- Models that are too large


class Advice(NamedTuple):
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
            _("The model fits comfortably on the GPU"),
            _("Leave DeepSpeed off: it would only cost time."),
            {"memory.deepspeed": "off"},
        ),
        Advice(
            "The weights and a batch fit; gradients and optimizer state do not",
            _("ZeRO-2, with the optimizer state in main memory."),
            {"memory.deepspeed": "zero-2", "memory.offload": "cpu"},
        ),
        Advice(
            _("The weights alone do not fit"),
            _("ZeRO-3, with weights and optimizer state in main memory."),
            {"memory.deepspeed": "zero-3", "memory.offload": "cpu"},
        ),
        Advice(
            _("Main memory is too small as well"),
            _("ZeRO-3, with both on a fast disk: choose a folder on an NVMe drive."),
            {"memory.deepspeed": "zero-3", "memory.offload": "nvme"},
        ),
        Advice(
            _("Its largest layer does not fit on the GPU by itself"),
            _("ZeRO has to bring a layer whole. QLoRA packs it into a quarter of its size in bf16."),
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
    """A hint where a batch is larger than the data, which has `trained` samples to train on."""
    if options.memory.batch_size <= trained:
        return None
    return Problem(
        "memory.batch_size",
        _("larger than the data, which has {rows} to train on: an epoch is one step").format(
            rows=counted(trained, "row")
        ),
        (Fix(_("Use {trained:,}").format(trained=trained), {"memory.batch_size": trained}),),
    )


def most_epochs(options: RunOptions) -> float:
    """How many epochs are worth their time: those asked for at least."""
    most = MOST_EPOCHS_FROM_NOTHING if options.starts_random else MOST_EPOCHS
    return max(most, options.training.epochs)


def useful_steps(options: RunOptions, trained: int) -> int:
    """The steps of so many epochs on so many samples."""
    return math.ceil(most_epochs(options) * steps_of(options, trained)[1])


def steps_hint(options: RunOptions, trained: int) -> Problem | None:
    """A hint where the steps asked for on `trained` samples are more than are worth their time."""
    steps, useful = options.training.max_steps or 0, useful_steps(options, trained)
    if steps <= useful:
        return None
    epochs = steps / steps_of(options, trained)[1]
    return Problem(
        "training.max_steps",
        f"{steps:,} steps are {epochs:,.0f} epochs of this data; more than {useful:,} steps seldom help",
        (Fix(_("Use {useful:,}").format(useful=useful), {"training.max_steps": useful}),),
    )


def warmup_problem(options: RunOptions, steps: int) -> Problem | None:
    """The problem of a warm-up by epochs that is no shorter than the run of `steps`, as Trainer counts them."""
    return _long_warm_up(options, steps) if options.training.max_steps is None else None


def _long_warm_up(options: RunOptions, steps: int) -> Problem | None:
    if options.training.warmup < max(steps, 2):  # a run of one step has no end to reach
        return None
    return Problem(
        "training.warmup",
        _(
            "{warmup:,g} steps of warm-up are no shorter than the run of {steps:,}: the learning "
            "rate "
            "would never be reached"
        ).format(warmup=options.training.warmup, steps=steps),
        (Fix(_("A tenth of the run"), {"training.warmup": 0.1}),),
    )


# --- Defaults by task


_ENCODER = ModelOptions(source="distilbert-base-uncased")
_GENERATOR = "HuggingFaceTB/SmolLM2-135M"
_FINE_TUNING = TrainingOptions(epochs=3, learning_rate=2e-5, warmup=0.1, weight_decay=0.01)


def starting_options(task: Task) -> RunOptions:
    """Options that suit a first run of `task`; the names of its data are there to be replaced."""
    match task:
        case Task.CAUSAL_LM:
            data = DataOptions(train="text.txt", max_length=256)
            model, memory = ModelOptions(source=_GENERATOR), MemoryOptions(batch_size=8)
            training = TrainingOptions(epochs=3, learning_rate=5e-5, schedule=Schedule.COSINE, warmup=0.05)
        case Task.CHAT:
            data = DataOptions(train="conversations.jsonl", max_length=1024)
            model = ModelOptions(source=_GENERATOR, method=Method.LORA)
            memory = MemoryOptions(batch_size=4, gradient_accumulation_steps=4)
            training = TrainingOptions(epochs=2, learning_rate=2e-4, schedule=Schedule.COSINE, warmup=0.05)
        case Task.PREFERENCE:
            data = DataOptions(train="pairs.json", max_length=1024)
            model = ModelOptions(source=f"{_GENERATOR}-Instruct", method=Method.LORA)
            memory = MemoryOptions(batch_size=2, gradient_accumulation_steps=8)
            training = TrainingOptions(epochs=1, learning_rate=5e-6, warmup=0.1)
        case Task.IMAGE_CLASSIFICATION:
            model, data = ModelOptions(source="torchvision:resnet18"), DataOptions(train="images")
            memory = MemoryOptions(batch_size=32)
            training = TrainingOptions(
                epochs=5, learning_rate=1e-4, schedule=Schedule.COSINE, warmup=0.1, weight_decay=0.01
            )
        case _:
            file = "train.conll" if task is Task.TOKEN_CLASSIFICATION else "train.csv"
            model, data = _ENCODER, DataOptions(train=file)
            memory, training = MemoryOptions(batch_size=16), _FINE_TUNING
    return RunOptions(task=task, model=model, data=data, memory=memory, training=training)


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
            (Fix(_("Use {suits:g}").format(suits=suits), {"training.learning_rate": suits}),),
        )


def _warm_up(options: RunOptions) -> Iterator[Problem]:
    training = options.training
    if training.warmup >= 1 and training.warmup != int(training.warmup):
        message = f"must be a whole number of steps, or below 1; got {training.warmup:g}"
        yield Problem("training.warmup", message)
    problem = _long_warm_up(options, training.max_steps) if training.max_steps is not None else None
    if problem:
        yield problem


def _fix(label: str, path: str, value: Any) -> Fix:
    return Fix(label, {path: value})


TRAIN_ALL = _fix(_("Train everything"), "model.method", "full")
TRAIN_LORA = _fix(_("Train LoRA"), "model.method", "lora")
USE_ADAMW = _fix(_("Use AdamW"), "training.optimizer", "adamw")
USE_BF16 = _fix(_("Compute in bf16"), "device.precision", "bf16")
DONT_COMPILE = _fix(_("Don't compile"), "device.compile", False)


def _quantized_weights(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is not Method.QLORA:
        return
    if options.task.reads_images:
        lora = _fix(_("Train LoRA beside unpacked weights"), "model.method", "lora")
        message = "QLoRA packs text models; a vision model is small enough for LoRA"
        yield Problem("model.method", message, (lora,))
    elif options.starts_random:
        message = "QLoRA packs what a model has learned; random weights have to move"
        yield Problem("model.method", message, (TRAIN_ALL,))
    if options.memory.deepspeed is not DeepSpeed.OFF:
        off = _fix("Off", "memory.deepspeed", "off")
        yield Problem("memory.deepspeed", _("ZeRO can't divide packed weights"), (off,))


def _frozen_random_weights(options: RunOptions) -> Iterator[Problem]:
    """Random data is for timing: nothing is learned from it, whatever moves."""
    if scheme_of(options.data.train) is Scheme.SYNTHETIC:
        return
    if options.model.method in (Method.LORA, Method.HEAD) and options.starts_random:
        pretrained = _fix(_("Pretrained weights"), "model.pretrained", True)
        fixes = (TRAIN_ALL,) if is_scratch(options.model.source) else (TRAIN_ALL, pretrained)
        message = "would freeze random weights; start from pretrained ones or train everything"
        yield Problem("model.method", message, fixes)


def _offloaded_optimizer(options: RunOptions) -> Iterator[Problem]:
    """Clipping and unscaling come too late for gradients that torchao has moved (its README says so of clipping)."""
    path, training = "memory.offload_optimizer", options.training
    if not options.memory.offload_optimizer:
        return
    if training.optimizer is not Optimizer.ADAMW:
        yield Problem(
            path,
            _("moves AdamW's state, not that of {optimizer}").format(optimizer=training.optimizer),
            (USE_ADAMW,),
        )
    if options.memory.deepspeed is not DeepSpeed.OFF:
        fix = _fix(_("Leave it to DeepSpeed"), path, False)
        yield Problem(path, _("DeepSpeed moves the optimizer itself; choose one"), (fix,))
    if training.max_grad_norm:
        fix = _fix(_("Don't clip"), "training.max_grad_norm", 0.0)
        message = "can't clip gradients that are in main memory already; use 0"
        yield Problem("training.max_grad_norm", message, (fix,))
    if options.device.precision is Precision.FP16:
        message = _("fp16's loss scaling doesn't reach gradients that are in main memory already")
        yield Problem("device.precision", message, (USE_BF16,))


def _flash_attention(options: RunOptions) -> Iterator[Problem]:
    attention, precision = options.model.attention, options.device.precision
    is_flash = attention in (Attention.FLASH_2, Attention.FLASH_3)
    if is_flash and precision in (Precision.FP32, Precision.TF32):
        message = _("{attention} computes in bf16 or fp16, and {precision} is asked for").format(
            attention=attention, precision=precision
        )
        yield Problem("model.attention", message, (USE_BF16, _fix(_("Use sdpa"), "model.attention", "sdpa")))


def _offload_folder(options: RunOptions) -> Iterator[Problem]:
    memory = options.memory
    if memory.deepspeed is DeepSpeed.OFF or memory.offload is not Offload.NVME:
        return
    folder = memory.offload_folder
    if not folder:
        yield Problem("memory.offload_folder", _("choose a folder on a fast disk"))
    elif Path(folder).is_absolute() and not Path(folder).is_dir():
        yield Problem("memory.offload_folder", _("there is no folder {folder}").format(folder=folder))
    if memory.deepspeed is DeepSpeed.ZERO_2:  # DeepSpeed 0.19.8 accepts it, and keeps the state in memory
        zero_3 = _fix(_("Use ZeRO-3"), "memory.deepspeed", "zero-3")
        fixes = (zero_3, _fix(_("Use main memory"), "memory.offload", "cpu"))
        yield Problem("memory.offload", _("only ZeRO-3 can put something on a disk"), fixes)


def _zero(options: RunOptions) -> Iterator[Problem]:
    """What doesn't go together with ZeRO, which cuts weights and state into flat pieces and runs the model itself."""
    if options.memory.deepspeed is DeepSpeed.OFF:
        return
    optimizer = options.training.optimizer
    if optimizer not in DIVISIBLE:
        by_rows = optimizer is Optimizer.ADAFACTOR
        reason = _("keeps its state by rows and columns") if by_rows else _("is not one of PyTorch's own")
        message = _("ZeRO divides an optimizer's state, and {optimizer} {reason}").format(
            optimizer=optimizer, reason=reason
        )
        yield Problem("training.optimizer", message, (USE_ADAMW,))
    if options.device.compile:
        message = _("DeepSpeed runs the model in an engine of its own, which is not compiled")
        yield Problem("device.compile", message, (DONT_COMPILE,))


def _compiled_batch_norm(options: RunOptions) -> Iterator[Problem]:
    """Found with torch 2.13: the compiled recomputation reads statistics that the forward has changed by then."""
    path, name = "memory.activation_checkpointing", Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    recomputes = options.memory.activation_checkpointing and options.device.compile
    if recomputes and limits is not None and limits.normalises_batch:
        message = _("{name} normalises batches, and a compiled model can't compute that again").format(
            name=name
        )
        yield Problem(path, message, (_fix(_("Keep the activations"), path, False), DONT_COMPILE))


def _last_layer_of_generator(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is Method.HEAD and options.task.writes_text:
        message = _("a model that writes has no last layer of its own: it is the table of its tokens")
        yield Problem("model.method", message, (TRAIN_LORA, TRAIN_ALL))


METHOD_RULES: tuple[Rule, ...] = (
    _warm_up,
    _frozen_random_weights,
    _offloaded_optimizer,
    _flash_attention,
    _offload_folder,
    _compiled_batch_norm,
    _zero,
)
"""Those that hold whatever the task is."""

METHOD_TASK_RULES: tuple[Rule, ...] = (_learning_rate, _quantized_weights, _last_layer_of_generator)
"""Those that look at the task."""
