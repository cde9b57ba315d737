"""Colours, spacing and type sizes of the whole window, and the one style sheet made from them.

Qt takes half a millisecond a widget to take in another style sheet of the application, and a quarter of it where a part
of a window gets one of its own: so the application keeps the sheet it began with, and when the colours change each part
that is seen gets a sheet over it, which is stronger in every rule. What is hidden gets it when it is shown.

No other file sets a colour or a style sheet. Widgets that paint themselves ask `Theme.tokens` and repaint on
`Theme.changed`.
"""

from enum import StrEnum

import shiboken6
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from core.base.settings import Appearance
from gui.base.style import (
    Sizes,
    buttons,
    choices,
    inputs,
    scrolling,
    segments,
    sizes_for,
    small_things,
    views,
)
from gui.base.tokens import DARK, LIGHT, Tokens


def style_sheet(tokens: Tokens, font: QFont) -> str:
    """The whole style sheet for one set of colours and one base font."""
    sizes = sizes_for(font)
    parts = (_surfaces, _labels, buttons, segments, inputs, choices, views, scrolling, small_things)
    return "\n".join(part(tokens, sizes) for part in parts)


def _surfaces(t: Tokens, s: Sizes) -> str:
    return f"""
    QWidget {{ color: {t.text}; }}
    QDialog, *[role="page"] {{ background: {t.background}; }}
    QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
    QFrame[role="sidebar"] {{ background: {t.sidebar}; border: none; border-right: 1px solid {t.line}; }}
    QFrame[role="card"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 10px; }}
    QFrame[role="rule"] {{ background: {t.grid}; border: none; }}
    QFrame[role="said"] {{ background: {t.accent_soft}; border: none; border-radius: 10px; }}
    QFrame[role="answer"] {{ background: transparent; border: none; }}
    QFrame[role="drop"] {{ background: {t.background}; border: 1px dashed {t.faint}; border-radius: 10px; }}
    QFrame[role="strip-info"] {{ background: {t.accent_soft}; border: none; border-radius: 10px; }}
    QFrame[role="strip-warning"] {{ background: {t.warn_soft}; border: none; border-radius: 10px; }}
    QFrame[role="strip-error"] {{ background: {t.bad_soft}; border: none; border-radius: 10px; }}
    QScrollArea, QScrollArea > QWidget > QWidget[role="page"] {{ background: transparent; border: none; }}
    """


def _labels(t: Tokens, s: Sizes) -> str:
    return f"""
    QLabel {{ background: transparent; }}
    QLabel:disabled {{ color: {t.faint}; }}
    QLabel[role="title"] {{ font-size: {s.title_font}; font-weight: 600; }}
    QLabel[role="app-name"] {{ font-size: {s.app_font}; font-weight: 700; padding: 2px 8px; }}
    QLabel[role="card-title"] {{ font-size: {s.heading_font}; font-weight: 600; }}
    QLabel[role="group-title"] {{ font-size: {s.small_font}; font-weight: 600; }}
    QLabel[role="strong"] {{ font-weight: 600; }}
    QLabel[role="muted"], QLabel[role="label"] {{ color: {t.muted}; }}
    QLabel[role="hint"] {{ color: {t.muted}; font-size: {s.small_font}; }}
    QLabel[role="hint"][alarming="true"] {{ color: {t.warn}; }}
    QLabel[role="reading"] {{ color: {t.muted}; font-size: {s.small_font}; }}
    QLabel[role="changed"] {{ color: {t.accent}; font-weight: 700; }}
    QLabel[role="ok"] {{ color: {t.ok}; font-weight: 600; }}
    QLabel[role="warning"] {{ color: {t.warn}; font-weight: 600; }}
    QLabel[role="problem"] {{ color: {t.bad}; font-size: {s.small_font}; }}
    QLabel[role="mark-bad"] {{ color: {t.bad}; font-weight: 700; }}
    QLabel[role="verdict"], QLabel[role="verdict-good"], QLabel[role="verdict-tight"], QLabel[role="verdict-bad"] {{
        font-size: {s.app_font}; font-weight: 600;
    }}
    QLabel[role="verdict-good"] {{ color: {t.ok}; }}
    QLabel[role="verdict-tight"] {{ color: {t.warn}; }}
    QLabel[role="verdict-bad"] {{ color: {t.bad}; }}
    """


class Role(StrEnum):
    """What a widget is, where its class does not say enough. `gui.base.theme` says how each looks."""

    CARD = "card"
    CARD_TITLE = "card-title"
    GROUP_TITLE = "group-title"
    PAGE = "page"
    APP_NAME = "app-name"
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
    STRIP_INFO = "strip-info"
    STRIP_WARNING = "strip-warning"
    STRIP_ERROR = "strip-error"


def set_role(widget: QWidget, role: Role) -> None:
    if widget.property("role") == role.value:
        return
    widget.setProperty("role", role.value)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)


def set_flag(widget: QWidget, name: str, on: bool) -> None:
    """Set a dynamic property the style sheet asks for, such as `invalid`."""
    if bool(widget.property(name)) == on:
        return
    widget.setProperty(name, on)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)


SCHEMES = {
    Appearance.SYSTEM: Qt.ColorScheme.Unknown,
    Appearance.LIGHT: Qt.ColorScheme.Light,
    Appearance.DARK: Qt.ColorScheme.Dark,
}


class Theme(QObject):
    """The tokens in force, following the system or the person's choice.

    Made once at start-up and handed to whoever paints; there is no global one.
    """

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
        """Follow the system, or be light or dark whatever the system says."""
        self._appearance = appearance
        QApplication.styleHints().setColorScheme(
            SCHEMES[appearance]
        )  # title bars and native dialogs follow, too
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
                # The list holds menus, too, and a search for garbage meanwhile may delete what nobody owns any more.
                is_there = shiboken6.isValid(window) and window.isVisible() and not window.parentWidget()
                if is_there and not isinstance(window, QMainWindow):
                    self.dress(window)
            self.changed.emit()

    def apply(self) -> None:
        """Give palette and style sheet to the application, before there is a window."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._sheet = ""
        application.setPalette(palette(self._tokens))
        application.setStyleSheet(style_sheet(self._tokens, application.font()))

    @staticmethod
    def prepare(part: QWidget) -> None:
        """Let a part of a window that was not shown yet be dressed later: a first sheet costs labels their margins."""
        part.setStyleSheet("/* */")

    def dress(self, part: QWidget) -> None:
        """Give a part of a window, and all in it, the colours in force, unless it has them."""
        if self._sheet and part.styleSheet() != self._sheet:
            part.setPalette(QApplication.palette())
            part.setStyleSheet(self._sheet)


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
        QPalette.ColorRole.PlaceholderText: tokens.faint,
        QPalette.ColorRole.Highlight: tokens.accent,
        QPalette.ColorRole.HighlightedText: tokens.on_accent,
        QPalette.ColorRole.ToolTipBase: tokens.surface,
        QPalette.ColorRole.ToolTipText: tokens.text,
        QPalette.ColorRole.Link: tokens.accent,
    }
    for role, colour in roles.items():
        made.setColor(role, QColor(colour))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(tokens.faint))
    return made
