"""How findings become messages, and what recent events amount to."""

import psutil
import pytest
from msgspec.structs import replace

from core.monitor.system_rules import Activity
from core.monitor.watchdog import OF_THE_MOMENT, RULES, Watchdog
from core.runs.events import Event, MessageRaised, RunStarted, StepFinished
from tests.fakes.told_run import GB, DiskSampled, ToldRun, watch


def test_a_finding_whose_words_move_on_is_said_once() -> None:
    run = ToldRun(steps=600)
    for free in range(100):
        run.computer.disk = DiskSampled(free=GB + free, total=256 * GB)
        run.wait(1.0)
    assert len(watch(run.events).messages) == 1


def test_nothing_is_said_before_the_engine_has_begun() -> None:
    watchdog = Watchdog(None, cores=4)
    assert watchdog.take([DiskSampled(time=10.0, free=GB, total=256 * GB)], 10.0) == []
    begun = [RunStarted(time=11.0), DiskSampled(time=12.0, free=GB, total=256 * GB)]
    assert [type(message) for message in watchdog.take(begun, 12.0)] == [MessageRaised]


def test_a_run_whose_options_cannot_be_read_is_watched_all_the_same() -> None:
    run = ToldRun(steps=600)
    run.steps(20, 0.5)
    run.a_step(0.5, loss=float("nan"))
    run.computer.disk = DiskSampled(free=GB, total=256 * GB)
    run.wait(120)
    raised = watch(run.events, options=None).raised
    assert {message.id for message in raised} == {"lost-loss", "disk-full", "silence"}
    assert all(not fix.changes for message in raised for fix in message.fixes)


def test_events_are_taken_in_the_order_of_time() -> None:
    watchdog = Watchdog(None, cores=4)
    later = StepFinished(time=20.0, step=1, epoch=0, seconds=1.0, learning_rate=1e-3, samples=1)
    low = DiskSampled(time=21.0, free=GB, total=GB)
    assert len(watchdog.take([low, later, RunStarted(time=5.0)], 22.0)) == 1


@pytest.mark.parametrize("hours", [-2, 72])
def test_setting_the_clock_is_no_silence(hours: int) -> None:
    """The keeper's own clock goes on by a second a look; what it reads was told by the clock that was set."""
    run = ToldRun(steps=600)
    run.steps(20, 0.5)
    set_at = run.now + 5.0
    run.steps(60, 0.5)
    run.wait(100)
    watchdog = Watchdog(None)
    found: list[tuple[float, Event]] = []
    for second in range(int(run.now) + 1):
        told = [event for event in run.events if second <= event.time < second + 1]
        shown = [replace(event, time=clock(event.time, set_at, hours)) for event in told]
        now = second + 1.0
        found += [(now, said) for said in watchdog.take(shown, now, clock(now, set_at, hours))]
    [(when, said)] = found
    assert isinstance(said, MessageRaised)
    assert said.id == "silence"
    assert when == pytest.approx(run.now - 10.0, abs=2.0)


def clock(now: float, set_at: float, hours: int) -> float:
    """What the computer's clock says, which was set by so many hours."""
    return 1e9 + now + (3600.0 * hours if now >= set_at else 0.0)


def test_every_message_of_the_moment_is_that_of_a_watcher() -> None:
    assert RULES.keys() >= OF_THE_MOMENT


def test_a_process_that_computes_is_told_from_one_that_has_gone() -> None:
    activity = Activity(psutil.Process().pid)
    assert activity.read() is None, "there is no span yet"
    sum(range(3_000_000))
    busy = activity.read()
    assert busy is not None
    assert busy > 0.0
    activity.reset()
    assert activity.read() is None
    assert Activity(2**22 + 1).read() is None
