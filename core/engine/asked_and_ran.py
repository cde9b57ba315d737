"""Where what ran is not what was asked for: pure functions over the settled options and `WhatRan`."""

from collections.abc import Iterator
from dataclasses import dataclass

from core.engine.comparisons import COMPARISONS
from core.events import WhatRan
from core.options import RunOptions


@dataclass(frozen=True)
class Difference:
    """Something that ran otherwise than asked: the option it is about, and what to tell the person."""

    path: str
    title: str
    detail: str

    @property
    def message_id(self) -> str:
        """The id of its message, one for each option."""
        return f"ran-differently-{self.path}"


def differences(settled: RunOptions, ran: WhatRan) -> tuple[Difference, ...]:
    """Everything in which `ran` differs from `settled`, the options with nothing automatic left in them.

    Of an option that several comparisons are about, the first that finds something is told.
    """
    found: dict[str, Difference] = {}
    for difference in _found(settled, ran):
        found.setdefault(difference.path, difference)
    return tuple(found.values())


def _found(settled: RunOptions, ran: WhatRan) -> Iterator[Difference]:
    for comparison in COMPARISONS:
        if comparison.differs(settled, ran):
            yield Difference(comparison.path, comparison.title, comparison.says(settled, ran))
