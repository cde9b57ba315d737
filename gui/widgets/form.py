"""A form made from the declared options: rows, a tree of their values, and problems at the rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QGridLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSizePolicy,
    QWidget,
)

from core.base.errors import Problem
from core.base.formats import capitalized, titled
from core.base.language import _
from core.options import SCHEMA, RunOptions, Tree
from core.options.catalogue import is_changed, options_by_path, unit_beside, unit_of, value_at, value_text
from core.options.choices import Task
from core.options.declare import Option
from core.options.device_support import DeviceReport, MachineReport
from gui.base.theme import Role, set_flag
from gui.base.tokens import SPACING
from gui.widgets.cards import Note
from gui.widgets.fields import Field, Offer, Refused, make_field, offer_of
from gui.widgets.labels import link_button, plain_tip, role_label
from gui.widgets.layout import hbox, keep_place

# --- A row: label, control, help and problems


LONGEST_LABEL = "Pretrained weights"
"""Determines the width of the column of labels, in all languages; longer labels wrap."""


class FormRow(QWidget):
    """A labelled control, with a mark if its value differs from that it started with.

    `problems` and `advice` are those shown; nothing is wrong with a value that has advice only.

    Args:
        line_height: That of one line of the control, of which a field may have two; in pixels.
    """

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`
    reset_chosen = Signal()

    def __init__(self, field: Field, line_height: int) -> None:
        super().__init__()
        self.field = field
        self.problems: tuple[Problem, ...] = ()
        self.advice: tuple[Problem, ...] = ()
        self.mark = link_button("•", self.reset_chosen.emit, flush=True)
        keep_place(self.mark)
        self.mark.setFixedSize(2 * SPACING, line_height)
        self.mark.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the row's menu does the same
        self.mark.hide()
        self.hint = self._remark = self._start = ""
        self.refusals = Refused()
        self.note = Note()
        self.note.fix_chosen.connect(self.fix_chosen)
        field.remarked.connect(self._set_remark)
        self._unit = role_label(Role.MUTED)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(0)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(2, 1)
        top = Qt.AlignmentFlag.AlignTop
        label = role_label(Role.LABEL, field.option.title)
        label.setWordWrap(True)
        label.setToolTip(plain_tip(field.option.help))
        label.setBuddy(field.control)
        label.setFixedWidth(label_width(label))
        label.setMinimumHeight(line_height)
        grid.addWidget(label, 0, 0, 2, 1, top)
        grid.addWidget(self.mark, 0, 1, top)
        grid.addLayout(self._control_line(), 0, 2)
        grid.addWidget(self.note, 1, 2)

    def _control_line(self) -> QBoxLayout:
        option = self.field.option
        if not option.unit:
            fills = self.field.sizePolicy().horizontalPolicy() is not QSizePolicy.Policy.Maximum
            return hbox((self.field, 1 if fills else 0))
        self.field.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        if not unit_of(option, None):
            return hbox(self.field, None)
        self.show_unit()
        self._unit.setWordWrap(True)
        return hbox(self.field, (self._unit, 1))

    def set_hint(self, text: str) -> None:
        """Show below the control what the value means."""
        self.hint = text
        self._show_note()

    def _set_remark(self, text: str) -> None:
        self._remark = text
        self._show_note()

    @property
    def unit(self) -> str:
        return self._unit.text()

    def show_unit(self) -> None:
        """Show what the value counts, which can depend on the value: steps, or a share of the run."""
        self._unit.setText(unit_beside(self.field.option, self.field.value()))

    def set_refusals(self, why: Refused) -> None:
        """Show why choices are greyed."""
        self.refusals = why
        self._show_note()

    @property
    def is_changed(self) -> bool:
        return not self.mark.isHidden()

    def set_changed(self, start: str) -> None:
        """Mark that the value differs from its start, such as `example: 5`; empty if it doesn't."""
        self.mark.setVisible(bool(start))
        self._start = start
        policies = Qt.ContextMenuPolicy
        self.field.control.setContextMenuPolicy(
            policies.NoContextMenu if start else policies.DefaultContextMenu  # none: that of the row
        )
        if start:
            self.mark.setToolTip(_("Changed ({start}). Click to reset.").format(start=start))
            name = _("{title} is changed ({start})")
            self.mark.setAccessibleName(name.format(title=self.field.option.title, start=start))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer what can be done with a text, and what the mark does, which takes no focus."""
        control = self.field.control
        line = control.lineEdit() if isinstance(control, QAbstractSpinBox) else control
        menu = (
            line.createStandardContextMenu() if isinstance(line, QLineEdit | QPlainTextEdit) else QMenu(self)
        )
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if self.is_changed:
            menu.addSeparator()
            reset = menu.addAction(_("Reset ({start})").format(start=self._start), self.reset_chosen.emit)
            menu.setActiveAction(reset)
        menu.popup(event.globalPos())

    def set_advice(self, advice: Sequence[Problem]) -> None:
        if tuple(advice) != self.advice:
            self.advice = tuple(advice)
            self._show_note()

    def set_problems(self, problems: Sequence[Problem]) -> None:
        if tuple(problems) != self.problems:
            self.problems = tuple(problems)
            set_flag(self.field.control, "invalid", bool(problems))
            self._show_note()

    def _show_note(self) -> None:
        """Leave out what else there is to say while there is a problem."""
        told = self.problems or self.advice
        lines = [self._remark]
        for item in told:
            lines += (sentence(item.message), *(fix.label for fix in item.fixes if fix.is_advice))
        if not self.problems:
            lines += (self.hint, *map(sentence, (self.refusals.summary, *self.refusals.details)))
        fixes = [fix for item in told for fix in item.fixes if not fix.is_advice]
        self.note.say(
            [*dict.fromkeys(filter(None, lines))], fixes, Role.PROBLEM if self.problems else Role.HINT
        )


def label_width(widget: QWidget) -> int:
    """Return the width of the column of labels, in pixels."""
    return widget.fontMetrics().horizontalAdvance(LONGEST_LABEL) + SPACING


def field_indent(widget: QWidget) -> int:
    """Return where the controls of a form begin, in pixels from the edge of its rows."""
    return label_width(widget) + 2 * SPACING


def sentence(message: str) -> str:
    """Return a message as a sentence; a name it begins with, such as `train.csv`, stays as it is."""
    first = message.split(" ", 1)[0]
    return capitalized(message) if first.isalpha() and first.islower() else message


# --- The form


class StartingValue(NamedTuple):
    """A value that changes are counted from, and what it is of: "default", "example"."""

    value: Any
    origin: str


Starts = dict[str, tuple[StartingValue, ...]]
"""What changes of options are counted from, by their paths, the newest first."""


class Form(QObject):
    """The rows of a run's options, wherever on the page they are."""

    changed = Signal(object)  # a frozenset of the paths that changed together, such as `memory.batch_size`
    fix_chosen = Signal(object)  # a `core.base.errors.Fix`
    revealed = Signal(str)  # the path of an option whose row has to be visible now
    relevance_changed = Signal()  # other options apply now

    def __init__(self, task: Task, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.task = task
        self._rows: dict[str, FormRow] = {}
        self._line_heights: dict[type[QWidget], int] = {}
        self._relevant: frozenset[str] = frozenset()
        self._offers: dict[str, Offer] = {}
        self.starts: Starts = {}

    def add(self, path: str, field: Field | None = None) -> FormRow:
        """Add the row of an option, with `field` instead of the usual control of its kind."""
        option = options_by_path()[path]
        field = field or make_field(option)
        kind = type(field.control)
        if kind not in self._line_heights:
            self._line_heights[kind] = field.control.sizeHint().height()
        row = self._rows[path] = FormRow(field, self._line_heights[kind])
        row.field.set_value(option.default)
        row.field.changed.connect(lambda: self._on_change(path))
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
        self.task = task
        self._update_marks()

    def value(self, path: str) -> object:
        """Return the value of an option or `task`; the default of an option without a row."""
        if path == "task":
            return self.task
        row = self._rows.get(path)
        return row.field.value() if row else options_by_path()[path].default

    def applies(self, option: Option) -> bool:
        """Whether an option has a meaning with the other values of the form."""
        return option.applies(self.value) and option.suits(str(self.value("model.source") or ""))

    def tree(self) -> Tree:
        """Return the values of all options that apply, as in a run file."""
        return self._tree(
            {
                path: row.field.value()
                for path, row in self._rows.items()
                if self.applies(row.field.option) and row.field.value() is not None
            }
        )

    def full_tree(self) -> Tree:
        """Return the values of all options, even those that don't apply now."""
        return self._tree({path: row.field.value() for path, row in self._rows.items()})

    def _tree(self, values: Mapping[str, object]) -> Tree:
        tree: Tree = {"schema": SCHEMA, "task": self.task.value}
        for path, value in values.items():
            section, name = path.split(".")
            tree.setdefault(section, {})[name] = value
        return tree

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a tree, and the defaults of options it leaves out; `changed` is not emitted."""
        values = {path: row.field.option.default for path, row in self._rows.items()}
        for section, given in tree.items():
            if isinstance(given, Mapping):
                values |= {f"{section}.{name}": value for name, value in given.items()}
        self.put(values)

    def count_from(self, tree: Mapping[str, Any], origin: str, *, is_whole: bool = True) -> None:
        """Mark what differs from these values, or from the default where there are none.

        Args:
            origin: What they are of, as in "Changed (example: 5)".
            is_whole: Whether values that `tree` leaves out are those of before.
        """
        before = {} if is_whole else self.starts
        self.starts = before | {
            path: (StartingValue(value, origin), *before.get(path, ()))
            for path in self._rows
            if (value := value_at(dict(tree), path)) is not None
        }
        self._update_marks()

    def changed_from(self) -> dict[str, StartingValue]:
        """Return the paths of changed options, and what they are counted from."""
        changed = {}
        for path, row in self._rows.items():
            option, value = row.field.option, row.field.value()
            starts = self.starts.get(path) or (StartingValue(option.default, _("default")),)
            if all(is_changed(option, value, start.value) for start in starts):
                changed[path] = starts[0]
        return changed

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, unknown ones are skipped; `changed` is not emitted."""
        for path, value in changes.items():
            if path in self._rows:
                self._rows[path].field.set_value(value)
                self._show_offer(path)
        self._update_marks()

    def set_values(self, changes: Mapping[str, Any]) -> None:
        """Set some options like `put`, and emit `changed`."""
        self.put(changes)
        self.changed.emit(frozenset(changes) & self._rows.keys())

    def show_problems(self, problems: Iterable[Problem]) -> None:
        """Show each problem at its row, but none at an empty one."""
        by_path = _by_path(problems)
        for path, row in self._rows.items():
            is_open = row.field.value() in ("", None, [])
            row.set_problems([] if is_open else by_path[path])

    def show_advice(self, advice: Iterable[Problem]) -> None:
        by_path = _by_path(advice)
        for path, row in self._rows.items():
            row.set_advice(by_path[path])

    def show_machine(
        self,
        machine: MachineReport | None,
        device: DeviceReport | None,
        options: RunOptions | None = None,
        *,
        but: frozenset[str] = frozenset(),
    ) -> None:
        """Grey what the device refuses, and show what "automatic" resolves to.

        Args:
            machine: The machine, None if not known yet.
            options: Those of the form; None if they can't be read.
            but: Paths of rows that the caller updates itself.
        """
        for path, row in self._rows.items():
            offer = offer_of(row.field.option, machine, device, options)
            if path not in but and offer != self._offers.get(path):
                self._offers[path] = offer
                self._show_offer(path)

    def focus(self, path: str) -> None:
        """Bring an option into view and focus it."""
        if path in self._rows:
            self.revealed.emit(path)
            self._rows[path].field.control.setFocus()

    def _on_change(self, path: str) -> None:
        self._show_offer(path)
        self._update_marks()
        self.changed.emit(frozenset({path}))

    def _show_offer(self, path: str) -> None:
        """Grey what is refused, which depends on the value: a refused one can be put back."""
        if path in self._offers:
            row = self._rows[path]
            row.set_refusals(row.field.show_offer(self._offers[path]))

    def _reset(self, path: str) -> None:
        start = self.changed_from()[path]
        self.set_values({path: start.value})

    def _update_marks(self) -> None:
        """Mark what differs from its start, and notify if other options apply than before."""
        changed = self.changed_from()
        for path, row in self._rows.items():
            start = changed.get(path)
            row.set_changed(titled(start.origin, value_text(row.field.option, start.value)) if start else "")
            row.show_unit()
        relevant = frozenset(path for path, row in self._rows.items() if self.applies(row.field.option))
        if relevant != self._relevant:
            self._relevant = relevant
            self.relevance_changed.emit()


def _by_path(problems: Iterable[Problem]) -> defaultdict[str, list[Problem]]:
    by_path: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        by_path[problem.path].append(problem)
    return by_path
