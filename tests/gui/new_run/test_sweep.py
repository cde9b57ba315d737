"""The dialog "Try several values"."""

import pytest
from PySide6.QtCore import Qt

from core.memory.model import Room
from core.options.catalogue import options_by_path
from core.runs.compare import sweep
from gui.new_run.sweep import SweepSheet, first_values
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.memory import GB, MEASURED
from tests.gui.new_run.steps import put, settle

RATE, SIZE = "training.learning_rate", "memory.batch_size"


@pytest.fixture
def ready(qtbot, page, memory):
    memory.room.room = Room(free=64 * GB, ceiling=64 * GB)
    page.set_machine(CPU_ONLY)
    settle(qtbot, page)
    qtbot.waitUntil(lambda: page.ready is not None and page.fit.case is not None)
    return page


@pytest.fixture
def sheet(ready):
    ready.outcome.sweep.click()
    (sheet,) = ready.findChildren(SweepSheet)
    yield sheet
    for left in ready.findChildren(SweepSheet):
        left.reject()


def choose(sheet, row, path):
    choice = sheet.rows[row][0]
    choice.setCurrentIndex(choice.findData(path))
    choice.activated.emit(choice.currentIndex())


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("training.epochs", 1.0, "0.5, 1, 2"),  # none would only evaluate
        ("training.epochs", 3.0, "1, 3, 6"),
        ("training.epochs", 4.0, "2, 4, 8"),
        (SIZE, 1, "1, 2"),
        (RATE, 5e-5, "2.5e-5, 5e-5, 0.0001"),
    ],
)
def test_half_and_twice_a_number_are_proposed(path, value, shown):
    assert first_values(options_by_path()[path], value) == shown


def test_values_become_a_request_and_each_refusal_names_the_value(qtbot, ready, sheet):
    assert sheet.values() == {RATE: "0.0005, 0.001, 0.002"}
    assert sheet.status.text() == "3 runs."
    line = sheet.rows[0][1]
    for text, said in (
        ("1e-3", "Give two different values or more, with commas between them"),
        ("1e-3, 2", "Learning rate 2: 2 would destroy"),
        ("1e-3, x", "Learning rate x: must be"),
    ):
        line.setText(text)
        assert sheet.status.text().startswith(said)
        assert not sheet.start.isEnabled()
    choose(sheet, 0, "device.precision")
    assert line.text() == "fp32, tf32, bf16, fp16"
    line.setText("fp32, fp16")
    assert sheet.status.text().startswith("Precision fp16: ")  # as this computer says
    choose(sheet, 0, RATE)
    choose(sheet, 1, SIZE)
    assert sheet.rows[1][1].text() == "16, 32, 64"
    with qtbot.waitSignal(ready.sweep_requested) as asked:
        sheet.start.click()
    assert asked.args[0].training.learning_rate == 0.001
    assert asked.args[1] == {RATE: "0.0005, 0.001, 0.002", SIZE: "16, 32, 64"}


def test_the_two_options_differ(sheet):
    choose(sheet, 1, RATE)
    assert (sheet.rows[1][0].currentData(), sheet.rows[1][1].isEnabled()) == ("", False)
    choose(sheet, 1, SIZE)
    choose(sheet, 0, SIZE)
    assert sheet.values() == {SIZE: "16, 32, 64"}


def test_it_says_how_long_all_runs_take_and_which_may_not_fit(ready, sheet, memory):
    assert sheet.status.text() == "3 runs."
    ready.fit.add_measurement(ready.fit.case.options, MEASURED)
    assert sheet.status.text().startswith("3 runs, about ")  # the measurement came while it was open
    choose(sheet, 0, "training.epochs")
    sheet.rows[0][1].setText("5, 15")
    own = sum(seconds for seconds, _title in ready.fit.expected)
    assert ready.fit.outlook({"": ready.ready})[0] == pytest.approx(own)
    seconds, large = ready.fit.outlook(sweep(ready.ready, sheet.values()))
    assert (seconds, large) == (pytest.approx(4 * own), [])
    assert sheet.status.text().startswith("2 runs, about ")
    choose(sheet, 0, SIZE)
    memory.room.room = Room(free=2 * GB, ceiling=2 * GB)
    ready.fit.read_room()
    sheet.rows[0][1].setText("8, 65536")
    assert sheet.status.text().endswith("May not fit into memory: batch 65,536.")
    assert sheet.start.isEnabled()


def choose_what(sheet, what):
    sheet.what.setCurrentIndex(sheet.what.findData(what))
    sheet.what.activated.emit(sheet.what.currentIndex())


def test_a_ladder_of_methods_becomes_a_plan(qtbot, ready, sheet):
    choose_what(sheet, "methods")
    setup = sheet.setups["methods"]
    setup.models.setCurrentIndex(setup.models.findData("tiny"))
    setup.steps.setValue(6)
    assert sheet.status.text().startswith("BERT-tiny, 512 examples of 512 tokens: ")
    assert "runs of 6 timed steps" in sheet.status.text()
    setup.compiled.setChecked(False)
    with qtbot.waitSignal(ready.benchmark_requested) as asked:
        sheet.start.click()
    (plan,) = asked.args
    assert {one.model.source for one in plan.options.values()} == {"scratch:bert-tiny"}
    assert "bf16-compile" not in plan.options


def test_the_ladder_can_be_of_the_persons_own_model_and_data(sheet):
    choose_what(sheet, "methods")
    setup = sheet.setups["methods"]
    setup.models.setCurrentIndex(setup.models.findData("form"))
    assert sheet.status.text().startswith("resnet18 on digits: ")
    choose_what(sheet, "values")
    assert sheet.status.text() == "3 runs."


def test_devices_are_what_the_machine_has_and_mistakes_are_said(qtbot, ready, sheet):
    choose_what(sheet, "devices")
    setup = sheet.setups["devices"]
    assert sheet.start.isEnabled()
    for box in setup.models.values():
        box.setChecked(False)
    assert sheet.status.text() == "Choose a model"
    assert not sheet.start.isEnabled()
    setup.models["resnet18"].setChecked(True)
    setup.batches.setText("4, many")
    assert sheet.status.text() == "Batches are whole numbers, such as 4, 64"
    setup.batches.setText("64")
    setup.images.setValue(32)
    assert sheet.status.text() == "A batch of 64 is more than the 32 examples there are"
    setup.batches.setText("4")
    with qtbot.waitSignal(ready.benchmark_requested) as asked:
        sheet.start.click()
    assert {row.group for row in asked.args[0].benchmark.rows} == {"resnet18-4"}


def test_there_are_no_benchmarks_until_the_machine_is_known(qtbot, ready):
    sheet = SweepSheet(ready.ready, lambda _values: "", None, ready)
    refusal = sheet.what.itemData(1, Qt.ItemDataRole.ToolTipRole)
    assert (sheet.setups, refusal) == ({}, "Detecting what this computer can do…")
    sheet.reject()


def test_it_can_be_opened_once_the_form_is_complete(qtbot, ready):
    put(ready, data__train="")
    assert not ready.outcome.sweep.isEnabled()
    ready.try_values()
    assert not ready.findChildren(SweepSheet)
