"""A small table beside the cursor of a chart, for more values than its legend has room for."""

from html import escape

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QPainter
from PySide6.QtWidgets import QGraphicsTextItem, QStyleOptionGraphicsItem, QWidget

from gui.theme import Tokens

PAIRS_A_ROW = 2
BESIDE = 8
"""Pixels between the cursor and the box."""

MARGIN = 4
"""Pixels around the table."""


class HoverBox(QGraphicsTextItem):
    """Names and values, two pairs a row. It lies over the whole chart, axes included, in the chart's pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(1000)
        self.document().setDocumentMargin(MARGIN)
        self._tokens: Tokens | None = None
        self.hide()

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        """Take the colours in force, and the font of the chart's figures."""
        self._tokens = tokens
        self.setFont(font)

    def show_values(self, values: list[tuple[str, str]], cursor: float, picture: QRectF) -> None:
        """Show names with their values beside the cursor, on the side that has more room; nothing hides the box.

        Args:
            values: In reading order.
            cursor: Where it is, in pixels.
            picture: What the box stands over, in pixels.
        """
        self.setVisible(bool(values) and self._tokens is not None)
        if not values or self._tokens is None:
            return
        self.setHtml(_table(values, self._tokens))
        width = self.boundingRect().width()
        left = cursor + BESIDE if cursor < picture.center().x() else cursor - BESIDE - width
        left = max(picture.left(), min(left, picture.right() - width))
        self.setPos(round(left), round(picture.top()))

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        """Draw the table on the card's own colour."""
        if self._tokens is not None:
            painter.setPen(QColor(self._tokens.line))
            painter.setBrush(QColor(self._tokens.surface))
            painter.drawRect(self.boundingRect().adjusted(0.5, 0.5, -0.5, -0.5))
        super().paint(painter, option, widget)  # type: ignore[arg-type]  # Qt takes none, its stubs do not


def _table(values: list[tuple[str, str]], tokens: Tokens) -> str:
    rows = [values[first : first + PAIRS_A_ROW] for first in range(0, len(values), PAIRS_A_ROW)]
    cells = ("".join(_pair(name, value, tokens) for name, value in row) for row in rows)
    return f"<table cellspacing='0' cellpadding='0'>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _pair(name: str, value: str, tokens: Tokens) -> str:
    shown = escape(value).replace(" ", "&nbsp;")
    return (
        f"<td style='color:{tokens.muted}'>{escape(name)}&nbsp;&nbsp;</td>"
        f"<td align='right' style='color:{tokens.text}'>{shown}&nbsp;&nbsp;</td>"
    )
