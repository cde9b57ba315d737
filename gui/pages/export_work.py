"""The threads of an export: one reads what a run's model can become, the other waits for the export."""

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from core.export_job import Wanted
from core.export_offers import Offer, find_source, offers
from core.exporting import ExportReport
from core.jobs import JobProgress, TellProgress
from core.run_folder import RunFolder
from core.trained_model import trained_model
from gui.engine_work import EngineWork


class Exporter(Protocol):
    """One export; `core.export_job.Export` is the real one."""

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export, waiting until it is done."""

    def kill(self) -> None:
        """End it at once."""


MakeExport = Callable[[Wanted], Exporter]
FindOffers = Callable[[RunFolder], tuple[Offer, ...]]


def find_offers(run: RunFolder) -> tuple[Offer, ...]:
    """What a run's model can become; see `core.export_offers.find_source` for what it raises."""
    return offers(find_source(run))


class Reading(EngineWork):
    """Reads what a run's model can become; `step` is that of the checkpoint which is taken in its place."""

    def __init__(self, run: RunFolder, find: FindOffers, parent: QObject) -> None:
        super().__init__(parent)
        self._run, self._find = run, find
        self.offers: tuple[Offer, ...] = ()
        self.step: int | None = None

    def begin(self) -> None:
        """Nothing is started."""

    def work(self) -> None:
        """Read."""
        self.offers = self._find(self._run)
        newest = trained_model(self._run)
        if newest is not None and newest.is_checkpoint:
            self.step = newest.step

    def kill(self) -> None:
        """Small files are read to their end."""


class Exporting(EngineWork):
    """Waits for one export.

    Signals:
        progressed: A `core.reports.JobProgress`.
    """

    progressed = Signal(object)

    def __init__(self, exporter: Exporter, parent: QObject) -> None:
        super().__init__(parent)
        self._exporter = exporter
        self.report: ExportReport | None = None

    def begin(self) -> None:
        """It starts its processes itself."""

    def work(self) -> None:
        """Wait for it."""
        self.report = self._exporter.run(self._tell)

    def kill(self) -> None:
        """End it; what it has written goes with it."""
        self._exporter.kill()

    def _tell(self, progress: JobProgress) -> None:
        self.progressed.emit(progress)
