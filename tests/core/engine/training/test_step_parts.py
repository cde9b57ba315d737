"""Where a step's time goes, on a clock and a device that stand still until they are told to go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision

prepare_torchvision()

from core.engine.devices.memory import DeviceMemory  # noqa: E402
from core.engine.reporter import Reporter  # noqa: E402
from core.engine.training.callbacks import StepLog  # noqa: E402
from core.engine.training.observe import (  # noqa: E402
    EVERY,
    FIRST,
    Part,
    StepParts,
    StepTimes,
)
from core.options.choices import Toggle  # noqa: E402
from core.options.sections import (  # noqa: E402
    MemoryOptions,
    TrainingOptions,
)
from core.runs.event_log import EventReader  # noqa: E402
from core.runs.events import (  # noqa: E402
    Event,
    StepFinished,
)
from core.runs.folder import RunFolder  # noqa: E402
from tests.fakes import tiny_training  # noqa: E402
from tests.fakes.asynchronous_device import AsynchronousDevice  # noqa: E402
from tests.fakes.tiny_bert import save_tiny_bert  # noqa: E402

PARTS = (Part.DATA, Part.FORWARD, Part.BACKWARD, Part.OPTIMIZER)
HOST, DEVICE = 0.001, (0.0, 0.010, 0.020, 0.005)
"""Seconds in which this process tells the device of a part, and in which the device computes it."""


def run_step(parts: StepParts, device: AsynchronousDevice) -> float:
    """One step, as Trainer takes it; returns its seconds."""
    parts.begin()
    begun = device.now
    for part, seconds in zip(PARTS, DEVICE, strict=True):
        device.now += HOST / 10  # the loop itself
        if part is not Part.OPTIMIZER:
            parts.skip()
        device.compute(seconds, told_in=HOST)
        parts.lap(part)
    return device.now - begun


def test_on_a_cpu_every_step_has_its_parts_and_nothing_is_waited_for():
    device = AsynchronousDevice()
    parts = StepParts(None, clock=device.clock)
    run_step(parts, device)
    assert parts.end() == StepTimes(
        *(pytest.approx(seconds) for seconds in (HOST, HOST, HOST, HOST + HOST / 10))
    )
    assert not parts.is_due
    assert device.waits == 0


def test_accumulated_batches_add_up_and_the_loop_between_them_is_no_part():
    device = AsynchronousDevice()
    parts = StepParts(None, clock=device.clock)
    parts.begin()
    for part, seconds in ((Part.FORWARD, 2.0), (Part.BACKWARD, 3.0)) * 2:
        if part is Part.FORWARD:
            device.now += 0.5
            parts.skip()
        device.now += seconds
        parts.lap(part)
    assert parts.end() == StepTimes(data=0.0, forward=4.0, backward=6.0, optimizer=0.0)


def test_what_came_between_two_steps_belongs_to_none():
    device = AsynchronousDevice()
    parts = StepParts(None, clock=device.clock)
    parts.begin()
    parts.lap(Part.FORWARD)
    device.now += 60.0  # an evaluation
    parts.begin()
    run_step(parts, device)
    assert parts.end().forward == pytest.approx(HOST)


def test_a_device_is_waited_for_in_one_step_of_several_which_then_has_its_parts():
    device = AsynchronousDevice()
    parts = StepParts(device.wait, clock=device.clock)
    for _ in range(FIRST):
        assert not parts.is_due
        run_step(parts, device)
        assert parts.end() == StepTimes()
    assert device.waits == 0
    assert parts.is_due
    device.wait()  # as fetching the figures of the steps before does
    seconds = run_step(parts, device)
    found = parts.end()
    assert found.forward == pytest.approx(DEVICE[1] + HOST)
    assert found.backward == pytest.approx(DEVICE[2] + HOST)
    assert found.optimizer == pytest.approx(DEVICE[3] + HOST + HOST / 10)
    assert (found.data or 0) + found.forward + found.backward + found.optimizer < seconds
    for _ in range(EVERY - 1):
        assert not parts.is_due
        parts.begin()
        parts.end()
    assert parts.is_due


def test_a_step_begun_twice_counts_once():
    parts = StepParts(AsynchronousDevice().wait, clock=lambda: 0.0)
    for _ in range(FIRST):
        parts.begin()
        parts.begin()
        parts.end()
    assert parts.is_due
    parts.begin()
    parts.begin()
    assert parts.end().forward == 0.0


def test_what_is_fetched_is_timed_beside_a_device_that_is_behind():
    """The copy to the device waits for all steps before it, so the time until Trainer has a batch says nothing."""
    device = AsynchronousDevice()

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
    parts.lap(Part.DATA)
    assert parts.end() == StepTimes(data=0.25)
    assert list(batches) == [1]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "bert")


def test_a_real_run_tells_the_parts_of_every_step(bert, tmp_path):
    data = tiny_training.reviews(tiny_training.write_reviews(tmp_path / "reviews.csv", rows=22))
    memory = MemoryOptions(batch_size=4, gradient_accumulation_steps=2)
    run = tiny_training.train(
        tmp_path / "run",
        model=tiny_training.model(bert),
        data=data,
        memory=memory,
        training=TrainingOptions(epochs=2.0),
    )
    assert run.status == 0
    assert len(run.steps) == 6
    for step in run.steps:
        parts = (step.data_seconds, step.forward_seconds, step.backward_seconds, step.optimizer_seconds)
        assert all(part is not None and part > 0 for part in parts), step
        assert sum(part or 0.0 for part in parts) <= step.seconds


def test_a_real_run_on_a_device_that_works_on_loses_no_time_and_computes_the_same(
    bert, tmp_path, monkeypatch
):
    data = tiny_training.reviews(
        tiny_training.write_reviews(tmp_path / "reviews.csv", rows=24), group_by_length=Toggle.ON
    )
    sections = {
        "model": tiny_training.model(bert),
        "data": data,
        "memory": MemoryOptions(batch_size=2),
        "training": TrainingOptions(epochs=2.0),
    }
    plain = tiny_training.train(tmp_path / "plain", **sections)
    device = AsynchronousDevice()
    monkeypatch.setattr("core.engine.training.trainer.wait_for", lambda kind: device.wait)
    watched = tiny_training.train(tmp_path / "watched", **sections)
    assert [step.loss for step in watched.steps] == [step.loss for step in plain.steps]
    sampled = [step.step for step in watched.steps if step.forward_seconds is not None]
    assert sampled[0] == FIRST + 1
    assert len(sampled) == 1
    assert all(step.data_seconds is not None and step.data_seconds > 0 for step in watched.steps)


class Figure:
    """A figure on a device that is behind with its work: reading it waits."""

    def __init__(self, device: AsynchronousDevice) -> None:
        self._device = device

    def __float__(self) -> float:
        self._device.wait()
        return 0.5


class OneStep:
    """What `StepLog` reads of a trainer after a step."""

    compilation = None
    step_losses = (torch.tensor(0.5),)
    step_tokens: tuple[Any, ...] = ()
    step_samples = 4

    class state:  # noqa: N801 - as Trainer calls it
        global_step = 1
        epoch = 0.1

    def __init__(self, parts: StepParts, device: AsynchronousDevice) -> None:
        self.parts = parts
        self.grad_norm = Figure(device)

    def forget_step(self) -> None:
        pass


def test_the_time_a_device_is_waited_for_is_shared_out_among_the_steps_it_was_behind_with(
    tmp_path, monkeypatch
):
    device = AsynchronousDevice()
    monkeypatch.setattr("core.engine.training.callbacks.time", device)
    parts = StepParts(device.wait, clock=device.clock)
    begun = device.now
    log = StepLog(Reporter(RunFolder(tmp_path)), DeviceMemory("cpu"))
    for _ in range(4):
        seconds = run_step(parts, device)
        log.add(OneStep(parts, device), seconds, learning_rate=0.1)  # type: ignore[arg-type]
    log.flush()
    told = steps_of(tmp_path)
    assert [step.seconds for step in told] == [pytest.approx((device.now - begun) / 4)] * 4
    assert log.samples_per_second == pytest.approx(16 / (device.now - begun))


def steps_of(folder: Path) -> list[StepFinished]:
    events: list[Event] = list(EventReader(RunFolder(folder).events_file).read_all())
    return [event for event in events if isinstance(event, StepFinished)]
