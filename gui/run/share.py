"""Sharing a run: as a Python script, a report, a support file."""

from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFontDatabase, QTextOption
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QFileDialog,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QWidget,
)

from core.base.errors import UserError
from core.base.formats import memory
from core.base.language import _
from core.jobs.script import SCRIPT
from core.runs.events import Level, MessageRaised
from core.runs.folder import RunFolder
from core.sharing import support
from core.sharing.report import save_report
from core.sharing.script import save_script_of_run
from core.sharing.support import SupportFile
from gui.base.background import Call, EngineWork, FileWork
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import push_button, role_label, text_label
from gui.widgets.layout import Sheet, fill_dialog, hbox, vbox

SIZE = (860, 600)
LIST_WIDTH = 190
SUFFIX = "-support.zip"


class SupportSheet(Sheet):
    """Shows a run's files, redacted, and saves them as a zip file.

    Args:
        place: The proposed path, without its suffix.
    """

    def __init__(self, run: RunFolder, place: str, parent: QWidget) -> None:
        super().__init__(_("Support file"), parent)
        self.resize(*SIZE)
        self._place = place
        self._files: tuple[SupportFile, ...] = ()
        self.files = QListWidget()
        self.files.setAccessibleName(_("Files"))
        self.files.setFixedWidth(LIST_WIDTH)
        self.note = text_label(role=Role.MUTED)
        self.text = QPlainTextEdit(readOnly=True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(_("Text of the file"))
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        set_role(self.text, Role.MONOSPACE)
        self.strip = MessageStrip()
        self.save = push_button(_("Save…"), self._ask_place)
        self.save.setEnabled(False)
        self._lay_out()
        self.files.currentRowChanged.connect(self._show_file)
        self._work = FileWork(self)
        self._work.failed.connect(self._show_failure)
        self.note.setText(_("Reading the files…"))
        self._work.put(lambda: support.collect(run), self._show_files)

    def _show_files(self, files: tuple[SupportFile, ...]) -> None:
        self._files = files
        for file in files:
            shown = QListWidgetItem(f"{file.name}  {memory(len(file.text.encode()))}")
            shown.setToolTip(file.note)
            self.files.addItem(shown)
        self.files.setCurrentRow(0)
        self.files.setFocus()
        self.save.setEnabled(True)

    def _show_file(self, row: int) -> None:
        if row >= 0:
            file = self._files[row]
            self.note.setText(file.note or _("The whole file, redacted."))
            self.text.setPlainText(file.text)

    def _ask_place(self) -> None:
        title, filters = _("Save the support file"), _("Zip file (*.zip)")
        place, _filter = QFileDialog.getSaveFileName(self, title, f"{self._place}{SUFFIX}", filters)
        if not place:
            return
        path = Path(place) if Path(place).suffix.lower() == ".zip" else Path(f"{place}.zip")
        self.save.setEnabled(False)
        files = self._files
        self._work.put(lambda: support.save(files, path), lambda _: self.accept())

    def _show_failure(self, failure: UserError) -> None:
        self.strip.show_error(failure)
        self.save.setEnabled(bool(self._files))

    def _lay_out(self) -> None:
        title = role_label(Role.PAGE_TITLE, _("Review it before you share it"))
        right = vbox(self.note, (self.text, 1))
        both = hbox(self.files, (right, 1), spacing=2 * SPACING)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.save)
        fill_dialog(self, title, text_label(support.WORDS), self.strip, (both, 1), buttons)


class RunSharing(QObject):
    """Writes the script, the report and the support file, one at a time."""

    reported = Signal(object)  # a `core.runs.events.MessageRaised` about it

    def __init__(self, run: RunFolder, view: QWidget) -> None:
        super().__init__(view)
        self._run, self._view = run, view
        self._script: EngineWork[Path] = EngineWork(self, done=self._on_script, failed=self._on_error)
        self._report = FileWork(self)
        self._report.failed.connect(self._on_error)

    @property
    def is_busy(self) -> bool:
        return self._script.is_running or self._report.is_running

    def save_script(self) -> None:
        """Save the script and its examples in a new folder where the person likes, and open it."""
        if self.is_busy:
            return
        title, proposed = _("Save as a Python script, in a new folder"), f"{proposed_path(self._run)}-script"
        place, _filter = QFileDialog.getSaveFileName(self._view, title, proposed)
        if place:
            self._notify(_("Writing the script…"), _("Its data is read once more."))
            run, folder = self._run, Path(place)

            def write(call: Call) -> Path:
                save_script_of_run(run, folder, call.ask)
                return folder

            self._script.start(write)

    def save_report(self) -> None:
        """Save the report where the person likes, and open it."""
        if self.is_busy:
            return
        title, filters = _("Save a report"), _("Web page (*.html)")
        proposed = f"{proposed_path(self._run)}.html"
        place, _filter = QFileDialog.getSaveFileName(self._view, title, proposed, filters)
        if place:
            path = Path(place) if Path(place).suffix.lower() in (".html", ".htm") else Path(f"{place}.html")
            self._notify(_("Writing the report…"), "")
            run = self._run

            self._report.put(lambda: save_report(run, path), lambda _: self._on_report(path))

    def show_support(self) -> None:
        SupportSheet(self._run, proposed_path(self._run), self._view).open()

    def close(self) -> None:
        """Cancel the script; files are still written in the background."""
        self._script.cancel()

    def _on_script(self, folder: Path) -> None:
        detail = _(
            "{path} runs without Hone; the examples are beside it. Its first lines name the packages it needs, "
            "and what differs from Hone."
        )
        self._notify(_("The script is saved"), detail.format(path=folder / SCRIPT))
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    def _on_report(self, path: Path) -> None:
        self._notify(_("The report is saved"), _("{path} shows examples of your data.").format(path=path))
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))

    def _notify(self, title: str, detail: str) -> None:
        self.reported.emit(MessageRaised(id="shared", level=Level.INFO, title=title, detail=detail))

    def _on_error(self, error: UserError) -> None:
        message = MessageRaised(
            id="not-shared", level=Level.WARNING, title=error.title, detail=error.detail, fixes=error.fixes
        )
        self.reported.emit(message)


def proposed_path(run: RunFolder) -> str:
    """A path in the documents folder, without suffix."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    return str(Path(folder) / run.name)
