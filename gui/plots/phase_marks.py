"""Fine upright lines in a chart over time: what loading went on to, where the first step and further attempts began."""

from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QColor, QFontMetrics

from core.events import Phase
from core.work_clock import Interruption
from gui import numbers
from gui.plots.canvas import Canvas
from gui.theme import Tokens

LEAST_PIXELS = 6
"""Marks nearer than this to the next one, or to the edge, are left out."""

TOP = 0.98
"""Where the words stand, as a share of the height."""

GROUND_ALPHA = 140
"""What lies behind the words can be made out."""

BEHIND, BEFORE = [(-0.04, 0.0)] * 2, [(1.04, 0.0)] * 2
"""Where words hang on to a line: after it as a rule, before the newest one where there is no room."""

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
    """What happens before the first step, and that step's beginning: seconds worked, with words."""
    found: list[tuple[float, str]] = []
    for clock, phase in phases:
        if phase is Phase.TRAINING:
            return [*found, (clock, _translate("phases", "first step"))]
        found.append((clock, phase_words(phase)))
    return found


def interruption_marks(interruptions: list[Interruption]) -> list[tuple[float, str]]:
    """Where attempts go on: seconds worked, with words."""
    paused, resumed = _translate("phases", "paused {}"), _translate("phases", "resumed")
    return [
        (one.clock, paused.format(numbers.about(one.seconds)) if one.was_paused else resumed)
        for one in interruptions
    ]


def placed(
    found: list[tuple[float, str]],
    low: float,
    high: float,
    columns: int,
    width: Callable[[str], int],
    *,
    taken: int = 0,
) -> list[tuple[float, str]]:
    """Those marks that have room from `low` to `high`, the last ones first; without words where these have none.

    Args:
        found: As `marks` gives them.
        low: Where the picture begins, in seconds.
        high: Where it ends.
        columns: Its pixels.
        width: Measures words, in pixels.
        taken: Pixels at the end of the line of words in which something else is written.
    """
    shown: list[tuple[float, str]] = []
    scale = columns / (high - low)
    edge = high
    for clock, words in reversed(found):
        room = (edge - clock) * scale
        room_for_words = min(room, (high - clock) * scale - taken)
        if low + LEAST_PIXELS / scale <= clock <= high and room >= LEAST_PIXELS:
            shown.append((clock, words if room_for_words >= width(words) + 2 * LEAST_PIXELS else ""))
            edge = clock
    return shown


def has_room_before(
    found: list[tuple[float, str]],
    shown: list[tuple[float, str]],
    low: float,
    scale: float,
    width: Callable[[str], int],
) -> bool:
    """Whether the newest of all marks, which has no room for its words behind it, has some before it.

    Args:
        found: All marks.
        shown: What `placed` made of them.
        low: Where the picture begins, in seconds.
        scale: Pixels a second.
        width: Measures words, in pixels.
    """
    if not shown or shown[0] != (found[-1][0], ""):
        return False
    clock, words = shown[1] if len(shown) > 1 else (low, "")
    room = (shown[0][0] - clock) * scale - (width(words) if words else 0)
    return room >= width(found[-1][1]) + 4 * LEAST_PIXELS


class PhaseMarks:
    """Draws the marks into a canvas."""

    def __init__(self) -> None:
        self._lines: list[pg.InfiniteLine] = []
        self._tokens: Tokens | None = None

    def draw(
        self, canvas: Canvas, found: list[tuple[float, str]], low: float, high: float, taken: int
    ) -> None:
        """Draw those marks that lie in the picture from `low` to `high`; `taken` is as in `placed`."""
        width = QFontMetrics(canvas.axis_font).horizontalAdvance
        shown = placed(found, low, high, canvas.columns(), width, taken=taken) if found else []
        scale = canvas.columns() / (high - low)
        is_before = (
            has_room_before(found, shown, low, scale, width) and (high - found[-1][0]) * scale >= taken
        )
        while len(self._lines) < len(shown):
            self._lines.append(self._new_line(canvas))
        for number, line in enumerate(self._lines):
            line.setVisible(number < len(shown))
            if number < len(shown):
                words = found[-1][1] if is_before and not number else shown[number][1]
                line.setValue(shown[number][0])
                line.label.setFormat(words)
                line.label.setVisible(bool(words))
                line.label.anchors = BEFORE if is_before and not number else BEHIND
                line.label.updatePosition()

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self._tokens = tokens
        for line in self._lines:
            self._paint(line)

    def _new_line(self, canvas: Canvas) -> pg.InfiniteLine:
        line = pg.InfiniteLine(angle=90, label="", labelOpts={"position": TOP, "anchors": BEHIND})
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
            ground = QColor(self._tokens.surface)
            ground.setAlpha(GROUND_ALPHA)
            line.label.fill = pg.mkBrush(ground)
