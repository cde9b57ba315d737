"""Figures and remarks of a benchmark in plain words, as its tables have them."""

from collections.abc import Iterator

from core import figures
from core.bench.plan import Plan, Rung
from core.bench.result import BUSY, GPU_HELD, Pass, Result, Row, Spread

_QUIET = 0.005
"""A spread within this share of its median would only repeat it."""

DISTURBED = "* disturbed"
"""What the remark of a row begins with that was measured beside other load or heat."""

NOT_MEASURED = "not measured"
"""The remark of a row that has not had its turn."""


def spread(found: Spread | None) -> str:
    """A figure with its spread: `36.3 (36.1 to 37.0)`."""
    return figures.MISSING if found is None else f"{figure(found.median)}{_around(found)}"


def times(ratio: float | None) -> str:
    """How many times as much: `2.91 x`."""
    return figures.MISSING if ratio is None else f"{ratio:.2f} x"


def figure(value: float) -> str:
    """Three figures: `0.0461`, `36.3`, `1,240`."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def _around(found: Spread) -> str:
    if max(found.highest - found.median, found.median - found.lowest) <= _QUIET * found.median:
        return ""
    return f" ({figure(found.lowest)} to {figure(found.highest)})"


def whole_title(rung: Rung, plan: Plan) -> str:
    """A rung's title as it stands alone: with that of the one before it, where its own says only what is added."""
    if not rung.title.startswith("+"):
        return rung.title
    place = next((place for place, one in enumerate(plan.rungs) if one.name == rung.name), 0)
    return f"{plan.rungs[place - 1].title} {rung.title}" if place else rung.title


def with_side(rung: Rung, title: str) -> str:
    """A title, and the side it is of where rows of several sides stand below each other."""
    return f"{title}, {rung.side}" if rung.side and rung.side not in title else title


def remarks(row: Row) -> str:
    """What has to be known to read a row's figures; why it has none, where it has none."""
    return "; ".join(_remarks(row))


def _remarks(row: Row) -> Iterator[str]:
    if not row.is_measured:
        yield _one_line(row.reason) or NOT_MEASURED
        return
    disturbed = _disturbances(row)
    if disturbed:
        yield f"{DISTURBED}: {', '.join(disturbed)}"
    if row.gpu_others and row.gpu_others > GPU_HELD:
        yield f"others held {figures.size(row.gpu_others)} of the GPU"
    if any(one.surroundings.on_battery for one in _made(row)):
        yield "on battery"
    if row.compile_seconds:
        yield f"compiling took {figure(row.compile_seconds)} s, not counted"
    failed = [one for one in row.passes if one.failure]
    if failed:
        yield f"{len(failed)} of {len(row.passes)} passes failed: {_one_line(failed[0].failure)}"
    if row.rung.note:
        yield _one_line(row.rung.note)


def _made(row: Row) -> list[Pass]:
    return [one for one in row.passes if one.sample is not None]


def _disturbances(row: Row) -> list[str]:
    """What else took part of the machine while it was measured, at the worst."""
    around = [one.surroundings for one in _made(row)]
    load = max((one.other_load for one in around if one.other_load is not None), default=0.0)
    found = [f"other load of {load * 100:.0f} %"] if load > BUSY else []
    return found + list(dict.fromkeys(why for one in around for why in one.throttled))


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def how_measured(plan: Plan) -> str:
    """How much each rung was measured: `20 steps x 3 passes, after 2 steps of warm-up`."""
    passes = f"{plan.passes} {'pass' if plan.passes == 1 else 'passes'}"
    own = {plan.steps_of(rung) for rung in plan.rungs}
    few, most = min(own, default=plan.steps), max(own, default=plan.steps)
    steps = figures.counted(most, "step") if few == most else f"{few} to {most} steps"
    return f"{steps} x {passes}, after {figures.counted(plan.warm_up, 'step')} of warm-up"


def head(result: Result) -> list[str]:
    """On what, with what, when and how it was measured, a sentence each."""
    machine = result.machine
    parts = [machine.processor, figures.counted(machine.cores, "core"), figures.size(machine.memory)]
    parts += [machine.accelerator, machine.system]
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    lines = [
        f"Measured on {', '.join(part for part in parts if part)}.",
        f"With {versions}." if versions else "",
        f"{figures.moment(result.begun)}, {how_measured(result.plan)}: medians of all steps, with their quartiles.",
        _of_power(result),
        "" if result.is_whole else "It was ended before all passes were made.",
        *result.plan.notes,
    ]
    return [line for line in lines if line]


def _of_power(result: Result) -> str:
    """Whose power it is that samples a joule are reckoned with; empty where none was read."""
    told = (one.surroundings.power_source for row in result.rows for one in row.passes)
    source = next(filter(None, told), "")
    return f"Samples/J: by the power of the GPU alone, as {source} tells it." if source else ""
