"""What ends a run early, in words a person can act on: a full disk, lost weights, what libraries raise."""

import contextlib
import errno
import math
import os
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from core.base.errors import Fix, FixAction, ModelError, UserError
from core.base.formats import size
from core.base.language import _
from core.memory.estimate import MASTER, STATE
from core.options import RunOptions
from core.options.choices import DeepSpeed, Optimizer
from core.runs.events import MemoryForecast
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint, newest_first
from core.runs.words import out_of_memory

BESIDE = 1 << 20
"""What lies beside weights and optimizer state: a vocabulary, Trainer's record. Small against what is measured here."""

FULL_NUMBERS = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}
FULL = (
    "no space left on device",
    "storagefull",
    "filetoolarge",
    "file too large",
    "not enough space on the disk",
    "disk quota exceeded",
)
"""safetensors says it inside an error of its own, without an errno."""

UNWRITTEN = (
    "pytorchstreamwriter failed",
    "file write failed",
    "iostream error",
    "fail at inline_container",
    "error while serializing: i/o error",
)
"""How torch and safetensors say that a file couldn't be written, torch without a cause."""

RESUME = Fix(_("Resume"), action=FixAction.RESUME)


class CantSave(UserError):  # noqa: N818 - it pauses a run
    """What was trained can't be written. What was saved before is as it was, so that the run pauses there."""


@dataclass(frozen=True)
class Need:
    """What a run writes at the most, in bytes: `copies` checkpoints at one time, and the model."""

    checkpoint: int
    copies: int
    model: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.checkpoint * self.copies + self.model


def require_disk_space(run: RunFolder, trainer: Any, options: RunOptions) -> Need:
    """Make sure that what is trained can be saved; returns what that takes.

    Raises:
        UserError: The disk is too full for that; nothing has been trained yet.
        CantSave: The same for a run that goes on.
    """
    standing = newest_first(run.checkpoints)
    need = disk_space_needed(trainer, options, standing)
    free = shutil.disk_usage(run.path).free
    reused = sum(one.bytes for one in standing[: max(0, need.copies)])
    missing = need.total - reused
    if free >= missing:
        return need
    what = _("{model} for the model").format(model=size(need.model))
    if need.copies:
        each = size(need.checkpoint)
        what = _("{value} of {each} and {what}").format(
            value=f"{need.copies} checkpoints" if need.copies > 1 else "a checkpoint", each=each, what=what
        )
    fixes = [RESUME] if standing else []
    if need.copies and free >= need.model:
        fewer = {"output.keep_checkpoints": 0, "output.keep_best": False}
        fixes.insert(0, Fix(_("Keep no checkpoints"), fewer))
    least = need.checkpoint * min(need.copies, 2) + need.model - reused
    if options.output.keep_checkpoints > 1 and free >= least:
        fewer = {"output.keep_checkpoints": 1, "output.keep_best": False}
        fixes.insert(0, Fix(_("Keep one checkpoint only"), fewer))
    kind = CantSave if standing else UserError
    raise kind(
        _("The disk has no room for what this run will save"),
        _(
            "{missing} are needed and {free} are free where the run is kept ({path}): "
            "{what}. Nothing was trained. Make room, or keep runs on another disk."
        ).format(missing=size(missing), free=size(free), path=run.path.absolute(), what=what),
        tuple(fixes),
    )


def disk_space_needed(trainer: Any, options: RunOptions, standing: list[Checkpoint]) -> Need:
    """What a run will write, at the worst moment: the checkpoints kept, and the one being written.

    A checkpoint is as large as the last one; before the first, as its weights and its optimizer's state.
    """
    output, training = options.output, options.training
    model = saved_bytes(trainer.model) + BESIDE
    learning = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad)
    each = 0.0 if training.optimizer is Optimizer.SGD and not training.momentum else STATE[training.optimizer]
    if options.memory.deepspeed is not DeepSpeed.OFF:
        each += 2 * MASTER  # ZeRO's own copy, and the weights a second time
    checkpoint = standing[0].bytes if standing else model + round(each * learning)
    copies = 0
    if output.keep_checkpoints or output.keep_best:
        copies = max(1, output.keep_checkpoints) + 1 + output.keep_best
        if not output.save_steps and training.max_steps is None:
            copies = min(copies, math.ceil(training.epochs))
    return Need(checkpoint, copies, model)


def saved_bytes(model: Any) -> int:
    """The weights that are saved: all, or an adapter's alone."""
    is_adapter = hasattr(model, "peft_config")
    weights = {
        weight.data_ptr(): weight for weight in model.parameters() if weight.requires_grad or not is_adapter
    }
    buffers = () if is_adapter else model.buffers()
    return sum(tensor.nbytes for tensor in (*weights.values(), *buffers))


@contextlib.contextmanager
def writing(folder: Path, what: str, needed: int) -> Iterator[None]:
    """Turn what libraries raise where a file can't be written into what a person can act on.

    Args:
        folder: Where it is written.
        what: What it is, in a word.
        needed: About how many bytes it takes; 0: unknown.

    Raises:
        CantSave: A file couldn't be written.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or is_disk_full(error) or _says(error, UNWRITTEN)):
            raise
        raise cant_save(error, folder, what, needed) from error


def cant_save(error: Exception, folder: Path, what: str, needed: int = 0) -> CantSave:
    """The plain error for a file of `folder` that couldn't be written."""
    try:
        folder = folder.absolute()
    except FileNotFoundError:  # the working folder, which is the run's, has no path any more
        return CantSave(
            _("The run's folder can't be reached"),
            _(
                "The {what} couldn't be written: its disk was unmounted. What was saved before is as "
                "it was: mount the "
                "disk and resume."
            ).format(what=what),
            (RESUME,),
        )
    if not (is_disk_full(error) or _says(error, UNWRITTEN)):
        return CantSave(
            _("The {what} can't be written").format(what=what),
            _("{error}. What was saved before is as it was: mend it and resume.").format(error=error),
            (RESUME,),
        )
    takes = _("about {needed} are needed and ").format(needed=size(needed)) if needed else ""
    return CantSave(
        _("Paused: the disk is full"),
        _(
            "The {what} couldn't be written: {takes}{folder} in {folder_2}. What was saved "
            "before is as it was: "
            "make room and resume."
        ).format(what=what, takes=takes, folder=free_at(folder), folder_2=folder),
        (RESUME, Fix(_("Show the folder"), action=FixAction.REVEAL)),
    )


def free_at(folder: Path) -> str:
    """How much is free where `folder` is, or was."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return _("{free} are free").format(free=size(shutil.disk_usage(place).free))
    return _("nothing is free")


def find_full_disk(error: BaseException, folder: Path) -> Path | None:
    """The file that an error names; else which of `folder`, home and the temporary folder is full, if one is."""
    named = getattr(error, "filename", None)
    if isinstance(named, str | bytes):
        return Path(os.fsdecode(named)).absolute()
    temporary = (
        os.environ.get("TMPDIR") or os.environ.get("TEMP") or "/tmp"
    )  # tempfile looks for one with room
    for place in (folder, Path.home(), Path(temporary)):
        with contextlib.suppress(OSError):
            if shutil.disk_usage(place).free < BESIDE:
                return place.absolute()
    return None


def is_disk_full(error: BaseException) -> bool:
    """Whether a file couldn't be written for lack of room: of the disk, of a person's share, or for one file."""
    return (isinstance(error, OSError) and error.errno in FULL_NUMBERS) or _says(error, FULL)


def _says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    words = str(error).lower()
    return any(phrase in words for phrase in phrases)


def diverged_error(arguments: Any, why: str) -> UserError:
    """What ends the run, with what to try instead.

    Args:
        arguments: Trainer's.
        why: How it was noticed.
    """
    rate = arguments.learning_rate
    fixes = [
        Fix(
            _("Lower the learning rate to {rate:g}").format(rate=rate / 10),
            {"training.learning_rate": rate / 10},
        )
    ]
    if arguments.bf16 or arguments.fp16 or arguments.tf32:
        fixes.append(Fix(_("Compute in fp32"), {"device.precision": "fp32"}))
    return UserError(
        _("The loss is no longer a number"),
        _(
            "{why} The usual cause is a learning rate that is too high (it was {rate:g}). What "
            "was saved before is "
            "as it was."
        ).format(why=why, rate=rate),
        tuple(fixes),
    )


def check_weights_finite(model: torch.nn.Module, arguments: Any) -> None:
    """Make sure that what is to be saved can be used.

    Raises:
        UserError: A weight that learns is NaN or infinite.
    """
    for name, weight in model.named_parameters():
        if weight.requires_grad and not bool(torch.isfinite(weight).all()):
            raise diverged_error(
                arguments,
                _("The weights {name} are NaN or infinite, so that nothing can be saved.").format(name=name),
            )


OUT_OF_MEMORY = (
    "out of memory",  # CUDA and MPS
    "can't allocate memory",  # torch on a Linux or macOS CPU
    "not enough memory",  # torch on a Windows CPU
    "cannot allocate memory",  # the operating system
    "unable to allocate",  # NumPy
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED and its sisters
    "paging file is too small",  # Windows, while mapping weights
)
WORKER_ENDED = ("dataloader worker (pid",)
"""How torch says that a worker is gone: killed, or out of shared memory. What a worker raises it tells otherwise."""
NOT_DETERMINISTIC = (
    "does not have a deterministic implementation",
    "deterministic behavior was enabled with",
)
"""torch, of its own kernels and of cuBLAS."""


def explain(
    error: Exception, options: RunOptions, forecast: MemoryForecast | None = None
) -> UserError | None:
    """The plain error for `error`, or None where it is a bug.

    Args:
        error: What was raised.
        options: What was asked.
        forecast: What the run was told to take of memory, if it came that far.
    """
    if is_out_of_memory(error):
        return out_of_memory(options, forecast, str(error))
    if isinstance(error, RuntimeError) and _says(error, WORKER_ENDED):
        return UserError(
            _("A worker was ended by the system"),
            _(
                "{error}\nMostly memory was short: each worker holds batches, and what it needs to make them."
            ).format(error=error),
            (Fix(_("Load without workers"), {"data.workers": 0}),),
        )
    if is_disk_full(error):
        place = find_full_disk(error, Path())  # a run's process works in its folder
        if place is None:
            return UserError(
                _("The disk is full"), _("{error}. Make room and start again.").format(error=error)
            )
        is_named = bool(getattr(error, "filename", None))
        what = (
            str(place) if is_named else _("A file in {place}, or elsewhere on its disk,").format(place=place)
        )
        return UserError(
            _("The disk is full"),
            _("{what} couldn't be written: {place}. Make room and start again.").format(
                what=what, place=free_at(place)
            ),
        )
    if _says(error, ("unable to jit load the async_io op",)):
        return UserError(
            _("DeepSpeed can't write to the disk here"),
            _(
                "Its disk access has to be compiled on this computer, with a C++ compiler and the "
                "header files of libaio."
            ),
            (Fix(_("Offload to main memory"), {"memory.offload": "cpu"}),),
        )
    if _says(error, NOT_DETERMINISTIC):
        first = str(error).strip().partition(".")[0]
        return UserError(
            _("An operator of this model can't be computed the same way every time"),
            _("Full determinism was asked for, and PyTorch says: {first}.").format(first=first),
            (Fix(_("Allow such operators"), {"training.deterministic": False}),),
        )
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, whoever asked for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):  # NumPy's and Arrow's are MemoryErrors
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | OSError) and _says(error, OUT_OF_MEMORY)


UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
)
"""What torch, safetensors and transformers raise where a file is no state of this run; not where it can't be opened."""


@contextlib.contextmanager
def reading(checkpoint: str | None) -> Iterator[None]:
    """Refuse a checkpoint that isn't what it should be.

    Raises:
        ModelError: It holds something else than the state of this run: code, or what another model needs.
    """
    try:
        yield
    except UNREADABLE as error:
        if checkpoint is None or is_out_of_memory(error):
            raise
        name = Path(checkpoint).name
        if "weights only load failed" in str(error).lower() or isinstance(error, pickle.UnpicklingError):
            why = _("it holds objects that only running code could bring back, and Hone runs none")
        else:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            _("{name} can't be gone on from").format(name=name),
            _("It is not what Hone saves: {why}. Nothing in it was run.").format(why=why),
            (
                Fix(
                    _(
                        "Move {name} out of the folder checkpoints, and resume from the one before or from "
                        "the start"
                    ).format(name=name)
                ),
            ),
        ) from error
