"""What the ladder of methods came to: samples a second and peak memory as bars, and all figures as a table."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.bench.published import GUIDE_IS, guide_row
from core.bench.result import Result, Row
from gui import numbers
from gui.models.figures_model import Line
from gui.pages.benchmark_method_lines import headings_of, lines_of
from gui.pages.benchmark_view import BenchView
from gui.pages.benchmark_words import (
    Standing,
    figure,
    row_tip,
    rows_of,
    standing,
    without_words,
)
from gui.pages.new_run_fit_words import bar_parts
from gui.plots.bar_chart import BarChart, Better
from gui.plots.bar_painting import Bar, Piece
from gui.plots.legend import Reading
from gui.theme import Theme
from gui.widgets.side_by_side import Arrangement, SideBySide

WIDE_LETTERS, CLOSE_LETTERS = 62, 38
"""From so many letters on a chart has its own names; from so many on it stands beside the other at all."""


class MethodsView(BenchView):
    """Two charts and a table.

    Signals:
        use_requested: The `core.bench.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    use_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, is_picture: bool = False) -> None:
        super().__init__(theme, self.tr("Methods"), GUIDE_IS, parent, is_picture=is_picture)
        self.speed = BarChart(self.tr("Samples a second"), Better.MORE, theme)
        self.memory = BarChart(self.tr("Peak memory"), Better.LESS, theme)
        self.table.pressed_link.connect(self._use)
        charts = SideBySide((self.speed, self.memory), wide=WIDE_LETTERS, close=CLOSE_LETTERS)
        charts.arranged.connect(self._arrange)
        self._lay_out(charts)

    def _show(self, result: Result, underway: str | None) -> None:
        rows = rows_of(result)
        self.speed.show_bars([_speed_bar(row, result, underway) for row in rows])
        self.memory.show_bars([_memory_bar(row, result, underway) for row in rows], meanings=_meanings(rows))
        lines = lines_of(rows, result, underway, published=self.shows_published)
        self._show_table(lines, rows)

    def _has_published(self, result: Result) -> bool:
        return any(guide_row(rung) is not None for rung in result.plan.rungs)

    def _show_table(self, lines: Sequence[Line], rows: Sequence[Row]) -> None:
        tip = self.tr("Carry the options of this row into New run")
        links = {
            row.rung.name: (self.tr("Use this"), tip)
            for row in rows
            if row.is_measured and not self._is_picture
        }
        self.table.show_lines(headings_of(rows, has_links=not self._is_picture), lines, links)

    def _use(self, name: str) -> None:
        if self._result is not None:
            self.use_requested.emit(next(rung for rung in self._result.plan.rungs if rung.name == name))

    def _arrange(self, arrangement: Arrangement) -> None:
        """Where it is close, the names of one chart are those of the other: their rows stand in line."""
        self.memory.bars.show_names(arrangement is not Arrangement.CLOSE)


def _speed_bar(row: Row, result: Result, underway: str | None) -> Bar:
    speed = row.samples_per_second
    if speed is None:
        return _without(row, result, underway)
    return Bar(
        row.rung.title,
        speed.median,
        figure(speed.median),
        colour=_colour(row, result, "run"),
        lowest=speed.lowest,
        highest=speed.highest,
        tip=row_tip(row),
        is_marked=row.is_disturbed,
    )


def _memory_bar(row: Row, result: Result, underway: str | None) -> Bar:
    fullest = row.fullest
    if fullest is None or not fullest.peak:
        return _without(row, result, underway)
    parts = [part for part in bar_parts(fullest.parts) if part.bytes > 0]
    return Bar(
        row.rung.title,
        float(fullest.peak),
        numbers.memory(fullest.peak),
        colour=_colour(row, result, "activations"),
        pieces=tuple(Piece(float(part.bytes), part.colour) for part in parts),
        tip=row_tip(row),
    )


def _without(row: Row, result: Result, underway: str | None) -> Bar:
    if standing(row, result, underway) is Standing.WAITING:  # the table says it
        return Bar(row.rung.title)
    return Bar(row.rung.title, words=without_words(row, result, underway) or numbers.MISSING)


def _colour(row: Row, result: Result, colour: str) -> str:
    """The plain row is grey, for the others are held against it."""
    return "others" if result.plan.rungs and row.rung.name == result.plan.rungs[0].name else colour


def _meanings(rows: Sequence[Row]) -> list[Reading]:
    """What the colours of the parts of the memory mean, of those that any row has."""
    found: dict[str, str] = {}
    for row in rows:
        for part in bar_parts(row.fullest.parts) if row.fullest else ():
            if part.bytes > 0:
                found.setdefault(part.colour, part.name)
    return [Reading(name, colour) for colour, name in found.items()]
