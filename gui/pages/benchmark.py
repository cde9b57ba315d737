"""The page Benchmark: which methods pay here, what the accelerator is worth, and what was measured before."""

from functools import partial

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from core.bench.kept import Kept
from core.bench.plan import Kind
from core.bench.result import Result
from core.errors import RunFolderError, UserError
from core.events import TurnAwaited
from core.reports import MachineReport
from gui.bench_tools import BenchTools
from gui.bench_work import Benchmarking, Ending
from gui.pages.benchmark_devices import DevicesView
from gui.pages.benchmark_devices_wish import DevicesWish
from gui.pages.benchmark_methods import MethodsView
from gui.pages.benchmark_methods_wish import FormOptions, MethodsWish
from gui.pages.benchmark_results import EarlierResults
from gui.pages.benchmark_said import head_words, result_words
from gui.pages.benchmark_tab import BenchmarkTab
from gui.pages.benchmark_turn import AskBenchTurn, BenchTurn, Pausing, ask_bench_turn
from gui.pages.benchmark_wish import Wish
from gui.pages.try_looking import Looking
from gui.theme import GUTTER, PAGE_MARGINS, SPACING, Theme
from gui.widgets.direction import margins
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role


class BenchmarkPage(QWidget):
    """Measures one benchmark at a time, whichever page is shown meanwhile.

    Signals:
        use_requested: The `core.bench.plan.Rung` whose options are to be carried into New run.
        progressed: How much of a benchmark is done, from 0 to 1; None: none is under way.

    Args:
        theme: Colours.
        form: Gives the options on the page New run.
        tools: What is asked of the core.
        ask_turn: Asks what to do where a run trains.
        parent: Qt's parent.
    """

    use_requested = Signal(object)
    progressed = Signal(object)

    def __init__(
        self,
        theme: Theme,
        form: FormOptions,
        tools: BenchTools | None = None,
        *,
        ask_turn: AskBenchTurn = ask_bench_turn,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        set_role(self, Role.PAGE)
        self._tools = tools or BenchTools()
        self._ask_turn = ask_turn
        self.measuring = Benchmarking(self)
        self._pausing = Pausing(self._tools.ahead_of, self)
        self._waiting: BenchmarkTab | None = None
        self._kept: Looking[list[Kept]] = Looking(self)
        self.head = ElidedLabel()
        set_role(self.head, Role.MUTED)
        self.methods, self.devices = self._methods_tab(theme, form), self._devices_tab(theme)
        self.earlier = EarlierResults(theme)
        self.tabs = QTabWidget()
        set_role(self.tabs, Role.TABS)
        self._lay_out()
        self._connect()
        self._show_state()

    @property
    def shown_tab(self) -> BenchmarkTab | None:
        """The tab of a table that is shown; None: that of earlier results."""
        return next((tab for tab in self._both if tab is self.tabs.currentWidget()), None)

    @property
    def _both(self) -> tuple[BenchmarkTab, BenchmarkTab]:
        return self.methods, self.devices

    def set_machine(self, machine: MachineReport) -> None:
        """Say what this machine can do: nothing can be measured before that is known."""
        for tab in self._both:
            tab.wish.set_machine(machine)

    def start(self) -> None:
        """Measure what the shown tab says, if nothing is in the way."""
        tab = self.shown_tab
        if tab is None or not tab.can_start:
            return
        awaited = self._tools.ahead_of(tab.wish.device())
        if awaited is None:
            self._start(tab, is_beside=False)
            return
        match self._ask_turn(awaited, self):
            case BenchTurn.BESIDE:
                self._start(tab, is_beside=True)
            case BenchTurn.AFTER_PAUSE:
                self._start_after(awaited, tab)

    def end_work(self) -> None:
        """Measure no further; what is done is kept, and no thread is left after this."""
        self._pausing.forget()
        self.measuring.close()
        self._kept.close()
        self.earlier.end_work()
        for tab in self._both:
            tab.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        """Look what was measured before, in a terminal too, and whether the form of New run is another."""
        super().showEvent(event)
        self._look()
        self.methods.wish.changed.emit()

    # What is under way.

    def _start(self, tab: BenchmarkTab, *, is_beside: bool) -> None:
        tab.strip.hide()
        tab.show_result(None)
        kind = Kind.METHODS if tab is self.methods else Kind.DEVICES
        machine = tab.wish.machine
        assert machine is not None, "nothing can be started before it is known"
        make = partial(self._tools.make, machine=machine, is_beside=is_beside)
        self.measuring.start(kind, tab.wish.plan(), make)

    def _start_after(self, awaited: TurnAwaited, tab: BenchmarkTab) -> None:
        """Ask a run to pause, and measure once it has."""
        try:
            self._tools.pause(awaited)
        except OSError as error:
            tab.show_error(RunFolderError(self.tr("The run can't be asked"), str(error)))
            return
        self._waiting = tab
        self._pausing.wait_for(awaited, tab.wish.device(), partial(self._start, tab, is_beside=False))

    def _cancel(self) -> None:
        self._pausing.forget()
        self.measuring.cancel()

    def _take_result(self, result: Result) -> None:
        self._tab_of(self.measuring.kind).show_result(result)
        self._show_head()

    def _take_failure(self, error: UserError) -> None:
        self._tab_of(self.measuring.kind).show_error(error)

    def _take_ending(self, ending: Ending) -> None:
        tab = self._tab_of(self.measuring.kind)
        tab.show_ending(ending)
        self._show_state()
        self._look()

    def _tab_of(self, kind: Kind) -> BenchmarkTab:
        return self.methods if kind is Kind.METHODS else self.devices

    def _show_state(self) -> None:
        waits_for = self._pausing.title if self._pausing.is_waiting else ""
        busy = self._waiting if waits_for else None
        if self.measuring.is_running:
            busy = self._tab_of(self.measuring.kind)
        for tab in self._both:
            if tab is busy:
                tab.show_progress(self.measuring, waits_for)
            else:
                tab.show_rest(self._elsewhere(busy))
        self._show_head()
        underway = self.measuring.underway
        self.progressed.emit(underway.done / underway.total if underway and underway.total else None)

    def _elsewhere(self, busy: BenchmarkTab | None) -> str:
        if busy is None:
            return ""
        return self.tr("{} is being measured; one at a time.").format(
            self.tabs.tabText(self.tabs.indexOf(busy))
        )

    def _show_head(self) -> None:
        measuring, tab = self.measuring, self.shown_tab
        if measuring.is_running and measuring.plan is not None:
            self.head.setText(head_words(measuring.plan, measuring.underway))
        elif tab is not None and tab.result is not None:
            self.head.setText(result_words(tab.result))
        else:
            self.head.setText(self.tr("What the guides promise, measured on this computer"))

    def _look(self) -> None:
        self._kept.look(self._tools.earlier)

    def _take_kept(self, found: list[Kept]) -> None:
        for tab in self._both:
            tab.show_earlier(found)

    # Putting it together.

    def _methods_tab(self, theme: Theme, form: FormOptions) -> BenchmarkTab:
        words = self.tr(
            "The guide's ladder: the same model trained in a dozen ways, each in a process of its own, with its speed "
            "and its memory. It shows which options pay on this computer; any of them can be carried into New run."
        )
        wish = MethodsWish(self._tools.methods, form)
        return self._tab(theme, wish, MethodsView(theme), words)

    def _devices_tab(self, theme: Theme) -> BenchmarkTab:
        words = self.tr(
            "The same models on the processor and on the accelerator: seconds an epoch, how many times as fast, and "
            "whether both compute the same. A computer without one compares threads or precisions."
        )
        wish = DevicesWish(self._tools.devices)
        return self._tab(theme, wish, DevicesView(theme), words)

    def _tab(self, theme: Theme, wish: Wish, view: MethodsView | DevicesView, words: str) -> BenchmarkTab:
        tab = BenchmarkTab(theme, wish, view, words)
        if isinstance(view, MethodsView):
            view.use_requested.connect(self.use_requested)
        tab.start_pressed.connect(self.start)
        tab.cancel_pressed.connect(self._cancel)
        tab.beside_pressed.connect(partial(self._start, tab, is_beside=True))
        return tab

    def _connect(self) -> None:
        self.measuring.changed.connect(self._show_state)
        self.measuring.measured.connect(self._take_result)
        self.measuring.failed.connect(self._take_failure)
        self.measuring.ended.connect(self._take_ending)
        self._pausing.changed.connect(self._show_state)
        self.earlier.use_requested.connect(self.use_requested)
        self._kept.found.connect(self._take_kept)
        self.tabs.currentChanged.connect(self._show_head)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def _lay_out(self) -> None:
        title = QLabel(self.tr("Benchmark"))
        set_role(title, Role.PAGE_TITLE)
        self.tabs.addTab(self.methods, self.tr("Methods"))
        self.tabs.addTab(self.devices, self.tr("Devices"))
        self.tabs.addTab(self.earlier, self.tr("Earlier results"))
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        layout.setSpacing(SPACING // 2)
        layout.addWidget(title)
        layout.addWidget(self.head)
        layout.addSpacing(SPACING)
        layout.addWidget(self.tabs, 1)
