"""How much longer a run is to train: what is offered and what it comes to."""

import msgspec
import pytest

from core.options.choices import Schedule
from core.runs.events import RunPlanned, StepFinished
from core.runs.start import Extension
from core.runs.status import RunStatus
from gui.run.extend_dialog import ExtendSheet, Length
from tests.fakes.runs import OPTIONS


@pytest.fixture
def status():
    status = RunStatus()
    status.apply(
        RunPlanned(
            total_steps=360,
            epochs=8.0,
            train_samples=1437,
            eval_samples=360,
            effective_batch=32,
            device="cpu",
        )
    )
    for step in range(351, 361):
        status.apply(StepFinished(step=step, epoch=step / 45, seconds=0.2, learning_rate=0.0, samples=32))
    return status


def with_training(**changes):
    return msgspec.structs.replace(OPTIONS, training=msgspec.structs.replace(OPTIONS.training, **changes))


def rows_of(sheet):
    return dict(sheet.rows.rows())


def test_epochs_are_added_to_what_was_asked(qtbot, status):
    sheet = ExtendSheet(Length(OPTIONS, status))
    qtbot.addWidget(sheet)
    sheet.more.setValue(2)
    assert rows_of(sheet)["So far"] == "step 360, epoch 8"
    assert rows_of(sheet)["In total"] == "10 epochs, 450 steps"
    assert rows_of(sheet)["Time"].startswith("about 20 s, at 200 ms")
    assert rows_of(sheet)["Learning rate"].startswith("follows its schedule")
    with qtbot.waitSignal(sheet.chosen) as chosen:
        sheet.start.click()
    assert chosen.args == [Extension(epochs=10.0)]


def test_steps_are_added_where_steps_were_asked(qtbot, status):
    sheet = ExtendSheet(Length(with_training(max_steps=360, schedule=Schedule.CONSTANT), status))
    qtbot.addWidget(sheet)
    assert sheet.more.value() == 36
    assert rows_of(sheet)["In total"] == "396 steps"
    assert rows_of(sheet)["Learning rate"] == "unchanged"
    with qtbot.waitSignal(sheet.chosen) as chosen:
        sheet.start.click()
    assert chosen.args == [Extension(max_steps=396)]


def test_nothing_is_promised_before_a_step_was_measured(qtbot):
    sheet = ExtendSheet(Length(OPTIONS, RunStatus()))
    qtbot.addWidget(sheet)
    assert "Time" not in rows_of(sheet)
    assert rows_of(sheet)["In total"] == "9 epochs"
