"""The memory of a device, and how much of it is free."""

from core.base.system import GroupMemory, SystemMemory, group_memory, system_memory
from core.memory.model import Room
from core.monitor.nvidia import NvidiaGpu, gpu_of
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions

MPS_LIMIT = DeviceOptions().mps_memory_limit


LEFT_TO_MACOS, LEAST_LEFT = 1 / 8, 2 << 30
"""Share of the memory, and bytes, that no run on an Apple GPU takes. A rule of thumb, never tried on a Mac."""


def mps_ceiling(device: DeviceReport, limit: float = MPS_LIMIT) -> int | None:
    """Returns the most bytes that a run may take on an Apple GPU; None if macOS recommends nothing.

    Metal recommends two thirds to three quarters of the Mac's memory, with which the GPU doesn't become slower
    (`recommendedMaxWorkingSetSize`). `limit` is `device.mps_memory_limit`, a factor of that; 0 is none.
    """
    if not device.memory_bytes:
        return None
    total = system_memory().total
    most = total - round(max(LEAST_LEFT, LEFT_TO_MACOS * total))
    return min(most, round(limit * device.memory_bytes)) if limit else most


def room_of(
    device: DeviceReport, *, gpu: NvidiaGpu | None = None, mps_limit: float = MPS_LIMIT
) -> Room | None:
    """Returns the free memory of a device, and its total.

    A CPU has that of the computer or of its control group. A Mac's GPU shares it, up to `mps_ceiling`. An NVIDIA GPU
    has its own, or (GB10) that of the computer. Of another computer's device only the total is known.

    Args:
        gpu: The NVIDIA GPU as seen by the driver; None: find it.
        mps_limit: `device.mps_memory_limit`.

    Returns:
        None if unknown: an NVIDIA GPU without its driver's library.
    """
    if "@" in device.name:
        total = device.memory_bytes
        return Room(free=total, ceiling=total) if total else None
    kind = device.kind
    ceiling = mps_ceiling(device, mps_limit) if kind == "mps" else None
    if kind == "cuda":
        gpu = gpu or gpu_of(device.name)
        if gpu is None:
            return None
        if (held := gpu.memory()) is not None:
            return Room(free=max(0, held.ceiling - held.used), ceiling=held.ceiling)
        ceiling = device.memory_bytes
    shared = shared_room(system_memory(), group_memory())
    if not ceiling:
        return shared
    return Room(free=min(shared.free, ceiling), ceiling=min(shared.ceiling, ceiling))


def shared_room(system: SystemMemory, group: GroupMemory | None) -> Room:
    """Returns the computer's memory, limited by the control group of this process."""
    free = system.total - system.used
    if group is None or group.limit >= system.total:
        return Room(free=free, ceiling=system.total)
    return Room(free=max(0, min(free, group.limit - group.used)), ceiling=group.limit)
