"""A result as a picture for a document: its heading, the machine, the charts and the table, at twice the pixels."""

import msgspec
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.bench.plan import Kind
from core.bench.result import Result
from gui.pages.benchmark_devices import DevicesView
from gui.pages.benchmark_methods import MethodsView
from gui.pages.benchmark_words import machine_words
from gui.theme import PAGE_MARGINS, SPACING, Theme
from gui.widgets.roles import Role, set_role

WIDTH = 1120
"""Pixels on screen: both charts stand side by side, and no column leaves."""

SCALE = 2
"""It ends up in documents, which are read on screens with small pixels, or printed."""

TURNS = 2
"""Qt lays a widget that was never shown out in so many turns: what wraps has its height after its width."""


def picture(result: Result, theme: Theme, *, published: bool = False) -> QPixmap:
    """Paint a result.

    Args:
        result: Which, finished or not.
        theme: The colours.
        published: Whether figures published by others stand beside.
    """
    sheet = _sheet(result, theme, published=published)
    height = sheet.heightForWidth(WIDTH) if sheet.hasHeightForWidth() else sheet.sizeHint().height()
    for _ in range(TURNS):
        sheet.resize(WIDTH, height)
        sheet.grab()
        height = max(sheet.sizeHint().height(), sheet.heightForWidth(WIDTH))
    sheet.resize(WIDTH, height)
    image = QPixmap(sheet.size() * SCALE)
    image.setDevicePixelRatio(SCALE)
    sheet.render(image, QPoint())
    sheet.deleteLater()
    return image


def _sheet(result: Result, theme: Theme, *, published: bool) -> QWidget:
    """Everything one below the other, on a ground of the page's colour."""
    sheet = QWidget()
    set_role(sheet, Role.PAGE)
    sheet.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    title, where = QLabel(result.plan.title), QLabel(machine_words(result))
    set_role(title, Role.PAGE_TITLE)
    set_role(where, Role.MUTED)
    column = QVBoxLayout(sheet)
    column.setContentsMargins(*PAGE_MARGINS)
    column.setSpacing(SPACING)
    for label in (title, where):
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        column.addWidget(label)
    column.addSpacing(SPACING)
    column.addWidget(view_of(result, theme, published=published, is_picture=True))
    return sheet


def view_of(
    result: Result, theme: Theme, *, published: bool = False, is_picture: bool = False
) -> MethodsView | DevicesView:
    """The view that shows such a result, showing it as one that is over: nobody measures any more of it.

    Args:
        result: Which.
        theme: The colours.
        published: Whether figures published by others stand beside.
        is_picture: Whether nobody can press anything in it.
    """
    made = MethodsView if result.kind is Kind.METHODS else DevicesView
    view = made(theme, is_picture=is_picture)
    view.show_published(published)
    view.show_result(
        result if result.ended is not None else msgspec.structs.replace(result, ended=result.begun)
    )
    return view
