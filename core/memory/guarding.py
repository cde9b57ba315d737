"""An engine's job under guard: it is ended before it takes more memory than there is.

A computer whose memory is full slows down or ends programs, and seldom the one at fault. So an engine that tries out
something large has the memory of its device as its ceiling, and on Linux the kernel is told to take it first.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from core.ceiling import RanOut, but_a_reserve
from core.figures import size
from core.jobs import EngineJob, JobCancelled, TellProgress
from core.machine.memory import SystemMemory, system_memory
from core.machine.sampler import gpu_of
from core.memory.forecast import Room
from core.options import RunOptions

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
            tell: Hears how far it is, where it says so.
            begun: Hears the number of its process once it is started.

        Raises:
            RanOut: It took too much memory.
            UserError: The engine says what the person can mend, or was silent for `timeout` seconds.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        job = self._start()
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

    def _start(self) -> EngineJob:
        with self._lock:
            if self._cancelled:
                raise JobCancelled(self.name)
            self._job = EngineJob(self.name, self._command, limit=self._limit, system=self._system)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                Path(f"/proc/{self._job.pid}/oom_score_adj").write_text(str(SCORE))
        return self._job

    def _limit(self, _memory: SystemMemory) -> int | None:
        """What the process may hold; None where its device has a memory of its own, which torch guards."""
        if self._room is None or self._device.startswith("cuda"):
            return None
        return but_a_reserve(self._room.free)


def too_large(options: RunOptions, room: Room | None, ran_out: RanOut) -> str:
    """Why a run of `options` didn't fit, in words: what was asked, and what there was."""
    batch = options.memory.batch_size
    samples = "1 row" if batch == 1 else f"{batch:,} rows"
    there = f", and {size(room.free)} of {size(room.ceiling)} were free" if room else ""
    return f"A batch of {samples} didn't fit. It held {size(ran_out.held)} at its end{there}. {ran_out.why}"


def probable_device(options: RunOptions) -> str:
    """The device's name; where that is left to Hone, what it comes to wherever the libraries suit the computer."""
    name = options.device.name
    if name != "auto":
        return name
    if gpu_of(name) is not None:
        return "cuda:0"
    return "mps" if sys.platform == "darwin" else "cpu"
