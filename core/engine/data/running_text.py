"""Running text: documents to train on and documents held out, and their cutting into pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.checking.repeats import first_of_equals
from core.engine.data.column_names import listed
from core.engine.data.columns import as_text, guess_text, is_blank
from core.engine.data.file_kinds import TEXT_ENDINGS, ending
from core.engine.data.leaving_out import repeats, told
from core.engine.data.nested_values import nested_rows, refuse_nested
from core.engine.data.plain_text import PlainText, is_plain_text, read_plain_text, read_texts
from core.engine.data.shards import read_files
from core.engine.data.splits import Files, HeldOut, held_out_of, texts_of
from core.engine.data.tables import Table
from core.engine.data.text_files import Tell
from core.errors import DataError, Fix
from core.options import RunOptions
from core.sources import Scheme, scheme_of

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
    return _documents([document.content for document in found.documents]), found.notes


def _rows(table: Table, asked: tuple[str, ...], *, skip: bool) -> tuple[Documents, tuple[str, ...]]:
    """The texts of a table's column, those that are blank left out; with `skip` lists and objects, too.

    Raises:
        DataError: There is no such column, nothing in it, or something else than text.
    """
    name = text_column(table, asked)
    if not skip:
        refuse_nested(table, (name,))
    nested = nested_rows(table, name)
    texts = as_text(table.rows[name])
    if nested:
        texts = _at(texts, np.setdiff1d(np.arange(len(texts)), nested))
        first, why = table.where(nested[0]), f"with a list or an object in “{name}”"
        documents, notes = _filled(table, name, texts)
        return documents, (*notes, told(len(nested), table.row_word, why, first))
    return _filled(table, name, texts)


def _unrepeated(documents: Documents, row_word: str) -> tuple[Documents, tuple[str, ...]]:
    """The texts that are the same as no earlier one."""
    count = len(documents.texts)
    kept = first_of_equals(((text,) for text in documents), ("" for _ in range(count)))
    return Documents(_at(documents.texts, kept)), repeats(count - len(kept), row_word)


def _at(texts: pa.ChunkedArray, kept: Any) -> pa.ChunkedArray:
    """Some of the texts, chunk by chunk: together they may be more than one array can hold."""
    chosen: Any = np.zeros(len(texts), dtype=bool)
    chosen[kept] = True
    return texts.filter(pa.array(chosen))


def _filled(table: Table, name: str, texts: pa.ChunkedArray) -> tuple[Documents, tuple[str, ...]]:
    """The texts that aren't blank."""
    blank = is_blank(texts)
    left_out = int(pc.sum(blank).as_py() or 0)
    if left_out == len(texts):
        raise DataError(
            f"{table.path.name} has no usable rows",
            f"{table.path}: column “{name}” is empty in every row.",
            (Fix("Choose another column"),),
        )
    counted = "1 row has" if left_out == 1 else f"{left_out:,} rows have"
    notes = (f"Left out: {counted} no “{name}”.",) if left_out else ()
    return Documents(texts.filter(pc.invert(blank))), (*table.notes, *notes)


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
    return _documents(heads), _documents(tails) if tails else None


def _place(text: str, fraction: float) -> int:
    """Where the held-out part of a text begins; its end where none can be held out."""
    wanted = round(len(text) * (1 - fraction))
    line = text.find("\n", wanted, wanted + max(1, round(len(text) * fraction / 2))) + 1
    return line or wanted or len(text)


def _documents(texts: list[str]) -> Documents:
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
