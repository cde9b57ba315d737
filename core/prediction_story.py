"""What the model said of its examples evaluation by evaluation, folded out of a run's events."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from core.events import ConfusionCounted, Event, ExamplesChosen, Predicted, RunStarted, decode
from core.files import open_plain
from core.predictions import Example

_CHOSEN = b'"type":"examples_chosen"'


@dataclass
class PredictionStory:
    """The examples, what was said of them evaluation by evaluation, and the newest confusion matrix.

    Steps of an attempt that no longer count are forgotten where a run goes on from an earlier step.
    """

    examples: tuple[Example, ...] = ()
    told: list[Predicted] = field(default_factory=list)
    confusion: ConfusionCounted | None = None

    def apply(self, event: Event) -> None:
        """Take one event; those of other kinds are passed over."""
        match event:
            case RunStarted():
                self.told = [
                    found for found in self.told if found.step <= event.from_step and event.from_step
                ]
                if self.confusion is not None and self.confusion.step > event.from_step:
                    self.confusion = None
            case ExamplesChosen():
                self.examples = event.examples
            case Predicted():
                self.told = [*(found for found in self.told if found.step != event.step), event]
            case ConfusionCounted():
                self.confusion = event.within_limits()

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take events in their order."""
        for event in events:
            self.apply(event)


def chosen_examples(events_file: Path) -> tuple[Example, ...]:
    """The examples that a run told last, none where there are none; a file of a million lines isn't decoded."""
    found: tuple[Example, ...] = ()
    with contextlib.suppress(OSError), open_plain(events_file) as file:
        for line in file:
            if _CHOSEN in line[:80]:
                with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                    event = decode(line)
                    found = event.examples if isinstance(event, ExamplesChosen) else found
    return found
