"""A run's status, computed from its events."""

import msgspec
import pytest

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
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
)
from core.runs.status import RunStatus, State

STARTED = RunStarted()
PLAN = RunPlanned(total_steps=20, epochs=2, train_samples=80, eval_samples=8, effective_batch=8)
WAITS = TurnAwaited(ahead=1, behind="other")
FORECAST = MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=Parts(weights=80, overhead=30))


def story_of(*events: Event) -> RunStatus:
    status = RunStatus()
    for event in events:
        status.apply(event)
    return status


def step(number: int, seconds: float = 0.5, **more: object) -> StepFinished:
    return StepFinished(
        step=number, epoch=number / 10, seconds=seconds, learning_rate=1e-3, samples=8, **more
    )


def answered(action: str, attempt: int = 1, *, accepted: bool = True) -> RequestAnswered:
    return RequestAnswered(request="1", action=action, accepted=accepted, attempt=attempt)


def ended(outcome: Outcome, **more: object) -> RunFinished:
    return RunFinished(state=outcome, **more)


RAN = (STARTED, PLAN)
ENDED, DEAD = {"engine_ended": True}, {"keeper_alive": False}


@pytest.mark.parametrize(
    ("events", "known", "expected"),
    [
        ([STARTED], {}, State.STARTING),
        (RAN, {}, State.TRAINING),
        ([STARTED, step(1)], {}, State.TRAINING),  # the plan is out of sight
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
    assert story_of(*events).state(**{"engine_ended": False, "keeper_alive": True, **known}) is expected


def test_time_left_is_withheld_until_some_steps_have_shown_their_pace():
    status = story_of(*RAN, *(step(number) for number in range(1, 5)))
    assert status.seconds_left is None
    status.apply(step(5))
    assert status.seconds_left == 15 * 0.5


@pytest.mark.parametrize("first", [step(1, 60.0), step(1, 9.0, compile_seconds=40.0)])
def test_one_slow_step_or_one_that_compiled_is_no_measure_of_the_pace(first):
    assert story_of(*RAN, first, *map(step, range(2, 11))).step_seconds == 0.5


def test_messages_last_until_they_are_withdrawn_or_a_new_attempt_begins():
    slow, full = (
        MessageRaised(id=name, attempt=attempt, level=Level.WARNING, title="")
        for attempt, name in enumerate(("slow", "full"), start=1)
    )
    status = story_of(STARTED, slow)
    assert list(status.messages) == ["slow"]
    status.apply(MessageWithdrawn(id="slow"))
    assert status.messages == {}
    # the keeper writes another file: its message of the new attempt may come first
    assert list(story_of(STARTED, slow, full, RunStarted(attempt=2)).messages) == ["full"]


def sampled(source: Source, held: int, attempt: int = 1, **more: int) -> MemorySampled:
    return MemorySampled(source=source, bytes=held, attempt=attempt, **more)


@pytest.mark.parametrize(
    ("events", "peak"),
    [
        ([sampled(Source.PROCESS, 5), sampled(Source.SYSTEM, 100), sampled(Source.PROCESS, 3)], 5),
        ([sampled(Source.PROCESS, 900), ended(Outcome.STOPPED, peak_bytes=700)], 700),
        ([ended(Outcome.STOPPED, peak_bytes=700), sampled(Source.PROCESS, 900)], 700),
        ([ended(Outcome.STOPPED, peak_bytes=700), sampled(Source.PROCESS, 800, attempt=2)], 800),
        ([sampled(Source.PROCESS, 9), sampled(Source.TORCH, 5, reserved=6)], 6),  # on a GPU
        ([ended(Outcome.FINISHED, peak_bytes=500, peak_device_bytes=100)], 100),
    ],
)
def test_peak_memory(events, peak):
    assert story_of(STARTED, *events).peak_bytes == peak


@pytest.mark.parametrize(
    ("device", "end", "error"),
    [
        ("cpu", None, None),
        ("cpu", ended(Outcome.FAILED, peak_bytes=100), None),  # before a step
        ("cpu", ended(Outcome.FINISHED, steps=20, peak_bytes=100), 0.1),
        # only what the allocator held is compared
        ("cuda:0", ended(Outcome.FINISHED, steps=20, peak_bytes=500, peak_device_bytes=100), -0.2),
    ],
)
def test_error_of_the_forecast(device, end, error):
    events = [msgspec.structs.replace(FORECAST, device=device), sampled(Source.PROCESS, 90)]
    assert story_of(*RAN, *events, *([end] if end else [])).forecast_error == error


def test_a_new_attempt_starts_from_its_checkpoint():
    status = story_of(
        RunStarted(time=10), PLAN, *map(step, range(1, 9)), ended(Outcome.STOPPED),
        RunStarted(time=50, attempt=2, from_step=5),
    )  # fmt: skip
    assert (status.step, status.attempt, status.finished) == (5, 2, None)
    assert (status.started, status.attempt_started) == (10, 50)
    before = [event for event in RAN if isinstance(event, RunPlanned)]
    assert status.plan == before[0]


def test_evaluations_beyond_the_checkpoint_of_a_new_attempt_do_not_count():
    measured = Evaluated(step=5, epoch=1, metrics={"eval_loss": 2.0}, seconds=1)
    assert story_of(measured, RunStarted(attempt=2, from_step=5)).evaluated_at == 5
    status = story_of(measured, RunStarted(attempt=2, from_step=4))
    assert (status.metrics, status.evaluated_at) == ({}, None)
    status = story_of(measured, ended(Outcome.FINISHED, metrics={"eval_accuracy": 0.9}))
    assert (status.metrics, status.evaluated_at) == ({"eval_loss": 2.0, "eval_accuracy": 0.9}, 5)
