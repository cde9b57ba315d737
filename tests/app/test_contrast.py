"""What is drawn can be read: texts of the pages measured in pixels, in light and dark, at 1x and 2x."""

import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QImage, QPixmap
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QWidget

from core.base.settings import Appearance
from gui.app.application import set_up
from gui.app.sidebar import Place
from gui.charts.chart import Chart
from tests.fakes.runs import Plot, finish, make_folder, write_story

TEXT, CONTROL = 4.5, 3.0


def luminance(colour: QColor) -> float:
    parts = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (colour.redF(), colour.greenF(), colour.blueF())
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: QColor, other: QColor) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def drawn_contrast(image: QImage, place: QRect) -> float:
    """The highest contrast of a pixel with the colour that most pixels of a place have."""
    counts: dict[int, int] = {}
    inside = place.intersected(image.rect())
    for y in range(inside.top(), inside.bottom() + 1):
        for x in range(inside.left(), inside.right() + 1):
            pixel = image.pixel(x, y)
            counts[pixel] = counts.get(pixel, 0) + 1
    ground = QColor(max(counts, key=lambda pixel: counts[pixel]))
    return max(contrast(QColor(pixel), ground) for pixel in counts)


def place_in(widget: QWidget, window: QWidget, part: QRect, ratio: int) -> QRect:
    corner = widget.mapTo(window, part.topLeft())
    return QRect(corner * ratio, part.size() * ratio)


def picture_of(window: QWidget, ratio: int) -> QImage:
    drawn = QPixmap(window.size() * ratio)
    drawn.setDevicePixelRatio(ratio)
    window.render(drawn)
    image = drawn.toImage()
    image.setDevicePixelRatio(1)
    return image


def is_whole(widget: QWidget) -> bool:
    return (
        widget.isVisible() and widget.isEnabled() and widget.visibleRegion().boundingRect() == widget.rect()
    )


def too_faint(window: QWidget, ratio: int) -> list[str]:
    image, faint = picture_of(window, ratio), []
    for widget in window.findChildren(QWidget):
        if not is_whole(widget):
            continue
        inside = widget.rect().adjusted(4, 4, -4, -4)  # without a border
        if isinstance(widget, Chart):
            canvas = widget._canvas
            # the texts of the axis at the bottom
            inside = QRect(0, canvas.height() - 16, canvas.width(), 14)
            found = drawn_contrast(image, place_in(canvas, window, inside, ratio))
            needed = TEXT if not widget._empty.isVisible() else 0.0
        elif isinstance(widget, QLabel):
            found = drawn_contrast(image, place_in(widget, window, widget.rect(), ratio))
            needed = TEXT if widget.text().strip() else 0.0
        elif isinstance(widget, QLineEdit):
            found = drawn_contrast(image, place_in(widget, window, inside, ratio))
            needed = TEXT if widget.text() or widget.placeholderText() else 0.0
        elif isinstance(widget, QAbstractButton) and widget.text().strip():
            found = drawn_contrast(image, place_in(widget, window, inside, ratio))
            needed = CONTROL if widget.text() == "⋯" else TEXT
        else:
            continue
        if found < needed:
            faint.append(f"{found:.2f} {type(widget).__name__} {getattr(widget, 'text', str)()!r}")
    return faint


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("appearance", [Appearance.LIGHT, Appearance.DARK])
def test_texts_of_every_page_can_be_read(  # noqa: PLR0917 - fixtures
    qapp, qtbot, tmp_path, make_window, appearance, ratio
):
    run, plot = make_folder(tmp_path / "runs" / "done"), Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))
    set_up(qapp)
    window = make_window(is_shown=False)
    window._theme.set_appearance(appearance)
    window._theme.apply()
    window.resize(1280, 800)
    window.show()
    for place in (Place.NEW_RUN, Place.RUNS, Place.SETTINGS, Place.WELCOME):
        window.go_to(place)
        QApplication.sendPostedEvents()
        assert too_faint(window, ratio) == [], place
    window.open_path(run.path)
    qtbot.waitUntil(lambda: window.run.view is not None)
    charts = window.run.view.charts
    qtbot.waitUntil(lambda: len(charts.loss.history.step_seconds) == 16 and bool(charts.loss.lines))
    for chart in window.findChildren(Chart):
        chart.redraw()
    assert any(is_whole(chart) for chart in window.findChildren(Chart))
    QApplication.sendPostedEvents()  # the legends take their width
    assert too_faint(window, ratio) == []
    qapp.setStyleSheet("")
