"""The pages of the window, one of them shown: each is made when it is first wanted, so that the window is up sooner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from core import settings
from core.live_runs import LiveRun
from core.reports import MachineReport
from core.run_folder import RunFolder
from core.settings import Settings
from gui.engine_question import Ask
from gui.gpu_pack_work import PackWork
from gui.left_work import end_left
from gui.pages.new_run import NewRunPage
from gui.sidebar import Place
from gui.theme import Theme

if TYPE_CHECKING:
    from gui.job_thread import Begin
    from gui.pages.benchmark import BenchmarkPage
    from gui.pages.compare import ComparePage
    from gui.pages.run import RunPage
    from gui.pages.runs import RunsPage
    from gui.pages.settings import SettingsPage
    from gui.pages.try_it import TryPage


class PageStack(QStackedWidget):
    """Makes pages, passes on what they ask for, and ends their work.

    Signals:
        start_requested: `RunOptions` to train with.
        check_requested: The name of a device to be checked.
        run_opened: A `RunFolder` to be shown.
        run_changed: The `RunFolder` whose state has changed.
        resume_requested: A `RunFolder` to go on with.
        extend_requested: A `RunFolder` that is over, and the `core.extending.Extension` to train it for.
        try_requested: A `RunFolder` whose model is to be tried.
        edit_requested: A tree of options to start anew from.
        compare_requested: A list of `RunFolder` to hold against each other.
        list_requested: The list of runs is to be shown.
        settings_changed: The `Settings` that were chosen.
        queue_shown: A `QueueCard` that is to show who waits.
        use_requested: A `core.bench.plan.Rung` whose options are to be carried into New run.
        measuring: How much of a benchmark is done, from 0 to 1; None: none is under way.

    Args:
        theme: Colours.
        ask: Starts an engine job.
        chosen: Gives the person's settings as they are now.
        new_run: The page New run, which is there from the start.
        parent: Qt's parent.
    """

    start_requested = Signal(object)
    check_requested = Signal(str)
    run_opened = Signal(object)
    run_changed = Signal(object)
    resume_requested = Signal(object)
    extend_requested = Signal(object, object)
    try_requested = Signal(object)
    edit_requested = Signal(object)
    compare_requested = Signal(object)
    list_requested = Signal()
    settings_changed = Signal(object)
    queue_shown = Signal(object)
    use_requested = Signal(object)
    measuring = Signal(object)

    def __init__(
        self,
        theme: Theme,
        ask: Ask,
        chosen: Callable[[], Settings],
        new_run: NewRunPage,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme, self._ask, self._chosen = theme, ask, chosen
        self._machine: MachineReport | None = None
        self.new_run = new_run
        self.run: RunPage | None = None
        self.runs: RunsPage | None = None
        self.compare: ComparePage | None = None
        self.settings: SettingsPage | None = None
        self.try_it: TryPage | None = None
        self.benchmark: BenchmarkPage | None = None
        self.gpu_pack = PackWork(parent=self)
        new_run.start_requested.connect(self.start_requested)
        new_run.check_requested.connect(self.check_requested)
        self.addWidget(new_run)

    def addWidget(self, page: QWidget) -> int:  # noqa: N802 - Qt's name
        """Add a page; it takes the theme's colours when it is shown."""
        self._theme.prepare(page)
        return super().addWidget(page)

    def go_to(self, place: Place) -> None:
        """Show a page of the sidebar."""
        pages: dict[Place, Callable[[], QWidget]] = {
            Place.NEW_RUN: lambda: self.new_run,
            Place.RUNS: self.runs_page,
            Place.BENCHMARK: self.benchmark_page,
            Place.TRY: self.try_page,
            Place.SETTINGS: self.settings_page,
        }
        self.setCurrentWidget(pages[place]())

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run's page, and let `begin` start it first."""
        page = self.run_page()
        page.show_run(run, begin)
        self.setCurrentWidget(page)

    def compare_runs(self, runs: list[RunFolder]) -> None:
        """Show runs beside each other."""
        page = self.compare_page()
        page.show_runs(runs)
        self.setCurrentWidget(page)

    def run_on_screen(self) -> RunFolder | None:
        """The run whose page is shown; None: another page."""
        view = None if self.run is None else self.run.view
        return view.run if view is not None and self.currentWidget() is self.run else None

    def set_machine(self, machine: MachineReport) -> None:
        """Tell the pages what this machine can do."""
        if self._machine is None:  # not as the window is made, which is to be up soon
            self.new_run.show_gpu_pack(self.gpu_pack)
        self._machine = machine
        self.gpu_pack.look()
        self.new_run.set_machine(machine)
        if self.settings is not None:
            self.settings.set_machine(machine)
        if self.benchmark is not None:
            self.benchmark.set_machine(machine)

    def take_live(self, live: tuple[LiveRun, ...]) -> None:
        """These runs train or wait by now: a model that is tried makes room for them."""
        if self.try_it is not None:
            self.try_it.take_live(live)

    @property
    def is_measuring(self) -> bool:
        """Whether a benchmark is under way."""
        return self.benchmark is not None and self.benchmark.measuring.is_running

    def end_work(self) -> None:
        """Give up questions and follow no run; no thread is left after this."""
        self.new_run.close_questions()
        self.gpu_pack.close()
        if self.settings is not None:
            self.settings.close_questions()
        if self.try_it is not None:
            self.try_it.close_questions()
        if self.benchmark is not None:
            self.benchmark.end_work()
        if self.run is not None:
            self.run.close_run()
            self.run.bin.end_work()
        if self.compare is not None:
            self.compare.end_work()
        if self.runs is not None:
            self.runs.end_work()
        end_left()
        # Qt takes the pages down one by one and tells of each, when the window knows nothing any more.
        self.blockSignals(True)

    # Each page, made when it is first wanted.

    def runs_page(self) -> RunsPage:
        """The list of all runs."""
        if self.runs is None:
            from gui.pages.runs import RunsPage

            self.runs = RunsPage(self._theme, self._runs_folder)
            self.runs.run_opened.connect(self.run_opened)
            self.runs.edit_requested.connect(self.edit_requested)
            self.runs.compare_requested.connect(self.compare_requested)
            self.runs.resume_requested.connect(self.resume_requested)
            self.runs.extend_requested.connect(self.extend_requested)
            self.runs.try_requested.connect(self.try_requested)
            self.runs.runs_gone.connect(self._forget_runs)
            self.queue_shown.emit(self.runs.queue)
            self.addWidget(self.runs)
        return self.runs

    def run_page(self) -> RunPage:
        """The page of a run."""
        if self.run is None:
            from gui.pages.run import RunPage  # brings NumPy and pyqtgraph

            self.run = RunPage(self._theme, self._runs_folder)
            self.run.edit_requested.connect(self.edit_requested)
            self.run.run_changed.connect(self.run_changed)
            self.run.run_gone.connect(self._leave_run)
            self.run.try_requested.connect(self.try_requested)
            self.addWidget(self.run)
        return self.run

    def compare_page(self) -> ComparePage:
        """The page that compares runs."""
        if self.compare is None:
            from gui.pages.compare import ComparePage  # brings NumPy and pyqtgraph

            self.compare = ComparePage(self._theme)
            self.compare.left.connect(self.list_requested)
            self.addWidget(self.compare)
        return self.compare

    def try_page(self) -> TryPage:
        """The page Try it."""
        if self.try_it is None:
            from gui.pages.try_it import TryPage

            self.try_it = TryPage(self._theme, self._runs_folder)
        if self.indexOf(self.try_it) < 0:
            self.addWidget(self.try_it)
        return self.try_it

    def benchmark_page(self) -> BenchmarkPage:
        """The page Benchmark."""
        if self.benchmark is None:
            from gui.pages.benchmark import BenchmarkPage

            self.benchmark = BenchmarkPage(self._theme, lambda: self.new_run.ready)
        if self.indexOf(self.benchmark) < 0:
            self.benchmark.use_requested.connect(self.use_requested)
            self.benchmark.progressed.connect(self.measuring)
            if self._machine is not None:
                self.benchmark.set_machine(self._machine)
            self.addWidget(self.benchmark)
        return self.benchmark

    def settings_page(self) -> SettingsPage:
        """The page Settings."""
        if self.settings is None:
            from gui.pages.settings import SettingsPage

            self.settings = SettingsPage(self._chosen(), ask=self._ask, gpu_pack=self.gpu_pack)
            self.settings.set_machine(self._machine)
            self.settings.settings_changed.connect(self.settings_changed)
            self.settings.check_requested.connect(self.check_requested)
            self.addWidget(self.settings)
        return self.settings

    def _runs_folder(self) -> Path:
        return settings.runs_folder(self._chosen())

    def _forget_runs(self, gone: list[Path]) -> None:
        if self.run is not None:
            self.run.forget(gone)

    def _leave_run(self) -> None:
        if self.currentWidget() is self.run:
            self.list_requested.emit()
