""" "Fit it for me" and "Measure all": shows each short run as it ends, and hands over the one that is chosen."""

import time
from collections.abc import Iterator
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QThread, QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.memory.fitting import Began, Try
from core.memory.forecast import Verdict
from gui.engine_work import EngineWork
from gui.numbers import duration
from gui.pages.fit_sheet_table import TriesTable
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role

SIZE = (760, 520)
TICK_MS = 1000


class Tries(Protocol):
    """What makes one dry run after another: `core.memory.fitting.Fitting` or `MeasuringEach`."""

    def tries(self) -> Iterator[Try]:
        """Each as it ends."""

    def heed(self, began: Began) -> None:
        """Have `began` told of each as it begins."""

    def stop(self) -> None:
        """End the one that runs, and make no other; from any thread."""


class _Trying(EngineWork):
    """Makes the tries in its thread.

    Signals:
        began: The title of a try that begins.
        tried: A `core.memory.fitting.Try` that has ended.
    """

    began = Signal(str)
    tried = Signal(object)

    def __init__(self, tries: Tries, parent: QObject) -> None:
        super().__init__(parent)
        self._tries = tries
        tries.heed(self.began.emit)

    def begin(self) -> None:
        """Each try starts its own process."""

    def work(self) -> None:
        for done in self._tries.tries():
            self.tried.emit(done)

    def kill(self) -> None:
        self._tries.stop()


class FitSheet(QDialog):
    """Begins at once; closing it ends what runs.

    Signals:
        tried: A `core.memory.fitting.Try` that has ended.
        chosen: The `core.memory.fitting.Try` whose changes the person wants.

    Args:
        title: What it does, for its window.
        words: The same in a sentence or two.
        tries: Makes the dry runs.
        parent: Qt's parent.
    """

    tried = Signal(object)
    chosen = Signal(object)

    def __init__(self, title: str, words: str, tries: Tries, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._tries = tries
        self._began = time.monotonic()
        self._trying = ""
        self._status = QLabel()
        self._status.setWordWrap(True)
        set_role(self._status, Role.STRONG)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(self.tr("Trying"))
        self.table = TriesTable()
        self._stop = QPushButton(self.tr("Stop"))
        self.take = QPushButton(self.tr("Apply"))
        self._lay_out(words)
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tell)
        self._work = _Trying(tries, self)
        self._connect()
        self._tell()
        self._timer.start()
        self._work.start(QThread.Priority.LowPriority)

    @property
    def is_running(self) -> bool:
        """Whether there is more to come."""
        return self._timer.isActive()

    @property
    def status(self) -> str:
        """What is said above the table."""
        return self._status.text()

    def accept(self) -> None:
        """Hand over what is chosen."""
        done = self.table.chosen
        if done is not None and done.changes:
            self.chosen.emit(done)
            super().accept()

    def done(self, result: int) -> None:
        """End what still runs, and close."""
        self._timer.stop()
        self._work.cancel()
        self._work.wait()
        super().done(result)

    def _stop_trying(self) -> None:
        self._work.cancel()

    def _show_beginning(self, title: str) -> None:
        self._trying = title
        self._began = time.monotonic()
        self._tell()

    def _show_try(self, done: Try) -> None:
        self._trying = ""
        self.table.add(done)
        self._tell()
        self.tried.emit(done)

    def _finish(self) -> None:
        self._timer.stop()
        self._progress.hide()
        self._stop.hide()
        self._status.setText(self._conclusion())
        found = self._found()
        if found is not None:
            self.table.choose(found)
        self._choose()

    def _found(self) -> Try | None:
        """What "Fit it for me" has found; None: nothing, or it was each alone."""
        changes = getattr(self._tries, "changes", None)
        return next((one for one in self.table.tries if changes is not None and one.changes == changes), None)

    def _conclusion(self) -> str:
        failure = self._work.failure
        if failure is not None:
            return " ".join(part for part in (failure.title, failure.detail) if part)
        found = self._found()
        if found is not None and not found.changes:
            return self.tr("It fits as it is, with room to spare: there is nothing to change.")
        if found is not None:
            return self.tr("Found: {changes}.").format(changes=found.title)
        reason = str(getattr(self._tries, "reason", ""))
        stopped = self.tr("Stopped.") if self._work.cancelled else self.tr("All were measured.")
        return reason or stopped

    def _tell(self) -> None:
        spent = duration(time.monotonic() - self._began)
        words = self.tr("Trying: {title}… {spent}") if self._trying else self.tr("Getting ready…")
        self._status.setText(words.format(title=self._trying, spent=spent))

    def _choose(self) -> None:
        done = self.table.chosen
        is_good = done is not None and done.verdict in (Verdict.FITS, Verdict.TIGHT) and bool(done.changes)
        self.take.setEnabled(is_good and not self.is_running)

    def _lay_out(self, words: str) -> None:
        said = QLabel(words)
        said.setWordWrap(True)
        set_role(said, Role.MUTED)
        set_role(self.take, Role.PRIMARY)
        self.take.setToolTip(self.tr("Change the form as the chosen line says; it can be undone"))
        self.take.setEnabled(False)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._status, 1)
        line.addWidget(self._stop)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._buttons.addButton(self.take, QDialogButtonBox.ButtonRole.AcceptRole)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(said)
        layout.addLayout(line)
        layout.addWidget(self._progress)
        layout.addWidget(self.table, 1)
        layout.addWidget(self._buttons)

    def _connect(self) -> None:
        self._work.began.connect(self._show_beginning)
        self._work.tried.connect(self._show_try)
        self._work.finished.connect(self._finish)
        self._stop.clicked.connect(self._stop_trying)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        self.table.itemSelectionChanged.connect(self._choose)
