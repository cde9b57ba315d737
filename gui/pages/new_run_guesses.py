"""Columns taken over from a look at the data, until the person chooses others or other data."""

from collections.abc import Set

from core.catalogue import options_by_path
from core.choices import Task
from core.column_roles import (
    COLUMNS,
    IMAGE,
    IMAGE_COLUMN,
    LABEL,
    LABEL_COLUMN,
    PATHS,
    SECOND,
    TEXT,
    TEXT_COLUMNS,
    Columns,
    chosen_columns,
    guessed_columns,
    options_of_columns,
    with_use,
)
from core.data_report import DataReport
from core.options import Tree
from gui.form import Form

TRAIN = "data.train"
OF_OTHER_COLUMNS = ("data.train_split", "data.header")
"""Options beside whose other values columns have other names."""
OF_ONE_FILE = ("data.roles", "data.header", "data.train_split", "data.eval_split")
"""What was said of one file and means nothing of the next, beside its columns."""

KEYS = {TEXT_COLUMNS: (TEXT, SECOND), LABEL_COLUMN: (LABEL,), IMAGE_COLUMN: (IMAGE,)}


class ColumnGuesses:
    """Which columns the form holds, and which of them were guessed.

    Args:
        form: The form.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._guessed: set[str] = set()
        self._source: object = None
        self._set_aside: dict[str, object] = {}

    @property
    def columns(self) -> Columns:
        """The columns the form holds, by the keys of their roles."""
        return chosen_columns(self._task, self._value)

    @property
    def guessed(self) -> frozenset[str]:
        """The keys of those that were guessed."""
        if COLUMNS in self._guessed:
            return frozenset(self.columns)
        return frozenset(key for path in self._guessed for key in KEYS.get(path, ()))

    def forget(self) -> None:
        """Count all that the form holds as chosen."""
        self._guessed.clear()
        self._set_aside.clear()
        self._source = self._value(TRAIN)

    def take(self, report: DataReport) -> bool:
        """Take over what is likely meant, where nothing was chosen; whether anything was taken.

        Columns chosen for other data are chosen again where this has them all; then it is to be looked at anew.
        """
        if self._choose_again(report):
            return False
        found = options_of_columns(self._task, guessed_columns(self._task, report))
        taken = {path: value for path, value in found.items() if value and not self._value(path)}
        self._form.put(taken)
        self._guessed |= set(taken)
        return bool(taken)

    def use(self, column: str, key: str) -> None:
        """Let a column be something else, as the person wants it."""
        wanted = options_of_columns(self._task, with_use(self.columns, column, key))
        changes = {
            path: value for path, value in wanted.items() if (value or None) != (self._value(path) or None)
        }
        self._form.set_values(changes)

    def note(self, path: str, along: Set[str] = frozenset()) -> None:
        """An option was changed: chosen columns are no guess, and other data, or another header, has others.

        Args:
            path: The option.
            along: Options that were changed together with it: these are meant for the new data.
        """
        if path in PATHS:
            self._guessed.discard(path)
            self._set_aside.pop(path, None)
        elif path == TRAIN:
            if self._value(TRAIN) != self._source:
                self._source = self._value(TRAIN)
                self._forget_file(along)
        elif path in OF_OTHER_COLUMNS and self._guessed:
            self._form.put({guessed: _nothing(guessed) for guessed in self._guessed})
            self._guessed.clear()

    def without(self, tree: Tree) -> Tree:
        """A form's values without what was guessed: other data would have others."""
        data = {
            name: value for name, value in tree.get("data", {}).items() if f"data.{name}" not in self._guessed
        }
        return {**tree, "data": data} if "data" in tree else tree

    def _forget_file(self, along: Set[str]) -> None:
        """Other data: what was said of the columns of the old is not said of its."""
        held = {path: self._value(path) for path in PATHS if path not in along and self._value(path)}
        self._set_aside |= {path: value for path, value in held.items() if path not in self._guessed}
        defaults = {path: options_by_path()[path].default for path in OF_ONE_FILE if path not in along}
        self._form.put({**{path: _nothing(path) for path in held}, **defaults})
        self._guessed -= set(held)

    def _choose_again(self, report: DataReport) -> bool:
        """Put back the columns that were chosen for other data, if all of them are here, too."""
        kept, self._set_aside = self._set_aside, {}
        names = {column.name for column in report.columns}
        here = {path: value for path, value in kept.items() if not self._value(path)}
        if not here or not names.issuperset(name for value in here.values() for name in _names(value)):
            return False
        self._form.put(here)
        return True

    @property
    def _task(self) -> Task:
        return self._form.task

    def _value(self, path: str) -> object:
        return self._form.field(path).value() if path in self._form.paths else None


def _nothing(path: str) -> object:
    return {TEXT_COLUMNS: [], COLUMNS: {}}.get(path, "")


def _names(value: object) -> list[str]:
    """The columns that a value of one of the options names."""
    if isinstance(value, dict):
        return [str(name) for name in value.values() if name]
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]
