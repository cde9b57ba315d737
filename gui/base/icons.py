"""The icons: lines in the colour of the text beside them, in light and dark."""

from functools import cache

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

PATHS = {
    "new": "M12 5v14M5 12h14",
    "list": "M9 6h11M9 12h11M9 18h11M4 6h.01M4 12h.01M4 18h.01",
    "bars": "M5 20v-8M12 20V4M19 20V9",
    "chat": "M4 5h16v11H11l-5 4v-4H4z",
    "settings": "M4 8h8M18 8h2M4 16h2M12 16h8M12 8a3 3 0 1 0 6 0a3 3 0 1 0-6 0M6 16a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "start": "M8 5l11 7-11 7z",
    "pause": "M9 5v14M15 5v14",
    "stop": "M6 6h12v12H6z",
    "export": "M12 15V4M8 8l4-4 4 4M5 14v6h14v-6",
    "image": "M4 5h16v14H4zM4 16l5-5 5 5 2-2 4 4M15.5 9h.01",
    "text": "M5 6h14M5 11h14M5 16h9",
}
"""Paths of SVG in a square of 24, drawn for Hone; as lines, none is filled."""

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="{path}" fill="none" stroke="{colour}" '
    'stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></svg>'
)


class _Lines(QIconEngine):
    """Draws a path in a colour of the application's palette, which may change."""

    def __init__(self, path: str, role: QPalette.ColorRole) -> None:
        super().__init__()
        self._path, self._role = path, role

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        is_off = mode is QIcon.Mode.Disabled
        role = QPalette.ColorRole.Link if state is QIcon.State.On else self._role
        group = QPalette.ColorGroup.Disabled if is_off else QPalette.ColorGroup.Active
        colour = QApplication.palette().color(group, role).name()
        QSvgRenderer(QByteArray(SVG.format(path=self._path, colour=colour).encode())).render(
            painter, QRectF(rect)
        )

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        drawn = QPixmap(size)
        drawn.fill(Qt.GlobalColor.transparent)
        with QPainter(drawn) as painter:
            self.paint(painter, QRect(0, 0, size.width(), size.height()), mode, state)
        return drawn

    def clone(self) -> QIconEngine:
        return _Lines(self._path, self._role)


@cache
def icon(name: str, role: QPalette.ColorRole = QPalette.ColorRole.ButtonText) -> QIcon:
    """Return an icon of `PATHS` in a colour of the palette; in the accent colour where it is switched on."""
    return QIcon(_Lines(PATHS[name], role))
