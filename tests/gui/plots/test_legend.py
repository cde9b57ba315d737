"""What stands beside a chart's title, and what of it where there is little room."""

import pytest

from core.base.settings import Appearance
from gui.base.theme import Theme
from gui.charts.overlays import Legend, Reading

READINGS = [
    Reading("Accuracy 91.2 %", "run", "Accuracy"),
    Reading("F1 90.1 %", "gradients", "F1"),
    Reading("Top-5 accuracy 99.9 %", "optimizer", "Top-5 accuracy"),
]


@pytest.fixture
def shown(qtbot):
    legend = Legend()
    qtbot.addWidget(legend)
    tokens = Theme(Appearance.LIGHT).tokens

    def show(lines):
        room = legend.fontMetrics().horizontalAdvance("m") * lines
        legend.show_readings(READINGS, room, tokens)
        return legend.text().replace("&nbsp;", " ")

    return show


def test_every_dot_is_named_before_its_figure_is_told(shown):
    assert "91.2 %" in shown(100)
    narrow = shown(31)
    assert "%" not in narrow
    assert all(reading.name in narrow for reading in READINGS)
