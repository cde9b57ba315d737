"""A strip that lists what was just changed at once in the form, to be undone with one press."""

from collections.abc import Sequence
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import Fix, UserError
from core.runs.events import Level
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import ElidedLabel

# --- A strip of one line above a page: what there is, and a button that leads to it


class BriefStrip(QFrame):
    """Words and buttons in one row; what has no room is cut, and a tool tip has all of it. Hidden at first.

    Signals:
        pressed: The button was.
        closed: The person put the strip away.
    """

    pressed = Signal()
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title, self._detail = ElidedLabel(), ElidedLabel()
        self._title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        set_role(self._title, Role.STRONG)
        set_role(self._detail, Role.MUTED)
        self._button = QPushButton()
        self._button.clicked.connect(self.pressed)
        close = QPushButton(_("Dismiss"))
        set_role(close, Role.LINK)
        close.clicked.connect(self._put_away)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * SPACING, SPACING // 2, 2 * SPACING, SPACING // 2)
        row.setSpacing(SPACING)
        row.addWidget(self._title)
        row.addWidget(self._detail, 1)
        row.addWidget(self._button)
        row.addWidget(close)
        set_role(self, Role.STRIP_INFO)
        self.hide()

    def show_words(self, title: str, detail: str, button: str) -> None:
        """Say something else from now on."""
        self.setAccessibleName(title)
        self._title.setText(title)
        self._detail.setText(detail)
        self._button.setText(button)
        self.show()

    def _put_away(self) -> None:
        self.hide()
        self.closed.emit()


# --- A card: a titled panel that holds one subject


class Card(QFrame):
    """A panel with a title, something small at the title's far end, and a body to fill.

    Args:
        title: What the card is about; empty: no heading line.
        parent: Qt's parent.
    """

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.CARD)
        self.setAccessibleName(title)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(2 * SPACING, 2 * SPACING - 4, 2 * SPACING, 2 * SPACING - 2)
        outer.setSpacing(SPACING + 2)
        self._heading = QHBoxLayout()
        self._heading.setSpacing(SPACING)
        self._title = QLabel(title)
        set_role(self._title, Role.CARD_TITLE)
        self._heading.addWidget(self._title)
        self._heading.addStretch(1)
        self._trailing: QWidget | None = None
        outer.addLayout(self._heading)
        if not title:
            self._title.hide()
        self.body = QVBoxLayout()
        self.body.setSpacing(SPACING)
        outer.addLayout(self.body, 1)

    @property
    def title(self) -> str:
        """What the card is about."""
        return self._title.text()

    def explain(self, words: str) -> None:
        """Say more of the subject where the mouse rests on the title."""
        self._title.setToolTip(words)

    def title_width(self) -> int:
        """Pixels that the title takes."""
        return self._title.sizeHint().width()

    def set_title(self, title: str) -> None:
        """Change the title."""
        self._title.setText(title)
        self._title.setVisible(bool(title))
        self.setAccessibleName(title)

    def set_trailing(self, trailing: QWidget | str) -> None:
        """Put a widget, or a muted text, at the far end of the title's line; it replaces what was there."""
        if isinstance(trailing, str) and isinstance(self._trailing, QLabel):
            self._trailing.setText(trailing)
            return
        if self._trailing is not None:
            self._heading.removeWidget(self._trailing)
            self._trailing.deleteLater()
        if isinstance(trailing, str):
            text = trailing
            trailing = QLabel(text)
            set_role(trailing, Role.MUTED)
        self._trailing = trailing
        self._heading.addWidget(trailing)

    def add_to_heading(self, widget: QWidget) -> None:
        """Put one more widget at the very end of the title's line."""
        self._heading.addWidget(widget)


# --- A strip that lists what was just changed at once in the form, to be undone with one press


COLUMNS = 2
MOST_SHOWN = 8
"""Changes listed one by one; what is beyond is counted."""


@dataclass(frozen=True)
class Change:
    """One option: what it is called, and its value before and after, in words."""

    name: str
    before: str
    after: str


class ChangesStrip(QFrame):
    """What was changed, why, and the way back.

    Signals:
        undo_chosen: The person wants it as it was.
    """

    undo_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.STRIP_INFO)
        self._changes: tuple[Change, ...] = ()
        self._title = _label(Role.STRONG)
        self._undo = QPushButton(_("Undo"))
        self._undo.clicked.connect(self.undo_chosen)
        dismiss = QPushButton(_("Dismiss"))
        set_role(dismiss, Role.LINK)
        dismiss.clicked.connect(self.hide)
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._title, 1)
        heading.addWidget(self._undo)
        heading.addWidget(dismiss)
        self._words = _label(Role.MUTED)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(3 * SPACING)
        self._grid.setVerticalSpacing(2)
        for column in range(COLUMNS):
            self._grid.setColumnStretch(column, 1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(2 * SPACING, SPACING + 2, 2 * SPACING, SPACING + 2)
        outer.setSpacing(SPACING // 2)
        outer.addLayout(heading)
        outer.addWidget(self._words)
        outer.addLayout(self._grid)
        self.hide()

    def show_changes(self, title: str, words: str, changes: Sequence[Change]) -> None:
        """Say what was done and what it changed; the strip that was shown before is replaced."""
        self._changes = tuple(changes)
        self.setAccessibleName(title)
        self._title.setText(title)
        self._words.setText(words)
        self._words.setVisible(bool(words))
        self._undo.setVisible(bool(changes))
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        for place, line in enumerate(self._lines()):
            label = _label(Role.HINT)
            label.setText(line)
            self._grid.addWidget(label, place // COLUMNS, place % COLUMNS, Qt.AlignmentFlag.AlignTop)
        self.show()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes listed."""
        return self._changes

    def _lines(self) -> list[str]:
        text = _("{name}: {before} → {after}")
        lines = [
            text.format(name=change.name, before=change.before, after=change.after)
            for change in self._changes
        ]
        if len(lines) <= MOST_SHOWN:
            return lines
        rest = _("and {count} more").format(count=len(lines) - MOST_SHOWN + 1)
        return [*lines[: MOST_SHOWN - 1], rest]


def _label(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label


# --- A strip above a page that speaks up: what happened, why, and what to press


ROLES = {Level.INFO: Role.STRIP_INFO, Level.WARNING: Role.STRIP_WARNING, Level.ERROR: Role.STRIP_ERROR}


class MessageStrip(QFrame):
    """One message: a title, a detail that may be selected, and a button for each fix that changes or does something.

    Any other is advice and stands as text below the detail.

    Signals:
        fix_chosen: The `core.base.errors.Fix` that was pressed.
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
        button = QPushButton(_("Dismiss"))
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
