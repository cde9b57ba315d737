"""What is known of the chosen model of the Hub, and why it can't be used or what to do first."""

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from core import hub
from core.hub_questions import Found, Kind
from gui.pages.hub_words import explanation, facts
from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role


class HubDetails(QFrame):
    """The chosen one in words; hidden where none is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.CARD)
        self._found: Found | None = None
        self._name = ElidedLabel()
        set_role(self._name, Role.STRONG)
        self._facts = QLabel()
        set_role(self._facts, Role.MUTED)
        self.page = QPushButton(self.tr("Open its page"))
        set_role(self.page, Role.LINK)
        self.page.clicked.connect(self._open_page)
        self._words = QLabel()
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._refusal = QLabel()
        self._refusal.setWordWrap(True)
        self._refusal.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._refusal, Role.WARNING)
        set_role(self._words, Role.MUTED)
        self._command = QLineEdit()
        self._command.setReadOnly(True)
        self._command.setAccessibleName(self.tr("Command that converts it"))
        self._copy = QPushButton(self.tr("Copy"))
        self._copy.setAccessibleName(self.tr("Copy the command"))
        self._copy.clicked.connect(self._copy_command)
        self._lay_out()
        self.show_found(None, signed_in=False)

    @property
    def words(self) -> str:
        """What is said of it."""
        return "\n".join(part for part in (self._refusal.text(), self._words.text()) if part)

    def show_found(self, found: Found | None, *, signed_in: bool) -> None:
        """Tell of this one."""
        self._found = found
        self.setVisible(found is not None)
        if found is None:
            return
        self._name.setText(found.id)
        self._facts.setText(facts(found))
        self._words.setText(explanation(found, signed_in=signed_in))
        self._words.setVisible(bool(self._words.text()))
        self._refusal.setText(found.refusal)
        self._refusal.setVisible(bool(found.refusal))
        for widget in (self._command, self._copy):
            widget.setVisible(bool(found.command))
        self._command.setText(found.command)
        self._command.setCursorPosition(0)

    def _open_page(self) -> None:
        if self._found is not None:
            folder = "" if self._found.kind is Kind.MODEL else "datasets/"
            QDesktopServices.openUrl(QUrl(f"{hub.PUBLIC}/{folder}{self._found.id}"))

    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self._command.text())

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._name, 1)
        heading.addWidget(self._facts)
        heading.addWidget(self.page)
        command = QHBoxLayout()
        command.setSpacing(SPACING)
        command.addWidget(self._command, 1)
        command.addWidget(self._copy)
        body = QVBoxLayout(self)
        body.setContentsMargins(2 * SPACING, SPACING, SPACING, SPACING + 2)
        body.setSpacing(SPACING // 2)
        body.addLayout(heading)
        body.addWidget(self._refusal)
        body.addWidget(self._words)
        body.addLayout(command)
