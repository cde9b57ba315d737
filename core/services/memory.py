"""Engine jobs with a memory limit, dry runs, and the memory of a device.

A computer whose memory is full slows down or ends programs, often the wrong ones. So a job that tries something large
may take no more than the free memory, and on Linux the kernel is told to end it first.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from core.base.ceiling import RanOut, but_a_reserve
from core.base.errors import ComputerError
from core.base.formats import counted, memory
from core.base.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.base.language import _
from core.base.system import GroupMemory, SystemMemory, group_memory, system_memory
from core.hosts.computers import find, python_command
from core.hosts.link import Link
from core.memory.model import Measurement, Parts, Room, options_request
from core.monitor.nvidia import NvidiaGpu, gpu_of
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions

SCORE = 900
"""Linux's `oom_score_adj`, up to 1000: the process with the highest is ended first if memory runs out."""


class GuardedJob:
    """A job in an engine process of its own; for one use.

    Args:
        device: The device (see `probable_device`).
        room: The memory of that device before the job; None: unknown.
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
        """Start the job, send the request and wait for the answer.

        Args:
            timeout: Timeout without output, in seconds.
            begun: Called with the process id after the start.

        Raises:
            RanOut: The job took too much memory.
            UserError: The engine reported an error, or the timeout elapsed.
            EngineCrashed: The job ended without an answer.
            JobCancelled: `kill` was called.
            OSError: The process can't be started.
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
        except KeyboardInterrupt:
            job.kill()
            raise

    def kill(self) -> None:
        """End the job; may be called from another thread, also before it has begun."""
        with self._lock:
            self._cancelled = True
            if self._job is not None:
                self._job.kill()

    def _limit(self, _memory: SystemMemory) -> int | None:
        """The limit in bytes. None for a GPU with its own memory, where torch raises an error, and elsewhere."""
        if self._room is None or self._device.startswith("cuda") or "@" in self._device:
            return None
        return but_a_reserve(self._room.free)


def too_large(options: RunOptions, room: Room | None, ran_out: RanOut) -> str:
    """Why a run of `options` didn't fit, with the memory it took and the free memory."""
    text = _("A batch of {rows} didn't fit. It took {held} in the end. {why}")
    if room:
        text = _(
            "A batch of {rows} didn't fit. It took {held} in the end, {free} of {ceiling} were free. {why}"
        )
    return text.format(
        rows=counted(options.memory.batch_size, "example"),
        held=memory(ran_out.held),
        free=memory(room.free if room else 0),
        ceiling=memory(room.ceiling if room else 0),
        why=ran_out.why,
    )


def probable_device(options: RunOptions) -> str:
    """The device's name; for `auto`, the one that is chosen if all libraries suit this computer."""
    name = options.device.name
    if name != "auto":
        return name
    if gpu_of(name) is not None:
        return "cuda:0"
    return "mps" if sys.platform == "darwin" else "cpu"


# --- A dry run


MEASURE_SECONDS = 3600.0
"""Timeout of a dry run: some steps of a large model on a slow computer."""


class DryRun(GuardedJob):
    """Some steps of a run in an engine process of its own, on the computer that is to train it; for one use.

    Args:
        options: The run's options, preferably with a device other than `auto`.
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
        """Measure. A run that is ended because of its memory is a measurement, too.

        Raises:
            UserError: The engine reported an error.
            EngineCrashed: The job ended without an answer.
            JobCancelled: `kill` was called.
            OSError: The process can't be started.
        """
        request = options_request(self._elsewhere() if self._options.device.computers else self._options)
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

    def _elsewhere(self) -> RunOptions:
        """Send data and model to the computer that measures; returns the options with the paths there."""

        def tell(_what: str, _done: int, _total: int) -> None:
            if self._cancelled:
                raise JobCancelled(self.name)

        computer = find(self._options.device.computers[0])
        self._command = python_command(computer, "core.hosts.far", self.name)
        try:
            with Link(computer, lambda: self._cancelled) as link:
                link.require_this_hone()
                return link.send_sources(self._options, tell)
        except ComputerError:
            if self._cancelled:
                raise JobCancelled(self.name) from None
            raise


# --- Memory of a device


MPS_LIMIT = DeviceOptions().mps_memory_limit
LEFT_TO_MACOS, LEAST_LEFT = 1 / 8, 2 << 30
"""Share of the memory, and bytes, that no run on an Apple GPU takes. A rule of thumb, never tried on a Mac."""


def mps_ceiling(device: DeviceReport, limit: float = MPS_LIMIT) -> int | None:
    """The most bytes that a run may take on an Apple GPU; None if macOS recommends nothing.

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
    """The free memory of a device, and its total.

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
    """The computer's memory, limited by the control group of this process."""
    free = system.total - system.used
    if group is None or group.limit >= system.total:
        return Room(free=free, ceiling=system.total)
    return Room(free=max(0, min(free, group.limit - group.used)), ceiling=group.limit)
