"""What is said of a run that has ended."""

from pathlib import Path

from core.commands.run_text import ending_text
from core.events import Evaluated, Outcome, RunFinished
from core.run_folder import RunFolder
from core.story import RunStory, State

MEASURED = {"eval_accuracy": 0.9}


def ending(path: Path, metrics: dict[str, float | None]) -> list[str]:
    story = RunStory()
    story.apply(Evaluated(step=5, epoch=1, metrics=MEASURED, seconds=1))
    story.apply(RunFinished(state=Outcome.STOPPED, metrics=metrics, seconds=3, steps=7))
    return ending_text(RunFolder(path), story, State.STOPPED, None).splitlines()


def test_what_the_kept_model_reached_is_its_result(tmp_path: Path) -> None:
    assert ending(tmp_path, MEASURED) == ["Stopped after 7 steps in 3 s: accuracy 0.9"]


def test_what_was_measured_before_the_last_steps_is_no_result(tmp_path: Path) -> None:
    assert ending(tmp_path, {}) == ["Stopped after 7 steps in 3 s", "Last evaluated at step 5: accuracy 0.9"]
