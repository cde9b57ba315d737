"""Measuring while a run trains: its figures would say as much of the run as of the methods, so the person is asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from gettext import gettext as _
from typing import Protocol

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QTabWidget, QVBoxLayout, QWidget

from core.base.errors import Fix, RunFolderError, UserError
from core.benchmark import result as kept
from core.benchmark.device_plan import devices_plan
from core.benchmark.plan import Kind, Plan, methods_plan
from core.benchmark.result import Kept, Result, this_machine
from core.benchmark.runner import Bench, DeviceBusy, Taking
from core.benchmark.table import best_trade
from core.options.device_support import MachineReport
from core.runs import queue
from core.runs.events import Level, TurnAwaited
from core.runs.folder import Action
from gui.base.background import Task
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.base.trash import Question
from gui.benchmark.devices import DevicesView
from gui.benchmark.methods import MethodsView
from gui.benchmark.results import (
    doing_words,
    ending_words,
    expected_words,
    head_words,
    left_words,
    plan_words,
    result_words,
)
from gui.benchmark.saved import EarlierResults
from gui.benchmark.saving import BenchmarkSaving
from gui.benchmark.setup import (
    Benchmarking,
    DevicesWish,
    Ending,
    FormOptions,
    MakePlan,
    Measures,
    MethodsWish,
    Wish,
)
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.labels import Disclosure, ElidedLabel, margins
from gui.widgets.layout import PageScroll

# --- What the page Benchmark needs of the core, in one place


class MakesBench(Protocol):
    """Makes a benchmark of a plan; called in a thread."""

    def __call__(self, plan: Plan, *, machine: MachineReport, is_beside: bool) -> Measures:
        """`is_beside`: whatever else computes on the device."""


def make_bench(plan: Plan, *, machine: MachineReport, is_beside: bool) -> Measures:
    """The real one, each pass in a process of its own, kept after every pass."""
    return Bench(plan, this_machine(machine), take=Taking, save=kept.save, beside=is_beside)


def ask_to_pause(awaited: TurnAwaited) -> None:
    """Ask the run that trains to pause.

    Raises:
        OSError: Its folder can't be written to.
    """
    for run in queue.training():
        if run.name == awaited.behind:
            run.ask(Action.PAUSE)


@dataclass(frozen=True)
class BenchTools:
    """All of them."""

    methods: Callable[..., Plan] = methods_plan
    devices: Callable[..., Plan] = devices_plan
    make: MakesBench = make_bench
    ahead_of: Callable[[str], TurnAwaited | None] = queue.ahead_of
    pause: Callable[[TurnAwaited], None] = ask_to_pause
    earlier: Callable[[], list[kept.Kept]] = kept.kept


# --- How far a benchmark is: the rung under way, a bar, the time left, and a way to end it


class BenchmarkProgress(Card):
    """A card with a bar in it.

    Signals:
        cancel_pressed: The person has seen enough.
    """

    cancel_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self._doing, self._left = QLabel(), QLabel()
        self._doing.setWordWrap(True)
        set_role(self._doing, Role.STRONG)
        set_role(self._left, Role.MUTED)
        self.cancel = QPushButton(_("Cancel"))
        self.cancel.setToolTip(_("End it now; what is measured so far is kept"))
        self.cancel.clicked.connect(self.cancel_pressed)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(_("Progress of the benchmark"))
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._doing, 1)
        line.addWidget(self._left)
        line.addWidget(self.cancel)
        self.body.addLayout(line)
        self.body.addWidget(self.bar)

    @property
    def doing(self) -> str:
        """What is said to be under way."""
        return self._doing.text()

    def show_state(self, measuring: Benchmarking, waits_for: str = "") -> None:
        """Say what is under way now; `waits_for` is the run that is to pause before."""
        underway = measuring.underway
        waiting = _("Waiting until “{}” has paused…").format(waits_for)
        self._doing.setText(waiting if waits_for else doing_words(measuring))
        self._left.setText("" if underway is None or measuring.is_stopping else left_words(underway))
        if measuring.is_stopping and self.window().focusWidget() is self.cancel:
            self.setFocus()  # else Qt would give it to a link far below, and scroll there
        self.cancel.setEnabled(not measuring.is_stopping)
        self.bar.setRange(0, 0 if underway is None else underway.total)
        self.bar.setValue(0 if underway is None else underway.done)


# --- Measuring while a run trains: its figures would say as much of the run as of the methods


POLL_MS = 500


class BenchTurn(Enum):
    """When a benchmark begins."""

    AFTER_PAUSE = auto()
    BESIDE = auto()
    NEVER = auto()


AskBenchTurn = Callable[[TurnAwaited, QWidget], BenchTurn]
"""Asks when a benchmark is to begin on a device that runs train on, or wait for."""


def question_about(awaited: TurnAwaited, parent: QWidget | None) -> Question[BenchTurn]:
    """What is asked. Where more than one run is there, pausing one only lets the next begin."""
    is_run = awaited.behind != queue.BENCHMARK
    words = _(
        "What is measured beside something else is slower than alone, has less memory, and is marked as disturbed. "
        "What it is measured beside becomes slower, too.",
    )
    beside = _("Measure beside it anyway")
    answers = {BenchTurn.BESIDE: beside}
    if awaited.ahead == 1 and is_run:
        pause = _("Pause it, then measure")
        answers = {BenchTurn.AFTER_PAUSE: pause, BenchTurn.BESIDE: beside}
        words += " " + _("A paused run is resumed under Runs; it loses nothing.")
    return Question(_title(awaited), words, answers, parent)


def _title(awaited: TurnAwaited) -> str:
    if awaited.behind == queue.BENCHMARK:
        return _("Another benchmark is being measured")
    if awaited.ahead == 1:
        name = awaited.title or awaited.behind
        return _("“{}” trains on this device").format(name)
    return _("{} runs train on this device, or wait for it").format(awaited.ahead)


def ask_bench_turn(awaited: TurnAwaited, parent: QWidget) -> BenchTurn:
    """Ask when the benchmark is to begin."""
    return question_about(awaited, parent).ask(BenchTurn.NEVER)


class Pausing(QObject):
    """Waits until nothing computes on a device any more.

    Signals:
        changed: It waits, or waits no longer.

    Args:
        ahead_of: What computes on a device, as `core.runs.queue.ahead_of` says.
        parent: Qt's parent.
    """

    changed = Signal()

    def __init__(self, ahead_of: Callable[[str], TurnAwaited | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ahead_of = ahead_of
        self._then: Callable[[], None] | None = None
        self._device = ""
        self.title = ""
        self._poll = QTimer(self, interval=POLL_MS)
        self._poll.timeout.connect(self.look)

    @property
    def is_waiting(self) -> bool:
        """Whether a run is on its way to a pause."""
        return self._then is not None

    def wait_for(self, awaited: TurnAwaited, device: str, then: Callable[[], None]) -> None:
        """Call `then` once a device is free; returns at once."""
        self._device, self._then, self.title = device, then, awaited.title or awaited.behind
        self._poll.start()
        self.changed.emit()

    def forget(self) -> None:
        """Wait no longer; a run that was asked to pause does so."""
        self._poll.stop()
        if self._then is not None:
            self._then = None
            self.changed.emit()

    def look(self) -> None:
        """Begin, if the device is free by now."""
        then = self._then
        if then is not None and self._ahead_of(self._device) is None:
            self.forget()
            then()


# --- One of the two tables on the page Benchmark: what to measure, how far that is


BESIDE = "bench.beside"
"""What the button of this tab's own message changes."""

REST_MS = 80
"""So long after the last change it is made out what would be measured."""


class BenchmarkTab(QWidget):
    """Asks what to measure; while it is measured shows how far that is, and the figures as they come.

    Signals:
        start_pressed: The person wants what `wish` says measured.
        cancel_pressed: The person has seen enough.
        beside_pressed: It is to be measured whatever else computes on the device.

    Args:
        theme: Colours of pictures.
        wish: What is to be measured, to be chosen.
        view: Shows results: `MethodsView` or `DevicesView`.
        words: What the table is for, in two sentences.
        parent: Qt's parent.
    """

    start_pressed = Signal()
    cancel_pressed = Signal()
    beside_pressed = Signal()

    def __init__(
        self,
        theme: Theme,
        wish: Wish,
        view: MethodsView | DevicesView,
        words: str,
        *,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.wish, self.view = wish, view
        self.saving = BenchmarkSaving(theme)
        self._preview: Task[Plan | UserError] = Task(self)
        self._soon = QTimer(self, interval=REST_MS, singleShot=True)
        self._planned: Plan | UserError | None = None
        self.result: Result | None = None
        self._earlier: Sequence[Kept] = ()
        self._elsewhere = ""
        self._is_running = False
        self._wants_again = False
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.progress = BenchmarkProgress()
        self.start = QPushButton(_("Measure"))
        set_role(self.start, Role.PRIMARY)
        self.said = _wrapping(Role.HINT)
        self.words = _wrapping(Role.MUTED)
        self.words.setText(words)
        self.conclusion = QLabel()
        self.conclusion.setWordWrap(True)
        self.conclusion.setTextFormat(Qt.TextFormat.PlainText)
        self.conclusion.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.notes = Disclosure(_("Show"))
        self.again = QPushButton(_("Measure again…"))
        self.again.setToolTip(_("Choose what to measure; this result is kept under Earlier results"))
        self.card = self._wish_card()
        self._lay_out()
        self._connect()
        self._refresh()

    @property
    def can_start(self) -> bool:
        """Whether there is something to start."""
        return self.card.isVisibleTo(self) and self.start.isEnabled()

    def show_progress(self, measuring: Benchmarking, waits_for: str = "") -> None:
        """This table is being measured, or `waits_for` a run to pause: show how far it is."""
        is_new = not self._is_running
        self._is_running, self._elsewhere = True, ""
        self._wants_again = False
        self.progress.show_state(measuring, waits_for)
        underway = measuring.underway
        if self.result is not None:
            self.view.show_result(self.result, None if underway is None else underway.rung.name)
        had_focus = self._leaves_focus(self.card)
        self._refresh()
        if is_new and had_focus:
            self.progress.cancel.setFocus()

    def show_rest(self, elsewhere: str = "") -> None:
        """It isn't measured. `elsewhere` says what is instead, so that nothing can be started here; empty: nothing."""
        had_focus = self._is_running and self._leaves_focus(self.progress)
        self._is_running, self._elsewhere = False, elsewhere
        self._refresh()
        if had_focus:
            (self.again if self.again.isVisibleTo(self) else self.start).setFocus()

    def show_result(self, result: Result | None) -> None:
        """Show what is measured so far; None: nothing."""
        self.result = result
        if result is not None:
            self.view.show_result(result)
        self.saving.show_result(result)
        self._refresh()

    def show_ending(self, ending: Ending) -> None:
        """Say how it ended, where that isn't as it should be."""
        words = ending_words(ending, self.result)
        if words and ending is not Ending.FAILED:
            self.strip.show_message(Level.INFO, *words)

    def show_error(self, error: UserError) -> None:
        """Say what went wrong; where the device is taken, offer to measure all the same."""
        if isinstance(error, DeviceBusy):
            beside = Fix(_("Measure beside it"), {BESIDE: True})
            self.strip.show_message(Level.WARNING, error.title, error.detail, (beside,))
        else:
            self.strip.show_error(error)

    def show_earlier(self, earlier: Sequence[Kept]) -> None:
        """Say how long it took before."""
        self._earlier = earlier
        self._refresh()

    def end_work(self) -> None:
        """Wait until no thread is left; every file that is being written is whole then."""
        self._soon.stop()
        self._preview.close()
        self.saving.end_work()

    def _leaves_focus(self, part: QWidget) -> bool:
        """Whether a part that is about to be hidden had the focus; Qt would scroll to whatever gets it next."""
        had_focus = part.isAncestorOf(self.focusWidget() or self)
        if had_focus:
            self._scroll.setFocus()
        return had_focus

    def _refresh(self) -> None:
        obstacle = self._obstacle()
        is_chosen = self.result is None or self._wants_again
        self.card.setVisible(is_chosen and not self._is_running)
        self.progress.setVisible(self._is_running)
        self.words.setVisible(self.result is None)
        for part in (self.view, self._bottom):
            part.setVisible(self.result is not None)
        self.again.setVisible(not is_chosen and not self._is_running)
        self.start.setEnabled(not obstacle and self._planned is not None)
        self.said.setText(obstacle or self._outlook())
        self._conclude()

    def _obstacle(self) -> str:
        """Why nothing can be started now; empty: it can."""
        planned = self._planned
        if obstacle := self.wish.obstacle() or self._elsewhere:
            return obstacle
        return f"{planned.title}. {planned.detail}" if isinstance(planned, UserError) else ""

    def _outlook(self) -> str:
        """What would be measured, and how long that takes."""
        planned = self._planned
        if not isinstance(planned, Plan):
            return ""
        told = (plan_words(planned), self.wish.reason(planned), expected_words(planned, self._earlier))
        return "\n".join(line for line in told if line)

    def _look_ahead(self) -> None:
        """Make the plan of what is chosen, to say what it is; until it is made, what was said before stays."""
        self._preview.cancel()
        if not self.wish.obstacle():
            make_plan = self.wish.plan()
            self._preview.start(lambda _call: _planned(make_plan))

    def _take_plan(self, planned: Plan | UserError) -> None:
        self._planned = planned
        self._refresh()

    def _conclude(self) -> None:
        """The best trade, and what has to be known of how it was measured."""
        result = self.result
        has_figures = result is not None and any(row.is_measured for row in result.rows)
        self.conclusion.setText(best_trade(result) if result is not None and has_figures else "")
        self.conclusion.setVisible(bool(self.conclusion.text()))
        notes = result.plan.notes if result is not None else ()
        self.notes.show_words(_("What was measured, and how."), notes)
        self.notes.setVisible(bool(notes))

    def _ask_again(self) -> None:
        self._wants_again = True
        self.strip.hide()
        self._refresh()
        self.start.setFocus()

    def _wish_card(self) -> Card:
        card = Card(_("What to measure"))
        line = QHBoxLayout()
        line.setSpacing(2 * SPACING)
        line.addWidget(self.start)
        line.addWidget(self.said, 1)
        card.body.addWidget(self.wish)
        card.body.addLayout(line)
        return card

    def _lay_out(self) -> None:
        self._bottom = QWidget()
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self.saving)
        line.addStretch(1)
        line.addWidget(self.again)
        below = QVBoxLayout(self._bottom)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(SPACING + 4)
        below.addWidget(self.conclusion)
        below.addWidget(self.notes)
        below.addLayout(line)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, SPACING, 0, 2 * SPACING)
        column.setSpacing(SPACING + 4)
        for part in (self.strip, self.words, self.progress, self.card, self.view, self._bottom):
            column.addWidget(part)
        column.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        self._scroll = PageScroll(content)
        outer.addWidget(self._scroll)

    def _connect(self) -> None:
        self.wish.changed.connect(self._refresh)
        self.wish.changed.connect(self._soon.start)
        self._soon.timeout.connect(self._look_ahead)
        self._preview.done.connect(self._take_plan)
        self.start.clicked.connect(self.start_pressed)
        self.progress.cancel_pressed.connect(self.cancel_pressed)
        self.again.clicked.connect(self._ask_again)
        self.view.published_toggled.connect(self.saving.take_published)
        self.strip.fix_chosen.connect(self.beside_pressed)
        self.saving.tell_in(self.strip)


def _planned(make_plan: MakePlan) -> Plan | UserError:
    try:
        return make_plan()
    except UserError as error:
        return error


def _wrapping(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label


# --- The page Benchmark: which methods pay here, what the accelerator is worth


class BenchmarkPage(QWidget):
    """Measures one benchmark at a time, whichever page is shown meanwhile.

    Signals:
        use_requested: The `core.benchmark.plan.Rung` whose options are to be carried into New run.
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
        self._kept: Task[list[Kept]] = Task(self)
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
            tab.show_error(RunFolderError(_("The run can't be asked"), str(error)))
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
        return _("{} is being measured; one at a time.").format(self.tabs.tabText(self.tabs.indexOf(busy)))

    def _show_head(self) -> None:
        measuring, tab = self.measuring, self.shown_tab
        if measuring.is_running and measuring.plan is not None:
            self.head.setText(head_words(measuring.plan, measuring.underway))
        elif tab is not None and tab.result is not None:
            self.head.setText(result_words(tab.result))
        else:
            self.head.setText(_("What the guides promise, measured on this computer"))

    def _look(self) -> None:
        self._kept.start(lambda _call: self._tools.earlier())

    def _take_kept(self, found: list[Kept]) -> None:
        for tab in self._both:
            tab.show_earlier(found)

    # Putting it together.

    def _methods_tab(self, theme: Theme, form: FormOptions) -> BenchmarkTab:
        words = _(
            "The guide's ladder: the same model trained in a dozen ways, each in a process of its own, with its speed "
            "and its memory. It shows which options pay on this computer; any of them can be carried into New run."
        )
        wish = MethodsWish(self._tools.methods, form)
        return self._tab(theme, wish, MethodsView(theme), words)

    def _devices_tab(self, theme: Theme) -> BenchmarkTab:
        words = _(
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
        self._kept.done.connect(self._take_kept)
        self.tabs.currentChanged.connect(self._show_head)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def _lay_out(self) -> None:
        title = QLabel(_("Benchmark"))
        set_role(title, Role.PAGE_TITLE)
        self.tabs.addTab(self.methods, _("Methods"))
        self.tabs.addTab(self.devices, _("Devices"))
        self.tabs.addTab(self.earlier, _("Earlier results"))
        layout = QVBoxLayout(self)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        layout.setSpacing(SPACING // 2)
        layout.addWidget(title)
        layout.addWidget(self.head)
        layout.addSpacing(SPACING)
        layout.addWidget(self.tabs, 1)
