"""The files and folders trained on lately, so that they can be chosen again."""

import contextlib
import logging
from pathlib import Path

import msgspec

from core import settings
from core.files import write_atomically
from core.sources import Scheme, scheme_of

MOST = 8

log = logging.getLogger("hone")


def recent() -> tuple[str, ...]:
    """Sources as `data.train` takes them, the newest first; those that are gone are left out."""
    return tuple(source for source in _kept() if scheme_of(source) or Path(source).exists())


def remember(source: str) -> None:
    """Put a source first; one that is no file, folder or data set of the Hub is not worth it."""
    is_path = scheme_of(source) is None and Path(source).is_absolute()
    if not (is_path or scheme_of(source) is Scheme.HUB):
        return
    before = _kept()
    kept = [source, *(other for other in before if other != source)][:MOST]
    if kept == before:
        return
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), msgspec.json.encode(kept))
    except OSError as error:
        log.warning("what was trained on can't be kept: %s", error)


def _kept() -> list[str]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file().read_bytes(), type=list[str])[:MOST]
    return []


def _file() -> Path:
    return settings.home() / "recent-data.json"
