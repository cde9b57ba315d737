"""A run that was stopped and went on has two models: only the newest weights are handed out as the trained ones."""

import pytest

from core.base.errors import OptionsError
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import problem_with
from core.options.sections import ModelOptions
from core.runs import library
from core.runs.event_log import EventWriter
from core.runs.events import Event, Outcome, RunFinished, RunStarted
from core.runs.folder import RunFolder
from core.runs.models import trained_model
from core.runs.status import State
from core.runs.summary import status_at_end
from core.runs.words import ending_text
from core.services.chat import Which, look, name_of
from core.services.export import find_source
from tests.fakes.runs import save_checkpoint

TASK = Task.CAUSAL_LM
OPTIONS = RunOptions(
    task=TASK, model=ModelOptions(source="some/model"), data=DataOptions(train="synthetic:8x8")
)


def tell(run: RunFolder, attempt: int, *events: Event) -> None:
    writer = EventWriter(run.events_file, attempt=attempt)
    writer.write(*events)
    writer.close()


@pytest.fixture
def stopped(tmp_path):
    """Stopped after ten steps: a model, and a checkpoint of the same step."""
    run = RunFolder(tmp_path / "L")
    run.path.mkdir()
    run_file.write(OPTIONS, run.options_file)
    ended = RunFinished(time=2.0, state=Outcome.STOPPED, steps=10, seconds=1.0)
    tell(run, 1, RunStarted(time=1.0, pid=1), ended)
    run.model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (run.model / name).write_text("{}")
    save_checkpoint(run, 10)
    return run


@pytest.fixture
def paused(stopped):
    """The same, gone on with and paused after twenty steps."""
    ended = RunFinished(time=4.0, state=Outcome.PAUSED, steps=20, seconds=1.0)
    tell(stopped, 2, RunStarted(time=3.0, pid=2, from_step=10), ended)
    save_checkpoint(stopped, 20)
    return stopped


def where(run: RunFolder) -> tuple[str, int | None]:
    newest = trained_model(run)
    assert newest is not None
    return newest.folder.name, newest.step


def asked(run: RunFolder) -> list[str]:
    model = ModelOptions(source=f"run:{run.path}")
    options = RunOptions(task=TASK, model=model, data=DataOptions(train="synthetic:8x8"))
    try:
        library.create(options, run.path.parent / "new")
    except OptionsError as error:
        return [problem.message for problem in error.problems]
    return []


def test_what_was_stopped_or_has_finished_has_its_model(stopped):
    assert where(stopped) == ("model", 10)
    assert "step" not in name_of(stopped, OPTIONS, Which.TRAINED)
    assert find_source(stopped).folder == stopped.model
    assert not find_source(stopped).told
    assert asked(stopped) == []
    assert [one.run for one in look(stopped.path.parent, None).runs] == [stopped]


def test_a_model_of_before_it_went_on_is_not_the_trained_one(paused):
    assert where(paused) == ("checkpoint-20", 20)
    source = find_source(paused)
    assert source.folder == paused.checkpoints / "checkpoint-20"
    assert "checkpoint of step 20" in source.told
    told = look(paused.path.parent, paused)
    assert not told.runs
    assert "step 20" in told.problem


def test_no_new_run_starts_from_it_unsaid_but_one_that_did_goes_on(paused):
    [said] = asked(paused)
    assert "trained on since its model was written" in said
    assert "checkpoint of step 20" in said
    assert problem_with(f"run:{paused.path}", TASK) is None


def test_where_it_is_names_the_step(paused):
    said = ending_text(paused, status_at_end(paused), State.PAUSED, None)
    assert f"Its newest weights, of step 20, are in {paused.checkpoints / 'checkpoint-20'}" in said
    assert f"The model in {paused.model} is older" in said


def test_once_it_ends_the_new_model_counts(paused):
    ended = RunFinished(time=6.0, state=Outcome.FINISHED, steps=20, seconds=0.5)
    tell(paused, 3, RunStarted(time=5.0, pid=3, from_step=20), ended)
    assert where(paused) == ("model", 20)


def test_one_that_was_stopped_while_it_loaded_has_written_no_model(paused):
    ended = RunFinished(time=6.0, state=Outcome.STOPPED, steps=20)
    tell(paused, 3, RunStarted(time=5.0, pid=3, from_step=20), ended)
    assert where(paused) == ("checkpoint-20", 20)


def test_one_that_went_on_and_saved_nothing_has_its_model_of_a_step(stopped):
    tell(stopped, 2, RunStarted(time=3.0, pid=2, from_step=10))
    assert where(stopped) == ("model", 10)
    assert name_of(stopped, OPTIONS, Which.TRAINED).endswith(", step 10")


def test_checkpoints_alone_and_nothing_at_all(stopped, tmp_path):
    for path in stopped.model.iterdir():
        path.unlink()
    assert where(stopped) == ("checkpoint-10", 10)
    assert trained_model(RunFolder(tmp_path / "none")) is None
