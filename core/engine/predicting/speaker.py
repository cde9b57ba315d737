"""Whoever can be asked what the model says of its examples; one kind for each sort of answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from core.predictions import Example, Said

AT_ONCE = 16
"""Examples that are asked about together: a run's memory is foretold for its batches, and there may be 256 of them."""

Item = TypeVar("Item")


class Speaker(Protocol):
    """Some examples, and a way to ask a model about them."""

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples, in order."""
        ...

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What `model`, in evaluation mode, says of each; may end early where a stop is asked."""
        ...


@dataclass(frozen=True)
class Speakers:
    """Several speakers as one: held-out examples first, the person's own prompts behind them."""

    parts: tuple[Speaker, ...]

    @property
    def examples(self) -> tuple[Example, ...]:
        """All their examples."""
        return tuple(example for part in self.parts for example in part.examples)

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What the model says of all of them."""
        return tuple(said for part in self.parts for said in part.say(model, is_asked_to_stop))


def in_portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in their order, `AT_ONCE` at a time."""
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def on_device(batch: dict[str, Any], model: Any) -> dict[str, Any]:
    """A batch where the model's weights are, without its labels: nothing is learned from it."""
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in batch.items() if name != "labels"}


def logits_of(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    """The logits of a batch in fp32, on the CPU."""
    found = model(**on_device(batch, model))
    logits: torch.Tensor = found["logits"]
    return logits.float().cpu()
