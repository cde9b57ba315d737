"""Running a download in a process of its own: how far it is, how fast it goes, pause, and giving it up.

A pause ends the process. What has come stays on the disk, and a new process goes on from there.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from core.errors import UserError
from core.hub_questions import Downloaded, DownloadRequest, Kind, Progress, Removed, RemoveRequest
from core.jobs import EngineCrashed, JobCancelled, JobFailure, ask_engine, decoded, engine_command
from core.processes import ASKER, converse, kill_with_children, start_worker

SPEED_SECONDS = 5.0
"""The speed is that of the last seconds: a network's wanders."""


class Transfer(Protocol):
    """A download that can be run once; `Download` is the real one."""

    def run(self, tell: Callable[[Progress], None]) -> Downloaded:
        """Download, waiting until all has come."""

    def kill(self) -> None:
        """End it at once."""


class Download:
    """Brings one model or data set to this computer; made anew to go on after a pause.

    Args:
        request: What to bring.
        command: What starts the engine's job, where it isn't Hone's own.
    """

    def __init__(self, request: DownloadRequest, command: Sequence[str] | None = None) -> None:
        self._request = request
        self._command = command or engine_command("hub-download")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def run(self, tell: Callable[[Progress], None]) -> Downloaded:
        """Download, waiting until all has come.

        Args:
            tell: Hears how far it is, a few times a second.

        Raises:
            UserError: It can't be had; what has come stays.
            EngineCrashed: The process ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        with tempfile.TemporaryFile() as messages:
            process = self._start(messages.fileno())

            def hear(line: bytes) -> None:
                with contextlib.suppress(msgspec.MsgspecError):  # the answer is no progress
                    tell(msgspec.json.decode(line, type=Progress))

            answer = converse(process, msgspec.json.encode(self._request), hear)
            if self._is_killed:
                raise JobCancelled("hub-download")
            if process.returncode == 0:
                return decoded("hub-download", answer, Downloaded)
            messages.seek(0)
            raise _failure(process.returncode, answer, messages.read().decode(errors="replace"))

    def kill(self) -> None:
        """End it at once, from any thread, also before it has begun; what has come stays."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                kill_with_children(self._process)

    def _start(self, messages: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_killed:
                raise JobCancelled("hub-download")
            self._process = start_worker(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                environment={ASKER: str(os.getpid())},
            )
            return self._process


class Pace:
    """How fast a download is and how long it will take, told from its last seconds.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, progress: Progress) -> None:
        """Hear how far it is now."""
        now = self._clock()
        self._marks.append((now, progress.done))
        while len(self._marks) > 2 and now - self._marks[1][0] >= SPEED_SECONDS:
            self._marks.popleft()

    @property
    def speed(self) -> float | None:
        """Bytes a second; None where that can't be known yet."""
        if len(self._marks) < 2:
            return None
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - begin) if end > begin else None

    def left(self, progress: Progress) -> float | None:
        """Seconds until all has come; None where that can't be known."""
        speed = self.speed
        return (progress.total - progress.done) / speed if speed else None


def drop_partial(name: str, kind: Kind) -> Removed:
    """Give up a download that was begun: what has come of it is deleted. See `EngineJob.ask` for what it raises."""
    request = RemoveRequest(id=name, kind=kind, only_partial=True)
    return decoded("hub-remove", ask_engine("hub-remove", msgspec.json.encode(request)), Removed)


def _failure(code: int, answer: bytes, messages: str) -> Exception:
    if code == 1:
        try:
            told = msgspec.json.decode(answer, type=JobFailure).error
        except msgspec.MsgspecError:
            pass
        else:
            return UserError(told.title, told.detail, told.fixes)
    return EngineCrashed("hub-download", code, messages)
