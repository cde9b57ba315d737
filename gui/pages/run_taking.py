"""Takes a run elsewhere from its page: as a Python script, as a page to read, as a file for somebody who helps."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, QThread, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from core.errors import UserError
from core.events import Level, MessageRaised
from core.run_folder import RunFolder
from core.script import script_of_run
from gui.engine_work import EngineWork
from gui.left_work import leave
from gui.pages.run_taking_work import Reporting, Scripting, WriteScript
from gui.pages.support_sheet import SupportSheet

ChoosePlace = Callable[[QWidget, str, str, str], str]
"""Asks for a file to write to, given a title, a place to begin with, and the kinds; empty: none was chosen."""
OpenFile = Callable[[QUrl], object]


def choose_place(parent: QWidget, title: str, place: str, kinds: str) -> str:
    """Ask in the system's own dialog."""
    return QFileDialog.getSaveFileName(parent, title, place, kinds)[0]


class RunTaking(QObject):
    """Does what three entries of the page's menu ask for, one at a time.

    Signals:
        told: A `core.events.MessageRaised` about it, or None where there is nothing more to say.

    Args:
        run: The run.
        view: The page, over which dialogs open.
        choose: Asks for a place.
        open_file: Shows a file in the program that is for it.
        write_script: Writes the script.
    """

    told = Signal(object)

    def __init__(
        self,
        run: RunFolder,
        view: QWidget,
        *,
        choose: ChoosePlace = choose_place,
        open_file: OpenFile = QDesktopServices.openUrl,
        write_script: WriteScript = script_of_run,
    ) -> None:
        super().__init__(view)
        self._run, self._view = run, view
        self._choose, self._open, self._write_script = choose, open_file, write_script
        self._work: EngineWork | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being made."""
        return self._work is not None

    def copy_script(self) -> None:
        """Put the run as a Python script on the clipboard."""
        if self.is_busy:
            return
        self._tell(self.tr("Writing the script…"), self.tr("Its data is looked at once more."))
        work = Scripting(self._run, self, self._write_script)
        self._begin(work, lambda: self._copied(work))

    def save_report(self) -> None:
        """Save the page that tells of the run where the person likes, and open it."""
        if self.is_busy:
            return
        kinds = self.tr("Web page (*.html)")
        place = self._choose(self._view, self.tr("Save a report"), f"{beginning(self._run)}.html", kinds)
        if place:
            path = Path(place) if Path(place).suffix.lower() in (".html", ".htm") else Path(f"{place}.html")
            self._tell(self.tr("Writing the report…"), "")
            work = Reporting(self._run, path, self)
            self._begin(work, lambda: self._reported(work.path))

    def show_support(self) -> None:
        """Show what a support file would hold."""
        SupportSheet(self._run, beginning(self._run), self._view, choose=self._choose).open()

    def leave_work(self) -> None:
        """The page goes: a script is given up, files are written to their end out of sight. Returns at once."""
        for sheet in self._view.findChildren(SupportSheet):
            sheet.leave_work()
        if self._work is not None:
            if isinstance(self._work, Scripting):
                self._work.cancel()
            leave(self._work)
            self._work = None

    def _begin(self, work: EngineWork, then: Callable[[], None]) -> None:
        self._work = work
        work.finished.connect(lambda: self._end(work, then))
        work.start(QThread.Priority.LowPriority)

    def _end(self, work: EngineWork, then: Callable[[], None]) -> None:
        if self._work is not work:
            return
        self._work = None
        work.deleteLater()
        if work.failure is not None:
            self._warn(work.failure)
        elif not work.cancelled:
            then()

    def _copied(self, work: Scripting) -> None:
        QGuiApplication.clipboard().setText(work.text)
        lines = work.text.count("\n")
        self._tell(
            self.tr("The script is on the clipboard"),
            self.tr(
                "{} lines, without Hone: paste them into a file that ends in .py. At its top stands what it takes, and "
                "what differs from Hone."
            ).format(f"{lines:,}"),
        )

    def _reported(self, path: Path) -> None:
        self._tell(self.tr("The report is saved"), self.tr("{} shows examples of your data.").format(path))
        self._open(QUrl.fromLocalFile(str(path)))

    def _tell(self, title: str, detail: str) -> None:
        self.told.emit(MessageRaised(id="taken", level=Level.INFO, title=title, detail=detail))

    def _warn(self, error: UserError) -> None:
        self.told.emit(
            MessageRaised(
                id="not-taken", level=Level.WARNING, title=error.title, detail=error.detail, fixes=error.fixes
            )
        )


def beginning(run: RunFolder) -> str:
    """A path to offer for a file about a run, without its ending: in the person's documents."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    return str(Path(folder) / run.name)
