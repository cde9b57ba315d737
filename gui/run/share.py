"""The sheet "Support file": every file it would hold, as it would be handed on, to look through before it is saved."""

from collections.abc import Callable
from gettext import gettext as _
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Qt, QThread, QUrl, Signal
from PySide6.QtGui import QCloseEvent, QDesktopServices, QFontDatabase, QGuiApplication, QTextOption
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import UserError
from core.base.format import memory
from core.base.jobs import EngineJob, JobCancelled
from core.runs.events import Level, MessageRaised
from core.runs.folder import RunFolder
from core.sharing import support
from core.sharing.report import save_report
from core.sharing.script import Ask, script_of_run
from core.sharing.support import SupportFile
from gui.base.background import EngineWork, leave
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import MessageStrip

# --- What takes a while about taking a run elsewhere: asking the engine, reading long files


WriteScript = Callable[[RunFolder, Ask], str]
"""Writes a run as a script, as `core.sharing.script.script_of_run` does."""


class Scripting(EngineWork):
    """Writes the script of a run; `text` is it."""

    def __init__(self, run: RunFolder, parent: QObject, write: WriteScript = script_of_run) -> None:
        super().__init__(parent)
        self._run, self._write = run, write
        self._job: EngineJob | None = None
        self.text = ""

    def begin(self) -> None:
        """Each question starts its own process."""

    def work(self) -> None:
        """Ask what it takes, and write it."""
        self.text = self._write(self._run, self._ask)

    def _ask(self, name: str, request: bytes) -> bytes:
        with self._lock:
            if self.cancelled:
                raise JobCancelled(name)
            self._job = EngineJob(name)
        return self._job.ask(request)

    def kill(self) -> None:
        """End the question that is under way."""
        if self._job is not None:
            self._job.kill()


class _ByItself(EngineWork):
    """Work without an engine: files are read or written. It is over soon, and waited for."""

    def begin(self) -> None:
        """There is no process."""

    def kill(self) -> None:
        """There is none to end."""


class Reporting(_ByItself):
    """Saves the page of a run."""

    def __init__(self, run: RunFolder, path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._run, self.path = run, path

    def work(self) -> None:
        """Read the run, and write the page."""
        save_report(self._run, self.path)


class Collecting(_ByItself):
    """Reads and redacts what a support file is to hold; `files` is it."""

    def __init__(self, run: RunFolder, parent: QObject) -> None:
        super().__init__(parent)
        self._run = run
        self.files: tuple[SupportFile, ...] = ()

    def work(self) -> None:
        """Read and redact."""
        self.files = support.collect(self._run)


class Saving(_ByItself):
    """Saves a support file."""

    def __init__(self, files: tuple[SupportFile, ...], path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._files, self.path = files, path

    def work(self) -> None:
        """Write the zip."""
        support.save(self._files, self.path)


# --- The sheet "Support file": every file it would hold, as it would be handed on


SIZE = (860, 600)
LIST_WIDTH = 190
SUFFIX = "-support.zip"


class SupportSheet(QDialog):
    """Reads a run's files, shows them redacted, and saves them as one zip.

    Args:
        run: The run.
        place: A path to offer, without its ending.
        parent: Qt's parent.
        choose: Asks for the file, as `gui.run.share.ChoosePlace` says.
    """

    def __init__(
        self, run: RunFolder, place: str, parent: QWidget, *, choose: Callable[[QWidget, str, str, str], str]
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Support file"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._place, self._choose = place, choose
        self._saving: Saving | None = None
        self._is_left = False
        self.files = QListWidget()
        self.files.setAccessibleName(_("Files"))
        self.files.setFixedWidth(LIST_WIDTH)
        self.note = QLabel()
        self.note.setWordWrap(True)
        set_role(self.note, Role.MUTED)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(_("Text of the file"))
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        set_role(self.text, Role.MONOSPACE)
        self.strip = MessageStrip()
        self.strip.hide()
        self.save = QPushButton(_("Save…"))
        set_role(self.save, Role.PRIMARY)
        self.save.setEnabled(False)
        self._lay_out()
        self.files.currentRowChanged.connect(self._show_file)
        self.save.clicked.connect(self._ask_place)
        self._collecting = Collecting(run, self)
        self._collecting.finished.connect(self._show_files)
        self.note.setText(_("Reading the files…"))
        self._collecting.start(QThread.Priority.LowPriority)

    def done(self, result: int) -> None:
        """Close; files that are still being read or written are so out of sight, and nobody waits for them."""
        if self._is_busy:
            self._is_left = True
            self.hide()
        else:
            super().done(result)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Its threads have to end before it is gone."""
        super().closeEvent(event)
        if self._is_busy:
            event.ignore()

    def leave_work(self) -> None:
        """The page goes, and this sheet with it: what is being written is so to its end. Returns at once."""
        self.reject()
        leave(self._collecting)
        if self._saving is not None:
            leave(self._saving)

    @property
    def _is_busy(self) -> bool:
        return self._collecting.isRunning() or (self._saving is not None and self._saving.isRunning())

    def _show_files(self) -> None:
        if self._is_left:
            self.reject()
            return
        if self._collecting.failure is not None:
            self.strip.show_error(self._collecting.failure)
            return
        for file in self._collecting.files:
            shown = QListWidgetItem(_("{}  {}").format(file.name, memory(len(file.text.encode()))))
            shown.setToolTip(file.note)
            self.files.addItem(shown)
        self.files.setCurrentRow(0)
        self.files.setFocus()
        self.save.setEnabled(True)

    def _show_file(self, row: int) -> None:
        if row >= 0:
            file = self._collecting.files[row]
            self.note.setText(file.note or _("All of it, but for what is taken out of every file."))
            self.text.setPlainText(file.text)

    def _ask_place(self) -> None:
        place = self._choose(
            self, _("Save the support file"), f"{self._place}{SUFFIX}", _("Zip file (*.zip)")
        )
        if not place:
            return
        path = Path(place) if Path(place).suffix.lower() == ".zip" else Path(f"{place}.zip")
        self.save.setEnabled(False)
        self._saving = Saving(self._collecting.files, path, self)
        self._saving.finished.connect(self._show_saved)
        self._saving.start(QThread.Priority.LowPriority)

    def _show_saved(self) -> None:
        assert self._saving is not None, "it has just ended"
        failure = self._saving.failure
        if failure is None or self._is_left:
            self.accept()
            return
        self.strip.show_error(failure)
        self.save.setEnabled(True)

    def _lay_out(self) -> None:
        title = QLabel(_("Look through it before you hand it on"))
        set_role(title, Role.PAGE_TITLE)
        words = QLabel(support.WORDS)
        words.setWordWrap(True)
        right = QVBoxLayout()
        right.setSpacing(SPACING)
        right.addWidget(self.note)
        right.addWidget(self.text, 1)
        both = QHBoxLayout()
        both.setSpacing(2 * SPACING)
        both.addWidget(self.files)
        both.addLayout(right, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self.save, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3 * SPACING, 2 * SPACING + 2, 3 * SPACING, 2 * SPACING)
        layout.setSpacing(SPACING + 4)
        for widget in (title, words, self.strip):
            layout.addWidget(widget)
        layout.addLayout(both, 1)
        layout.addWidget(buttons)


# --- Takes a run elsewhere from its page: as a Python script, as a page to read


ChoosePlace = Callable[[QWidget, str, str, str], str]
"""Asks for a file to write to, given a title, a place to begin with, and the kinds; empty: none was chosen."""
OpenFile = Callable[[QUrl], object]


def choose_place(parent: QWidget, title: str, place: str, kinds: str) -> str:
    """Ask in the system's own dialog."""
    return QFileDialog.getSaveFileName(parent, title, place, kinds)[0]


class RunTaking(QObject):
    """Does what three entries of the page's menu ask for, one at a time.

    Signals:
        told: A `core.runs.events.MessageRaised` about it, or None where there is nothing more to say.

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
        self._tell(_("Writing the script…"), _("Its data is looked at once more."))
        work = Scripting(self._run, self, self._write_script)
        self._begin(work, lambda: self._copied(work))

    def save_report(self) -> None:
        """Save the page that tells of the run where the person likes, and open it."""
        if self.is_busy:
            return
        kinds = _("Web page (*.html)")
        place = self._choose(self._view, _("Save a report"), f"{beginning(self._run)}.html", kinds)
        if place:
            path = Path(place) if Path(place).suffix.lower() in (".html", ".htm") else Path(f"{place}.html")
            self._tell(_("Writing the report…"), "")
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
            _("The script is on the clipboard"),
            _(
                "{} lines, without Hone: paste them into a file that ends in .py. At its top stands what it takes, and "
                "what differs from Hone."
            ).format(f"{lines:,}"),
        )

    def _reported(self, path: Path) -> None:
        self._tell(_("The report is saved"), _("{} shows examples of your data.").format(path))
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
