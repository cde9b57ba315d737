"""How much room runs take on disk, counted anew only where files have come or gone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from core.run_folder import RunFolder

Stamp = tuple[int, ...]


class RunSizes:
    """Counts the bytes of runs and keeps them in mind. Ask it in one thread, and never in a window's."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, int]] = {}

    def of(self, run: RunFolder) -> int:
        """Bytes of all files of a run, as they are listed (links count as nothing); what can't be read isn't counted.

        A run whose folders and growing files bear the same dates as at the last count isn't counted again.
        """
        stamp = _stamp(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == stamp:
            return known[1]
        counted = sum(_file_sizes(run.path))
        self._known[run.path] = (stamp, counted)
        return counted


def _stamp(run: RunFolder) -> Stamp:
    """When something was last put into a run's folders or taken out, and when its growing files were last written."""
    looked_at = (run.path, run.checkpoints, run.model, run.tensorboard, run.events_file, run.machine_file)
    return tuple(map(_changed, looked_at))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _file_sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder. No link is followed: what it leads to stays when the run goes."""
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    size = _size_of(entry, waiting)
                    if size:
                        yield size
        except OSError:
            continue


def _size_of(entry: "os.DirEntry[str]", folders: list[str]) -> int:
    """The size of a file; of a folder 0, and it is added to `folders`."""
    try:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
            return 0
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
