import itertools
import math
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
    Pause,
    RunHistory,
    RunningMedian,
)
from gui.charts.series import Series


def step(number, *, at, loss=None, seconds=0.1, non_finite=None):
    return StepFinished(
        time=at,
        step=number,
        epoch=0.1,
        seconds=seconds,
        learning_rate=1e-3,
        samples=8,
        loss=loss,
        non_finite=non_finite,
    )


def timed(number, **figures):
    """A step of half a second with 8 samples."""
    known = {"time": float(number), "epoch": number / 10, "learning_rate": 1e-3 / number, "samples": 8}
    return StepFinished(step=number, seconds=0.5, **known, **figures)


def told(events):
    history = RunHistory()
    for event in events:
        history.apply(event)
    return history


def test_a_loss_that_is_not_known_is_no_point():
    history = told([step(1, at=1.0, loss=2.0), step(2, at=2.0), step(3, at=3.0, loss=1.0)])
    assert history.loss.x.tolist() == [1, 3]
    assert history.loss.y.tolist() == [2.0, 1.0]


def test_nan_is_a_gap_and_is_remembered():
    history = told([step(1, at=1, loss=2.0), step(2, at=2, non_finite="nan"), step(3, at=3, loss=1.0)])
    assert math.isnan(history.loss.y[1])
    assert history.first_non_finite is not None
    assert history.first_non_finite[0] == 2
    assert history.smooth_loss.last == 1.0


def test_the_smoothed_loss_starts_at_the_raw_one_and_runs_through_its_middle():
    chance = random.Random(1)
    raw = [2.5 * math.exp(-number / 40) * (1 + chance.gauss(0, 0.12)) for number in range(1, 226)]
    history = told([step(number, at=number, loss=loss) for number, loss in enumerate(raw, start=1)])
    smooth = history.smooth_loss.y
    assert smooth[0] == pytest.approx(raw[0])
    above = [value > loss for value, loss in zip(smooth[:80], raw[:80], strict=True)]
    assert 0.3 < sum(above) / len(above) < 0.75
    assert abs(float(sum(smooth[:80])) / sum(raw[:80]) - 1) < 0.06
    wobble = [sum(abs(b - a) for a, b in itertools.pairwise(line[150:])) for line in (smooth, raw)]
    assert wobble[0] < wobble[1] / 2


def test_a_later_attempt_takes_steps_back():
    first = [RunStarted(time=0.0), *(step(number, at=number, loss=1.0) for number in range(1, 11))]
    evaluated = Evaluated(time=10.0, step=10, epoch=1.0, metrics={"eval_accuracy": 0.5}, seconds=1.0)
    again = [RunStarted(time=20.0, attempt=2, from_step=6), step(7, at=21.0, loss=0.5)]
    history = told([*first, evaluated, *again])
    assert history.loss.x.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert history.evaluations == []
    assert len(history.metrics["eval_accuracy"]) == 0


def test_steps_and_seconds_turn_into_each_other():
    history = told(
        [RunStarted(time=100.0), *(step(number, at=100.0 + 2 * number) for number in range(1, 11))]
    )
    assert history.clock_of_step(5) == 10.0
    assert history.step_at(11.0) == 5.5
    assert history.step_at(1e9) == 10.0
    assert RunHistory().step_at(1.0) is None


def test_memory_and_phases_are_told_by_the_clock():
    samples = [
        MemorySampled(time=1.0, source=Source.PROCESS, bytes=300),
        PhaseChanged(time=1.5, phase=Phase.LOADING_MODEL),
        MemorySampled(time=3.0, source=Source.SYSTEM, bytes=900, ceiling=1000),
    ]
    history = told(samples)
    picture = history.memory.picture
    assert (picture.used.last, picture.run.last, picture.ceiling) == (900.0, 300.0, 1000)
    assert history.last_clock == 2.0
    assert (history.phase_at(0.4), history.phase_at(0.6)) == (None, Phase.LOADING_MODEL)


def test_the_median_forgets_old_steps():
    median = RunningMedian()
    assert median.of([100.0]) == [100.0]
    assert median.of([1.0] * 60)[-1] == 1.0
    assert median.of([2.0] * 60)[-1] == 2.0


def test_the_smoother_loss_is_calmer_than_the_smooth_one():
    chance = random.Random(1)
    events = [step(number, at=number, loss=1 + chance.gauss(0, 0.2)) for number in range(1, 1500)]
    history = told(events)
    late = [series.y[700:].std() for series in (history.loss, history.smooth_loss, history.smoother_loss)]
    assert late[2] < late[1] / 1.8 < late[0] / 3


def test_rates_leave_out_steps_in_which_something_was_compiled():
    history = told([timed(1, compile_seconds=3.0, tokens=100), timed(2, tokens=100), timed(3)])
    assert [math.isnan(value) for value in history.samples_per_second.y] == [True, False, False]
    assert history.samples_per_second.last == 16.0
    assert [math.isnan(value) for value in history.tokens_per_second.y] == [True, False, True]
    assert history.tokens_per_second.at(2) == 200.0


def test_parts_that_were_not_measured_are_gaps():
    history = told([timed(1, data_seconds=0.1), timed(2, data_seconds=0.2, forward_seconds=0.3)])
    assert history.data_seconds.y.tolist() == pytest.approx([0.1, 0.2])
    assert math.isnan(history.forward_seconds.y[0])
    assert history.forward_seconds.last == pytest.approx(0.3)


def test_the_gradient_norm_has_steps_and_gaps_of_its_own():
    history = told([timed(1, loss=2.0, grad_norm=4.0), timed(2, loss=1.0), timed(3, grad_norm=math.inf)])
    assert history.grad_norm.x.tolist() == [1, 3]
    assert history.grad_norm.y[0] == 4.0
    assert math.isnan(history.grad_norm.y[1])


def test_a_step_has_its_epoch():
    history = told([timed(number) for number in range(1, 11)])
    assert math.isclose(history.epoch_of_step(5), 0.5)
    assert RunHistory().epoch_of_step(1) is None


def test_pauses_of_steps_that_no_longer_count_are_forgotten():
    saved = CheckpointSaved(time=4.0, step=3, path="checkpoint-3", bytes=1, seconds=0.2)
    found = Evaluated(time=9.0, step=8, epoch=1.0, metrics={}, seconds=1.5)
    before = [RunStarted(time=1.0), timed(3), saved, timed(8), found]
    assert told(before).pauses == [Pause(3, 3.0, 0.2, "checkpoint"), Pause(8, 8.0, 1.5, "evaluation")]
    assert told([*before, RunStarted(time=9.5, attempt=2, from_step=5)]).pauses == [
        Pause(3, 3.0, 0.2, "checkpoint")
    ]


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
