"""One row of a form: label, control and unit; below it a line for hints, advice and problems."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.language import _
from core.options.catalogue import unit_beside, unit_of
from gui.base.theme import Role, set_flag
from gui.base.tokens import SPACING
from gui.widgets.cards import Note
from gui.widgets.fields import Field, Refused
from gui.widgets.labels import link_button, plain_tip, role_label
from gui.widgets.layout import hbox, keep_place

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
        keep_place(self.mark)
        self.mark.setFixedWidth(2 * SPACING)
        self.mark.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Undo needs no mouse
        self.mark.hide()
        self.hint = self._remark = ""
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
        line_height = field.control.sizeHint().height()
        label = role_label(Role.LABEL, field.option.title)
        label.setWordWrap(True)
        label.setToolTip(plain_tip(field.option.help))
        label.setBuddy(field.control)
        label.setFixedWidth(label_width(label))
        label.setMinimumHeight(line_height)
        mark = QVBoxLayout()  # as high as one line of controls: a field may have two
        mark.setSpacing(0)
        mark.addSpacing(max(0, (line_height - self.mark.sizeHint().height()) // 2))
        mark.addWidget(self.mark)
        grid.addWidget(label, 0, 0, 2, 1, top)
        grid.addLayout(mark, 0, 1, top)
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
        if start:
            self.mark.setToolTip(_("Changed ({start}). Click to reset.").format(start=start))
            name = _("{title} is changed ({start})")
            self.mark.setAccessibleName(name.format(title=self.field.option.title, start=start))

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
        self.note.say([*filter(None, lines)], fixes, Role.PROBLEM if self.problems else Role.HINT)


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
