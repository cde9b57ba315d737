"""Which runs MLX can't train, and the rule of `device.backend`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from core.base.errors import Fix, Problem
from core.base.language import _
from core.options import RunOptions
from core.options.catalogue import options_by_path, use_default, value_of
from core.options.choices import (
    Attention,
    Backend,
    DeepSpeed,
    FrozenPrecision,
    Optimizer,
    Precision,
    Quantization,
    Toggle,
)

MLX_ON_CPU = "HONE_MLX_CPU"
"""The variable that lets tests choose MLX without Apple silicon."""

USE_TORCH = Fix(_("Use PyTorch"), {"device.backend": "torch"})
ONLY_TEXTS = _("MLX trains text generation, chat and preference tuning only")

ONLY_MLX = {
    "device.backend": (Backend.MLX.value,),
    "model.quantization": (Quantization.AFFINE4.value, Quantization.AFFINE8.value),
    "training.optimizer": (Optimizer.MUON.value,),
}
"""The values that need MLX, by option."""


class Limit(NamedTuple):
    """The values of an option with which MLX trains, its default among them, and why it can't with others."""

    path: str
    values: tuple[Any, ...]
    reason: str


ONE_PROCESS = _("MLX trains in one process, on the GPU of one Mac")
IN_THE_TRAINING = _("MLX's batches are made by the process that trains")

LIMITS = (
    Limit("model.quantization", (Quantization.AUTO, Quantization.AFFINE4, Quantization.AFFINE8),
        _("MLX can't read the formats of bitsandbytes; affine4 and affine8 are its own")),
    Limit("model.attention", (Attention.SDPA,), _("MLX has one implementation of attention, its own")),
    Limit("model.frozen_precision", (FrozenPrecision.AUTO,), _("MLX chooses the format of frozen weights by itself")),
    Limit("data.packing", (False,), _("MLX's attention would cross the conversations of a sequence")),
    Limit("data.workers", (None, 0), IN_THE_TRAINING),
    Limit("data.pin_memory", (Toggle.AUTO, Toggle.OFF), IN_THE_TRAINING),
    Limit("device.precision", (Precision.AUTO, Precision.BF16, Precision.FP32),
        _("with MLX, a run computes in bf16 or fp32")),
    Limit("device.processes", (0, 1), ONE_PROCESS),
    Limit("device.compile", (False,), _("MLX compiles its steps by itself")),
    Limit("memory.deepspeed", (DeepSpeed.OFF,), ONE_PROCESS),
    Limit("memory.fsdp", (False,), ONE_PROCESS),
    Limit("memory.offload_optimizer", (False,), _("MLX has one memory, which processor and GPU share")),
    Limit("training.optimizer", (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.ADAFACTOR, Optimizer.LION, Optimizer.SGD,
        Optimizer.MUON), _("MLX has AdamW, Adam, Adafactor, Lion, SGD and Muon")),
    Limit("training.deterministic", (False,), _("MLX has no switch for exactly repeatable kernels")),
)  # fmt: skip


def why_not_mlx(options: RunOptions) -> Iterator[Problem]:
    """Yields what MLX can't train of a run, whichever engine it names, with fixes.

    The options alone are looked at: whether this computer has MLX is in its report, and whether MLX has the model,
    only the engine knows (`core.engine.backend`).
    """
    if not options.task.writes_text:
        yield Problem("device.backend", ONLY_TEXTS, (USE_TORCH,))
    if options.device.there.startswith("cuda"):
        yield Problem("device.name", _("MLX doesn't compute on NVIDIA GPUs"), (USE_TORCH,))
    if len(options.device.computers) > 1:
        yield Problem("device.name", ONE_PROCESS, (USE_TORCH,))
    for limit in LIMITS:
        option, value = options_by_path()[limit.path], value_of(options, limit.path)
        if value not in limit.values and option.applies_to(options):
            yield Problem(limit.path, limit.reason, (use_default(option), USE_TORCH))


def left_to_torch(options: RunOptions, path: str, value: str) -> str:
    """Returns why MLX, if the options name it, can't train with a value as a run file has it; empty if it can."""
    if options.device.backend is not Backend.MLX:
        return ""
    return next((one.reason for one in LIMITS if one.path == path and value not in one.values), "")


def only_with_mlx(options: RunOptions) -> Iterator[str]:
    """Yields the paths of options whose values need MLX, `device.backend` among them."""
    for path, values in ONLY_MLX.items():
        if value_of(options, path) in values and options_by_path()[path].applies_to(options):
            yield path


def backend_problems(options: RunOptions) -> Iterator[Problem]:
    """Yields what the chosen engine can't train; an automatic one is PyTorch where MLX can't."""
    problems = tuple(why_not_mlx(options))
    if options.device.backend is Backend.MLX:
        yield from problems
    elif problems or options.device.backend is Backend.TORCH:
        reason = problems[0].message if problems else _("PyTorch was chosen")
        for path in only_with_mlx(options):
            message = _("only MLX has it, and {reason}").format(reason=reason)
            yield Problem(path, message, (use_default(options_by_path()[path]),))
