"""A table of figures whose links come and go."""

import gc

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QPushButton

from core.base.settings import Appearance
from gui.base.theme import Theme
from gui.benchmark.results import Cell, FiguresTable, Heading, Line

HEADINGS = (Heading("Method"), Heading("Time"), Heading(""))
LINES = tuple(Line(key, (Cell(key), Cell("1 s"), Cell())) for key in ("plain", "bf16"))
LINKS = {line.key: ("Use this", "") for line in LINES}


@pytest.fixture
def table(qtbot):
    table = FiguresTable("Methods", Theme(Appearance.LIGHT))
    qtbot.addWidget(table)
    table.show()
    return table


def test_links_that_went_are_let_go_of(qtbot, table):
    table.show_lines(HEADINGS, LINES, LINKS)
    assert set(table.links()) == {"plain", "bf16"}
    table.show_lines(HEADINGS, LINES, {"bf16": LINKS["bf16"]})
    gc.collect()
    table.updateGeometries()  # places every link it still knows of
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert table.indexWidget(table.rows.index(0, 2)) is None
    assert len(table.findChildren(QPushButton)) == 1
    table.updateGeometries()
    table.show_lines(HEADINGS, LINES, LINKS)
    assert table.indexWidget(table.rows.index(0, 2)) is table.links()["plain"]


def test_other_lines_bring_links_of_their_own(qtbot, table):
    table.show_lines(HEADINGS, LINES, LINKS)
    before = table.links()["bf16"]
    table.show_lines(HEADINGS, LINES[1:], {"bf16": LINKS["bf16"]})
    gc.collect()
    table.updateGeometries()
    assert table.links()["bf16"] is not before
    assert table.indexWidget(table.rows.index(0, 2)) is table.links()["bf16"]
    with qtbot.waitSignal(table.pressed_link) as told:
        table.links()["bf16"].click()
    assert told.args == ["bf16"]
