"""What the ladder of methods came to: samples a second and peak memory as bars, and all figures as a table."""

from collections.abc import Sequence
from gettext import gettext as _

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.base import format as numbers
from core.benchmark.published import GUIDE_IS, GuideRow, guide_row
from core.benchmark.published import MARK as MARK_OF_OTHERS
from core.benchmark.result import Result, Row, memory_against, speed_against
from gui.base.theme import Theme
from gui.benchmark.results import (
    BenchView,
    Cell,
    Heading,
    Line,
    Standing,
    Tone,
    figure,
    range_words,
    row_tip,
    rows_of,
    standing,
    times,
    without_words,
)
from gui.charts.bars import MARK, Bar, BarChart, Better, Piece
from gui.charts.overlays import Reading
from gui.new_run.memory_card import bar_parts
from gui.widgets.layout import Arrangement, SideBySide

# --- The table of methods: its headings, and a line a rung


COMPILE = "device.compile"
"""The option that makes a rung compile."""


def method_headings(rows: Sequence[Row], *, has_links: bool = True) -> tuple[Heading, ...]:
    """The columns; those of which nothing is known are left out. The last one is that of links, where there are any."""
    found = [
        Heading(_("Method"), is_figure=False),
        Heading(
            _("Time"),
            _("What all the data, once through, takes at the median pace"),
        ),
        Heading(_("Samples/s"), _("The median of all timed steps")),
        Heading(
            _("middle half"),
            _("Between these lies the middle half of all timed steps"),
            leaves=3,
        ),
        Heading(_("against plain"), _("How many times as fast")),
        Heading(
            _("Peak memory"),
            _("The most that the process held at any moment"),
        ),
        Heading(_("against plain"), _("Which share of that memory")),
    ]
    compiles, has_power = _columns_beside(rows)
    if compiles:
        found.append(
            Heading(
                _("Compiling"),
                _("Once, before the first step; it is in no other figure"),
                leaves=1,
            )
        )
    if has_power:
        found.append(
            Heading(
                _("Samples/J"),
                _("Samples a joule, by the power of the GPU alone"),
                leaves=2,
            )
        )
    return (*found, Heading("")) if has_links else tuple(found)


def method_lines(
    rows: Sequence[Row], result: Result, underway: str | None, *, published: bool = False
) -> tuple[Line, ...]:
    """A line a row, in their order; below it, where they are `published`, the guide's figures of the same method."""
    plain = rows_of(result)[0] if result.plan.rungs else None
    more = _columns_beside(rows)
    found = []
    for row in rows:
        found.append(_method_line(row, result, underway, plain, more))
        theirs = guide_row(row.rung) if published else None
        if theirs is not None:
            found.append(_published_method_line(row, theirs))
    return tuple(found)


def _published_method_line(row: Row, theirs: GuideRow) -> Line:
    texts = (
        f"    {_(MARK_OF_OTHERS)}",
        numbers.step_time(theirs.seconds),
        figure(theirs.samples_per_second),
        "",
        times(theirs.speed),
        numbers.memory(theirs.megabytes << 20),
        times(theirs.memory),
    )
    tip = f"{row.rung.title}\n{GUIDE_IS}"
    return Line(f"{row.rung.name}-published", tuple(Cell(text, Tone.QUIET) for text in texts), tip=tip)


def _columns_beside(rows: Sequence[Row]) -> tuple[bool, bool]:
    """Whether any rung compiles or is going to, and whether power could be read."""
    compiles = any(row.compile_seconds or row.rung.changes.get(COMPILE) for row in rows)
    return compiles, any(row.samples_per_joule is not None for row in rows)


def _method_line(
    row: Row, result: Result, underway: str | None, plain: Row | None, more: tuple[bool, bool]
) -> Line:
    title, name = row.rung.title, row.rung.name
    place = standing(row, result, underway)
    if place is not Standing.MEASURED:
        is_on = place is Standing.UNDERWAY
        words = Cell(without_words(row, result, underway), Tone.ACTIVE if is_on else Tone.QUIET)
        tip = "\n".join(part for part in (title, row.rung.note, words.text) if part)
        return Line(name, (Cell(title, Tone.PLAIN if is_on else Tone.QUIET),), words, tip)
    assert plain is not None
    epoch, speed = row.epoch_seconds, row.samples_per_second
    mark = f" {MARK}" if row.is_disturbed else ""
    cells = [
        Cell(f"{title}{mark}", Tone.ACTIVE if name == underway else Tone.PLAIN),
        Cell(numbers.step_time(epoch.median if epoch else None)),
        Cell(figure(speed.median if speed else None)),
        Cell(range_words(speed), Tone.SMALL),
        Cell(times(speed_against(row, plain))),
        Cell(numbers.memory(row.peak or None)),
        Cell(times(memory_against(row, plain))),
    ]
    if more[0]:
        cells.append(Cell(numbers.step_time(row.compile_seconds) if row.compile_seconds else "", Tone.QUIET))
    if more[1]:
        cells.append(Cell(figure(row.samples_per_joule), Tone.QUIET))
    return Line(name, (*cells, Cell()), tip=f"{title}\n{row_tip(row)}")


# --- What the ladder of methods came to: samples a second and peak memory as bars


WIDE_LETTERS, CLOSE_LETTERS = 62, 38
"""From so many letters on a chart has its own names; from so many on it stands beside the other at all."""


class MethodsView(BenchView):
    """Two charts and a table.

    Signals:
        use_requested: The `core.benchmark.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    use_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, is_picture: bool = False) -> None:
        super().__init__(theme, _("Methods"), GUIDE_IS, parent, is_picture=is_picture)
        self.speed = BarChart(_("Samples a second"), Better.MORE, theme)
        self.memory = BarChart(_("Peak memory"), Better.LESS, theme)
        self.table.pressed_link.connect(self._use)
        charts = SideBySide((self.speed, self.memory), wide=WIDE_LETTERS, close=CLOSE_LETTERS)
        charts.arranged.connect(self._arrange)
        self._lay_out(charts)

    def _show(self, result: Result, underway: str | None) -> None:
        rows = rows_of(result)
        self.speed.show_bars([_speed_bar(row, result, underway) for row in rows])
        self.memory.show_bars([_memory_bar(row, result, underway) for row in rows], meanings=_meanings(rows))
        lines = method_lines(rows, result, underway, published=self.shows_published)
        self._show_table(lines, rows)

    def _has_published(self, result: Result) -> bool:
        return any(guide_row(rung) is not None for rung in result.plan.rungs)

    def _show_table(self, lines: Sequence[Line], rows: Sequence[Row]) -> None:
        tip = _("Carry the options of this row into New run")
        links = {
            row.rung.name: (_("Use this"), tip) for row in rows if row.is_measured and not self._is_picture
        }
        self.table.show_lines(method_headings(rows, has_links=not self._is_picture), lines, links)

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
