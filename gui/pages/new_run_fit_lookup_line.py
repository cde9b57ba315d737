"""The line of the card "Will it fit?" for a model that isn't on this computer: the button, and what it fetches."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from core import hub
from gui.pages.new_run_fit_lookup import HubLookup
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role


class LookupLine(QWidget):
    """Starts a look-up and gives it up; says what is fetched for it, or why that didn't work.

    Signals:
        fetch_pressed: The person wants to know the model's size.
        cancel_pressed: The person has waited long enough.
    """

    fetch_pressed = Signal()
    cancel_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = QPushButton()
        self.button.clicked.connect(self._press)
        self._words = QLabel()
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING + 2)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._words, 1)
        self._is_fetching = False

    @property
    def words(self) -> str:
        """What stands beside the button."""
        return self._words.text()

    def show_state(self, lookup: HubLookup) -> None:
        """Show what can be looked up, what is under way, or what came of it."""
        self._is_fetching = lookup.is_fetching
        self.setVisible(bool(lookup.source))
        self.button.setText(self.tr("Cancel") if self._is_fetching else self.tr("Look up its size"))
        self._words.setText(self._state_words(lookup))
        set_role(self._words, Role.PROBLEM if lookup.failure else Role.HINT)

    def _state_words(self, lookup: HubLookup) -> str:
        failure = lookup.failure
        if self._is_fetching:
            return self.tr("Fetching {file} from {host}…").format(file=hub.CONFIG, host=hub.host())
        if failure is not None:
            return f"{failure.title}. {failure.detail}"
        words = self.tr("Fetches only what describes the model, from {host}: {file}, a few KB")
        return words.format(host=hub.host(), file=hub.CONFIG)

    def _press(self) -> None:
        (self.cancel_pressed if self._is_fetching else self.fetch_pressed).emit()
