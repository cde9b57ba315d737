"""Move runs to the operating system's trash, or delete them.

A run that trains or waits in the queue is never moved. Callers ask the person first, with what `plan` lists.
"""

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import RunFolderError
from core.base.files import locked
from core.options.past_runs import run_folder
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.summary import RunSizes, state_at_end

Trash = Callable[[Path], None]
"""Moves a folder to the bin; raises OSError where it can't."""

FIXED_DRIVE = 3
"""What Windows calls a drive that is built in: only these surely have a bin."""


class NoBinError(RunFolderError):
    """There is no bin for it: only deleting it for good would take it away."""


@dataclass(frozen=True)
class Going:
    """A run that may go: its title, its bytes, and the titles of other runs, which stay, that start from its model."""

    run: RunFolder
    title: str
    size: int
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class BinPlan:
    """Which runs may go, and the titles of those that may not because they train or wait for their turn."""

    going: tuple[Going, ...]
    busy: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that go."""
        return sum(one.size for one in self.going)

    @property
    def needed(self) -> tuple[Going, ...]:
        """Those whose model other runs, which stay, start from."""
        return tuple(one for one in self.going if one.needed_by)


def plan(runs: Sequence[RunFolder], runs_folder: Path) -> BinPlan:
    """Look at runs that a person wants to be rid of. Reads many files.

    Args:
        runs: The runs.
        runs_folder: Where other runs are, that may start from a model of these.
    """
    free = [run for run in runs if not is_busy(run)]
    busy = tuple(run_title(run) for run in runs if run not in free)
    needed_by = _needed_by(free, runs_folder)
    sizes = RunSizes()
    return BinPlan(
        tuple(Going(run, run_title(run), sizes.of(run), needed_by.get(run.path, ())) for run in free), busy
    )


def is_busy(run: RunFolder) -> bool:
    """Whether somebody works on a run, or it waits for its turn."""
    return not state_at_end(run).is_over


def move(run: RunFolder, trash: Trash | None = None) -> None:
    """Move a run to the bin.

    Args:
        run: The run.
        trash: What moves it; None: send2trash.

    Raises:
        NoBinError: There is no bin for it, or the bin refused it.
        RunFolderError: It trains, waits, or is gone.
    """
    with _kept_from_starting(run):
        move_path(run.path, trash)


def move_path(path: Path, trash: Trash | None = None) -> None:
    """Move a file or folder to the bin, whatever it is; see `move`.

    Raises:
        NoBinError: There is no bin for it, or the bin refused it.
    """
    if not _surely_has_bin(path):
        raise NoBinError("This disk has no bin", f"Windows would delete {path} for good.")
    try:
        (trash or _send_to_trash)(path)
    except OSError as error:
        said = f"{path} can't be moved to the bin: {error.strerror or error}"
        raise NoBinError("The bin didn't take it", said) from error


def delete(run: RunFolder) -> None:
    """Delete a run for good. A link to a run's folder is taken away, and the folder stays.

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
            said = f"{error.filename or run.path}: {error.strerror or error}"
            raise RunFolderError("Not all of it could be deleted", said) from error


@contextlib.contextmanager
def _kept_from_starting(run: RunFolder) -> Iterator[None]:
    """Let nobody start a run while it is taken away. Windows moves no folder with an open file in it: it looks only.

    Raises:
        RunFolderError: It trains, waits, or is gone.
    """
    with contextlib.ExitStack() as held:
        try:
            if run.path.is_dir():
                held.enter_context(locked(run.path))
        except TimeoutError as error:
            raise RunFolderError("The run is just being started", str(run.path)) from error
        except OSError:  # where nothing can be written, nothing can be started
            pass
        _refuse_busy(run)
        if os.name == "nt":
            held.close()
        yield


def _refuse_busy(run: RunFolder) -> None:
    """Ask anew: it may have been resumed since a person was asked.

    Raises:
        RunFolderError: It trains, waits or is gone.
    """
    if not run.path.is_dir():
        raise RunFolderError("The run is gone", f"There is nothing at {run.path} any more.")
    if is_busy(run):
        raise RunFolderError(
            "The run isn't over", f"{run_title(run)} trains, or waits for its turn. Stop it first."
        )


def _needed_by(runs: Iterable[RunFolder], runs_folder: Path) -> dict[Path, tuple[str, ...]]:
    """The titles of the runs that stay and start from a model of one that goes, by its folder."""
    going = {run.path.absolute(): run.path for run in runs}
    found: dict[Path, list[str]] = {}
    for other in _others(going, runs_folder):
        source = _source(other)
        for path in (source, source.parent) if source else ():
            if path in going:
                found.setdefault(going[path], []).append(run_title(other))
                break
    return {path: tuple(titles) for path, titles in found.items()}


def _others(going: dict[Path, Path], runs_folder: Path) -> list[RunFolder]:
    try:
        return [run for run in list_runs(runs_folder) if run.path.absolute() not in going]
    except OSError:
        return []


def _source(run: RunFolder) -> Path | None:
    """Where a run's model comes from, where that is a folder on this computer: a run's, or a model's."""
    options = run.readable_options()
    if options is None:
        return None
    source = options.model.source
    folder = run_folder(source)
    return folder.absolute() if folder else Path(source) if Path(source).is_absolute() else None


def _send_to_trash(path: Path) -> None:
    from send2trash import send2trash  # loads the system's own libraries

    send2trash(str(path))


def _surely_has_bin(path: Path) -> bool:
    """Whether Windows would ask its bin: on a stick or a network drive it deletes at once and says nothing."""
    windows = getattr(ctypes, "windll", None)
    if windows is None:
        return True  # all others refuse what they can't put back
    drive = os.path.splitdrive(path.absolute())[0] + "\\"
    return bool(windows.kernel32.GetDriveTypeW(drive) == FIXED_DRIVE)
