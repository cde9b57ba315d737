"""Fine upright lines in a chart over time: where loading went on to something else, and where the first step began."""

from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QFontMetrics

from core.events import Phase
from gui.plots.canvas import Canvas
from gui.theme import Tokens

LEAST_PIXELS = 6
"""Marks nearer than this to the next one, or to the edge, are left out."""

TOP = 0.98
"""Where the words stand, as a share of the height."""

_translate = QCoreApplication.translate


def phase_words(phase: Phase) -> str:
    """What the engine is busy with, in two or three words."""
    words = {
        Phase.LOADING_DATA: _translate("phases", "loading the data"),
        Phase.LOADING_MODEL: _translate("phases", "loading the model"),
        Phase.TOKENIZING: _translate("phases", "splitting texts"),
        Phase.COMPILING: _translate("phases", "compiling"),
        Phase.TRAINING: _translate("phases", "training"),
        Phase.EVALUATING: _translate("phases", "evaluating"),
        Phase.SAVING: _translate("phases", "saving"),
    }
    return words[phase]


def marks(phases: list[tuple[float, Phase]]) -> list[tuple[float, str]]:
    """What happens before the first step, and that step's beginning: seconds since the start, with words."""
    found: list[tuple[float, str]] = []
    for clock, phase in phases:
        if phase is Phase.TRAINING:
            return [*found, (clock, _translate("phases", "first step"))]
        found.append((clock, phase_words(phase)))
    return found


def placed(
    found: list[tuple[float, str]], low: float, high: float, columns: int, width: Callable[[str], int]
) -> list[tuple[float, str]]:
    """Those marks that have room from `low` to `high`, the last ones first; without words where these have none.

    Args:
        found: As `marks` gives them.
        low: Where the picture begins, in seconds.
        high: Where it ends.
        columns: Its pixels.
        width: Measures words, in pixels.
    """
    shown: list[tuple[float, str]] = []
    scale = columns / (high - low)
    edge = high
    for clock, words in reversed(found):
        room = (edge - clock) * scale
        if low + LEAST_PIXELS / scale <= clock <= high and room >= LEAST_PIXELS:
            shown.append((clock, words if room >= width(words) + 2 * LEAST_PIXELS else ""))
            edge = clock
    return shown


class PhaseMarks:
    """Draws the marks into a canvas."""

    def __init__(self) -> None:
        self._lines: list[pg.InfiniteLine] = []
        self._tokens: Tokens | None = None

    def draw(self, canvas: Canvas, phases: list[tuple[float, Phase]], low: float, high: float) -> None:
        """Draw the marks of the picture from `low` to `high`."""
        width = QFontMetrics(canvas.axis_font).horizontalAdvance
        shown = placed(marks(phases), low, high, canvas.columns(), width)
        while len(self._lines) < len(shown):
            self._lines.append(self._new_line(canvas))
        for number, line in enumerate(self._lines):
            line.setVisible(number < len(shown))
            if number < len(shown):
                line.setValue(shown[number][0])
                line.label.setFormat(shown[number][1])
                line.label.setVisible(bool(shown[number][1]))

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self._tokens = tokens
        for line in self._lines:
            self._paint(line)

    def _new_line(self, canvas: Canvas) -> pg.InfiniteLine:
        line = pg.InfiniteLine(
            angle=90, label="", labelOpts={"position": TOP, "anchors": [(-0.04, 0), (-0.04, 0)]}
        )
        line.setZValue(5)
        line.label.textItem.document().setDocumentMargin(1)
        line.label.textItem.setFont(canvas.axis_font)
        canvas.addItem(line, ignoreBounds=True)
        self._paint(line)
        return line

    def _paint(self, line: pg.InfiniteLine) -> None:
        if self._tokens is not None:
            line.setPen(pg.mkPen(self._tokens.muted, width=1, dash=[1, 3]))
            line.label.setColor(self._tokens.muted)
            line.label.fill = pg.mkBrush(self._tokens.surface)
