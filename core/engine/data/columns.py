"""What the columns of a table hold, and which of them are likely the texts, the labels, the words or the images."""

import ast
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.delimited import LABEL_NAMES, PAIR_NAMES, TEXT_NAMES
from core.engine.data.json_files import EXACT_FLOAT, Why
from core.engine.data.tables import Table
from core.engine.data.text_files import listed
from core.options.presets import IMAGE_FORMATS
from core.services.inspect import Column, ColumnKind

EXAMPLES = 3
EXAMPLE_CHARACTERS = 120
SHOWN_BYTES = 20
EXAMPLE_ROWS = 20
"""Rows with a value in which they are looked for."""
MOST_LABELS = 1000
MOST_COUNTED = 4 * 2**20
"""Bytes of different texts that are told apart as they are; beyond, by their hashes, at 8 bytes a row."""
FEW_ROWS = 50
"""Below this, a label may well stand in one row only."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_SIDE = re.compile(r"1|2|(?<![^\W_])[abAB](?![^\W_])|(?<=[a-z])[AB]$")
"""What tells the two names of a pair apart: `#1 String`, `sentence2`, `text_a`, `textB`."""


@dataclass(frozen=True)
class Guess:
    """The likely columns: one or two of text, none where there are none; the label, or None."""

    text: tuple[str, ...]
    label: str | None


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as texts; missing ones and NaN stay missing, and 1.0 reads 1 where all values are whole."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return _numbers_as_text(column, all(map(_are_whole, column.chunks)))
    if pa.types.is_nested(kind):
        return _each_as_text(column, lambda value: json.dumps(value, default=_written, ensure_ascii=False))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _each_as_text(column, _written)
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # a kind that Arrow can't write as text, such as a duration
        return _each_as_text(column, str)


def text_reader(column: pa.ChunkedArray) -> Callable[[pa.Array], pa.ChunkedArray]:
    """What makes texts of one part of a column after the other, the same as `as_text` makes of all of it at once."""
    if pa.types.is_floating(column.type):
        is_whole = all(map(_are_whole, column.chunks))
        return lambda part: _numbers_as_text(pa.chunked_array([part]), is_whole)
    return lambda part: as_text(pa.chunked_array([part]))


def _are_whole(numbers: pa.Array) -> bool:
    """Whether all of them could be written without a point."""
    numbers = numbers.filter(pc.invert(pc.is_nan(numbers)))
    is_whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), EXACT_FLOAT))
    return pc.all(is_whole).as_py() is not False


def _numbers_as_text(column: pa.ChunkedArray, are_whole: bool) -> pa.ChunkedArray:
    column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.int64() if are_whole else column.type).cast(pa.string())


def _each_as_text(column: pa.ChunkedArray, write: Callable[[Any], str]) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        texts = [None if value is None else write(value) for value in chunk.to_pylist()]
        chunks.append(pa.array(texts, pa.string()))
    return pa.chunked_array(chunks, pa.string())


def _written(value: Any) -> str:
    """Bytes as Python writes them, long ones by their beginning and a checksum; anything else in its own words."""
    if not isinstance(value, bytes):
        return str(value)
    if len(value) <= EXAMPLE_CHARACTERS:
        return repr(value)
    return _("{value!r}... ({len:,} bytes, {crc32:08x})").format(
        value=value[:SHOWN_BYTES], len=len(value), crc32=zlib.crc32(value)
    )


def is_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text is missing, empty, or white space."""
    blank = [_is_blank(chunk) for chunk in texts.chunks]
    return pa.chunked_array(blank, pa.bool_())


def _is_blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), "")


def _filled(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The values that aren't blank, chunk by chunk: a whole column may not fit into memory."""
    return (chunk.filter(pc.invert(_is_blank(chunk))) for chunk in texts.chunks)


def kind_of(column: pa.ChunkedArray) -> ColumnKind:
    """Text, numbers (also written as text), or something else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind_of(column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnKind.NUMBER
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return ColumnKind.OTHER
    has_number = False
    for filled in _filled(column):
        if len(filled) and not pc.all(pc.match_substring_regex(filled, _NUMBER)).as_py():
            return ColumnKind.TEXT
        has_number = has_number or len(filled) > 0
    return ColumnKind.NUMBER if has_number else ColumnKind.TEXT


_DESCRIBED: WeakKeyDictionary[Table, tuple[Column, ...]] = WeakKeyDictionary()


def describe(table: Table) -> tuple[Column, ...]:
    """Every column: its kind, how many values differ, how many are empty, and the first few."""
    if table not in _DESCRIBED:
        _DESCRIBED[table] = tuple(_describe(name, table.rows[name]) for name in table.columns)
    return _DESCRIBED[table]


def _describe(name: str, column: pa.ChunkedArray) -> Column:
    if holds_bytes(column.type):  # a hash of every image would take longer than reading them
        rows, empty = len(column), column.null_count
        return Column(name=name, kind=ColumnKind.OTHER, distinct=rows - empty, empty=empty, examples=())
    filled, different = 0, _Different()
    examples = dict[str, None]()
    for texts in _filled_texts(column):
        if filled < EXAMPLE_ROWS:
            examples.update(dict.fromkeys(texts.slice(0, EXAMPLE_ROWS - filled).to_pylist()))
        filled += len(texts)
        different.add(texts)
    return Column(
        name=name,
        kind=kind_of(column),
        distinct=different.count(),
        empty=len(column) - filled,
        examples=tuple(example[:EXAMPLE_CHARACTERS] for example in list(examples)[:EXAMPLES]),
    )


def _filled_texts(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The values as texts, chunk by chunk; all of them decide whether 1.0 reads 1."""
    read = text_reader(column)
    for chunk in column.chunks:
        yield from _filled(read(chunk))


class _Different:
    """Counts how many texts differ: as they are as long as they are few, else by their hashes."""

    def __init__(self) -> None:
        self._texts: pa.Array | None = pa.array([], pa.string())
        self._hashes: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def add(self, texts: pa.Array) -> None:
        """Count further ones in."""
        texts = texts.unique()
        if self._texts is None:
            self._hashes.append(np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts)))
            return
        self._texts = pa.concat_arrays([self._texts, texts]).unique()
        if self._texts.nbytes > MOST_COUNTED:
            texts, self._texts = self._texts, None
            self.add(texts)

    def count(self) -> int:
        """How many there are."""
        return len(np.unique(np.concatenate(self._hashes))) if self._texts is None else len(self._texts)


def guess_columns(table: Table, text: tuple[str, ...] = (), label: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen.

    The label is a column called like one, else the one with the fewest distinct values. The texts are a pair of
    names that differ in 1 and 2 or a and b, else a column called like a text, else the longest texts.
    """
    columns = describe(table)
    label = label or _guess_label(columns, text, table.rows.num_rows)
    if text:
        return Guess(text, label)
    texts = [column.name for column in columns if column.kind is ColumnKind.TEXT and column.name != label]
    pair = guess_pair(texts)
    if pair:
        return Guess(pair, label)
    return Guess(_best_text(table, texts), label)


def guess_text(table: Table) -> tuple[str, ...]:
    """The likely column of texts where nothing is a label; none where there are no texts."""
    return _best_text(table, [column.name for column in describe(table) if column.kind is ColumnKind.TEXT])


def _best_text(table: Table, texts: list[str]) -> tuple[str, ...]:
    """The one called like a text, else the one with the longest."""
    named = (name for wanted in TEXT_NAMES for name in texts if wanted in name.lower())
    best = next(named, None) or max(texts, key=lambda name: _mean_length(table, name), default=None)
    return (best,) if best else ()


def may_be_label(column: Column, rows: int) -> bool:
    """Whether a column has as many distinct values as labels can have."""
    return 2 <= column.distinct <= MOST_LABELS and (rows <= FEW_ROWS or column.distinct <= rows / 2)


def _guess_label(columns: tuple[Column, ...], text: tuple[str, ...], rows: int) -> str | None:
    free = [column for column in columns if column.name not in text]
    by_name = {column.name.strip().lower(): column.name for column in free if column.distinct > 0}
    named = next((by_name[name] for name in LABEL_NAMES if name in by_name), None)
    if named:
        return named
    fitting = [column for column in free if may_be_label(column, rows) and column.distinct < rows]
    containing = [
        column
        for column in fitting
        if any(name in column.name.lower() for name in LABEL_NAMES if len(name) > 4)
    ]
    best = min(containing or fitting, key=lambda column: column.distinct, default=None)
    return best.name if best else None


def guess_pair(texts: list[str]) -> tuple[str, ...]:
    """The first two names that differ in 1 and 2 or a and b only, or are known to belong together; none otherwise."""
    alike: dict[str, list[str]] = {}
    for name in texts:
        alike.setdefault(_SIDE.sub("", name), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            return (names[0], names[1])
    by_name = {name.lower(): name for name in texts}
    known = (pair for pair in PAIR_NAMES if all(name in by_name for name in pair))
    return tuple(by_name[name] for name in next(known, ()))


def _mean_length(table: Table, name: str) -> float:
    mean = pc.mean(pc.utf8_length(as_text(table.rows[name]))).as_py()
    return float(mean or 0.0)


# --- Which column holds the numbers to learn


SCORE_NAMES = (
    *("score", "scores", "label", "labels", "similarity", "similarity_score", "rating", "stars"),
    *("target", "value", "grade", "quality", "y"),
)
NO_SCORES = ("id", "idx", "index", "row", "number", "no", "year", "unnamed: 0", "")
"""Columns of numbers that count rows."""
LOOKED_AT = 1000
"""Rows by which is told whether a column holds numbers."""
MOST = 0.5
"""The share of numbers beyond which a column is one of numbers with some wrong cells."""
LARGEST = float(np.finfo(np.float32).max)


def as_number(text: str) -> float:
    """The number a cell holds; NaN where it holds none that a model can compute with."""
    try:
        number = float(text)
    except ValueError:
        return float("nan")
    is_plain = "_" not in text and text.isascii()  # Python reads 1_000 and digits of other scripts, too
    return number if is_plain and abs(number) <= LARGEST else float("nan")


def is_number(text: str) -> bool:
    return not np.isnan(as_number(text))


def has_decimal_comma(texts: Sequence[str]) -> bool:
    return any(is_number(text.replace(",", ".", 1)) for text in texts if "," in text)


def first_cells(table: Table, name: str) -> list[str]:
    """The first cells with something in them, as texts."""
    cells = as_text(table.first(LOOKED_AT).rows[name]).to_pylist()
    return [cell for cell in cells if cell and cell.strip()]


def holds_numbers(table: Table, name: str) -> bool:
    """Whether most cells of a column are numbers, also such with a decimal comma: a few may be wrong."""
    cells = first_cells(table, name)
    numbers = sum(is_number(cell.strip().replace(",", ".", 1)) for cell in cells)
    return numbers > len(cells) * MOST


def guess_score_columns(table: Table, text: tuple[str, ...] = (), score: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen.

    The number is a column of numbers called like a score, else one whose numbers aren't whole, else any that doesn't
    just count rows.
    """
    score = score or guess_score(table, text)
    if text or score is None:
        return Guess(text or guess_columns(table).text, score)
    return Guess(guess_columns(table, label=score).text, score)


def guess_score(table: Table, text: tuple[str, ...]) -> str | None:
    rows = table.rows.num_rows
    others = [column for column in describe(table) if column.name not in text]
    free = [column for column in others if column.kind is ColumnKind.NUMBER]
    nearly = [column for column in others if column not in free and holds_numbers(table, column.name)]
    by_name = {column.name.strip().lower(): column.name for column in (*nearly, *free)}
    named = [by_name[name] for name in SCORE_NAMES if name in by_name]
    containing = [
        column.name
        for column in free
        if any(name in column.name.lower() for name in SCORE_NAMES if len(name) > 4)
    ]
    likely = [column for column in free if not counts_rows(column, rows)]
    fractions = [column.name for column in likely if any("." in example for example in column.examples)]
    found = [*named, *containing, *fractions, *(column.name for column in (*likely, *nearly))]
    return found[0] if found else None


def counts_rows(column: Column, rows: int) -> bool:
    """Whether a column of numbers looks like one that numbers the rows."""
    name = column.name.strip().lower()
    is_whole = not any("." in example for example in column.examples)
    return (
        name in NO_SCORES
        or "id" in name.replace("_", " ").split()
        or (is_whole and rows > 2 and column.distinct == rows)
    )


# --- Lists of words out of a table's column: as Arrow has them, written out as text


class BadListError(Exception):
    """A cell that begins as a list and is none: the row's place in the column, and what stands there."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        self.text = text


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists of texts or numbers; of spans of a text and the like, nothing can be made here."""
    has_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return has_lists and not pa.types.is_nested(kind.value_type)


def word_lists(column: pa.ChunkedArray) -> pa.ListArray:
    """Every row as a list of texts; a missing one is an empty list.

    Raises:
        BadListError: A cell of text begins as a list and can't be read as one.
    """
    lists, bad = read_lists(column)
    if bad:
        raise bad[0]
    return lists


def read_lists(column: pa.ChunkedArray) -> tuple[pa.ListArray, list[BadListError]]:
    """As `word_lists`; cells that can't be read are empty lists, and told."""
    if is_list(column.type):
        lists = column.cast(pa.list_(column.type.value_type)).combine_chunks()
        lists = lists.cast(pa.list_(pa.string()))
        found = (
            lists if lists.null_count == 0 else pa.array([row or [] for row in lists.to_pylist()], lists.type)
        )
        return found, []
    bad: list[BadListError] = []
    rows: list[list[str | None]] = []
    for index, text in enumerate(pc.fill_null(column.cast(pa.string()), "").to_pylist()):
        try:
            rows.append(_split(index, text))
        except BadListError as error:
            bad.append(error)
            rows.append([])
    return pa.array(rows, pa.list_(pa.string())), bad


def _split(index: int, text: str) -> list[str | None]:
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return list(text.split())
    try:
        found = _read(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise BadListError(index, text) from error
    if not isinstance(found, list) or any(isinstance(value, list | dict | tuple) for value in found):
        raise BadListError(index, text)
    return [None if value is None else str(value) for value in found]


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)  # as pandas writes lists into a CSV file; it computes nothing


# --- Which columns hold words and their tags


WORD_NAMES = ("tokens", "words", "token", "word", "sentence", "text", "form", "forms")
TAG_NAMES = (
    *("ner_tags", "tags", "ner", "labels", "label", "tag", "entities", "ner_labels", "named_entities"),
    *("pos_tags", "upos", "pos", "chunk_tags", "xpos"),
)
TAG_ROWS_LOOKED_AT = 100
"""Rows by which it is told whether two columns go together."""


def guess_tag_columns(table: Table, text: tuple[str, ...] = (), tags: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen: by what such columns are called, else two with lists of equal length."""
    names = {name.strip().lower(): name for name in table.columns}
    words = text or tuple(
        islice((names[name] for name in WORD_NAMES if name in names and names[name] != tags), 1)
    )
    called = [names[name] for name in TAG_NAMES if name in names and names[name] not in words]
    tags = tags or next(iter(called), None)
    lists = [name for name in table.columns if is_list(table.rows.schema.field(name).type)]
    if not words:
        texts = [name for name in lists if name != tags and not _holds_numbers(table, name)]
        words = tuple(texts[:1])
    if tags is None and words:
        fitting = (
            name for name in table.columns if name not in words and _go_together(table, words[0], name)
        )
        tags = next(fitting, None)
    return Guess(words, tags)


def tag_names(table: Table, column: str) -> tuple[str, ...]:
    """What the numbers of a column stand for, where the file says so as the library `datasets` writes it; or empty."""
    kind = table.rows.schema.field(column).type
    if not (pa.types.is_integer(kind) or _holds_numbers(table, column)):
        return ()
    written = (table.rows.schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        feature = json.loads(written)["info"]["features"][column]
        names = feature.get("feature", feature)["names"]
        return tuple(map(str, names))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _holds_numbers(table: Table, name: str) -> bool:
    kind = table.rows.schema.field(name).type
    return is_list(kind) and pa.types.is_integer(kind.value_type)


def _go_together(table: Table, words: str, tags: str) -> bool:
    first = table.first(TAG_ROWS_LOOKED_AT).rows
    try:
        lengths = [[len(row) for row in word_lists(first[name]).to_pylist()] for name in (words, tags)]
    except (BadListError, pa.ArrowException):
        return False
    return lengths[0] == lengths[1] and max(lengths[0], default=0) > 1


# --- Lists and objects among the texts of a column, as a file of JSON may have them


def is_mixed(table: Table, name: str) -> bool:
    """Whether a column of JSON had several kinds of values, which were made texts."""
    return any(note.startswith(f"Column “{name}” {Why.MIXED.value}") for note in table.notes)


def nested_places(texts: pa.ChunkedArray) -> Iterator[int]:
    """Places of texts that are a list or an object written as JSON."""
    likely = pc.fill_null(pc.match_substring_regex(texts, r"^[\[{]"), False)
    for place in np.flatnonzero(likely.to_numpy()):
        try:
            json.loads(texts[int(place)].as_py())
        except ValueError:
            continue
        except RecursionError:
            pass  # nested so deeply that nobody meant it as a text
        yield int(place)


# --- Which column of a table holds images, and which their labels


IMAGE_NAMES = (
    *("image", "img", "image_path", "img_path", "file_name", "filename", "path", "file", "filepath"),
    *("file_path", "image_file", "picture", "photo", "pixels", "image_name", "image_id", "images"),
)
IMAGE_ROWS_LOOKED_AT = 200
"""Rows at the beginning that tell what a column holds."""
MOSTLY = 0.5
PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether a column's type is that of stored images: bytes, or the Hub's pair of bytes and path."""
    if pa.types.is_struct(kind):
        return any(
            field.name == "bytes" and is_binary(field.type)
            for field in (kind.field(i) for i in range(kind.num_fields))
        )
    return is_binary(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of this type are bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def choose_image_column(table: Table, asked: str | None) -> str:
    """The column of images: the one asked for, else one that stores images, else the one most like paths of images.

    Raises:
        DataError: There is none of that name, or none that looks like it.
    """
    if asked is not None:
        check_column(table.path.name, table.columns, asked, "data.image_column")
        return asked
    stored = [field.name for field in table.rows.schema if holds_bytes(field.type)]
    if stored:
        return "image" if "image" in stored else stored[0]
    shares = {name: share_of_paths(table, name) for name in table.columns}
    best = max(shares, key=lambda name: (shares[name], _place(name)), default="")
    if best and shares[best] > MOSTLY:
        return best
    named = [name for name in sorted(table.columns, key=_place, reverse=True) if _place(name) >= 0]
    if named and not shares[best]:  # names without an ending: "cats/001"
        return named[0]
    raise DataError(
        _("{name} has no column of images").format(name=table.path.name),
        _(
            "{path}: in {columns} there are no paths of images (they end in "
            "{image_formats}), and no stored images."
        ).format(path=table.path, columns=listed(table.columns), image_formats=", ".join(IMAGE_FORMATS)),
        (Fix(_("Choose a table with a column of image paths, or a folder with one folder a class")),),
    )


def choose_label_column(table: Table, image: str, asked: str | None) -> str:
    """The column of labels: the one asked for, else the likeliest.

    Raises:
        DataError: There is none of that name, or none that could be it.
    """
    if asked is not None:
        check_column(table.path.name, table.columns, asked, "data.label_column")
        return asked
    found = guess_columns(table, (image,)).label
    if found is None:
        others = [name for name in table.columns if name != image]
        raise DataError(
            _("{name} has no column of labels").format(name=table.path.name),
            _(
                "{path}: beside the images (“{image}”) there is {others}. Each image "
                "needs a label that other images have, too."
            ).format(path=table.path, image=image, others=listed(others) or "no other column"),
            tuple(
                Fix(_("Use “{name}”").format(name=name), {"data.label_column": name}) for name in others[:3]
            ),
        )
    return found


def first_rows(table: Table) -> tuple[tuple[str, ...], ...]:
    """The first rows as text, long values cut; of stored images nothing."""
    first = table.first(PREVIEW_ROWS).rows
    columns = [
        [""] * first.num_rows if holds_bytes(column.type) else as_text(column).to_pylist()
        for column in first.columns
    ]
    return tuple(
        tuple((value or "")[:PREVIEW_CHARACTERS] for value in row) for row in zip(*columns, strict=True)
    )


def check_column(file: str, columns: tuple[str, ...], asked: str, option: str) -> None:
    """Stop where a table has no column of this name.

    Raises:
        DataError: It has none.
    """
    if asked not in columns:
        raise DataError(
            _("{file} has no column “{asked}”").format(file=file, asked=asked),
            _("Its columns are {columns}.").format(columns=listed(columns)),
            tuple(Fix(_("Use “{name}”").format(name=name), {option: name}) for name in columns[:4]),
        )


def share_of_paths(table: Table, name: str) -> float:
    """The share of the first values that end as files of images do."""
    values = [
        value for value in as_text(table.rows[name].slice(0, IMAGE_ROWS_LOOKED_AT)).to_pylist() if value
    ]
    fitting = sum(PurePosixPath(value.strip()).suffix.lower() in IMAGE_FORMATS for value in values)
    return fitting / len(values) if values else 0.0


def _place(name: str) -> int:
    """How much a column's name sounds like images; -1: not at all."""
    lowered = name.strip().lower()
    return len(IMAGE_NAMES) - IMAGE_NAMES.index(lowered) if lowered in IMAGE_NAMES else -1
