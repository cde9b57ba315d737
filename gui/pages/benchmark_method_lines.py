"""The table of methods: its headings, and a line a rung."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from core.bench.published import GUIDE_IS, GuideRow, guide_row
from core.bench.published import MARK as MARK_OF_OTHERS
from core.bench.result import Result, Row, memory_against, speed_against
from gui import numbers
from gui.models.figures_model import Cell, Heading, Line, Tone
from gui.pages.benchmark_words import (
    Standing,
    figure,
    range_words,
    row_tip,
    rows_of,
    standing,
    times,
    without_words,
)
from gui.plots.bar_painting import MARK

COMPILE = "device.compile"
"""The option that makes a rung compile."""

_translate = QCoreApplication.translate


def headings_of(rows: Sequence[Row], *, has_links: bool = True) -> tuple[Heading, ...]:
    """The columns; those of which nothing is known are left out. The last one is that of links, where there are any."""
    found = [
        Heading(_translate("Bench", "Method"), is_figure=False),
        Heading(
            _translate("Bench", "Time"),
            _translate("Bench", "What all the data, once through, takes at the median pace"),
        ),
        Heading(_translate("Bench", "Samples/s"), _translate("Bench", "The median of all timed steps")),
        Heading(
            _translate("Bench", "middle half"),
            _translate("Bench", "Between these lies the middle half of all timed steps"),
            leaves=3,
        ),
        Heading(_translate("Bench", "against plain"), _translate("Bench", "How many times as fast")),
        Heading(
            _translate("Bench", "Peak memory"),
            _translate("Bench", "The most that the process held at any moment"),
        ),
        Heading(_translate("Bench", "against plain"), _translate("Bench", "Which share of that memory")),
    ]
    compiles, has_power = _columns_beside(rows)
    if compiles:
        found.append(
            Heading(
                _translate("Bench", "Compiling"),
                _translate("Bench", "Once, before the first step; it is in no other figure"),
                leaves=1,
            )
        )
    if has_power:
        found.append(
            Heading(
                _translate("Bench", "Samples/J"),
                _translate("Bench", "Samples a joule, by the power of the GPU alone"),
                leaves=2,
            )
        )
    return (*found, Heading("")) if has_links else tuple(found)


def lines_of(
    rows: Sequence[Row], result: Result, underway: str | None, *, published: bool = False
) -> tuple[Line, ...]:
    """A line a row, in their order; below it, where they are `published`, the guide's figures of the same method."""
    plain = rows_of(result)[0] if result.plan.rungs else None
    more = _columns_beside(rows)
    found = []
    for row in rows:
        found.append(_line(row, result, underway, plain, more))
        theirs = guide_row(row.rung) if published else None
        if theirs is not None:
            found.append(_published_line(row, theirs))
    return tuple(found)


def _published_line(row: Row, theirs: GuideRow) -> Line:
    texts = (
        f"    {_translate('Bench', MARK_OF_OTHERS)}",
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


def _line(row: Row, result: Result, underway: str | None, plain: Row | None, more: tuple[bool, bool]) -> Line:
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
