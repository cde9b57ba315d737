"""The ladder: remedies for a run that needs too much memory, each with its worth, its price and a button."""

from collections.abc import Callable, Sequence
from gettext import gettext as _

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.memory.model import Verdict
from core.memory.remedies import Remedy
from gui.base.theme import Role, set_flag, set_role
from gui.base.tokens import SPACING

FIRST_SHOWN = 4
"""Remedies shown at once; the others stand behind a link."""


class RemedyRow(QWidget):
    """One remedy.

    Signals:
        chosen: The `core.memory.remedies.Remedy` whose button was pressed.
    """

    chosen = Signal(object)

    def __init__(self, remedy: Remedy, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._remedy = remedy
        title = _wrapping_text(remedy.title)
        self.worth = _wrapping_text("")
        set_role(self.worth, Role.HINT)
        for label in (title, self.worth):
            label.setToolTip(remedy.help)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(title)
        words.addWidget(self.worth)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addLayout(words, 1)
        self.button = QPushButton(_("Apply"))
        set_role(self.button, Role.LINK)
        self.button.setToolTip(remedy.help)
        self.button.setAccessibleName(_("Apply: {remedy}").format(remedy=remedy.title))
        self.button.clicked.connect(self._tell)
        self.button.setVisible(bool(remedy.changes))
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_worth(self, remedy: Remedy, words: str) -> None:
        """Show what the same remedy saves and costs now, and whether it is enough."""
        self._remedy = remedy
        self.worth.setText(words)

    def _tell(self) -> None:
        self.chosen.emit(self._remedy)


class LadderView(QWidget):
    """Remedies one below the other; folded behind a link while nothing is short.

    Signals:
        remedy_chosen: The `core.memory.remedies.Remedy` to apply.
        fit_pressed: The person wants Hone to find out by itself.
        measure_all_pressed: The person wants to know of each what it really saves.
        opened: The person unfolded it: there may be nothing in it yet.
    """

    remedy_chosen = Signal(object)
    fit_pressed = Signal()
    measure_all_pressed = Signal()
    opened = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shape: tuple[object, ...] = ()
        self._rows: list[RemedyRow] = []
        self._shows_all = False
        self._link = _link()
        self._link.setCheckable(True)
        self._link.toggled.connect(self._toggle)
        self._list = QWidget()
        self._places = QVBoxLayout(self._list)
        self._places.setContentsMargins(0, SPACING // 2, 0, 0)
        self._places.setSpacing(SPACING)
        self._nothing = _wrapping_text(_("Nothing more can be saved by these choices."))
        set_role(self._nothing, Role.HINT)
        self._more = _link()
        self._more.clicked.connect(self._show_all)
        self._fit = QPushButton(_("Fit it for me…"))
        self._fit.setToolTip(
            _("Try these out by short real runs: the fastest that fits of those that lose least")
        )
        self._fit.clicked.connect(self.fit_pressed)
        self._each = _link()
        self._each.setText(_("Measure all…"))
        self._each.setToolTip(_("A short real run with each remedy alone: what it saves and costs"))
        self._each.clicked.connect(self.measure_all_pressed)
        last = QHBoxLayout()
        last.setSpacing(SPACING)
        last.addWidget(self._fit)
        last.addWidget(self._each)
        last.addStretch(1)
        self._remedies = QVBoxLayout()
        self._remedies.setSpacing(SPACING)
        self._places.addLayout(self._remedies)
        self._places.addWidget(self._nothing)
        self._places.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeading)
        self._places.addLayout(last)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._heading = QHBoxLayout()
        self._heading.addWidget(self._link)
        self._heading.addStretch(1)
        column.addLayout(self._heading)
        column.addWidget(self._list)
        self._toggle(False)

    @property
    def is_open(self) -> bool:
        return self._link.isChecked()

    @property
    def rows(self) -> tuple[RemedyRow, ...]:
        return tuple(self._rows)

    def open(self, shown: bool) -> None:
        self._link.setChecked(shown)

    def add_trailing(self, widget: QWidget) -> None:
        self._heading.addWidget(widget)

    def show_remedies(self, remedies: Sequence[Remedy], words: Callable[[Remedy], str]) -> None:
        """Show these; where they are the same as before, only their figures are new.

        Args:
            remedies: The remedies, the least loss first.
            words: What a remedy saves and costs.
        """
        shape = tuple((remedy.title, remedy.help, repr(remedy.changes)) for remedy in remedies)
        if shape != self._shape:
            self._shape = shape
            self._rebuild(remedies)
        for row, remedy in zip(self._rows, remedies, strict=True):
            row.show_worth(remedy, words(remedy))

    def show_verdict(self, verdict: Verdict, *, can_measure: bool) -> None:
        """Say what it is for; it unfolds by itself where memory is short."""
        is_short = verdict in (Verdict.TIGHT, Verdict.TOO_LARGE)
        self._link.setText(_("What makes it fit") if is_short else _("Needs less memory"))
        self._fit.setEnabled(can_measure)
        self._each.setEnabled(can_measure)

    def _rebuild(self, remedies: Sequence[Remedy]) -> None:
        for row in self._rows:
            self._remedies.removeWidget(row)
            row.hide()
            row.deleteLater()
        self._rows = [RemedyRow(remedy) for remedy in remedies]
        for row in self._rows:
            row.chosen.connect(self.remedy_chosen)
            self._remedies.addWidget(row)
        self._shows_all = False
        self._show_rows()

    def _show_rows(self) -> None:
        for place, row in enumerate(self._rows):
            row.setVisible(self._shows_all or place < FIRST_SHOWN)
        hidden = 0 if self._shows_all else max(0, len(self._rows) - FIRST_SHOWN)
        self._more.setText(_("{count} more").format(count=hidden))
        self._more.setAccessibleName(_("{count} more remedies").format(count=hidden))
        self._more.setVisible(hidden > 0)
        self._nothing.setVisible(not self._rows)

    def _show_all(self) -> None:
        self._shows_all = True
        self._show_rows()

    def _toggle(self, shown: bool) -> None:
        self._list.setVisible(shown)
        if shown:
            self.opened.emit()


def _wrapping_text(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def _link() -> QPushButton:
    """A link that stands in line with the texts above it."""
    button = QPushButton()
    set_role(button, Role.LINK)
    set_flag(button, "flush", True)
    return button
