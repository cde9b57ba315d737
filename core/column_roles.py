"""What a column of a table can be for each task, and which options say so.

Forms show one choice a column; a run file has `data.text_columns`, `data.label_column`, `data.image_column` and
`data.columns`. Both are turned into each other here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.choices import Task
from core.conversation_words import CHAT_COLUMNS, COLUMN_TITLES, PREFERENCE_COLUMNS
from core.data_report import DataReport

TEXT_COLUMNS = "data.text_columns"
LABEL_COLUMN = "data.label_column"
IMAGE_COLUMN = "data.image_column"
COLUMNS = "data.columns"
PATHS = (TEXT_COLUMNS, LABEL_COLUMN, IMAGE_COLUMN, COLUMNS)
"""The options that say which column is what."""

TEXT = "text"
SECOND = "second text"
LABEL = "label"
IMAGE = "image"

Columns = dict[str, str]
"""Columns by the keys of their roles."""


@dataclass(frozen=True)
class ColumnUse:
    """Something a column can be: its key, its title and a sentence about it."""

    key: str
    title: str
    help: str


_FIRST = ColumnUse(TEXT, "Text", "What the model reads.")
_SECOND = ColumnUse(SECOND, "Second text", "Read together with the text, for pairs.")
_WORDS = ColumnUse(TEXT, "Words", "A list of words, or a text that is split at its blanks.")
_LABEL = ColumnUse(LABEL, "Label", "The answer to learn: one of a few names.")
_NUMBER = ColumnUse(LABEL, "Number", "The answer to learn: a number.")
_TAGS = ColumnUse(LABEL, "Labels of words", "The answer to learn: a label for each word.")
_IMAGE = ColumnUse(IMAGE, "Image", "An image, or the path to one.")
_WHOLE = ColumnUse(TEXT, "Text", "What the model learns to go on with.")


def uses_for(task: Task) -> tuple[ColumnUse, ...]:
    """What columns can be for a task, the most needed first."""
    match task:
        case Task.TEXT_CLASSIFICATION:
            return (_FIRST, _SECOND, _LABEL)
        case Task.TEXT_REGRESSION:
            return (_FIRST, _SECOND, _NUMBER)
        case Task.TOKEN_CLASSIFICATION:
            return (_WORDS, _TAGS)
        case Task.CAUSAL_LM:
            return (_WHOLE,)
        case Task.IMAGE_CLASSIFICATION:
            return (_IMAGE, _LABEL)
        case _:
            roles = PREFERENCE_COLUMNS if task is Task.PREFERENCE else CHAT_COLUMNS
            return tuple(ColumnUse(role.value, *COLUMN_TITLES[role]) for role in roles)


def chosen_columns(task: Task, value_at: Callable[[str], Any]) -> Columns:
    """The columns that the options name; `value_at` gives an option's value by its path."""
    if task.reads_conversations:
        return dict(value_at(COLUMNS) or {})
    texts = [] if task.reads_images else [str(name) for name in value_at(TEXT_COLUMNS) or ()]
    found = dict(zip((TEXT, SECOND), texts, strict=False))
    for key, path in ((LABEL, LABEL_COLUMN), (IMAGE, IMAGE_COLUMN)):
        name = value_at(path)
        if name and key in {use.key for use in uses_for(task)}:
            found[key] = str(name)
    return found


def guessed_columns(task: Task, report: DataReport) -> Columns:
    """The columns that a look at the data took for what is needed."""
    if task.reads_conversations:
        return dict(report.columns_by_role)
    found = {} if task.reads_images else dict(zip((TEXT, SECOND), report.text_columns, strict=False))
    if report.label_column:
        found[LABEL] = report.label_column
    if task.reads_images and report.columns_by_role.get(IMAGE):
        found[IMAGE] = report.columns_by_role[IMAGE]
    known = {use.key for use in uses_for(task)}
    return {key: name for key, name in found.items() if key in known}


def with_use(columns: Mapping[str, str], column: str, key: str) -> Columns:
    """The columns once one of them is something else; empty key: nothing.

    Who was that before takes what the column has been, so that two columns change places at once. A second text without
    a first one becomes the first.
    """
    before = next((old for old, name in columns.items() if name == column), "")
    other = columns.get(key, "")
    changed = {old: name for old, name in columns.items() if name != column and old != key}
    if key:
        changed[key] = column
    if before and other and other != column:
        changed[before] = other
    if SECOND in changed and TEXT not in changed:
        changed[TEXT] = changed.pop(SECOND)
    return changed


def options_of_columns(task: Task, columns: Mapping[str, str]) -> dict[str, Any]:
    """The options that name these columns, by path."""
    if task.reads_conversations:
        return {COLUMNS: dict(columns)}
    if task.reads_images:
        return {IMAGE_COLUMN: columns.get(IMAGE), LABEL_COLUMN: columns.get(LABEL)}
    made: dict[str, Any] = {TEXT_COLUMNS: [columns[key] for key in (TEXT, SECOND) if key in columns]}
    if LABEL in {use.key for use in uses_for(task)}:
        made[LABEL_COLUMN] = columns.get(LABEL)
    return made
