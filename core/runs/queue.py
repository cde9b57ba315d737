"""The queue: which run trains on which device, and which wait.

The queue is one small file in Hone's home. Each waiting run has a keeper from the start (docs/decisions/queue.md),
which adds its run and checks regularly whether it may start: no earlier run waits for the device, and none trains on
it. Runs started without waiting are entered, too.

The file is read without a lock and changed under one. If it is deleted or damaged, the keepers add their runs again.
Entries of dead processes are ignored and removed with the next change.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base import settings
from core.base.errors import UserError
from core.base.files import ENGINE_LOCK, changed_at, is_locked, locked, read_small, write_atomically
from core.base.language import _, isolated
from core.options import RunOptions, past_runs
from core.options.sections import DeviceOptions
from core.runs.events import Action, Event, RequestAnswered, TurnAwaited, TurnCame
from core.runs.folder import KeeperRecord, Request, RunFolder
from core.runs.library import run_title
from core.runs.status import RunStatus, State, share_done
from core.runs.summary import state_at_end, status_at_end

# --- Runs that train or wait

SETTLING_SECONDS = 5.0
"""A folder is checked again for so long after its last change: the dates of files are coarse."""


@dataclass(frozen=True)
class LiveRun:
    """A run that trains or waits; `share` of it is done (0 to 1; None if unknown).

    `begun` is when its keeper was started, in unix seconds; `awaited` what it waits for. `is_test`: it trains nothing.
    """

    run: RunFolder
    title: str
    begun: float
    state: State
    share: float | None = None
    awaited: TurnAwaited | None = None
    is_test: bool = False


@dataclass(frozen=True)
class EndedRun:
    """A tracked run that has ended. `status` is that of the ends of its files."""

    run: RunFolder
    title: str
    state: State
    status: RunStatus


class LiveRuns:
    """Tracks which runs train or wait. Use it in one thread."""

    def __init__(self) -> None:
        self._live: dict[Path, LiveRun] = {}
        self._total_steps: dict[Path, tuple[int, int]] = {}  # attempt, steps
        self._settled: dict[str, int] = {}

    @property
    def live(self) -> tuple[LiveRun, ...]:
        """The runs that trained or waited at the last update, the newest first."""
        return tuple(sorted(self._live.values(), key=lambda live: live.begun, reverse=True))

    def follow(self, run: RunFolder, *, starts: bool = False) -> None:
        """Tracks a run anywhere; one that `starts` now is reported even if it is over at the first update."""
        if run.path in self._live:
            return
        state = run.state(status_at_end(run))
        if starts or not state.is_over:
            keeper = run.keeper_record()
            begun = time.time() if keeper is None else keeper.started
            options = run.readable_options()
            is_test = options is not None and options.only_evaluates
            self._live[run.path] = LiveRun(run, run_title(run), begun, state, is_test=is_test)

    def look(self, folder: Path) -> list[EndedRun]:
        """Searches `folder` for new runs and updates all that are tracked; returns those that have ended."""
        for run in self._changed(folder):
            self.follow(run)
        ended = [end for live in list(self._live.values()) if (end := self._update(live)) is not None]
        for end in ended:
            del self._live[end.run.path]
            self._total_steps.pop(end.run.path, None)
        return ended

    def _update(self, live: LiveRun) -> EndedRun | None:
        """Updates a run; returns how it ended, if it did."""
        run, keeper = live.run, live.run.keeper_record()
        title = past_runs.read(run.path).title or live.title
        attempt = 0 if keeper is None else keeper.attempt
        known, total = self._total_steps.get(run.path, (0, None))
        status = status_at_end(run, and_beginning=known < attempt or total is None)
        state = run.state(status)
        if state.is_over:
            return EndedRun(run, title, state, status_at_end(run, and_beginning=True))
        if status.plan is not None and (total is None or status.plan.attempt >= attempt):
            total = status.plan.total_steps
            self._total_steps[run.path] = status.plan.attempt, total
        # a long evaluation may have pushed the newest step out of the end of the file
        share = share_done(status.step, total) if status.step else status.share_done or live.share
        begun = live.begun if keeper is None else keeper.started
        self._live[run.path] = replace(
            live, title=title, begun=begun, share=share, state=state, awaited=status.awaited
        )
        return None

    def _changed(self, folder: Path) -> Iterator[RunFolder]:
        """Yields runs that may have begun to train since the last update."""
        dates: list[tuple[str, int]] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            dates = [(entry.path, entry.stat().st_mtime_ns) for entry in entries if entry.is_dir()]
        for name, changed in dates:
            path = Path(name)
            if self._settled.get(name) == changed or path in self._live:
                continue
            run = RunFolder(path)
            if run.keeper_file.exists() and run.exit_record() is None:
                yield run
            if path not in self._live and abs(time.time() - changed / 1e9) > SETTLING_SECONDS:
                self._settled[name] = changed


# --- The queue file

FORGOTTEN_SECONDS = 30 * 86_400.0
"""How long entries of other computers that share Hone's home stay; only those can check them."""


class Move(StrEnum):
    """Where to in the queue; `NOW`: out of it, to train beside whatever trains on the device."""

    NOW = "now"
    FIRST = "first"
    UP = "up"
    DOWN = "down"
    LAST = "last"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A run that trains or waits: its folder, the requested device (`auto`, `cuda:1`, ...), and its keeper.

    `source` is the run whose model this one starts from: until that has ended, it waits, and stands in nobody's way.
    """

    run: str
    device: str
    keeper: KeeperRecord
    trains: bool = False
    source: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether its keeper runs; a run that trains may have lost its keeper, but not its engine."""
        if not self.keeper.is_here:
            return time.time() - self.keeper.started < FORGOTTEN_SECONDS
        return self.keeper.is_alive or (self.trains and is_locked(Path(self.run), ENGINE_LOCK))

    @property
    def waits_here(self) -> bool:
        return self.keeper.is_here and not self.trains

    @property
    def trains_here(self) -> bool:
        return self.keeper.is_here and self.trains

    def blocks(self, device: str) -> bool:
        """Returns whether it takes a device that another run on this computer requests; runs elsewhere wait there."""
        if "@" in device:
            return False
        devices = {"cuda:0" if one == "cuda" else one for one in (self.device, device)}
        return self.keeper.is_here and ("auto" in devices or len(devices) == 1)


def waiting() -> list[RunFolder]:
    """Returns the runs that wait, in their order; reads one small file."""
    return [RunFolder(Path(entry.run)) for entry in _entries() if entry.waits_here]


def training() -> list[RunFolder]:
    return [RunFolder(Path(one.run)) for one in _entries() if one.trains_here]


def device_held(options: RunOptions | None) -> str:
    """Returns the device that a run holds while it trains; the default if its options can't be read.

    It is "auto", which stands for every device, for several GPUs, and for a run that only measures: whatever else
    trains would make its figures useless.
    """
    device = options.device if options else DeviceOptions()
    has_several = device.name == "cuda" and device.processes != 1
    return "auto" if has_several or (options is not None and options.only_measures) else device.name


def move(run: RunFolder, to: Move | int) -> bool:
    """Moves a waiting run in the order; returns whether it waits at all. It stays behind the run whose model it needs.

    Args:
        to: Where to; a number is its new position among those that wait on this computer, from 1 on.

    Raises:
        OSError: The order can't be written.
        UserError: It can't start now, as it needs the model of a run that isn't over.
    """
    with _changing() as entries:
        order = [entry for entry in entries if entry.waits_here]
        index = next((number for number, entry in enumerate(order) if entry.run == _name(run)), None)
        if index is None:
            return False
        moved = order.pop(index)
        if to is Move.NOW:
            awaited = _ahead(entries, moved.run, moved.device, moved.source)
            if awaited is not None and awaited.is_source:
                text = _("It needs the model of “{run}”, which has not finished yet.")
                raise UserError(_("This run can't start now"), text.format(run=isolated(awaited.title)))
            moved = msgspec.structs.replace(moved, trains=True)  # which its keeper sees
        positions = {Move.UP: max(0, index - 1), Move.DOWN: index + 1, Move.LAST: len(order)}
        first = max((place + 1 for place, one in enumerate(order) if one.run == moved.source), default=0)
        last = min((place for place, one in enumerate(order) if one.source == moved.run), default=len(order))
        order.insert(max(first, min(last, positions.get(to, 0) if isinstance(to, Move) else to - 1)), moved)
        following = iter(order)  # those of other computers keep their positions between
        entries[:] = [next(following) if entry.waits_here else entry for entry in entries]
    return True


def enter(run: RunFolder, device: str, keeper: KeeperRecord) -> None:
    """Adds a run to the end of the queue, unless its keeper has entered it.

    Raises:
        OSError: It can't be written.
    """
    with _changing() as entries:
        _put(entries, _entry(run, device, keeper))


def hold(run: RunFolder, device: str, keeper: KeeperRecord) -> None:
    """Enters a run as training, whether it has waited or not.

    Raises:
        OSError: It can't be written.
    """
    entry = Entry(run=_name(run), device=device, keeper=keeper, trains=True)
    with _changing() as entries:
        entries[:] = [*(other for other in entries if other.run != entry.run), entry]


def leave(run: RunFolder) -> None:
    """Removes a run.

    Raises:
        OSError: It can't be written.
    """
    with _changing() as entries:
        entries[:] = [entry for entry in entries if entry.run != _name(run)]


def ahead_of(device: str, source: str = "", run: RunFolder | None = None) -> TurnAwaited | None:
    """Returns what a run from the model of the run `source` would wait for; None if it would start at once.

    `run` is one that is resumed: its keeper may not have left yet.
    """
    others = [entry for entry in _entries() if run is None or entry.run != _name(run)]
    return _ahead(others, "", device, source)


def is_entered(run: RunFolder) -> bool:
    return any(entry.run == _name(run) for entry in _entries())


def take_turn(
    run: RunFolder, device: str, keeper: KeeperRecord, *, has_waited: bool = False
) -> TurnAwaited | None:
    """Enters a run as training if it is its turn. Check and entry are atomic, so that no two runs can both start.

    Args:
        has_waited: Whether it was entered before. If it no longer is, the file was lost with all entries ahead: it
            isn't its turn, and nothing is changed.

    Returns:
        None if it is its turn; otherwise what is ahead.

    Raises:
        OSError: The order can't be read or written.
    """
    before = _entries()
    own = next((entry for entry in before if entry.run == _name(run)), None)
    if own is not None and own.trains and own.keeper.pid == keeper.pid:
        return None  # it was told to start now
    if own is not None and (awaited := _ahead(before, own.run, device, own.source)) is not None:
        return awaited
    with _changing() as entries:
        if has_waited and not any(entry.run == _name(run) for entry in entries):
            return TurnAwaited(ahead=0)
        entry = _entry(run, device, keeper)
        _put(entries, entry)
        awaited = _ahead(entries, entry.run, device, entry.source)
        if awaited is None:
            others = [other for other in entries if other.run != entry.run]
            entries[:] = [*others, msgspec.structs.replace(entry, trains=True)]
    return awaited


def source_of(run: RunFolder) -> str:
    """Returns the folder of the run whose model this one starts from; empty if there is none."""
    options = run.readable_options()
    folder = past_runs.run_folder(options.model.source) if options else None
    return str(folder.absolute()) if folder else ""


def _entry(run: RunFolder, device: str, keeper: KeeperRecord) -> Entry:
    return Entry(run=_name(run), device=device, keeper=keeper, source=source_of(run))


def _put(entries: list[Entry], entry: Entry) -> None:
    """Appends a run unless the same attempt is entered."""
    if not any(other.run == entry.run and other.keeper.pid == entry.keeper.pid for other in entries):
        entries[:] = [*(other for other in entries if other.run != entry.run), entry]


def _ahead(entries: list[Entry], name: str, device: str, source: str) -> TurnAwaited | None:
    """Returns what this run waits for: its model's run, runs that train, and earlier ones that wait."""
    if source and (state := _state_before(source, entries)) is not None:
        last = RunFolder(Path(source))
        is_paused = state is State.PAUSED
        return TurnAwaited(
            ahead=1, behind=last.name, title=run_title(last), is_source=True, is_paused=is_paused
        )
    others = [entry for entry in entries if entry.trains and entry.run != name]
    for entry in entries:
        if entry.run == name:
            break
        needs_model = entry.source and _state_before(entry.source, entries) is not None
        others += [] if entry.trains or needs_model else [entry]
    ahead = [entry for entry in others if entry.blocks(device)]
    if not ahead:
        return None
    last = RunFolder(Path(ahead[-1].run))
    return TurnAwaited(ahead=len(ahead), behind=last.name, title=run_title(last))


def _state_before(source: str, entries: list[Entry]) -> State | None:
    """Returns the state of a run whose model another one waits for; None if it has ended, with a model or without."""
    run = RunFolder(Path(source))
    state = state_at_end(run)
    if state is State.PAUSED:
        return None if run.model.is_dir() else state
    return state if not state.is_over or any(entry.run == source for entry in entries) else None


def _name(run: RunFolder) -> str:
    return str(run.path.absolute())


_seen: set[Path] = set()


def _file() -> Path:
    return settings.home() / "queue" / "order.json"


@contextlib.contextmanager
def _changing() -> Iterator[list[Entry]]:
    """Yields the entries, under a lock; they are written if they were changed.

    Raises:
        OSError: The queue's folder can't be written to, or is gone with its home, which was moved or unmounted.
    """
    folder = _file().parent
    folder.mkdir(parents=folder not in _seen, exist_ok=True)
    _seen.add(folder)
    with locked(folder):
        entries = _entries()
        before = list(entries)
        yield entries
        if entries != before:
            write_atomically(_file(), b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


def _entries() -> list[Entry]:
    """Returns all entries of live processes, in order. Damaged lines are skipped."""
    try:
        lines = read_small(_file()).splitlines()
    except OSError:
        return []
    _seen.add(_file().parent)
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(msgspec.json.decode(line, type=Entry))
    return [entry for entry in found if entry.is_kept]


# --- The keeper's place in the queue

LOOK_SECONDS = 0.5
"""How often a waiting keeper checks its turn, and its requests."""

LIFE_SECONDS = 2.0
"""How often a waiting keeper checks the processes ahead of it; changes of the file are seen at once."""

CHECK_SECONDS = 10.0
"""How often the keeper of a run that trains checks its entry."""

_ENDINGS = {
    Action.STOP: _("It was removed from the queue before it started."),
    Action.KILL: _("It was removed from the queue before it started."),
    Action.PAUSE: _("It was paused while it waited for its turn."),
}


class Turn:
    """The place of one run in the queue; its keeper is this process."""

    def __init__(self, run: RunFolder, device: str, attempt: int) -> None:
        self._run = run
        self._entered = RunFolder(run.path.absolute())
        self._device = device
        self._keeper = KeeperRecord.of(os.getpid(), attempt)
        self._changed_at = 0
        self._next_check = 0.0
        self._next_turn = 0.0
        self._awaited: TurnAwaited | None = None

    def wait(self, tell: Callable[[Event], object], wants_stop: Callable[[], bool]) -> str | None:
        """Waits until the run may train, or the keeper itself was asked to end; returns why it won't train, if so.

        `tell` writes events: what is ahead whenever that changes, and answers to requests.
        """
        reported: TurnAwaited | None = None
        while True:
            if self._run.is_removed:
                return _("Its folder was removed while it waited for its turn.")
            requests = self._run.open_requests(clean=True)
            for request in [Request(id="", action=Action.STOP)] if wants_stop() else requests:
                is_end = request.action in _ENDINGS
                detail = "" if is_end else _("It waits for its turn: there is nothing to save yet.")
                tell(
                    RequestAnswered(request=request.id, action=request.action, accepted=is_end, detail=detail)
                )
                with contextlib.suppress(OSError):
                    self._run.close_request(request)
                if is_end:
                    return _ENDINGS[request.action]
            awaited = self._take()
            if awaited is None:
                tell(TurnCame())
                return None
            if reported != (news := msgspec.structs.replace(awaited, time=0.0)):
                reported = news
                tell(awaited)
            time.sleep(LOOK_SECONDS)

    def _take(self) -> TurnAwaited | None:
        """Takes the turn if it has come. The file is read when it was changed, and every `LIFE_SECONDS`."""
        changed = changed_at(_file())
        if self._awaited is None or changed != self._changed_at or time.monotonic() >= self._next_check:
            self._changed_at = changed
            self._next_check = time.monotonic() + LIFE_SECONDS
            try:
                self._awaited = self._check()
            except OSError:  # a full disk, or a home that is away for a moment
                self._awaited = self._awaited or TurnAwaited(ahead=0)
        return self._awaited

    def _check(self) -> TurnAwaited | None:
        self._follow_renaming()
        has_waited = self._awaited is not None
        if has_waited and not is_entered(self._run):
            enter(self._run, self._device, self._keeper)
            # those that train enter themselves again, too
            self._next_turn = time.monotonic() + 2 * CHECK_SECONDS
        if has_waited and time.monotonic() < self._next_turn:
            return self._awaited
        return take_turn(self._run, self._device, self._keeper, has_waited=has_waited)

    def hold(self) -> None:
        with contextlib.suppress(OSError):
            hold(self._run, self._device, self._keeper)

    def look_after(self) -> None:
        """Enters the run again if the queue's file was lost; checks every `CHECK_SECONDS`."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_SECONDS
        with contextlib.suppress(OSError):  # the home, or the folder, has no name any more
            self._follow_renaming()
            changed = changed_at(_file())
            if not changed or changed != self._changed_at:
                self._changed_at = changed
                if not is_entered(self._run):
                    self.hold()

    def _follow_renaming(self) -> None:
        """Removes the entry of the folder's former name."""
        here = RunFolder(self._run.path.absolute())
        if here != self._entered:
            leave(self._entered)
            self._entered = here

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            leave(self._entered)
