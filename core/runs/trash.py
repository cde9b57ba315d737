"""Move runs to the operating system's trash, or delete them permanently.

A run that trains or waits in the queue is refused. Callers show `plan` to the person and ask for confirmation first.
"""

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import RunFolderError, why
from core.base.files import locked
from core.base.language import _
from core.options.past_runs import run_folder
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.summary import RunSizes, state_at_end

Trash = Callable[[Path], None]
"""Moves a file or folder to the trash; raises OSError if it can't."""

FIXED_DRIVE = 3
"""DRIVE_FIXED of GetDriveTypeW: only such drives are sure to have a recycle bin."""


class NoTrashError(RunFolderError):
    """It can't be moved to the trash; it can only be deleted permanently."""


@dataclass(frozen=True)
class TrashItem:
    """A run that can be removed: its title, size in bytes, and titles of remaining runs that start from its model."""

    run: RunFolder
    title: str
    size: int
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrashPlan:
    """The runs that can be removed, and the titles of those that can't because they train or wait for their turn."""

    going: tuple[TrashItem, ...]
    busy: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The size of all of them in bytes."""
        return sum(one.size for one in self.going)

    @property
    def needed(self) -> tuple[TrashItem, ...]:
        """Those whose model remaining runs start from."""
        return tuple(one for one in self.going if one.needed_by)


def plan(runs: Sequence[RunFolder], runs_folder: Path) -> TrashPlan:
    """Finds out which runs can be removed, and which others start from their models. Reads many files."""
    free = [run for run in runs if state_at_end(run).is_over]
    going = {run.path.absolute() for run in free}
    needed_by: dict[Path, list[str]] = {}
    with contextlib.suppress(OSError):
        for other in list_runs(runs_folder):
            options = other.readable_options()
            if options is None or other.path.absolute() in going:
                continue
            source = (run_folder(options.model.source) or Path(options.model.source)).absolute()
            for path in going & {source, source.parent}:  # a run, or its model's folder
                needed_by.setdefault(path, []).append(run_title(other))
    sizes = RunSizes()
    return TrashPlan(
        tuple(
            TrashItem(run, run_title(run), sizes.of(run), tuple(needed_by.get(run.path.absolute(), ())))
            for run in free
        ),
        busy=tuple(run_title(run) for run in runs if run not in free),
    )


def move(run: RunFolder, trash: Trash | None = None) -> None:
    """Moves a run to the trash; by default, with send2trash.

    Raises:
        NoTrashError: It can't be moved to the trash.
        RunFolderError: It trains, waits for its turn, or doesn't exist any more.
    """
    with _kept_from_starting(run):
        move_path(run.path, trash)


def move_path(path: Path, trash: Trash | None = None) -> None:
    """Moves any file or folder to the trash; see `move`.

    Raises:
        NoTrashError: It can't be moved to the trash.
    """
    windows = getattr(ctypes, "windll", None)
    drive = os.path.splitdrive(path.absolute())[0] + "\\"
    if windows is not None and windows.kernel32.GetDriveTypeW(drive) != FIXED_DRIVE:
        # there it would be deleted without asking; other systems refuse what they can't restore
        raise NoTrashError(
            _("This disk has no trash"), _("Windows would delete {path} permanently.").format(path=path)
        )
    from send2trash import send2trash  # here: it loads libraries of the system

    try:
        (trash or send2trash)(path)
    except OSError as error:
        detail = _("{path} can't be moved to the trash: {strerror}").format(path=path, strerror=why(error))
        raise NoTrashError(_("It could not be moved to the trash"), detail) from error


def delete(run: RunFolder) -> None:
    """Deletes a run permanently. Of a link to a run's folder only the link is deleted.

    Raises:
        RunFolderError: It trains, waits for its turn, doesn't exist any more, or not all of it can be deleted.
    """
    with _kept_from_starting(run):
        try:
            if run.path.is_symlink():
                run.path.unlink()
            else:
                shutil.rmtree(run.path)
        except OSError as error:
            detail = f"{error.filename or run.path}: {why(error)}"
            raise RunFolderError(_("Not all of it could be deleted"), detail) from error


@contextlib.contextmanager
def _kept_from_starting(run: RunFolder) -> Iterator[None]:
    """Locks a run so that it can't be started while it is removed; it may have been resumed since `plan`."""
    with contextlib.ExitStack() as held:
        try:
            if run.path.is_dir():
                held.enter_context(locked(run.path))
        except TimeoutError as error:
            raise RunFolderError(_("The run is just being started"), str(run.path)) from error
        except OSError:  # the folder is read-only: nothing can be started in it
            pass
        if not run.path.is_dir():
            raise RunFolderError(
                _("The run no longer exists"), _("There is nothing at {path} any more.").format(path=run.path)
            )
        if not state_at_end(run).is_over:
            raise RunFolderError(
                _("The run isn't over"),
                _("{run} is running or waits for its turn. Stop it first.").format(run=run_title(run)),
            )
        if os.name == "nt":  # Windows moves no folder that has an open file
            held.close()
        yield
