"""A form made from the declared options: rows in, a plain tree of values out, problems at their rows."""

from collections.abc import Iterable, Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.base.errors import Fix, Problem
from core.options import SCHEMA, Tree
from core.options.catalogue import Option, is_changed, options_by_path, value_words
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport
from gui.widgets.fields import Field, Offer, make_field, offer_of
from gui.widgets.form_row import FormRow


class Form(QObject):
    """The rows of a request, wherever on the page they stand.

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
        self._task = task
        self._rows: dict[str, FormRow] = {}
        self._relevant: frozenset[str] = frozenset()
        self.batch: frozenset[str] = frozenset()
        self._offers: dict[str, Offer] = {}

    def add(self, path: str, field: Field | None = None, trailing: QWidget | None = None) -> FormRow:
        """Make the row of one option.

        Args:
            path: The option's path.
            field: Its control, where the usual one for its kind won't do.
            trailing: A widget at the end of its line.
        """
        option = options_by_path()[path]
        row = FormRow(field or make_field(option), trailing)
        row.field.set_value(option.default)
        row.field.changed.connect(self._tell)
        row.fix_chosen.connect(self.fix_chosen)
        row.reset_chosen.connect(self._reset)
        self._rows[path] = row
        return row

    def row(self, path: str) -> FormRow:
        """The row of an option; raises KeyError where there is none."""
        return self._rows[path]

    def field(self, path: str) -> Field:
        """The control of an option; raises KeyError where there is none."""
        return self._rows[path].field

    @property
    def paths(self) -> tuple[str, ...]:
        """The options that have a row."""
        return tuple(self._rows)

    @property
    def task(self) -> Task:
        """The task whose options are shown and count."""
        return self._task

    def set_task(self, task: Task) -> None:
        """Show the options of another task."""
        self._task = task
        self._follow()

    def tree(self) -> Tree:
        """The values of all options that mean something beside the others, as a run file holds them."""
        tree: Tree = {"schema": SCHEMA, "task": self._task.value}
        for row in self._rows.values():
            option = row.field.option
            value = row.field.value()
            if option.applies(self._value_at) and value is not None:
                tree.setdefault(option.section, {})[option.name] = value
        return tree

    def full_tree(self) -> Tree:
        """The values of all options, those too that mean nothing beside the others at the moment."""
        tree: Tree = {"schema": SCHEMA, "task": self._task.value}
        for row in self._rows.values():
            option = row.field.option
            tree.setdefault(option.section, {})[option.name] = row.field.value()
        return tree

    def _value_at(self, path: str) -> object:
        """What the form holds for an option; the default of one that has no row."""
        if path == "task":
            return self._task
        row = self._rows.get(path)
        return row.field.value() if row else options_by_path()[path].default

    def applies(self, option: Option) -> bool:
        """Whether an option means anything beside the values in the form."""
        return option.applies(self._value_at)

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a tree, and the default of every option it leaves out; `changed` is not sent."""
        for row in self._rows.values():
            option = row.field.option
            values = tree.get(option.section, {})
            given = values.get(option.name, option.default) if isinstance(values, Mapping) else option.default
            row.field.set_value(given)
            self._offer_again(option.path)
        self._follow()

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths and leave the others; unknown paths are skipped, `changed` is not sent."""
        for path, value in changes.items():
            if path in self._rows:
                self._rows[path].field.set_value(value)
                self._offer_again(path)
        self._follow()

    def set_values(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, as a fix asks for; unknown paths are skipped. `changed` is sent for each."""
        self.put(changes)
        before, self.batch = self.batch, frozenset(changes)
        for path in changes:
            if path in self._rows:
                self.changed.emit(path)
        self.batch = before

    def apply_fix(self, fix: Fix) -> None:
        """Do what a fix says."""
        self.set_values(fix.changes)

    def show_problems(self, problems: Iterable[Problem]) -> None:
        """Show each problem at its row. An empty field is not scolded: what is missing is said elsewhere."""
        by_path = _by_path(problems)
        for path, row in self._rows.items():
            is_empty = row.field.value() in ("", None, [])
            row.set_problems([] if is_empty else by_path.get(path, []))

    def show_advice(self, advice: Iterable[Problem]) -> None:
        """Show at each row what is worth knowing about its value."""
        by_path = _by_path(advice)
        for path, row in self._rows.items():
            row.set_advice(by_path.get(path, []))

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

    def _tell(self) -> None:
        field = self.sender()
        if isinstance(field, Field):
            self._offer_again(field.option.path)
            self._follow()
            self.changed.emit(field.option.path)

    def _offer_again(self, path: str) -> None:
        """What can be changed depends on the value there is: what is refused can be put back, not chosen."""
        if path in self._offers:
            self._rows[path].show_offer(self._offers[path])

    def _reset(self) -> None:
        row = self.sender()
        if isinstance(row, FormRow):
            option = row.field.option
            row.field.control.setFocus()  # its mark, which has the focus, goes away
            self.set_values({option.path: option.default})

    def _follow(self) -> None:
        """Mark what differs from its default, and tell when other options mean something than before."""
        for row in self._rows.values():
            option, value = row.field.option, row.field.value()
            row.set_changed(value_words(option, option.default) if is_changed(option, value) else "")
            row.show_unit()
        relevant = frozenset(path for path, row in self._rows.items() if self.applies(row.field.option))
        if relevant != self._relevant:
            self._relevant = relevant
            self.relevance_changed.emit()


def _by_path(problems: Iterable[Problem]) -> dict[str, list[Problem]]:
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        found.setdefault(problem.path, []).append(problem)
    return found
