"""Running text to continue: one file as one document, or a folder of files as several."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.engine.data import conll, json_rows
from core.engine.data.file_kinds import ENDINGS, TEXT_ENDINGS, ending, is_parquet, refuse_foreign
from core.engine.data.how_read import Reading, of_text
from core.engine.data.quoting import SAMPLE_CHARACTERS, is_split
from core.engine.data.text_encoding import open_text
from core.engine.data.text_files import Passes, Tell, TextFile, first_bytes, in_order, size_of, unreadable
from core.errors import DataError, Fix

PROSE_ENDINGS = (".md", ".markdown", ".rst")
"""Never a table, whatever their lines look like."""


@dataclass(frozen=True)
class Document:
    """One text; `name` is its path below the folder that was chosen."""

    path: Path
    name: str
    content: str = field(repr=False)

    def where(self, place: int) -> str:
        """Where a character stands, such as "line 17 of chapters/one.txt"."""
        return f"line {self.content.count(chr(10), 0, place) + 1:,} of {self.name}"


@dataclass(frozen=True)
class PlainText:
    """Documents in the order of their names; lines end in a line feed, whatever they ended in on disk."""

    path: Path
    documents: tuple[Document, ...]
    notes: tuple[str, ...] = ()
    format: str = "text"
    reading: Reading = field(default_factory=dict)

    @property
    def characters(self) -> int:
        """How long all documents are together."""
        return sum(len(document.content) for document in self.documents)


def is_plain_text(path: Path) -> bool:
    """Whether a path is running text rather than a table: by its ending, and by its first lines where that is open.

    Raises:
        DataError: It can't be read.
    """
    if path.is_dir():
        return next(_files(path), None) is not None
    if ending(path) in ENDINGS:
        return False
    size_of(path)
    if is_parquet(path, first_bytes(path)):
        return False
    head = open_text(path, Passes(0, None)).head(SAMPLE_CHARACTERS)
    if ending(path) in PROSE_ENDINGS:
        return True
    return not (json_rows.looks_like_json(head) or conll.looks_like_conll(path, head) or is_split(path, head))


def read_plain_text(path: Path, progress: Tell | None = None) -> PlainText:
    """Read a text, or all texts of a folder and its subfolders, by the order of their names.

    Raises:
        DataError: There is none, or one is no text.
    """
    if not path.is_dir():
        document, source = _document(path, path.name, progress)
        return PlainText(path, (document,), source.notes, reading=of_text(source))
    found = sorted(in_order(_files(path)), key=lambda file: file.relative_to(path).parts)
    if not found:
        raise DataError(
            f"{path.name} holds no texts",
            f"{path}: there is no file in it that ends in {', '.join(TEXT_ENDINGS)}.",
            (Fix("Choose a text, or a folder of texts"),),
        )
    return _documents(path, found, progress)


def read_texts(files: Sequence[Path], progress: Tell | None = None) -> PlainText:
    """Several files of a folder as documents, in this order.

    Raises:
        DataError: One is no text.
    """
    return _documents(Path(os.path.commonpath([path.parent for path in files])), list(files), progress)


def _documents(path: Path, found: list[Path], progress: Tell | None) -> PlainText:
    documents, notes, empty = list[Document](), list[str](), list[str]()
    for file in found:
        name = file.relative_to(path).as_posix()
        if file.exists() and file.stat().st_size == 0:
            empty.append(name)
            continue
        document, source = _document(file, name, None)
        documents.append(document)
        notes.extend(source.notes)
        if progress:
            progress(len(documents), len(found))
    if not documents:
        raise DataError(f"{path.name} holds only empty texts", f"{path}: {', '.join(empty[:5])}.")
    if empty:
        notes.append(f"Left out, because empty: {', '.join(empty[:5])}{', ...' if len(empty) > 5 else ''}.")
    return PlainText(path, tuple(documents), tuple(notes))


def _document(path: Path, name: str, progress: Tell | None) -> tuple[Document, TextFile]:
    passes = Passes(size_of(path), progress)
    refuse_foreign(path, first_bytes(path))
    source = open_text(path, passes)
    content = source.whole().replace("\r\n", "\n").replace("\r", "\n")
    passes.end()
    return Document(path, name, content), source


def _files(folder: Path) -> Iterator[Path]:
    """The texts in a folder and below, hidden ones left out; a link back to a folder above is followed once."""
    seen = set[tuple[int, int]]()

    def refuse(error: OSError) -> None:
        raise unreadable(Path(error.filename or folder), error)

    for at, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        found = Path(at).stat()
        key = (found.st_dev, found.st_ino)
        if key in seen:
            folders.clear()
            continue
        seen.add(key)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and ending(Path(name)) in TEXT_ENDINGS:
                yield Path(at, name)
