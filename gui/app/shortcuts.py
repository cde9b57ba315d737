"""Keyboard shortcuts of the window, and on a Mac its menu bar. Ctrl is Cmd there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence

from core.base.language import _
from gui.app.sidebar import Place

if TYPE_CHECKING:
    from gui.app.window import MainWindow


class Commands(QObject):
    """What can be done from the keyboard anywhere in the window."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        new_run = partial(window.go_to, Place.NEW_RUN)
        run = (
            self._action(_("New run"), "Ctrl+N", new_run),
            self._action(_("Open…"), "Ctrl+O", self._open),
            self._action(_("Save as…"), "Ctrl+S", self._save),
            self._action(_("Start"), "Ctrl+Return", window.start_shown),
        )
        titles = {
            Place.NEW_RUN: _("New run"),
            Place.RUNS: _("Runs"),
            Place.BENCHMARK: _("Benchmark"),
            Place.TRY: _("Try it"),
            Place.SETTINGS: _("Settings"),
        }
        pages = [
            self._action(title, f"Ctrl+{place.value}", partial(window.go_to, place))
            for place, title in titles.items()
        ]
        leave = self._action(_("Quit"), "Ctrl+Q", window.close)
        leave.setMenuRole(QAction.MenuRole.QuitRole)
        if sys.platform == "darwin":
            window.menuBar().addMenu(_("Run")).addActions((*run, leave))
            window.menuBar().addMenu(_("View")).addActions(pages)

    def _action(self, title: str, keys: str, do: Callable[[], object]) -> QAction:
        action = QAction(title, self)
        action.setShortcut(QKeySequence(keys))
        action.triggered.connect(lambda _checked: do())
        self._window.addAction(action)
        return action

    def _open(self) -> None:
        self._window.go_to(Place.NEW_RUN)
        self._window.new_run.open_file()

    def _save(self) -> None:
        self._window.go_to(Place.NEW_RUN)
        self._window.new_run.save_file()
