"""Colours, spacing and type sizes of the whole window, and the one style sheet made from them.

No other file sets a colour or a style sheet. Widgets that paint themselves ask `Theme.tokens` and repaint on
`Theme.changed`.
"""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from core.settings import Appearance


@dataclass(frozen=True)
class Tokens:
    """One set of colours. Categorical colours mean the same everywhere.

    `run` is this run and weights, `gradients`, `optimizer`, `activations` (and the backward pass), `others` other
    programs; `bad` is for ceilings and failures only.
    """

    is_dark: bool
    background: str
    sidebar: str
    surface: str
    line: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_soft: str
    on_accent: str
    ok: str
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    run: str
    gradients: str
    optimizer: str
    activations: str
    others: str
    grid: str


LIGHT = Tokens(
    is_dark=False,
    background="#f5f5f7",
    sidebar="#ececef",
    surface="#ffffff",
    line="#d9dae0",
    text="#1b1c20",
    muted="#5f636c",
    faint="#8b9099",
    accent="#3d67e8",
    accent_soft="#e7edfd",
    on_accent="#ffffff",
    ok="#2a8757",
    warn="#96610f",
    warn_soft="#fdf3dd",
    bad="#c9403f",
    bad_soft="#fdeaea",
    run="#4c78f0",
    gradients="#8d63d6",
    optimizer="#ef8b3b",
    activations="#3fa66b",
    others="#a3a8b1",
    grid="#eceef1",
)

DARK = Tokens(
    is_dark=True,
    background="#17181b",
    sidebar="#121316",
    surface="#1f2125",
    line="#363940",
    text="#ecedf0",
    muted="#a7acb5",
    faint="#7d838d",
    accent="#7396ff",
    accent_soft="#24305a",
    on_accent="#0d1330",
    ok="#5cc08d",
    warn="#e0ad55",
    warn_soft="#3a2f17",
    bad="#ee6d6b",
    bad_soft="#3d2022",
    run="#7396ff",
    gradients="#b08af0",
    optimizer="#f5a561",
    activations="#5cc08d",
    others="#7d838d",
    grid="#2a2d32",
)

SPACING = 8
"""The unit of all gaps, in device-independent pixels; use whole multiples or half."""


class Theme(QObject):
    """The tokens in force, following the system or the person's choice.

    Made once at start-up and handed to whoever paints; there is no global one.
    """

    changed = Signal()

    def __init__(self, appearance: Appearance = Appearance.SYSTEM, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._tokens = self._resolve()
        hints = QApplication.styleHints()
        hints.colorSchemeChanged.connect(self._refresh)

    @property
    def tokens(self) -> Tokens:
        """The colours in force."""
        return self._tokens

    def set_appearance(self, appearance: Appearance) -> None:
        """Follow the system, or be light or dark whatever the system says."""
        self._appearance = appearance
        self._refresh()

    def _resolve(self) -> Tokens:
        if self._appearance is Appearance.SYSTEM:
            dark = QApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
        else:
            dark = self._appearance is Appearance.DARK
        return DARK if dark else LIGHT

    def _refresh(self) -> None:
        self._tokens = self._resolve()
        self.apply()
        self.changed.emit()

    def apply(self) -> None:
        """Give palette and style sheet to the application."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.setPalette(palette(self._tokens))
        application.setStyleSheet(style_sheet(self._tokens))


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


def style_sheet(tokens: Tokens) -> str:
    """The one style sheet. Widgets are reached by object name or by the dynamic property `role`."""
    return f"""
    QWidget {{ color: {tokens.text}; }}
    QFrame[role="card"] {{ background: {tokens.surface}; border: 1px solid {tokens.line}; border-radius: 10px; }}
    """
