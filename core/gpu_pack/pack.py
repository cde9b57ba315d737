"""What a GPU pack says of itself, in a file that is written last: without it, it is none."""

from pathlib import Path
from typing import TypeVar

import msgspec

from core.files import read_small, write_atomically

Content = TypeVar("Content", bound=msgspec.Struct)

SCHEMA = 1
MARKER = "pack.json"
FILLED = "filled.json"
"""Written once Python and all libraries are there: a newer Hone that needs the same takes them over."""

LIBRARIES = "libraries"
PYTHON = "python"
OWN = "hone"


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a pack is filled with.

    `python` is Python's version such as 3.11, `build` the build of PyTorch such as cu130 (empty: whichever a folder of
    wheels holds), `requirements` and `pins` are lines as pip takes them.
    """

    python: str
    build: str
    requirements: tuple[str, ...]
    pins: tuple[str, ...] = ()


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A pack with all its libraries. `interpreter` is a path in the pack's folder, or a full one beside it."""

    needs: Needs
    interpreter: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What the check inside a pack found: PyTorch, the CUDA it was built with, the card it computed on.

    `device` is empty where PyTorch reaches no card; `problem` then says why, as far as it told.
    """

    torch: str
    cuda: str | None = None
    device: str = ""
    problem: str = ""


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that is done: which Hone made it, what is in it, what the check found, and its bytes."""

    hone: str
    filled: Filled
    checked: Checked
    size: int
    schema: int = SCHEMA


def read_pack(folder: Path) -> Pack | None:
    """The pack in a folder; None: there is none, or it isn't done."""
    found = _read(folder / MARKER, Pack)
    return found if found is not None and found.schema == SCHEMA else None


def read_filled(folder: Path) -> Filled | None:
    """What a pack is filled with, whether or not it is done; None: not known."""
    return _read(folder / FILLED, Filled)


def write(path: Path, content: msgspec.Struct) -> None:
    """Write one of these, whole or not at all."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(content)))


def interpreter_of(folder: Path, filled: Filled) -> Path:
    """The Python that a pack runs on."""
    return folder / filled.interpreter  # a full path stays what it is


def _read(path: Path, kind: type[Content]) -> Content | None:
    try:
        return msgspec.json.decode(read_small(path), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
