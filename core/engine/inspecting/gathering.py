"""What one pass over the rows of a table gathers: counts of labels, what repeats, and some rows to be shown."""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from core.engine.data.checking import kinds
from core.engine.data.checking.repeats import Prints64
from core.engine.data.checking.rows import Block
from core.engine.data.leaving_out import DROP_REPEATS
from core.engine.data.splits import held_out_of
from core.engine.data.tables import Table
from core.engine.inspecting.samples import SHOWN, Sample, Sampled
from core.findings import ROWS_NAMED, Finding, FindingKind
from core.options import DataOptions

STRADDLING = "Some may be trained on and evaluated on, too: the result would look better than it is."


@dataclass
class Foreign:
    """Rows with a label that isn't trained on: which labels, how many samples, and the index of the first row."""

    names: dict[str, None] = field(default_factory=dict)
    count: int = 0
    rows: list[int] = field(default_factory=list)
    first: int = 0


@dataclass
class Gathered:
    """The usable rows of a table: 16 bytes are kept of each.

    `labels` counts them; of words, each word counts. `least` and `most` are the ends of the numbers to learn.
    """

    table: Table
    sampled: Sampled
    labels: Counter[str] = field(default_factory=Counter)
    prints: Prints64 = field(default_factory=Prints64)
    foreign: Foreign = field(default_factory=Foreign)
    usable: int = 0
    characters: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    _places: "array[int]" = field(default_factory=lambda: array("I"))

    def numbers(self, places: Iterable[int]) -> list[int]:
        """The rows' numbers in the file of usable rows by their place among them."""
        return [int(self.table.numbers[self._places[place]]) for place in places]

    def in_table(self, places: Any) -> Any:
        """The indices in the table of usable rows by their place among them."""
        return np.asarray(self._places)[places]

    def take(self, block: Block, known: Collection[str] | None) -> None:
        """Take further rows in; labels that aren't among the `known` are noted."""
        self.usable += len(block.places)
        self._places.extend(block.places)
        self.characters += sum(len(text) for texts in block.inputs for text in texts)
        self.prints.add(block.inputs, block.answers)
        for place, answer in zip(block.places, block.answers, strict=True):
            if isinstance(answer, float):
                self.least, self.most = min(self.least, answer), max(self.most, answer)
                continue
            names = (answer,) if isinstance(answer, str) else answer
            self.labels.update(names)
            if known is not None:
                self._note_foreign(place, [name for name in names if name not in known])
        self._sample(block)

    def _note_foreign(self, place: int, names: list[str]) -> None:
        if not names:
            return
        found = self.foreign
        if not found.count:
            found.first = place
        found.count += len(names)
        found.names.update(dict.fromkeys(names))
        if len(found.rows) < ROWS_NAMED:
            found.rows.append(int(self.table.numbers[place]))

    def _sample(self, block: Block) -> None:
        def at(index: int) -> Sample:
            number = int(self.table.numbers[block.places[index]])
            return Sample(number, block.inputs[index], block.answers[index])

        room = SHOWN - len(self.sampled.first)
        self.sampled.first += [at(index) for index in range(min(room, len(block.places)))]
        self.sampled.evenly += [at(index) for index in self.sampled.wants(block.places)]


def gather(table: Table, blocks: Iterable[Block], known: Collection[str] | None = None) -> Gathered:
    """Go through all blocks.

    Args:
        table: Whose rows they are.
        blocks: The usable rows.
        known: The labels that are trained on, where these rows are evaluated on.
    """
    found = Gathered(table, Sampled(table.rows.num_rows))
    for block in blocks:
        found.take(block, known)
    return found


def without_repeats(found: Gathered, blocks: Callable[[], Iterable[Block]]) -> Gathered:
    """The same without the rows that repeat an earlier one; `blocks` goes through all of them once more."""
    repeated = found.prints.repeated().same
    if not len(repeated):
        return found
    places = found.in_table(repeated)
    return gather(found.table, (_without(block, places) for block in blocks()))


def _without(block: Block, places: Any) -> Block:
    kept = np.flatnonzero(~np.isin(block.places, places)).tolist()
    if len(kept) == len(block.places):
        return block
    return Block(
        [block.places[place] for place in kept],
        [block.inputs[place] for place in kept],
        [block.answers[place] for place in kept],
    )


def repeats(found: Gathered, data: DataOptions) -> Iterator[Finding]:
    """Warnings of rows that have the text of an earlier one."""
    repeated = found.prints.repeated()
    if len(repeated.same):
        yield of_repeats(rows_finding(kinds.DUPLICATES, found, repeated.same), data)
    if len(repeated.other):
        yield rows_finding(kinds.CONTRADICTIONS, found, repeated.other)


def of_repeats(finding: Finding, data: DataOptions) -> Finding:
    """What is said of repeats: that they are left out, or what comes of them and how to leave them out."""
    if data.drop_duplicates:
        is_one = finding.count == 1
        return msgspec.structs.replace(
            finding, message=f"{finding.message} {'It is' if is_one else 'They are'} left out.", fixes=()
        )
    is_share = data.eval_fraction > 0 and held_out_of(data) is None
    message = f"{finding.message} {STRADDLING}" if is_share else finding.message
    return msgspec.structs.replace(finding, message=message, fixes=(*finding.fixes, DROP_REPEATS))


def in_both(train: Gathered, held_out: Gathered) -> Iterator[Finding]:
    """A warning of rows that are trained on and evaluated on; their numbers are those of the evaluation data."""
    places = held_out.prints.also_in(train.prints)
    if len(places):
        yield msgspec.structs.replace(rows_finding(kinds.IN_BOTH, held_out, places), in_eval=True)


def rows_finding(kind: FindingKind, found: Gathered, places: Collection[int]) -> Finding:
    """A finding about rows, given by their places among the usable ones."""
    first = [place for place, _ in zip(places, range(ROWS_NAMED), strict=False)]
    word = found.table.row_word
    return Finding(
        code=kind.code,
        level=kind.level,
        message=kind.message(len(places), word),
        count=len(places),
        rows=tuple(found.numbers(first)),
        row_word=word,
        fixes=kind.fixes,
    )
