"""Several runs held against each other: their curves on the same axes, and a table of only what differs."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QTabWidget, QVBoxLayout, QWidget

from core.run_comparison import Comparison
from core.run_folder import RunFolder
from gui import numbers
from gui.models.compare_reader import CompareReader
from gui.models.run_history import RunHistory
from gui.models.run_news import RunNews
from gui.pages.compare_charts import CompareCharts
from gui.pages.compare_names import CompareNames
from gui.pages.compare_table import CompareTable
from gui.plots.compare_chart import Curve
from gui.run_titles import told_apart
from gui.theme import PAGE_MARGINS, SPACING, Theme
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role

MOST_TOLD = 6
"""So many options that differ are named in the head; the table has all."""


class ComparePage(QWidget):
    """Shows two to eight runs; reads them in the background, and goes on while any of them trains.

    Signals:
        left: The person wants back to the list.
    """

    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reader: CompareReader | None = None
        self._runs: tuple[RunFolder, ...] = ()
        self._histories: list[RunHistory] = []
        self._titles: tuple[str, ...] = ()
        self.has_caught_up = False
        self.title = QLabel()
        set_role(self.title, Role.PAGE_TITLE)
        self.difference = ElidedLabel()
        set_role(self.difference, Role.MUTED)
        self.back = QPushButton(self.tr("‹ Runs"))
        set_role(self.back, Role.LINK)
        self.back.setToolTip(self.tr("Back to the list of all runs"))
        self.names = CompareNames(theme)
        self.charts = CompareCharts(theme)
        self.table = CompareTable(theme)
        self.tabs = QTabWidget()
        set_role(self.tabs, Role.TABS)
        self._lay_out()
        self.back.clicked.connect(self.left)
        self.names.changed.connect(self._show_curves)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def show_runs(self, runs: Sequence[RunFolder]) -> None:
        """Read these runs and show them; returns at once."""
        self.end_work()
        self.has_caught_up = False
        self._runs = tuple(runs)
        self._histories = [RunHistory() for _ in runs]
        self.title.setText(self.tr("Compare {} runs").format(numbers.count(len(runs))))
        self.difference.setText("")
        self._name_runs([(run.path, run.name) for run in runs])
        self._reader = CompareReader(runs, self)
        self._reader.compared.connect(self._take_comparison)
        self._reader.news_arrived.connect(self._take_news)
        self._reader.caught_up.connect(self._take_all)
        self._reader.start()

    def showEvent(self, event: QShowEvent) -> None:
        """Read again where that was given up."""
        super().showEvent(event)
        if self._reader is None and self._runs:
            self.show_runs(self._runs)

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody looks: stop reading. A window that is only minimised is looked at again."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.end_work()

    def end_work(self) -> None:
        """Read no longer; no thread is left after this."""
        self.charts.end_work()
        if self._reader is not None:
            self._reader.stop()
            for signal in (self._reader.compared, self._reader.news_arrived, self._reader.caught_up):
                signal.disconnect()  # what it has sent and nobody has taken yet is about other runs
            self._reader.deleteLater()
            self._reader = None

    def _take_news(self, place: int, news: RunNews) -> None:
        for batch in news.batches:
            self._histories[place].take(batch)
        self.charts.refresh()

    def _take_all(self) -> None:
        self.has_caught_up = True
        self.charts.offer_metrics()

    def _take_comparison(self, found: Comparison) -> None:
        self._name_runs([(summary.run.path, summary.title) for summary in found.runs])
        self.table.show_comparison(found, self._titles)
        self.charts.judge_by([summary.metric for summary in found.runs])
        self.difference.setText(difference_words(found))

    def _name_runs(self, runs: Sequence[tuple[Path, str]]) -> None:
        if self._titles != (unique := tuple(told_apart(runs))):
            self._titles = unique
            self.names.show_names(unique)
            self._show_curves()

    def _show_curves(self) -> None:
        """Draw the runs that nobody has hidden."""
        curves = [
            Curve(title, colour, history)
            for title, colour, history, is_shown in zip(
                self._titles, self.names.colours, self._histories, self.names.shown, strict=True
            )
            if is_shown
        ]
        self.charts.show_curves(curves)

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setSpacing(SPACING)
        top.addWidget(self.title)
        top.addStretch(1)
        top.addWidget(self.back)
        self.tabs.addTab(self.charts, self.tr("Curves"))
        self.tabs.addTab(self.table, self.tr("What differs"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*PAGE_MARGINS)
        layout.setSpacing(SPACING)
        layout.addLayout(top)
        layout.addWidget(self.difference)
        layout.addWidget(self.names)
        layout.addWidget(self.tabs, 1)


def difference_words(found: Comparison) -> str:
    """In which options the runs differ, in a line."""
    translate = QCoreApplication.translate
    titles = [one.option.title for one in found.options]
    if not titles:
        if any(summary.problem for summary in found.runs):
            return translate("Compare", "Not all run files can be read, so what differs isn't known.")
        return translate("Compare", "They were asked the same: no option differs.")
    told = ", ".join(titles[:MOST_TOLD])
    if len(titles) > MOST_TOLD:
        more = translate("Compare", "{} and {} more").format(told, numbers.count(len(titles) - MOST_TOLD))
        told = more
    return translate("Compare", "They differ in: {}").format(told)
