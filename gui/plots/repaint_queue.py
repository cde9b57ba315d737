"""Charts take turns to redraw, so that no turn of the event loop pays for more than one."""

import math
import time
from collections import OrderedDict
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer

TURN_MS = 25
"""The least between two turns."""

HURRIED_TURN_MS = 12
"""The same while a person moves the mouse over a chart: eight charts follow ten times a second."""

HURRY_SECONDS = 0.5

PERIOD_SECONDS = 0.1
"""No chart is redrawn more often, however often it asks."""

SHARE = 0.07
"""Of a processor, what redrawing takes at most as long as nobody hurries."""

LONGEST_TURN_MS = 150

PAINTING = 2.0
"""Times as long as `redraw` itself takes all that follows from it: Qt paints what has changed afterwards."""


class Redrawn(Protocol):
    """What can stand in the queue."""

    def redraw(self) -> None:
        """Bring the picture up to date."""

    def is_shown(self) -> bool:
        """Whether anyone could see it."""


class RepaintQueue(QObject):
    """Redraws whoever asked, one each turn, in the order of asking.

    Who is hidden when its turn comes is passed over: it asks again when it is shown. What a redraw costs makes the next
    turn wait, so that a live run leaves the processor to the training.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: OrderedDict[Redrawn, None] = OrderedDict()
        self._drawn_at: dict[Redrawn, float] = {}
        self._hurried_until = time.monotonic() + HURRY_SECONDS  # a new page is looked at
        self._turn = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._turn.setInterval(TURN_MS)
        self._turn.timeout.connect(self._take_turn)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for its turn: what is shown is up to date."""
        return not self._waiting

    def request(self, chart: Redrawn) -> None:
        """Ask for `chart` to be redrawn soon; asking twice is asking once."""
        self._waiting[chart] = None
        if not self._turn.isActive():
            self._turn.start()

    def hurry(self) -> None:
        """Somebody waits for it: draw fast for a while, whatever it costs."""
        self._hurried_until = time.monotonic() + HURRY_SECONDS
        if self._turn.interval() > HURRIED_TURN_MS:
            self._turn.setInterval(HURRIED_TURN_MS)

    def _take_turn(self) -> None:
        began = time.monotonic()
        for chart in list(self._waiting):
            if began - self._drawn_at.get(chart, -math.inf) < PERIOD_SECONDS:
                continue
            del self._waiting[chart]
            if chart.is_shown():
                self._drawn_at[chart] = began
                before = time.thread_time()
                chart.redraw()
                self._rest(time.thread_time() - before)
                return
        if not self._waiting:
            self._turn.stop()

    def _rest(self, cost: float) -> None:
        """Let the next turn wait, by the seconds for which this one has kept a processor busy."""
        if time.monotonic() < self._hurried_until:
            wait = HURRIED_TURN_MS
        else:
            wait = min(LONGEST_TURN_MS, max(TURN_MS, round(1000 * PAINTING * cost / SHARE)))
        if wait != self._turn.interval():
            self._turn.setInterval(wait)
