"""Cards, and strips above or below a page that say what happened."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Fix, UserError
from core.base.language import _
from core.runs.events import Level
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import link_button, meanings_in, push_button, role_label, text_label, tip_of
from gui.widgets.layout import FlowLayout, clear, fill, hbox


class Strip(QFrame):
    """A message; if it `is_closable`, the person may close it."""

    closed = Signal()  # by the person
    is_closable = True

    def dismiss(self) -> None:
        """Close it, as its link does; the keyboard goes from there to what the page is for."""
        page = self.parentWidget()
        while page is not None and page.focusProxy() is None:
            page = page.parentWidget()
        focused = QApplication.focusWidget()
        if page is not None and focused is not None and self.isAncestorOf(focused):
            page.setFocus()
        self.hide()
        self.closed.emit()


class Card(QFrame):
    """A panel with a title, something small at the other end of its line, and a body to fill."""

    def __init__(self, title: str) -> None:
        super().__init__()
        set_role(self, Role.CARD)
        self.setAccessibleName(title)
        outer = fill(
            QVBoxLayout(self),
            margins=(2 * SPACING, 2 * SPACING - 4, 2 * SPACING, 2 * SPACING - 2),
            spacing=SPACING + 2,
        )
        self._title = role_label(Role.CARD_TITLE, title)
        if not title:
            self._title.hide()
        self._heading = hbox(self._title, None)
        self._trailing: QWidget | None = None
        self.body = fill(QVBoxLayout(), spacing=SPACING)
        fill(outer, self._heading, (self.body, 1))

    @property
    def title(self) -> str:
        return self._title.text()

    def explain(self, words: str) -> None:
        """Set the tool tip of the title."""
        self._title.setToolTip(words)

    def set_title(self, title: str) -> None:
        self._title.setText(title)
        self._title.setVisible(bool(title))
        self.setAccessibleName(title)

    def set_trailing(self, trailing: QWidget | str) -> None:
        """Put a widget, or a muted text, at the end of the title's line, in place of what was there."""
        if isinstance(trailing, str) and isinstance(self._trailing, QLabel):
            self._trailing.setText(trailing)
            return
        if self._trailing is not None:
            self._heading.removeWidget(self._trailing)
            self._trailing.deleteLater()
        self._trailing = trailing = (
            role_label(Role.MUTED, trailing) if isinstance(trailing, str) else trailing
        )
        self._heading.addWidget(trailing)


ROLES = {Level.INFO: Role.STRIP_INFO, Level.WARNING: Role.STRIP_WARNING, Level.ERROR: Role.STRIP_ERROR}


class MessageStrip(Strip):
    """A title, a detail, and a button for each fix; a fix that is advice is text below the detail. Hidden at first.

    Args:
        narrow: Use links for buttons, with Dismiss among them, and a small font.
    """

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`

    def __init__(
        self, parent: QWidget | None = None, *, closable: bool = False, narrow: bool = False
    ) -> None:
        super().__init__(parent)
        side = SPACING + 2 if narrow else 2 * SPACING
        outer = fill(QVBoxLayout(self), margins=(side, SPACING + 2, side, SPACING + 2), spacing=SPACING // 2)
        self.is_closable, self._is_narrow = closable, narrow
        heading = QHBoxLayout()
        self._title = text_label(role=Role.STRONG, selectable=True)
        heading.addWidget(self._title, 1)
        if closable and not narrow:
            heading.addWidget(link_button(_("Dismiss"), self.dismiss))
        outer.addLayout(heading)
        self._detail = text_label(role=Role.HINT if narrow else Role.MUTED, selectable=True)
        outer.addWidget(self._detail)
        for label in (self._title, self._detail) if narrow else ():  # a long name doesn't make it wider
            label.setSizePolicy(QSizePolicy.Policy.Ignored, label.sizePolicy().verticalPolicy())
        self._buttons = FlowLayout(SPACING + SPACING // 2 if narrow else SPACING, SPACING // 2)
        outer.addLayout(self._buttons)
        set_role(self, Role.STRIP_INFO)
        self.hide()

    def show_message(self, level: Level, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        """Show a message in place of the one before."""
        if self.isHidden() or title != self._title.text():
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))
        set_role(self, ROLES[level])
        self.setAccessibleName(title)
        self._title.setText(title)
        text = "\n".join(part for part in (detail, *(fix.label for fix in fixes if fix.is_advice)) if part)
        self._detail.setText(text)
        self._detail.setToolTip(tip_of(meanings_in(text)))
        self._detail.setVisible(bool(text))
        clear(self._buttons)
        for fix in fixes:
            if not fix.is_advice:
                make = partial(link_button, flush=True) if self._is_narrow else push_button
                self._buttons.addWidget(make(fix.label, partial(self.fix_chosen.emit, fix)))
        if self._is_narrow:
            self._buttons.addWidget(link_button(_("Dismiss"), self.dismiss, flush=True))
        self.show()

    def show_error(self, error: UserError) -> None:
        self.show_message(Level.ERROR, error.title, error.detail, error.fixes)


MOST_SHOWN = 8
"""Changes listed one by one; those beyond are counted."""


@dataclass(frozen=True)
class Change:
    """One option: its title, and its value before and after as texts."""

    name: str
    before: str
    after: str


UNDO = Fix(_("Undo"), {"undo": True})


class ChangesStrip(MessageStrip):
    """Lists options that were changed at once in the form, and why, with Undo."""

    undo_chosen = Signal()

    def __init__(self) -> None:
        super().__init__(closable=True)
        self.changes: tuple[Change, ...] = ()
        self.fix_chosen.connect(self.undo_chosen)

    def show_changes(self, title: str, words: str, changes: Sequence[Change]) -> None:
        self.changes = tuple(changes)
        lines = [
            _("{name}: {before} → {after}").format(name=one.name, before=one.before, after=one.after)
            for one in changes
        ]
        if len(lines) > MOST_SHOWN:
            more = _("and {count} more").format(count=len(lines) - MOST_SHOWN + 1)
            lines = [*lines[: MOST_SHOWN - 1], more]
        detail = "\n".join(part for part in (words, " · ".join(lines)) if part)
        self.show_message(Level.INFO, title, detail, (UNDO,) if changes else ())
