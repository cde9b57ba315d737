"""Starting Hone's own processes: a run's keeper, and short questions to the engine."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from core.device_check_report import DeviceCheckReport, DeviceCheckRequest
from core.ending import describe
from core.errors import RunFolderError, UserError
from core.files import remove
from core.hub import ConfigFetched, ConfigRequest
from core.memory.forecast import Forecast, ForecastRequest
from core.model_report import ModelReport, ModelRequest
from core.processes import ASKER, is_frozen, kill_with_children, start_detached, start_worker
from core.reports import DataReport, InspectRequest, JobFailure, MachineReport
from core.run_folder import ExitRecord, RunFolder

ASK_SECONDS = 600.0
"""How long a short question may take before it is given up: a large file on a slow disk, not for ever."""

CHECK_SECONDS = 120.0
"""How long a device check may take: 30 s of comparing, on a slow disk as much for loading torch, and some to spare."""

FETCH_SECONDS = 60.0
"""How long fetching a file of a few KB may take: the Hub may keep silent for 10 s, and is asked again now and then."""

Answer = TypeVar("Answer")


class EngineCrashed(Exception):  # noqa: N818 - said as the window says it
    """An engine job ended without an answer: a bug or a crash. `report` is what it printed to standard error."""

    def __init__(self, job: str, code: int, report: str) -> None:
        super().__init__(f"The engine's job {job!r} gave no answer. {describe(code)}\n{report}".rstrip())
        self.job = job
        self.code = code
        self.report = report


class JobCancelled(Exception):  # noqa: N818 - somebody changed their mind; nothing is wrong
    """An engine job was ended by `EngineJob.kill` before it had answered."""


def engine_command(*arguments: str) -> list[str]:
    """What starts the engine with these arguments, such as `("train", RUN_DIR)`."""
    if is_frozen():
        return [sys.executable, "--engine", *arguments]
    # -P: or a file torch.py lying in the working folder would be imported as torch
    return [sys.executable, "-P", "-m", "core.engine", *arguments]


def keeper_command(run_dir: Path) -> list[str]:
    """What starts the keeper of the run in `run_dir`."""
    if is_frozen():
        return [sys.executable, "--keeper", str(run_dir)]
    return [sys.executable, "-P", "-m", "core.keeper", str(run_dir)]


def start(run: RunFolder, command: Sequence[str] | None = None) -> subprocess.Popen[bytes]:
    """Start a run's keeper, which starts the engine; both outlive this process.

    Args:
        run: The run's folder.
        command: What starts the keeper, where it isn't Hone's own.

    Raises:
        RunFolderError: It can't be started; `exit.json` then says why, too.
    """
    path = run.path.absolute()
    try:
        remove(run.exit_file)
        keeper = start_detached(command or keeper_command(path), run.log_file, path)
    except OSError as error:
        raise _not_started(run, str(error)) from error
    try:
        run.record_keeper(keeper.pid)
    except (OSError, psutil.Error) as error:
        keeper.kill()
        keeper.wait()
        raise _not_started(run, str(error)) from error
    return keeper


def _not_started(run: RunFolder, why: str) -> RunFolderError:
    failure = RunFolderError("The run can't be started", why)
    try:
        run.record_exit(ExitRecord(time=time.time(), code=None, reason=str(failure)))
    except OSError as error:
        failure.add_note(f"{run.exit_file} can't be written either: {error}")
    return failure


class EngineJob:
    """One short engine process that answers one question and ends.

    Args:
        job: Its name, such as `inspect`.
        command: What starts it, where it isn't Hone's own engine.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, job: str, command: Sequence[str] | None = None) -> None:
        self._job = job
        self._killed = False
        self._process = start_worker(
            command or engine_command(job),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            environment={ASKER: str(os.getpid())},
        )

    @property
    def pid(self) -> int:
        """The number of its process."""
        return int(self._process.pid)

    def ask(self, request: bytes = b"", timeout: float = ASK_SECONDS) -> bytes:
        """Send the request and wait for the answer; may be called once.

        Raises:
            UserError: The engine says what the person can mend, or no answer came within `timeout` seconds.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called meanwhile.
        """
        try:
            answer, messages = self._process.communicate(request, timeout)
        except subprocess.TimeoutExpired:
            kill_with_children(self._process)
            self._process.communicate()
            raise UserError(
                "No answer came in time", f"The job {self._job!r} was given up after {timeout:.0f} seconds."
            ) from None
        if self._killed:
            raise JobCancelled(self._job)
        if self._process.returncode != 0:
            raise self._failure(answer, messages)
        return answer

    def kill(self) -> None:
        """End the job at once; may be called from another thread while `ask` waits."""
        self._killed = True
        kill_with_children(self._process)

    def _failure(self, answer: bytes, messages: bytes) -> Exception:
        code = self._process.returncode
        if code == 1:
            try:
                told = msgspec.json.decode(answer, type=JobFailure).error
            except msgspec.MsgspecError:
                pass
            else:
                return UserError(told.title, told.detail, told.fixes)
        return EngineCrashed(self._job, code, messages.decode(errors="replace"))


def ask_engine(job: str, request: bytes = b"", timeout: float = ASK_SECONDS) -> bytes:
    """Ask the engine one question and wait for its answer; see `EngineJob.ask` for what it raises."""
    return EngineJob(job).ask(request, timeout)


def ask_devices() -> MachineReport:
    """What this machine can train on; see `EngineJob.ask` for what it raises."""
    return decoded("devices", ask_engine("devices"), MachineReport)


def ask_device_check(request: DeviceCheckRequest) -> DeviceCheckReport:
    """How a device compares with the CPU; see `EngineJob.ask` for what it raises."""
    answer = ask_engine("check-device", msgspec.json.encode(request), CHECK_SECONDS)
    return decoded("check-device", answer, DeviceCheckReport)


def ask_inspect(request: InspectRequest) -> DataReport:
    """What is in a data file or folder; see `EngineJob.ask` for what it raises."""
    return decoded("inspect", ask_engine("inspect", msgspec.json.encode(request)), DataReport)


def ask_check_model(request: ModelRequest) -> ModelReport:
    """What a model is, without its weights; see `EngineJob.ask` for what it raises."""
    return decoded("check-model", ask_engine("check-model", msgspec.json.encode(request)), ModelReport)


def ask_fetch_config(source: str) -> ConfigFetched:
    """Fetch what describes a model on the Hub; see `EngineJob.ask` for what it raises."""
    request = msgspec.json.encode(ConfigRequest(source=source))
    return decoded("fetch-config", ask_engine("fetch-config", request, FETCH_SECONDS), ConfigFetched)


def ask_forecast(request: ForecastRequest) -> Forecast:
    """How much memory a run would take, traced; see `EngineJob.ask` for what it raises."""
    return decoded("forecast", ask_engine("forecast", msgspec.json.encode(request)), Forecast)


def decoded(job: str, answer: bytes, kind: type[Answer]) -> Answer:
    """The answer of a job as what it should be.

    Raises:
        EngineCrashed: It is something else.
    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise EngineCrashed(
            job, 0, f"Its answer can't be read: {error}\n{answer[:2000].decode(errors='replace')}"
        ) from error
