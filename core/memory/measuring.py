"""A dry run and its guard: it is ended before it takes more memory than there is.

A computer whose memory is full slows down or ends programs, and seldom the one at fault. So the engine of a dry run is
watched from outside, where its own threads can't keep the guard waiting, and on Linux the kernel is told to take it
first. That it had to be ended, by whomever, is the answer: the run doesn't fit.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from core.ending import is_out_of_memory, out_of_memory_kills, signal_name
from core.figures import size
from core.jobs import EngineCrashed, EngineJob, JobCancelled, decoded
from core.machine.memory import SystemMemory, system_memory, tree_bytes
from core.machine.sampler import gpu_of
from core.memory.forecast import Measurement, MeasureRequest, Parts, Room
from core.options import RunOptions

WATCH_SECONDS = 0.05
"""A process fills about 100 MB of fresh memory in that time; the reserve has to be more."""

MEASURE_SECONDS = 3600.0
"""How long a dry run may take: some steps of a large model on a slow computer."""

RESERVE, RESERVE_SHARE = 1 << 30, 0.05
"""So much of the free memory, or this share where that is less, is left to the other programs."""

SCORE = 900
"""Linux's `oom_score_adj`, up to 1000: who is ended first where memory runs out. The window stays at 0."""


class DryRun:
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
        self._options = options
        self._room = room
        self._command = command
        self._system = system
        self._device = _probable_device(options)
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._cancelled = False

    def run(self) -> Measurement:
        """Measure, waiting until it is done.

        Raises:
            UserError: The engine says what the person can mend.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        kills_before = out_of_memory_kills()
        job = self._start()
        guard = _Guard(job, self._limit(), self._system)
        try:
            with guard:
                answer = job.ask(msgspec.json.encode(self._request()), MEASURE_SECONDS)
        except JobCancelled:
            if guard.found:
                return self._too_large(guard.highest, guard.found)
            raise
        except EngineCrashed as crash:
            if not _ran_out(crash.code, kills_before):
                raise
            return self._too_large(guard.highest, "The operating system ended it for lack of memory.")
        return msgspec.structs.replace(decoded("measure", answer, Measurement), room=self._room)

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""
        with self._lock:
            self._cancelled = True
            if self._job is not None:
                self._job.kill()

    def _start(self) -> EngineJob:
        with self._lock:
            if self._cancelled:
                raise JobCancelled("measure")
            self._job = EngineJob("measure", self._command)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                Path(f"/proc/{self._job.pid}/oom_score_adj").write_text(str(SCORE))
        return self._job

    def _request(self) -> MeasureRequest:
        return MeasureRequest(asked=msgspec.to_builtins(self._options))

    def _limit(self) -> int | None:
        """What the process may hold; None where its device has a memory of its own, which torch guards."""
        if self._room is None or self._device.startswith("cuda"):
            return None
        return self._room.free - round(min(RESERVE, RESERVE_SHARE * self._room.free))

    def _too_large(self, held: int, why: str) -> Measurement:
        """The answer of a dry run that was ended. From outside only the whole is known, and nobody can divide it."""
        batch = self._options.memory.batch_size
        samples = "1 row" if batch == 1 else f"{batch:,} rows"
        there = f", and {size(self._room.free)} of {size(self._room.ceiling)} were free" if self._room else ""
        return Measurement(
            device=self._device,
            parts=Parts(overhead=held),
            peak=held,
            base=0,
            room=self._room,
            out_of_memory=f"A batch of {samples} didn't fit. It held {size(held)} at its end{there}. {why}",
        )


class _Guard:
    """Ends a job that holds more than `limit` bytes, or leaves the computer less than the reserve, while `with` lasts.

    `found` says why it had to; empty: it hadn't. `highest` are the bytes it held at most.
    """

    def __init__(self, job: EngineJob, limit: int | None, system: Callable[[], SystemMemory]) -> None:
        self.found = ""
        self.highest = 0
        self._job = job
        self._limit = limit
        self._system = system
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dry-run-guard", daemon=True)

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
        held = tree_bytes(self._job.pid)
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


def _probable_device(options: RunOptions) -> str:
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
