"""Cards, and strips above or below a page that say what happened."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QApplication,
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
from core.base.language import _
from core.runs.events import Level
from gui.base.theme import Role, set_flag, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import (
    ElidedLabel,
    link_button,
    meanings_in,
    push_button,
    role_label,
    text_label,
    tip_of,
)
from gui.widgets.layout import FLUSH, FlowLayout, clear, fill, hbox, keep_place

PAGES = "pages"
"""The name of what shows the pages of a window."""


class Strip(QFrame):
    """A message; if it `is_closable`, the person may close it, and if it `offers` nothing also from elsewhere."""

    closed = Signal()  # by the person
    is_closable = True
    offers = False

    def dismiss(self) -> None:
        """Close it, as its link does."""
        self.release_focus()
        self.hide()
        self.closed.emit()

    def release_focus(self) -> None:
        """Let the keyboard go from here to what the page is for.

        The parents are not asked for one after another: PySide would drop the wrapper of a scroll area's viewport
        again, and with it those of all actions of menus below.
        """
        pages, focused = self.window().findChild(QWidget, PAGES), QApplication.focusWidget()
        if pages is not None and focused is not None and self.isAncestorOf(focused):
            pages.setFocus()

    def show_message(self, level: Level, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        """Show a message in place of the one before."""
        if self.isHidden() or title != self.accessibleName():
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))
        set_role(self, ROLES[level])
        self.setAccessibleName(title)
        text = "\n".join(part for part in (detail, *(fix.label for fix in fixes if fix.is_advice)) if part)
        offered = [fix for fix in fixes if not fix.is_advice]
        self.offers = bool(offered)
        self._say(title, text, offered)
        self.show()

    def show_error(self, error: UserError) -> None:
        self.show_message(Level.ERROR, error.title, error.detail, error.fixes)

    def show_outcome(self, error: UserError | None) -> None:
        if error is None:
            self.hide()
        else:
            self.show_error(error)

    def _say(self, title: str, text: str, fixes: Sequence[Fix]) -> None:
        raise NotImplementedError


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
        self.detail = text_label(role=Role.HINT if narrow else Role.MUTED, selectable=True)
        outer.addWidget(self.detail)
        for label in (self._title, self.detail) if narrow else ():  # a long name doesn't make it wider
            label.setSizePolicy(QSizePolicy.Policy.Ignored, label.sizePolicy().verticalPolicy())
        self._buttons = FlowLayout(SPACING + SPACING // 2 if narrow else SPACING, SPACING // 2)
        outer.addLayout(self._buttons)
        set_role(self, Role.STRIP_INFO)
        self.hide()

    def _say(self, title: str, text: str, fixes: Sequence[Fix]) -> None:
        self._title.setText(title)
        self.detail.setText(text)
        self.detail.setToolTip(tip_of(meanings_in(text)))
        self.detail.setVisible(bool(text))
        clear(self._buttons)
        for fix in fixes:
            make = partial(link_button, flush=True) if self._is_narrow else push_button
            self._buttons.addWidget(make(fix.label, partial(self.fix_chosen.emit, fix)))
        if self._is_narrow:
            self._buttons.addWidget(link_button(_("Dismiss"), self.dismiss, flush=True))


MOST_LINKS = 2


class Note(QWidget):
    """One line, whose place is kept while it is empty. What it has no room for is in a popup over the page.

    Args:
        ask: The link that opens the popup.
        small: Use the font of a hint.
        most_lines: Text is wrapped into at most so many lines.
    """

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`

    def __init__(self, ask: str = "", *, small: bool = True, most_lines: int = 1) -> None:
        super().__init__()
        self._is_small, self._most_lines = small, most_lines
        self.label = ElidedLabel() if most_lines == 1 else text_label()
        self.label.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.label.setAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignTop)
        self.more = self._link(ask or _("Details"), self._open)
        self._links, self._links_below = (
            [self._link("", partial(self._choose, place)) for place in range(MOST_LINKS)]
            for _line in range(2)
        )
        line = hbox(self.label, self.more, *self._links, None, spacing=SPACING)
        below = hbox(*self._links_below, None, spacing=SPACING)
        fill(QVBoxLayout(self), line, below, margins=FLUSH, spacing=0)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.say(())

    def say(self, lines: Sequence[str], fixes: Sequence[Fix] = (), role: Role | None = Role.HINT) -> None:
        """Show the first line, a large note as much as fits, and beside it the fixes if they are few."""
        self.lines, self._fixes, self._role = tuple(lines), tuple(fixes), role
        set_role(self.label, role)
        self.setToolTip(tip_of(meanings_in("\n".join(lines))))
        self.more.setAccessibleDescription(" ".join(lines))
        for links in (self._links, self._links_below):
            for link, fix in zip(links, fixes, strict=False):
                link.setText(fix.label)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _link(self, text: str, pressed: Callable[[], object]) -> QPushButton:
        link = link_button(text, pressed, flush=True)
        set_flag(link, "small", self._is_small)
        if self._is_small:
            link.setMaximumHeight(self.fontMetrics().height())  # it comes and goes
        return link

    def _fit(self) -> None:
        """Show the fixes unless they take half of the line, and the link if anything is not shown.

        Of a large note they may take what its text leaves, or a line of their own where it is wrapped.
        """
        room, count = self.width(), len(self._fixes)
        whole = " · ".join(self.lines[:1] if self._is_small else self.lines)
        self.label.setText(whole)
        self.label.setAccessibleName(whole)
        links, text = self._links[:count], self.label.fontMetrics().horizontalAdvance(whole) + 1
        fixes = sum(link.sizeHint().width() + SPACING for link in links)
        is_beside = not self._is_small and text + fixes <= room
        has_fixes = 0 < count <= (1 if self._is_small else MOST_LINKS) and (2 * fixes <= room or is_beside)
        is_below = not has_fixes and self._most_lines > 1 and 0 < count <= MOST_LINKS and fixes <= room
        for place, (link, below) in enumerate(zip(self._links, self._links_below, strict=True)):
            link.setVisible(has_fixes and place < count)
            below.setVisible(is_below and place < count)
        is_cut = bool(self.lines) and text > room - has_fixes * fixes
        if self._most_lines > 1:
            is_cut = self._wrap(text, room - has_fixes * fixes)
        is_rest = whole != " · ".join(self.lines) or (count and not (has_fixes or is_below))
        self.more.setVisible(bool(is_cut or is_rest))

    def _wrap(self, text: int, room: int) -> bool:
        """Give the label the width and the lines that its text needs; returns whether they are too few for it all."""
        line = self.label.fontMetrics().lineSpacing()
        most, wide = self._most_lines * line, max(1, room)
        self.label.setMinimumSize(0, 0)  # it would be the least that heightForWidth returns
        is_cut = self.label.heightForWidth(wide) > most
        if is_cut:
            wide = max(1, room - self.more.sizeHint().width() - SPACING)
            self._shorten(wide, most)
        width = min(text, wide)
        self.label.setFixedSize(width, min(most, max(line, self.label.heightForWidth(width))))
        return is_cut

    def _shorten(self, width: int, height: int) -> None:
        """Show as much of the text as fits, and dots."""
        whole = self.label.text()

        def taken(length: int) -> int:
            self.label.setText(whole[:length].rstrip() + " …")
            return self.label.heightForWidth(width)

        taken(bisect_right(range(1, len(whole)), height, key=taken))

    def fold(self) -> None:
        """Take the place of one line."""
        for link in self._links_below:
            link.hide()
        self.label.setFixedHeight(self.label.fontMetrics().lineSpacing())

    def unfold(self) -> None:
        """Take the place that the text needs."""
        self._fit()

    def _choose(self, place: int) -> None:
        self.fix_chosen.emit(self._fixes[place])

    def _open(self) -> None:
        popup = QFrame(self, Qt.WindowType.Popup)
        popup.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        set_role(popup, Role.POPUP)
        text = text_label("\n".join(self.lines), self._role, selectable=True)
        body = fill(QVBoxLayout(popup), text, spacing=SPACING // 2)
        for fix in self._fixes:
            button = link_button(fix.label, partial(self.fix_chosen.emit, fix), flush=True)
            button.clicked.connect(popup.close)
            body.addWidget(button, 0, Qt.AlignmentFlag.AlignLeading)
        popup.setFixedWidth(max(320, self.width()))
        popup.resize(popup.width(), popup.heightForWidth(popup.width()))
        below = self.mapToGlobal(QPoint(0, self.height()))
        has_room = below.y() + popup.height() < self.window().geometry().bottom()
        popup.move(below if has_room else self.mapToGlobal(QPoint(0, -popup.height())))
        popup.show()


NOTICE_LINES = 3


class NoticeStrip(Strip):
    """A message in a few lines, that can be dismissed; the rest is in a popup. Hidden at first, of one line then."""

    def __init__(self) -> None:
        super().__init__()
        self.note = Note(small=False, most_lines=NOTICE_LINES)
        self.fix_chosen = self.note.fix_chosen
        close = link_button("✕", self.dismiss, _("Dismiss"), name=_("Dismiss"), flush=True)
        margins = (SPACING + 2, SPACING // 2, SPACING + 2, SPACING // 2)
        fill(QHBoxLayout(self), (self.note, 1), close, margins=margins, spacing=SPACING)
        self.hide()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.note.unfold()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.note.fold()

    def _say(self, title: str, text: str, fixes: Sequence[Fix]) -> None:
        if self.isHidden() or self.note.lines[0] != title:
            self.raise_()
        self.note.say((title, *text.splitlines()), fixes, None)


class NoticeStack(QWidget):
    """Strips in the place of one, which is kept while there are none: the newest is in front of those that hold."""

    def __init__(self, *strips: NoticeStrip) -> None:
        super().__init__()
        places = QGridLayout()
        for strip in strips:
            keep_place(strip)
            strip.installEventFilter(self)
            places.addWidget(strip, 0, 0)
        self._more = link_button("", self._turn, _("Show another notice"))
        fill(QHBoxLayout(self), (places, 1), self._more, margins=FLUSH, spacing=SPACING // 2)
        self._more.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent, QEvent.Type.ZOrderChange):
            held = self._held()
            for strip in held:
                strip.setEnabled(strip is held[-1])
            self._more.setText(_("{count} more").format(count=len(held) - 1))
            self._more.setVisible(len(held) > 1)
        return super().eventFilter(watched, event)

    def _turn(self) -> None:
        self._held()[-1].lower()

    def _held(self) -> list[Strip]:
        """Those that are not dismissed or done, the newest last."""
        return [strip for strip in self.children() if isinstance(strip, Strip) and not strip.isHidden()]


@dataclass(frozen=True)
class Change:
    """One option: its title, and its value before and after as texts."""

    name: str
    before: str
    after: str


UNDO = Fix(_("Undo"), {"undo": True})


class ChangesStrip(NoticeStrip):
    """Lists options that were changed at once in the form, and why, with Undo; or those that a fix would change."""

    changes: tuple[Change, ...] = ()

    def show_changes(self, title: str, words: str, changes: Sequence[Change], fix: Fix = UNDO) -> None:
        self.changes = tuple(changes)
        text = _("{name}: {before} → {after}")
        lines = [text.format(name=one.name, before=one.before, after=one.after) for one in changes]
        self.show_message(Level.INFO, title, "\n".join((words, *lines)).strip(), (fix,) if changes else ())
