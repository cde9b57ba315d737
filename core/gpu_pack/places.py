"""Where the GPU pack, those in the making, and its downloads lie: all in Hone's own folder, on one disk."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from core.settings import home

NAME = "gpu-pack"
LOCK = ".gpu-pack.lock"
LOG = "gpu-pack.log"


def pack_folder() -> Path:
    """The pack that the engine runs from, where there is one."""
    return home() / NAME


def cache_folder() -> Path:
    """Downloads of an installation that isn't done: the next one goes on with them."""
    return home() / f"{NAME}.cache"


def new_folder() -> Path:
    """A name for a pack in the making; nobody runs from it."""
    return home() / f"{NAME}.new-{uuid.uuid4().hex[:8]}"


def old_folder() -> Path:
    """A name for a pack that another one has taken the place of."""
    return home() / f"{NAME}.old-{uuid.uuid4().hex[:8]}"


def leftovers() -> list[Path]:
    """Packs that were never done, and old ones of which not all could be deleted."""
    return [path for kind in ("new", "old") for path in home().glob(f"{NAME}.{kind}-*")]


def clear_leftovers() -> None:
    """Delete them, as far as the system lets: a program may still have a file of theirs open."""
    for path in leftovers():
        shutil.rmtree(path, ignore_errors=True)


def size_of(*folders: Path) -> int:
    """Bytes of all files in some folders, a file with several names counted once; what vanishes meanwhile isn't."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for found in (found for folder in folders for found in _files(folder)):
        if found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
        total += found.st_size
    return total


def _files(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield Path(parent, name).lstat()
            except OSError:
                continue
