"""How much memory a device has now, and how much it has at most, before a run starts. All figures are bytes."""

from core.machine.memory import SystemMemory, system_memory
from core.machine.nvidia import NvidiaGpu
from core.machine.sampler import gpu_of
from core.memory.cgroup import GroupMemory, group_memory
from core.memory.forecast import Room
from core.options import DeviceOptions
from core.reports import DeviceReport

MPS_LIMIT = DeviceOptions().mps_memory_limit


def room_of(
    device: DeviceReport, *, gpu: NvidiaGpu | None = None, mps_limit: float = MPS_LIMIT
) -> Room | None:
    """The memory of `device`: what is free of it, and what there is at most.

    A CPU has the computer's, or a control group's where that is less. A Mac's GPU shares the computer's, up to what
    macOS recommends: options may let torch take more, but the Mac pages then (read, not seen: no Mac was at hand). An
    NVIDIA GPU has its own; where it has none (GB10), the computer's.

    Args:
        device: As the engine reported it.
        gpu: The NVIDIA GPU it is, as the driver shows it; None: look for it.
        mps_limit: `device.mps_memory_limit`, which counts where it leaves less than is recommended; 0: it leaves all.

    Returns:
        None where it isn't known: an NVIDIA GPU without its driver's library.
    """
    kind = device.name.partition(":")[0]
    if kind == "cuda":
        return _of_gpu(device, gpu if gpu is not None else gpu_of(device.name))
    shared = shared_room(system_memory(), group_memory())
    if kind == "mps" and device.memory_bytes:
        return _at_most(shared, round(device.memory_bytes * min(1.0, mps_limit or 1.0)))
    return shared


def shared_room(system: SystemMemory, group: GroupMemory | None) -> Room:
    """The computer's memory as a process may have it."""
    room = Room(free=system.total - system.used, ceiling=system.total)
    if group is None or group.limit >= system.total:
        return room
    return Room(free=max(0, min(room.free, group.limit - group.used)), ceiling=group.limit)


def _of_gpu(device: DeviceReport, gpu: NvidiaGpu | None) -> Room | None:
    if gpu is None:
        return None
    memory = gpu.memory()
    if memory is None:
        shared = shared_room(system_memory(), group_memory())
        return _at_most(shared, device.memory_bytes or shared.ceiling)
    return Room(free=max(0, memory.ceiling - memory.used), ceiling=memory.ceiling)


def _at_most(room: Room, ceiling: int) -> Room:
    return Room(free=min(room.free, ceiling), ceiling=min(room.ceiling, ceiling))
