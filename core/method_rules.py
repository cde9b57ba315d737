"""Rules between the methods of training: what excludes what, and what can't have been meant."""

from collections.abc import Callable, Iterator
from pathlib import Path

from core.choices import Attention, DeepSpeed, Method, Offload, Optimizer, Precision
from core.errors import Fix, Problem
from core.options import RunOptions
from core.scratch_models import is_scratch, starts_random
from core.sources import Scheme, scheme_of
from core.starting_values import starting_options
from core.vision_models import VISION_MODELS

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
    elif starts_random(options):
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
    if options.model.method in (Method.LORA, Method.HEAD) and starts_random(options):
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
