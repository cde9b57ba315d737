"""A text whose words have labels: tinted by what they are, with the label behind each."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QSizeF, Qt
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from core.trying import Word
from gui.theme import Theme

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
        self.setAccessibleName(self.tr("Labelled words"))
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
