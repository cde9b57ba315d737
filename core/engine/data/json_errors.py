"""What is wrong with a file of JSON, and where."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from core.engine.data.file_kinds import ending
from core.errors import DataError, Fix

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
