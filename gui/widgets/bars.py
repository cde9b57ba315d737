"""Bars: named ones below each other, a meter, and one of parts that add up against limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from core.base import formats
from core.base.formats import memory
from core.services.chat import Chance
from gui.base.theme import Theme
from gui.base.tokens import SPACING
from gui.widgets.labels import mirrored

MOST_BARS = 10
BAR = 6
NAMES = 0.4
"""The most of the width that names get."""


@dataclass(frozen=True)
class Bar:
    """`share` is its length, 0 to 1, `words` its figure, `colour` a field of `gui.base.tokens.Tokens`."""

    name: str
    share: float
    words: str
    colour: str = "run"


class NamedBars(QWidget):
    """A line for each bar: its name, the bar, its figure; `columns` columns, and below them how many more there are."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._bars: tuple[Bar, ...] = ()
        self._columns, self._more = 1, 0
        self.stresses_first = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_bars(self, bars: Iterable[Bar], *, columns: int = 1) -> None:
        """Show at most ten of them, the first in bold where it `stresses_first`."""
        wanted = tuple(bars)
        self._bars, self._columns, self._more = wanted[:MOST_BARS], columns, len(wanted[MOST_BARS:])
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        lines = self._lines() + (1 if self._more else 0)
        return QSize(24 * self.fontMetrics().averageCharWidth(), max(1, lines) * self._line_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(12 * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        gap, lines, height = 3 * SPACING, max(1, self._lines()), self._line_height()
        width = (self.width() - gap * (self._columns - 1)) / self._columns
        for index, bar in enumerate(self._bars):
            column, line = divmod(index, lines)
            is_first = self.stresses_first and not index
            self._paint_bar(
                painter, QRectF(column * (width + gap), line * height, width, height), bar, is_first
            )
        if self._more:
            painter.setPen(QColor(self._theme.tokens.muted))
            below = QRectF(0, lines * height, self.width(), height)
            words = _("and {count} more").format(count=self._more)
            painter.drawText(below, Qt.AlignmentFlag.AlignVCenter, words)

    def _paint_bar(self, painter: QPainter, room: QRectF, bar: Bar, is_first: bool) -> None:
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if is_first else QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(QColor(tokens.text if is_first else tokens.muted))
        longest = max(metrics.horizontalAdvance(one.name) for one in self._bars)
        names = min(room.width() * NAMES, longest + SPACING)
        figures = max(metrics.horizontalAdvance(one.words) for one in self._bars) + SPACING
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignRight
        name = painter.fontMetrics().elidedText(bar.name, Qt.TextElideMode.ElideRight, round(names))
        place = QRectF(room.left(), room.top(), names, room.height())
        painter.drawText(mirrored(self, place), middle, name)
        place = QRectF(room.right() - figures, room.top(), figures, room.height())
        painter.drawText(mirrored(self, place), middle | right, bar.words)
        length = max(1.0, room.width() - names - figures - SPACING)
        painter.setPen(Qt.PenStyle.NoPen)
        for filled, colour in ((length, "grid"), (max(2.0, length * bar.share), bar.colour)):
            painter.setBrush(QColor(getattr(tokens, colour)))
            place = QRectF(room.left() + names + SPACING, room.center().y() - BAR / 2, filled, BAR)
            painter.drawRoundedRect(mirrored(self, place), BAR / 2, BAR / 2)

    def _lines(self) -> int:
        return -(-len(self._bars) // self._columns)

    def _line_height(self) -> int:
        return self.fontMetrics().height() + SPACING // 2


class ChanceBars(NamedBars):
    """How likely a model finds each label, the likeliest first; the label that was expected is green."""

    def show_chances(self, chances: Sequence[Chance], expected: str = "") -> None:
        self.stresses_first = True
        shown = chances[:MOST_BARS]
        spoken = ", ".join(f"{one.label}: {formats.share(one.chance)}" for one in shown)
        self.setAccessibleName(_("Probabilities: {}").format(spoken))
        self.show_bars(
            Bar(
                " ".join(one.label.split()),
                one.chance,
                formats.share(one.chance),
                "ok" if one.label == expected else "run",
            )
            for one in shown
        )


class LabelBars(NamedBars):
    """How many rows each label has, the most frequent first; more than four labels in two columns."""

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Show these counts; none hides the bars."""
        ordered = sorted(counts.items(), key=lambda pair: -pair[1])
        bars = [
            Bar(" ".join(label.split()), count / ordered[0][1] if count else 0.0, f"{count:,}")
            for label, count in ordered
        ]
        spoken = ", ".join(f"{bar.name}: {bar.words}" for bar in bars[:MOST_BARS])
        self.setAccessibleName(_("Rows per label: {counts}").format(counts=spoken))
        self.setVisible(bool(counts))
        self.show_bars(bars, columns=1 if len(bars) <= 4 else 2)


METER_THICKNESS = 6


class Meter(QWidget):
    """A share from 0 to 1 as a bar.

    Args:
        theme: Whose colours it has.
        colour: The field of `gui.base.theme.Tokens` that the filled part takes.
        name: What is measured, for screen readers.
    """

    def __init__(self, theme: Theme, colour: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.colour = colour
        self.share = 0.0
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def set_share(self, share: float) -> None:
        """Show a share, 0 to 1."""
        share = min(1.0, max(0.0, share))
        if share != self.share:
            self.share = share
            self.update()

    def set_colour(self, colour: str) -> None:
        """Fill with another field of `gui.base.theme.Tokens`."""
        if colour != self.colour:
            self.colour = colour
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(60, METER_THICKNESS)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        groove = QRectF(0, 0, self.width(), METER_THICKNESS)
        painter.setBrush(QColor(self._theme.tokens.line))
        painter.drawRoundedRect(groove, METER_THICKNESS / 2, METER_THICKNESS / 2)
        width = max(float(METER_THICKNESS), groove.width() * self.share) if self.share else 0.0
        left = self.width() - width if self.layoutDirection() is Qt.LayoutDirection.RightToLeft else 0.0
        painter.setBrush(QColor(getattr(self._theme.tokens, self.colour)))
        painter.drawRoundedRect(
            QRectF(left, 0, width, METER_THICKNESS), METER_THICKNESS / 2, METER_THICKNESS / 2
        )


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
        self.parts: tuple[Part, ...] = ()
        self.limits: tuple[Limit, ...] = ()
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
        if wanted == (self.parts, self.limits):
            return
        self.parts, self.limits = wanted
        told = [part.words for part in self.parts] + [limit.words for limit in self.limits]
        self.setAccessibleDescription(", ".join(told))
        self.updateGeometry()
        self.update()

    def placed(self, width: float) -> Placed:
        """Where everything stands where the bar is `width` pixels wide."""
        metrics = QFontMetricsF(self.font())
        scale = max([sum(part.bytes for part in self.parts), *(limit.bytes for limit in self.limits)])
        places = _parts_placed(self.parts, width / scale if scale else 0.0)
        limits = _limits_placed(self.limits, width, scale, metrics)
        top = max((rect.bottom() for _, rect, _ in limits), default=OVER + BAR_THICKNESS) + SPACING
        legend = _legend_placed(self.parts, width, top, metrics)
        bottom = max((rect.bottom() for rect, _ in legend), default=top)
        return Placed(places, limits, legend, bottom)

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
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
        width = 40 * self.fontMetrics().averageCharWidth()
        return QSize(width, self.heightForWidth(self.width() or width))

    def minimumSizeHint(self) -> QSize:
        metrics = QFontMetricsF(self.font())
        words = [SQUARE + SPACING + metrics.horizontalAdvance(part.words) for part in self.parts]
        words += [metrics.horizontalAdvance(limit.words) for limit in self.limits]
        return QSize(round(max(words, default=60.0) + 1), BAR_THICKNESS)

    def event(self, event: QEvent) -> bool:
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
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # words run as their letters do
        placed = self.placed(self.width())
        self._paint_bar(painter, placed)
        for place, rect, limit in placed.limits:
            self._paint_limit(painter, place, rect, limit)
        for rect, part in placed.legend:
            self._paint_legend(painter, rect, part)

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
    place, rect, limit = placed
    left = max(0.0, min(width - rect.width(), place - rect.width() / 2))
    return place, QRectF(left, BELOW + line * rect.height(), rect.width(), rect.height()), limit


def _legend_placed(
    parts: Sequence[Part], width: float, top: float, metrics: QFontMetricsF
) -> tuple[tuple[QRectF, Part], ...]:
    found, left = [], 0.0
    height = metrics.height() + 3
    for part in parts:
        wide = SQUARE + SPACING - 2 + metrics.horizontalAdvance(part.words) + 1
        if left and left + wide > width:
            left, top = 0.0, top + height
        found.append((QRectF(left, top, wide, height), part))
        left += wide + 2 * SPACING
    return tuple(found)
