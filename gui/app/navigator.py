"""The pages of the window, and the ways between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from core.options.presets import Preset
from core.runs.folder import RunFolder
from core.runs.start import Extension
from gui.app.sidebar import Place
from gui.base.theme import Theme
from gui.widgets.cards import PAGES

if TYPE_CHECKING:
    from core.benchmark.plan import BenchmarkRow
    from gui.new_run.page import NewRunPage
    from gui.new_run.welcome import WelcomePage
    from gui.run.follower import Begin
    from gui.run.header import RunAction
    from gui.run.page import RunPage, RunView
    from gui.runs.compare import ComparePage
    from gui.runs.page import RunsPage
    from gui.settings.page import SettingsPage
    from gui.try_it.page import TryPage

Page = TypeVar("Page", bound=QWidget)


@dataclass(frozen=True)
class PageMakers:
    """Make each page and connect what doesn't lead to other pages."""

    new_run: Callable[[], NewRunPage]
    welcome: Callable[[], WelcomePage]
    run: Callable[[], RunPage]
    runs: Callable[[], RunsPage]
    compare: Callable[[], ComparePage]
    settings: Callable[[], SettingsPage]
    try_it: Callable[[], TryPage]


class Navigator(QStackedWidget):
    """Shows one page at a time and leads to others. All but New run are None until they are first shown."""

    place_shown = Signal(object)  # the `Place` that leads to the page that is shown
    run_shown = Signal(object, bool)  # a `RunFolder`, and whether it begins now
    form_made = Signal(object)  # the `NewRunPage`, which is about to be shown or used

    def __init__(self, theme: Theme, make: PageMakers) -> None:
        super().__init__()
        self.setObjectName(PAGES)
        self._theme, self.make = theme, make
        self._new_run: NewRunPage | None = None
        self.welcome: WelcomePage | None = None
        self.run: RunPage | None = None
        self.runs: RunsPage | None = None
        self.compare: ComparePage | None = None
        self.settings: SettingsPage | None = None
        self.try_it: TryPage | None = None
        self.currentChanged.connect(lambda: self.setFocusProxy(self.currentWidget() or self.window()))

    def end_work(self) -> None:
        """End the work of all pages."""
        pages = (
            self._new_run,
            self.welcome,
            self.settings,
            self.try_it,
            self.run,
            self.compare,
            self.runs,
        )
        for page in pages:
            if page is not None:
                page.end_work()

    # --- What is shown

    def view_on_screen(self) -> RunView | None:
        """The run's part of its page, if that is shown."""
        return self.run.view if self.run is not None and self.currentWidget() is self.run else None

    def run_on_screen(self) -> RunFolder | None:
        """The run whose page is shown, if any."""
        view = self.view_on_screen()
        return None if view is None else view.run

    def run_commands(self) -> Mapping[RunAction, Callable[[], object]]:
        """What can be done now with the run that is shown, or with those selected in the list."""
        shown = self.currentWidget()
        if self.run is not None and shown is self.run and self.run.view is not None:
            buttons = self.run.view.header.buttons
            return {action: partial(buttons.request, action) for action in buttons.offers()}
        if self.runs is not None and shown is self.runs:
            return self.runs.commands(self.runs.chosen())
        return {}

    def start_shown(self) -> None:
        """Start New run, if it is shown and complete."""
        if self.currentWidget() is self.new_run:
            self.new_run.start()

    # --- Ways to pages

    def go_to(self, place: Place) -> None:
        """Show a page, which is made when it is first shown."""
        pages: dict[Place, Callable[[], QWidget]] = {
            Place.WELCOME: self.welcome_page,
            Place.NEW_RUN: lambda: self.new_run,
            Place.RUNS: self.runs_page,
            Place.TRY: self.try_page,
            Place.SETTINGS: self.settings_page,
        }
        self.setCurrentWidget(pages[place]())
        self.place_shown.emit(place)

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run, which `begin` starts first."""
        page = self.run_page()
        page.show_run(run, begin)
        self.setCurrentWidget(page)
        page.setFocus()
        self.place_shown.emit(Place.RUNS)
        self.run_shown.emit(run, begin is not None)

    def resume_run(self, run: RunFolder, longer: Extension | None = None) -> None:
        """Show a run, and resume it or train it longer."""
        self.show_run(run)
        if (view := self.run_page().view) is not None:
            view.resume(longer)

    def try_run(self, run: RunFolder) -> None:
        """Open a run's model under "Try it"."""
        self.try_page().show_run(run)
        self.go_to(Place.TRY)

    def compare_runs(self, runs: list[RunFolder]) -> None:
        """Compare these runs; a single one with the one that suits it best."""
        page = self.compare_page()
        page.show_runs(runs)
        self.setCurrentWidget(page)
        self.place_shown.emit(Place.RUNS)

    def throw_away(self, run: RunFolder) -> None:
        """Show the list, and move a run from it to the trash."""
        self.go_to(Place.RUNS)
        self.runs_page().throw_away([run])

    def forget_runs(self, gone: list[Path]) -> None:
        """Close the run that is shown if its folder is gone."""
        if self.run is not None:
            self.run.forget(gone)

    def edit(self, tree: dict[str, object]) -> None:
        """Fill the New run page from a run."""
        self.go_to(Place.NEW_RUN)
        self.new_run.open_run(tree)

    def open_example(self, example: Preset) -> None:
        """Fill the New run page from an example, ready to be started."""
        self.go_to(Place.NEW_RUN)
        self.new_run.load_example(example)
        self.new_run.setFocus()

    def ask_for_file(self) -> None:
        """Ask which run file to open in New run."""
        self.go_to(Place.NEW_RUN)
        self.new_run.open_file()

    def use_method(self, row: BenchmarkRow) -> None:
        """Use the options of a benchmark's row in New run, where they are listed and can be undone."""
        self.go_to(Place.NEW_RUN)
        self.new_run.apply_changes(row.title, row.note, row.changes)

    # --- Pages, made when they are first asked for

    @property
    def new_run(self) -> NewRunPage:
        """Return the page with the form, made on first use: that takes as long as showing the window."""
        if self._new_run is None:
            self._new_run = self._added(self.make.new_run())
            self._new_run.welcome_wanted.connect(partial(self.go_to, Place.WELCOME))
            self.form_made.emit(self._new_run)
        return self._new_run

    def welcome_page(self) -> WelcomePage:
        if self.welcome is None:
            page = self.welcome = self._added(self.make.welcome())
            page.example_chosen.connect(self.open_example)
            page.form_wanted.connect(partial(self.go_to, Place.NEW_RUN))
            page.file_wanted.connect(self.ask_for_file)
        return self.welcome

    def runs_page(self) -> RunsPage:
        if self.runs is None:
            page = self.runs = self._added(self.make.runs())
            page.run_opened.connect(self.show_run)
            page.edit_requested.connect(self.edit)
            page.compare_requested.connect(self.compare_runs)
            page.resume_requested.connect(self.resume_run)
            page.extend_requested.connect(self.resume_run)
            page.try_requested.connect(self.try_run)
            page.runs_gone.connect(self.forget_runs)
        return self.runs

    def run_page(self) -> RunPage:
        if self.run is None:
            page = self.run = self._added(self.make.run())
            page.edit_requested.connect(self.edit)
            page.bin_requested.connect(self.throw_away)
            page.try_requested.connect(self.try_run)
            page.compare_requested.connect(lambda run: self.compare_runs([run]))
            page.run_opened.connect(self.show_run)
        return self.run

    def compare_page(self) -> ComparePage:
        if self.compare is None:
            page = self.compare = self._added(self.make.compare())
            page.left.connect(partial(self.go_to, Place.RUNS))
            page.run_opened.connect(self.show_run)
            page.use_requested.connect(self.use_method)
        return self.compare

    def try_page(self) -> TryPage:
        if self.try_it is None:
            self.try_it = self._added(self.make.try_it())
        return self.try_it

    def settings_page(self) -> SettingsPage:
        if self.settings is None:
            self.settings = self._added(self.make.settings())
        return self.settings

    def _added(self, page: Page) -> Page:
        self._theme.prepare(page)
        self.addWidget(page)
        return page
