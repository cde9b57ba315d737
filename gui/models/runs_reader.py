"""Reads the list of runs away from the window."""

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from core.run_folder import RunFolder
from core.run_summary import RunSummary, summarize
from core.runs import list_runs


@dataclass(frozen=True)
class _Stamp:
    """When a run's files were last written; a run that is over and has the same stamp needn't be read again."""

    events: int
    options: int

    @classmethod
    def of(cls, run: RunFolder) -> "_Stamp":
        return cls(_written(run.events_file), _written(run.options_file))


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class RunsReader(QThread):
    """Reads all runs of a folder once each time it is started.

    Signals:
        runs_read: A list of `core.run_summary.RunSummary`.
        reading_failed: The `OSError` that stands between the folder and its list.
    """

    runs_read = Signal(object)
    reading_failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = Path()
        self._known: dict[Path, tuple[_Stamp, RunSummary]] = {}

    def read(self, folder: Path) -> None:
        """Start reading; nothing happens where it is reading already."""
        if not self.isRunning():
            self._folder = folder
            self.start()

    def stop(self) -> None:
        """Give up after the run at hand, a matter of milliseconds."""
        self.requestInterruption()
        self.wait()

    def run(self) -> None:
        """What the thread does. Call `read`."""
        try:
            runs = list_runs(self._folder)
        except OSError as error:
            self.reading_failed.emit(error)
            return
        found = []
        for run in runs:
            if self.isInterruptionRequested():
                return
            found.append(self._summary(run))
        self.runs_read.emit(found)

    def _summary(self, run: RunFolder) -> RunSummary:
        stamp = _Stamp.of(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == stamp and known[1].state.is_over:
            return known[1]
        summary = summarize(run)
        self._known[run.path] = (stamp, summary)
        return summary
