"""The page Benchmark: methods compared, devices compared, and earlier results."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import Fix, UserError
from core.base.language import _, ngettext
from core.benchmark import result as results
from core.benchmark.device_plan import devices_plan
from core.benchmark.plan import Kind, Plan, methods_plan
from core.benchmark.result import Result, Saved, this_machine
from core.benchmark.runner import Bench, DeviceBusy, EnginePass, Progress
from core.benchmark.table import Cell, Heading, Line, ResultTable, Tone, compare, comparison_table
from core.options.device_support import MachineReport
from core.runs.events import Level
from core.runs.trash import move_path
from gui.base.background import Call, EngineWork, FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.benchmark.results import ResultTableView, ResultView, fill_page, on_card
from gui.benchmark.setup import DevicesSetup, FormOptions, MakePlan, MethodsSetup, Setup
from gui.widgets.bars import progress_bar
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.inputs import WheelGuard
from gui.widgets.labels import ElidedLabel, link_button, margins, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, PageScroll, fill, hbox, vbox

# --- Earlier results: the list of what was saved, one of them opened, two compared


class SubPage(PageScroll):
    """A scrolled column below a title, details and a link back to the list."""

    left = Signal()

    def __init__(self, *parts: QWidget) -> None:
        content = QWidget()
        super().__init__(content)
        self.title, self.details = ElidedLabel(role=Role.CARD_TITLE), ElidedLabel(role=Role.MUTED)
        self.back = link_button(_("‹ Earlier results"), self.left.emit)
        head = hbox((vbox(self.title, self.details, spacing=2), 1), self.back)
        fill_page(content, head, *parts)


class OpenedPage(SubPage):
    """One result, in the view of its kind."""

    def __init__(self, theme: Theme) -> None:
        self.views = {kind: ResultView(theme, kind) for kind in Kind}
        super().__init__(*self.views.values())

    def show_result(self, result: Result) -> None:
        self.title.setText(result.plan.title)
        self.details.setText(_moment_and_machine(result))
        view = self.views[result.kind]
        for other in self.views.values():
            other.setVisible(other is view)
        view.published.setChecked(False)
        if result.ended is None:  # it was interrupted: its other rows are not being measured
            result = msgspec.structs.replace(result, ended=result.begun)
        view.show_result(result)


class ComparedPage(SubPage):
    """Two results of a kind: what differs between them, and their speeds and memory in a table."""

    def __init__(self, theme: Theme) -> None:
        self.notes = text_label(role=Role.MUTED)
        self.table = ResultTableView(_("Both results"), theme)
        super().__init__(self.notes, on_card(self.table))

    def show_results(self, one: Result, other: Result) -> None:
        found = compare(one, other)
        self.title.setText(found.later.plan.title)
        earlier, later = _moment_and_machine(found.earlier), _moment_and_machine(found.later)
        self.details.setText(_("Earlier: {earlier} · later: {later}").format(earlier=earlier, later=later))
        self.notes.setText("\n".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        self.table.show_table(comparison_table(found))


class SavedResults(QWidget):
    """The list of what was saved, read in a thread each time it is shown; results are opened, compared, removed."""

    use_requested = Signal(object)  # the `Variant` whose options are to be used in New run
    listed = Signal(object)  # what was saved, a sequence of `Saved`

    def __init__(
        self,
        theme: Theme,
        *,
        remove: Callable[[Path], None] = move_path,
    ) -> None:
        super().__init__()
        self._remove = remove
        self._saved: tuple[Saved, ...] = ()
        self._files = FileWork(self)
        self._files.failed.connect(self._on_failed)
        self.strip = MessageStrip(closable=True)
        empty = _("Nothing has been measured yet. Results of Methods and Devices are kept here.")
        self.empty = text_label(empty, Role.MUTED)
        self.table = ResultTableView(_("Earlier results"), theme)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.open = push_button(_("Open"), lambda: self._open(self.table.selected[0]))
        self.compare = push_button(_("Compare"), self._compare)
        self.bin = push_button(_("Move to the trash…"), self._throw_away)
        self.reason = role_label(Role.HINT)
        self.opened, self.compared = OpenedPage(theme), ComparedPage(theme)
        self._lay_out()
        self._connect()
        self.show_saved(())

    def show_saved(self, saved: Sequence[Saved]) -> None:
        """List results; what is selected stays selected."""
        self._saved = tuple(saved)
        headings = (
            Heading(_("What was measured"), is_figure=False),
            Heading(_("Kind"), is_figure=False),
            Heading(_("Machine"), is_figure=False),
            Heading(_("Measured"), is_figure=False),
            Heading(_("Rows"), _("How many have figures, of how many")),
            Heading(_("State"), is_figure=False),
        )
        self.table.show_table(ResultTable(headings, tuple(map(_line, saved))))
        self.empty.setVisible(not saved)
        self._card.setVisible(bool(saved))
        self._buttons.setVisible(bool(saved))
        self._update_buttons()
        self.listed.emit(saved)

    def refresh(self) -> None:
        self._files.put(results.saved, self.show_saved)

    def show_list(self) -> None:
        self._show(self._list)
        self.refresh()
        self.table.setFocus()

    def show_result(self, result: Result) -> None:
        self.opened.show_result(result)
        self._show(self.opened)

    def show_comparison(self, one: Result, other: Result) -> None:
        self.compared.show_results(one, other)
        self._show(self.compared)

    def end_work(self) -> None:
        self._files.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _show(self, page: PageScroll) -> None:
        self.strip.hide()
        self._pages.setCurrentWidget(page)
        page.verticalScrollBar().setValue(0)

    def _selected(self) -> list[Saved]:
        keys = self.table.selected
        return [saved for saved in self._saved if str(saved.path) in keys]

    def _update_buttons(self) -> None:
        selected = self._selected()
        kinds = [saved.result.kind for saved in selected if saved.result is not None]
        if len(selected) < 2:
            reason = _("Select two of the same kind to compare them.") if len(self._saved) > 1 else ""
        elif len(selected) > 2:
            reason = _("Only two can be compared.")
        elif len(kinds) < 2:
            reason = _("A file that can't be read can't be compared.")
        else:
            reason = "" if kinds[0] is kinds[1] else _("Methods and devices can't be compared.")
        self.open.setEnabled(len(selected) == len(kinds) == 1)
        self.compare.setEnabled(len(kinds) == len(selected) == 2 and not reason)
        self.bin.setEnabled(bool(selected))
        self.reason.setText(reason)

    def _open(self, key: str) -> None:
        for saved in self._saved:
            if str(saved.path) == key and saved.result is not None:
                self.show_result(saved.result)

    def _compare(self) -> None:
        one, other = (saved.result for saved in self._selected())
        if one is not None and other is not None:
            self.show_comparison(one, other)

    def _throw_away(self) -> None:
        for saved in self._selected():
            self._files.put(partial(self._remove, saved.path))
        title = _("Moved to the trash")
        self.strip.show_message(Level.INFO, title, _("Results can be put back from the system's trash."))
        self.refresh()

    def _on_failed(self, error: UserError) -> None:
        self.strip.show_error(error)
        self.refresh()

    def _lay_out(self) -> None:
        self._card, self._buttons, content = on_card(self.table), QWidget(), QWidget()
        line = hbox(self.open, self.compare, self.bin)
        line.addSpacing(SPACING)
        line.addWidget(self.reason, 1)
        self._buttons.setLayout(line)
        fill_page(content, self._buttons, self._card, self.empty)
        self._list = PageScroll(content)
        self._pages = QStackedWidget()
        for page in (self._list, self.opened, self.compared):
            self._pages.addWidget(page)
        fill(QVBoxLayout(self), self.strip, (self._pages, 1), margins=FLUSH, spacing=SPACING)

    def _connect(self) -> None:
        self.table.selection_changed.connect(self._update_buttons)
        self.table.opened.connect(self._open)
        self.table.delete_pressed.connect(self._throw_away)
        for view in self.opened.views.values():
            view.use_requested.connect(self.use_requested)
            view.copied.connect(partial(self.strip.show_message, Level.INFO))
        for page in (self.opened, self.compared):
            page.left.connect(self.show_list)


def _line(saved: Saved) -> Line:
    key, result = str(saved.path), saved.result
    if result is None:
        return Line(
            key, (Cell(saved.title, Tone.QUIET),), Cell(saved.problem, Tone.WARNING), tip=saved.problem
        )
    kinds = {Kind.METHODS: _("Methods"), Kind.DEVICES: _("Devices")}
    rows = _("{measured} of {rows}").format(measured=len(result.measured), rows=len(result.rows))
    cells = (
        Cell(result.plan.title, tip=result.plan.title),
        Cell(kinds[result.kind]),
        Cell(result.machine.title, tip=result.machine.title),
        Cell(formats.moment(result.begun)),
        Cell(rows, Tone.QUIET),
        Cell(result.standing.value, Tone.QUIET),
    )
    return Line(key, cells)


def _moment_and_machine(result: Result) -> str:
    return f"{formats.moment(result.begun)}, {result.machine.title}"


# --- Calls of core, which tests replace


def make_bench(plan: Plan, *, machine: MachineReport, beside: bool) -> Bench:
    return Bench(plan, this_machine(machine), measure=EnginePass, save=results.save, beside=beside)


@dataclass(frozen=True)
class Tools:
    """Makes plans, and measures them."""

    methods: Callable[..., Plan] = methods_plan
    devices: Callable[..., Plan] = devices_plan
    make: Callable[..., Bench] = make_bench


class Benchmarking(QObject):
    """Measures one benchmark at a time, in a thread."""

    changed = Signal()  # `plan`, `progress` or `is_stopping`
    measured = Signal(object)  # the `core.benchmark.result.Result` so far
    ended = Signal(bool)  # whether it was cancelled, after the last result
    failed = Signal(object)  # a `core.base.errors.UserError`

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._task: EngineWork[Bench | None] = EngineWork(
            self, progress=self._on_progress, done=self._on_done, failed=self._on_failed
        )
        self._lock = threading.Lock()
        self._bench: Bench | None = None
        self.is_stopping = False
        self.kind = Kind.METHODS
        self.plan: Plan | None = None
        self.progress: Progress | None = None

    @property
    def is_running(self) -> bool:
        return self._task.is_running

    def start(self, kind: Kind, make_plan: MakePlan, make: Callable[[Plan], Bench]) -> None:
        """Start, unless a benchmark runs; `make_plan` and `make` are called in the thread."""
        if self.is_running:
            return
        self.kind, self.plan, self.progress, self.is_stopping = kind, None, None, False
        self._task.start(lambda call: self._measure(call, make_plan, make))
        self.changed.emit()

    def cancel(self) -> None:
        """Stop measuring; `ended` is emitted once the process of the current pass has ended."""
        with self._lock:
            self.is_stopping = True
            if self._bench is not None:
                self._bench.stop()
        self.changed.emit()

    def close(self) -> None:
        self.cancel()
        self._task.close()

    def _measure(self, call: Call, make_plan: MakePlan, make: Callable[[Plan], Bench]) -> Bench | None:
        plan = make_plan()
        with self._lock:
            if self.is_stopping:
                return None
            bench = self._bench = make(plan)
        bench.on_begin = call.tell
        try:
            call.tell(plan)
            call.tell(bench.result)
            for result in bench.run():
                call.tell(result)
        finally:
            with self._lock:
                self._bench = None
        return bench

    def _on_progress(self, news: Plan | Progress | Result) -> None:
        match news:
            case Result():
                self.measured.emit(news)
                return
            case Plan():
                self.plan = news
            case Progress():
                self.progress = news
        self.changed.emit()

    def _on_done(self, bench: Bench | None) -> None:
        self.progress = None
        self.ended.emit(self.is_stopping)
        if bench is not None and bench.not_saved:
            detail = _("{reason}. It is shown here until the window is closed: copy it.")
            title = _("The result couldn't be saved")
            self.failed.emit(UserError(title, detail.format(reason=bench.not_saved)))

    def _on_failed(self, error: UserError) -> None:
        self.progress = None
        self.failed.emit(error)
        self.ended.emit(False)


# --- A tab: one of the two benchmarks


PREVIEW_MS = 80
"""Delay from the last change of the form to the preview of the plan."""

BESIDE = "bench.beside"
"""What the button "Measure at the same time" changes."""


class BenchmarkTab(QWidget):
    """The form, then the progress with the figures so far, then the result of a benchmark.

    The fix of `strip` requests a measurement although the device is in use.
    """

    def __init__(self, setup: Setup, view: ResultView, words: str) -> None:
        super().__init__()
        self.setup, self.view = setup, view
        self._preview: EngineWork[Plan] = EngineWork(self, done=self._on_plan, failed=self._on_plan_failed)
        self._soon = QTimer(self, interval=PREVIEW_MS, singleShot=True)
        self._soon.timeout.connect(self._make_preview)
        self.planned: Plan | None = None
        self._plan_problem = ""
        self._saved: Sequence[Saved] = ()
        self._busy_elsewhere = ""
        self._is_running = self._is_choosing_again = False
        self.strip = MessageStrip(closable=True)
        self.start = push_button(_("Start benchmark"), role=Role.PRIMARY)
        self.status, self.words = text_label(role=Role.HINT), text_label(words, Role.MUTED)
        tip = _("Choose what to measure; this result is kept under Earlier results")
        self.again = push_button(_("Measure again…"), self._choose_again, tip)
        view.buttons.addWidget(self.again)
        view.copied.connect(partial(self.strip.show_message, Level.INFO))
        setup.changed.connect(self._refresh)
        setup.changed.connect(self._soon.start)
        self._lay_out()
        self._refresh()

    def show_progress(self, measuring: Benchmarking) -> None:
        is_new = not self._is_running
        self._is_running, self._busy_elsewhere, self._is_choosing_again = True, "", False
        progress, plan = measuring.progress, measuring.plan
        left = ""
        if measuring.is_stopping:
            doing = _("Ending the current pass; finished measurements are kept…")
        elif plan is None:
            doing = _("Checking what this computer can measure…")
        elif progress is None:
            doing = _("Preparing…")
        else:
            title, side = progress.variant.title, progress.variant.side
            doing = _("Measuring: {title}").format(title=f"{title} · {side}" if side else title)
            if plan.passes > 1:
                which = _("pass {number} of {passes}")
                doing += " · " + which.format(number=progress.number, passes=plan.passes)
            left = left_of(progress)
        self.doing.setText(doing)
        self.left.setText(left)
        if measuring.is_stopping and self.cancel.hasFocus():
            self.progress.setFocus()  # otherwise Qt would focus a link far below, and scroll there
        self.cancel.setEnabled(not measuring.is_stopping)
        self.bar.setRange(0, progress.total if progress else 0)
        self.bar.setValue(progress.done if progress else 0)
        if self.view.result is not None:
            self.view.show_result(self.view.result, progress.variant.name if progress else "")
        had_focus = self._take_focus_from(self.card)
        self._refresh()
        if is_new and had_focus:
            self.cancel.setFocus()

    def show_idle(self, elsewhere: str = "") -> None:
        """Show that this benchmark isn't measured. `elsewhere` names the one that is; nothing can be started then."""
        had_focus = self._is_running and self._take_focus_from(self.progress)
        self._is_running, self._busy_elsewhere = False, elsewhere
        self._refresh()
        if had_focus:
            (self.again if self.again.isVisibleTo(self) else self.start).setFocus()

    def show_result(self, result: Result | None) -> None:
        if result is None:
            self.view.result = None
        else:
            self.view.show_result(result)
        self._refresh()

    def show_cancelled(self) -> None:
        result = self.view.result
        kept = _("What was measured until then is shown, and saved under Earlier results.")
        none = _("Nothing had been measured yet, so nothing is saved.")
        detail = kept if result is not None and result.measured else none
        self.strip.show_message(Level.INFO, _("The benchmark was cancelled"), detail)

    def show_error(self, error: UserError) -> None:
        """Show an error; if the device is in use, offer to measure all the same."""
        if isinstance(error, DeviceBusy):
            beside = Fix(_("Measure at the same time"), {BESIDE: True})
            self.strip.show_message(Level.WARNING, error.title, error.detail, (beside,))
        else:
            self.strip.show_error(error)

    def show_saved(self, saved: Sequence[Saved]) -> None:
        self._saved = saved
        self._refresh()

    def end_work(self) -> None:
        self._soon.stop()
        self._preview.close()

    def _take_focus_from(self, part: QWidget) -> bool:
        """Return whether a part that is about to be hidden had the focus.

        The scroll area gets it then: otherwise Qt would scroll to whatever gets it next.
        """
        had_focus = part.isAncestorOf(self.focusWidget() or self)
        if had_focus:
            self._scroll.setFocus()
        return had_focus

    def _refresh(self) -> None:
        has_result = self.view.result is not None
        is_chosen = not has_result or self._is_choosing_again
        self.card.setVisible(is_chosen and not self._is_running)
        self.progress.setVisible(self._is_running)
        self.words.setVisible(not has_result)
        self.view.setVisible(has_result)
        self.again.setVisible(not is_chosen and not self._is_running)
        problem = self.setup.obstacle() or self._busy_elsewhere or self._plan_problem
        self.start.setEnabled(not problem and self.planned is not None)
        self.status.setText(problem or ("" if self.planned is None else outlook(self.planned, self._saved)))

    def _make_preview(self) -> None:
        self._preview.cancel()
        if not self.setup.obstacle():
            make_plan = self.setup.plan()
            self._preview.start(lambda _call: make_plan())

    def _on_plan(self, plan: Plan) -> None:
        self.planned, self._plan_problem = plan, ""
        self._refresh()

    def _on_plan_failed(self, error: UserError) -> None:
        self.planned, self._plan_problem = None, f"{error.title}. {error.detail}"
        self._refresh()

    def _choose_again(self) -> None:
        self._is_choosing_again = True
        self.strip.hide()
        self._refresh()
        self.start.setFocus()

    def _lay_out(self) -> None:
        self.card = Card(_("What to measure"))
        line = fill(QHBoxLayout(), self.start, (self.status, 1), spacing=2 * SPACING)
        self.card.body.addWidget(self.setup)
        self.card.body.addLayout(line)
        self.progress = Card("")
        self.doing, self.left = text_label(role=Role.STRONG), role_label(Role.MUTED)
        self.cancel = push_button(_("Cancel"), tip=_("End it now; what is measured so far is kept"))
        self.bar = progress_bar(_("Progress of the benchmark"))
        line = fill(QHBoxLayout(), (self.doing, 1), self.left, self.cancel, spacing=SPACING)
        self.progress.body.addLayout(line)
        self.progress.body.addWidget(self.bar)
        content = QWidget()
        fill_page(content, self.strip, self.words, self.progress, self.card, self.view)
        self._scroll = PageScroll(content)
        fill(QVBoxLayout(self), self._scroll, margins=FLUSH)


def left_of(progress: Progress) -> str:
    """The remaining time, or how much is done as long as no time is known."""
    if progress.seconds_left is not None:
        return _("about {time} left").format(time=formats.about(progress.seconds_left))
    return _("{done} of {total} done").format(done=progress.done, total=progress.total)


def outlook(plan: Plan, saved: Sequence[Saved]) -> str:
    """What a plan measures, and how long it took the last time."""
    refused = sum(bool(variant.refusal) for variant in plan.variants)
    words = _("{plan}: {rows} measurements, {passes} of {steps}.")
    passes = ngettext("one pass", "{count} passes", plan.passes).format(count=plan.passes)
    steps = ngettext("one timed step", "{count} timed steps", plan.steps).format(count=f"{plan.steps:,}")
    lines = [words.format(plan=plan.title, rows=len(plan.variants) - refused, passes=passes, steps=steps)]
    if refused:
        more = ngettext(
            "One more is left out, with its reason.", "{count} more are left out, with reasons.", refused
        )
        lines[0] += " " + more.format(count=refused)
    lines += plan.notes[:1]
    for result in (earlier.result for earlier in saved):
        if result is None or not result.is_whole or result.ended is None:
            continue
        if (result.kind, result.plan.title, result.plan.passes) == (plan.kind, plan.title, plan.passes):
            last = _("The last one, of {moment}, took {time}.")
            time = formats.duration(result.ended - result.begun)
            return "\n".join([*lines, last.format(moment=formats.moment(result.begun), time=time)])
    return "\n".join([*lines, _("It takes minutes to an hour; an estimate follows after two passes.")])


# --- The page


class BenchmarkPage(QWidget):
    """Measures one benchmark at a time, also while another page is shown."""

    use_requested = Signal(object)  # the `Variant` whose options are to be used in New run
    progressed = Signal(object)  # how much of a benchmark is done, from 0 to 1; None if none runs

    def __init__(self, theme: Theme, form: FormOptions, tools: Tools | None = None) -> None:
        super().__init__()
        set_role(self, Role.PAGE)
        self._tools = tools or Tools()
        self.measuring = Benchmarking(self)
        self.head = ElidedLabel(role=Role.MUTED)
        self.methods = BenchmarkTab(
            MethodsSetup(self._tools.methods, form),
            ResultView(theme, Kind.METHODS),
            _(
                "The guide's ladder: the same model trained in a dozen ways, each in a process of its own, with its "
                "speed and memory. It shows which options pay on this computer; any of them can be used in New run."
            ),
        )
        self.devices = BenchmarkTab(
            DevicesSetup(self._tools.devices),
            ResultView(theme, Kind.DEVICES),
            _(
                "The same models on the processor and on the accelerator: time of an epoch, relative speed, and "
                "whether both compute the same. A computer without an accelerator compares threads or precisions."
            ),
        )
        self._tabs = {Kind.METHODS: self.methods, Kind.DEVICES: self.devices}
        self.earlier = SavedResults(theme)
        self.tabs = QTabWidget()
        set_role(self.tabs, Role.TABS)
        WheelGuard(self.tabs.tabBar())
        self._lay_out()
        self._connect()
        self._show_state()

    def set_machine(self, machine: MachineReport) -> None:
        """Set what this computer can do."""
        for tab in self._tabs.values():
            tab.setup.set_machine(machine)

    def start(self) -> None:
        """Start what the current tab has chosen; if a run uses the device, `DeviceBusy` is shown."""
        tab = self.tabs.currentWidget()
        if isinstance(tab, BenchmarkTab) and tab.card.isVisibleTo(tab) and tab.start.isEnabled():
            self._start(tab, beside=False)

    def end_work(self) -> None:
        self.measuring.close()
        self.earlier.end_work()
        for tab in self._tabs.values():
            tab.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        """Read earlier results, including those of a terminal; the form of New run may have changed, too."""
        super().showEvent(event)
        self.earlier.refresh()
        self.methods.setup.changed.emit()

    def _start(self, tab: BenchmarkTab, *, beside: bool) -> None:
        machine = tab.setup.machine
        assert machine is not None
        tab.strip.hide()
        tab.show_result(None)
        make = partial(self._tools.make, machine=machine, beside=beside)
        self.measuring.start(tab.view.kind, tab.setup.plan(), make)

    def _on_result(self, result: Result) -> None:
        self._tabs[self.measuring.kind].show_result(result)
        self._show_head()

    def _on_failure(self, error: UserError) -> None:
        self._tabs[self.measuring.kind].show_error(error)

    def _on_ending(self, is_cancelled: bool) -> None:
        if is_cancelled:
            self._tabs[self.measuring.kind].show_cancelled()
        self._show_state()
        self.earlier.refresh()

    def _show_state(self) -> None:
        busy = self._tabs[self.measuring.kind] if self.measuring.is_running else None
        for tab in self._tabs.values():
            if tab is busy:
                tab.show_progress(self.measuring)
            elif busy is None:
                tab.show_idle()
            else:
                name = self.tabs.tabText(self.tabs.indexOf(busy))
                tab.show_idle(
                    _("{benchmark} is running. Only one benchmark can run at a time.").format(benchmark=name)
                )
        self._show_head()
        progress = self.measuring.progress
        self.progressed.emit(progress.done / progress.total if progress and progress.total else None)

    def _show_head(self) -> None:
        plan, progress, tab = self.measuring.plan, self.measuring.progress, self.tabs.currentWidget()
        result = tab.view.result if isinstance(tab, BenchmarkTab) else None
        if self.measuring.is_running and plan is not None:
            words = " · ".join([plan.title, left_of(progress)] if progress else [plan.title])
        elif result is not None:
            words = " · ".join((result.plan.title, formats.moment(result.begun), result.machine.title))
        else:
            words = _("Training methods compared on this computer")
        self.head.setText(words)

    def _connect(self) -> None:
        for tab in self._tabs.values():
            tab.view.use_requested.connect(self.use_requested)
            tab.start.clicked.connect(self.start)
            tab.cancel.clicked.connect(self.measuring.cancel)
            self.earlier.listed.connect(tab.show_saved)
            tab.strip.fix_chosen.connect(lambda _fix, tab=tab: self._start(tab, beside=True))
        self.measuring.changed.connect(self._show_state)
        self.measuring.measured.connect(self._on_result)
        self.measuring.failed.connect(self._on_failure)
        self.measuring.ended.connect(self._on_ending)
        self.earlier.use_requested.connect(self.use_requested)
        self.tabs.currentChanged.connect(self._show_head)

    def _lay_out(self) -> None:
        title = role_label(Role.PAGE_TITLE, _("Benchmark"))
        self.tabs.addTab(self.methods, _("Methods"))
        self.tabs.addTab(self.devices, _("Devices"))
        self.tabs.addTab(self.earlier, _("Earlier results"))
        start, top, end, _bottom = PAGE_MARGINS
        layout = fill(QVBoxLayout(self), title, self.head, (self.tabs, 1), spacing=SPACING // 2)
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        layout.insertSpacing(2, SPACING)
