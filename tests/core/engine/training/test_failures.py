"""Running out of memory or disk is told from a bug, in the words of every library and system."""

import errno
import io

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from core.base.errors import OutOfMemory
from core.engine.training.failures import explain
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions

OPTIONS = RunOptions(task=Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.87 GB, max allowed: 18.13 GB)."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError("The paging file is too small for this operation to complete. (os error 1455)"),
        MemoryError(),
    ],
)
def test_out_of_memory(error):
    assert isinstance(explain(error, OPTIONS), OutOfMemory)


@pytest.mark.parametrize("allocate", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60)])
def test_what_the_libraries_really_raise(allocate):
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        allocate()
    assert isinstance(explain(raised.value, OPTIONS), OutOfMemory)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "model.safetensors"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError(
            'Error while serializing: I/O error: Os { code: 28, kind: StorageFull, message: "..." }'
        ),
        RuntimeError("failed writing file: No space left on device"),
    ],
)
def test_a_full_disk(error):
    found = explain(error, OPTIONS)
    assert found is not None
    assert found.title == "The disk is full"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x16 and 32x2)"),
        RuntimeError("Caught KeyError in DataLoader worker process 0."),
        KeyError("labels"),
        ValueError("out of memory of a different kind"),
        io.UnsupportedOperation("not writable"),
    ],
)
def test_everything_else_is_a_bug(error):
    assert explain(error, OPTIONS) is None


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (
            "cumsum_cuda_kernel does not have a deterministic implementation, but you set "
            "'torch.use_deterministic_algorithms(True)'.",
            {"training.deterministic": False},
        ),
        (
            "Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue.",
            {"memory.offload": "cpu"},
        ),
        ("DataLoader worker (pid 4711) is killed by signal: Killed. ", {"data.workers": 0}),
        ("DataLoader worker (pid(s) 4711, 4712) exited unexpectedly", {"data.workers": 0}),
    ],
)
def test_what_a_person_can_act_on_has_its_remedy(words, changes):
    found = explain(RuntimeError(words), OPTIONS)
    assert found is not None
    assert [fix.changes for fix in found.fixes] == [changes]


@pytest.mark.parametrize(
    ("batch_size", "steps", "expected"),
    [(8, 1, (4, 2)), (8, 3, (4, 6)), (3, 1, (1, 3)), (5, 2, (2, 5)), (5, 1, (2, 2)), (7, 1, (3, 2))],
)
def test_smaller_batches(batch_size, steps, expected):
    memory = MemoryOptions(batch_size=batch_size, gradient_accumulation_steps=steps)
    found = explain(MemoryError(), RunOptions(task=Task.TEXT_CLASSIFICATION, memory=memory))
    assert found is not None
    assert tuple(found.fixes[0].changes.values()) == expected


def test_a_batch_of_one_takes_leaner_methods_and_shorter_texts():
    asked = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        data=DataOptions(max_length=128),
        memory=MemoryOptions(batch_size=1),
    )
    found = explain(MemoryError(), asked)
    assert found is not None
    assert [set(fix.changes) for fix in found.fixes] == [
        {"memory.activation_checkpointing"},
        {"model.method", "training.learning_rate"},
        {"data.max_length"},
    ]
