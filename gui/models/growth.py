"""Hands what a history has grown by from the thread that makes it to the window that draws it.

Two objects of one class, one in the thread and one in the window: what is new of each series of the first is added to
that of the second, and what else is named in the class' `grows` is told anew. So the window folds nothing, and neither
side reads what the other one writes.
"""

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from gui.plots.reduction import Floats
from gui.plots.series import Series


@dataclass(frozen=True)
class Grows:
    """What the window is told of an object, by the names of its attributes; all others stay in the thread.

    Whoever adds an attribute that is to be drawn names it here: under `series`, if it is a `Series` to which points are
    only ever added; under `parts`, if it is an object that has a `Grows` itself; under `known`, if it is anything else,
    which is then copied each time: a number, a name, a short list.
    """

    series: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Grown(Protocol):
    """An object of which the window has a copy that grows with it."""

    grows: ClassVar[Grows]


@dataclass(frozen=True)
class Growth:
    """What came to an object: points of its series, what came to its parts, and all else that it knows, by name."""

    points: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    parts: dict[str, "Growth"] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    def add_to(self, other: Grown) -> None:
        """Let another object of the same class grow as much."""
        for name, (x, y) in self.points.items():
            getattr(other, name).extend(x, y)
        for name, growth in self.parts.items():
            growth.add_to(getattr(other, name))
        for name, value in self.known.items():
            setattr(other, name, value)


class Growing:
    """Watches one object grow.

    Args:
        grown: The object.
    """

    def __init__(self, grown: Grown) -> None:
        self._grown = grown
        self._lengths = dict.fromkeys(grown.grows.series, 0)
        self._parts = {name: Growing(getattr(grown, name)) for name in grown.grows.parts}

    def take(self) -> Growth:
        """What has come since the last call."""
        points: dict[str, tuple[Floats, Floats]] = {}
        for name, before in self._lengths.items():
            series: Series = getattr(self._grown, name)
            if len(series) > before:
                points[name] = series.rows(before)
                self._lengths[name] = len(series)
        parts = {name: part.take() for name, part in self._parts.items()}
        known = {name: copy.copy(getattr(self._grown, name)) for name in self._grown.grows.known}
        return Growth(points, parts, known)
