"""Labels of several kinds, links, and the direction of reading where Qt doesn't see to it."""

import html
import math
from collections.abc import Callable, Sequence
from gettext import gettext as _

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QMargins, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSizePolicy, QStyle, QTextEdit, QWidget

from core.services.chat import Word
from gui.base.theme import Role, Theme, set_flag, set_role


def text_label(text: str = "", role: Role | None = None, *, selectable: bool = False) -> QLabel:
    """Plain text that wraps; what looks like HTML in it is shown as it is."""
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if role is not None:
        set_role(label, role)
    return label


def link_button(
    text: str, pressed: Callable[[], object], tip: str = "", *, flush: bool = False
) -> QPushButton:
    """A button that looks like a link; `flush` in line with the texts above it."""
    button = QPushButton(text)
    button.setToolTip(tip)
    set_role(button, Role.LINK)
    set_flag(button, "flush", flush)
    button.clicked.connect(lambda _checked: pressed())
    return button


def margins(widget: QWidget, start: int, top: int, end: int, bottom: int) -> QMargins:
    """Margins of which `start` is on the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QMargins(end, top, start, bottom)
    return QMargins(start, top, end, bottom)


def mirrored(widget: QWidget, rect: QRectF) -> QRectF:
    """Where a rectangle stands whose left is counted from the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QRectF(widget.width() - rect.right(), rect.top(), rect.width(), rect.height())
    return rect


OUTSIDE = "O"
TINT = 0.22
"""Opacity of the tint behind a labelled word."""


class LabelledText(QTextEdit):
    """Shows a text; words that belong together (B-PER, I-PER) are one span. Words labelled O are plain."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._text = ""
        self._words: tuple[Word, ...] = ()
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.setAccessibleName(_("Labelled words"))
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        theme.changed.connect(self._paint_words)

    def show_words(self, text: str, words: Sequence[Word]) -> None:
        self._text, self._words = text, tuple(words)
        self._paint_words()

    def _fit(self, size: QSizeF) -> None:
        self.setFixedHeight(math.ceil(size.height()) + 2)

    def _paint_words(self) -> None:
        self.clear()
        cursor = self.textCursor()
        place = 0
        kinds = sorted({kind_of(word.label) for word in self._words} - {OUTSIDE})
        for start, end, kind in spans_of(self._words):
            cursor.insertText(self._text[place:start], QTextCharFormat())
            colour = self._colours()[kinds.index(kind) % len(self._colours())]
            cursor.insertText(self._text[start:end], _tinted(colour))
            cursor.insertText(
                f" {kind}", _small(colour, self._theme.tokens.muted, self.currentFont().pointSizeF())
            )
            place = end
        cursor.insertText(self._text[place:], QTextCharFormat())
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        self.setTextCursor(cursor)

    def _colours(self) -> tuple[str, ...]:
        tokens = self._theme.tokens
        return tokens.run, tokens.optimizer, tokens.activations, tokens.gradients, tokens.others


def kind_of(label: str) -> str:
    """What a label names without the mark of its place: `PER` of `B-PER`."""
    return label[2:] if label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") else label


def spans_of(words: Sequence[Word]) -> list[tuple[int, int, str]]:
    """Where spans begin and end, and what they are: words of a kind that follow each other, unless a new one begins."""
    spans: list[tuple[int, int, str]] = []
    before = OUTSIDE
    for word in words:
        kind = kind_of(word.label)
        goes_on = kind == kind_of(before) and not word.label.startswith(("B-", "S-", "U-"))
        if kind != OUTSIDE:
            if goes_on and spans:
                spans[-1] = (spans[-1][0], word.end, kind)
            else:
                spans.append((word.start, word.end, kind))
        before = word.label
    return spans


def _tinted(colour: str) -> QTextCharFormat:
    made = QTextCharFormat()
    tint = QColor(colour)
    tint.setAlphaF(TINT)
    made.setBackground(tint)
    return made


def _small(colour: str, letters: str, size: float) -> QTextCharFormat:
    made = _tinted(colour)
    made.setForeground(QColor(letters))
    if size > 0:
        made.setFontPointSize(size * 0.8)
    return made


LINKS = Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard


class LinkLabel(QLabel):
    """Rich text that wraps; its links are reached by mouse and keyboard."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(LINKS)

    def changeEvent(self, event: QEvent) -> None:
        """Write the words anew in the colours that are in force now: Qt keeps those they were written in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self.text():
            words = self.text()
            self.clear()
            self.setText(words)


class Disclosure(LinkLabel):
    """A hint, and behind its link, such as "Why?", details that stay folded until they are asked for."""

    def __init__(self, ask: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self.summary = ""
        self.details: tuple[str, ...] = ()
        self._is_open = False
        set_role(self, Role.HINT)
        self.linkActivated.connect(lambda: self.open(not self._is_open))
        self.hide()

    def show_words(self, summary: str, details: Sequence[str] = ()) -> None:
        """Say a sentence, and keep details behind its link. Its owner shows and hides it."""
        if (summary, tuple(details)) != (self.summary, self.details):
            self.summary, self.details = summary, tuple(details)
            self.open(self._is_open)

    @property
    def is_open(self) -> bool:
        return self._is_open and bool(self.details)

    def open(self, shown: bool) -> None:
        self._is_open = shown
        lines = [html.escape(self.summary)]
        if self.details:
            link = html.escape(_("Less") if shown else self._ask)
            lines[0] += f'&nbsp; <a href="#" style="text-decoration:none">{link}</a>'
        told = self.details if self.is_open else ()
        self.setTextInteractionFlags(LINKS if self.details else Qt.TextInteractionFlag.NoTextInteraction)
        self.setText("<br>".join([*lines, *map(html.escape, told)]))
        self.setAccessibleName(" ".join((self.summary, *told)))


def plain_tip(text: str) -> str:
    """A tool tip that shows a text as it is, in lines that fit; by itself, Qt takes what looks like HTML for HTML."""
    return f'<p style="white-space:pre-wrap">{html.escape(text)}</p>' if text.strip() else ""


def tip_of(text: str) -> str:
    """A tool tip of one line, as it is where Qt takes it for plain text anyway."""
    return plain_tip(text) if QtGui.Qt.mightBeRichText(text) else text


class ElidedLabel(QLabel):
    """One line of plain text, as wide as it is given; where it is cut, its tool tip has all of it."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def shown_text(self) -> str:
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width()
        )

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self.text()), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance("……"), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self.shown_text()
        tip = "" if shown == self.text() else tip_of(self.text())
        if self.toolTip() != tip:
            self.setToolTip(tip)
        painter = QPainter(self)
        side = QStyle.visualAlignment(self.layoutDirection(), self.alignment())
        self.style().drawItemText(
            painter, self.contentsRect(), side, self.palette(), self.isEnabled(), shown, self.foregroundRole()
        )
