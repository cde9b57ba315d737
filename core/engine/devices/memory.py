"""Memory that torch's allocator holds on the device, and the peak of the process, in bytes."""

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psutil
import torch

from core.base.system import gpu_memory_spills
from core.monitor.device_memory import mps_ceiling
from core.runs.events import MemorySampled, Source

if TYPE_CHECKING:
    from core.engine.devices.choose import ResolvedRun
    from core.engine.reporter import Reporter

REPORT_SECONDS = 1.0
PROC_STATUS = Path("/proc/self/status")


def ceiling_of(resolved: "ResolvedRun") -> int | None:
    """Returns the most bytes that a run may take on an Apple GPU; None on other devices."""
    if resolved.kind != "mps":
        return None
    return mps_ceiling(resolved.device, resolved.options.device.mps_memory_limit)


def mps_peaks() -> tuple[int, int]:
    """Returns the peaks of torch's allocator on an Apple GPU: of its heaps, and of live tensors; 0 where it keeps none.

    Since 2.13 it does (`getDeviceStats` in `MPSAllocator.h`), without what Metal allocates besides. Never run on a Mac.
    """
    try:
        return torch.accelerator.max_memory_reserved(), torch.accelerator.max_memory_allocated()
    except (AttributeError, RuntimeError):
        return 0, 0


class DeviceMemory:
    """Memory of the accelerator a run computes on; on a CPU nothing is sampled.

    `bytes` are live tensors, `reserved` what the allocator (CUDA) or Metal's driver (MPS) holds, `ceiling` the limit,
    given for MPS only. On MPS the peak is the highest sample of the driver, or torch's own if that is higher. Any
    thread may sample: only torch's counters are read, never the device itself, which a CUDA graph being captured would
    not allow.
    """

    def __init__(self, kind: str, ceiling: int | None = None) -> None:
        self.kind = kind
        self._ceiling = ceiling
        self._highest = 0
        self._lock = threading.Lock()

    def sample(self) -> MemorySampled | None:
        """Returns the current figures; None on a CPU, and before torch has initialized CUDA."""
        if self.kind == "cuda" and torch.cuda.is_initialized():  # a query before would initialize it
            device = torch.cuda.get_device_properties(torch.cuda.current_device())
            return MemorySampled(
                source=Source.TORCH,
                bytes=torch.cuda.memory_allocated(),
                reserved=torch.cuda.memory_reserved(),
                ceiling=device.total_memory,
                unified=bool(device.is_integrated),
            )
        if self.kind == "mps":
            held = torch.mps.driver_allocated_memory()
            with self._lock:
                self._highest = max(self._highest, held)
            return MemorySampled(
                source=Source.TORCH,
                bytes=torch.mps.current_allocated_memory(),
                reserved=held,
                ceiling=self._ceiling,
                unified=True,
            )
        return None

    def peak(self) -> int | None:
        """Returns the peak of `reserved`; None on a CPU."""
        if self.kind == "cuda":
            return int(torch.cuda.max_memory_reserved())
        return max(self._highest, mps_peaks()[0]) if self.kind == "mps" else None


# --- The limit where a full GPU would not refuse memory but take the computer's, or page


LEAST_MARGIN, MARGIN = 512 << 20, 0.04
"""Bytes, and share of the card, that stay free: kernels are still to be loaded, and the desktop needs some more."""
LEAST_SHARE = 0.1
"""Share of the card that a run may always hold; a driver that reports less as free may be wrong."""


def share_within(free: int, total: int) -> float:
    """Returns the share of a card's memory that torch may hold; `free` is what no other program and no context has."""
    return min(1.0, max(LEAST_SHARE, (free - max(LEAST_MARGIN, MARGIN * total)) / total))


def limit_memory(resolved: "ResolvedRun") -> None:
    """Lets a run fail where its GPU's memory is full, if the driver would go on in the computer's, or macOS page.

    There, steps take 10 to 100 times as long (kohya_ss issue 961). Never tried on Windows or on a Mac.
    """
    if ceiling := ceiling_of(resolved):
        torch.mps.set_per_process_memory_fraction(min(2.0, ceiling / torch.mps.recommended_max_memory()))
    if resolved.kind == "cuda" and gpu_memory_spills():
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        if not device.is_integrated:
            free, _total = torch.cuda.mem_get_info()
            torch.cuda.set_per_process_memory_fraction(share_within(free, device.total_memory))


def memory_limit() -> int | None:
    """Returns the bytes of the card that torch may hold; None without `limit_memory`."""
    if not torch.cuda.is_initialized():
        return None
    share = torch.cuda.get_per_process_memory_fraction()
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return round(share * total) if share < 1 else None


class Memory(Protocol):
    """Memory of the accelerator that a run computes on; `kind` is as in `DeviceMemory`."""

    kind: str

    def sample(self) -> MemorySampled | None:
        """Returns the current figures; any thread may ask."""


class MemoryReports:
    """Reports the device's memory every second from a thread, also during a long step.

    Enter it before the model is loaded, and stop it before the run's last event. On a CPU it does nothing.
    """

    def __init__(self, memory: Memory, reporter: "Reporter", interval: float = REPORT_SECONDS) -> None:
        self.memory = memory
        self._reporter = reporter
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="memory-reports", daemon=True)

    def __enter__(self) -> "MemoryReports":
        if self.memory.kind != "cpu":
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops, and waits until the last report is written."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _report(self) -> None:
        while True:
            try:
                sample = self.memory.sample()
            except RuntimeError as error:  # raised by torch; the run goes on without these figures
                print(f"The memory of the device can't be read: {error}", file=sys.stderr)
                return
            if sample is not None:
                with contextlib.suppress(OSError):  # the disk is full: the run itself reports that
                    self._reporter.write(sample)
            if self._stop.wait(self._interval):
                return


def process_peak(status: Path = PROC_STATUS) -> int:
    """Returns the peak resident set of this process.

    On Linux `ru_maxrss` starts with the peak of the parent process (kept across exec, see the kernel's `exec_mmap`);
    `VmHWM` doesn't.
    """
    if sys.platform == "linux":
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes
