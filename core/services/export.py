"""Exports a model: in an engine process, into a folder beside the target."""

import glob
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from core.base import settings
from core.base.errors import OptionsError, Problem, UserError, why
from core.base.formats import memory
from core.base.jobs import EngineJob, JobCancelled, Killable, TellProgress, decoded
from core.base.language import _
from core.base.llama_cpp import Hold
from core.jobs.export import (
    ExportKind,
    ExportReport,
    ExportRequest,
    NumberFormat,
    Pushed,
    PushRequest,
)
from core.jobs.hub import NO_TOKEN, Account, AccountAction, AccountRequest, TokenPlace
from core.options import hub
from core.runs.export_source import ExportSource, base_name, find_source, is_on_hub
from core.runs.folder import RunFolder
from core.services.offers import EXPORTS, bytes_of, default_pushed, numbers_refusal, refusal

UNFINISHED = "exporting"
"""End of the names of unfinished exports' folders."""


MakeJob = Callable[[str], EngineJob]
Answer = TypeVar("Answer")


Process = TypeVar("Process", bound=Killable)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A requested export.

    `folder` is new or empty, or "" for the Hub; `repo` (`owner/name`), `private` and `pushed` (the kind of export that
    is sent, None: see `default_pushed`) are for the Hub. `checkpoint` is as in `ExportRequest`.
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
    """One export; `run` waits for it, `kill` ends it from another thread."""

    def __init__(self, wanted: Wanted, make: MakeJob = EngineJob) -> None:
        self._wanted, self._make = wanted, make
        self._lock = threading.Lock()
        self._process: Killable | None = None
        self._is_killed = False

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Exports, leaving nothing behind on failure.

        Raises:
            OptionsError: The target isn't new or empty, or the repository's name is invalid.
            UserError: The model can't be exported so, the disk is full, or the export doesn't answer as the model does.
            EngineCrashed: The engine ended without an answer.
            JobCancelled: `kill` was called.
        """
        wanted, to_hub = self._wanted, self._wanted.kind is ExportKind.HUB
        source = find_source(RunFolder(Path(wanted.run)), wanted.checkpoint)
        try:
            kind = _written_kind(wanted, source, self._hold)
        except UserError:
            if self._is_killed:  # with it llama.cpp's converter, of which nothing is known then
                raise JobCancelled("export") from None
            raise
        if to_hub:
            look = AccountRequest(action=AccountAction.LOOK)
            if self._ask("hub-account", look, Account, None).place is TokenPlace.NOWHERE:
                raise UserError(_("Sending to {host} needs a token").format(host=hub.host()), NO_TOKEN)
        target = _target(wanted)
        _check_disk(bytes_of(source, kind, wanted.numbers), target)
        staging = _make_staging(target)
        try:
            request = ExportRequest(
                run=str(Path(wanted.run).absolute()),
                kind=kind,
                staging=str(staging),
                target=str(target),
                repo=wanted.repo,
                numbers=wanted.numbers,
                checkpoint=wanted.checkpoint,
            )
            report = self._ask("export", request, ExportReport, tell)
            if to_hub:
                push = PushRequest(folder=str(staging), repo=wanted.repo, private=wanted.private)
                return msgspec.structs.replace(report, path=self._ask("export-push", push, Pushed, tell).url)
            try:
                if target.is_dir():
                    target.rmdir()  # an empty folder, which Windows doesn't replace
                staging.rename(target)
            except OSError as error:
                title = _("The export can't be moved to its folder")
                raise UserError(title, f"{target}: {why(error)}") from error
            return msgspec.structs.replace(report, path=str(target))
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def kill(self) -> None:
        """Ends the export at once, also before it has begun."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def _ask(
        self, job: str, request: msgspec.Struct, kind: type[Answer], tell: TellProgress | None
    ) -> Answer:
        asked = self._hold(lambda: self._make(job))
        return decoded(job, asked.ask(msgspec.json.encode(request), tell=tell), kind)

    def _hold(self, start: Callable[[], Process]) -> Process:
        """Starts a process that `kill` ends."""
        with self._lock:
            if self._is_killed:
                raise JobCancelled("export")
            process = self._process = start()
        return process


def _written_kind(wanted: Wanted, source: ExportSource, hold: Hold) -> ExportKind:
    """Returns the kind that the engine writes; raises if it is refused."""
    kind = wanted.kind
    if wanted.kind is ExportKind.HUB:
        if not (hub.is_name(wanted.repo) and "/" in wanted.repo):
            message = _("name the repository as OWNER/NAME: letters, digits, “-”, “_” and “.”")
            raise OptionsError((Problem("repo", message),), _("The export"))
        kind = wanted.pushed or default_pushed(source)
    for each in dict.fromkeys((wanted.kind, kind)):
        if reason := refusal(source, each, hold):
            title = _("{name} can't be exported as “{kind}”")
            raise UserError(title.format(name=source.run.name, kind=EXPORTS[each][0]), reason)
    if reason := numbers_refusal(kind, wanted.numbers):
        raise UserError(_("The weights can't be {numbers}").format(numbers=wanted.numbers), reason)
    base = base_name(source.folder)
    if wanted.kind is ExportKind.HUB and kind.is_adapter and not is_on_hub(base):
        raise UserError(
            _("An adapter alone would be of no use on the Hub"),
            _("Its base model, {base}, is not there. Send the merged model.").format(base=base),
        )
    return kind


def _target(wanted: Wanted) -> Path:
    """Returns the folder of the export; a temporary one for the Hub. Raises OptionsError if it isn't new or empty."""
    if wanted.kind is ExportKind.HUB:
        return settings.home() / "cache" / "exports" / wanted.repo.replace("/", "--")
    target = Path(wanted.folder).expanduser().absolute()
    is_free = not any(target.iterdir()) if target.is_dir() else not target.exists()
    if wanted.folder and is_free:
        return target
    message = _("{target} exists already; name a new folder") if wanted.folder else _("name a folder")
    raise OptionsError((Problem("", message.format(target=target)),), _("The export"))


def _check_disk(needed: int, target: Path) -> None:
    place = next(path for path in (target, *target.parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        detail = _("The export takes about {needed}, and {free} are free at {place}.").format(
            needed=memory(needed), free=memory(free), place=place
        )
        raise UserError(_("Not enough space on the disk"), detail)


def _make_staging(target: Path) -> Path:
    """Returns a new folder beside the target; those of processes that no longer exist are deleted."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.{UNFINISHED}"):
            pid = path.name.split(".")[-2]
            if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
                shutil.rmtree(path, ignore_errors=True)
        staging = target.with_name(f".{target.name}.{os.getpid()}.{UNFINISHED}")
        staging.mkdir()
    except OSError as error:
        title = _("The folder of the export can't be created")
        raise UserError(title, f"{error.filename}: {why(error)}") from error
    return staging
