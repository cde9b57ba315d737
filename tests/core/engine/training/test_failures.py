"""Running out of memory or disk is told apart from a bug, in the words of every library and system."""

import errno
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from core.base.errors import FixAction, OutOfMemory, UserError
from core.base.processes import CANT_WRITE
from core.engine.__main__ import LenientStream
from core.engine.reporter import Reporter
from core.engine.run.attempt import report_failure
from core.engine.run.failures import CantSave, disk_space_needed, writing
from core.engine.training.failures import explain, require_processes, saved_bytes
from core.options.sections import OutputOptions
from core.runs.events import CheckpointSaved, Event, MessageRaised, Outcome, StepFinished
from core.runs.folder import RunFolder
from core.runs.models import trained_model
from tests.fakes.models import save_tiny_bert
from tests.fakes.trained_runs import attempt, in_attempts, story_of
from tests.fakes.training import options_of, run_options, write_reviews

MEMORY, DISK = "Not enough memory", "The disk is full"
STOPPED = "macOS stopped the GPU's work"
NO_WORKERS, RESUMED = {"data.workers": 0}, {}
CUDA = """
Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
"""What torch 2.13 adds to CUDA's own words."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), MEMORY),
        (RuntimeError("MPS backend out of memory (MPS allocated: 17.87 GB)."), MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."), MEMORY),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes."), MEMORY),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), MEMORY),
        (OSError("The paging file is too small for this operation to complete. (os error 1455)"), MEMORY),
        (MemoryError(), MEMORY),
        (OSError(errno.ENOSPC, "Auf dem Gerät ist kein Speicherplatz mehr verfügbar"), DISK),
        (OSError(errno.EDQUOT, "Der zugewiesene Plattenplatz ist überschritten"), DISK),
        (SafetensorError("Error while serializing: I/O error: Os { code: 28, kind: StorageFull }"), DISK),
        (RuntimeError("failed writing file: No space left on device"), DISK),
        (
            RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but"),
            {"training.deterministic": False},
        ),
        (RuntimeError("Unable to JIT load the async_io op due to it not being"), {"memory.offload": "cpu"}),
        (RuntimeError("DataLoader worker (pid 4711) is killed by signal: Killed. "), NO_WORKERS),
        (RuntimeError("DataLoader worker (pid(s) 4711, 4712) exited unexpectedly"), NO_WORKERS),
        (torch.AcceleratorError(f"CUDA error: device-side assert triggered{CUDA}"), {"device.name": "cpu"}),
        (torch.AcceleratorError(f"CUDA error: an illegal memory access was encountered{CUDA}"), {}),
        (torch.AcceleratorError(f"CUDA error: the launch timed out and was terminated{CUDA}"), RESUMED),
        (RuntimeError(f"CUDA error: unknown error{CUDA}"), RESUMED),
        (RuntimeError("CUDA error: driver shutting down"), RESUMED),
        (RuntimeError("CUDA driver error: device not ready"), RESUMED),
        (
            RuntimeError(
                "Cannot find a working triton installation. Either the package is not installed or it is too old. More "
                "information on installing Triton can be found at: https://github.com/triton-lang/triton"
            ),
            {"device.compile": False},
        ),
        (RuntimeError("(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)"), STOPPED),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x16 and 32x2)"), None),
        (RuntimeError("Caught KeyError in DataLoader worker process 0."), None),
        (ValueError("out of memory of a different kind"), None),
        (io.UnsupportedOperation("not writable"), None),
    ],
    ids=repr,
)
def test_errors_of_libraries_are_explained_or_are_bugs(error, expected):
    found = explain(error, options_of())
    if expected is None:
        assert found is None
        return
    assert found is not None
    if isinstance(expected, dict):
        assert CUDA not in found.detail
        assert "{" not in found.detail
        assert [fix.changes for fix in found.fixes] == [expected]
    else:
        assert isinstance(found, OutOfMemory) is (expected is MEMORY)
        assert expected is MEMORY or found.title == expected


def test_memory_that_ran_out_below_a_limit_names_it(monkeypatch):
    monkeypatch.setattr("core.engine.training.failures.memory_limit", lambda: 7 << 30)
    found = explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), options_of())
    assert found is not None
    assert "limited to the 7.00 GB" in found.detail


@pytest.mark.parametrize(
    ("name", "capability", "built", "build"),
    [
        ("NVIDIA GeForce RTX 5090", (12, 0), ["sm_50", "sm_75", "sm_86", "sm_90"], "cu130"),
        ("NVIDIA GeForce GTX 1080", (6, 1), ["sm_75", "sm_80", "sm_90", "sm_120"], "cu126"),
    ],
)
def test_a_card_that_pytorch_was_not_built_for_is_told_which_build_is(
    name, capability, built, build, monkeypatch
):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: name)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: capability)
    monkeypatch.setattr("torch.cuda.get_arch_list", lambda: built)
    text = f"CUDA error: no kernel image is available for execution on the device{CUDA}"
    found = explain(torch.AcceleratorError(text), options_of())
    assert name in found.detail
    assert f"{capability[0]}.{capability[1]}" in found.detail
    assert ", ".join(built) in found.detail
    assert build in found.fixes[0].label


@pytest.mark.parametrize("allocate", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60)])
def test_what_numpy_and_torch_really_raise_is_out_of_memory(allocate):
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        allocate()
    assert isinstance(explain(raised.value, options_of()), OutOfMemory)


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


def test_a_log_that_can_not_be_written_is_left_out():
    class FullDisk(io.StringIO):
        def write(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        flush = write

    log = LenientStream(FullDisk())
    print("a line", file=log)
    log.flush()
    assert not log.isatty()


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


def test_a_process_of_several_that_pauses_itself_is_no_success_for_their_agent(tmp_path, monkeypatch):
    told = tmp_path / "error.json"
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(told))
    full = CantSave("Paused: the disk is full")
    status = report_failure(full, RunFolder(tmp_path), Reporter(None, writes=False), lambda _error: None)
    assert status == 1, "with 0 the others would be found to fail, by a lost connection"
    assert json.loads(told.read_text())["hone"]["outcome"] == Outcome.PAUSED


@pytest.mark.parametrize(
    ("saved", "now", "title", "changes"),
    [
        (1, (2, 1), "saved by 1 process, and this is 2", [{"device.processes": 1}]),
        (2, (1, 1), "saved by 2 processes, and this is 1", [{"device.processes": 2}]),
        (4, (2, 2), "saved by 4 processes, and this is 2", [{"device.processes": 2}]),
        (3, (2, 2), "saved by 3 processes, and this is 2", []),  # it was begun on other computers
        (2, (2, 1), "", []),
        (2, (2, 2), "", []),
    ],
)
def test_another_number_of_processes_is_refused_with_the_number_for_each_computer(
    saved, now, title, changes, tmp_path
):
    for rank in range(saved if saved > 1 else 0):
        (tmp_path / f"rng_state_{rank}.pth").touch()
    kept = SimpleNamespace(path=tmp_path)
    if not title:
        require_processes(kept, *now)
        return
    with pytest.raises(UserError, match=title) as refused:
        require_processes(kept, *now)
    assert [fix.changes for fix in refused.value.fixes] == changes
