import msgspec
import pytest
from PySide6.QtWidgets import QWidget

from core.base.errors import DeviceError
from core.services.devices import DeviceCheckRequest
from gui.settings.page import DeviceCheckDialog
from tests.fakes.jobs import FakeEngine


@pytest.fixture
def engine():
    engine = FakeEngine()
    yield engine
    engine.gate.set()


@pytest.fixture
def dialog(qtbot, engine):
    engine.gate.clear()
    window = QWidget()
    qtbot.addWidget(window)
    dialog = DeviceCheckDialog(engine, "cpu", window)
    dialog.show()
    yield dialog
    window.deleteLater()  # keeps it until here


def cells(table):
    return [
        [table.item(row, column).text() for column in range(table.columnCount())]
        for row in range(table.rowCount())
    ]


def test_it_asks_about_the_device_and_shows_each_comparison(qtbot, engine, dialog):
    assert dialog.task.is_running
    assert dialog.table.isHidden()
    engine.gate.set()
    qtbot.waitUntil(lambda: not dialog.task.is_running)
    job, request = engine.requests[-1]
    assert (job, msgspec.json.decode(request, type=DeviceCheckRequest).device) == ("check-device", "cpu")
    assert cells(dialog.table) == [
        ["✓ agrees", "Loss", "1.2e-7", "One."],
        ["✕ differs", "Gradients", "0.5", "Two."],
        ["– not run", "Mask", "–", "Three. No time."],
    ]
    assert dialog.strip.accessibleName() == "The gradients differ"
    assert dialog._progress.isHidden()


def test_closing_it_ends_the_check(qtbot, engine, dialog):
    with qtbot.waitSignal(dialog.finished):
        dialog.reject()
    assert not dialog.task.is_running
    assert all(thread.isFinished() for thread in dialog.task._calls)


def test_a_check_that_fails_says_why(qtbot, engine, dialog):
    engine.answers["check-device"] = DeviceError("There is no such device")
    engine.gate.set()
    qtbot.waitUntil(lambda: not dialog.task.is_running)
    assert dialog.strip.accessibleName() == "There is no such device"
    assert dialog.table.isHidden()
