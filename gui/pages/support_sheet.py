"""The sheet "Support file": every file it would hold, as it would be handed on, to look through before it is saved."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QThread
from PySide6.QtGui import QCloseEvent, QFontDatabase, QTextOption
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core import support
from core.run_folder import RunFolder
from gui.left_work import leave
from gui.numbers import memory
from gui.pages.run_taking_work import Collecting, Saving
from gui.theme import SPACING
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role

SIZE = (860, 600)
LIST_WIDTH = 190
SUFFIX = "-support.zip"


class SupportSheet(QDialog):
    """Reads a run's files, shows them redacted, and saves them as one zip.

    Args:
        run: The run.
        place: A path to offer, without its ending.
        parent: Qt's parent.
        choose: Asks for the file, as `gui.pages.run_taking.ChoosePlace` says.
    """

    def __init__(
        self, run: RunFolder, place: str, parent: QWidget, *, choose: Callable[[QWidget, str, str, str], str]
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Support file"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._place, self._choose = place, choose
        self._saving: Saving | None = None
        self._is_left = False
        self.files = QListWidget()
        self.files.setAccessibleName(self.tr("Files"))
        self.files.setFixedWidth(LIST_WIDTH)
        self.note = QLabel()
        self.note.setWordWrap(True)
        set_role(self.note, Role.MUTED)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(self.tr("Text of the file"))
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        set_role(self.text, Role.MONOSPACE)
        self.strip = MessageStrip()
        self.strip.hide()
        self.save = QPushButton(self.tr("Save…"))
        set_role(self.save, Role.PRIMARY)
        self.save.setEnabled(False)
        self._lay_out()
        self.files.currentRowChanged.connect(self._show_file)
        self.save.clicked.connect(self._ask_place)
        self._collecting = Collecting(run, self)
        self._collecting.finished.connect(self._show_files)
        self.note.setText(self.tr("Reading the files…"))
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
            shown = QListWidgetItem(self.tr("{}  {}").format(file.name, memory(len(file.text.encode()))))
            shown.setToolTip(file.note)
            self.files.addItem(shown)
        self.files.setCurrentRow(0)
        self.files.setFocus()
        self.save.setEnabled(True)

    def _show_file(self, row: int) -> None:
        if row >= 0:
            file = self._collecting.files[row]
            self.note.setText(file.note or self.tr("All of it, but for what is taken out of every file."))
            self.text.setPlainText(file.text)

    def _ask_place(self) -> None:
        place = self._choose(
            self, self.tr("Save the support file"), f"{self._place}{SUFFIX}", self.tr("Zip file (*.zip)")
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
        title = QLabel(self.tr("Look through it before you hand it on"))
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
