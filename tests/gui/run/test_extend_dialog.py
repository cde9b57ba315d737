"""How much longer a run is to train: what is offered and what it comes to."""

import msgspec
import pytest

from core.options.choices import Schedule
from core.runs.events import RunPlanned, StepFinished
from core.runs.start import Extension
from core.runs.status import RunStatus
from gui.run.extend_dialog import ExtendSheet, Length
from tests.fakes.runs import OPTIONS


def measured(steps=360, epochs=8.0):
    """Where a run of 45 steps per epoch is after its last step."""
    status = RunStatus()
    counts = {"train_samples": 1437, "eval_samples": 360, "effective_batch": 32}
    status.apply(RunPlanned(total_steps=steps, epochs=epochs, device="cpu", **counts))
    for step in range(steps - 9, steps + 1):
        status.apply(StepFinished(step=step, epoch=step / 45, seconds=0.2, learning_rate=0.0, samples=32))
    return status


@pytest.mark.parametrize(
    ("training", "status", "rows", "extension"),
    [
        (
            {},
            measured(),
            {
                "In total": "9 epochs, 405 steps",
                "Time": "about 10 s, at 200 ms",
            },
            Extension(epochs=9.0),
        ),
        ({"epochs": 0.3}, measured(14, 0.3), {"In total": "1.3 epochs, 59 steps"}, Extension(epochs=1.3)),
        (
            {"max_steps": 360, "schedule": Schedule.CONSTANT},
            measured(),
            {
                "In total": "720 steps",
                "Learning rate": "unchanged",
                "Time": "about 1 min, at 200 ms per step as in its last steps",
            },
            Extension(max_steps=720),
        ),
        ({"max_steps": 2}, measured(2, 0.01), {"In total": "22 steps"}, Extension(max_steps=22)),
        ({"max_steps": 1234}, measured(1234, 8), {"In total": "2,434 steps"}, Extension(max_steps=2434)),
        ({}, RunStatus(), {"In total": "9 epochs", "Time": None}, Extension(epochs=9.0)),
    ],
    ids=[
        "epochs",
        "a part of an epoch",
        "steps",
        "hardly any steps",
        "many steps",
        "before a step was measured",
    ],
)
def test_a_run_is_extended_by_what_it_counts_in(qtbot, training, status, rows, extension):
    options = msgspec.structs.replace(OPTIONS, training=msgspec.structs.replace(OPTIONS.training, **training))
    sheet = ExtendSheet(Length(options, status))
    qtbot.addWidget(sheet)
    shown = dict(sheet.rows.rows())
    for title, words in rows.items():
        assert shown.get(title, "").startswith(words) if words else title not in shown
    with qtbot.waitSignal(sheet.chosen) as chosen:
        sheet.start.click()
    assert chosen.args == [extension]
