"""Taking a run elsewhere: as a Python script, as a report to read, as a support file."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication, QTextOption
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
from core.base.formats import memory
from core.base.language import _
from core.runs.events import Level, MessageRaised
from core.runs.folder import RunFolder
from core.sharing import support
from core.sharing.report import save_report
from core.sharing.script import Ask, script_of_run
from core.sharing.support import SupportFile
from gui.base.background import Call, Task
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import MessageStrip
from gui.widgets.layout import fill

WriteScript = Callable[[RunFolder, Ask], str]
"""Writes a run as a script, as `core.sharing.script.script_of_run` does."""

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
        self._found: tuple[SupportFile, ...] = ()
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
        self._collecting: Task[tuple[SupportFile, ...]] = Task(self)
        self._collecting.done.connect(self._show_files)
        self._collecting.failed.connect(self.strip.show_error)
        self._saving: Task[None] = Task(self)
        self._saving.done.connect(self.accept)
        self._saving.failed.connect(self._show_failure)
        self.note.setText(_("Reading the files…"))
        self._collecting.start(lambda _call: support.collect(run))

    def _show_files(self, files: tuple[SupportFile, ...]) -> None:
        self._found = files
        for file in files:
            shown = QListWidgetItem(_("{}  {}").format(file.name, memory(len(file.text.encode()))))
            shown.setToolTip(file.note)
            self.files.addItem(shown)
        self.files.setCurrentRow(0)
        self.files.setFocus()
        self.save.setEnabled(True)

    def _show_file(self, row: int) -> None:
        if row >= 0:
            file = self._found[row]
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
        files = self._found
        self._saving.start(lambda _call: support.save(files, path))

    def _show_failure(self, failure: UserError) -> None:
        self.strip.show_error(failure)
        self.save.setEnabled(True)

    def _lay_out(self) -> None:
        title = QLabel(_("Look through it before you hand it on"))
        set_role(title, Role.PAGE_TITLE)
        words = QLabel(support.WORDS)
        words.setWordWrap(True)
        right = fill(QVBoxLayout(), self.note, (self.text, 1), spacing=SPACING)
        both = fill(QHBoxLayout(), self.files, (right, 1), spacing=2 * SPACING)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self.save, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.rejected.connect(self.reject)
        fill(
            QVBoxLayout(self),
            title,
            words,
            self.strip,
            (both, 1),
            buttons,
            margins=(3 * SPACING, 2 * SPACING + 2, 3 * SPACING, 2 * SPACING),
            spacing=SPACING + 4,
        )


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
        self._script: Task[str] = Task(self)
        self._script.done.connect(self._copied)
        self._report: Task[Path] = Task(self)
        self._report.done.connect(self._reported)
        for task in (self._script, self._report):
            task.failed.connect(self._warn)

    @property
    def is_busy(self) -> bool:
        """Whether something is being made."""
        return self._script.is_running or self._report.is_running

    def copy_script(self) -> None:
        """Put the run as a Python script on the clipboard."""
        if not self.is_busy:
            self._tell(_("Writing the script…"), _("Its data is looked at once more."))
            self._script.start(lambda call: self._write_script(self._run, call.ask))

    def save_report(self) -> None:
        """Save the page that tells of the run where the person likes, and open it."""
        if self.is_busy:
            return
        kinds = _("Web page (*.html)")
        place = self._choose(self._view, _("Save a report"), f"{beginning(self._run)}.html", kinds)
        if place:
            path = Path(place) if Path(place).suffix.lower() in (".html", ".htm") else Path(f"{place}.html")
            self._tell(_("Writing the report…"), "")
            run = self._run

            def write(_call: Call) -> Path:
                save_report(run, path)
                return path

            self._report.start(write)

    def show_support(self) -> None:
        """Show what a support file would hold."""
        SupportSheet(self._run, beginning(self._run), self._view, choose=self._choose).open()

    def leave_work(self) -> None:
        """The page goes: a script is given up, files are written to their end out of sight. Returns at once."""
        self._script.cancel()

    def _copied(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._tell(
            _("The script is on the clipboard"),
            _(
                "{} lines, without Hone: paste them into a file that ends in .py. At its top stands what it takes, and "
                "what differs from Hone."
            ).format(f"{text.count(chr(10)):,}"),
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
