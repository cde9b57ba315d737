"""What torch's caching allocator reserves of a GPU while tensors come and go, played through without a GPU.

Source: torch 2.13's c10/cuda/CUDACachingAllocator.cpp (`get_allocation_size`, `get_free_block`, `should_split`), with
its default settings and one stream. Segments stay reserved until memory runs out, so that `peak` is what
`torch.cuda.max_memory_reserved` and nvidia-smi would show.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass

MIB = 1 << 20
BLOCK = 512
SMALL, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE_FROM, LARGE_SEGMENT, LARGE_ROUNDING = 10 * MIB, 20 * MIB, 2 * MIB


@dataclass(eq=False)
class _Block:
    """A piece of a segment, with its neighbours there; of blocks of one size, the one at the first place is taken."""

    place: int
    size: int
    is_small: bool
    before: "_Block | None" = None
    behind: "_Block | None" = None
    free: bool = False


class CudaCache:
    """An allocator that is only counted. `held` is what it has reserved, `peak` the most it had: nothing goes back."""

    def __init__(self) -> None:
        self.held = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._blocks: dict[int, _Block] = {}
        self._used: dict[Hashable, _Block] = {}

    @property
    def peak(self) -> int:
        """The most that was reserved."""
        return self.held

    def take(self, key: Hashable, size: int) -> None:
        """Nothing: small objects are in the computer's memory."""

    def take_aligned(self, key: Hashable, size: int) -> None:
        """Make room for a tensor, known as `key`."""
        size = max(BLOCK, -(-size // BLOCK) * BLOCK)
        block = self._find(size, is_small=size <= SMALL) or self._reserve(size)
        left = block.size - size
        if left >= BLOCK if block.is_small else left > SMALL:
            rest = _Block(block.place + size, left, block.is_small, before=block, behind=block.behind)
            if block.behind:
                block.behind.before = rest
            block.behind, block.size = rest, size
            self._set_free(rest)
        self._used[key] = block

    def free(self, key: Hashable) -> None:
        """Let go of what is known as `key`, and join it with its free neighbours."""
        block = self._used.pop(key, None)
        if block is None:
            return
        before, behind = block.before, block.behind
        if behind and behind.free:
            self._take_out(behind)
            _join(block, behind)
        if before and before.free:
            self._take_out(before)
            _join(before, block)
            block = before
        self._set_free(block)

    def _find(self, size: int, *, is_small: bool) -> _Block | None:
        """The smallest free block that is large enough."""
        sizes = self._free[is_small]
        index = bisect_left(sizes, (size, -1))
        if index == len(sizes):
            return None
        block = self._blocks[sizes[index][1]]
        self._take_out(block)
        return block

    def _reserve(self, size: int) -> _Block:
        if size <= SMALL:
            segment = SMALL_SEGMENT
        elif size < LARGE_FROM:
            segment = LARGE_SEGMENT
        else:
            segment = -(-size // LARGE_ROUNDING) * LARGE_ROUNDING
        block = _Block(self.held, segment, size <= SMALL)
        self.held += segment
        return block

    def _set_free(self, block: _Block) -> None:
        block.free = True
        self._blocks[block.place] = block
        insort(self._free[block.is_small], (block.size, block.place))

    def _take_out(self, block: _Block) -> None:
        block.free = False
        sizes = self._free[block.is_small]
        del sizes[bisect_left(sizes, (block.size, block.place))]
        del self._blocks[block.place]


def _join(first: _Block, second: _Block) -> None:
    first.size += second.size
    first.behind = second.behind
    if second.behind:
        second.behind.before = first
