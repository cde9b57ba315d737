"""What a file of rows is: by its ending, and by what is really in it."""

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
