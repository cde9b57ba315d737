"""The main window: a sidebar, one page at a time, messages above it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import (
    QByteArray,
    QChildEvent,
    QCoreApplication,
    QEvent,
    QMargins,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QCloseEvent,
    QColor,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QSessionManager,
    QShowEvent,
)
from PySide6.QtWidgets import QDialog, QMainWindow, QPushButton, QStackedWidget, QToolButton, QWidget

from core.base import settings
from core.base.errors import UserError
from core.base.files import is_there
from core.base.language import _
from core.base.settings import Settings
from core.hosts.install import with_computers
from core.memory.model import Forecast
from core.options import RunOptions, run_file
from core.options.device_support import MachineReport
from core.options.past_runs import asked_title
from core.options.presets import Preset
from core.runs import library as runs
from core.runs import queue
from core.runs import start as starting
from core.runs.compare import create_sweep
from core.runs.folder import Action, RunFolder
from core.runs.queue import LiveRun
from core.runs.start import Extension
from core.services.sending import agree_to_new
from gui.app.commands import Commands
from gui.app.live_runs import (
    AskClosing,
    LiveRunsThread,
    Notifications,
    Underway,
    UnfinishedRuns,
    ask_on_close,
    may_close,
    question_about,
    request_all,
    underway,
)
from gui.app.sidebar import Place, Sidebar
from gui.base.background import Ask, FileWork, JobTask, end_left
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.run.words import AskTurn, Turn, ask_turn
from gui.settings.gpu_install import GpuInstaller
from gui.widgets.cards import PAGES, Strip
from gui.widgets.inputs import dropped_paths
from gui.widgets.labels import role_label
from gui.widgets.layout import InOrder, hbox, vbox

if TYPE_CHECKING:
    from core.benchmark.plan import Plan, Row
    from gui.new_run.memory_state import MemoryTools
    from gui.new_run.page import NewRunPage
    from gui.new_run.welcome import WelcomePage
    from gui.run.follower import Begin
    from gui.run.header import RunAction
    from gui.run.page import RunPage
    from gui.runs.compare import ComparePage
    from gui.runs.page import RunsPage
    from gui.settings.page import DeviceCheckDialog, SettingsPage
    from gui.try_it.page import TryPage

log = logging.getLogger("hone")


FIRST_SIZE = (1280, 820)
SMALLEST_SIZE = (1024, 660)
FRAME = QMargins(8, 40, 8, 8)
"""Upper limit of the window frame, which isn't known before the window is shown."""

DROP_MARGINS = QMargins(SPACING, SPACING, SPACING, SPACING)


class MainWindow(InOrder, QMainWindow):
    """The main window. Pages are made when they are first shown; all but New run are None until then."""

    form_made = Signal(object)  # the `NewRunPage`, which is about to be shown or used

    def __init__(
        self,
        theme: Theme,
        chosen: Settings,
        ask: Ask,
        ask_about_closing: AskClosing = ask_on_close,
        *,
        tools: MemoryTools | None = None,
        ask_turn: AskTurn = ask_turn,
    ) -> None:
        super().__init__()
        self._ask_turn = ask_turn
        self._theme = theme
        self._settings = chosen
        self._ask = ask
        self._tools = tools
        self._ask_about_closing = ask_about_closing
        self._devices = JobTask(ask, "devices", MachineReport, self, done=self._on_machine)
        self.device_check: DeviceCheckDialog | None = None
        self._saves_settings = True
        self._session_ends = False
        self._machine: MachineReport | None = None
        self._live_runs = LiveRunsThread(self._runs_folder, self)
        self.found = UnfinishedRuns(self, self._live_runs)
        self.sidebar = Sidebar(theme, self.found.strip.beside)
        self.gpu = GpuInstaller(parent=self)
        self.gpu.installed.connect(self.ask_for_devices)
        self._sweeps = FileWork(self)
        self._new_run: NewRunPage | None = None
        self.welcome: WelcomePage | None = None
        self.run: RunPage | None = None
        self.runs: RunsPage | None = None
        self.compare: ComparePage | None = None
        self.settings: SettingsPage | None = None
        self.try_it: TryPage | None = None
        self.pages = QStackedWidget()
        self.pages.setObjectName(PAGES)
        self.drop_target = role_label(Role.DROP_TARGET, _("Drop data or a run file here"), self)
        self.drop_target.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.drop_target.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.drop_target.hide()
        self._lay_out()
        self._notifications = Notifications(self, lambda: self._settings.notify, self.run_on_screen)
        self._live_runs.changed.connect(self._notifications.show_live)
        self._live_runs.changed.connect(self._on_live)
        self._live_runs.run_ended.connect(self._notifications.notify_end)
        for part in (self.menuBar(), self.sidebar, self.found.strip):
            theme.prepare(part)
        theme.changed.connect(self._dress)
        self.pages.currentChanged.connect(self._dress)
        self.pages.currentChanged.connect(self._notifications.refresh)
        self.pages.currentChanged.connect(
            lambda: self.pages.setFocusProxy(self.pages.currentWidget() or self)
        )
        for notices in (self.found.strip, self.found.strip.beside):
            notices.setFocusProxy(self.pages)
        self.sidebar.place_chosen.connect(self.go_to)
        self.sidebar.machine.trains = self._live_runs.trains
        self.commands = Commands(self, theme)

    def run_on_screen(self) -> RunFolder | None:
        """The run whose page is shown, if any."""
        view = None if self.run is None else self.run.view
        return view.run if view is not None and self.pages.currentWidget() is self.run else None

    def run_commands(self) -> Mapping[RunAction, Callable[[], object]]:
        """What can be done now with the run that is shown, or with those selected in the list."""
        shown = self.pages.currentWidget()
        if self.run is not None and shown is self.run and self.run.view is not None:
            buttons = self.run.view.header.buttons
            return {action: partial(buttons.request, action) for action in buttons.offers()}
        if self.runs is not None and shown is self.runs:
            return self.runs.commands(self.runs.chosen())
        return {}

    def ask_for_devices(self) -> None:
        """Find out in the background what this machine can do."""
        self._devices.put()

    def work_without_home(self, error: OSError) -> None:
        """Show that Hone's own folder can't be used, and write nothing there from now on."""
        self._saves_settings = False
        log.warning("Hone's folder can't be used: %s", error)
        self.found.strip.show_home_error(error)

    def go_to(self, place: Place) -> None:
        """Show a page, which is created when it is first shown."""
        pages: dict[Place, Callable[[], QWidget]] = {
            Place.WELCOME: self.welcome_page,
            Place.NEW_RUN: lambda: self.new_run,
            Place.RUNS: self.runs_page,
            Place.TRY: self.try_page,
            Place.SETTINGS: self.settings_page,
        }
        self.pages.setCurrentWidget(pages[place]())
        self.sidebar.show_place(place)

    def start_run(self, options: RunOptions) -> None:
        """Start what the form asks for; it becomes the form of another run."""
        then = partial(self.new_run.begin_next, asked_title(options))
        self._start(options, self.new_run.show_error, self.new_run.known_memory, then)

    def test_run(self, options: RunOptions) -> None:
        """Start a run that evaluates the model of the one that is shown."""
        view = self.run_page().view
        assert view is not None, "it was asked for there"
        begin = partial(self._start, options, view.show_error)
        view.sending.ask((options,), begin, chosen=("data.eval", "model.source"))

    def _start(
        self,
        options: RunOptions,
        show_error: Callable[[UserError], None],
        known: Forecast | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a run's folder, do `then`, and start and show the run, now or in its turn."""
        turn = self._turn_of(options)
        if turn is Turn.NEVER:
            return
        try:
            created = runs.create_all(options, settings.runs_folder(self._settings), forecast=known)
            agree_to_new(created)
        except UserError as error:
            show_error(error)
            return
        then()
        self.show_run(created[0], lambda: starting.start_all(created, queued=turn is Turn.WAIT)[0])

    def start_sweep(self, options: RunOptions, values: Mapping[str, str]) -> None:
        """Queue a run for each of these values, and compare them."""

        def show(made: list[RunFolder]) -> None:
            self.new_run.begin_next(asked_title(options))
            self.compare_runs(made)

        self._sweeps.put(lambda: self._queue_all(create_sweep(options, values, self._runs_folder())), show)

    def start_benchmark(self, plan: Plan) -> None:
        """Queue the runs of a benchmark, and compare them."""
        from core.benchmark.plan import create

        def begin() -> list[RunFolder]:
            return self._queue_all([*create(plan, self._runs_folder()).runs.values()])

        self._sweeps.put(begin, self.compare_runs)

    def _queue_all(self, runs: list[RunFolder]) -> list[RunFolder]:
        starting.start_all(runs, queued=True)
        return runs

    def _turn_of(self, options: RunOptions) -> Turn:
        """When a run begins: now if nothing trains on its device; else the person is asked. Elsewhere it may wait."""
        if options.device.computers:
            return Turn.WAIT
        awaited = queue.ahead_of(options.device.name)
        return Turn.NOW if awaited is None else self._ask_turn(awaited, self)

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run, which `begin` starts first."""
        self._live_runs.follow(run, starts=begin is not None)
        page = self.run_page()
        page.show_run(run, begin)
        self.pages.setCurrentWidget(page)
        page.setFocus()
        self.found.strip.leave_out(run)
        self._notifications.refresh()
        self.sidebar.show_place(Place.RUNS)

    def try_run(self, run: RunFolder) -> None:
        """Open a run's model under "Try it"."""
        self.try_page().show_run(run)
        self.go_to(Place.TRY)

    def resume_run(self, run: RunFolder, longer: Extension | None = None) -> None:
        self.show_run(run)
        if (view := self.run_page().view) is not None:
            view.resume(longer)

    def compare_runs(self, runs: list[RunFolder]) -> None:
        page = self.compare_page()
        page.show_runs(runs)
        self.pages.setCurrentWidget(page)
        self.sidebar.show_place(Place.RUNS)

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open the first of these files or folders, and show which ones were not opened."""
        named = list(dict.fromkeys(paths))
        if named:
            self.open_path(named[0])
            self.found.strip.show_aside([path.name or str(path) for path in named[1:]])

    def open_path(self, path: Path) -> None:
        """Open a run file or a run's folder; anything else becomes the training data."""
        self.found.has_request = True
        if is_there(path / "run.toml"):
            self.show_run(RunFolder(path))
            return
        self.go_to(Place.NEW_RUN)
        if path.suffix.lower() in run_file.ENDINGS:
            self.new_run.load_file(path)
        else:
            self.new_run.set_data(path)

    def open_example(self, example: Preset) -> None:
        """Fill the New run page from an example, ready to be started."""
        self.go_to(Place.NEW_RUN)
        self.new_run.load_example(example)
        self.new_run.setFocus()

    def come_forward(self, paths: Sequence[Path]) -> None:
        """Raise this window, as large as it was, and open files of a second start."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        self.open_paths(paths)

    def edit(self, tree: dict[str, object]) -> None:
        """Fill the New run page from a run."""
        self.go_to(Place.NEW_RUN)
        self.new_run.open_run(tree)

    def use_method(self, row: Row) -> None:
        """Use the options of a benchmark's row in New run, where they are listed and can be undone."""
        self.go_to(Place.NEW_RUN)
        self.new_run.apply_changes(row.title, row.note, row.changes)

    def check_device(self, name: str) -> None:
        """Compare a device's results with those of the CPU, and show them in a dialog."""
        from gui.settings.page import DeviceCheckDialog

        self.device_check = DeviceCheckDialog(self._ask, name, self)
        self.device_check.finished.connect(lambda: setattr(self, "device_check", None))
        self.device_check.open()

    def start_shown(self) -> None:
        """Start New run, if it is shown and complete."""
        if self.pages.currentWidget() is self.new_run:
            self.new_run.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return presses the button with the focus, as Space does.

        Escape clears the filter or closes the message that has the focus, else the topmost one that offers nothing, or
        leads back from a comparison.
        """
        focused, is_return = self.focusWidget(), event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and isinstance(focused, QPushButton | QToolButton):
            for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
                QCoreApplication.sendEvent(focused, QKeyEvent(kind, Qt.Key.Key_Space, event.modifiers()))
            return
        strips = [strip for strip in self.findChildren(Strip) if strip.isVisible() and strip.isEnabled()]
        closable = [strip for strip in strips if strip.is_closable]
        inside = [strip for strip in closable if focused is not None and strip.isAncestorOf(focused)]
        shown = inside or [strip for strip in closable if not strip.offers]
        searched, is_escape = self.commands.searched(), event.key() == Qt.Key.Key_Escape
        if is_escape and searched is not None and searched.hasFocus() and searched.text():
            searched.clear()
        elif is_escape and shown:
            min(shown, key=lambda strip: strip.mapTo(self, QPoint()).y()).dismiss()
        elif is_escape and self.compare is not None and self.compare.isVisible():
            self.compare.left.emit()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()
            corner = self.pages.mapTo(self, QPoint())
            self.drop_target.setGeometry(QRect(corner, self.pages.size()) - DROP_MARGINS)
            self._theme.dress(self.drop_target)
            self.drop_target.show()
            self.drop_target.raise_()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.drop_target.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drop_target.hide()
        paths = dropped_paths(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.open_paths(paths)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.found.note_page()
        self._live_runs.begin()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(event.rect(), QColor(self._theme.tokens.background))

    def childEvent(self, event: QChildEvent) -> None:
        super().childEvent(event)
        if event.type() is QEvent.Type.ChildPolished and isinstance(dialog := event.child(), QDialog):
            self._theme.dress(dialog)

    def closeEvent(self, event: QCloseEvent) -> None:
        runs = self._underway()
        question = question_about(runs, self, is_shutting_down=self._session_ends)
        if not may_close(runs, question, self._ask_about_closing):
            event.ignore()
            return
        self._save_settings(
            msgspec.structs.replace(
                self._settings,
                window_geometry=self.saveGeometry().toBase64().toStdString(),
                last_page=self.sidebar.place.name,
            )
        )
        self.found.end_work()
        self.end_work()
        event.accept()

    def end_session(self, manager: QSessionManager) -> None:
        """When the computer shuts down: ask about unfinished runs, or pause them if questions aren't allowed."""
        self._session_ends = True
        if not manager.allowsInteraction():
            request_all(self._underway(), Action.PAUSE)
            return
        if not self.close():
            manager.cancel()
        self._session_ends = False
        manager.release()

    def end_work(self) -> None:
        self.commands.close_guide()
        self._devices.close()
        self._live_runs.stop()
        self._sweeps.end_work()
        self.sidebar.machine.stop()
        if self.device_check is not None:
            self.device_check.reject()
        self.gpu.close()
        pages = (self._new_run, self.settings, self.try_it, self.run, self.compare, self.runs)
        for page in pages:
            if page is not None:
                page.end_work()
        end_left()
        # Qt removes the pages one by one and signals each, when the window's objects are deleted already
        self.pages.blockSignals(True)

    @property
    def new_run(self) -> NewRunPage:
        """The page with the form. To make it takes as long as to show the window."""
        if self._new_run is None:
            from gui.new_run.page import NewRunPage

            page = self._new_run = NewRunPage(self._theme, self._ask, self._tools)
            page.start_requested.connect(self.start_run)
            page.quick_try_requested.connect(lambda options: self._start(options, page.show_error))
            page.sweep_requested.connect(self.start_sweep)
            page.benchmark_requested.connect(self.start_benchmark)
            page.check_requested.connect(self.check_device)
            page.welcome_wanted.connect(partial(self.go_to, Place.WELCOME))
            self._devices.failed.connect(page.show_error)
            self._sweeps.failed.connect(page.show_error)
            self._add_page(page)
            self.form_made.emit(page)
        return self._new_run

    def welcome_page(self) -> WelcomePage:
        if self.welcome is None:
            from gui.new_run.welcome import WelcomePage

            page = self.welcome = WelcomePage(self._runs_folder)
            page.example_chosen.connect(self.open_example)
            page.form_wanted.connect(partial(self.go_to, Place.NEW_RUN))
            page.file_wanted.connect(self._ask_for_file)
            self._add_page(page)
        return self.welcome

    def runs_page(self) -> RunsPage:
        if self.runs is None:
            from gui.runs.page import RunsPage

            page = self.runs = RunsPage(self._theme, self._runs_folder)
            page.run_opened.connect(self.show_run)
            page.edit_requested.connect(self.edit)
            page.compare_requested.connect(self.compare_runs)
            page.resume_requested.connect(self.resume_run)
            page.extend_requested.connect(self.resume_run)
            page.try_requested.connect(self.try_run)
            page.runs_gone.connect(self._forget_runs)
            self.found.attach(page.queue)
            self._add_page(page)
        return self.runs

    def run_page(self) -> RunPage:
        if self.run is None:
            from gui.run.page import RunPage  # brings NumPy and pyqtgraph

            page = self.run = RunPage(self._theme)
            page.edit_requested.connect(self.edit)
            page.run_changed.connect(self._live_runs.poll_soon)
            page.bin_requested.connect(self._throw_away)
            page.try_requested.connect(self.try_run)
            page.test_requested.connect(self.test_run)
            page.compare_requested.connect(lambda run: self.compare_runs([run]))
            page.run_opened.connect(self.show_run)
            page.move_requested.connect(self.found.move)
            self._add_page(page)
        return self.run

    def compare_page(self) -> ComparePage:
        if self.compare is None:
            from gui.runs.compare import ComparePage  # brings NumPy and pyqtgraph

            self.compare = ComparePage(self._theme)
            self.compare.left.connect(partial(self.go_to, Place.RUNS))
            self.compare.run_opened.connect(self.show_run)
            self.compare.use_requested.connect(self.use_method)
            self._add_page(self.compare)
        return self.compare

    def try_page(self) -> TryPage:
        if self.try_it is None:
            from gui.try_it.page import TryPage

            self.try_it = TryPage(self._theme, self._runs_folder)
        if self.pages.indexOf(self.try_it) < 0:
            self._live_runs.run_ended.connect(self.try_it.find_runs)
            self._add_page(self.try_it)
        return self.try_it

    def settings_page(self) -> SettingsPage:
        if self.settings is None:
            from gui.settings.page import SettingsPage

            page = self.settings = SettingsPage(self._settings, ask=self._ask, gpu=self.gpu)
            page.set_machine(self._machine)
            page.settings_changed.connect(self._save_settings)
            page.check_requested.connect(self.check_device)
            page.computers.changed.connect(self._offer_devices)
            page.computers.guide_wanted.connect(partial(self.commands.open_guide, "computers.md"))
            self._add_page(page)
        return self.settings

    def _add_page(self, page: QWidget) -> None:
        self._theme.prepare(page)
        self.pages.addWidget(page)

    def _lay_out(self) -> None:
        self.setWindowTitle("Hone")
        self.setAcceptDrops(True)
        centre = QWidget()
        centre.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setCentralWidget(centre)
        column = vbox(self.found.strip, (self.pages, 1), spacing=0)
        centre.setLayout(hbox(self.sidebar, (column, 1), spacing=0))
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
        """Update the colours of what is visible; hidden pages get them when they are shown."""
        dialogs = self.findChildren(QDialog, options=Qt.FindChildOption.FindDirectChildrenOnly)
        for part in (self.menuBar(), self.sidebar, self.found.strip, self.pages.currentWidget(), *dialogs):
            if part is not None:
                self._theme.dress(part)
        self.update()

    def _on_live(self, live: tuple[LiveRun, ...]) -> None:
        if self.try_it is not None:
            self.try_it.take_live(live)  # a model under Try it frees its memory for runs

    def _ask_for_file(self) -> None:
        self.go_to(Place.NEW_RUN)
        self.new_run.open_file()

    def _forget_runs(self, gone: list[Path]) -> None:
        if self.run is not None:
            self.run.forget(gone)

    def _throw_away(self, run: RunFolder) -> None:
        self.go_to(Place.RUNS)
        self.runs_page().throw_away([run])

    def _runs_folder(self) -> Path:
        return settings.runs_folder(self._settings)

    def _underway(self) -> list[Underway]:
        """The unfinished runs; while this computer shuts down, without those that train on others."""
        found = underway(self._runs_folder(), self._live_runs.known())
        return [one for one in found if not (self._session_ends and one.run.connection() is not None)]

    def _save_settings(self, chosen: Settings) -> None:
        self._settings = chosen
        self._theme.set_appearance(chosen.appearance)
        if not self._saves_settings:
            return
        try:
            settings.save(chosen)
        except OSError as error:
            log.error("the settings can't be saved: %s", error)

    def _offer_devices(self) -> None:
        """Offer the devices of this computer and of the others for new runs."""
        if self._machine is not None:
            self.new_run.set_machine(with_computers(self._machine))

    def _on_machine(self, machine: MachineReport) -> None:
        if self._machine is None:  # not while the window is created, which should be fast
            self.new_run.show_gpu(self.gpu)
        self._machine = machine
        self.gpu.look()
        self.sidebar.machine.set_machine(machine)
        self._offer_devices()
        if self.settings is not None:
            self.settings.set_machine(machine)
