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

from core.base import format as figures
from core.base.errors import OptionsError, Problem
from core.base.files import file_inside, read_small, write_atomically, writing
from core.base.format import METRIC_TITLES, METRICS
from core.base.settings import VERSION
from core.memory.model import PART_TITLES
from core.options import RunOptions
from core.options.catalogue import Option, all_options, value_of, with_unit
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
from core.runs.library import read_story
from core.runs.status import PredictionStory, RunStory, WorkClock
from core.runs.summary import RunSummary, summarize
from core.runs.words import ending_text, statements

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "report.html"
LABELS = 40
GB = 1 << 30
EVALUATIONS = 60
"""So many rows the table of evaluations has at most: the first and last, and others evenly between."""
LEVELS = {Level.INFO: "Note", Level.WARNING: "Warning", Level.ERROR: "Error"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 220, 76, 16, 28, 26
"""Of a chart, in pixels."""

Points = list[tuple[float, float]]
"""In their order; y is NaN where there is no figure."""


class Markup(str):
    """What is HTML already; any other text is escaped."""


def save_report(run: RunFolder, path: Path) -> None:
    """Write the page, whole or not at all, over whatever is at `path`.

    Raises:
        OptionsError: Its ending is another than .html.
        TargetError: It can't be written there.
        UserError: It can't be written: the disk is full.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise OptionsError((Problem("", f"{path.name}: name a file that ends in .html"),))
    content = page_of(run).encode("utf-8", "replace")
    with writing(path):
        write_atomically(path, content)


def page_of(run: RunFolder) -> str:
    """Read a run and tell it. A damaged folder is told as far as it can be read."""
    story, history, summary = read_story(run), read_history(run), summarize(run)
    try:
        options: RunOptions | None = run.options()
    except OptionsError:
        options = None
    sections = {
        "What was asked": _asked(options),
        "Data": _data(options, story),
        "What ran": _table(
            ("What", "As", "Because"),
            [
                (found.title, found.value, told(found.reason))
                for found in statements(story.what_ran, figures.size)
            ],
        ),
        "Memory": _memory(story),
        "Charts": _charts(history, story),
        "Evaluations": _evaluated(history.evaluations),
        "What it says": _said(run, history.predictions),
        "Confusion matrix": _mixed_up(history.predictions),
        "Messages": _table(
            ("Kind", "What", "More"),
            [
                (LEVELS[found.level], told(found.title), told(found.detail.replace(str(Path.home()), "~")))
                for found in story.messages.values()
            ],
        ),
        "Machine and versions": _machine(story, history),
    }
    facts = [
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(figure)}</dd></div>"
        for name, figure in _facts(summary, story)
    ]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escaped(title_of(run.path, options)),
        outcome=told(_outcome(run, story, summary)),
        facts="\n".join(facts),
        sections="\n".join(f"<h2>{title}</h2>\n{content}" for title, content in sections.items() if content),
        made=f"Made by Hone {VERSION} on {figures.full_moment(time.time())}.",
    )


def escaped(text: str) -> str:
    """A text as HTML."""
    return text if isinstance(text, Markup) else html.escape(text)


def told(sentence: str) -> Markup:
    """A sentence of Hone's own as HTML: what stands between backticks is code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(sentence)))


@dataclass
class History:
    """What changes over a run: by step, and memory by the seconds worked. Take its events in the order of time."""

    loss: Points = field(default_factory=list)
    evaluations: list[Evaluated] = field(default_factory=list)
    memory: dict[Source, Points] = field(default_factory=dict)
    ceilings: dict[Source, int] = field(default_factory=dict)
    predictions: PredictionStory = field(default_factory=PredictionStory)
    clock: WorkClock = field(default_factory=WorkClock)

    def take(self, event: AnyEvent) -> None:
        """Add one event."""
        if self.clock.begins_with(event):
            self.clock.begin(event)
        self.predictions.apply(event)
        match event:
            case RunStarted():  # steps beyond the one an attempt goes on from no longer count
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
    """Go through a run's events and machine samples once; what can't be read is passed over."""
    found = History()
    for event in heapq.merge(_lines(run.events_file), _lines(run.machine_file), key=attrgetter("time")):
        found.take(event)
    return found


def _lines(path: Path) -> Iterator[AnyEvent]:
    reader = EventReader(path)
    while not reader.is_at_end:
        yield from reader.read()


def _outcome(run: RunFolder, story: RunStory, summary: RunSummary) -> str:
    if not summary.state.is_over:
        return f"It is {summary.state.value}: this page tells what happened until now."
    ending = ending_text(run, story, summary.state, run.exit_record())
    lines = [line.strip() for line in ending.splitlines() if line.strip() and str(run.path) not in line]
    return " ".join(line if line.endswith((".", "!", "?", ":")) else f"{line}." for line in lines[:3])


def _facts(summary: RunSummary, story: RunStory) -> Iterator[tuple[str, str]]:
    yield "State", summary.state.value
    if summary.metric is not None:
        yield f"Best {METRIC_TITLES[summary.metric]}", figures.number(summary.best)
    yield "Steps", f"{story.step:,}"
    if summary.seconds is not None:
        yield "Time", figures.plain_duration(summary.seconds)
    if summary.peak_bytes:
        yield "Memory at most", figures.size(summary.peak_bytes)
    if summary.started is not None:
        yield "Started", figures.full_moment(summary.started)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: Iterable[int] = ()) -> str:
    """A table with figures in the columns `numbers`; empty where it has no rows."""
    kinds = [' class="n"' if place in set(numbers) else "" for place in range(len(titles))]

    def cells(name: str, row: tuple[str, ...]) -> str:
        return "".join(
            f"<{name}{kind}>{escaped(cell)}</{name}>" for kind, cell in zip(kinds, row, strict=False)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', titles)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>\n{body}\n</tbody></table></div>\n' if body else ""


def _asked(options: RunOptions | None) -> str:
    """Options that differ from their defaults first."""
    if options is None:
        return "<p>The run file can't be read.</p>\n"
    changed: list[tuple[str, ...]] = []
    usual: list[str] = []
    for option in all_options():
        value = value_of(options, option.path)
        is_empty = value in (None, "", (), {})
        if not option.acts_in(options) or option.path == "output.name" or is_empty:
            continue
        if value == option.default:
            usual.append(f"{option.title} {_shown(option, value)}")
        else:
            default = "" if option.default is None else _shown(option, option.default)
            changed.append((option.title, _shown(option, value), default))
    rest = f"<p>All other options are as usual: {escaped('; '.join(usual))}.</p>\n" if usual else ""
    return _table(("Option", "Value", "Usually"), changed) + rest


def _shown(option: Option, value: object) -> str:
    """A value in words; of a path what lies in the person's own folder begins with `~`."""
    words = with_unit(option, value)
    return words.replace(str(Path.home()), "~") if option.is_path else words


def _data(options: RunOptions | None, story: RunStory) -> str:
    plan = story.plan
    if plan is None or options is None:
        return ""
    rows = [("Rows trained on", f"{plan.train_samples:,}")]
    rows.append(("Rows held out", f"{plan.eval_samples:,}" if plan.eval_samples else "none"))
    each = figures.counted(plan.effective_batch, "row")
    rows.append(("Steps planned", f"{plan.total_steps:,}, each of {each}"))
    if plan.labels:
        more = f" and {len(plan.labels) - LABELS:,} more" if len(plan.labels) > LABELS else ""
        rows.append((f"{len(plan.labels):,} labels", ", ".join(plan.labels[:LABELS]) + more))
    return _table(("Data", "How much"), rows)


def _memory(story: RunStory) -> str:
    forecast = story.forecast
    if forecast is None:
        return ""
    parts = [(PART_TITLES[name], getattr(forecast.parts, name)) for name in forecast.parts.__struct_fields__]
    rows = [(title, figures.megabytes(count)) for title, count in parts if count]
    rows.append(("Forecast, all together", figures.megabytes(forecast.parts.total)))
    rows += [("Measured at most", figures.megabytes(story.peak_bytes))] if story.peak_bytes else []
    error = story.forecast_error
    side = "above" if error is not None and error > 0 else "below"
    words = "" if error is None else f"<p>The forecast was {abs(error):.0%} {side} what was measured.</p>\n"
    return _table(("Part", "Memory"), rows, (1,)) + words


def _charts(history: History, story: RunStory) -> str:
    held_out: Points = []
    for found in history.evaluations:
        loss = found.metrics.get("eval_loss")
        held_out += [(found.step, loss)] if loss is not None else []
    losses = {"training": history.loss, "held-out data": held_out}
    charts = [chart("Loss by step", losses, lambda step: f"{step:,.0f}", figures.number)]
    on_device = Source.TORCH in history.memory
    for source, name in ((Source.TORCH, "the GPU"), (Source.PROCESS, "this run")):
        points = [(x, count / GB) for x, count in history.memory.get(source, [])]
        is_judged = story.forecast_bytes is not None and on_device == (source is Source.TORCH)
        limit = (story.forecast_bytes or 0) / GB if is_judged else None
        title = f"Memory of {name} by time of work"
        charts.append(
            chart(
                title,
                {"used": points},
                figures.plain_duration,
                lambda count: f"{count:.3g} GB",
                limit=limit,
                low=0.0,
            )
        )
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
    """Lines over one axis as SVG; empty where there is no figure.

    Args:
        title: What it shows.
        lines: One or two lines by their names.
        say_x: Writes a tick.
        say_y: Writes a tick.
        limit: A horizontal line, the forecast.
        low: What the axis has to reach down to.
    """
    drawn = {name: thinned(points) for name, points in lines.items() if points}
    ys = [y for points in drawn.values() for _, y in points if math.isfinite(y)]
    if not ys:
        return ""
    xs = [x for points in drawn.values() for x, _ in points]
    if limit is not None and limit <= 3 * max(ys):
        ys.append(limit)
    bottom, top, start, end = min(low, *ys), max(ys), min(xs), max(xs)
    top += (top - bottom) * 0.05 or abs(top) * 0.1 or 1.0
    end = end if end > start else start + 1

    def place(x: float, y: float) -> tuple[float, float]:
        across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + (x - start) / (end - start) * across, TOP + (top - y) / (top - bottom) * down

    def text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
        return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(words)}</text>'

    body = []
    for value in ticks(bottom, top):
        y = place(start, value)[1]
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(text(LEFT - 8, y + 4, say_y(value), "end"))
    body += [text(place(value, bottom)[0], HEIGHT - 6, say_x(value), "middle") for value in ticks(start, end)]
    for number, (name, points) in enumerate(drawn.items()):
        kind, moves, is_down = ("first", "second")[number], [], False
        for x, y in points:
            if math.isfinite(y):
                across, down = place(x, y)
                moves.append(f"{'L' if is_down else 'M'}{across:.1f} {down:.1f}")
            is_down = math.isfinite(y)
        body.append(f'<path class="{kind}" d="{"".join(moves)}"/>')
        body.append(text(LEFT + 130 * number, 16, name, "start", kind))
    if limit is not None and limit <= top:
        y = place(start, limit)[1]
        body.append(f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(text(LEFT + 130, 16, f"forecast, {say_y(limit)}", "start", "limit"))
    words = escaped(f"{title}: from {say_y(min(ys))} to {say_y(max(ys))}")
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<h3>{escaped(title)}</h3>\n<svg {size} role="img" aria-label="{words}">{"".join(body)}</svg>\n'


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two bounds, three to seven of them."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def thinned(points: Points, most: int = WIDTH) -> Points:
    """Of many points the lowest and the highest of each of `most` stretches; NaN where a stretch has no figure."""
    if len(points) <= 2 * most:
        return points
    found: Points = []
    for number in range(most):
        stretch = points[number * len(points) // most : (number + 1) * len(points) // most]
        known = [point for point in stretch if math.isfinite(point[1])]
        ends = (
            {min(known, key=lambda point: point[1]), max(known, key=lambda point: point[1])} if known else ()
        )
        found += sorted(ends) or stretch[:1]
    return found


def _evaluated(evaluations: list[Evaluated]) -> str:
    names = [one.name for one in METRICS if any(one.name in found.metrics for found in evaluations)]
    last = len(evaluations) - 1
    places = list(range(last + 1))
    if last >= EVALUATIONS:
        places = sorted({round(number * last / (EVALUATIONS - 1)) for number in range(EVALUATIONS)})
    rows = []
    for found in (evaluations[place] for place in places):
        values = (figures.number(found.metrics.get(name)) for name in names)
        rows.append((f"{found.step:,}", f"{found.epoch:.4g}", *values))
    words = f"<p>{len(rows):,} of {last + 1:,} evaluations, evenly chosen.</p>\n" if len(rows) <= last else ""
    titles = ("Step", "Epoch", *(METRIC_TITLES[name] for name in names))
    return _table(titles, rows, range(len(titles))) + words


def _said(run: RunFolder, told_of: PredictionStory) -> str:
    """What the model said before training and at last."""
    if not told_of.examples or not told_of.told:
        return ""
    first, last = told_of.told[0], told_of.told[-1]
    rows = [
        (
            _given(run, example),
            example.expected or "-",
            *(_text(one.said[place : place + 1]) for one in (first, last)),
        )
        for place, example in enumerate(told_of.examples)
    ]
    return _table(("Given", "Expected", f"At step {first.step:,}", f"At step {last.step:,}"), rows)


def _given(run: RunFolder, example: Example) -> str:
    path = file_inside(run.path, example.image) if example.image else None
    with contextlib.suppress(OSError):
        if path is not None:
            content = base64.b64encode(read_small(path)).decode()
            words = html.escape(example.given or path.stem)
            return Markup(f'<img alt="{words}" src="data:image/png;base64,{content}">')
    return example.given or example.image


def _text(found: tuple[Said, ...]) -> str:
    if not found:
        return "-"
    said = found[0]
    sure = f" ({said.sure:.0%})" if said.sure is not None else ""
    return (
        f"{said.text}{' …' if said.is_cut else ''}{sure}{ {True: ' ✓', False: ' ✗', None: ''}[said.right] }"
    )


def _mixed_up(predictions: PredictionStory) -> str:
    found = predictions.confusion
    if found is None:
        return ""
    rows = [
        (label, *(f"{count:,}" if count else "·" for count in counts))
        for label, counts in zip(found.labels, found.counts, strict=False)
    ]
    left = f" Left out: {figures.counted(found.left_out, 'label')}." if found.left_out else ""
    words = f"<p>Rows are what is true, columns what the model said.{left}</p>\n"
    return words + _table(("", *found.labels), rows, range(1, len(found.labels) + 1))


def _machine(story: RunStory, history: History) -> str:
    ran, rows = story.what_ran, []
    if ran is not None:
        rows.append(("Device", ran.device_name or ran.device))
    for source, name in ((Source.SYSTEM, "computer"), (Source.TORCH, "device")):
        if source in history.ceilings:
            rows.append((f"Memory of the {name}", figures.size(history.ceilings[source])))
    return _table(("What", "Which"), [*rows, *story.versions.items()])
