"""What torch's allocator holds on the device, and the peaks a run is summed up with. All figures are bytes."""

import sys

import psutil
import torch

from core.events import MemorySampled, Source


class DeviceMemory:
    """Memory of the accelerator a run computes on; on a CPU there is none and nothing is sampled.

    `bytes` are live tensors, `reserved` what the allocator (CUDA) or Metal's driver (MPS) holds for them, `ceiling`
    what the run may have. MPS keeps no peak of its own, so the highest sample counts.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._highest = 0

    def sample(self) -> MemorySampled | None:
        """The figures of this moment; None on a CPU."""
        if self._kind == "cuda":
            used, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
            ceiling = torch.cuda.mem_get_info()[1]
        elif self._kind == "mps":
            used, reserved = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
            ceiling = torch.mps.recommended_max_memory()
        else:
            return None
        self._highest = max(self._highest, reserved)
        return MemorySampled(source=Source.TORCH, bytes=used, reserved=reserved, ceiling=ceiling)

    def peak(self) -> int | None:
        """The most that was held for tensors; None on a CPU."""
        if self._kind == "cuda":
            return int(torch.cuda.max_memory_reserved())
        return self._highest if self._kind == "mps" else None


def process_peak() -> int:
    """The most this process has held of the computer's memory (resident set)."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes
