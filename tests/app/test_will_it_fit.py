"""The real window with the real engine: will this run fit, by forecast and by a dry run?"""

import pytest
from PySide6.QtCore import Qt

from core.settings import Appearance, Settings
from gui.engine_question import ask_real_engine
from gui.theme import Theme
from gui.window import MainWindow
from tests.fakes.asking import CPU_ONLY

PATIENCE_MS = 300_000


@pytest.fixture
def window(qtbot, tmp_path):
    window = MainWindow(
        Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path / "runs")), ask_real_engine
    )
    qtbot.addWidget(window)
    window.show()
    yield window
    window.end_work()


def test_the_digits_are_forecast_measured_and_planned(qtbot, window):
    page = window.new_run
    page.set_machine(CPU_ONLY)
    page._options.form.set_values({"data.train": "synthetic:64x32", "memory.batch_size": 8})
    fit = page._outcome.fit
    qtbot.waitUntil(lambda: fit.headline != "", timeout=PATIENCE_MS)
    assert fit.headline.startswith("Fits")
    forecast = page._fit.forecast.parts.total

    qtbot.mouseClick(fit._measure.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: fit._basis.text() == "measured just now", timeout=PATIENCE_MS)
    assert page._fit.note == ""
    measured = page._fit.forecast.parts.total
    assert 0.5 * measured < forecast < 2 * measured
    assert " a step · about " in fit._measure.words
    assert "done at" in fit._measure.words
    assert fit._time_box.isVisible()
