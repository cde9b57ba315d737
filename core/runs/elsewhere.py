"""Which runs this Hone has started on other computers, and from which folders here.

A run's folder isn't trusted: it may be a copy, and its `connection.json` may say anything. So it is kept
outside of the folders, a small file for each run, which folder here a run there belongs to: only that one is followed
by itself, and only with that one the run there is deleted.
"""

import hashlib
from pathlib import Path

import msgspec

from core.base import settings
from core.base.files import place_of, read_record, remove, write_atomically


class _Started(msgspec.Struct, frozen=True, kw_only=True):
    """The run `folder` on `computer`, started from the folder at `path` here.

    `inode` is its number on its disk, which it keeps when it is renamed or moved there, and which a copy doesn't have.
    """

    computer: str
    folder: str
    path: str
    inode: int


def claim(path: Path, computer: str, folder: str) -> None:
    """Records that the run `folder` on `computer` belongs to the run's folder at `path` here.

    Raises:
        OSError: It can't be written.
    """
    file = _file(computer, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    started = _Started(computer=computer, folder=folder, path=place_of(path), inode=path.stat().st_ino)
    write_atomically(file, msgspec.json.format(msgspec.json.encode(started)))


def is_own(path: Path, computer: str, folder: str) -> bool:
    """Returns whether the run `folder` on `computer` belongs to the one at `path`, which may have been renamed."""
    started = read_record(_file(computer, folder), _Started)
    if started is None:
        return False
    was_moved = _inode(Path(started.path)) != started.inode
    return started.path == place_of(path) or (was_moved and _inode(path) == started.inode)


def owner(computer: str, folder: str) -> Path | None:
    """Returns the folder here from which a run there was started last, whether it still exists or not."""
    started = read_record(_file(computer, folder), _Started)
    return None if started is None else Path(started.path)


def release(computer: str, folder: str) -> None:
    """Forgets a run that was deleted.

    Raises:
        OSError: The record can't be deleted.
    """
    remove(_file(computer, folder))


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _file(computer: str, folder: str) -> Path:
    name = hashlib.sha256(f"{computer}\n{folder}".encode()).hexdigest()[:32]
    return settings.home() / "elsewhere" / f"{name}.json"
