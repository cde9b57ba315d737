"""Running text: documents to train on and documents held out, and their cutting into pieces."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.engine.data.batches import TOKENS, lengths_of
from core.engine.data.checks import first_of_equals, noted, refuse_problems, repeats
from core.engine.data.columns import Guess, guess_text
from core.engine.data.delimited import SAMPLE_CHARACTERS, is_split, looks_like_conll
from core.engine.data.json_files import looks_like_json
from core.engine.data.labelled_texts import RowReader
from core.engine.data.splits import Files, HeldOut, held_out_of, texts_of
from core.engine.data.tables import Table, read_files
from core.engine.data.text_files import (
    ENDINGS,
    TEXT_ENDINGS,
    Passes,
    Reading,
    Tell,
    TextFile,
    ending,
    first_bytes,
    in_order,
    is_parquet,
    listed,
    of_text,
    open_text,
    refuse_foreign,
    size_of,
    unreadable,
)
from core.engine.data.tokens import cache_key, cached_tokens
from core.options import RunOptions
from core.options.sources import Scheme, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset


# --- Running text to continue: one file as one document, or a folder of files as several


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
    return not (looks_like_json(head) or looks_like_conll(path, head) or is_split(path, head))


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
    return _read_documents(path, found, progress)


def read_texts(files: Sequence[Path], progress: Tell | None = None) -> PlainText:
    """Several files of a folder as documents, in this order.

    Raises:
        DataError: One is no text.
    """
    return _read_documents(Path(os.path.commonpath([path.parent for path in files])), list(files), progress)


def _read_documents(path: Path, found: list[Path], progress: Tell | None) -> PlainText:
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


# --- Running text: documents to train on and documents held out, and their cutting into pieces


PIECE_CHARACTERS = 1 << 16
"""Texts are cut into pieces of about this size, which are tokenized side by side."""

NOTHING_HELD_OUT = "The text is too short to hold out a part of it, so nothing is evaluated."


@dataclass(frozen=True)
class Documents:
    """Texts in their order, as an Arrow column of strings."""

    texts: pa.ChunkedArray = field(repr=False)

    @property
    def characters(self) -> int:
        """How long they are together."""
        return sum(pc.sum(pc.utf8_length(chunk)).as_py() or 0 for chunk in self.texts.chunks)

    def __iter__(self) -> Iterator[str]:
        return (text for chunk in self.texts.chunks for text in _strings(chunk))

    def pieces(self) -> Iterator[str]:
        """All of them cut into pieces."""
        return (piece for text in self for piece in pieces(text))


@dataclass(frozen=True)
class RunningText:
    """What is trained on and what is held out; `eval` is None where nothing is."""

    train: Documents
    eval: Documents | None
    notes: tuple[str, ...] = ()


def load_running_text(options: RunOptions) -> RunningText:
    """Read and split the texts a run asks for.

    Of files, the last part of each is held out: what stands before it says much about what follows, so that blocks
    drawn from all over the text would be no test. Of the rows of a table, which stand alone, the seed chooses a share.

    Raises:
        DataError: They can't be used; the file is named.
    """
    data = options.data
    found = read_running(texts_of(data.train, data.train_split), data.text_columns)
    apart = held_out_of(data)
    fraction = 0.0 if apart else data.eval_fraction
    if isinstance(found, Table):
        documents, notes = _rows(found, data.text_columns, skip=data.skip_bad_rows)
        if data.drop_duplicates:
            documents, more = _unrepeated(documents, found.row_word)
            notes = (*notes, *more)
        train, held_out = _split_rows(documents, fraction, options.training.seed)
    else:
        notes = found.notes
        train, held_out = _split_tails([document.content for document in found.documents], fraction)
    if apart:
        held_out, more = _read_eval(apart, data.text_columns, skip=data.skip_bad_rows)
        notes = (*notes, *more)
    elif fraction and held_out is None:
        notes = (*notes, NOTHING_HELD_OUT)
    return RunningText(train, held_out, notes)


def read_running(files: Files, columns: tuple[str, ...], progress: Tell | None = None) -> PlainText | Table:
    """Files or a folder of running text, or a table.

    Whoever names a column means a table. What ends like a text is one, even where its lines have as many commas each.
    """
    path = files[0]
    if columns or not (path.is_dir() or ending(path) in TEXT_ENDINGS or is_plain_text(path)):
        return read_files(files, progress)
    return read_plain_text(path, progress) if len(files) == 1 else read_texts(files, progress)


def _read_eval(apart: HeldOut, columns: tuple[str, ...], *, skip: bool) -> tuple[Documents, tuple[str, ...]]:
    if scheme_of(apart.source) not in (None, Scheme.HUB):
        raise DataError(
            f"{apart.source} can't be evaluated on",
            "A model that goes on writing a text needs a text to be measured by.",
            (apart.instead,),
        )
    found = read_running(texts_of(apart.source, apart.split, apart.option), columns)
    if isinstance(found, Table):
        return _rows(found, columns, skip=skip)
    return _as_documents([document.content for document in found.documents]), found.notes


def _rows(table: Table, asked: tuple[str, ...], *, skip: bool) -> tuple[Documents, tuple[str, ...]]:
    """The texts of a table's column, those that are blank left out; with `skip` lists and objects, too.

    Raises:
        DataError: There is no such column, nothing in it, or something else than text.
    """
    reader = RowReader(table, Guess((text_column(table, asked),), None), skip=skip)
    texts = [pa.array([text for (text,) in block.inputs], pa.large_string()) for block in reader.texts()]
    found = Documents(pa.chunked_array(texts, pa.large_string()))
    findings = reader.tally.findings()
    refuse_problems(table, findings, len(found.texts))
    if not len(found.texts):
        raise reader.no_usable_rows()
    return found, (*table.notes, *noted(findings))


def _unrepeated(documents: Documents, row_word: str) -> tuple[Documents, tuple[str, ...]]:
    """The texts that are the same as no earlier one."""
    count = len(documents.texts)
    kept = first_of_equals(((text,) for text in documents), ("" for _ in range(count)))
    chosen: Any = np.zeros(count, dtype=bool)
    chosen[kept] = True
    return Documents(documents.texts.filter(pa.array(chosen))), repeats(count - len(kept), row_word)


def text_column(table: Table, asked: tuple[str, ...]) -> str:
    """The column of a table that holds the texts: the one asked for, or the likeliest.

    Raises:
        DataError: Several were asked for, or there is none.
    """
    if len(asked) > 1:
        raise DataError(
            "A text to go on writing stands in one column",
            f"{listed(asked)} were asked for.",
            tuple(Fix(f"Use {name}", {"data.text_columns": [name]}) for name in asked),
        )
    chosen = asked or guess_text(table)
    known = listed(table.columns)
    if not chosen:
        raise DataError(f"{table.path.name} has no text in it", f"{table.path}: its columns are {known}.")
    if chosen[0] not in table.columns:
        raise DataError(
            f"There is no column “{chosen[0]}”",
            f"The columns of {table.path.name} are {known}.",
            tuple(Fix(f"Use {name}", {"data.text_columns": [name]}) for name in guess_text(table)),
        )
    return chosen[0]


def _split_rows(documents: Documents, fraction: float, seed: int) -> tuple[Documents, Documents | None]:
    """A share of the rows, chosen by the seed; a single one is cut like a file."""
    count = len(documents.texts)
    if count == 1:
        return _split_tails(list(documents), fraction)
    share = min(round(count * fraction), count - 1)
    if not share:
        return documents, None
    chosen: Any = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[:share]] = True
    return Documents(documents.texts.filter(pa.array(~chosen))), Documents(
        documents.texts.filter(pa.array(chosen))
    )


def _split_tails(texts: list[str], fraction: float) -> tuple[Documents, Documents | None]:
    """The last part of each text apart from the rest, at the end of a line where there is one near."""
    ends = [_place(text, fraction) for text in texts]
    tails = [text[end:] for text, end in zip(texts, ends, strict=True) if end < len(text)]
    heads = [text[:end] for text, end in zip(texts, ends, strict=True)]
    return _as_documents(heads), _as_documents(tails) if tails else None


def _place(text: str, fraction: float) -> int:
    """Where the held-out part of a text begins; its end where none can be held out."""
    wanted = round(len(text) * (1 - fraction))
    line = text.find("\n", wanted, wanted + max(1, round(len(text) * fraction / 2))) + 1
    return line or wanted or len(text)


def _as_documents(texts: list[str]) -> Documents:
    return Documents(
        pa.chunked_array([pa.array([text], pa.large_string()) for text in texts], pa.large_string())
    )


def _strings(chunk: Any) -> Iterator[str]:
    """The strings of an Arrow array, made one after the other."""
    return (text.as_py() for text in chunk)


def pieces(text: str, size: int = PIECE_CHARACTERS) -> Iterator[str]:
    """A text in pieces of at most `size` characters, cut behind a line or before a space where one is near."""
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            near = start + size // 2
            end = text.rfind("\n", near, end) + 1 or max(text.rfind(" ", near, end), 0) or end
        yield text[start:end]
        start = end


# --- Running text as blocks of tokens: every row as long as the next


TOGETHER_CHARACTERS = 1 << 20
"""So much is handed to the tokenizer at once, which spreads the pieces over the cores."""

UNUSED = "blocks"
"""A fingerprint for `datasets`, which would copy all rows to make one; Hone has a cache of its own."""

LEAST_TOKENS = 2
"""One to see and one to say."""


@dataclass(frozen=True)
class Blocks:
    """Rows of `length` tokens. A text shorter than that is one shorter row; `left_over` tokens at the end are in none.

    `rows` is a `datasets.Dataset` of `input_ids` [length], int32.
    """

    rows: "Dataset"
    length: int
    tokens: int

    @property
    def left_over(self) -> int:
        """Tokens at the end that fill no row."""
        return self.tokens - len(self.rows) * min(self.length, self.tokens)


def make_blocks(documents: Documents, tokenizer: Any, length: int, known: str) -> Blocks | None:
    """Tokenize documents and cut them into rows; the token that ends a text stands after each.

    Args:
        documents: The texts.
        tokenizer: The model's.
        length: Tokens of a row.
        known: What `tokenizer_print` told of the tokenizer; empty: nothing is kept.

    Returns:
        None where the texts have too few tokens to learn from or be measured by.
    """

    def make() -> "Dataset":
        return _rows_of(_tokens(documents, tokenizer), length)

    decides = f"{known}\0{tokenizer.eos_token_id}"  # models may share all but the token that ends a text
    key = f"blocks-{cache_key(_table(documents), decides, length)}"
    found = cached_tokens(key, make) if known else make()
    lengths = lengths_of(found) or []
    if sum(lengths) < LEAST_TOKENS:
        return None
    full = sum(1 for count in lengths if count == length) or 1
    rows = found if full == len(lengths) else found.select(range(full))
    return Blocks(rows.with_format("numpy"), length, sum(lengths))


def too_short(source: str) -> DataError:
    """The error for a text of which nothing can be learned."""
    return DataError(
        "The text is too short to learn from",
        f"{source}: what is trained on comes to less than two tokens.",
        (Fix("Choose a longer text"),),
    )


def _table(documents: Documents) -> "Dataset":
    from datasets import Dataset

    return Dataset(pa.table({"text": documents.texts}), fingerprint=UNUSED)


def _tokens(documents: Documents, tokenizer: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """All tokens one after the other, in a file that is gone once nobody looks at it any more."""
    end = tokenizer.eos_token_id
    with tempfile.TemporaryFile() as file:
        for batch in _together(documents, end is not None):
            found = _ids([piece for piece, _ in batch], tokenizer)
            for ids, (_, is_last) in zip(found, batch, strict=True):
                np.asarray([*ids, end] if is_last else ids, dtype=np.int32).tofile(file)
        file.flush()
        if not file.tell():
            return np.zeros(0, np.int32)
        return np.memmap(file, dtype=np.int32, mode="r")


def _ids(texts: list[str], tokenizer: Any) -> Iterator[list[int]]:
    """The tokens of each text, without special ones.

    Asked of the tokenizer's own engine where it has one: that spares where each token stands, and half the time.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
        return (found.ids for found in backend.encode_batch_fast(texts, add_special_tokens=False))
    # it would warn of texts that are longer than its model can see
    found = tokenizer(texts, add_special_tokens=False, verbose=False)
    return iter(found[TOKENS])


def _together(documents: Iterable[str], ends: bool) -> Iterator[list[tuple[str, bool]]]:
    """Pieces to be tokenized together, each with whether the token that ends a text follows."""
    batch: list[tuple[str, bool]] = []
    size = 0
    for text in documents:
        place = 0
        for piece in pieces(text):
            place += len(piece)
            batch.append((piece, ends and place == len(text)))
            size += len(piece)
            if size >= TOGETHER_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _rows_of(tokens: Any, length: int) -> "Dataset":
    """The tokens in rows of `length`, the last one shorter."""
    from datasets import Dataset

    places: Any = np.append(np.arange(0, len(tokens), length, dtype=np.int64), len(tokens))
    values = pa.Array.from_buffers(pa.int32(), len(tokens), [None, pa.py_buffer(tokens)])
    rows = pa.LargeListArray.from_arrays(pa.array(places), values)
    return Dataset(pa.table({TOKENS: rows}), fingerprint=UNUSED)
