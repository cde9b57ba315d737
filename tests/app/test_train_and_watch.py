"""The real window with the real engine: start a run, watch it, stop it, find it again."""

import pytest
from PySide6.QtCore import Qt

from core.base.settings import Appearance, Settings
from core.runs.library import read_status
from core.runs.status import State
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.background import ask_real_engine
from gui.base.theme import Theme

PATIENCE_MS = 300_000


def stop_what_trains(_runs, _parent, **_more):
    """Answers the question about closing, should the test fail while the run trains."""
    return Closing.STOP


@pytest.fixture
def window(qtbot, tmp_path):
    window = MainWindow(
        Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path / "runs")), ask_real_engine
    )
    qtbot.addWidget(window)
    window.show()
    yield window
    window.end_work()


def test_a_run_is_started_watched_stopped_and_found_again(qtbot, window):
    form = window.new_run._options.form
    form.set_values({"data.train": "synthetic:512x32", "training.epochs": 400.0, "device.name": "cpu"})
    assert window.new_run._outcome.start.text() == "Start training"
    start = window.new_run._outcome.start
    qtbot.mouseClick(start, Qt.MouseButton.LeftButton)
    view = window.run.view
    run = view.run
    qtbot.waitUntil(lambda: read_status(run).step >= 5, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=60_000)

    qtbot.mouseClick(view.header.buttons.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=PATIENCE_MS)
    assert (run.model / "model.safetensors").is_file()

    window.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.runs.model.rowCount() == 1)
    with qtbot.waitSignal(window.runs.run_opened) as caught:
        window.runs.table.selectRow(0)
        qtbot.keyClick(window.runs.table, Qt.Key.Key_Return)
    assert caught.args[0].path == run.path
    assert window.pages.currentWidget() is window.run
