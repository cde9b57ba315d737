"""The charts of a page: loss, evaluation, step time, memory and learning rate, those that have figures."""

from collections.abc import Iterator

from core.metrics import METRIC_TITLES
from core.report import ticks
from core.report.reading import RunLines
from core.report.series import Line, smoothed
from core.report.svg import Chart

SMOOTH_FROM = 40
"""Below so many steps a mean says nothing that the steps don't."""
EPOCH_METRICS = (
    "eval_loss",
    "eval_accuracy",
    "eval_f1",
    "eval_reward_accuracy",
    "eval_pearson",
    "eval_token_accuracy",
)
"""Those that are drawn, where a run has them."""


def charts(lines: RunLines, forecast: int | None) -> Iterator[Chart]:
    """The charts of a run; `forecast` is what its memory was forecast at, in bytes."""
    yield from _loss(lines)
    yield from _evaluations(lines)
    yield from _step_time(lines)
    yield from _memory(lines, forecast)
    yield from _learning_rate(lines)


def _loss(lines: RunLines) -> Iterator[Chart]:
    numbers = lines.loss.finite
    if not numbers:
        return
    drawn = [lines.loss]
    if len(lines.loss.x) >= SMOOTH_FROM:
        drawn = [Line("each step", lines.loss.x, lines.loss.y), smoothed(lines.loss, "running mean")]
    first, last = numbers[0], drawn[-1].finite[-1]
    yield Chart(
        "Training loss",
        "step",
        "loss",
        drawn,
        ticks.counted,
        ticks.number,
        faint=frozenset({"each step"}) if len(drawn) > 1 else frozenset(),
        dotted=len(lines.loss.x) < SMOOTH_FROM,
        told=f"Over {len(lines.loss.x):,} steps from {ticks.number(first)} to {ticks.number(last)}, "
        f"at its lowest {ticks.number(min(numbers))}.",
    )


def _evaluations(lines: RunLines) -> Iterator[Chart]:
    found: dict[str, Line] = {}
    for event in lines.evaluations:
        for name in EPOCH_METRICS:
            if event.metrics.get(name) is not None:
                line = found.setdefault(name, Line(METRIC_TITLES[name]))
                line.add(event.step, event.metrics[name])
    loss = found.pop("eval_loss", None)
    for title, drawn in (
        ("Loss of held-out data", [loss] if loss else []),
        ("Evaluation", list(found.values())),
    ):
        if any(line.finite for line in drawn):
            last = ", ".join(f"{line.title} {ticks.number(line.finite[-1])}" for line in drawn if line.finite)
            name = drawn[0].title if len(drawn) == 1 else "score"
            yield Chart(
                title,
                "step",
                name,
                drawn,
                ticks.counted,
                ticks.number,
                dotted=True,
                told=f"At the end: {last}.",
            )


def _step_time(lines: RunLines) -> Iterator[Chart]:
    numbers = sorted(lines.seconds.finite)
    if not numbers:
        return
    median = numbers[len(numbers) // 2]
    size, unit = ticks.step_scale(median)
    yield Chart(
        "Time of a step",
        "step",
        unit,
        [lines.seconds.scaled(1.0, size)],
        ticks.counted,
        ticks.number,
        starts_at_zero=True,
        told=f"In the median {ticks.number(median / size)} {unit}, at most {ticks.number(numbers[-1] / size)} {unit}.",
    )


def _memory(lines: RunLines, forecast: int | None) -> Iterator[Chart]:
    on_device = bool(lines.device.finite)
    for line, is_judged in ((lines.device, on_device), (lines.process, not on_device)):
        if not line.finite:
            continue
        peak = max(line.finite)
        told = forecast if is_judged else None
        size, unit = ticks.byte_scale(max(peak, told or 0))
        per_time, time_unit = ticks.time_scale(line.x[-1] - line.x[0])
        yield Chart(
            f"Memory of {line.title}",
            f"{time_unit} of work",
            unit,
            [line.scaled(per_time, size)],
            ticks.number,
            ticks.number,
            limit=("forecast", told / size) if told else None,
            starts_at_zero=True,
            told=f"At most {ticks.number(round(peak / size, 1))} {unit}.",
        )


def _learning_rate(lines: RunLines) -> Iterator[Chart]:
    numbers = lines.learning_rate.finite
    if numbers:
        yield Chart(
            "Learning rate",
            "step",
            "learning rate",
            [lines.learning_rate],
            ticks.counted,
            ticks.number,
            starts_at_zero=True,
            told=f"At most {ticks.number(max(numbers))}, at the end {ticks.number(numbers[-1])}.",
        )
