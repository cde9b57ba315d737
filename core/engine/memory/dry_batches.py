"""Which rows a dry run trains on: the longest of the real data first, then steps as the run itself would draw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from core.extent import steps_of
from core.options import RunOptions

LONGEST_STEPS = 2
"""Two on the longest batch: only at the backward of the second is the optimizer's state there beside all else."""

ORDINARY_STEPS = 3
"""Then as many on ordinary ones. The longest take the longest, so that their time would promise too late an end; these
stand for a third of the run's steps each, the shortest, the middle and the longest third."""


@dataclass(frozen=True)
class DryBatches:
    """Rows by their place in the data: those of the longest step, and those of each ordinary one."""

    longest: list[int]
    ordinary: list[list[int]]
    repeats: int = LONGEST_STEPS

    @property
    def order(self) -> list[int]:
        """All rows in the order they are trained on."""
        return [*self.longest * self.repeats, *(row for step in self.ordinary for row in step)]


def fitted(options: RunOptions, rows: int) -> tuple[int, int]:
    """Batch size and accumulation of a step on so many rows: a step can't have more rows than the data.

    A last batch of a step that is smaller than the others is filled up.
    """
    size = min(options.memory.batch_size, rows)
    return size, min(options.memory.gradient_accumulation_steps, -(-rows // size))


def pick(order: Sequence[int], lengths: Sequence[int] | None, options: RunOptions) -> DryBatches:
    """Choose the rows.

    Args:
        order: All rows as the run's own sampling draws them for an epoch.
        lengths: Tokens of each row; None: all are equal.
        options: Those of the real run.
    """
    total, _ = steps_of(options, len(order))
    size, accumulated = fitted(options, len(order))
    step = size * accumulated
    by_length = list(order) if lengths is None else sorted(order, key=lambda row: -lengths[row])
    drawn = [list(order[start : start + step]) for start in range(0, len(order) - step + 1, step)]
    if lengths is not None:
        drawn.sort(key=lambda found: _padded(found, lengths, size))
    repeats = min(LONGEST_STEPS, total)
    return DryBatches(
        longest=list(islice(cycle(by_length), step)),
        ordinary=_spread(drawn, min(ORDINARY_STEPS, total - repeats)),
        repeats=repeats,
    )


def _padded(rows: Sequence[int], lengths: Sequence[int], size: int) -> int:
    """Tokens of a step, each batch of it padded to its longest row."""
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)


def _spread(steps: Sequence[list[int]], count: int) -> list[list[int]]:
    """So many of `steps`, evenly spread over them; some twice where there are fewer."""
    if not steps:
        return []
    return [steps[len(steps) * (2 * index + 1) // (2 * count)] for index in range(count)]
