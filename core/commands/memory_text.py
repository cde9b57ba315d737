"""How much memory a run takes, and what to do about it, in plain text for a terminal."""

from core import figures
from core.commands.run_text import changes_text
from core.memory.fitting import Try
from core.memory.forecast import PART_TITLES, Basis, Forecast, Measurement, Parts, Room, Verdict
from core.memory.ladder import Remedy

MEGABYTE = 1 << 20

METHODS = {
    Basis.FORMULA: "by formula, from the model's config",
    Basis.TRACE: "traced: one step gone through with this very model, nothing computed",
    Basis.MEASURED: "measured by a dry run on the longest batch",
}
VERDICTS = {
    Verdict.FITS: "It fits.",
    Verdict.TIGHT: "It fits, with less than a tenth to spare.",
    Verdict.TOO_LARGE: "It doesn't fit.",
    Verdict.UNKNOWN: "How much memory this device has isn't known.",
}


def forecast_lines(found: Forecast) -> list[str]:
    """A forecast for a terminal, in MB of 1024 x 1024 bytes."""
    lines = [*_part_lines(found.parts, found.room), "", f"On {found.device}, {METHODS[found.basis]}."]
    if found.length is not None:
        is_padded = found.longest_text is not None and found.longest_text < found.length
        padding = f", padding counted; the longest text has {found.longest_text:,}" if is_padded else ""
        lines.append(f"The longest row has {found.length:,} tokens{padding}.")
    if found.correction != 1.0:
        lines.append(f"Corrected by {found.correction:.2f}, as past runs on this device have taught.")
    return [*lines, *found.notes, VERDICTS[found.verdict]]


def _part_lines(parts: Parts, room: Room | None) -> list[str]:
    rows = [(title, _megabytes(getattr(parts, name))) for name, title in PART_TITLES.items()]
    rows.append(("Total", _megabytes(parts.total)))
    if room is not None:
        rows += [("Free now", _megabytes(room.free)), ("Ceiling", _megabytes(room.ceiling))]
    width = max(len(count) for _, count in rows)
    return [
        figures.table(("PART", "MB".rjust(width)), [(title, count.rjust(width)) for title, count in rows])
    ]


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:,.0f}"


def measurement_lines(found: Measurement) -> list[str]:
    """A dry run's answer for a terminal."""
    if found.out_of_memory:
        return ["Memory ran out.", found.out_of_memory]
    lines = forecast_lines(found.forecast)
    if found.longest_step_seconds is not None:
        lines.append(f"A step on the longest batch takes {figures.number(found.longest_step_seconds)} s.")
    if found.step_seconds is not None:
        lines.append(f"An ordinary step takes {figures.number(found.step_seconds)} s.")
    if found.was_disturbed:
        lines.append(
            "It can't take longer than the longest: other programs were busy. Measure again for true times."
        )
    if found.compile_seconds:
        lines.append(f"Compiling took {figures.duration(found.compile_seconds)}.")
    if found.run_seconds is not None and found.total_steps is not None:
        steps = figures.counted(found.total_steps, "step")
        lines.append(f"{steps} take about {figures.duration(found.run_seconds)}, without evaluation.")
    return lines


def ladder_lines(remedies: tuple[Remedy, ...]) -> list[str]:
    """What to do, a line a remedy, the one that loses least first."""
    rows = [
        (
            remedy.title,
            f"{_megabytes(remedy.saves)} MB" if remedy.changes else figures.MISSING,
            f"x {remedy.slower:.2f}" if remedy.changes else figures.MISSING,
            _enough(remedy),
            changes_text(remedy.changes) if remedy.changes else remedy.help,
        )
        for remedy in remedies
    ]
    return ["", figures.table(("WHAT TO DO", "SAVES", "TIME", "ENOUGH", "SET"), rows)] if rows else []


def _enough(remedy: Remedy) -> str:
    """Whether a remedy makes the run fit by itself, with a tenth to spare."""
    if not remedy.changes:
        return figures.MISSING
    return {Verdict.FITS: "yes", Verdict.TIGHT: "barely"}.get(remedy.forecast.verdict, "no")


def try_line(done: Try) -> str:
    """What came of one try of `hone fit`; which one it is has been said as it began."""
    found = done.measurement
    if found is None:
        return f"  It failed: {done.problem}"
    if found.out_of_memory:
        return f"  Too large: {found.out_of_memory}"
    step = figures.number(found.step_seconds) if found.step_seconds is not None else figures.MISSING
    words = {Verdict.FITS: "fits", Verdict.TIGHT: "too tight", Verdict.TOO_LARGE: "too large"}
    return f"  {figures.size(found.peak)} at most, {step} s a step: {words[done.verdict]}"
