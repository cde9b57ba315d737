"""What the counts of labels tell: some too few to be learned, some far fewer than others, some never trained on."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from core.engine.data.checking import kinds
from core.findings import Finding, FindingKind

FEWEST = 8
"""Rows of a label from which something can be learned of it."""
IMBALANCE = 20
"""The largest label has at most so many times the rows of another before that is told."""
NAMED = 5


def told_of(labels: Mapping[str, int], noun: str = "row") -> Iterator[Finding]:
    """Warnings about how often labels come."""
    counts = Counter(labels).most_common()
    if len(counts) < 2:
        return  # stops a run
    most, largest = counts[0]
    rarest = counts[::-1]
    few = [(name, count) for name, count in rarest if count < FEWEST]
    if few:
        yield _finding(kinds.RARE_LABEL, few, noun)
    uneven = [(name, count) for name, count in rarest if count >= FEWEST and count * IMBALANCE < largest]
    if uneven:
        yield _finding(kinds.UNEVEN_LABELS, [(most, largest), *uneven], noun)


def similar(labels: Mapping[str, int]) -> Iterator[Finding]:
    """A warning about labels that are the same but for capitals and spaces."""
    groups: dict[str, list[str]] = {}
    for name in labels:
        groups.setdefault(" ".join(name.split()).casefold(), []).append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    if not alike:
        return
    kind, counts = kinds.SIMILAR_LABELS, sum(labels[name] for names in alike for name in names)
    shown = "; ".join(" and ".join(f"“{name}”" for name in names) for names in alike[:NAMED])
    more = f" (and {len(alike) - NAMED:,} more such)" if len(alike) > NAMED else ""
    message = kind.message(counts, detail=f"The labels {shown}{more}")
    yield Finding(code=kind.code, level=kind.level, message=message, count=len(alike), fixes=kind.fixes)


def _finding(kind: FindingKind, counts: list[tuple[str, int]], noun: str) -> Finding:
    parts = [f"“{name}” has {_counted(count, noun)}" for name, count in islice(counts, NAMED)]
    more = f" and {len(counts) - NAMED:,} labels more" if len(counts) > NAMED else ""
    return Finding(
        code=kind.code,
        level=kind.level,
        message=kind.message(len(counts), noun, f"{', '.join(parts)}{more}"),
        count=len(counts),
        fixes=kind.fixes,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
