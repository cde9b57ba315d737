"""Opening the sheets of the Hub from the form, and putting what is chosen there into it."""

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from core.hub_download import Download
from core.hub_questions import Kind
from core.sources import Scheme
from gui.engine_question import Ask
from gui.form import Form
from gui.pages.hub_sheet import HubSheet
from gui.pages.hub_transfer import MakeTransfer


class HubOpening(QObject):
    """Holds the sheet while it is open.

    Args:
        form: Where the model is chosen.
        ask: Starts an engine job.
        parent: Above which the sheet opens.
        make: Makes what downloads.
    """

    def __init__(self, form: Form, ask: Ask, parent: QWidget, make: MakeTransfer = Download) -> None:
        super().__init__(parent)
        self._form = form
        self._ask = ask
        self._make = make
        self.sheet: HubSheet | None = None

    def open(self) -> None:
        """Open the sheet of models for the task of the form."""
        self._open(Kind.MODEL)

    def open_data(self) -> None:
        """Open the sheet of data sets."""
        self._open(Kind.DATASET)

    def _open(self, kind: Kind) -> None:
        task = self._form.task
        above = self.parent()  # asked for, not kept: the page holds this
        assert isinstance(above, QWidget)
        sheet = HubSheet(self._ask, above, task=task.value, task_title=task.label, kind=kind, make=self._make)
        sheet.chosen.connect(self._use if kind is Kind.MODEL else self._use_data)
        sheet.finished.connect(self._forget)
        self.sheet = sheet
        sheet.open()

    def close(self) -> None:
        """Close the sheet, should it be open; what it downloads is paused."""
        if self.sheet is not None:
            self.sheet.reject()

    def _use(self, name: str) -> None:
        self._form.set_values({"model.source": name})

    def _use_data(self, name: str) -> None:
        self._form.set_values({"data.train": Scheme.HUB.of(name)})

    def _forget(self) -> None:
        self.sheet = None
