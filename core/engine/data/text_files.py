"""A file of text, read block by block whatever its size, unpacked and decoded."""

import codecs
import contextlib
import gzip
import json
import os
import shutil
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.ceiling import RESERVE, RESERVE_SHARE, Pace, reading, say
from core.base.errors import DataError, Fix
from core.base.formats import size
from core.base.language import _

MOST_LISTED, LONGEST_NAME = 8, 80


def listed(names: Collection[str]) -> str:
    """Names of columns, classes or files in a row: the first of many, and the beginnings of long ones."""
    shown = (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        for name in islice(names, MOST_LISTED)
    )
    more = _(" and {names:,} more").format(names=len(names) - MOST_LISTED) if len(names) > MOST_LISTED else ""
    return ", ".join(f"“{name}”" for name in shown) + more


# --- What a file of rows is: by its ending, and by what is really in it


class Kind(Enum):
    """The forms of rows Hone reads."""

    DELIMITED = "CSV"
    JSON = "JSON"
    JSON_LINES = "JSONL"
    PARQUET = "Parquet"
    CONLL = "CoNLL"


ENDINGS: dict[str, Kind] = {
    ".csv": Kind.DELIMITED,
    ".tsv": Kind.DELIMITED,
    ".tab": Kind.DELIMITED,
    ".json": Kind.JSON,
    ".jsonl": Kind.JSON_LINES,
    ".ndjson": Kind.JSON_LINES,
    ".parquet": Kind.PARQUET,
    ".pq": Kind.PARQUET,
    ".conll": Kind.CONLL,
    ".conllu": Kind.CONLL,
    ".bio": Kind.CONLL,
    ".iob": Kind.CONLL,
    ".iob2": Kind.CONLL,
}
"""Any other ending is decided by the content alone."""

TEXT_ENDINGS = (".txt", ".text", ".md", ".markdown", ".rst")
"""Running text, in files of its own."""

PARQUET_MAGIC = b"PAR1"
GZIP_MAGIC = b"\x1f\x8b"
MAGIC_BYTES = 32
"""So many first bytes tell what a file is."""


_UNPACK, _SAVE_AS_CSV, _FOR_IMAGES = (
    _("Unpack it"),
    _("Save the sheet as CSV"),
    _("For images choose the task Image classification"),
)
_WEB_PAGE = ("a web page; a download that went wrong often is", _("Download the file again"))
FOREIGN: dict[bytes, tuple[str, str]] = {
    b"PK\x03\x04": (_("a ZIP file or an Excel workbook"), _("Unpack it, or save the sheet as CSV")),
    b"\xd0\xcf\x11\xe0": (_("an old Excel or Word file"), _SAVE_AS_CSV),
    b"%PDF": ("a PDF", _("Choose a table: CSV, TSV, JSON, JSONL or Parquet")),
    b"\x89PNG": (_("a PNG image"), _FOR_IMAGES),
    b"\xff\xd8\xff": (_("a JPEG image"), _FOR_IMAGES),
    b"GIF8": (_("a GIF image"), _FOR_IMAGES),
    b"\x28\xb5\x2f\xfd": (_("a file compressed with zstd"), _UNPACK),
    b"BZh": (_("a file compressed with bzip2"), _UNPACK),
    b"\xfd7zXZ\x00": (_("a file compressed with xz"), _UNPACK),
    b"7z\xbc\xaf": ("a 7z archive", _UNPACK),
    b"SQLite format 3": (_("an SQLite database"), _("Export the table as CSV")),
    b"ARROW1": (_("an Arrow file"), _("Save the table as Parquet")),
    b"{\\rtf": (_("a text with formatting (RTF)"), _("Save it as plain text in UTF-8")),
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
    b"<?xml": (_("an XML file"), _("Convert it to CSV or JSON")),
}
"""The first bytes of files that hold no rows Hone can read, what they are, and what to do about it."""


def ending(path: Path) -> str:
    """The ending that tells the kind, in lower case: `.csv` also of `reviews.csv.gz`."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


def is_parquet(path: Path, start: bytes) -> bool:
    """Whether it is a Parquet file.

    Args:
        path: The file, for its ending and for the words of the error.
        start: Its first `MAGIC_BYTES`, unpacked where it is compressed.

    Raises:
        DataError: The file is something Hone can't read rows from, or Parquet under another ending or the reverse.
    """
    refuse_foreign(path, start)
    found = start.startswith(PARQUET_MAGIC)
    expected = ENDINGS.get(ending(path))
    if found and expected not in (Kind.PARQUET, None):
        raise mismatch(path, _("a Parquet file"), _("Rename it to end in .parquet"))
    if expected is Kind.PARQUET and not found:
        raise mismatch(
            path,
            _("something else"),
            _("Get the file again, or rename it: its ending must say what it is"),
        )
    return found


def refuse_foreign(path: Path, start: bytes) -> None:
    """Stop at a file of a kind that Hone reads nothing from.

    Raises:
        DataError: It is one; what it is and what to do about it are named.
    """
    for magic, (name, advice) in FOREIGN.items():
        if start[: len(magic)].lower() == magic.lower():
            raise no_text(path, name, advice)


def mismatch(path: Path, found: str, advice: str) -> DataError:
    """The error for a file that isn't what its ending says, or is no table at all."""
    kind = ENDINGS.get(ending(path))
    name = (
        ending(path).removeprefix(".").upper() if kind in (Kind.DELIMITED, Kind.JSON, Kind.JSON_LINES) else ""
    )
    said = _("{name} is not a {name_2} file").format(
        name=path.name, name_2=name or (kind.value if kind else "")
    )
    return DataError(
        said if kind else _("{name} is not a table of texts").format(name=path.name),
        _("{path} is {found}.").format(path=path, found=found),
        (Fix(advice),),
    )


def no_text(path: Path, found: str, advice: str) -> DataError:
    """The error for a file that is neither a table nor a text."""
    if ending(path) in ENDINGS:
        return mismatch(path, found, advice)
    return DataError(
        _("{name} is neither a table nor a text").format(name=path.name),
        _("{path} is {found}.").format(path=path, found=found),
        (Fix(advice),),
    )


# --- Where the rows of a file go while it is read


Numbers = np.ndarray[Any, np.dtype[np.int64]]


class CacheUnusableError(Exception):
    """The cache can't be written to; the table has to be read into memory."""


class RowWriter:
    """Takes the rows of one reading of a file, in order, as an Arrow file: on disk at `path`, or in memory."""

    def __init__(self, schema: pa.Schema, path: Path | None = None) -> None:
        self._path = path
        self._schema = schema.append(pa.field("", pa.int64()))
        with _as_unusable():
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._sink: Any = pa.BufferOutputStream() if path is None else path.open("xb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Keep further rows and the place each has in the file; blank ones are dropped.

        Raises:
            DataError: The disk is full.
            CacheUnusableError: It can't be written to.
        """
        rows, numbers = _without_blank_rows(rows, numbers)
        if self._path is not None:
            room = shutil.disk_usage(self._path.parent)
            if room.free < min(RESERVE, RESERVE_SHARE * room.total):
                raise DataError(
                    _("The disk has no room for the rows of this table"),
                    _("{free} are free where tables are kept while they are read ({parent}).").format(
                        free=size(room.free), parent=self._path.parent
                    ),
                    (Fix(_("Make room there, or choose a smaller table")),),
                )
        columns = [*rows.columns, pa.array(numbers, pa.int64())]
        with _as_unusable():
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self, about: dict[str, Any], target: Path) -> Any:
        """Write what isn't rows; what Arrow opens: a buffer, or the file, which is at `target` from now on."""
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in self._schema], schema=self._schema
        )
        with _as_unusable():
            self._writer.write_batch(nothing, custom_metadata={"about": json.dumps(about)})
            self._writer.close()
            if self._path is None:
                return self._sink.getvalue()
            self._sink.close()
            try:
                self._path.replace(target)
            except (
                PermissionError
            ):  # Windows, where another process has read and mapped the same table meanwhile
                if not target.exists():
                    raise
            return pa.memory_map(str(target))

    def discard(self) -> None:
        """Forget the rows: another reading was better, or something went wrong."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


NewWriter = Callable[[pa.Schema], RowWriter]


@dataclass(frozen=True)
class ParsedRows:
    """Rows and named columns, with the place in the file each row has.

    Places are counted from 1 in what `row_word` says: rows of a delimited file (the header is row 1), lines of JSONL
    and CoNLL, records of JSON. `reading` says how it was read, as `Reading`.
    """

    rows: RowWriter
    format: str
    row_word: str
    notes: tuple[str, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def _as_unusable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CacheUnusableError(str(error)) from error


def _without_blank_rows(rows: pa.RecordBatch, numbers: Numbers) -> tuple[pa.RecordBatch, Numbers]:
    """Drop rows in which every value is missing or an empty text, as a blank line makes them."""
    blank = None
    for column in rows.columns:
        empty = column.is_null()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            empty = pc.or_(empty, pc.equal(pc.fill_null(column, ""), ""))
        blank = empty if blank is None else pc.and_(blank, empty)
    if blank is None or not pc.any(blank).as_py():
        return rows, numbers
    keep = pc.invert(blank)
    return rows.filter(keep), numbers[keep.to_numpy(zero_copy_only=False)]


def refuse_repeated(path: Path, header: Sequence[str], where: str = ", row 1") -> None:
    """Stop where two columns have the same name.

    Raises:
        DataError: They have.
    """
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if repeated:
        places = [str(number) for number, name in enumerate(header, 1) if name == repeated[0]]
        raise DataError(
            _("{name} has two columns called “{repeated}”").format(name=path.name, repeated=repeated[0]),
            _("{path}{where}: columns {places} have the same name.").format(
                path=path, where=where, places=" and ".join(places)
            ),
            (Fix(_("Give every column a name of its own")),),
        )


# --- A file of text, read block by block whatever its size, unpacked and decoded


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
        if stat.S_ISDIR(found.st_mode):
            raise DataError(
                _("{name} is a folder").format(name=path.name),
                _("{path}: rows are read from one file.").format(path=path),
                (Fix(_("Choose a CSV, TSV, JSON, JSONL or Parquet file")),),
            )
        if not stat.S_ISREG(found.st_mode):
            raise DataError(
                _("{name} is no file").format(name=path.name),
                _("{path} is a pipe or a device, which can't be read twice.").format(path=path),
                (Fix(_("Save what comes out of it in a file, and choose that")),),
            )
        path.open("rb").close()
    except FileNotFoundError as error:
        why = (
            _("{path} is a link to {readlink}, which doesn't exist.").format(
                path=path, readlink=path.readlink()
            )
            if path.is_symlink()
            else ""
        )
        raise DataError(
            _("There is no {name}").format(name=path.name),
            why or _("{path} doesn't exist.").format(path=path),
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    if found.st_size == 0:
        raise DataError(
            _("{name} is empty").format(name=path.name),
            f"{path} holds 0 bytes.",
            (Fix(_("Choose another file")),),
        )
    return found.st_size


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for a file that the operating system doesn't let through."""
    advice = _("Choose another file")
    why = error.strerror or str(error)
    if isinstance(error, PermissionError):
        advice = _("Allow yourself to read it, or copy it to a folder of yours")
    elif path.is_symlink():
        why, advice = (
            _("a link that leads in a circle or nowhere ({why})").format(why=why),
            _("Choose the file itself"),
        )
    return DataError(_("{name} can't be read").format(name=path.name), f"{path}: {why}.", (Fix(advice),))


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
                _("A file or folder has a name that is not UTF-8"),
                _("{shown}: � stands for bytes that are not valid UTF-8.").format(shown=shown),
                (Fix(_("Rename it")),),
            ) from error
    return found


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
            _("{name} is damaged").format(name=path.name),
            _("{path} is compressed with gzip and can't be unpacked: {error}.").format(
                path=path, error=error
            ),
            (Fix(_("Get the file again")),),
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


# --- How a text is to be read: it is looked through once before, for its encoding and for what it holds


SNIFFED_BYTES = 4096
UTF16_SHARE = 0.3
"""UTF-16 without its mark is known by so many zero bytes in every other place of its beginning."""


def open_text(path: Path, passes: Passes) -> TextFile:
    """Look a text through and say how to read it: UTF-8, UTF-16 or UTF-32, else Windows-1252.

    Raises:
        DataError: It is no text, or has nothing but white space in it.
    """
    encoding, notes = _encoding(next(raw_blocks(path, None, SNIFFED_BYTES), b""))
    errors = "strict"
    found = _Seen()
    try:
        found.go_through(path, passes, encoding, errors)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            what = _("not readable as {encoding}: {reason}").format(
                encoding=encoding.upper(), reason=error.reason
            )
            raise no_text(path, what, _("Save it as text in UTF-8")) from error
        encoding, errors, note = _instead(path, found, error)
        notes = (note,)
        found = _Seen()
        try:
            found.go_through(path, passes, encoding, errors)
        except UnicodeDecodeError:  # five bytes are no character of Windows-1252
            encoding, found = "latin-1", _Seen()
            found.go_through(path, passes, encoding, errors)
    if found.is_blank:
        raise DataError(
            _("{name} is empty").format(name=path.name),
            _("{path} holds only white space.").format(path=path),
            (Fix(_("Choose another file")),),
        )
    if found.marks:
        notes = (
            *notes,
            f"{path.name} has a byte order mark inside, in line {found.marks:,}; it is left out.",
        )
    if found.is_packed:
        notes = (*notes, _("{name} was unpacked while it was read.").format(name=path.name))
    newline = "\r" if found.returns and not found.lines else "\n"
    return TextFile(
        path,
        encoding,
        errors,
        found.is_packed,
        found.size,
        found.has_quotes,
        bool(found.marks),
        newline,
        notes,
        passes,
    )


def _encoding(start: bytes) -> tuple[str, tuple[str, ...]]:
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32", ()
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ()
    zeros = [start[place::2].count(0) / max(1, len(start) // 2) for place in (0, 1)]
    for share, other, order in ((zeros[1], zeros[0], "le"), (zeros[0], zeros[1], "be")):
        if share > UTF16_SHARE and other < UTF16_SHARE / 10:
            return f"utf-16-{order}", (
                _("It is in UTF-16 without the mark that says so, and was read as such."),
            )
    return "utf-8-sig", ()


def _instead(path: Path, found: "_Seen", error: UnicodeDecodeError) -> tuple[str, str, str]:
    """How to read what isn't UTF-8 all through; a text with letters of UTF-8 before that is a damaged one."""
    content = bytes(error.object)
    line = found.lines + content.count(b"\n", 0, error.start) + 1
    if found.has_letters or not content[: error.start].isascii():
        note = f"{path.name} is in UTF-8 but for some bytes, the first in line {line:,}; they are read as �."
        return "utf-8-sig", "replace", note
    note = (
        f"{path.name} is not in UTF-8 (line {line:,}); it was read as Windows-1252. "
        "If letters look wrong, save it as UTF-8."
    )
    return "cp1252", "strict", note


class _Seen:
    """What a text turns out to hold on the way through."""

    def __init__(self) -> None:
        self.size = self.lines = self.returns = self.marks = 0
        self.has_quotes = self.has_letters = self.is_packed = False
        self.is_blank = True

    def go_through(self, path: Path, passes: Passes, encoding: str, errors: str) -> None:
        """Decode and look at every block.

        Raises:
            DataError: There is a zero in it.
            UnicodeDecodeError: It isn't in this encoding.
        """
        passes.begin()
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        with path.open("rb") as file:
            self.is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        for block in raw_blocks(path, passes):
            self.size += len(block)
            self._look(path, decoder.decode(block))
        self._look(path, decoder.decode(b"", True))

    def _look(self, path: Path, text: str) -> None:
        if "\0" in text:
            line = self.lines + text.count("\n", 0, text.index("\0")) + 1
            what = _("not text: it holds zero bytes, the first in line {line:,}").format(line=line)
            raise no_text(path, what, _("Save it as text in UTF-8"))
        self.is_blank = self.is_blank and not text.strip()
        self.has_quotes = self.has_quotes or '"' in text
        self.has_letters = self.has_letters or not text.isascii()
        if not self.marks and "\ufeff" in text:
            self.marks = self.lines + text.count("\n", 0, text.index("\ufeff")) + 1
        self.lines += text.count("\n")
        self.returns += text.count("\r")


# --- How a file was read, in words by words, for the person to check: its encoding


Reading = Mapping[str, str]
"""Such as `{"encoding": "UTF-8", "delimiter": "comma", "quoting": "double quotes", "header": "in the first row"}`."""

ENCODINGS = {
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32": "UTF-32",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
DELIMITER_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


def of_text(source: TextFile) -> dict[str, str]:
    """The encoding of a text, and whether it was packed."""
    encoding = ENCODINGS.get(source.encoding, source.encoding)
    if encoding == "UTF-8" and first_bytes(source.path).startswith(codecs.BOM_UTF8):
        encoding = _("UTF-8 with a byte order mark")
    return {"encoding": encoding, **({"compression": "gzip"} if source.is_packed else {})}
