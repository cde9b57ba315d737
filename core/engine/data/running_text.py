"""Running text: read as whole texts, split into training and evaluation, and cut into blocks of tokens."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import TOKENS
from core.engine.data.checks import noted, refuse_problems, repeats
from core.engine.data.columns import Guess, guess_text
from core.engine.data.delimited import SAMPLE_CHARACTERS, is_split, looks_like_conll
from core.engine.data.json_files import looks_like_json
from core.engine.data.labelled_texts import RowReader
from core.engine.data.splits import Files, held_out_of, texts_of
from core.engine.data.tables import Table, cached_tokens, lengths_of, read_files, tokenizer_print, tokens_key
from core.engine.data.text_files import (
    ENDINGS,
    TEXT_ENDINGS,
    Passes,
    Reading,
    Tell,
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
from core.options.data import DataOptions
from core.options.sources import Scheme, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset


# --- Reading: one file as one text, or a folder of files as several


PROSE_ENDINGS = (".md", ".markdown", ".rst")
"""Never a table, whatever their lines look like."""


@dataclass(frozen=True)
class PlainText:
    """The texts of files, in the order of their names; lines end in a line feed, whatever they ended in on disk."""

    files: tuple[Path, ...]
    texts: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    reading: Reading = field(default_factory=dict)


def is_plain_text(path: Path) -> bool:
    """Whether a path is running text rather than a table: by its ending, and by its first lines where that is open.

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
    return not (looks_like_json(head) or looks_like_conll(path, head) or is_split(path, head))


def read_running(files: Files, columns: tuple[str, ...], progress: Tell | None = None) -> PlainText | Table:
    """Files or a folder of running text, or a table.

    Whoever names a column means a table. What ends like a text is one, even where its lines have as many commas each.

    Raises:
        DataError: There is nothing, or no text in it.
    """
    path = files[0]
    if columns or not (path.is_dir() or ending(path) in TEXT_ENDINGS or is_plain_text(path)):
        return read_files(files, progress)
    if path.is_dir() and len(files) == 1:
        found = sorted(in_order(_text_files(path)), key=lambda file: file.relative_to(path).parts)
        if not found:
            raise DataError(
                _("{name} holds no texts").format(name=path.name),
                _("{path}: there is no file in it that ends in {text_endings}.").format(
                    path=path, text_endings=", ".join(TEXT_ENDINGS)
                ),
                (Fix(_("Choose a text, or a folder of texts")),),
            )
        return _read_texts(path, found, progress)
    if len(files) > 1:
        folder = Path(os.path.commonpath([file.parent for file in files]))
        return _read_texts(folder, list(files), progress)
    return _read_text(path, progress)


def _read_text(path: Path, progress: Tell | None) -> PlainText:
    passes = Passes(size_of(path), progress)
    refuse_foreign(path, first_bytes(path))
    source = open_text(path, passes)
    content = source.whole().replace("\r\n", "\n").replace("\r", "\n")
    passes.end()
    return PlainText((path,), (content,), source.notes, of_text(source))


def _read_texts(folder: Path, files: list[Path], progress: Tell | None) -> PlainText:
    empty = [
        file.relative_to(folder).as_posix() for file in files if file.exists() and not file.stat().st_size
    ]
    read: list[PlainText] = []
    for file in files:
        if file.relative_to(folder).as_posix() not in empty:
            read.append(_read_text(file, None))
            if progress:
                progress(len(read), len(files))
    names = ", ".join(empty[:5])
    if not read:
        raise DataError(_("{name} holds only empty texts").format(name=folder.name), f"{folder}: {names}.")
    notes = [note for one in read for note in one.notes]
    if empty:
        notes.append(
            _("Left out, because empty: {names}{value}.").format(
                names=names, value=", ..." if len(empty) > 5 else ""
            )
        )
    return PlainText(tuple(one.files[0] for one in read), tuple(one.texts[0] for one in read), tuple(notes))


def _text_files(folder: Path) -> Iterator[Path]:
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


def text_column(table: Table, chosen: tuple[str, ...]) -> str:
    """The column of a table that holds the texts: the chosen one, or the likeliest.

    Raises:
        DataError: Several are chosen, or there is none.
    """
    if len(chosen) > 1:
        raise DataError(
            _("A text to continue stands in one column"),
            _("{chosen} were chosen.").format(chosen=listed(chosen)),
            tuple(Fix(_("Use {name}").format(name=name), {"data.text_columns": [name]}) for name in chosen),
        )
    names = chosen or guess_text(table)
    known = listed(table.columns)
    if not names:
        raise DataError(
            _("{name} has no text in it").format(name=table.path.name),
            _("{path}: its columns are {known}.").format(path=table.path, known=known),
        )
    if names[0] not in table.columns:
        raise DataError(
            _("There is no column “{names}”").format(names=names[0]),
            _("The columns of {name} are {known}.").format(name=table.path.name, known=known),
            tuple(
                Fix(_("Use {name}").format(name=name), {"data.text_columns": [name]})
                for name in guess_text(table)
            ),
        )
    return names[0]


# --- Texts to train on and texts to evaluate on


NOTHING_HELD_OUT = _("The text is too short to hold out a part of it, so nothing is evaluated.")


@dataclass(frozen=True)
class RunningText:
    """Texts to train on and those held out; `eval` is None where none are."""

    train: list[str] = field(repr=False)
    eval: list[str] | None = field(repr=False)
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
    train, notes = _texts(found, data)
    if data.drop_duplicates and isinstance(found, Table):
        count, train = len(train), list(dict.fromkeys(train))
        notes = (*notes, *repeats(count - len(train), found.row_word))
    if apart := held_out_of(data):
        if scheme_of(apart.source) not in (None, Scheme.HUB):
            raise DataError(
                _("{source} can't be evaluated on").format(source=apart.source),
                _("A model that continues texts needs a text to be measured by."),
                (apart.instead,),
            )
        other = read_running(texts_of(apart.source, apart.split, apart.option), data.text_columns)
        held_out, more = _texts(other, data)
        return RunningText(train, held_out, (*notes, *more))
    if not data.eval_fraction:
        return RunningText(train, None, notes)
    if isinstance(found, Table) and len(train) > 1:
        share = min(round(len(train) * data.eval_fraction), len(train) - 1)
        chosen = set(np.random.default_rng(options.training.seed).permutation(len(train))[:share].tolist())
        held_out = [text for place, text in enumerate(train) if place in chosen]
        train = [text for place, text in enumerate(train) if place not in chosen]
    else:
        ends = [_end_of_training(text, data.eval_fraction) for text in train]
        held_out = [text[end:] for text, end in zip(train, ends, strict=True) if end < len(text)]
        train = [text[:end] for text, end in zip(train, ends, strict=True)]
    if not held_out:
        return RunningText(train, None, (*notes, NOTHING_HELD_OUT))
    return RunningText(train, held_out, notes)


def _texts(found: PlainText | Table, data: DataOptions) -> tuple[list[str], tuple[str, ...]]:
    """The texts, of a table those of a column: blank ones are left out, and with `skip_bad_rows` lists and objects.

    Raises:
        DataError: There is no such column, nothing in it, or something else than text.
    """
    if isinstance(found, PlainText):
        return list(found.texts), found.notes
    columns = Guess((text_column(found, data.text_columns),), None)
    reader = RowReader(found, columns, skip=data.skip_bad_rows)
    texts = [text for block in reader.texts() for (text,) in block.inputs]
    findings = reader.tally.findings()
    refuse_problems(found, findings, len(texts))
    if not texts:
        raise reader.no_usable_rows()
    return texts, (*found.notes, *noted(findings))


def _end_of_training(text: str, fraction: float) -> int:
    """Where the held-out part of a text begins: at the end of a line near; its end where none can be held out."""
    wanted = round(len(text) * (1 - fraction))
    line = text.find("\n", wanted, wanted + max(1, round(len(text) * fraction / 2))) + 1
    return line or wanted or len(text)


# --- Blocks of tokens: every row as long as the next


PIECE_CHARACTERS = 1 << 16
"""Texts are cut into pieces of about this size, which are tokenized side by side."""

TOGETHER_CHARACTERS = 1 << 20
"""So much is handed to the tokenizer at once, which spreads the pieces over the cores."""

UNUSED = "blocks"
"""A fingerprint for `datasets`, which would copy all rows to make one; Hone has a cache of its own."""

LEAST_TOKENS = 2
"""One to see and one to say."""


def all_pieces(texts: Iterable[str]) -> list[str]:
    """Texts in pieces, such as tokenizers are trained on."""
    return [piece for text in texts for piece in pieces(text)]


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


def make_blocks(texts: Sequence[str], tokenizer: Any, length: int) -> Blocks | None:
    """Tokenize texts and cut them into rows; the token that ends a text stands after each.

    Args:
        texts: The texts.
        tokenizer: The model's.
        length: Tokens of a row.

    Returns:
        None where the texts have too few tokens to learn from or be measured by.
    """
    from datasets import Dataset

    def make() -> "Dataset":
        tokens = _tokens(texts, tokenizer)
        places: Any = np.append(np.arange(0, len(tokens), length, dtype=np.int64), len(tokens))
        values = pa.Array.from_buffers(pa.int32(), len(tokens), [None, pa.py_buffer(tokens)])
        rows = pa.LargeListArray.from_arrays(pa.array(places), values)
        return Dataset(pa.table({TOKENS: rows}), fingerprint=UNUSED)

    if known := tokenizer_print(tokenizer):
        decides = f"{known}\0{tokenizer.eos_token_id}"  # models may share all but the token that ends a text
        table = Dataset(pa.table({"text": pa.array(texts, pa.large_string())}), fingerprint=UNUSED)
        found = cached_tokens(f"blocks-{tokens_key(table, decides, length)}", make)
    else:
        found = make()
    lengths = lengths_of(found) or []
    if sum(lengths) < LEAST_TOKENS:
        return None
    full = lengths.count(length) or 1
    rows = found if full == len(lengths) else found.select(range(full))
    return Blocks(rows.with_format("numpy"), length, sum(lengths))


def too_short(source: str) -> DataError:
    """The error for a text of which nothing can be learned."""
    return DataError(
        _("The text is too short to learn from"),
        _("{source}: what is trained on comes to less than two tokens.").format(source=source),
        (Fix(_("Choose a longer text")),),
    )


def _tokens(texts: Sequence[str], tokenizer: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """All tokens one after the other, in a temporary file, which goes with the last reference to it."""
    end = tokenizer.eos_token_id
    with tempfile.TemporaryFile() as file:
        for batch in _together(texts):
            found = _ids([piece for piece, _rest2 in batch], tokenizer)
            for ids, (_rest, is_last) in zip(found, batch, strict=True):
                np.asarray([*ids, end] if is_last and end is not None else ids, dtype=np.int32).tofile(file)
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
    return iter(tokenizer(texts, add_special_tokens=False, verbose=False)[TOKENS])


def _together(texts: Sequence[str]) -> Iterator[list[tuple[str, bool]]]:
    """Pieces to be tokenized together, each with whether it is the last of its text."""
    batch: list[tuple[str, bool]] = []
    size = 0
    for text in texts:
        place = 0
        for piece in pieces(text):
            place += len(piece)
            batch.append((piece, place == len(text)))
            size += len(piece)
            if size >= TOGETHER_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
