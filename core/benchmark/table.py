"""Whether two sides of a benchmark compute the same: their losses on the same rows, from the same weights.

What is judged are losses before anything was learned. Once the weights have moved they tell little: Adam's first step
moves each weight by the sign of its gradient, whatever its size, so that rounding decides about the smallest. Measured
with ResNet-18, batch 4, Adam at 1e-3, one thread against two in fp32: apart by 2e-6 at the first step, by 0.9 % at the
second, by 17 % at the sixth, and both are right.

MobileNet's and EfficientNet's first losses say the least: evaluated from random weights, their batch norms let nearly
nothing through, and the loss is that of guessing.
"""

import csv as writing
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.base import format as figures
from core.base.format import Table, markdown_lines
from core.base.format import markdown as plain
from core.benchmark.plan import Kind, Plan, Rung
from core.benchmark.published import ARTICLE_IS, GUIDE_IS, article_row, guide_row
from core.benchmark.result import (
    BUSY,
    GPU_HELD,
    Pass,
    Result,
    Row,
    Sample,
    Spread,
    memory_against,
    speed_against,
)
from core.memory.model import Parts
from core.options.choices import Method, Precision

# --- Whether two sides of a benchmark compute the same: their losses on the same rows


FP32 = 1e-3
"""Sums in another order differ by 1e-6 or so; kernels of GPUs, which multiply in other pieces, by up to 1e-4."""

HALF = 2e-2
"""bf16 has 8 bits: each number is off by up to 0.4 %. Measured on a CPU, from random weights: losses apart by 0.09 % at
most (ResNet-18; BERT-base 0.04 %, AlexNet 0.002 %). Larger models and other kernels may add up more.
"""

TINY = 1e-12


class Verdict(StrEnum):
    """What came of it; UNKNOWN where a side has no figures."""

    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Agreement:
    """How two sides compare.

    `difference` is the largest relative one of the losses before anything was learned, up to `tolerance` counting as
    agreement. `is_random` says that dropout drew random numbers, which no two kinds of device draw alike: then an
    evaluation of the first batch is all there is to compare. `apart` is how far the losses of the last step both made
    are apart, after `steps` steps; None where there is none, or dropout.
    """

    verdict: Verdict
    difference: float | None = None
    tolerance: float = FP32
    is_random: bool = False
    apart: float | None = None
    steps: int = 0

    @property
    def words(self) -> str:
        """For a cell of a table: `agree (2e-06)`, `first loss agrees (2e-06)`, `differ by 8 %`."""
        if self.verdict is Verdict.UNKNOWN:
            return figures.PLAIN_MISSING
        if self.difference is None:
            return "differ: a loss is no number"
        if self.verdict is Verdict.DIFFER:
            return f"differ by {_percent(self.difference)}"
        told = f"({self.difference:.0e})" if self.difference else "(exactly)"
        return f"first loss agrees {told}" if self.is_random else f"agree {told}"

    @property
    def explanation(self) -> str:
        """What was compared, and how, in sentences."""
        if self.verdict is Verdict.UNKNOWN:
            return "There is nothing to compare: a side has no figures."
        limit = f"Up to {_percent(self.tolerance)} counts as the same."
        if self.is_random:
            return (
                "The loss of the first batch before anything was learned. The model leaves numbers out at random while "
                f"it learns (dropout), so that later losses can't be compared. {limit}"
            )
        later = (
            f" After {figures.counted(self.steps, 'step')} the losses are apart by {_percent(self.apart)}: rounding "
            "grows while weights move, and says nothing of which is right."
            if self.apart is not None
            else ""
        )
        return f"The losses of the first batch before anything was learned. {limit}{later}"


def agreement(left: Row, right: Row) -> Agreement:
    """Compare two rows of a group by the first pass of each that has figures."""
    if not left.samples or not right.samples:
        return Agreement(Verdict.UNKNOWN)
    one, other = left.samples[0], right.samples[0]
    is_random = one.is_random or other.is_random
    tolerance = HALF if _is_half(left) or _is_half(right) else FP32
    pairs = [(one.first_loss, other.first_loss), *([] if is_random else _losses(one, other)[:1])]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if not known or len(known) < len(pairs):
        both_lack = all(mine is None and theirs is None for mine, theirs in pairs)
        return Agreement(Verdict.UNKNOWN if both_lack else Verdict.DIFFER, tolerance=tolerance)
    worst = max(_relative(mine, theirs) for mine, theirs in known)
    apart, steps = (None, 0) if is_random else _later(one, other)
    verdict = Verdict.AGREE if worst <= tolerance else Verdict.DIFFER
    return Agreement(verdict, worst, tolerance, is_random, apart, steps)


def _losses(one: Sample, other: Sample) -> list[tuple[float | None, float | None]]:
    return list(zip(one.losses, other.losses, strict=False))


def _later(one: Sample, other: Sample) -> tuple[float | None, int]:
    """How far the last losses of both are apart, and after how many steps that was."""
    found = _losses(one, other)
    if len(found) < 2:
        return None, 0
    mine, theirs = found[-1]
    return (None if mine is None or theirs is None else _relative(mine, theirs)), len(found) - 1


def _relative(mine: float, theirs: float) -> float:
    return abs(mine - theirs) / max(abs(mine), abs(theirs), TINY)


def _is_half(row: Row) -> bool:
    """Whether numbers have fewer bits than fp32's, as far as was asked or has run."""
    asked = row.rung.asked.get("device", {}).get("precision")
    ran = row.samples[0].ran
    return asked in (Precision.BF16, Precision.FP16, Precision.TF32) or bool(ran and ran.autocast_dtype)


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %"


# --- Figures and remarks of a benchmark in plain words, as its tables have them


_QUIET = 0.005
"""A spread within this share of its median would only repeat it."""

DISTURBED = "* disturbed"
"""What the remark of a row begins with that was measured beside other load or heat."""

NOT_MEASURED = "not measured"
"""The remark of a row that has not had its turn."""


def spread(found: Spread | None) -> str:
    """A figure with its spread: `36.3 (36.1 to 37.0)`."""
    return figures.PLAIN_MISSING if found is None else f"{figure(found.median)}{_around(found)}"


def times(ratio: float | None) -> str:
    """How many times as much: `2.91 x`."""
    return figures.PLAIN_MISSING if ratio is None else f"{ratio:.2f} x"


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
    return "; ".join(_row_remarks(row))


def _row_remarks(row: Row) -> Iterator[str]:
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
        f"{figures.full_moment(result.begun)}, {how_measured(result.plan)}: medians of all steps, with "
        "their quartiles.",
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


# --- A result as CSV: a line a row, plain numbers, their units in the names of the columns


Cell = str | int | float | None


def csv(result: Result) -> str:
    """All rows with their figures; each line also tells when and where it was measured, so that files can be joined."""
    text = io.StringIO()
    lines = [_line(row, _first(row, result), result) for row in result.rows]
    if not lines:
        return ""
    table = writing.DictWriter(text, list(lines[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    return text.getvalue()


def _first(row: Row, result: Result) -> Row:
    """What a row is held against: the plain one, or the first side of its group."""
    if result.kind is Kind.DEVICES:
        return result.groups()[row.rung.group][0]
    return result.plain or row


def _line(row: Row, first: Row, result: Result) -> dict[str, Cell]:
    return {
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(result.begun)),
        "machine": result.machine.title,
        "kind": result.kind.value,
        "benchmark": result.plan.title,
        "name": row.rung.name,
        "title": whole_title(row.rung, result.plan),  # spreadsheets take one that begins with + for a formula
        "side": row.rung.side,
        "model": str(row.rung.asked.get("model", {}).get("source", "")),
        "batch_size": row.rung.batch,
        **_figures(row),
        "speed_ratio": speed_against(row, first),
        "memory_ratio": memory_against(row, first),
        **_memory_cells(row),
        **_surroundings(row),
        "note": row.rung.note,
        "reason": row.reason,
    }


def _figures(row: Row) -> dict[str, Cell]:
    samples = row.samples
    return {
        "device": samples[0].device if samples else "",
        "passes": len(samples),
        "steps": sum(len(sample.seconds) for sample in samples),
        **_spread("step_seconds", row.step_seconds),
        **_spread("samples_per_second", row.samples_per_second),
        **_spread("epoch_seconds", row.epoch_seconds),
        "compile_seconds": row.compile_seconds if samples else None,
        "samples_per_joule": row.samples_per_joule,
        "first_loss": samples[0].first_loss if samples else None,
    }


def _spread(name: str, found: Spread | None) -> dict[str, Cell]:
    return {
        name: found.median if found else None,
        f"{name}_lower_quartile": found.lowest if found else None,
        f"{name}_upper_quartile": found.highest if found else None,
    }


def _memory_cells(row: Row) -> dict[str, Cell]:
    fullest = row.fullest
    parts = Parts.__struct_fields__
    return {
        "peak_bytes": row.peak,
        "base_bytes": fullest.base if fullest else None,
        **{f"{name}_bytes": getattr(fullest.parts, name) if fullest else None for name in parts},
    }


def _surroundings(row: Row) -> dict[str, Cell]:
    """The worst of the passes; of the power the mean."""
    around = [one.surroundings for one in row.passes if one.sample is not None]
    watts = [one.watts for one in around if one.watts is not None]
    return {
        "disturbed": int(row.is_disturbed) if around else None,
        "other_load": max((one.other_load for one in around if one.other_load is not None), default=None),
        "throttled": ", ".join(dict.fromkeys(why for one in around for why in one.throttled)),
        "on_battery": max(
            (int(one.on_battery) for one in around if one.on_battery is not None), default=None
        ),
        "gpu_others_bytes": row.gpu_others,
        "watts": sum(watts) / len(watts) if watts else None,
        "power_source": next((one.power_source for one in around if one.power_source), ""),
    }


# --- The table of devices: a model and its batch a row, its sides beside each other


PUBLISHED_DEVICES = ("Published CPU, s for 1,000", "Published MPS, s for 1,000", "Published speed-up")


def devices_table(result: Result, *, published: bool = False) -> Table:
    """A model and its batch a row.

    Args:
        result: What was measured.
        published: Whether the figures of others stand beside, where there are any of the same model and batch.
    """
    sides = list(dict.fromkeys(row.rung.side for row in result.rows))
    titles = ["Model", "Batch", *(f"{side}, s an epoch" for side in sides)]
    others = sides[1:]
    titles += [_beside("Speed-up", side, others) for side in others]
    numbers = set(range(1, len(titles)))
    titles += [_beside("Losses agree", side, others) for side in others]
    if published:
        numbers |= set(range(len(titles), len(titles) + len(PUBLISHED_DEVICES)))
        titles += PUBLISHED_DEVICES
    rows = [
        (
            *_group(found, sides),
            *(_published_device_cells(found[0]) if published else ()),
            _side_remarks(found),
        )
        for found in result.groups().values()
    ]
    return Table((*titles, "Notes"), rows, frozenset(numbers))


def _beside(title: str, side: str, others: list[str]) -> str:
    """A column's title; the side is named where there are several such columns."""
    return title if len(others) == 1 else f"{title}, {side}"


def _group(rows: tuple[Row, ...], sides: list[str]) -> tuple[str, ...]:
    first, found = rows[0], {row.rung.side: row for row in rows}
    others = [found.get(side) for side in sides[1:]]
    return (
        model_of(first),
        figures.PLAIN_MISSING if first.rung.batch is None else str(first.rung.batch),
        *(_epoch(found.get(side)) for side in sides),
        *(times(speed_against(other, first)) if other else figures.PLAIN_MISSING for other in others),
        *(agreement(first, other).words if other else figures.PLAIN_MISSING for other in others),
    )


def _published_device_cells(row: Row) -> tuple[str, ...]:
    found = article_row(row.rung)
    if found is None:
        return (figures.PLAIN_MISSING,) * len(PUBLISHED_DEVICES)
    return f"{found.cpu_seconds}", f"{found.mps_seconds}", times(found.speed)


def model_of(row: Row) -> str:
    """What the model of a row is called."""
    return row.rung.title.removesuffix(f", batch {row.rung.batch}")


def _epoch(row: Row | None) -> str:
    epoch = row.epoch_seconds if row else None
    return spread(epoch) if epoch else figures.PLAIN_MISSING


def _side_remarks(rows: tuple[Row, ...]) -> str:
    """What is remarked of each side; once what is remarked of all."""
    told = [remarks(row) for row in rows]
    if len(set(told)) == 1:
        return told[0]
    return "; ".join(f"{row.rung.side}: {said}" for row, said in zip(rows, told, strict=True) if said)


# --- What a result comes to, in a plain sentence or two


LESS = 0.95
"""Memory counts as less from this share of plain's on: what a process holds differs by a few percent each time."""

AGAIN = "Close other programs and measure again."


def best_trade(result: Result) -> str:
    """The sentence; it says so where there is nothing to be said yet, or nothing to choose between."""
    if result.kind is Kind.DEVICES:
        return _devices(result)
    return " ".join(_methods(result))


def is_faster(row: Row, other: Row) -> bool:
    """Whether it is faster by more than both of them vary: the quartiles of their steps don't touch."""
    mine, theirs = row.samples_per_second, other.samples_per_second
    return mine is not None and theirs is not None and mine.lowest > theirs.highest


def _methods(result: Result) -> Iterator[str]:
    plain, rows = result.plain, [row for row in result.rows[1:] if row.is_measured]
    quiet = [row for row in rows if not row.is_disturbed]
    if plain is None or not (rows or plain.is_measured):
        yield "Nothing has been measured."
    elif not plain.is_measured:
        yield f"Nothing can be held against plain, which has no figures: {plain.reason or 'it was not measured'}."
    elif not rows:
        yield "Only plain has been measured."
    elif plain.is_disturbed or len(quiet) < len(rows) / 2:
        yield f"{_disturbed([plain, *rows])}: too many to conclude anything. {AGAIN}"
    else:
        yield from _trade(result, plain, quiet)
        if quiet != rows:
            yield f"{_disturbed([plain, *rows])} and left out here. {AGAIN}"


def _trade(result: Result, plain: Row, rows: list[Row]) -> Iterator[str]:
    whole = [row for row in rows if not _is_small(row, plain) and _same_data(row, plain)]
    fastest = max(
        (row for row in whole if is_faster(row, plain)), key=lambda row: _speed(row, plain), default=None
    )
    leanest = min(
        (row for row in whole if not is_faster(plain, row) and _memory_share(row, plain) <= LESS),
        key=lambda row: _memory_share(row, plain),
        default=None,
    )
    yield _of_all_weights(result, plain, fastest, leanest)
    best = fastest or plain
    for row in rows:
        if not _same_data(row, plain) and is_faster(row, best):
            yield f"Where texts differ in length, {_name(result, row)} makes it {_times(row, plain)} as fast as plain."
        if _is_small(row, plain):
            yield f"{_name(result, row)}, which trains few of the weights, is {_compared(row, plain)}."


def _disturbed(rows: Sequence[Row]) -> str:
    """How many were."""
    count = sum(row.is_disturbed for row in rows)
    why = "beside other work, or while heat or a power cap held a clock down"
    return f"{count} of {len(rows)} rows were measured {why}"


def _of_all_weights(result: Result, plain: Row, fastest: Row | None, leanest: Row | None) -> str:
    if fastest is None and leanest is None:
        return "No method was faster than plain beyond its spread, and none took less memory without being slower."
    if leanest is None:
        assert fastest is not None
        return (
            f"The best trade here: {_name(result, fastest)}, {_compared(fastest, plain)}. None took less memory "
            "without being slower."
        )
    if fastest is None:
        return (
            f"No method was faster than plain beyond its spread; the best trade here is {_name(result, leanest)}, "
            f"{_compared(leanest, plain)}."
        )
    if fastest is leanest:
        return f"The best trade here, in speed and in memory: {_name(result, fastest)}, {_compared(fastest, plain)}."
    return (
        f"The best trade here: {_name(result, fastest)}, {_compared(fastest, plain)}. Least memory without being "
        f"slower than plain: {_name(result, leanest)}, {_compared(leanest, plain)}."
    )


def _compared(row: Row, plain: Row) -> str:
    """Speed and memory against plain: `2.91 times as fast as plain, with 45 % of its memory`."""
    if is_faster(row, plain):
        speed = f"{_times(row, plain)} as fast as plain"
    elif is_faster(plain, row):
        speed = f"slower than plain ({_times(row, plain)} its speed)"
    else:
        speed = "as fast as plain within the spread"
    return f"{speed}, with {_memory_share(row, plain):.0%} of its memory".replace("%", " %")


def _times(row: Row, plain: Row) -> str:
    return f"{figure(_speed(row, plain))} times"


def _speed(row: Row, plain: Row) -> float:
    return speed_against(row, plain) or 0.0


def _memory_share(row: Row, plain: Row) -> float:
    """What share of plain's memory; where one of them is not known, it counts as all of it."""
    return memory_against(row, plain) or 1.0


def _is_small(row: Row, plain: Row) -> bool:
    """Whether fewer of the weights learn than in the plain row."""
    return _method_name(row) != _method_name(plain) and _method_name(row) != Method.FULL


def _method_name(row: Row) -> str:
    return str(row.rung.asked.get("model", {}).get("method", Method.FULL.value))


def _same_data(row: Row, plain: Row) -> bool:
    """Whether both learn from the same: dynamic padding has to be measured on other texts."""
    mine, theirs = (one.rung.asked.get("data", {}).get("train") for one in (row, plain))
    return bool(mine == theirs)


def _name(result: Result, row: Row) -> str:
    return whole_title(row.rung, result.plan)


def _devices(result: Result) -> str:
    """How much faster the other side is, from the least of all models to the most."""
    found = {}
    measured = [row for row in result.rows if row.is_measured]
    for rows in result.groups().values():
        first, *others = rows
        for other in others:
            speed = speed_against(other, first)
            if speed is not None and not (first.is_disturbed or other.is_disturbed):
                found[f"{other.rung.side} is {{}} as fast as {first.rung.side}", other.rung.title] = speed
    told = [
        _range({title: speed for (said, title), speed in found.items() if said == words}, words)
        for words in dict.fromkeys(said for said, _ in found)
    ]
    if any(row.is_disturbed for row in measured):
        told.append(f"{_disturbed(measured)} and left out here. {AGAIN}")
    return " ".join(told) or "Nothing has been measured on both sides."


def _range(speeds: dict[str, float], words: str) -> str:
    most, least = max(speeds, key=lambda title: speeds[title]), min(speeds, key=lambda title: speeds[title])
    if len(speeds) == 1:
        return f"{words.format(f'{figure(speeds[most])} times')} ({most})."
    between = words.format(f"{figure(speeds[least])} to {figure(speeds[most])} times")
    return f"{between}: the least with {least}, the most with {most}."


# --- A result as a table: for a terminal, as Markdown to be pasted


__all__ = ["csv", "markdown", "table", "text"]


AGAINST = "Against plain"
"""Of the column before it: so many times plain's."""

PUBLISHED_METHODS = ("Published speed", "Published memory")


def table(result: Result, *, published: bool = False) -> Table:
    """The rows of a result; `published` puts the figures of others beside."""
    if result.kind is Kind.DEVICES:
        return devices_table(result, published=published)
    return _methods_table(result, published=published)


def _methods_table(result: Result, *, published: bool) -> Table:
    """A method a row, held against the plain one."""
    titles = ["Method", "Time an epoch", "Samples/s", AGAINST, "Peak memory", AGAINST]
    with_power = any(row.samples_per_joule for row in result.rows)
    if with_power:
        titles.append("Samples/J")
    titles += PUBLISHED_METHODS if published else ()
    rows = [
        (
            *_method_row(row, result.plain or row, with_power=with_power),
            *(_published_method_cells(row) if published else ()),
            remarks(row),
        )
        for row in result.rows
    ]
    return Table((*titles, "Notes"), rows, frozenset(range(1, len(titles))))


def _method_row(row: Row, first: Row, *, with_power: bool) -> tuple[str, ...]:
    epoch = row.epoch_seconds
    joule = row.samples_per_joule
    return (
        row.rung.title,
        f"{figure(epoch.median)} s" if epoch else figures.PLAIN_MISSING,
        spread(row.samples_per_second),
        times(speed_against(row, first)),
        figures.size(row.peak),
        times(memory_against(row, first)),
        *((figure(joule) if joule else figures.PLAIN_MISSING,) if with_power else ()),
    )


def _published_method_cells(row: Row) -> tuple[str, ...]:
    found = guide_row(row.rung)
    if found is None:
        return (figures.PLAIN_MISSING,) * len(PUBLISHED_METHODS)
    return times(found.speed), times(found.memory)


def markdown(result: Result, *, published: bool = False) -> str:
    """A result to be pasted where Markdown is read: its title, its table, what it comes to, how it was measured."""
    lines = [f"### {plain(result.plan.title)}", ""]
    lines += markdown_lines(table(result, published=published))
    lines += [f"{plain(best_trade(result))}\n"]
    lines += [f"- {plain(line)}" for line in _told_of(result, published=published)]
    return "\n".join(lines) + "\n"


def text(result: Result, *, published: bool = False) -> str:
    """A result for a terminal: what is remarked of a row stands below the table, where there is room for it."""
    found = table(result, published=published)
    rows = [tuple(str(cell) for cell in row) for row in found.rows]
    names = 2 if result.kind is Kind.DEVICES else 1
    titles = tuple(title.upper() for title in found.titles)
    marked = [_marked(row) for row in rows]
    lines = [result.plan.title, "", figures.table(titles[:-1], [row[:-1] for row in marked]), ""]
    lines += [
        f"{', batch '.join(row[:names])}: {row[-1]}" for row in rows if row[-1] not in ("", NOT_MEASURED)
    ]
    return "\n".join([*lines, "", best_trade(result), "", *_told_of(result, published=published)])


def _marked(row: tuple[str, ...]) -> tuple[str, ...]:
    """A row that something disturbed has a star behind its name."""
    return (f"{row[0]} *", *row[1:]) if DISTURBED in row[-1] else row


def _told_of(result: Result, *, published: bool) -> list[str]:
    """How it was measured, and whose the other figures are."""
    others = ARTICLE_IS if result.kind is Kind.DEVICES else GUIDE_IS
    return [*head(result), *([others] if published else [])]
