"""The kinds of export as a list to choose from: what each is for, and why not where it can't be made."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QButtonGroup, QLabel, QRadioButton, QVBoxLayout, QWidget

from core.export_offers import Offer
from core.exporting import EXPORTS, ExportKind
from gui.theme import SPACING
from gui.widgets.direction import margins
from gui.widgets.roles import Role, set_role

INDENT = 3 * SPACING
"""Pixels from the edge to what is said below a title: where the title begins."""


class ExportKinds(QWidget):
    """One row a kind, those that can be made first; the first of them is chosen.

    Signals:
        chosen_changed: The `core.exporting.ExportKind` that is chosen now.
    """

    chosen_changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._group = QButtonGroup(self)
        self.rows: dict[ExportKind, ExportRow] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(SPACING // 2)
        self._group.buttonToggled.connect(self._tell)

    @property
    def chosen(self) -> ExportKind | None:
        """What is chosen; None: nothing can be made."""
        return next((kind for kind, row in self.rows.items() if row.button.isChecked()), None)

    def show_offers(self, offers: Iterable[Offer]) -> None:
        """Show these; called once."""
        for offer in sorted(offers, key=lambda one: bool(one.refusal)):
            row = ExportRow(offer)
            self.rows[offer.kind] = row
            self._group.addButton(row.button)
            self._layout.addWidget(row)
        first = next((row for row in self.rows.values() if row.button.isEnabled()), None)
        if first is not None:
            first.button.setChecked(True)
            self.setFocusProxy(first.button)

    def choose(self, kind: ExportKind) -> None:
        """Choose a kind that can be made."""
        self.rows[kind].button.setChecked(True)

    def _tell(self, _button: QRadioButton, checked: bool) -> None:
        if checked:
            self.chosen_changed.emit(self.chosen)


class ExportRow(QWidget):
    """A kind: its title to choose, below it what it is for; greyed with the reason where it can't be made."""

    def __init__(self, offer: Offer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title, purpose = EXPORTS[offer.kind]
        self.button = QRadioButton(title)
        self.button.setEnabled(not offer.refusal)
        said = offer.refusal or " ".join(part for part in (purpose, offer.caution) if part)
        self.words = QLabel(said)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self.words, Role.HINT)
        self.button.setAccessibleDescription(said)
        self.setToolTip(purpose if offer.refusal else "")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, SPACING // 2)
        layout.setSpacing(2)
        layout.addWidget(self.button)
        below = QVBoxLayout()
        below.setContentsMargins(margins(self, INDENT, 0, 0, 0))
        below.addWidget(self.words)
        layout.addLayout(below)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A press anywhere on the row chooses it."""
        if self.button.isEnabled():
            self.button.click()
        super().mousePressEvent(event)
