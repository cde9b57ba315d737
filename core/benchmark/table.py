"""Results as tables, Markdown and CSV, their conclusions in words, and the comparison of two results.

Whether two devices compute the same is decided by the losses before training. Later losses mean little: Adam's first
step moves each weight by the sign of its gradient, so that rounding decides about the smallest. Measured with
ResNet-18, batch 4, Adam at 1e-3, one thread against two in fp32: the losses differ by 2e-6 at the first step, by 0.9 %
at the second and by 17 % at the sixth, and both are right.
"""

import csv as csv_files
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from core.base import formats
from core.base.errors import OptionsError, Problem
from core.base.formats import markdown as escaped
from core.base.language import _, ngettext
from core.benchmark.plan import Kind, Plan, Variant
from core.benchmark.result import GPU_HELD, Result, Row, Spread
from core.memory.model import BUSY, PART_TITLES
from core.options.choices import Method, Precision
from core.options.sources import Scheme

# --- Figures published by others, to compare with


SOURCES = {
    Kind.METHODS: _(
        "Published by others: transformers' guide “Efficient training on a single GPU” (4.19 to 4.26), BERT-large with "
        "its published weights on a Tesla V100 with 16 GB, in January 2022. Half precision is fp16 there; AdamW was "
        "not fused; times are those of all 128 steps, including the first; memory is what the driver showed as used."
    ),
    Kind.DEVICES: _(
        "Published by others: an article on training with an Apple M1 Max, 1,000 images of MNIST at 224 x 224 pixels, "
        "pretrained weights, CPU against MPS. Times only: the article trained on one logit, so its losses say nothing."
    ),
}


@dataclass(frozen=True)
class GuideRow:
    """A row of the guide: sequences per second, and MB of 1024 x 1024 bytes."""

    samples_per_second: float
    megabytes: int

    @property
    def speed(self) -> float:
        return self.samples_per_second / GUIDE["plain"].samples_per_second

    @property
    def memory(self) -> float:
        return self.megabytes / GUIDE["plain"].megabytes


GUIDE = {
    "plain": GuideRow(8.86, 14_949),
    "accumulation": GuideRow(7.75, 8_681),
    "checkpointing": GuideRow(5.99, 6_775),
    "half": GuideRow(18.64, 13_939),
    "all": GuideRow(10.09, 7_275),
    "adafactor": GuideRow(7.96, 12_295),
    "all-adafactor": GuideRow(9.06, 4_847),
    "adamw-8bit": GuideRow(9.15, 13_085),
    "all-adamw-8bit": GuideRow(10.35, 5_363),
}
"""By the name of the variant without its prefix `bf16-` or `fp16-`; `half` is half precision alone.

https://github.com/huggingface/transformers/blob/v4.26.0/docs/source/en/perf_train_gpu_one.mdx
"""

ARTICLE = {
    "vgg16-4": (188.3, 36.3),
    "alexnet-4": (36.0, 10.7),
    "resnet18-4": (42.1, 18.6),
    "mobilenet_v2-4": (223.1, 45.1),
    "efficientnet_b0-4": (256.5, 75.5),
    "vgg16-64": (217.4, 35.7),
    "alexnet-64": (18.0, 5.0),
    "resnet18-64": (63.9, 10.4),
    "mobilenet_v2-64": (436.7, 17.1),
    "efficientnet_b0-64": (497.7, 25.9),
}
"""Seconds for 1,000 images on the CPU and with MPS, by group (model and batch size)."""


def guide_row(variant: Variant) -> GuideRow | None:
    """The guide's figures for the same method; None if it has none, or the data is a person's own."""
    source = variant.asked.get("data", {}).get("train")
    if source and Scheme.SYNTHETIC.name_of(source) is None:
        return None
    half, _rest, rest = variant.name.partition("-")
    return GUIDE.get(rest or "half" if half in ("bf16", "fp16") else variant.name)


# --- Tables


MARK = "†"
"""Follows the title of rows that were disturbed."""


class Tone(Enum):
    """The colour of a text; the values are names of the theme's colours."""

    PLAIN = "text"
    QUIET = "muted"
    GOOD = "ok"
    WARNING = "warn"
    ACTIVE = "accent"


@dataclass(frozen=True)
class Heading:
    """The title of a column; columns of figures are aligned right."""

    title: str
    tip: str = ""
    is_figure: bool = True


@dataclass(frozen=True)
class Cell:
    """A text; without a tip of its own it has the line's."""

    text: str = ""
    tone: Tone = Tone.PLAIN
    tip: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a table.

    Attributes:
        words: A text instead of all cells but the first.
        note: A remark about `title`, or the first cell.
    """

    key: str
    cells: tuple[Cell, ...]
    words: Cell | None = None
    note: str = ""
    tip: str = ""
    title: str = ""

    def cell(self, column: int) -> Cell:
        if column and self.words is not None:
            return self.words if column == 1 else Cell()
        return self.cells[column] if column < len(self.cells) else Cell()


@dataclass(frozen=True)
class ResultTable:
    """A table that the window, the terminal and Markdown show alike."""

    headings: tuple[Heading, ...]
    lines: tuple[Line, ...]

    @property
    def keys(self) -> list[str]:
        return [line.key for line in self.lines]

    def text(self) -> str:
        rows = [self._texts(line) for line in self.lines]
        titles = tuple(heading.title.upper() for heading in self.headings)
        notes = [f"{line.title or line.cells[0].text}: {line.note}" for line in self.lines if line.note]
        return "\n".join([formats.table(titles, rows), *([""] if notes else []), *notes])

    def markdown(self) -> list[str]:
        """The lines of the table in Markdown, an empty one at the end."""
        has_notes = any(line.note for line in self.lines)
        titles = [heading.title for heading in self.headings] + ([_("Notes")] if has_notes else [])
        rows = [(*self._texts(line), *([line.note] if has_notes else [])) for line in self.lines]
        sides = [" ---: " if heading.is_figure else " --- " for heading in self.headings]
        lines = [f"| {' | '.join(map(escaped, titles))} |", f"|{'|'.join(sides + [' --- '] * has_notes)}|"]
        cells = ([escaped(cell).replace("\n", "<br>") for cell in row] for row in rows)
        return [*lines, *(f"| {' | '.join(row)} |" for row in cells), ""]

    def _texts(self, line: Line) -> tuple[str, ...]:
        count = len(self.headings)
        if line.words is not None:
            return (line.cells[0].text, *[formats.MISSING] * (count - 1))
        return tuple(line.cell(column).text for column in range(count))


# --- Whether two devices compute the same


FP32_TOLERANCE = 1e-3
"""Sums in another order differ by about 1e-6, matrix products of other GPU kernels by up to 1e-4."""

HALF_TOLERANCE = 2e-2
"""bf16 has 8 bits, an error of up to 0.4 % per number. Measured on a CPU with random weights: losses differ by at most
0.09 % (ResNet-18; BERT-base 0.04 %, AlexNet 0.002 %). Larger models and other kernels may differ more.
"""


def agreement(row: Row, first: Row) -> Cell | None:
    """Compare the losses of two rows of a group before training, in their first passes.

    With dropout, only the evaluation of the first batch is compared. None if one has no figures, or both no losses.
    """
    if row is first or not row.samples or not first.samples:
        return None
    mine, theirs = row.samples[0], first.samples[0]
    is_random = mine.is_random or theirs.is_random
    pairs = [(mine.first_loss, theirs.first_loss)]
    if not is_random:
        pairs += list(zip(mine.losses, theirs.losses, strict=False))[:1]
    if all(loss is None and expected is None for loss, expected in pairs):
        return None
    tolerance = HALF_TOLERANCE if _is_half(row) or _is_half(first) else FP32_TOLERANCE
    tip = _("The losses of the first batch before training; up to {share} counts as the same.")
    tip = tip.format(share=f"{tolerance * 100:.2g} %")
    if is_random:
        tip += " " + _("The model has dropout, so later losses can't be compared.")
    difference = 0.0
    for loss, expected in pairs:
        if loss is None or expected is None:
            return Cell(_("differ: a loss is not a number"), Tone.WARNING, tip)
        difference = max(difference, abs(loss - expected) / max(abs(loss), abs(expected), 1e-12))
    if difference > tolerance:
        words = _("differ by {share}").format(share=f"{difference * 100:.2g} %")
        return Cell(words, Tone.WARNING, tip)
    close = f"({difference:.0e})" if difference else _("(exactly)")
    return Cell(f"{_('first loss agrees') if is_random else _('agree')} {close}", Tone.GOOD, tip)


def _is_half(row: Row) -> bool:
    asked = row.variant.asked.get("device", {}).get("precision")
    ran = row.samples[0].ran
    return asked in (Precision.BF16, Precision.FP16, Precision.TF32) or bool(ran and ran.autocast_dtype)


# --- The table of a result, and its CSV


@dataclass(frozen=True)
class Column:
    """A column of figures.

    Attributes:
        name: Its name in CSV files; empty: it isn't written.
        value: Computes the value from a row and its baseline.
        is_optional: Whether it is left out if no row has a value.
    """

    name: str
    title: str
    value: Callable[[Row, Row], Any]
    text: Callable[[Any], str] = str
    tip: str = ""
    is_figure: bool = True
    is_optional: bool = False


def columns_of(result: Result, *, published: bool = False, all_of_them: bool = False) -> list[Column]:
    """The columns after the title; `all_of_them` includes optional ones without values."""
    is_methods = result.kind is Kind.METHODS
    first = _("baseline") if is_methods or not result.rows else result.rows[0].variant.side
    against = _("vs. {row}").format(row=first)
    columns = [
        Column(
            "side", _("Setting"), lambda row, _first: row.variant.side or None,
            is_figure=False, is_optional=True,
        ),
        Column(
            "epoch_seconds", _("Epoch"), lambda row, _first: row.epoch_seconds, formats.step_time,
            _("Time of an epoch at the median step"),
        ),
        Column(
            "samples_per_second", _("Examples/s"), lambda row, _first: _median(row.samples_per_second),
            formats.three_figures, _("Median of all timed steps"),
        ),
        Column(
            "", _("IQR"), lambda row, _first: row.samples_per_second, _range,
            _("Interquartile range of the speed"),
        ),
        Column("speed_ratio", against, lambda row, first: row.speed_against(first), times, _("Relative speed")),
        Column(
            "peak_bytes", _("Peak memory"), lambda row, _first: row.peak or None, formats.memory,
            _("The most memory that the process held"),
        ),
        Column(
            "memory_ratio", against, lambda row, first: row.memory_against(first), times,
            _("Relative memory"),
        ),
        Column(
            "compile_seconds", _("Compiling"), lambda row, _first: row.compile_seconds, formats.step_time,
            _("Once, before the first step; not included in any other figure"), is_optional=True,
        ),
    ]  # fmt: skip
    if not is_methods:
        tip = _("Whether both compute the same, by the loss of the first batch")
        columns.append(Column("losses", _("Losses"), agreement, tip=tip, is_figure=False))
    if published:
        title = _("Published speed, memory") if is_methods else _("Published")
        columns.append(Column("published", title, _published, tip=SOURCES[result.kind]))
    rows = result.rows
    return [
        column
        for column in columns
        if all_of_them
        or not column.is_optional
        or any(column.value(row, result.baseline(row)) is not None for row in rows)
    ]


def table_of(result: Result, *, published: bool = False, underway: str = "") -> ResultTable:
    """The table of a result; `underway` is the name of the variant that is being measured."""
    columns = columns_of(result, published=published)
    title = _("Method") if result.kind is Kind.METHODS else _("Model")
    headings = [Heading(column.title, column.tip, column.is_figure) for column in columns]
    lines = tuple(_line(row, result, columns, row.variant.name == underway) for row in result.rows)
    return ResultTable((Heading(title, is_figure=False), *headings), lines)


def _line(row: Row, result: Result, columns: Sequence[Column], is_underway: bool) -> Line:
    variant = row.variant
    tone = Tone.ACTIVE if is_underway else Tone.PLAIN if row.is_measured else Tone.QUIET
    title = f"{variant.title} {MARK}" if row.is_disturbed and row.is_measured else variant.title
    if not row.is_measured:
        words = _("being measured…") if is_underway else reason_of(row, result) or _("waits for its turn")
        cells = (Cell(result.titles()[variant.name] if variant.side else title, tone),)
        tip = "\n".join(part for part in (title, variant.note, words) if part)
        return Line(variant.name, cells, Cell(words, tone), row.reason and _one_line(row.reason), tip)
    figures = (Cell(title, tone), *(_cell(column, row, result.baseline(row)) for column in columns))
    notes = list(remarks(row))
    tip = "\n".join([result.titles()[variant.name], *details(row), *notes])
    return Line(variant.name, figures, None, "; ".join(notes), tip, result.titles()[variant.name])


def _cell(column: Column, row: Row, first: Row) -> Cell:
    value = column.value(row, first)
    return value if isinstance(value, Cell) else Cell("" if value is None else column.text(value))


def reason_of(row: Row, result: Result) -> str:
    """Why a row has no figures; empty if it has some or is still to be measured."""
    if row.is_measured or not (row.reason or result.ended is not None):
        return ""
    if not row.reason:
        return _("not measured")
    words = _("not measured: {reason}") if row.variant.refusal else _("failed: {reason}")
    return words.format(reason=_one_line(row.reason))


def details(row: Row) -> Iterator[str]:
    step, fullest = row.step_seconds, row.fullest
    if step is not None:
        words = _("A step: {median}, half of them between {low} and {high}; {steps} steps in {passes} passes")
        low, high = formats.step_time(step.lowest), formats.step_time(step.highest)
        median = formats.step_time(step.median)
        yield words.format(median=median, low=low, high=high, steps=f"{row.steps:,}", passes=len(row.samples))
    if fullest is not None and fullest.peak:
        held = ((title, getattr(fullest.parts, name)) for name, title in PART_TITLES.items())
        parts = ", ".join(f"{title.lower()} {formats.memory(size)}" for title, size in held if size)
        yield _("Peak memory: {size} ({parts})").format(size=formats.memory(fullest.peak), parts=parts)


def remarks(row: Row) -> Iterator[str]:
    if row.is_disturbed:
        load = max((one.other_load or 0.0 for one in row.conditions), default=0.0)
        causes = list(dict.fromkeys(why for one in row.conditions for why in one.throttled))
        if load > BUSY:
            causes.insert(0, _("other load of {share}").format(share=formats.whole_percent(load)))
        yield _("disturbed: {causes}").format(causes=", ".join(causes))
    if row.gpu_others and row.gpu_others > GPU_HELD:
        yield _("others held {size} of the GPU").format(size=formats.memory(row.gpu_others))
    if any(one.on_battery for one in row.conditions):
        yield _("on battery")
    failed = [one.failure for one in row.passes if one.failure]
    if failed:
        words = _("{failed} of {passes} passes failed: {reason}")
        yield words.format(failed=len(failed), passes=len(row.passes), reason=_one_line(failed[0]))
    if row.variant.note:
        yield _one_line(row.variant.note)


def csv(result: Result) -> str:
    """A line per row, in SI units. Each line has the time and the machine, so that files can be concatenated."""
    text, titles = io.StringIO(), result.titles()
    columns = [column for column in columns_of(result, all_of_them=True) if column.name]

    def values(row: Row) -> dict[str, Any]:
        return {column.name: column.value(row, result.baseline(row)) for column in columns}

    lines = [
        {
            "begun": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(result.begun)),
            "machine": result.machine.title,
            "benchmark": result.plan.title,
            "name": row.variant.name,
            "title": titles[row.variant.name],  # spreadsheets take one that begins with + for a formula
            "batch_size": row.variant.batch,
            "passes": len(row.samples),
            "steps": row.steps,
            **{
                f"step_seconds_{name}": getattr(row.step_seconds, name, None)
                for name in Spread.__struct_fields__
            },
            **{name: getattr(value, "text", value) for name, value in values(row).items()},
            **{
                f"{part}_bytes": getattr(row.fullest.parts, part) if row.fullest else None
                for part in PART_TITLES
            },
            "disturbed": int(row.is_disturbed) if row.is_measured else None,
            "note": "; ".join(remarks(row)),
            "reason": row.reason,
        }
        for row in result.rows
    ]
    if lines:
        writer = csv_files.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return text.getvalue()


def markdown(result: Result, *, published: bool = False) -> str:
    lines = [f"### {escaped(result.plan.title)}", "", *table_of(result, published=published).markdown()]
    lines += [f"{escaped(conclusion(result))}\n"]
    facts = (f"- {escaped(fact)}" for fact in how_measured(result, published=published))
    return "\n".join([*lines, *facts]) + "\n"


def text(result: Result, *, published: bool = False) -> str:
    table, facts = table_of(result, published=published).text(), how_measured(result, published=published)
    return "\n".join([result.plan.title, "", table, "", conclusion(result), "", *facts])


def how_measured(result: Result, *, published: bool = False) -> list[str]:
    machine = result.machine
    cores = ngettext("{count} core", "{count} cores", machine.cores).format(count=machine.cores)
    parts = (machine.processor, cores, formats.memory(machine.memory), machine.accelerator, machine.system)
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    when, how = formats.full_moment(result.begun), amount_of(result.plan)
    lines = [
        _("Measured on {machine}.").format(machine=", ".join(filter(None, parts))),
        _("With {versions}.").format(versions=versions) if versions else "",
        _("{when}, {how}: medians of all steps, with their quartiles.").format(when=when, how=how),
        "" if result.is_whole else _("It ended before all passes were made."),
        *result.plan.notes,
        SOURCES[result.kind] if published else "",
    ]
    return [line for line in lines if line]


def amount_of(plan: Plan) -> str:
    """The number of measurements: `20 steps x 3 passes, after 2 steps of warm-up`."""
    counts = {plan.steps_of(variant) for variant in plan.variants} or {plan.steps}
    few, most = min(counts), max(counts)
    steps = ngettext("{count} step", "{count} steps", most)
    return _("{steps} x {passes}, after {warm_up} of warm-up").format(
        steps=steps.format(count=most if few == most else _("{few} to {most}").format(few=few, most=most)),
        passes=ngettext("{count} pass", "{count} passes", plan.passes).format(count=plan.passes),
        warm_up=ngettext("{count} step", "{count} steps", plan.warm_up).format(count=plan.warm_up),
    )


def times(factor: float) -> str:
    """A factor: `1.90 ×`."""
    decimals = 2 if factor < 9.995 else 1 if factor < 99.95 else 0
    return f"{factor:,.{decimals}f} ×"


def _median(spread: Spread | None) -> float | None:
    return spread.median if spread else None


def _range(spread: Spread) -> str:
    low, high = formats.three_figures(spread.lowest), formats.three_figures(spread.highest)
    return f"{low} – {high}" if low != high else ""


def _published(row: Row, first: Row) -> str | None:
    """The guide's speed and memory, or the article's time and device, which may not be this machine's."""
    guide, seconds = guide_row(row.variant), ARTICLE.get(row.variant.group)
    if seconds is None:
        return f"{times(guide.speed)}, {times(guide.memory)}" if guide else None
    if row is first:
        return _("CPU {seconds}").format(seconds=formats.step_time(seconds[0]))
    return _("MPS {seconds}, {seconds_2}").format(
        seconds=formats.step_time(seconds[1]), seconds_2=times(seconds[0] / seconds[1])
    )


def _one_line(words: str) -> str:
    return " ".join(words.split()).rstrip(".")


# --- The conclusion


LESS = 0.95
"""Less memory than plain means at most this fraction: the memory of a process varies by a few percent."""


def conclusion(result: Result) -> str:
    """The conclusion in a few sentences, without disturbed rows."""
    if not result.measured:
        return _("Nothing has been measured.")
    quiet = [row for row in result.measured if not row.is_disturbed]
    sentences = list((_of_methods if result.kind is Kind.METHODS else _of_devices)(result, quiet))
    if len(quiet) < len(result.measured):
        words = _(
            "{count} of {rows} rows were measured beside other work, or while heat or a power cap reduced the clock, "
            "and are left out here. Close other programs and measure again."
        )
        count = len(result.measured) - len(quiet)
        sentences.append(words.format(count=count, rows=len(result.measured)))
    return " ".join(sentences)


def _of_methods(result: Result, quiet: list[Row]) -> Iterator[str]:
    plain, titles = result.rows[0], result.titles()
    others = [row for row in quiet if row is not plain]
    if not plain.is_measured:
        reason = plain.reason or _("it was not measured")
        yield _("There is nothing to compare with: the baseline has no figures ({reason}).").format(
            reason=reason
        )
        return
    if len(result.measured) == 1:
        yield _("Only the baseline has been measured.")
        return
    if plain.is_disturbed or len(others) < (len(result.measured) - 1) / 2:
        yield _("Too many rows were disturbed for a conclusion.")
        return
    same = [row for row in others if not _is_small(row, plain) and _data(row) == _data(plain)]
    faster = [row for row in same if row.is_faster(plain)]
    leaner = [row for row in same if not plain.is_faster(row) and (row.memory_against(plain) or 1) <= LESS]
    fastest = max(faster, key=lambda row: row.speed_against(plain) or 0.0, default=None)
    leanest = min(leaner, key=lambda row: row.memory_against(plain) or 1.0, default=None)
    if fastest is None:
        yield _("No method was faster than the baseline beyond its spread.")
    else:
        words = _("Fastest, with the least memory: {row}.") if fastest is leanest else _("Fastest: {row}.")
        yield words.format(row=_compared(fastest, plain, titles))
    if leanest is None:
        yield _("None took less memory without being slower.")
    elif leanest is not fastest:
        words = _("Least memory without being slower than the baseline: {row}.")
        yield words.format(row=_compared(leanest, plain, titles))
    for row in others:
        title = titles[row.variant.name]
        if _data(row) != _data(plain) and row.is_faster(fastest or plain):
            words = _("On texts of different lengths {title} is {times} times as fast as the baseline.")
            yield words.format(title=title, times=formats.three_figures(row.speed_against(plain) or 0.0))
        if _is_small(row, plain):
            words = _("Few trainable parameters: {row}.")
            yield words.format(row=_compared(row, plain, titles))


def _compared(row: Row, plain: Row, titles: dict[str, str]) -> str:
    """`bf16, 2.91 times as fast as the baseline, with 45 % of its memory`."""
    if plain.is_faster(row) or row.is_faster(plain):
        words = _("{title}, {times} times as fast as the baseline, with {memory} of its memory")
    else:
        words = _("{title}, as fast as the baseline within the spread, with {memory} of its memory")
    factor = formats.three_figures(row.speed_against(plain) or 0.0)
    memory = formats.whole_percent(row.memory_against(plain) or 1.0)
    return words.format(title=titles[row.variant.name], times=factor, memory=memory)


def _is_small(row: Row, plain: Row) -> bool:
    """Whether a row trains only few weights, and plain doesn't."""
    mine, theirs = (each.variant.asked.get("model", {}).get("method", Method.FULL) for each in (row, plain))
    return mine not in (theirs, Method.FULL)


def _data(row: Row) -> object:
    """The training data; dynamic padding is measured with other texts."""
    return row.variant.asked.get("data", {}).get("train")


def _of_devices(result: Result, quiet: list[Row]) -> Iterator[str]:
    speeds: dict[tuple[str, str], dict[str, float]] = {}
    for row in quiet:
        first = result.baseline(row)
        speed = row.speed_against(first)
        if row is not first and speed is not None and not first.is_disturbed:
            speeds.setdefault((row.variant.side, first.variant.side), {})[row.variant.title] = speed
    for (side, first_side), by_title in speeds.items():
        least, most = min(by_title, key=by_title.__getitem__), max(by_title, key=by_title.__getitem__)
        low, high = formats.three_figures(by_title[least]), formats.three_figures(by_title[most])
        if len(by_title) == 1:
            words = _("{side} is {high} times as fast as {first} ({most}).")
        else:
            words = _(
                "{side} is {low} to {high} times as fast as {first}: least with {least}, most with {most}."
            )
        yield words.format(side=side, first=first_side, low=low, high=high, least=least, most=most)
    if not speeds:
        yield _("Nothing has been measured on both sides without disturbance.")


# --- Comparison of two results


MIN_STEPS = 4
"""With fewer steps there are no quartiles."""


class Change(Enum):
    """The change of a row's speed."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Compared:
    """A row of two results; None in one that doesn't have it."""

    key: str
    title: str
    earlier: Row | None
    later: Row | None

    @property
    def speed(self) -> float | None:
        return self.later.speed_against(self.earlier) if self.later and self.earlier else None

    @property
    def change(self) -> Change:
        old, new = self.earlier, self.later
        if old is None or new is None or min(old.steps, new.steps) < MIN_STEPS:
            return Change.UNKNOWN
        return Change.FASTER if new.is_faster(old) else Change.SLOWER if old.is_faster(new) else Change.SAME

    @property
    def reason(self) -> str:
        if self.earlier is None:
            return _("only in the later one")
        if self.later is None:
            return _("only in the earlier one")
        return self.later.reason or self.earlier.reason or _("not measured")


@dataclass(frozen=True)
class Comparison:
    """The comparison of two results; `notes` are other differences between them."""

    earlier: Result
    later: Result
    rows: tuple[Compared, ...]
    notes: tuple[str, ...]


def compare(one: Result, other: Result) -> Comparison:
    """Match the rows of two results by the names of their variants: first those in both, in the later one's order.

    Raises:
        OptionsError: One compares methods and the other devices, or both are the same.
    """
    earlier, later = sorted((one, other), key=lambda result: result.begun)
    if one == other or one.kind is not other.kind:
        message = _("one is a benchmark of {value}, the other of {value_2}").format(
            value=one.kind.value, value_2=other.kind.value
        )
        raise OptionsError(
            (Problem("", _("both are the same result") if one == other else message),), _("The comparison")
        )
    before, after = ({row.variant.name: row for row in result.rows} for result in (earlier, later))
    titles = earlier.titles() | later.titles()
    names = sorted(dict.fromkeys((*after, *before)), key=lambda name: name not in before or name not in after)
    rows = tuple(Compared(name, titles[name], before.get(name), after.get(name)) for name in names)
    return Comparison(earlier, later, rows, tuple(_differences(earlier, later, rows)))


def comparison_table(comparison: Comparison) -> ResultTable:
    headings = (
        Heading(_("Row"), is_figure=False),
        Heading(_("Examples/s, earlier")),
        Heading(_("later")),
        Heading(_("Speed"), _("Later run relative to earlier")),
        Heading(_("Change"), _("Whether the interquartile ranges overlap"), is_figure=False),
        Heading(_("Memory, earlier")),
        Heading(_("later")),
        Heading(_("Memory"), _("Memory, later run relative to earlier")),
    )
    words = {
        Change.FASTER: Cell(_("faster"), Tone.GOOD),
        Change.SLOWER: Cell(_("slower"), Tone.WARNING),
        Change.SAME: Cell(_("within the spread"), Tone.QUIET),
        Change.UNKNOWN: Cell(),
    }
    lines = []
    for row in comparison.rows:
        if row.speed is None or row.earlier is None or row.later is None:
            title, reason = Cell(row.title, Tone.QUIET), Cell(row.reason, Tone.QUIET)
            lines.append(Line(row.key, (title,), reason, note=row.reason, tip=row.reason))
            continue
        both = (row.earlier, row.later)
        speeds = [
            Cell(f"{formats.three_figures(speed.median)}{f' {MARK}' if each.is_disturbed else ''}")
            for each in both
            if (speed := each.samples_per_second)
        ]
        peaks = [Cell(formats.memory(each.peak or None)) for each in both]
        memory = row.later.memory_against(row.earlier)
        share = Cell(times(memory) if memory else formats.MISSING)
        cells = (Cell(row.title), *speeds, Cell(times(row.speed)), words[row.change], *peaks, share)
        lines.append(Line(row.key, cells))
    return ResultTable(headings, tuple(lines))


def _differences(earlier: Result, later: Result, rows: Sequence[Compared]) -> Iterator[str]:
    """Other differences, which may be the cause of a change."""
    facts = {
        _("Plan"): (earlier.plan.title, later.plan.title),
        _("Amount"): (amount_of(earlier.plan), amount_of(later.plan)),
        _("Computer"): (earlier.machine.title, later.machine.title),
        _("Processor"): (earlier.machine.processor, later.machine.processor),
        _("Accelerator"): (earlier.machine.accelerator, later.machine.accelerator),
        _("System"): (earlier.machine.system, later.machine.system),
    }
    old, new = earlier.machine.versions, later.machine.versions
    facts |= {name: (old.get(name, ""), new.get(name, "")) for name in dict.fromkeys((*new, *old))}
    for name, (before, after) in facts.items():
        if before != after:
            words = _("{name}: earlier {before}, later {after}.")
            yield words.format(name=name, before=before or _("none"), after=after or _("none"))
    both = [(row.title, row.earlier, row.later) for row in rows if row.earlier and row.later]
    changed = [title for title, before, after in both if before.variant.asked != after.variant.asked]
    if changed:
        yield _("Other options in: {titles}.").format(titles=", ".join(changed))
    for word, result in ((_("earlier"), earlier), (_("later"), later)):
        titles = result.titles()
        disturbed = [titles[row.variant.name] for row in result.rows if row.is_disturbed]
        if disturbed:
            yield _("Disturbed in the {which} one: {titles}.").format(which=word, titles=", ".join(disturbed))
        if not result.is_whole:
            yield _("The {which} one ended before all passes were made.").format(which=word)
