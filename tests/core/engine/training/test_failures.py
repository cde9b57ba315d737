"""Running out of memory or disk is told from a bug, in the words of every library and system."""

import errno
import io
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from core.base.errors import OutOfMemory
from core.engine.training.failures import explain
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions


def options(batch_size: int = 8, steps: int = 1, **data: Any) -> RunOptions:
    memory = MemoryOptions(batch_size=batch_size, gradient_accumulation_steps=steps)
    return RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(**data), memory=memory)


def changes(asked: RunOptions) -> list[dict[str, Any]]:
    found = explain(MemoryError(), asked)
    assert isinstance(found, OutOfMemory)
    return [fix.changes for fix in found.fixes]


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
def test_out_of_memory(error: Exception) -> None:
    assert isinstance(explain(error, options()), OutOfMemory)


def test_what_the_libraries_really_raise() -> None:
    with pytest.raises(MemoryError) as numpy_error:
        np.empty(2**60, np.uint8)
    with pytest.raises(RuntimeError) as torch_error:
        torch.empty(2**60, dtype=torch.uint8)
    for error in (numpy_error.value, torch_error.value):
        assert isinstance(explain(error, options()), OutOfMemory)


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
def test_a_full_disk(error: Exception) -> None:
    found = explain(error, options())
    assert found is not None
    assert found.title == "The disk is full"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x16 and 32x2)"),
        KeyError("labels"),
        ValueError("out of memory of a different kind"),
        io.UnsupportedOperation("not writable"),
    ],
)
def test_everything_else_is_a_bug(error: Exception) -> None:
    assert explain(error, options()) is None


def test_an_operator_without_a_deterministic_kernel() -> None:
    torch_says = (
        "cumsum_cuda_kernel does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation."
    )
    found = explain(RuntimeError(torch_says), options())
    assert found is not None
    assert "cumsum_cuda_kernel" in found.detail
    assert [fix.changes for fix in found.fixes] == [{"training.deterministic": False}]


def test_deepspeed_without_disk_access() -> None:
    says = "Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue. None"
    found = explain(RuntimeError(says), options())
    assert found is not None
    assert [fix.changes for fix in found.fixes] == [{"memory.offload": "cpu"}]


@pytest.mark.parametrize(
    ("batch_size", "steps", "expected", "label"),
    [
        (8, 1, (4, 2), "Batches of 4, accumulated to the same effect"),
        (8, 3, (4, 6), "Batches of 4, accumulated to the same effect"),
        (3, 1, (1, 3), "Batches of 1, accumulated to the same effect"),
        (5, 2, (2, 5), "Batches of 2, accumulated to the same effect"),
        (5, 1, (2, 2), "Batches of 2, accumulated to 4 rows instead of 5"),
        (7, 1, (3, 2), "Batches of 3, accumulated to 6 rows instead of 7"),
    ],
)
def test_smaller_batches(batch_size: int, steps: int, expected: tuple[int, int], label: str) -> None:
    found = explain(MemoryError(), options(batch_size, steps))
    assert found is not None
    fix = found.fixes[0]
    assert tuple(fix.changes.values()) == expected
    assert fix.label == label


def test_a_batch_of_one_takes_leaner_methods_and_shorter_texts() -> None:
    lora = {"model.method": "lora", "training.learning_rate": 2e-4}
    assert changes(options(batch_size=1, max_length=128)) == [
        {"memory.activation_checkpointing": True},
        lora,
        {"data.max_length": 64},
    ]


def test_what_is_done_already_is_not_advised_again() -> None:
    asked = msgspec.structs.replace(
        options(batch_size=1, max_length=32),
        memory=MemoryOptions(batch_size=1, activation_checkpointing=True),
        model=ModelOptions(method=Method.LORA),
    )
    assert changes(asked) == []


def test_images_get_smaller_but_not_too_small() -> None:
    for size, smaller in ((224, 112), (100, 64)):
        asked = RunOptions(task=Task.IMAGE_CLASSIFICATION, data=DataOptions(image_size=size))
        assert changes(asked)[-1] == {"data.image_size": smaller}


@pytest.mark.parametrize(
    "words",
    [
        "DataLoader worker (pid 4711) is killed by signal: Killed. ",
        "DataLoader worker (pid(s) 4711, 4712) exited unexpectedly",
    ],
)
def test_a_worker_that_is_gone_is_told_with_a_way_out(words: str) -> None:
    found = explain(RuntimeError(words), options())
    assert found is not None
    assert found.title == "A worker was ended by the system"
    assert [fix.changes for fix in found.fixes] == [{"data.workers": 0}]
    assert (
        explain(RuntimeError("Caught KeyError in DataLoader worker process 0."), options(workers=2)) is None
    )
