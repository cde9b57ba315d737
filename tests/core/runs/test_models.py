"""Which checkpoints count, and which of a run's weights are its trained model."""

import json
from pathlib import Path

import pytest

from core.base.errors import OptionsError
from core.engine.run.checkpoints import seal
from core.jobs.chat import Which
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import problem_with
from core.options.sections import ModelOptions
from core.runs import library
from core.runs.events import Outcome, RunFinished, RunStarted
from core.runs.export_source import find_source
from core.runs.folder import RunFolder
from core.runs.models import (
    MARKER,
    STATE,
    incomplete,
    is_undamaged,
    name_of,
    newest,
    newest_first,
    trained_length,
    trained_model,
)
from core.runs.status import State
from core.runs.summary import status_at_end
from core.runs.words import ending_text
from core.services.chat import look
from tests.fakes.runs import make_folder, save_checkpoint, write_events


def saved(run: RunFolder, step: int, *, sealed: bool = True) -> Path:
    folder = run.checkpoints / f"checkpoint-{step}"
    (folder / "inner").mkdir(parents=True)
    (folder / STATE).write_text(json.dumps({"global_step": step}))
    (folder / "inner" / "weights").write_bytes(b"12345")
    if sealed:
        seal(folder)
    return folder


def test_the_newest_is_that_of_the_highest_step_which_is_complete(run):
    assert newest(run) is None
    saved(run, 9)
    folder = saved(run, 10)
    half = saved(run, 11, sealed=False)
    found = newest(run)
    assert found is not None
    assert (found.step, found.path, found.bytes) == (10, folder, len('{"global_step": 10}') + 5)
    assert [checkpoint.step for checkpoint in newest_first(run.checkpoints)] == [10, 9]
    assert incomplete(run.checkpoints) == [half]


def test_damage_that_leaves_the_size_is_found_by_the_hash(run):
    folder = saved(run, 1)
    assert is_undamaged(folder)
    (folder / "inner" / "weights").write_bytes(b"12346")
    assert newest(run) is not None
    assert not is_undamaged(folder)


def test_a_checkpoint_without_trainers_state_can_not_be_resumed(run):
    folder = saved(run, 1, sealed=False)
    (folder / STATE).unlink()
    seal(folder)
    assert newest(run) is None


@pytest.mark.parametrize(
    "name",
    [
        *("../checkpoint-1/inner/weights", "inner/../inner/weights", "C:weights", "inner\\weights", "", "."),
        *("{outside}", "linked"),
    ],
)
def test_a_name_that_leads_elsewhere_makes_the_checkpoint_incomplete(name, run, tmp_path):
    outside = tmp_path / "weights"
    outside.write_bytes(b"12345")
    folder = saved(run, 1)
    (folder / "linked").symlink_to(outside)
    listed = json.loads((folder / MARKER).read_text())
    assert newest(run) is not None
    listed[name.format(outside=outside)] = listed["inner/weights"]
    (folder / MARKER).write_text(json.dumps(listed))
    assert newest(run) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_marker_makes_the_checkpoint_incomplete(content, run):
    (saved(run, 1) / MARKER).write_bytes(content)
    assert newest(run) is None


# --- The trained model


def options(source: str) -> RunOptions:
    model, data = ModelOptions(source=source), DataOptions(train="synthetic:8x8")
    return RunOptions(task=Task.CAUSAL_LM, model=model, data=data)


def train(run: RunFolder, attempt: int, outcome: Outcome, to_step: int, seconds: float = 1.0) -> None:
    begun = RunStarted(time=2.0 * attempt, from_step=to_step - 10)
    ended = RunFinished(time=2.0 * attempt + 1, state=outcome, steps=to_step, seconds=seconds)
    write_events(run.events_file, begun, ended, attempt=attempt)


@pytest.fixture
def stopped(tmp_path):
    """Stopped after ten steps: a model, and a checkpoint of the same step."""
    run = RunFolder(tmp_path / "L")
    run.model.mkdir(parents=True)
    run_file.write(options("some/model"), run.options_file)
    train(run, 1, Outcome.STOPPED, 10)
    for name in ("config.json", "model.safetensors"):
        (run.model / name).write_text("{}")
    save_checkpoint(run, 10)
    return run


@pytest.fixture
def paused(stopped):
    """The same, resumed and paused after twenty steps."""
    train(stopped, 2, Outcome.PAUSED, 20)
    save_checkpoint(stopped, 20)
    return stopped


def where(run: RunFolder) -> tuple[str, int | None]:
    newest = trained_model(run)
    assert newest is not None
    return newest.folder.name, newest.step


def test_a_run_that_was_stopped_has_its_model(stopped):
    assert where(stopped) == ("model", 10)
    assert "step" not in name_of(stopped, options(""), Which.TRAINED)
    source = find_source(stopped)
    assert (source.folder, source.checkpoint_text) == (stopped.model, "")
    assert library.create(options(f"run:{stopped.path}"), stopped.path.parent / "new").options()
    assert [found.run for found in look(stopped.path.parent, None).runs] == [stopped]


def test_a_model_of_before_a_run_was_resumed_is_not_the_trained_one(paused):
    assert where(paused) == ("checkpoint-20", 20)
    source = find_source(paused)
    assert source.folder == paused.checkpoints / "checkpoint-20"
    assert "checkpoint of step 20" in source.checkpoint_text
    found = look(paused.path.parent, paused)
    [offered] = found.runs
    assert offered.names[Which.TRAINED].endswith("model before it trained longer")
    text = ending_text(paused, status_at_end(paused), State.PAUSED, None)
    assert f"Its newest weights, of step 20, are in {paused.checkpoints / 'checkpoint-20'}" in text
    assert f"The model in {paused.model} is older" in text


def test_no_new_run_starts_from_it_but_one_that_did_can_be_resumed(paused):
    with pytest.raises(OptionsError) as caught:
        library.create(options(f"run:{paused.path}"), paused.path.parent / "new")
    [problem] = caught.value.problems
    assert (problem.path, "step 20" in problem.message) == ("model.source", True)
    assert problem_with(f"run:{paused.path}", Task.CAUSAL_LM) is None


@pytest.mark.parametrize(
    ("outcome", "seconds", "expected"),
    [
        (Outcome.FINISHED, 0.5, ("model", 20)),
        (Outcome.STOPPED, 0.0, ("checkpoint-20", 20)),  # while it loaded: it has written no model
    ],
)
def test_once_it_ends_the_new_model_counts(paused, outcome, seconds, expected):
    train(paused, 3, outcome, 20, seconds)
    assert where(paused) == expected


def test_a_run_that_was_resumed_and_saved_nothing_names_the_step_of_its_model(stopped):
    write_events(stopped.events_file, RunStarted(time=4.0, from_step=10), attempt=2)
    assert where(stopped) == ("model", 10)
    assert name_of(stopped, options(""), Which.TRAINED).endswith(", step 10")


def test_without_a_model_the_newest_checkpoint_counts(stopped, tmp_path):
    for path in stopped.model.iterdir():
        path.unlink()
    assert where(stopped) == ("checkpoint-10", 10)
    assert trained_model(RunFolder(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("lengths", "first", "trained"),
    [
        ([128], "scratch:llama-tiny", 128),  # of its 256 positions
        ([128, 96], "scratch:llama-tiny", 128),
        ([128, 200], "scratch:llama-tiny", 200),
        ([1000], "scratch:llama-tiny", 256),  # more than it can read
        ([128], "owner/pretrained", 256),
        ([128], "run:/gone", 256),
        ([], "owner/pretrained", 256),
    ],
)
def test_a_model_from_scratch_has_learned_as_many_positions_as_its_runs_have_trained(
    tmp_path, lengths, first, trained
):
    source = first
    for number, length in enumerate(lengths):
        data, model = DataOptions(train="a.txt", max_length=length), ModelOptions(source=source)
        run = make_folder(tmp_path / str(number), RunOptions(task=Task.CAUSAL_LM, data=data, model=model))
        source = f"run:{run.path}"
    assert trained_length(source, 256) == trained
