"""The names of the runs that are compared, each with the colour of its curves; a press hides them."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QPushButton, QWidget

from gui.theme import SPACING, Theme
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.plain_tip import tip_of

LETTERS = 32
"""A longer name is cut; its tip has all of it."""

TAIL = 16

DOT_PIXELS = 16


class CompareNames(QWidget):
    """A button a run, in as many lines as they need.

    Signals:
        changed: Another set of runs is to be shown.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._buttons: list[QPushButton] = []
        self._row = FlowLayout(SPACING, SPACING, self)
        theme.changed.connect(self._paint)

    @property
    def colours(self) -> list[str]:
        """The field of `gui.theme.Tokens` for each run."""
        return [colour_of(place) for place in range(len(self._buttons))]

    @property
    def shown(self) -> list[bool]:
        """Whether each run is to be drawn."""
        return [button.isChecked() for button in self._buttons]

    @property
    def buttons(self) -> list[QPushButton]:
        """The buttons, one a run."""
        return self._buttons

    def show_names(self, names: Sequence[str]) -> None:
        """Name the runs. Those hidden stay so where there are as many as before."""
        if len(names) != len(self._buttons):
            self._make(len(names))
        for button, name in zip(self._buttons, names, strict=True):
            button.setText(cut(name).replace("&", "&&"))
            button.setToolTip(
                tip_of(self.tr("{}\nPress to hide its curves, or show them again").format(name))
            )
            button.setAccessibleName(name)
        self._row.invalidate()

    def _make(self, count: int) -> None:
        while self._buttons:
            button = self._buttons.pop()
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        for _ in range(count):
            button = QPushButton(self)
            button.setCheckable(True)
            button.setChecked(True)
            button.toggled.connect(self._tell)
            self._row.addWidget(button)
            button.show()
            self._buttons.append(button)
        self._paint()

    def _tell(self) -> None:
        self._paint()
        self.changed.emit()

    def _paint(self) -> None:
        for place, button in enumerate(self._buttons):
            colour = QColor(getattr(self._theme.tokens, colour_of(place)))
            button.setIcon(dot(colour, is_filled=button.isChecked()))


def cut(name: str) -> str:
    """A long name without its middle: what tells names apart often stands at their ends."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - TAIL - 1].rstrip()}…{name[-TAIL:]}"


def colour_of(place: int) -> str:
    """The field of `gui.theme.Tokens` that is the colour of a run, by its place among those that are compared."""
    return f"curve{place + 1}"


def dot(colour: QColor, *, is_filled: bool = True) -> QIcon:
    """A circle, filled or as a ring, painted at twice its size so that it stays round on fine screens."""
    pixmap = QPixmap(2 * DOT_PIXELS, 2 * DOT_PIXELS)
    pixmap.setDevicePixelRatio(2.0)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(colour, 1.5))
    if is_filled:
        painter.setBrush(colour)
    painter.drawEllipse(4, 4, 8, 8)
    painter.end()
    icon = QIcon(pixmap)
    icon.addPixmap(pixmap, QIcon.Mode.Selected)
    return icon
