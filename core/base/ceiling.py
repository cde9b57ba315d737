"""Limits memory and time of code that reads untrusted data, models or templates.

Only another process can enforce it: an endless loop in a template, or a slow regular expression, holds Python's lock.
The reading process writes what it reads into a small file (`say`). Its parent, which made the file, checks the file
and the memory several times a second (`Ceiling`).
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

from core.base import formats
from core.base.errors import Fix, OutOfMemory, UserError
from core.base.files import temporary_prefix
from core.base.language import _
from core.base.system import ProcessTree, SystemMemory, resident_bytes, system_memory

READING = "HONE_READING"
"""Environment variable of a process under a ceiling: the file in which it reports what it reads."""

RECORD = 512
"""Bytes of that file: number of the report, pace, and place."""


class Pace(StrEnum):
    """How long reading may take without progress: seconds on any computer, longer, or, on a network, as long as the
    process may be silent at all.
    """

    QUICK = "quick"
    SLOW = "slow"
    OPEN = "open"


SECONDS = {Pace.QUICK: 120.0, Pace.SLOW: 600.0}

SLEPT = 60.0
"""A gap of so many seconds between two checks means that the computer was asleep."""

GROWTH = 32 << 20
"""Bytes of growth that count as progress: weights that come from a slow disk."""

WATCH_SECONDS = 0.05
"""A process fills about 100 MB of fresh memory in that time; the reserve has to be more."""

RESERVE, RESERVE_SHARE = 1 << 30, 0.05
"""Bytes of free memory, or this share if that is less, that are left to other programs."""

_said = 0
_now = ("", Pace.OPEN)


def say(place: str = "", pace: Pace = Pace.OPEN) -> None:
    """Reports which untrusted input this process reads from now on, such as "row 17 of a.csv"; empty: none."""
    global _said, _now  # noqa: PLW0603 - a process reads one thing at a time
    _now = (place, pace)
    if path := os.environ.get(READING):
        _said += 1
        record = f"{_said}\t{pace}\t{place}".encode(errors="replace")
        with contextlib.suppress(OSError), Path(path).open("r+b", buffering=0) as file:
            file.write(record[:RECORD].ljust(RECORD))


@contextlib.contextmanager
def reading(place: str, pace: Pace = Pace.SLOW) -> Iterator[None]:
    """Reports a place while `with` lasts."""
    before = _now
    say(place, pace)
    try:
        yield
    finally:
        say(*before)


class RanOut(OutOfMemory):
    """A process was ended because it took too much memory, by the ceiling or by the operating system.

    `held` is its peak memory in bytes; `why` is a sentence on who ended it.
    """

    def __init__(self, place: str, held: int, why: str) -> None:
        super().__init__(
            _("{place} takes more memory than there is").format(place=place or _("This")),
            formats.paragraph(_("It took {size} at the end.").format(size=formats.memory(held)), why),
            (Fix(_("Close other programs, or choose a smaller file or model")),),
        )
        self.held = held
        self.why = why


def room_for_reading(memory: SystemMemory) -> int:
    """Returns the bytes that a process may take: free memory less a reserve. A Mac has more than it reports."""
    free = memory.total - memory.used
    if sys.platform == "darwin":
        free = max(free, memory.total // 2)
    return but_a_reserve(free)


def but_a_reserve(free: int) -> int:
    """Returns the free memory less the reserve for other programs."""
    return free - round(min(RESERVE, RESERVE_SHARE * free))


class Ceiling:
    """Limits of memory and time of one process.

    `highest` is its peak memory in bytes, `over` why it was ended.

    Args:
        seconds: How long it may be silent while it reports reading nothing; None: without limit, then.
        limit: Bytes it may take; None: no limit of its own.
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
        descriptor, name = tempfile.mkstemp(prefix=temporary_prefix("reading"))
        os.write(descriptor, bytes(RECORD))
        os.close(descriptor)
        self._file = Path(name)
        self._record = b""
        self._grown = 0
        self._tree: ProcessTree | None = None
        self._sign = self._looked = time.monotonic()

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the process needs to report what it reads."""
        return {READING: str(self._file)}

    def hear(self) -> None:
        """Restarts the timeout: the process has made progress."""
        self._sign = time.monotonic()

    def close(self) -> None:
        """Deletes the file."""
        with contextlib.suppress(OSError):
            self._file.unlink()

    @contextlib.contextmanager
    def over_process(self, pid: int, end: Callable[[], None]) -> Iterator[None]:
        """Checks a process while `with` lasts, and calls `end` if it exceeds a limit."""
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
        """Checks the process once; returns why it is to be ended, or None."""
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
            return RanOut(place, self.highest, _("It was stopped before other programs ran out of memory."))
        memory = self._system()
        left = memory.total - memory.used
        if left < min(RESERVE, RESERVE_SHARE * memory.total, touched):
            why = _("It was stopped because only {left} of memory were left on this computer.").format(
                left=formats.memory(left)
            )
            return RanOut(place, self.highest, why)
        return None

    def _time(self, pace: Pace, place: str) -> UserError | None:
        seconds = SECONDS.get(pace, self.seconds) if place else self.seconds
        if seconds is None or time.monotonic() - self._sign < seconds:
            return None
        return UserError(
            _("{place} takes too long").format(place=place) if place else _("No answer in time"),
            _("It was stopped after {seconds} without progress.").format(seconds=formats.duration(seconds)),
            (Fix(_("Choose another file or model, or check this one for errors")),) if place else (),
        )
