from core.monitor.recent import STOP
from core.runs.events import BatterySampled, Level
from tests.fakes.told_run import ToldRun, watch


def run_with(*readings: tuple[float, bool | None]) -> ToldRun:
    """A run of 20 seconds for each reading: what is left, and whether it is plugged in."""
    run = ToldRun(steps=600)
    for share, is_plugged in readings:
        run.computer.battery = BatterySampled(share=share, is_plugged=is_plugged)
        run.steps(40, 0.5)
    return run


def test_training_from_the_battery_is_noted_once() -> None:
    message = watch(run_with((0.9, False), (0.8, False), (0.7, False)).events).one
    assert (message.id, message.level) == ("battery", Level.INFO)
    assert "It is at 90 %." in message.detail
    assert message.fixes == (STOP,)


def test_little_left_is_a_warning() -> None:
    watched = watch(run_with((0.5, False), (0.29, False), (0.31, False), (0.28, False)).events)
    assert [message.level for message in watched.raised] == [Level.INFO, Level.WARNING]
    assert watched.raised[-1].title == "The battery is at 29 %"
    assert watched.raised[-1].fixes == (STOP,)


def test_it_is_withdrawn_when_the_plug_is_in_again() -> None:
    assert watch(run_with((0.2, False), (0.2, True)).events).withdrawn == ["battery"]


def test_little_left_while_it_charges_is_nothing_to_say() -> None:
    assert watch(run_with((0.1, True)).events).messages == []


def test_where_nobody_tells_of_the_plug_nobody_is_alarmed() -> None:
    assert watch(run_with((0.1, None)).events).messages == []


def test_the_note_goes_with_the_run() -> None:
    run = run_with((0.9, False))
    run.finish()
    assert watch(run.events).withdrawn == ["battery"]
