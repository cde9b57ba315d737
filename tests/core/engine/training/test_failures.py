"""Running out of memory or disk is told apart from a bug, in the words of every library and system."""

import errno
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from core.base.errors import OutOfMemory, UserError
from core.engine.__main__ import LenientStream
from core.engine.training.failures import explain, require_processes
from tests.fakes.training import options_of

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


def test_a_log_that_can_not_be_written_is_left_out():
    class FullDisk(io.StringIO):
        def write(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        flush = write

    log = LenientStream(FullDisk())
    print("a line", file=log)
    log.flush()
    assert not log.isatty()


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
