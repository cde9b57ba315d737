"""The real window with the real engine: start a run, watch it, stop it, find it again."""

from PySide6.QtCore import Qt

from core.runs.library import read_status
from core.runs.status import State
from gui.app.closing import Closing
from gui.app.sidebar import Place
from gui.base.background import ask_real_engine

PATIENCE_MS = 300_000


def test_a_run_is_started_watched_stopped_and_found_again(qtbot, make_window):
    window = make_window(ask_real_engine, on_close=lambda _question: Closing.STOP)
    form = window.pages.new_run.options.form
    form.set_values({"data.train": "synthetic:512x32", "training.epochs": 400.0, "device.name": "cpu"})
    qtbot.mouseClick(window.pages.new_run.outcome.start, Qt.MouseButton.LeftButton)
    view = window.pages.run.view
    run = view.run
    qtbot.waitUntil(lambda: read_status(run).step >= 5, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=60_000)

    qtbot.mouseClick(view.header.buttons.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=PATIENCE_MS)
    assert (run.model / "model.safetensors").is_file()

    window.pages.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 1)
    window.pages.runs.table.selectRow(0)
    qtbot.keyClick(window.pages.runs.table, Qt.Key.Key_Return)
    assert window.pages.currentWidget() is window.pages.run
    assert window.pages.run.view.run.path == run.path
