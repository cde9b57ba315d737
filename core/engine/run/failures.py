"""What ends a run early, whatever the engine, as errors that a person can act on: a full disk, a loss that is NaN."""

import contextlib
import errno
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import Fix, FixAction, UserError
from core.base.files import free_bytes
from core.base.formats import memory, paragraph, plain_number
from core.base.language import _, ngettext
from core.memory.case import NUMBER, STATE
from core.memory.estimate import MASTER
from core.options import RunOptions
from core.options.choices import DeepSpeed, Optimizer
from core.options.method_rules import rate_fixes
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint, newest_first

RESUME = Fix(_("Resume"), action=FixAction.RESUME)


class CantSave(UserError):  # noqa: N818 - it pauses a run
    """The trained weights can't be written; what was saved before is intact, and the run pauses."""


def says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(phrase in text for phrase in phrases)


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


def require_disk_space(run: RunFolder, model: int, trained: int, options: RunOptions) -> Need:
    """Makes sure that the run's checkpoints and model can be saved; returns the space they need.

    Args:
        run: Where they are saved.
        model: Bytes of the weights that are saved.
        trained: How many weights learn.
        options: The run's.

    Raises:
        UserError: The disk is too full; nothing has been trained yet.
        CantSave: Likewise, for a run that is resumed.
    """
    existing = newest_first(run.checkpoints)
    need = disk_space_needed(model, trained, options, existing)
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


def disk_space_needed(model: int, trained: int, options: RunOptions, existing: list[Checkpoint]) -> Need:
    """Returns the most space a run needs at once: for kept checkpoints, the one being written, and the model.

    A checkpoint is as large as the last one; before the first, as the weights and the optimizer's state.
    """
    output, training = options.output, options.training
    model += SMALL_FILES
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
    return Need(checkpoint, copies, model if options.output.save_model else 0)


@contextlib.contextmanager
def writing(folder: Path, needed: int = 0) -> Iterator[None]:
    """Turns what libraries raise when a file of about `needed` bytes (0: unknown) can't be written into CantSave.

    Raises:
        CantSave: A file couldn't be written.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or is_disk_full(error) or says(error, NOT_WRITTEN)):
            raise
        raise cant_save(error, folder, needed) from error


def cant_save(error: Exception, folder: Path, needed: int = 0) -> CantSave:
    """Returns the error for a file in `folder` that couldn't be written."""
    try:
        folder = folder.absolute()
    except FileNotFoundError:  # the working directory, which is the run's folder, has no path any more
        title = _("The run's folder can't be reached")
        detail = _("Its disk was unmounted. What was saved before is intact: mount the disk and resume.")
        return CantSave(title, detail, (RESUME,))
    if not (is_disk_full(error) or says(error, NOT_WRITTEN)):
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
    """Returns whether the disk, the person's quota or the limit for one file is exhausted."""
    return (isinstance(error, OSError) and error.errno in DISK_FULL_NUMBERS) or says(error, DISK_FULL)


# --- NaN


class Diverged(Exception):  # noqa: N818 - `explain` makes an error for people of it
    """A loss or a weight is not a number; says how that was noticed.

    `in_fewer_bits` is whether the run computed in less than fp32.
    """

    def __init__(self, noticed: str, *, in_fewer_bits: bool) -> None:
        super().__init__(noticed)
        self.in_fewer_bits = in_fewer_bits


def _diverged(error: Diverged, options: RunOptions) -> UserError:
    fixes = rate_fixes(options, 1 / 10)
    if error.in_fewer_bits:
        fixes = (*fixes, Fix(_("Compute in fp32"), {"device.precision": "fp32"}))
    cause = _("The usual cause is a learning rate that is too high (it was {rate}).").format(
        rate=plain_number(options.training.learning_rate)
    )
    return UserError(_("The loss is no longer a number"), paragraph(str(error), cause), fixes)


def explain(error: Exception, options: RunOptions) -> UserError | None:
    """Returns the UserError for an error that any engine may meet; None for others."""
    if isinstance(error, Diverged):
        return _diverged(error, options)
    if is_disk_full(error):
        fix = Fix(_("Free some space and start again"))
        return UserError(_("The disk is full"), str(error), (fix,))
    return None
