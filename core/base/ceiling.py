"""Limit memory and time of code that reads a stranger's data, model or template.

Only another process can enforce it: an endless loop in a template, or a slow regular expression, holds Python's lock.
The reading process writes what it reads into a small file (`say`); its parent, who made the file, checks that and the
memory several times a second (`Ceiling`).
"""

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import psutil

from core.base.errors import Fix, OutOfMemory, UserError
from core.base.formats import duration, size
from core.base.language import _
from core.base.system import ProcessTree, SystemMemory, resident_bytes, system_memory

READING = "HONE_READING"
"""In the environment of a process under a ceiling: the file in which it says what it reads."""

RECORD = 512
"""Bytes of that file: how often something was said, the pace, and the place."""


class Pace(StrEnum):
    """How long something may be read without a sign of life. It takes seconds on any computer, or it may not, or as
    long as the process may be silent at all: a network decides.
    """

    QUICK = "quick"
    SLOW = "slow"
    OPEN = "open"


SECONDS = {Pace.QUICK: 120.0, Pace.SLOW: 600.0}

SLEPT = 60.0
"""Seconds between two looks: the computer was asleep meanwhile."""

GROWTH = 32 << 20
"""So many bytes more in memory are a sign of life: weights that come from a slow disk."""

WATCH_SECONDS = 0.05
"""A process fills about 100 MB of fresh memory in that time; the reserve has to be more."""

RESERVE, RESERVE_SHARE = 1 << 30, 0.05
"""So much of the free memory, or this share where that is less, is left to the other programs."""

_said = 0
_now = ("", Pace.OPEN)


def say(place: str = "", pace: Pace = Pace.OPEN) -> None:
    """Say what of a stranger's this process reads from now on, such as "row 17 of a.csv"; nothing: no more of it."""
    global _said, _now  # noqa: PLW0603 - a process reads one thing at a time
    _now = (place, pace)
    if path := os.environ.get(READING):
        _said += 1
        record = f"{_said}\t{pace}\t{place}".encode(errors="replace")
        with contextlib.suppress(OSError), Path(path).open("r+b", buffering=0) as file:
            file.write(record[:RECORD].ljust(RECORD))


@contextlib.contextmanager
def reading(place: str, pace: Pace = Pace.SLOW) -> Iterator[None]:
    """Say it for as long as `with` lasts."""
    before = _now
    say(place, pace)
    try:
        yield
    finally:
        say(*before)


def end_reading() -> None:
    """Say that from now on this process, and those it starts, do what is Hone's own."""
    say()
    os.environ.pop(READING, None)


class RanOut(OutOfMemory):
    """A process was ended because it took too much memory, by the ceiling or by the operating system.

    `held` are the bytes it held at most, which from outside nobody can divide; `why` says in a sentence who ended it.
    """

    def __init__(self, place: str, held: int, why: str) -> None:
        super().__init__(
            _("{place} takes more memory than there is").format(place=place or "This"),
            _("{held} were held at the end. {why}").format(held=size(held), why=why),
            (Fix(_("Close other programs, or choose something smaller")),),
        )
        self.held = held
        self.why = why


def room_for_reading(memory: SystemMemory) -> int:
    """What a process may hold: all that is free but a reserve. A Mac gives more than it calls free, by compressing."""
    free = memory.total - memory.used
    if sys.platform == "darwin":
        free = max(free, memory.total // 2)
    return but_a_reserve(free)


def but_a_reserve(free: int) -> int:
    """What of free memory may be taken: other programs are left the reserve."""
    return free - round(min(RESERVE, RESERVE_SHARE * free))


class Ceiling:
    """What one process may take of memory and time.

    `highest` are the bytes it held at most, `over` what it was ended for.

    Args:
        seconds: How long it may be silent while it says of nothing that it reads it; None: it is Hone's own then, and
            takes what it needs.
        limit: Bytes it may hold; None: no limit of its own.
        system: Reads the computer's memory.
    """

    def __init__(
        self,
        seconds: float | None = None,
        limit: int | None = None,
        *,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        self.highest = 0
        self.over: UserError | None = None
        self.seconds, self._limit, self._system = seconds, limit, system
        descriptor, name = tempfile.mkstemp(prefix="hone-reading-")
        os.write(descriptor, bytes(RECORD))
        os.close(descriptor)
        self._file = Path(name)
        self._record = b""
        self._grown = 0
        self._tree: ProcessTree | None = None
        self._sign = self._looked = time.monotonic()

    @property
    def environment(self) -> dict[str, str]:
        """What the process gets, so that it can say what it reads."""
        return {READING: str(self._file)}

    def hear(self) -> None:
        """It has given a sign of life."""
        self._sign = time.monotonic()

    def close(self) -> None:
        """Nothing is looked at any more."""
        with contextlib.suppress(OSError):
            self._file.unlink()

    @contextlib.contextmanager
    def over_process(self, pid: int, end: Callable[[], None]) -> Iterator[None]:
        """Look at a process as long as `with` lasts, and end it where it goes beyond."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(WATCH_SECONDS):
                if self.look(pid):
                    end()
                    return

        thread = threading.Thread(target=watch, name="ceiling", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.close()

    def look(self, pid: int) -> UserError | None:
        """What the process is to be ended for now; None: it may go on."""
        pace, place = self._said()
        if not place and self.seconds is None:
            return None
        self._tree = self._tree or ProcessTree(pid)
        self.over = self._memory(pace, place, self._tree.read()) or self._time(pace, place)
        return self.over

    def _said(self) -> tuple[Pace, str]:
        now = time.monotonic()
        if now - self._looked > SLEPT:  # the computer slept
            self._sign = now
        self._looked = now
        with contextlib.suppress(OSError):
            if (record := self._file.read_bytes()) != self._record:
                self._record, self._sign = record, now
        _rest, _rest2, said = self._record.decode(errors="replace").rstrip("\0 ").partition("\t")
        pace, _rest3, place = said.partition("\t")
        return Pace(pace or Pace.OPEN), place

    def _memory(self, pace: Pace, place: str, processes: list[psutil.Process]) -> RanOut | None:
        touched, held = resident_bytes(processes), resident_bytes(processes, without_files=True)
        if touched is None or held is None:
            return None
        if touched > self._grown + GROWTH and pace is not Pace.QUICK:
            self._grown = touched
            self._sign = time.monotonic()
        self.highest = max(self.highest, held)
        if self._limit is not None and held > self._limit:
            return RanOut(place, self.highest, _("It was ended before it took memory from other programs."))
        memory = self._system()
        left = memory.total - memory.used
        if left < min(RESERVE, RESERVE_SHARE * memory.total, touched):
            why = _("It was ended because the whole computer had only {left} left.").format(left=size(left))
            return RanOut(place, self.highest, why)
        return None

    def _time(self, pace: Pace, place: str) -> UserError | None:
        seconds = SECONDS.get(pace, self.seconds) if place else self.seconds
        if seconds is None or time.monotonic() - self._sign < seconds:
            return None
        return UserError(
            _("{place} takes too long").format(place=place) if place else _("No answer came in time"),
            _("It was ended after {seconds} without progress.").format(seconds=duration(seconds)),
            (Fix(_("Choose another file or model, or look for what is wrong in this one")),) if place else (),
        )
