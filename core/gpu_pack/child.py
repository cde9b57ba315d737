"""One child process after the other, each of which can be ended from another thread; what they print goes to a log."""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from core.jobs import EngineJob, JobCancelled
from core.processes import kill_with_children, start_worker

JOB = "gpu-pack"
LOOK_SECONDS = 1.0
"""How often is looked how far a child is."""

LARGEST_SAID = 1 << 16
"""Bytes of the end of a log that are read to find out what went wrong."""


class Child:
    """Runs programs until it is killed.

    Args:
        log: Where all they print is appended.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._is_killed = False

    def run(
        self,
        command: Sequence[str],
        watch: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run a program to its end.

        Args:
            command: The program and its arguments.
            watch: Called every second meanwhile.
            environment: Variables set besides the usual ones.

        Returns:
            Its exit status and the end of what it printed.

        Raises:
            JobCancelled: `kill` was called.
            OSError: It can't be started, or the log not be written.
        """
        with self._log.open("ab") as log:
            begin = log.tell()
            process = self._start(command, log.fileno(), environment)
            try:
                code = _waited(process, watch)
            except BaseException:  # Ctrl-C: what it fills is deleted next
                kill_with_children(process)
                process.wait()
                raise
        self.refuse_killed()
        with self._log.open("rb") as log:
            log.seek(max(begin, log.seek(0, 2) - LARGEST_SAID))
            return code, log.read().decode(errors="replace")

    def ask(self, job: str, request: bytes) -> bytes:
        """Ask the engine; see `EngineJob.ask` for what it raises."""
        with self._lock:
            self.refuse_killed()
            asked = EngineJob(job)
            self._end = asked.kill
        return asked.ask(request)

    def kill(self) -> None:
        """End what runs, and let nothing begin any more; may be called from any thread."""
        with self._lock:
            self._is_killed = True
            if self._end is not None:
                self._end()

    def refuse_killed(self) -> None:
        """Go no further where `kill` was called.

        Raises:
            JobCancelled: It was.
        """
        if self._is_killed:
            raise JobCancelled(JOB)

    def _start(
        self, command: Sequence[str], output: int, environment: Mapping[str, str] | None
    ) -> "subprocess.Popen[bytes]":
        with self._lock:
            self.refuse_killed()
            process = start_worker(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, environment=environment
            )
            self._end = lambda: kill_with_children(process)
            return process


def _waited(process: "subprocess.Popen[bytes]", watch: Callable[[], None]) -> int:
    """Wait for the end of a program, looking every second how far it is; returns its exit status."""
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            watch()
