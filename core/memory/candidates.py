"""The combinations of remedies that "Fit it for me" may try, in the order in which they are worth trying."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from core.memory.forecast import Forecast
from core.memory.remedies import (
    Asked,
    Step,
    checkpointing,
    dynamic_padding,
    half_precision,
    leaner_optimizers,
    offloading,
    packed_weights,
    small_matrices,
    smaller_batches,
)

LOSSES: dict[str, int] = {"optimizer": 1, "lora": 2, "qlora": 3, "offload": 4}
"""How much of what was asked a step gives up, by its name; the others keep the result. As on the ladder, offloading is
last: it leans on main memory, and gradients can't be clipped."""


AS_ASKED = "As asked"
"""The title of what changes nothing."""


@dataclass(frozen=True)
class Candidate:
    """Some steps taken together, and what is forecast of them. Without any it is what was asked."""

    steps: tuple[Step, ...]
    forecast: Forecast

    @property
    def changes(self) -> dict[str, Any]:
        """All they change."""
        return together(self.steps)

    @property
    def title(self) -> str:
        """What they are, in words."""
        return "; ".join(step.title for step in self.steps) or AS_ASKED

    @property
    def total(self) -> int:
        """Bytes it takes by forecast."""
        return self.forecast.parts.total

    @property
    def slower(self) -> float:
        """By what factor a step takes longer, by forecast."""
        factor = 1.0
        for step in self.steps:
            factor *= step.slower
        return factor

    @property
    def loss(self) -> int:
        """How much is given up of what was asked; 0: nothing."""
        return max((LOSSES.get(step.name, 0) for step in self.steps), default=0)

    @property
    def batch_size(self) -> float:
        """Of how many samples the batches are made; infinity: as asked."""
        return float(self.changes.get("memory.batch_size", math.inf))

    def goes_further_than(self, other: "Candidate") -> bool:
        """Whether it does all that `other` does, and more, in batches no larger: then it is hardly faster."""
        mine, theirs = ({step.title for step in one.steps if step.name != "batch"} for one in (self, other))
        return mine >= theirs and self.batch_size <= other.batch_size


def candidates(asked: Asked) -> list[Candidate]:
    """Every combination that can be made, in the order in which to try them.

    What was asked comes first. Then what keeps the result, what changes the optimizer, LoRA, QLoRA, offloading; the
    fastest first in each.
    """
    found = [Candidate(steps, asked.forecast(together(steps))) for steps in _combinations(asked)]
    return sorted(found, key=lambda one: (bool(one.steps), one.loss, one.slower, one.total))


def together(steps: tuple[Step, ...]) -> dict[str, Any]:
    """What some steps change together; a later one has the last word."""
    return {path: value for step in steps for path, value in step.changes.items()}


def _combinations(asked: Asked) -> Iterator[tuple[Step, ...]]:
    axes = [[None, *axis(asked)] for axis in AXES]
    for chosen in product(*axes):
        steps = tuple(step for step in chosen if step is not None)
        if not steps or asked.allows(Step("", "", "", together(steps))):
            yield steps


def _same_batches(asked: Asked) -> Iterator[Step]:
    """Smaller batches, of those only that move the weights by as many samples as before."""
    before = asked.options.effective_batch
    for step in smaller_batches(asked):
        values: Mapping[str, Any] = step.changes
        if values["memory.batch_size"] * values["memory.gradient_accumulation_steps"] == before:
            yield step


def _methods(asked: Asked) -> Iterator[Step]:
    yield from small_matrices(asked)
    yield from packed_weights(asked)


AXES: tuple[Callable[[Asked], Iterator[Step]], ...] = (
    dynamic_padding,
    _same_batches,
    half_precision,
    checkpointing,
    leaner_optimizers,
    _methods,
    offloading,
)
"""One of each, or none, makes a combination."""
