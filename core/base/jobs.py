"""Starting Hone's own processes: a run's keeper, and short questions to the engine."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from core.base.ceiling import Ceiling, RanOut, room_for_reading
from core.base.errors import Fix, UserError
from core.base.files import read_record
from core.base.language import _
from core.base.processes import (
    ASKER,
    converse,
    describe,
    is_frozen,
    is_out_of_memory,
    kill_with_children,
    out_of_memory_kills,
    own_program,
    signal_name,
    start_worker,
)
from core.base.settings import VERSION, home
from core.base.system import SystemMemory, system_memory

# --- PyTorch with CUDA next to a bundle


class GpuEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that has passed its check: the Hone that made it, its PyTorch and CUDA, its size in bytes.

    `device` is the GPU it computed on, empty if it found none; `problem` then says why, if known.
    """

    hone: str
    torch: str
    cuda: str
    device: str = ""
    problem: str = ""
    size: int = 0


def gpu_folder() -> Path:
    return home() / "gpu"


def gpu_marker() -> Path:
    return gpu_folder() / "installed.json"


def gpu_python() -> Path:
    return gpu_folder() / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def gpu_environment() -> GpuEnvironment | None:
    """Returns the installed environment; None if there is none, or it isn't complete."""
    return read_record(gpu_marker(), GpuEnvironment) if gpu_python().is_file() else None


# --- Processes and jobs


ASK_SECONDS = 600.0
"""Default timeout of a job without output: long enough for a large file on a slow disk."""


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A serialized `core.base.errors.UserError`."""

    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a job, with exit status 1, that failed for a reason the person can mend."""

    error: FailureReport


class JobProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Progress of a job, a line of its output before the answer; `done` of `total`, without a unit.

    `what` is the current phase in a few words; empty if there is only one.
    """

    done: int
    total: int
    what: str = ""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0


Answer = TypeVar("Answer")
TellProgress = Callable[[JobProgress], None]
_PROGRESS = b'{"type":"progress"'
"""How lines of progress begin; the last line is the answer."""


class EngineCrashed(Exception):  # noqa: N818 - said as the window says it
    """An engine job ended without an answer: a bug or a crash. `report` is what it printed to standard error."""

    def __init__(self, job: str, code: int, report: str) -> None:
        super().__init__(f"The engine's job {job!r} gave no answer. {describe(code)}\n{report}".rstrip())
        self.job = job
        self.code = code
        self.report = report


class JobCancelled(Exception):  # noqa: N818 - somebody changed their mind; nothing is wrong
    """An engine job was ended by `kill` before it had answered."""


def engine_command(*arguments: str) -> list[str]:
    """Returns the command of the engine, with arguments such as `("train", RUN_DIR)`."""
    # -P: no torch.py of the working folder is imported as torch; -s: nor one of the person's own site-packages
    if not is_frozen():
        return [sys.executable, "-P", "-m", "core.engine", *arguments]
    gpu = gpu_environment()
    if gpu is not None and gpu.hone == VERSION:
        return [str(gpu_python()), "-P", "-s", "-m", "core.engine", *arguments]
    return [own_program(), "--engine", *arguments]


class JobProcess:
    """A process that reads requests from standard input and answers on standard output, with limits of memory and time.

    Args:
        job: Its name, such as `inspect`.
        command: Its command, if it isn't Hone's own engine.
        limit: Computes the bytes it may take.

    Raises:
        OSError: It can't be started.
    """

    def __init__(
        self,
        job: str,
        command: Sequence[str] | None = None,
        *,
        limit: Callable[[SystemMemory], int | None] = room_for_reading,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        self._job = job
        self._killed = False
        self._kills_before = out_of_memory_kills()
        self._ceiling = Ceiling(limit=limit(system()), system=system)
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        try:
            self._process = start_worker(
                command or engine_command(job),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages.fileno(),
                environment={ASKER: str(os.getpid()), **self._ceiling.environment},
            )
        except BaseException:
            self._messages.close()
            self._ceiling.close()
            raise

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def kill(self) -> None:
        """Ends the process at once; may be called from another thread while an answer is awaited."""
        self._killed = True
        kill_with_children(self._process)
        self._ceiling.close()

    def _crashed(self) -> EngineCrashed:
        self._messages.seek(0)
        report = self._messages.read().decode(errors="replace")
        return EngineCrashed(self._job, self._process.returncode, report)


class Killable(Protocol):
    """A process that can be ended at once."""

    def kill(self) -> None: ...


class EngineJob(JobProcess):
    """A process that answers one request and ends."""

    def ask(
        self, request: bytes = b"", timeout: float = ASK_SECONDS, tell: TellProgress | None = None
    ) -> bytes:
        """Sends the request and waits for the answer; may be called once.

        Args:
            timeout: Timeout without output, in seconds, while the job reports reading nothing.

        Raises:
            RanOut: It took too much memory.
            UserError: It failed for a reason the person can mend, or timed out.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called meanwhile.
        """
        ceiling = self._ceiling
        ceiling.seconds = timeout

        def hear(line: bytes) -> None:
            ceiling.hear()
            if line.startswith(_PROGRESS) and tell is not None:
                tell(msgspec.json.decode(line, type=JobProgress))

        with self._messages:
            with ceiling.over_process(self.pid, lambda: kill_with_children(self._process)):
                answer = converse(self._process, request, hear)
            if self._killed:
                raise JobCancelled(self._job)
            if ceiling.over:
                raise ceiling.over
            if self._ran_out():
                raise RanOut(
                    "", ceiling.highest, _("The operating system stopped it because memory ran out.")
                )
            if self._process.returncode != 0:
                raise self._failure(answer)
        return answer

    def _ran_out(self) -> bool:
        """Returns whether memory ran out; on macOS, which doesn't count such ends, whether the process was killed."""
        code, kills = self._process.returncode, out_of_memory_kills()
        if kills is None and sys.platform == "darwin" and signal_name(code) == "SIGKILL":
            return True
        return is_out_of_memory(code, kills=kills != self._kills_before)

    def _failure(self, answer: bytes) -> Exception:
        if self._process.returncode == 1:
            try:
                told = msgspec.json.decode(answer, type=JobFailure).error
            except msgspec.MsgspecError:
                pass
            else:
                return UserError(told.title, told.detail, told.fixes)
        return self._crashed()


def run_job(
    name: str,
    request: msgspec.Struct | None,
    answer: type[Answer],
    on_progress: TellProgress | None = None,
    *,
    timeout: float = ASK_SECONDS,
) -> Answer:
    """Runs a job of the engine in a process of its own and waits for the answer.

    Args:
        timeout: Timeout without output, in seconds.

    Raises:
        OSError: It can't be started.
        UserError: It failed for a reason the person can mend, timed out, or took too much memory.
        EngineCrashed: It ended without an answer.
    """
    content = b"" if request is None else msgspec.json.encode(request)
    return decoded(name, EngineJob(name).ask(content, timeout, on_progress), answer)


def decoded(job: str, answer: bytes, kind: type[Answer]) -> Answer:
    """Decodes the answer of a job.

    Raises:
        EngineCrashed: It is something else.
    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        report = f"Its answer can't be read: {error}\n{answer[:2000].decode(errors='replace')}"
        raise EngineCrashed(job, 0, report) from error
