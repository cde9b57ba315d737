"""Follows a run that trains on another computer: what its keeper does here (docs/decisions/hosts.md).

The run's folder here is a copy of the one there: `events.jsonl`, `machine.jsonl` and `log.txt` byte for byte, as they
grow. Whatever happens to the connection, or to this process, ends nothing there, and a new keeper goes on here. What
is here is never lost to what comes from there, which may be damaged, or somebody's lie.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from core.base import formats
from core.base.errors import ComputerError, Fix, RunFolderError, UserError
from core.base.files import (
    free_bytes,
    inside,
    is_link,
    is_there,
    read_record,
    write_atomically,
    written_whole,
)
from core.base.language import _
from core.hosts import far
from core.hosts.computers import find
from core.hosts.link import WRONG_ANSWER, Link
from core.hosts.several import BLAME_SECONDS, Others, ask_to_end, start_others
from core.options import run_file
from core.options.sources import ADAPTER
from core.runs import elsewhere, queue
from core.runs.event_log import EventWriter, cut_torn_line
from core.runs.events import Action, RequestAnswered
from core.runs.folder import Connection, ExitRecord, Request, RunFolder
from core.runs.models import MARKER, WEIGHTS, FileEntry
from core.runs.status import State

LONGEST_PAUSE = 30.0
"""Seconds until the connection is tried again: 1 at first, and twice as many each time."""

WRONG_ANSWERS = 8
"""After so many in a row, with ever longer pauses (4 minutes in all), the run isn't followed any more."""

WAIT_SECONDS = 0.5
"""How long a question for news waits there for some; requests of the person wait as long."""

PACE_SECONDS = 0.1
TELL_SECONDS, HEARD_SECONDS = 0.5, 5.0
"""How often connection.json says how far something is, and when the computer was last heard."""

LOOK_SECONDS = 0.2
OBEY_SECONDS = 7.5
"""How long "End now" waits for the other computer before the run is ended here."""

NEWS_BYTES = 256 << 20
LEFT_FREE = 100 << 20
"""The most bytes of one answer to a question for news, and what is left free on the disk here."""

LATEST_ATTEMPT = 1000
"""By so many attempts a computer may be ahead of what is known here."""

MOST_EXAMPLES, MOST_KEPT = 1000, 9
"""Files of examples, and files of one name that were set aside."""

EXAMPLES = re.compile(r"validation\.json|examples/[^/]+")
RESULTS = re.compile(r"(model|checkpoints|tensorboard)/.+")
"""Names of files that may come from there."""

ARRIVING = ".arriving"
"""The folder of files that are being brought back; one of which a part is here goes on from there."""

PASSING = frozenset({"closed", "no-answer", "no-name", "no-server", "no-ssh", "failed"})
"""Errors worth retrying. On any other a run that hasn't begun is given up."""


class _GivenUp(Exception):  # noqa: N818 - nothing is wrong
    """The run ends here: it can't be begun there, is gone there, or was ended by a request while out of reach."""

    def __init__(self, reason: str, request: Request | None = None) -> None:
        super().__init__(reason)
        self.request = request


class Mirror:
    """Follows one attempt of a run elsewhere, which it starts there unless that was done.

    Raises:
        RunFolderError: The run doesn't say where.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._options = run.options()
        self._attempt = run.attempt_kept()
        known = run.connection()
        if known is None:
            raise RunFolderError(
                _("The run can't be followed"),
                _("connection.json, which says where it trains, is missing or damaged."),
            )
        self._connection = msgspec.structs.replace(known, connected=False)
        self._stamps: dict[str, tuple[int, int]] = {}
        self._told, self._has_news = 0.0, False
        self._failures, self._wrong_answers = 0, 0
        self._others, self._blamed = Others(self._options.device.computers[1:]), ""
        self._ending: ExitRecord | None = None
        self._end_asked: float | None = None

    def keep(self) -> None:
        """Follows the run until it is over, through any number of connections; writes `exit.json` last of all."""
        try:
            self._wait_for_source()
            while not self._connection.over:
                try:
                    self._has_news = False
                    with Link(find(self._connection.computer), self._wants_end) as link:
                        self._heard(clock=round(link.clock, 1) if abs(link.clock) > 1.0 else 0.0)
                        if not self._has_begun:
                            self._begin(link)
                        self._others.watch(self._connection.folder)
                        self._follow(link)
                    self._finish()
                except (UserError, OSError) as error:
                    self._try_again(error)
        except _GivenUp as end:
            if self._ending is not None and not self._run.is_removed:
                self._finish()
            else:
                self._end_others()
                self._give_up(str(end), end.request)

    def _finish(self) -> None:
        """Records here how the run ended there, and closes its requests."""
        self._end_others()
        if self._ending is None:
            self._end(
                _(
                    "The run on {name} ended without a report. That computer was probably restarted or switched off."
                ).format(name=self._connection.computer)
            )
        else:  # where another computer's failure ended it, that is the reason
            reason = self._blamed or self._ending.reason
            self._run.record_exit(msgspec.structs.replace(self._ending, reason=reason, attempt=self._attempt))
        for request in self._run.open_requests():
            self._run.close_request(request)
        self._heard(doing="", over=True)

    def _end_others(self) -> None:
        self._others.end(lambda: self._wants_end() or self._end_asked is not None)

    def _try_again(self, error: UserError | OSError) -> None:
        """Waits until the connection may be tried again.

        Raises:
            _GivenUp: It makes no sense to, or the person doesn't want it.
        """
        code = error.code if isinstance(error, ComputerError) else ""
        if not (code in PASSING or isinstance(error, OSError) or self._has_begun):
            raise _GivenUp(str(error)) from error
        if code in PASSING and self._has_news:
            self._failures, self._wrong_answers = 0, 0
        if code == WRONG_ANSWER and self._wrong_answers >= WRONG_ANSWERS:
            goes_on = _("It may still train there; Resume follows it again.")
            raise _GivenUp(f"{error}\n{goes_on}") from error
        self._tell(connected=False, problem=str(error), doing="")
        if code == WRONG_ANSWER:
            self._wrong_answers += 1
            self._wait(2.0 ** (self._wrong_answers - 1))
        else:  # a computer that was away for a night hasn't answered wrongly
            self._failures += 1
            self._wait(min(2.0 ** min(self._failures - 1, 10), LONGEST_PAUSE))

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
        """Waits until the run is over whose model this one starts from: it is sent."""
        source = queue.source_of(self._run)
        while not self._has_begun and (awaited := queue.ahead_of("", source)) and awaited.is_source:
            self._tell(doing=_("Waits for the model of “{run}”").format(run=awaited.title))
            self._wait(WAIT_SECONDS)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._look_for_end(at_once=True)
            time.sleep(LOOK_SECONDS)

    def _look_for_end(self, *, at_once: bool = False) -> None:
        """Ends the run here if the person wants that, `at_once` or when the computer hasn't obeyed in time.

        Before it has begun there, stopping and pausing do so, too, and always at once.

        Raises:
            _GivenUp: It ends.
        """
        wanted = [
            request
            for request in self._run.open_requests(clean=True)
            if request.action is Action.KILL or (not self._has_begun and request.action is not Action.SAVE)
        ]
        if not wanted and not self._run.is_removed:
            self._end_asked = None
            return
        asked_at = self._end_asked = self._end_asked or time.monotonic()
        if self._has_begun and not at_once and time.monotonic() < asked_at + OBEY_SECONDS:
            return
        if not wanted:
            raise _GivenUp("")
        reason = _("It was ended before it began on {name}.")
        if self._has_begun:
            reason = _(
                "It was ended here: {name} was out of reach, or didn't end it in time. It may still train there; "
                "Resume follows it again."
            )
        raise _GivenUp(reason.format(name=self._connection.computer), wanted[0])

    def _wants_end(self) -> bool:
        """Returns whether the session is to be cut, whatever it waits for."""
        try:
            self._look_for_end()
        except _GivenUp:
            return True
        return False

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
        if not 1 <= attempt <= self._attempt + LATEST_ATTEMPT:
            raise link.wrong(_("It says that it began attempt {attempt}.").format(attempt=attempt))
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

    def _follow(self, link: Link) -> None:
        """Copies what is new until the run is over and all of it is here."""
        self._cut_what_is_only_here()
        self._verify(link)
        name, blame_at = self._connection.folder, 0.0
        while True:
            begun = time.monotonic()
            answered = [
                request
                for request in self._run.open_requests(clean=True)
                if link.ask(far.Forward(run=name, request=request), bool)
                and request.action is not Action.KILL
            ]
            news = self._copy_news(link)
            for request in answered:  # "End now" stays open until the run is over
                self._run.close_request(request)
            if self._run.is_removed:
                ask_to_end(link, name)
                raise _GivenUp("")
            if self._others.problem and not self._blamed:
                blame_at = blame_at or time.monotonic() + BLAME_SECONDS
                if time.monotonic() > blame_at:  # it waits for one that never came
                    self._blamed = self._others.problem
                    ask_to_end(link, name)
            if news.is_gone:
                raise _GivenUp(_("Its folder on {name} is gone.").format(name=self._connection.computer))
            if not news.pieces and (news.has_ended or not news.is_alive) and self._verify(link):
                if news.has_ended:
                    self._ending = link.record(name, self._run.exit_file.name, ExitRecord)
                if news.state is not State.PAUSED:
                    self._bring_results(link)
                return
            if time.monotonic() - self._told >= HEARD_SECONDS:
                self._heard()
            time.sleep(max(0.0, begun + PACE_SECONDS - time.monotonic()))

    def _verify(self, link: Link) -> bool:
        """Sets aside what is here of files that don't begin with it there; returns whether there was none."""
        sizes = {name: far.size_of(self._run.path / name) for name in far.STREAMS}
        there = link.ask(far.Hashes(run=self._connection.folder, sizes=sizes), dict[str, str])
        others = [
            name
            for name, size in sizes.items()
            if size and there and there.get(name) != far.hash_of(self._run.path / name, size)
        ]
        for name in others:
            self._set_aside(link, name)
        return not others

    def _cut_what_is_only_here(self) -> None:
        """Takes off the last line if a power cut left only a part of it, and requests that were answered here.

        Those of them that the other computer has are fetched again.
        """
        for path in (self._run.events_file, self._run.machine_file):
            cut_torn_line(path)
        with contextlib.suppress(FileNotFoundError), self._run.machine_file.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - far.BLOCK_BYTES))
            for line in reversed(file.read().splitlines(keepends=True)):
                if not line.startswith(b'{"type":"request_answered"'):
                    break
                end -= len(line)
            file.truncate(end)

    def _set_aside(self, link: Link, name: str) -> None:
        """Sets aside a file that is another one there, which is then fetched whole."""
        path = self._run.path / name
        if not far.size_of(path):
            return
        places = [path.with_name(f"{name}.before-{number}") for number in range(1, MOST_KEPT + 1)]
        place = next((place for place in places if not is_there(place)), None)
        if place is None:
            raise link.wrong(_("It has replaced {name} too often.").format(name=name))
        path.replace(place)
        self._tell(kept=(*self._connection.kept, place.name))

    def _copy_news(self, link: Link) -> far.Watched:
        sizes = {name: far.size_of(self._run.path / name) for name in far.STREAMS}
        asked = far.Watch(run=self._connection.folder, sizes=sizes, stamps=self._stamps, wait=WAIT_SECONDS)
        news, pieces = link.news(asked, NEWS_BYTES)
        self._refuse_without_room(sum(piece.size for piece in news.pieces))
        for piece, blocks in pieces:
            if piece.stamp is None and piece.name in sizes:
                with (self._run.path / piece.name).open("ab") as file:
                    file.writelines(blocks)
                continue
            path = self._own(link, piece.name, EXAMPLES)
            if piece.stamp is None or len({*self._stamps, piece.name}) > MOST_EXAMPLES:
                raise link.wrong(_("It sends more examples than a run has."))
            path.parent.mkdir(exist_ok=True)
            with written_whole(path) as temporary, temporary.open("wb") as file:
                file.writelines(blocks)
            self._stamps[piece.name] = piece.stamp
        self._has_news = True
        for name in () if news.is_gone else set(news.shrunk) & set(sizes):
            self._set_aside(link, name)
        return news

    def _own(self, link: Link, name: str, allowed: re.Pattern[str]) -> Path:
        """Returns the path here of a file that the other computer names."""
        if allowed.fullmatch(name):
            with contextlib.suppress(UserError):
                return inside(self._run.path, name)
        raise link.wrong(_("No run has a file called {name}").format(name=ascii(name)))

    def _refuse_without_room(self, size: int) -> None:
        free = free_bytes(self._run.path)
        if size and free is not None and free - size < LEFT_FREE:
            raise UserError(
                _("The disk here is too full for what {name} sends").format(name=self._connection.computer),
                _("{size} are to come, and {free} are free.").format(
                    size=formats.memory(size), free=formats.memory(free)
                ),
                (Fix(_("Free some disk space; it goes on by itself then")),),
            )

    # --- The end

    def _bring_results(self, link: Link) -> None:
        """Brings the model back, or the checkpoint that is newer; what is here already isn't fetched again."""
        kind = dict[str, tuple[far.Size, far.Digest]]
        listed = link.ask(far.Results(run=self._connection.folder), kind)
        folders = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
        if both := folders & listed.keys():
            raise link.wrong(_("{name} can't be both a file and a folder.").format(name=ascii(min(both))))
        arriving = self._run.path / ARRIVING
        lacking = {
            name: entry
            for name, entry in listed.items()
            if far.hash_of(self._own(link, name, RESULTS)) != entry[1]
        }
        parts = {name: inside(arriving, name) for name in lacking}
        here = {name: min(far.size_of(part), lacking[name][0]) for name, part in parts.items()}
        total, done = sum(size for size, _digest in lacking.values()), sum(here.values())
        self._refuse_without_room(total - done)
        for name, (size, digest) in lacking.items():
            part = parts[name]
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("ab") as file:
                for block in link.content(self._connection.folder, name, here[name], size):
                    file.write(block)
                    done += len(block)
                    self._progress(_("Bringing back {name}").format(name=name), done, total)
            if far.hash_of(part) != digest:
                part.unlink()
                raise link.wrong(_("{name} was damaged on its way here.").format(name=name))
        has_model = any(fnmatchcase(name, f"model/{WEIGHTS}") for name in listed)
        for path in self._run.model.rglob("*") if has_model else ():  # of an earlier attempt
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
        """Lets an adapter name its base model by its path here: the path it had there may be anything here."""
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
    """Returns a function to call once the run is deleted here: it deletes it there and returns what stays, and why.

    A run that a copy, a link or an untrusted folder names stays: it belongs to another folder, or to somebody else.
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
