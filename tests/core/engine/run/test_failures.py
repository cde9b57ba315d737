"""A disk that fills pauses a run, and is noticed before it trains if it can be."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import FixAction
from core.base.processes import CANT_WRITE
from core.engine.reporter import Reporter
from core.engine.run.failures import CantSave, disk_space_needed, require_disk_space, writing
from core.engine.training.failures import saved_bytes
from core.options.sections import OutputOptions
from core.runs.events import CheckpointSaved, Event, MessageRaised, Outcome, StepFinished
from core.runs.folder import RunFolder
from core.runs.models import trained_model
from tests.fakes.models import save_tiny_bert
from tests.fakes.runs import save_checkpoint
from tests.fakes.trained_runs import attempt, in_attempts, story_of
from tests.fakes.training import run_options, write_reviews


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Paused: the disk is full"),
        (RuntimeError("PytorchStreamWriter failed writing file data/3"), "Paused: the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied"), "The run can't be saved"),
    ],
)
def test_an_error_while_writing_pauses_the_run(error, title, tmp_path):
    with pytest.raises(CantSave, match=title), writing(tmp_path):
        raise error
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("bug")


@pytest.mark.skipif(os.name != "posix", reason="Windows removes no folder that somebody works in")
def test_a_folder_whose_disk_was_unmounted_is_named_as_the_cause(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    (tmp_path / "run").rmdir()
    with pytest.raises(CantSave, match="can't be reached"), writing(Path("checkpoints")):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")


# --- Runs on a disk that fills


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Of a run with a checkpoint after each second step."""
    folder = tmp_path_factory.mktemp("run")
    return run_options(
        source=save_tiny_bert(folder / "bert"),
        train=write_reviews(folder / "reviews.csv", 8),
        batch_size=4,
        epochs=2.0,
        keep_checkpoints=3,
        predictions=0,
    )


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    return in_attempts(tmp_path_factory.mktemp("whole") / "run", options)


@contextmanager
def file_limit(limit: int) -> Iterator[Callable[[], None]]:
    """Yields a function that lets no file of this process grow beyond `limit` bytes, as on a full disk."""
    resource: Any = pytest.importorskip("resource")  # Windows has no such limit
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_too_full_for_the_run_is_noticed_before_training(options, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 0, 2_200_000))
    assert attempt(run.path, options) == 1
    status = story_of(run)
    failed = status.messages["failed"]
    assert failed.title == "The disk is too full for this run"
    assert "2 checkpoints" in failed.detail
    assert "2.10 MB" in failed.detail
    assert {"output.keep_checkpoints": 0, "output.keep_best": False} in [fix.changes for fix in failed.fixes]
    assert status.of(StepFinished) == []


def test_the_space_demanded_is_what_is_really_written(whole, options):
    from transformers import AutoModelForSequenceClassification

    source = AutoModelForSequenceClassification.from_pretrained(options.model.source)
    trained = sum(weight.numel() for weight in source.parameters())
    need = disk_space_needed(saved_bytes(source), trained, options, [])
    saved = whole.of(CheckpointSaved)
    assert need.copies == len(saved) == 2
    assert saved[-1].bytes <= need.checkpoint <= saved[-1].bytes + (1 << 20)


@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        ({"keep_checkpoints": 0}, 0),
        ({"keep_checkpoints": 3}, 4),  # one is written before the oldest is removed
        ({"keep_checkpoints": 3, "keep_best": True}, 5),
        ({"keep_checkpoints": 0, "keep_best": True}, 3),
        ({"keep_checkpoints": 3, "epochs": 2.0}, 2),
    ],
)
def test_how_many_checkpoints_there_are_at_one_time(changes, copies):
    asked = run_options(**{"epochs": 9.0, **changes})
    assert disk_space_needed(1000, 10, asked, []).copies == copies


def test_a_run_that_is_resumed_on_a_full_disk_pauses_again(options, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    save_checkpoint(run, 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 0, 0))
    with pytest.raises(CantSave, match="too full") as raised:
        require_disk_space(run, 1000, 10, options)
    assert FixAction.RESUME in [fix.action for fix in raised.value.fixes]


def test_a_run_that_only_measures_saves_nothing_and_needs_no_space(options, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    output = OutputOptions(keep_checkpoints=0, save_model=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 0, 0))
    assert attempt(run.path, msgspec.structs.replace(options, output=output)) == 0
    status = story_of(run)
    assert status.ended[0] is Outcome.FINISHED
    assert status.of(StepFinished)
    assert not run.model.exists()
    assert trained_model(run) is None


def test_a_disk_that_fills_pauses_the_run_which_goes_on_from_its_last_checkpoint(whole, options, tmp_path):
    run = RunFolder(tmp_path / "run")
    with file_limit(30_000) as fill:
        assert attempt(run.path, options, {3: fill}) == 0
    status = story_of(run)
    assert status.ended[0] is Outcome.PAUSED
    paused = status.messages["paused"]
    assert paused.title == "Paused: the disk is full"
    assert "about " in paused.detail
    assert FixAction.RESUME in [fix.action for fix in paused.fixes]
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint-2"]
    assert not run.model.exists()
    assert in_attempts(run.path, options).steps == whole.steps


def test_a_disk_full_to_the_last_byte_is_reported_in_space_that_was_reserved(
    options, tmp_path, monkeypatch, capfd
):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.spare_file.write_bytes(b"reserved")
    write = Reporter.write

    def write_while_there_is_space(self: Reporter, *events: Event) -> None:
        if any(isinstance(event, StepFinished) for event in events) or (
            run.spare_file.exists() and isinstance(events[0], MessageRaised)
        ):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *events)

    monkeypatch.setattr(Reporter, "write", write_while_there_is_space)
    assert attempt(run.path, options) == 0
    status = story_of(run)
    assert status.ended[0] is Outcome.PAUSED
    assert str(run.path) in status.messages["paused"].detail
    assert "Traceback" not in capfd.readouterr().err


def test_events_that_can_not_be_written_end_the_run_and_it_goes_on_later(whole, options, tmp_path):
    run = RunFolder(tmp_path / "run")
    with file_limit(1) as fill:
        assert attempt(run.path, options, {3: fill}) == CANT_WRITE
    assert [path.name for path in run.checkpoints.glob("checkpoint-*")] == ["checkpoint-2"]
    assert in_attempts(run.path, options).steps == whole.steps
