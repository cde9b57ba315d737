"""Type sizes and lengths of the style sheet, all made from one font, and where its icons lie."""

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QFont, QFontMetricsF

from gui.base.tokens import GUTTER, Tokens

ICONS = Path(__file__).resolve().parents[2] / "resources" / "icons"


@dataclass(frozen=True)
class Sizes:
    """Type sizes and lengths made from one font. `*_font` are values of `font-size`, the others are pixels."""

    title_font: str
    app_font: str
    heading_font: str
    small_font: str
    line: int
    control: int
    indicator: int


def sizes_for(font: QFont) -> Sizes:
    """Sizes that go with a base font, given in points or in pixels."""
    unit, base = ("pt", font.pointSizeF()) if font.pointSizeF() > 0 else ("px", float(font.pixelSize()))
    line = round(QFontMetricsF(font).height())
    return Sizes(
        title_font=f"{base * 1.55:.1f}{unit}",
        app_font=f"{base * 1.2:.1f}{unit}",
        heading_font=f"{base * 1.02:.1f}{unit}",
        small_font=f"{base * 0.92:.1f}{unit}",
        line=line,
        control=line + 2,
        indicator=round(line * 0.9),
    )


def icon_url(name: str, tokens: Tokens) -> str:
    """An icon in the shade that goes with the colours, as a style sheet names it."""
    shade = "dark" if tokens.is_dark else "light"
    return f'url("{(ICONS / f"{name}-{shade}.svg").as_posix()}")'


def buttons(t: Tokens, s: Sizes) -> str:
    return f"""
    QPushButton {{
        background: {t.surface}; border: 1px solid {t.line}; border-radius: 7px;
        padding: 4px 14px; min-height: {s.control}px;
    }}
    QPushButton:hover {{ border-color: {t.faint}; }}
    QPushButton:pressed {{ background: {t.grid}; }}
    QPushButton:focus {{ border: 2px solid {t.accent}; padding: 3px 13px; }}
    QPushButton:disabled {{ color: {t.faint}; background: {t.background}; }}
    QPushButton::menu-indicator {{
        image: {icon_url("chevron-down", t)}; subcontrol-origin: padding; subcontrol-position: center right;
        right: 8px; width: 9px; height: 9px;
    }}
    QPushButton[hasMenu="true"] {{ padding-right: 26px; }}
    QPushButton[role="primary"] {{
        background: {t.accent}; color: {t.on_accent}; border: 1px solid {t.accent}; font-weight: 600;
        min-height: {s.control + 4}px;
    }}
    QPushButton[role="primary"]:hover {{ background: {t.accent_strong}; border-color: {t.accent_strong}; }}
    QPushButton[role="primary"]:pressed {{ background: {t.accent_strong}; }}
    QPushButton[role="primary"]:focus {{ border: 2px solid {t.text}; }}
    QPushButton[role="primary"]:disabled {{ background: {t.grid}; color: {t.muted}; border-color: {t.line}; }}
    QPushButton[role="link"] {{
        background: transparent; color: {t.accent}; border: 1px solid transparent;
        padding: 1px 5px; min-height: {s.line}px;
    }}
    QPushButton[role="link"]:hover {{ background: {t.accent_soft}; }}
    QPushButton[role="link"][stays="true"]:checked {{ background: {t.accent_soft}; }}
    QPushButton[role="link"]:focus {{ border: 2px solid {t.accent}; padding: 0px 4px; }}
    QPushButton[role="link"][flush="true"] {{ padding: 1px 0px; }}
    QPushButton[role="link"][flush="true"]:focus {{ padding: 0px; }}
    QPushButton[role="link"]:disabled {{ color: {t.faint}; }}
    QToolButton[role="more"] {{
        border: 1px solid transparent; border-radius: 5px; background: transparent; color: {t.faint}; padding: 0px 4px;
    }}
    QToolButton[role="more"]:hover {{ background: {t.grid}; color: {t.text}; }}
    QToolButton[role="more"]:focus {{ border-color: {t.accent}; }}
    QToolButton[role="more"]::menu-indicator {{ image: none; width: 0px; }}
    QPushButton[role="navigation"] {{
        background: transparent; border: 2px solid transparent; border-radius: 7px; text-align: left; padding: 5px 9px;
    }}
    QPushButton[role="navigation"]:hover {{ background: {t.grid}; }}
    QPushButton[role="navigation"]:checked {{
        background: {t.accent_soft}; color: {t.accent}; font-weight: 600;
    }}
    QPushButton[role="navigation"]:focus {{ border-color: {t.accent}; }}
    """


def segments(t: Tokens, s: Sizes) -> str:
    return f"""
    QFrame[role="segments"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 8px; }}
    QPushButton[role="segment"] {{
        background: transparent; border: 2px solid transparent; border-radius: 6px;
        padding: 1px 11px; min-height: {s.control}px;
    }}
    QPushButton[role="segment"]:hover {{ background: {t.grid}; }}
    QPushButton[role="segment"]:checked {{
        background: {t.accent}; color: {t.on_accent}; border-color: {t.accent};
    }}
    QPushButton[role="segment"]:focus {{ border-color: {t.accent}; }}
    QPushButton[role="segment"]:checked:focus {{ border-color: {t.text}; }}
    QPushButton[role="segment"]:disabled {{ background: transparent; color: {t.faint}; border-color: transparent; }}
    QPushButton[role="segment"]:checked:disabled {{ background: {t.grid}; color: {t.muted}; }}
    """


def inputs(t: Tokens, s: Sizes) -> str:
    return f"""
    QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox, QPlainTextEdit {{
        background: {t.surface}; border: 1px solid {t.line}; border-radius: 7px; padding: 4px 9px;
        selection-background-color: {t.accent}; selection-color: {t.on_accent};
    }}
    QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox {{ min-height: {s.control}px; }}
    QLineEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover, QComboBox:hover {{ border-color: {t.faint}; }}
    QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus, QComboBox:on, QPlainTextEdit:focus {{
        border: 2px solid {t.accent}; padding: 3px 8px;
    }}
    QLineEdit[invalid="true"], QSpinBox[invalid="true"], QDoubleSpinBox[invalid="true"], QComboBox[invalid="true"] {{
        border-color: {t.bad};
    }}
    QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled, QPlainTextEdit:disabled {{
        color: {t.faint}; background: {t.background};
    }}
    QSpinBox, QDoubleSpinBox {{ padding: 3px 20px 3px 0; }}
    QSpinBox:focus, QDoubleSpinBox:focus {{ padding: 2px 19px 2px 0; }}
    QAbstractSpinBox QLineEdit {{ background: transparent; border: none; padding: 0; margin: 0; min-height: 0; }}
    QSpinBox::up-button, QDoubleSpinBox::up-button {{
        subcontrol-origin: border; subcontrol-position: top right; width: 20px;
        border: none; background: transparent;
    }}
    QSpinBox::down-button, QDoubleSpinBox::down-button {{
        subcontrol-origin: border; subcontrol-position: bottom right; width: 20px;
        border: none; background: transparent;
    }}
    QSpinBox::up-arrow, QDoubleSpinBox::up-arrow {{ image: {icon_url("chevron-up", t)}; width: 8px; height: 8px; }}
    QSpinBox::down-arrow, QDoubleSpinBox::down-arrow {{
        image: {icon_url("chevron-down", t)}; width: 8px; height: 8px;
    }}
    QComboBox {{ padding-right: 26px; combobox-popup: 0; }}
    QComboBox:focus, QComboBox:on {{ padding-right: 25px; }}
    QComboBox::drop-down {{
        subcontrol-origin: border; subcontrol-position: center right; width: 26px;
        border: none; background: transparent;
    }}
    QComboBox::down-arrow {{ image: {icon_url("chevron-down", t)}; width: 10px; height: 10px; }}
    QComboBox QAbstractItemView {{
        background: {t.surface}; border: 1px solid {t.line}; padding: 4px; outline: none;
        selection-background-color: {t.accent_soft}; selection-color: {t.text};
    }}
    QComboBox QAbstractItemView::item {{ min-height: {s.control + 4}px; padding: 0 6px; border-radius: 5px; }}
    """


def choices(t: Tokens, s: Sizes) -> str:
    """Check boxes and radio buttons. Borders lie outside of an indicator's width: a thick one leaves less of it."""
    dot = s.indicator // 3
    inside = f"width: {s.indicator + 2 - 2 * dot}px; height: {s.indicator + 2 - 2 * dot}px"
    return f"""
    QCheckBox, QRadioButton {{ background: transparent; spacing: 8px; min-height: {s.control + 6}px; }}
    QCheckBox:disabled, QRadioButton:disabled {{ color: {t.faint}; }}
    QCheckBox::indicator, QRadioButton::indicator {{
        width: {s.indicator}px; height: {s.indicator}px;
        background: {t.surface}; border: 1px solid {t.faint};
    }}
    QCheckBox::indicator {{ border-radius: 4px; }}
    QRadioButton::indicator {{ border-radius: {s.indicator // 2 + 1}px; }}
    QCheckBox::indicator:checked {{
        background: {t.accent}; border-color: {t.accent}; image: {icon_url("check", t)};
    }}
    QCheckBox::indicator:focus {{ border: 2px solid {t.accent}; }}
    QRadioButton::indicator:focus {{
        width: {s.indicator - 2}px; height: {s.indicator - 2}px; border: 2px solid {t.accent};
    }}
    QRadioButton::indicator:checked {{ {inside}; border: {dot}px solid {t.accent}; }}
    QRadioButton::indicator:checked:focus {{ {inside}; border: {dot}px solid {t.text}; }}
    QRadioButton::indicator:checked:disabled {{ {inside}; border: {dot}px solid {t.faint}; }}
    QCheckBox::indicator:checked:focus {{ border: 2px solid {t.text}; }}
    QCheckBox::indicator:disabled {{ border-color: {t.line}; background: {t.background}; }}
    """


def views(t: Tokens, s: Sizes) -> str:
    return f"""
    QTableView, QListView, QTreeView {{
        background: {t.surface}; alternate-background-color: {t.background}; border: 1px solid {t.line};
        border-radius: 8px; gridline-color: {t.grid}; outline: none;
        selection-background-color: {t.accent_soft}; selection-color: {t.text};
    }}
    QTableView:focus, QListView:focus, QTreeView:focus {{ border-color: {t.accent}; }}
    QTableView::item, QListView::item, QTreeView::item {{ padding: 4px 6px; border: none; }}
    QTableView::item:selected, QListView::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QHeaderView {{ background: transparent; border: none; }}
    QHeaderView::section {{
        background: transparent; color: {t.muted}; border: none; border-bottom: 1px solid {t.line};
        padding: 6px 9px; font-size: {s.small_font};
    }}
    QHeaderView::section:vertical {{ border: none; padding: 0 8px; }}
    QHeaderView::up-arrow, QHeaderView::down-arrow {{
        subcontrol-position: center right; right: 1px; width: 7px; height: 7px;
    }}
    QHeaderView::up-arrow {{ image: {icon_url("chevron-up", t)}; }}
    QHeaderView::down-arrow {{ image: {icon_url("chevron-down", t)}; }}
    QTableCornerButton::section {{ background: transparent; border: none; }}
    QTabWidget::pane {{ border: 1px solid {t.line}; border-radius: 8px; background: {t.surface}; top: 4px; }}
    QTabWidget[role="tabs"]::pane {{ border: none; background: transparent; top: 0px; }}
    QTabBar {{ background: transparent; }}
    QTabBar::tab {{
        background: transparent; color: {t.muted}; border: 2px solid transparent; border-radius: 7px;
        padding: 4px 12px; margin: 2px 4px 6px 0; min-height: {s.line}px;
    }}
    QTabBar::tab:hover {{ color: {t.text}; background: {t.grid}; }}
    QTabBar::tab:selected {{ color: {t.accent}; background: {t.accent_soft}; }}
    QTabBar::tab:focus {{ border-color: {t.accent}; }}
    QPlainTextEdit[role="monospace"], QTableView[role="inset"] {{ border: none; }}
    """


def scrolling(t: Tokens, s: Sizes) -> str:
    return f"""
    QScrollBar {{ background: transparent; border: none; margin: 0; }}
    QScrollBar:vertical {{ width: {GUTTER}px; }}
    QScrollBar:horizontal {{ height: 10px; }}
    QScrollBar::handle {{ background: {t.line}; border-radius: 3px; margin: 2px; }}
    QScrollBar::handle:vertical {{ margin: 2px 4px; }}
    QScrollBar::handle:hover {{ background: {t.faint}; }}
    QScrollBar::handle:vertical {{ min-height: 28px; }}
    QScrollBar::handle:horizontal {{ min-width: 28px; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; border: none; background: none; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: none; }}
    QAbstractScrollArea::corner {{ background: transparent; border: none; }}
    """


def small_things(t: Tokens, s: Sizes) -> str:
    return f"""
    QToolTip {{
        background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; padding: 5px 8px;
    }}
    QProgressBar {{
        background: {t.grid}; border: none; border-radius: 4px; min-height: 8px; max-height: 8px;
        text-align: center; color: transparent;
    }}
    QProgressBar::chunk {{ background: {t.accent}; border-radius: 4px; }}
    QMenu {{ background: {t.surface}; border: 1px solid {t.line}; padding: 5px; }}
    QMenu::item {{ padding: 5px 22px 5px 12px; border-radius: 5px; }}
    QMenu::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QMenu::item:disabled {{ color: {t.faint}; }}
    QMenu::separator {{ height: 1px; background: {t.grid}; margin: 5px 8px; }}
    QSlider::groove:horizontal {{ background: {t.grid}; height: 4px; border-radius: 2px; }}
    QSlider::sub-page:horizontal {{ background: {t.accent}; height: 4px; border-radius: 2px; }}
    QSlider::handle:horizontal {{
        background: {t.surface}; border: 1px solid {t.faint}; width: 14px; height: 14px; margin: -6px 0;
        border-radius: 8px;
    }}
    QSlider::handle:horizontal:focus {{ border: 2px solid {t.accent}; }}
    QSplitter::handle {{ background: transparent; }}
    """
