"""One device against another: seconds an epoch of the same models, how many times as fast, whether losses agree."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget

from core.bench.published import ARTICLE_IS, ArticleRow, article_row
from core.bench.result import Result
from gui.pages.benchmark_device_lines import Group, groups_of, headings_of, lines_of, sides_of
from gui.pages.benchmark_view import BenchView
from gui.pages.benchmark_words import row_tip, times
from gui.plots.bar_chart import BarChart, Better
from gui.plots.bar_painting import Bar, Line
from gui.plots.legend import Reading
from gui.theme import Theme

_translate = QCoreApplication.translate


class DevicesView(BenchView):
    """A chart of speed-ups and a table.

    Args:
        theme: The colours.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, is_picture: bool = False) -> None:
        super().__init__(theme, self.tr("Devices"), ARTICLE_IS, parent, is_picture=is_picture)
        self.chart = BarChart(self.tr("Speed-up"), Better.MORE, theme)
        self._lay_out(self.chart)

    def _show(self, result: Result, underway: str | None) -> None:
        groups, sides = groups_of(result), sides_of(result)
        if len(sides) > 1:
            words = self.tr("Speed-up of {} over {}") if len(sides) == 2 else self.tr("Speed-up over {1}")
            self.chart.set_title(words.format(sides[1], sides[0]))
        bars = [bar for group in groups for bar in self._bars(group, sides)]
        self.chart.show_bars(bars, line=Line(1.0), meanings=self._meanings(sides[0]))
        self.table.show_lines(
            headings_of(sides), lines_of(groups, sides, result, underway, published=self.shows_published)
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
        line = Reading(self.tr("The line is at 1 ×: as fast as {}.").format(first))
        if not self.shows_published:
            return [line]
        others = Reading(self.tr("published by others, MPS over CPU"), "others")
        return [Reading(self.tr("measured here"), "run"), others, line]


def _published_bar(group: Group, theirs: ArticleRow) -> Bar:
    speed = times(theirs.speed)
    words = _translate("Bench", "{}: published by others, MPS over CPU").format(group.title)
    tip = f"{speed}\n{ARTICLE_IS}"
    return Bar(words, theirs.speed, speed, "others", tip=tip, is_faint=True, has_name=False)


def _bar(group: Group, side: str, result: Result, underway: str | None, sides: int) -> Bar:
    title = group.title if sides == 2 else f"{group.title}, {side}"
    row, speed = group.of(side), group.speed_up(side)
    if row is None or speed is None:
        return Bar(title, words=group.without(side, result, underway))
    marked = group.first.is_disturbed or row.is_disturbed
    return Bar(title, speed, times(speed), tip=row_tip(row), is_marked=marked)
