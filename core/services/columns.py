"""The columns that each task uses, and which of a file's are chosen for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.base.language import _
from core.jobs.inspect import DataReport
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, Task

TEXT_COLUMNS = "data.text_columns"


LABEL_COLUMN = "data.label_column"


IMAGE_COLUMN = "data.image_column"


COLUMNS = "data.columns"


PATHS = (TEXT_COLUMNS, LABEL_COLUMN, IMAGE_COLUMN, COLUMNS)
"""The options that name columns."""


TEXT = "text"


SECOND = "second text"


LABEL = "label"


IMAGE = "image"


Columns = dict[str, str]
"""Columns by the key of their use."""


@dataclass(frozen=True)
class ColumnUse:
    """A use of a column."""

    key: str
    title: str
    help: str


_FIRST = ColumnUse(TEXT, _("Text"), _("What the model reads."))


_SECOND = ColumnUse(SECOND, _("Second text"), _("Read together with the text, for pairs."))


_LABEL = ColumnUse(LABEL, _("Label"), _("The answer to learn: one of a few names."))


_USES: dict[Task, tuple[ColumnUse, ...]] = {
    Task.TEXT_CLASSIFICATION: (_FIRST, _SECOND, _LABEL),
    Task.TEXT_REGRESSION: (
        _FIRST,
        _SECOND,
        ColumnUse(LABEL, _("Number"), _("The answer to learn: a number.")),
    ),
    Task.TOKEN_CLASSIFICATION: (
        ColumnUse(TEXT, _("Words"), _("A list of words, or a text that is split at spaces.")),
        ColumnUse(LABEL, _("Labels of words"), _("The answer to learn: a label for each word.")),
    ),
    Task.CAUSAL_LM: (
        ColumnUse(TEXT, _("Text"), _("The texts to learn from, instead of conversations.")),
        *(ColumnUse(role.value, role.label, role.help) for role in CHAT_COLUMNS if role.value != TEXT),
    ),
    Task.IMAGE_CLASSIFICATION: (ColumnUse(IMAGE, _("Image"), _("An image, or the path to one.")), _LABEL),
    Task.CHAT: tuple(ColumnUse(role.value, role.label, role.help) for role in CHAT_COLUMNS),
    Task.PREFERENCE: tuple(ColumnUse(role.value, role.label, role.help) for role in PREFERENCE_COLUMNS),
}


def uses_for(task: Task) -> tuple[ColumnUse, ...]:
    """Returns the uses of columns for a task, the most important first."""
    return _USES[task]


def chosen_columns(task: Task, value_at: Callable[[str], Any]) -> Columns:
    """Returns the columns that options name; `value_at` returns an option's value by path."""
    if task.reads_conversations or (task is Task.CAUSAL_LM and not value_at(TEXT_COLUMNS)):
        return dict(value_at(COLUMNS) or {})
    return _known(task, value_at(TEXT_COLUMNS) or (), value_at(LABEL_COLUMN), value_at(IMAGE_COLUMN))


def guessed_columns(task: Task, report: DataReport) -> Columns:
    if task.reads_conversations or (task is Task.CAUSAL_LM and not report.text_columns):
        return dict(report.columns_by_role)
    return _known(task, report.text_columns, report.label_column, report.columns_by_role.get(IMAGE))


def _known(task: Task, texts: Sequence[str], label: str | None, image: str | None) -> Columns:
    columns = dict(zip((TEXT, SECOND), texts, strict=False)) | {LABEL: label, IMAGE: image}
    keys = {use.key for use in uses_for(task)}
    return {key: str(name) for key, name in columns.items() if name and key in keys}


def with_use(columns: Mapping[str, str], column: str, key: str) -> Columns:
    """Returns the columns after `column` was given the use `key` (empty: none).

    The column that had this use gets the previous use of `column`. A second text without a first becomes the first.
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
    """Returns values by path of the options that name these columns."""
    if task.reads_conversations:
        return {COLUMNS: dict(columns)}
    if task is Task.CAUSAL_LM:
        texts = [columns[TEXT]] if TEXT in columns else []
        return {TEXT_COLUMNS: texts, COLUMNS: {} if texts else dict(columns)}
    if task.reads_images:
        return {IMAGE_COLUMN: columns.get(IMAGE), LABEL_COLUMN: columns.get(LABEL)}
    values: dict[str, Any] = {TEXT_COLUMNS: [columns[key] for key in (TEXT, SECOND) if key in columns]}
    if LABEL in {use.key for use in uses_for(task)}:
        values[LABEL_COLUMN] = columns.get(LABEL)
    return values
