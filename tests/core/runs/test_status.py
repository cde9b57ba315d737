"""A run's status, computed from its events."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.memory.model import Basis, Parts
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    RequestAnswered,
    RunFinished,
    RunStarted,
    Source,
    TurnAwaited,
    TurnCame,
)
from core.runs.status import RunStatus, State, pace_of
from tests.fakes.runs import plan, step

WAITS = TurnAwaited(ahead=1, behind="other")
RAN = (RunStarted(), plan(total_steps=20))
ENDED, DEAD = {"engine_ended": True}, {"keeper_alive": False}


def status_of(*events: Event) -> RunStatus:
    status = RunStatus()
    for event in events:
        status.apply(event)
    return status


def answered(action: str, attempt: int = 1, *, accepted: bool = True) -> RequestAnswered:
    return RequestAnswered(request="1", action=action, accepted=accepted, attempt=attempt)


def ended(outcome: Outcome, **more: Any) -> RunFinished:
    return RunFinished(state=outcome, **more)


@pytest.mark.parametrize(
    ("events", "known", "expected"),
    [
        ([RunStarted()], {}, State.STARTING),
        (RAN, {}, State.TRAINING),
        ([RunStarted(), step(1)], {}, State.TRAINING),  # the plan is out of sight
        (RAN, {"requested": {"stop"}}, State.STOPPING),
        (RAN, {"requested": {"pause"}}, State.PAUSING),
        (RAN, {"requested": {"save"}}, State.TRAINING),
        ([*RAN, answered("stop")], {}, State.STOPPING),
        ([*RAN, answered("pause")], {}, State.PAUSING),
        ([*RAN, answered("kill")], {}, State.STOPPING),
        ([*RAN, answered("kill")], ENDED, State.STOPPED),
        ([*RAN, answered("stop", accepted=False)], {}, State.TRAINING),
        ([*RAN, answered("pause")], {"requested": {"stop"}}, State.STOPPING),
        ([*RAN, answered("pause"), answered("stop")], {}, State.STOPPING),
        ([*RAN, answered("stop"), ended(Outcome.PAUSED)], {}, State.PAUSED),
        ([*RAN, ended(Outcome.STOPPED)], {}, State.STOPPED),
        ([*RAN, ended(Outcome.FAILED)], ENDED, State.FAILED),
        (RAN, ENDED, State.CRASHED),
        (RAN, DEAD, State.CRASHED),
        # before the engine of the attempt has written anything
        ([WAITS], {"attempt": 1}, State.QUEUED),
        ([WAITS], {"attempt": 1, "requested": {"stop"}}, State.STOPPING),
        ([WAITS], {"attempt": 1, "requested": {"pause"}}, State.PAUSING),
        ([WAITS, TurnCame()], {"attempt": 1}, State.STARTING),
        ([WAITS, *RAN, ended(Outcome.PAUSED)], {"attempt": 1}, State.PAUSED),
        ([WAITS, *RAN, ended(Outcome.PAUSED)], {"attempt": 2}, State.STARTING),
        ([*RAN, ended(Outcome.PAUSED), TurnAwaited(ahead=2, attempt=2)], {"attempt": 2}, State.QUEUED),
        ([*RAN, answered("pause")], {"attempt": 2}, State.STARTING),
        ([*RAN, answered("kill")], {"attempt": 2, **ENDED}, State.CRASHED),
        ([*RAN, answered("pause"), RunStarted(attempt=2)], {"attempt": 2}, State.STARTING),
        ([*RAN, ended(Outcome.PAUSED), step(9, attempt=2)], {"attempt": 2}, State.TRAINING),
        # taken out of the queue before it began
        ([*RAN, WAITS, answered("stop", 2)], {"attempt": 2, **ENDED}, State.STOPPED),
        ([*RAN, WAITS, answered("pause", 2)], {"attempt": 2, **ENDED}, State.PAUSED),
        ([*RAN, WAITS, answered("kill", 2)], {"attempt": 2, **ENDED}, State.STOPPED),
        ([*RAN, WAITS, answered("save", 2)], {"attempt": 2, **ENDED}, State.CRASHED),
    ],
)
def test_state(events, known, expected):
    assert status_of(*events).state(**{"engine_ended": False, "keeper_alive": True, **known}) is expected


@pytest.mark.parametrize("first", [step(1, seconds=60.0), step(1, seconds=9.0, compile_seconds=40.0)])
def test_time_left_is_estimated_from_five_steps_on_and_one_slow_step_does_not_count(first):
    status = status_of(*RAN, *map(step, range(1, 5)))
    assert status.seconds_left is None
    status.apply(step(5))
    assert status.seconds_left == 15 * 0.5
    assert status_of(*RAN, first, *map(step, range(2, 11))).step_seconds == 0.5


@pytest.mark.parametrize(
    ("seconds", "pace"),
    [
        ([], None),
        ([3.0], 3.0),
        ([0.221] * 200 + [4.11], 0.221),  # one slow step is no change
        ([0.221] * 200 + [4.11] * 5, 4.11),  # 20 s after steps have become slow
        ([4.11] * 20 + [0.221] * 91, 0.221),
        ([0.2] * 100 + [0.3] * 60, 0.2),  # batches of another length
        ([0.2] * 100 + [0.3] * 190, 0.3),  # of a minute the most
        ([1.0] * 20 + [60.0] + [1.0] * 4, 1.0),  # a hiccup
        ([19.7] * 3, 19.7),
        ([19.7, 25.0, 19.7, 21.0, 18.0], 19.7),
    ],
)
def test_the_pace_is_that_of_the_last_minute_or_what_it_has_clearly_become(seconds, pace):
    assert pace_of(seconds) == pace


def test_messages_last_until_they_are_withdrawn_or_a_new_attempt_begins():
    slow, full = (
        MessageRaised(id=name, attempt=attempt, level=Level.WARNING, title="")
        for attempt, name in enumerate(("slow", "full"), start=1)
    )
    assert list(status_of(RunStarted(), slow).messages) == ["slow"]
    assert status_of(RunStarted(), slow, MessageWithdrawn(id="slow")).messages == {}
    # the keeper writes another file: its message of the new attempt may come first
    assert list(status_of(RunStarted(), slow, full, RunStarted(attempt=2)).messages) == ["full"]


def sampled(source: Source, held: int, attempt: int = 1, **more: int) -> MemorySampled:
    return MemorySampled(source=source, bytes=held, attempt=attempt, **more)


@pytest.mark.parametrize(
    ("events", "peak"),
    [
        ([sampled(Source.PROCESS, 5), sampled(Source.SYSTEM, 100), sampled(Source.PROCESS, 3)], 5),
        ([sampled(Source.PROCESS, 900), ended(Outcome.STOPPED, peak_bytes=700)], 900),  # a peak never falls
        ([ended(Outcome.STOPPED, peak_bytes=700), sampled(Source.PROCESS, 900)], 900),
        ([sampled(Source.PROCESS, 600), ended(Outcome.STOPPED, peak_bytes=700)], 700),
        ([ended(Outcome.STOPPED, peak_bytes=700), sampled(Source.PROCESS, 800, attempt=2)], 800),
        ([sampled(Source.PROCESS, 9), sampled(Source.TORCH, 5, reserved=6)], 6),  # on a GPU
        ([sampled(Source.TORCH, 5, reserved=9, cached=4)], 5),  # MLX gives back what it caches
        ([ended(Outcome.FINISHED, peak_bytes=500, peak_device_bytes=100)], 100),
    ],
)
def test_peak_memory(events, peak):
    assert status_of(RunStarted(), *events).peak_bytes == peak


@pytest.mark.parametrize(
    ("device", "end", "error"),
    [
        ("cpu", [], None),
        ("cpu", [ended(Outcome.FAILED, peak_bytes=100)], None),  # before a step
        ("cpu", [ended(Outcome.FINISHED, steps=20, peak_bytes=100)], 0.1),
        # samples count data loader workers, too
        ("cpu", [sampled(Source.PROCESS, 300), ended(Outcome.FINISHED, steps=20, peak_bytes=100)], 0.1),
        ("cpu", [ended(Outcome.FINISHED, steps=20)], pytest.approx(2 / 9)),
        # only what the allocator held is compared
        ("cuda:0", [ended(Outcome.FINISHED, steps=20, peak_bytes=500, peak_device_bytes=100)], -0.2),
    ],
)
def test_error_of_the_forecast(device, end, error):
    forecast = MemoryForecast(device=device, basis=Basis.FORMULA, parts=Parts(weights=80, overhead=30))
    assert status_of(*RAN, forecast, sampled(Source.PROCESS, 90), *end).forecast_error == error


def test_a_new_attempt_starts_from_its_checkpoint_and_drops_later_evaluations():
    measured = Evaluated(step=5, epoch=1, metrics={"eval_loss": 2.0}, seconds=1)
    status = status_of(
        replace(RAN[0], time=10),
        RAN[1],
        *map(step, range(1, 9)),
        measured,
        ended(Outcome.STOPPED),
        RunStarted(time=50, attempt=2, from_step=5),
    )
    assert (status.step, status.attempt, status.finished, status.plan) == (5, 2, None, RAN[1])
    assert (status.started, status.attempt_started, status.evaluated_at) == (10, 50, 5)
    status.apply(RunStarted(attempt=3, from_step=4))
    assert (status.metrics, status.evaluated_at) == ({}, None)
    status = status_of(measured, ended(Outcome.FINISHED, metrics={"eval_accuracy": 0.9}))
    assert (status.metrics, status.evaluated_at) == ({"eval_loss": 2.0, "eval_accuracy": 0.9}, 5)
