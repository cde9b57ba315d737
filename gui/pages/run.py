"""The run page: shows one run at a time, live or long over."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QWidget

from core import settings
from core.errors import UserError
from core.run_folder import RunFolder
from core.story import State
from gui.job_thread import Begin
from gui.left_work import end_left
from gui.pages.run_view import RunView
from gui.run_bin import RunBin
from gui.theme import Theme
from gui.widgets.fitting_scroll import QuietBar
from gui.widgets.roles import Role, set_role


class RunPage(QScrollArea):
    """Room for the run at hand; scrolls where the window is too low for all of it.

    Signals:
        edit_requested: A tree of options to start anew from ("Duplicate", or a fix that was pressed).
        run_changed: The `RunFolder` whose state has changed.
        run_gone: The run that was shown lies in the bin.
        try_requested: The `RunFolder` whose model is to be tried.

    Args:
        theme: Colours.
        runs_folder: Where the other runs are.
        parent: Qt's parent.
    """

    edit_requested = Signal(object)
    run_changed = Signal(object)
    run_gone = Signal()
    try_requested = Signal(object)

    def __init__(
        self,
        theme: Theme,
        runs_folder: Callable[[], Path] = settings.runs_folder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        set_role(self, Role.PAGE)
        self.view: RunView | None = None
        self.bin = RunBin(self, runs_folder)
        self.bin.moved.connect(self.forget)
        self.bin.failed.connect(self._tell_not_gone)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setVerticalScrollBar(QuietBar())
        self.setAccessibleName(self.tr("Run"))
        self._show_nothing()
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.close_run)
        application.aboutToQuit.connect(end_left)

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run, and let `begin` start it first; a run that is shown already stays as it is."""
        if self.view is not None and self.view.run == run and begin is None:
            return
        self.close_run()
        self.view = RunView(self._theme, run, begin=begin)
        self.view.edit_requested.connect(self.edit_requested)
        self.view.state_changed.connect(self._tell)
        self.view.bin_requested.connect(self._throw_away)
        self.view.try_requested.connect(self._ask_for_try)
        set_role(self.view, Role.PAGE)
        self.setWidget(self.view)
        self.setFocus()

    def close_run(self) -> None:
        """Stop following the run at hand; it goes on by itself."""
        if self.view is not None:
            self.view.close_view()
            self.view = None
            self._show_nothing()

    def _tell(self, _state: State) -> None:
        if self.view is not None:
            self.run_changed.emit(self.view.run)

    def forget(self, gone: list[Path]) -> None:
        """Show a run no longer whose folder has been moved away."""
        if self.view is not None and self.view.run.path in gone:
            self.close_run()
            self.run_gone.emit()

    def _throw_away(self) -> None:
        if self.view is not None:
            self.bin.begin([self.view.run])

    def _tell_not_gone(self, error: UserError) -> None:
        if self.view is not None:
            self.view.show_error(error)

    def _ask_for_try(self) -> None:
        if self.view is not None:
            self.try_requested.emit(self.view.run)

    def _show_nothing(self) -> None:
        words = QLabel(
            self.tr("No run is open. Choose one under Runs."), alignment=Qt.AlignmentFlag.AlignCenter
        )
        set_role(words, Role.MUTED)
        self.setWidget(words)
