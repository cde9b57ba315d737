"""The one style sheet, made from the colour tokens and the size of the system's font.

Widgets are reached by their class or by the dynamic property `role` (`gui.widgets.roles`). All sizes follow the
font, so that a person who reads larger letters gets larger controls. Underneath is Qt's Fusion style, the same on
every system.
"""

from PySide6.QtGui import QFont

from gui.style_controls import buttons, choices, inputs, segments
from gui.style_sizes import Sizes, sizes_for
from gui.style_views import scrolling, small_things, views
from gui.tokens import Tokens


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
