"""What can be done with a chart: copy it, save it, change its scale."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QBuffer, QIODevice, QPoint, QStandardPaths, Qt
from PySide6.QtGui import QAction, QGuiApplication, QPixmap
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QToolButton, QWidget

from core.errors import UserError
from core.files import write_atomically
from core.targets import writing
from gui.plots.chart_table import ChartData, TableWriter
from gui.widgets.question import show_as_written
from gui.widgets.roles import Role, set_role

SCALE = 2
"""Copied pictures have so many pixels for each on screen, at least: they end up in documents."""


class Pictured(Protocol):
    """A chart, as its menu sees it."""

    can_be_log: bool

    @property
    def title(self) -> str:
        """What it shows."""

    def set_log(self, is_log: bool) -> None:
        """Change that."""

    def picture(self, scale: float) -> QPixmap:
        """The chart as an image, without its button."""

    def data(self) -> ChartData:
        """The data that is shown."""

    def window(self) -> QWidget:
        """Where dialogs belong."""


class MenuButton(QToolButton):
    """Three dots at the end of a chart's heading; the chart's own menu opens at the mouse, too."""

    def __init__(self, chart: Pictured) -> None:
        super().__init__()
        self._chart = chart
        self._writers: list[TableWriter] = []
        set_role(self, Role.MORE)
        self.setText("⋯")
        self.setAccessibleName(self.tr("{}: copy, save, scale").format(chart.title))
        self.setToolTip(self.tr("Copy, save, scale"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        policy = self.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # or the legend would move while a picture is taken
        self.setSizePolicy(policy)
        self._menu = QMenu(self)
        self._add(self.tr("Copy image"), self.copy_image)
        self._add(self.tr("Save image…"), self._ask_image)
        self._add(self.tr("Save data as CSV…"), self._ask_table)
        self._menu.addSeparator()
        if chart.can_be_log:
            self.add_switch(self.tr("Logarithmic scale"), chart.set_log)
        self.setMenu(self._menu)

    def add_switch(self, words: str, switch: Callable[[bool], None]) -> None:
        """Offer something that is on or off."""
        action = QAction(words, self, checkable=True)
        action.toggled.connect(switch)
        self._menu.addAction(action)

    def pop_up(self, place: QPoint) -> None:
        """Open the menu there."""
        self._menu.popup(place)

    def copy_image(self) -> None:
        """Put the chart as it is on the clipboard."""
        QGuiApplication.clipboard().setPixmap(self._chart.picture(SCALE))

    def save_image(self, path: Path) -> None:
        """Write the chart as it is into a PNG file."""
        picture = QBuffer()
        picture.open(QIODevice.OpenModeFlag.WriteOnly)
        self._chart.picture(SCALE).save(picture, "PNG")
        try:
            with writing(path):
                write_atomically(path, bytes(picture.data().data()))
        except UserError as error:
            self._complain(error)

    def save_table(self, path: Path) -> None:
        """Write what the chart shows, every point of it, into a CSV file."""
        writer = TableWriter(self._chart.data(), path, self)
        writer.failed.connect(self._complain)
        self._writers = [*(other for other in self._writers if other.isRunning()), writer]
        writer.start()

    def end_work(self) -> None:
        """Wait until every file that is being written is whole."""
        for writer in self._writers:
            writer.wait()

    def _add(self, words: str, do: Callable[[], None]) -> None:
        self._menu.addAction(words).triggered.connect(do)

    def _ask_image(self) -> None:
        self._ask(self.tr("Save image"), ".png", self.tr("PNG images (*.png)"), self.save_image)

    def _ask_table(self) -> None:
        self._ask(self.tr("Save data"), ".csv", self.tr("CSV tables (*.csv)"), self.save_table)

    def _ask(self, title: str, ending: str, kinds: str, save: Callable[[Path], None]) -> None:
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        name = self._chart.title.lower().replace(" ", "-") + ending
        chosen, _ = QFileDialog.getSaveFileName(self._chart.window(), title, str(Path(folder) / name), kinds)
        if chosen:
            save(Path(chosen))

    def _complain(self, error: UserError) -> None:
        box = QMessageBox(QMessageBox.Icon.Warning, error.title, error.title, parent=self._chart.window())
        box.setInformativeText(error.detail)
        show_as_written(box)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()
