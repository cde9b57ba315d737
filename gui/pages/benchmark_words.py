"""The figures of a benchmark in words, as its tables, bars and tips have them."""

from collections.abc import Iterable
from enum import Enum

from PySide6.QtCore import QCoreApplication

from core import figures
from core.bench.kept import Kept
from core.bench.result import BUSY, GPU_HELD, Result, Row, Spread
from gui import numbers
from gui.pages.new_run_fit_words import bar_parts
from gui.plots.bar_painting import MARK

_translate = QCoreApplication.translate


class Standing(Enum):
    """Where a rung stands."""

    MEASURED = "measured"
    UNDERWAY = "underway"
    WAITING = "waiting"
    WITHOUT = "without"
    """It has no figures and gets none: refused, failed, or cancelled before its turn."""


def rows_of(result: Result) -> tuple[Row, ...]:
    """A row for every rung of the plan, also for those whose turn has not come."""
    found = {row.rung.name: row for row in result.rows}
    return tuple(found.get(rung.name, Row(rung=rung)) for rung in result.plan.rungs)


def standing(row: Row, result: Result, underway: str | None) -> Standing:
    """Where a rung stands; `underway` is the name of the one that is being measured."""
    if row.is_measured:
        return Standing.MEASURED
    if row.rung.name == underway:
        return Standing.UNDERWAY
    if row.reason or result.ended is not None:
        return Standing.WITHOUT
    return Standing.WAITING


def without_words(row: Row, result: Result, underway: str | None) -> str:
    """What stands in place of figures; the reason of one that gets none."""
    match standing(row, result, underway):
        case Standing.UNDERWAY:
            return _translate("Bench", "being measured…")
        case Standing.WAITING:
            return _translate("Bench", "waits for its turn")
        case Standing.WITHOUT:
            if row.rung.refusal:
                return _translate("Bench", "not measured: {}").format(_bare(row.rung.refusal))
            if row.reason:
                return _translate("Bench", "failed: {}").format(_bare(row.reason))
            return _translate("Bench", "not measured")
        case Standing.MEASURED:
            return ""


def times(factor: float | None) -> str:
    """How many times as much: `1.90 ×`."""
    if factor is None:
        return numbers.MISSING
    decimals = 2 if factor < 9.995 else 1 if factor < 99.95 else 0
    return f"{factor:,.{decimals}f} ×"


def figure(value: float | None) -> str:
    """A figure in about three digits."""
    return numbers.MISSING if value is None else numbers.three_figures(value)


def range_words(spread: Spread | None) -> str:
    """From the lowest to the highest: `5.8 – 6.1`; empty where both read the same."""
    if spread is None:
        return ""
    low, high = numbers.three_figures(spread.lowest), numbers.three_figures(spread.highest)
    return f"{low} – {high}" if low != high else ""


def row_tip(row: Row) -> str:
    """All that is known of a measured row, a line each."""
    lines = [row.rung.note, _steps_words(row), _memory_words(row), *_more(row), disturbed_words(row)]
    return "\n".join(line for line in lines if line)


def disturbed_words(row: Row) -> str:
    """Beside what a row was measured; empty: nothing that counts."""
    if not row.is_disturbed:
        return ""
    around = [one.surroundings for one in row.passes if one.sample is not None]
    loads = [one.other_load for one in around if one.other_load is not None and one.other_load > BUSY]
    causes = list(dict.fromkeys(cause for one in around for cause in one.throttled))
    if loads:
        words = _translate("Bench", "other programs took {} of the processor")
        causes.insert(0, words.format(numbers.whole_percent(max(loads))))
    return _translate("Bench", "{} Measured while {}").format(MARK, "; ".join(causes))


def mark_words(rows: Iterable[Row]) -> str:
    """What the sign at some figures means; empty where none has it."""
    if not any(row.is_disturbed for row in rows):
        return ""
    return _translate(
        "Bench",
        "{} Measured beside other work, or while heat or a power cap held the clock down: on a quiet machine it is "
        "faster.",
    ).format(MARK)


def machine_words(result: Result) -> str:
    """Where and when, in one line: the machine, the date, the system, versions."""
    machine = result.machine
    versions = [f"{name} {version}" for name, version in machine.versions.items()]
    parts = [machine.title, figures.moment(result.begun), machine.system, ", ".join(versions)]
    return " · ".join(part for part in parts if part)


def kept_title(found: Kept) -> str:
    """What a kept file is called: what was measured, or its name where it can't be read."""
    return found.path.name if found.result is None else found.result.plan.title


def _steps_words(row: Row) -> str:
    step = row.step_seconds
    if step is None:
        return ""
    steps = sum(len(sample.seconds) for sample in row.samples)
    words = _translate("Bench", "A step: {}, half of them between {} and {}; {} steps in {} passes").format(
        numbers.step_time(step.median),
        numbers.step_time(step.lowest),
        numbers.step_time(step.highest),
        numbers.count(steps),
        numbers.count(len(row.samples)),
    )
    return words


def _memory_words(row: Row) -> str:
    fullest = row.fullest
    if fullest is None or not fullest.peak:
        return ""
    parts = ", ".join(part.words for part in bar_parts(fullest.parts) if part.bytes)
    words = _translate("Bench", "Memory at most: {}").format(numbers.memory(fullest.peak))
    return f"{words} ({parts})" if parts else words


def _more(row: Row) -> list[str]:
    found = []
    if row.gpu_others and row.gpu_others > GPU_HELD:
        found.append(_translate("Bench", "Others held {} of the GPU").format(numbers.memory(row.gpu_others)))
    if row.compile_seconds:
        words = _translate("Bench", "Compiling took {}, which is in no other figure")
        found.append(words.format(numbers.step_time(row.compile_seconds)))
    if row.samples_per_joule is not None:
        source = next(
            (one.surroundings.power_source for one in row.passes if one.surroundings.power_source), ""
        )
        words = _translate("Bench", "{} samples a joule").format(figure(row.samples_per_joule))
        found.append(f"{words} ({source})" if source else words)
    return found


def _bare(reason: str) -> str:
    return reason.strip().removesuffix(".")
