"""A traced step played through an allocator a few times: what it holds beyond the tensors."""

import platform
from collections.abc import Hashable, Iterable, Iterator
from typing import Protocol

from core.engine.memory.cuda_cache import CudaCache
from core.engine.memory.glibc_heap import GlibcHeap
from core.engine.memory.tape import Held, Kind, Tape

STEPS = 3
"""After so many steps a heap has found its shape."""

SMALL_OBJECTS = (40, 56, 88, 104)
"""Bytes of small objects that come and go with each tensor (its sizes, its storage, the node that computes its
gradient). Of the sizes seen in a log of a real run, these came nearest to nine measured peaks: within 7 %; on three
runs measured afterwards they were within 8 %."""

SMALL_WITHOUT_GRADIENTS = (40,)
"""The same of a tensor that no gradient is computed for: autograd's objects don't come with it. Of the two objects that
glibc's `mallinfo2` counts then (40 and 88 bytes), the first alone came within 6 % of the one measured run it was chosen
by (MiniLM, last layer only)."""

Event = tuple[int, bool, int]
"""Operator's number, whether something goes, and its number on the tape."""


class Allocator(Protocol):
    """What hands out memory; `peak` is the most it had from the system. Bytes."""

    @property
    def peak(self) -> int:
        """The most it had."""
        ...

    def take(self, key: Hashable, size: int) -> None:
        """Make room for a small object."""
        ...

    def take_aligned(self, key: Hashable, size: int) -> None:
        """Make room for a tensor."""
        ...

    def free(self, key: Hashable) -> None:
        """Let go of either."""
        ...


def allocator_of(kind: str) -> Allocator | None:
    """What hands out memory for a device of this kind here; None where it gives back what is free, or isn't known."""
    if kind == "cuda":
        return CudaCache()
    if kind == "cpu" and platform.libc_ver()[0] == "glibc":
        return GlibcHeap()
    return None


def peak_of(tape: Tape, allocator: Allocator, small_objects: Iterable[int] = SMALL_OBJECTS) -> int:
    """The most the allocator has while the step on the tape is repeated, from the first one on.

    Args:
        tape: One step.
        allocator: A fresh one.
        small_objects: Bytes of those that come with each tensor.
    """
    player = _Player(tape.held, allocator, tuple(small_objects))
    begun = min(tape.begun.values())
    step = list(_events(tape.held, begun))
    player.take(_numbers(tape, Kind.WEIGHT, Kind.INPUT))
    for number in range(STEPS):
        player.play(step)
        if number == 0:
            player.take(_numbers(tape, Kind.STATE))
        player.let_go(_numbers(tape, Kind.GRADIENT))
    return allocator.peak


def _numbers(tape: Tape, *kinds: Kind) -> list[int]:
    return [number for number, one in enumerate(tape.held) if one.kind in kinds]


def _events(held: list[Held], begun: int) -> Iterator[Event]:
    """What comes and goes in a step, in order; what an operator lets go of goes after what it makes."""
    in_step = [(number, one) for number, one in enumerate(held) if one.made > begun]
    made = ((one.made, False, number) for number, one in in_step)
    gone = ((one.gone, True, number) for number, one in in_step if one.gone is not None)
    return iter(sorted((*made, *gone)))


class _Player:
    """Has an allocator make room for what is on a tape."""

    def __init__(self, held: list[Held], allocator: Allocator, small_objects: tuple[int, ...]) -> None:
        self._held = held
        self._small_objects = small_objects
        self._allocator = allocator
        self._there: set[int] = set()

    def play(self, events: Iterable[Event]) -> None:
        """Let tensors come and go."""
        for _, goes, number in events:
            (self.let_go if goes else self.take)((number,))

    def take(self, numbers: Iterable[int]) -> None:
        """Let these come; one that is there from an earlier step goes first."""
        for number in numbers:
            self.let_go((number,))
            if self._held[number].size:
                self._there.add(number)
                self._allocator.take_aligned(number, self._held[number].size)
                for size in self._small_objects:
                    self._allocator.take((number, size), size)

    def let_go(self, numbers: Iterable[int]) -> None:
        """Let these go, as far as they are there."""
        for number in numbers:
            if number in self._there:
                self._there.remove(number)
                for size in self._small_objects:
                    self._allocator.free((number, size))
                self._allocator.free(number)
