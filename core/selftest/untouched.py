"""Nothing may be written inside the program's own folder: its listing before and after."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from core.figures import counted
from core.processes import SOURCE_ROOT, is_frozen
from core.selftest.checking import Failed

NAMED = 5
"""So many files are named at most."""

Listing = dict[str, tuple[int, int]]
"""Bytes and time of the last change in nanoseconds, by path."""


def own_folders() -> list[Path]:
    """What belongs to the program: the bundle, on a Mac the whole of its `.app`; of a source tree its packages."""
    if not is_frozen():
        return [SOURCE_ROOT / name for name in ("core", "gui", "resources")]
    program = Path(sys.executable).resolve()
    apps = [folder for folder in program.parents if folder.suffix == ".app"]
    return [apps[0] if apps else program.parent]


def listing(folders: list[Path]) -> Listing:
    """What is in the folders; byte code, which Python keeps beside the source, doesn't count."""
    return {
        entry.path: (found.st_size, found.st_mtime_ns)
        for folder in folders
        for entry in _entries(folder)
        if (found := entry.stat(follow_symlinks=False))
    }


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__" and not is_frozen():
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path))
            else:
                yield entry


class Untouched:
    """Remembers what is in the program's folders; `check` finds out whether anything came, went or changed."""

    def __init__(self, folders: list[Path] | None = None) -> None:
        self._folders = own_folders() if folders is None else folders
        self._before = listing(self._folders)

    def check(self, _folder: Path) -> str:
        """Raises `Failed` where something is otherwise than before."""
        after = listing(self._folders)
        changed = sorted(
            path for path in self._before.keys() | after.keys() if self._before.get(path) != after.get(path)
        )
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise Failed(f"{counted(len(changed), 'file')} changed: {', '.join(changed[:NAMED])}{more}")
        writable = any(os.access(folder, os.W_OK) for folder in self._folders)
        could = "which could have been written to" if writable else "which can't be written to either"
        return f"{len(after):,} files are as they were, in a folder {could}"
