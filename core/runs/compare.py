"""Compare runs: results, options that differ, and machines.

Reads only the beginnings and ends of their files, so that a run of a million steps costs as little as a short one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.base import formats
from core.base.language import _
from core.options import RunOptions
from core.options.catalogue import all_options, value_of
from core.options.declare import Option
from core.runs.folder import RunFolder
from core.runs.summary import RunSummary, status_at_end, summarize
from core.runs.words import statements

FEWEST, MOST = 2, 8
"""Numbers of runs that can be compared: more curves can't be distinguished."""


class Absent(StrEnum):
    """Why a run has no value for an option."""

    NO_MEANING = "no-meaning"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class OptionDifference:
    """An option in which runs differ, with the value of each, defaults filled in; `Absent` where it has none."""

    option: Option
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """Something else in which runs differ, in words; empty where nothing is known of a run."""

    title: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side; everything else has a value for each, in their order."""

    runs: tuple[RunSummary, ...]
    options: tuple[OptionDifference, ...]
    ran: tuple[Difference, ...]


def compare(runs: Sequence[RunFolder], size: Callable[[float], str] = formats.size) -> Comparison:
    """Compare two or more runs; `size` formats bytes."""
    facts = []
    for run in runs:
        status = status_at_end(run, and_beginning=True)
        ran = {found.title: found.value for found in statements(status.what_ran, size)}
        facts.append(
            ran
            | {_("Version of {name}").format(name=name): version for name, version in status.versions.items()}
        )
    titles = dict.fromkeys(title for ran in facts for title in ran)
    rows = (Difference(title, tuple(ran.get(title, "") for ran in facts)) for title in titles)
    return Comparison(
        runs=tuple(map(summarize, runs)),
        options=differing_options([run.readable_options() for run in runs]),
        ran=tuple(row for row in rows if _differ(row.values, unknown="")),
    )


def differing_options(options: Sequence[RunOptions | None]) -> tuple[OptionDifference, ...]:
    """The options in which runs differ, in the order of a run file; None: a run's options can't be read."""
    rows = (OptionDifference(one, tuple(_value(one, tree) for tree in options)) for one in all_options())
    differing = (row for row in rows if _differ(row.values, unknown=Absent.UNREADABLE))
    return tuple(row for row in differing if row.option.path != "output.name")  # it heads the column anyway


def _value(option: Option, options: RunOptions | None) -> Any:
    if options is None:
        return Absent.UNREADABLE
    return value_of(options, option.path) if option.acts_in(options) else Absent.NO_MEANING


def _differ(values: tuple[Any, ...], unknown: Any) -> bool:
    """Whether any two that are known differ."""
    known = [value for value in values if value != unknown]
    return any(value != known[0] for value in known[1:])
