"""What interrupts predictions, and which pictures of mistakes are kept."""

import pytest

from core.engine.reporter import Reporter
from core.engine.run.predictions import Predictions, ShouldStop, keep_mistakes
from core.engine.run.requests import RequestBox
from core.runs.events import Action, Example, Judged, Said, Validation
from core.runs.folder import RunFolder


@pytest.mark.parametrize(
    ("step", "actions", "is_interrupted"),
    [
        (0, [Action.STOP], True),  # there is nothing to judge yet
        (4, [Action.STOP], False),  # the run is evaluated before it ends
        (4, [Action.STOP, Action.STOP], True),
        (4, [], False),
    ],
)
def test_a_request_interrupts_them_unless_the_run_is_evaluated_at_its_end(
    step, actions, is_interrupted, tmp_path
):
    run, answers = RunFolder(tmp_path), []
    reporter = Reporter(run)
    requests = RequestBox(run, reporter)

    def predict(should_stop: ShouldStop) -> tuple[Said, ...]:
        for action in actions:
            run.request(action)
        answers.append(should_stop())
        return ()

    Predictions(reporter, requests, (), predict).tell(step, 0.5)
    assert answers == [is_interrupted]


@pytest.mark.parametrize(("is_kept", "left"), [(True, ["validation-2.png"]), (False, ["validation-1.png"])])
def test_only_pictures_of_the_mistakes_that_are_kept_stay(is_kept, left, tmp_path):
    run = RunFolder(tmp_path)
    (tmp_path / "examples").mkdir()
    for number in (1, 2):
        (tmp_path / "examples" / f"validation-{number}.png").touch()
        example = Example(image=f"examples/validation-{number}.png")
        found = Validation(step=number, wrong=1, examples=(Judged(example=example, chances=()),))
        keep_mistakes(run, Reporter(run), None, found, is_kept=number == 1 or is_kept)
    assert [file.name for file in (tmp_path / "examples").iterdir()] == left
