"""What the ladder of methods came to: samples a second and peak memory as bars, and all figures as a table."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.bench.result import Result, Row
from gui import numbers
from gui.models.figures_model import Line
from gui.pages.benchmark_method_lines import headings_of, lines_of
from gui.pages.benchmark_words import (
    Standing,
    figure,
    mark_words,
    row_tip,
    rows_of,
    standing,
    without_words,
)
from gui.pages.new_run_fit_words import bar_parts
from gui.plots.bar_chart import BarChart, Better
from gui.plots.bar_painting import Bar, Piece
from gui.plots.legend import Reading
from gui.theme import SPACING, Theme
from gui.widgets.figures_table import FiguresTable, on_card
from gui.widgets.roles import Role, set_role
from gui.widgets.side_by_side import Arrangement, SideBySide

WIDE_LETTERS, CLOSE_LETTERS = 62, 38
"""From so many letters on a chart has its own names; from so many on it stands beside the other at all."""


class MethodsView(QWidget):
    """Two charts and a table, as high as they need to be; what is around scrolls.

    Signals:
        use_requested: The `core.bench.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        has_links: Whether rows offer to be used.
        parent: Qt's parent.
    """

    use_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, has_links: bool = True) -> None:
        super().__init__(parent)
        self._has_links = has_links
        self._result: Result | None = None
        self.speed = BarChart(self.tr("Samples a second"), Better.MORE, theme)
        self.memory = BarChart(self.tr("Peak memory"), Better.LESS, theme)
        self.table = FiguresTable(self.tr("Methods"), theme)
        self.table.pressed_link.connect(self._use)
        self.note = QLabel()
        self.note.setWordWrap(True)
        set_role(self.note, Role.HINT)
        self._lay_out()

    @property
    def result(self) -> Result | None:
        """What is shown."""
        return self._result

    def show_result(self, result: Result, underway: str | None = None) -> None:
        """Show what there is so far.

        Args:
            result: A benchmark of methods, finished or not.
            underway: The name of the rung that is being measured.
        """
        self._result = result
        rows = rows_of(result)
        self.speed.show_bars([_speed_bar(row, result, underway) for row in rows])
        self.memory.show_bars([_memory_bar(row, result, underway) for row in rows], meanings=_meanings(rows))
        self._show_table(lines_of(rows, result, underway), rows)
        words = mark_words(rows)
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _show_table(self, lines: Sequence[Line], rows: Sequence[Row]) -> None:
        tip = self.tr("Carry the options of this row into New run")
        links = {
            row.rung.name: (self.tr("Use this"), tip) for row in rows if row.is_measured and self._has_links
        }
        self.table.show_lines(headings_of(rows, has_links=self._has_links), lines, links)

    def _use(self, name: str) -> None:
        if self._result is not None:
            self.use_requested.emit(next(rung for rung in self._result.plan.rungs if rung.name == name))

    def _arrange(self, arrangement: Arrangement) -> None:
        """Where it is close, the names of one chart are those of the other: their rows stand in line."""
        self.memory.bars.show_names(arrangement is not Arrangement.CLOSE)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        charts = SideBySide((self.speed, self.memory), wide=WIDE_LETTERS, close=CLOSE_LETTERS)
        charts.arranged.connect(self._arrange)
        column.addWidget(charts)
        column.addWidget(on_card(self.table))
        column.addWidget(self.note)
        column.addStretch(1)


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
