"""Colours, spacing and type sizes of the whole window, and the one style sheet made from them.

Qt takes half a millisecond a widget to take in another style sheet of the application, and a quarter of it where a part
of a window gets one of its own: so the application keeps the sheet it began with, and when the colours change each part
that is seen gets a sheet over it, which is stronger in every rule. What is hidden gets it when it is shown.

No other file sets a colour or a style sheet. Widgets that paint themselves ask `Theme.tokens` and repaint on
`Theme.changed`.
"""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from core.settings import Appearance
from gui.style_sheet import style_sheet
from gui.tokens import DARK, GUTTER, LIGHT, PAGE_MARGINS, SPACING, Tokens

__all__ = ["DARK", "GUTTER", "LIGHT", "PAGE_MARGINS", "SPACING", "Theme", "Tokens", "palette"]


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
        """The colours in force."""
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
                if window.isVisible() and not window.parentWidget() and not isinstance(window, QMainWindow):
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
    """Qt's palette made from the tokens."""
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
