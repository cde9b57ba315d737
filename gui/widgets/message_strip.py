"""A strip above a page that speaks up: what happened, why, and what to press."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.errors import Fix, UserError
from core.events import Level
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role

ROLES = {Level.INFO: Role.STRIP_INFO, Level.WARNING: Role.STRIP_WARNING, Level.ERROR: Role.STRIP_ERROR}


class MessageStrip(QFrame):
    """One message: a title, a detail that may be selected, and a button for each fix that changes or does something.

    Any other is advice and stands as text below the detail.

    Signals:
        fix_chosen: The `core.errors.Fix` that was pressed.
        closed: The person put the strip away.
    """

    fix_chosen = Signal(object)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None, *, closable: bool = False) -> None:
        super().__init__(parent)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(2 * SPACING, SPACING + 2, 2 * SPACING, SPACING + 2)
        outer.setSpacing(SPACING // 2)
        heading = QHBoxLayout()
        self._title = _text_label(Role.STRONG)
        heading.addWidget(self._title, 1)
        if closable:
            heading.addWidget(self._close_button())
        outer.addLayout(heading)
        self._detail = _text_label(Role.MUTED)
        outer.addWidget(self._detail)
        self._buttons = QHBoxLayout()
        self._buttons.setContentsMargins(0, SPACING // 2, 0, 0)
        self._buttons.setSpacing(SPACING)
        outer.addLayout(self._buttons)
        set_role(self, Role.STRIP_INFO)

    def show_message(self, level: Level, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        """Show a message; it replaces the one before."""
        set_role(self, ROLES[level])
        self.setAccessibleName(title)
        self._title.setText(title)
        advice = [fix.label for fix in fixes if fix.is_advice]
        text = "\n".join(part for part in (detail, *advice) if part)
        self._detail.setText(text)
        self._detail.setVisible(bool(text))
        self._show_fixes([fix for fix in fixes if not fix.is_advice])
        self.show()

    def show_error(self, error: UserError) -> None:
        """Show an error the person can mend."""
        self.show_message(Level.ERROR, error.title, error.detail, error.fixes)

    def _show_fixes(self, fixes: list[Fix]) -> None:
        while (item := self._buttons.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.deleteLater()
        for fix in fixes:
            self._buttons.addWidget(_FixButton(fix, self))
        if fixes:
            self._buttons.addStretch(1)

    def _close_button(self) -> QPushButton:
        button = QPushButton(self.tr("Dismiss"))
        set_role(button, Role.LINK)
        button.clicked.connect(self._put_away)
        return button

    def _put_away(self) -> None:
        self.hide()
        self.closed.emit()


class _FixButton(QPushButton):
    def __init__(self, fix: Fix, strip: MessageStrip) -> None:
        super().__init__(fix.label, strip)
        self._fix = fix
        self._strip = strip
        self.clicked.connect(self._choose)

    def _choose(self) -> None:
        self._strip.fix_chosen.emit(self._fix)


def _text_label(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    set_role(label, role)
    return label
