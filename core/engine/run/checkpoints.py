"""Checkpoints that are complete or absent, and folders that are replaced at once.

A checkpoint is written into a folder of another name, sealed with a marker that lists every file with size and hash,
and then renamed. `core.runs.models` decides which are complete.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.base.files import is_link, write_atomically
from core.base.language import _
from core.engine.reporter import Reporter
from core.options.choices import Backend
from core.runs.folder import RunFolder
from core.runs.models import (
    MARKER,
    STATE,
    Checkpoint,
    FileEntry,
    incomplete,
    is_complete,
    is_undamaged,
    newest_first,
    step_of,
)

PICKLED_ARGUMENTS = "training_args.bin"
MLX_OPTIMIZER = "optimizer.safetensors"
"""The state of an optimizer, in checkpoints of MLX only."""
STAGE = ".saving"
DAMAGED = "damaged"


# --- Writing


@contextlib.contextmanager
def staged(checkpoints: Path, step: int) -> Iterator[Path]:
    """Yields a folder to write the checkpoint of `step` into; it is renamed at the end, or removed on failure.

    Raises:
        OSError: It can't be written.
    """
    stage = checkpoints / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    folder = stage / f"checkpoint-{step}"
    try:
        folder.mkdir(parents=True)
        yield folder
        seal(folder)
        _rename(folder, checkpoints / folder.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yields a new folder that replaces `folder` at the end; on failure, `folder` stays.

    Raises:
        OSError: It can't be written.
    """
    new = folder.with_name(f".{folder.name}.new")
    restore_replaced(folder)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir()
        yield new
        for path in _files(new):
            _sync(path)
        _rename(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def seal(folder: Path) -> None:
    """Completes a checkpoint: removes Trainer's pickle, and writes the marker once all files are on disk."""
    drop_pickle(folder)
    entries = {}
    for path in _files(folder):
        if path.name != MARKER:
            _sync(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entries[path.relative_to(folder).as_posix()] = FileEntry(path.stat().st_size, digest)
    write_atomically(folder / MARKER, msgspec.json.encode(entries))
    _sync_folder(folder)


def drop_pickle(folder: Path) -> None:
    """Removes `training_args.bin`, a pickle."""
    (folder / PICKLED_ARGUMENTS).unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _rename(new: Path, folder: Path) -> None:
    """Renames `new` to `folder`, which is removed if it exists."""
    _sync_folder(new)
    restore_replaced(folder)
    old = _old(folder)
    if folder.is_dir():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        restore_replaced(folder)
        raise
    _sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def restore_replaced(folder: Path) -> None:
    """Undoes the renaming of `folder` by a process that was killed before the new one had its name."""
    old = _old(folder)
    if is_link(old) or not old.is_dir():
        return
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            old.rename(folder)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Writes the names in a folder to disk; Windows does it by itself."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems can't
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- Removing


def keep(checkpoints: Path, count: int, steps: Collection[int | None] = ()) -> None:
    """Removes complete checkpoints except the newest `count` and those of `steps`."""
    complete = [path for path in checkpoints.glob("checkpoint-*") if step_of(path) >= 0 and is_complete(path)]
    for folder in sorted(complete, key=step_of, reverse=True)[count:]:
        if step_of(folder) not in steps:
            with contextlib.suppress(OSError):  # another program may be reading it
                (folder / MARKER).unlink(missing_ok=True)  # first: a half-removed one must not count
                shutil.rmtree(folder)


def clean(checkpoints: Path) -> None:
    """Removes incomplete checkpoints, and finishes replacements that were interrupted."""
    for old in checkpoints.glob(".checkpoint-*.old"):
        restore_replaced(old.with_name(old.name[1 : -len(".old")]))
    for folder in incomplete(checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(checkpoints / STAGE, ignore_errors=True)


# --- Resuming


@dataclass(frozen=True)
class StartPoint:
    """Where an attempt begins; `damaged` are the checkpoints that were renamed and skipped."""

    checkpoint: Checkpoint | None = None
    damaged: tuple[Path, ...] = ()

    @property
    def step(self) -> int:
        return self.checkpoint.step if self.checkpoint is not None else 0

    def warn(self, reporter: Reporter) -> None:
        if self.damaged:
            names = ", ".join(f"{path.parent.name}/{path.name}" for path in self.damaged)
            reporter.warn(
                "checkpoint-damaged",
                _("The newest checkpoint is damaged: the run continues from step {step:,}").format(
                    step=self.step
                ),
                _("Its files have changed since they were saved; a disk may be failing. See {names}.").format(
                    names=names
                ),
            )


def saved_by(checkpoint: Checkpoint) -> Backend:
    """Returns the engine that saved a checkpoint, and alone can resume it."""
    return Backend.MLX if (checkpoint.path / MLX_OPTIMIZER).is_file() else Backend.TORCH


def find_checkpoint(run: RunFolder) -> StartPoint:
    """Verifies the hashes of the newest checkpoint, about a second per GB; renames a damaged one and tries the next.

    Raises:
        OSError: A damaged one can't be renamed.
    """
    damaged: list[Path] = []
    restore_replaced(run.model)
    for checkpoint in newest_first(run.checkpoints):
        if is_undamaged(checkpoint.path) and _state_matches(checkpoint):
            return StartPoint(checkpoint, tuple(damaged))
        renamed = checkpoint.path.with_name(f"{DAMAGED}-{checkpoint.step}")
        shutil.rmtree(renamed, ignore_errors=True)
        damaged.append(checkpoint.path.rename(renamed))
    return StartPoint(None, tuple(damaged))


class _State(msgspec.Struct):
    global_step: int


def _state_matches(checkpoint: Checkpoint) -> bool:
    """Returns whether Trainer's state is of the step in the folder's name."""
    try:
        state = msgspec.json.decode((checkpoint.path / STATE).read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return False
    return state.global_step == checkpoint.step
