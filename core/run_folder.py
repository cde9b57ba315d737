"""A run as a folder: where everything about it stands, and the small records kept in there.

Layout (everything readable without Hone)::

    run.toml        what was asked
    forecast.json   how much memory it would take, where that was found out before
    events.jsonl    what happened        (written by the engine)
    machine.jsonl   what the machine did (written by the keeper)
    log.txt         what was printed
    checkpoints/    checkpoint-STEP/, complete ones only
    model/          the trained model
    tensorboard/    TensorBoard's event files, where asked for
    requests/       stop and kill requests, one small file each
    keeper.json     which process keeps the run
    exit.json       how the engine ended, written last
"""

import contextlib
import platform
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from core import run_file
from core.checks import read_options
from core.errors import OptionsError
from core.files import remove, write_atomically
from core.memory.forecast import Forecast
from core.options import RunOptions
from core.story import RunStory, State

Record = TypeVar("Record")

STARTING_SECONDS = 10.0
"""How long a new folder may lack `keeper.json` before its run counts as never started."""

SILENCE_SECONDS = 90.0
"""How long a run that another computer keeps may write nothing before it counts as dead; it writes every second."""


class Action(StrEnum):
    """What a run can be asked while it trains."""

    STOP = "stop"
    KILL = "kill"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One file in `requests/`."""

    id: str
    action: Action


class KeeperRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`keeper.json`: enough to prove later that the keeper still lives. `started` and `booted` are unix seconds."""

    pid: int
    started: float
    host: str
    booted: float


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how the engine ended.

    `code` is its exit status; `signal` the name of the signal that ended it (POSIX). `reason` is a plain sentence,
    `log_tail` the last lines it printed. `out_of_memory` tells that the operating system ended it for lack of memory.
    """

    time: float
    code: int | None
    signal: str | None = None
    reason: str = ""
    log_tail: str = ""
    out_of_memory: bool = False


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Making this object touches nothing on disk."""

    path: Path

    @property
    def name(self) -> str:
        """The folder's name, which is what a run is called among the runs beside it."""
        return self.path.name

    @property
    def is_removed(self) -> bool:
        """Whether the run is deleted, or being deleted: of the files every run keeps, one to the end, none is there."""
        return all(map(_is_gone, (self.options_file, self.keeper_file, self.exit_file)))

    @property
    def options_file(self) -> Path:
        """What was asked."""
        return self.path / "run.toml"

    @property
    def forecast_file(self) -> Path:
        """What was forecast or measured of its memory before it started."""
        return self.path / "forecast.json"

    @property
    def events_file(self) -> Path:
        """What happened."""
        return self.path / "events.jsonl"

    @property
    def machine_file(self) -> Path:
        """What the machine did."""
        return self.path / "machine.jsonl"

    @property
    def log_file(self) -> Path:
        """What was printed."""
        return self.path / "log.txt"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """Folder of the trained model."""
        return self.path / "model"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def requests(self) -> Path:
        """Folder of requests."""
        return self.path / "requests"

    @property
    def keeper_file(self) -> Path:
        """Which process keeps the run."""
        return self.path / "keeper.json"

    @property
    def exit_file(self) -> Path:
        """How the engine ended."""
        return self.path / "exit.json"

    def options(self) -> RunOptions:
        """Read what was asked. The data and the model are not looked at: they may be gone, or on a dead disk.

        Raises:
            OptionsError: `run.toml` is missing or damaged.
        """
        tree = run_file.read_tree(self.options_file)
        options, problems = read_options(tree)
        if options is None:
            raise OptionsError(problems, str(self.options_file))
        return options

    def forecast(self) -> Forecast | None:
        """What was known of its memory before it started; None: nothing."""
        return _read_record(self.forecast_file, Forecast)

    def exit_record(self) -> ExitRecord | None:
        """How the engine ended; None while it runs or where that was never written."""
        return _read_record(self.exit_file, ExitRecord)

    def record_exit(self, record: ExitRecord) -> None:
        """Write down how the engine ended."""
        write_atomically(self.exit_file, msgspec.json.encode(record))

    def keeper_record(self) -> KeeperRecord | None:
        """Which process keeps the run."""
        return _read_record(self.keeper_file, KeeperRecord)

    def record_keeper(self, pid: int) -> None:
        """Write down which process keeps the run from now on.

        Raises:
            psutil.Error: There is no such process (any more).
        """
        record = KeeperRecord(
            pid=pid,
            started=psutil.Process(pid).create_time(),
            host=platform.node(),
            booted=psutil.boot_time(),
        )
        write_atomically(self.keeper_file, msgspec.json.encode(record))

    def keeper_is_alive(self) -> bool:
        """Whether the very process named in `keeper.json` still runs (process numbers are reused)."""
        record = self.keeper_record()
        return record is not None and _is_here(record) and is_same_process(record.pid, record.started)

    def is_alive(self, story: RunStory) -> bool:
        """Whether anybody still works on the run: its keeper, or an engine that lost its keeper.

        The processes of another computer (its folder is shared) can't be seen: there, the files tell.
        """
        record = self.keeper_record()
        if record is None:
            return self._is_new()
        if not _is_here(record):
            return self._is_being_written()
        return is_same_process(record.pid, record.started) or _engine_is_alive(record, story)

    def _is_new(self) -> bool:
        asked_at = _changed_at(self.options_file)
        return asked_at is not None and time.time() - asked_at < STARTING_SECONDS

    def _is_being_written(self) -> bool:
        files = (self.events_file, self.machine_file, self.keeper_file)
        newest = max(filter(None, map(_changed_at, files)), default=0.0)
        return time.time() - newest < SILENCE_SECONDS

    def ask(self, action: Action) -> Request:
        """Leave a request for the engine (stop) or the keeper (kill)."""
        request = Request(id=uuid.uuid4().hex, action=action)
        self.requests.mkdir(exist_ok=True)
        write_atomically(self.requests / f"{request.id}.json", msgspec.json.encode(request))
        return request

    def open_requests(self) -> list[Request]:
        """Requests nobody has answered yet, oldest first."""
        found: list[tuple[float, Request]] = []
        with contextlib.suppress(OSError):  # a folder that can't be read
            for path in self.requests.glob("*.json"):
                request = _read_record(path, Request)
                asked_at = _changed_at(path)
                if request is not None and asked_at is not None:
                    found.append((asked_at, request))
        return [request for _, request in sorted(found, key=lambda pair: pair[0])]

    def close_request(self, request: Request) -> None:
        """Take an answered request away."""
        remove(self.requests / f"{request.id}.json")

    def state(self, story: RunStory) -> State:
        """Where the run stands, from its events, how its engine ended, its requests and whether anybody works on it."""
        ended = self.exit_record() is not None
        return story.state(
            engine_ended=ended,
            keeper_alive=not ended and self.is_alive(story),
            stop_asked=self.stop_is_asked(),
        )

    def stop_is_asked(self) -> bool:
        """Whether a stop request waits to be answered."""
        return any(request.action is Action.STOP for request in self.open_requests())


def _read_record(path: Path, struct: type[Record]) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=struct)
    except (OSError, msgspec.MsgspecError):
        return None


def _changed_at(path: Path) -> float | None:
    """When a file was last written to, in unix seconds; None where that can't be told."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _is_gone(path: Path) -> bool:
    """Whether there surely is no such file; a disk that doesn't answer for a moment has not lost it."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_here(record: KeeperRecord) -> bool:
    """Whether the keeper was started on this computer: by its name, or (a Mac's name follows its network) its boot."""
    return record.host == platform.node() or abs(record.booted - psutil.boot_time()) < 60.0


def is_same_process(pid: int, started: float) -> bool:
    """Whether process `pid` lives and is the one that started at `started` (unix seconds)."""
    created = _creation_time(pid)
    return created is not None and abs(created - started) < 1.0


def _engine_is_alive(keeper: KeeperRecord, story: RunStory) -> bool:
    """Whether the engine that said `run_started` still runs: it was created after its keeper and before it said so."""
    if not story.engine_pid or story.attempt_started is None:
        return False
    created = _creation_time(story.engine_pid)
    return created is not None and keeper.started - 1.0 <= created <= story.attempt_started + 1.0


def _creation_time(pid: int) -> float | None:
    """Unix seconds at which a living process was created; None for one that is gone or only waits to be reaped."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None
