"""Running out of memory or disk is told from a bug, in the words of every library and system."""

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from core.base.errors import FixAction, OutOfMemory
from core.base.processes import CANT_WRITE
from core.engine.__main__ import LenientStream
from core.engine.reporter import Reporter
from core.engine.training.failures import CantSave, cant_save, disk_space_needed, explain, writing
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import OutputOptions, TrainingOptions
from core.runs.events import CheckpointSaved, Event, MessageRaised, Outcome, StepFinished
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.trained_runs import attempt, in_attempts, short_run, story_of
from tests.fakes.training import model, reviews, write_reviews

MEMORY, DISK = "memory", "disk"
DETERMINISTIC = "cumsum_cuda_kernel does not have a deterministic implementation, but you set 'torch.use'."
ASYNC_IO = "Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue."
SAFETENSORS = 'Error while serializing: I/O error: Os { code: 28, kind: StorageFull, message: "..." }'


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), MEMORY),
        (RuntimeError("MPS backend out of memory (MPS allocated: 17.87 GB, max allowed: 18.13 GB)."), MEMORY),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."),
            MEMORY,
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes."), MEMORY),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), MEMORY),
        (OSError("The paging file is too small for this operation to complete. (os error 1455)"), MEMORY),
        (MemoryError(), MEMORY),
        (OSError(errno.ENOSPC, "No space left on device", "model.safetensors"), DISK),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DISK),
        (SafetensorError(SAFETENSORS), DISK),
        (RuntimeError("failed writing file: No space left on device"), DISK),
        (RuntimeError(DETERMINISTIC), {"training.deterministic": False}),
        (RuntimeError(ASYNC_IO), {"memory.offload": "cpu"}),
        (RuntimeError("DataLoader worker (pid 4711) is killed by signal: Killed. "), {"data.workers": 0}),
        (RuntimeError("DataLoader worker (pid(s) 4711, 4712) exited unexpectedly"), {"data.workers": 0}),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x16 and 32x2)"), None),
        (RuntimeError("Caught KeyError in DataLoader worker process 0."), None),
        (KeyError("labels"), None),
        (ValueError("out of memory of a different kind"), None),
        (io.UnsupportedOperation("not writable"), None),
    ],
    ids=repr,
)
def test_what_libraries_raise(error, expected):
    found = explain(error, RunOptions(task=Task.TEXT_CLASSIFICATION))
    if expected is None:
        assert found is None  # a bug
    elif expected is MEMORY:
        assert isinstance(found, OutOfMemory)
    elif expected is DISK:
        assert found is not None
        assert found.title == "The disk is full"
    else:
        assert found is not None
        assert [fix.changes for fix in found.fixes] == [expected]


@pytest.mark.parametrize("allocate", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60)])
def test_what_the_libraries_really_raise(allocate):
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        allocate()
    found = explain(raised.value, RunOptions(task=Task.TEXT_CLASSIFICATION))
    assert isinstance(found, OutOfMemory)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("room")


@pytest.fixture(scope="module")
def options(folder):
    return short_run(
        model=model(save_tiny_bert(folder / "bert")),
        data=reviews(write_reviews(folder / "reviews.csv", 8)),
        training=TrainingOptions(epochs=3.0, learning_rate=1e-2),
        output=OutputOptions(keep_checkpoints=3, predictions=0),
    )


@pytest.fixture(scope="module")
def whole(folder, options):
    return in_attempts(folder / "whole", options)


@contextmanager
def file_limit(limit: int) -> Iterator[Callable[[], None]]:
    """What lets no file of this process grow beyond `limit` bytes, taken back at the end."""
    resource: Any = pytest.importorskip("resource")  # Windows has no such limit
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def messages(run: RunFolder, message_id: str) -> list[MessageRaised]:
    return [told for told in story_of(run).of(MessageRaised) if told.id == message_id]


def test_too_little_room_is_told_before_training_with_what_would_fit(options, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 0, 2_200_000))
    assert attempt(run.path, options) == 1
    [failed] = messages(run, "failed")
    assert failed.title == "The disk is too full for this run"
    assert "3 checkpoints" in failed.detail
    assert "2.1 MB" in failed.detail
    assert {"output.keep_checkpoints": 0, "output.keep_best": False} in [fix.changes for fix in failed.fixes]
    assert story_of(run).of(StepFinished) == []


def test_the_need_is_what_is_really_written(whole, folder, options):
    from transformers import AutoModelForSequenceClassification

    [*_, last] = whole.of(CheckpointSaved)
    trained = AutoModelForSequenceClassification.from_pretrained(folder / "whole" / "model")

    class Trainer:
        model = trained

    need = disk_space_needed(Trainer(), options, [])
    assert need.copies == 3
    assert last.bytes <= need.checkpoint <= last.bytes + (1 << 20)


def test_a_disk_that_fills_pauses_the_run_which_goes_on_from_its_last_checkpoint(whole, options, tmp_path):
    """A limit for the size of a file stands in for the disk: the system refuses to write beyond it."""
    run = RunFolder(tmp_path / "run")
    with file_limit(30_000) as fill:
        assert attempt(run.path, options, {3: fill}) == 0
    status = story_of(run)
    assert status.last is not None
    assert status.last.state is Outcome.PAUSED
    [paused] = messages(run, "paused")
    assert paused.title == "Paused: the disk is full"
    assert "about " in paused.detail
    assert FixAction.RESUME in [fix.action for fix in paused.fixes]
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint-2"]
    assert not run.model.exists()
    assert in_attempts(run.path, options).steps == whole.steps


def test_a_disk_full_to_the_last_byte_is_told_by_its_place_in_room_that_was_kept(
    options, tmp_path, monkeypatch, capfd
):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.spare_file.write_bytes(b"room")
    write = Reporter.write

    def write_where_there_is_room(self: Reporter, *events: Event) -> None:
        if any(isinstance(event, StepFinished) for event in events) or (
            run.spare_file.exists() and isinstance(events[0], MessageRaised)
        ):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *events)

    monkeypatch.setattr(Reporter, "write", write_where_there_is_room)
    assert attempt(run.path, options) == 0
    status = story_of(run)
    assert status.last is not None
    assert status.last.state is Outcome.PAUSED
    [paused] = messages(run, "paused")
    assert str(run.path) in paused.detail
    assert "Traceback" not in capfd.readouterr().err


def test_events_that_can_not_be_written_end_the_run_and_it_goes_on_later(whole, options, tmp_path):
    run = RunFolder(tmp_path / "run")
    with file_limit(1) as fill:
        assert attempt(run.path, options, {3: fill}) == CANT_WRITE
    assert [path.name for path in run.checkpoints.glob("checkpoint-*")] == ["checkpoint-2"]
    assert in_attempts(run.path, options).steps == whole.steps


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Paused: the disk is full"),
        (
            RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"),
            "Paused: the disk is full",
        ),
        (PermissionError(errno.EACCES, "Permission denied"), "The run can't be saved"),
    ],
)
def test_why_a_checkpoint_was_not_saved(error, title, tmp_path):
    assert cant_save(error, tmp_path).title == title
    with pytest.raises(CantSave), writing(tmp_path):
        raise error
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("bug")


class FullDisk(io.StringIO):
    """A log on a disk that is full."""

    def write(self, *_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    flush = write


def test_a_log_that_can_not_be_written_is_left_out():
    log = LenientStream(FullDisk())
    print("a line", file=log)
    log.flush()
    assert not log.isatty()


@pytest.mark.skipif(os.name != "posix", reason="Windows removes no folder that somebody works in")
def test_a_folder_that_has_no_path_any_more_is_told(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    (tmp_path / "run").rmdir()
    with pytest.raises(CantSave, match="can't be reached"), writing(Path("checkpoints")):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")
