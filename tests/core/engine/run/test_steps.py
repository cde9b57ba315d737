"""The parts of a step, on a clock and a device that stand still until they are moved on."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from core.engine.reporter import Reporter
from core.engine.run.steps import EVERY, FIRST, StepLog, StepOnDevice, StepPart, StepParts
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.folder import RunFolder
from tests.fakes.devices import AsynchronousDevice
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import train

HOST, DEVICE = 0.001, (0.0, 0.010, 0.020, 0.005)
"""Seconds in which this process gives the device a part's work, and in which the device computes it."""


def run_step(parts: StepParts, device: AsynchronousDevice) -> float:
    """One step, as Trainer takes it; returns its seconds."""
    parts.begin()
    begun = device.now
    for part, seconds in zip(StepPart, DEVICE, strict=True):
        device.now += HOST / 10  # the loop itself
        if part is not StepPart.OPTIMIZER:
            parts.skip()
        device.compute(seconds, told_in=HOST)
        parts.lap(part)
    return device.now - begun


@pytest.fixture
def device():
    return AsynchronousDevice()


def test_accumulated_batches_add_up_without_the_loop_between_them_or_an_evaluation_before(device):
    parts = StepParts(None, clock=device.clock)
    parts.begin()
    parts.lap(StepPart.FORWARD)
    device.now += 60.0  # an evaluation
    parts.begin()
    for part, seconds in ((StepPart.FORWARD, 2.0), (StepPart.BACKWARD, 3.0)) * 2:
        if part is StepPart.FORWARD:
            device.now += 0.5
            parts.skip()
        device.now += seconds
        parts.lap(part)
    assert list(parts.end().values()) == [0.0, 4.0, 6.0, 0.0]


def test_a_device_is_waited_for_in_one_step_of_several_which_then_has_its_parts(device):
    parts = StepParts(device.wait, clock=device.clock)
    for _ in range(FIRST):
        assert not parts.is_due
        parts.begin()  # begun twice, it counts once
        run_step(parts, device)
        assert set(parts.end().values()) == {None}
    assert (parts.is_due, device.waits) == (True, 0)
    device.wait()  # as reading the figures of the steps before does
    seconds = run_step(parts, device)
    found: Any = list(parts.end().values())
    assert found[1:] == pytest.approx([DEVICE[1] + HOST, DEVICE[2] + HOST, DEVICE[3] + HOST + HOST / 10])
    assert sum(found) < seconds
    for _ in range(EVERY - 1):
        assert not parts.is_due
        parts.begin()
        parts.end()
    assert parts.is_due


def test_fetching_is_timed_apart_from_a_copy_that_waits_for_the_device(device):
    class Loader:
        def __iter__(self) -> Iterator[int]:
            for batch in range(2):
                device.now += 0.25
                yield batch

    loader: Any = Loader()
    parts = StepParts(device.wait, clock=device.clock)
    parts.timed(loader)
    parts.begin()
    device.compute(7.0, told_in=0.0)
    batches = loader.__iter__()
    assert next(batches) == 0
    device.wait()  # the copy
    parts.lap(StepPart.DATA)
    assert list(parts.end().values()) == [0.25, None, None, None]
    assert list(batches) == [1]


def test_a_real_run_computes_the_same_whether_its_device_is_waited_for_or_not(tmp_path, monkeypatch, device):
    bert, batches = save_tiny_bert(tmp_path / "bert"), {"batch_size": 1, "gradient_accumulation_steps": 2}
    plain = train(tmp_path / "plain", source=bert, train="synthetic:24x8", **batches)
    for step in plain.steps:
        parts = (step.data_seconds, step.forward_seconds, step.backward_seconds, step.optimizer_seconds)
        assert all(part is not None and part > 0 for part in parts), step
        assert sum(part or 0.0 for part in parts) <= step.seconds
    monkeypatch.setattr("core.engine.training.step.wait_for", lambda kind: device.wait)
    waiting = train(tmp_path / "waiting", source=bert, train="synthetic:24x8", **batches)
    assert [step.loss for step in waiting.steps] == [step.loss for step in plain.steps]
    assert [step.step for step in waiting.steps if step.forward_seconds is not None] == [FIRST + 1]
    assert all(step.data_seconds is not None and step.data_seconds > 0 for step in waiting.steps)


@pytest.mark.parametrize("is_exact", [False, True])
def test_the_time_a_device_is_waited_for_is_shared_among_the_steps_it_was_behind_with_unless_each_is_exact(
    tmp_path, monkeypatch, device, is_exact
):
    class GradNorm:
        """A figure on the device: reading it waits."""

        def __float__(self) -> float:
            device.wait()
            return 0.5

    monkeypatch.setattr("core.engine.run.steps.time", device)
    parts, begun, run = StepParts(device.wait, clock=device.clock), device.now, RunFolder(tmp_path)
    log = StepLog(Reporter(run), parts, is_exact=is_exact)

    def written():
        return [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]

    for number in range(4):
        seconds = run_step(parts, device)
        event = StepFinished(step=number + 1, epoch=0.1, seconds=seconds, learning_rate=0.1, samples=4)
        log.add(StepOnDevice(event, losses=(torch.tensor(0.5),), grad_norm=GradNorm()))
    assert len(written()) == (4 if is_exact else 0)
    log.flush()
    steps = written()
    assert [step.seconds for step in steps] == pytest.approx([(device.now - begun) / 4] * 4)
    assert log.samples_per_second == pytest.approx(16 / (device.now - begun))
