"""The run page: shows one run at a time, live or long over."""

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QWidget

from core.run_folder import RunFolder
from core.story import State
from gui.pages.run_view import RunView
from gui.theme import Theme
from gui.widgets.fitting_scroll import QuietBar
from gui.widgets.roles import Role, set_role


class RunPage(QScrollArea):
    """Room for the run at hand; scrolls where the window is too low for all of it.

    Signals:
        edit_requested: A tree of options to start anew from ("Duplicate", or a fix that was pressed).
        run_changed: The `RunFolder` whose state has changed.
    """

    edit_requested = Signal(object)
    run_changed = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        set_role(self, Role.PAGE)
        self.view: RunView | None = None
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

    def show_run(self, run: RunFolder, start: bool = False) -> None:
        """Show a run, and start it first where asked; a run that is shown already stays as it is."""
        if self.view is not None and self.view.run == run and not start:
            return
        self.close_run()
        self.view = RunView(self._theme, run, start=start)
        self.view.edit_requested.connect(self.edit_requested)
        self.view.state_changed.connect(self._tell)
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

    def _show_nothing(self) -> None:
        words = QLabel(
            self.tr("No run is open. Choose one under Runs."), alignment=Qt.AlignmentFlag.AlignCenter
        )
        set_role(words, Role.MUTED)
        self.setWidget(words)
