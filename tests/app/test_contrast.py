"""What is drawn on every page can be read: contrasts measured in its pixels, light and dark, at 1x and 2x."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontInfo, QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)

from core.base.settings import Appearance
from gui.app.application import set_up
from gui.charts.axes import Canvas
from gui.charts.chart import RepaintQueue
from tests.app.test_every_page import Pages, seen
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import FakeMemory
from tests.fakes.runs import Plot, finish, make_folder, write_story

TEXT, LARGE = 4.5, 3.0
"""Least contrast by WCAG 2.2, AA."""
LARGE_PIXELS, LARGE_BOLD_PIXELS = 24, 18.6
EDGE = 3
"""Pixels of a widget's border and ring, which are no text."""

TEXTS = (QLabel, QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QPlainTextEdit)


@pytest.mark.parametrize("colours", [Appearance.LIGHT, Appearance.DARK])
def test_what_is_drawn_has_enough_contrast(qtbot, qapp, tmp_path, make_window, colours):
    set_up(qapp)
    run, plot = make_folder(tmp_path / "runs" / "done"), Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))
    window = make_window(FakeEngine(), is_shown=False, tools=FakeMemory().tools)
    window.theme.set_appearance(colours)
    window.theme.apply()
    window.resize(1280, 800)
    window.show()
    with qtbot.waitSignal(window.devices.done):
        window.ask_for_devices()
    low = {}
    try:
        for open_page in Pages(qtbot, window, tmp_path).all():
            open_page()
            qtbot.waitUntil(lambda: charts_are_drawn(window))
            QApplication.sendPostedEvents()
            for scale in (1, 2):
                for drawn, ratio in too_pale(window, scale).items():
                    low[f"{open_page.__name__} at {scale}x: {drawn}"] = ratio
    finally:
        qapp.setStyleSheet("")
    assert low == {}


def charts_are_drawn(window: QWidget) -> bool:
    """Whether no chart waits for its turn, and one at least of those that are there has values."""
    is_waiting = any(queue.waiting for queue in window.findChildren(RepaintQueue))
    canvases = seen(window, Canvas)
    return not is_waiting and (not canvases or any(map(has_values, canvases)))


def has_values(canvas: Canvas) -> bool:
    return canvas.x_axis.opacity() > 0


def too_pale(window: QWidget, scale: int) -> dict[str, float]:
    """The contrasts that are too low, by what is drawn with it."""
    image = QImage(window.size() * scale, QImage.Format.Format_RGB888)
    image.setDevicePixelRatio(scale)
    window.render(image)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    pixels = rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3)
    low = {}
    for name, widget, place, least in texts_of(window):
        shown = place & widget.visibleRegion().boundingRect()
        if shown != place:  # scrolled away, in part at least
            continue
        corner = widget.mapTo(window, place.topLeft())
        left, top = corner.x() * scale, corner.y() * scale
        crop = pixels[top : top + place.height() * scale, left : left + place.width() * scale]
        if (ratio := contrast_of(crop)) < least:
            low[name] = round(ratio, 2)
    return low


def texts_of(window: QWidget) -> Iterator[tuple[str, QWidget, QRect, float]]:
    """Each text that isn't greyed out: its name, the widget it is in, its place there and its least contrast."""
    for widget in seen(window, TEXTS):
        if widget.isEnabled() and widget.window() is window and (text := text_of(widget).strip()):
            inside = widget.contentsRect().adjusted(EDGE, 0, -EDGE, 0)
            if not isinstance(widget, QLabel):
                inside.adjust(0, EDGE, 0, -EDGE)
            name = f"{type(widget).__name__} {text[:40]!r}"
            yield name, widget, inside, LARGE if is_large(widget) else TEXT
    for bar in seen(window, QTabBar):
        for place in range(bar.count()):
            inside = bar.tabRect(place).adjusted(EDGE, EDGE, -EDGE - 4, -EDGE - 6)
            yield f"tab {bar.tabText(place)}", bar, inside, TEXT
    for view in seen(window, QAbstractItemView):
        if isinstance(view, QHeaderView) or not view.isEnabled() or (model := view.model()) is None:
            continue
        for row in range(min(model.rowCount(), 12)):
            for column in range(model.columnCount()):
                index = model.index(row, column)
                is_there = model.flags(index) & Qt.ItemFlag.ItemIsEnabled and str(index.data() or "").strip()
                if is_there and not (place := view.visualRect(index)).isEmpty():
                    yield f"cell {str(index.data())[:40]!r}", view.viewport(), place, TEXT
    for canvas in seen(window, Canvas):
        if has_values(canvas):
            plot = canvas.getPlotItem().getViewBox().sceneBoundingRect().toRect()
            left = QRect(0, 0, plot.left() - 2, canvas.height())
            below = QRect(plot.left(), plot.bottom() + 2, plot.width(), canvas.height() - plot.bottom() - 2)
            for place in (left, below):
                yield f"axis of {canvas.accessibleName()}", canvas.viewport(), place, TEXT


def text_of(widget: QWidget) -> str:
    if isinstance(widget, QLineEdit):
        return widget.text() or widget.placeholderText()
    if isinstance(widget, QPlainTextEdit):
        return widget.toPlainText() or widget.placeholderText()
    return widget.currentText() if isinstance(widget, QComboBox) else widget.text()


def is_large(widget: QWidget) -> bool:
    size, weight = QFontInfo(widget.font()).pixelSize(), widget.font().weight()
    return size >= LARGE_PIXELS or (size >= LARGE_BOLD_PIXELS and weight >= 600)


def contrast_of(pixels: np.ndarray) -> float:
    """Contrast between the most frequent colour and that which differs most from it. Shape (height, width, 3)."""
    packed = pixels.reshape(-1, 3).astype(np.uint32) @ np.array((1 << 16, 1 << 8, 1), np.uint32)
    colours, counts = np.unique(packed, return_counts=True)
    parts = np.stack((colours >> 16, colours >> 8 & 255, colours & 255), axis=1) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    light = linear @ (0.2126, 0.7152, 0.0722) + 0.05
    ground = light[counts.argmax()]
    return float(np.maximum(light / ground, ground / light).max())
