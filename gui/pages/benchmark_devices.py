"""One device against another: seconds an epoch of the same models, how many times as fast, whether losses agree."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.bench.result import Result
from gui.pages.benchmark_device_lines import Group, groups_of, headings_of, lines_of, sides_of
from gui.pages.benchmark_words import mark_words, row_tip, rows_of, times
from gui.plots.bar_chart import BarChart, Better
from gui.plots.bar_painting import Bar, Line
from gui.plots.legend import Reading
from gui.theme import SPACING, Theme
from gui.widgets.figures_table import FiguresTable, on_card
from gui.widgets.roles import Role, set_role


class DevicesView(QWidget):
    """A chart of speed-ups and a table, as high as they need to be; what is around scrolls.

    Signals:
        published_toggled: Whether figures published by others are shown beside.

    Args:
        theme: The colours.
        has_toggle: Whether the person can choose that.
        parent: Qt's parent.
    """

    published_toggled = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, has_toggle: bool = True) -> None:
        super().__init__(parent)
        self._has_toggle = has_toggle
        self._published = False
        self._result: Result | None = None
        self._underway: str | None = None
        self.chart = BarChart(self.tr("Speed-up"), Better.MORE, theme)
        self.table = FiguresTable(self.tr("Devices"), theme)
        self.note = QLabel()
        self.note.setWordWrap(True)
        set_role(self.note, Role.HINT)
        self._lay_out()

    @property
    def result(self) -> Result | None:
        """What is shown."""
        return self._result

    @property
    def shows_published(self) -> bool:
        """Whether figures published by others stand beside."""
        return self._published

    def show_published(self, are_shown: bool) -> None:
        """Show figures published by others beside, or no longer."""
        self._published = are_shown
        if self._result is not None:
            self.show_result(self._result, self._underway)

    def show_result(self, result: Result, underway: str | None = None) -> None:
        """Show what there is so far.

        Args:
            result: A benchmark of devices, finished or not.
            underway: The name of the rung that is being measured.
        """
        self._result, self._underway = result, underway
        groups, sides = groups_of(result), sides_of(result)
        if len(sides) > 1:
            words = self.tr("Speed-up of {} over {}") if len(sides) == 2 else self.tr("Speed-up over {1}")
            self.chart.set_title(words.format(sides[1], sides[0]))
        bars = [bar for group in groups for bar in _bars(group, result, underway, is_one=len(sides) == 2)]
        meaning = Reading(self.tr("The line is at 1 ×: as fast as {}.").format(sides[0]))
        self.chart.show_bars(bars, line=Line(1.0), meanings=(meaning,))
        self.table.show_lines(headings_of(sides), lines_of(groups, sides, result, underway))
        words = mark_words(rows_of(result))
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        column.addWidget(self.chart)
        column.addWidget(on_card(self.table))
        column.addWidget(self.note)
        column.addStretch(1)


def _bars(group: Group, result: Result, underway: str | None, *, is_one: bool) -> list[Bar]:
    """A bar for each side that is held against the first."""
    found = []
    for side, row in group.others():
        title = group.title if is_one else f"{group.title}, {side}"
        speed = group.speed_up(side)
        if speed is None:
            found.append(Bar(title, words=group.without(side, result, underway)))
            continue
        marked = any(one.is_disturbed for one in (group.first, row) if one)
        found.append(Bar(title, speed, times(speed), tip=row_tip(row), is_marked=marked))
    return found
