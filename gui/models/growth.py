"""Hands what a history has grown by from the thread that makes it to the window that draws it.

Two objects of one class, one in the thread and one in the window: what is new of each series of the first is added to
that of the second, and everything else is told anew. So the window folds nothing, and neither side reads what the other
one writes.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from gui.plots.reduction import Floats
from gui.plots.series import Series


@dataclass(frozen=True)
class Growth:
    """What came to an object: points of its series, what came to its parts, and all else that it knows, by name."""

    points: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    parts: dict[str, "Growth"] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    def add_to(self, other: object) -> None:
        """Let another object of the same class grow as much."""
        for name, (x, y) in self.points.items():
            getattr(other, name).extend(x, y)
        for name, growth in self.parts.items():
            growth.add_to(getattr(other, name))
        vars(other).update(self.known)


class Growing:
    """Watches one object grow, whose series are only ever added to.

    Args:
        grown: The object. Its attributes are series, what can be copied, and objects of the classes in `parts`.
        parts: Classes of objects that are made of series themselves.
    """

    def __init__(self, grown: object, parts: tuple[type, ...] = ()) -> None:
        self._grown = grown
        self._lengths = {name: 0 for name, value in vars(grown).items() if isinstance(value, Series)}
        self._parts = {name: Growing(part) for name, part in vars(grown).items() if isinstance(part, parts)}

    def take(self) -> Growth:
        """What has come since the last call."""
        points: dict[str, tuple[Floats, Floats]] = {}
        for name, before in self._lengths.items():
            series: Series = getattr(self._grown, name)
            if len(series) > before:
                points[name] = series.rows(before)
                self._lengths[name] = len(series)
        parts = {name: part.take() for name, part in self._parts.items()}
        known = {
            name: copy.copy(value)
            for name, value in vars(self._grown).items()
            if name not in self._lengths and name not in self._parts
        }
        return Growth(points, parts, known)
