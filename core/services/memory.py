"""Engine jobs with a memory limit, and dry runs.

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
from core.base.system import SystemMemory, system_memory
from core.hosts.computers import find, python_command
from core.hosts.link import Link
from core.memory.model import Measurement, Parts, Room, options_request
from core.monitor.nvidia import gpu_of
from core.options import RunOptions

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
        """Starts the job, sends the request and waits for the answer.

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
        """Ends the job; may be called from another thread, also before it has begun."""
        with self._lock:
            self._cancelled = True
            if self._job is not None:
                self._job.kill()

    def _limit(self, _memory: SystemMemory) -> int | None:
        """Returns the limit in bytes; None for another computer, and a GPU with its own memory: there torch raises."""
        if self._room is None or self._device.startswith("cuda") or "@" in self._device:
            return None
        return but_a_reserve(self._room.free)


def too_large(options: RunOptions, room: Room | None, ran_out: RanOut) -> str:
    """Returns why a run of `options` didn't fit, with the memory it took and the free memory."""
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
    """Returns the device's name; for `auto`, the one that is chosen if all libraries suit this computer."""
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
        """Measures. A run that is ended because of its memory is a measurement, too.

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
        """Sends data and model to the computer that measures; returns the options with the paths there."""

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
