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
    rendezvous.json where the computers of a run on several meet (only there)
    keeper.json     process of the keeper
    exit.json       exit status of the engine, written last
    connection.json link to the computer that the run trains on, if that is another one
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
from pathlib import Path
from typing import Annotated

import msgspec
import psutil

from core.base.errors import OptionsError
from core.base.files import (
    ENGINE_LOCK,
    changed_at,
    is_link,
    is_locked,
    read_record,
    read_small,
    remove,
    write_atomically,
)
from core.base.language import _
from core.memory.model import Forecast
from core.options import RunOptions, run_file
from core.options.validate import read_options
from core.runs import elsewhere
from core.runs.events import Action, Moment, ProcessNumber, Validation
from core.runs.status import RunStatus, State

Attempt = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""The number of an attempt; a larger one is damage."""

BOOT_SECONDS = (
    60.0  # by which the boot times that a computer reports may differ; its clock is set now and then
)
SINCE_BOOT_SECONDS = 0.1  # by which two readings of how long after boot a process started may differ
STARTING_SECONDS = 10.0  # how long a new folder may lack keeper.json before its run counts as never started
SILENCE_SECONDS = 90.0  # without a write after which a run on another computer counts as dead

_NOT_A_REQUEST = {errno.EINVAL, errno.ELOOP, errno.EFBIG, errno.ENOENT, errno.ENXIO, errno.ENOTDIR} | (
    {errno.EACCES} if os.name == "posix" else set()  # Windows refuses a file that is being written, too
)
"""Errors of files that `request` didn't write: a pipe, a link, too large, unreadable."""


# --- Records


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One file in `requests/`, called `ID.json`."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    action: Action


class KeeperRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`keeper.json`: identifies the keeper's process. `started` and `booted` are unix seconds.

    `attempt` is 1, and one more each time the run is resumed.
    """

    pid: ProcessNumber
    started: Moment
    host: str
    booted: Moment
    attempt: Attempt = 1

    @classmethod
    def of(cls, pid: int, attempt: int = 1) -> "KeeperRecord":
        """Returns the record of a process of this computer.

        Raises:
            psutil.Error: There is no such process.
        """
        return cls(
            pid=pid,
            started=psutil.Process(pid).create_time(),
            host=platform.node(),
            booted=psutil.boot_time(),
            attempt=attempt,
        )

    @property
    def is_of_this_boot(self) -> bool:
        return abs(self.booted - float(psutil.boot_time())) < BOOT_SECONDS

    @property
    def is_here(self) -> bool:
        """Whether it was started on this computer: by its name, or (a Mac's name follows its network) its boot."""
        return self.host == platform.node() or self.is_of_this_boot

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs on this computer (process numbers are reused)."""
        return self.is_here and is_same_process(self.pid, self.started, self.booted)


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how the engine of `attempt` ended.

    `code` is its exit status; `signal` the name of the signal that ended it (POSIX). `reason` is a sentence, `log_tail`
    the last lines it printed. `out_of_memory`: the operating system ended it for lack of memory. If the engine was
    never started (the run left the queue), `code` is None and `before` is the record of the last one that was.
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
        """The record of the last engine that was started."""
        return self if self.code is not None else self.before


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """`connection.json` of a run that trains on another computer; its other files are copies of those there.

    `others` train with it. `folder` is the run's name there, empty before it was sent, `attempt` the newest attempt
    begun there; `heard` is when that computer last answered (unix seconds, 0: never). While not `connected`, `problem`
    says why in plain words. `doing` is what goes on apart from training, such as what is being sent. `clock` is by how
    many seconds this computer's clock is ahead of that one's. `over`: the run has ended there and nothing more comes,
    or it was given up here. `kept` are files here that held something else than those there, and were set aside.
    """

    computer: str
    others: tuple[str, ...] = ()
    folder: str = ""
    attempt: Attempt = 0
    connected: bool = False
    heard: Moment = 0.0
    problem: str = ""
    doing: str = ""
    clock: float = 0.0
    over: bool = False
    kept: tuple[str, ...] = ()

    @property
    def is_given_up(self) -> bool:
        """Whether the run was ended here while it was out of reach: it may still train there."""
        return self.over and not self.connected and self.attempt > 0


class Rendezvous(msgspec.Struct, frozen=True, kw_only=True):
    """`rendezvous.json` on each computer of a run on several: where they meet, and which of them this is.

    `names` are the computers, in the order of their ranks; the first one's writes events and checkpoints. `host` and
    `port` are where it listens, as the others reach it. `id` is that of this attempt: what is left of another one that
    comes to the same port is not let in.
    """

    rank: int
    names: tuple[str, ...]
    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    id: str


def is_same_process(pid: int, started: float, booted: float | None = None) -> bool:
    """Returns whether process `pid` lives, isn't a zombie, and is the one that started at `started` (unix seconds).

    Linux counts a process's start from the boot, so that setting the clock moves both; elsewhere it stays. `booted` is
    the boot as recorded with `started`; None: the clock was not set since.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        created = float(process.create_time())
    except psutil.Error:
        return False
    if abs(created - started) < 1.0:
        return True
    return booted is not None and abs(created - clock_moved(booted) - started) < SINCE_BOOT_SECONDS


def clock_moved(booted: float) -> float:
    """Returns the seconds by which the clock was set forward since it had the boot at `booted`."""
    moved = float(psutil.boot_time()) - booted
    return moved if abs(moved) >= 1.0 else 0.0


# --- The folder


class _Entry:
    """A path inside the folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "RunFolder", owner: type) -> Path:
        return run.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Making this object touches nothing on disk."""

    path: Path

    options_file = _Entry("run.toml")
    forecast_file = _Entry("forecast.json")
    events_file = _Entry("events.jsonl")
    machine_file = _Entry("machine.jsonl")
    log_file = _Entry("log.txt")
    checkpoints = _Entry("checkpoints")
    validation_file = _Entry("validation.json")
    model = _Entry("model")
    tensorboard = _Entry("tensorboard")
    requests = _Entry("requests")
    keeper_file = _Entry("keeper.json")
    exit_file = _Entry("exit.json")
    rendezvous_file = _Entry("rendezvous.json")
    connection_file = _Entry("connection.json")
    spare_file = _Entry(".spare")

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_removed(self) -> bool:
        """Whether the run is deleted, or being deleted: none of the files that every run has exists.

        Keeper and engine work in the folder by a relative path: for them it still exists if it was renamed or moved.
        """
        return all(map(_is_gone, (self.options_file, self.keeper_file, self.exit_file)))

    def options(self) -> RunOptions:
        """Returns the options in `run.toml`. Data and model are not checked: they may be gone, or on a dead disk.

        Raises:
            OptionsError: `run.toml` is missing or damaged.
        """
        options, problems = read_options(run_file.read_tree(self.options_file))
        if options is None:
            raise OptionsError(problems, str(self.options_file))
        return options

    def readable_options(self) -> RunOptions | None:
        """Returns the options; None if they can't be read."""
        try:
            return self.options()
        except OptionsError:
            return None

    def forecast(self) -> Forecast | None:
        """Returns the memory forecast or measurement made before the start."""
        return read_record(self.forecast_file, Forecast)

    def validation(self) -> Validation | None:
        """Returns examples of a classifier's newest evaluation."""
        return read_record(self.validation_file, Validation)

    def rendezvous(self) -> Rendezvous | None:
        """Returns where the computers of a run on several meet; None for a run on one."""
        return read_record(self.rendezvous_file, Rendezvous)

    def exit_record(self) -> ExitRecord | None:
        """Returns how the engine of the newest attempt ended; None while it runs, or if that was never written."""
        record = self.last_exit_record()
        return None if record is None or record.attempt < self.attempt_kept() else record

    def last_exit_record(self) -> ExitRecord | None:
        """Returns the same, even if another attempt has begun since."""
        return read_record(self.exit_file, ExitRecord)

    def record_exit(self, record: ExitRecord) -> None:
        write_atomically(self.exit_file, msgspec.json.encode(record))

    def keeper_record(self) -> KeeperRecord | None:
        return read_record(self.keeper_file, KeeperRecord)

    def attempt_kept(self) -> int:
        """Returns the number of the newest attempt by `keeper.json`; 0 if there was none."""
        record = self.keeper_record()
        return 0 if record is None else record.attempt

    def record_keeper(self, pid: int, attempt: int = 1) -> None:
        """Records the keeper's process. From now on the run's state is that of this attempt.

        Raises:
            OSError: It can't be written.
            psutil.Error: There is no such process (any more).
        """
        write_atomically(self.keeper_file, msgspec.json.encode(KeeperRecord.of(pid, attempt)))

    def connection(self) -> Connection | None:
        """Returns the link to the computer that the run trains on; None for a run of this one."""
        return read_record(self.connection_file, Connection)

    def record_connection(self, connection: Connection) -> None:
        write_atomically(self.connection_file, msgspec.json.encode(connection))

    def is_own(self, connection: Connection) -> bool:
        """Returns whether this Hone has started the run on the other computer, from this very folder."""
        return elsewhere.is_own(self.path, connection.computer, connection.folder)

    def goes_on_elsewhere(self) -> bool:
        """Returns whether this Hone began the newest attempt on another computer, and knows of no end yet."""
        connection = self.connection()
        return (
            connection is not None
            and not connection.over
            and connection.attempt >= max(1, self.attempt_kept())
            and self.exit_record() is None
            and self.is_own(connection)
        )

    def keeper_is_alive(self) -> bool:
        record = self.keeper_record()
        return record is not None and record.is_alive

    def clock_moved(self) -> float:
        """Returns by how many seconds the clock was set forward since the keeper started, or is ahead of the run's."""
        if (connection := self.connection()) is not None:
            return connection.clock
        record = self.keeper_record()
        return clock_moved(record.booted) if record is not None and record.is_here else 0.0

    def is_worked_on(self) -> bool:
        """Returns whether a keeper or an engine (which may have lost its keeper) works on the run on this computer."""
        return self.keeper_is_alive() or is_locked(self.path, ENGINE_LOCK)

    def is_alive(self) -> bool:
        """Returns whether a process works on the run; on another computer (a shared folder), by the files.

        A run that this Hone began elsewhere goes on there, whether or not its keeper here follows it.
        """
        if self.goes_on_elsewhere():
            return True
        record = self.keeper_record()
        if record is None:
            return abs(time.time() - changed_at(self.options_file) / 1e9) < STARTING_SECONDS
        if record.is_here:
            return self.is_worked_on()
        newest = max(map(changed_at, (self.events_file, self.machine_file, self.keeper_file)))
        return time.time() - newest / 1e9 < SILENCE_SECONDS

    def state(self, status: RunStatus) -> State:
        """Returns the state of the run by its events, exit record, requests and processes."""
        has_ended = self.exit_record() is not None
        return status.state(
            engine_ended=has_ended,
            keeper_alive=not has_ended and self.is_alive(),
            requested=self.requested(),
            attempt=self.attempt_kept(),
        )

    def request(self, action: Action) -> Request:
        """Writes a request.

        Raises:
            OSError: It can't be written, or would be written elsewhere: an untrusted folder may hold links.
        """
        if is_link(self.requests):
            raise OSError(errno.ELOOP, _("It is a link, which leads elsewhere"), str(self.requests))
        request = Request(id=uuid.uuid4().hex, action=action)
        self.requests.mkdir(exist_ok=True)
        write_atomically(self.requests / f"{request.id}.json", msgspec.json.encode(request))
        return request

    def open_requests(self, *, clean: bool = False) -> list[Request]:
        """Returns unanswered requests, oldest first; `clean` deletes files that are no requests."""
        found: list[tuple[float, Request]] = []
        with contextlib.suppress(OSError):  # a folder that can't be read
            for path in self.requests.glob("*.json"):
                with contextlib.suppress(OSError):  # just answered, or it can't be removed: a folder
                    request = None
                    try:
                        requested_at, request = path.stat().st_mtime, _read_request(path)
                    except OSError as error:
                        if error.errno not in _NOT_A_REQUEST:  # a disk that doesn't answer for a moment
                            continue
                    if request is not None:
                        found.append((requested_at, request))
                    elif clean:
                        path.unlink(missing_ok=True)
        return [request for _rest, request in sorted(found, key=lambda pair: pair[0])]

    def close_request(self, request: Request) -> None:
        remove(self.requests / f"{request.id}.json")

    def requested(self) -> frozenset[Action]:
        """Returns the actions of all requests that aren't answered yet."""
        return frozenset(request.action for request in self.open_requests())


def _read_request(path: Path) -> Request | None:
    """Returns the request in a file that bears its id.

    Raises:
        OSError: It can't be read.
    """
    try:
        request = msgspec.json.decode(read_small(path), type=Request)
    except (ValueError, RecursionError):
        return None
    return request if path.name == f"{request.id}.json" else None


def _is_gone(path: Path) -> bool:
    """Returns whether the file certainly doesn't exist; other errors of a disk may be temporary."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
