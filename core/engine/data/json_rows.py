"""Rows as JSON: an array of objects, or one object a line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from core.engine.data.parsed_rows import ParsedRows
from core.errors import DataError, Fix


def looks_like_json(text: str) -> bool:
    """Whether the whole text is JSON, or its first line is a JSON object."""
    start = text.lstrip()
    if not start.startswith(("{", "[")):
        return False
    first_line = start.partition("\n")[0]
    return _is_object(first_line) or _parses(start)


def _is_object(line: str) -> bool:
    return line.startswith("{") and _parses(line)


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def parse_array(path: Path, text: str) -> ParsedRows:
    """Read an array of objects, `{"data": [...]}`, or objects by lines whatever the ending says.

    Raises:
        DataError: It isn't JSON, or holds something else than objects.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if _is_object(text.lstrip().partition("\n")[0]):
            return parse_lines(path, text)
        raise _damaged(path, error, error.lineno) from error
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else [found]
    if not isinstance(found, list):
        raise _no_object(path, "the file", found)
    return _table(path, found, list(range(1, len(found) + 1)), "JSON", "record")


def parse_lines(path: Path, text: str) -> ParsedRows:
    """Read one object a line, or an array whatever the ending says; blank lines are passed over.

    Raises:
        DataError: A line isn't a JSON object.
    """
    if text.lstrip().startswith("["):
        return parse_array(path, text)
    records: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise _damaged(path, error, number) from error
        numbers.append(number)
    return _table(path, records, numbers, "JSONL", "line")


def _table(path: Path, records: Sequence[Any], numbers: list[int], form: str, word: str) -> ParsedRows:
    names: dict[str, None] = {}  # in the order they first appear
    for record, number in zip(records, numbers, strict=True):
        if not isinstance(record, dict):
            raise _no_object(path, f"{word} {number:,}", record)
        names.update(dict.fromkeys(record))
    if not names:
        raise DataError(
            f"{path.name} has no rows", f"{path}: there is no object in it.", (Fix("Choose another file"),)
        )
    columns: dict[str, pa.Array] = {}
    notes = []
    for name in names:
        values = [record.get(name) for record in records]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            columns[name] = pa.array([_as_text(value) for value in values], pa.string())
            notes.append(f"Column “{name}” mixes kinds of values; they are read as text.")
    return ParsedRows(pa.table(columns), np.asarray(numbers), form, word, tuple(notes))


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False)


def _damaged(path: Path, error: json.JSONDecodeError, line: int) -> DataError:
    return DataError(
        f"{path.name} is not {'JSONL' if path.suffix.lower() in ('.jsonl', '.ndjson') else 'JSON'}: line {line:,}",
        f"{path}, line {line:,}, column {error.colno:,}: {error.msg}.",
        (Fix(f"Mend line {line:,}, or give the file the ending of what it is"),),
    )


def _no_object(path: Path, place: str, value: Any) -> DataError:
    shown = json.dumps(value, ensure_ascii=False)[:60]
    return DataError(
        f"{path.name}: {place} is not an object",
        f'{path}: a row must read {{"text": "...", "label": "..."}}; {place} is {shown}.',
        (Fix("Make every row an object with the same names"),),
    )
