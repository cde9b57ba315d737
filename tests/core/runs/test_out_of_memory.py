"""Out of memory ends in one message: what was asked, what there was, the largest part, and what to do."""

import pytest

from core.base.errors import Fix
from core.memory.model import Basis, Parts, Room
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions
from core.runs.events import MemoryForecast
from core.runs.words import first_aid, out_of_memory

MB, GB = 1 << 20, 1 << 30
ASKED = RunOptions(task=Task.TEXT_CLASSIFICATION, memory=MemoryOptions(batch_size=16))
REMEDY = Fix("Batches of 8 (saves 2 GB)", {"memory.batch_size": 8})
FORECAST = MemoryForecast(
    device="mps",
    basis=Basis.FORMULA,
    parts=Parts(weights=GB, activations=5 * GB, optimizer=2 * GB),
    room=Room(free=6 * GB, ceiling=16 * GB),
    length=128,
    fixes=(REMEDY,),
)
MPS = (
    "MPS backend out of memory (MPS allocated: 17.87 GB, other allocations: 28.00 MB, max allowed: 18.13 GB). Tried to "
    "allocate 256.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory "
    "allocations (may cause system failure)."
)


def test_all_there_is_to_say():
    found = out_of_memory(ASKED, FORECAST, MPS)
    assert found.title == "Memory ran out"
    assert found.detail == (
        "A batch of 16 rows of up to 128 tokens didn't fit. The run takes 8.0 GB by forecast. 6.0 GB of 16 GB were "
        "free. The largest part: activations, 5.0 GB. Allocating 256 MB more failed."
    )
    assert found.fixes == (REMEDY,)
    assert "WATERMARK" not in str(out_of_memory(ASKED, None, MPS)), "PyTorch's advice to lift the ceiling"


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8 GiB",
            "2.5 GB more",
        ),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.", "4.0 KB more"),
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 2147483648 bytes.", "2.0 GB more"),
    ],
)
def test_the_size_that_failed(report, said):
    assert said in out_of_memory(ASKED, None, report).detail


def test_before_the_model_is_known_the_simple_remedies_stand_in():
    found = out_of_memory(ASKED, None)
    assert found.detail == "A batch of 16 rows didn't fit."
    assert found.fixes[0].changes == {"memory.batch_size": 8, "memory.gradient_accumulation_steps": 2}


def test_texts_are_not_cut_to_nothing_and_a_last_layer_alone_recomputes_nothing():
    asked = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(method=Method.HEAD),
        data=DataOptions(max_length=40),
        memory=MemoryOptions(batch_size=1),
    )
    assert [fix.changes for fix in first_aid(asked)] == [{"data.max_length": 32}]
