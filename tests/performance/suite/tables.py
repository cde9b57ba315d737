"""The suite's results as tables: for the terminal, and as Markdown for the README."""

import math

from core.base import formats
from core.benchmark.result import Machine
from tests.performance.suite.entries import BENCHMARKS, Benchmark
from tests.performance.suite.figures import Figure
from tests.performance.suite.record import Form, Outcome, Record

VERSIONS_SHOWN = ("hone", "torch", "transformers", "PySide6-Essentials", "PySide6", "python", "Python")
TITLES = ("figure", "Hone", "peer", "ratio", "goal", "")


def listing() -> str:
    """All benchmarks with what they measure and against whom."""
    rows = [(one.name, one.what, one.peer or "-", one.goal or "none", _needs(one)) for one in BENCHMARKS]
    return formats.table(("name", "measures", "against", "goal", "needs"), rows)


def terminal(outcome: Outcome) -> str:
    """One benchmark's figures under its name."""
    seconds = f"{outcome.seconds:.1f} s" if outcome.seconds < 10 else formats.plain_duration(outcome.seconds)
    head = f"{outcome.name}: {outcome.what}\n{_against(outcome)}{_short(outcome)}took {seconds}"
    lines = [head, *([f"NO FIGURES: {outcome.problem}"] if outcome.problem else [_of(outcome)])]
    return "\n".join([*lines, *_disturbance(outcome)])


def markdown(record: Record) -> str:
    """The whole record as a section of Markdown: where, when, and a line a figure."""
    lines = [f"Measured on {machine_in_words(record.machine)}, on {record.date}.", ""]
    lines += [
        "| benchmark | against | figure | Hone | peer | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for outcome in record.outcomes:
        lines += _markdown_rows(outcome)
    disturbed = [outcome.name for outcome in record.outcomes if outcome.was_disturbed]
    if disturbed:
        lines += ["", f"Other programs computed beside: {', '.join(disturbed)}. Their times say little."]
    return "\n".join(lines)


def machine_in_words(machine: Machine) -> str:
    """The computer and what was installed, in a line."""
    parts = [machine.processor or machine.title, formats.counted(machine.cores, "core")]
    parts += [formats.size(machine.memory)] if machine.memory else []
    parts += [machine.accelerator or "no GPU", machine.system]
    known = [f"{name} {machine.versions[name]}" for name in VERSIONS_SHOWN if name in machine.versions]
    return ", ".join(filter(None, [*parts, *known]))


def _against(outcome: Outcome) -> str:
    return f"against {outcome.peer}; " if outcome.peer else ""


def _short(outcome: Outcome) -> str:
    return "short form, which only shows that it works; " if outcome.form is Form.QUICK else ""


def _needs(benchmark: Benchmark) -> str:
    return "" if benchmark.data is None else "--data"


def _of(outcome: Outcome) -> str:
    return formats.table(TITLES, [_cells(one) for one in outcome.figures])


def _cells(one: Figure) -> tuple[str, ...]:
    value = shown(one.value, one.unit)
    if one.lowest is not None and one.highest is not None and one.lowest < one.highest:
        value += f" ({shown(one.lowest)} to {shown(one.highest)})"
    verdict = {True: "reached", False: "MISSED", None: ""}[one.reached]
    goal = ""
    if one.goal:
        goal = f"{one.goal.bound} {shown(one.goal.limit, '' if one.goal.bound.is_of_ratio else one.unit)}"
    return (one.name, value, shown(one.peer, one.unit), shown(one.ratio), goal, verdict)


def shown(value: float | None, unit: str = "") -> str:
    """A figure in about three digits, with its unit; nothing where there is none."""
    if value is None:
        return ""
    if not value or not math.isfinite(value):
        text = f"{value:g}"
    else:
        text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".rstrip()


def _disturbance(outcome: Outcome) -> list[str]:
    if not outcome.was_disturbed:
        return []
    shares = f"{outcome.busy_before:.0%} of the cores before, {outcome.busy_after:.0%} after"
    return [f"other programs were busy ({shares}): its times say little"]


def _markdown_rows(outcome: Outcome) -> list[str]:
    name = f"`{outcome.name}`" + (" (short form)" if outcome.form is Form.QUICK else "")
    first = f"{name}: {outcome.what} | {outcome.peer or '-'}"
    if outcome.problem:
        return [f"| {first} | no figures: {_one_line(outcome.problem)} | | | | | |"]
    rows = [_cells(one) for one in outcome.figures]
    heads = [first, *[" | "] * (len(rows) - 1)]
    return [f"| {head} | {' | '.join(row)} |" for head, row in zip(heads, rows, strict=True)]


def _one_line(text: str) -> str:
    return text.splitlines()[-1].replace("|", "/") if text else ""
