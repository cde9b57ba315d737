"""`hone compare`: runs side by side, and only what differs."""

from typing import Any

from core import figures
from core.catalogue import Kind, Option
from core.commands.output import print_json, say
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.option_words import number_words
from core.run_comparison import FEWEST, MOST, Absent, Comparison, Results, metric_title
from core.run_comparison import compare as hold_against

ABSENT = {Absent.NO_MEANING: figures.MISSING, Absent.UNREADABLE: "?"}


def compare(names: list[str], *, as_json: bool) -> int:
    """Print what runs came to, the options in which they differ, and what else differed.

    Args:
        names: Their folders, or their names among all runs.
        as_json: Whether it is printed as JSON.

    Raises:
        OptionsError: One of them is not there or named twice, or they are too few or too many.
    """
    if not FEWEST <= len(names) <= MOST:
        said = f"name {FEWEST} to {MOST} runs; these are {len(names)}"
        raise OptionsError((Problem("", said),), "The comparison")
    runs = [find_run(name) for name in names]
    twice = next(
        (run for place, run in enumerate(runs) if run.path in [one.path for one in runs[:place]]), None
    )
    if twice is not None:
        raise OptionsError(
            (Problem("", f"{twice.name} is named twice; name each run once"),), "The comparison"
        )
    found = hold_against(runs)
    if as_json:
        print_json(as_plain(found))
        return 0
    columns = tuple(summary.run.name for summary in found.runs)
    say(figures.table(("RESULT", *columns), _result_rows(found)))
    unread = [summary.problem for summary in found.runs if summary.problem]
    for problem in unread:
        say(f"\n{problem}")
    _say_rows(("OPTION", *columns), _option_rows(found), "" if unread else "They were asked the same.")
    _say_rows(("WHAT RAN", *columns), [(row.title, *row.values) for row in found.ran], "")
    return 0


def as_plain(found: Comparison) -> dict[str, Any]:
    """A comparison as plain values for JSON; an option that a run lacks is null."""
    return {
        "runs": [str(summary.run.path) for summary in found.runs],
        "results": [vars(results) for results in found.results],
        "options": {row.option.path: [_plain(value) for value in row.values] for row in found.options},
        "ran": {row.title: [value or None for value in row.values] for row in found.ran},
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, Absent) else value


def _say_rows(titles: tuple[str, ...], rows: list[tuple[str, ...]], nothing: str) -> None:
    said = figures.table(titles, rows) if rows else nothing
    if said:
        say(f"\n{said}")


def _result_rows(found: Comparison) -> list[tuple[str, ...]]:
    lines = {
        "name": [summary.title for summary in found.runs],
        "state": [summary.state.value for summary in found.runs],
        "best": [_best(results) for results in found.results],
        "steps": [f"{results.steps:,}" for results in found.results],
        "time": [figures.duration(results.seconds) for results in found.results],
        "peak memory": [figures.size(results.peak_bytes) for results in found.results],
        "samples a second": [figures.number(results.samples_per_second) for results in found.results],
    }
    return [(title, *values) for title, values in lines.items()]


def _best(results: Results) -> str:
    if results.metric is None:
        return figures.MISSING
    return f"{metric_title(results.metric)} {figures.number(results.best)}"


def _option_rows(found: Comparison) -> list[tuple[str, ...]]:
    return [(row.option.path, *(_words(row.option, value) for value in row.values)) for row in found.options]


def _words(option: Option, value: Any) -> str:
    """A value as a run file has it, but for a share, which is told in percent; what a run lacks is a dash."""
    if isinstance(value, Absent):
        return ABSENT[value]
    match option.kind, value:
        case _, None:
            words = "none"
        case Kind.SWITCH, _:
            words = "true" if value else "false"
        case Kind.TEXTS, _:
            words = ", ".join(value)
        case Kind.PAIRS, _:
            words = ", ".join(f"{name}={text}" for name, text in value.items())
        case Kind.NUMBER, _:
            words = number_words(option, value)
        case _:
            words = str(value)
    return words
