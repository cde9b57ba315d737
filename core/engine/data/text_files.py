"""A file of text, read block by block whatever its size, unpacked and decoded."""

import codecs
import contextlib
import gzip
import json
import shutil
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.ceiling import RESERVE, RESERVE_SHARE, Pace, reading, say
from core.base.errors import DataError, Fix, why
from core.base.files import in_unicode, open_plain
from core.base.formats import enumerated, memory, paragraph
from core.base.language import _

MOST_LISTED, LONGEST_NAME = 8, 80


def listed(names: Collection[str]) -> str:
    """Returns quoted names, separated by commas: the first ones of many, long ones cut."""
    shown = (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        for name in islice(names, MOST_LISTED)
    )
    more = _(" and {names:,} more").format(names=len(names) - MOST_LISTED) if len(names) > MOST_LISTED else ""
    return enumerated(f"“{name}”" for name in shown) + more


# --- File formats, by extension and by content


class TableFormat(Enum):
    """File formats of tables."""

    DELIMITED = "CSV"
    JSON = "JSON"
    JSON_LINES = "JSONL"
    PARQUET = "Parquet"
    CONLL = "CoNLL"


ENDINGS: dict[str, TableFormat] = {
    ".csv": TableFormat.DELIMITED,
    ".tsv": TableFormat.DELIMITED,
    ".tab": TableFormat.DELIMITED,
    ".json": TableFormat.JSON,
    ".jsonl": TableFormat.JSON_LINES,
    ".ndjson": TableFormat.JSON_LINES,
    ".parquet": TableFormat.PARQUET,
    ".pq": TableFormat.PARQUET,
    ".conll": TableFormat.CONLL,
    ".conllu": TableFormat.CONLL,
    ".bio": TableFormat.CONLL,
    ".iob": TableFormat.CONLL,
    ".iob2": TableFormat.CONLL,
}
"""Formats by file name extension; files with any other are recognized by their content."""

TEXT_ENDINGS = (".txt", ".text", ".md", ".markdown", ".rst")
"""Extensions of running text."""

PARQUET_MAGIC = b"PAR1"
GZIP_MAGIC = b"\x1f\x8b"
MAGIC_BYTES = 32
"""How many first bytes identify a format."""

_UNPACK, _SAVE_AS_CSV, _SAVE_AS_TEXT, _FOR_IMAGES = (
    _("Unpack it"),
    _("Save the sheet as CSV"),
    _("Save it as plain text (.txt) in UTF-8"),
    _("For images choose the task Image classification"),
)
_WEB_PAGE = (_("a web page, which a failed download often is"), _("Download the file again"))
ZIP, OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
FOREIGN: dict[bytes, tuple[str, str]] = {
    ZIP: (
        _("a ZIP file, as Office documents and workbooks are, too"),
        _("Unpack it; save a document's text as .txt, a workbook's sheet as CSV"),
    ),
    OLD_OFFICE: (
        _("an old Word or Excel file"),
        _("Save a document's text as .txt, a workbook's sheet as CSV"),
    ),
    b"%PDF": (
        _("a PDF"),
        _("Choose its text as a file (.txt or .md), or a table: CSV, TSV, JSON or Parquet"),
    ),
    b"\x89PNG": (_("a PNG image"), _FOR_IMAGES),
    b"\xff\xd8\xff": (_("a JPEG image"), _FOR_IMAGES),
    b"GIF8": (_("a GIF image"), _FOR_IMAGES),
    b"\x28\xb5\x2f\xfd": (_("a file compressed with zstd"), _UNPACK),
    b"BZh": (_("a file compressed with bzip2"), _UNPACK),
    b"\xfd7zXZ\x00": (_("a file compressed with xz"), _UNPACK),
    b"7z\xbc\xaf": (_("a 7z archive"), _UNPACK),
    b"SQLite format 3": (_("an SQLite database"), _("Export the table as CSV")),
    b"ARROW1": (_("an Arrow file"), _("Save the table as Parquet")),
    b"{\\rtf": (_("a text with formatting (RTF)"), _SAVE_AS_TEXT),
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
    b"<?xml": (_("an XML file"), _("Convert it to CSV or JSON")),
}
"""The first bytes of files without rows that can be read: what such a file is, and what to do about it."""

OFFICE: dict[str, tuple[str, str]] = {
    **dict.fromkeys((".docx", ".doc"), (_("a Word document"), _SAVE_AS_TEXT)),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls"), (_("an Excel workbook"), _SAVE_AS_CSV)),
    **dict.fromkeys((".pptx", ".ppt", ".odp", ".key"), (_("a presentation"), _SAVE_AS_TEXT)),
    **dict.fromkeys((".odt", ".pages"), (_("a document of a word processor"), _SAVE_AS_TEXT)),
    **dict.fromkeys((".ods", ".numbers"), (_("a workbook of a spreadsheet program"), _SAVE_AS_CSV)),
    ".zip": (_("a ZIP file"), _("Unpack it, and choose a file in it")),
    ".epub": (_("an e-book (EPUB)"), _("Convert it to plain text (.txt)")),
}
"""What a ZIP file or one of old Office is by its extension, and what to do about it."""


def ending(path: Path) -> str:
    """Returns the file name extension in lower case, without `.gz`: `.csv` for `reviews.csv.gz`."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


def is_parquet(path: Path, start: bytes) -> bool:
    """Returns whether the first (unpacked) bytes of a file, `start`, are those of Parquet.

    Raises:
        DataError: The file is of a foreign kind, or Parquet under another extension or the reverse.
    """
    refuse_foreign(path, start)
    result = start.startswith(PARQUET_MAGIC)
    expected = ENDINGS.get(ending(path))
    if result and expected not in (TableFormat.PARQUET, None):
        raise not_readable(path, _("a Parquet file"), _("Rename it to end in .parquet"))
    if expected is TableFormat.PARQUET and not result:
        raise not_readable(path, _("something else"), _("Download the file again, or correct its extension"))
    return result


def refuse_foreign(path: Path, start: bytes) -> None:
    """Raises DataError for a file of a kind that is never read, by its first (unpacked) bytes."""
    for magic, (name, advice) in FOREIGN.items():
        if start[: len(magic)].lower() == magic.lower():
            by_name = OFFICE.get(ending(path)) if magic in (ZIP, OLD_OFFICE) else None
            raise not_readable(path, *(by_name or (name, advice)))


def not_readable(path: Path, content: str, advice: str) -> DataError:
    """Returns the error for a file that isn't what its extension says, or neither a table nor a text."""
    if ending(path) in ENDINGS:
        title = _("{name} is not a {extension} file").format(name=path.name, extension=ending(path))
    else:
        title = _("{name} is neither a table nor a text").format(name=path.name)
    return DataError(title, _("{path} is {content}.").format(path=path, content=content), (Fix(advice),))


# --- Rows on their way into an Arrow file


Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RowWriter:
    """Writes the rows of one file, in order, into an Arrow file: on disk at `path`, or in memory.

    The last column holds the row numbers, the metadata of an empty last batch what isn't rows.
    """

    def __init__(self, schema: pa.Schema, path: Path | None = None) -> None:
        self._path = path
        self._schema = schema.append(pa.field("", pa.int64()))
        self._sink: Any = pa.BufferOutputStream() if path is None else path.open("xb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Appends rows and the place of each in the file; rows without any value are dropped.

        Raises:
            DataError: The disk is full.
        """
        if self._path is not None:
            disk = shutil.disk_usage(self._path.parent)
            if disk.free < min(RESERVE, RESERVE_SHARE * disk.total):
                raise DataError(
                    _("The disk has no space for the rows of this table"),
                    _("{free} are free where tables are cached ({parent}).").format(
                        free=memory(disk.free), parent=self._path.parent
                    ),
                    (Fix(_("Free disk space there, or choose a smaller table")),),
                )
        is_filled = _has_values(rows)
        columns = [*rows.columns, pa.array(numbers, pa.int64())]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._writer.write_batch(batch if is_filled is None else batch.filter(is_filled))

    def finish(self, about: dict[str, Any], target: Path) -> Any:
        """Writes `about` as the last metadata; returns a buffer for Arrow, or the file moved to `target`, mapped."""
        empty = pa.RecordBatch.from_pylist([], schema=self._schema)
        self._writer.write_batch(empty, custom_metadata={"about": json.dumps(about)})
        self._writer.close()
        if self._path is None:
            return self._sink.getvalue()
        self._sink.close()
        try:
            self._path.replace(target)
        except PermissionError:  # Windows, where another process has mapped the same table meanwhile
            if not target.exists():
                raise
        return pa.memory_map(str(target))

    def discard(self) -> None:
        """Removes an unfinished file."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


NewWriter = Callable[[pa.Schema], RowWriter]


class NoteCode(StrEnum):
    """Codes of notes that other code reacts to."""

    OTHER_ENCODING = "other-encoding"
    LINES_LEFT_OUT = "lines-left-out"
    MIXED_COLUMN = "mixed-column"


@dataclass(frozen=True)
class ReadingNote:
    """A sentence about how a file was read; `column` is the column it concerns."""

    message: str
    code: str = ""
    column: str = ""


class UnreadCode(StrEnum):
    """Why a row of a file could not be read."""

    JSON = "not-json"
    LINE_BREAK = "line-break"
    WIDTH = "row-width"


@dataclass(frozen=True)
class UnreadRows:
    """Rows that could not be read for one reason: their places, what is wrong with the first one, and the advice."""

    code: UnreadCode
    numbers: tuple[int, ...]
    example: str
    advice: str


@dataclass(frozen=True)
class ParsedRows:
    """The rows of a file, each with its place there.

    Places are counted from 1 in what `row_word` says: rows of a delimited file (the header is row 1), lines of JSONL
    and CoNLL, records of JSON. `reading` is described at `Reading`. `unread` are the rows of the file that aren't among
    them.
    """

    rows: RowWriter
    format: str
    row_word: str
    notes: tuple[ReadingNote, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[UnreadRows, ...] = ()


def _has_values(rows: pa.RecordBatch) -> pa.Array | None:
    """Returns which rows have a value that is neither missing nor an empty text; None if all have."""
    blank = None
    for column in rows.columns:
        empty = column.is_null()
        if is_text(column.type):
            empty = pc.or_(empty, pc.equal(pc.fill_null(column, ""), ""))
        blank = empty if blank is None else pc.and_(blank, empty)
    return None if blank is None or not pc.any(blank).as_py() else pc.invert(blank)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


MOST_COLUMNS = 2000


def refuse_names(path: Path, header: Sequence[str]) -> None:
    """Raises DataError for more than `MOST_COLUMNS` columns, each of which takes time, and for two of the same name."""
    if len(header) > MOST_COLUMNS:
        raise DataError(
            _("{name} has more than {most:,} columns").format(name=path.name, most=MOST_COLUMNS),
            _("{path}: the first are {names}.").format(path=path, names=listed(header[:MOST_LISTED])),
            (Fix(_("Save a table of the columns that matter, such as the text and its label")),),
        )
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if repeated:
        places = [str(number) for number, name in enumerate(header, 1) if name == repeated[0]]
        raise DataError(
            _("{name} has two columns called “{repeated}”").format(name=path.name, repeated=repeated[0]),
            _("{path}: columns {places} have the same name.").format(path=path, places=", ".join(places)),
            (Fix(_("Give every column a name of its own")),),
        )


# --- Text files, read block by block, unpacked and decoded


BLOCK_BYTES = 4 * 2**20

Progress = Callable[[int, int], None]
"""Progress: the bytes done, and the bytes in all, which grow when a file has to be read once more."""


class Passes:
    """Progress of reading one file several times, three times unless it turns out to be more."""

    def __init__(self, size: int, progress: Progress | None) -> None:
        self._size, self._progress = size, progress
        self._begun, self._expected = 0, 3

    def begin(self) -> None:
        self._begun += 1
        self._expected = max(self._expected, self._begun)

    def at(self, place: int) -> None:
        """Reports the bytes done of this pass."""
        if self._progress:
            self._progress((self._begun - 1) * self._size + place, self._expected * self._size)

    def end(self) -> None:
        if self._progress:
            self._progress(self._expected * self._size, self._expected * self._size)


@dataclass(frozen=True)
class TextFile:
    """A text file that has been looked through once.

    `size` is in bytes, unpacked; `newline` is the line ending, a carriage return if there are no line feeds.
    """

    path: Path
    encoding: str
    errors: str
    size: int
    has_quotes: bool
    newline: str
    notes: tuple[ReadingNote, ...] = ()
    passes: Passes = field(default_factory=lambda: Passes(0, None), repr=False)

    def texts(self) -> Iterator[str]:
        """Returns the text in blocks, without byte order marks."""
        self.passes.begin()
        return self._decoded(self.passes)

    def blocks(self) -> Iterator[bytes]:
        """Returns the text in blocks of UTF-8."""
        return (text.encode() for text in self.texts())

    def head(self, characters: int) -> str:
        """Returns the first characters; doesn't count as a pass."""
        text = ""
        for block in self._decoded(None):
            text += block
            if len(text) >= characters:
                break
        return text[:characters]

    def whole(self) -> str:
        return "".join(self.texts())

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the lines in blocks, without line endings; each block with the number of its first line."""
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

    def _decoded(self, passes: Passes | None) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)(self.errors)
        for block in raw_blocks(self.path, passes):
            yield decoder.decode(block).replace("\ufeff", "")  # files put together have marks inside
        yield decoder.decode(b"", True)


def size_of(path: Path) -> int:
    """Returns the size of a file in bytes.

    Raises:
        DataError: It is missing, empty, a folder, a device or a pipe, or can't be opened.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what = _("folder") if stat.S_ISDIR(status.st_mode) else _("pipe or device")
            raise DataError(
                _("{name} is not a file").format(name=path.name),
                _("{path} is a {what}; rows are read from one file.").format(path=path, what=what),
                (Fix(_("Choose a CSV, TSV, JSON, JSONL or Parquet file")),),
            )
        path.open("rb").close()
    except FileNotFoundError as error:
        raise DataError(
            _("There is no {name}").format(name=path.name), _("{path} doesn't exist.").format(path=path)
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    if status.st_size == 0:
        raise _empty(path, _("{path} has no content (0 bytes)."))
    return status.st_size


def unreadable(path: Path, error: OSError) -> DataError:
    """Returns the error for a file that the operating system refuses to open."""
    advice = _("Choose another file")
    if isinstance(error, PermissionError):
        advice = _("Change its permissions so that you can read it, or copy it to a folder of yours")
    return DataError(
        _("{name} can't be read").format(name=path.name),
        paragraph(f"{path}: {why(error)}"),
        (Fix(advice),),
    )


def _empty(path: Path, reason: str) -> DataError:
    return DataError(
        _("{name} is empty").format(name=path.name),
        reason.format(path=path),
        (Fix(_("Choose another file")),),
    )


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Returns the paths in order.

    Raises:
        DataError: A name isn't UTF-8, which no report or run could hold.
    """
    for path in (result := sorted(paths)):
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            shown = in_unicode(path)
            raise DataError(
                _("A file or folder has a name that is not UTF-8"),
                _("{shown}: � marks bytes that are not valid UTF-8.").format(shown=shown),
                (Fix(_("Rename it")),),
            ) from error
    return result


def first_bytes(path: Path) -> bytes:
    """Returns the first `MAGIC_BYTES`, unpacked."""
    return next(raw_blocks(path, None, MAGIC_BYTES), b"")


def _is_packed(path: Path) -> bool:
    with open_plain(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


LARGE_BYTES = 32 * 2**20
"""Files of this size, unpacked, are read into the cache instead of into memory."""
MOST_UNPACKED = 200
"""Times its size that a larger file may have when it is unpacked; texts have 3 to 10, a table of few values 50."""


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Raises DataError for a file of which so many bytes were unpacked that it has hardly anything but repetitions."""
    size = path.stat().st_size
    if unpacked > max(LARGE_BYTES, MOST_UNPACKED * size):
        raise DataError(
            _("{name} unpacks to more than {times} times its size").format(
                name=path.name, times=MOST_UNPACKED
            ),
            _(
                "{path} has {size} and holds more than {unpacked}. Only repetitions compress so well: reading all of "
                "them could fill the memory."
            ).format(path=path, size=memory(size), unpacked=memory(unpacked)),
            (Fix(_("Remove the repetitions; if it is data of yours, save it as CSV without compression")),),
        )


def raw_blocks(path: Path, passes: Passes | None, size: int = 0) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks, unpacked if it is compressed with gzip.

    Raises:
        DataError: It can't be read, or its compression is damaged or that of a bomb.
    """
    try:
        is_packed = _is_packed(path)
        with (
            path.open("rb") as file,
            reading(path.name),
            gzip.GzipFile(fileobj=file) if is_packed else file as content,
        ):
            unpacked = 0
            while block := content.read(size or BLOCK_BYTES):
                say(path.name, Pace.SLOW)
                unpacked += len(block)
                refuse_bomb(path, unpacked)
                if passes:
                    passes.at(file.tell())
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            _("{name} is damaged").format(name=path.name),
            _("{path} is compressed with gzip and can't be unpacked: {error}.").format(
                path=path, error=error
            ),
            (Fix(_("Download the file again")),),
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


# --- The encoding of a text, found by reading it once


SNIFFED_BYTES = 4096
UTF16_SHARE = 0.3
"""UTF-16 without a byte order mark is recognized by this share of zero bytes at odd or even places."""


def open_text(path: Path, passes: Passes) -> TextFile:
    """Looks a text through and finds out how to read it: as UTF-8, UTF-16 or UTF-32, else as Windows-1252.

    A text that was UTF-8 beyond ASCII before the first invalid byte is read as damaged UTF-8.

    Raises:
        DataError: It is no text, or has nothing but white space in it.
    """
    encoding, errors = _sniffed_encoding(next(raw_blocks(path, None, SNIFFED_BYTES), b"")), "strict"
    notes: tuple[ReadingNote, ...] = ()
    content = _Content()
    try:
        content.read(path, passes, encoding, errors)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            what = _("not readable as {encoding}: {reason}").format(
                encoding=ENCODINGS[encoding], reason=error.reason
            )
            raise not_readable(path, what, _("Save it as text in UTF-8")) from error
        before = bytes(error.object)[: error.start]
        line = content.lines + before.count(b"\n") + 1
        if content.has_letters or not before.isascii():
            sentence = _(
                "{name} is in UTF-8 except for some bytes, the first in line {line:,}; they are read as �."
            )
        else:
            encoding = "cp1252"
            sentence = _(
                "{name} is not in UTF-8 (line {line:,}); it was read as Windows-1252. "
                "If letters look wrong, save it as UTF-8."
            )
        errors = "replace"
        notes = (ReadingNote(sentence.format(name=path.name, line=line), NoteCode.OTHER_ENCODING),)
        content = _Content()
        content.read(path, passes, encoding, errors)
    if content.is_blank:
        raise _empty(path, _("{path} contains only white space."))
    newline = "\r" if content.returns and not content.lines else "\n"
    return TextFile(path, encoding, errors, content.size, content.has_quotes, newline, notes, passes)


def _sniffed_encoding(start: bytes) -> str:
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = (start[place::2].count(0) / max(1, len(start) // 2) for place in (0, 1))
    if max(even, odd) > UTF16_SHARE and min(even, odd) < UTF16_SHARE / 10:
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8-sig"


class _Content:
    """What one pass through a text finds."""

    def __init__(self) -> None:
        self.size = self.lines = self.returns = 0
        self.has_quotes = self.has_letters = False
        self.is_blank = True

    def read(self, path: Path, passes: Passes, encoding: str, errors: str) -> None:
        """Decodes every block.

        Raises:
            DataError: There is a zero byte in it.
            UnicodeDecodeError: It isn't in this encoding.
        """
        passes.begin()
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        for block in raw_blocks(path, passes):
            self.size += len(block)
            self._add(path, decoder.decode(block))
        self._add(path, decoder.decode(b"", True))

    def _add(self, path: Path, text: str) -> None:
        if "\0" in text:
            line = self.lines + text.count("\n", 0, text.index("\0")) + 1
            what = _("not text: it contains zero bytes, the first in line {line:,}").format(line=line)
            raise not_readable(path, what, _("Save it as text in UTF-8"))
        self.is_blank = self.is_blank and not text.strip("\ufeff \t\r\n")
        self.has_quotes = self.has_quotes or '"' in text
        self.has_letters = self.has_letters or not text.isascii()
        self.lines += text.count("\n")
        self.returns += text.count("\r")


Reading = Mapping[str, str]
"""How a file was read, such as `{"encoding": "UTF-8", "delimiter": "delimiter comma", "quoting": "double quotes"}`."""

ENCODINGS = {
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32": "UTF-32",
    "cp1252": "Windows-1252",
}
MARKED_UTF8 = _("UTF-8 with a byte order mark")
DELIMITER_NAMES = {
    ",": _("delimiter comma"),
    "\t": _("delimiter tab"),
    ";": _("delimiter semicolon"),
    "|": _("delimiter bar"),
}


def of_text(source: TextFile) -> dict[str, str]:
    """Returns the part of `Reading` that any text has: its encoding and compression."""
    encoding = ENCODINGS[source.encoding]
    if encoding == "UTF-8" and first_bytes(source.path).startswith(codecs.BOM_UTF8):
        encoding = MARKED_UTF8
    return {"encoding": encoding, **({"compression": "gzip"} if _is_packed(source.path) else {})}
