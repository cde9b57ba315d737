"""One device against another: seconds an epoch of the same models, how many times as fast, whether losses agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtWidgets import QWidget

from core.base import format as numbers
from core.benchmark.plan import SIZES
from core.benchmark.published import ARTICLE_IS, ArticleRow, article_row
from core.benchmark.published import MARK as MARK_OF_OTHERS
from core.benchmark.result import Result, Row, speed_against
from core.benchmark.table import Verdict, agreement
from core.options.choices import model_title
from core.options.sources import short_name
from gui.base.theme import Theme
from gui.benchmark.results import (
    BenchView,
    Cell,
    Heading,
    Line,
    Standing,
    Tone,
    row_tip,
    rows_of,
    standing,
    times,
    without_words,
)
from gui.charts.bars import MARK, Bar, BarChart, Better
from gui.charts.bars import Line as bars_Line
from gui.charts.overlays import Reading

# --- The table of devices: a line a model and batch, a column a side


@dataclass(frozen=True)
class Group:
    """A model and its batch, and the row of each side, the first being what the others are held against."""

    name: str
    rows: tuple[Row, ...]

    @property
    def first(self) -> Row:
        """What the others are held against."""
        return self.rows[0]

    @property
    def model(self) -> str:
        """What the model is called."""
        model = self.first.rung.asked.get("model")
        source = model.get("source") if isinstance(model, dict) else None
        if not isinstance(source, str):
            return self.name
        named = {size.source: size.title for size in SIZES.values()}
        return named.get(source) or model_title(short_name(source))

    @property
    def batch(self) -> int | None:
        """Rows in a batch."""
        return self.first.rung.batch

    @property
    def title(self) -> str:
        """Model and batch."""
        if self.batch is None:
            return self.model
        return _("{}, batch {}").format(self.model, self.batch)

    def of(self, side: str) -> Row | None:
        """The row of a side."""
        return next((row for row in self.rows if row.rung.side == side), None)

    def others(self) -> Iterator[tuple[str, Row]]:
        """The sides held against the first, each with its row."""
        for row in self.rows[1:]:
            yield row.rung.side, row

    def speed_up(self, side: str) -> float | None:
        """How many times as fast as the first a side is; None where one of them has no figures."""
        row = self.of(side)
        return speed_against(row, self.first) if row is not None else None

    def without(self, side: str, result: Result, underway: str | None) -> str:
        """Why there is no speed-up of a side; empty where one only waits."""
        found = [row for row in (self.first, self.of(side)) if row is not None and not row.is_measured]
        told = [row for row in found if standing(row, result, underway) is not Standing.WAITING]
        return f"{told[0].rung.side}: {without_words(told[0], result, underway)}" if told else ""


def groups_of(result: Result) -> tuple[Group, ...]:
    """All groups of the plan, in its order, also those whose turn has not come."""
    found: dict[str, list[Row]] = {}
    for row in rows_of(result):
        found.setdefault(row.rung.group, []).append(row)
    return tuple(Group(name, tuple(rows)) for name, rows in found.items())


def sides_of(result: Result) -> tuple[str, ...]:
    """What the rows of a group differ by, the first first."""
    return tuple(dict.fromkeys(rung.side for rung in result.plan.rungs))


def device_headings(sides: Sequence[str]) -> tuple[Heading, ...]:
    """The columns."""
    seconds = _("{}, an epoch")
    tip = _("What all the data, once through, takes on {} at the median pace")
    speed = _("Speed-up")
    return (
        Heading(_("Model"), is_figure=False),
        Heading(_("Batch")),
        *(Heading(seconds.format(side), tip.format(side)) for side in sides),
        *(
            Heading(
                speed if len(sides) == 2 else _("Speed-up, {}").format(side),
                _("How many times as fast as {}").format(sides[0]),
            )
            for side in sides[1:]
        ),
        Heading(
            _("Losses"),
            _("Whether both compute the same, by the loss of the first batch"),
            is_figure=False,
        ),
    )


def device_lines(
    groups: Sequence[Group],
    sides: Sequence[str],
    result: Result,
    underway: str | None,
    *,
    published: bool = False,
) -> tuple[Line, ...]:
    """A line a group, in their order; below it, where they are `published`, the article's figures of the same model."""
    found = []
    for group in groups:
        found.append(_device_line(group, sides, result, underway))
        theirs = article_row(group.first.rung) if published else None
        if theirs is not None:
            found.append(_published_device_line(group, theirs, len(sides)))
    return tuple(found)


def _published_device_line(group: Group, theirs: ArticleRow, sides: int) -> Line:
    """Its devices stand in the cells: they may not be those of this machine."""
    texts = (
        f"    {_(MARK_OF_OTHERS)}",
        "",
        f"CPU {numbers.step_time(theirs.cpu_seconds)}",
        f"MPS {numbers.step_time(theirs.mps_seconds)}",
        *[""] * (sides - 2),
        times(theirs.speed),
    )
    tip = f"{group.title}\n{ARTICLE_IS}"
    return Line(f"{group.name}-published", tuple(Cell(text, Tone.QUIET) for text in texts), tip=tip)


def _device_line(group: Group, sides: Sequence[str], result: Result, underway: str | None) -> Line:
    title, batch = Cell(group.model), Cell(numbers.count(group.batch))
    places = [standing(row, result, underway) for row in group.rows]
    if all(place is Standing.WITHOUT for place in places):
        words = without_words(group.first, result, underway)
        quiet = Cell(group.title, Tone.QUIET)
        return Line(group.name, (quiet,), Cell(words, Tone.QUIET), words)
    seconds = [_seconds(group.of(side), result, underway) for side in sides]
    speeds = [Cell(times(speed) if (speed := group.speed_up(side)) else "") for side in sides[1:]]
    return Line(group.name, (title, batch, *seconds, *speeds, _losses(group)))


def _losses(group: Group) -> Cell:
    """Whether each side computes what the first does; the worst of them where there are several."""
    tones = {Verdict.DIFFER: Tone.WARNING, Verdict.AGREE: Tone.GOOD, Verdict.UNKNOWN: Tone.QUIET}
    found = [agreement(group.first, row) for _, row in group.others()]
    for verdict, tone in tones.items():
        for one in found:
            if one.verdict is verdict:
                is_known = verdict is not Verdict.UNKNOWN
                return Cell(one.words if is_known else "", tone, one.explanation if is_known else "")
    return Cell()


def _seconds(row: Row | None, result: Result, underway: str | None) -> Cell:
    if row is None:
        return Cell(numbers.MISSING, Tone.QUIET)
    place = standing(row, result, underway)
    if place is not Standing.MEASURED:
        words = {
            Standing.UNDERWAY: Cell(_("measuring…"), Tone.ACTIVE),
            Standing.WAITING: Cell("", Tone.QUIET),
        }
        failed = Cell(_("no figure"), Tone.QUIET, without_words(row, result, underway))
        return words.get(place, failed)
    epoch = row.epoch_seconds
    mark = f" {MARK}" if row.is_disturbed else ""
    tone = Tone.ACTIVE if row.rung.name == underway else Tone.PLAIN
    return Cell(f"{numbers.step_time(epoch.median if epoch else None)}{mark}", tone, row_tip(row))


# --- One device against another: seconds an epoch of the same models, how many times as fast


class DevicesView(BenchView):
    """A chart of speed-ups and a table.

    Args:
        theme: The colours.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, is_picture: bool = False) -> None:
        super().__init__(theme, _("Devices"), ARTICLE_IS, parent, is_picture=is_picture)
        self.chart = BarChart(_("Speed-up"), Better.MORE, theme)
        self._lay_out(self.chart)

    def _show(self, result: Result, underway: str | None) -> None:
        groups, sides = groups_of(result), sides_of(result)
        if len(sides) > 1:
            words = _("Speed-up of {} over {}") if len(sides) == 2 else _("Speed-up over {1}")
            self.chart.set_title(words.format(sides[1], sides[0]))
        bars = [bar for group in groups for bar in self._bars(group, sides)]
        self.chart.show_bars(bars, line=bars_Line(1.0), meanings=self._meanings(sides[0]))
        self.table.show_lines(
            device_headings(sides),
            device_lines(groups, sides, result, underway, published=self.shows_published),
        )

    def _has_published(self, result: Result) -> bool:
        return any(article_row(rung) is not None for rung in result.plan.rungs)

    def _bars(self, group: Group, sides: Sequence[str]) -> list[Bar]:
        """A bar for each side that is held against the first, and one of what was published."""
        assert self._result is not None
        found = [_bar(group, side, self._result, self._underway, len(sides)) for side, _ in group.others()]
        theirs = article_row(group.first.rung) if self.shows_published else None
        if theirs is not None:
            found.append(_published_bar(group, theirs))
        return found

    def _meanings(self, first: str) -> list[Reading]:
        line = Reading(_("The line is at 1 ×: as fast as {}.").format(first))
        if not self.shows_published:
            return [line]
        others = Reading(_("published by others, MPS over CPU"), "others")
        return [Reading(_("measured here"), "run"), others, line]


def _published_bar(group: Group, theirs: ArticleRow) -> Bar:
    speed = times(theirs.speed)
    words = _("{}: published by others, MPS over CPU").format(group.title)
    tip = f"{speed}\n{ARTICLE_IS}"
    return Bar(words, theirs.speed, speed, "others", tip=tip, is_faint=True, has_name=False)


def _bar(group: Group, side: str, result: Result, underway: str | None, sides: int) -> Bar:
    title = group.title if sides == 2 else f"{group.title}, {side}"
    row, speed = group.of(side), group.speed_up(side)
    if row is None or speed is None:
        return Bar(title, words=group.without(side, result, underway))
    marked = group.first.is_disturbed or row.is_disturbed
    return Bar(title, speed, times(speed), tip=row_tip(row), is_marked=marked)
