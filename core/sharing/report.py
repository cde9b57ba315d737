"""A run as one page of HTML: no scripts, nothing fetched, everything that comes from a run escaped."""

import base64
import contextlib
import heapq
import html
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from string import Template

from core.base import formats
from core.base.errors import OptionsError, Problem
from core.base.files import file_inside, read_small, write_atomically, writing
from core.base.formats import METRIC_TITLES, METRICS
from core.base.language import _
from core.base.settings import VERSION
from core.memory.model import PART_TITLES
from core.options import RunOptions
from core.options.catalogue import all_options, value_of, with_unit
from core.options.past_runs import title_of
from core.runs.event_log import EventReader
from core.runs.events import (
    AnyEvent,
    Evaluated,
    Example,
    Level,
    MemorySampled,
    RunStarted,
    Said,
    Source,
    StepFinished,
)
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.status import PredictionLog, RunStatus, WorkClock
from core.runs.summary import RunSummary, summarize
from core.runs.words import ending_text, statements

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "report.html"
SHOWN_LABELS, SHOWN_EVALUATIONS = 40, 60
LEVELS = {Level.INFO: "Note", Level.WARNING: "Warning", Level.ERROR: "Error"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 220, 76, 16, 28, 26
"""Of a chart, in pixels."""

Points = list[tuple[float, float]]
"""Sorted by x; y is NaN where there is no figure."""


class Markup(str):
    """HTML already; any other text is escaped."""


def save_report(run: RunFolder, path: Path) -> None:
    """Write the page, whole or not at all, over whatever is at `path`.

    Raises:
        OptionsError: Its ending is another than .html.
        TargetError: It can't be written there.
        UserError: It can't be written: the disk is full.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise OptionsError((Problem("", _("{name}: name a file that ends in .html").format(name=path.name)),))
    content = page_of(run).encode("utf-8", "replace")
    with writing(path):
        write_atomically(path, content)


def page_of(run: RunFolder) -> str:
    """The page; a damaged folder is shown as far as it can be read."""
    status, history, summary = read_status(run), read_history(run), summarize(run)
    options = run.readable_options()
    home = str(Path.home())
    ran = [(one.title, one.value, code(one.reason)) for one in statements(status.what_ran, formats.size)]
    messages = [
        (LEVELS[found.level], code(found.title), code(found.detail.replace(home, "~")))
        for found in status.messages.values()
    ]
    sections = {
        "What was asked": _options(options),
        "Data": _data(status) if options else "",
        "What ran": _table(("What", "As", "Because"), ran),
        "Memory": _memory(status),
        "Charts": _charts(history, status),
        "Evaluations": _evaluations(history.evaluations),
        "What it says": _predictions(run, history.predictions),
        "Confusion matrix": _confusion(history.predictions),
        "Messages": _table(("Kind", "What", "More"), messages),
        "Machine and versions": _machine(status, history),
    }
    facts = (
        f"<div><dt>{name}</dt><dd>{html.escape(value)}</dd></div>" for name, value in _facts(summary, status)
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title_of(run.path, options)),
        outcome=code(_outcome(run, status, summary)),
        facts="\n".join(facts),
        sections="\n".join(f"<h2>{title}</h2>\n{content}" for title, content in sections.items() if content),
        made=_("Made by Hone {version} on {time}.").format(
            version=VERSION, time=formats.full_moment(time.time())
        ),
    )


def code(sentence: str) -> Markup:
    """A sentence of Hone's own as HTML: text between backticks is code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(sentence)))


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: Iterable[int] = ()) -> str:
    """A table with figures in the columns `numbers`; empty where it has no rows."""
    right = set(numbers)

    def line(tag: str, row: tuple[str, ...]) -> str:
        cells = (
            f"<{tag}{' class=n' * (place in right)}>{cell if isinstance(cell, Markup) else html.escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    table = f"<table><thead>{line('th', titles)}</thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="wide">{table}</div>\n' if body else ""


# --- What changes over a run


@dataclass
class History:
    """Figures by step, and memory by seconds of work. Takes events in the order of time."""

    loss: Points = field(default_factory=list)
    evaluations: list[Evaluated] = field(default_factory=list)
    memory: dict[Source, Points] = field(default_factory=dict)
    ceilings: dict[Source, int] = field(default_factory=dict)
    predictions: PredictionLog = field(default_factory=PredictionLog)
    clock: WorkClock = field(default_factory=WorkClock)

    def take(self, event: AnyEvent) -> None:
        if self.clock.begins_with(event):
            self.clock.begin(event)
        self.predictions.apply(event)
        match event:
            case RunStarted():  # steps beyond the one an attempt continues from no longer count
                while self.loss and self.loss[-1][0] > event.from_step:
                    self.loss.pop()
                self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
            case StepFinished():
                loss = event.loss_value
                self.loss.append((event.step, math.nan if loss is None or not math.isfinite(loss) else loss))
            case Evaluated():
                self.evaluations.append(event)
            case MemorySampled():
                count = event.bytes if event.reserved is None else event.reserved
                self.memory.setdefault(event.source, []).append((self.clock.at(event), count))
                if event.ceiling:
                    self.ceilings[event.source] = event.ceiling
        self.clock.go_on((event,))


def read_history(run: RunFolder) -> History:
    """Read a run's events and machine samples once; unreadable lines are skipped."""

    def events(path: Path) -> Iterator[AnyEvent]:
        reader = EventReader(path)
        while not reader.is_at_end:
            yield from reader.read()

    found = History()
    for event in heapq.merge(events(run.events_file), events(run.machine_file), key=attrgetter("time")):
        found.take(event)
    return found


# --- The sections


def _outcome(run: RunFolder, status: RunStatus, summary: RunSummary) -> str:
    if not summary.state.is_over:
        return _("It is {value}: this page shows what has happened until now.").format(
            value=summary.state.value
        )
    ending = ending_text(run, status, summary.state, run.exit_record())
    lines = [line.strip() for line in ending.splitlines() if line.strip() and str(run.path) not in line]
    return " ".join(line if line.endswith((".", "!", "?", ":")) else f"{line}." for line in lines[:3])


def _facts(summary: RunSummary, status: RunStatus) -> Iterator[tuple[str, str]]:
    yield "State", summary.state.value
    if summary.metric is not None:
        yield (
            _("Best {metric_titles}").format(metric_titles=METRIC_TITLES[summary.metric]),
            formats.number(summary.best),
        )
    yield "Steps", f"{status.step:,}"
    if summary.seconds is not None:
        yield "Time", formats.plain_duration(summary.seconds)
    if summary.peak_bytes:
        yield _("Peak memory"), formats.size(summary.peak_bytes)
    if summary.started is not None:
        yield "Started", formats.full_moment(summary.started)


def _options(options: RunOptions | None) -> str:
    """Options that differ from their defaults in a table, the others in a sentence."""
    if options is None:
        return "<p>The run file can't be read.</p>\n"
    changed, usual, home = [], [], str(Path.home())
    for option in all_options():
        value = value_of(options, option.path)
        if not option.acts_in(options) or option.path == "output.name" or value in (None, "", (), {}):
            continue
        words, default = (
            text.replace(home, "~") if option.is_path else text
            for text in (with_unit(option, one) if one is not None else "" for one in (value, option.default))
        )
        if value == option.default:
            usual.append(f"{option.title} {words}")
        else:
            changed.append((option.title, words, default))
    rest = f"<p>All other options are as usual: {html.escape('; '.join(usual))}.</p>\n" if usual else ""
    return _table(("Option", "Value", "Usually"), changed) + rest


def _data(status: RunStatus) -> str:
    plan = status.plan
    if plan is None:
        return ""
    rows = [
        (_("Rows trained on"), f"{plan.train_samples:,}"),
        (_("Rows held out"), f"{plan.eval_samples:,}" if plan.eval_samples else "none"),
        (
            _("Steps planned"),
            _("{total_steps:,}, each of {rows}").format(
                total_steps=plan.total_steps, rows=formats.counted(plan.effective_batch, "row")
            ),
        ),
    ]
    if plan.labels:
        rest = len(plan.labels) - SHOWN_LABELS
        more = _(" and {rest:,} more").format(rest=rest) if rest > 0 else ""
        rows.append((f"{len(plan.labels):,} labels", ", ".join(plan.labels[:SHOWN_LABELS]) + more))
    return _table(("Data", _("How much")), rows)


def _memory(status: RunStatus) -> str:
    forecast = status.forecast
    if forecast is None:
        return ""
    parts = [(PART_TITLES[name], getattr(forecast.parts, name)) for name in forecast.parts.__struct_fields__]
    rows = [(title, formats.megabytes(count)) for title, count in parts if count]
    rows.append((_("Forecast, total"), formats.megabytes(forecast.parts.total)))
    rows += [(_("Measured peak"), formats.megabytes(status.peak_bytes))] if status.peak_bytes else []
    table = _table(("Part", "Memory"), rows, (1,))
    if (error := status.forecast_error) is None:
        return table
    side = "above" if error > 0 else "below"
    return f"{table}<p>The forecast was {abs(error):.0%} {side} what was measured.</p>\n"


def _evaluations(evaluations: list[Evaluated]) -> str:
    names = [one.name for one in METRICS if any(one.name in found.metrics for found in evaluations)]
    shown = evaluations
    if len(evaluations) > SHOWN_EVALUATIONS:
        last = len(evaluations) - 1
        places = {round(number * last / (SHOWN_EVALUATIONS - 1)) for number in range(SHOWN_EVALUATIONS)}
        shown = [evaluations[place] for place in sorted(places)]
    rows = [
        (
            f"{found.step:,}",
            f"{found.epoch:.4g}",
            *(formats.number(found.metrics.get(name)) for name in names),
        )
        for found in shown
    ]
    left_out = f"<p>{len(rows):,} of {len(evaluations):,} evaluations, evenly chosen.</p>\n"
    titles = ("Step", "Epoch", *(METRIC_TITLES[name] for name in names))
    return _table(titles, rows, range(len(titles))) + left_out * (shown is not evaluations)


def _predictions(run: RunFolder, found: PredictionLog) -> str:
    if not found.examples or not found.told:
        return ""
    first, last = found.told[0], found.told[-1]
    rows = [
        (_given(run, example), example.expected or "-", _said(first.said[place:]), _said(last.said[place:]))
        for place, example in enumerate(found.examples)
    ]
    return _table(
        (
            "Given",
            "Expected",
            _("At step {step:,}").format(step=first.step),
            _("At step {step:,}").format(step=last.step),
        ),
        rows,
    )


def _given(run: RunFolder, example: Example) -> str:
    path = file_inside(run.path, example.image) if example.image else None
    with contextlib.suppress(OSError):
        if path is not None:
            content = base64.b64encode(read_small(path)).decode()
            words = html.escape(example.given or path.stem)
            return Markup(f'<img alt="{words}" src="data:image/png;base64,{content}">')
    return example.given or example.image


def _said(found: tuple[Said, ...]) -> str:
    if not found:
        return "-"
    said = found[0]
    sure = f" ({said.sure:.0%})" if said.sure is not None else ""
    right = {True: " ✓", False: " ✗", None: ""}[said.right]
    return f"{said.text}{' …' * said.is_cut}{sure}{right}"


def _confusion(predictions: PredictionLog) -> str:
    found = predictions.confusion
    if found is None:
        return ""
    rows = [
        (label, *(f"{count:,}" if count else "·" for count in counts))
        for label, counts in zip(found.labels, found.counts, strict=False)
    ]
    left = (
        _(" Left out: {labels}.").format(labels=formats.counted(found.left_out, "label"))
        if found.left_out
        else ""
    )
    words = f"<p>Rows are the true labels, columns the predicted ones.{left}</p>\n"
    return words + _table(("", *found.labels), rows, range(1, len(found.labels) + 1))


def _machine(status: RunStatus, history: History) -> str:
    ran = status.what_ran
    rows = [("Device", ran.device_name or ran.device)] if ran is not None else []
    for source, name in ((Source.SYSTEM, "computer"), (Source.TORCH, "device")):
        if source in history.ceilings:
            rows.append((_("Memory of the {name}").format(name=name), formats.size(history.ceilings[source])))
    return _table(("What", "Which"), [*rows, *status.versions.items()])


# --- Charts


def _charts(history: History, status: RunStatus) -> str:
    losses = [(found.step, found.metrics.get("eval_loss")) for found in history.evaluations]
    held_out: Points = [(step, loss) for step, loss in losses if loss is not None]
    lines: dict[str, Points] = {"training": history.loss, "held-out data": held_out}
    charts = [chart(_("Loss by step"), lines, lambda step: f"{step:,.0f}", formats.number)]
    for source, name in ((Source.TORCH, _("the GPU")), (Source.PROCESS, _("this run"))):
        points = [(x, count / (1 << 30)) for x, count in history.memory.get(source, [])]
        is_judged = (Source.TORCH in history.memory) == (source is Source.TORCH)
        limit = status.forecast_bytes / (1 << 30) if status.forecast_bytes is not None and is_judged else None
        title = _("Memory of {name} by time of work").format(name=name)
        gigabytes: Callable[[float], str] = "{:.3g} GB".format
        charts.append(chart(title, {"used": points}, formats.plain_duration, gigabytes, limit=limit, low=0.0))
    return "".join(charts)


def chart(
    title: str,
    lines: dict[str, Points],
    say_x: Callable[[float], str],
    say_y: Callable[[float], str],
    *,
    limit: float | None = None,
    low: float = math.inf,
) -> str:
    """One or two lines as SVG; empty where there is no figure.

    Args:
        title: What it shows.
        lines: The lines by their names.
        say_x: Formats a tick.
        say_y: Formats a tick.
        limit: A horizontal line, the forecast.
        low: A value that the axis has to include.
    """
    drawn = {name: thinned(points) for name, points in lines.items() if points}
    ys = [y for points in drawn.values() for _rest, y in points if math.isfinite(y)]
    if not ys:
        return ""
    xs = [x for points in drawn.values() for x, _rest2 in points]
    if limit is not None and limit <= 3 * max(ys):
        ys.append(limit)
    bottom, top, start = min(low, *ys), max(ys), min(xs)
    top += (top - bottom) * 0.05 or abs(top) * 0.1 or 1.0
    end = max(xs) if max(xs) > start else start + 1

    def across(x: float) -> float:
        return LEFT + (x - start) / (end - start) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return TOP + (top - y) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    def text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
        return (
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'
        )

    def level(y: float, kind: str = "") -> str:
        return (
            f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>'
        )

    body = [level(y) + text(LEFT - 8, down(y) + 4, say_y(y), "end") for y in ticks(bottom, top)]
    body += [text(across(x), HEIGHT - 6, say_x(x), "middle") for x in ticks(start, end)]
    for number, (name, points) in enumerate(drawn.items()):
        kind, moves, is_down = ("first", "second")[number], "", False
        for x, y in points:
            if math.isfinite(y):
                moves += _("{value}{x:.1f} {y:.1f}").format(
                    value="L" if is_down else "M", x=across(x), y=down(y)
                )
            is_down = math.isfinite(y)
        body.append(f'<path class="{kind}" d="{moves}"/>{text(LEFT + 130 * number, 16, name, "start", kind)}')
    if limit is not None and limit <= top:
        body.append(
            level(limit, "limit")
            + text(LEFT + 130, 16, _("forecast, {limit}").format(limit=say_y(limit)), "start", "limit")
        )
    label = html.escape(
        _("{title}: from {ys} to {ys_2}").format(title=title, ys=say_y(min(ys)), ys_2=say_y(max(ys)))
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return (
        f'<h3>{html.escape(title)}</h3>\n<svg {size} role="img" aria-label="{label}">{"".join(body)}</svg>\n'
    )


def ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers between two bounds."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def thinned(points: Points, most: int = WIDTH) -> Points:
    """The lowest and highest point of each of `most` stretches; NaN where a stretch has no figure."""
    if len(points) <= 2 * most:
        return points
    found: Points = []
    for number in range(most):
        stretch = points[number * len(points) // most : (number + 1) * len(points) // most]
        known = sorted((y, x) for x, y in stretch if math.isfinite(y))
        found += sorted({(x, y) for y, x in (known[0], known[-1])}) if known else stretch[:1]
    return found
