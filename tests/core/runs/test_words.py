"""What is said of a run that has ended."""

from pathlib import Path

import pytest

from core.base import settings
from core.base.errors import Fix
from core.monitor.recent import END, REVEAL, STOP
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MessageRaised,
    Outcome,
    RunFinished,
    RunStarted,
    StepFinished,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStory, State
from core.runs.words import ending_text, message_text, queued_text, time_spent_text
from tests.fakes.run_stories import FORECAST, make_folder
from tests.fakes.runs import save_checkpoint

STEP = StepFinished(step=1, epoch=0.1, seconds=2.0, learning_rate=0.1, samples=8)
MEASURED = {"eval_accuracy": 0.9}


def ending(path: Path, metrics: dict[str, float | None]) -> list[str]:
    story = RunStory()
    story.apply(Evaluated(step=5, epoch=1, metrics=MEASURED, seconds=1))
    story.apply(RunFinished(state=Outcome.STOPPED, metrics=metrics, seconds=3, steps=7))
    return ending_text(make_folder(path / "run"), story, State.STOPPED, None).splitlines()


def test_what_the_kept_model_reached_is_its_result(tmp_path: Path) -> None:
    assert ending(tmp_path, MEASURED) == ["Stopped after 7 steps in 3 s: accuracy 0.9"]


def test_what_was_measured_before_the_last_steps_is_no_result(tmp_path: Path) -> None:
    assert ending(tmp_path, {}) == ["Stopped after 7 steps in 3 s", "Last evaluated at step 5: accuracy 0.9"]


def test_the_speed_of_a_run_that_went_on_is_that_of_its_last_stretch(tmp_path: Path) -> None:
    story = RunStory()
    story.apply(RunStarted(attempt=2, from_step=5))
    story.apply(RunFinished(attempt=2, state=Outcome.FINISHED, seconds=3, steps=7, samples_per_second=50.0))
    lines = ending_text(make_folder(tmp_path / "run"), story, State.FINISHED, None).splitlines()
    assert lines[1] == "50 samples a second in its last stretch"


def taken_out(path: Path, *told: Event) -> tuple[RunFolder, RunStory, str]:
    """A run of which the first attempt told this and was killed; the second left the queue."""
    run, story = make_folder(path / "run"), RunStory()
    story.apply_all([RunStarted(), *told])
    killed = ExitRecord(time=0, code=-9, signal="SIGKILL", reason="It was killed from outside.")
    left = ExitRecord(time=1, code=None, reason="It was taken out of the queue.", attempt=2, before=killed)
    return run, story, ending_text(run, story, State.STOPPED, left)


def test_a_crash_is_not_forgotten_once_the_run_left_the_queue(tmp_path: Path) -> None:
    run, story, text = taken_out(tmp_path, STEP)
    assert text.splitlines()[:4] == [
        "It was taken out of the queue.",
        "It stands at step 1.",
        "Before that: The training process was ended by SIGKILL.",
        "It was killed from outside.",
    ]
    assert "begins anew: it has no complete checkpoint" in text
    save_checkpoint(run, 1)
    assert "goes on from step 1" in ending_text(run, story, State.STOPPED, None)


def test_what_ended_by_itself_and_left_the_queue_has_not_crashed(tmp_path: Path) -> None:
    _, _, text = taken_out(tmp_path, STEP, RunFinished(state=Outcome.PAUSED, steps=1))
    assert "Before that" not in text


def test_a_run_that_waits_says_from_where_it_goes_on(tmp_path: Path) -> None:
    run, story = make_folder(tmp_path / "run"), RunStory()
    assert queued_text(run, story) == ""
    story.apply(RunStarted())
    assert "begins anew" in queued_text(run, story)
    save_checkpoint(run, 3)
    assert "goes on from step 3" in queued_text(run, story)


def test_without_its_run_file_no_run_is_said_to_go_on(tmp_path: Path) -> None:
    run = make_folder(tmp_path / "run")
    save_checkpoint(run, 3)
    run.options_file.unlink()
    text = ending_text(run, RunStory(), State.PAUSED, None)
    assert "hone resume" not in text
    assert f"{run.options_file}: can't be read" in text


def test_the_headline_tells_the_peak_alone(tmp_path: Path) -> None:
    story = RunStory()
    story.apply(FORECAST)
    done = RunFinished(
        state=Outcome.FINISHED, seconds=3, steps=7, samples_per_second=50.0, peak_bytes=25 << 27
    )
    story.apply(done)
    lines = ending_text(RunFolder(tmp_path), story, State.FINISHED, None).splitlines()
    assert lines[1] == "50 samples a second, 3,200 MB of memory at most"


def test_a_run_ended_for_lack_of_memory_says_what_to_do(tmp_path: Path) -> None:
    run, story = make_folder(tmp_path / "run"), RunStory()
    story.apply(FORECAST)
    record = ExitRecord(time=0, code=-9, signal="SIGKILL", reason="The system ended it.", out_of_memory=True)
    text = ending_text(run, story, State.CRASHED, record)
    assert "Memory ran out" in text
    assert "Its largest part: activations, 2.0 GB." in text
    assert "Try: Batches of 8 (saves 700 MB) (--set memory.batch_size=8)" in text
    assert "Memory ran out" not in ending_text(run, story, State.CRASHED, ExitRecord(time=0, code=-9))


def test_where_a_steps_time_goes() -> None:
    story = RunStory()
    assert time_spent_text(story.time_spent) == ""
    parts = {"data_seconds": 0.1, "forward_seconds": 0.5, "backward_seconds": 1.2, "optimizer_seconds": 0.1}
    story.apply(StepFinished(step=1, epoch=0.1, seconds=2.0, learning_rate=0.1, samples=8, **parts))
    story.apply(StepFinished(step=2, epoch=0.2, seconds=9.0, learning_rate=0.1, samples=8, data_seconds=1.0))
    assert time_spent_text(story.time_spent) == (
        "A step's time goes into: waiting for data 5%, forward 25%, backward 60%, optimizer 5%, the rest 5%"
    )


def test_what_can_be_done_with_a_run_is_told_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    message = MessageRaised(id="a", level=Level.WARNING, title="T", fixes=(STOP, END, REVEAL, Fix("Wait")))
    here, elsewhere = settings.runs_folder() / "my run", tmp_path / "there"
    assert message_text(message, here).splitlines() == [
        "Warning: T",
        "  Try: Stop and keep (hone stop 'my run')",
        "  Try: End now (hone stop --now 'my run')",
        f"  Try: Show the folder ({here})",
        "  Try: Wait",
    ]
    assert f"(hone stop {elsewhere})" in message_text(message, elsewhere)
    assert "(hone stop RUN)" in message_text(message)
    assert message_text(message, here, is_over=True).splitlines()[1:] == [
        f"  Try: Show the folder ({here})",
        "  Try: Wait",
    ]
