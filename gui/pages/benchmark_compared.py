"""Two results of different days, held against each other: what became faster, and what else differs."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.bench.comparison import Change, Compared, Comparison
from core.bench.result import Result, Row
from gui import numbers
from gui.models.figures_model import Cell, Heading, Line, Tone
from gui.pages.benchmark_words import figure, row_tip, times
from gui.plots.bar_chart import BarChart, Better
from gui.plots.bar_painting import MARK, Bar
from gui.plots.bar_painting import Line as Across
from gui.plots.legend import Reading
from gui.theme import SPACING, Theme
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.figures_table import FiguresTable, on_card
from gui.widgets.roles import Role, set_role

_translate = QCoreApplication.translate


class ComparedResults(QWidget):
    """A chart of how many times as fast the later one is, a table of both, and notes.

    Signals:
        left: The person wants back to the list.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.back = QPushButton(self.tr("‹ Earlier results"))
        set_role(self.back, Role.LINK)
        self.back.clicked.connect(self.left)
        self.title, self.which = ElidedLabel(), ElidedLabel()
        set_role(self.title, Role.CARD_TITLE)
        set_role(self.which, Role.MUTED)
        self.notes = QLabel()
        self.notes.setWordWrap(True)
        set_role(self.notes, Role.MUTED)
        self.chart = BarChart(self.tr("Speed, the later against the earlier"), Better.MORE, theme)
        self.table = FiguresTable(self.tr("Both results"), theme)
        self._lay_out()

    def show_comparison(self, found: Comparison) -> None:
        """Show it."""
        self.title.setText(found.later.plan.title)
        self.which.setText(
            self.tr("Earlier: {} · later: {}").format(_named(found.earlier), _named(found.later))
        )
        self.notes.setText("\n".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        meanings = (
            Reading(self.tr("faster"), "activations"),
            Reading(self.tr("slower"), "optimizer"),
            Reading(self.tr("within the spread"), "others"),
            Reading(self.tr("the line is at 1 ×")),
        )
        line = Across(1.0, is_origin=True)
        self.chart.show_bars([_bar(one) for one in found.rows], line=line, meanings=meanings)
        self.table.show_lines(_headings(), [_line(one) for one in found.rows])

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.title)
        names.addWidget(self.which)
        head = QHBoxLayout()
        head.setSpacing(SPACING)
        head.addLayout(names, 1)
        head.addWidget(self.back)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        column.addLayout(head)
        column.addWidget(self.notes)
        column.addWidget(self.chart)
        column.addWidget(on_card(self.table))
        column.addStretch(1)


def _named(result: Result) -> str:
    return f"{numbers.moment(result.begun)}, {result.machine.title}"


def change_words(change: Change) -> str:
    """What became of a pace."""
    words = {
        Change.FASTER: _translate("Bench", "faster"),
        Change.SLOWER: _translate("Bench", "slower"),
        Change.SAME: _translate("Bench", "within the spread"),
        Change.UNKNOWN: "",
    }
    return words[change]


def _bar(one: Compared) -> Bar:
    if one.speed is None:
        return Bar(one.title, words=_why_without(one))
    colours = {Change.FASTER: "activations", Change.SLOWER: "optimizer"}
    marked = any(row is not None and row.is_disturbed for row in (one.earlier, one.later))
    tip = "\n".join(part for part in (times(one.speed), change_words(one.change)) if part)
    colour = colours.get(one.change, "others")
    return Bar(one.title, one.speed, times(one.speed), colour=colour, tip=tip, is_marked=marked)


def _why_without(one: Compared) -> str:
    if one.earlier is None:
        return _translate("Bench", "only in the later one")
    if one.later is None:
        return _translate("Bench", "only in the earlier one")
    lacking = [row for row in (one.later, one.earlier) if not row.is_measured]
    return next((row.reason for row in lacking if row.reason), _translate("Bench", "not measured"))


def _headings() -> tuple[Heading, ...]:
    faster = _translate("Bench", "How many times as fast the later one is")
    memory = _translate("Bench", "Which share of the earlier one's memory the later one takes")
    spread = _translate("Bench", "Whether the middle halves of the timed steps lie apart")
    return (
        Heading(_translate("Bench", "Row"), is_figure=False),
        Heading(_translate("Bench", "Samples/s, earlier")),
        Heading(_translate("Bench", "later")),
        Heading(_translate("Bench", "Speed"), faster),
        Heading(_translate("Bench", "Change"), spread, is_figure=False),
        Heading(_translate("Bench", "Memory, earlier"), leaves=1),
        Heading(_translate("Bench", "later"), leaves=1),
        Heading(_translate("Bench", "Memory"), memory),
    )


def _line(one: Compared) -> Line:
    named = one.later or one.earlier
    key = named.rung.name if named is not None else one.title
    if one.speed is None:
        quiet = Cell(one.title, Tone.QUIET)
        words = _why_without(one)
        return Line(key, (quiet,), Cell(words, Tone.QUIET), words)
    tones = {Change.FASTER: Tone.GOOD, Change.SLOWER: Tone.WARNING}
    tone = tones.get(one.change, Tone.QUIET)
    return Line(
        key,
        (
            Cell(one.title),
            *_paces((one.earlier, one.later)),
            Cell(times(one.speed)),
            Cell(change_words(one.change), tone),
            *_peaks((one.earlier, one.later)),
            Cell(times(one.memory)),
        ),
    )


def _paces(rows: Sequence[Row | None]) -> list[Cell]:
    cells = []
    for row in rows:
        pace = row.samples_per_second if row is not None else None
        mark = f" {MARK}" if row is not None and row.is_disturbed else ""
        tip = row_tip(row) if row is not None else ""
        cells.append(Cell(f"{figure(pace.median if pace else None)}{mark}", tip=tip))
    return cells


def _peaks(rows: Sequence[Row | None]) -> list[Cell]:
    return [Cell(numbers.memory((row.peak or None) if row is not None else None)) for row in rows]
