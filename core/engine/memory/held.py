"""How much memory a dry run holds and held at most, watched while it computes. All figures are bytes.

On a CPU that is what the process and its workers have in memory (resident set). On a GPU it is the device's memory:
CUDA's context and what torch's allocator reserved, on MPS what Metal's driver holds.
"""

import os
import threading
from types import TracebackType

import psutil
import torch

from core.engine.device_memory import process_peak
from core.machine.memory import tree_bytes
from core.machine.nvidia import find_gpu

INTERVAL_SECONDS = 0.02
WITH_WORKERS_SECONDS = 0.2
"""Looking for workers goes through all processes of the computer, which would slow the steps that are timed."""


class HeldMemory:
    """Watches from a thread of its own, between `with` and its end.

    `base` is what was held when it began.

    Args:
        kind: What is computed on: `cuda`, `mps` or `cpu`.
        with_workers: Whether other processes prepare batches.
        gpu_used_before: `gpu_used`, before torch has touched the GPU.
    """

    def __init__(self, kind: str, *, with_workers: bool = False, gpu_used_before: int | None = None) -> None:
        self._kind = kind
        self._with_workers = with_workers and kind == "cpu"
        self._gpu_used_before = gpu_used_before
        self._process = psutil.Process()
        self._highest = self._most_live = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="held-memory", daemon=True)
        self._context = cuda_context(gpu_used_before) if kind == "cuda" else 0
        self.base = self._now()[0]

    def __enter__(self) -> "HeldMemory":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def most(self) -> tuple[int, int]:
        """What was held at most so far, and what tensors took of it; on a CPU that is all that came after `base`."""
        self._sample()
        if self._kind == "cuda":  # the context grows with each kernel that is loaded
            self._context = max(self._context, cuda_context(self._gpu_used_before))
            reserved = int(torch.cuda.max_memory_reserved())
            return self._context + reserved, reserved
        if self._kind == "mps":
            return self._highest, self._most_live
        peak = max(self._highest, process_peak())
        return peak, peak - min(peak, self.base)

    def _watch(self) -> None:
        if (
            self._kind == "cuda"
        ):  # torch keeps the peak itself, and each look would take a little from what is timed
            return
        while not self._ended.wait(WITH_WORKERS_SECONDS if self._with_workers else INTERVAL_SECONDS):
            self._sample()

    def _sample(self) -> None:
        held, live = self._now()
        self._highest, self._most_live = max(self._highest, held), max(self._most_live, live)

    def _now(self) -> tuple[int, int]:
        if self._kind == "cuda":
            return self._context + torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        if self._kind == "mps":
            return torch.mps.driver_allocated_memory(), torch.mps.current_allocated_memory()
        if self._with_workers:
            return tree_bytes(os.getpid()) or 0, 0
        return int(self._process.memory_info().rss), 0


def gpu_used() -> int | None:
    """What all programs hold of the GPU that this process sees; None where NVIDIA's driver can't tell."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    gpu = find_gpu(visible) if visible else None  # empty: this run is not to touch any
    memory = gpu.memory() if gpu else None
    return memory.used if memory else None


def cuda_context(used_before: int | None) -> int:
    """What CUDA's context takes: by how much the GPU is fuller, now that this process uses it; 0 where unknown.

    The driver tells it of no single process on Windows and in containers.

    Args:
        used_before: `gpu_used`, before torch has touched the GPU.
    """
    torch.ones(1, device="cuda").sum().item()  # makes the context, and has a kernel loaded
    used = gpu_used()
    if used is None or used_before is None:
        return 0
    return max(0, used - used_before - int(torch.cuda.memory_reserved()))
