"""What a model said of the same held-out examples at every evaluation, and how it mixed up classes, as events.

The examples are told once an attempt, with their images as files in the run's folder; what was said of them is told
at each evaluation, before training (step 0) included.
"""

import msgspec

from core.event import Count, Event, Seconds

MOST_LABELS = 50
"""So many labels at most a confusion matrix has."""


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One held-out example, or a prompt of the person's own.

    `given` is what the model reads, as text; `image` a PNG file relative to the run's folder, in its place. `expected`
    is what it should say; empty for own prompts, where nobody knows.
    """

    given: str = ""
    image: str = ""
    expected: str = ""
    is_own: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model said of one example: a label, a number, labels by word, or the text it wrote.

    `sure` is the probability (0 to 1) of a label. `right` tells whether it is what was expected; None where that is no
    matter of yes or no. `is_cut` marks a text that was ended by its length, not by the model.
    """

    text: str
    sure: float | None = None
    right: bool | None = None
    is_cut: bool = False


class ExamplesChosen(Event, frozen=True, kw_only=True):
    """The examples whose predictions are kept, in order."""

    examples: tuple[Example, ...]


class Predicted(Event, frozen=True, kw_only=True):
    """What the model said after `step` of each of the examples, in their order."""

    step: Count
    epoch: float
    said: tuple[Said, ...]
    seconds: Seconds = 0.0


class ConfusionCounted(Event, frozen=True, kw_only=True):
    """How classes were mixed up in the evaluation after `step`.

    `counts[i][j]` samples of class `labels[i]` were taken for `labels[j]`. Of many classes only those mixed up
    most are told; `left_out` counts the others.
    """

    step: Count
    labels: tuple[str, ...]
    counts: tuple[tuple[Count, ...], ...]
    left_out: Count = 0

    def within_limits(self) -> "ConfusionCounted":
        """The same with no more labels than Hone writes: somebody else's file may hold any number."""
        labels, counts = (
            self.labels[:MOST_LABELS],
            tuple(row[:MOST_LABELS] for row in self.counts[:MOST_LABELS]),
        )
        left_out = self.left_out + len(self.labels) - len(labels)
        return msgspec.structs.replace(self, labels=labels, counts=counts, left_out=left_out)
