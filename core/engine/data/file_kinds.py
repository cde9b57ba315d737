"""What a file of rows is: by its ending, and by what is really in it."""

import codecs
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from core.errors import DataError, Fix


class Kind(Enum):
    """The forms of rows Hone reads."""

    DELIMITED = "CSV"
    JSON = "JSON"
    JSON_LINES = "JSONL"
    PARQUET = "Parquet"


ENDINGS: dict[str, Kind] = {
    ".csv": Kind.DELIMITED,
    ".tsv": Kind.DELIMITED,
    ".tab": Kind.DELIMITED,
    ".json": Kind.JSON,
    ".jsonl": Kind.JSON_LINES,
    ".ndjson": Kind.JSON_LINES,
    ".parquet": Kind.PARQUET,
    ".pq": Kind.PARQUET,
}
"""Any other ending is decided by the content alone."""

PARQUET_MAGIC = b"PAR1"


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
    _Foreign(b"\x1f\x8b", "a file compressed with gzip", "Unpack it"),
    _Foreign(b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "Unpack it"),
    _Foreign(b"7z\xbc\xaf", "a 7z archive", "Unpack it"),
    _Foreign(b"SQLite format 3", "an SQLite database", "Export the table as CSV"),
    _Foreign(b"ARROW1", "an Arrow file", "Save the table as Parquet"),
    _Foreign(b"<!doctype html", "a web page; a download that went wrong often is", "Download the file again"),
    _Foreign(b"<html", "a web page; a download that went wrong often is", "Download the file again"),
    _Foreign(b"<?xml", "an XML file", "Convert it to CSV or JSON"),
)


def is_parquet(path: Path, content: bytes) -> bool:
    """Whether it is a Parquet file.

    Args:
        path: The file, for its ending and for the words of the error.
        content: Its first bytes.

    Raises:
        DataError: The file is something Hone can't read rows from, or Parquet under another ending or the reverse.
    """
    for foreign in FOREIGN:
        if content[: len(foreign.magic)].lower() == foreign.magic.lower():
            raise mismatch(path, foreign.name, foreign.advice)
    found = content.startswith(PARQUET_MAGIC)
    expected = ENDINGS.get(path.suffix.lower())
    if found and expected not in (Kind.PARQUET, None):
        raise mismatch(path, "a Parquet file", "Rename it to end in .parquet")
    if expected is Kind.PARQUET and not found:
        raise mismatch(path, "something else", "Get the file again, or give it the ending of what it is")
    return found


def mismatch(path: Path, found: str, advice: str) -> DataError:
    """The error for a file that isn't what its ending says, or is no table at all."""
    kind = path.suffix.lower().removeprefix(".")
    known = path.suffix.lower() in ENDINGS
    said = f"{path.name} is not a {kind.upper() if kind != 'parquet' else 'Parquet'} file"
    return DataError(
        said if known else f"{path.name} is not a table of texts", f"{path} is {found}.", (Fix(advice),)
    )


@dataclass(frozen=True)
class Text:
    """The text of a file, and a note where its encoding had to be guessed."""

    content: str
    note: str = ""


def read_text(path: Path, content: bytes) -> Text:
    """Decode a text file: UTF-8, UTF-16 with its mark, else Windows-1252.

    Raises:
        DataError: The file is empty or no text.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = Text(_decode_utf16(path, content))
    elif b"\0" in content:
        raise mismatch(path, "not text: it holds zero bytes", "Save it as text in UTF-8")
    else:
        text = _decode(path, content)
    if not text.content.strip():
        raise DataError(f"{path.name} is empty", f"{path} holds no rows.", (Fix("Choose another file"),))
    return text


def _decode_utf16(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-16")
    except UnicodeDecodeError as error:
        raise mismatch(path, f"not readable as UTF-16: {error.reason}", "Save it as text in UTF-8") from error


def _decode(path: Path, content: bytes) -> Text:
    try:
        return Text(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        note = (
            f"{path.name} is not in UTF-8 (line {line:,}); it was read as Windows-1252. "
            "If letters look wrong, save it as UTF-8."
        )
    try:
        return Text(content.decode("cp1252"), note)
    except UnicodeDecodeError:
        return Text(content.decode("latin-1"), note)
