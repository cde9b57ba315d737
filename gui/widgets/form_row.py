"""One row of a form: label, control, unit; below it what it means here, and what is wrong with it."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.language import _
from core.options.catalogue import unit_beside, unit_of
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.fields import Field, Offer, Refused
from gui.widgets.labels import Disclosure, link_button, text_label
from gui.widgets.layout import FLUSH, clear, fill

LONGEST_LABEL = "Pretrained weights"
"""Gives the column of labels its width; longer labels wrap. Average widths of letters differ too much by font."""


class FormRow(QWidget):
    """A labelled control, with a mark where its value differs from the default.

    `problems` and `advice` are those shown; `advice` is worth knowing, and nothing is wrong.

    Signals:
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.
        reset_chosen: The person wants the default again.
    """

    fix_chosen = Signal(object)
    reset_chosen = Signal()

    def __init__(self, field: Field, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.problems: tuple[Problem, ...] = ()
        self.advice: tuple[Problem, ...] = ()
        self.mark = link_button("•", self.reset_chosen.emit, flush=True)
        keeps = self.mark.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        self.mark.setSizePolicy(keeps)
        self.mark.setFixedWidth(2 * SPACING)
        self.mark.hide()
        self.refusals = Disclosure(_("Why?"))
        self._hint = text_label(role=Role.HINT)
        self._hint.hide()
        self._unit = QLabel()
        self._advice_lines, self._problem_lines = QVBoxLayout(), QVBoxLayout()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(0)
        self._grid.setVerticalSpacing(SPACING // 2)
        self._grid.setColumnStretch(2, 1)
        top = Qt.AlignmentFlag.AlignTop
        line_height = field.control.sizeHint().height()
        label = QLabel(field.option.title)
        set_role(label, Role.LABEL)
        label.setWordWrap(True)
        label.setToolTip(field.option.help)
        label.setBuddy(field.control)
        label.setFixedWidth(label_width(label))
        label.setMinimumHeight(line_height)
        beside = QVBoxLayout()  # as high as one line of controls: a field may have two
        beside.setSpacing(0)
        beside.addSpacing(max(0, (line_height - self.mark.sizeHint().height()) // 2))
        beside.addWidget(self.mark)
        self._grid.addWidget(label, 0, 0, top)
        self._grid.addLayout(beside, 0, 1, top)
        self._grid.addLayout(self._control_line(), 0, 2)
        self._grid.addWidget(self._hint, 1, 2)
        self._grid.addWidget(self.refusals, 2, 2)
        for place, lines in enumerate((self._advice_lines, self._problem_lines), 3):
            lines.setSpacing(2)
            self._grid.addLayout(lines, place, 2)

    def _control_line(self) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        option = self.field.option
        if not option.unit:
            fills = self.field.sizePolicy().horizontalPolicy() is not QSizePolicy.Policy.Maximum
            line.addWidget(self.field, 1 if fills else 0)
            return line
        self.field.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        line.addWidget(self.field)
        if unit_of(option, None):
            set_role(self._unit, Role.MUTED)
            line.addWidget(self._unit)
            self.show_unit()
        line.addStretch(1)
        return line

    @property
    def hint(self) -> str:
        """What the value means here, below the control."""
        return self._hint.text()

    def set_hint(self, text: str) -> None:
        self._hint.setText(text)
        self._hint.setVisible(bool(text))

    @property
    def unit(self) -> str:
        return self._unit.text()

    def show_unit(self) -> None:
        """Say behind the control what its value counts: steps, or a share of the run."""
        self._unit.setText(unit_beside(self.field.option, self.field.value()))

    def show_offer(self, offer: Offer) -> None:
        """Grey what the machine refuses, and say why."""
        self.set_refusals(self.field.show_offer(offer))

    def set_refusals(self, why: Refused) -> None:
        self.refusals.show_words(sentence(why.summary), [sentence(line) for line in why.details])
        self._show_refusals()

    def set_changed(self, default: str) -> None:
        """Mark that the value differs from the default, which is this; empty: it doesn't."""
        self.mark.setVisible(bool(default))
        if default:
            words = _("Changed; the default is {default}. Press to take it again.")
            self.mark.setToolTip(words.format(default=default))
            name = _("{title} is changed; default: {default}")
            self.mark.setAccessibleName(name.format(title=self.field.option.title, default=default))

    def set_advice(self, advice: Sequence[Problem]) -> None:
        if tuple(advice) != self.advice:
            self.advice = tuple(advice)
            self._fill(self._advice_lines, advice, Role.HINT)

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Show what is wrong with the value, each problem with its remedies."""
        if tuple(problems) != self.problems:
            self.problems = tuple(problems)
            self.field.set_invalid(bool(problems))
            self._fill(self._problem_lines, problems, Role.PROBLEM)
            self._show_refusals()

    def give_problems(self) -> QVBoxLayout:
        """What its problems are laid out in, to be put elsewhere."""
        self._grid.removeItem(self._problem_lines)
        self._problem_lines.setParent(None)
        return self._problem_lines

    def _show_refusals(self) -> None:
        """A problem is reason enough: what else is not available here can wait until it is solved."""
        self.refusals.setVisible(bool(self.refusals.summary) and not self.problems)

    def _fill(self, layout: QVBoxLayout, problems: Sequence[Problem], role: Role) -> None:
        clear(layout)
        for problem in problems:
            line = QWidget(self)
            words = fill(
                QVBoxLayout(line), text_label(sentence(problem.message), role), margins=FLUSH, spacing=0
            )
            buttons = QHBoxLayout()
            buttons.setContentsMargins(0, 0, 0, 0)
            for fix in problem.fixes:
                if fix.is_advice:
                    words.addWidget(text_label(fix.label, Role.HINT))
                else:
                    button = link_button(fix.label, partial(self.fix_chosen.emit, fix))
                    button.setEnabled(bool(fix.changes))
                    buttons.addWidget(button)
            buttons.addStretch(1)
            words.addLayout(buttons)
            layout.addWidget(line)


def label_width(widget: QWidget) -> int:
    """Width of the column of labels in pixels."""
    return widget.fontMetrics().horizontalAdvance(LONGEST_LABEL) + SPACING


def field_indent(widget: QWidget) -> int:
    """Where the controls of a form begin, in pixels from the edge of its rows."""
    return label_width(widget) + 2 * SPACING


def sentence(message: str) -> str:
    """A message as a sentence: its first letter a capital unless it begins with a name such as `train.csv`."""
    first = message.split(" ", 1)[0]
    return message[:1].upper() + message[1:] if first.isalpha() and first.islower() else message
