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
from PySide6.QtWidgets import QDialog, QMainWindow, QPushButton, QToolButton, QWidget

from core.base import settings
from core.base.errors import UserError
from core.base.files import is_there
from core.base.language import _
from core.base.settings import Settings
from core.hosts.install import with_computers
from core.memory.model import Forecast
from core.options import RunOptions, run_file
from core.options.device_support import MachineReport
from core.runs import library as runs
from core.runs import queue
from core.runs import start as starting
from core.runs.compare import create_sweep
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.notes import asked_title
from core.runs.queue import LiveRun
from core.services.sending import agree_to_new
from gui.app.closing import (
    AskClosing,
    Underway,
    ask_on_close,
    may_close,
    question_about,
    request_all,
    underway,
)
from gui.app.commands import Commands
from gui.app.live_runs import LiveRunsThread, UnfinishedRuns
from gui.app.navigator import Navigator, PageMakers
from gui.app.notifications import Notifications
from gui.app.sidebar import Place, Sidebar
from gui.base.background import Ask, EngineWork, FileWork, end_left
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.run.words import AskTurn, BeginTurn, ask_turn
from gui.settings.gpu_install import GpuInstaller
from gui.widgets.cards import Strip
from gui.widgets.inputs import dropped_paths
from gui.widgets.labels import role_label
from gui.widgets.layout import InOrder, hbox, vbox

if TYPE_CHECKING:
    from core.benchmark.plan import Plan
    from gui.new_run.memory_state import MemoryTools
    from gui.new_run.page import NewRunPage
    from gui.new_run.welcome import WelcomePage
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
    """The main window: starts runs, opens files, and asks about unfinished runs when it is closed."""

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
        self.theme = theme
        self._settings = chosen
        self._ask = ask
        self._tools = tools
        self._ask_about_closing = ask_about_closing
        self.devices: EngineWork[MachineReport] = EngineWork(self, done=self._on_machine)
        self.device_check: DeviceCheckDialog | None = None
        self._saves_settings = True
        self._session_ends = False
        self._machine: MachineReport | None = None
        self.live_runs = LiveRunsThread(self._runs_folder, self)
        self.pages = Navigator(
            theme,
            PageMakers(
                new_run=self._make_new_run,
                welcome=self._make_welcome,
                run=self._make_run,
                runs=self._make_runs,
                compare=self._make_compare,
                settings=self._make_settings,
                try_it=self._make_try_it,
            ),
        )
        self.found = UnfinishedRuns(self.pages, self.live_runs, self)
        self.sidebar = Sidebar(theme, self.found.strip.beside)
        self.gpu = GpuInstaller(parent=self)
        self.gpu.installed.connect(self.ask_for_devices)
        self._sweeps = FileWork(self)
        self.drop_target = role_label(Role.DROP_TARGET, _("Drop data or a run file here"), self)
        self.drop_target.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.drop_target.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.drop_target.hide()
        self._lay_out()
        self._notifications = Notifications(self, lambda: self._settings.notify, self.pages.view_on_screen)
        self._notifications.clicked.connect(partial(self.come_forward, ()))
        self.live_runs.changed.connect(self._notifications.show_live)
        self.live_runs.changed.connect(self._on_live)
        self.live_runs.run_ended.connect(self._notifications.notify_end)
        for part in (self.menuBar(), self.sidebar, self.found.strip):
            theme.prepare(part)
        theme.changed.connect(self._dress)
        self.pages.currentChanged.connect(self._dress)
        self.pages.currentChanged.connect(self._notifications.refresh)
        for notices in (self.found.strip, self.found.strip.beside):
            notices.setFocusProxy(self.pages)
        self.sidebar.place_chosen.connect(self.pages.go_to)
        self.pages.place_shown.connect(self.sidebar.show_place)
        self.pages.run_shown.connect(self.live_runs.follow)
        self.pages.run_shown.connect(self.found.strip.leave_out)
        self.pages.run_shown.connect(self._notifications.refresh)
        self.found.working_changed.connect(self.sidebar.show_working)
        self.sidebar.machine.trains = self.live_runs.trains
        self.commands = Commands(self, self.pages, theme)

    def ask_for_devices(self) -> None:
        """Find out in the background what this machine can do."""
        self.devices.ask(self._ask, "devices", MachineReport)

    def work_without_home(self, error: OSError) -> None:
        """Show that Hone's own folder can't be used, and write nothing there from now on."""
        self._saves_settings = False
        log.warning("Hone's folder can't be used: %s", error)
        self.found.strip.show_home_error(error)

    def start_run(self, options: RunOptions) -> None:
        """Start what the form asks for; it becomes the form of another run."""
        then = partial(self.pages.new_run.begin_next, asked_title(options))
        self._start(options, self.pages.new_run.show_error, self.pages.new_run.known_memory, then)

    def test_run(self, options: RunOptions) -> None:
        """Start a run that evaluates the model of the one that is shown."""
        view = self.pages.run_page().view
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
        if turn is BeginTurn.NEVER:
            return
        try:
            created = runs.create_all(options, settings.runs_folder(self._settings), forecast=known)
            agree_to_new(created)
        except UserError as error:
            show_error(error)
            return
        then()
        self.pages.show_run(created[0], lambda: starting.start_all(created, queued=turn is BeginTurn.WAIT)[0])

    def start_sweep(self, options: RunOptions, values: Mapping[str, str]) -> None:
        """Queue a run for each of these values, and compare them."""

        def show(made: list[RunFolder]) -> None:
            self.pages.new_run.begin_next(asked_title(options))
            self.pages.compare_runs(made)

        self._queue_all(lambda: create_sweep(options, values, self._runs_folder()), show)

    def start_benchmark(self, plan: Plan) -> None:
        """Queue the runs of a benchmark, and compare them."""
        from core.benchmark.plan import create

        self._queue_all(lambda: [*create(plan, self._runs_folder()).runs.values()], self.pages.compare_runs)

    def _queue_all(
        self, make: Callable[[], list[RunFolder]], show: Callable[[list[RunFolder]], object]
    ) -> None:
        """Make runs, queue and show them, also if some of them can't be started."""

        def begin() -> tuple[list[RunFolder], list[UserError]]:
            made, errors = make(), []
            for run in made:
                try:
                    starting.start(run, queued=True)
                except UserError as error:
                    errors.append(error)
            return made, errors

        def on_begun(begun: tuple[list[RunFolder], list[UserError]]) -> None:
            made, errors = begun
            show(made)
            for error in errors[:1]:
                self.found.strip.show_error(error)

        self._sweeps.put(begin, on_begun)

    def _turn_of(self, options: RunOptions) -> BeginTurn:
        """Decide whether a run starts now or is queued; ask if its device is busy. Elsewhere it may be queued."""
        if options.device.computers:
            return BeginTurn.WAIT
        awaited = queue.ahead_of(queue.device_held(options))
        return BeginTurn.NOW if awaited is None else self._ask_turn(awaited, self)

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
            self.pages.show_run(RunFolder(path))
            return
        self.pages.go_to(Place.NEW_RUN)
        if path.suffix.lower() in run_file.ENDINGS:
            self.pages.new_run.load_file(path)
        else:
            self.pages.new_run.set_data(path)

    def come_forward(self, paths: Sequence[Path]) -> None:
        """Raise this window, as large as it was, and open files of a second start."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        self.open_paths(paths)

    def check_device(self, name: str) -> None:
        """Compare a device's results with those of the CPU, and show them in a dialog."""
        from gui.settings.page import DeviceCheckDialog

        self.device_check = DeviceCheckDialog(self._ask, name, self)
        self.device_check.finished.connect(lambda: setattr(self, "device_check", None))
        self.device_check.open()

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
        elif is_escape and self.pages.compare is not None and self.pages.compare.isVisible():
            self.pages.compare.left.emit()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()
            corner = self.pages.mapTo(self, QPoint())
            self.drop_target.setGeometry(QRect(corner, self.pages.size()) - DROP_MARGINS)
            self.theme.dress(self.drop_target)
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
        self.live_runs.begin()

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(event.rect(), QColor(self.theme.tokens.background))

    def childEvent(self, event: QChildEvent) -> None:
        super().childEvent(event)
        if event.type() is QEvent.Type.ChildPolished and isinstance(dialog := event.child(), QDialog):
            self.theme.dress(dialog)

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
        self.devices.close()
        self.live_runs.stop()
        self._sweeps.end_work()
        self.sidebar.machine.stop()
        if self.device_check is not None:
            self.device_check.reject()
        self.gpu.close()
        self.pages.end_work()
        end_left()
        # Qt removes the pages one by one and signals each, when the window's objects are deleted already
        self.pages.blockSignals(True)

    def _make_new_run(self) -> NewRunPage:
        from gui.new_run.page import NewRunPage

        page = NewRunPage(self.theme, self._ask, self._tools)
        page.start_requested.connect(self.start_run)
        page.quick_try_requested.connect(lambda options: self._start(options, page.show_error))
        page.sweep_requested.connect(self.start_sweep)
        page.benchmark_requested.connect(self.start_benchmark)
        page.check_requested.connect(self.check_device)
        self.devices.failed.connect(page.show_error)
        self._sweeps.failed.connect(page.show_error)
        return page

    def _make_welcome(self) -> WelcomePage:
        from gui.new_run.welcome import WelcomePage

        return WelcomePage(self._runs_folder)

    def _make_runs(self) -> RunsPage:
        from gui.runs.page import RunsPage

        page = RunsPage(self.theme, self._runs_folder)
        self.found.attach(page.queue)
        return page

    def _make_run(self) -> RunPage:
        from gui.run.page import RunPage  # brings NumPy and pyqtgraph

        page = RunPage(self.theme)
        page.run_changed.connect(self.live_runs.poll_soon)
        page.run_renamed.connect(self._notifications.refresh)
        page.test_requested.connect(self.test_run)
        page.move_requested.connect(self.found.move)
        return page

    def _make_compare(self) -> ComparePage:
        from gui.runs.compare import ComparePage  # brings NumPy and pyqtgraph

        return ComparePage(self.theme)

    def _make_try_it(self) -> TryPage:
        from gui.try_it.page import TryPage

        page = TryPage(self.theme, self._runs_folder)
        self.live_runs.run_ended.connect(page.find_runs)
        return page

    def _make_settings(self) -> SettingsPage:
        from gui.settings.page import SettingsPage

        page = SettingsPage(self._settings, ask=self._ask, gpu=self.gpu)
        page.set_machine(self._machine)
        page.settings_changed.connect(self._save_settings)
        page.check_requested.connect(self.check_device)
        page.computers.changed.connect(self._offer_devices)
        page.computers.guide_wanted.connect(partial(self.commands.open_guide, "computers.md"))
        return page

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
                self.theme.dress(part)
        self.update()

    def _on_live(self, live: tuple[LiveRun, ...]) -> None:
        if self.pages.try_it is not None:
            self.pages.try_it.take_live(live)  # a model under Try it frees its memory for runs

    def _runs_folder(self) -> Path:
        return settings.runs_folder(self._settings)

    def _underway(self) -> list[Underway]:
        """The unfinished runs; while this computer shuts down, without those that train on others."""
        found = underway(self._runs_folder(), self.live_runs.known())
        return [one for one in found if not (self._session_ends and one.run.connection() is not None)]

    def _save_settings(self, chosen: Settings) -> None:
        self._settings = chosen
        self.theme.set_appearance(chosen.appearance)
        if not self._saves_settings:
            return
        try:
            settings.save(chosen)
        except OSError as error:
            log.error("the settings can't be saved: %s", error)

    def _offer_devices(self) -> None:
        """Offer the devices of this computer and of the others for new runs."""
        if self._machine is not None:
            self.pages.new_run.set_machine(with_computers(self._machine))

    def _on_machine(self, machine: MachineReport) -> None:
        if self._machine is None:  # not while the window is created, which should be fast
            self.pages.new_run.show_gpu(self.gpu)
        self._machine = machine
        self.gpu.look()
        self.sidebar.machine.set_machine(machine)
        self._offer_devices()
        if self.pages.settings is not None:
            self.pages.settings.set_machine(machine)
