"""The window: a sidebar, one page at a time, and the few things that concern them all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from core import runs, settings
from core.errors import UserError
from core.options import RunOptions
from core.reports import MachineReport
from core.run_folder import Action, RunFolder
from core.settings import Settings
from gui.attention import Attention
from gui.closing import Closing, ask_about, running
from gui.commands import Commands
from gui.engine_question import Ask, EngineQuestion
from gui.home_strip import HomeStrip
from gui.live_runs import LiveRunsThread
from gui.memory_tools import MemoryTools
from gui.pages.new_run import NewRunPage
from gui.sidebar import Place, Sidebar
from gui.theme import Theme
from gui.widgets.path_line import dropped_path

if TYPE_CHECKING:
    from gui.device_check import DeviceCheckDialog
    from gui.pages.run import RunPage
    from gui.pages.runs import RunsPage
    from gui.pages.settings import SettingsPage

log = logging.getLogger("hone")

RUN_FILES = (".hone", ".toml")
FIRST_SIZE = (1280, 820)
SMALLEST_SIZE = (1024, 660)


class MainWindow(QMainWindow):
    """Everything a person sees of Hone.

    Args:
        theme: The colours.
        chosen: The person's settings.
        ask: Starts an engine job.
        ask_about_closing: Asks what becomes of runs that train when the window closes.
        tools: What is asked about memory, where that isn't this computer's.
    """

    def __init__(
        self,
        theme: Theme,
        chosen: Settings,
        ask: Ask,
        ask_about_closing: Callable[[list[RunFolder], QWidget], Closing] = ask_about,
        tools: MemoryTools | None = None,
    ) -> None:
        super().__init__()
        self._theme = theme
        self._settings = chosen
        self._ask = ask
        self._ask_about_closing = ask_about_closing
        self._machine: MachineReport | None = None
        self._devices = EngineQuestion(ask, "devices", MachineReport, self)
        self._devices.answered.connect(self._take_machine)
        self._devices.failed.connect(self._devices_failed)
        self.sidebar = Sidebar(theme)
        self.new_run = NewRunPage(theme, ask, tools)
        self.run: RunPage | None = None
        self.runs: RunsPage | None = None
        self.settings: SettingsPage | None = None
        self.device_check: DeviceCheckDialog | None = None
        self._keeps_settings = True
        self._home_strip = HomeStrip()
        self._pages = QStackedWidget()
        self._lay_out()
        self._live_runs = LiveRunsThread(self._runs_folder, self)
        self._watch_runs()
        self.sidebar.place_chosen.connect(self.go_to)
        self.sidebar.machine.set_trains(lambda: bool(running(self._runs_folder())))
        self.new_run.start_requested.connect(self.start_run)
        self.new_run.check_requested.connect(self.check_device)
        Commands(self)
        self.go_to(Place.NEW_RUN)

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
        pages: dict[Place, Callable[[], QWidget]] = {
            Place.NEW_RUN: lambda: self.new_run,
            Place.RUNS: self._runs_page,
            Place.SETTINGS: self._settings_page,
        }
        self._pages.setCurrentWidget(pages[place]())
        self.sidebar.show_place(place)

    def start_run(self, options: RunOptions) -> None:
        """Make a run's folder and start it; what goes wrong is said on the page."""
        try:
            known = self.new_run.known_memory
            run = runs.create(options, settings.runs_folder(self._settings), forecast=known)
        except UserError as error:
            self.new_run.show_error(error)
            return
        self.show_run(run, start=True)

    def show_run(self, run: RunFolder, start: bool = False) -> None:
        """Show a run, and start it first where asked."""
        page = self._run_page()
        self._live_runs.follow(run, starts=start)
        page.show_run(run, start=start)
        self._pages.setCurrentWidget(page)
        self._attention.refresh()
        self.sidebar.show_place(Place.RUNS)

    def open_path(self, path: Path) -> None:
        """Open a run file or a run's folder; anything else becomes the data to train on."""
        if (path / "run.toml").is_file():
            self.show_run(RunFolder(path))
            return
        self.go_to(Place.NEW_RUN)
        if path.suffix.lower() in RUN_FILES:
            self.new_run.load_file(path)
        else:
            self.new_run.set_data(path)

    def edit(self, tree: dict[str, object]) -> None:
        """Fill the New run page from a run."""
        self.new_run.load_tree(tree)
        self.go_to(Place.NEW_RUN)

    def check_device(self, name: str) -> None:
        """Compare in the background what a device computes with what the CPU does, and show what came of it."""
        from gui.device_check import DeviceCheckDialog

        self.device_check = DeviceCheckDialog(self._ask, name, self)
        self.device_check.finished.connect(self._forget_check)
        self.device_check.open()

    def start_from_form(self) -> None:
        """Start what the New run page holds, if it is shown and nothing is wrong."""
        if self._pages.currentWidget() is self.new_run:
            self.new_run.start()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Welcome files and folders wherever they are dragged."""
        if dropped_path(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped."""
        path = dropped_path(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self.open_path(path)

    def showEvent(self, event: QShowEvent) -> None:
        """Look at the runs that train from now on, also while the window is hidden."""
        super().showEvent(event)
        self._live_runs.begin()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask about runs that train, keep the window's place, and leave nothing behind."""
        training = running(settings.runs_folder(self._settings))
        choice = self._ask_about_closing(training, self) if training else Closing.KEEP_TRAINING
        if choice is Closing.CANCEL:
            event.ignore()
            return
        if choice is Closing.STOP:
            for run in training:
                run.ask(Action.STOP)
        self._keep(msgspec.structs.replace(self._settings, window_geometry=self._geometry()))
        self.end_work()
        event.accept()

    def end_work(self) -> None:
        """Give up questions and stop following runs; no thread is left after this."""
        self._devices.close()
        self._live_runs.stop()
        self.sidebar.machine.stop()
        if self.device_check is not None:
            self.device_check.reject()
        self.new_run.close_questions()
        if self.run is not None:
            self.run.close_run()
        # Qt takes the pages down one by one and tells of each, when this window knows nothing any more.
        self._pages.blockSignals(True)

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
        column.addWidget(self._pages, 1)
        row.addLayout(column, 1)
        self.setCentralWidget(centre)
        self._pages.addWidget(self.new_run)
        self.setMinimumSize(*SMALLEST_SIZE)
        self.resize(*FIRST_SIZE)
        kept = self._settings.window_geometry
        if kept:
            self.restoreGeometry(QByteArray.fromBase64(kept.encode()))
        centre.setFocus()

    def _watch_runs(self) -> None:
        """Draw attention to runs that train, whichever page is shown."""
        self._attention = Attention(self, lambda: self._settings.notify, self._run_on_screen)
        self._live_runs.changed.connect(self._attention.show_live)
        self._live_runs.run_ended.connect(self._attention.tell_end)
        self._pages.currentChanged.connect(self._attention.refresh)

    def _run_on_screen(self) -> RunFolder | None:
        is_shown = self.run is not None and self._pages.currentWidget() is self.run
        return self.run.view.run if is_shown and self.run is not None and self.run.view is not None else None

    def _geometry(self) -> str:
        return self.saveGeometry().toBase64().toStdString()

    def _runs_page(self) -> RunsPage:
        if self.runs is None:
            from gui.pages.runs import RunsPage  # first wanted now: the window is up sooner without it

            self.runs = RunsPage(self._theme, self._runs_folder)
            self.runs.run_opened.connect(self.show_run)
            self.runs.edit_requested.connect(self.edit)
            self._pages.addWidget(self.runs)
        return self.runs

    def _run_page(self) -> RunPage:
        if self.run is None:
            from gui.pages.run import RunPage  # brings NumPy and pyqtgraph

            self.run = RunPage(self._theme)
            self.run.edit_requested.connect(self.edit)
            self.run.run_changed.connect(self._live_runs.look_soon)
            self._pages.addWidget(self.run)
        return self.run

    def _settings_page(self) -> SettingsPage:
        if self.settings is None:
            from gui.pages.settings import SettingsPage

            self.settings = SettingsPage(self._settings)
            self.settings.set_machine(self._machine)
            self.settings.settings_changed.connect(self._keep)
            self.settings.check_requested.connect(self.check_device)
            self._pages.addWidget(self.settings)
        return self.settings

    def _runs_folder(self) -> Path:
        return settings.runs_folder(self._settings)

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
        self._machine = machine
        self.sidebar.machine.set_machine(machine)
        self.new_run.set_machine(machine)
        if self.settings is not None:
            self.settings.set_machine(machine)

    def _forget_check(self) -> None:
        self.device_check = None

    def _devices_failed(self, error: UserError) -> None:
        self.new_run.show_error(error)
