"""Follows a run that trains on another computer: what its keeper does here (docs/decisions/hosts.md).

The run's folder here is a copy of the one there: `events.jsonl`, `machine.jsonl` and `log.txt` byte for byte, as they
grow. Whatever happens to the connection, or to this process, ends nothing there, and a new keeper goes on here.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from core.base import formats
from core.base.errors import ComputerError, RunFolderError, UserError
from core.base.files import inside, is_link, read_record, write_atomically, written_whole
from core.base.language import _
from core.hosts import far
from core.hosts.computers import find
from core.hosts.link import Link
from core.hosts.several import BLAME_SECONDS, Others, ask_to_end, start_others
from core.options import run_file
from core.options.sources import ADAPTER
from core.runs import elsewhere, queue
from core.runs.event_log import EventWriter
from core.runs.events import RequestAnswered
from core.runs.folder import Action, Connection, ExitRecord, Request, RunFolder
from core.runs.models import MARKER, FileEntry
from core.runs.status import State

PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until the connection is tried again; the last one for ever."""

WAIT_SECONDS = 0.5
"""How long a question for news waits there for some; requests of the person wait as long."""

PACE_SECONDS = 0.1
TELL_SECONDS, HEARD_SECONDS = 0.5, 5.0
"""How often connection.json says how far something is, and when the computer was last heard."""

LOOK_SECONDS = 0.2
ARRIVING = ".arriving"
"""The folder of files that are being brought back; one of which a part is here goes on from there."""

PASSING = frozenset({"closed", "no-answer", "no-name", "no-server", "no-ssh", "failed"})
"""Errors of a computer that may be gone at the next attempt; with others a run isn't started."""


class _GivenUp(Exception):  # noqa: N818 - nothing is wrong
    """The run ends here: it can't be begun there, is gone there, or was ended by a request while out of reach."""

    def __init__(self, reason: str, request: Request | None = None) -> None:
        super().__init__(reason)
        self.request = request


class Mirror:
    """Follows one attempt of a run elsewhere, which it starts there unless that was done."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._options = run.options()
        self._attempt = run.attempt_kept()
        known = run.connection()
        assert known is not None, "it is written before the keeper is started"
        self._connection = msgspec.structs.replace(known, connected=False)
        self._stamps: dict[str, tuple[int, int]] = {}
        self._told, self._failures = 0.0, 0
        self._others, self._blamed = Others(self._options.device.computers[1:]), ""

    def keep(self) -> None:
        """Follow the run until it is over, through any number of connections; writes `exit.json` last of all."""
        try:
            self._wait_for_source()
            while not self._connection.over:
                try:
                    with Link(find(self._connection.computer)) as link:
                        self._heard(clock=round(link.clock, 1) if abs(link.clock) > 1.0 else 0.0)
                        if not self._has_begun:
                            self._begin(link)
                        self._others.watch(self._connection.folder)
                        ending = self._follow(link)
                    self._others.end()
                    if ending is None:
                        self._end(
                            _(
                                "On {name} it ended without a word: that computer was restarted or switched off."
                            ).format(name=self._connection.computer)
                        )
                    else:  # where another computer's failure ended it, that is the reason
                        reason = self._blamed or ending.reason
                        self._run.record_exit(msgspec.structs.replace(ending, reason=reason))
                    self._heard(doing="", over=True)
                except (UserError, OSError) as error:
                    is_passing = isinstance(error, OSError)
                    if isinstance(error, ComputerError):
                        is_passing = error.code in PASSING
                    if not is_passing and not self._has_begun:
                        raise _GivenUp(str(error)) from error
                    self._tell(connected=False, problem=str(error), doing="")
                    self._wait(PAUSES[min(self._failures, len(PAUSES) - 1)])
                    self._failures += 1
        except _GivenUp as end:
            self._others.end()
            self._give_up(str(end), end.request)

    @property
    def _has_begun(self) -> bool:
        """Whether this attempt was begun there."""
        return self._connection.attempt >= self._attempt

    def _tell(self, **changes: object) -> None:
        self._connection = msgspec.structs.replace(self._connection, **changes)
        self._told = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk costs the words, not the run
            self._run.record_connection(self._connection)

    def _heard(self, **changes: object) -> None:
        self._tell(connected=True, problem="", heard=time.time(), **changes)

    # --- Before it begins there, and while it is out of reach

    def _wait_for_source(self) -> None:
        """Wait until the run is over whose model this one starts from: it is sent."""
        source = queue.source_of(self._run)
        while not self._has_begun and (awaited := queue.ahead_of("", source)) and awaited.is_source:
            self._tell(doing=_("Waits for the model of “{run}”").format(run=awaited.title))
            self._wait(WAIT_SECONDS)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._look_for_end()
            time.sleep(LOOK_SECONDS)

    def _look_for_end(self) -> None:
        """While the run is out of reach, "End now" ends it here; before it has begun, stopping and pausing, too."""
        if self._run.is_removed:
            raise _GivenUp("")
        for request in self._run.open_requests(clean=True):
            if request.action is Action.KILL or (not self._has_begun and request.action is not Action.SAVE):
                reason = _("It was ended before it began on {name}.")
                if self._has_begun:
                    reason = _(
                        "It was ended here while {name} was out of reach. It may still train there; Resume follows it "
                        "again."
                    )
                raise _GivenUp(reason.format(name=self._connection.computer), request)

    def _give_up(self, reason: str, request: Request | None = None) -> None:
        if self._run.is_removed:
            return
        if request is not None and not self._has_begun:
            with contextlib.suppress(OSError):  # the next connection makes the file equal again
                writer = EventWriter(self._run.machine_file, attempt=self._attempt)
                writer.write(RequestAnswered(request=request.id, action=request.action, accepted=True))
                writer.close()
        if request is not None:
            self._run.close_request(request)
        self._end(reason)
        self._tell(connected=False, problem=reason, doing="", over=True)

    def _end(self, reason: str) -> None:
        last = self._run.last_exit_record()
        before = last.of_engine if last is not None else None
        record = ExitRecord(time=time.time(), code=None, reason=reason, attempt=self._attempt, before=before)
        self._run.record_exit(record)

    # --- Begin

    def _begin(self, link: Link) -> None:
        link.require_this_hone()
        forecast = self._run.forecast_file
        start = far.Start(
            run=self._connection.folder,
            attempt=self._attempt,
            options=run_file.dumps(link.send_sources(self._options, self._progress)),
            forecast=forecast.read_text("utf-8") if forecast.is_file() else "",
            goes_on=bool(self._connection.attempt),
        )
        attempt = link.ask(start_others(link, self._options, start, self._progress), int)
        if attempt != self._attempt:  # it went on there while it was given up here
            self._attempt = attempt
            self._run.record_keeper(os.getpid(), attempt)
        self._heard(doing="", attempt=attempt)

    def _progress(self, what: str, done: int, total: int) -> None:
        self._look_for_end()
        if time.monotonic() - self._told >= TELL_SECONDS:
            amount = _("{done} of {total}").format(done=formats.memory(done), total=formats.memory(total))
            self._heard(doing=f"{what}: {amount}")

    # --- Follow

    def _follow(self, link: Link) -> ExitRecord | None:
        """Copy what is new until the run is over and all of it is here; returns how it ended, if that is known."""
        self._verify(link)
        name, blame_at = self._connection.folder, 0.0
        while True:
            begun = time.monotonic()
            answered = [
                request
                for request in self._run.open_requests(clean=True)
                if link.ask(far.Forward(run=name, request=request), bool)
            ]
            news = self._copy_news(link)
            for request in answered:
                self._run.close_request(request)
            if self._run.is_removed:
                link.ask(
                    far.Forward(run=name, request=Request(id=uuid.uuid4().hex, action=Action.KILL)), bool
                )
                raise _GivenUp("")
            if self._others.problem and not self._blamed:
                blame_at = blame_at or time.monotonic() + BLAME_SECONDS
                if time.monotonic() > blame_at:  # it waits for one that never came
                    self._blamed = self._others.problem
                    ask_to_end(link, name)
            if news.is_gone:
                raise _GivenUp(_("Its folder on {name} is gone.").format(name=self._connection.computer))
            if not news.pieces and (news.has_ended or not news.is_alive):
                self._verify(link)
                if news.state is not State.PAUSED:
                    self._bring_results(link)
                if not news.has_ended:
                    return None
                return link.record(name, self._run.exit_file.name, ExitRecord)
            if time.monotonic() - self._told >= HEARD_SECONDS:
                self._heard()
            time.sleep(max(0.0, begun + PACE_SECONDS - time.monotonic()))

    def _verify(self, link: Link) -> None:
        """Make sure that the files there begin with what is here; one that doesn't is copied as a whole."""
        sizes = {name: far.size_of(self._run.path / name) for name in far.STREAMS}
        there = link.ask(far.Hashes(run=self._connection.folder, sizes=sizes), dict[str, str])
        for name, size in sizes.items():
            if size and there and there.get(name) != far.hash_of(self._run.path / name, size):
                self._copy_whole(link, name)

    def _copy_whole(self, link: Link, name: str) -> None:
        with written_whole(self._run.path / name) as temporary:
            link.ask(far.Get(run=self._connection.folder, path=name))
            content = b"".join(link.blocks())
            temporary.write_bytes(content[: content.rfind(b"\n") + 1] if name.endswith(".jsonl") else content)

    def _copy_news(self, link: Link) -> far.Watched:
        sizes = {name: far.size_of(self._run.path / name) for name in far.STREAMS}
        asked = far.Watch(run=self._connection.folder, sizes=sizes, stamps=self._stamps, wait=WAIT_SECONDS)
        news: far.Watched = link.ask(asked, far.Watched)
        for piece in news.pieces:
            content = link.read(piece.size)
            if piece.stamp is not None:
                path = self._own(piece.name, self._run.validation_file.name, "examples")
                path.parent.mkdir(exist_ok=True)
                write_atomically(path, content)
                self._stamps[piece.name] = piece.stamp
            elif piece.name in sizes:
                with (self._run.path / piece.name).open("ab") as file:
                    file.write(content)
        self._failures = 0
        for name in () if news.is_gone else set(news.shrunk) & set(sizes):
            self._copy_whole(link, name)
        return news

    def _own(self, name: str, *parts: str) -> Path:
        """The path here of a file that the other computer names: one of these files of a run, or in these folders."""
        if name.partition("/")[0] not in parts:
            raise UserError(
                _("{name} sent a file that no run has").format(name=self._connection.computer), name
            )
        return inside(self._run.path, name)

    # --- The end

    def _bring_results(self, link: Link) -> None:
        """Bring the model back, or the checkpoint that is newer; what is here already isn't fetched again."""
        listed = link.ask(far.Results(run=self._connection.folder), dict[str, tuple[int, str]])
        arriving = self._run.path / ARRIVING
        results = (self._run.model, self._run.checkpoints, self._run.tensorboard)
        lacking = {
            name: entry
            for name, entry in listed.items()
            if far.hash_of(self._own(name, *(folder.name for folder in results))) != entry[1]
        }
        total, done = sum(size for size, _digest in lacking.values()), 0
        for name, (size, digest) in lacking.items():
            part = inside(arriving, name)
            part.parent.mkdir(parents=True, exist_ok=True)
            here = far.size_of(part)
            link.ask(far.Get(run=self._connection.folder, path=name, offset=min(here, size)))
            with part.open("ab") as file:
                done += here
                for block in link.blocks():
                    file.write(block)
                    done += len(block)
                    self._progress(_("Bringing back {name}").format(name=name), done, total)
            if far.hash_of(part) != digest:
                part.unlink()
                raise UserError(_("{name} was damaged on its way here").format(name=name))
        for path in self._run.model.rglob("*"):  # of an earlier attempt
            if path.is_file() and path.relative_to(self._run.path).as_posix() not in listed:
                path.unlink()
        for name in sorted(lacking, key=lambda one: one.endswith(MARKER)):
            path = inside(self._run.path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            inside(arriving, name).replace(path)
        for name in listed:  # also one that a keeper moved before it was killed
            if name.endswith(f"/{ADAPTER}"):
                self._name_base_model(inside(self._run.path, name))
        shutil.rmtree(arriving, ignore_errors=True)

    def _name_base_model(self, adapter: Path) -> None:
        """Let an adapter name its base model as it is called here: what is called so there may be anything here."""
        config = read_record(adapter, dict[str, Any])
        beside = adapter.with_name("base").absolute()
        source = str(beside) if beside.is_dir() else self._options.model.source
        if config is None or config.get("base_model_name_or_path") == source:
            return
        content = json.dumps(config | {"base_model_name_or_path": source}, indent=2).encode()
        write_atomically(adapter, content)
        entries = read_record(adapter.with_name(MARKER), dict[str, FileEntry])
        if entries is not None:
            entries[adapter.name] = FileEntry(len(content), hashlib.sha256(content).hexdigest())
            write_atomically(adapter.with_name(MARKER), msgspec.json.encode(entries))


def removal_there(run: RunFolder) -> Callable[[], str]:
    """What deletes a run on the computers it trained on, once it is deleted here; it returns what stays there, and why.

    What a copy, a link or a stranger's folder names stays: it belongs to another folder here, or to somebody else.
    """
    connection = run.connection()
    if connection is None or not connection.folder:
        return lambda: ""
    return partial(_remove_there, connection, is_own=run.is_own(connection) and not is_link(run.path))


def _remove_there(connection: Connection, *, is_own: bool) -> str:
    problems = []
    for name in (connection.computer, *connection.others):
        try:
            if not is_own:
                raise RunFolderError(
                    _("the folder deleted here was not the one that the run was started from")
                )
            with Link(find(name)) as link:
                link.ask(far.Remove(run=connection.folder))
        except UserError as error:
            stays = _("Its folder {folder} on {name} stays there: {reason}")
            problems.append(stays.format(folder=connection.folder, name=name, reason=error))
    if is_own:
        with contextlib.suppress(OSError):  # of a full disk; no folder has that number and name any more
            elsewhere.release(connection.computer, connection.folder)
    return "\n".join(problems)
