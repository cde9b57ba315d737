"""Charts as SVG: lines over an axis, readable in light and in dark, with words for whoever can't see them.

The colours are those of the window's two themes (`gui.tokens`), chosen by the reader's own setting.
"""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.report.series import Line, thinned
from core.report.ticks import Say, ticks

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 44
COLOURS = ("run", "activations", "optimizer", "gradients")
"""The lines' colours, by the names that the style gives them."""

STYLE = """
.c{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}
.c text{fill:#5f636c}.c .g{stroke:#e3e5ea}.c .a{stroke:#8b9099}
.c .l{fill:none;stroke-width:1.6;stroke-linejoin:round}
.c .run{stroke:#4c78f0;fill:#4c78f0}.c .activations{stroke:#268151;fill:#268151}
.c .optimizer{stroke:#c96a17;fill:#c96a17}.c .gradients{stroke:#8d63d6;fill:#8d63d6}
.c .faint{stroke-opacity:.35;stroke-width:1}.c .limit{stroke:#c9403f;stroke-dasharray:5 4}
.c .l.run,.c .l.activations,.c .l.optimizer,.c .l.gradients{fill:none}
@media (prefers-color-scheme:dark){
.c text{fill:#a7acb5}.c .g{stroke:#33363c}.c .a{stroke:#7d838d}
.c .run{stroke:#7396ff;fill:#7396ff}.c .activations{stroke:#5cc08d;fill:#5cc08d}
.c .optimizer{stroke:#f5a561;fill:#f5a561}.c .gradients{stroke:#b08af0;fill:#b08af0}
.c .limit{stroke:#ee6d6b}.c .l.run,.c .l.activations,.c .l.optimizer,.c .l.gradients{fill:none}}
"""


@dataclass(frozen=True)
class Chart:
    """What is drawn: lines over one axis.

    `x_title` and `y_title` name what the axes count, with the unit. `say_x` and `say_y` write ticks. `faint` are lines
    behind the others, `dotted` mark each point, `limit` is a horizontal line with its name. `starts_at_zero` keeps the
    foot of the chart at 0.
    """

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]
    say_x: Say
    say_y: Say
    faint: frozenset[str] = frozenset()
    dotted: bool = False
    limit: tuple[str, float] | None = None
    starts_at_zero: bool = False
    told: str = ""


def drawn(chart: Chart, *, is_alone: bool = False) -> str:
    """The chart as SVG.

    Args:
        chart: What to draw; at least one of its lines has a number.
        is_alone: Whether it will be a file or an image of its own, which takes its style along.
    """
    frame = _Frame.around(chart)
    words = html.escape(f"{chart.title}. {chart.told}".strip())
    style = f"<style>{STYLE}</style>" if is_alone else ""
    body = "".join((*_grid(chart, frame), *_curves(chart, frame), *_limit(chart, frame), *_legend(chart)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="c" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{words}">{style}<title>{words}</title>{body}</svg>'
    )


@dataclass(frozen=True)
class _Frame:
    """From figures to places on the page."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def around(cls, chart: Chart) -> "_Frame":
        xs = [x for line in chart.lines for x in (line.x[0], line.x[-1]) if line.x]
        ys = [y for line in chart.lines for y in line.finite]
        if chart.limit is not None and ys and chart.limit[1] <= 3 * max(ys):
            ys.append(chart.limit[1])
        low, high = (0.0 if chart.starts_at_zero else min(ys)), max(ys)
        room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        x_low, x_high = min(xs), max(xs)
        return cls(
            x_low,
            x_high if x_high > x_low else x_low + 1,
            low if chart.starts_at_zero else low - room,
            high + room,
        )

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)


def _grid(chart: Chart, frame: _Frame) -> Iterator[str]:
    foot, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in ticks(frame.y_low, frame.y_high):
        y = frame.y(value)
        yield f'<line class="g" x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 8, y + 4, chart.say_y(value), "end")
    for value in ticks(frame.x_low, frame.x_high, 7):
        x = frame.x(value)
        yield f'<line class="a" x1="{x:.1f}" x2="{x:.1f}" y1="{foot}" y2="{foot + 4}"/>'
        yield _text(x, foot + 17, chart.say_x(value), "middle")
    yield f'<line class="a" x1="{LEFT}" x2="{end}" y1="{foot}" y2="{foot}"/>'
    yield _text(end, HEIGHT - 8, chart.x_title, "end")
    yield _text(8, 16, chart.y_title, "start")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _curves(chart: Chart, frame: _Frame) -> Iterator[str]:
    for line, colour in zip(chart.lines, _colours(chart), strict=True):
        faint = " faint" if line.title in chart.faint else ""
        points = [(x, y) for x, y in thinned(line)]
        path = _path(points, frame)
        if path:
            yield f'<path class="l {colour}{faint}" d="{path}"/>'
        if chart.dotted:
            for x, y in points:
                if math.isfinite(y):
                    yield f'<circle class="{colour}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.6"/>'


def _path(points: Sequence[tuple[float, float]], frame: _Frame) -> str:
    found, is_down = [], False
    for x, y in points:
        if math.isfinite(y):
            found.append(f"{'L' if is_down else 'M'}{frame.x(x):.1f} {frame.y(y):.1f}")
        is_down = math.isfinite(y)
    return "".join(found)


def _limit(chart: Chart, frame: _Frame) -> Iterator[str]:
    if chart.limit is None or not frame.y_low <= chart.limit[1] <= frame.y_high:
        return
    y = frame.y(chart.limit[1])
    yield f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    highest = max(y for line in chart.lines for y in line.finite)
    below = (
        0 < highest - chart.limit[1] < 0.15 * (frame.y_high - frame.y_low)
    )  # or it would stand on the line
    yield _text(WIDTH - RIGHT, y + (15 if below else -5), chart.limit[0], "end")


def _legend(chart: Chart) -> Iterator[str]:
    """Names of the lines, from the right edge on; a single line is named by the axis."""
    if len(chart.lines) < 2:
        return
    x = float(WIDTH - RIGHT)
    for line, colour in reversed(list(zip(chart.lines, _colours(chart), strict=True))):
        faint = " faint" if line.title in chart.faint else ""
        yield _text(x, 16, line.title, "end")
        x -= 7.0 * len(line.title) + 8
        yield f'<line class="l {colour}{faint}" x1="{x - 16:.1f}" x2="{x:.1f}" y1="12" y2="12"/>'
        x -= 30


def _colours(chart: Chart) -> list[str]:
    """One a line; what is smoothed has the colour of what lies behind it."""
    found: list[str] = []
    place = 0
    for line in chart.lines:
        found.append(COLOURS[place % len(COLOURS)])
        place += line.title not in chart.faint
    return found
