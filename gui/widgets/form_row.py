"""One row of a form: label, control, unit; below it what it means here, and what is wrong with it."""

from collections.abc import Sequence
from gettext import gettext as _

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Fix, Problem
from core.options.catalogue import unit_beside, unit_of
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.fields import Field, Offer, Refused
from gui.widgets.inputs import ResetMark
from gui.widgets.layout import Disclosure

LONGEST_LABEL = "Pretrained weights"
"""Gives the column of labels its width; longer labels wrap. Average widths of letters differ too much by font."""


class FormRow(QWidget):
    """A labelled control, with a mark where its value differs from the default.

    Signals:
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.
        reset_chosen: The person wants the default again.

    Args:
        field: The control.
        trailing: A widget at the end of the control's line, such as a button.
    """

    fix_chosen = Signal(object)
    reset_chosen = Signal()

    def __init__(self, field: Field, trailing: QWidget | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self._shown: tuple[Problem, ...] = ()
        self._told: tuple[Problem, ...] = ()
        self._mark = ResetMark()
        self._mark.clicked.connect(self.reset_chosen)
        self._hint = _wrapping(Role.HINT)
        self._hint.hide()
        self._unit = QLabel()
        self._refusals = Disclosure(_("Why?"))
        self._advice = QVBoxLayout()
        self._problems = QVBoxLayout()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(0)
        self._grid.setVerticalSpacing(SPACING // 2)
        self._grid.setColumnStretch(2, 1)
        self._grid.addWidget(self._label(), 0, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addLayout(self._mark_place(), 0, 1, Qt.AlignmentFlag.AlignTop)
        self._grid.addLayout(self._control_line(trailing), 0, 2)
        self._grid.addWidget(self._hint, 1, 2)
        self._grid.addWidget(self._refusals, 2, 2)
        for place, lines in enumerate((self._advice, self._problems), 3):
            lines.setSpacing(2)
            self._grid.addLayout(lines, place, 2)

    def set_hint(self, text: str) -> None:
        """Say below the control what its value means here; empty: nothing."""
        self._hint.setText(text)
        self._hint.setVisible(bool(text))

    @property
    def hint(self) -> str:
        """What stands below the control."""
        return self._hint.text()

    def show_offer(self, offer: Offer) -> None:
        """Grey what the machine refuses, and say why."""
        why = self.field.show_offer(offer)
        self.set_refusals(why)

    def set_refusals(self, why: Refused) -> None:
        """Say why choices are greyed."""
        self._refusals.show_words(sentence(why.summary), [sentence(line) for line in why.details])
        self._show_refusals()

    @property
    def refusals(self) -> Disclosure:
        """Why choices are greyed."""
        return self._refusals

    def set_changed(self, default: str) -> None:
        """Mark that the value differs from the default, which is this; empty: it doesn't."""
        self._mark.setVisible(bool(default))
        if default:
            words = _("Changed; the default is {default}. Press to take it again.")
            self._mark.setToolTip(words.format(default=default))
            name = _("{title} is changed; default: {default}")
            self._mark.setAccessibleName(name.format(title=self.field.option.title, default=default))

    def show_unit(self) -> None:
        """Say behind the control what its value counts; a share counts nothing, but is one of the run."""
        self._unit.setText(unit_beside(self.field.option, self.field.value()))

    @property
    def unit(self) -> str:
        """What stands behind the control."""
        return self._unit.text()

    @property
    def mark(self) -> ResetMark:
        """The mark of a changed value."""
        return self._mark

    def set_advice(self, advice: Sequence[Problem]) -> None:
        """Show what is worth knowing about the value, each with its suggestions."""
        if tuple(advice) != self._told:
            self._told = tuple(advice)
            self._fill(self._advice, advice, Role.HINT)

    @property
    def advice(self) -> tuple[Problem, ...]:
        """What is worth knowing about the value."""
        return self._told

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Show what is wrong with the value, each problem with its remedies."""
        if tuple(problems) == self._shown:
            return
        self._shown = tuple(problems)
        self.field.set_invalid(bool(problems))
        self._fill(self._problems, problems, Role.PROBLEM)
        self._show_refusals()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems shown."""
        return self._shown

    def give_problems(self) -> QVBoxLayout:
        """What its problems are laid out in, to be put elsewhere."""
        self._grid.removeItem(self._problems)
        self._problems.setParent(None)
        return self._problems

    def _show_refusals(self) -> None:
        """A problem is reason enough: what else is not available here can wait until it is mended."""
        self._refusals.setVisible(bool(self._refusals.summary) and not self._shown)

    def _fill(self, layout: QVBoxLayout, problems: Sequence[Problem], role: Role) -> None:
        while (item := layout.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        for problem in problems:
            layout.addWidget(_ProblemLine(problem, role, self))

    def _label(self) -> QLabel:
        label = QLabel(self.field.option.title)
        set_role(label, Role.LABEL)
        label.setWordWrap(True)
        label.setToolTip(self.field.option.help)
        label.setBuddy(self.field.control)
        label.setFixedWidth(label_width(label))
        label.setMinimumHeight(self.field.control.sizeHint().height())
        return label

    def _mark_place(self) -> QVBoxLayout:
        """The gap between label and control, as high as one line of controls: a field may have two."""
        place = QVBoxLayout()
        place.setSpacing(0)
        place.addSpacing(
            max(0, (self.field.control.sizeHint().height() - self._mark.sizeHint().height()) // 2)
        )
        place.addWidget(self._mark)
        return place

    def _control_line(self, trailing: QWidget | None) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        option = self.field.option
        fills = self.field.sizePolicy().horizontalPolicy() is not QSizePolicy.Policy.Maximum
        if option.unit:
            self.field.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
            line.addWidget(self.field)
            if unit_of(option, None):
                set_role(self._unit, Role.MUTED)
                line.addWidget(self._unit)
                self.show_unit()
            line.addStretch(1)
        else:
            line.addWidget(self.field, 1 if fills else 0)
        if trailing is not None:
            line.addWidget(trailing)
        return line


class _ProblemLine(QWidget):
    """A problem in red, or advice, and a button for each remedy."""

    def __init__(self, problem: Problem, role: Role, row: FormRow) -> None:
        super().__init__(row)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        text = _wrapping(role)
        text.setText(sentence(problem.message))
        layout.addWidget(text)
        for fix in problem.fixes:
            if fix.is_advice:
                advice = _wrapping(Role.HINT)
                advice.setText(fix.label)
                layout.addWidget(advice)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 0, 0, 0)
        for fix in problem.fixes:
            if not fix.is_advice:
                buttons.addWidget(_FixLink(fix, row))
        buttons.addStretch(1)
        layout.addLayout(buttons)


class _FixLink(QPushButton):
    def __init__(self, fix: Fix, row: FormRow) -> None:
        super().__init__(fix.label, row)
        self._fix = fix
        self._row = row
        set_role(self, Role.LINK)
        self.setEnabled(bool(fix.changes))
        self.clicked.connect(self._choose)

    def _choose(self) -> None:
        self._row.fix_chosen.emit(self._fix)


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


def _wrapping(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label
