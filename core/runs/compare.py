"""Compare runs: results, options that differ, and machines.

Reads only the beginnings and ends of their files, so that a run of a million steps costs as little as a short one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.base import formats
from core.base.formats import METRIC_TITLES
from core.options import RunOptions
from core.options.catalogue import all_options, value_of
from core.options.declare import Option
from core.runs.folder import RunFolder
from core.runs.status import RunStory
from core.runs.summary import RunSummary, story_at_end, summarize
from core.runs.words import statements

FEWEST, MOST = 2, 8
"""So many runs are compared: more curves can't be told apart."""

NAMES_ONLY = ("output.name",)
"""Options that only name a run, which stands above its column anyway."""


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
class Results:
    """What a run came to.

    `metric` is the one that all runs have and are judged by, with the run's `best` value. `seconds` is wall time,
    `peak_bytes` the most memory it held, `samples_per_second` the pace over all of it, or of its last steps.
    """

    metric: str | None
    best: float | None
    seconds: float | None
    peak_bytes: int | None
    samples_per_second: float | None
    steps: int


@dataclass(frozen=True)
class Comparison:
    """Runs side by side; everything else has a value for each, in their order."""

    runs: tuple[RunSummary, ...]
    results: tuple[Results, ...]
    options: tuple[OptionDifference, ...]
    ran: tuple[Difference, ...]


def compare(runs: Sequence[RunFolder], size: Callable[[float], str] = formats.size) -> Comparison:
    """Hold runs against each other.

    Args:
        runs: The runs, two or more.
        size: Writes bytes as a person reads them.
    """
    summaries = tuple(map(summarize, runs))
    stories = [story_at_end(run, and_beginning=True) for run in runs]
    return Comparison(
        runs=summaries,
        results=tuple(map(_results, summaries, stories)),
        options=differing_options([run.readable_options() for run in runs]),
        ran=_differing_facts(stories, size),
    )


def differing_options(asked: Sequence[RunOptions | None]) -> tuple[OptionDifference, ...]:
    """The options in which runs differ, in the order of a run file.

    Args:
        asked: What was asked of each; None: that can't be read.
    """
    rows = (OptionDifference(option, tuple(_value(option, one) for one in asked)) for option in all_options())
    return tuple(row for row in rows if row.option.path not in NAMES_ONLY and _differ(row.values))


def metric_title(name: str) -> str:
    """A metric's name in plain English."""
    return METRIC_TITLES.get(name, name.removeprefix("eval_").replace("_", " "))


def _value(option: Option, options: RunOptions | None) -> Any:
    if options is None:
        return Absent.UNREADABLE
    return value_of(options, option.path) if option.acts_in(options) else Absent.NO_MEANING


def _differ(values: tuple[Any, ...]) -> bool:
    """Whether any two that are known differ; a run file that can't be read says nothing about one option."""
    known = [value for value in values if value is not Absent.UNREADABLE]
    return any(value != known[0] for value in known[1:])


def _results(summary: RunSummary, story: RunStory) -> Results:
    return Results(
        metric=summary.metric,
        best=summary.best,
        seconds=summary.seconds,
        peak_bytes=summary.peak_bytes,
        samples_per_second=_pace(story),
        steps=story.finished.steps if story.finished is not None and story.finished.steps else story.step,
    )


def _pace(story: RunStory) -> float | None:
    """Samples a second: what the engine said at the end, else of the last steps."""
    if story.finished is not None and story.finished.samples_per_second is not None:
        return story.finished.samples_per_second
    if story.plan is None or not story.step_seconds:
        return None
    return story.plan.effective_batch / story.step_seconds


def _differing_facts(stories: Sequence[RunStory], size: Callable[[float], str]) -> tuple[Difference, ...]:
    """What ran and on which versions, where that differs."""
    told = [_facts(story, size) for story in stories]
    titles = dict.fromkeys(title for facts in told for title in facts)
    rows = (Difference(title, tuple(facts.get(title, "") for facts in told)) for title in titles)
    return tuple(row for row in rows if _differ(tuple(value or Absent.UNREADABLE for value in row.values)))


def _facts(story: RunStory, size: Callable[[float], str]) -> dict[str, str]:
    facts = {found.title: found.value for found in statements(story.what_ran, size)}
    return facts | {f"Version of {name}": version for name, version in story.versions.items()}
