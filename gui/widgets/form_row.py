"""One row of a form: label, control and unit; below it hints, advice and problems."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.language import _
from core.options.catalogue import unit_beside, unit_of
from gui.base.theme import Role, set_flag
from gui.base.tokens import SPACING
from gui.widgets.fields import Field, Refused
from gui.widgets.labels import Disclosure, link_button, meanings_in, role_label, text_label
from gui.widgets.layout import FLUSH, clear, fill, hbox

LONGEST_LABEL = "Pretrained weights"
"""Determines the width of the column of labels; longer labels wrap."""


class FormRow(QWidget):
    """A labelled control, with a mark if its value differs from that it started with.

    `problems` and `advice` are those shown; nothing is wrong with a value that has advice only.
    """

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`
    reset_chosen = Signal()

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field = field
        self.problems: tuple[Problem, ...] = ()
        self.advice: tuple[Problem, ...] = ()
        self.mark = link_button("•", self.reset_chosen.emit, flush=True)
        policy = self.mark.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.mark.setSizePolicy(policy)
        self.mark.setFixedWidth(2 * SPACING)
        self.mark.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Undo needs no mouse
        self.mark.hide()
        self.refusals = Disclosure(_("Why?"))
        self._hint = text_label(role=Role.HINT)
        self._hint.hide()
        self._unit = role_label(Role.MUTED)
        self._advice_lines, self._problem_lines = QVBoxLayout(), QVBoxLayout()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(0)
        self._grid.setVerticalSpacing(SPACING // 2)
        self._grid.setColumnStretch(2, 1)
        top = Qt.AlignmentFlag.AlignTop
        line_height = field.control.sizeHint().height()
        label = role_label(Role.LABEL, field.option.title)
        label.setWordWrap(True)
        label.setToolTip(field.option.help)
        label.setBuddy(field.control)
        label.setFixedWidth(label_width(label))
        label.setMinimumHeight(line_height)
        mark = QVBoxLayout()  # as high as one line of controls: a field may have two
        mark.setSpacing(0)
        mark.addSpacing(max(0, (line_height - self.mark.sizeHint().height()) // 2))
        mark.addWidget(self.mark)
        self._grid.addWidget(label, 0, 0, top)
        self._grid.addLayout(mark, 0, 1, top)
        self._grid.addLayout(self._control_line(), 0, 2)
        self._grid.addWidget(self._hint, 1, 2)
        self._grid.addWidget(self.refusals, 2, 2)
        for place, lines in enumerate((self._advice_lines, self._problem_lines), 3):
            lines.setSpacing(2)
            self._grid.addLayout(lines, place, 2)

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

    @property
    def hint(self) -> str:
        return self._hint.text()

    def set_hint(self, text: str) -> None:
        """Show below the control what the value means."""
        self._hint.setText(text)
        self._hint.setToolTip(meanings_in(text))
        self._show_hints()

    @property
    def unit(self) -> str:
        return self._unit.text()

    def show_unit(self) -> None:
        """Show what the value counts, which can depend on the value: steps, or a share of the run."""
        self._unit.setText(unit_beside(self.field.option, self.field.value()))

    def set_refusals(self, why: Refused) -> None:
        """Show why choices are greyed."""
        self.refusals.show_text(sentence(why.summary), [sentence(line) for line in why.details])
        self._show_hints()

    @property
    def is_changed(self) -> bool:
        return not self.mark.isHidden()

    def set_changed(self, start: str) -> None:
        """Mark that the value differs from its start, such as `example: 5`; empty if it doesn't."""
        self.mark.setVisible(bool(start))
        if start:
            self.mark.setToolTip(_("Changed ({start}). Click to reset.").format(start=start))
            name = _("{title} is changed ({start})")
            self.mark.setAccessibleName(name.format(title=self.field.option.title, start=start))

    def set_advice(self, advice: Sequence[Problem]) -> None:
        if tuple(advice) != self.advice:
            self.advice = tuple(advice)
            self._fill(self._advice_lines, advice, Role.HINT)

    def set_problems(self, problems: Sequence[Problem]) -> None:
        if tuple(problems) != self.problems:
            self.problems = tuple(problems)
            set_flag(self.field.control, "invalid", bool(problems))
            self._fill(self._problem_lines, problems, Role.PROBLEM)
            self._show_hints()

    def give_problems(self) -> QVBoxLayout:
        """Return the layout of the problems, to be shown elsewhere."""
        self._grid.removeItem(self._problem_lines)
        self._problem_lines.setParent(None)
        return self._problem_lines

    def _show_hints(self) -> None:
        """Hide what else there is to say while there is a problem."""
        self._hint.setVisible(bool(self.hint) and not self.problems)
        self.refusals.setVisible(bool(self.refusals.summary) and not self.problems)

    def _fill(self, layout: QVBoxLayout, problems: Sequence[Problem], role: Role) -> None:
        clear(layout)
        for problem in problems:
            line = QWidget(self)
            text = text_label(sentence(problem.message), role)
            lines = fill(QVBoxLayout(line), text, margins=FLUSH, spacing=0)
            buttons = QHBoxLayout()
            for fix in problem.fixes:
                if fix.is_advice:
                    lines.addWidget(text_label(fix.label, Role.HINT))
                else:
                    button = link_button(fix.label, partial(self.fix_chosen.emit, fix))
                    button.setEnabled(bool(fix.changes))
                    buttons.addWidget(button)
            buttons.addStretch(1)
            lines.addLayout(buttons)
            layout.addWidget(line)


def label_width(widget: QWidget) -> int:
    """Return the width of the column of labels, in pixels."""
    return widget.fontMetrics().horizontalAdvance(LONGEST_LABEL) + SPACING


def field_indent(widget: QWidget) -> int:
    """Return where the controls of a form begin, in pixels from the edge of its rows."""
    return label_width(widget) + 2 * SPACING


def sentence(message: str) -> str:
    """Return a message as a sentence; a name it begins with, such as `train.csv`, stays as it is."""
    first = message.split(" ", 1)[0]
    return message[:1].upper() + message[1:] if first.isalpha() and first.islower() else message
