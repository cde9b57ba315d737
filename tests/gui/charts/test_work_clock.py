"""What a run waits for takes no time in its charts."""

import pytest

from core.runs.events import (
    MemorySampled,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
)
from core.runs.status import Interruption
from gui.charts.history import MarkKind, RunHistory
from gui.charts.overlays import interruption_moments


def step(number, at, attempt):
    figures = {"epoch": 0.1, "seconds": 1.0, "learning_rate": 1e-3, "samples": 8}
    return StepFinished(time=at, step=number, attempt=attempt, **figures)


def memory(at, attempt):
    return MemorySampled(time=at, source=Source.SYSTEM, bytes=9, ceiling=20, attempt=attempt)


def attempt(number, begin, first):
    """What a run tells that waits 900 s for its turn, then makes two steps within 10 s."""
    return [
        TurnAwaited(time=begin - 900, attempt=number, ahead=1),
        MessageRaised(time=begin - 500, attempt=number, id=f"{number}", level="info", title="It waits"),
        TurnCame(time=begin, attempt=number),
        memory(begin, number),
        RunStarted(time=begin + 1, attempt=number, from_step=first - 1),
        PhaseChanged(time=begin + 2, attempt=number, phase=Phase.TRAINING),
        step(first, begin + 5, number),
        memory(begin + 6, number),
        step(first + 1, begin + 8, number),
        RunFinished(time=begin + 9, attempt=number, state=Outcome.PAUSED),
        memory(begin + 10, number),
    ]


@pytest.fixture
def history():
    history = RunHistory()
    for event in (*attempt(1, 1000.0, 1), *attempt(2, 1910.0, 3)):
        history.apply(event)
    return history


def test_time_is_time_worked(history):
    assert history.step_clock.y.tolist() == [5, 8, 15, 18]
    assert history.memory.computer.used.x.tolist() == [0, 6, 10, 10, 16, 20]
    assert [clock for clock, _ in history.phases] == [2, 12]
    assert history.last_clock == 20


def test_what_is_told_in_a_wait_stands_where_work_goes_on(history):
    assert [mark.clock for mark in history.marks[MarkKind.NOTE]] == [0, 10]


def test_pauses_are_pointed_out(history):
    assert history.interruptions == [Interruption(10.0, 900.0, was_paused=True)]
    assert interruption_moments(history.interruptions) == [(10.0, "paused 15 min")]
    assert interruption_moments([Interruption(10.0, 900.0, was_paused=False)]) == [(10.0, "resumed")]
