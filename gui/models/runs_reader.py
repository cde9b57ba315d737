"""Reads the list of runs away from the window."""

import time
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from core import run_notes
from core.run_folder import RunFolder
from core.run_sizes import RunSizes
from core.run_summary import RunSummary, summarize
from core.runs import list_runs
from gui.left_work import wait_briefly

FIRST_SECONDS = 0.1
"""So soon the window is told of the newest runs, which fill what can be seen."""

TELL_SECONDS = 0.5
"""So often it is told of the others."""

SIZES_AT_ONCE = 100
"""More rows than these would take a turn of the window that is felt."""

COUNTING_SECONDS = 2.0
"""For so long sizes are counted at most before the list is read again; the rest follows then."""


@dataclass(frozen=True)
class _Stamp:
    """When a run's files were last written; a run that is over and has the same stamp needn't be read again."""

    events: int
    options: int
    notes: int
    keeper: int

    @classmethod
    def of(cls, run: RunFolder) -> "_Stamp":
        files = (run.events_file, run.options_file, run.path / run_notes.FILE, run.keeper_file)
        return cls(*map(_written, files))


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class RunsReader(QThread):
    """Reads all runs of a folder once each time it is started, the newest first, then counts what they take on disk.

    Signals:
        some_read: A list of `core.run_summary.RunSummary`: those that are new or have changed, as they are found.
        runs_read: All of them.
        sizes_counted: Bytes by the folders of runs, as they are counted.
        reading_failed: The `OSError` that stands between the folder and its list.
    """

    some_read = Signal(object)
    runs_read = Signal(object)
    sizes_counted = Signal(object)
    reading_failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = Path()
        self._known: dict[Path, tuple[_Stamp, RunSummary]] = {}
        self._sizes = RunSizes()
        self._counted: set[Path] = set()

    def read(self, folder: Path) -> None:
        """Start reading; nothing happens where it is reading already."""
        if not self.isRunning():
            self._folder = folder
            self.start()

    def stop(self) -> None:
        """Give up after the run at hand, a matter of milliseconds."""
        self.requestInterruption()
        wait_briefly(self)

    def run(self) -> None:
        """What the thread does. Call `read`."""
        try:
            runs = list_runs(self._folder)
        except OSError as error:
            self.reading_failed.emit(error)
            return
        if self._read(runs):
            self._count(runs)

    def _read(self, runs: list[RunFolder]) -> bool:
        """Sum up all runs; returns whether nobody has interrupted that."""
        found, piece = [], []
        tell_next = time.monotonic() + FIRST_SECONDS
        for run in runs:
            if self.isInterruptionRequested():
                return False
            before = self._known.get(run.path)
            found.append(self._summary(run))
            if before is None or before[1] is not found[-1]:
                piece.append(found[-1])
            if piece and time.monotonic() > tell_next:
                self.some_read.emit(piece)
                piece, tell_next = [], time.monotonic() + TELL_SECONDS
        self.runs_read.emit(found)
        return True

    def _count(self, runs: list[RunFolder]) -> None:
        """Count the bytes of all runs, or of as many as there is time for."""
        counted: dict[Path, int] = {}
        begun = told = time.monotonic()
        for run in sorted(runs, key=lambda run: run.path in self._counted):
            if self.isInterruptionRequested() or time.monotonic() - begun > COUNTING_SECONDS:
                break
            counted[run.path] = self._sizes.of(run)
            self._counted.add(run.path)
            if len(counted) >= SIZES_AT_ONCE or time.monotonic() - told > TELL_SECONDS:
                self.sizes_counted.emit(counted)
                counted, told = {}, time.monotonic()
        self.sizes_counted.emit(counted)

    def _summary(self, run: RunFolder) -> RunSummary:
        stamp = _Stamp.of(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == stamp and known[1].state.is_over:
            return known[1]
        summary = summarize(run)
        self._known[run.path] = (stamp, summary)
        return summary
