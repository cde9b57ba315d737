"""Everything in the window that reads a run: its page, the list of runs, the form for a new run."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from core.base.errors import UserError
from core.base.settings import Appearance, Settings
from core.options import run_file
from core.runs.folder import RunFolder
from gui.app.application import set_up
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from tests.performance.faults.reading import Finding, judge

PATIENCE_SECONDS = 15.0
SETTLING_SECONDS = 0.05


class NoEngine:
    """In place of an engine process: whatever is asked, nobody answers."""

    def __init__(self, job: str) -> None:
        self._job = job

    def ask(self, _request: bytes = b"", *, tell: object = None) -> bytes:
        raise UserError("Nobody answers", self._job)

    def kill(self) -> None:
        """There is nothing to end."""


class Window:
    """The real window without a screen and without an engine; collects whatever goes wrong in it."""

    def __init__(self, runs_folder: Path) -> None:
        self._wrong: list[str] = []
        self._application = QApplication.instance() or QApplication(sys.argv[:1])
        sys.excepthook = self._note
        threading.excepthook = lambda told: self._note(told.exc_type, told.exc_value, told.exc_traceback)
        qInstallMessageHandler(self._take_message)
        set_up(self._application)
        theme = Theme(Appearance.LIGHT)
        theme.apply()
        self._window = MainWindow(theme, Settings(runs_folder=str(runs_folder)), NoEngine)
        self._window.resize(1100, 800)
        self._window.show()
        self._turn()

    def read_run(self, run: RunFolder) -> list[Finding]:
        """Show the run on its page, in the list, and its options in the form."""
        parts: dict[str, Callable[[], str | None]] = {
            "run page": lambda: self._show(run),
            "runs page": self._list,
            "form": lambda: self._edit(run.options_file),
        }
        return [judge(name, self._watched(read)) for name, read in parts.items()]

    def read_run_file(self, path: Path) -> list[Finding]:
        """Open a run file in the form."""
        return [judge("form", self._watched(lambda: self._open(path)))]

    def end(self) -> None:
        """Close it."""
        self._window.end_work()

    def _show(self, run: RunFolder) -> None:
        self._window.show_run(run)
        page = self._window.run
        assert page is not None
        view = page.view
        assert view is not None
        self._wait(lambda: view.job.isFinished() or view.job._state is not None)
        self._turn()
        for chart in view.charts.charts:
            chart.redraw()
            chart.save_table(run.path.parent / "chart.csv")
            chart.end_work()
        view.details.grab()
        page.close_run()

    def _list(self) -> None:
        self._window.go_to(Place.RUNS)
        page = self._window.runs
        assert page is not None
        page.refresh()
        self._wait(lambda: not page._reader.isRunning())
        self._turn()
        read_all_cells(page.model)
        self._window.go_to(Place.NEW_RUN)

    def _edit(self, path: Path) -> None:
        self._window.edit(run_file.read_tree(path))
        self._turn()

    def _open(self, path: Path) -> None:
        self._window.open_path(path)
        self._turn()

    def _watched(self, read: Callable[[], str | None]) -> Callable[[], str | None]:
        def watched() -> str | None:
            self._wrong.clear()
            refused = read()
            if self._wrong:
                raise AssertionError(" | ".join(self._wrong)[:600])
            return refused

        return watched

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise AssertionError(f"not shown after {PATIENCE_SECONDS:.0f} s")
            self._application.processEvents()
            time.sleep(0.002)

    def _turn(self) -> None:
        deadline = time.monotonic() + SETTLING_SECONDS
        while time.monotonic() < deadline:
            self._application.processEvents()
            time.sleep(0.002)

    def _note(self, kind, error, where) -> None:
        traceback.print_exception(kind, error, where)
        frame = traceback.extract_tb(where)[-1] if where else None
        place = f" ({Path(frame.filename).name}:{frame.lineno})" if frame else ""
        self._wrong.append(f"{kind.__name__}: {str(error)[:200]}{place}")

    def _take_message(self, kind: QtMsgType, _context: object, text: str) -> None:
        if kind in (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg) and "propagateSizeHints" not in text:
            self._wrong.append(f"Qt says: {text[:200]}")


def read_all_cells(model: QAbstractItemModel) -> None:
    """Ask a table for everything it shows."""
    parent = QModelIndex()
    for row in range(model.rowCount(parent)):
        for column in range(model.columnCount(parent)):
            for role in (0, 1, 3, 256, 257):  # text, icon, tip, raw value, words to search
                model.data(model.index(row, column, parent), role)
