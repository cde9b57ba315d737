"""What all charts of a run share: where the cursor is, which stretch is looked at, and over what it is drawn."""

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, Signal

FOLLOWED_SHARE = 0.2
"""Share of the run that following its end shows where nobody has chosen a stretch."""

FOLLOWED_SECONDS = 60.0
"""Following shows at least so much."""


class XKind(StrEnum):
    """What the charts over training steps lie over."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"


class Smoothing(StrEnum):
    """How much a loss is smoothed."""

    OFF = "off"
    LIGHT = "light"
    STRONG = "strong"


@dataclass(frozen=True)
class Stretch:
    """A part of a run, in seconds since its start."""

    low: float
    high: float


class SharedView(QObject):
    """Cursor and zoom, both in seconds since the run's start: the one measure every chart can turn into its own.

    `follows` tells that the stretch moves along with the end of the run. Zooming lets go of the end.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cursor: float | None = None
        self.stretch: Stretch | None = None
        self.x_kind = XKind.STEP
        self.smoothing = Smoothing.LIGHT
        self.follows = False
        self._end = 0.0

    def point_at(self, clock: float | None) -> None:
        """Move the cursor; None takes it away."""
        if clock != self.cursor:
            self.cursor = clock
            self.changed.emit()

    def zoom_to(self, stretch: Stretch | None) -> None:
        """Look at one stretch only; None shows the whole run."""
        if stretch != self.stretch or self.follows:
            self.stretch, self.follows = stretch, False
            self.changed.emit()

    def follow(self, follows: bool) -> None:
        """Move along with the end of the run, showing as much of it as now; or stay where the view is."""
        if follows == self.follows:
            return
        self.follows = follows
        if follows:
            shown = self.stretch
            width = (
                max(FOLLOWED_SECONDS, FOLLOWED_SHARE * self._end) if shown is None else shown.high - shown.low
            )
            self._show_end(width)
        self.changed.emit()

    def advance(self, end: float) -> None:
        """The run has come to `end`, in seconds since its start. Tells nobody: charts are about to be redrawn."""
        self._end = end
        if self.follows and self.stretch is not None:
            self._show_end(self.stretch.high - self.stretch.low)

    def lie_over(self, kind: XKind) -> None:
        """Draw charts of training steps over steps, epochs or time."""
        if kind is not self.x_kind:
            self.x_kind = kind
            self.changed.emit()

    def smooth(self, smoothing: Smoothing) -> None:
        """Smooth losses by so much."""
        if smoothing is not self.smoothing:
            self.smoothing = smoothing
            self.changed.emit()

    def _show_end(self, width: float) -> None:
        low = max(
            0.0, self._end - width
        )  # a run that is shorter than what is shown has no time before its start
        self.stretch = Stretch(low, low + width)
