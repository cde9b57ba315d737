"""Checkpoints written so that each is complete or absent, old ones removed, and what a run writes kept in its place.

One is written beside the others, sealed with a marker that lists every file with size and hash, and only then gets its
name. What `core.runs.models` calls complete has come through all of that.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.base.errors import RunFolderError
from core.base.files import is_link, write_atomically
from core.base.language import _
from core.engine.reporter import Reporter
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
STAGE = ".saving"
DAMAGED = "damaged"


@contextlib.contextmanager
def staged(checkpoints: Path, step: int) -> Iterator[Path]:
    """A folder to write the checkpoint of `step` into. It gets its place at the end; where that fails, nothing is left.

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
        _take_place(folder, checkpoints / folder.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A folder to write anew what is in `folder`, which stays as it is until the new one is whole.

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
            _flush(path)
        _take_place(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def seal(folder: Path) -> int:
    """Complete a checkpoint: drop Trainer's pickle of its arguments, and write the marker once all else is on disk.

    Returns:
        The checkpoint's size in bytes.
    """
    drop_pickle(folder)
    entries = {}
    for path in _files(folder):
        if path.name != MARKER:
            _flush(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entries[path.relative_to(folder).as_posix()] = FileEntry(path.stat().st_size, digest)
    write_atomically(folder / MARKER, msgspec.json.encode(entries))
    _flush_names(folder)
    return sum(entry.bytes for entry in entries.values())


def drop_pickle(folder: Path) -> None:
    """Remove `training_args.bin`: a pickle that nothing of Hone's reads and nobody should open."""
    (folder / PICKLED_ARGUMENTS).unlink(missing_ok=True)


def keep(checkpoints: Path, count: int, steps: Collection[int | None] = ()) -> None:
    """Remove complete checkpoints but the newest `count` and those of `steps`; call it once the newest is sealed.

    What can't be removed now stays: whole, or to be cleaned by the next attempt.
    """
    complete = [path for path in checkpoints.glob("checkpoint-*") if step_of(path) >= 0 and is_complete(path)]
    older = sorted(complete, key=step_of, reverse=True)[count:]
    for folder in older:
        if step_of(folder) not in steps:
            with contextlib.suppress(OSError):  # another program reads in it: no reason to end a run
                (folder / MARKER).unlink(missing_ok=True)  # first: a half-removed one must not count
                shutil.rmtree(folder)


def restore_replaced(folder: Path) -> None:
    """Put back what stood in a folder's place, where a process was killed just as it put something new there."""
    old = _old(folder)
    if is_link(old) or not old.is_dir():
        return
    if not folder.exists():
        with contextlib.suppress(OSError):  # it stays under the other name
            old.rename(folder)
    else:
        shutil.rmtree(old, ignore_errors=True)


def clean(checkpoints: Path) -> None:
    """Remove checkpoints that were never completed, and those that newer ones of the same step have replaced."""
    for old in checkpoints.glob(".checkpoint-*.old"):
        restore_replaced(old.with_name(old.name[1 : -len(".old")]))
    for folder in incomplete(checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(checkpoints / STAGE, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Give a damaged checkpoint a name under which it counts no longer; what is whole in it may still be of use."""
    aside = path.with_name(f"{DAMAGED}-{step_of(path)}")
    shutil.rmtree(aside, ignore_errors=True)
    return path.rename(aside)


def check_no_links(run: RunFolder) -> None:
    """Make sure that what a run writes stays in its folder: a stranger's may hold links to anywhere.

    Raises:
        RunFolderError: A folder that it would write into, or remove, is a link.
    """
    inside = [] if is_link(run.checkpoints) or not run.checkpoints.is_dir() else [*run.checkpoints.iterdir()]
    for path in (run.checkpoints, run.model, run.tensorboard, run.path / "examples", *inside):
        if is_link(path):
            raise RunFolderError(
                _("The run's folder leads elsewhere"),
                _(
                    "{path} is a link, and a run writes into its own folder only. Put a folder in its place."
                ).format(path=path),
            )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _take_place(new: Path, place: Path) -> None:
    """Rename a folder; one that stands in its place goes, just before."""
    _flush_names(new)
    restore_replaced(place)
    old = _old(place)
    if place.is_dir():
        place.rename(old)
    try:
        new.rename(place)
    except OSError:
        restore_replaced(place)
        raise
    _flush_names(place.parent)
    shutil.rmtree(old, ignore_errors=True)


def _old(folder: Path) -> Path:
    """Under which name a folder stands for the moment in which another takes its place."""
    return folder.with_name(f".{folder.name}.old")


def _flush(path: Path) -> None:
    """Have a file on disk before a name says that it is."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _flush_names(folder: Path) -> None:
    """The same for the names in a folder; Windows does it by itself."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems can't
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Start:
    """Where an attempt begins. `damaged` are the checkpoints that were skipped, under the names they have now."""

    checkpoint: Checkpoint | None = None
    damaged: tuple[Path, ...] = ()

    @property
    def step(self) -> int:
        """The step it goes on from; 0 for a run that begins."""
        return self.checkpoint.step if self.checkpoint is not None else 0

    def warn(self, reporter: Reporter) -> None:
        """Say what was passed over."""
        if not self.damaged:
            return
        names = ", ".join(f"{path.parent.name}/{path.name}" for path in self.damaged)
        where = (
            _("from the checkpoint of step {step:,}").format(step=self.step)
            if self.checkpoint
            else _("from the beginning")
        )
        reporter.warn(
            "checkpoint-damaged",
            _("The newest checkpoint is damaged: the run goes on {where}").format(where=where),
            f"Its files are no longer what was saved; a disk may be failing. It was set aside: {names}.",
        )


def find_checkpoint(run: RunFolder) -> Start:
    """Read all of the newest checkpoint and hold it against its hashes; a damaged one is set aside for the one before.

    It takes about a second for each GB. A model that was about to be replaced when the run was killed is put back, too.

    Raises:
        OSError: A damaged one can't be set aside.
    """
    damaged: list[Path] = []
    restore_replaced(run.model)
    for checkpoint in newest_first(run.checkpoints):
        if is_undamaged(checkpoint.path) and _is_of_its_step(checkpoint):
            return Start(checkpoint, tuple(damaged))
        damaged.append(set_aside(checkpoint.path))
    return Start(None, tuple(damaged))


class _State(msgspec.Struct):
    global_step: int


def _is_of_its_step(checkpoint: Checkpoint) -> bool:
    """Whether Trainer's own record names the step that the folder's name does."""
    try:
        state = msgspec.json.decode((checkpoint.path / STATE).read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return False
    return state.global_step == checkpoint.step
