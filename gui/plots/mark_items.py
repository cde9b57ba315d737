"""Draws the marks of a run into a chart: what was saved or evaluated at its foot, what was warned of at its top."""

from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication

from gui.models.marks import Mark, MarkKind
from gui.plots.canvas import Canvas
from gui.plots.reduction import Floats
from gui.plots.x_scale import XScale
from gui.theme import Tokens

NEAR = 5
"""Pixels within which the cursor is at a mark."""

SIZES = {"|": 13, "t1": 6}
"""Pixels; a stroke is told from the triangle before it by its length."""

MOST_WORDS = 4
"""More would make the box at the cursor hide the chart."""

INSET = 5
"""Pixels between a mark and the edge of the picture."""

_translate = QCoreApplication.translate


@dataclass(frozen=True)
class _Look:
    symbol: str
    colour: str
    at_top: bool = False


_LOOKS = {
    MarkKind.CHECKPOINT: _Look("t1", "muted"),
    MarkKind.EVALUATION: _Look("|", "faint"),
    MarkKind.NOTE: _Look("d", "muted", at_top=True),
    MarkKind.WARNING: _Look("d", "warn", at_top=True),
    MarkKind.ERROR: _Look("d", "bad", at_top=True),
}


class MarkItems:
    """One cloud of symbols a kind, in a canvas."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._marks: dict[MarkKind, list[Mark]] = {}
        self._places: dict[MarkKind, Floats] = {}
        self._drawn: dict[MarkKind, tuple[bytes, float]] = {}
        self._items = {
            kind: pg.ScatterPlotItem(symbol=look.symbol, size=SIZES.get(look.symbol, 7), pen=pg.mkPen(None))
            for kind, look in _LOOKS.items()
        }
        for item in self._items.values():
            item.setZValue(8)
            canvas.addItem(item, ignoreBounds=True)

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        for kind, item in self._items.items():
            item.setBrush(pg.mkBrush(getattr(tokens, _LOOKS[kind].colour)))

    def draw(
        self, marks: dict[MarkKind, list[Mark]], scale: XScale, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        """Draw those that lie in the picture, at most one a pixel column and kind."""
        self._marks = marks
        self._places = {kind: _places(found, scale) for kind, found in marks.items()}
        inset = INSET * (y[1] - y[0]) / self._canvas.rows()
        for kind, places in self._places.items():
            shown = _thinned(places, x, self._canvas.columns())
            level = y[1] - inset if _LOOKS[kind].at_top else y[0] + inset
            drawn = (shown.tobytes(), level)
            if drawn != self._drawn.get(kind):  # the cloud's own way to take places is slow
                self._drawn[kind] = drawn
                self._items[kind].setData(shown, np.full(len(shown), level))

    def words_near(self, place: float, x: tuple[float, float]) -> list[tuple[str, str]]:
        """What the marks at a place of the axis stand for, as names with values; at most `MOST_WORDS`.

        Args:
            place: Where.
            x: From and to of the picture.
        """
        reach = NEAR * (x[1] - x[0]) / self._canvas.columns()
        near = [
            self._marks[kind][index]
            for kind, places in self._places.items()
            for index in np.flatnonzero(abs(places - place) <= reach)[:MOST_WORDS]
        ]
        near.sort(key=lambda mark: mark.clock)
        return list(dict.fromkeys(map(_words, near)))[:MOST_WORDS]


def _places(marks: list[Mark], scale: XScale) -> Floats:
    """Where marks of one kind stand on the axis; NaN where that isn't known yet. Shape (n,)."""
    if scale.counts_steps and marks and marks[0].step is not None:
        return scale.to_axis(np.array([float(mark.step or 0) for mark in marks]))
    placed = (scale.from_clock(mark.clock) for mark in marks)
    return np.array([np.nan if place is None else place for place in placed])


def _thinned(places: Floats, x: tuple[float, float], columns: int) -> Floats:
    inside = places[(places >= x[0]) & (places <= x[1])]
    if len(inside) <= 1:
        return inside
    _, first = np.unique(np.floor((inside - x[0]) / (x[1] - x[0]) * columns), return_index=True)
    return inside[first]


def _words(mark: Mark) -> tuple[str, str]:
    step = "" if mark.step is None else _translate("marks", "step {}").format(f"{mark.step:,}")
    names = {
        MarkKind.CHECKPOINT: _translate("marks", "checkpoint"),
        MarkKind.EVALUATION: _translate("marks", "evaluated"),
        MarkKind.NOTE: _translate("marks", "note"),
        MarkKind.WARNING: _translate("marks", "warning"),
        MarkKind.ERROR: _translate("marks", "error"),
    }
    return names[mark.kind], mark.title or step
