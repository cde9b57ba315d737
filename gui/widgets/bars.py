"""One bar of parts that add up, against limits: what a run takes of the memory there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from core.base import format as numbers
from core.base.format import memory
from core.services.chat import Chance
from gui.base.theme import Theme
from gui.base.tokens import SPACING
from gui.widgets.labels import mirrored

# --- How likely a model finds each label, as bars


MOST_BARS = 10
BAR = 6
NAMES = 0.4
"""The most of the width that names get."""


class ChanceBars(QWidget):
    """One line a label: its name, a bar from 0 to 1, its share in per cent; the likeliest first, at most ten."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._chances: tuple[Chance, ...] = ()
        self._expected = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_chances(self, chances: Sequence[Chance], expected: str = "") -> None:
        """Show these, the likeliest first; the label that was expected is green."""
        self._chances = tuple(chances[:MOST_BARS])
        self._expected = expected
        spoken = ", ".join(f"{one.label}: {numbers.share(one.chance)}" for one in self._chances)
        self.setAccessibleName(_("Probabilities: {}").format(spoken))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        return QSize(24 * self.fontMetrics().averageCharWidth(), max(1, len(self._chances)) * self._line())

    def minimumSizeHint(self) -> QSize:
        """As high as it wants to be."""
        return QSize(12 * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint names, bars and shares."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = self.fontMetrics()
        longest = max((metrics.horizontalAdvance(one.label) for one in self._chances), default=0)
        names = min(round(self.width() * NAMES), longest + SPACING)
        shares = metrics.horizontalAdvance("100.0 %") + SPACING
        for index, one in enumerate(self._chances):
            self._paint_line(painter, index, one, (names, shares))

    def _paint_line(self, painter: QPainter, index: int, one: Chance, widths: tuple[int, int]) -> None:
        tokens, top, height = self._theme.tokens, index * self._line(), self._line()
        names, shares = widths
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if index == 0 else QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(QColor(tokens.text if index == 0 else tokens.muted))
        name = painter.fontMetrics().elidedText(
            " ".join(one.label.split()), Qt.TextElideMode.ElideRight, names
        )
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignRight
        painter.drawText(self._placed(0, top, names, height), middle, name)
        end = self._placed(self.width() - shares, top, shares, height)
        painter.drawText(end, middle | right, numbers.share(one.chance))
        room = max(1, self.width() - names - shares - SPACING)
        groove = QRectF(0, 0, room, BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        for length, colour in ((groove.width(), tokens.grid), (room * one.chance, self._colour(one))):
            painter.setBrush(QColor(colour))
            bar = self._placed(names + SPACING, top + (height - BAR) / 2, max(2.0, length), BAR)
            painter.drawRoundedRect(bar, BAR / 2, BAR / 2)

    def _colour(self, one: Chance) -> str:
        tokens = self._theme.tokens
        return tokens.ok if one.label == self._expected else tokens.run

    def _placed(self, left: float, top: float, width: float, height: float) -> QRectF:
        return mirrored(self, QRectF(left, top, width, height))

    def _line(self) -> int:
        return self.fontMetrics().height() + SPACING


# --- A thin bar that shows how much of something is in use


METER_THICKNESS = 6


class Meter(QWidget):
    """A share from 0 to 1 as a bar.

    Args:
        theme: Whose colours it has.
        colour: The field of `gui.base.theme.Tokens` that the filled part takes.
        name: What is measured, for screen readers.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, colour: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._colour = colour
        self._share = 0.0
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    @property
    def share(self) -> float:
        """What is shown, 0 to 1."""
        return self._share

    @property
    def colour(self) -> str:
        """The field of `gui.base.theme.Tokens` that the filled part has."""
        return self._colour

    def set_share(self, share: float) -> None:
        """Show a share, 0 to 1."""
        share = min(1.0, max(0.0, share))
        if share != self._share:
            self._share = share
            self.update()

    def set_colour(self, colour: str) -> None:
        """Fill with another field of `gui.base.theme.Tokens`."""
        if colour != self._colour:
            self._colour = colour
            self.update()

    def sizeHint(self) -> QSize:
        """Thin, and as wide as it may be."""
        return QSize(60, METER_THICKNESS)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the groove and its filled part."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        groove = QRectF(0, 0, self.width(), METER_THICKNESS)
        painter.setBrush(QColor(self._theme.tokens.line))
        painter.drawRoundedRect(groove, METER_THICKNESS / 2, METER_THICKNESS / 2)
        width = max(float(METER_THICKNESS), groove.width() * self._share) if self._share else 0.0
        left = self.width() - width if self.layoutDirection() is Qt.LayoutDirection.RightToLeft else 0.0
        painter.setBrush(QColor(getattr(self._theme.tokens, self._colour)))
        painter.drawRoundedRect(
            QRectF(left, 0, width, METER_THICKNESS), METER_THICKNESS / 2, METER_THICKNESS / 2
        )


# --- One bar of parts that add up, against limits: what a run takes of the memory there is


BAR_THICKNESS = 16
RADIUS = 4
OVER = 3
"""How far a limit's line reaches over the bar, above and below."""

BELOW = BAR_THICKNESS + 2 * OVER + 1.0
"""Where the words of the limits begin."""

SQUARE = 9
THINNEST = 2.0
"""Pixels of a part that would be too thin to be seen."""


@dataclass(frozen=True)
class Part:
    """A part of the bar: its name, its bytes, the field of `gui.base.tokens.Tokens` it is painted in, its tip."""

    name: str
    bytes: int
    colour: str
    help: str = ""

    @property
    def words(self) -> str:
        """Name and size, as the legend has them."""
        return f"{self.name} {memory(self.bytes)}"


@dataclass(frozen=True)
class Limit:
    """A line across the bar: its words, its place in bytes, and the field of `Tokens` of its colour."""

    words: str
    bytes: int
    colour: str


@dataclass(frozen=True)
class Placed:
    """Where everything stands in a width, in pixels from the side where reading begins."""

    parts: tuple[tuple[QRectF, Part], ...]
    limits: tuple[tuple[float, QRectF, Limit], ...]
    legend: tuple[tuple[QRectF, Part], ...]
    height: float


class PartsBar(QWidget):
    """Parts side by side in one bar, lines with words for its limits, a legend with sizes below.

    What lies between the first limit and the last is shaded: it is there, but taken.
    """

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parts: tuple[Part, ...] = ()
        self._limits: tuple[Limit, ...] = ()
        self._width, self._tallest = 0, 0
        # a fixed height would be that of the width there was before: the legend's last lines would be cut off
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(name)
        theme.changed.connect(self.update)

    def show_parts(self, parts: Iterable[Part], limits: Iterable[Limit] = ()) -> None:
        """Show these parts, of those that are anything, and these limits, the lowest first."""
        wanted = tuple(part for part in parts if part.bytes > 0), tuple(limits)
        if wanted == (self._parts, self._limits):
            return
        self._parts, self._limits = wanted
        told = [part.words for part in self._parts] + [limit.words for limit in self._limits]
        self.setAccessibleDescription(", ".join(told))
        self.updateGeometry()
        self.update()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts shown."""
        return self._parts

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits shown."""
        return self._limits

    def placed(self, width: float) -> Placed:
        """Where everything stands where the bar is `width` pixels wide."""
        metrics = QFontMetricsF(self.font())
        scale = self._scale()
        places = _parts_placed(self._parts, width / scale if scale else 0.0)
        limits = _limits_placed(self._limits, width, scale, metrics)
        top = max((rect.bottom() for _, rect, _ in limits), default=OVER + BAR_THICKNESS) + SPACING
        legend = _legend_placed(self._parts, width, top, metrics)
        bottom = max((rect.bottom() for rect, _ in legend), default=top)
        return Placed(places, limits, legend, bottom)

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        """The legend takes as many lines as it needs."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        """Height at a width, in pixels: the most that was needed there so far.

        Figures change by the second, and with them how many lines their words take. What stands below must not move
        away from the pointer for that.
        """
        needed = round(self.placed(max(1, width)).height + 0.5)
        self._tallest = max(needed, self._tallest if width == self._width else 0)
        self._width = width
        return self._tallest

    def sizeHint(self) -> QSize:
        """Wide enough for a legend of two lines."""
        width = 40 * self.fontMetrics().averageCharWidth()
        return QSize(width, self.heightForWidth(self.width() or width))

    def minimumSizeHint(self) -> QSize:
        """No narrower than the longest words of legend and limits."""
        metrics = QFontMetricsF(self.font())
        words = [SQUARE + SPACING + metrics.horizontalAdvance(part.words) for part in self._parts]
        words += [metrics.horizontalAdvance(limit.words) for limit in self._limits]
        return QSize(round(max(words, default=60.0) + 1), BAR_THICKNESS)

    def event(self, event: QEvent) -> bool:
        """Say of the part under the pointer what it is."""
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            part = self.part_at(event.pos().x(), event.pos().y())
            if part is not None:
                tip = f"{part.words}\n{part.help}" if part.help else part.words
                QToolTip.showText(event.globalPos(), tip, self)
                return True
        return super().event(event)

    def part_at(self, x: float, y: float) -> Part | None:
        """The part, in the bar or the legend, at a point of the widget."""
        placed = self.placed(self.width())
        for rect, part in (*placed.parts, *placed.legend):
            if mirrored(self, rect).contains(x, y):
                return part
        return None

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the bar, its limits and the legend."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # words run as their letters do
        placed = self.placed(self.width())
        self._paint_bar(painter, placed)
        for place, rect, limit in placed.limits:
            self._paint_limit(painter, place, rect, limit)
        for rect, part in placed.legend:
            self._paint_legend(painter, rect, part)

    def _scale(self) -> int:
        """The bytes that the whole width stands for."""
        return max([sum(part.bytes for part in self._parts), *(limit.bytes for limit in self._limits)])

    def _paint_bar(self, painter: QPainter, placed: Placed) -> None:
        tokens = self._theme.tokens
        whole = QRectF(0, OVER, self.width(), BAR_THICKNESS)
        shape = QPainterPath()
        shape.addRoundedRect(whole, RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        painter.fillRect(whole, QColor(tokens.grid))
        if len(placed.limits) > 1:
            first, last = placed.limits[0][0], placed.limits[-1][0]
            taken = QRectF(first, OVER, last - first, BAR_THICKNESS)
            painter.fillRect(mirrored(self, taken), QColor(tokens.line))
        for rect, part in placed.parts:
            painter.fillRect(mirrored(self, rect), QColor(getattr(tokens, part.colour)))
        painter.restore()

    def _paint_limit(self, painter: QPainter, place: float, rect: QRectF, limit: Limit) -> None:
        line = QRectF(min(max(0.0, place - 1), self.width() - 2), 0, 2, BAR_THICKNESS + 2 * OVER)
        painter.fillRect(mirrored(self, line), QColor(getattr(self._theme.tokens, limit.colour)))
        painter.setPen(QColor(self._theme.tokens.muted))
        painter.drawText(mirrored(self, rect), Qt.AlignmentFlag.AlignCenter, limit.words)

    def _paint_legend(self, painter: QPainter, rect: QRectF, part: Part) -> None:
        middle = rect.center().y()
        square = QRectF(rect.left(), middle - SQUARE / 2, SQUARE, SQUARE)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(getattr(self._theme.tokens, part.colour)))
        painter.drawRoundedRect(mirrored(self, square), 2, 2)
        painter.setPen(QColor(self._theme.tokens.muted))
        words = rect.adjusted(SQUARE + SPACING - 2, 0, 0, 0)
        painter.drawText(mirrored(self, words), Qt.AlignmentFlag.AlignVCenter, part.words)


def _parts_placed(parts: Sequence[Part], pixels: float) -> tuple[tuple[QRectF, Part], ...]:
    """One part after the other, none too thin to be seen.

    Args:
        parts: The parts.
        pixels: Pixels of a byte.
    """
    found, left = [], 0.0
    for part in parts:
        width = max(THINNEST, part.bytes * pixels)
        found.append((QRectF(left, OVER, width, BAR_THICKNESS), part))
        left += width
    return tuple(found)


def _limits_placed(
    limits: Sequence[Limit], width: float, scale: int, metrics: QFontMetricsF
) -> tuple[tuple[float, QRectF, Limit], ...]:
    """Words below their lines, within the width: aside from each other on one line where they stay at their lines."""
    found: list[tuple[float, QRectF, Limit]] = []
    end = width
    for limit in reversed(limits):
        place = width * limit.bytes / scale if scale else 0.0
        wide = metrics.horizontalAdvance(limit.words) + 1
        left = max(0.0, min(end - wide, place - wide / 2))
        found.insert(0, (place, QRectF(left, BELOW, wide, metrics.height()), limit))
        end = left - 2 * SPACING
    if all(rect.left() <= place <= rect.right() + 1 for place, rect, _ in found) and end > -2 * SPACING:
        return tuple(found)
    return tuple(_lower(line, width, one) for line, one in enumerate(found))


def _lower(line: int, width: float, placed: tuple[float, QRectF, Limit]) -> tuple[float, QRectF, Limit]:
    """A limit's words on a line of their own."""
    place, rect, limit = placed
    left = max(0.0, min(width - rect.width(), place - rect.width() / 2))
    return place, QRectF(left, BELOW + line * rect.height(), rect.width(), rect.height()), limit


def _legend_placed(
    parts: Sequence[Part], width: float, top: float, metrics: QFontMetricsF
) -> tuple[tuple[QRectF, Part], ...]:
    """The legend in lines as long as the width."""
    found, left = [], 0.0
    height = metrics.height() + 3
    for part in parts:
        wide = SQUARE + SPACING - 2 + metrics.horizontalAdvance(part.words) + 1
        if left and left + wide > width:
            left, top = 0.0, top + height
        found.append((QRectF(left, top, wide, height), part))
        left += wide + 2 * SPACING
    return tuple(found)
