"""Labels of several kinds, links, and the direction of reading where Qt doesn't see to it."""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QMargins, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QMenu, QPushButton, QSizePolicy, QStyle, QToolButton, QWidget

from core.base import language
from core.base.formats import titled
from core.base.language import IS_RIGHT_TO_LEFT, LANGUAGE, SOURCE, _
from core.jobs.chat import Word
from gui.base.theme import GUIDE, Role, Theme, set_flag, set_role

isolated = language.isolated


TO_THE_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter
"""Without it Qt puts a text that begins with a Latin letter to the left, also between Arabic ones."""


def text_label(text: str = "", role: Role | None = None, *, selectable: bool = False) -> QLabel:
    """Return a label of plain text that wraps; HTML in it is shown as it is."""
    label = QLabel(text, wordWrap=True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if role is not None:
        set_role(label, role)
    if IS_RIGHT_TO_LEFT:
        label.setAlignment(TO_THE_RIGHT)
    return label


def role_label(role: Role, text: str = "", parent: QWidget | None = None) -> QLabel:
    """Return a label of one line with a role."""
    label = QLabel(text, parent)
    set_role(label, role)
    if IS_RIGHT_TO_LEFT:
        label.setAlignment(TO_THE_RIGHT)
    return label


Pressed = Callable[[], object]


def push_button(
    text: str = "", pressed: Pressed | None = None, tip: str = "", *, name: str = "", role: Role | None = None
) -> QPushButton:
    """Return a button; `name` is its accessible name where the text alone doesn't say enough."""
    button = QPushButton(text)
    button.setToolTip(tip)
    button.setAccessibleName(name)
    if role is not None:
        set_role(button, role)
    if pressed is not None:
        button.clicked.connect(lambda _checked: pressed())
    return button


def link_button(
    text: str, pressed: Pressed | None = None, tip: str = "", *, name: str = "", flush: bool = False
) -> QPushButton:
    """Return a button that looks like a link; `flush` aligns it with the texts above."""
    button = push_button(text, pressed, tip, name=name, role=Role.LINK)
    set_flag(button, "flush", flush)
    return button


class ButtonMenu(QMenu):
    """The menu of a button, which opens inside the window."""

    def __init__(self, button: QPushButton | QToolButton) -> None:
        super().__init__(button)
        self._button = button
        self.setToolTipsVisible(True)
        button.setProperty("hasMenu", True)
        button.setMenu(self)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        end = self._button.mapToGlobal(self._button.rect().bottomRight()).x()
        if self.geometry().right() > self._button.window().geometry().right():
            self.move(end - self.width(), self.y())


def tip_with_keys(keys: str, tip: str = "") -> str:
    """Return a tool tip that ends in the keys that do the same, such as `Ctrl+S`."""
    shown = QtGui.QKeySequence(keys).toString(QtGui.QKeySequence.SequenceFormat.NativeText)
    return f"{tip} ({shown})".lstrip() if shown else tip


def margins(widget: QWidget, start: int, top: int, end: int, bottom: int) -> QMargins:
    """Return margins with `start` on the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QMargins(end, top, start, bottom)
    return QMargins(start, top, end, bottom)


def mirrored(widget: QWidget, rect: QRectF) -> QRectF:
    """Return a rectangle mirrored in its widget if text is read from right to left."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QRectF(widget.width() - rect.right(), rect.top(), rect.width(), rect.height())
    return rect


OUTSIDE = "O"
TINT = 0.22
"""Opacity of the tint behind a labelled word."""


class LabelledText(QLabel):
    """Shows a text; words that belong together (B-PER, I-PER) are one span. Words labelled O are plain."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._text = ""
        self._words: tuple[Word, ...] = ()
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setAccessibleName(_("Labelled words"))
        theme.changed.connect(self._paint_text)

    def show_words(self, text: str, words: Sequence[Word]) -> None:
        self._text, self._words = text, tuple(words)
        self._paint_text()

    def _paint_text(self) -> None:
        tokens, spans = self._theme.tokens, spans_of(self._words)
        colours = (tokens.run, tokens.optimizer, tokens.activations, tokens.gradients, tokens.others)
        kinds = sorted({kind for _start, _end, kind in spans})
        parts, place = [], 0
        for start, end, kind in spans:
            tint = QColor(colours[kinds.index(kind) % len(colours)])
            rgb = f"{tint.red()},{tint.green()},{tint.blue()}"
            parts.append(html.escape(self._text[place:start]))
            parts.append(
                f'<span style="background-color:rgba({rgb},{TINT})">{html.escape(self._text[start:end])}'
                f'<small style="color:{tokens.muted}"> {html.escape(kind)}</small></span>'
            )
            place = end
        self.setText("".join([*parts, html.escape(self._text[place:])]))


def spans_of(words: Sequence[Word]) -> list[tuple[int, int, str]]:
    """Return the spans as (start, end, kind): consecutive words of a kind, unless a label begins a new one."""
    spans: list[tuple[int, int, str]] = []
    before = OUTSIDE
    for word in words:
        has_mark = word.label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-")
        kind = word.label[2:] if has_mark else word.label
        if kind == before != OUTSIDE and not word.label.startswith(("B-", "S-", "U-")):
            spans[-1] = (spans[-1][0], word.end, kind)
        elif kind != OUTSIDE:
            spans.append((word.start, word.end, kind))
        before = kind
    return spans


LINKS = Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard


class LinkLabel(QLabel):
    """Rich text that wraps; its links are reached by mouse, and one after another by Tab."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(LINKS)

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        super().setText(text)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if "<a " in text else Qt.FocusPolicy.NoFocus)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Begin at the first link, or backwards at the last; Qt would mark none."""
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self.setSelection(0, 0)
            super().focusNextPrevChild(event.reason() is Qt.FocusReason.TabFocusReason)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Leave a link at the very beginning backwards; Qt would find it again."""
        if is_next or self.selectionStart() != 0:
            return super().focusNextPrevChild(is_next)
        self.setSelection(0, 0)
        return QWidget.focusNextPrevChild(self, is_next)

    def changeEvent(self, event: QEvent) -> None:
        """Set the text again, as Qt keeps the colours it was set in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self.text():
            words = self.text()
            self.clear()
            self.setText(words)


def plain_tip(text: str) -> str:
    """Return a tool tip that wraps and shows a text as it is; Qt would interpret HTML in it."""
    return f'<p style="white-space:pre-wrap">{html.escape(text)}</p>' if text.strip() else ""


WORD = {SOURCE: r"\b(%s)s?\b", "ko": r"\b(%s)", "zh_CN": "(%s)", "ar": r"\b[وبلفك]?(%s)\b"}
"""A word of the glossary in a sentence: with a plural, a particle, nothing between words, or what is written before."""


@cache
def _glossary() -> dict[str, str]:
    """The lines of the guide's glossary by their words, the longest words first."""
    text = (GUIDE / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)[1:]
    lines = {word.lower(): titled(word, meaning) for words, meaning in rows for word in words.split(", ")}
    lines = {word: line for word, line in lines.items() if len(word) > 1}  # in Chinese, part of many others
    return dict(sorted(lines.items(), key=lambda pair: -len(pair[0])))


@lru_cache(maxsize=256)
def meanings_in(text: str) -> str:
    """Return what words in a text mean, by the guide's glossary, a line each."""
    lines = _glossary()
    found = re.findall(WORD.get(LANGUAGE, WORD[SOURCE]) % "|".join(map(re.escape, lines)), text.lower())
    return "\n".join(lines[word] for word in dict.fromkeys(found))


def tip_of(text: str) -> str:
    """Return a tool tip of one line, escaped only if Qt would take it for HTML."""
    return plain_tip(text) if QtGui.Qt.mightBeRichText(text) else text


class ElidedLabel(QLabel):
    """One line of plain text, elided to its width; its tool tip then has all of it."""

    elide = Qt.TextElideMode.ElideRight

    def __init__(self, text: str = "", role: Role | None = None) -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        if role is not None:
            set_role(self, role)

    def shown_text(self) -> str:
        return self.fontMetrics().elidedText(self.text(), self.elide, self.contentsRect().width())

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self.text()) + 1, super().sizeHint().height())

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
