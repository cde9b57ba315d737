"""A file of text, read block by block whatever its size, unpacked and decoded."""

import codecs
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.ceiling import Pace, reading, say
from core.engine.data.file_kinds import GZIP_MAGIC, MAGIC_BYTES
from core.errors import DataError, Fix

BLOCK_BYTES = 4 * 2**20
"""Read and decoded at once."""

Tell = Callable[[int, int], None]
"""Called with the bytes done and the bytes to go through in all, which grow where a file has to be read once more."""


class Passes:
    """How far the reading of one file has come, over all the times it is gone through."""

    def __init__(self, size: int, tell: Tell | None) -> None:
        self._size, self._tell = size, tell
        self._begun, self._expected = 0, 3

    def begin(self) -> None:
        """The file is read from its start (again)."""
        self._begun += 1
        self._expected = max(self._expected, self._begun)

    def at(self, place: int) -> None:
        """So many bytes of this pass are done."""
        if self._tell:
            self._tell((self._begun - 1) * self._size + place, self._expected * self._size)

    def end(self) -> None:
        """Everything is done."""
        if self._tell:
            self._tell(self._expected * self._size, self._expected * self._size)


@dataclass(frozen=True)
class TextFile:
    """A text on disk and what was seen of it on the way through.

    `size` is in bytes, unpacked; `newline` is what ends its lines, a lone carriage return where there is nothing else.
    """

    path: Path
    encoding: str
    errors: str
    is_packed: bool
    size: int
    has_quotes: bool
    has_marks: bool
    newline: str
    notes: tuple[str, ...] = ()
    passes: Passes = field(default_factory=lambda: Passes(0, None), repr=False)

    def texts(self) -> Iterator[str]:
        """The text in blocks, without byte order marks."""
        self.passes.begin()
        return self._decoded()

    def blocks(self) -> Iterator[bytes]:
        """The text in blocks of UTF-8."""
        if self.encoding != "utf-8-sig" or self.errors != "strict" or self.has_marks:
            return (text.encode() for text in self.texts())
        self.passes.begin()
        return self._as_they_are()

    def head(self, characters: int) -> str:
        """The first characters."""
        text = ""
        for block in self._decoded(quietly=True):
            text += block
            if len(text) >= characters:
                break
        return text[:characters]

    def whole(self) -> str:
        """All of it."""
        return "".join(self.texts())

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """The lines in blocks, each with the number of its first line; without their ends."""
        number, parts = 1, list[str]()
        for block in self.texts():
            whole, end, rest = block.rpartition(self.newline)
            if end:
                lines = "".join((*parts, whole)).split(self.newline)
                parts = []
                yield number, lines
                number += len(lines)
            parts.append(rest)
        if any(parts):
            yield number, ["".join(parts)]

    def _decoded(self, quietly: bool = False) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)(self.errors)
        for block in raw_blocks(self.path, None if quietly else self.passes):
            text = decoder.decode(block)
            yield text.replace("\ufeff", "") if self.has_marks else text
        yield decoder.decode(b"", True)

    def _as_they_are(self) -> Iterator[bytes]:
        is_first = True
        for block in raw_blocks(self.path, self.passes):
            yield block.removeprefix(codecs.BOM_UTF8) if is_first else block
            is_first = False


def size_of(path: Path) -> int:
    """The size in bytes of a file that can be read.

    Raises:
        DataError: It is missing, empty, a folder, a device or a pipe, or may not be read.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _no_file(path, found.st_mode)
        path.open("rb").close()
    except FileNotFoundError as error:
        why = f"{path} is a link to {path.readlink()}, which doesn't exist." if path.is_symlink() else ""
        raise DataError(f"There is no {path.name}", why or f"{path} doesn't exist.") from error
    except OSError as error:
        raise unreadable(path, error) from error
    if found.st_size == 0:
        raise DataError(f"{path.name} is empty", f"{path} holds 0 bytes.", (Fix("Choose another file"),))
    return found.st_size


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for a file that the operating system doesn't let through."""
    advice = "Choose another file"
    why = error.strerror or str(error)
    if isinstance(error, PermissionError):
        advice = "Allow yourself to read it, or copy it to a folder of yours"
    elif path.is_symlink():
        why, advice = f"a link that leads in a circle or nowhere ({why})", "Choose the file itself"
    return DataError(f"{path.name} can't be read", f"{path}: {why}.", (Fix(advice),))


def in_order(paths: Iterable[Path]) -> list[Path]:
    """The paths in order.

    Raises:
        DataError: A name isn't UTF-8, which no report or run could hold.
    """
    for path in (found := sorted(paths)):
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            shown = os.fsencode(path).decode(errors="replace")
            raise DataError(
                "A file or folder has a name that is not UTF-8",
                f"{shown}: � stands for bytes that are not valid UTF-8.",
                (Fix("Rename it"),),
            ) from error
    return found


def _no_file(path: Path, mode: int) -> DataError:
    if stat.S_ISDIR(mode):
        return DataError(
            f"{path.name} is a folder",
            f"{path}: rows are read from one file.",
            (Fix("Choose a CSV, TSV, JSON, JSONL or Parquet file"),),
        )
    return DataError(
        f"{path.name} is no file",
        f"{path} is a pipe or a device, which can't be read twice.",
        (Fix("Save what comes out of it in a file, and choose that"),),
    )


def first_bytes(path: Path) -> bytes:
    """The first `MAGIC_BYTES`, unpacked."""
    return next(raw_blocks(path, None, MAGIC_BYTES), b"")


def raw_blocks(path: Path, passes: Passes | None, size: int = 0) -> Iterator[bytes]:
    """A file's bytes in blocks, unpacked where it is packed with gzip.

    Raises:
        DataError: It can't be read, or the packing is damaged.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            with reading(path.name), gzip.GzipFile(fileobj=file) if is_packed else file as content:
                while block := content.read(size or BLOCK_BYTES):
                    say(path.name, Pace.SLOW)
                    if passes:
                        passes.at(file.tell())
                    yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path.name} is damaged",
            f"{path} is compressed with gzip and can't be unpacked: {error}.",
            (Fix("Get the file again"),),
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
