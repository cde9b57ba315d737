"""A run as a folder: create, list, read, follow, and tell what state it is in.

Layout (everything readable without Hone)::

    run.toml        what was asked
    events.jsonl    what happened        (written by the engine)
    machine.jsonl   what the machine did (written by the keeper)
    log.txt         what was printed
    checkpoints/    checkpoint-STEP/, complete ones only
    model/          the trained model
    requests/       stop and kill requests, one small file each
    keeper.json     which process keeps the run
    exit.json       how the engine ended, written last
"""

import contextlib
import platform
import re
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from core import run_file
from core.checks import check_tree
from core.errors import OptionsError, Problem, RunFolderError
from core.events import EventReader
from core.options import RunOptions
from core.run_file import write_atomically
from core.story import RunStory, State

Record = TypeVar("Record")


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
    `log_tail` the last lines it printed.
    """

    time: float
    code: int | None
    signal: str | None = None
    reason: str = ""
    log_tail: str = ""


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run."""

    path: Path

    @property
    def id(self) -> str:
        """The folder's name, unique among the runs beside it."""
        return self.path.name

    @property
    def options_file(self) -> Path:
        """What was asked."""
        return self.path / "run.toml"

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
        """Read what was asked.

        Raises:
            OptionsError: `run.toml` is missing or damaged. (Data that has gone since is no problem here.)
        """
        tree = run_file.read_tree(self.options_file)
        options, problems = check_tree(tree)
        if options is None:
            raise OptionsError(problems, str(self.options_file))
        return options

    def exit_record(self) -> ExitRecord | None:
        """How the engine ended; None while it runs or where that was never written."""
        return _read_record(self.exit_file, ExitRecord)

    def keeper_record(self) -> KeeperRecord | None:
        """Which process keeps the run."""
        return _read_record(self.keeper_file, KeeperRecord)

    def record_keeper(self, pid: int) -> None:
        """Write down which process keeps the run from now on."""
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
        if record is None or record.host != platform.node():
            return False
        return is_same_process(record.pid, record.started)

    def ask(self, action: Action) -> Request:
        """Leave a request for the engine (stop) or the keeper (kill)."""
        request = Request(id=uuid.uuid4().hex, action=action)
        self.requests.mkdir(exist_ok=True)
        write_atomically(self.requests / f"{request.id}.json", msgspec.json.encode(request))
        return request

    def open_requests(self) -> list[Request]:
        """Requests nobody has answered yet, oldest first."""
        if not self.requests.is_dir():
            return []
        found: list[tuple[float, Request]] = []
        for path in self.requests.glob("*.json"):
            request = _read_record(path, Request)
            if request is not None:
                with contextlib.suppress(OSError):
                    found.append((path.stat().st_mtime, request))
        return [request for _, request in sorted(found, key=lambda pair: pair[0])]

    def state(self, story: RunStory) -> State:
        """Where the run stands, from its events, how its engine ended, its requests and whether its keeper lives."""
        exit_record = self.exit_record()
        return story.state(
            engine_ended=exit_record is not None,
            keeper_alive=exit_record is None and (self.keeper_record() is None or self.keeper_is_alive()),
            stop_asked=any(request.action is Action.STOP for request in self.open_requests()),
        )

    def close_request(self, request: Request) -> None:
        """Take an answered request away."""
        (self.requests / f"{request.id}.json").unlink(missing_ok=True)


def _read_record(path: Path, struct: type[Record]) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=struct)
    except (OSError, msgspec.MsgspecError):
        return None


def is_same_process(pid: int, started: float) -> bool:
    """Whether process `pid` lives and is the one that started at `started` (unix seconds)."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def create(options: RunOptions, runs_folder: Path, path: Path | None = None) -> RunFolder:
    """Make the folder of a new run and write what was asked into it.

    Args:
        options: What is asked.
        runs_folder: Where the folder goes, under a name made from the run's name and the date.
        path: The folder itself, instead; it must be empty or absent.

    Raises:
        OptionsError: `path` holds something already.
        RunFolderError: The folder can't be made.
    """
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise OptionsError((Problem("", f"{path} is not empty; name a new folder"),), "The run folder")
    try:
        folder = RunFolder(_make_folder(path or runs_folder / folder_name(options)))
        run_file.write(options, folder.options_file)
    except OSError as error:
        raise RunFolderError(
            "The run's folder can't be made", f"{error.filename}: {error.strerror}"
        ) from error
    return folder


def _make_folder(wanted: Path) -> Path:
    """Make `wanted`, or `wanted-2`, `wanted-3`, … where other runs have taken the name."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    candidate, number = wanted, 1
    while True:
        try:
            candidate.mkdir()
        except FileExistsError:
            if candidate.is_dir() and not any(candidate.iterdir()):
                return candidate
            number += 1
            candidate = wanted.with_name(f"{wanted.name}-{number}")
        else:
            return candidate


def title_of(options: RunOptions) -> str:
    """What a run is called: its name, or model and data."""
    if options.output.name:
        return options.output.name
    model = options.model.source.partition(":")[2] or Path(options.model.source).name
    return f"{model} on {Path(options.data.train).name.partition(':')[2] or Path(options.data.train).stem}"


def folder_name(options: RunOptions) -> str:
    """A folder name that sorts by date and is safe on every operating system."""
    slug = re.sub(r"[^a-z0-9]+", "-", title_of(options).lower()).strip("-")[:48]
    return f"{time.strftime('%Y-%m-%d-%H%M')}-{slug or 'run'}"


def list_runs(runs_folder: Path) -> list[RunFolder]:
    """All runs in a folder, newest first."""
    if not runs_folder.is_dir():
        return []
    found = [RunFolder(path) for path in runs_folder.iterdir() if (path / "run.toml").is_file()]
    return sorted(found, key=lambda run: run.options_file.stat().st_mtime, reverse=True)


def read_story(run: RunFolder) -> RunStory:
    """Fold all of a run's events and machine samples."""
    story = RunStory()
    for path in (run.events_file, run.machine_file):
        for event in EventReader(path).read_all():
            story.apply(event)
    return story
