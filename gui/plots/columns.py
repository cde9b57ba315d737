"""Columns of numbers that grow without ever being moved: blocks, of which only the last one is open."""

import bisect
from typing import Any

import numpy as np
import numpy.typing as npt

from gui.plots.reduction import Floats, Places

BLOCK = 65_536
"""Rows of a block."""

FIRST_ROWS = 1024
"""Rows that the open block begins with; it doubles until it is full, so that a short column is small."""

_NOTHING: Floats = np.empty(0)


class Column:
    """Numbers that are only ever added at the end, or cut off there.

    Args:
        dtype: How they are kept: float32 has 7 digits and takes half as much as float64.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self._dtype = np.dtype(dtype)
        self._blocks: list[npt.NDArray[Any]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> float:
        """The number in a row, counted from 0."""
        return float(self._blocks[row // BLOCK][row % BLOCK])

    def extend(self, values: Floats) -> None:
        """Add numbers. Shape (n,)."""
        while len(values):
            used = self._length % BLOCK
            some = values[: BLOCK - used]
            self._with_room(used, used + len(some))[used : used + len(some)] = some
            self._length += len(some)
            values = values[len(some) :]

    def cut(self, length: int) -> None:
        """Keep only the first `length` numbers."""
        del self._blocks[-(-length // BLOCK) :]
        self._length = length

    def rows(self, first: int, last: int) -> Floats:
        """The numbers from row `first` up to `last`, which is left out; a copy."""
        found = np.empty(last - first)
        for number in range(first // BLOCK, -(-last // BLOCK)):
            begin = number * BLOCK
            low, high = max(first, begin), min(last, begin + BLOCK)
            found[low - first : high - first] = self._block(number)[low - begin : high - begin]
        return found

    def take(self, places: Places) -> Floats:
        """The numbers in these rows. Shape as `places`."""
        numbers, offsets = places // BLOCK, places % BLOCK
        found = np.empty(len(places))
        for number in np.unique(numbers):
            chosen = numbers == number
            found[chosen] = self._block(int(number))[offsets[chosen]]
        return found

    def find(self, value: float) -> int:
        """How many numbers there are up to `value`, in a column whose numbers never fall."""
        return bisect.bisect_right(range(self._length), value, key=self.__getitem__)

    def _block(self, number: int) -> npt.NDArray[Any]:
        return self._blocks[number]

    def _with_room(self, used: int, needed: int) -> npt.NDArray[Any]:
        """The open block, grown so that it has room for as many rows as are `needed`."""
        if not used:
            self._blocks.append(np.empty(_room_for(needed), self._dtype))
        elif len(self._blocks[-1]) < needed:
            grown = np.empty(_room_for(needed), self._dtype)
            grown[:used] = self._blocks[-1][:used]
            self._blocks[-1] = grown
        return self._blocks[-1]


class Positions(Column):
    """Numbers that never fall. A full block of evenly spaced whole ones, as steps are, takes no memory."""

    def __init__(self) -> None:
        super().__init__()
        self._firsts: list[float] = []
        self._strides: list[float] = []
        self._seen = 0

    def __getitem__(self, row: int) -> float:
        number, offset = divmod(row, BLOCK)
        if self._strides[number]:
            return self._firsts[number] + self._strides[number] * offset
        return super().__getitem__(row)

    def extend(self, values: Floats) -> None:
        """Add numbers. Shape (n,)."""
        super().extend(values)
        self._take_stock()

    def cut(self, length: int) -> None:
        """Keep only the first `length` numbers."""
        number, used = divmod(length, BLOCK)
        if used and self._strides[number]:
            self._blocks[number] = self._block(number)
            self._strides[number] = 0.0
        super().cut(length)
        self._seen = min(self._seen, number)
        del self._firsts[len(self._blocks) :]
        del self._strides[len(self._blocks) :]

    def take(self, places: Places) -> Floats:
        """The numbers in these rows. Shape as `places`."""
        if not len(places):
            return np.empty(0)
        numbers, offsets = places // BLOCK, places % BLOCK
        begin = int(numbers.min())
        part = slice(begin, int(numbers.max()) + 1)
        strides = np.array(self._strides[part])[numbers - begin]
        found: Floats = np.array(self._firsts[part])[numbers - begin] + strides * offsets
        uneven = strides == 0.0
        found[uneven] = super().take(places[uneven])
        return found

    def count(self, x: float, *, is_right: bool) -> int:
        """How many numbers lie below `x`; with `is_right` also those that are `x`."""
        number = (bisect.bisect_right if is_right else bisect.bisect_left)(self._firsts, x) - 1
        if number < 0:
            return 0
        begin, stride = number * BLOCK, self._strides[number]
        if not stride:
            block = self._blocks[number][: self._length - begin]
            return begin + int(np.searchsorted(block, x, "right" if is_right else "left"))
        share = (x - self._firsts[number]) / stride
        if share > BLOCK - 1:
            return begin + BLOCK
        return begin + (int(share // 1) + 1 if is_right else int(-(-share // 1)))

    def counts(self, x: Floats) -> Places:
        """How many numbers there are up to each `x`, those that are it included. Shape as `x`."""
        firsts, strides = np.array(self._firsts), np.array(self._strides)
        numbers = np.searchsorted(firsts, x, "right") - 1
        block = np.maximum(numbers, 0)
        stride = strides[block]
        is_even = stride > 0
        found = np.minimum((x - firsts[block]) // np.where(is_even, stride, 1.0) + 1, BLOCK).astype(np.intp)
        for number in np.unique(block[~is_even]):
            chosen = block == number
            rows = self._blocks[number][: self._length - number * BLOCK]
            found[chosen] = np.searchsorted(rows, x[chosen], "right")
        return np.where(numbers < 0, 0, block * BLOCK + found)

    def _block(self, number: int) -> npt.NDArray[Any]:
        stride = self._strides[number]
        return self._firsts[number] + stride * np.arange(BLOCK) if stride else self._blocks[number]

    def _take_stock(self) -> None:
        """Note where new blocks begin, and let go of full ones that are evenly spaced."""
        while len(self._firsts) < len(self._blocks):
            self._firsts.append(float(self._blocks[len(self._firsts)][0]))
            self._strides.append(0.0)
        for number in range(self._seen, self._length // BLOCK):
            stride = _stride_of(self._blocks[number])
            if stride:
                self._strides[number], self._blocks[number] = stride, _NOTHING
        self._seen = self._length // BLOCK


def _stride_of(block: Floats) -> float:
    """What evenly spaced whole numbers rise by; 0 where they aren't that."""
    first, stride = float(block[0]), float(block[1] - block[0])
    if not (first.is_integer() and stride.is_integer() and stride > 0):
        return 0.0
    return stride if bool((block == first + stride * np.arange(BLOCK)).all()) else 0.0


def _room_for(rows: int) -> int:
    return max(FIRST_ROWS, min(BLOCK, 1 << (rows - 1).bit_length()))
