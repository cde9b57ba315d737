"""Which columns of the form were guessed from the data, and which the person chose."""

from collections.abc import Iterable, Set
from pathlib import Path

from core.jobs.inspect import DataReport
from core.options import Tree
from core.options.catalogue import options_by_path
from core.services.columns import (
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
from gui.new_run.data_panel import FILE
from gui.widgets.form import Form

TRAIN = "data.train"
RENAMING = ("data.train_split", "data.header")
"""Options with whose other values the columns have other names."""
OF_ONE_FILE = ("data.roles", "data.header", "data.train_split", "data.eval_split")
"""Options that, like its columns and a validation file beside it, are of one file and not the next."""

KEYS = {TEXT_COLUMNS: (TEXT, SECOND), LABEL_COLUMN: (LABEL,), IMAGE_COLUMN: (IMAGE,)}


class ColumnGuesses:
    """Which columns of the form were guessed from the data.

    A column is guessed (`_guessed`), or chosen by the person. With other data guessed columns are dropped; chosen ones
    wait (`_earlier`) until it is known whether the new data (`_source`) has them.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._guessed: set[str] = set()
        self._earlier: dict[str, object] = {}
        self._source: object = None

    @property
    def columns(self) -> Columns:
        """The columns in the form, by the keys of their roles."""
        return chosen_columns(self._form.task, self._value)

    @property
    def guessed(self) -> frozenset[str]:
        """The keys of the guessed ones."""
        if COLUMNS in self._guessed:
            return frozenset(self.columns)
        return frozenset(key for path in self._guessed for key in KEYS.get(path, ()))

    def reset(self) -> None:
        """Count everything in the form as chosen."""
        self._guessed.clear()
        self._earlier.clear()
        self._source = self._value(TRAIN)

    def on_report(self, report: DataReport) -> bool:
        """Fill in guessed columns where none are chosen; returns whether there were any.

        Columns chosen for earlier data are put back if the new data has all of them; then it is read once more.
        """
        earlier = {path: value for path, value in self._earlier.items() if not self._value(path)}
        self._earlier = {}
        if earlier and {column.name for column in report.columns}.issuperset(_names(earlier.values())):
            self._form.put(earlier)
            return False
        task = self._form.task
        guesses = options_of_columns(task, guessed_columns(task, report))
        guesses = {
            path: value
            for path, value in guesses.items()
            if value and not self._value(path) and not self._form.field(path).control.hasFocus()
        }
        self._form.put(guesses)
        self._guessed |= set(guesses)
        return bool(guesses)

    def choose(self, column: str, key: str) -> None:
        """Use a column for what the person wants."""
        wanted = options_of_columns(self._form.task, with_use(self.columns, column, key))
        self._form.set_values(
            {path: value for path, value in wanted.items() if (value or None) != (self._value(path) or None)}
        )

    def on_change(self, path: str, together: Set[str] = frozenset()) -> None:
        """Follow a change of an option.

        Args:
            together: Options changed with it, which are meant for the new data.
        """
        if path in PATHS:
            self._guessed.discard(path)
            self._earlier.pop(path, None)
        elif path == TRAIN and self._value(TRAIN) != self._source:
            before, self._source = _folder(self._source), self._value(TRAIN)
            is_left = before == Path(str(self._value(FILE))).parent != _folder(self._source)
            columns = {path: self._value(path) for path in PATHS if path not in together}
            columns = {path: value for path, value in columns.items() if value}
            self._earlier |= {path: value for path, value in columns.items() if path not in self._guessed}
            self._guessed -= set(columns)
            self._clear({*columns, *OF_ONE_FILE, *((FILE,) if is_left else ())} - together)
        elif path in RENAMING:
            self._clear(self._guessed)
            self._guessed.clear()

    def without_guesses(self, tree: Tree) -> Tree:
        """Return a form's values without guessed columns: other data would have others."""
        data = {
            name: value for name, value in tree.get("data", {}).items() if f"data.{name}" not in self._guessed
        }
        return {**tree, "data": data} if "data" in tree else tree

    def _clear(self, paths: Set[str]) -> None:
        self._form.put({path: options_by_path()[path].default for path in paths})

    def _value(self, path: str) -> object:
        return self._form.field(path).value() if path in self._form.paths else None


def _folder(source: object) -> Path:
    path = Path(str(source))
    return path if path.is_dir() else path.parent


def _names(values: Iterable[object]) -> set[str]:
    """The columns that values of the options in `PATHS` name."""
    names: set[str] = set()
    for value in values:
        if isinstance(value, dict):
            names |= {str(name) for name in value.values() if name}
        else:
            names |= {str(name) for name in value} if isinstance(value, list | tuple) else {str(value)}
    return names
