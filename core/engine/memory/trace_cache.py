"""Traces kept between questions: the same model with the same options is traced once.

A small file each in Hone's folder, named by a digest of all it depends on; any of them may be removed at any time.
"""

import contextlib
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from core.base import settings
from core.base.files import write_atomically
from core.base.settings import VERSION
from core.engine.memory.rehearsal import Rehearsed

FORMAT = 1
MOST_KEPT = 200
LIBRARIES = ("torch", "torchvision", "transformers", "peft", "accelerate")


def key_of(*depends_on: Any) -> str:
    """The name of what depends on these values, on this Hone and on its libraries."""
    known = (FORMAT, VERSION, *map(version, LIBRARIES), *depends_on)
    return hashlib.blake2b(msgspec.json.encode(known, order="deterministic"), digest_size=16).hexdigest()


def find(key: str) -> Rehearsed | None:
    """The trace of that name; None where there is none, or where it is damaged."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        path = _path(key)
        content = msgspec.json.decode(path.read_bytes(), type=Rehearsed)
        path.touch()
        return content
    return None


def keep(key: str, trace: Rehearsed) -> None:
    """Keep it for the next time, and the newest of the others; a folder that can't be written to costs only time."""
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(_path(key), msgspec.json.encode(trace))
        newest_first = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest_first[MOST_KEPT:]:
            path.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return _folder() / f"{key}.json"


def _folder() -> Path:
    return settings.home() / "cache" / "forecasts"
