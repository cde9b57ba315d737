"""Bars: a meter, named ones below each other, and one of parts that add up against limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QSizePolicy, QVBoxLayout, QWidget

from core.base import formats
from core.base.language import _
from core.jobs.chat import Chance
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import ElidedLabel, mirrored
from gui.widgets.layout import FLUSH, clear, fill

METER_THICKNESS = 6


def progress_bar(name: str, most: int = 0) -> QProgressBar:
    """Return a progress bar without a text; `most` 0 shows only that something goes on."""
    bar = QProgressBar(maximum=most, textVisible=False)
    bar.setAccessibleName(name)
    return bar


class Meter(QWidget):
    """A share from 0 to 1 as a bar.

    Args:
        colour: The field of `gui.base.tokens.Tokens` that the filled part takes.
    """

    def __init__(self, theme: Theme, colour: str, name: str) -> None:
        super().__init__()
        self._theme = theme
        self.colour = colour
        self.share = 0.0
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_share(self, share: float, colour: str) -> None:
        """Show a share, 0 to 1, filled with a field of `gui.base.tokens.Tokens`."""
        shown = min(1.0, max(0.0, share)), colour
        if shown != (self.share, self.colour):
            self.share, self.colour = shown
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(60, METER_THICKNESS)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for width, colour in ((self.width(), "line"), (round(self.width() * self.share), self.colour)):
            # what is shorter than thick is a smaller dot, nothing is none
            height = min(METER_THICKNESS, width)
            painter.setBrush(QColor(getattr(self._theme.tokens, colour)))
            bar = mirrored(self, QRectF(0, (METER_THICKNESS - height) / 2, width, height))
            painter.drawRoundedRect(bar, height / 2, height / 2)


MOST_BARS = 10


class NamesGrid(QGridLayout):
    """A grid whose first column has names, which take what they need, up to half of the width."""

    def setGeometry(self, place: QRect) -> None:  # noqa: N802 - Qt's name
        for line in range(self.rowCount()):
            name = self.itemAtPosition(line, 0)
            if name is not None and isinstance(label := name.widget(), ElidedLabel):
                label.setMaximumWidth(place.width() // 2)
        super().setGeometry(place)


@dataclass(frozen=True)
class Bar:
    """`share` is its length, 0 to 1, `words` its figure, `colour` a field of `gui.base.tokens.Tokens`."""

    name: str
    share: float
    words: str
    colour: str = "run"


class NamedBars(QWidget):
    """A line for each bar with its name and figure."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.bars: tuple[Bar, ...] = ()
        self._grid = NamesGrid(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(SPACING)
        self._grid.setVerticalSpacing(SPACING // 2)

    def show_bars(self, bars: Iterable[Bar], *, is_ranking: bool = False) -> None:
        """Show these bars; the first one of a ranking in bold."""
        wanted = tuple(bars)
        if wanted == self.bars:
            return
        self.bars = wanted
        clear(self._grid)
        for line, bar in enumerate(wanted):
            name, meter, figure = (
                ElidedLabel(bar.name),
                Meter(self._theme, bar.colour, bar.name),
                QLabel(bar.words),
            )
            name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
            meter.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            figure.setAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
            meter.show_share(bar.share, bar.colour)
            for place, widget in enumerate((name, meter, figure)):
                if widget is not meter:
                    set_role(widget, Role.STRONG if is_ranking and not line else Role.MUTED)
                self._grid.addWidget(widget, line, place)
        self._grid.setColumnStretch(1, 1)


class ChanceBars(NamedBars):
    """How likely a model finds each label, the likeliest first; the label that was expected is green."""

    def show_chances(self, chances: Sequence[Chance], expected: str = "") -> None:
        bars = [
            Bar(
                " ".join(one.label.split()),
                one.chance,
                formats.share(one.chance),
                "ok" if one.label == expected else "run",
            )
            for one in chances[:MOST_BARS]
        ]
        spoken = formats.enumerated(f"{bar.name}: {bar.words}" for bar in bars)
        self.setAccessibleName(_("Probabilities: {spoken}").format(spoken=spoken))
        self.show_bars(bars, is_ranking=True)


BAR_THICKNESS = 16
RADIUS = 4
OVER = 3
"""How far a limit's line reaches over the bar, above and below."""

MOST_LINES = 4
"""Lines of the legend: of parts and limits, two a line. Their space is kept before they are known."""

THINNEST = 2.0
"""Pixels of a part that would be too thin to be seen."""


@dataclass(frozen=True)
class Part:
    """A part of the bar, or a limit drawn as a line across it.

    `colour` is the field of `gui.base.tokens.Tokens` it is painted in, `help` the tool tip of its legend.
    """

    name: str
    bytes: int
    colour: str
    help: str = ""


class PartsBar(QWidget):
    """Parts side by side in one bar, lines for its limits, and a legend with sizes below.

    What lies between the first limit and the last is shaded: it exists, but is in use.
    """

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme = theme
        self.parts: tuple[Part, ...] = ()
        self.limits: tuple[Part, ...] = ()
        self.legend: list[QLabel] = []
        self.strip = _Strip(self, theme)
        # columns of their own: figures change by the second, and nothing may move
        self._legend = QGridLayout()
        self._legend.setHorizontalSpacing(SPACING)
        self._legend.setVerticalSpacing(0)  # of lines without a label there would be none
        self._legend.setColumnStretch(1, 1)
        for line in range(MOST_LINES):
            self._legend.setRowMinimumHeight(line, self.fontMetrics().height() + 2)
        fill(QVBoxLayout(self), self.strip, self._legend, margins=FLUSH, spacing=SPACING // 2)
        self.setAccessibleName(name)
        theme.changed.connect(self._show_legend)

    def show_parts(self, parts: Iterable[Part], limits: Iterable[Part] = ()) -> None:
        """Show the parts that hold anything, and these limits, the lowest first."""
        wanted = tuple(part for part in parts if part.bytes > 0), tuple(limits)
        if wanted == (self.parts, self.limits):
            return
        is_other = tuple(map(len, wanted)) != (len(self.parts), len(self.limits))
        self.parts, self.limits = wanted
        if is_other:
            clear(self._legend)
            self.legend = [QLabel() for _part in (*self.parts, *self.limits)]
            for index, label in enumerate(self.legend):
                set_role(label, Role.HINT)
                self._legend.addWidget(label, index // 2, index % 2)
        self._show_legend()

    def _show_legend(self) -> None:
        spoken = []
        for label, part in zip(self.legend, (*self.limits, *self.parts), strict=True):
            words = f"{part.name} {formats.memory(part.bytes)}"
            mark = "┃" if part in self.limits else "■"
            colour = getattr(self._theme.tokens, part.colour)
            label.setText(f'<span style="color:{colour}">{mark}</span>&nbsp;{words}')
            label.setToolTip(part.help)
            spoken.append(words)
        self.setAccessibleDescription(formats.enumerated(spoken))
        self.strip.update()


class _Strip(QWidget):
    """The bar itself."""

    def __init__(self, bar: PartsBar, theme: Theme) -> None:
        super().__init__(bar)
        self._bar, self._theme = bar, theme
        self.setFixedHeight(BAR_THICKNESS + 2 * OVER)

    def places(self) -> tuple[list[float], list[float]]:
        """Where each part begins and the last one ends, and where the limits are, in pixels."""
        parts, limits = self._bar.parts, self._bar.limits
        most = max([sum(part.bytes for part in parts), *(limit.bytes for limit in limits), 1])
        edges = [0.0]
        for part in parts:
            edges.append(edges[-1] + max(THINNEST, part.bytes * self.width() / most))
        return edges, [min(self.width() - 2.0, self.width() * limit.bytes / most) for limit in limits]

    def paintEvent(self, _event: QPaintEvent) -> None:
        tokens, (edges, limits) = self._theme.tokens, self.places()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

        def fill(left: float, right: float, colour: str, over: int = 0) -> None:
            rect = QRectF(left, OVER - over, right - left, BAR_THICKNESS + 2 * over)
            painter.fillRect(mirrored(self, rect), QColor(getattr(tokens, colour)))

        shape = QPainterPath()
        shape.addRoundedRect(QRectF(0, OVER, self.width(), BAR_THICKNESS), RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        fill(0, self.width(), "grid")
        if len(limits) > 1:
            fill(limits[0], limits[-1], "line")
        for part, left, right in zip(self._bar.parts, edges, edges[1:], strict=False):
            fill(left, right, part.colour)
        painter.restore()
        for place, limit in zip(limits, self._bar.limits, strict=True):
            fill(place, place + 2, limit.colour, OVER)
