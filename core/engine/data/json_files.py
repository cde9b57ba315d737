"""Values of JSON as Arrow has them: one type for a column, or text where no one type holds its values."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix
from core.engine.data.text_files import NewWriter, ParsedRows, RowWriter, TextFile, ending, listed

# --- What is wrong with a file of JSON, and where


NEAR = 30
"""Characters shown on either side of a mistake."""


def damaged(path: Path, error: json.JSONDecodeError, line: int) -> DataError:
    """The error for what isn't JSON; the cause is looked for at the place where reading stopped."""
    what, place = _cause(error)
    column = place - (error.doc.rfind("\n", 0, place) + 1) + 1
    line += error.doc.count("\n", 0, place) - error.doc.count("\n", 0, error.pos)
    near = error.doc[max(0, place - NEAR) : place + NEAR].replace("\n", "⏎").replace("\r", "")
    kind = "JSONL" if ending(path) in (".jsonl", ".ndjson") else "JSON"
    return DataError(
        f"{path.name} is not {kind}: line {line:,}, column {column:,}",
        f"{path}, line {line:,}, column {column:,}: {what}. Near: {near}",
        (Fix(f"Mend line {line:,}, or give the file the ending of what it is"),),
    )


def _cause(error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong in words, and at which character."""
    text, place = error.doc, error.pos
    before = text[:place].rstrip()
    if before.endswith(",") and text[place : place + 1] in ("]", "}"):
        return f"a comma too many before {text[place]}", len(before) - 1
    trailing = re.compile(r",\s*[\]}]").match(text, place)  # Python from 3.13 on stops at the comma itself
    if trailing:
        return f"a comma too many before {trailing.group()[-1]}", place
    if not text[place:].strip():
        return "it ends in the middle; a bracket, a brace or a quote is not closed", place
    if text[place] == "'":
        return "texts and names stand in double quotes, not in single ones", place
    return error.msg, place


def no_object(path: Path, place: str, value: Any) -> DataError:
    """The error for a row that isn't an object."""
    shown = json.dumps(value, ensure_ascii=False)[:60]
    return DataError(
        f"{path.name}: {place} is not an object",
        f'{path}: a row must read {{"text": "...", "label": "..."}}; {place} is {shown}.',
        (Fix("Make every row an object with the same names"),),
    )


def refused(path: Path, place: str, error: RecursionError | ValueError) -> DataError:
    """The error for what nothing but a mistake or an attack has: brackets within brackets, a number without end."""
    if isinstance(error, ValueError):
        return DataError(
            f"{path.name}: {place} has a number that is too long",
            f"{path}: {place} has a whole number of more than {sys.get_int_max_str_digits():,} digits.",
            (Fix("Put the number in quotes, so that it is read as text"),),
        )
    return DataError(
        f"{path.name} is nested too deeply",
        f"{path}: {place} has about a thousand brackets inside one another.",
        (Fix("Make every row an object with plain values"),),
    )


# --- Values of JSON as Arrow has them: one type for a column


EXACT_FLOAT = 2.0**53
"""Below this, a float holds every whole number exactly."""
DEEPEST = 32
MOST_FIELDS = 256
"""Values nested more deeply, and objects of which no two have the same names, are kept as the text they are."""


HALF_CHARACTER = "Half a character, as an emoji cut in two leaves it, is read as �"


class Why(Enum):
    """Why the values of a column are read as text."""

    MIXED = "mixes kinds of values"
    BIG = "holds numbers beyond 64 bits"
    DEEP = "holds values nested very deeply"
    WIDE = f"holds objects with more than {MOST_FIELDS} different names"


Form: TypeAlias = pa.DataType | Why
"""What a column is read as."""


def form_of(values: Sequence[Any]) -> Form:
    """The type that holds all values, or why none does."""
    try:
        kind = pa.array(values).type
    except OverflowError:
        return Why.BIG
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, RecursionError):
        return Why.MIXED
    return _within_bounds(kind)


def both(one: Form, other: Form) -> Form:
    """The type that holds the values of two parts of a column."""
    if isinstance(one, Why):
        return one
    if isinstance(other, Why):
        return other
    merged = _merged(one, other)
    return Why.MIXED if merged is None else _within_bounds(merged)


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = _merged(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merged_struct(one, other)
    return None


def _merged_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    fields = {field.name: field.type for field in one}
    for field in other:
        kind = _merged(fields.get(field.name, pa.null()), field.type)
        if kind is None:
            return None
        fields[field.name] = kind
    return pa.struct(list(fields.items()))


def _within_bounds(kind: pa.DataType) -> Form:
    fields, depth, layer = 0, 0, [kind]
    while layer:
        depth += 1
        inner = [one.field(place).type for one in layer for place in range(one.num_fields)]
        fields = max(fields, *(one.num_fields for one in layer))
        layer = inner
        if depth > DEEPEST:
            return Why.DEEP
    return Why.WIDE if fields > MOST_FIELDS else kind


def arrow_array(values: Sequence[Any], form: Form) -> pa.Array | None:
    """The values in the type chosen; None where a value doesn't fit it after all, as 2⁶⁰ + 1 and 0.5 don't."""
    if isinstance(form, Why):
        return pa.array([_as_text(value) for value in values], pa.string())
    try:
        return pa.array(values, form)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def _as_text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        value = int(value)  # 1.0 is the label 1
    return json.dumps(value, ensure_ascii=False)


def mended(value: Any, text: str) -> tuple[Any, bool]:
    """The value that was parsed from a text, with halves of characters read as �; and whether there was one."""
    if "\\ud" not in text and "\\uD" not in text:
        return value, False
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")), True
    return value, False


# --- The objects of a large JSON array one after another


LARGEST_RECORD = 64 * 2**20
"""Characters; what goes on for longer than that isn't one object, but one that never ends."""

_NEXT = re.compile(r"\s*(,?)\s*(?=\{)")


class UnevenArrayError(Exception):
    """It isn't an array of objects."""


class ArrayRecords:
    """The objects of a file that is one array, block by block, as often as asked."""

    def __init__(self, source: TextFile) -> None:
        self._source = source
        self._halved = 0

    def __iter__(self) -> Iterator[tuple[list[Any], list[int]]]:
        """Records and their numbers.

        Raises:
            UnevenArrayError: Something else than objects and commas stands in it, or after it.
        """
        rest, number, is_open = "", 1, False
        for text in self._source.texts():
            rest = rest + text if is_open else (rest + text).lstrip()
            if not is_open and rest:
                rest, is_open = rest.removeprefix("["), True
            records, end = self._taken(rest, number)
            rest = rest[end:]
            if len(rest) > LARGEST_RECORD:
                raise UnevenArrayError
            if records:
                yield records, list(range(number, number + len(records)))
                number += len(records)
        if rest.strip() != "]":
            raise UnevenArrayError

    def notes(self) -> tuple[str, ...]:
        """What had to be mended."""
        return (f"{HALF_CHARACTER}, first in record {self._halved:,}.",) if self._halved else ()

    def _taken(self, text: str, number: int) -> tuple[list[Any], int]:
        """The objects that are complete, and where what is left begins."""
        decoder, records, place = json.JSONDecoder(), list[Any](), 0
        while found := _NEXT.match(text, place):
            if bool(found[1]) is (
                number + len(records) == 1
            ):  # a comma before the first one, or none between two
                raise UnevenArrayError
            try:
                value, end = decoder.raw_decode(text, found.end())
            except json.JSONDecodeError:  # cut off here, unless nothing mends it
                break
            except (RecursionError, ValueError) as error:
                raise refused(self._source.path, f"record {number + len(records):,}", error) from error
            value, had_one = mended(value, text[place:end])
            records.append(value)
            self._halved = self._halved or (number + len(records) - 1 if had_one else 0)
            place = end
        return records, place


# --- Rows as JSON: an array of objects, or one object a line


HEAD_CHARACTERS = 1 << 20
MOST_COLUMNS = 2000
BLOCK_ROWS = 20_000

Block = tuple[list[Any], list[int]]
"""Records, and the place of each in the file."""

_OPENING = re.compile(r'\s*(?:\[\s*\{\s*["}]|\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}))')
_CONVERSATION = frozenset({"role", "from", "speaker"})


def looks_like_json(head: str) -> bool:
    """Whether a text begins as an array of objects, or as an object that is followed by nothing or a further line."""
    start = head.lstrip()
    if not _OPENING.match(start):
        return False
    if start.startswith("["):
        return True
    end = _end_of_object(start)
    return end is None or not start[end:].partition("\n")[0].strip()


def _end_of_object(text: str) -> int | None:
    """Where the object ends that a text begins with; None where it doesn't."""
    try:
        return json.JSONDecoder().raw_decode(text)[1]
    except (ValueError, RecursionError):
        return None


def parse(source: TextFile, new_writer: NewWriter, prefers_lines: bool) -> ParsedRows:
    """Read an array of objects, `{"data": [...]}`, columns, or one object a line, whatever the ending says.

    Args:
        source: The file.
        new_writer: Where its rows go.
        prefers_lines: What the ending says, for a file of one object and for the words of errors.

    Raises:
        DataError: It isn't JSON, holds something else than objects, or is nested too deeply.
    """
    head = source.head(HEAD_CHARACTERS).lstrip()
    if head.startswith("["):
        return _parse_array(source, new_writer)
    if not (prefers_lines or _is_by_lines(head)):
        return _parse_whole(source, new_writer)
    first_line = head.partition(source.newline)[0]
    if first_line.startswith("{") and len(first_line) < len(head) and _end_of_object(first_line) is None:
        end = _end_of_object(head) or 0
        if "\n" in head[:end] and not head[end:].strip():
            return _parse_whole(source, new_writer)
    lines = _Lines(source)
    found = _keep(source, new_writer, lines, "line")
    return replace(found, notes=(*found.notes, *lines.notes()))


def _is_by_lines(head: str) -> bool:
    """Whether the first line is an object, and another one begins the next line."""
    end = _end_of_object(head)
    return end is not None and "\n" not in head[:end] and head[end:].lstrip().startswith("{")


class _Lines:
    """The objects of a file that has one a line, block by block, as often as asked; blank lines are passed over."""

    def __init__(self, source: TextFile) -> None:
        self._source = source
        self._halved = 0

    def __iter__(self) -> Iterator[Block]:
        for first, lines in self._source.lines():
            found = [(number, line) for number, line in enumerate(lines, first) if line.strip()]
            records = [self._parsed(line, number) for number, line in found]
            if records:
                yield records, [number for number, _ in found]

    def notes(self) -> tuple[str, ...]:
        """What had to be mended."""
        return (f"{HALF_CHARACTER}, first in line {self._halved:,}.",) if self._halved else ()

    def _parsed(self, line: str, number: int) -> Any:
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise damaged(self._source.path, error, number) from error
        except (RecursionError, ValueError) as error:
            raise refused(self._source.path, f"line {number:,}", error) from error
        value, had_one = mended(value, line)
        self._halved = self._halved or (number if had_one else 0)
        return value


def _parse_array(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    """Read an array object by object; one that isn't of objects all through is read whole, to say what is wrong."""
    records = ArrayRecords(source)
    try:
        kept = _keep(source, new_writer, records, "record")
    except UnevenArrayError:
        return _parse_whole(source, new_writer)
    return replace(kept, notes=(*kept.notes, *records.notes()))


def _parse_whole(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    text = source.whole()
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise damaged(source.path, error, error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise refused(source.path, "the file", error) from error
    found, has_halves = mended(found, text)
    records, notes = _records(source.path, found)
    notes = (*notes, f"{HALF_CHARACTER}.") if has_halves else notes
    numbers = range(1, len(records) + 1)
    starts = [*range(0, len(records), BLOCK_ROWS), len(records)]
    blocks = [(records[start:end], list(numbers[start:end])) for start, end in pairwise(starts)]
    kept = _keep(source, new_writer, blocks, "record")
    return replace(kept, notes=(*notes, *kept.notes))


def _records(path: Path, found: Any) -> tuple[list[Any], tuple[str, ...]]:
    """The rows in what a file holds, and where they were found."""
    if isinstance(found, list):
        return found, ()
    if not isinstance(found, dict):
        raise no_object(path, "the file", found)
    columns = _columns(found)
    if columns is not None:
        return columns, (f"{path.name} holds columns, not rows; they were put together row by row.",)
    lists = {name: value for name, value in found.items() if _is_rows(value)}
    if len(lists) > 1:
        raise DataError(
            f"{path.name} holds several lists of rows",
            f"{path}: {listed(lists)} each have rows.",
            (Fix("Save each list in a file of its own, and choose one to train on and one to evaluate on"),),
        )
    for name, rows in lists.items():
        return rows, (f"The rows are those of “{name}” in {path.name}.",)
    return [] if list(found.values()) == [[]] else [found], ()


def _is_rows(value: Any) -> bool:
    """Whether it is a list of objects or lists, and not the turns of one conversation."""
    if not isinstance(value, list) or not value:
        return False
    is_object = isinstance(value[0], dict)
    return not _CONVERSATION & value[0].keys() if is_object else isinstance(value[0], list)


def _columns(found: dict[str, Any]) -> list[Any] | None:
    """Rows from `{"text": [...], "label": [...]}`, or from `{"text": {"0": ...}, ...}` as pandas writes it."""
    values = list(found.values())
    if len(values) < 2:
        return None
    if all(isinstance(value, dict) for value in values):
        keys = values[0].keys()
        if (
            not keys
            or any(value.keys() != keys for value in values)
            or not all(key.isdecimal() for key in keys)
        ):
            return None
        values = [list(value.values()) for value in values]
    is_even = all(isinstance(value, list) and len(value) == len(values[0]) for value in values)
    if not is_even or not values[0] or any(isinstance(value[0], dict) for value in values):
        return None
    return [dict(zip(found, row, strict=True)) for row in zip(*values, strict=True)]


def _keep(source: TextFile, new_writer: NewWriter, blocks: Iterable[Block], word: str) -> ParsedRows:
    """Put the records on the shelf: once through them for the columns and their types, once more to write them."""
    forms = _forms(source.path, blocks, word)
    if not forms:
        raise DataError(
            f"{source.path.name} has no rows",
            f"{source.path}: there is no object in it.",
            (Fix("Choose another file"),),
        )
    rows = None
    while rows is None:
        rows = _written(new_writer, blocks, forms)
    texts = [
        f"Column “{name}” {kind.value}; they are read as text."
        for name, kind in forms.items()
        if isinstance(kind, Why)
    ]
    return ParsedRows(rows, "JSON" if word == "record" else "JSONL", word, tuple(texts))


def _forms(path: Path, blocks: Iterable[Block], word: str) -> dict[str, Form]:
    """What each column is read as, in the order in which they first appear."""
    forms: dict[str, Form] = {}
    for records, numbers in blocks:
        for record, number in zip(records, numbers, strict=True):
            if not isinstance(record, dict):
                raise no_object(path, f"{word} {number:,}", record)
        for name in dict.fromkeys(name for record in records for name in record):
            known = forms.get(name, pa.null())
            if not isinstance(known, Why):
                forms[name] = both(known, form_of([record.get(name) for record in records]))
        if len(forms) > MOST_COLUMNS:
            raise DataError(
                f"{path.name} has more than {MOST_COLUMNS:,} columns",
                f"{path}: the names of the objects differ from {word} to {word}; by {word} {numbers[-1]:,} there are "
                f"{len(forms):,}.",
                (Fix('Make every row an object with the same names, such as "text" and "label"'),),
            )
    return forms


def _written(new_writer: NewWriter, blocks: Iterable[Block], forms: dict[str, Form]) -> RowWriter | None:
    """All rows in their types; None where a column turns out not to fit its type, which is text from now on."""
    schema = pa.schema(
        [(name, pa.string() if isinstance(kind, Why) else kind) for name, kind in forms.items()]
    )
    writer = new_writer(schema)
    for records, numbers in blocks:
        arrays = {name: _array(records, name, kind) for name, kind in forms.items()}
        unfit = [name for name, values in arrays.items() if values is None]
        if unfit:
            forms.update(dict.fromkeys(unfit, Why.MIXED))
            writer.discard()
            return None
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)
        writer.add(batch, np.asarray(numbers, np.int64))
    return writer


def _array(records: Sequence[Any], name: str, form: Form) -> pa.Array | None:
    return arrow_array([record.get(name) for record in records], form)
