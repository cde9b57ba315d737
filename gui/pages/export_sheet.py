"""The sheet "Export": what a run's model is to become, and where; how far it is; whether it still answers the same."""

from pathlib import Path

from PySide6.QtCore import Qt, QThread
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.errors import OptionsError, UserError
from core.events import Level
from core.export_job import Export, Wanted
from core.exporting import ExportKind, ExportReport
from core.jobs import JobProgress
from core.run_folder import RunFolder
from gui.files import reveal
from gui.numbers import count
from gui.pages.export_kinds import ExportKinds
from gui.pages.export_place import ExportPlace
from gui.pages.export_words import result_words
from gui.pages.export_work import Exporting, FindOffers, MakeExport, Reading, find_offers
from gui.theme import SPACING
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.form_row import sentence
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role

SIZE = (700, 690)


class ExportSheet(QDialog):
    """Exports one run's model as often as is wanted; closing it ends what is under way, and leaves nothing of it.

    Args:
        run: The run.
        title: What it is called.
        parent: Qt's parent.
        make: Makes an export.
        find: Reads what the model can become.
    """

    def __init__(
        self,
        run: RunFolder,
        title: str,
        parent: QWidget | None = None,
        *,
        make: MakeExport = Export,
        find: FindOffers = find_offers,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Export {run}").format(run=title))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._run, self._make = run, make
        self._work: Exporting | None = None
        self._report: ExportReport | None = None
        self.kinds = ExportKinds()
        self.place = ExportPlace(run.name)
        self.strip = MessageStrip()
        self.strip.hide()
        self._status = QLabel()
        set_role(self._status, Role.MUTED)
        self._bar = QProgressBar()
        self._bar.setAccessibleName(self.tr("Exporting"))
        self.take = QPushButton(self.tr("Export"))
        set_role(self.take, Role.PRIMARY)
        self.show_folder = QPushButton(self.tr("Show the folder"))
        self.stop = QPushButton(self.tr("Cancel"))
        self._lay_out()
        self._connect()
        self._reading = Reading(run, find, self)
        self._reading.finished.connect(self._show_offers)
        self._reading.start(QThread.Priority.LowPriority)
        self._refresh()

    @property
    def is_running(self) -> bool:
        """Whether an export is under way."""
        return self._work is not None

    @property
    def status(self) -> str:
        """What is being done."""
        return self._status.text()

    def done(self, result: int) -> None:
        """End what is under way, and close."""
        self._reading.wait()
        if self._work is not None:
            self._work.cancel()
            self._work.wait()
        super().done(result)

    def _show_offers(self) -> None:
        if self._reading.failure is not None:
            self.strip.show_error(self._reading.failure)
        elif self._reading.step is not None:
            self.strip.show_message(
                Level.INFO,
                self.tr("Its checkpoint of step {} is exported").format(count(self._reading.step)),
                self.tr("The run has not ended since, so that no newer model was written."),
            )
        self.kinds.show_offers(self._reading.offers)
        self.kinds.setFocus()
        self._refresh()

    def _show_kind(self, kind: ExportKind) -> None:
        self.place.show_kind(kind)
        self.take.setText(self.tr("Export and send") if kind is ExportKind.HUB else self.tr("Export"))

    def _begin(self) -> None:
        kind = self.kinds.chosen
        if kind is None or self._work is not None:
            return
        place = self.place
        wanted = Wanted(
            run=str(self._run.path),
            kind=kind,
            folder=place.folder,
            repo=place.repo,
            private=place.is_private,
            numbers=place.numbers,
        )
        self.strip.hide()
        self._report = None
        self._work = Exporting(self._make(wanted), self)
        self._work.progressed.connect(self._show_progress)
        self._work.finished.connect(self._settle)
        self._status.setText(self.tr("Starting…"))
        self._bar.setRange(0, 0)
        self._refresh()
        self._work.start(QThread.Priority.LowPriority)

    def _cancel(self) -> None:
        if self._work is not None:
            self._status.setText(self.tr("Cancelling…"))
            self._work.cancel()

    def _show_progress(self, progress: JobProgress) -> None:
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)
        self._status.setText(f"{progress.what}…")

    def _settle(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        if work.failure is not None:
            self._show_failure(work.failure)
        elif work.report is not None:
            self._report = work.report
            self.place.propose_anew()
            title, detail = result_words(work.report)
            self.strip.show_message(Level.WARNING if work.report.missing else Level.INFO, title, detail)
        else:
            self.strip.show_message(
                Level.INFO, self.tr("It was cancelled"), self.tr("Nothing of it is left.")
            )
        work.deleteLater()
        self._refresh()

    def _show_failure(self, failure: UserError) -> None:
        if isinstance(failure, OptionsError):
            said = sentence(" ".join(problem.message for problem in failure.problems))
            self.strip.show_message(Level.ERROR, self.tr("It can't be exported there"), said)
        else:
            self.strip.show_error(failure)

    def _refresh(self) -> None:
        is_running = self._work is not None
        self.kinds.setEnabled(not is_running)
        self.place.setEnabled(not is_running)
        self._status.setVisible(is_running)
        self._bar.setVisible(is_running)
        self.stop.setVisible(is_running)
        self.place.setVisible(self.kinds.chosen is not None)
        self.take.setEnabled(not is_running and self.kinds.chosen is not None)
        is_here = self._report is not None and Path(self._report.path).is_absolute()
        self.show_folder.setVisible(is_here)

    def _reveal(self) -> None:
        error = reveal(Path(self._report.path)) if self._report is not None else None
        if error is not None:
            self.strip.show_error(error)

    def _choose_folder(self) -> None:
        beside = str(Path(self.place.folder or Path.home()).expanduser().parent)
        chosen = QFileDialog.getExistingDirectory(self, self.tr("Export into a folder in"), beside)
        if chosen:
            self.place.put_into(Path(chosen))

    def _connect(self) -> None:
        self.kinds.chosen_changed.connect(self._show_kind)
        self.place.choose_pressed.connect(self._choose_folder)
        self.take.clicked.connect(self._begin)
        self.stop.clicked.connect(self._cancel)
        self.show_folder.clicked.connect(self._reveal)
        self._buttons.rejected.connect(self.reject)

    def _lay_out(self) -> None:
        words = QLabel(
            self.tr(
                "What other programs take. Each is held against the trained model on the same examples; one that "
                "answers otherwise is thrown away, with a word."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.MUTED)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._buttons.addButton(self.show_folder, QDialogButtonBox.ButtonRole.ActionRole)
        self._buttons.addButton(self.take, QDialogButtonBox.ButtonRole.ActionRole)
        self.take.setDefault(True)
        for button in (
            self.show_folder,
            self.stop,
            self._buttons.button(QDialogButtonBox.StandardButton.Close),
        ):
            button.setAutoDefault(False)
        content = QWidget()
        inside = QVBoxLayout(content)
        inside.setContentsMargins(0, 0, SPACING, 0)
        inside.addWidget(self.kinds)
        inside.addStretch(1)
        told = QHBoxLayout()
        told.setSpacing(SPACING)
        told.addWidget(self._status)
        told.addWidget(self._bar, 1)
        told.addWidget(self.stop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(PageScroll(content), 1)
        layout.addWidget(self.place)
        layout.addLayout(told)
        layout.addWidget(self.strip)
        layout.addWidget(self._buttons)
