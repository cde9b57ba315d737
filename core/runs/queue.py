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
import psutil

from core.base import settings
from core.base.files import locked, read_small, write_atomically
from core.options import past_runs
from core.options.sections import DeviceOptions
from core.runs.events import Event, RequestAnswered, TurnAwaited, TurnCame
from core.runs.folder import Action, KeeperRecord, Request, RunFolder
from core.runs.library import run_title
from core.runs.status import RunStory, State
from core.runs.summary import story_at_end

# --- Running runs


SETTLING_SECONDS = 5.0
"""So long after its last change a folder is looked into again: the dates of files are coarse."""


@dataclass(frozen=True)
class LiveRun:
    """A run that trains or waits for its turn: its title, and how much of it is done (0 to 1; None: not known yet).

    `begun` is when its keeper was started, in unix seconds; `state` where it stood at the last look.
    """

    run: RunFolder
    title: str
    begun: float
    state: State
    share: float | None = None


@dataclass(frozen=True)
class EndedRun:
    """A run that was seen to train or wait and is over. `story` is what the ends of its files amount to."""

    run: RunFolder
    title: str
    state: State
    story: RunStory


class LiveRuns:
    """Keeps in mind which runs train. Ask it again and again, always in one thread."""

    def __init__(self) -> None:
        self._live: dict[Path, LiveRun] = {}
        self._total_steps: dict[Path, tuple[int, int]] = {}
        self._settled: dict[str, int] = {}

    @property
    def live(self) -> tuple[LiveRun, ...]:
        """Those that trained when they were last looked at, the newest first."""
        return tuple(sorted(self._live.values(), key=lambda live: live.begun, reverse=True))

    def follow(self, run: RunFolder, *, starts: bool = False) -> None:
        """Look at a run wherever its folder is; one that starts now is told of even if it is over at the first look."""
        if run.path in self._live:
            return
        state = run.state(story_at_end(run))
        if starts or not state.is_over:
            keeper = run.keeper_record()
            begun = time.time() if keeper is None else keeper.started
            self._live[run.path] = LiveRun(run, run_title(run), begun, state)

    def look(self, folder: Path) -> list[EndedRun]:
        """Look for runs that have come into `folder`, and at all that train; returns those that have ended."""
        for run in self._changed(folder):
            self.follow(run)
        ended = [end for live in list(self._live.values()) if (end := self._look_at(live)) is not None]
        for end in ended:
            del self._live[end.run.path]
            self._total_steps.pop(end.run.path, None)
        return ended

    def _look_at(self, live: LiveRun) -> EndedRun | None:
        """Find out how far a run is; how it ended, if it did."""
        run = live.run
        live = replace(live, title=past_runs.read(run.path).title or live.title)
        keeper = run.keeper_record()
        attempt = 0 if keeper is None else keeper.attempt
        known, total = self._total_steps.get(run.path, (0, None))
        story = story_at_end(run, and_beginning=known < attempt or total is None)
        state = run.state(story)
        if state.is_over:
            return EndedRun(run, live.title, state, story_at_end(run, and_beginning=True))
        if story.plan is not None and (total is None or story.plan.attempt >= attempt):
            total = story.plan.total_steps
            self._total_steps[run.path] = story.plan.attempt, total
        begun = live.begun if keeper is None else keeper.started
        share = live.share
        if total and story.step:  # a long evaluation may have pushed the newest step out of sight
            share = min(1.0, story.step / total)
        self._live[run.path] = replace(live, begun=begun, share=share, state=state)
        return None

    def _changed(self, folder: Path) -> Iterator[RunFolder]:
        """Runs that might have begun to train since they were last looked at."""
        for name, changed in _dates(folder):
            if self._settled.get(name) == changed or (path := Path(name)) in self._live:
                continue
            run = RunFolder(path)
            if run.keeper_file.exists() and run.exit_record() is None:
                yield run
            if path not in self._live and abs(time.time() - changed / 1e9) > SETTLING_SECONDS:
                self._settled[name] = changed


def _dates(folder: Path) -> list[tuple[str, int]]:
    """When something was last put into each folder in `folder`, or taken out of it: nanoseconds since 1970."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    found.append((entry.path, entry.stat().st_mtime_ns))
    except OSError:
        return []
    return found


# --- The queue file


FORGOTTEN_SECONDS = 30 * 86_400.0
"""How long runs of other computers that share Hone's home are kept in mind; only they can see what became of them."""

_ANY = "auto"

BENCHMARK = "Benchmark"
"""What stands for the folder's name where a run waits for a benchmark, which has none."""


class Move(StrEnum):
    """Where to in the queue."""

    FIRST = "first"
    UP = "up"
    DOWN = "down"
    LAST = "last"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A run that trains or waits: its folder, the device it asks for (`auto`, `cuda:1`, ...), and its processes.

    `benchmark` says what is measured where it is no run but a benchmark, which has no folder, only a name like one.
    """

    run: str
    device: str
    keeper: KeeperRecord
    trains: bool = False
    benchmark: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether somebody works on it: a run that trains may have lost its keeper, one that waits has nothing else."""
        if not self.keeper.is_here:
            return time.time() - self.keeper.started < FORGOTTEN_SECONDS
        return self.keeper.is_worked_on if self.trains else self.keeper.is_alive

    def is_in_the_way_of(self, device: str) -> bool:
        """Whether it takes the device that another run on this computer asks for."""
        return self.keeper.is_here and (
            _ANY in (self.device, device) or _plain(self.device) == _plain(device)
        )


def _plain(device: str) -> str:
    return "cuda:0" if device == "cuda" else device


def waiting() -> list[RunFolder]:
    """The runs that wait, in the order in which they will train; reads one small file."""
    return [RunFolder(Path(entry.run)) for entry in _entries() if _waits_here(entry)]


def _waits_here(entry: Entry) -> bool:
    return entry.keeper.is_here and not entry.trains


def training() -> list[RunFolder]:
    """The runs that train now, as far as they have entered themselves."""
    return [RunFolder(Path(entry.run)) for entry in _training_here(_entries()) if not entry.benchmark]


def benchmarks() -> list[Entry]:
    """The benchmarks that are measured now."""
    return [entry for entry in _training_here(_entries()) if entry.benchmark]


def _training_here(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.trains and entry.keeper.is_here]


def device_of(run: RunFolder) -> str:
    """The device that a run asks for; that of all options left out where they can't be read."""
    options = run.readable_options()
    return (options.device if options else DeviceOptions()).name


def move(run: RunFolder, to: Move | int) -> bool:
    """Put a waiting run elsewhere in the order; returns whether it waits at all.

    Args:
        run: The run.
        to: Where to; a number is its new place among those that wait on this computer, from 1 on.

    Raises:
        OSError: The order can't be written.
    """
    with locked(_folder()):
        entries = _entries()
        order = [entry for entry in entries if _waits_here(entry)]
        place = next((number for number, entry in enumerate(order) if entry.run == _name(run)), None)
        if place is None:
            return False
        moved = order.pop(place)
        order.insert(_new_place(order, place, to), moved)
        following = iter(order)  # those of other computers keep the places between
        _write([next(following) if _waits_here(entry) else entry for entry in entries])
    return True


def _new_place(others: list[Entry], place: int, to: Move | int) -> int:
    """The index among the others of one that stood at `place`."""
    if isinstance(to, Move):
        places = {Move.FIRST: 0, Move.UP: max(0, place - 1), Move.DOWN: place + 1, Move.LAST: len(others)}
        return places[to]
    return min(to - 1, len(others))


def enter(run: RunFolder, device: str, keeper: KeeperRecord) -> None:
    """Let a run wait, behind all who do already. Nothing happens to one that its keeper has entered itself.

    Raises:
        OSError: It can't be written.
    """
    with locked(_folder()):
        _put(_entries(), Entry(run=_name(run), device=device, keeper=keeper))


def hold(run: RunFolder, device: str, keeper: KeeperRecord) -> None:
    """Tell that a run trains, by which processes, whether it has waited for that or not.

    Raises:
        OSError: It can't be written.
    """
    with locked(_folder()):
        others = [entry for entry in _entries() if entry.run != _name(run)]
        _write([*others, Entry(run=_name(run), device=device, keeper=keeper, trains=True)])


def measure(entry: Entry, *, beside: bool = False) -> list[Entry]:
    """Enter a benchmark, unless something computes on its device; nobody can begin to between the look and the entry.

    Args:
        entry: The benchmark; entered already, it stays.
        beside: Whether it goes on beside others.

    Returns:
        What computes there. Empty, or with `beside`: it is entered.

    Raises:
        OSError: It can't be written.
    """
    with locked(_folder()):
        others = [other for other in _entries() if other.run != entry.run]
        there = [other for other in _training_here(others) if other.is_in_the_way_of(entry.device)]
        if beside or not there:
            _write([*others, msgspec.structs.replace(entry, trains=True)])
    return there


def leave(run: RunFolder) -> None:
    """Neither train nor wait any longer.

    Raises:
        OSError: It can't be written.
    """
    with locked(_folder()):
        _write([entry for entry in _entries() if entry.run != _name(run)])


def ahead_of(device: str) -> TurnAwaited | None:
    """Which runs a new one would wait for that asks for this device; None: it would begin at once."""
    return _ahead(_entries(), RunFolder(settings.home()), device)


def is_entered(run: RunFolder) -> bool:
    """Whether the file knows of the run."""
    return any(entry.run == _name(run) for entry in _entries())


def take_turn(
    run: RunFolder, device: str, keeper: KeeperRecord, *, has_waited: bool = False
) -> TurnAwaited | None:
    """Begin to train if it is this run's turn.

    No two runs can both do so: whoever finds the way free looks once more while nobody else can change anything.

    Args:
        run: The run.
        device: The device it asks for.
        keeper: Its keeper.
        has_waited: Whether it is entered already. Where it no longer is, the file was lost with all who are ahead: then
            its turn has not come, and nothing is changed.

    Returns:
        None: it is its turn, and it is entered as training. Otherwise who is ahead.

    Raises:
        OSError: The order can't be read or written.
    """
    awaited = _ahead(_entries(), run, device)
    if awaited is not None and is_entered(run):
        return awaited
    with locked(_folder()):
        if has_waited and not is_entered(run):
            return TurnAwaited(ahead=0)
        entry = Entry(run=_name(run), device=device, keeper=keeper)
        entries = _put(_entries(), entry)
        awaited = _ahead(entries, run, device)
        if awaited is None:
            others = [other for other in entries if other.run != entry.run]
            _write([*others, msgspec.structs.replace(entry, trains=True)])
    return awaited


def _put(entries: list[Entry], entry: Entry) -> list[Entry]:
    """Enter a run at the end unless the same attempt is there already; returns all."""
    for other in entries:
        if other.run == entry.run and other.keeper.pid == entry.keeper.pid:
            return entries
    entries = [*(other for other in entries if other.run != entry.run), entry]
    _write(entries)
    return entries


def _ahead(entries: list[Entry], run: RunFolder, device: str) -> TurnAwaited | None:
    """Which runs are to train before this one: those that do, and of those that wait the ones before it."""
    others = [entry for entry in entries if entry.trains and entry.run != _name(run)]
    for entry in entries:
        if entry.run == _name(run):
            break
        others += [] if entry.trains else [entry]
    ahead = [entry for entry in others if entry.is_in_the_way_of(device)]
    if not ahead:
        return None
    if ahead[-1].benchmark:
        return TurnAwaited(ahead=len(ahead), behind=BENCHMARK)
    last = RunFolder(Path(ahead[-1].run))
    return TurnAwaited(ahead=len(ahead), behind=last.name, title=run_title(last))


def _name(run: RunFolder) -> str:
    return str(run.path.absolute())


_seen: set[Path] = set()


def _folder() -> Path:
    """The folder of the queue. One that was there with its home isn't made anew: the home was moved or unmounted.

    Raises:
        OSError: It isn't there and can't be made.
    """
    folder = settings.home() / "queue"
    folder.mkdir(parents=folder not in _seen, exist_ok=True)
    _seen.add(folder)
    return folder


def _file() -> Path:
    return settings.home() / "queue" / "order.json"


def changed_at() -> int | None:
    """When the file was last changed, in nanoseconds; None: there is none."""
    try:
        return _file().stat().st_mtime_ns
    except OSError:
        return None


def _entries() -> list[Entry]:
    """All that count, in order; none of a file that is missing or damaged."""
    try:
        lines = read_small(_file()).splitlines()
    except OSError:
        return []
    _seen.add(_file().parent)
    return [entry for entry in _decoded(lines) if entry.is_kept]


def _decoded(lines: list[bytes]) -> Iterator[Entry]:
    """An entry a line; a damaged one costs no other."""
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Entry)
        except (ValueError, RecursionError):
            continue


def _write(entries: list[Entry]) -> None:
    write_atomically(_file(), b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


# --- The keeper's place in the queue


LOOK_SECONDS = 0.5
"""How often a waiting keeper looks: for its turn, and for what is asked of it."""

LIFE_SECONDS = 2.0
"""How often a waiting keeper looks whether those ahead of it still live; who leaves the queue is seen at once."""

CHECK_SECONDS = 10.0
"""How often a keeper whose run trains looks whether it is still entered."""

_GIVEN_UP = {
    Action.STOP: "It was taken out of the queue, as asked, before it began to train.",
    Action.KILL: "It was taken out of the queue, as asked, before it began to train.",
    Action.PAUSE: "It was paused, as asked, while it waited for its turn.",
}
_NOTHING_TO_SAVE = "It waits for its turn: there is nothing to save yet."
_REMOVED = "Its folder was removed while it waited for its turn."

Tell = Callable[[Event], None]


class Turn:
    """The place of one run in the queue.

    Args:
        run: The run.
        device: The device it asks for.
        attempt: The attempt of its keeper, which is this process.
    """

    def __init__(self, run: RunFolder, device: str, attempt: int) -> None:
        self._run = run
        self._entered = RunFolder(run.path.absolute())
        self._device = device
        self._keeper = KeeperRecord.of(os.getpid(), attempt)
        self._changed_at: int | None = None
        self._next_check = 0.0
        self._next_turn = 0.0
        self._awaited: TurnAwaited | None = None

    def wait(self, tell: Tell, wants_stop: Callable[[], bool]) -> str | None:
        """Wait until the run may train.

        Args:
            tell: Hears who is ahead whenever that changes, and what is answered to requests.
            wants_stop: Whether the keeper itself was asked to end.

        Returns:
            None: its turn has come. Otherwise why it will not train.
        """
        told: tuple[int, str] | None = None
        while True:
            if self._run.is_removed:
                return _REMOVED
            asked = (
                [Request(id="", action=Action.STOP)] if wants_stop() else self._run.open_requests(clean=True)
            )
            for request in asked:
                self._answer(request, tell)
                if request.action in _GIVEN_UP:
                    return _GIVEN_UP[request.action]
            awaited = self._take()
            if awaited is None:
                tell(TurnCame())
                return None
            if told != (awaited.ahead, awaited.behind):
                told = awaited.ahead, awaited.behind
                tell(awaited)
            time.sleep(LOOK_SECONDS)

    def _take(self) -> TurnAwaited | None:
        """Take the turn if it has come. Nothing is read where nothing was changed, but now and then for who died."""
        changed = changed_at()
        if self._awaited is None or changed != self._changed_at or time.monotonic() >= self._next_check:
            self._changed_at = changed
            self._next_check = time.monotonic() + LIFE_SECONDS
            try:
                self._awaited = self._look()
            except OSError:  # a full disk, or a home that is away for a moment
                self._awaited = self._awaited or TurnAwaited(ahead=0)
        return self._awaited

    def _look(self) -> TurnAwaited | None:
        self._follow_renaming()
        if self._awaited is not None and not is_entered(self._run):
            enter(self._run, self._device, self._keeper)
            self._next_turn = (
                time.monotonic() + 2 * CHECK_SECONDS
            )  # those that train enter themselves again, too
        if self._awaited is not None and time.monotonic() < self._next_turn:
            return self._awaited
        return take_turn(self._run, self._device, self._keeper, has_waited=self._awaited is not None)

    def _answer(self, request: Request, tell: Tell) -> None:
        is_done = request.action in _GIVEN_UP
        detail = "" if is_done else _NOTHING_TO_SAVE
        tell(RequestAnswered(request=request.id, action=request.action, accepted=is_done, detail=detail))
        with contextlib.suppress(OSError):
            self._run.close_request(request)

    def hold(self, engine: int) -> None:
        """Tell that the run trains, and which process its engine is."""
        with contextlib.suppress(psutil.Error):
            self._keeper = self._keeper.with_engine(engine)
        with contextlib.suppress(OSError, psutil.Error):
            self._run.record_engine(engine)
        self._enter()

    def look_after(self) -> None:
        """Enter the run again where the queue's file was lost; costs a look at its date now and then."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_SECONDS
        with contextlib.suppress(OSError):  # of the home, or of the folder, which has no name any more
            self._follow_renaming()
            changed = changed_at()
            if changed is None or changed != self._changed_at:
                self._changed_at = changed
                if not is_entered(self._run):
                    self._enter()

    def _follow_renaming(self) -> None:
        """Leave the queue under the name that the run's folder had before."""
        here = RunFolder(self._run.path.absolute())
        if here != self._entered:
            leave(self._entered)
            self._entered = here

    def _enter(self) -> None:
        with contextlib.suppress(OSError):
            hold(self._run, self._device, self._keeper)

    def leave(self) -> None:
        """Let the next one in."""
        with contextlib.suppress(OSError):
            leave(self._entered)
