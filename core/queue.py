"""Who trains on which device, and who waits for it, in which order: one small file in Hone's home.

A run that is to wait has a keeper of its own from the start (docs/decisions/0024-queue.md). The keeper enters itself
here and looks now and then whether its turn has come: no run ahead of it waits for its device, and none trains there.
Runs that were started without waiting are entered too, wherever their folders are.

The file is read without a lock and changed under one. What is lost of it (somebody deletes it, it is damaged) the
keepers enter again. Entries of processes that are gone don't count, and go with the next change.
"""

import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from core import settings
from core.events import TurnAwaited
from core.files import read_small, write_atomically
from core.locks import locked
from core.options import DeviceOptions
from core.run_folder import KeeperRecord, RunFolder
from core.runs import run_title

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
