"""An engine's job under guard: it is ended before it takes more memory than there is.

A computer whose memory is full slows down or ends programs, and seldom the one at fault. So the engine that tries out
something large is watched from outside, where its own threads can't keep the guard waiting, and on Linux the kernel is
told to take it first.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from core.ending import is_out_of_memory, out_of_memory_kills, signal_name
from core.figures import size
from core.jobs import EngineCrashed, EngineJob, JobCancelled, TellProgress
from core.machine.memory import SystemMemory, resident_bytes, system_memory
from core.machine.process_tree import ProcessTree
from core.machine.sampler import gpu_of
from core.memory.forecast import Parts, Room
from core.options import RunOptions

WATCH_SECONDS = 0.05
"""A process fills about 100 MB of fresh memory in that time; the reserve has to be more."""

RESERVE, RESERVE_SHARE = 1 << 30, 0.05
"""So much of the free memory, or this share where that is less, is left to the other programs."""

SCORE = 900
"""Linux's `oom_score_adj`, up to 1000: who is ended first where memory runs out. The window stays at 0."""


class RanOut(Exception):  # noqa: N818 - an answer: it doesn't fit
    """The job was ended because it took too much, by the guard or by the operating system.

    `held` are the bytes it held at most, which from outside nobody can divide; `why` says in a sentence who ended it.
    """

    def __init__(self, held: int, why: str) -> None:
        super().__init__(why)
        self.held = held
        self.why = why

    @property
    def parts(self) -> Parts:
        """All of it, undivided."""
        return Parts(overhead=self.held)


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
        kills_before = out_of_memory_kills()
        job = self._start()
        begun(job.pid)
        guard = _Guard(job, self._limit(), self._system)
        try:
            with guard:
                return job.ask(request, timeout, tell)
        except JobCancelled:
            if guard.found and not self._cancelled:
                raise RanOut(guard.highest, guard.found) from None
            raise
        except EngineCrashed as crash:
            if not _ran_out(crash.code, kills_before):
                raise
            raise RanOut(guard.highest, "The operating system ended it for lack of memory.") from crash

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
            self._job = EngineJob(self.name, self._command)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                Path(f"/proc/{self._job.pid}/oom_score_adj").write_text(str(SCORE))
        return self._job

    def _limit(self) -> int | None:
        """What the process may hold; None where its device has a memory of its own, which torch guards."""
        if self._room is None or self._device.startswith("cuda"):
            return None
        return self._room.free - round(min(RESERVE, RESERVE_SHARE * self._room.free))


class _Guard:
    """Ends a job that holds more than `limit` bytes, or leaves the computer less than the reserve, while `with` lasts.

    `found` says why it had to; empty: it hadn't. `highest` are the bytes it held at most.
    """

    def __init__(self, job: EngineJob, limit: int | None, system: Callable[[], SystemMemory]) -> None:
        self.found = ""
        self.highest = 0
        self._job = job
        self._processes = ProcessTree(job.pid)
        self._limit = limit
        self._system = system
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-guard", daemon=True)

    def __enter__(self) -> "_Guard":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is not None and not issubclass(
            kind, Exception
        ):  # Ctrl-C: nobody waits for the answer any more
            self._job.kill()
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            self.found = self._look()
            if self.found:
                self._job.kill()
                return
            self._ended.wait(WATCH_SECONDS)

    def _look(self) -> str:
        held = resident_bytes(self._processes.read())
        if held is None:
            return ""
        self.highest = max(self.highest, held)
        if self._limit is not None and held > self._limit:
            return "It was ended before it took memory from other programs."
        memory = self._system()
        left = memory.total - memory.used
        if left < min(RESERVE, RESERVE_SHARE * memory.total):
            return f"It was ended because the whole computer had only {size(left)} left."
        return ""


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


def _ran_out(code: int, kills_before: int | None) -> bool:
    """Whether an engine that ended without an answer was ended for lack of memory.

    macOS counts no such endings: there a killed process was most likely one.
    """
    kills = out_of_memory_kills()
    unknown = kills is None and sys.platform == "darwin" and signal_name(code) == "SIGKILL"
    return unknown or is_out_of_memory(code, kills=kills != kills_before)
