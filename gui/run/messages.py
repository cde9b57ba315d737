"""The messages of a run: the most important one on the page, all of them in a panel."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec
from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from core.base.errors import Fix, FixAction
from core.base.language import _, ngettext
from core.runs.events import Level, MessageRaised
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import MessageStrip, Strip
from gui.widgets.labels import ElidedLabel, link_button, plain_tip, push_button, text_label
from gui.widgets.layout import FLUSH, PageScroll, clear, fill


class TopMessage(Strip):
    """A message on two lines, with as many of its buttons as have room; a long title takes both."""

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`
    fitted = Signal()  # what has no room may have changed

    def __init__(self) -> None:
        super().__init__()
        self.title, self.detail = text_label(role=Role.STRONG), ElidedLabel(role=Role.MUTED)
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._words = "", ""
        self.is_cut = False
        self.buttons: list[QPushButton] = []
        self._row = fill(QHBoxLayout(), margins=FLUSH, spacing=SPACING)
        self._close = link_button("✕", self.dismiss, _("Dismiss"), name=_("Dismiss"), flush=True)
        texts = fill(QVBoxLayout(), self.title, self.detail, margins=FLUSH, spacing=0)
        margins = (2 * SPACING, SPACING // 2, SPACING, SPACING // 2)
        fill(QHBoxLayout(self), (texts, 1), self._row, self._close, margins=margins, spacing=SPACING)
        self.hide()

    def allow_closing(self, is_closable: bool) -> None:
        self.is_closable = is_closable
        self._close.setVisible(is_closable)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _say(self, title: str, text: str, fixes: Sequence[Fix]) -> None:
        self._words = title, " ".join(text.split())
        clear(self._row)
        self.buttons = [push_button(fix.label, partial(self.fix_chosen.emit, fix)) for fix in fixes]
        for button in self.buttons:
            self._row.addWidget(button)
        self._fit()

    def _fit(self) -> None:
        """Show the buttons that take less than half of the width."""
        taken = 0
        for button in self.buttons:
            needed = button.sizeHint().width() + SPACING
            button.setHidden(2 * (taken + needed) > self.width())
            taken += 0 if button.isHidden() else needed
        room = self.width() - taken - self._close.sizeHint().width() - 5 * SPACING
        title, detail = self._words
        metrics = self.title.fontMetrics()
        is_long = metrics.horizontalAdvance(title) > room
        shown = metrics.elidedText(title, Qt.TextElideMode.ElideRight, int(1.8 * max(1, room)))
        self.title.setText(shown)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail) and not is_long)
        is_detail_cut = bool(detail) and (is_long or self.detail.sizeHint().width() > room)
        self.is_cut = shown != title or is_detail_cut or any(button.isHidden() for button in self.buttons)
        self.fitted.emit()


IGNORE_MS = 800
"""How long a message that has come below the pointer takes no clicks."""
VERDICT = "verdict"
"""The id of the message how good a run's result is; it can't be dismissed."""
PANEL_WIDTH = 560
"""Least width of the panel with all messages, in pixels."""
PANEL_LINES = 32
"""It scrolls beyond the height of so many lines."""


class RunMessages(QWidget):
    """The most important message of a run, and a panel over the page with all of them.

    Args:
        dismissed: The causes of messages that the person has closed, see `cause_of`; they are added here.
    """

    fix_chosen = Signal(object)  # the `core.base.errors.Fix` that was pressed

    def __init__(self, dismissed: set[tuple[str, str]]) -> None:
        super().__init__()
        self._dismissed = dismissed
        self._shown: dict[str, MessageRaised] = {}
        self.top: MessageRaised | None = None
        self.strip = TopMessage()
        self.strip.fix_chosen.connect(self.fix_chosen)
        self.strip.closed.connect(lambda: self._dismiss(self.top.id) if self.top else None)
        self.strip.fitted.connect(self._count_others)
        self.more = link_button("", self.open_panel, flush=True)
        fill(QHBoxLayout(self), (self.strip, 1), self.more, margins=FLUSH, spacing=SPACING)
        self.panel = QFrame(self, Qt.WindowType.Popup)
        self.panel.setAttribute(Qt.WidgetAttribute.WA_NoMouseReplay)  # a click on the link closes it
        set_role(self.panel, Role.POPUP)
        all_of_them = QWidget()
        self.column = fill(QVBoxLayout(all_of_them), margins=FLUSH, spacing=SPACING)
        self._scroll = PageScroll(all_of_them, most_lines=PANEL_LINES)
        around = fill(QVBoxLayout(self.panel), self._scroll, margins=(SPACING,) * 4)
        around.setSizeConstraint(QLayout.SizeConstraint.SetFixedSize)
        self.strips: dict[str, MessageStrip] = {}
        self.hide()

    def show_messages(
        self, messages: Iterable[MessageRaised], *, without: Collection[FixAction] = ()
    ) -> None:
        """Show these but those that were dismissed; without some fixes that make no sense any more."""
        left = [message for message in messages if cause_of(message) not in self._dismissed]
        left.sort(key=_weight)
        before, self._shown = self._shown, {message.id: _without(message, without) for message in left}
        top = next((one for one in self._shown.values() if _weight(one) < NOTE), None)
        if (top and top.id) != (self.top and self.top.id) and self.underMouse():
            ignore_clicks(self)  # meant for the button that was below the pointer
        if top is None:
            self.strip.release_focus()
            self.strip.hide()
        elif top != self.top:
            self.strip.allow_closing(top.id != VERDICT)
            self.strip.show_message(top.level, top.title, top.detail, top.fixes)
        self.top = top
        self._fill_panel(before)
        self._count_others()
        self.setVisible(bool(self._shown))

    def open_panel(self) -> None:
        """Show all messages below the first one."""
        width = max(PANEL_WIDTH, self.width())
        self._scroll.setFixedWidth(width)
        self.panel.show()
        self.column.invalidate()  # it was laid out before texts were wrapped
        end = 0 if self.isRightToLeft() else self.width() - width
        screen, at = self.screen().availableGeometry(), self.mapToGlobal(QPoint(end, self.height()))
        left = max(screen.left(), min(at.x(), screen.right() - width))
        self.panel.move(left, min(at.y(), screen.bottom() - self.panel.sizeHint().height()))

    def titles(self) -> list[str]:
        """The titles of all messages but the verdict, the most important first."""
        return [message.title for name, message in self._shown.items() if name != VERDICT]

    def _fill_panel(self, before: Mapping[str, MessageRaised]) -> None:
        for gone in self.strips.keys() - self._shown.keys():
            self.strips.pop(gone).deleteLater()
        for place, (name, message) in enumerate(self._shown.items()):
            if name not in self.strips:
                strip = self.strips[name] = MessageStrip(self.panel, closable=name != VERDICT)
                strip.fix_chosen.connect(self.panel.close)
                strip.fix_chosen.connect(self.fix_chosen)
                strip.closed.connect(partial(self._dismiss, name))
            if before.get(name) != message:
                self.strips[name].show_message(message.level, message.title, message.detail, message.fixes)
                for button in self.strips[name].findChildren(QPushButton):
                    button.setAutoDefault(True)  # Return presses it
            if self.column.indexOf(self.strips[name]) != place:
                self.column.removeWidget(self.strips[name])
                self.column.insertWidget(place, self.strips[name])
        if not self._shown:
            self.panel.close()

    def _count_others(self) -> None:
        """Say how many messages there are besides the one that is seen, or that it has more to say."""
        others = [one for one in self._shown.values() if one is not self.top]
        text = _("{count} more") if self.top else ngettext("{count} note", "{count} notes", len(others))
        self.more.setText(text.format(count=len(others)) if others else _("Details"))
        self.more.setToolTip(plain_tip("\n".join(one.title for one in others)))
        self.more.setVisible(bool(others) or (not self.strip.isHidden() and self.strip.is_cut))

    def _dismiss(self, name: str) -> None:
        self._dismissed.add(cause_of(self._shown[name]))
        self.show_messages([message for one, message in self._shown.items() if one != name])
        self.setAttribute(
            Qt.WidgetAttribute.WA_TransparentForMouseEvents, False
        )  # the person made this change


def ignore_clicks(widget: QWidget) -> None:
    """Let a widget take no clicks for a moment, as what is below the pointer has just changed."""
    ignored = Qt.WidgetAttribute.WA_TransparentForMouseEvents
    if not widget.testAttribute(ignored):
        widget.setAttribute(ignored)
        QTimer.singleShot(IGNORE_MS, widget, partial(widget.setAttribute, ignored, False))


NOTE = 3


def _weight(message: MessageRaised) -> int:
    """Return the sort key of a message: errors first, then the verdict, warnings and notes."""
    if message.id == VERDICT:
        return 1
    return {Level.ERROR: 0, Level.WARNING: 2, Level.INFO: NOTE}[message.level]


def cause_of(message: MessageRaised) -> tuple[str, str]:
    """Return what stays the same of a message while its figures change: its id, and the start of its title."""
    is_error = message.level is Level.ERROR
    return message.id, message.title if is_error else re.split(r"\d", message.title, maxsplit=1)[0]


def _without(message: MessageRaised, gone: Collection[FixAction]) -> MessageRaised:
    left = tuple(fix for fix in message.fixes if fix.action not in gone)
    return msgspec.structs.replace(message, fixes=left)
