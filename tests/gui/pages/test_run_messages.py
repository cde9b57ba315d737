import time

from PySide6.QtWidgets import QPushButton

from core.events import MessageWithdrawn
from core.settings import Appearance
from gui.invented_memory import write_paging
from gui.pages.run_view import RunView
from gui.theme import Theme
from tests.fakes.run_stories import keep_alive, make_folder
from tests.fakes.runs import write_events


def test_what_the_keeper_finds_is_shown_as_what_the_engine_does(qtbot, tmp_path):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    write_paging(run, time.time() - 120, minutes=2.0)
    view = RunView(Theme(Appearance.LIGHT), run)
    qtbot.addWidget(view)
    try:
        qtbot.waitUntil(lambda: len(view.messages.titles()) == 1, timeout=5000)
        assert view.messages.titles()[0].startswith("The run is paging")
        with qtbot.waitSignal(view.edit_requested, timeout=2000) as asked:
            view.messages.findChild(QPushButton).click()
        assert asked.args[0]["memory"]["batch_size"] == 16
        write_events(run.machine_file, MessageWithdrawn(id="paging"))
        qtbot.waitUntil(lambda: view.messages.titles() == [], timeout=2000)
    finally:
        view.close_view()
