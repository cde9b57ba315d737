import pytest

from core.monitor.recent import END, STOP
from core.monitor.system_rules import SILENT_PHASES
from core.runs.events import Phase, RunStarted, StepFinished
from tests.fakes.told_run import FakeActivity, ToldRun, watch


def training(seconds: float = 0.5) -> ToldRun:
    run = ToldRun(steps=600)
    run.steps(40, seconds)
    return run


@pytest.mark.parametrize(
    ("busy", "words"),
    [
        (0.98, "Its process is alive and uses 98 % of a processor core."),
        (0.001, "Its process is alive and does nothing"),
        (None, "What its process does can't be told."),
    ],
)
def test_after_90_s_without_a_step_it_says_what_the_process_does(busy: float | None, words: str) -> None:
    run = training()
    run.wait(88)
    assert watch(run.events, activity=FakeActivity(busy)).messages == []
    run.wait(60)
    message = watch(run.events, activity=FakeActivity(busy)).one
    assert (message.id, message.title) == ("silence", "No step for more than 1 min 30 s")
    assert words in message.detail
    assert message.fixes == (STOP, END), "a stop waits for a step, and there may be none"


def test_it_names_what_it_last_heard_and_when() -> None:
    run = training()
    run.wait(100)
    detail = watch(run.events).one.detail
    assert "Steps took 5" in detail
    assert "The last event was step 40 at " in detail


def test_it_is_withdrawn_with_the_next_step() -> None:
    run = training()
    run.wait(120)
    run.a_step(1.0)
    run.wait(2.0)
    assert watch(run.events).withdrawn == ["silence"]


def test_slow_steps_are_waited_for_five_times_as_long() -> None:
    run = training(seconds=40.0)
    run.wait(180)
    assert watch(run.events).messages == []
    run.wait(60)
    assert watch(run.events).one.title.startswith("No step for more than 3 min")


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TRAINING])
def test_where_no_step_is_to_come_a_process_that_does_nothing_is_told(phase: Phase) -> None:
    run = training()
    run.phase(phase)
    run.wait(SILENT_PHASES[phase] - 5)
    assert watch(run.events, activity=FakeActivity(0.001)).messages == []
    run.wait(10)
    message = watch(run.events, activity=FakeActivity(0.001)).one
    assert (message.id, message.fixes) == ("silence", (STOP, END))
    assert "does nothing" in message.detail
    is_loading = phase in (Phase.LOADING_DATA, Phase.LOADING_MODEL, Phase.TOKENIZING)
    assert ("at once" in message.detail, "last checkpoint" in message.detail) == (is_loading, not is_loading)
    assert ("next step" in message.detail) == (phase is Phase.COMPILING)
    run.phase(Phase.TRAINING)
    run.a_step(1.0)
    assert watch(run.events, activity=FakeActivity(0.001)).withdrawn == ["silence"]


@pytest.mark.parametrize("busy", [0.9, None])
def test_where_no_step_is_to_come_a_process_that_works_is_left_in_peace(busy: float | None) -> None:
    run = training()
    run.phase(Phase.EVALUATING)
    run.wait(3600)
    assert watch(run.events, activity=FakeActivity(busy)).messages == []


def test_work_that_goes_on_withdraws_it_before_its_phase_is_over() -> None:
    class Resting(FakeActivity):
        def read(self) -> float | None:
            super().read()
            return 0.0 if self.reads < 200 else 0.5

    run = training()
    run.phase(Phase.SAVING)
    run.wait(600)
    watched = watch(run.events, activity=Resting())
    assert (len(watched.raised), watched.withdrawn) == (1, ["silence"])


def test_an_engine_that_never_says_what_it_does_is_told_of_too() -> None:
    run = ToldRun(steps=600)
    run.events = [event for event in run.events if isinstance(event, RunStarted)]
    run.wait(300)
    assert watch(run.events, activity=FakeActivity(0.0)).one.id == "silence"


def test_the_first_step_may_take_longer() -> None:
    run = ToldRun(steps=600)
    run.wait(170)
    assert watch(run.events).messages == []
    run.wait(30)
    assert "the phase “training” at" in watch(run.events).one.detail


def test_a_computer_that_slept_was_not_silent() -> None:
    run = training()
    run.wait(20)
    run.sleep(7200)
    run.wait(60)
    assert watch(run.events).messages == []
    run.wait(30)
    assert watch(run.events).one.id == "silence"


def test_a_step_told_on_waking_is_no_licence_to_be_silent() -> None:
    run = training()
    run.sleep(7200)
    run.a_step(0.5)
    run.wait(80)
    assert watch(run.events).messages == []
    run.wait(30)
    assert watch(run.events).one.id == "silence"


def test_once_the_run_is_over_nobody_waits() -> None:
    run = training()
    run.wait(120)
    run.finish()
    run.wait(300)
    watched = watch(run.events)
    assert (len(watched.raised), watched.withdrawn) == (1, ["silence"])


def test_the_process_is_looked_at_only_where_it_is_silent() -> None:
    activity = FakeActivity(0.5)
    watch(training().events, activity=activity)
    assert activity.resets > 20
    assert activity.reads == 0


def test_a_run_that_was_silent_in_an_attempt_before_begins_anew() -> None:
    run = training()
    run.wait(120)
    run.begin(from_step=20)
    run.steps(10, 0.5)
    assert [event.step for event in run.events if isinstance(event, StepFinished)][-1] == 30
    assert watch(run.events).withdrawn == [], "the new attempt has cleared it"
