"""An engine's job under guard: it is ended before it takes more memory than there is.

A computer whose memory is full slows down or ends programs, and seldom the one at fault. So an engine that tries out
something large has the memory of its device as its ceiling, and on Linux the kernel is told to end it first.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from core.base.ceiling import RanOut, but_a_reserve
from core.base.formats import counted, size
from core.base.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.base.language import _
from core.base.system import GroupMemory, SystemMemory, group_memory, system_memory
from core.memory.model import Measurement, Parts, Room, options_request
from core.monitor.nvidia import NvidiaGpu, gpu_of
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions

SCORE = 900
"""Linux's `oom_score_adj`, up to 1000: who is ended first where memory runs out. The window stays at 0."""


class GuardedJob:
    """A job in an engine of its own; made anew for each.

    Args:
        name: The engine's job, such as `measure`.
        device: What it computes on, as `probable_device` has it.
        room: The memory of that device, as it is before; None: not known.
        command: What starts the job, where it isn't Hone's own engine.
        system: Reads the computer's memory.
    """

    def __init__(
        self,
        name: str,
        device: str,
        room: Room | None = None,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        self.name = name
        self._device = device
        self._room = room
        self._command = command
        self._system = system
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._cancelled = False

    def ask(
        self,
        request: bytes,
        timeout: float,
        tell: TellProgress | None = None,
        begun: Callable[[int], None] = lambda _pid: None,
    ) -> bytes:
        """Start it, send the request and wait for the answer.

        Args:
            request: What is asked.
            timeout: Seconds of silence after which it is given up.
            tell: Receives how far it is, where it reports that.
            begun: Receives the number of its process once it is started.

        Raises:
            RanOut: It took too much memory.
            UserError: The engine says what the person can fix, or was silent for `timeout` seconds.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        with self._lock:
            if self._cancelled:
                raise JobCancelled(self.name)
            job = self._job = EngineJob(self.name, self._command, limit=self._limit, system=self._system)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                Path(f"/proc/{job.pid}/oom_score_adj").write_text(str(SCORE))
        begun(job.pid)
        try:
            return job.ask(request, timeout, tell)
        except KeyboardInterrupt:  # nobody waits for the answer any more
            job.kill()
            raise

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""
        with self._lock:
            self._cancelled = True
            if self._job is not None:
                self._job.kill()

    def _limit(self, _memory: SystemMemory) -> int | None:
        """What the process may hold; None where its device has a memory of its own, which torch guards."""
        if self._room is None or self._device.startswith("cuda"):
            return None
        return but_a_reserve(self._room.free)


def too_large(options: RunOptions, room: Room | None, ran_out: RanOut) -> str:
    """Why a run of `options` didn't fit, in words: what was needed, and what there was."""
    rows = counted(options.memory.batch_size, "row")
    there = (
        _(", and {free} of {ceiling} were free").format(free=size(room.free), ceiling=size(room.ceiling))
        if room
        else ""
    )
    return _("A batch of {rows} didn't fit. It held {held} at its end{there}. {why}").format(
        rows=rows, held=size(ran_out.held), there=there, why=ran_out.why
    )


def probable_device(options: RunOptions) -> str:
    """The device's name; where that is left to Hone, what it comes to wherever the libraries suit the computer."""
    name = options.device.name
    if name != "auto":
        return name
    if gpu_of(name) is not None:
        return "cuda:0"
    return "mps" if sys.platform == "darwin" else "cpu"


# --- A dry run


MEASURE_SECONDS = 3600.0
"""How long a dry run may take: some steps of a large model on a slow computer."""


class DryRun(GuardedJob):
    """Some steps of a run in an engine of its own; made anew for each.

    Args:
        options: What to train. Where it names a device (`cuda:0`, not `auto`), the guard knows whose memory it watches.
        room: The memory of that device, as it is before.
        command: What starts the engine's job, where it isn't Hone's own.
        system: Reads the computer's memory.
    """

    def __init__(
        self,
        options: RunOptions,
        room: Room | None = None,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        super().__init__("measure", probable_device(options), room, command=command, system=system)
        self._options = options

    def run(self) -> Measurement:
        """Measure, waiting until it is done. That it had to be ended for its memory, by whomever, is an answer too.

        Raises:
            UserError: The engine says what the person can fix.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        request = options_request(self._options)
        try:
            answer = self.ask(msgspec.json.encode(request), MEASURE_SECONDS)
        except RanOut as ran_out:
            return Measurement(
                device=self._device,
                parts=Parts(overhead=ran_out.held),
                peak=ran_out.held,
                base=0,
                room=self._room,
                out_of_memory=too_large(self._options, self._room, ran_out),
            )
        return msgspec.structs.replace(decoded("measure", answer, Measurement), room=self._room)


# --- How much memory a device has now, and how much it has at most


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
    ceiling = device.memory_bytes
    if kind == "cuda":
        gpu = gpu or gpu_of(device.name)
        if gpu is None:
            return None
        memory = gpu.memory()
        if memory is not None:
            return Room(free=max(0, memory.ceiling - memory.used), ceiling=memory.ceiling)
    elif kind == "mps" and ceiling:
        ceiling = round(ceiling * min(1.0, mps_limit or 1.0))
    else:
        ceiling = None
    shared = shared_room(system_memory(), group_memory())
    if not ceiling:
        return shared
    return Room(free=min(shared.free, ceiling), ceiling=min(shared.ceiling, ceiling))


def shared_room(system: SystemMemory, group: GroupMemory | None) -> Room:
    """The computer's memory as a process may have it."""
    free = system.total - system.used
    if group is None or group.limit >= system.total:
        return Room(free=free, ceiling=system.total)
    return Room(free=max(0, min(free, group.limit - group.used)), ceiling=group.limit)
