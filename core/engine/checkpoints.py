"""A checkpoint counts when its marker, written last, lists every file with size and hash."""

import hashlib
import shutil
from pathlib import Path

import msgspec

from core.files import write_atomically

MARKER = "complete.json"
PICKLED_ARGUMENTS = "training_args.bin"


class FileEntry(msgspec.Struct, frozen=True):
    """One file of a checkpoint: its size in bytes and SHA-256."""

    bytes: int
    sha256: str


def seal(folder: Path) -> int:
    """Complete a checkpoint: drop Trainer's pickle of its arguments and write the marker.

    Returns:
        The checkpoint's size in bytes.
    """
    drop_pickle(folder)
    entries = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MARKER:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entries[path.relative_to(folder).as_posix()] = FileEntry(path.stat().st_size, digest)
    write_atomically(folder / MARKER, msgspec.json.encode(entries))
    return sum(entry.bytes for entry in entries.values())


def drop_pickle(folder: Path) -> None:
    """Remove `training_args.bin`: a pickle that nothing of Hone's reads and nobody should open."""
    (folder / PICKLED_ARGUMENTS).unlink(missing_ok=True)


def is_complete(folder: Path) -> bool:
    """Whether the marker is there and every file it lists has its size."""
    try:
        entries = msgspec.json.decode((folder / MARKER).read_bytes(), type=dict[str, FileEntry])
    except (OSError, msgspec.MsgspecError):
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == e.bytes for name, e in entries.items()
    )


def keep_newest(checkpoints: Path, count: int) -> None:
    """Remove all complete checkpoints but the newest `count`; call it once the newest is sealed."""
    complete = [folder for folder in checkpoints.glob("checkpoint-*") if is_complete(folder)]
    for folder in sorted(complete, key=_step)[:-count]:
        shutil.rmtree(folder)


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def clean(checkpoints: Path) -> None:
    """Remove checkpoints that were never completed."""
    if checkpoints.is_dir():
        for folder in checkpoints.glob("checkpoint-*"):
            if folder.is_dir() and not is_complete(folder):
                shutil.rmtree(folder)
