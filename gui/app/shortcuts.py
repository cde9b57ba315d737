"""Keyboard shortcuts of the window, and on a Mac its menu bar. Ctrl is Cmd there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from gettext import gettext as _
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence

from gui.app.sidebar import Place

if TYPE_CHECKING:
    from gui.app.window import MainWindow


class Commands(QObject):
    """What can be done from the keyboard anywhere in the window."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        run = (
            self._action(_("New run"), "Ctrl+N", self._go_to_new_run),
            self._action(_("Open…"), "Ctrl+O", self._open),
            self._action(_("Save as…"), "Ctrl+S", self._save),
            self._action(_("Start"), "Ctrl+Return", window.start_shown),
        )
        pages = (
            self._action(_("New run"), "Ctrl+1", self._go_to_new_run),
            self._action(_("Runs"), "Ctrl+2", self._go_to_runs),
            self._action(_("Benchmark"), "Ctrl+3", self._go_to_benchmark),
            self._action(_("Try it"), "Ctrl+4", self._go_to_try),
            self._action(_("Settings"), "Ctrl+5", self._go_to_settings),
        )
        leave = self._action(_("Quit"), "Ctrl+Q", self._quit)
        leave.setMenuRole(QAction.MenuRole.QuitRole)
        if sys.platform == "darwin":
            window.menuBar().addMenu(_("Run")).addActions((*run, leave))
            window.menuBar().addMenu(_("View")).addActions(pages)

    def _action(self, title: str, keys: str, do: Callable[[], None]) -> QAction:
        action = QAction(title, self)
        action.setShortcut(QKeySequence(keys))
        action.triggered.connect(do)
        self._window.addAction(action)
        return action

    def _go_to_new_run(self) -> None:
        self._window.go_to(Place.NEW_RUN)

    def _go_to_runs(self) -> None:
        self._window.go_to(Place.RUNS)

    def _go_to_benchmark(self) -> None:
        self._window.go_to(Place.BENCHMARK)

    def _go_to_try(self) -> None:
        self._window.go_to(Place.TRY)

    def _go_to_settings(self) -> None:
        self._window.go_to(Place.SETTINGS)

    def _quit(self) -> None:
        self._window.close()

    def _open(self) -> None:
        self._go_to_new_run()
        self._window.new_run.open_file()

    def _save(self) -> None:
        self._go_to_new_run()
        self._window.new_run.save_file()
