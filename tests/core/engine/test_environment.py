"""How an engine process is set up, its environment and libraries; and that it ends with its parent process."""

import json
import os
import subprocess
import sys
import threading

import psutil
import pytest

from core.base.processes import ASKER, child_environment
from core.engine.__main__ import exit_with_parent
from core.engine.environment import mps_watermarks, prepare_environment
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.sections import DeviceOptions

RELAXED = "AGX_RELAX_CDM_CTXSTORE_TIMEOUT"


def environment(monkeypatch, task=Task.TEXT_CLASSIFICATION, before=(), **device) -> dict[str, str | None]:
    """The variables that a run sets, on top of those of `before`; all others are unset."""
    names = (
        RELAXED,
        "CUDA_VISIBLE_DEVICES",
        "LRU_CACHE_CAPACITY",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
        "PYTORCH_ENABLE_MPS_FALLBACK",
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO",
        "PYTORCH_MPS_LOW_WATERMARK_RATIO",
        "TORCHDYNAMO_DISABLE",
        "USE_HUB_KERNELS",
    )
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in dict(before).items():
        monkeypatch.setenv(name, value)
    prepare_environment(RunOptions(task=task, device=DeviceOptions(**device)))
    return {name: os.environ.get(name) for name in names}


@pytest.mark.parametrize(
    ("name", "visible", "expected"),
    [
        ("auto", None, "0"),
        ("cuda", None, "0"),
        ("cuda:1", None, "1"),
        ("cuda:1", "4,6", "6"),
        ("cuda:2", "4,6", ""),
        ("cpu", "0,1", ""),
        ("mps", None, ""),
    ],
)
def test_one_cuda_device_stays_visible(monkeypatch, name, visible, expected):
    before = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert environment(monkeypatch, before=before, name=name)["CUDA_VISIBLE_DEVICES"] == expected


@pytest.mark.parametrize(
    ("limit", "low"), [(1.7, 0.8235), (1.0, 0.8235), (0.85, 0.7), (0.1, 0.0824), (0.0, 0.8235)], ids=str
)
def test_the_lower_watermark_follows_the_ceiling_down(monkeypatch, limit, low):
    """`MPSAllocator.mm` takes 0 to 2 for the ceiling, and 0 to the ceiling (2 without one) for the lower mark."""
    variables = environment(monkeypatch, mps_memory_limit=limit)
    assert float(variables["PYTORCH_MPS_HIGH_WATERMARK_RATIO"]) == limit
    assert float(variables["PYTORCH_MPS_LOW_WATERMARK_RATIO"]) == pytest.approx(low, abs=1e-4)
    marks = [mps_watermarks(hundredths / 100) for hundredths in range(201)]
    assert all(0.0 < lower <= (high or 2.0) <= 2.0 for high, lower in marks)


def test_the_other_variables(monkeypatch):
    few = {"LRU_CACHE_CAPACITY": "7", "USE_HUB_KERNELS": "1"}
    chat = environment(monkeypatch, Task.CHAT, before=few, mps_fallback=True)
    assert (chat["USE_HUB_KERNELS"], chat["PYTORCH_ENABLE_MPS_FALLBACK"]) == ("0", "1")
    assert (chat["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], chat["LRU_CACHE_CAPACITY"]) == ("64", "7")
    images = environment(monkeypatch, Task.IMAGE_CLASSIFICATION, mps_fallback=False)
    assert images["PYTORCH_ENABLE_MPS_FALLBACK"] == "0"
    assert (images["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], images["LRU_CACHE_CAPACITY"]) == (None, None)


@pytest.mark.parametrize(
    ("macos", "before", "expected"),
    [
        ("26.1", {}, "1"),
        ("16.0", {}, "1"),  # what an older build of Python calls macOS 26
        ("27.0", {}, "1"),
        ("26.1", {RELAXED: "0"}, "0"),  # a person's own choice
        ("15.7", {}, None),
        ("14.0", {}, None),
        ("", {}, None),
    ],
)
def test_from_macos_26_on_the_display_may_wait_for_the_gpu(monkeypatch, macos, before, expected):
    monkeypatch.setattr("platform.mac_ver", lambda: (macos, ("", "", ""), "arm64"))
    assert environment(monkeypatch, before=before)[RELAXED] == expected


@pytest.mark.parametrize("frozen", [True, False])
def test_nothing_is_compiled_in_the_app(monkeypatch, frozen):
    monkeypatch.setattr("core.engine.environment.is_frozen", lambda: frozen)
    assert environment(monkeypatch)["TORCHDYNAMO_DISABLE"] == ("1" if frozen else None)


SCRIPT = """
import json, sys
from core.options.choices import Method, Task
from core.engine.environment import hide_libraries
from core.options import ModelOptions, RunOptions
hide_libraries(RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(method=Method(sys.argv[1]))))
from core.engine.environment import prepare_torchvision
prepare_torchvision()
from transformers import Trainer
from transformers.utils import is_kernels_available, is_peft_available
from accelerate.utils import is_peft_available as accelerate_sees_peft
from accelerate.utils import is_deepspeed_available
assert not is_deepspeed_available()
asked = [bool(found()) for found in (is_kernels_available, is_peft_available, accelerate_sees_peft)]
print(json.dumps([*asked, sys.modules.get("peft") is not None, "bitsandbytes" in sys.modules]))
"""


@pytest.mark.long
@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_peft_is_there_for_lora_alone_and_kernels_never(method):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, method], capture_output=True, text=True, check=True, timeout=120
    )
    is_lora = method is Method.LORA
    assert json.loads(done.stdout) == [False, is_lora, is_lora, is_lora, is_lora]
    assert "kernels" not in done.stderr


JOB = """
import subprocess, sys, time
from core.engine import __main__ as asker
asker.POLL_SECONDS = 0.05
asker.exit_with_parent()
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(worker.pid, flush=True)
time.sleep(60)
"""
ASKS = f"""
import sys, time
from core.base.jobs import EngineJob
job = EngineJob("measure", [sys.executable, "-P", "-c", {JOB!r}])
print(job.pid, job._process.stdout.readline().decode(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a job's children have no group there")
def test_a_job_and_its_children_end_with_a_window_that_was_killed():
    asks = subprocess.Popen(
        [sys.executable, "-P", "-c", ASKS], stdout=subprocess.PIPE, env=child_environment(), text=True
    )
    assert asks.stdout is not None
    job, worker = (psutil.Process(int(pid)) for pid in asks.stdout.readline().split())
    asks.kill()
    asks.communicate()
    _, alive = psutil.wait_procs([job, worker], timeout=20)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_a_job_started_by_hand_is_left_alone(monkeypatch):
    monkeypatch.delenv(ASKER, raising=False)
    exit_with_parent()
    assert "parent-watch" not in {thread.name for thread in threading.enumerate()}
