"""The page as plain parts, before it becomes HTML or Markdown."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from core.report.svg import Chart

_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Words:
    """A paragraph; `lines` stand below each other. What stands between backticks is code."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """A picture of the data, as the bytes of a PNG file, with words for it."""

    png: bytes = field(repr=False)
    words: str


@dataclass(frozen=True)
class Told:
    """A sentence of Hone's own in a table: what stands between backticks is code, as in a paragraph."""

    text: str


Cell = str | Image | Told


@dataclass(frozen=True)
class Table:
    """Rows under their titles. `numbers` are the columns that are lined up on the right."""

    titles: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    numbers: frozenset[int] = frozenset()


Block = Words | Table | Chart


@dataclass(frozen=True)
class Section:
    """A heading with what stands below."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole page. `outcome` is told as `Words` are. `facts` are figures for the head: what each is, and how much."""

    title: str
    outcome: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    made: str


def told_parts(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a sentence of Hone's in their order, each with whether it is code."""
    for place, part in enumerate(_CODE.split(text)):
        if part:
            yield part, place % 2 == 1
