"""A form made from the declared options: rows in, a plain tree of values out, problems at their rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal

from core.base.errors import Problem
from core.options import SCHEMA, Tree
from core.options.catalogue import is_changed, options_by_path, value_text
from core.options.choices import Task
from core.options.declare import Option
from core.options.device_support import DeviceReport, MachineReport
from gui.widgets.fields import Field, Offer, make_field, offer_of
from gui.widgets.form_row import FormRow


class Form(QObject):
    """The rows of a request, wherever on the page they are.

    While `changed` is sent for options that were set together, `batch` has the paths of all of them.

    Signals:
        changed: The path of the option whose value the person changed, such as `memory.batch_size`.
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.
        revealed: The path of an option whose row has to be seen now.
        relevance_changed: Other options than before mean something beside the values in the form.
    """

    changed = Signal(str)
    fix_chosen = Signal(object)
    revealed = Signal(str)
    relevance_changed = Signal()

    def __init__(self, task: Task, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.task = task
        self.batch: frozenset[str] = frozenset()
        self._rows: dict[str, FormRow] = {}
        self._relevant: frozenset[str] = frozenset()
        self._offers: dict[str, Offer] = {}

    def add(self, path: str, field: Field | None = None) -> FormRow:
        """Make the row of an option; `field` is its control where the usual one for its kind won't do."""
        option = options_by_path()[path]
        row = self._rows[path] = FormRow(field or make_field(option))
        row.field.set_value(option.default)
        row.field.changed.connect(lambda: self._tell(path))
        row.fix_chosen.connect(self.fix_chosen)
        row.reset_chosen.connect(lambda: self._reset(path))
        return row

    def row(self, path: str) -> FormRow:
        return self._rows[path]

    def field(self, path: str) -> Field:
        return self._rows[path].field

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def set_task(self, task: Task) -> None:
        """Show the options of another task."""
        self.task = task
        self._follow()

    def value(self, path: str) -> object:
        """What the form holds for an option, or `task`; the default of one that has no row."""
        if path == "task":
            return self.task
        row = self._rows.get(path)
        return row.field.value() if row else options_by_path()[path].default

    def applies(self, option: Option) -> bool:
        """Whether an option means anything beside the values in the form."""
        return option.applies(self.value)

    def tree(self) -> Tree:
        """The values of all options that mean something beside the others, as a run file holds them."""
        return self._tree(
            {
                path: row.field.value()
                for path, row in self._rows.items()
                if self.applies(row.field.option) and row.field.value() is not None
            }
        )

    def full_tree(self) -> Tree:
        """The values of all options, those too that mean nothing beside the others at the moment."""
        return self._tree({path: row.field.value() for path, row in self._rows.items()})

    def _tree(self, values: Mapping[str, object]) -> Tree:
        tree: Tree = {"schema": SCHEMA, "task": self.task.value}
        for path, value in values.items():
            section, name = path.split(".")
            tree.setdefault(section, {})[name] = value
        return tree

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a tree, and the default of every option it leaves out; `changed` is not sent."""
        values = {path: row.field.option.default for path, row in self._rows.items()}
        for section, given in tree.items():
            if isinstance(given, Mapping):
                values |= {f"{section}.{name}": value for name, value in given.items()}
        self.put(values)

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths and leave the others; unknown paths are skipped, `changed` is not sent."""
        for path, value in changes.items():
            if path in self._rows:
                self._rows[path].field.set_value(value)
                self._offer_again(path)
        self._follow()

    def set_values(self, changes: Mapping[str, Any]) -> None:
        """The same as `put`, and `changed` is sent for each."""
        self.put(changes)
        before, self.batch = self.batch, frozenset(changes)
        for path in changes:
            if path in self._rows:
                self.changed.emit(path)
        self.batch = before

    def show_problems(self, problems: Iterable[Problem]) -> None:
        """Show each problem at its row, but none at an empty field: what is missing is said elsewhere."""
        by_path = _by_path(problems)
        for path, row in self._rows.items():
            row.set_problems([] if row.field.value() in ("", None, []) else by_path[path])

    def show_advice(self, advice: Iterable[Problem]) -> None:
        by_path = _by_path(advice)
        for path, row in self._rows.items():
            row.set_advice(by_path[path])

    def show_machine(
        self, machine: MachineReport | None, device: DeviceReport | None, *, but: frozenset[str] = frozenset()
    ) -> None:
        """Grey what the device refuses, with its reasons, and say what "automatic" comes to there.

        Args:
            machine: The machine; None: nothing is known yet.
            device: The device that is chosen.
            but: Paths of rows that are offered their choices by someone else.
        """
        for path, row in self._rows.items():
            if path not in but:
                self._offers[path] = offer_of(row.field.option, machine, device)
                row.show_offer(self._offers[path])

    def focus(self, path: str) -> None:
        """Bring an option into view and give it the focus."""
        if path in self._rows:
            self.revealed.emit(path)
            self._rows[path].field.control.setFocus()

    def _tell(self, path: str) -> None:
        self._offer_again(path)
        self._follow()
        self.changed.emit(path)

    def _offer_again(self, path: str) -> None:
        """What can be changed depends on the value there is: what is refused can be put back, not chosen."""
        if path in self._offers:
            self._rows[path].show_offer(self._offers[path])

    def _reset(self, path: str) -> None:
        field = self._rows[path].field
        field.control.setFocus()  # the mark, which has the focus, goes away
        self.set_values({path: field.option.default})

    def _follow(self) -> None:
        """Mark what differs from its default, and tell when other options mean something than before."""
        for row in self._rows.values():
            option, value = row.field.option, row.field.value()
            row.set_changed(value_text(option, option.default) if is_changed(option, value) else "")
            row.show_unit()
        relevant = frozenset(path for path, row in self._rows.items() if self.applies(row.field.option))
        if relevant != self._relevant:
            self._relevant = relevant
            self.relevance_changed.emit()


def _by_path(problems: Iterable[Problem]) -> defaultdict[str, list[Problem]]:
    found: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        found[problem.path].append(problem)
    return found
