"""A process that holds one model and answers questions: starting it, talking to it, ending it."""

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

import msgspec

from core.ceiling import Ceiling, room_for_reading
from core.errors import OutOfMemory, UserError
from core.jobs import EngineCrashed, JobCancelled, engine_command, start_asked
from core.machine.memory import system_memory
from core.processes import kill_with_children
from core.trying import JOB, Close, Load, NotLoaded, Said, Told

KILLED = -9
"""The exit status of a process that somebody else has killed; on Windows there is none of its own for that."""
LAST_SECONDS = 3.0
"""How long a process that was asked to end may take."""


class TryProcess:
    """One model in a process of its own. `say` returns at once, from any thread; `lines` waits for what it answers.

    Args:
        load: What it is to load.
        command: What starts it, where it isn't Hone's own engine.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, load: Load, command: Sequence[str] | None = None) -> None:
        self._killed = False
        self._ceiling = Ceiling(limit=room_for_reading(system_memory()))
        try:
            self._process, self._messages = start_asked(
                command or engine_command(JOB), self._ceiling.environment
            )
        except BaseException:
            self._ceiling.close()
            raise
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="try-writer", daemon=True)
        self._writer.start()
        self.say(load)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return int(self._process.pid)

    def say(self, said: Said) -> None:
        """Send a line; a process that has ended hears nothing, which `lines` tells."""
        self._waiting.put(msgspec.json.encode(said) + b"\n")

    def lines(self) -> Iterator[Told]:
        """What it says, until it ends as it was asked to.

        Raises:
            UserError: The model can't be loaded, or the system has ended its process.
            EngineCrashed: It ended by itself, or said what nobody understands.
            JobCancelled: `kill` was called.
        """
        assert self._process.stdout is not None
        has_closed = False
        try:
            with self._ceiling.over_process(self.pid, lambda: kill_with_children(self._process)):
                for line in self._process.stdout:
                    told = self._understood(line)
                    if isinstance(told, NotLoaded):
                        raise UserError(told.error.title, told.error.detail, told.error.fixes)
                    yield told
            has_closed = self._process.wait(LAST_SECONDS) == 0
            if not has_closed:
                raise self._end()
        finally:
            self._clear_away()

    def close(self) -> None:
        """Ask it to end; it does so at once, whatever it is writing."""
        self.say(Close())
        self._waiting.put(None)

    def kill(self) -> None:
        """End it at once; may be called from another thread while `lines` waits."""
        self._killed = True
        kill_with_children(self._process)
        self._ceiling.close()

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended; `lines` says why
            while (line := self._waiting.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _understood(self, line: bytes) -> Told:
        try:
            told: Told = msgspec.json.decode(line, type=Told)
        except msgspec.MsgspecError as error:
            self.kill()
            raise EngineCrashed(JOB, 0, f"{error}\n{line[:2000].decode(errors='replace')}") from error
        return told

    def _end(self) -> Exception:
        if self._killed:
            return JobCancelled(JOB)
        if self._ceiling.over:
            return self._ceiling.over
        if self._process.returncode == KILLED:
            return OutOfMemory(
                "The system has ended the model's process",
                "Mostly memory was short. Close other programs, or ask one model at a time.",
            )
        self._messages.seek(0)
        return EngineCrashed(JOB, self._process.returncode, self._messages.read().decode(errors="replace"))

    def _clear_away(self) -> None:
        """Leave no process and no thread behind."""
        self._waiting.put(None)
        try:
            self._process.wait(0 if self._killed else LAST_SECONDS)
        except subprocess.TimeoutExpired:
            kill_with_children(self._process)
            self._process.wait()
        self._writer.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._messages.close()


Start = Callable[[Load], TryProcess]
"""Starts the process of a model. Raises OSError where it can't."""
