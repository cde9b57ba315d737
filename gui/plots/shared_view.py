"""What all charts of a run share: where the cursor is and which stretch of the run is looked at."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class Stretch:
    """A part of a run, in seconds since its start."""

    low: float
    high: float


class SharedView(QObject):
    """Cursor and zoom, both in seconds since the run's start: the one measure every chart can turn into its own."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cursor: float | None = None
        self.stretch: Stretch | None = None

    def point_at(self, clock: float | None) -> None:
        """Move the cursor; None takes it away."""
        if clock != self.cursor:
            self.cursor = clock
            self.changed.emit()

    def zoom_to(self, stretch: Stretch | None) -> None:
        """Look at one stretch only; None shows the whole run."""
        if stretch != self.stretch:
            self.stretch = stretch
            self.changed.emit()
