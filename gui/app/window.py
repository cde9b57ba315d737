"""The window: a sidebar, one page at a time, and the few things that concern them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from gettext import gettext as _
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from core.base import settings
from core.base.settings import Settings, home
from core.options.device_support import MachineReport
from core.runs.events import Level
from core.runs.folder import RunFolder
from core.runs.queue import LiveRun
from gui.app.live_runs import listed
from gui.app.sidebar import Place
from gui.base.background import Ask, end_left
from gui.base.theme import Theme
from gui.base.tokens import PAGE_MARGINS
from gui.new_run.page import NewRunPage
from gui.settings.gpu_install import GpuInstaller
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import margins

if TYPE_CHECKING:
    from gui.benchmark.page import BenchmarkPage
    from gui.run.follower import Begin
    from gui.run.page import RunPage
    from gui.runs.compare import ComparePage
    from gui.runs.page import RunsPage
    from gui.settings.page import SettingsPage
    from gui.try_it.page import TryPage
import logging
from functools import partial

import msgspec
from PySide6.QtCore import QByteArray, QChildEvent, QEvent, QMargins, QRect, QSize, Qt
from PySide6.QtGui import (
    QCloseEvent,
    QColor,
    QDragEnterEvent,
    QDropEvent,
    QPainter,
    QPaintEvent,
    QSessionManager,
    QShowEvent,
)
from PySide6.QtWidgets import QDialog, QHBoxLayout, QMainWindow

from core.base.errors import UserError
from core.base.files import is_there
from core.options import RunOptions, run_file
from core.runs import library as runs
from core.runs import queue
from core.runs import start as starting
from core.runs.folder import Action
from core.runs.start import Extension
from gui.app.closing import Asking, Underway, ask_about, ask_all, ask_at_shutdown, may_close, underway
from gui.app.live_runs import Attention, FoundRuns, LiveRunsThread
from gui.app.shortcuts import Commands
from gui.app.sidebar import Sidebar
from gui.base.background import JobTask
from gui.new_run.memory_state import MemoryTools
from gui.run.words import AskTurn, Turn, ask_turn
from gui.widgets.inputs import dropped_paths

if TYPE_CHECKING:
    from core.benchmark.plan import Variant
    from gui.benchmark.page import BenchmarkPage
    from gui.run.follower import Begin
    from gui.run.page import RunPage
    from gui.runs.compare import ComparePage
    from gui.runs.page import RunsPage
    from gui.settings.page import DeviceCheckDialog, SettingsPage
    from gui.try_it.page import TryPage


class AsideStrip(QWidget):
    """Names what was left aside; hidden until then, and once it is put away."""

    def __init__(self) -> None:
        super().__init__()
        self.strip = MessageStrip(closable=True)
        self.strip.closed.connect(self.hide)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        layout.addWidget(self.strip)
        self.hide()

    def show_names(self, names: Sequence[str]) -> None:
        """Say that these were left aside; nothing is said, and no longer, where there are none."""
        title = _("Hone opens one file or folder at a time")
        self.strip.show_message(Level.INFO, title, _("Left aside: {}").format(listed(names)))
        self.setVisible(bool(names))


class HomeStrip(QWidget):
    """Says what stands in the way, what that means and what to do; hidden until then, and once it is put away."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.strip = MessageStrip(closable=True)
        self.strip.closed.connect(self.hide)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        layout.addWidget(self.strip)
        self.hide()

    def show_trouble(self, error: OSError) -> None:
        """Say why Hone's folder can't be used."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = _("{} can't be made: a file stands in the way.").format(home())
        else:
            reason = f"{error.filename or home()}: {error.strerror or error}."
        meaning = _(
            "Hone works all the same, but its log and your settings are not kept, and runs only in another folder, "
            "which you can choose under Settings."
        )
        advice = _(
            "To mend it, make {} a folder that you may write to, or name another one in HONE_HOME; then start Hone "
            "again."
        ).format(home())
        title = _("Nothing can be kept in Hone's folder")
        self.strip.show_message(Level.WARNING, title, f"{reason} {meaning}\n{advice}")
        self.show()


class PageStack(QStackedWidget):
    """Makes pages, passes on what they ask for, and ends their work.

    Signals:
        start_requested: `RunOptions` to train with.
        check_requested: The name of a device to be checked.
        run_opened: A `RunFolder` to be shown.
        run_changed: The `RunFolder` whose state has changed.
        resume_requested: A `RunFolder` to go on with.
        extend_requested: A `RunFolder` that is over, and the `core.runs.start.Extension` to train it for.
        try_requested: A `RunFolder` whose model is to be tried.
        edit_requested: A tree of options to start anew from.
        compare_requested: A list of `RunFolder` to hold against each other.
        list_requested: The list of runs is to be shown.
        settings_changed: The `Settings` that were chosen.
        queue_shown: A `QueueCard` that is to show who waits.
        use_requested: A `core.benchmark.plan.Variant` whose options are to be carried into New run.
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
        self.gpu = GpuInstaller(parent=self)
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
            self.new_run.show_gpu(self.gpu)
        self._machine = machine
        self.gpu.look()
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
        self.new_run.close_questions()
        self.gpu.close()
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
            from gui.runs.page import RunsPage

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
            from gui.run.page import RunPage  # brings NumPy and pyqtgraph

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
            from gui.runs.compare import ComparePage  # brings NumPy and pyqtgraph

            self.compare = ComparePage(self._theme)
            self.compare.left.connect(self.list_requested)
            self.addWidget(self.compare)
        return self.compare

    def try_page(self) -> TryPage:
        """The page Try it."""
        if self.try_it is None:
            from gui.try_it.page import TryPage

            self.try_it = TryPage(self._theme, self._runs_folder)
        if self.indexOf(self.try_it) < 0:
            self.addWidget(self.try_it)
        return self.try_it

    def benchmark_page(self) -> BenchmarkPage:
        """The page Benchmark."""
        if self.benchmark is None:
            from gui.benchmark.page import BenchmarkPage

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
            from gui.settings.page import SettingsPage

            self.settings = SettingsPage(self._chosen(), ask=self._ask, gpu=self.gpu)
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


log = logging.getLogger("hone")


FIRST_SIZE = (1280, 820)
SMALLEST_SIZE = (1024, 660)
FRAME = QMargins(8, 40, 8, 8)
"""As much as any system puts around a window, which isn't known before it is shown."""


class MainWindow(QMainWindow):
    """Everything a person sees of Hone.

    Args:
        theme: The colours.
        chosen: The person's settings.
        ask: Starts an engine job.
        ask_about_closing: Asks what becomes of runs that train when the window closes.
        ask_turn: Asks when a run is to begin that others are ahead of.
        tools: What is asked about memory, where that isn't this computer's.
    """

    def __init__(
        self,
        theme: Theme,
        chosen: Settings,
        ask: Ask,
        ask_about_closing: Asking = ask_about,
        *,
        tools: MemoryTools | None = None,
        ask_turn: AskTurn = ask_turn,
    ) -> None:
        super().__init__()
        self._ask_turn = ask_turn
        self._theme = theme
        self._settings = chosen
        self._ask = ask
        self._ask_about_closing = ask_about_closing
        self._devices = JobTask(ask, "devices", MachineReport, self)
        self._devices.done.connect(self._take_machine)
        self._devices.failed.connect(self._devices_failed)
        self.sidebar = Sidebar(theme)
        self.device_check: DeviceCheckDialog | None = None
        self._keeps_settings = True
        self._session_ends = False
        self._home_strip = HomeStrip()
        self._aside_strip = AsideStrip()
        self._live_runs = LiveRunsThread(self._runs_folder, self)
        self.found = FoundRuns(self, self._live_runs)
        self.pages = PageStack(theme, ask, lambda: self._settings, NewRunPage(theme, ask, tools))
        self._connect_pages()
        self._lay_out()
        self._watch_runs()
        for part in (self.sidebar, self._home_strip, self.found.strip, self._aside_strip):
            theme.prepare(part)
        theme.changed.connect(self._dress)
        self.pages.currentChanged.connect(self._dress)
        self.sidebar.place_chosen.connect(self.go_to)
        self.sidebar.machine.set_trains(self._live_runs.trains)
        Commands(self)
        self.go_to(Place.NEW_RUN)

    @property
    def new_run(self) -> NewRunPage:
        """The page New run."""
        return self.pages.new_run

    @property
    def run(self) -> RunPage | None:
        return self.pages.run

    @property
    def runs(self) -> RunsPage | None:
        """The page Runs; None: not shown yet."""
        return self.pages.runs

    @property
    def compare(self) -> ComparePage | None:
        """The page that compares runs; None: not shown yet."""
        return self.pages.compare

    @property
    def settings(self) -> SettingsPage | None:
        """The page Settings; None: not shown yet."""
        return self.pages.settings

    @property
    def try_it(self) -> TryPage | None:
        """The page Try it; None: not shown yet."""
        return self.pages.try_it

    @property
    def benchmark(self) -> BenchmarkPage | None:
        """The page Benchmark; None: not shown yet."""
        return self.pages.benchmark

    def ask_for_devices(self) -> None:
        """Find out in the background what this machine can do; the page fills in as the answer comes."""
        self._devices.put()

    def work_without_home(self, error: OSError) -> None:
        """Say above every page that Hone's own folder can't be used; nothing is written there from now on."""
        self._keeps_settings = False
        log.warning("Hone's folder can't be used: %s", error)
        self._home_strip.show_trouble(error)

    def go_to(self, place: Place) -> None:
        """Show a page, made when it is first wanted."""
        self.pages.go_to(place)
        self.sidebar.show_place(place)

    def start_run(self, options: RunOptions) -> None:
        """Make a run's folder and start it, now or in its turn; what goes wrong is said on the page."""
        turn = self._turn_of(options)
        if turn is Turn.NEVER:
            return
        try:
            known = self.new_run.known_memory
            run = runs.create(options, settings.runs_folder(self._settings), forecast=known)
        except UserError as error:
            self.new_run.show_error(error)
            return
        self.show_run(run, partial(starting.start, run, queued=turn is Turn.WAIT))

    def _turn_of(self, options: RunOptions) -> Turn:
        """When a run begins: now, where nothing trains on its device; else the person is asked."""
        awaited = queue.ahead_of(options.device.name)
        if awaited is None:
            return Turn.NOW
        title = self.found.title_of(awaited.behind)
        return self._ask_turn(msgspec.structs.replace(awaited, behind=title), self)

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run, and let `begin` start it first."""
        self._live_runs.follow(run, starts=begin is not None)
        self.pages.show_run(run, begin)
        self.found.note_shown(run)
        self._attention.refresh()
        self.sidebar.show_place(Place.RUNS)

    def try_run(self, run: RunFolder) -> None:
        """Ask a run's model."""
        self.pages.try_page().show_run(run)
        self.go_to(Place.TRY)

    def resume_run(self, run: RunFolder) -> None:
        """Show a run that is over, and go on with it."""
        self.show_run(run)
        if (view := self.pages.run_page().view) is not None:
            view.resume()

    def extend_run(self, run: RunFolder, to: Extension) -> None:
        """Show a run that is over, and train it longer."""
        self.show_run(run)
        if (view := self.pages.run_page().view) is not None:
            view.extend(to)

    def compare_runs(self, runs: list[RunFolder]) -> None:
        """Hold several runs against each other."""
        self.pages.compare_runs(runs)
        self.sidebar.show_place(Place.RUNS)

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open what was named, opened with Hone or dropped: the first, and say which were left aside."""
        named = list(dict.fromkeys(paths))
        if named:
            self.open_path(named[0])
            self._aside_strip.show_names([path.name or str(path) for path in named[1:]])

    def open_path(self, path: Path) -> None:
        """Open a run file or a run's folder; anything else becomes the data to train on."""
        self.found.leave_be()
        if is_there(path / "run.toml"):
            self.show_run(RunFolder(path))
            return
        self.go_to(Place.NEW_RUN)
        if path.suffix.lower() in run_file.ENDINGS:
            self.new_run.load_file(path)
        else:
            self.new_run.set_data(path)

    def come_forward(self, paths: Sequence[Path]) -> None:
        """Show this window before all others, and in it what a second start was asked to open."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        self.open_paths(paths)

    def edit(self, tree: dict[str, object]) -> None:
        """Fill the New run page from a run."""
        self.new_run.load_tree(tree)
        self.go_to(Place.NEW_RUN)

    def use_variant(self, variant: Variant) -> None:
        """Carry the options of a measured variant into New run, where they are listed and can be undone."""
        self.go_to(Place.NEW_RUN)
        self.new_run.lay_changes(variant.title, variant.note, variant.changes)

    def check_device(self, name: str) -> None:
        """Compare in the background what a device computes with what the CPU does, and show what came of it."""
        from gui.settings.page import DeviceCheckDialog

        self.device_check = DeviceCheckDialog(self._ask, name, self)
        self.device_check.finished.connect(self._forget_check)
        self.device_check.open()

    def start_shown(self) -> None:
        """Start what New run or Benchmark holds, if it is shown and nothing is wrong."""
        shown = self.pages.currentWidget()
        if shown is self.new_run:
            self.new_run.start()
        elif shown is not None and shown is self.benchmark:
            self.benchmark.start()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = dropped_paths(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.open_paths(paths)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._live_runs.begin()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(event.rect(), QColor(self._theme.tokens.background))

    def childEvent(self, event: QChildEvent) -> None:
        super().childEvent(event)
        if event.type() is QEvent.Type.ChildPolished and isinstance(dialog := event.child(), QDialog):
            self._theme.dress(dialog)

    def closeEvent(self, event: QCloseEvent) -> None:
        ask = ask_at_shutdown if self._session_ends else self._ask_about_closing
        if not may_close(self._underway(), self, ask, is_measuring=self.pages.is_measuring):
            event.ignore()
            return
        self._keep(msgspec.structs.replace(self._settings, window_geometry=self._geometry()))
        self.found.end_work()
        self.end_work()
        event.accept()

    def end_session(self, manager: QSessionManager) -> None:
        """The computer is about to shut down: ask what becomes of runs, or pause them where nobody may be asked."""
        if not manager.allowsInteraction():
            ask_all(self._underway(), Action.PAUSE)
            return
        self._session_ends = True
        if not self.close():
            manager.cancel()
        self._session_ends = False
        manager.release()

    def end_work(self) -> None:
        self._devices.close()
        self._live_runs.stop()
        self.sidebar.machine.stop()
        if self.device_check is not None:
            self.device_check.reject()
        self.pages.end_work()

    def _lay_out(self) -> None:
        self.setWindowTitle("Hone")
        self.setAcceptDrops(True)
        centre = QWidget()
        centre.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        row = QHBoxLayout(centre)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.sidebar)
        column = QVBoxLayout()
        column.setSpacing(0)
        column.addWidget(self._home_strip)
        column.addWidget(self.found.strip)
        column.addWidget(self._aside_strip)
        column.addWidget(self.pages, 1)
        row.addLayout(column, 1)
        self.setCentralWidget(centre)
        room = self.screen().availableGeometry() - FRAME
        self.setMinimumSize(QSize(*SMALLEST_SIZE).boundedTo(room.size()))
        first = QRect(room.topLeft(), QSize(*FIRST_SIZE).boundedTo(room.size()))
        first.moveCenter(room.center())
        self.setGeometry(first)
        kept = self._settings.window_geometry
        if kept:
            self.restoreGeometry(QByteArray.fromBase64(kept.encode()))
        centre.setFocus()

    def _dress(self) -> None:
        """Give what is seen the colours in force; a page that is hidden gets them when it is shown."""
        strips = (self._home_strip, self.found.strip, self._aside_strip)
        dialogs = self.findChildren(QDialog, options=Qt.FindChildOption.FindDirectChildrenOnly)
        for part in (self.sidebar, *strips, self.pages.currentWidget(), *dialogs):
            if part is not None:
                self._theme.dress(part)
        self.update()

    def _watch_runs(self) -> None:
        """Draw attention to runs that train, whichever page is shown."""
        self._attention = Attention(self, lambda: self._settings.notify, self.pages.run_on_screen)
        self._live_runs.changed.connect(self._attention.show_live)
        self._live_runs.run_ended.connect(self._attention.tell_end)
        self._live_runs.changed.connect(self.pages.take_live)
        self.pages.currentChanged.connect(self._attention.refresh)

    def _connect_pages(self) -> None:
        pages = self.pages
        pages.start_requested.connect(self.start_run)
        pages.gpu.installed.connect(self.ask_for_devices)
        pages.check_requested.connect(self.check_device)
        pages.run_opened.connect(self.show_run)
        pages.run_changed.connect(self._live_runs.look_soon)
        pages.resume_requested.connect(self.resume_run)
        pages.extend_requested.connect(self.extend_run)
        pages.try_requested.connect(self.try_run)
        pages.edit_requested.connect(self.edit)
        pages.compare_requested.connect(self.compare_runs)
        pages.list_requested.connect(partial(self.go_to, Place.RUNS))
        pages.settings_changed.connect(self._keep)
        pages.queue_shown.connect(self.found.attach)
        pages.use_requested.connect(self.use_variant)
        pages.measuring.connect(self.sidebar.show_measuring)

    def _geometry(self) -> str:
        return self.saveGeometry().toBase64().toStdString()

    def _runs_folder(self) -> Path:
        return settings.runs_folder(self._settings)

    def _underway(self) -> list[Underway]:
        return underway(self._runs_folder(), self._live_runs.known())

    def _keep(self, chosen: Settings) -> None:
        self._settings = chosen
        self._theme.set_appearance(chosen.appearance)
        if not self._keeps_settings:
            return
        try:
            settings.save(chosen)
        except OSError as error:
            log.error("the settings can't be saved: %s", error)

    def _take_machine(self, machine: MachineReport) -> None:
        self.sidebar.machine.set_machine(machine)
        self.pages.set_machine(machine)

    def _forget_check(self) -> None:
        self.device_check = None

    def _devices_failed(self, error: UserError) -> None:
        self.new_run.show_error(error)
