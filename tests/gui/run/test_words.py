"""What ran, as rows with their reasons, and how good forecasts have been."""

import pytest
from msgspec.structs import replace

from core.memory.history import PastRun
from core.memory.model import Basis
from core.options.sections import TrainingOptions
from core.runs.events import RunStarted, WhatRan
from core.runs.status import RunStatus, State
from core.runs.words import statements
from gui.run.tabs import what_ran_groups
from gui.run.words import RunFacts, forecast_text, progress_of, time_left
from tests.fakes.runs import OPTIONS, plan, step

WHAT_RAN = WhatRan(
    device="cpu",
    device_name="NVIDIA GeForce RTX 4090 Laptop GPU",
    parameter_dtype="float32 + uint8",
    autocast_dtype="bfloat16",
    optimizer="AdamW8bit, fused",
    optimizer_state_bytes=2_400_000,
    trainable_parameters=1_181_642,
    total_parameters=311_181_642,
    effective_batch=1024,
    attention="sdpa",
    reasons={
        "device.name": "there is no GPU here that PyTorch can use",
        "device.precision": "bf16: this CPU computes bf16 in hardware",
        "data.workers": "0: loading in other processes would take cores from the training",
    },
)


def test_each_row_appears_once_with_its_reason():
    assert len(what_ran_groups(RunStatus())) == 1  # known after the first step
    groups = what_ran_groups(RunStatus(what_ran=WHAT_RAN, versions={"torch": "2.13.0"}))
    rows = [row for group in groups for row in group.rows]
    by_name = {row.name: (row.value, row.note) for row in rows}
    assert len(by_name) == len(rows) > 8
    assert by_name["Device"] == (
        "CPU (NVIDIA GeForce RTX 4090 Laptop GPU)",
        "There is no GPU here that PyTorch can use",
    )
    assert by_name["Computed in"] == ("bf16 (autocast)", "This CPU computes bf16 in hardware")
    in_mlx = statements(replace(WHAT_RAN, engine="MLX 0.32.4"))
    assert [line.value for line in in_mlx if line.title == "Computed in"] == ["bf16"]
    assert by_name["Versions"][0] == "torch 2.13.0"


def test_a_run_of_less_than_an_epoch_counts_its_steps_only():
    """“epoch 0 of 0.3” says nothing."""
    for epochs, words in ((0.3, ["step 5 of 40"]), (1.0, ["step 5 of 40", "epoch 0.1 of 1"])):
        assert progress_of(RunStatus(plan=plan(total_steps=40, epochs=epochs), step=5, epoch=0.12)) == words


TEST = replace(OPTIONS, training=TrainingOptions(epochs=0.0))


@pytest.mark.parametrize(
    ("state", "steps", "options", "text"),
    [
        (State.QUEUED, 0, None, ""),
        (State.STARTING, 0, None, "working out the time"),
        (State.STARTING, 0, TEST, "working out the time"),
        (State.TRAINING, 4, None, "working out the time"),
        (State.TRAINING, 5, None, "about 20 s left"),
        (State.PAUSING, 40, None, ""),
        (State.PAUSED, 40, None, ""),
    ],
)
def test_the_time_left_is_being_worked_out_until_five_steps_are_done(state, steps, options, text):
    status = RunStatus()
    status.apply_all([RunStarted(), plan(total_steps=45), *map(step, range(1, steps + 1))])
    assert time_left(RunFacts(status=status, state=state, options=options), now=0.0) == text


def past(forecast, measured, device="Apple M2"):
    return PastRun(device=device, basis=Basis.FORMULA, forecast=forecast, measured=measured)


@pytest.mark.parametrize(
    ("runs", "parts"),
    [
        ([], []),
        ([past(96, 100)], ["1 run", "off by 4 %"]),
        ([past(90, 99)] * 3, ["off by 9 %", "3 runs"]),
        (
            [*[past(90, 99)] * 3, *[past(100, 96, "NVIDIA RTX 4070")] * 3],
            ["off by 7 %", "6 runs"],
        ),
    ],
)
def test_the_accuracy_of_forecasts(runs, parts):
    text = forecast_text(runs)
    assert bool(text) == bool(runs)
    assert all(part in text for part in parts)
