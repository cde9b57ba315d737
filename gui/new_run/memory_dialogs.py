"""What is pressed on the card "Will it fit?" and changes the form: a remedy, a time box, what Hone found to fit.

And what is asked before a run is started that doesn't fit.
"""

import time
from collections.abc import Iterator
from enum import Enum, auto
from functools import partial
from gettext import gettext as _
from typing import Protocol

from PySide6.QtCore import QObject, QRect, Qt, QThread, QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.base.format import MISSING, duration, memory, step_time
from core.memory.model import Verdict, key_of, with_changes
from core.memory.remedies import Remedy
from core.options import RunOptions
from core.options.method_rules import most_epochs, useful_steps
from core.runs import queue
from core.services.autofit import Began, Fitting, MeasuringEach, Try
from gui.base.background import EngineWork
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.base.trash import Question
from gui.new_run.memory_card import FitCard, headline, saving_words
from gui.new_run.memory_state import FitOutlook
from gui.new_run.options import Laying
from gui.widgets.tables import set_up_rows

CELL_PADDING = 3 * SPACING
"""Room within a cell that Qt does not count when it measures wrapped texts, on both sides together."""

WORDS = 0
"""The column whose texts wrap."""


class TriesTable(QTableWidget):
    """A row a try; one row can be chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.tries: list[Try] = []
        self.setHorizontalHeaderLabels([_("Changed"), _("Memory at most"), _("A step"), _("Result")])
        self.setAccessibleName(_("What was tried"))
        set_up_rows(self)
        self.setWordWrap(True)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(WORDS, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._fit_rows)

    def add(self, done: Try) -> None:
        self.tries.append(done)
        row = self.rowCount()
        self.insertRow(row)
        measured = done.measurement
        cells = (
            done.title,
            memory(measured.peak) if measured else MISSING,
            step_time(measured.step_seconds) if measured else MISSING,
            self._result(done),
        )
        for column, words in enumerate(cells):
            item = QTableWidgetItem(words)
            item.setToolTip(done.problem or (measured.out_of_memory if measured else "") or words)
            self.setItem(row, column, item)
        self._fit_rows()
        self.scrollToBottom()

    def choose(self, done: Try) -> None:
        self.selectRow(self.tries.index(done))

    @property
    def chosen(self) -> Try | None:
        rows = self.selectionModel().selectedRows()
        return self.tries[rows[0].row()] if rows else None

    def _result(self, done: Try) -> str:
        match done.verdict:
            case Verdict.FITS:
                return _("✓ fits")
            case Verdict.TIGHT:
                return _("! fits tightly")
            case Verdict.TOO_LARGE:
                return _("✕ doesn't fit")
            case Verdict.UNKNOWN:
                return _("✕ failed")

    def _fit_rows(self) -> None:
        room = QRect(0, 0, self.columnWidth(WORDS) - CELL_PADDING, 0)
        for row, done in enumerate(self.tries):
            height = self.fontMetrics().boundingRect(room, Qt.TextFlag.TextWordWrap, done.title).height()
            self.setRowHeight(row, height + SPACING + 2)


FIT_SIZE = (760, 520)
TICK_MS = 1000


class Tries(Protocol):
    """What makes one dry run after another: `core.services.autofit.Fitting` or `MeasuringEach`."""

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
        tried: A `core.services.autofit.Try` that has ended.
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
        tried: A `core.services.autofit.Try` that has ended.
        chosen: The `core.services.autofit.Try` whose changes the person wants.

    Args:
        title: What it does, for its window.
        words: The same in a sentence or two.
        tries: Makes the dry runs.
    """

    tried = Signal(object)
    chosen = Signal(object)

    def __init__(self, title: str, words: str, tries: Tries, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*FIT_SIZE)
        self._tries = tries
        self._began = time.monotonic()
        self._trying = ""
        self._status = QLabel()
        self._status.setWordWrap(True)
        set_role(self._status, Role.STRONG)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("Trying"))
        self.table = TriesTable()
        self._stop = QPushButton(_("Stop"))
        self.take = QPushButton(_("Apply"))
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
        return self._timer.isActive()

    @property
    def status(self) -> str:
        return self._status.text()

    def accept(self) -> None:
        done = self.table.chosen
        if done is not None and done.changes:
            self.chosen.emit(done)
            super().accept()

    def done(self, result: int) -> None:
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
            return _("It fits as it is, with room to spare: there is nothing to change.")
        if found is not None:
            return _("Found: {changes}.").format(changes=found.title)
        reason = str(getattr(self._tries, "reason", ""))
        stopped = _("Stopped.") if self._work.cancelled else _("All were measured.")
        return reason or stopped

    def _tell(self) -> None:
        spent = duration(time.monotonic() - self._began)
        words = _("Trying: {title}… {spent}") if self._trying else _("Getting ready…")
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
        self.take.setToolTip(_("Change the form as the chosen line says; it can be undone"))
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


class Start(Enum):
    """What becomes of a run that doesn't fit."""

    WITH_REMEDY = auto()
    ANYWAY = auto()
    NEVER = auto()


class FitActions(QObject):
    """Changes the form as the card asks, so that it can be undone.

    Args:
        card: The card.
        outlook: What is known of the memory.
        laying: Changes the form and lists what that changed.
    """

    def __init__(self, card: FitCard, outlook: FitOutlook, laying: Laying) -> None:
        super().__init__(card)
        self._card = card
        self._outlook = outlook
        self._laying = laying
        self.sheet: FitSheet | None = None
        self._agreed = b""
        card.remedy_chosen.connect(self.apply)
        card.hours_chosen.connect(self.box_time)
        card.fit_pressed.connect(self.fit)
        card.measure_all_pressed.connect(self.measure_all)

    def may_start(self) -> bool:
        """Ask about a run that doesn't fit, once for what is asked; a remedy that is chosen changes the form instead.

        One that has to wait for another is held against all there is: the other gives its memory back.
        """
        outlook = self._outlook
        outlook.resume()
        case, forecast = outlook.case, outlook.forecast
        if case is None or forecast is None or outlook.verdict is not Verdict.TOO_LARGE:
            return True
        key = key_of(case.options)
        waits = not outlook.ran_out and queue.ahead_of(case.options.device.name) is not None
        if key == self._agreed or (waits and outlook.room and forecast.parts.total <= outlook.room.ceiling):
            return True
        enough = (Verdict.FITS, Verdict.TIGHT)
        remedies = (one for one in outlook.remedies() if one.changes and outlook.verdict_after(one) in enough)
        remedy = next(remedies, None)
        answer = self._question(headline(forecast, outlook.ran_out).figures, remedy).ask(Start.NEVER)
        if answer is Start.ANYWAY:
            self._agreed = key
        elif answer is Start.WITH_REMEDY and remedy is not None:
            self.apply(remedy)
        elif answer is Start.WITH_REMEDY:
            self.fit()
        return answer is Start.ANYWAY

    def _question(self, figures: str, remedy: Remedy | None) -> Question[Start]:
        outlook = self._outlook
        words = _("Where memory runs out, the run ends, and other programs may become slow.")
        answers = {Start.ANYWAY: _("Start anyway")}
        if remedy is not None:
            after, gain = outlook.verdict_after(remedy), outlook.gain(remedy)
            words += f"\n\n{remedy.title}: {saving_words(remedy, outlook.verdict, after, gain)}"
            answers = {Start.WITH_REMEDY: _("Apply: {remedy}").format(remedy=remedy.title), **answers}
        elif outlook.can_measure:
            words += "\n\n" + _("No single change makes it fit; Hone can look for several that do.")
            answers = {Start.WITH_REMEDY: _("Fit it for me…"), **answers}
        title = _("It doesn't fit into memory: {figures}").format(figures=figures)
        question = Question(title, words, answers, self._card.window())
        if len(answers) == 1:
            question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        return question

    def fit(self) -> None:
        self._outlook.read_room()
        case, room = self._outlook.case, self._outlook.room
        if case is None or not self._outlook.can_measure:
            return
        fitting = Fitting(
            case.options,
            case.model,
            case.device,
            room,
            self._outlook.tools.dry_run,
            length=self._outlook.known_length,
            correction=self._outlook.correction,
        )
        words = _(
            "Short real runs on your longest rows, what was asked first if it has a chance, until one fits "
            "with a tenth to spare. Hone looks for the fastest that keeps the result, then for the fastest of those "
            "that lose least. The form changes only when you press Apply."
        )
        self._open(FitSheet(_("Fit it for me"), words, fitting, self._card.window()), case.options)

    def measure_all(self) -> None:
        self._outlook.read_room()
        case, room, now = self._outlook.case, self._outlook.room, self._outlook.forecast
        if case is None or now is None or not self._outlook.can_measure:
            return
        remedies, dry_run = self._outlook.remedies(), self._outlook.tools.dry_run
        each = MeasuringEach(case.options, remedies, case.device, room, dry_run, as_asked=now)
        words = _(
            "A short real run as asked, then one with each remedy alone; what they saved and cost stays beside the "
            "remedies. Choose a line and press Apply to take it; the form does not change before."
        )
        self._open(FitSheet(_("Measure all"), words, each, self._card.window()), case.options)

    def close(self) -> None:
        if self.sheet is not None:
            self.sheet.reject()

    def apply(self, remedy: Remedy) -> None:
        self._laying.change(remedy.title, remedy.help, remedy.changes)

    def box_time(self, hours: float) -> None:
        """Stop after as many steps as fit into some hours, and are worth their time."""
        measured, case = self._outlook.measured, self._outlook.case
        steps = measured.steps_within(hours) if measured is not None else None
        if measured is None or case is None or steps is None:
            return
        samples = measured.measurement.train_samples
        useful = useful_steps(case.options, samples) if samples else steps
        words = _("As many as fit into {hours:g} h, by what was measured.")
        if steps > useful:
            words = _("{steps:,} would fit into {hours:g} h; more than {epochs:g} epochs seldom help.")
        least = min(steps, useful)
        title = _("Stop after {steps:,} steps").format(steps=least)
        told = words.format(steps=steps, hours=hours, epochs=most_epochs(case.options))
        self._laying.change(title, told, {"training.max_steps": least})

    def _open(self, sheet: FitSheet, asked: RunOptions) -> None:
        self._outlook.rest()
        self.sheet = sheet
        sheet.tried.connect(partial(self._keep, asked))
        sheet.chosen.connect(self._take)
        sheet.finished.connect(self._forget)
        sheet.open()

    def _keep(self, asked: RunOptions, done: Try) -> None:
        if done.measurement is not None:
            self._outlook.keep(with_changes(asked, done.changes), done.measurement)

    def _take(self, done: Try) -> None:
        self._laying.change(done.title, _("Measured by a short run."), done.changes)

    def _forget(self) -> None:
        self.sheet = None
        self._outlook.resume()
