"""The menu of the runs that are chosen in the list: what can be done with one of them, or with several at once."""

from collections.abc import Callable, Sequence
from typing import Protocol

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from core.run_comparison import FEWEST, MOST
from core.run_folder import Action
from core.run_summary import RunSummary
from core.story import State

_translate = QCoreApplication.translate

WORKING = (State.STARTING, State.TRAINING)
"""The states in which a run heeds what it is asked."""

WITH_MODEL = (State.FINISHED, State.STOPPED)
"""The states in which a run has a trained model."""


class Deeds(Protocol):
    """What the menu does."""

    def open_run(self, run: RunSummary) -> None:
        """Show its page."""

    def resume(self, run: RunSummary) -> None:
        """Go on with it."""

    def try_model(self, run: RunSummary) -> None:
        """Ask its model."""

    def export(self, run: RunSummary) -> None:
        """Make of its model what other programs take."""

    def ask(self, runs: Sequence[RunSummary], action: Action) -> None:
        """Ask runs that train."""

    def duplicate(self, run: RunSummary) -> None:
        """Open a new run with the same options."""

    def start_from_model(self, run: RunSummary) -> None:
        """Open a new run that starts from its model."""

    def extend(self, run: RunSummary) -> None:
        """Ask how much longer it is to train."""

    def compare(self, runs: Sequence[RunSummary]) -> None:
        """Hold them against each other."""

    def reveal(self, run: RunSummary) -> None:
        """Show its folder."""

    def throw_away(self, runs: Sequence[RunSummary]) -> None:
        """Move them to the bin."""


def menu_of(runs: Sequence[RunSummary], deeds: Deeds, parent: QWidget) -> QMenu:
    """The menu, made anew each time; what makes no sense for these runs isn't in it, or is grey."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if len(runs) == 1:
        _add_of_one(menu, runs[0], deeds)
    _add_requests(menu, runs, deeds)
    menu.addSeparator()
    if len(runs) == 1:
        _add_goings_on(menu, runs[0], deeds)
        _add(menu, _translate("runs", "Show the folder"), lambda: deeds.reveal(runs[0]))
    else:
        comparing = _add(menu, _translate("runs", "Compare"), lambda: deeds.compare(runs))
        comparing.setEnabled(FEWEST <= len(runs) <= MOST)
    menu.addSeparator()
    binning = _add(menu, _translate("runs", "Move to the bin"), lambda: deeds.throw_away(runs))
    binning.setEnabled(any(run.state.is_over for run in runs))
    return menu


def _add_of_one(menu: QMenu, run: RunSummary, deeds: Deeds) -> None:
    _add(menu, _translate("runs", "Open"), lambda: deeds.open_run(run))
    if run.state.can_resume:
        _add(menu, _translate("runs", "Resume"), lambda: deeds.resume(run))
    if run.state in WITH_MODEL:
        _add(menu, _translate("runs", "Try it"), lambda: deeds.try_model(run))
    if run.state in (State.FINISHED, State.STOPPED, State.PAUSED):  # of a paused one, its checkpoint
        _add(menu, _translate("runs", "Export…"), lambda: deeds.export(run))


def _add_goings_on(menu: QMenu, run: RunSummary, deeds: Deeds) -> None:
    """What more can be trained from what there is."""
    _add(menu, _translate("runs", "Duplicate"), lambda: deeds.duplicate(run))
    if run.state in WITH_MODEL:
        _add(menu, _translate("runs", "New run from its model"), lambda: deeds.start_from_model(run))
    if run.state.is_over:
        _add(menu, _translate("runs", "Train longer…"), lambda: deeds.extend(run))


def _add_requests(menu: QMenu, runs: Sequence[RunSummary], deeds: Deeds) -> None:
    """What is asked of those that train; a run that waits can only leave the queue."""
    working = [run for run in runs if run.state in WORKING]
    waiting = [run for run in runs if run.state is State.QUEUED]
    if working:
        _add(menu, _translate("runs", "Pause"), lambda: deeds.ask(working, Action.PAUSE))
        _add(menu, _translate("runs", "Stop and keep"), lambda: deeds.ask(working, Action.STOP))
    elif waiting:
        _add(menu, _translate("runs", "Leave the queue"), lambda: deeds.ask(waiting, Action.STOP))


def _add(menu: QMenu, words: str, do: Callable[[], None]) -> QAction:
    action = menu.addAction(words)
    action.triggered.connect(do)
    return action
