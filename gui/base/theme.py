"""The palette and the style sheet of the whole window, made of `tokens` and `resources/style.qss`.

Qt takes half a millisecond per widget to apply another style sheet of the application, and a quarter if a part of a
window gets its own: so the application keeps the sheet it began with, and when the colours change each visible part
gets a sheet of its own, which takes precedence. Hidden parts get it when they are shown.

A widget is styled when it is first shown or measured, and again with all that is in it whenever it gets a parent: so a
page is filled before any of it is measured or shown, and then takes a third of the time.

No other file sets a colour or a style sheet. Widgets that paint themselves use `Theme.tokens` and repaint on
`Theme.changed`.
"""

from dataclasses import asdict
from enum import StrEnum
from functools import cache
from pathlib import Path
from string import Template

import shiboken6
from PySide6.QtCore import QByteArray, QObject, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QIcon, QIconEngine, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from core.base.language import LANGUAGE, _, pgettext
from core.base.settings import Appearance
from gui.base.tokens import DARK, GUTTER, LIGHT, Tokens

# --- Icons


PATHS = {
    "new": "M12 5v14M5 12h14",
    "list": "M9 6h11M9 12h11M9 18h11M4 6h.01M4 12h.01M4 18h.01",
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


RESOURCES = Path(__file__).resolve().parents[2] / "resources"
ICONS = RESOURCES / "icons"
STYLE = RESOURCES / "style.qss"
_GUIDES = RESOURCES.parent / "docs" / "guide"
GUIDE = next(folder for folder in (_GUIDES / LANGUAGE, _GUIDES) if folder.is_dir())
"""The chapters of the guide in the person's language."""


def sizes_for(font: QFont) -> dict[str, object]:
    """Return the type sizes and lengths that go with a base font: `*_font` as `font-size`, the others in pixels."""
    unit, base = ("pt", font.pointSizeF()) if font.pointSizeF() > 0 else ("px", float(font.pixelSize()))
    height = round(QFontMetricsF(font).height())
    indicator = round(height * 0.9)
    dot = indicator // 3
    return {
        "headline_font": f"{base * 2:.1f}{unit}",
        "title_font": f"{base * 1.55:.1f}{unit}",
        "app_font": f"{base * 1.2:.1f}{unit}",
        "heading_font": f"{base * 1.02:.1f}{unit}",
        "small_font": f"{base * 0.92:.1f}{unit}",
        "text_height": height,
        "control": height + 2,
        "tall_control": height + 6,
        "check_box": height + 8,
        "indicator": indicator,
        "focused_indicator": indicator - 2,
        "indicator_radius": indicator // 2 + 1,
        "dot": dot,
        "dot_inside": indicator + 2 - 2 * dot,
        "gutter": GUTTER,
    }


def style_sheet(tokens: Tokens, font: QFont) -> str:
    """Return the whole style sheet for one set of colours and one base font."""
    shade = "dark" if tokens.is_dark else "light"
    icons = {
        name.replace("-", "_"): f'url("{(ICONS / f"{name}-{shade}.svg").as_posix()}")'
        for name in ("check", "chevron-down", "chevron-up")
    }
    template = Template(STYLE.read_text(encoding="utf-8"))
    return template.substitute(asdict(tokens), **sizes_for(font), **icons)


class Role(StrEnum):
    """What a widget is, where its class does not say enough. `resources/style.qss` says how each looks."""

    CARD = "card"
    CARD_TITLE = "card-title"
    GROUP_TITLE = "group-title"
    PAGE = "page"
    PAGE_TITLE = "title"
    MUTED = "muted"
    HINT = "hint"
    STRONG = "strong"
    LABEL = "label"
    CHANGED = "changed"
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    PROBLEM_MARK = "mark-bad"
    VERDICT = "verdict"
    VERDICT_GOOD = "verdict-good"
    VERDICT_TIGHT = "verdict-tight"
    VERDICT_BAD = "verdict-bad"
    PRIMARY = "primary"
    LINK = "link"
    MORE = "more"
    SIDEBAR = "sidebar"
    NAVIGATION = "navigation"
    SEGMENTS = "segments"
    SEGMENT = "segment"
    RULE = "rule"
    MONOSPACE = "monospace"
    INSET = "inset"
    TABS = "tabs"
    SAID = "said"
    ANSWER = "answer"
    DROP = "drop"
    DROP_TARGET = "drop-target"
    BRAND = "brand"
    HEADLINE = "headline"
    LEAD = "lead"
    TILE = "tile"
    TILE_SAMPLE = "tile-sample"
    POPUP = "popup"
    STRIP_INFO = "strip-info"
    STRIP_WARNING = "strip-warning"
    STRIP_ERROR = "strip-error"


def set_role(widget: QWidget, role: Role | None) -> None:
    value = None if role is None else role.value
    if widget.property("role") != value:
        _set_property(widget, "role", value)


def set_flag(widget: QWidget, name: str, on: bool) -> None:
    """Set a dynamic property used by the style sheet, such as `invalid`."""
    if bool(widget.property(name)) != on:
        _set_property(widget, name, on)


def _set_property(widget: QWidget, name: str, value: object) -> None:
    widget.setProperty(name, value)
    if widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
        widget.style().unpolish(widget)
        widget.style().polish(widget)


APPEARANCES = {
    Appearance.SYSTEM: _("System"),
    Appearance.LIGHT: pgettext("colours", "Light"),
    Appearance.DARK: _("Dark"),
}
SCHEMES = {
    Appearance.SYSTEM: Qt.ColorScheme.Unknown,
    Appearance.LIGHT: Qt.ColorScheme.Light,
    Appearance.DARK: Qt.ColorScheme.Dark,
}


class Theme(QObject):
    """The current tokens, which follow the system or the person's choice. There is one, made at the start."""

    changed = Signal()

    def __init__(self, appearance: Appearance = Appearance.SYSTEM, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._tokens = self._resolve()
        self._sheet = ""
        hints = QApplication.styleHints()
        hints.colorSchemeChanged.connect(self._refresh)

    @property
    def tokens(self) -> Tokens:
        return self._tokens

    def set_appearance(self, appearance: Appearance) -> None:
        self._appearance = appearance
        # Title bars and native dialogs follow too.
        QApplication.styleHints().setColorScheme(SCHEMES[appearance])
        self._refresh()

    def _resolve(self) -> Tokens:
        if self._appearance is Appearance.SYSTEM:
            dark = QApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
        else:
            dark = self._appearance is Appearance.DARK
        return DARK if dark else LIGHT

    def _refresh(self) -> None:
        tokens = self._resolve()
        if tokens is not self._tokens:
            self._tokens = tokens
            self._sheet = style_sheet(tokens, QApplication.font())
            QApplication.setPalette(palette(tokens))
            for window in QApplication.topLevelWidgets():
                # The list has menus too, and garbage collection meanwhile may delete some.
                is_there = shiboken6.isValid(window) and window.isVisible() and not window.parentWidget()
                if is_there and not isinstance(window, QMainWindow):
                    self.dress(window)
            self.changed.emit()

    def apply(self) -> None:
        """Set palette and style sheet of the application, before there is a window."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._sheet = ""
        application.setPalette(palette(self._tokens))
        application.setStyleSheet(style_sheet(self._tokens, application.font()))

    @staticmethod
    def prepare(part: QWidget) -> None:
        """Let a part of a window that is not shown yet be dressed later: its first sheet resets margins of labels."""
        part.setStyleSheet("/* */")

    def dress(self, part: QWidget) -> None:
        """Give a part of a window the current colours, unless it has them."""
        if self._sheet and part.styleSheet() != self._sheet:
            part.setUpdatesEnabled(False)
            part.setPalette(QApplication.palette())
            part.setStyleSheet(self._sheet)
            part.setUpdatesEnabled(True)


def palette(tokens: Tokens) -> QPalette:
    made = QPalette()
    roles = {
        QPalette.ColorRole.Window: tokens.background,
        QPalette.ColorRole.WindowText: tokens.text,
        QPalette.ColorRole.Base: tokens.surface,
        QPalette.ColorRole.AlternateBase: tokens.background,
        QPalette.ColorRole.Text: tokens.text,
        QPalette.ColorRole.Button: tokens.surface,
        QPalette.ColorRole.ButtonText: tokens.text,
        QPalette.ColorRole.PlaceholderText: tokens.muted,
        QPalette.ColorRole.Highlight: tokens.accent,
        QPalette.ColorRole.HighlightedText: tokens.on_accent,
        QPalette.ColorRole.ToolTipBase: tokens.surface,
        QPalette.ColorRole.ToolTipText: tokens.text,
        QPalette.ColorRole.Link: tokens.accent,
    }
    for role, colour in roles.items():
        made.setColor(role, QColor(colour))
    colours = QPalette.ColorRole
    for role in (colours.WindowText, colours.Text, colours.ButtonText, colours.HighlightedText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(tokens.faint))
    return made


def luminance(colour: QColor) -> float:
    """The relative luminance of a colour by WCAG 2.2, 0 to 1."""
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: QColor, other: QColor) -> float:
    """The contrast of two colours by WCAG 2.2, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def readable_on(ground: QColor) -> QColor:
    """Black or white, whichever has more contrast to a ground."""
    return max(
        (QColor(Qt.GlobalColor.black), QColor(Qt.GlobalColor.white)), key=lambda text: contrast(text, ground)
    )
