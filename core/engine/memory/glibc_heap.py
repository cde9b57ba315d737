"""What glibc's malloc holds of a process while tensors come and go, played through without allocating anything.

On a CPU this is not a detail. torch asks for aligned memory (`posix_memalign`), for which glibc takes a piece 96 bytes
larger than asked and gives the two ends back. Small objects move into those ends, and when the tensor goes, the gap it
leaves is too small for the next tensor of the same size: with activation checkpointing, where few large tensors come
and go many times, a process was measured at 2.4 times what its tensors took.

Sources: glibc 2.36's malloc.c (`_int_memalign`, `_int_malloc`, `systrim`); a log of all allocations of a real run, see
docs/decisions/0015-memory-trace.md.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable

PAGE = 4096
ALIGNMENT, SMALLEST, HEADER = 64, 32, 8
LARGEST_MAPPED = 32 << 20
"""From this size on, memory is mapped apart and given back as soon as it is free. malloc begins at 128 KiB and learns
from what is freed; by the time a model is loaded, it has arrived here (`DEFAULT_MMAP_THRESHOLD_MAX`)."""

TRIMMED_FROM, PADDING = 2 * LARGEST_MAPPED, 128 << 10
"""The heap's free end goes back to the system from this size on, but for the padding."""

QUICK, QUICK_EACH, FAST, TIDIED_FROM = 1040, 7, 128, 1 << 16
"""Pieces up to `QUICK` bytes wait for the next of their size, `QUICK_EACH` of each (tcache); further ones up to `FAST`
too (fastbins), until a piece of `TIDIED_FROM` is freed."""


class GlibcHeap:
    """A heap that is only counted. `held` is what the process has of it in memory, `peak` the most it had."""

    def __init__(self) -> None:
        self.peak = 0
        self._mapped = self._top = self._end = self._touched = 0
        self._free: dict[int, int] = {}
        self._by_end: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []
        self._waiting: dict[int, list[int]] = defaultdict(list)
        self._fast: dict[int, list[int]] = defaultdict(list)
        self._used: dict[Hashable, tuple[int | None, int]] = {}

    @property
    def held(self) -> int:
        """Bytes in memory now, free or not."""
        return self._mapped + self._touched

    def take(self, key: Hashable, size: int) -> None:
        """Make room for a small object, known as `key`."""
        place, got = self._find(_piece(size))
        self._keep(key, place, got)

    def take_aligned(self, key: Hashable, size: int) -> None:
        """Make room for a tensor."""
        needed = _piece(size)
        place, got = self._find(_piece(size + ALIGNMENT + SMALLEST))
        if place is None:
            self._keep(key, None, got)
            return
        ahead = -(place + 2 * HEADER) % ALIGNMENT
        if 0 < ahead < SMALLEST:
            ahead += ALIGNMENT
        behind = got - ahead - needed
        self._keep(key, place + ahead, needed if behind >= SMALLEST else got - ahead)
        if ahead:
            self._give_back(place, ahead)
        if behind >= SMALLEST:
            self._give_back(place + ahead + needed, behind)

    def free(self, key: Hashable) -> None:
        """Let go of what is known as `key`."""
        place, size = self._used.pop(key)
        if place is None:
            self._mapped -= size
        else:
            self._give_back(place, size)

    def _keep(self, key: Hashable, place: int | None, size: int) -> None:
        self._used[key] = (place, size)
        if place is None:
            self._mapped += size
        self.peak = max(self.peak, self.held)

    def _find(self, size: int) -> tuple[int | None, int]:
        """Where a piece of at least `size` bytes is, and its size; no place: it was mapped apart."""
        for waiting in (self._waiting, self._fast):
            if waiting.get(size):
                return waiting[size].pop(), size
        if size > QUICK:
            self._tidy()
        index = bisect_left(self._by_size, (size, -1))
        if index < len(self._by_size):
            return self._split(*self._by_size[index], size)
        if self._end - self._top < size + SMALLEST:
            if size >= LARGEST_MAPPED:
                return None, _pages(size)
            self._end += _pages(size + PADDING + SMALLEST - (self._end - self._top))
        place, self._top = self._top, self._top + size
        self._touched = max(self._touched, self._top)
        return place, size

    def _split(self, whole: int, place: int, size: int) -> tuple[int, int]:
        self._remove(place)
        if whole - size < SMALLEST:
            return place, whole
        self._add(place + size, whole - size)
        return place, size

    def _give_back(self, place: int, size: int) -> None:
        if size <= QUICK and len(self._waiting[size]) < QUICK_EACH:
            self._waiting[size].append(place)
        elif size <= FAST:
            self._fast[size].append(place)
        elif self._merge(place, size) >= TIDIED_FROM:
            self._tidy()
            self._trim()

    def _merge(self, place: int, size: int) -> int:
        """Join a free piece with its free neighbours, or with the heap's free end; its size then."""
        if place in self._by_end:
            before = self._by_end[place]
            size += self._remove(before)
            place = before
        if place + size in self._free:
            size += self._remove(place + size)
        if place + size == self._top:
            self._top = place
        else:
            self._add(place, size)
        return size

    def _tidy(self) -> None:
        for size, places in self._fast.items():
            for place in places:
                self._merge(place, size)
        self._fast.clear()

    def _trim(self) -> None:
        unused = self._end - self._top
        if unused >= TRIMMED_FROM:
            self._end -= (unused - SMALLEST - PADDING) // PAGE * PAGE
            self._touched = min(self._touched, self._end)

    def _add(self, place: int, size: int) -> None:
        self._free[place] = size
        self._by_end[place + size] = place
        insort(self._by_size, (size, place))

    def _remove(self, place: int) -> int:
        size = self._free.pop(place)
        del self._by_end[place + size]
        del self._by_size[bisect_left(self._by_size, (size, place))]
        return size


def _piece(size: int) -> int:
    """Bytes malloc takes for so many."""
    return max(SMALLEST, -(-(size + HEADER) // 16) * 16)


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE
