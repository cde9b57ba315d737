import msgspec
import pytest

from core.memory.model import Basis, Parts
from core.runs.events import (
    Evaluated,
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
from core.runs.status import RunStory, State

PLAN = RunPlanned(total_steps=20, epochs=2, train_samples=80, eval_samples=8, effective_batch=8)


def told(*events: object) -> RunStory:
    story = RunStory()
    for event in events:
        story.apply(event)
    return story


def step(number: int, seconds: float = 0.5, loss: float | None = None) -> StepFinished:
    return StepFinished(
        step=number, epoch=number / 10, seconds=seconds, learning_rate=1e-3, samples=8, loss=loss
    )


def state(story: RunStory, **known: object) -> State:
    return story.state(**{"engine_ended": False, "keeper_alive": True, **known})


def test_time_left_is_withheld_until_some_steps_have_shown_their_pace() -> None:
    story = told(RunStarted(), PLAN, *(step(number) for number in range(1, 5)))
    assert story.seconds_left is None
    story.apply(step(5))
    assert story.seconds_left == 15 * 0.5


def test_one_slow_step_does_not_move_the_estimate() -> None:
    story = told(RunStarted(), PLAN, step(1, seconds=60), *(step(number) for number in range(2, 11)))
    assert story.step_seconds == 0.5


def test_steps_that_compiled_are_no_measure_of_the_pace() -> None:
    compiled = msgspec.structs.replace(step(1, seconds=9.0), compile_seconds=40.0)
    story = told(RunStarted(), PLAN, compiled, step(2))
    assert (story.step, story.step_seconds) == (2, 0.5)


def test_a_message_lasts_until_it_is_withdrawn() -> None:
    story = told(RunStarted(), MessageRaised(id="slow", level=Level.WARNING, title="Slow"))
    assert list(story.messages) == ["slow"]
    story.apply(MessageWithdrawn(id="slow"))
    assert story.messages == {}


def test_a_new_attempt_keeps_only_what_was_said_of_itself() -> None:
    old, new = (
        MessageRaised(id=name, attempt=attempt, level=Level.WARNING, title="")
        for name, attempt in (("silence", 1), ("disk-full", 2))
    )
    assert list(told(RunStarted(), old, new, RunStarted(attempt=2)).messages) == ["disk-full"]


def test_the_peak_is_that_of_the_run_not_of_the_computer() -> None:
    story = told(
        MemorySampled(source=Source.PROCESS, bytes=5),
        MemorySampled(source=Source.SYSTEM, bytes=100),
        MemorySampled(source=Source.PROCESS, bytes=3),
    )
    assert story.peak_bytes == 5


def test_the_peak_of_a_run_is_the_largest_of_all_its_attempts() -> None:
    story = told(
        RunStarted(),
        MemorySampled(source=Source.PROCESS, bytes=900),
        RunFinished(state=Outcome.STOPPED, steps=8, peak_bytes=700),
        RunStarted(attempt=2, from_step=8),
        MemorySampled(attempt=2, source=Source.PROCESS, bytes=300),
        RunFinished(attempt=2, state=Outcome.FINISHED, steps=9, peak_bytes=400),
    )
    assert story.peak_bytes == 700
    story.apply(MemorySampled(attempt=3, source=Source.PROCESS, bytes=800))
    assert story.peak_bytes == 800
    story.apply(MemorySampled(attempt=3, source=Source.TORCH, bytes=5, reserved=6))
    assert story.peak_bytes == 6, "on a GPU, what is held there"


def test_a_new_attempt_starts_from_its_checkpoint() -> None:
    story = told(
        RunStarted(time=10),
        PLAN,
        *(step(number) for number in range(1, 9)),
        RunFinished(state=Outcome.STOPPED),
        RunStarted(time=50, attempt=2, from_step=5),
    )
    assert (story.step, story.attempt, story.finished) == (5, 2, None)
    assert (story.started, story.attempt_started) == (10, 50)
    assert state(story) is State.STARTING, "it loads data and model once more"
    story.apply(msgspec.structs.replace(PLAN, attempt=2))
    assert state(story) is State.TRAINING


def test_an_evaluation_beyond_the_checkpoint_a_new_attempt_starts_from_is_forgotten() -> None:
    measured = Evaluated(step=5, epoch=1, metrics={"eval_loss": 2.0}, seconds=1)
    assert told(measured, RunStarted(attempt=2, from_step=5)).evaluated_at == 5
    story = told(measured, RunStarted(attempt=2, from_step=4))
    assert (story.metrics, story.evaluated_at) == ({}, None)


def test_evaluations_and_the_end_fill_the_metrics() -> None:
    story = told(
        Evaluated(step=5, epoch=1, metrics={"eval_loss": 2.0}, seconds=1),
        RunFinished(state=Outcome.FINISHED, metrics={"eval_accuracy": 0.9}),
    )
    assert story.metrics == {"eval_loss": 2.0, "eval_accuracy": 0.9}
    assert story.evaluated_at == 5


class TestState:
    def test_through_a_run(self) -> None:
        story = told(RunStarted())
        assert state(story) is State.STARTING
        story.apply(PLAN)
        assert state(story) is State.TRAINING
        assert state(story, requested={"stop"}) is State.STOPPING
        story.apply(RequestAnswered(request="1", action="stop", accepted=True))
        assert state(story) is State.STOPPING
        story.apply(RunFinished(state=Outcome.STOPPED))
        assert state(story) is State.STOPPED

    def test_what_the_engine_said_last_goes_before_how_it_ended(self) -> None:
        story = told(RunStarted(), RunFinished(state=Outcome.FAILED))
        assert state(story, engine_ended=True) is State.FAILED

    def test_an_engine_that_ended_without_a_word_crashed(self) -> None:
        story = told(RunStarted(), PLAN)
        assert state(story, engine_ended=True) is State.CRASHED
        assert state(story, keeper_alive=False) is State.CRASHED

    def test_an_engine_killed_as_asked_did_not_crash(self) -> None:
        story = told(RunStarted(), PLAN, RequestAnswered(request="1", action="kill", accepted=True))
        assert state(story) is State.STOPPING
        assert state(story, engine_ended=True) is State.STOPPED

    def test_a_refused_stop_changes_nothing(self) -> None:
        story = told(RunStarted(), PLAN, RequestAnswered(request="1", action="stop", accepted=False))
        assert state(story) is State.TRAINING


FORECAST = MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=Parts(weights=80, overhead=30))


def test_the_forecast_is_held_against_the_peak_once_the_run_is_over() -> None:
    story = told(RunStarted(), PLAN, FORECAST, MemorySampled(source=Source.PROCESS, bytes=90))
    assert (story.peak_bytes, story.forecast_error) == (90, None)
    story.apply(RunFinished(state=Outcome.FINISHED, steps=20, peak_bytes=100))
    assert story.peak_bytes == 100
    assert story.forecast_error == 0.1


def test_on_a_gpu_only_what_its_allocator_held_is_compared() -> None:
    done = RunFinished(state=Outcome.FINISHED, steps=20, peak_bytes=500, peak_device_bytes=100)
    on_gpu = msgspec.structs.replace(FORECAST, device="cuda:0")
    story = told(RunStarted(), PLAN, on_gpu, done)
    assert (story.peak_bytes, story.forecast_bytes, story.forecast_error) == (100, 80, -0.2)


def test_a_run_that_failed_before_a_step_tells_nothing_of_its_forecast() -> None:
    story = told(RunStarted(), FORECAST, RunFinished(state=Outcome.FAILED, peak_bytes=100))
    assert story.forecast_error is None


class TestRunsThatWaitAndGoOn:
    """`attempt` is the one that is kept now, whatever the engine has said of it so far."""

    def test_one_whose_turn_has_not_come_is_queued_until_it_has(self) -> None:
        story = told(TurnAwaited(ahead=1, behind="other"))
        assert state(story, attempt=1) is State.QUEUED
        assert state(story, attempt=1, requested={"stop"}) is State.STOPPING
        assert state(story, attempt=1, requested={"pause"}) is State.PAUSING
        story.apply(TurnCame())
        assert (state(story, attempt=1), story.awaited) == (State.STARTING, None)

    def test_an_earlier_attempts_waiting_is_past(self) -> None:
        story = told(TurnAwaited(ahead=1), RunStarted(), PLAN, RunFinished(state=Outcome.PAUSED))
        assert state(story, attempt=1) is State.PAUSED
        assert state(story, attempt=2) is State.STARTING
        story.apply(TurnAwaited(ahead=2, attempt=2))
        assert state(story, attempt=2) is State.QUEUED

    def test_what_an_earlier_attempt_took_up_is_past(self) -> None:
        paused = RequestAnswered(request="a", action="pause", accepted=True)
        killed = RequestAnswered(request="b", action="kill", accepted=True)
        story = told(RunStarted(), PLAN, paused)
        assert state(story, attempt=1) is State.PAUSING
        story.apply(killed)
        assert state(story, attempt=1) is State.STOPPING
        assert state(story, attempt=1, engine_ended=True) is State.STOPPED
        assert state(story, attempt=2) is State.STARTING
        assert state(story, attempt=2, engine_ended=True) is State.CRASHED
        story.apply(RunStarted(attempt=2))
        assert state(story, attempt=2) is State.STARTING

    def test_a_stop_after_a_pause_wins_until_the_engine_says_how_it_ended(self) -> None:
        paused, stopped = (
            RequestAnswered(request="a", action=action, accepted=True) for action in ("pause", "stop")
        )
        story = told(RunStarted(), PLAN, paused)
        assert state(story, requested={"stop"}) is State.STOPPING
        story.apply(stopped)
        assert state(story) is State.STOPPING
        story.apply(RunFinished(state=Outcome.PAUSED))
        assert state(story) is State.PAUSED

    def test_a_refused_request_changes_nothing(self) -> None:
        refused = RequestAnswered(request="a", action="pause", accepted=False)
        assert state(told(RunStarted(), PLAN, refused)) is State.TRAINING

    @pytest.mark.parametrize(
        ("action", "expected"),
        [("stop", State.STOPPED), ("pause", State.PAUSED), ("kill", State.STOPPED), ("save", State.CRASHED)],
    )
    def test_one_that_was_taken_out_before_it_began_is_no_crash(self, action: str, expected: State) -> None:
        answered = RequestAnswered(request="a", action=action, accepted=True, attempt=2)
        story = told(
            RunStarted(), RunFinished(state=Outcome.FINISHED), TurnAwaited(ahead=1, attempt=2), answered
        )
        assert state(story, attempt=2, engine_ended=True) is expected

    def test_an_attempt_is_known_by_what_its_engine_says_where_its_beginning_is_out_of_sight(self) -> None:
        story = told(RunStarted(), PLAN, RunFinished(state=Outcome.PAUSED))
        story.apply(msgspec.structs.replace(step(9), attempt=2))
        assert (story.attempt, story.finished) == (2, None)
        assert state(story, attempt=2) is State.TRAINING
