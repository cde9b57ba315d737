import pytest

from core.base.errors import Fix
from core.monitor.recent import STOP
from tests.fakes.healthy_runs import GPU
from tests.fakes.told_run import ToldRun, watch


def starving(workers: int = 0, *, waiting: float = 0.45, seconds: float = 0.5) -> ToldRun:
    run = ToldRun(steps=2000, device="cuda:0", workers=workers)
    run.steps(20, seconds)
    run.steps(100, seconds, data=waiting)
    return run


@pytest.mark.parametrize(
    ("workers", "more", "words"),
    [
        (0, 2, "No worker runs beside it; some would"),
        (1, 2, "1 worker runs beside it; more would"),
        (2, 4, "2 workers run beside it; more would"),
    ],
)
def test_a_device_that_waits_for_data_is_offered_workers(workers: int, more: int, words: str) -> None:
    message = watch(starving(workers).events).one
    assert (message.id, message.title) == ("starving", "32 % of each step is spent waiting for data")
    assert words in message.detail
    assert message.fixes == (Fix(f"Prepare batches in {more} workers", {"data.workers": more}),)


def test_with_many_workers_the_files_are_to_blame() -> None:
    message = watch(starving(4).events).one
    assert "done in 4 workers already, so the files are what is slow" in message.detail
    assert message.fixes == (STOP,)


def test_with_no_core_to_spare_no_workers_are_offered() -> None:
    message = watch(starving().events, cores=2).one
    assert "no core to spare" in message.detail
    assert message.fixes == (STOP,)


def test_with_three_cores_there_is_room_for_two_workers_and_no_third() -> None:
    assert watch(starving().events, cores=3).one.fixes[0].changes == {"data.workers": 2}
    assert watch(starving(2).events, cores=3).one.fixes == (STOP,)


def test_it_is_withdrawn_when_data_comes_in_time_again() -> None:
    run = starving()
    run.steps(50, 0.5, data=0.25)
    assert watch(run.events).withdrawn == [], "between the limits it stands"
    run.steps(60, 0.5, data=0.02)
    assert watch(run.events).withdrawn == ["starving"]


@pytest.mark.parametrize("seconds", [0.002, 20.0])
def test_steps_of_any_length_count(seconds: float) -> None:
    run = ToldRun(steps=2000)
    run.steps(int(24 / seconds) if seconds < 1 else 30, seconds, data=0.6)
    assert watch(run.events).one.id == "starving"


def test_a_gpu_that_is_busy_all_the_same_is_not_starved() -> None:
    run = ToldRun(steps=2000, device="cuda:0")
    run.computer.gpu = GPU
    run.steps(200, 0.5, data=0.6)
    assert watch(run.events).messages == []


def test_the_first_seconds_say_nothing() -> None:
    run = ToldRun(steps=2000)
    run.steps(30, 0.5, data=0.8)
    assert watch(run.events).messages == []


def test_steps_that_are_not_timed_alarm_nobody() -> None:
    run = ToldRun(steps=2000)
    run.steps(200, 0.5, data=None)
    assert watch(run.events).messages == []


def test_what_to_change_next_time_stands_when_the_run_is_over() -> None:
    run = starving()
    run.finish()
    assert watch(run.events).withdrawn == []
