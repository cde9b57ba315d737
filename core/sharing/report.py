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
from core.base.formats import METRIC_TITLES, METRICS, paragraph
from core.base.language import _, pgettext
from core.base.settings import VERSION
from core.memory.model import PART_TITLES
from core.options import RunOptions
from core.options.catalogue import all_options, value_of, with_unit
from core.runs.event_log import EventReader
from core.runs.events import (
    ConfusionCounted,
    Evaluated,
    Example,
    Level,
    MemorySampled,
    RunStarted,
    Source,
    StepFinished,
)
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.notes import title_of
from core.runs.status import PredictionLog, RunStatus, WorkClock
from core.runs.summary import RunSummary, summarize
from core.runs.verdict import verdict
from core.runs.words import (
    FIGURES_OF_LABEL,
    ending_text,
    evaluations_text,
    figures_of,
    said_text,
    state_word,
    statements,
)

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "report.html"
SHOWN_LABELS, SHOWN_EVALUATIONS = 40, 60
LEVELS = {Level.INFO: pgettext("severity", "Note"), Level.WARNING: _("Warning"), Level.ERROR: _("Error")}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 220, 76, 16, 28, 26
"""Size and margins of a chart in pixels."""

Points = list[tuple[float, float]]
"""Sorted by x; y is NaN where a figure is missing."""


class Markup(str):
    """HTML; any other text is escaped."""


def save_report(run: RunFolder, path: Path) -> None:
    """Writes the page atomically, over whatever is at `path`.

    Raises:
        OptionsError: Its suffix isn't .html.
        TargetError: It can't be written there.
        UserError: It can't be written: the disk is full.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise OptionsError(
            (Problem("", _("{name}: choose a name that ends in .html").format(name=path.name)),)
        )
    content = page_of(run).encode("utf-8", "replace")
    with writing(path):
        write_atomically(path, content)


def page_of(run: RunFolder) -> str:
    """Returns the page; a damaged folder is shown as far as it can be read."""
    status, history, summary = read_status(run), read_history(run), summarize(run)
    options = run.readable_options()
    home = str(Path.home())
    ran = [(one.title, one.value, code(one.reason)) for one in statements(status.what_ran)]
    messages = [
        (LEVELS[message.level], code(message.title), code(message.detail.replace(home, "~")))
        for message in status.messages.values()
    ]
    sections = {
        _("Options"): _options(options),
        _("Data"): _data(status) if options else "",
        _("What ran"): _table((_("What"), pgettext("what ran", "As"), _("Because")), ran),
        _("Memory"): _memory(status),
        _("Charts"): _charts(history, status),
        _("Evaluations"): _evaluations(status.evaluations),
        _("Predictions"): _predictions(run, history.predictions),
        _("Confusion matrix"): _confusion(history.predictions.confusion),
        _("Messages"): _table((_("Kind"), _("Message"), _("Details")), messages),
        _("Machine and versions"): _machine(status, history),
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title_of(run.path, options)),
        outcome=code(_outcome(run, status, summary)),
        facts="\n".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
            for name, value in _facts(summary, status)
        ),
        sections="\n".join(f"<h2>{title}</h2>\n{content}" for title, content in sections.items() if content),
        made=_("Made by Hone {version} on {time}.").format(
            version=VERSION, time=formats.full_moment(time.time())
        ),
    )


def code(sentence: str) -> Markup:
    """Returns a sentence as HTML: text between backticks becomes code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(sentence)))


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: Iterable[int] = ()) -> str:
    """Returns a table, right-aligned in the columns `numbers`; empty if it has no rows."""
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


# --- History


@dataclass
class History:
    """Figures by step, and memory by seconds worked."""

    loss: Points = field(default_factory=list)
    memory: dict[Source, Points] = field(default_factory=dict)
    ceilings: dict[Source, int] = field(default_factory=dict)
    predictions: PredictionLog = field(default_factory=PredictionLog)


def read_history(run: RunFolder) -> History:
    """Reads a run's events and machine samples once; unreadable lines are skipped."""
    history, clock = History(), WorkClock()
    files = (EventReader(path).read_all() for path in (run.events_file, run.machine_file))
    for event in heapq.merge(*files, key=attrgetter("time")):
        if clock.begins_with(event):
            clock.begin(event)
        history.predictions.apply(event)
        match event:
            case RunStarted():
                history.loss = [(step, loss) for step, loss in history.loss if not event.undoes(int(step))]
            case StepFinished():
                loss = event.loss_value
                history.loss.append(
                    (event.step, loss if loss is not None and math.isfinite(loss) else math.nan)
                )
            case MemorySampled():
                count = event.bytes if event.reserved is None else event.reserved
                history.memory.setdefault(event.source, []).append((clock.at(event), count))
                if event.ceiling:
                    history.ceilings[event.source] = event.ceiling
        clock.go_on((event,))
    return history


# --- The sections


def _outcome(run: RunFolder, status: RunStatus, summary: RunSummary) -> str:
    if not summary.state.is_over:
        return _("The run is {state}: this page shows it so far.").format(state=state_word(summary))
    ending = ending_text(run, status, summary.state, run.exit_record())
    lines = [line.strip() for line in ending.splitlines() if line.strip() and str(run.path) not in line]
    lines = [*lines[:3], *filter(None, (evaluations_text(status, summary.seconds),))]
    if (judged := verdict(status, run.readable_options())) is not None:
        lines += filter(None, (judged.title, judged.detail))
    return paragraph(*lines)


def _facts(summary: RunSummary, status: RunStatus) -> Iterator[tuple[str, str]]:
    yield _("State"), state_word(summary)
    if summary.metric is not None:
        title = formats.metric_title(summary.metric)
        yield title, formats.number(summary.result)
    yield _("Steps"), f"{status.step:,}"
    if summary.seconds is not None:
        yield _("Time"), formats.duration(summary.seconds)
    if summary.peak_bytes:
        yield _("Peak memory"), formats.memory(summary.peak_bytes)
    if summary.started is not None:
        yield _("Started"), formats.full_moment(summary.started)


def _options(options: RunOptions | None) -> str:
    """Returns options that differ from their defaults in a table, the others in a sentence."""
    if options is None:
        message = _("The run file can't be read.")
        return f"<p>{message}</p>\n"
    changed, unchanged, home = [], [], str(Path.home())
    for option in all_options():
        value = value_of(options, option.path)
        if not option.acts_in(options) or option.path == "output.name" or value in (None, "", (), {}):
            continue
        text, default = (
            words.replace(home, "~") if option.is_path else words
            for words in (
                with_unit(option, one) if one is not None else "" for one in (value, option.default)
            )
        )
        if value == option.default:
            unchanged.append(f"{option.title} {text}")
        else:
            changed.append((option.title, text, default))
    rest = _("All other options have their defaults: {options}.").format(options="; ".join(unchanged))
    table = _table((_("Option"), _("Value"), _("Default")), changed)
    return table + f"<p>{html.escape(rest)}</p>\n" * bool(unchanged)


def _data(status: RunStatus) -> str:
    plan = status.plan
    if plan is None:
        return ""
    batch = formats.counted(plan.effective_batch, "example")
    rows = [
        (_("Training examples"), f"{plan.train_samples:,}"),
        (_("Validation examples"), f"{plan.eval_samples:,}" if plan.eval_samples else _("none")),
        (_("Planned steps"), _("{steps:,}, {batch} each").format(steps=plan.total_steps, batch=batch)),
    ]
    if count := len(plan.labels):
        shown = ", ".join(plan.labels[:SHOWN_LABELS])
        more = _("{labels} and {count:,} more").format(labels=shown, count=count - SHOWN_LABELS)
        rows.append((formats.counted(count, "label"), more if count > SHOWN_LABELS else shown))
    return _table((_("Data"), _("Count")), rows)


def _memory(status: RunStatus) -> str:
    forecast = status.forecast
    if forecast is None:
        return ""
    parts = [(PART_TITLES[name], getattr(forecast.parts, name)) for name in forecast.parts.__struct_fields__]
    parts.append((_("Forecast, total"), forecast.parts.total))
    parts.append((_("Measured peak"), status.measured_bytes or 0))
    rows = [(title, formats.memory(count)) for title, count in parts if count]
    table = _table((_("Part"), _("Memory")), rows, (1,))
    if (error := status.forecast_error) is None:
        return table
    text = (
        _("The forecast was {error:.0%} too high.")
        if error > 0
        else _("The forecast was {error:.0%} too low.")
    )
    return f"{table}<p>{text.format(error=abs(error))}</p>\n"


def _evaluations(evaluations: list[Evaluated]) -> str:
    names = [metric.name for metric in METRICS if any(metric.name in found.metrics for found in evaluations)]
    shown, count = evaluations, len(evaluations)
    if count > SHOWN_EVALUATIONS:
        places = {
            round(number * (count - 1) / (SHOWN_EVALUATIONS - 1)) for number in range(SHOWN_EVALUATIONS)
        }
        shown = [evaluations[place] for place in sorted(places)]
    rows = [
        (f"{one.step:,}", f"{one.epoch:.4g}", *(formats.number(one.metrics.get(name)) for name in names))
        for one in shown
    ]
    titles = (_("Step"), _("Epoch"), *(METRIC_TITLES[name] for name in names))
    note = _("{shown:,} of {count:,} evaluations, evenly spaced.").format(shown=len(rows), count=count)
    return _table(titles, rows, range(len(titles))) + f"<p>{note}</p>\n" * (shown is not evaluations)


def _predictions(run: RunFolder, log: PredictionLog) -> str:
    if not log.examples or not log.predicted:
        return ""
    first, last = log.predicted[0], log.predicted[-1]
    rows = [
        (_input(run, example), example.expected or "-", said_text(first, place), said_text(last, place))
        for place, example in enumerate(log.examples)
    ]
    steps = (_("Step {step:,}").format(step=prediction.step) for prediction in (first, last))
    return _table((_("Input"), _("Expected"), *steps), rows)


def _input(run: RunFolder, example: Example) -> str:
    path = file_inside(run.path, example.image) if example.image else None
    with contextlib.suppress(OSError):
        if path is not None:
            content = base64.b64encode(read_small(path)).decode()
            words = html.escape(example.shown or example.name)
            return Markup(f'<img alt="{words}" src="data:image/png;base64,{content}">')
    return example.shown or example.image


def _confusion(matrix: ConfusionCounted | None) -> str:
    if matrix is None:
        return ""
    rows = [
        (label, *(f"{count:,}" if count else "·" for count in counts))
        for label, counts in zip(matrix.labels, matrix.counts, strict=False)
    ]
    note = _("Rows are the true labels, columns the predicted ones.")
    if matrix.left_out:
        labels = formats.counted(matrix.left_out, "label")
        note = _("{note} Left out: {labels}.").format(note=note, labels=labels)
    counts = f"<p>{note}</p>\n" + _table(("", *matrix.labels), rows, range(1, len(matrix.labels) + 1))
    figures = [figures_of(one) for one in matrix.each_label]
    return counts + (_table(FIGURES_OF_LABEL, figures, range(1, len(FIGURES_OF_LABEL))) if figures else "")


def _machine(status: RunStatus, history: History) -> str:
    ran = status.what_ran
    rows = [(_("Device"), ran.device_name or ran.device)] if ran is not None else []
    for source, title in (
        (Source.SYSTEM, _("Memory of the computer")),
        (Source.TORCH, _("Memory of the device")),
    ):
        if source in history.ceilings:
            rows.append((title, formats.memory(history.ceilings[source])))
    return _table((_("What"), _("Value")), [*rows, *status.versions.items()])


# --- Charts


def _charts(history: History, status: RunStatus) -> str:
    losses = [(found.step, found.metrics.get("eval_loss")) for found in status.evaluations]
    lines: dict[str, Points] = {
        _("training"): history.loss,
        _("validation"): [(step, loss) for step, loss in losses if loss is not None],
    }
    charts = [chart(_("Loss by step"), lines, lambda step: f"{step:,.0f}", formats.number)]
    for source, title in (
        (Source.TORCH, _("GPU memory by time")),
        (Source.PROCESS, _("Memory of the run by time")),
    ):
        points = [(x, count / (1 << 30)) for x, count in history.memory.get(source, [])]
        is_forecast = (Source.TORCH in history.memory) == (source is Source.TORCH)
        limit = (
            status.forecast_bytes / (1 << 30) if status.forecast_bytes is not None and is_forecast else None
        )
        gigabytes: Callable[[float], str] = "{:.3g} GB".format
        charts.append(chart(title, {_("used"): points}, formats.duration, gigabytes, limit=limit, low=0.0))
    return "".join(charts)


def chart(
    title: str,
    lines: dict[str, Points],
    format_x: Callable[[float], str],
    format_y: Callable[[float], str],
    *,
    limit: float | None = None,
    low: float = math.inf,
) -> str:
    """Returns one or two lines as SVG; empty without figures.

    Args:
        limit: A horizontal line, the forecast.
        low: A value that the axis has to include.
    """
    drawn = {name: thinned(points) for name, points in lines.items() if points}
    ys = [y for points in drawn.values() for _x, y in points if math.isfinite(y)]
    if not ys:
        return ""
    label = _("{title}: from {lowest} to {highest}").format(
        title=title, lowest=format_y(min(ys)), highest=format_y(max(ys))
    )
    xs = [x for points in drawn.values() for x, _y in points]
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
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        return f'<text class="{kind}" {place}>{html.escape(words)}</text>'

    def level(y: float, kind: str = "") -> str:
        place = f'y1="{down(y):.1f}" y2="{down(y):.1f}"'
        return f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" {place}/>'

    body = [level(y) + text(LEFT - 8, down(y) + 4, format_y(y), "end") for y in ticks(bottom, top)]
    body += [text(across(x), HEIGHT - 6, format_x(x), "middle") for x in ticks(start, end)]
    for number, (name, points) in enumerate(drawn.items()):
        kind, path, command = ("first", "second")[number], "", "M"
        for x, y in points:
            if math.isfinite(y):
                path += f"{command}{across(x):.1f} {down(y):.1f}"
            command = "L" if math.isfinite(y) else "M"
        body.append(f'<path class="{kind}" d="{path}"/>{text(LEFT + 130 * number, 16, name, "start", kind)}')
    if limit is not None and limit <= top:
        words = _("forecast, {limit}").format(limit=format_y(limit))
        body.append(level(limit, "limit") + text(LEFT + 130, 16, words, "start", "limit"))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    svg = f'<svg {size} role="img" aria-label="{html.escape(label)}">{"".join(body)}</svg>'
    return f"<h3>{html.escape(title)}</h3>\n{svg}\n"


def ticks(low: float, high: float) -> list[float]:
    """Returns three to seven round numbers between two bounds."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def thinned(points: Points, most: int = WIDTH) -> Points:
    """Returns the lowest and highest point of each of `most` intervals; NaN where an interval has no figure."""
    if len(points) <= 2 * most:
        return points
    found: Points = []
    for number in range(most):
        stretch = points[number * len(points) // most : (number + 1) * len(points) // most]
        known = sorted((y, x) for x, y in stretch if math.isfinite(y))
        found += sorted({(x, y) for y, x in (known[0], known[-1])}) if known else stretch[:1]
    return found
