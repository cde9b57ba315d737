"""Rows as JSON: an array of objects, columns, or one object a line; each column gets one Arrow type."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.text_files import NewWriter, ParsedRows, RowWriter, TextFile, ending, listed

HEAD_CHARACTERS = 1 << 20
MAX_COLUMNS = 2000
BLOCK_ROWS = 20_000
MAX_RECORD = 64 * 2**20
"""Characters; what goes on for longer than that isn't one object, but one that never ends."""
MAX_DEPTH = 32
MAX_FIELDS = 256
"""Values nested more deeply, and objects of which no two have the same names, are kept as the text they are."""
EXACT_FLOAT = 2.0**53
"""Below this, a float holds every whole number exactly."""
NEAR = 30
"""Characters shown on either side of a mistake."""

_OPENING = re.compile(r'\s*(?:\[\s*\{\s*["}]|\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}))')
_NEXT = re.compile(r"\s*(,?)\s*(?=\{)")
_CONVERSATION = frozenset({"role", "from", "speaker"})

Block = tuple[list[Any], list[int]]
"""Records, and the place of each in the file."""


def looks_like_json(head: str) -> bool:
    """Whether a text begins as an array of objects, or as an object that is followed by nothing or a further line."""
    start = head.lstrip()
    if not _OPENING.match(start):
        return False
    end = None if start.startswith("[") else _end_of_object(start)
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
    is_array, end = head.startswith("["), _end_of_object(head) or 0
    is_over_lines, rest = "\n" in head[:end], head[end:].strip()
    is_one_a_line = end > 0 and not is_over_lines and rest.startswith("{")
    is_one_object = is_over_lines and not rest
    if not is_array and (is_one_object if prefers_lines else not is_one_a_line):
        return _parse_whole(source, new_writer)
    records = _Records(source, "record" if is_array else "line")
    try:
        return records.with_notes(_keep(source.path, new_writer, records, records.word))
    except UnevenArrayError:  # read whole, to say what is wrong
        return _parse_whole(source, new_writer)


class UnevenArrayError(Exception):
    """It isn't an array of objects."""


class _Records:
    """The records of a file, one a line or those of one array, block by block, as often as needed."""

    def __init__(self, source: TextFile, word: str) -> None:
        self.word = word
        self._source = source
        self._repaired = 0

    def __iter__(self) -> Iterator[Block]:
        return self._of_lines() if self.word == "line" else self._of_array()

    def with_notes(self, rows: ParsedRows) -> ParsedRows:
        """The rows, with a note where a value had to be repaired."""
        if not self._repaired:
            return rows
        note = _("{half_character}, first in {word} {repaired:,}.").format(
            half_character=HALF_CHARACTER, word=self.word, repaired=self._repaired
        )
        return replace(rows, notes=(*rows.notes, note))

    def _of_lines(self) -> Iterator[Block]:
        for first, lines in self._source.lines():
            found = [(number, line) for number, line in enumerate(lines, first) if line.strip()]
            records = [self._decoded(line, number) for number, line in found]
            if records:
                yield records, [number for number, _rest in found]

    def _decoded(self, line: str, number: int) -> Any:
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise _damaged(self._source.path, error, number) from error
        except (RecursionError, ValueError) as error:
            raise _beyond_limits(
                self._source.path, _("line {number:,}").format(number=number), error
            ) from error
        return self._whole_characters(value, line, number)

    def _of_array(self) -> Iterator[Block]:
        """The objects of one array.

        Raises:
            UnevenArrayError: Something else than objects and commas stands in it, or after it.
        """
        rest, number, is_open = "", 1, False
        for text in self._source.texts():
            rest = rest + text if is_open else (rest + text).lstrip()
            if not is_open and rest:
                rest, is_open = rest.removeprefix("["), True
            records, end = self._complete_objects(rest, number)
            rest = rest[end:]
            if len(rest) > MAX_RECORD:
                raise UnevenArrayError
            if records:
                yield records, list(range(number, number + len(records)))
                number += len(records)
        if rest.strip() != "]":
            raise UnevenArrayError

    def _complete_objects(self, text: str, first: int) -> tuple[list[Any], int]:
        """The objects that are complete, and where what is left begins."""
        decoder, records, place = json.JSONDecoder(), list[Any](), 0
        while found := _NEXT.match(text, place):
            number = first + len(records)
            if bool(found[1]) is (number == 1):  # a comma before the first one, or none between two
                raise UnevenArrayError
            try:
                value, end = decoder.raw_decode(text, found.end())
            except json.JSONDecodeError:  # cut off here, or damaged
                break
            except (RecursionError, ValueError) as error:
                raise _beyond_limits(
                    self._source.path, _("record {number:,}").format(number=number), error
                ) from error
            records.append(self._whole_characters(value, text[place:end], number))
            place = end
        return records, place

    def _whole_characters(self, value: Any, text: str, number: int) -> Any:
        value, was_repaired = _repaired(value, text)
        self._repaired = self._repaired or (number if was_repaired else 0)
        return value


HALF_CHARACTER = _("Half a character, as an emoji cut in two leaves it, is read as �")


def _repaired(value: Any, text: str) -> tuple[Any, bool]:
    """The value that was parsed from a text, with halves of characters read as �; and whether there was one."""
    if "\\ud" not in text and "\\uD" not in text:
        return value, False
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")), True
    return value, False


def _parse_whole(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    text = source.whole()
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise _damaged(source.path, error, error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise _beyond_limits(source.path, _("the file"), error) from error
    found, was_repaired = _repaired(found, text)
    records, notes = _rows_in(source.path, found)
    blocks = [
        (
            records[start : start + BLOCK_ROWS],
            list(range(start + 1, min(start + BLOCK_ROWS, len(records)) + 1)),
        )
        for start in range(0, len(records), BLOCK_ROWS)
    ]
    kept = _keep(source.path, new_writer, blocks, "record")
    return replace(kept, notes=(*notes, *((f"{HALF_CHARACTER}.",) if was_repaired else ()), *kept.notes))


def _rows_in(path: Path, found: Any) -> tuple[list[Any], tuple[str, ...]]:
    """The rows in what a file holds, and where they were found."""
    if isinstance(found, list):
        return found, ()
    if not isinstance(found, dict):
        raise _no_object(path, _("the file"), found)
    columns = _columns(found)
    if columns is not None:
        return columns, (f"{path.name} holds columns, not rows; they were put together row by row.",)
    lists = {name: value for name, value in found.items() if _is_rows(value)}
    if len(lists) > 1:
        raise DataError(
            _("{name} holds several lists of rows").format(name=path.name),
            _("{path}: {lists} each have rows.").format(path=path, lists=listed(lists)),
            (
                Fix(
                    _(
                        "Save each list in a file of its own, and choose one to train on and one to evaluate "
                        "on"
                    )
                ),
            ),
        )
    for name, rows in lists.items():
        return rows, (_("The rows are those of “{name}” in {name_2}.").format(name=name, name_2=path.name),)
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
        if any(value.keys() != keys for value in values) or not all(key.isdecimal() for key in keys):
            return None
        values = [list(value.values()) for value in values]
    is_even = all(isinstance(value, list) and len(value) == len(values[0]) for value in values)
    if not is_even or not values[0] or any(isinstance(value[0], dict) for value in values):
        return None
    return [dict(zip(found, row, strict=True)) for row in zip(*values, strict=True)]


# --- One type for a column, or text where no one type holds its values


class Why(Enum):
    """Why the values of a column are read as text."""

    MIXED = "mixes kinds of values"
    BIG = "holds numbers beyond 64 bits"
    DEEP = "holds values nested very deeply"
    WIDE = f"holds objects with more than {MAX_FIELDS} different names"


Form: TypeAlias = pa.DataType | Why
"""What a column is read as."""


def _keep(path: Path, new_writer: NewWriter, blocks: Iterable[Block], word: str) -> ParsedRows:
    """Write the records: once through them for the columns and their types, once more for the rows."""
    forms = _forms(path, blocks, word)
    if not forms:
        raise DataError(
            _("{name} has no rows").format(name=path.name),
            _("{path}: there is no object in it.").format(path=path),
            (Fix(_("Choose another file")),),
        )
    rows = None
    while rows is None:
        rows = _written(new_writer, blocks, forms)
    texts = [
        f"Column “{name}” {form.value}; they are read as text."
        for name, form in forms.items()
        if isinstance(form, Why)
    ]
    return ParsedRows(rows, "JSON" if word == "record" else "JSONL", word, tuple(texts))


def _forms(path: Path, blocks: Iterable[Block], word: str) -> dict[str, Form]:
    """What each column is read as, in the order in which they first appear."""
    forms: dict[str, Form] = {}
    for records, numbers in blocks:
        for record, number in zip(records, numbers, strict=True):
            if not isinstance(record, dict):
                raise _no_object(path, f"{word} {number:,}", record)
        for name in dict.fromkeys(name for record in records for name in record):
            forms[name] = _form_of(forms.get(name, pa.null()), [record.get(name) for record in records])
        if len(forms) > MAX_COLUMNS:
            raise DataError(
                _("{name} has more than {max_columns:,} columns").format(
                    name=path.name, max_columns=MAX_COLUMNS
                ),
                f"{path}: the names of the objects differ from {word} to {word}; by {word} {numbers[-1]:,} there are "
                f"{len(forms):,}.",
                (Fix(_('Make every row an object with the same names, such as "text" and "label"')),),
            )
    return forms


def _form_of(known: Form, values: Sequence[Any]) -> Form:
    """The type that holds what is known of a column and further values, or why none does."""
    if isinstance(known, Why):
        return known
    try:
        schemas = [pa.schema([("", kind)]) for kind in (known, pa.array(values).type)]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except OverflowError:
        return Why.BIG
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, RecursionError):
        return Why.MIXED
    layer, depth = [kind], 0
    while layer:
        depth += 1
        if any(one.num_fields > MAX_FIELDS for one in layer):
            return Why.WIDE
        if depth > MAX_DEPTH:
            return Why.DEEP
        layer = [one.field(place).type for one in layer for place in range(one.num_fields)]
    return kind


def _written(new_writer: NewWriter, blocks: Iterable[Block], forms: dict[str, Form]) -> RowWriter | None:
    """All rows in their types; None where a column turns out not to fit its type, which is text from now on."""
    schema = pa.schema(
        [(name, pa.string() if isinstance(form, Why) else form) for name, form in forms.items()]
    )
    writer = new_writer(schema)
    for records, numbers in blocks:
        arrays = []
        for name, form in forms.items():
            values = [record.get(name) for record in records]
            try:
                kind = schema.field(name).type
                arrays.append(pa.array(map(_as_text, values) if isinstance(form, Why) else values, kind))
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
                forms[name] = Why.MIXED  # as 2**60 + 1 and 0.5 don't
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


# --- What is wrong with a file of JSON, and where


def _damaged(path: Path, error: json.JSONDecodeError, line: int) -> DataError:
    """The error for what isn't JSON; the cause is looked for at the place where reading stopped."""
    what, place = _cause(error)
    column = place - (error.doc.rfind("\n", 0, place) + 1) + 1
    line += error.doc.count("\n", 0, place) - error.doc.count("\n", 0, error.pos)
    near = error.doc[max(0, place - NEAR) : place + NEAR].replace("\n", "⏎").replace("\r", "")
    kind = "JSONL" if ending(path) in (".jsonl", ".ndjson") else "JSON"
    return DataError(
        _("{name} is not {kind}: line {line:,}, column {column:,}").format(
            name=path.name, kind=kind, line=line, column=column
        ),
        _("{path}, line {line:,}, column {column:,}: {what}. Near: {near}").format(
            path=path, line=line, column=column, what=what, near=near
        ),
        (Fix(_("Correct line {line:,}, or rename the file if it isn't JSON").format(line=line)),),
    )


def _cause(error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong in words, and at which character."""
    text, place = error.doc, error.pos
    before = text[:place].rstrip()
    if before.endswith(",") and text[place : place + 1] in ("]", "}"):
        return _("a comma too many before {text}").format(text=text[place]), len(before) - 1
    trailing = re.compile(r",\s*[\]}]").match(text, place)  # Python from 3.13 on stops at the comma itself
    if trailing:
        return _("a comma too many before {group}").format(group=trailing.group()[-1]), place
    if not text[place:].strip():
        return "it ends in the middle; a bracket, a brace or a quote is not closed", place
    if text[place] == "'":
        return _("texts and names stand in double quotes, not in single ones"), place
    return error.msg, place


def _no_object(path: Path, place: str, value: Any) -> DataError:
    shown = json.dumps(value, ensure_ascii=False)[:60]
    return DataError(
        _("{name}: {place} is not an object").format(name=path.name, place=place),
        f'{path}: a row must read {{"text": "...", "label": "..."}}; {place} is {shown}.',
        (Fix(_("Make every row an object with the same names")),),
    )


def _beyond_limits(path: Path, place: str, error: RecursionError | ValueError) -> DataError:
    """The error for what nothing but a mistake or an attack has: brackets within brackets, a number without end."""
    if isinstance(error, ValueError):
        return DataError(
            _("{name}: {place} has a number that is too long").format(name=path.name, place=place),
            _("{path}: {place} has a whole number of more than {get_int_max_str_digits:,} digits.").format(
                path=path, place=place, get_int_max_str_digits=sys.get_int_max_str_digits()
            ),
            (Fix(_("Put the number in quotes, so that it is read as text")),),
        )
    return DataError(
        _("{name} is nested too deeply").format(name=path.name),
        _("{path}: {place} has about a thousand brackets inside one another.").format(path=path, place=place),
        (Fix(_("Make every row an object with plain values")),),
    )
