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
    MarkKind.EVALUATION: _Look("|", "muted"),
    MarkKind.NOTE: _Look("d", "muted", at_top=True),
    MarkKind.WARNING: _Look("d", "warn", at_top=True),
    MarkKind.ERROR: _Look("d", "bad", at_top=True),
}


class MarkItems:
    """One cloud of symbols a kind, in a canvas."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._marks: list[Mark] = []
        self._places: Floats = np.empty(0)
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
            if _LOOKS[kind].symbol == "|":
                item.setPen(pg.mkPen(getattr(tokens, _LOOKS[kind].colour), width=1))

    def draw(self, marks: list[Mark], scale: XScale, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Draw those that lie in the picture, at most one a pixel column and kind."""
        placed = [(place, mark) for mark in marks if (place := _place(mark, scale)) is not None]
        self._marks = [mark for _, mark in placed]
        self._places = np.array([place for place, _ in placed])
        inset = INSET * (y[1] - y[0]) / self._canvas.rows()
        for kind, item in self._items.items():
            places = _thinned(
                [place for place, mark in placed if mark.kind is kind], x, self._canvas.columns()
            )
            level = y[1] - inset if _LOOKS[kind].at_top else y[0] + inset
            item.setData(places, np.full(len(places), level))

    def words_near(self, place: float) -> list[tuple[str, str]]:
        """What the marks at a place of the axis stand for, as names with values."""
        if not len(self._places):
            return []
        off = abs(
            np.array([self._canvas.place_of(found) for found in self._places]) - self._canvas.place_of(place)
        )
        return list(dict.fromkeys(_words(self._marks[index]) for index in np.flatnonzero(off <= NEAR)))


def _place(mark: Mark, scale: XScale) -> float | None:
    if mark.step is not None and scale.counts_steps:
        return float(scale.to_axis(np.array([float(mark.step)]))[0])
    return scale.from_clock(mark.clock)


def _thinned(places: list[float], x: tuple[float, float], columns: int) -> Floats:
    inside = np.array([place for place in places if x[0] <= place <= x[1]])
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
