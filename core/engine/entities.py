"""What tags of words say: which words together are one name, and how many names two taggings share.

The definition is that of conlleval, the program the CoNLL tasks are judged by
(https://www.clips.uantwerpen.be/conll2000/chunking/output.html): a name counts where its kind, its first and its last
word are right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

OUTSIDE = "O"
_PREFIXED = re.compile(r"([BIESLUM])(?:[-_](.*))?")
_BEGINS = "BSU"
_ENDS = "ESLU"


@dataclass(frozen=True)
class Entity:
    """Words from `first` to `last`, both included, that are one thing of a kind."""

    kind: str
    first: int
    last: int


class TagScheme:
    """How to read the tags of a data set.

    With prefixes (B-PER I-PER; IOB1, BIO, IOBES and BILOU alike) these tell where a name begins. Without, neighbours
    with the same tag are one name where some words are outside (`O`); where every word has a tag, as for parts of
    speech, each word stands for itself.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        inside = [label for label in labels if label != OUTSIDE]
        self.has_prefixes = bool(inside) and all(_PREFIXED.fullmatch(label) for label in inside)
        self.joins_neighbours = len(inside) < len(labels)

    def entities(self, tags: Sequence[str]) -> set[Entity]:
        """The names that the tags of one text's words mark."""
        return set(self._entities(tags))

    def _entities(self, tags: Sequence[str]) -> Iterator[Entity]:
        first, before = 0, ("", "")
        for place, tag in enumerate((*tags, OUTSIDE)):
            prefix, kind = now = self._split(tag)
            if prefix and not self._begins(before, now):
                before = now
                continue
            if before[0]:
                yield Entity(before[1], first, place - 1)
            first, before = place, (prefix, kind)

    def _split(self, tag: str) -> tuple[str, str]:
        """Prefix and kind; no prefix outside."""
        if tag == OUTSIDE:
            return "", ""
        if not self.has_prefixes:
            return ("I" if self.joins_neighbours else "S"), tag
        found = _PREFIXED.fullmatch(tag)
        return (found[1], found[2] or "") if found else ("I", tag)

    def _begins(self, before: tuple[str, str], now: tuple[str, str]) -> bool:
        """Whether a word inside a name begins another one than the word before it was in."""
        return not before[0] or before[1] != now[1] or before[0] in _ENDS or now[0] in _BEGINS
