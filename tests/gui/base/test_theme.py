"""Colours that can be read, sizes that follow the font, and a change of appearance."""

import dataclasses

import pytest
import shiboken6
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QDialogButtonBox, QWidget

from core.base.settings import Appearance
from gui.base.theme import ICONS, Theme, contrast, palette, sizes_for, style_sheet
from gui.base.tokens import DARK, LIGHT
from gui.widgets.labels import LinkLabel

READ_ON = {
    "text": (4.5, ("background", "surface", "sidebar", "warn_soft", "bad_soft", "accent_soft")),
    "muted": (4.5, ("background", "surface", "sidebar")),
    "accent": (4.5, ("background", "surface", "sidebar", "accent_soft")),
    "on_accent": (4.5, ("accent", "accent_strong")),
    "ok": (4.5, ("background", "surface", "sidebar")),
    "warn": (4.5, ("background", "surface", "sidebar", "warn_soft")),
    "bad": (4.5, ("background", "surface", "sidebar", "bad_soft")),
    "faint": (3.0, ("background", "surface", "grid")),  # disabled, edges of controls
    **dict.fromkeys(("run", "gradients", "optimizer", "activations", "others"), (3.0, ("surface",))),
    **dict.fromkeys((f"curve{number}" for number in range(1, 13)), (3.0, ("surface",))),
}

both_appearances = pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])


@both_appearances
def test_texts_have_enough_contrast_and_every_colour_is_valid(tokens):
    low = {
        f"{ink} on {paper}": ratio
        for ink, (least, papers) in READ_ON.items()
        for paper in papers
        if (ratio := contrast(QColor(getattr(tokens, ink)), QColor(getattr(tokens, paper)))) < least
    }
    assert low == {}
    names = [value for value in dataclasses.asdict(tokens).values() if isinstance(value, str)]
    assert all(QColor(name).isValid() for name in names)


@both_appearances
def test_the_style_sheet_is_valid_has_its_icons_and_hides_those_of_the_desktop(qtbot, qapp, tokens):
    sheet = style_sheet(tokens, qapp.font())
    shade = "dark" if tokens.is_dark else "light"
    for name in ("chevron-down", "chevron-up", "check"):
        assert f"{name}-{shade}.svg" in sheet
        assert (ICONS / f"{name}-{shade}.svg").is_file()
    desktop = "QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 1; }\n"  # black on dark, too
    qapp.setStyleSheet(desktop + sheet)  # a sheet Qt can't parse is a warning, which fails a test
    try:
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        qtbot.addWidget(box)
        box.show()
        assert all(button.icon().isNull() for button in box.buttons())
    finally:
        qapp.setStyleSheet("")


def test_controls_grow_with_the_font():
    small, large, pixels = QFont(), QFont(), QFont()
    small.setPointSizeF(9)
    large.setPointSizeF(18)
    pixels.setPixelSize(20)
    assert sizes_for(large)["control"] > sizes_for(small)["control"]
    assert sizes_for(pixels)["title_font"].endswith("px")


def test_a_change_of_appearance_is_signalled_once_and_recolours_links(qtbot, qapp):
    theme, label = Theme(Appearance.LIGHT), LinkLabel()
    qtbot.addWidget(label)
    theme.apply()
    label.setText('<a href="1">1</a>')
    label.resize(60, 30)
    label.show()
    label.grab()
    try:
        with qtbot.waitSignal(theme.changed):
            theme.set_appearance(Appearance.DARK)
        assert theme.tokens is DARK
        assert qapp.palette().window().color() == palette(DARK).window().color()
        with qtbot.assertNotEmitted(theme.changed):
            theme.set_appearance(Appearance.DARK)
        image = label.grab().toImage()
        painted = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
        assert QColor(DARK.accent).name() in painted
        assert QColor(LIGHT.accent).name() not in painted
    finally:
        theme.set_appearance(Appearance.LIGHT)
        qapp.setStyleSheet("")


def test_a_window_that_is_deleted_meanwhile_is_passed_over(qapp):
    class Fleeting(QWidget):
        def setStyleSheet(self, sheet):  # noqa: N802
            if shiboken6.isValid(other[self]):
                shiboken6.delete(other[self])

    theme, first, second = Theme(Appearance.LIGHT), Fleeting(), Fleeting()
    other = {first: second, second: first}
    for window in (first, second):
        window.show()
    theme.set_appearance(Appearance.DARK)
    theme.set_appearance(Appearance.LIGHT)
