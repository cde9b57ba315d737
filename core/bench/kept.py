"""Results of benchmarks as files in Hone's home, readable without Hone and for years."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core import bin as the_bin
from core import settings
from core.bench.result import SCHEMA, Result
from core.errors import Fix, UserError
from core.files import read_small, write_atomically

_NO_NAME = re.compile(r"[^a-z0-9.]+")


class CantRead(UserError):  # noqa: N818 - said as the window says it
    """A file is no result that this Hone can read."""


class _Head(msgspec.Struct):
    """All that is read of a file before it is known which Hone wrote it."""

    schema: int


@dataclass(frozen=True)
class Kept:
    """A file of the folder of results: what it holds, or the `problem` why not, to be read on after its name."""

    path: Path
    result: Result | None = None
    problem: str = ""
    changed: float = 0.0

    @property
    def begun(self) -> float:
        """When it was measured, in unix seconds; of a file that can't be read, when that was last changed."""
        return self.result.begun if self.result is not None else self.changed


def folder() -> Path:
    """Where results are kept."""
    return settings.home() / "benchmarks"


def path_of(result: Result) -> Path:
    """The file of a result: its date and time, its kind and its model."""
    begun = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(result.begun))
    model = _NO_NAME.sub("-", result.plan.model.lower()).strip("-.")[:40]
    return folder() / f"{'-'.join(filter(None, (begun, result.kind.value, model)))}.json"


def save(result: Result) -> Path:
    """Write a result whole or not at all, over what was kept of it before; returns its file.

    Raises:
        OSError: It can't be written.
    """
    path = path_of(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, written(result))
    return path


def written(result: Result) -> bytes:
    """A result as its file has it."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def load(path: Path) -> Result:
    """Read a result.

    Raises:
        CantRead: It is none, is damaged, or a newer Hone wrote it.
    """
    try:
        content = read_small(path)
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise CantRead(f"{path.name} can't be read", f"{path}: {said}.") from error
    try:
        head = msgspec.json.decode(content, type=_Head)
        if head.schema > SCHEMA:
            raise CantRead(
                f"{path.name} is of a newer Hone",
                f"It has layout {head.schema}; this Hone reads up to {SCHEMA}.",
                (Fix("Update Hone"),),
            )
        return msgspec.json.decode(content, type=Result)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, other fields, or no UTF-8
        raise CantRead(
            f"{path.name} is damaged", f"It isn't the result of a benchmark, or no longer: {error}."
        ) from error


def kept() -> list[Kept]:
    """All files of the folder, the newest first; at the end those that can't be read, with the reason."""
    try:
        paths = [path for path in folder().iterdir() if path.suffix == ".json" and path.name[0] != "."]
    except OSError:
        return []
    return sorted(
        map(_looked_at, paths),
        key=lambda one: (one.result is not None, one.begun, one.path.name),
        reverse=True,
    )


def _looked_at(path: Path) -> Kept:
    try:
        return Kept(path, load(path))
    except CantRead as error:
        said = f"{error.title}. {error.detail}".removeprefix(f"{path.name} ")
        return Kept(path, problem=said, changed=_changed(path))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def remove(path: Path, trash: the_bin.Trash | None = None) -> None:
    """Move a kept file to the system's bin.

    Raises:
        NoBinError: There is no bin for it, or the bin refused it.
    """
    the_bin.move_path(path, trash)
