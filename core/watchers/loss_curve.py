"""The losses of a whole run in little room: averages over more and more steps, and the trend of the later ones."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

MOST_BLOCKS = 256
FIRST_LOSSES = 5


@dataclass
class Block:
    """The sum of `count` losses, those of the steps `first` to `last`."""

    first: int
    last: int
    count: int
    total: float

    @property
    def mean(self) -> float:
        """Their average."""
        return self.total / self.count

    @property
    def middle(self) -> float:
        """The step in their middle."""
        return (self.first + self.last) / 2


@dataclass(frozen=True)
class Low:
    """The lowest a loss was, averaged over some steps, and the last of these."""

    loss: float
    step: int


@dataclass(frozen=True)
class Trend:
    """How a loss went over some steps: its `mean`, by how much it changed, and how far from that it may really be."""

    mean: float
    change: float
    uncertainty: float

    @property
    def most(self) -> float:
        """The largest change that it may have been, as a share of the mean."""
        return (abs(self.change) + self.uncertainty) / max(abs(self.mean), 1e-12)

    @property
    def least(self) -> float:
        """The smallest change that it may have been, as a share of the mean; 0: maybe none."""
        return max(0.0, abs(self.change) - self.uncertainty) / max(abs(self.mean), 1e-12)


class LossCurve:
    """Takes in one finite loss a step, for as many steps as come: neighbours are joined once there are too many blocks.

    `start` is the average of the first few, None before them.
    """

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._size = 1
        self._first: list[float] = []

    def add(self, step: int, loss: float) -> None:
        """Take in the loss of a step."""
        if len(self._first) < FIRST_LOSSES:
            self._first.append(loss)
        if self._blocks and self._blocks[-1].count < self._size:
            block = self._blocks[-1]
            block.last, block.count, block.total = step, block.count + 1, block.total + loss
        else:
            self._blocks.append(Block(step, step, 1, loss))
        if len(self._blocks) > MOST_BLOCKS:
            self._blocks = list(_joined(self._blocks))
            self._size *= 2

    @property
    def first(self) -> Low | None:
        """The first loss, of the model as it was before anything moved."""
        return Low(self._first[0], self._blocks[0].first) if self._first else None

    @property
    def start(self) -> float | None:
        """What the loss began at."""
        return sum(self._first) / FIRST_LOSSES if len(self._first) == FIRST_LOSSES else None

    @property
    def last(self) -> int:
        """The last step with a loss; 0 before one."""
        return self._blocks[-1].last if self._blocks else 0

    def since(self, step: int) -> list[Block]:
        """The complete blocks from `step` on."""
        return [block for block in self._blocks if block.first >= step and block.count == self._size]

    def up_to(self, step: int) -> float | None:
        """What the loss was at a step: the average of the neighbouring steps kept together with it; None: not known."""
        until = [block for block in self._blocks if block.first <= step]
        width = max(1, -(-FIRST_LOSSES // self._size))
        near = until[-width:]
        return sum(block.total for block in near) / sum(block.count for block in near) if near else None

    def lowest(self, steps: int) -> Low | None:
        """The lowest average over at least so many neighbouring steps; None before there are so many."""
        width = -(-steps // self._size)
        blocks = [block for block in self._blocks if block.count == self._size]
        if len(blocks) < width:
            return None
        sums = [0.0, *accumulate(block.total for block in blocks)]
        low, end = min((sums[end] - sums[end - width], end) for end in range(width, len(sums)))
        return Low(low / (width * self._size), blocks[end - 1].last)


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    for index in range(0, len(blocks) - 1, 2):
        one, other = blocks[index], blocks[index + 1]
        yield Block(one.first, other.last, one.count + other.count, one.total + other.total)
    if len(blocks) % 2:
        yield blocks[-1]


def trend(blocks: Sequence[Block]) -> Trend:
    """The straight line through at least three blocks of equal size, by least squares.

    The uncertainty is two standard errors: a change that large or larger comes of noise alone about once in twenty
    times.
    """
    count = len(blocks)
    mean_step = sum(block.middle for block in blocks) / count
    mean_loss = sum(block.mean for block in blocks) / count
    spread = sum((block.middle - mean_step) ** 2 for block in blocks)
    slope = sum((block.middle - mean_step) * (block.mean - mean_loss) for block in blocks) / spread
    rest = sum((block.mean - mean_loss - slope * (block.middle - mean_step)) ** 2 for block in blocks)
    error = math.sqrt(rest / (count - 2) / spread)
    length = blocks[-1].last - blocks[0].first
    return Trend(mean_loss, slope * length, 2 * error * length)
