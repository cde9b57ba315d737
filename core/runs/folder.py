"""A run's folder, its files, and the small records in it.

Layout (everything can be read without Hone)::

    run.toml        options
    notes.json      title, tags and note given later
    forecast.json   memory forecast or measurement made before the start
    events.jsonl    events of the engine
    machine.jsonl   samples of the machine and warnings, by the keeper
    log.txt         printed output
    checkpoints/    checkpoint-STEP/
    model/          the trained model
    examples/       images of sample predictions
    tensorboard/    TensorBoard's event files, optional
    requests/       requests to a running run (stop, pause, ...), one file each
    keeper.json     process of the keeper
    exit.json       exit status of the engine, written last
    .lock           locked while the run is started
    .engine.lock    locked while the engine works
    .spare          reserved space, freed for exit.json if the disk is full
"""

import contextlib
import errno
import os
import platform
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import psutil

from core.base.errors import OptionsError
from core.base.files import is_link, read_small, remove, write_atomically
from core.memory.model import Forecast
from core.options import RunOptions, run_file
from core.options.validate import read_options
from core.runs.events import Moment, ProcessNumber
from core.runs.status import RunStory, State

# --- Records in the folder


Attempt = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""The number of an attempt. A larger one is damage, and counting on from it would lead beyond what can be read."""

BOOT_SECONDS = 60.0
"""How far the moments may differ that a computer tells it was started at; its clock is set now and then."""


SINCE_BOOT_SECONDS = 0.1
"""How far two tellings may differ of how long after the boot a process was started."""


class Action(StrEnum):
    """What a run can be asked while it trains or waits for its turn; all but `kill` are answered by its engine."""

    STOP = "stop"
    PAUSE = "pause"
    SAVE = "save"
    KILL = "kill"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One file in `requests/`, called `ID.json`."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    action: Action


class KeeperRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`keeper.json`: enough to prove later that the keeper still lives. `started` and `booted` are unix seconds.

    `attempt` is the one it keeps: 1, and one more each time the run is resumed. `engine` is the process number of the
    engine it has started, 0 before that, and `engine_started` when that one started, by the clock of `booted`.
    """

    pid: ProcessNumber
    started: Moment
    host: str
    booted: Moment
    attempt: Attempt = 1
    engine: ProcessNumber = 0
    engine_started: Moment = 0.0

    @classmethod
    def of(cls, pid: int, attempt: int = 1) -> "KeeperRecord":
        """The record of a process of this computer.

        Raises:
            psutil.Error: There is no such process (any more).
        """
        return cls(
            pid=pid,
            started=psutil.Process(pid).create_time(),
            host=platform.node(),
            booted=psutil.boot_time(),
            attempt=attempt,
        )

    @property
    def is_here(self) -> bool:
        """Whether it was started on this computer: by its name, or (a Mac's name follows its network) its boot."""
        return self.host == platform.node() or self.is_of_this_boot

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the computer that looks has been on ever since."""
        booted: float = psutil.boot_time()
        return abs(self.booted - booted) < BOOT_SECONDS

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs on this computer (process numbers are reused)."""
        return self.is_here and is_same_process(self.pid, self.started, self.booted)

    @property
    def is_worked_on(self) -> bool:
        """Whether the keeper lives, or an engine that lost it."""
        if self.is_alive:
            return True
        is_named = self.engine > 0 and self.is_here
        return is_named and is_same_process(self.engine, self.engine_started, self.booted)

    def with_engine(self, pid: int) -> "KeeperRecord":
        """The record of a keeper that has started this engine.

        Raises:
            psutil.Error: There is no such process (any more).
        """
        created = psutil.Process(pid).create_time()
        moved = clock_moved(self.booted)
        return msgspec.structs.replace(self, engine=pid, engine_started=created - moved)


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how the engine ended.

    `code` is its exit status; `signal` the name of the signal that ended it (POSIX). `reason` is a plain sentence,
    `log_tail` the last lines it printed. `out_of_memory` tells that the operating system ended it for lack of memory.
    `attempt` is the one that ended so. Where its engine was never started (it left the queue), `before` is how the last
    one ended that was.
    """

    time: Moment
    code: int | None
    signal: str | None = None
    reason: str = ""
    log_tail: str = ""
    out_of_memory: bool = False
    attempt: Attempt = 1
    before: "ExitRecord | None" = None

    @property
    def of_engine(self) -> "ExitRecord | None":
        """How the last engine ended that was started."""
        return self if self.code is not None else self.before


def is_same_process(pid: int, started: float, booted: float | None = None) -> bool:
    """Whether process `pid` lives and is the one that started at `started` (unix seconds).

    Linux counts a process's start from the boot, so that setting the clock moves both; elsewhere it stays.

    Args:
        pid: Its number.
        started: When it started, as that was told at some time.
        booted: When the computer was started, as told at the same time; None: the clock was not set since.
    """
    created = creation_time(pid)
    if created is None:
        return False
    if abs(created - started) < 1.0:
        return True
    return booted is not None and abs(created - clock_moved(booted) - started) < SINCE_BOOT_SECONDS


def clock_moved(booted: float) -> float:
    """By how many seconds the clock was set forward since it told that the computer was started at `booted`."""
    moved = float(psutil.boot_time()) - booted
    return moved if abs(moved) >= 1.0 else 0.0


def creation_time(pid: int) -> float | None:
    """Unix seconds at which a living process was created; None for one that is gone or only waits to be reaped."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


# --- The folder


__all__ = ["Action", "ExitRecord", "KeeperRecord", "Request", "RunFolder", "is_same_process"]

Record = TypeVar("Record")

_NO_REQUEST = {errno.EINVAL, errno.ELOOP, errno.EFBIG, errno.ENOENT, errno.ENXIO, errno.ENOTDIR} | (
    {errno.EACCES} if os.name == "posix" else set()  # Windows refuses a file that is being written, too
)
"""Why a file is none that `ask` wrote, whenever it is read: a pipe, a link, too large, or not to be read."""

STARTING_SECONDS = 10.0
"""How long a new folder may lack `keeper.json` before its run counts as never started."""

SILENCE_SECONDS = 90.0
"""How long a run that another computer keeps may write nothing before it counts as dead; it writes every second."""


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
        """Whether the run is deleted, or being deleted: of the files every run keeps, one to the end, none is there.

        To who works in the folder and gives its path as a relative one, as keeper and engine do, one that was renamed,
        moved or unmounted is still there. To others it is gone.
        """
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
    def spare_file(self) -> Path:
        """Room for the last word (`core.monitor.keeper`)."""
        return self.path / ".spare"

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

    def readable_options(self) -> RunOptions | None:
        """What was asked; None where that can't be read, for whoever needn't say why."""
        try:
            return self.options()
        except OptionsError:
            return None

    def forecast(self) -> Forecast | None:
        """What was known of its memory before it started; None: nothing."""
        return _read_record(self.forecast_file, Forecast)

    def exit_record(self) -> ExitRecord | None:
        """How the engine of the newest attempt ended; None while it runs or where that was never written."""
        record = self.last_exit_record()
        if record is None or record.attempt < self.attempt_kept():
            return None
        return record

    def last_exit_record(self) -> ExitRecord | None:
        """How the last engine ended of which that was written, also where another attempt has begun since."""
        return _read_record(self.exit_file, ExitRecord)

    def record_exit(self, record: ExitRecord) -> None:
        """Write down how the engine ended."""
        write_atomically(self.exit_file, msgspec.json.encode(record))

    def keeper_record(self) -> KeeperRecord | None:
        """Which process keeps the run."""
        return _read_record(self.keeper_file, KeeperRecord)

    def attempt_kept(self) -> int:
        """The number of the attempt that is or was kept last; 0: none ever was."""
        record = self.keeper_record()
        return 0 if record is None else record.attempt

    def record_keeper(self, pid: int, attempt: int = 1) -> None:
        """Write down which process keeps the run from now on, and as which attempt.

        From this moment on that attempt is what the run's state is about.

        Raises:
            OSError: It can't be written.
            psutil.Error: There is no such process (any more).
        """
        self._write_keeper(KeeperRecord.of(pid, attempt))

    def record_engine(self, pid: int) -> None:
        """Write down which engine the keeper has started.

        Raises:
            OSError: It can't be written.
            psutil.Error: There is no such process (any more).
        """
        record = self.keeper_record()
        if record is not None:
            self._write_keeper(record.with_engine(pid))

    def _write_keeper(self, record: KeeperRecord) -> None:
        write_atomically(self.keeper_file, msgspec.json.encode(record))

    def keeper_is_alive(self) -> bool:
        """Whether the very process named in `keeper.json` still runs (process numbers are reused)."""
        record = self.keeper_record()
        return record is not None and record.is_alive

    def clock_moved(self) -> float:
        """By how many seconds this computer's clock was set forward since its keeper began."""
        record = self.keeper_record()
        return clock_moved(record.booted) if record is not None and record.is_here else 0.0

    def is_alive(self, story: RunStory) -> bool:
        """Whether anybody still works on the run: its keeper, or an engine that lost its keeper.

        The processes of another computer (its folder is shared) can't be seen: there, the files tell.
        """
        record = self.keeper_record()
        if record is None:
            return self._is_new()
        if not record.is_here:
            return self._is_being_written()
        return record.is_worked_on or _engine_is_alive(record, story)

    def _is_new(self) -> bool:
        asked_at = _changed_at(self.options_file)
        return asked_at is not None and abs(time.time() - asked_at) < STARTING_SECONDS

    def _is_being_written(self) -> bool:
        files = (self.events_file, self.machine_file, self.keeper_file)
        newest = max(filter(None, map(_changed_at, files)), default=0.0)
        return time.time() - newest < SILENCE_SECONDS

    def ask(self, action: Action) -> Request:
        """Leave a request for the engine, or (kill, and whatever is asked of a run that waits) for the keeper.

        Raises:
            OSError: It can't be written, or would be written elsewhere: a stranger's folder may hold links.
        """
        if is_link(self.requests):
            raise OSError(errno.ELOOP, "It is a link, which leads elsewhere", str(self.requests))
        request = Request(id=uuid.uuid4().hex, action=action)
        self.requests.mkdir(exist_ok=True)
        write_atomically(self.requests / f"{request.id}.json", msgspec.json.encode(request))
        return request

    def open_requests(self, *, clean: bool = False) -> list[Request]:
        """Requests nobody has answered yet, oldest first; none whose file isn't called by its id.

        Args:
            clean: Whether to delete the files that hold no request, each of which costs time at every look.
        """
        found: list[tuple[float, Request]] = []
        with contextlib.suppress(OSError):  # a folder that can't be read
            for path in self.requests.glob("*.json"):
                with contextlib.suppress(OSError):  # just answered, or it can't be removed: a folder
                    request = None
                    try:
                        asked_at, request = path.stat().st_mtime, _request_in(path)
                    except OSError as error:
                        if error.errno not in _NO_REQUEST:  # a disk that doesn't answer for a moment
                            continue
                    if request is not None:
                        found.append((asked_at, request))
                    elif clean:
                        path.unlink(missing_ok=True)
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
            asked=self.actions_asked(),
            attempt=self.attempt_kept(),
        )

    def stop_is_asked(self) -> bool:
        """Whether a stop request waits to be answered."""
        return Action.STOP in self.actions_asked()

    def actions_asked(self) -> frozenset[Action]:
        """What the requests ask that nobody has answered yet."""
        return frozenset(request.action for request in self.open_requests())


def _read_record(path: Path, struct: type[Record]) -> Record | None:
    try:
        return msgspec.json.decode(read_small(path), type=struct)
    except (OSError, ValueError, RecursionError):  # ValueError: no JSON, other fields, or no UTF-8
        return None


def _request_in(path: Path) -> Request | None:
    """The request in a file that bears its id.

    Raises:
        OSError: It can't be read.
    """
    try:
        request = msgspec.json.decode(read_small(path), type=Request)
    except (ValueError, RecursionError):
        return None
    return request if path.name == f"{request.id}.json" else None


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


def _engine_is_alive(keeper: KeeperRecord, story: RunStory) -> bool:
    """Whether the engine that said `run_started` still runs: it was created after its keeper and before it said so."""
    if not story.engine_pid or story.attempt_started is None:
        return False
    created = creation_time(story.engine_pid)
    if created is None:
        return False
    as_told_then = created - clock_moved(keeper.booted)
    return any(
        keeper.started - 1.0 <= moment <= story.attempt_started + 1.0 for moment in (created, as_told_then)
    )
