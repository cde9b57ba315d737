"""What ends a run early, as errors that a person can act on: a full disk, NaN weights, what libraries raise."""

import contextlib
import errno
import math
import pickle
import shutil
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from core.base.errors import Fix, FixAction, ModelError, UserError
from core.base.files import free_bytes
from core.base.formats import counted, memory, plain_number
from core.base.language import _, ngettext
from core.base.processes import DISPLAY_CAME_FIRST, GPU_HELD_UP
from core.engine.devices.memory import memory_limit
from core.memory.estimate import MASTER, NUMBER, STATE
from core.options import RunOptions
from core.options.choices import DeepSpeed, Optimizer
from core.options.method_rules import rate_fixes
from core.runs.events import MemoryForecast
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint, newest_first
from core.runs.words import out_of_memory

RESUME = Fix(_("Resume"), action=FixAction.RESUME)


class CantSave(UserError):  # noqa: N818 - it pauses a run
    """The trained weights can't be written; what was saved before is intact, and the run pauses."""


def _says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(phrase in text for phrase in phrases)


# --- Another number of processes


def require_processes(checkpoint: Checkpoint | None, count: int, computers: int = 1) -> None:
    """Make sure that a run goes on with as many processes as it was saved with, on all its computers.

    Raises:
        UserError: It would go on at another place of its data, with random numbers of nobody.
    """
    if checkpoint is None:
        return
    saved = max(1, len([*checkpoint.path.glob("rng_state_[0-9]*.pth")]))
    if saved != count:
        title = _("The checkpoint was saved by {saved}, and this is {count}").format(
            saved=counted(saved, "process"), count=count
        )
        detail = _("A run can only be resumed with the same number of processes.")
        each, rest = divmod(saved, computers)
        label = _("Use {processes}").format(processes=counted(each, "process"))
        raise UserError(title, detail, () if rest else (Fix(label, {"device.processes": each}),))


# --- A full disk


SMALL_FILES = 1 << 20
"""Bytes of a model's other files: the vocabulary, Trainer's state."""

DISK_FULL_NUMBERS = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}
DISK_FULL = (
    "no space left on device",
    "storagefull",  # safetensors, without an errno
    "filetoolarge",
    "file too large",
    "not enough space on the disk",
    "disk quota exceeded",
)
NOT_WRITTEN = (  # torch and safetensors, without a cause
    "pytorchstreamwriter failed",
    "file write failed",
    "iostream error",
    "fail at inline_container",
    "error while serializing: i/o error",
)


@dataclass(frozen=True)
class Need:
    """The most bytes a run writes: `copies` checkpoints at one time, and the model."""

    checkpoint: int
    copies: int
    model: int


def require_disk_space(run: RunFolder, trainer: Any, options: RunOptions) -> Need:
    """Make sure that the run's checkpoints and model can be saved; returns the space they need.

    Raises:
        UserError: The disk is too full; nothing has been trained yet.
        CantSave: Likewise, for a run that is resumed.
    """
    existing = newest_first(run.checkpoints)
    need = disk_space_needed(trainer, options, existing)
    free = shutil.disk_usage(run.path).free
    reused = sum(checkpoint.bytes for checkpoint in existing[: need.copies])
    missing = need.checkpoint * need.copies + need.model - reused
    if free >= missing:
        return need
    fixes = [RESUME] if existing else []
    if need.copies and free >= need.model:
        none = {"output.keep_checkpoints": 0, "output.keep_best": False}
        fixes.insert(0, Fix(_("Keep no checkpoints"), none))
    least = need.checkpoint * min(need.copies, 2) + need.model - reused
    if options.output.keep_checkpoints > 1 and free >= least:
        one = {"output.keep_checkpoints": 1, "output.keep_best": False}
        fixes.insert(0, Fix(_("Keep one checkpoint only"), one))
    detail = ngettext(
        "The model ({model}) and {count} checkpoint ({checkpoint}) need {missing} in {path}, where {free} are free.",
        "The model ({model}) and {count} checkpoints ({checkpoint} each) need {missing} in {path}, where {free} are "
        "free.",
        need.copies,
    )
    raise (CantSave if existing else UserError)(
        _("The disk is too full for this run"),
        detail.format(
            model=memory(need.model),
            count=need.copies,
            checkpoint=memory(need.checkpoint),
            missing=memory(missing),
            path=run.path.absolute(),
            free=memory(free),
        ),
        (*fixes, Fix(_("Free some space, or keep runs on another disk"))),
    )


def disk_space_needed(trainer: Any, options: RunOptions, existing: list[Checkpoint]) -> Need:
    """The most space a run needs at one time: for the checkpoints it keeps, the one being written, and the model.

    A checkpoint is as large as the last one; before the first, as the weights and the optimizer's state.
    """
    output, training = options.output, options.training
    model = saved_bytes(trainer.model) + SMALL_FILES
    trained = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad)
    state = (
        0.0 if training.optimizer is Optimizer.SGD and not training.momentum else STATE[training.optimizer]
    )
    if options.memory.deepspeed is not DeepSpeed.OFF:
        state += 2 * MASTER  # ZeRO's own copy, and the weights a second time
    if options.memory.fsdp:
        state += NUMBER  # the weights a second time
    checkpoint = existing[0].bytes if existing else model + round(state * trained)
    copies = 0
    if output.keep_checkpoints or options.keeps_best:
        copies = max(1, output.keep_checkpoints) + 1 + options.keeps_best
        if not output.save_steps and not training.eval_steps and training.max_steps is None:
            copies = min(copies, math.ceil(training.epochs))
    return Need(checkpoint, copies, model if output.save_model else 0)


def saved_bytes(model: Any) -> int:
    """Bytes of the weights that are saved: all, or an adapter's alone."""
    is_adapter = hasattr(model, "peft_config")
    weights = {
        weight.data_ptr(): weight for weight in model.parameters() if weight.requires_grad or not is_adapter
    }
    buffers = () if is_adapter else model.buffers()
    return sum(tensor.nbytes for tensor in (*weights.values(), *buffers))


@contextlib.contextmanager
def writing(folder: Path, needed: int = 0) -> Iterator[None]:
    """Turn what libraries raise when a file of about `needed` bytes (0: unknown) can't be written into CantSave.

    Raises:
        CantSave: A file couldn't be written.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or is_disk_full(error) or _says(error, NOT_WRITTEN)):
            raise
        raise cant_save(error, folder, needed) from error


def cant_save(error: Exception, folder: Path, needed: int = 0) -> CantSave:
    """The error for a file in `folder` that couldn't be written."""
    try:
        folder = folder.absolute()
    except FileNotFoundError:  # the working directory, which is the run's folder, has no path any more
        title = _("The run's folder can't be reached")
        detail = _("Its disk was unmounted. What was saved before is intact: mount the disk and resume.")
        return CantSave(title, detail, (RESUME,))
    if not (is_disk_full(error) or _says(error, NOT_WRITTEN)):
        return CantSave(
            _("The run can't be saved"),
            _("{error}. What was saved before is intact: solve this and resume.").format(error=error),
            (RESUME,),
        )
    detail = _("{folder} couldn't be written: {free} are free. What was saved before is intact.")
    if needed:
        detail = _(
            "{folder} couldn't be written: about {needed} are needed and {free} are free. What was saved before is "
            "intact."
        )
    return CantSave(
        _("Paused: the disk is full"),
        detail.format(folder=folder, needed=memory(needed), free=memory(free_bytes(folder))),
        (RESUME, Fix(_("Show the folder"), action=FixAction.REVEAL), Fix(_("Free some space and resume"))),
    )


def is_disk_full(error: BaseException) -> bool:
    """Whether the disk, the person's quota or the limit for one file is exhausted."""
    return (isinstance(error, OSError) and error.errno in DISK_FULL_NUMBERS) or _says(error, DISK_FULL)


# --- NaN


class Diverged(Exception):  # noqa: N818 - `explain` makes an error for people of it
    """A loss or a weight is not a number; says how that was noticed.

    `in_fewer_bits` is whether the run computed in less than fp32.
    """

    def __init__(self, noticed: str, arguments: Any) -> None:
        super().__init__(noticed)
        self.in_fewer_bits = arguments.bf16 or arguments.fp16 or arguments.tf32


def check_weights_finite(model: torch.nn.Module, arguments: Any) -> None:
    """Raise Diverged if a trained weight is NaN or infinite."""
    for name, weight in model.named_parameters():
        if weight.requires_grad and not bool(torch.isfinite(weight).all()):
            noticed = _("The weights {name} are NaN or infinite, so nothing was saved.").format(name=name)
            raise Diverged(noticed, arguments)


def _diverged(error: Diverged, options: RunOptions) -> UserError:
    fixes = rate_fixes(options, 1 / 10)
    if error.in_fewer_bits:
        fixes = (*fixes, Fix(_("Compute in fp32"), {"device.precision": "fp32"}))
    cause = _("The usual cause is a learning rate that is too high (it was {rate}).").format(
        rate=plain_number(options.training.learning_rate)
    )
    return UserError(_("The loss is no longer a number"), f"{error} {cause}", fixes)


# --- Errors of libraries


OUT_OF_MEMORY = (
    "out of memory",  # CUDA and MPS
    "can't allocate memory",  # torch on a Linux or macOS CPU
    "not enough memory",  # torch on a Windows CPU
    "cannot allocate memory",  # the operating system
    "unable to allocate",  # NumPy
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED and the like
    "paging file is too small",  # Windows, while mapping weights
)


@dataclass(frozen=True)
class _Known:
    """What a library says, in small letters, and what that means; `{error}` is its first sentence."""

    says: tuple[str, ...]
    title: str
    detail: str
    fixes: tuple[Fix, ...]


KNOWN = (
    _Known(
        # torch, if a worker was killed or is out of shared memory; an exception in a worker is worded differently
        ("dataloader worker (pid",),
        _("A data loader worker was ended by the system"),
        _("{error}\nUsually memory was short: each worker holds batches."),
        (Fix(_("Load without workers"), {"data.workers": 0}),),
    ),
    _Known(
        ("unable to jit load the async_io op",),
        _("DeepSpeed can't write to the disk here"),
        _("Its disk access is compiled on this computer, which needs a C++ compiler and libaio's headers."),
        (Fix(_("Offload to main memory"), {"memory.offload": "cpu"}),),
    ),
    _Known(
        # torch; cuBLAS
        ("does not have a deterministic implementation", "deterministic behavior was enabled with"),
        _("This model has no deterministic implementation"),
        _("Full determinism is on, and PyTorch reports: {error}"),
        (Fix(_("Turn full determinism off"), {"training.deterministic": False}),),
    ),
    _Known(
        ("device-side assert triggered",),
        _("The GPU met a number that is out of range"),
        _(
            "{error}\nUsually it is a label or a token number that the model doesn't have. The GPU doesn't say which; "
            "the CPU does."
        ),
        (Fix(_("Run it once on the CPU, which names the fault"), {"device.name": "cpu"}),),
    ),
    _Known(
        ("an illegal memory access was encountered",),
        _("The GPU read memory that is not its own"),
        _(
            "{error}\nThis is a fault of a library, of the driver, or of a card that is too hot or overclocked. If it "
            "happens again at the same step, another attention or optimizer may avoid it."
        ),
        (Fix(_("Update NVIDIA's driver and resume")),),
    ),
    _Known(
        (
            "the launch timed out and was terminated",
            "driver shutting down",
            "cuda driver error: device not ready",
            "cuda error: unknown error",
        ),
        _("The graphics driver was reset"),
        _(
            "{error}\nWindows resets the driver when one computation on the GPU takes longer than 2 seconds (TDR, "
            "timeout detection and recovery). It also happens after the computer has slept. Resume, or use a smaller "
            "batch; TdrDelay in the Windows registry raises the limit."
        ),
        (RESUME,),
    ),
    _Known((GPU_HELD_UP,), _("macOS stopped the GPU's work"), DISPLAY_CAME_FIRST, (RESUME,)),
    _Known(
        ("cannot find a working triton installation",),
        _("Compiling for this GPU needs Triton"),
        _("{error}\nOn Windows it is the package triton-windows; on Linux it comes with PyTorch."),
        (Fix(_("Don't compile the model"), {"device.compile": False}),),
    ),
)


def explain(
    error: Exception, options: RunOptions, forecast: MemoryForecast | None = None
) -> UserError | None:
    """The UserError for `error`, or None if it is a bug."""
    if isinstance(error, Diverged):
        return _diverged(error, options)
    if is_out_of_memory(error):
        return out_of_memory(options, forecast, str(error), limit=memory_limit())
    if is_disk_full(error):
        fix = Fix(_("Free some space and start again"))
        return UserError(_("The disk is full"), str(error), (fix,))
    if _says(error, ("no kernel image is available",)):
        return _no_kernels()
    for known in KNOWN:
        if _says(error, known.says):
            sentence = str(error).strip().partition("\n")[0].partition(". ")[0]
            return UserError(known.title, known.detail.format(error=sentence), known.fixes)
    return None


def _no_kernels() -> UserError:
    """PyTorch 2.13 has builds for CUDA 12.6, with Maxwell to Hopper, and for CUDA 13, with Turing and later."""
    card = torch.cuda.get_device_capability()
    cuda, build = ("12.6", "cu126") if card < (7, 5) else ("13.0", "cu130")
    detail = _(
        "{card} has compute capability {major}.{minor}. This PyTorch {version} was built for: {built}. The build for "
        "CUDA {cuda} has code for this card."
    )
    return UserError(
        _("This PyTorch has no code for this GPU"),
        detail.format(
            card=torch.cuda.get_device_name(),
            major=card[0],
            minor=card[1],
            version=torch.__version__,
            built=", ".join(torch.cuda.get_arch_list()),
            cuda=cuda,
        ),
        (
            Fix(_("Install it, from Settings or download.pytorch.org/whl/{build}").format(build=build)),
            Fix(_("Train on the CPU"), {"device.name": "cpu"}),
        ),
    )


def is_out_of_memory(error: Exception) -> bool:
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
"""What torch, safetensors and transformers raise for a file that is no state of this run."""


@contextlib.contextmanager
def reading(checkpoint: str | None) -> Iterator[None]:
    """Turn what libraries raise when they read files of a checkpoint, if there is one, into a ModelError.

    Raises:
        ModelError: It isn't a state of this run: it holds code, or another model.
    """
    try:
        yield
    except UNREADABLE as error:
        if checkpoint is None or is_out_of_memory(error):
            raise
        traceback.print_exc(file=sys.stderr)
        name = Path(checkpoint).name
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if _says(error, ("weights only load failed",)) or isinstance(error, pickle.UnpicklingError):
            reason = _("it contains objects that only running code could restore, and none was run")
        raise ModelError(
            _("{name} can't be resumed from").format(name=name),
            _("It is not a checkpoint of this run: {reason}.").format(reason=reason),
            (
                Fix(
                    _("Move {name} out of the folder checkpoints, and resume from the one before").format(
                        name=name
                    )
                ),
            ),
        ) from error
