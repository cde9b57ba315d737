"""A run as a page: what was asked, what ran, what it came to."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from core import figures
from core.catalogue import Option, all_options, value_of
from core.commands.run_text import ending_text
from core.errors import OptionsError
from core.events import Evaluated, Level
from core.files import file_inside, read_small
from core.memory.forecast import PART_TITLES
from core.metrics import METRIC_TITLES, METRICS
from core.option_words import with_unit
from core.options import RunOptions
from core.predictions import Example, Said
from core.report.charts import charts
from core.report.page import Block, Cell, Image, Page, Section, Table, Told, Words
from core.report.reading import RunLines, read_lines
from core.run_folder import RunFolder
from core.run_notes import title_of
from core.run_summary import RunSummary, summarize
from core.runs import read_story
from core.statements import statements
from core.story import RunStory
from core.version import VERSION

EVALUATIONS = 60
"""So many rows the table of evaluations has at most: the first and last, and others evenly between."""
LABELS = 40
LEVELS = {Level.INFO: "Note", Level.WARNING: "Warning", Level.ERROR: "Error"}


def page_of(run: RunFolder) -> Page:
    """Read a run and tell it. A damaged folder is told as far as it can be read."""
    story, lines, summary = read_story(run), read_lines(run), summarize(run)
    try:
        options: RunOptions | None = run.options()
    except OptionsError:
        options = None
    sections = (
        _asked(options),
        _data(options, story),
        _ran(story),
        _memory(story),
        Section("Charts", tuple(charts(lines, story.forecast_bytes))),
        _evaluated(lines),
        _said(run, lines),
        _mixed_up(lines),
        _messages(story),
        _machine(story, lines),
    )
    return Page(
        title=title_of(run.path, options),
        outcome=_outcome(run, story, summary),
        facts=tuple(_facts(summary, story)),
        sections=tuple(section for section in sections if section.blocks),
        made=f"Made by Hone {VERSION} on {figures.moment(time.time())}.",
    )


def _outcome(run: RunFolder, story: RunStory, summary: RunSummary) -> str:
    if not summary.state.is_over:
        return f"It is {summary.state.value}: this page tells what happened until now."
    told = ending_text(run, story, summary.state, run.exit_record())
    lines = [line.strip() for line in told.splitlines() if line.strip() and str(run.path) not in line]
    return " ".join(line if line.endswith((".", "!", "?", ":")) else f"{line}." for line in lines[:3])


def _facts(summary: RunSummary, story: RunStory) -> Iterator[tuple[str, str]]:
    yield "State", summary.state.value
    if summary.metric is not None:
        yield f"Best {METRIC_TITLES[summary.metric]}", figures.number(summary.best)
    yield "Steps", f"{story.step:,}"
    if summary.seconds is not None:
        yield "Time", figures.duration(summary.seconds)
    if summary.peak_bytes:
        yield "Memory at most", figures.size(summary.peak_bytes)
    if summary.started is not None:
        yield "Started", figures.moment(summary.started)


def _asked(options: RunOptions | None) -> Section:
    """Options that differ from their defaults first."""
    if options is None:
        return Section("What was asked", (Words(("The run file can't be read.",)),))
    changed: list[tuple[Cell, ...]] = []
    usual: list[str] = []
    for option in all_options():
        if option.acts_in(options) and option.path not in ("output.name",):
            value = value_of(options, option.path)
            if value == option.default or value in (None, "", (), {}):
                usual += [] if value in (None, "", (), {}) else [f"{option.title} {_shown(option, value)}"]
            else:
                default = "" if option.default is None else _shown(option, option.default)
                changed.append((option.title, _shown(option, value), default))
    blocks: list[Block] = [Table(("Option", "Value", "Usually"), changed)]
    if usual:
        blocks.append(Words((f"All other options are as usual: {'; '.join(usual)}.",)))
    return Section("What was asked", tuple(blocks))


def _shown(option: Option, value: object) -> str:
    """A value in words; of a path what lies in the person's own folder begins with `~`."""
    words = with_unit(option, value)
    return words.replace(str(Path.home()), "~") if option.is_path else words


def _data(options: RunOptions | None, story: RunStory) -> Section:
    plan = story.plan
    if plan is None or options is None:
        return Section("Data", ())
    rows: list[tuple[Cell, ...]] = [("Rows trained on", f"{plan.train_samples:,}")]
    rows.append(("Rows held out", f"{plan.eval_samples:,}" if plan.eval_samples else "none"))
    rows.append(
        ("Steps planned", f"{plan.total_steps:,}, each of {figures.counted(plan.effective_batch, 'row')}")
    )
    if plan.labels:
        more = f" and {len(plan.labels) - LABELS:,} more" if len(plan.labels) > LABELS else ""
        rows.append((f"{len(plan.labels):,} labels", ", ".join(plan.labels[:LABELS]) + more))
    return Section("Data", (Table(("Data", "How much"), rows),))


def _ran(story: RunStory) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (found.title, found.value, Told(found.reason)) for found in statements(story.what_ran, figures.size)
    ]
    return Section("What ran", (Table(("What", "As", "Because"), rows),) if rows else ())


def _memory(story: RunStory) -> Section:
    told = story.forecast
    if told is None:
        return Section("Memory", ())
    parts = [(PART_TITLES[name], getattr(told.parts, name)) for name in told.parts.__struct_fields__]
    rows: list[tuple[Cell, ...]] = [(title, figures.megabytes(count)) for title, count in parts if count]
    rows.append(("Forecast, all together", figures.megabytes(told.parts.total)))
    if story.peak_bytes:
        rows.append(("Measured at most", figures.megabytes(story.peak_bytes)))
    words = []
    if story.forecast_error is not None:
        over = "above" if story.forecast_error > 0 else "below"
        words.append(f"The forecast was {abs(story.forecast_error):.0%} {over} what was measured.")
    table = Table(("Part", "Memory"), rows, frozenset({1}))
    return Section("Memory", (table, Words(tuple(words))) if words else (table,))


def _evaluated(lines: RunLines) -> Section:
    names = [one.name for one in METRICS if any(one.name in found.metrics for found in lines.evaluations)]
    if not names:
        return Section("Evaluations", ())
    rows: list[tuple[Cell, ...]] = [
        (
            f"{found.step:,}",
            f"{found.epoch:.4g}",
            *(figures.number(found.metrics.get(name)) for name in names),
        )
        for found in _spread(lines.evaluations)
    ]
    titles = (
        "Step",
        "Epoch",
        *(
            METRIC_TITLES[name].capitalize() if METRIC_TITLES[name].islower() else METRIC_TITLES[name]
            for name in names
        ),
    )
    blocks: list[Block] = [Table(titles, rows, frozenset(range(len(titles))))]
    if len(rows) < len(lines.evaluations):
        blocks.append(Words((f"{len(rows):,} of {len(lines.evaluations):,} evaluations, evenly chosen.",)))
    return Section("Evaluations", tuple(blocks))


def _spread(found: list[Evaluated]) -> list[Evaluated]:
    if len(found) <= EVALUATIONS:
        return found
    places = {round(place * (len(found) - 1) / (EVALUATIONS - 1)) for place in range(EVALUATIONS)}
    return [found[place] for place in sorted(places)]


def _said(run: RunFolder, lines: RunLines) -> Section:
    """What the model said before training and at last."""
    told = lines.predictions
    if not told.examples or not told.told:
        return Section("What it says", ())
    first, last = told.told[0], told.told[-1]
    rows: list[tuple[Cell, ...]] = []
    for place, example in enumerate(told.examples):
        before = first.said[place] if place < len(first.said) else None
        after = last.said[place] if place < len(last.said) else None
        rows.append((_given(run, example), example.expected or "-", _text(before), _text(after)))
    titles = ("Given", "Expected", f"At step {first.step:,}", f"At step {last.step:,}")
    return Section("What it says", (Table(titles, rows),))


def _given(run: RunFolder, example: Example) -> Cell:
    if example.image:
        path = file_inside(run.path, example.image)
        with contextlib.suppress(OSError):
            if path is not None:
                return Image(read_small(path), example.given or path.stem)
    return example.given or example.image


def _text(said: Said | None) -> str:
    if said is None:
        return "-"
    mark = {True: " ✓", False: " ✗", None: ""}[said.right]
    sure = f" ({said.sure:.0%})" if said.sure is not None else ""
    return f"{said.text}{' …' if said.is_cut else ''}{sure}{mark}"


def _mixed_up(lines: RunLines) -> Section:
    found = lines.predictions.confusion
    if found is None:
        return Section("Confusion matrix", ())
    rows: list[tuple[Cell, ...]] = [
        (label, *(f"{count:,}" if count else "·" for count in counts))
        for label, counts in zip(found.labels, found.counts, strict=False)
    ]
    told = ["Rows are what is true, columns what the model said."]
    if found.left_out:
        told.append(f"Left out: {figures.counted(found.left_out, 'label')}.")
    table = Table(("", *found.labels), rows, frozenset(range(1, len(found.labels) + 1)))
    return Section("Confusion matrix", (Words(tuple(told)), table))


def _messages(story: RunStory) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (LEVELS[found.level], Told(found.title), Told(found.detail.replace(str(Path.home()), "~")))
        for found in story.messages.values()
    ]
    return Section("Messages", (Table(("Kind", "What", "More"), rows),) if rows else ())


def _machine(story: RunStory, lines: RunLines) -> Section:
    rows: list[tuple[Cell, ...]] = []
    if story.what_ran is not None:
        rows.append(("Device", story.what_ran.device_name or story.what_ran.device))
    if lines.ceiling:
        rows.append(("Memory of the computer", figures.size(lines.ceiling)))
    if lines.device_ceiling:
        rows.append(("Memory of the device", figures.size(lines.device_ceiling)))
    rows += [(name, version) for name, version in story.versions.items()]
    return Section("Machine and versions", (Table(("What", "Which"), rows),) if rows else ())
