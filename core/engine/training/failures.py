"""What ends a run of PyTorch early, as errors that a person can act on: NaN weights, what libraries raise."""

import contextlib
import pickle
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from core.base.errors import Fix, ModelError, UserError
from core.base.formats import counted
from core.base.language import _
from core.base.processes import DISPLAY_CAME_FIRST, GPU_HELD_UP
from core.engine.devices.computing import is_out_of_memory
from core.engine.devices.memory import memory_limit
from core.engine.models.refusals import in_short
from core.engine.run import failures
from core.engine.run.failures import RESUME, Diverged, says
from core.options import RunOptions
from core.runs.events import MemoryForecast
from core.runs.models import Checkpoint
from core.runs.words import out_of_memory

# --- Another number of processes


def require_processes(checkpoint: Checkpoint | None, count: int, computers: int = 1) -> None:
    """Makes sure that a run goes on with as many processes as it was saved with, on all its computers.

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


# --- Weights


def saved_bytes(model: Any) -> int:
    """Returns the bytes of the weights that are saved: all, or an adapter's alone."""
    is_adapter = hasattr(model, "peft_config")
    weights = {
        weight.data_ptr(): weight for weight in model.parameters() if weight.requires_grad or not is_adapter
    }
    buffers = () if is_adapter else model.buffers()
    return sum(tensor.nbytes for tensor in (*weights.values(), *buffers))


def check_weights_finite(model: torch.nn.Module, arguments: Any) -> None:
    """Raises Diverged if a trained weight is NaN or infinite."""
    for name, weight in model.named_parameters():
        if weight.requires_grad and not bool(torch.isfinite(weight).all()):
            noticed = _("The weights {name} are NaN or infinite, so nothing was saved.").format(name=name)
            in_fewer_bits = arguments.bf16 or arguments.fp16 or arguments.tf32
            raise Diverged(noticed, in_fewer_bits=bool(in_fewer_bits))


# --- Errors of libraries


@dataclass(frozen=True)
class _KnownError:
    """What a library says, in small letters, and what that means; `{error}` is its first sentence."""

    says: tuple[str, ...]
    title: str
    detail: str
    fixes: tuple[Fix, ...]


KNOWN = (
    _KnownError(
        # torch, if a worker was killed or is out of shared memory; an exception in a worker is worded differently
        ("dataloader worker (pid",),
        _("A data loader worker was ended by the system"),
        _("{error}\nUsually memory was short: each worker holds batches."),
        (Fix(_("Load without workers"), {"data.workers": 0}),),
    ),
    _KnownError(
        ("unable to jit load the async_io op",),
        _("DeepSpeed can't write to the disk here"),
        _("Its disk access is compiled on this computer, which needs a C++ compiler and libaio's headers."),
        (Fix(_("Offload to main memory"), {"memory.offload": "cpu"}),),
    ),
    _KnownError(
        # torch; cuBLAS
        ("does not have a deterministic implementation", "deterministic behavior was enabled with"),
        _("This model has no deterministic implementation"),
        _("Full determinism is on, and PyTorch reports: {error}"),
        (Fix(_("Turn full determinism off"), {"training.deterministic": False}),),
    ),
    _KnownError(
        ("device-side assert triggered",),
        _("The GPU met a number that is out of range"),
        _(
            "{error}\nUsually it is a label or a token number that the model doesn't have. The GPU doesn't say which; "
            "the CPU does."
        ),
        (Fix(_("Run it once on the CPU, which names the fault"), {"device.name": "cpu"}),),
    ),
    _KnownError(
        ("an illegal memory access was encountered",),
        _("The GPU read memory that is not its own"),
        _(
            "{error}\nThis is a fault of a library, of the driver, or of a card that is too hot or overclocked. If it "
            "happens again at the same step, another attention or optimizer may avoid it."
        ),
        (Fix(_("Update NVIDIA's driver and resume")),),
    ),
    _KnownError(
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
    _KnownError((GPU_HELD_UP,), _("macOS stopped the GPU's work"), DISPLAY_CAME_FIRST, (RESUME,)),
    _KnownError(
        ("cannot find a working triton installation",),
        _("Compiling for this GPU needs Triton"),
        _("{error}\nOn Windows it is the package triton-windows; on Linux it comes with PyTorch."),
        (Fix(_("Don't compile the model"), {"device.compile": False}),),
    ),
)


def explain(
    error: Exception, options: RunOptions, forecast: MemoryForecast | None = None
) -> UserError | None:
    """Returns the UserError for `error`, or None if it is a bug."""
    if is_out_of_memory(error):
        return out_of_memory(options, forecast, str(error), limit=memory_limit())
    if (common := failures.explain(error, options)) is not None:
        return common
    if says(error, ("no kernel image is available",)):
        return _no_kernels()
    for known in KNOWN:
        if says(error, known.says):
            sentence = str(error).strip().partition("\n")[0].partition(". ")[0]
            return UserError(known.title, known.detail.format(error=sentence), known.fixes)
    return None


def _no_kernels() -> UserError:
    """Returns the error for a card that the build lacks: CUDA 12.6's has Maxwell to Hopper, 13's Turing and later."""
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


UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    FileNotFoundError,
)
"""What torch, MLX, safetensors and transformers raise for a file that is no state of this run."""


@contextlib.contextmanager
def reading(checkpoint: str | None) -> Iterator[None]:
    """Turns what libraries raise when they read files of a checkpoint, if there is one, into a ModelError.

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
        reason = in_short(error).rstrip(".,?")
        if says(error, ("weights only load failed",)) or isinstance(error, pickle.UnpicklingError):
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
