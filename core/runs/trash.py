"""Move runs to the operating system's trash, or delete them.

A run that trains or waits in the queue is never moved. Callers ask the person first, with what `plan` lists.
"""

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import RunFolderError
from core.base.files import locked
from core.base.language import _
from core.options.past_runs import run_folder
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.summary import RunSizes, state_at_end

Trash = Callable[[Path], None]
"""Moves a folder to the trash; raises OSError where it can't."""

FIXED_DRIVE = 3
"""What Windows calls a drive that is built in: only these surely have a trash."""


class NoTrashError(RunFolderError):
    """There is no trash for it: only deleting it permanently would remove it."""


@dataclass(frozen=True)
class TrashItem:
    """A run that may go: its title, its bytes, and the titles of other runs, which stay, that start from its model."""

    run: RunFolder
    title: str
    size: int
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrashPlan:
    """Which runs may go, and the titles of those that may not because they train or wait for their turn."""

    going: tuple[TrashItem, ...]
    busy: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that go."""
        return sum(one.size for one in self.going)

    @property
    def needed(self) -> tuple[TrashItem, ...]:
        """Those whose model other runs, which stay, start from."""
        return tuple(one for one in self.going if one.needed_by)


def plan(runs: Sequence[RunFolder], runs_folder: Path) -> TrashPlan:
    """Inspect runs that a person wants to delete. Reads many files.

    Args:
        runs: The runs.
        runs_folder: Where other runs are, that may start from a model of these.
    """
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
    """Move a run to the trash.

    Args:
        run: The run.
        trash: What moves it; None: send2trash.

    Raises:
        NoTrashError: There is no trash for it, or the trash refused it.
        RunFolderError: It trains, waits, or is gone.
    """
    with _kept_from_starting(run):
        move_path(run.path, trash)


def move_path(path: Path, trash: Trash | None = None) -> None:
    """Move any file or folder to the trash; see `move`.

    Raises:
        NoTrashError: There is no trash for it, or the trash refused it.
    """
    windows = getattr(ctypes, "windll", None)
    drive = os.path.splitdrive(path.absolute())[0] + "\\"
    if windows is not None and windows.kernel32.GetDriveTypeW(drive) != FIXED_DRIVE:
        # it deletes at once and without a question; other systems refuse what they can't put back
        raise NoTrashError(
            _("This disk has no trash"), _("Windows would delete {path} permanently.").format(path=path)
        )
    try:
        (trash or _send_to_trash)(path)
    except OSError as error:
        detail = _("{path} can't be moved to the trash: {strerror}").format(
            path=path, strerror=error.strerror or error
        )
        raise NoTrashError(_("It could not be moved to the trash"), detail) from error


def delete(run: RunFolder) -> None:
    """Delete a run permanently. A link to a run's folder is removed, and the folder stays.

    Raises:
        RunFolderError: It trains or waits, or not all of it can be deleted.
    """
    with _kept_from_starting(run):
        try:
            if run.path.is_symlink():
                run.path.unlink()
            else:
                shutil.rmtree(run.path)
        except OSError as error:
            detail = f"{error.filename or run.path}: {error.strerror or error}"
            raise RunFolderError(_("Not all of it could be deleted"), detail) from error


@contextlib.contextmanager
def _kept_from_starting(run: RunFolder) -> Iterator[None]:
    """Keep everybody from starting a run while it is removed; it may have been resumed since the person was asked.

    Raises:
        RunFolderError: It trains, waits, or is gone.
    """
    with contextlib.ExitStack() as held:
        try:
            if run.path.is_dir():
                held.enter_context(locked(run.path))
        except TimeoutError as error:
            raise RunFolderError(_("The run is just being started"), str(run.path)) from error
        except OSError:  # where nothing can be written, nothing can be started
            pass
        if not run.path.is_dir():
            raise RunFolderError(
                _("The run no longer exists"), _("There is nothing at {path} any more.").format(path=run.path)
            )
        if not state_at_end(run).is_over:
            raise RunFolderError(
                _("The run isn't over"),
                _("{run} is training or waiting for its turn. Stop it first.").format(run=run_title(run)),
            )
        if os.name == "nt":  # which moves no folder with an open file in it
            held.close()
        yield


def _send_to_trash(path: Path) -> None:
    from send2trash import send2trash  # loads the system's own libraries

    send2trash(str(path))
