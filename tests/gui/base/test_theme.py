import dataclasses

import pytest
import shiboken6
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QDialogButtonBox, QWidget

from core.base.settings import Appearance
from gui.base.theme import ICONS, Theme, palette, sizes_for, style_sheet
from gui.base.tokens import DARK, LIGHT
from gui.widgets.labels import LinkLabel


def luminance(name):
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [channel / 255 for channel in QColor(name).getRgb()[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


READ_ON = [
    ("text", ("background", "surface", "sidebar", "warn_soft", "bad_soft", "accent_soft")),
    ("muted", ("background", "surface", "sidebar")),
    ("accent", ("surface", "accent_soft")),
    ("on_accent", ("accent",)),
    ("ok", ("surface",)),
    ("warn", ("surface",)),
    ("bad", ("surface",)),
]


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "papers"), READ_ON)
def test_what_is_to_be_read_stands_out(tokens, ink, papers):
    for paper in papers:
        ratio = contrast(getattr(tokens, ink), getattr(tokens, paper))
        assert ratio >= 4.5, f"{ink} on {paper}: {ratio:.2f}"


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_disabled_words_stay_legible(tokens):
    assert contrast(tokens.faint, tokens.surface) >= 3.0


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_is_one(tokens):
    for field in dataclasses.fields(tokens):
        if field.type is str or field.type == "str":
            assert QColor(getattr(tokens, field.name)).isValid(), field.name


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_buttons_of_dialogs_bear_no_icons_of_the_desktop(qtbot, qapp, tokens):
    as_desktops_have_it = (
        "QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 1; }\n"  # black on dark, too
    )
    qapp.setStyleSheet(as_desktops_have_it + style_sheet(tokens, qapp.font()))
    try:
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        qtbot.addWidget(box)
        box.show()
        assert all(button.icon().isNull() for button in box.buttons())
    finally:
        qapp.setStyleSheet("")


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_the_style_sheet_is_understood_and_its_icons_are_there(qtbot, qapp, tokens):
    sheet = style_sheet(tokens, qapp.font())
    qapp.setStyleSheet(sheet)  # a sheet Qt can't parse is a warning, which fails a test
    shade = "dark" if tokens.is_dark else "light"
    for name in ("chevron-down", "chevron-up", "check"):
        assert f"{name}-{shade}.svg" in sheet
        assert (ICONS / f"{name}-{shade}.svg").is_file()
    qapp.setStyleSheet("")


def test_larger_letters_get_larger_controls():
    small, large = QFont(), QFont()
    small.setPointSizeF(9)
    large.setPointSizeF(18)
    assert sizes_for(large)["control"] > sizes_for(small)["control"]
    pixels = QFont()
    pixels.setPixelSize(20)
    assert sizes_for(pixels)["title_font"].endswith("px")


def test_changing_the_appearance_tells_whoever_paints(qtbot, qapp):
    theme = Theme(Appearance.LIGHT)
    with qtbot.waitSignal(theme.changed):
        theme.set_appearance(Appearance.DARK)
    assert theme.tokens is DARK
    assert qapp.palette().window().color() == palette(DARK).window().color()
    with qtbot.assertNotEmitted(theme.changed):
        theme.set_appearance(Appearance.DARK)
    theme.set_appearance(Appearance.LIGHT)
    qapp.setStyleSheet("")


def test_links_follow_the_theme(qtbot):
    label, theme = LinkLabel(), Theme(Appearance.LIGHT)
    qtbot.addWidget(label)
    theme.apply()
    label.setText('<a href="1">1</a>')
    label.resize(60, 30)
    label.show()
    label.grab()
    theme.set_appearance(Appearance.DARK)
    image = label.grab().toImage()
    painted = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert QColor(DARK.accent).name() in painted
    assert QColor(LIGHT.accent).name() not in painted
    theme.set_appearance(Appearance.LIGHT)


def test_a_window_that_is_deleted_meanwhile_is_passed_over(qapp):
    class Fleeting(QWidget):
        def setStyleSheet(self, sheet):  # noqa: N802
            if shiboken6.isValid(other[self]):
                shiboken6.delete(other[self])

    theme, one, two = Theme(Appearance.LIGHT), Fleeting(), Fleeting()
    other = {one: two, two: one}
    for window in (one, two):
        window.show()
    theme.set_appearance(Appearance.DARK)
    theme.set_appearance(Appearance.LIGHT)
