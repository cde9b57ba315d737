"""A result as a picture for a document: its heading, the machine, the charts and the table, at twice the pixels."""

from collections.abc import Callable
from gettext import gettext as _
from pathlib import Path

import msgspec
from PySide6.QtCore import QBuffer, QIODevice, QPoint, QStandardPaths, Qt, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.files import write_atomically, writing
from core.benchmark import result as kept
from core.benchmark.plan import Kind
from core.benchmark.result import Result
from core.benchmark.table import csv, markdown
from core.runs.events import Level
from gui.base.background import FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.benchmark.devices import DevicesView
from gui.benchmark.methods import MethodsView
from gui.benchmark.results import machine_words
from gui.run.share import ChoosePlace, choose_place
from gui.widgets.cards import MessageStrip

# --- A result as a picture for a document: its heading, the machine, the charts and the table


WIDTH = 1120
"""Pixels on screen: both charts stand side by side, and no column leaves."""

SCALE = 2
"""It ends up in documents, which are read on screens with small pixels, or printed."""

TURNS = 2
"""Qt lays a widget that was never shown out in so many turns: what wraps has its height after its width."""


def picture(result: Result, theme: Theme, *, published: bool = False) -> QPixmap:
    """Paint a result.

    Args:
        result: Which, finished or not.
        theme: The colours.
        published: Whether figures published by others stand beside.
    """
    sheet = _sheet(result, theme, published=published)
    height = sheet.heightForWidth(WIDTH) if sheet.hasHeightForWidth() else sheet.sizeHint().height()
    for _turn in range(TURNS):
        sheet.resize(WIDTH, height)
        sheet.grab()
        height = max(sheet.sizeHint().height(), sheet.heightForWidth(WIDTH))
    sheet.resize(WIDTH, height)
    image = QPixmap(sheet.size() * SCALE)
    image.setDevicePixelRatio(SCALE)
    sheet.render(image, QPoint())
    sheet.deleteLater()
    return image


def _sheet(result: Result, theme: Theme, *, published: bool) -> QWidget:
    """Everything one below the other, on a ground of the page's colour."""
    sheet = QWidget()
    set_role(sheet, Role.PAGE)
    sheet.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    title, where = QLabel(result.plan.title), QLabel(machine_words(result))
    set_role(title, Role.PAGE_TITLE)
    set_role(where, Role.MUTED)
    column = QVBoxLayout(sheet)
    column.setContentsMargins(*PAGE_MARGINS)
    column.setSpacing(SPACING)
    for label in (title, where):
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        column.addWidget(label)
    column.addSpacing(SPACING)
    column.addWidget(view_of(result, theme, published=published, is_picture=True))
    return sheet


def view_of(
    result: Result, theme: Theme, *, published: bool = False, is_picture: bool = False
) -> MethodsView | DevicesView:
    """The view that shows such a result, showing it as one that is over: nobody measures any more of it.

    Args:
        result: Which.
        theme: The colours.
        published: Whether figures published by others stand beside.
        is_picture: Whether nobody can press anything in it.
    """
    made = MethodsView if result.kind is Kind.METHODS else DevicesView
    view = made(theme, is_picture=is_picture)
    view.show_published(published)
    view.show_result(
        result if result.ended is not None else msgspec.structs.replace(result, ended=result.begun)
    )
    return view


# --- Takes a benchmark's result elsewhere: as Markdown on the clipboard, as a picture


PICTURE, TABLE, WHOLE = ".png", ".csv", ".json"


class BenchmarkSaving(QWidget):
    """Two buttons. Files are written in a thread; what can't be written is told.

    Signals:
        copied: The table is on the clipboard.
        saved: The `Path` that was written.
        failed: A `core.base.errors.UserError`.

    Args:
        theme: The colours of pictures.
        choose: Asks for a place.
        parent: Qt's parent.
    """

    copied = Signal()
    saved = Signal(object)
    failed = Signal(object)

    def __init__(
        self, theme: Theme, *, choose: ChoosePlace = choose_place, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme, self._choose = theme, choose
        self._result: Result | None = None
        self._published = False
        self._files = FileWork(self)
        self._files.failed.connect(self.failed)
        self.copy = QPushButton(_("Copy as Markdown"))
        self.copy.setToolTip(_("Put the table on the clipboard, to be pasted into a page or a message"))
        self.copy.clicked.connect(self.copy_table)
        self.save = QPushButton(_("Save…"))
        self.save.setToolTip(_("As a picture (PNG), a table (CSV), or all that was measured (JSON)"))
        self.save.clicked.connect(self.ask_place)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addWidget(self.copy)
        row.addWidget(self.save)
        self.show_result(None)

    def tell_in(self, strip: MessageStrip) -> None:
        """Say there what became of it."""
        copied, saved = _("The table is on the clipboard, as Markdown"), _("Saved")
        self.copied.connect(lambda: strip.show_message(Level.INFO, copied))
        self.saved.connect(lambda path: strip.show_message(Level.INFO, saved, str(path)))
        self.failed.connect(strip.show_error)

    def show_result(self, result: Result | None) -> None:
        """This is what is taken from now on; None, or one without any figure: nothing can be."""
        self._result = result
        has_figures = result is not None and any(row.is_measured for row in result.rows)
        for button in (self.copy, self.save):
            button.setEnabled(has_figures)

    def take_published(self, are_taken: bool) -> None:
        """Whether figures published by others are taken along."""
        self._published = are_taken

    def copy_table(self) -> None:
        """Put the table on the clipboard."""
        if self._result is not None:
            QGuiApplication.clipboard().setText(markdown(self._result, published=self._published))
            self.copied.emit()

    def ask_place(self) -> None:
        """Ask where to, and write there what the ending says."""
        if self._result is None:
            return
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        begins = str(Path(folder) / kept.path_of(self._result).with_suffix(PICTURE).name)
        kinds = ";;".join(
            (
                _("Picture (*.png)"),
                _("Table (*.csv)"),
                _("All that was measured (*.json)"),
            )
        )
        chosen = self._choose(self, _("Save the result"), begins, kinds)
        if chosen:
            path = Path(chosen)
            self.write(path if path.suffix.lower() in (PICTURE, TABLE, WHOLE) else Path(f"{path}{PICTURE}"))

    def write(self, path: Path) -> None:
        """Write the result into a file of the kind that its ending says; returns at once."""
        if self._result is not None:
            content = self._content(self._result, path.suffix.lower())
            self._files.put(lambda: _write(path, content()), self.saved.emit)

    def end_work(self) -> None:
        """Wait until every file that is being written is whole."""
        self._files.end_work()

    def _content(self, result: Result, ending: str) -> Callable[[], bytes]:
        """What makes the bytes, away from the window; only painting has to be done here."""
        if ending == PICTURE:
            image = picture(result, self._theme, published=self._published).toImage()
            return lambda: _png(image)
        return (lambda: csv(result).encode()) if ending == TABLE else (lambda: kept.written(result))


def _png(image: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def _write(path: Path, content: bytes) -> Path:
    with writing(path):
        write_atomically(path, content)
    return path
