"""Running text: read as whole texts, split into training and evaluation data, and cut into blocks of tokens."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.language import _, ngettext
from core.engine.data import TOKENS
from core.engine.data.chat_tokens import as_plain_text
from core.engine.data.checks import noted, refuse_problems, refuse_sparse, repeats
from core.engine.data.columns import Guess, guess_text
from core.engine.data.conversations import NAMES, ConversationReader, Shape, ShapeKind, find_shape
from core.engine.data.delimited import SAMPLE_CHARACTERS, is_split, looks_like_conll
from core.engine.data.json_files import looks_like_json
from core.engine.data.labelled_texts import BLOCK_ROWS, RowBlock, RowReader
from core.engine.data.splits import NOTHING_HELD_OUT, Files, held_out_of, texts_of
from core.engine.data.tables import Table, cached_tokens, lengths_of, read_files, tokenizer_print, tokens_key
from core.engine.data.text_files import (
    ENDINGS,
    TEXT_ENDINGS,
    Passes,
    Progress,
    Reading,
    ReadingNote,
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
from core.options import RunOptions
from core.options.choices import ColumnRole
from core.options.data import DataOptions
from core.options.presets import is_whatsapp
from core.options.sources import Scheme, parse_synthetic, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset


# --- Reading: a file as one text, a folder as several, or a column of a table


PROSE_ENDINGS = (".md", ".markdown", ".rst")
"""Never read as a table."""


@dataclass(frozen=True)
class PlainText:
    """The texts of files in the order of their names, with line feeds as line ends."""

    files: tuple[Path, ...]
    texts: tuple[str, ...] = field(repr=False)
    notes: tuple[ReadingNote, ...] = ()
    reading: Reading = field(default_factory=dict)


def is_plain_text(path: Path) -> bool:
    """Returns whether a file or folder is running text and no table, by its ending or else by its first lines.

    Raises:
        DataError: It can't be read.
    """
    if path.is_dir():
        return next(_text_files(path), None) is not None
    if ending(path) in ENDINGS:
        return False
    size_of(path)
    if is_parquet(path, first_bytes(path)):
        return False
    head = open_text(path, Passes(0, None)).head(SAMPLE_CHARACTERS)
    if ending(path) in PROSE_ENDINGS:
        return True
    return not (is_whatsapp(head) or looks_like_json(head) or looks_like_conll(path, head) or is_split(head))


def read_running(
    files: Files, columns: tuple[str, ...], progress: Progress | None = None
) -> PlainText | Table:
    """Reads files or a folder of running text, or a table.

    Files with the ending of a text are texts, even if their lines look like those of a table, unless columns are
    chosen.

    Raises:
        DataError: They can't be read, or have no text.
    """
    path = files[0]
    if columns or not (path.is_dir() or ending(path) in TEXT_ENDINGS or is_plain_text(path)):
        return read_files(files, progress)
    folder = path
    if path.is_dir():
        files = tuple(sorted(in_order(_text_files(path)), key=lambda file: file.relative_to(path).parts))
        if not files:
            raise DataError(
                _("{name} has no texts").format(name=path.name),
                _("{path}: no file in it ends in {endings}.").format(
                    path=path, endings=", ".join(TEXT_ENDINGS)
                ),
                (Fix(_("Choose a text, or a folder of texts")),),
            )
    elif len(files) == 1:
        return _read_text(path, progress)
    else:
        folder = Path(os.path.commonpath([file.parent for file in files]))
    empty = [file for file in files if file.exists() and not file.stat().st_size]  # pipes and devices, too
    names = ", ".join(file.relative_to(folder).as_posix() for file in empty[:5])
    texts: list[PlainText] = []
    for file in files:
        if file not in empty:
            texts.append(_read_text(file, None))
            if progress:
                progress(len(texts), len(files) - len(empty))
    if not texts:
        raise DataError(_("{name} has only empty texts").format(name=folder.name), f"{folder}: {names}.")
    notes = [note for text in texts for note in text.notes]
    if empty:
        left_out = ngettext(
            "{count:,} file without text is left out: {names}.",
            "{count:,} files without text are left out: {names}.",
            len(empty),
        )
        notes.append(ReadingNote(left_out.format(count=len(empty), names=names)))
    return PlainText(
        tuple(text.files[0] for text in texts), tuple(text.texts[0] for text in texts), tuple(notes)
    )


def _read_text(path: Path, progress: Progress | None) -> PlainText:
    passes = Passes(size_of(path), progress)
    refuse_foreign(path, first_bytes(path))
    source = open_text(path, passes)
    content = source.whole().replace("\r\n", "\n").replace("\r", "\n")
    passes.end()
    return PlainText((path,), (content,), source.notes, of_text(source))


def _text_files(folder: Path) -> Iterator[Path]:
    """Finds the texts in a folder and below, without hidden ones; links to a folder above are followed once."""
    seen = set[Path]()

    def refuse(error: OSError) -> None:
        raise unreadable(Path(error.filename or folder), error)

    for at, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        where = Path(at).resolve()
        if where in seen:
            folders.clear()
            continue
        seen.add(where)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and ending(Path(name)) in TEXT_ENDINGS:
                yield Path(at, name)


def shape_of(table: Table, data: DataOptions) -> Shape | None:
    """Returns how a table of conversations is read, each as one text; None if a column of texts is read."""
    names = {name.strip().lower() for name in table.columns}
    if data.text_columns or (not data.columns and names & set(NAMES[ColumnRole.TEXT].split())):
        return None
    try:
        shape = find_shape(table, columns=data.columns)
    except DataError:
        if data.columns:
            raise
        return None
    return None if shape.kind is ShapeKind.TEXT else shape


class ConversationTexts(RowReader):
    """Reads a table of conversations as texts in ChatML, so that a chat run can continue from the model."""

    def __init__(self, table: Table, shape: Shape, data: DataOptions, **more: Any) -> None:
        super().__init__(table, Guess((), None), skip=data.skip_bad_rows, **more)
        self._conversations = ConversationReader(table, shape, self.tally, data.roles, self._progress)

    def texts(self) -> Iterator[RowBlock]:
        rows = iter(self._conversations)
        while some := list(islice(rows, BLOCK_ROWS)):
            places: Any = np.searchsorted(self.table.numbers, [row.row for row in some])
            yield RowBlock(places.tolist(), [(as_plain_text(row),) for row in some], [""] * len(some))


def reader_of(table: Table, data: DataOptions, **more: Any) -> RowReader:
    """Returns the reader of the texts in a table: conversations, or one column.

    Raises:
        DataError: The column doesn't exist, or has almost no text.
    """
    if shape := shape_of(table, data):
        return ConversationTexts(table, shape, data, **more)
    columns = Guess((text_column(table, data.text_columns),), None)
    return RowReader(table, columns, skip=data.skip_bad_rows, **more)


def text_column(table: Table, chosen: tuple[str, ...]) -> str:
    """Returns the chosen column of texts, or the likeliest.

    Raises:
        DataError: Several are chosen, there is none, or almost all of it is empty.
    """
    guessed = guess_text(table)
    if len(chosen) == 1 and chosen[0] in table.columns:
        refuse_sparse(table, chosen[0], "data.text_columns")
        return chosen[0]
    if not chosen and guessed:
        refuse_sparse(table, guessed[0], "data.text_columns")
        return guessed[0]
    title = _("{name} has no column {columns}") if chosen else _("{name} has no column of texts")
    if len(chosen) > 1:
        title = _("Texts to continue are in one column of {name}, not in {columns}")
    choices = guessed if len(chosen) < 2 else chosen
    raise DataError(
        title.format(name=table.path.name, columns=listed(chosen)),
        _("{path} has the columns {columns}.").format(path=table.path, columns=listed(table.columns)),
        tuple(Fix(_("Use {name}").format(name=name), {"data.text_columns": [name]}) for name in choices),
    )


# --- Training and evaluation data of a run


@dataclass(frozen=True)
class RunningText:
    """Texts for training and evaluation; `eval` is None if nothing is held out."""

    train: list[str] = field(repr=False)
    eval: list[str] | None = field(repr=False)
    notes: tuple[ReadingNote, ...] = ()


def load_running_text(options: RunOptions) -> RunningText:
    """Reads and splits the texts of a run.

    The last part of each file is held out, as blocks from all over a text would be too similar to their surroundings.
    Of the rows of a table, which are independent, a random share is.

    Raises:
        DataError: They can't be used; it names the file.
    """
    data = options.data
    source = read_running(texts_of(data.train, data.train_split), data.text_columns)
    train, notes = _texts(source, data)
    if data.drop_duplicates and isinstance(source, Table):
        count, train = len(train), list(dict.fromkeys(train))
        notes = (*notes, *map(ReadingNote, repeats(count - len(train))))
    if apart := held_out_of(options):
        if scheme_of(apart.source) not in (None, Scheme.HUB):
            raise DataError(
                _("{source} can't be used for validation").format(source=apart.source),
                _("A model that continues texts is evaluated on texts."),
                apart.instead,
            )
        other = read_running(texts_of(apart.source, apart.split, apart.option), data.text_columns)
        held_out, eval_notes = _texts(other, data)
        return RunningText(train, held_out, (*(notes if options.tells_of_training else ()), *eval_notes))
    if not data.eval_fraction:
        return RunningText(train, None, notes)
    if isinstance(source, Table) and len(train) > 1:
        share = min(round(len(train) * data.eval_fraction), len(train) - 1)
        chosen = set(np.random.default_rng(options.training.seed).permutation(len(train))[:share].tolist())
        held_out = [text for place, text in enumerate(train) if place in chosen]
        train = [text for place, text in enumerate(train) if place not in chosen]
    else:
        ends = [_end_of_training(text, data.eval_fraction) for text in train]
        held_out = [text[end:] for text, end in zip(train, ends, strict=True) if end < len(text)]
        train = [text[:end] for text, end in zip(train, ends, strict=True)]
    if not held_out:
        return RunningText(train, None, (*notes, ReadingNote(NOTHING_HELD_OUT)))
    return RunningText(train, held_out, notes)


def texts_of_conversations(options: RunOptions) -> list[str]:
    """Returns the training texts of a chat run, to train the tokenizer of a model from scratch; none of random data."""
    return [] if parse_synthetic(options.data.train) else load_running_text(options).train


def _texts(source: PlainText | Table, data: DataOptions) -> tuple[list[str], tuple[ReadingNote, ...]]:
    """Returns the texts and the notes; of a table, without blank ones and, with `skip_bad_rows`, lists and objects.

    Raises:
        DataError: The column doesn't exist, is empty, or has something else than text.
    """
    if isinstance(source, PlainText):
        return list(source.texts), source.notes
    reader = reader_of(source, data)
    texts = [text for block in reader.texts() for (text,) in block.inputs]
    findings = reader.tally.findings()
    refuse_problems(source.path, findings, len(texts))
    if not texts:
        raise reader.no_usable_rows()
    return texts, (*source.notes, *map(ReadingNote, noted(findings)))


def _end_of_training(text: str, fraction: float) -> int:
    """Returns where the held-out part of a text begins, at the next line if it is near, or the text's length."""
    wanted = round(len(text) * (1 - fraction))
    line = text.find("\n", wanted, wanted + max(1, round(len(text) * fraction / 2))) + 1
    return line or wanted or len(text)


# --- Blocks of tokens


PIECE_CHARACTERS = 1 << 16
"""Texts are split into pieces of about this size, which are tokenized in parallel."""

BATCH_CHARACTERS = 1 << 20
"""The size of all pieces that are tokenized in one call."""

UNUSED = "blocks"
"""A fingerprint for `datasets`, which would copy all rows to make one; Hone has a cache of its own."""

LEAST_TOKENS = 2
"""One to read and one to predict."""


def all_pieces(texts: Sequence[str]) -> list[str]:
    """Splits all texts into pieces, to train a tokenizer on."""
    return [piece for text in texts for piece in pieces(text)]


def pieces(text: str, size: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Splits a text into pieces of at most `size` characters, after a line or before a space if one is near."""
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            near = start + size // 2
            end = text.rfind("\n", near, end) + 1 or max(text.rfind(" ", near, end), 0) or end
        yield text[start:end]
        start = end


@dataclass(frozen=True)
class Blocks:
    """Rows of `length` tokens, or a single shorter row.

    `rows` is a `datasets.Dataset` of `input_ids` [length], int32; `tokens` counts those of the text.
    """

    rows: "Dataset"
    length: int
    tokens: int

    @property
    def left_over(self) -> int:
        """The number of tokens at the end that don't fill a row."""
        return self.tokens - len(self.rows) * min(self.length, self.tokens)


def make_blocks(texts: Sequence[str], tokenizer: Any, length: int) -> Blocks | None:
    """Tokenizes texts, each with the end of text after it, and cuts them into rows.

    Args:
        length: Tokens of a row.

    Returns:
        None if the texts have too few tokens.
    """
    from datasets import Dataset

    def make() -> "Dataset":
        tokens = _tokens(texts, tokenizer)
        places: Any = np.append(np.arange(0, len(tokens), length, dtype=np.int64), len(tokens))
        values = pa.Array.from_buffers(pa.int32(), len(tokens), [None, pa.py_buffer(tokens)])
        rows = pa.LargeListArray.from_arrays(pa.array(places), values)
        return Dataset(pa.table({TOKENS: rows}), fingerprint=UNUSED)

    if known := tokenizer_print(tokenizer):
        decides = f"{known}\0{tokenizer.eos_token_id}"  # models may share all but the end of text
        table = Dataset(pa.table({"text": pa.array(texts, pa.large_string())}), fingerprint=UNUSED)
        rows = cached_tokens(f"blocks-{tokens_key(table, decides, length)}", make)
    else:
        rows = make()
    lengths = lengths_of(rows) or []
    if sum(lengths) < LEAST_TOKENS:
        return None
    full = lengths.count(length) or 1
    rows = rows if full == len(lengths) else rows.select(range(full))
    return Blocks(rows.with_format("numpy"), length, sum(lengths))


def too_short(source: str) -> DataError:
    return DataError(
        _("The text is too short to train on"),
        _("{source}: the training data has fewer than two tokens.").format(source=source),
        (Fix(_("Choose a longer text")),),
    )


def _tokens(texts: Sequence[str], tokenizer: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Tokenizes all texts into a memory-mapped temporary file, which is deleted with the last reference to it."""
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    with tempfile.TemporaryFile() as file:
        for batch in _batches(texts):
            encoded = _ids([piece for piece, _is_last in batch], tokenizer)
            for ids, (_piece, is_last) in zip(encoded, batch, strict=True):
                np.asarray([*ids, *end] if is_last else ids, dtype=np.int32).tofile(file)
        file.flush()
        if not file.tell():
            return np.zeros(0, np.int32)
        return np.memmap(file, dtype=np.int32, mode="r")


def _ids(texts: list[str], tokenizer: Any) -> Iterator[list[int]]:
    """Returns the tokens of each text without special ones.

    Tokenizers' own engine, where there is one, takes half the time: it computes no offsets.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
        return (encoded.ids for encoded in backend.encode_batch_fast(texts, add_special_tokens=False))
    # not verbose: no warning about texts beyond the model's limit
    return iter(tokenizer(texts, add_special_tokens=False, verbose=False)[TOKENS])


def _batches(texts: Sequence[str]) -> Iterator[list[tuple[str, bool]]]:
    """Groups pieces to tokenize in one call, each with whether it is the last of its text."""
    batch: list[tuple[str, bool]] = []
    size = 0
    for text in texts:
        done = 0
        for piece in pieces(text):
            done += len(piece)
            size += len(piece)
            batch.append((piece, done == len(text)))
            if size >= BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
