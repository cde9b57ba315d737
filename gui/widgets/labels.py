"""The order of reading where Qt doesn't see to it: margins of layouts, and what is painted by hand."""

import html
import math
from collections.abc import Sequence
from gettext import gettext as _

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QMargins, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QStyle, QTextEdit, QWidget

from core.services.chat import Word
from gui.base.theme import Theme

# --- The order of reading where Qt doesn't see to it: margins of layouts


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


# --- A text whose words have labels: tinted by what they are, with the label behind each


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
        """Show a text with its labels."""
        self._text, self._words = text, tuple(words)
        self._paint_words()

    def _fit(self, size: QSizeF) -> None:
        """As high as the text: what is around it scrolls."""
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


# --- Words with links in them, whose colour follows the theme


class LinkLabel(QLabel):
    """Rich text that wraps; its links are reached by mouse and keyboard."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )

    def changeEvent(self, event: QEvent) -> None:
        """Write the words anew in the colours that are in force now: Qt keeps those they were written in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self.text():
            words = self.text()
            self.clear()
            self.setText(words)


# --- Tool tips of text that was made by others


def plain_tip(text: str) -> str:
    """A tool tip that shows a text as it is, in lines that fit; by itself, Qt takes what looks like HTML for HTML."""
    return f'<p style="white-space:pre-wrap">{html.escape(text)}</p>' if text.strip() else ""


def tip_of(text: str) -> str:
    """A tool tip of one line, as it is where Qt takes it for plain text anyway."""
    return plain_tip(text) if QtGui.Qt.mightBeRichText(text) else text


# --- A line of text that ends in "…" where it has no room


class ElidedLabel(QLabel):
    """One line of plain text, as wide as it is given; where it is cut, its tool tip has all of it."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def shown_text(self) -> str:
        """What of the text can be read now."""
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width()
        )

    def sizeHint(self) -> QSize:
        """As wide as its text, if there is room."""
        return QSize(self.fontMetrics().horizontalAdvance(self.text()), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Room for a few letters."""
        return QSize(self.fontMetrics().horizontalAdvance("……"), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        shown = self.shown_text()
        tip = "" if shown == self.text() else tip_of(self.text())
        if self.toolTip() != tip:
            self.setToolTip(tip)
        painter = QPainter(self)
        side = QStyle.visualAlignment(self.layoutDirection(), self.alignment())
        self.style().drawItemText(
            painter, self.contentsRect(), side, self.palette(), self.isEnabled(), shown, self.foregroundRole()
        )
