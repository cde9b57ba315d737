"""Closing the window ends a dry run at once, without a question: nothing of it is worth keeping."""

import sys

import psutil
import pytest
from PySide6.QtCore import Qt

from core.services.memory import DryRun
from gui.new_run.memory_state import MemoryTools
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.memory import FakeRoom
from tests.fakes.runs import FAKES

HANGS = [sys.executable, "-P", str(FAKES / "measuring_job.py"), "hang"]


def dry_runs():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.cmdline()[-len(HANGS) :] == HANGS]


def test_a_dry_run_ends_with_the_window(qtbot, make_window):
    tools = MemoryTools(room=FakeRoom(), dry_run=lambda options, room: DryRun(options, room, command=HANGS))
    window = make_window(on_close=lambda _question: pytest.fail("a question"), tools=tools)
    page = window.pages.new_run
    page.set_machine(CPU_ONLY)
    button = page.outcome.fit.measure.button
    qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled() and button.height() > 0)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(dry_runs()) == 1, timeout=10_000)
    running = dry_runs()
    assert window.close()
    assert not page.fit.measuring.is_running
    _, alive = psutil.wait_procs(running, timeout=5)
    assert alive == []
