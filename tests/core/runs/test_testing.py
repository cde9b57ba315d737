"""What is said of a run that only evaluates a model: how far it is, and what to do with a result like guessing."""

import io
from pathlib import Path

import pytest

from core.base.errors import FixAction
from core.options.catalogue import with_changes
from core.runs.events import Evaluated, Outcome, Phase, PhaseChanged, RunFinished, RunStarted
from core.runs.progress import Progress
from core.runs.status import RunStatus
from core.runs.verdict import verdict
from tests.fakes.runs import digits_options, make_folder, plan


def batches(time, detail=""):
    return PhaseChanged(time=time, phase=Phase.EVALUATING, detail=detail)


def test_its_time_left_follows_the_batches_and_is_unknown_before_them():
    status = RunStatus()
    status.apply_all([RunStarted(), plan(total_steps=0), batches(10.0)])
    assert (status.share_done, status.seconds_left) == (0.0, None)
    status.apply(batches(12.0, "4/12"))
    assert (status.share_done, status.seconds_left) == (pytest.approx(1 / 3), 4.0)
    status.apply(RunStarted(attempt=2))
    assert (status.share_done, status.seconds_left) == (0.0, None), "it begins anew"


def test_a_terminal_is_told_each_tenth():
    status, stream = RunStatus(), io.StringIO()
    progress = Progress(status, stream, Path("/runs/here"))
    for event in (plan(total_steps=0), batches(0.0), batches(2.0, "1/20"), batches(4.0, "2/20")):
        status.apply(event)
        progress.show(event)
    assert stream.getvalue().splitlines()[1:] == ["Evaluating, 2 / 20 batches, about 36 s left"]


@pytest.mark.parametrize(("accuracy", "is_offered"), [(0.5, True), (0.9, False)])
def test_a_result_like_guessing_leads_to_the_run_that_was_tested(tmp_path, accuracy, is_offered):
    tested = make_folder(tmp_path / "tested")
    options = with_changes(digits_options(), {"model.source": f"run:{tested.path}", "model.pretrained": True})
    status, metrics = RunStatus(), {"eval_loss": 0.69, "eval_accuracy": accuracy}
    result = Evaluated(step=0, epoch=0.0, metrics=metrics, seconds=1.0, baseline=0.5)
    end = RunFinished(state=Outcome.FINISHED, metrics=metrics)
    status.apply_all([plan(total_steps=0, eval_samples=400), result, end])
    assert (FixAction.TESTED in [fix.action for fix in verdict(status, options).fixes]) is is_offered
