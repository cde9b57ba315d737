"""How tables, tabs, scroll bars, menus and tips look."""

from gui.style_sizes import Sizes, icon_url
from gui.tokens import GUTTER, Tokens


def views(t: Tokens, s: Sizes) -> str:
    """Tables, their headers, and tabs."""
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
    """Scroll bars without arrows."""
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
    """Tips, progress and menus."""
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
