"""Everything in the window that reads a run: its page, the list of runs, the form for a new run."""

import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QModelIndex, QtMsgType, qInstallMessageHandler

from core.base.errors import UserError
from core.base.settings import Settings
from core.options import run_file
from core.runs.folder import RunFolder
from gui.app.sidebar import Place
from tests.fakes.jobs import FakeEngine
from tests.performance.faults.reading import Finding, Reader, described, judge
from tests.performance.windows import open_window

PATIENCE_SECONDS = 15.0
SETTLING_SECONDS = 0.05
ROLES = (0, 1, 3, 256, 257)
"""Of a table's cell: text, icon, tip, raw value, words to search."""


class Window:
    """The real window without a screen and without an engine; collects whatever goes wrong in it."""

    def __init__(self, runs_folder: Path) -> None:
        self._wrong: list[str] = []
        sys.excepthook = lambda _kind, error, _where: self._note(error)
        threading.excepthook = lambda hook: self._note(hook.exc_value)
        qInstallMessageHandler(self._take_message)
        own_settings, engine = Settings(runs_folder=str(runs_folder)), FakeEngine()
        engine.answers = defaultdict(lambda: UserError("There is no engine", "It was left out."))
        self._application, self._window = open_window((1100, 800), own_settings=own_settings, make_job=engine)
        self._settle()

    def read_run(self, run: RunFolder) -> list[Finding]:
        """Show the run on its page, in the list, and its options in the form."""
        return self._judge(
            {
                "run page": partial(self._show, run),
                "runs page": self._list,
                "form": lambda: self._window.pages.edit(run_file.read_tree(run.options_file)),
            }
        )

    def read_run_file(self, path: Path) -> list[Finding]:
        """Open a run file in the form."""
        return self._judge({"form": partial(self._window.open_path, path)})

    def end(self) -> None:
        self._window.end_work()

    def _judge(self, readers: dict[str, Reader]) -> list[Finding]:
        def checked(read: Reader) -> None:
            self._wrong.clear()
            read()
            self._settle()
            if self._wrong:
                raise AssertionError(" | ".join(self._wrong)[:600])

        return judge({name: partial(checked, read) for name, read in readers.items()})

    def _show(self, run: RunFolder) -> None:
        self._window.pages.show_run(run)
        view = self._window.pages.run.view
        self._wait(lambda: view.job.isFinished() or view.job._state is not None)
        self._settle()
        for chart in view.charts.charts:
            chart.redraw()
            chart.save_table(run.path.parent / "chart.csv")
            chart.end_work()
        view.details.grab()
        self._window.pages.run.end_work()

    def _list(self) -> None:
        self._window.pages.go_to(Place.RUNS)
        page = self._window.pages.runs
        page.refresh()
        self._wait(lambda: not page.reader.isRunning())
        self._settle()
        parent, model = QModelIndex(), page.model
        for row in range(model.rowCount(parent)):
            for column in range(model.columnCount(parent)):
                for role in ROLES:
                    model.data(model.index(row, column, parent), role)
        self._window.pages.go_to(Place.NEW_RUN)

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise AssertionError(f"not shown after {PATIENCE_SECONDS:.0f} s")
            self._application.processEvents()
            time.sleep(0.002)

    def _settle(self) -> None:
        deadline = time.monotonic() + SETTLING_SECONDS
        self._wait(lambda: time.monotonic() > deadline)

    def _note(self, error: BaseException) -> None:
        traceback.print_exception(error)
        self._wrong.append(described(error))

    def _take_message(self, kind: QtMsgType, _context: object, text: str) -> None:
        if kind in (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg) and "propagateSizeHints" not in text:
            self._wrong.append(f"Qt: {text[:200]}")
