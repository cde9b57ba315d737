"""Rows as JSON: an array of objects, columns, or one object a line; each column gets one Arrow type."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from core.base import formats
from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.exported_chats import ChatExport
from core.engine.data.text_files import (
    NewWriter,
    NoteCode,
    ParsedRows,
    ReadingNote,
    RowWriter,
    TextFile,
    UnreadCode,
    UnreadRows,
    listed,
    refuse_names,
)

HEAD_CHARACTERS = 1 << 20
BLOCK_ROWS = 20_000
MAX_RECORD = 64 * 2**20
"""Characters; what is longer isn't one object but an object that isn't closed."""
MAX_DEPTH = 32
MAX_FIELDS = 256
"""Values nested more deeply, and objects with more different names, are read as text."""
EXACT_FLOAT = 2.0**53
"""Below this, a float holds every whole number exactly."""
CONTEXT = 30
"""Characters shown on either side of a mistake."""
NO_TYPE = _("The values of column “{name}” have different types; they are read as text.")

_OPENING = re.compile(r'\s*(?:\[\s*\{\s*["}]|\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}))')
_NEXT = re.compile(r"\s*(,?)\s*(?=\{)")
_CONVERSATION = frozenset({"role", "from", "speaker", "sender"})

Block = tuple[list[Any], list[int]]
"""Records, and the place of each in the file."""


def looks_like_json(head: str) -> bool:
    """Returns whether a text begins as an array of objects, or as an object followed by nothing or another line."""
    start = head.lstrip()
    if not _OPENING.match(start):
        return False
    end = None if start.startswith("[") else _end_of_object(start)
    return end is None or not start[end:].partition("\n")[0].strip()


def _end_of_object(text: str) -> int | None:
    """Returns where the JSON value ends with which a text begins; None if it begins with none."""
    try:
        return json.JSONDecoder().raw_decode(text)[1]
    except (ValueError, RecursionError):
        return None


def parse(source: TextFile, new_writer: NewWriter, prefers_lines: bool) -> ParsedRows:
    """Reads an array of objects, `{"data": [...]}`, columns, or one object a line, whatever the extension is.

    Args:
        prefers_lines: Whether a file of one object is JSONL.

    Raises:
        DataError: It isn't JSON, holds something else than objects, or is nested too deeply.
    """
    head = source.head(HEAD_CHARACTERS).lstrip()
    decoder = _Decoder(source.path)
    is_array, end = head.startswith("["), _end_of_object(head) or 0
    is_over_lines, rest = "\n" in head[:end], head[end:].strip()
    is_one_a_line = end > 0 and not is_over_lines and rest.startswith("{")
    is_one_object = is_over_lines and not rest
    if is_array:
        try:
            return _store(decoder, new_writer, lambda: _array_records(source, decoder), "record")
        except _UnevenArrayError:  # read whole, to say what is wrong
            pass
    elif is_one_a_line if not prefers_lines else not is_one_object:
        return _store(decoder, new_writer, lambda: _line_records(source, decoder), "line")
    records, notes = _find_rows(source.path, decoder.whole(source.whole(), _("the file")))
    starts = range(0, len(records), BLOCK_ROWS)
    blocks = [
        (part := records[at : at + BLOCK_ROWS], list(range(at + 1, at + len(part) + 1))) for at in starts
    ]
    return _store(decoder, new_writer, lambda: iter(blocks), "record", notes)


class _UnevenArrayError(Exception):
    """Not an array of objects."""


def _line_records(source: TextFile, decoder: "_Decoder") -> Iterator[Block]:
    """Yields one object a line."""
    for first, lines in source.lines():
        filled = [(number, line) for number, line in enumerate(lines, first) if line.strip()]
        records, numbers = list[Any](), list[int]()
        for number, line in filled:
            try:
                records.append(decoder.whole(line, _("line {number:,}").format(number=number), number))
                numbers.append(number)
            except DataError as error:
                if not isinstance(error.__cause__, json.JSONDecodeError):
                    raise
                decoder.unread[number] = error
        if records:
            yield records, numbers


def _array_records(source: TextFile, decoder: "_Decoder") -> Iterator[Block]:
    """Yields the objects of one array, without holding all of it in memory."""
    rest, number, is_open = "", 1, False
    for text in source.texts():
        rest = rest + text if is_open else (rest + text).lstrip()
        if not is_open and rest:
            rest, is_open = rest.removeprefix("["), True
        records, end = _complete_objects(rest, decoder, number)
        rest = rest[end:]
        if len(rest) > MAX_RECORD:
            raise _UnevenArrayError
        if records:
            yield records, list(range(number, number + len(records)))
            number += len(records)
    if rest.strip() != "]":
        raise _UnevenArrayError


def _complete_objects(text: str, decoder: "_Decoder", first: int) -> tuple[list[Any], int]:
    """Returns the objects that are complete in a part of an array, and where the rest begins."""
    records, place = list[Any](), 0
    while match := _NEXT.match(text, place):
        number = first + len(records)
        if bool(match[1]) is (number == 1):  # a comma before the first one, or none between two
            raise _UnevenArrayError
        try:
            value, end = decoder.next(text, match.end(), _("example {number:,}").format(number=number))
        except json.JSONDecodeError:  # cut off here, or damaged
            break
        records.append(value)
        place = end
    return records, place


class _Decoder:
    """Decodes the values of a file, and notes the first place at which not all is read that is written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: dict[str, ReadingNote] = {}
        self.unread: dict[int, DataError] = {}  # by the numbers of lines
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object)
        self._repeated: list[str] = []

    def next(self, text: str, start: int, place: str) -> tuple[Any, int]:
        """Returns the value that begins at `start`, and where it ends.

        Raises:
            JSONDecodeError: It isn't complete, or no JSON.
            DataError: It is nested too deeply, or has a number without end.
        """
        self._repeated.clear()
        try:
            value, end = self._decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            raise
        except (RecursionError, ValueError) as error:
            raise _undecodable(self.path, place, error) from error
        if self._repeated:
            sentence = _("{name}: {key} stands twice in an object, first in {place}. Its last value is read.")
            self._note(sentence, place, key=listed((_whole_characters(self._repeated[-1]),)))
        if text.find("\\ud", start, end) >= 0 or text.find("\\uD", start, end) >= 0:
            written = json.dumps(value, ensure_ascii=False)
            whole = _whole_characters(written)
            if whole != written:  # as an emoji cut in two leaves it
                self._note(_("{name}: half a character, first in {place}, is read as �."), place)
                value = json.loads(whole)
        return value, end

    def whole(self, text: str, place: str, line: int = 1) -> Any:
        """Returns the value of a text that begins in line `line` of the file."""
        try:
            value, end = self.next(text, len(text) - len(text.lstrip()), place)
            if rest := text[end:].lstrip():
                raise json.JSONDecodeError("Extra data", text, len(text) - len(rest))
        except json.JSONDecodeError as error:
            line, column = line + error.lineno - 1, error.colno
            near = text[max(0, error.pos - CONTEXT) : error.pos + CONTEXT]
            near = near.replace("\n", "⏎").replace("\r", "")
            raise DataError(
                _("{name} is not JSON: line {line:,}, column {column:,}").format(
                    name=self.path.name, line=line, column=column
                ),
                _("{path}, line {line:,}, column {column:,}: {reason}. Near: {near}").format(
                    path=self.path, line=line, column=column, reason=error.msg, near=near
                ),
                (Fix(_("Correct line {line:,}, or rename the file if it isn't JSON").format(line=line)),),
            ) from error
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            self._repeated.append(Counter(name for name, _value in pairs).most_common(1)[0][0])
        return found

    def _note(self, sentence: str, place: str, **more: str) -> None:
        """Keeps the first note of a kind: a file is read several times."""
        self.notes.setdefault(
            sentence, ReadingNote(sentence.format(name=self.path.name, place=place, **more))
        )


def _whole_characters(text: str) -> str:
    """Returns a text with its halves of characters paired, or as � where the other half is missing."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _undecodable(path: Path, place: str, error: Exception) -> DataError:
    """Returns the error for endlessly nested brackets and endless numbers, as only mistakes and attacks have them."""
    return DataError(
        _("{name}: {place} can't be read").format(name=path.name, place=place),
        _("{path}: {place} is nested too deeply, or has a number that is too long ({error}).").format(
            path=path, place=place, error=error
        ),
        (Fix(_("Make every example an object with plain values; put long numbers in quotes")),),
    )


def _find_rows(path: Path, value: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Finds the list of rows inside a JSON document, and notes the key it was under."""
    if isinstance(value, list):
        return value, ()
    if not isinstance(value, dict):
        raise _no_object(path, _("the file"), value)
    if columns := _rows_of_columns(value):
        return columns, (_("{name} contains columns; they were combined row by row.").format(name=path.name),)
    lists = {name: rows for name, rows in value.items() if _is_rows(rows)}
    if len(lists) > 1:
        raise DataError(
            _("{name} contains several lists of examples").format(name=path.name),
            _("{path}: {lists} each have examples.").format(path=path, lists=listed(lists)),
            (Fix(_("Save each list in a file of its own, one to train on and one to evaluate on")),),
        )
    for name, rows in lists.items():
        return rows, (_("The examples are those of “{name}” in {file}.").format(name=name, file=path.name),)
    return [] if list(value.values()) == [[]] else [value], ()


def _is_rows(value: Any) -> bool:
    """Returns whether a value is a list of objects or lists, and not the turns of one conversation."""
    if not isinstance(value, list) or not value:
        return False
    is_object = isinstance(value[0], dict)
    return not _CONVERSATION & value[0].keys() if is_object else isinstance(value[0], list)


def _rows_of_columns(table: dict[str, Any]) -> list[Any] | None:
    """Returns rows from `{"text": [...], "label": [...]}`, or from `{"text": {"0": ...}, ...}` as pandas writes it."""
    values = list(table.values())
    if len(values) < 2:
        return None
    if all(isinstance(value, dict) for value in values):
        keys = values[0].keys()
        if any(value.keys() != keys for value in values) or not all(key.isdecimal() for key in keys):
            return None
        values = [list(value.values()) for value in values]
    is_even = all(isinstance(value, list) and len(value) == len(values[0]) for value in values)
    if not is_even or not values[0] or any(isinstance(value[0], dict) for value in values):
        return None
    return [dict(zip(table, row, strict=True)) for row in zip(*values, strict=True)]


def _no_object(path: Path, place: str, value: Any) -> DataError:
    return DataError(
        _("{name}: {place} is not an object").format(name=path.name, place=place),
        _('{path}: an example is written as {{"text": "...", "label": "..."}}; {place} is {value}.').format(
            path=path, place=place, value=json.dumps(value, ensure_ascii=False)[:60]
        ),
        (Fix(_("Make every example an object with the same names")),),
    )


# --- One type for each column, or text if no type holds its values


ColumnTypes = dict[str, pa.DataType | None]
"""By name; None: its values are written as text."""

_NO_COMMON_TYPE = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    RecursionError,
)


def _store(
    decoder: _Decoder,
    new_writer: NewWriter,
    read: Callable[[], Iterator[Block]],
    word: str,
    notes: tuple[str, ...] = (),
) -> ParsedRows:
    """Writes records: `read` is gone through once for the types of the columns, and once more for the rows."""
    path, chats = decoder.path, ChatExport()
    types = _column_types(path, chats.rows(read()), word)
    unread = _unread(decoder, sum(len(records) for records, _numbers in read()) if decoder.unread else 0)
    if not types:
        raise DataError(
            _("{name} has no rows").format(name=path.name),
            _("{path}: there is no object in it.").format(path=path),
            (Fix(_("Choose another file")),),
        )
    rows = None
    while rows is None:
        rows = _write(new_writer, chats.rows(read()), types)
    texts = (
        ReadingNote(NO_TYPE.format(name=name), NoteCode.MIXED_COLUMN, name)
        for name, kind in types.items()
        if kind is None
    )
    all_notes = (*map(ReadingNote, notes), *decoder.notes.values(), *chats.notes(path.name), *texts)
    kind = chats.app or ("JSON" if word == "record" else "JSONL")
    return ParsedRows(rows, kind, word, all_notes, unread=unread)


def _unread(decoder: _Decoder, read: int) -> tuple[UnreadRows, ...]:
    """Returns the lines that are no JSON; raises the error of the first if no more lines than these could be `read`."""
    if not decoder.unread:
        return ()
    first = next(iter(decoder.unread.values()))
    if len(decoder.unread) >= read:
        raise first
    cause = first.__cause__
    assert isinstance(cause, json.JSONDecodeError)
    example = _("{reason}, in column {column:,}.").format(reason=cause.msg, column=cause.colno)
    advice = _("Correct the line in a text editor")
    return (UnreadRows(UnreadCode.JSON, tuple(decoder.unread), example, advice),)


def _column_types(path: Path, blocks: Iterator[Block], word: str) -> ColumnTypes:
    """Returns the type of each column, in the order of their first values."""
    types: ColumnTypes = {}
    for records, numbers in blocks:
        for record, number in zip(records, numbers, strict=True):
            if not isinstance(record, dict):
                raise _no_object(path, formats.places(word, (number,)), record)
        for name in dict.fromkeys(name for record in records for name in record):
            types[name] = _common_type(types.get(name, pa.null()), [record.get(name) for record in records])
        refuse_names(path, tuple(types))
    return types


def _common_type(known: pa.DataType | None, values: Sequence[Any]) -> pa.DataType | None:
    """Returns the type that holds the values of type `known` and further ones; None if there is none."""
    if known is None:
        return None
    try:
        schemas = [pa.schema([("", kind)]) for kind in (known, pa.array(values).type)]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except _NO_COMMON_TYPE:
        return None
    return kind if _is_within_limits(kind) else None


def _is_within_limits(kind: pa.DataType, depth: int = 0) -> bool:
    return (
        depth < MAX_DEPTH
        and kind.num_fields <= MAX_FIELDS
        and all(_is_within_limits(kind.field(place).type, depth + 1) for place in range(kind.num_fields))
    )


def _write(new_writer: NewWriter, blocks: Iterator[Block], types: ColumnTypes) -> RowWriter | None:
    """Writes all rows; None if a column turns out not to fit its type, which is None in `types` from then on."""
    schema = pa.schema([(name, kind or pa.string()) for name, kind in types.items()])
    writer = new_writer(schema)
    for records, numbers in blocks:
        arrays = []
        for name, kind in types.items():
            values = [record.get(name) for record in records]
            try:
                arrays.append(
                    pa.array(values, kind) if kind else pa.array(map(_as_text, values), pa.string())
                )
            except _NO_COMMON_TYPE:
                types[name] = None  # 2**60 + 1 and 0.5 unify, but the one isn't exact as a float
                writer.discard()
                return None
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema), np.asarray(numbers, np.int64))
    return writer


def _as_text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        value = int(value)  # 1.0 is the label 1
    return json.dumps(value, ensure_ascii=False)
