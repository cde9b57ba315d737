"""Earlier results: the list of what was kept, one of them opened, or two held against each other."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from core.bench import kept
from core.bench.comparison import compare
from core.bench.kept import Kept
from core.bench.result import Result
from gui.bench_bin import BenchBin, Remove
from gui.file_work import FileWork
from gui.pages.benchmark_compared import ComparedResults
from gui.pages.benchmark_kept import KeptList
from gui.pages.benchmark_opened import OpenedResult
from gui.theme import SPACING, Theme
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.message_strip import MessageStrip


class EarlierResults(QWidget):
    """Reads what was kept, in a thread, each time it comes into view.

    Signals:
        use_requested: The `core.bench.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
        read: Finds all that was kept.
        remove: Moves a file to the bin.
    """

    use_requested = Signal(object)

    def __init__(
        self,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        read: Callable[[], Sequence[Kept]] = kept.kept,
        remove: Remove = kept.remove,
    ) -> None:
        super().__init__(parent)
        self._read = read
        self._reading = FileWork(self)
        self.bin = BenchBin(self, remove)
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.list = KeptList(theme)
        self.opened = OpenedResult(theme)
        self.compared = ComparedResults(theme)
        self._pages = QStackedWidget()
        self._scrolls: dict[QWidget, PageScroll] = {}
        self._lay_out()
        self._connect()

    @property
    def shown(self) -> QWidget:
        """Which of the three is in view."""
        return next(part for part, scroll in self._scrolls.items() if scroll is self._pages.currentWidget())

    def refresh(self) -> None:
        """Read the list anew, in the background."""
        self._reading.put(self._read, self.list.show_kept)

    def show_list(self) -> None:
        """Show all that was kept."""
        self._show(self.list)
        self.refresh()
        self.list.table.setFocus()

    def show_result(self, result: Result) -> None:
        """Show one."""
        self.opened.show_result(result)
        self._show(self.opened)
        self.opened.back.setFocus()

    def show_comparison(self, earlier: Result, later: Result) -> None:
        """Hold two of the same kind against each other."""
        self.compared.show_comparison(compare(earlier, later))
        self._show(self.compared)
        self.compared.back.setFocus()

    def end_work(self) -> None:
        """Leave no thread behind: what is being written or moved is so to its end."""
        self.bin.end_work()
        self.opened.saving.end_work()
        self._reading.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        """Something may have been measured meanwhile."""
        super().showEvent(event)
        self.refresh()

    def _show(self, part: QWidget) -> None:
        self.strip.hide()
        scroll = self._scrolls[part]
        self._pages.setCurrentWidget(scroll)
        scroll.verticalScrollBar().setValue(0)

    def _open(self, found: Kept) -> None:
        if found.result is not None:
            self.show_result(found.result)

    def _connect(self) -> None:
        self.list.opened.connect(self._open)
        self.list.compared.connect(self.show_comparison)
        self.list.bin_wanted.connect(self.bin.begin)
        self.bin.moved.connect(self.refresh)
        self.bin.failed.connect(self.strip.show_error)
        self._reading.failed.connect(self.strip.show_error)
        self.opened.left.connect(self.show_list)
        self.opened.use_requested.connect(self.use_requested)
        self.compared.left.connect(self.show_list)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def _lay_out(self) -> None:
        for part in (self.list, self.opened, self.compared):
            content = QWidget()
            column = QVBoxLayout(content)
            column.setContentsMargins(0, SPACING, 0, 2 * SPACING)
            column.addWidget(part)
            self._scrolls[part] = PageScroll(content)
            self._pages.addWidget(self._scrolls[part])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING)
        column.addWidget(self.strip)
        column.addWidget(self._pages, 1)
