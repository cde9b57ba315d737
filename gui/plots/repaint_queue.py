"""Charts take turns to redraw, so that no turn of the event loop pays for more than one."""

from collections import OrderedDict
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

TURN_MS = 25
"""With four charts each comes round every 100 ms, ten times a second, however often it asks."""


class Redrawn(Protocol):
    """What can stand in the queue."""

    def redraw(self) -> None:
        """Bring the picture up to date."""

    def is_shown(self) -> bool:
        """Whether anyone could see it."""


class RepaintQueue(QObject):
    """Redraws whoever asked, one each turn, in the order of asking.

    Who is hidden when its turn comes is passed over: it asks again when it is shown.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: OrderedDict[Redrawn, None] = OrderedDict()
        self._turn = QTimer(self)
        self._turn.setInterval(TURN_MS)
        self._turn.timeout.connect(self._take_turn)

    def request(self, chart: Redrawn) -> None:
        """Ask for `chart` to be redrawn soon; asking twice is asking once."""
        self._waiting[chart] = None
        if not self._turn.isActive():
            self._turn.start()

    def drop(self, chart: Redrawn) -> None:
        """Forget a chart that is going away."""
        self._waiting.pop(chart, None)

    def _take_turn(self) -> None:
        while self._waiting:
            chart, _ = self._waiting.popitem(last=False)
            if chart.is_shown():
                chart.redraw()
                return
        self._turn.stop()
