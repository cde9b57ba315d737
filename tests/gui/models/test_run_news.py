"""A run told in batches comes to the same as event by event."""

import random

import numpy as np
import pytest

from core.runs.events import (
    BatterySampled,
    CheckpointSaved,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    Pressure,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
)
from core.runs.status import RunStory
from gui.charts.history import (
    NewsMaker,
    RunHistory,
)
from gui.charts.series import Series


class Teller:
    """Makes up a run with everything that can happen in one."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.clock = 1000.0
        self.step = 0
        self.attempt = 1

    def story(self, count):
        yield self.at(RunStarted, pid=1)
        yield self.at(
            RunPlanned,
            total_steps=count,
            epochs=3,
            train_samples=8,
            eval_samples=1,
            effective_batch=1,
            device="cuda:0",
        )
        kinds = (self.trained, self.trained, self.trained, self.sampled, self.seldom)
        for _ in range(count):
            yield self.chance.choice(kinds)()

    def at(self, kind, **figures):
        self.clock += self.chance.random()
        return kind(time=self.clock, attempt=self.attempt, **figures)

    def loss(self):
        return self.chance.choice(
            [{"loss": self.chance.random()}] * 8 + [{"loss": None, "non_finite": "inf"}, {"loss": None}]
        )

    def maybe(self, value):
        return self.chance.choice((None, value))

    def trained(self):
        self.step += 1
        return self.at(
            StepFinished,
            step=self.step,
            epoch=self.step / 10,
            seconds=self.chance.random(),
            learning_rate=self.chance.random(),
            samples=8,
            compile_seconds=self.chance.choice((0.0, 0.0, 1.0)),
            data_seconds=self.chance.random(),
            forward_seconds=self.maybe(0.1),
            tokens=self.maybe(100),
            **self.loss(),
            grad_norm=self.maybe(self.chance.random()),
        )

    def sampled(self):
        sources = [source for source in Source if source is not Source.APPLE]
        kinds = (
            lambda: self.at(MemorySampled, source=Source.SYSTEM, bytes=9, ceiling=20, pressure=Pressure.WARN),
            lambda: self.at(
                MemorySampled, source=self.chance.choice(sources), bytes=5, reserved=6, ceiling=9
            ),
            lambda: self.at(DeviceSampled, source=Source.NVML, busy=0.5, throttled=self.maybe(("hot",))),
            lambda: self.at(DeviceSampled, source=Source.SYSTEM, name="CPU", busy=self.maybe(0.2)),
            lambda: self.at(BatterySampled, share=self.chance.random(), is_plugged=True),
            lambda: self.at(DiskSampled, free=5, total=9),
        )
        return self.chance.choice(kinds)()

    def seldom(self):
        kinds = (
            lambda: self.at(
                Evaluated, step=self.step, epoch=1, metrics={"eval_loss": 1.0, "f1": None}, seconds=1
            ),
            lambda: self.at(CheckpointSaved, step=self.step, path="c", bytes=1, seconds=0.5),
            lambda: self.at(PhaseChanged, phase=self.chance.choice(list(Phase))),
            lambda: self.at(MessageRaised, id=self.chance.choice("ab"), level="info", title="A"),
            lambda: self.at(MessageWithdrawn, id=self.chance.choice("ab")),
            self.begun_again,
        )
        return self.chance.choice(kinds)()

    def begun_again(self):
        self.attempt += 1
        self.step = max(0, self.step - self.chance.randint(0, 9))
        return self.at(RunStarted, from_step=self.step, pid=self.attempt)


def in_batches(events, chance):
    """A history that was told `events` in batches, each made of several handfuls."""
    maker, history, first = NewsMaker(), RunHistory(), 0
    while first < len(events):
        for _ in range(chance.randint(1, 3)):
            last = first + chance.choice((1, 7, 300))
            maker.add(events[first:last])
            first = last
        for batch in maker.take():
            history.take(batch)
    return history


def known(thing):
    """All that a history tells, by name, parts of it included."""
    found = {}
    for name, value in vars(thing).items():
        if isinstance(value, Series):
            found[name] = np.stack((value.x, value.y))
        elif isinstance(value, dict):
            found[name] = {key: one.y for key, one in value.items() if isinstance(one, Series)}
        elif type(value).__module__.startswith("gui.charts") and name not in {
            "_news",
            "_smooth",
            "_smoother",
        }:
            found[name] = known(value)
        elif not name.startswith("_"):
            found[name] = value
    return found


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_come_to_the_same(seed):
    events = list(Teller(seed).story(1000))
    one_by_one = RunHistory()
    for event in events:
        one_by_one.apply(event)
    batched = in_batches(events, random.Random(seed))
    np.testing.assert_equal(known(batched), known(one_by_one))
    assert len(batched.loss) > 10
    assert batched.memory.is_of_card
    assert len(batched.devices.picture.busy) > 10


@pytest.mark.parametrize("seed", range(6))
def test_a_story_told_at_once_is_the_same(seed):
    events = list(Teller(seed).story(1000))
    one_by_one, at_once = RunStory(), RunStory()
    for event in events:
        one_by_one.apply(event)
    at_once.apply_all(events[:700])
    copy = at_once.copy()
    kept = repr(copy)
    at_once.apply_all(events[700:])
    assert repr(at_once) == repr(one_by_one)
    assert repr(copy) == kept != repr(at_once)


def test_nothing_that_happened_is_no_batch():
    assert NewsMaker().take() == []
