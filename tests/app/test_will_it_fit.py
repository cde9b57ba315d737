"""The real window with the real engine: will this run fit, by forecast, with a remedy, and by a dry run?"""

import pytest
from PySide6.QtCore import Qt

from core.base.settings import Appearance, Settings
from core.memory.model import Room
from gui.app.window import MainWindow
from gui.base.background import ask_real_engine
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.memory import GB, FakeRoom

PATIENCE_MS = 120_000


@pytest.fixture
def room():
    return FakeRoom()


@pytest.fixture
def window(qtbot, tmp_path, room):
    window = MainWindow(
        Theme(Appearance.LIGHT),
        Settings(runs_folder=str(tmp_path / "runs")),
        ask_real_engine,
        tools=MemoryTools(room=room),
    )
    window.new_run._fit.refined._timer.setInterval(PATIENCE_MS)  # other tests trace, and that takes seconds
    qtbot.addWidget(window)
    window.show()
    yield window
    window.end_work()


def press(qtbot, button):
    qtbot.waitUntil(lambda: button.isVisible() and button.height() > 0)  # once it has its place
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def take_a_remedy_and_undo_it(qtbot, page, room):
    fit, before, plenty = page._outcome.fit, page.tree(), room.room
    forecast = page._fit.forecast.parts.total
    room.room = Room(free=int(0.99 * forecast), ceiling=4 * GB)
    page._fit.read_room()
    assert fit.headline.startswith("Doesn't fit")
    row = fit.ladder.rows[0]
    press(qtbot, row.button)  # the ladder has unfolded by itself
    assert page.tree() != before
    assert page._fit.forecast.parts.total < forecast
    press(qtbot, page._changes._undo)
    assert page.tree() == before
    assert fit.headline.startswith("Doesn't fit")
    room.room = plenty
    page._fit.read_room()


@pytest.mark.long
def test_digits_are_forecast_made_to_fit_measured_and_planned(qtbot, window, room):
    page = window.new_run
    page._options.form.set_values(
        {"data.train": "synthetic:12x32", "data.workers": 0, "memory.batch_size": 4, "device.threads": 1}
    )
    page.set_machine(CPU_ONLY)
    fit = page._outcome.fit
    qtbot.waitUntil(lambda: fit.headline != "", timeout=PATIENCE_MS)
    assert fit.headline.startswith("Fits")
    forecast = page._fit.forecast.parts.total

    take_a_remedy_and_undo_it(qtbot, page, room)

    qtbot.waitUntil(fit._measure.button.isEnabled, timeout=PATIENCE_MS)
    press(qtbot, fit._measure.button)
    qtbot.waitUntil(lambda: fit._basis.text() == "measured just now", timeout=PATIENCE_MS)
    assert page._fit.note == ""
    measured = page._fit.forecast.parts.total
    assert 0.5 * measured < forecast < 2 * measured
    assert " a step · about " in fit._measure.label.text()
    assert "done at" in fit._measure.label.text()
    assert fit._time_box.isVisible()
