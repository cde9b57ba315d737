"""Exporting in processes of its own: into a folder beside the target, renamed once all of it is there and checked."""

import glob
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from core import hub, settings
from core.errors import OptionsError, Problem, UserError
from core.export_offers import base_name, default_pushed, find_source, is_on_hub, refusal
from core.export_room import bytes_of
from core.exporting import EXPORTS, ExportKind, ExportReport, ExportRequest, NumberFormat, Pushed, PushRequest
from core.figures import size as size_words
from core.hub_questions import Account, AccountAction, AccountRequest, TokenPlace
from core.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.run_folder import RunFolder

UNFINISHED = "exporting"
"""The end of the names of folders that an export is still writing."""

NO_TOKEN = (
    "Make one with leave to write at huggingface.co/settings/tokens, and give it to Hone in Settings, under “Hugging "
    "Face Hub”, or in a terminal: hone hub sign-in"
)

MakeJob = Callable[[str], EngineJob]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for.

    Attributes:
        run: The run's folder.
        kind: What its model becomes.
        folder: Where it goes: new or empty. For the Hub, nowhere: empty.
        repo: `owner/name`, for the Hub.
        private: Whether only its owner sees the new repository.
        pushed: For the Hub, what is sent; None: the adapter where its base is on the Hub, else the whole model.
        numbers: What the weights are written in.
        checkpoint: The name of a checkpoint in the trained model's place; empty: none.
    """

    run: str
    kind: ExportKind
    folder: str = ""
    repo: str = ""
    private: bool = True
    pushed: ExportKind | None = None
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class Export:
    """One export; `run` waits for it, `kill` ends it from another thread. It can be run once.

    Args:
        wanted: What is asked.
        make: Starts an engine job by its name.
    """

    def __init__(self, wanted: Wanted, make: MakeJob = EngineJob) -> None:
        self._wanted, self._make = wanted, make
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._is_killed = False

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export, waiting until it is done; whatever ends it before leaves nothing behind.

        Args:
            tell: Hears how far it is.

        Raises:
            OptionsError: The target isn't new or empty, or the repository has no name.
            UserError: The model can't be exported so, the disk is full, or the export doesn't answer as the model does.
            EngineCrashed: The engine ended without an answer.
            JobCancelled: `kill` was called.
        """
        kind = self._check()
        if self._wanted.kind is ExportKind.HUB:
            self._check_token()
        target = self._target()
        _check_room(bytes_of(self._source, kind, self._wanted.numbers), target)
        staging = _make_staging(target)
        try:
            report = self._write(kind, staging, target, tell)
            if self._wanted.kind is ExportKind.HUB:
                return self._push(staging, report, tell)
            _put(staging, target)
            return report
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def kill(self) -> None:
        """End it at once, also before it has begun."""
        with self._lock:
            self._is_killed = True
            if self._job is not None:
                self._job.kill()

    def _check(self) -> ExportKind:
        """What is to be written, once nothing speaks against it."""
        wanted = self._wanted
        source = find_source(RunFolder(Path(wanted.run)), wanted.checkpoint)
        kind = wanted.kind
        if kind is ExportKind.HUB:
            _check_repo(wanted.repo)
            kind = wanted.pushed or default_pushed(source)
        for asked in dict.fromkeys((wanted.kind, kind)):
            if why := refusal(source, asked):
                raise UserError(f"{source.run.name} can't be exported as “{EXPORTS[asked][0]}”", why)
        if (
            wanted.kind is ExportKind.HUB
            and kind is ExportKind.ADAPTER
            and not is_on_hub(base_name(source.folder))
        ):
            raise UserError(
                "An adapter alone would be of no use on the Hub",
                f"What it was trained beside, {base_name(source.folder)}, is not there. Send the merged model.",
            )
        self._source = source
        return kind

    def _check_token(self) -> None:
        """Stop before minutes of work where nothing could be sent."""
        look = msgspec.json.encode(AccountRequest(action=AccountAction.LOOK))
        found = decoded("hub-account", self._ask("hub-account", look, None), Account)
        if found.place is TokenPlace.NOWHERE:
            raise UserError(f"Sending to {hub.host()} takes a token", NO_TOKEN)

    def _target(self) -> Path:
        """The folder it is to become; for the Hub one that nobody keeps.

        Raises:
            OptionsError: It holds something already.
        """
        if self._wanted.kind is ExportKind.HUB:
            return settings.home() / "cache" / "exports" / self._wanted.repo.replace("/", "--")
        target = Path(self._wanted.folder).expanduser().absolute()
        is_free = not any(target.iterdir()) if target.is_dir() else not target.exists()
        if not self._wanted.folder or not is_free:
            said = f"{target} is not empty; name a new folder" if self._wanted.folder else "name a folder"
            raise OptionsError((Problem("", said),), "The export")
        return target

    def _write(
        self, kind: ExportKind, staging: Path, target: Path, tell: TellProgress | None
    ) -> ExportReport:
        request = ExportRequest(
            run=str(Path(self._wanted.run).absolute()),
            kind=kind,
            staging=str(staging),
            target=str(target),
            numbers=self._wanted.numbers,
            checkpoint=self._wanted.checkpoint,
        )
        report = decoded("export", self._ask("export", msgspec.json.encode(request), tell), ExportReport)
        return msgspec.structs.replace(report, path=str(target))

    def _push(self, staging: Path, report: ExportReport, tell: TellProgress | None) -> ExportReport:
        request = PushRequest(folder=str(staging), repo=self._wanted.repo, private=self._wanted.private)
        pushed = decoded("export-push", self._ask("export-push", msgspec.json.encode(request), tell), Pushed)
        return msgspec.structs.replace(report, path=pushed.url)

    def _ask(self, job: str, request: bytes, tell: TellProgress | None) -> bytes:
        with self._lock:
            if self._is_killed:
                raise JobCancelled(job)
            self._job = self._make(job)
        return self._job.ask(request, tell=tell)


def _check_repo(repo: str) -> None:
    if hub.is_name(repo) and "/" in repo:
        return
    said = "name the repository as OWNER/NAME: letters, digits, “-”, “_” and “.”"
    raise OptionsError((Problem("repo", said),), "The export")


def _check_room(needed: int, target: Path) -> None:
    """Stop before anything is written where the disk can't hold it.

    Raises:
        UserError: It can't.
    """
    place = next(path for path in (target, *target.parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            "There is too little room on the disk",
            f"The export takes about {size_words(needed)}, and {size_words(free)} are free at {place}.",
        )


def _make_staging(target: Path) -> Path:
    """A new folder beside the target; those that processes left which are gone are taken away.

    Raises:
        UserError: It can't be made.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.{UNFINISHED}"):
            maker = path.name.split(".")[-2]
            if not (maker.isdecimal() and psutil.pid_exists(int(maker))):
                shutil.rmtree(path, ignore_errors=True)
        staging = target.with_name(f".{target.name}.{os.getpid()}.{UNFINISHED}")
        staging.mkdir()
    except OSError as error:
        raise UserError("The export's folder can't be made", f"{error.filename}: {error.strerror}") from error
    return staging


def _put(staging: Path, target: Path) -> None:
    """Give the finished folder its name.

    Raises:
        UserError: Somebody has put something there meanwhile.
    """
    try:
        if target.is_dir():
            target.rmdir()  # an empty one, which Windows doesn't replace
        staging.rename(target)
    except OSError as error:
        raise UserError("The export can't be put in its place", f"{target}: {error.strerror}") from error
