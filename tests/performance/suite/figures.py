"""What a benchmark hands over: its figures, each with its peer's, its goal, and whether that was reached."""

import argparse
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec


class Bound(StrEnum):
    """Which way a goal goes, and whether it is about the figure or about its ratio to the peer's."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    RATIO_AT_MOST = "ratio at most"
    RATIO_AT_LEAST = "ratio at least"

    @property
    def is_of_ratio(self) -> bool:
        return self in (Bound.RATIO_AT_MOST, Bound.RATIO_AT_LEAST)


class Goal(msgspec.Struct, frozen=True):
    """What a figure, or its ratio to the peer's, has to come to."""

    bound: Bound
    limit: float

    def is_reached(self, value: float, ratio: float | None) -> bool:
        judged = ratio if self.bound.is_of_ratio else value
        if judged is None:
            return False
        is_upper = self.bound in (Bound.AT_MOST, Bound.RATIO_AT_MOST)
        return judged <= self.limit if is_upper else judged >= self.limit


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of a benchmark, in its `unit`; `peer` is the same of whom it is held against.

    `ratio` is the figure over the peer's, or what the benchmark has found better to hold against each other (the median
    of neighbours' ratios). `lowest` and `highest` tell how far it spreads. `reached` is None where there is no goal.
    """

    name: str
    value: float
    unit: str = ""
    peer: float | None = None
    ratio: float | None = None
    lowest: float | None = None
    highest: float | None = None
    goal: Goal | None = None
    reached: bool | None = None


def figure(
    name: str,
    value: float,
    unit: str = "",
    *,
    peer: float | None = None,
    ratio: float | None = None,
    spread: tuple[float, float] | None = None,
    goal: Goal | None = None,
) -> Figure:
    """A figure with what follows from it: its ratio to the peer's, unless told, and whether its goal was reached."""
    if ratio is None and peer:
        ratio = value / peer
    return Figure(
        name=name,
        value=value,
        unit=unit,
        peer=peer,
        ratio=ratio,
        lowest=spread[0] if spread else None,
        highest=spread[1] if spread else None,
        goal=goal,
        reached=goal.is_reached(value, ratio) if goal else None,
    )


def at_most(limit: float) -> Goal:
    return Goal(Bound.AT_MOST, limit)


def at_least(limit: float) -> Goal:
    return Goal(Bound.AT_LEAST, limit)


def ratio_at_most(limit: float) -> Goal:
    return Goal(Bound.RATIO_AT_MOST, limit)


def ratio_at_least(limit: float) -> Goal:
    return Goal(Bound.RATIO_AT_LEAST, limit)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option of every benchmark that names the file it hands its figures over in."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into a file, too")


def hand_over(file: Path | None, figures: Sequence[Figure]) -> None:
    """Write a benchmark's figures where `--json` has them; nothing where it was not given."""
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(list(figures)), indent=1))


def taken_from(file: Path) -> tuple[Figure, ...]:
    """What a benchmark has handed over.

    Raises:
        OSError: It hasn't.
        msgspec.MsgspecError: It is something else.
    """
    return msgspec.json.decode(file.read_bytes(), type=tuple[Figure, ...])
