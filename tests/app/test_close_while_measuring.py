"""Closing the window ends a dry run at once, without a question: nothing of it is worth keeping."""

import sys

import psutil
import pytest
from PySide6.QtCore import Qt

from core.base.settings import Appearance, Settings
from core.services.memory import DryRun
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from tests.fakes.jobs import CPU_ONLY, FakeEngine
from tests.fakes.memory import FakeRoom
from tests.fakes.runs import FAKES

HANGS = [sys.executable, "-P", str(FAKES / "measuring_job.py"), "hang"]


@pytest.fixture
def questions():
    """What was asked about runs that train."""
    return []


@pytest.fixture
def window(qtbot, tmp_path, questions):
    window = MainWindow(
        Theme(Appearance.LIGHT),
        Settings(runs_folder=str(tmp_path / "runs")),
        FakeEngine(),
        lambda training, _parent, **_more: questions.append(training),
        tools=MemoryTools(room=FakeRoom(), dry_run=lambda asked, room: DryRun(asked, room, command=HANGS)),
    )
    qtbot.addWidget(window)
    window.show()
    yield window
    window.end_work()


def dry_runs():
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.cmdline()[-len(HANGS) :] == HANGS
    ]


def test_a_dry_run_ends_with_the_window(qtbot, window, questions):
    page = window.new_run
    page.set_machine(CPU_ONLY)
    button = page._outcome.fit._measure.button
    qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled() and button.height() > 0)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(dry_runs()) == 1, timeout=10_000)
    (running,) = dry_runs()
    assert window.close()
    assert questions == []
    assert not page._fit.measuring.is_running
    _, alive = psutil.wait_procs([running], timeout=5)
    assert alive == []
