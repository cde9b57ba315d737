"""The result of a benchmark as a table, Markdown and CSV, and its conclusion in words."""

import csv as csv_files
import io
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.base import formats
from core.base.formats import markdown as escaped
from core.base.language import _, isolated, ngettext, pgettext
from core.benchmark.figures import Figures, Result, Spread
from core.benchmark.plan import BenchmarkKind, BenchmarkRow
from core.options.choices import Method
from core.runs.words import word_of

# --- Figures published by others, to compare with


PUBLISHED = Path(__file__).resolve().parents[2] / "resources" / "published.toml"

SOURCES = {
    BenchmarkKind.METHODS: _(
        "Published by others: transformers' guide “Efficient training on a single GPU” (4.19 to 4.26), BERT-large with "
        "its published weights on a Tesla V100 with 16 GB, in January 2022. Half precision is fp16 there; AdamW was "
        "not fused; times are those of all 128 steps, including the first; memory is what the driver showed as used."
    ),
    BenchmarkKind.DEVICES: _(
        "Published by others: an article on training with an Apple M1 Max, 1,000 images of MNIST at 224 x 224 pixels, "
        "pretrained weights, CPU against MPS. Times only: the article trained on one logit, so its losses say nothing."
    ),
}


@lru_cache(1)
def published() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Returns the figures published by others, by kind and by name, see `resources/published.toml`."""
    return tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))


def published_row(kind: BenchmarkKind, row: BenchmarkRow) -> Mapping[str, float] | None:
    """Returns what others have published of a row; None if nothing."""
    if kind is BenchmarkKind.DEVICES:
        return published()[kind].get(row.group)
    half, _rest, rest = row.name.partition("-")
    return published()[kind].get(rest or "half" if half in ("bf16", "fp16") else row.name)


# --- The table


MARK = "†"
"""Follows the title of rows that were disturbed."""


@dataclass(frozen=True)
class FigureColumn:
    """A column of figures.

    Attributes:
        name: Its name in CSV files; empty: it isn't written.
        value: Computes the value from a row and its baseline.
        is_optional: Whether it is left out if no row has a value.
    """

    name: str
    title: str
    value: Callable[[Figures, Figures], Any]
    text: Callable[[Any], str] = str
    tip: str = ""
    is_figure: bool = True
    is_optional: bool = False


@dataclass(frozen=True)
class TableLine:
    """A row of a table: its cells, or `words` in place of all but the first; what `note` says of it, and a tool tip."""

    figures: Figures
    cells: tuple[str, ...]
    words: str = ""
    note: str = ""
    tip: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table that the window, the terminal and Markdown show alike."""

    columns: tuple[FigureColumn, ...]
    lines: tuple[TableLine, ...]

    def text(self) -> str:
        titles = tuple(column.title for column in self.columns)
        notes = [formats.titled(line.cells[0], line.note) for line in self.lines if line.note]
        table = formats.table(titles, list(map(self._texts, self.lines)))
        return "\n".join([table, *([""] if notes else []), *notes])

    def markdown(self) -> list[str]:
        """Returns the lines of the table in Markdown, an empty one at the end."""
        titles = [*(column.title for column in self.columns), _("Notes")]
        sides = [*("---:" if column.is_figure else "---" for column in self.columns), "---"]
        rows = ([*self._texts(line), line.note] for line in self.lines)
        lines = [f"| {' | '.join(map(escaped, row))} |" for row in (titles, *rows)]
        return [lines[0], f"| {' | '.join(sides)} |", *lines[1:], ""]

    def _texts(self, line: TableLine) -> tuple[str, ...]:
        missing = (formats.MISSING,) * (len(self.columns) - 1)
        return (line.cells[0], *missing) if line.words else line.cells


def columns_of(
    result: Result, *, with_published: bool = False, all_of_them: bool = False
) -> list[FigureColumn]:
    """Returns the columns after the title; `all_of_them` includes optional ones without values."""
    kind = result.benchmark.kind
    is_methods = kind is BenchmarkKind.METHODS
    first = _("baseline") if is_methods else result.benchmark.rows[0].side
    columns = [
        FigureColumn(
            "side", _("Setting"), lambda one, _first: one.row.side or None,
            is_figure=False, is_optional=True,
        ),
        FigureColumn(
            "epoch_seconds", pgettext("time of one", "Epoch"), lambda one, _first: one.epoch_seconds, formats.step_time,
            _("Time of an epoch at the median step"),
        ),
        FigureColumn(
            "step_seconds_median", pgettext("time of one", "Step"),
            lambda one, _first: _median(one.step_seconds), formats.step_time,
            _("Median of all timed steps"),
        ),
        FigureColumn(
            "samples_per_second", _("Examples/s"), lambda one, _first: _median(one.samples_per_second),
            formats.three_figures, _("Median of all timed steps"),
        ),
        FigureColumn(
            "", _("Quartiles"), lambda one, _first: one.samples_per_second, _range,
            _("Range of the speed of the middle half of the steps"),
        ),
        FigureColumn(
            "speed_ratio", _("Speed vs. {row}").format(row=first), lambda one, first: one.speed_against(first), times,
        ),
        FigureColumn(
            "peak_bytes", _("Peak memory"), lambda one, _first: one.peak, formats.memory,
            _("The most memory that the processes held; of a GPU, what PyTorch or MLX had reserved"),
        ),
        FigureColumn(
            "memory_ratio", _("Memory vs. {row}").format(row=first),
            lambda one, first: one.memory_against(first), times,
        ),
        FigureColumn(
            "compile_seconds", _("Compiling"), lambda one, _first: one.compile_seconds, formats.step_time,
            _("Once, before the first step; not included in any other figure"), is_optional=True,
        ),
    ]  # fmt: skip
    if not is_methods:
        tip = _("The loss of the first step, equal on all devices if the model has no dropout")
        columns.append(
            FigureColumn("first_loss", _("First loss"), lambda one, _first: one.first_loss, formats.loss, tip)
        )
    if with_published and result.benchmark.has_published:
        title = _("Published speed, memory") if is_methods else _("Published")
        columns.append(
            FigureColumn("", title, lambda one, first: _published(kind, one, first), tip=SOURCES[kind])
        )
    return [
        column
        for column in columns
        if all_of_them
        or not column.is_optional
        or any(column.value(one, result.baseline(one)) is not None for one in result.rows)
    ]


def table_of(result: Result, *, with_published: bool = False) -> ResultTable:
    """Returns the table of a result."""
    is_methods = result.benchmark.kind is BenchmarkKind.METHODS
    title = FigureColumn(
        "", _("Method") if is_methods else _("Model"), lambda one, _first: one, is_figure=False
    )
    columns = columns_of(result, with_published=with_published)
    lines = tuple(_line(one, result, columns) for one in result.rows)
    return ResultTable((title, *columns), lines)


def _line(one: Figures, result: Result, columns: Sequence[FigureColumn]) -> TableLine:
    row = one.row
    remarks = [*one.remarks, *([_one_line(row.note)] if row.note else [])]
    if not one.is_measured:
        words = reason_of(one)
        reason = _one_line(row.refusal or one.problem)
        return TableLine(one, (isolated(row.full_title),), words, reason, "\n".join([words, *remarks]))
    values = [(column, column.value(one, result.baseline(one))) for column in columns]
    cells = ("" if value is None else column.text(value) for column, value in values)
    if one.problem:
        remarks.insert(0, _("failed: {reason}").format(reason=_one_line(one.problem)))
    tip = "\n".join([row.full_title, *_details(one), *remarks])
    title = isolated(row.title) + (f" {MARK}" if one.is_disturbed else "")
    return TableLine(one, (title, *cells), note="; ".join(remarks), tip=tip)


def reason_of(one: Figures) -> str:
    """Returns why a row has no figures, or the state of its run that is still to measure them."""
    if one.row.refusal:
        return _("not measured: {reason}").format(reason=_one_line(one.row.refusal))
    if one.problem:
        return _("failed: {reason}").format(reason=_one_line(one.problem))
    return _("not measured") if one.state is None else word_of(one.state)


def _details(one: Figures) -> Iterator[str]:
    step = one.step_seconds
    if step is not None:
        words = _("A step: {median}, half of them between {low} and {high}; {steps}")
        low, high = formats.step_time(step.lowest), formats.step_time(step.highest)
        median, steps = formats.step_time(step.median), formats.counted(len(one.seconds), "step")
        yield words.format(median=median, low=low, high=high, steps=steps)


def records(result: Result) -> list[dict[str, Any]]:
    """Returns the rows in SI units by column; each has time and device, so that files can be put together."""
    columns = [column for column in columns_of(result, all_of_them=True) if column.name]
    return [
        {
            "begun": one.begun and time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(one.begun)),
            "device": one.device,
            "benchmark": result.benchmark.title,
            "name": one.row.name,
            "title": one.row.full_title,
            "batch_size": one.options.memory.batch_size if one.options else None,
            "steps": len(one.seconds),
            "step_seconds_lowest": one.step_seconds.lowest if one.step_seconds else None,
            "step_seconds_highest": one.step_seconds.highest if one.step_seconds else None,
            **{column.name: column.value(one, result.baseline(one)) for column in columns},
            "note": "; ".join([*one.remarks, *([_one_line(one.row.note)] if one.row.note else [])]),
            "reason": one.row.refusal or one.problem,
        }
        for one in result.rows
    ]


def csv(result: Result) -> str:
    """Returns a line per row; see `records`."""
    text, lines = io.StringIO(), records(result)
    writer = csv_files.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(result: Result, *, with_published: bool = False) -> str:
    """Returns the table with its conclusion and how it was measured, in Markdown."""
    lines = [f"### {escaped(result.benchmark.title)}", ""]
    lines += table_of(result, with_published=with_published).markdown()
    lines += [f"{escaped(conclusion(result))}\n"]
    facts = (f"- {escaped(fact)}" for fact in how_measured(result, with_published=with_published))
    return "\n".join([*lines, *facts]) + "\n"


def text(result: Result, *, with_published: bool = False) -> str:
    """Returns the table with its conclusion for a terminal."""
    table = table_of(result, with_published=with_published).text()
    facts = how_measured(result, with_published=with_published)
    return "\n".join([result.benchmark.title, "", table, "", conclusion(result), "", *facts])


def how_measured(result: Result, *, with_published: bool = False) -> list[str]:
    """Returns sentences on devices, versions and time, and the notes of the benchmark."""
    devices = formats.enumerated(dict.fromkeys(one.device for one in result.measured if one.device))
    versions = {f"{name} {number}": None for one in result.measured for name, number in one.versions.items()}
    counts = [len(one.seconds) for one in result.measured] or [0]
    few, most = formats.count(min(counts)), formats.count(max(counts))
    how = ngettext(
        "{when}, after {count} step of warm-up: medians of {steps} steps each, with their quartiles.",
        "{when}, after {count} steps of warm-up: medians of {steps} steps each, with their quartiles.",
        result.benchmark.warm_up,
    )
    begun = min((one.begun for one in result.measured if one.begun is not None), default=None)
    lines = [
        _("Measured on {device}.").format(device=devices) if devices else "",
        _("With {versions}.").format(versions=formats.enumerated(versions)) if versions else "",
        how.format(
            when=formats.full_moment(begun),
            count=result.benchmark.warm_up,
            steps=most if few == most else _("{few} to {most}").format(few=few, most=most),
        ),
        *result.benchmark.notes,
        SOURCES[result.benchmark.kind] if with_published and result.benchmark.has_published else "",
    ]
    return [line for line in lines if line]


def times(factor: float) -> str:
    """Returns a factor: `1.90 ×`."""
    decimals = 2 if factor < 9.995 else 1 if factor < 99.95 else 0
    return f"{factor:,.{decimals}f} ×"


def _median(spread: Spread | None) -> float | None:
    return spread.median if spread else None


def _range(spread: Spread) -> str:
    low, high = formats.three_figures(spread.lowest), formats.three_figures(spread.highest)
    return f"{low} – {high}" if low != high else ""


def _published(kind: BenchmarkKind, one: Figures, first: Figures) -> str | None:
    """Returns the guide's speed and memory, or the article's time and device, which may not be this machine's."""
    found = published_row(kind, one.row)
    if found is None:
        return None
    if kind is BenchmarkKind.METHODS:
        plain = published()[kind]["plain"]
        return ", ".join(times(found[name] / plain[name]) for name in ("samples_per_second", "megabytes"))
    if one is first:
        return _("CPU {seconds}").format(seconds=formats.step_time(found["cpu"]))
    seconds = formats.step_time(found["mps"])
    return _("MPS {seconds}, {factor}").format(seconds=seconds, factor=times(found["cpu"] / found["mps"]))


def _one_line(words: str) -> str:
    return formats.without_stop(" ".join(words.split()))


# --- The conclusion


LESS = 0.95
"""Less memory than plain means at most this fraction: the memory of a process varies by a few percent."""


def conclusion(result: Result) -> str:
    """Returns the conclusion in a few sentences, without disturbed rows and those that still train."""
    if not result.is_over:
        rows = tuple(row if row.is_over else replace(row, seconds=()) for row in result.rows)
        return _("So far: {conclusion}").format(conclusion=_concluded(replace(result, rows=rows)))
    return _concluded(result)


def _concluded(result: Result) -> str:
    if not result.measured:
        return _("Nothing has been measured.")
    quiet = [row for row in result.measured if not row.is_disturbed]
    sentences = list(
        (_of_methods if result.benchmark.kind is BenchmarkKind.METHODS else _of_devices)(result, quiet)
    )
    if len(quiet) < len(result.measured):
        words = _(
            "{count} of {rows} rows were measured while other programs worked, or heat or a power cap reduced the "
            "clock, and are left out here. Close other programs and measure again."
        )
        count = len(result.measured) - len(quiet)
        sentences.append(words.format(count=count, rows=len(result.measured)))
    return formats.paragraph(*sentences)


def _of_methods(result: Result, quiet: list[Figures]) -> Iterator[str]:
    plain = result.rows[0]
    others = [row for row in quiet if row is not plain]
    if not plain.is_measured:
        reason = plain.row.refusal or plain.problem or _("it was not measured")
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
    others = [row for row in others if row.has_spread]
    if not (plain.has_spread and others):
        yield _("Too few steps were timed for a conclusion.")
        return
    same = [row for row in others if not _is_small(row, plain) and _data(row) == _data(plain)]
    faster = [row for row in same if row.is_faster(plain)]
    leaner = [row for row in same if not plain.is_faster(row) and (row.memory_against(plain) or 1) <= LESS]
    fastest = max(faster, key=lambda row: row.speed_against(plain) or 0.0, default=None)
    leanest = min(leaner, key=lambda row: row.memory_against(plain) or 1.0, default=None)
    if fastest is None:
        yield _("No method was faster than the baseline beyond its spread.")
    else:
        words = (
            _("Fastest, and with the least memory of all that are at least as fast as the baseline: {row}.")
            if fastest is leanest
            else _("Fastest: {row}.")
        )
        yield words.format(row=_compared(fastest, plain))
    if leanest is None:
        yield _("None took less memory without being slower.")
    elif leanest is not fastest:
        words = _("Least memory without being slower than the baseline: {row}.")
        yield words.format(row=_compared(leanest, plain))
    for row in others:
        title = row.row.full_title
        if _data(row) != _data(plain) and row.is_faster(fastest or plain):
            words = _("On texts of different lengths {title} is {times} times as fast as the baseline.")
            yield words.format(title=title, times=formats.three_figures(row.speed_against(plain) or 0.0))
        if _is_small(row, plain):
            words = _("Few trainable parameters: {row}.")
            yield words.format(row=_compared(row, plain))


def _compared(row: Figures, plain: Figures) -> str:
    """Returns `bf16, 2.91 times as fast as the baseline, with 45 % of its memory`."""
    if plain.is_faster(row) or row.is_faster(plain):
        words = _("{title}, {times} times as fast as the baseline, with {memory} of its memory")
    else:
        words = _("{title}, as fast as the baseline within the spread, with {memory} of its memory")
    factor = formats.three_figures(row.speed_against(plain) or 0.0)
    memory = formats.whole_percent(row.memory_against(plain) or 1.0)
    return words.format(title=row.row.full_title, times=factor, memory=memory)


def _is_small(row: Figures, plain: Figures) -> bool:
    """Returns whether a row trains only few weights, and plain doesn't."""
    mine, theirs = (each.options.model.method if each.options else Method.FULL for each in (row, plain))
    return mine not in (theirs, Method.FULL)


def _data(row: Figures) -> object:
    """Returns the training data; dynamic padding is measured with other texts."""
    return row.options and row.options.data.train


def _of_devices(result: Result, quiet: list[Figures]) -> Iterator[str]:
    speeds: dict[tuple[str, str], dict[str, float]] = {}
    for row in quiet:
        first = result.baseline(row)
        speed = row.speed_against(first)
        if row is not first and speed is not None and not first.is_disturbed:
            speeds.setdefault((row.row.side, first.row.side), {})[row.row.title] = speed
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
