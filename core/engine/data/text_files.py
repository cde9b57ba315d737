"""A file of text, read block by block whatever its size, unpacked and decoded."""

import codecs
import gzip
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.ceiling import Pace, reading, say
from core.base.errors import DataError, Fix

# --- What columns are called, in the data sets people have


MOST_LISTED, LONGEST_NAME = 8, 80

LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "quality", "sentiment", "answer", "gold_label"),
    *("intent", "emotion", "topic", "is_duplicate", "toxic", "spam", "stars", "rating", "score", "y"),
)
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "message", "tweet", "body", "document", "question"),
    *("title", "description", "headline", "utterance", "input"),
)
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
)
OTHER_NAMES = (
    *(
        "id",
        "idx",
        "index",
        "name",
        "date",
        "time",
        "url",
        "path",
        "file",
        "image",
        "filename",
        "user",
        "source",
    ),
    *(
        "instruction",
        "output",
        "prompt",
        "completion",
        "response",
        "chosen",
        "rejected",
        "messages",
        "tokens",
    ),
    *("tags", "split", "lang", "language", "key", "value", "type", "author", "words", "word", "tag"),
)
ALL_NAMES = frozenset(
    (*LABEL_NAMES, *TEXT_NAMES, *OTHER_NAMES, *(name for pair in PAIR_NAMES for name in pair))
)


def listed(names: Collection[str]) -> str:
    """Names of columns, classes or files in a row: the first of many, and the beginnings of long ones."""
    shown = (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        for name in islice(names, MOST_LISTED)
    )
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
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


@dataclass(frozen=True)
class _Foreign:
    """A kind of file that holds no rows Hone can read, and what to do about it."""

    magic: bytes
    name: str
    advice: str


FOREIGN: tuple[_Foreign, ...] = (
    _Foreign(b"PK\x03\x04", "a ZIP file or an Excel workbook", "Unpack it, or save the sheet as CSV"),
    _Foreign(b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "Save the sheet as CSV"),
    _Foreign(b"%PDF", "a PDF", "Choose a table: CSV, TSV, JSON, JSONL or Parquet"),
    _Foreign(b"\x89PNG", "a PNG image", "For images choose the task Image classification"),
    _Foreign(b"\xff\xd8\xff", "a JPEG image", "For images choose the task Image classification"),
    _Foreign(b"GIF8", "a GIF image", "For images choose the task Image classification"),
    _Foreign(b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "Unpack it"),
    _Foreign(b"BZh", "a file compressed with bzip2", "Unpack it"),
    _Foreign(b"\xfd7zXZ\x00", "a file compressed with xz", "Unpack it"),
    _Foreign(b"7z\xbc\xaf", "a 7z archive", "Unpack it"),
    _Foreign(b"SQLite format 3", "an SQLite database", "Export the table as CSV"),
    _Foreign(b"ARROW1", "an Arrow file", "Save the table as Parquet"),
    _Foreign(b"{\\rtf", "a text with formatting (RTF)", "Save it as plain text in UTF-8"),
    _Foreign(b"<!doctype html", "a web page; a download that went wrong often is", "Download the file again"),
    _Foreign(b"<html", "a web page; a download that went wrong often is", "Download the file again"),
    _Foreign(b"<?xml", "an XML file", "Convert it to CSV or JSON"),
)


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
        raise mismatch(path, "a Parquet file", "Rename it to end in .parquet")
    if expected is Kind.PARQUET and not found:
        raise mismatch(path, "something else", "Get the file again, or give it the ending of what it is")
    return found


def refuse_foreign(path: Path, start: bytes) -> None:
    """Stop at a file of a kind that Hone reads nothing from.

    Raises:
        DataError: It is one; what it is and what to do about it are named.
    """
    for foreign in FOREIGN:
        if start[: len(foreign.magic)].lower() == foreign.magic.lower():
            raise no_text(path, foreign.name, foreign.advice)


def mismatch(path: Path, found: str, advice: str) -> DataError:
    """The error for a file that isn't what its ending says, or is no table at all."""
    kind = ENDINGS.get(ending(path))
    name = (
        ending(path).removeprefix(".").upper() if kind in (Kind.DELIMITED, Kind.JSON, Kind.JSON_LINES) else ""
    )
    said = f"{path.name} is not a {name or (kind.value if kind else '')} file"
    return DataError(
        said if kind else f"{path.name} is not a table of texts", f"{path} is {found}.", (Fix(advice),)
    )


def no_text(path: Path, found: str, advice: str) -> DataError:
    """The error for a file that is neither a table nor a text."""
    if ending(path) in ENDINGS:
        return mismatch(path, found, advice)
    return DataError(f"{path.name} is neither a table nor a text", f"{path} is {found}.", (Fix(advice),))


# --- What a parser makes of a file, whatever its form, and where its rows go as they are read


Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RowWriter(Protocol):
    """Takes the rows of one reading of a file, in order."""

    def add(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Keep further rows and the place each has in the file; blank ones are dropped."""

    def discard(self) -> None:
        """Forget them all: another reading was better."""


class Shelf(Protocol):
    """Where the rows of a table are kept while it is read: in memory, or on disk where they don't fit there."""

    is_on_disk: bool

    def writer(self, schema: pa.Schema) -> RowWriter:
        """A place for the rows of one more reading."""


@dataclass(frozen=True)
class ParsedRows:
    """Rows and named columns, with the place in the file each row has.

    Places are counted from 1 in what `row_word` says: rows of a delimited file (the header is row 1), lines of JSONL
    and CoNLL, records of JSON. `reading` says how it was read (`how_read`).
    """

    rows: RowWriter
    format: str
    row_word: str
    notes: tuple[str, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)


def without_blank_rows(rows: pa.RecordBatch, numbers: Numbers) -> tuple[pa.RecordBatch, Numbers]:
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


# --- Whether a delimited file names its columns in its first row, or begins with data at once


LONG_TEXT = 40
"""Characters that a column's name hardly ever has."""
FEWEST_ROWS = 3
"""Below the first one; with fewer, the first row counts as the header."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?\s*")


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns.

    It does unless something in it looks like the rows below, such as a number where there are numbers or a label that
    comes again, and nothing in it looks like a name.
    """
    first = [value.strip() for value in rows[0]]
    below = [[value.strip() for value in row] for row in rows[1:] if len(row) == len(first)]
    below = [row for row in below if row != first]
    if len(below) < FEWEST_ROWS or any(value.lower() in ALL_NAMES for value in first):
        return True
    signs = [_sign(value, [row[place] for row in below]) for place, value in enumerate(first)]
    return max(signs) == 1 or min(signs) == 0


def _sign(first: str, below: list[str]) -> int:
    """1 where the first value of a column looks like its name, -1 where it looks like those below, else 0."""
    filled = [value for value in below if value]
    if not first or not filled:
        return 0
    if all(map(_NUMBER.fullmatch, filled)):
        return -1 if _NUMBER.fullmatch(first) else 1
    distinct = set(filled)
    if len(distinct) <= len(filled) / 2:
        return -1 if first in distinct else 0
    return -1 if len(first) > LONG_TEXT and sum(map(len, filled)) / len(filled) > LONG_TEXT else 0


def named(header: Sequence[str]) -> list[str]:
    """The columns' names; those without one are called "column 3"."""
    return [name or f"column {number}" for number, name in enumerate(header, 1)]


def refuse_repeated(path: Path, header: Sequence[str], where: str = ", row 1") -> None:
    """Stop where two columns have the same name.

    Raises:
        DataError: They have.
    """
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if repeated:
        places = [str(number) for number, name in enumerate(header, 1) if name == repeated[0]]
        raise DataError(
            f"{path.name} has two columns called “{repeated[0]}”",
            f"{path}{where}: columns {' and '.join(places)} have the same name.",
            (Fix("Give every column a name of its own"),),
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


# --- Words with a tag each, as files of the CoNLL tasks have them: a token a line


HEAD_CHARACTERS = 1 << 16
BLOCK_SENTENCES = 20_000
DOCUMENT = "-DOCSTART-"
UNIVERSAL_COLUMNS = 10
"""Of CoNLL-U, which has the word in its second column, its part of speech in the fourth, and no tag in the last."""

_TAG = re.compile(r"O|[BIELSUM]-\S+")
_OPEN_ENDINGS = (".txt", ".tsv", ".tab", ".data", ".train", ".dev", ".test", "")
"""Of files that may be of this form, beside those that must."""


def looks_like_conll(path: Path, head: str) -> bool:
    """Whether a file is of this form: by its ending, or each line ends in a tag such as B-PER or O."""
    if ending(path) not in _OPEN_ENDINGS:
        return False
    lines = head[:HEAD_CHARACTERS].splitlines()
    lines = lines[:-1] if len(head) > HEAD_CHARACTERS else lines
    rows = [fields for line in lines if line.strip() and not _is_apart(fields := _split(line))]
    if not rows or len(rows[0]) < 2 or not any(fields[-1][:2] in ("B-", "I-", "S-", "U-") for fields in rows):
        return False
    fitting = sum(len(fields) == len(rows[0]) and _TAG.fullmatch(fields[-1]) is not None for fields in rows)
    return fitting / len(rows) > 0.9


@dataclass
class _Sentences:
    """Sentences on their way to the shelf: their lines, and each column's values."""

    numbers: list[int] = field(default_factory=list)
    columns: list[list[list[str]]] = field(default_factory=list)


def parse(source: TextFile, shelf: Shelf) -> ParsedRows:
    """Read sentences: the columns `tokens`, `tags` (the last one), and what stands between them as `column 2` and on.

    Raises:
        DataError: A line has another number of columns than the first one, or there are no tags.
    """
    width, first = _width(source)
    names = ["tokens", *(f"column {number}" for number in range(2, width)), "tags"]
    if width == UNIVERSAL_COLUMNS:
        names = ["tokens", "tags"]
    schema = pa.schema([(name, pa.list_(pa.string())) for name in names])
    writer = shelf.writer(schema)
    count = 0
    for block in _blocks(source, width, first):
        arrays = [pa.array(values, pa.list_(pa.string())) for values in block.columns]
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema), np.asarray(block.numbers, np.int64))
        count += len(block.numbers)
    if not count:
        raise DataError(
            f"{source.path.name} has no rows",
            f"{source.path}: there is no sentence in it.",
            (Fix("Choose another file"),),
        )
    return ParsedRows(writer, "CoNLL", "line")


def _width(source: TextFile) -> tuple[int, int]:
    """How many columns the first line with a token has, and its number."""
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            fields = _split(line)
            if line.strip() and not line.startswith("#") and fields[0] != DOCUMENT:
                if len(fields) < 2:
                    raise _no_tag(source.path, number, line)
                return len(fields), number
    return 2, 1


def _blocks(source: TextFile, width: int, first_line: int) -> Iterator[_Sentences]:
    """The sentences, many at a time."""
    block, sentence, start = _Sentences(), list[list[str]](), 0
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            fields = _split(line)
            if not line.strip() or fields[0] == DOCUMENT:
                _add(block, sentence, start)
                sentence = []
            elif len(fields) == width and not _is_remark(fields):
                start = start if sentence else number
                sentence.append(fields)
            elif not line.startswith("#"):
                raise _other_width(source.path, number, line, f"line {first_line:,} has {width}")
        if len(block.numbers) >= BLOCK_SENTENCES:
            yield block
            block = _Sentences()
    _add(block, sentence, start)
    if block.numbers:
        yield block


def _add(block: _Sentences, sentence: list[list[str]], start: int) -> None:
    columns = [list(values) for values in zip(*sentence, strict=True)]
    if len(columns) == UNIVERSAL_COLUMNS:
        words = [
            row for row in sentence if row[0].isdecimal()
        ]  # 1-2 and 1.1 stand for no word of the sentence
        columns = [[row[1] for row in words], [row[3] for row in words]]
    if not columns or not columns[0]:
        return
    block.numbers.append(start)
    block.columns = block.columns or [[] for _ in columns]
    for kept, values in zip(block.columns, columns, strict=True):
        kept.append(values)


def _split(line: str) -> list[str]:
    line = line.rstrip("\r\n ")
    return line.split("\t") if "\t" in line else line.split()


def _is_apart(fields: list[str]) -> bool:
    """Whether a line is a comment or the beginning of a document."""
    return fields[0].startswith("#") or fields[0] == DOCUMENT


def _is_remark(fields: list[str]) -> bool:
    """Whether a line that could be a token is a comment such as "# id = 7"."""
    return fields[0] == "#" and "=" in fields[1:3]


def _no_tag(path: Path, number: int, line: str) -> DataError:
    return DataError(
        f"{path.name}, line {number:,} has a token and no tag",
        f"{path}: each line reads: a token, a tab or a space, its tag, such as “Paris B-LOC”. Line {number:,} is: "
        f"{line[:80]}",
        (Fix("Choose a file with a tag in every line"),),
    )


def _other_width(path: Path, number: int, line: str, others: str) -> DataError:
    count = len(_split(line))
    has = "1 column" if count == 1 else f"{count} columns"
    return DataError(
        f"{path.name}, line {number:,} has {has}, {others}",
        f"{path}: each line reads: a token, a tab or a space, its tag; an empty line ends a sentence. "
        f"Line {number:,} is: {line[:80]}",
        (Fix(f"Mend line {number:,} in a text editor"),),
    )


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
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


def of_text(source: TextFile) -> dict[str, str]:
    """The encoding of a text, and whether it was packed."""
    encoding = ENCODINGS.get(source.encoding, source.encoding)
    if encoding == "UTF-8" and first_bytes(source.path).startswith(codecs.BOM_UTF8):
        encoding = "UTF-8 with a byte order mark"
    return {"encoding": encoding, **({"compression": "gzip"} if source.is_packed else {})}


def of_rows(delimiter: str, *, is_quoted: bool, has_header: bool, columns: int) -> dict[str, str]:
    """How a delimited text was divided."""
    divided = {"delimiter": DELIMITERS[delimiter], "quoting": "double quotes" if is_quoted else "none"}
    return {**(divided if columns > 1 else {}), "header": "in the first row" if has_header else "none"}
