"""What the card "Will it fit?" opens, and what it changes in the form: a remedy, a time box, what was found to fit."""

import time
from collections.abc import Sequence
from enum import Enum, auto
from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.base.formats import MISSING, duration, memory, step_time
from core.base.language import _
from core.memory.explain import PartExplained, explain_parts
from core.memory.model import Forecast, Verdict, key_of
from core.memory.remedies import Remedy
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.method_rules import most_epochs, useful_steps
from core.runs import queue
from core.services.autofit import Fitting, MeasuringEach, Try
from gui.base.background import Call, Task
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.base.trash import Question
from gui.new_run.memory_card import FitCard, basis_help, headline, saving_text, undivided_text
from gui.new_run.memory_state import MemoryState
from gui.new_run.options import ChangeSet
from gui.widgets.labels import text_label
from gui.widgets.layout import PageScroll, fill
from gui.widgets.tables import Group, KeyValue, Row, set_up_rows


class ExplainedSheet(QDialog):
    """Each part of the memory by a sentence, a formula and its source; no parts: only the whole is known."""

    def __init__(
        self, forecast: Forecast, parts: Sequence[PartExplained], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("What takes the memory"))
        self.resize(680, 600)
        whole = Row(_("Held in all"), f"{memory(forecast.parts.total)}. {undivided_text()}")
        self.rows = KeyValue()
        self.rows.set_groups([Group(_("Parts"), tuple(map(self._row, parts)) or (whole,))])
        content = QWidget()
        fill(QVBoxLayout(content), self.rows, None, margins=(0, 0, SPACING, 0))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(text_label(" ".join((basis_help(forecast.basis), *forecast.notes))))
        layout.addWidget(PageScroll(content), 1)
        layout.addWidget(buttons)

    def _row(self, part: PartExplained) -> Row:
        source = _("Source: {source}").format(source=part.source) if part.source else ""
        how = "\n".join(line for line in (part.formula, source) if line)
        return Row(part.title, f"{memory(part.bytes)}. {part.sentence}", how)


class TriesTable(QTableWidget):
    """The short runs that were tried: what was changed, and what it took. One row can be chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.tries: list[Try] = []
        self.setHorizontalHeaderLabels([_("Changed"), _("Memory at most"), _("A step"), _("Result")])
        self.setAccessibleName(_("What was tried"))
        set_up_rows(self)
        self.setWordWrap(True)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)

    def add(self, done: Try) -> None:
        self.tries.append(done)
        row = self.rowCount()
        self.insertRow(row)
        measured = done.measurement
        results = {
            Verdict.FITS: _("✓ fits"),
            Verdict.TIGHT: _("! fits tightly"),
            Verdict.TOO_LARGE: _("✕ doesn't fit"),
            Verdict.UNKNOWN: _("✕ failed"),
        }
        cells = (
            done.title,
            memory(measured.peak) if measured else MISSING,
            step_time(measured.step_seconds) if measured else MISSING,
            results[done.verdict],
        )
        for column, words in enumerate(cells):
            item = QTableWidgetItem(words)
            item.setToolTip(done.problem or (measured.out_of_memory if measured else "") or words)
            self.setItem(row, column, item)
        self.scrollToBottom()

    def choose(self, done: Try) -> None:
        self.selectRow(self.tries.index(done))

    @property
    def chosen(self) -> Try | None:
        rows = self.selectionModel().selectedRows()
        return self.tries[rows[0].row()] if rows else None


class FitSheet(QDialog):
    """ "Fit it for me" and "Measure all": shows each short run as it ends. Begins at once; closing it ends what runs.

    Signals:
        tried: A `core.services.autofit.Try` that has ended.
        chosen: The `core.services.autofit.Try` whose changes the person wants.
    """

    tried = Signal(object)
    chosen = Signal(object)

    def __init__(
        self, title: str, words: str, tries: Fitting | MeasuringEach, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(760, 520)
        self._tries = tries
        self._began = time.monotonic()
        self._trying = ""
        self._is_stopped = False
        self._status = text_label(role=Role.STRONG)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("Trying"))
        self.table = TriesTable()
        self.table.itemSelectionChanged.connect(self._follow_choice)
        self._stop = QPushButton(_("Stop"))
        self._stop.clicked.connect(self._stop_trying)
        self.take = QPushButton(_("Apply"))
        set_role(self.take, Role.PRIMARY)
        self.take.setToolTip(_("Change the form as the chosen line says; it can be undone"))
        self.take.setEnabled(False)
        line = fill(QHBoxLayout(), (self._status, 1), self._stop, spacing=SPACING)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.take, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(text_label(words, Role.MUTED))
        layout.addLayout(line)
        layout.addWidget(self._progress)
        layout.addWidget(self.table, 1)
        layout.addWidget(buttons)
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._tell)
        self._clock.start()
        self._task: Task[None] = Task(self)
        self._task.progress.connect(self._on_progress)
        self._task.done.connect(self._finish)
        self._task.failed.connect(self._finish)
        self._tell()
        self._task.start(self._make_tries)

    @property
    def is_running(self) -> bool:
        """Whether there is more to come."""
        return self._clock.isActive()

    @property
    def status(self) -> str:
        return self._status.text()

    def accept(self) -> None:
        """Hand over what is chosen."""
        done = self.table.chosen
        if done is not None and done.changes:
            self.chosen.emit(done)
            super().accept()

    def done(self, result: int) -> None:
        """End what still runs, and close."""
        self._clock.stop()
        self._tries.stop()
        self._task.close()
        super().done(result)

    def _make_tries(self, call: Call) -> None:
        """In the thread: tell the title of each try as it begins, and the try as it ends."""
        self._tries.heed(call.tell)
        for done in self._tries.tries():
            call.tell(done)

    def _on_progress(self, told: str | Try) -> None:
        if isinstance(told, str):
            self._trying, self._began = told, time.monotonic()
            self._tell()
        else:
            self._trying = ""
            self.table.add(told)
            self._tell()
            self.tried.emit(told)

    def _stop_trying(self) -> None:
        self._is_stopped = True
        self._tries.stop()

    def _finish(self, failure: object = None) -> None:
        self._clock.stop()
        self._progress.hide()
        self._stop.hide()
        changes = getattr(self._tries, "changes", None)  # those that "Fit it for me" has found
        found = next(
            (one for one in self.table.tries if changes is not None and one.changes == changes), None
        )
        if failure is not None:
            self._status.setText(str(failure))
        elif found is None:
            ended = _("Stopped.") if self._is_stopped else _("All were measured.")
            self._status.setText(str(getattr(self._tries, "reason", "")) or ended)
        elif found.changes:
            self._status.setText(_("Found: {changes}.").format(changes=found.title))
        else:
            self._status.setText(_("It fits as it is, with room to spare: there is nothing to change."))
        if found is not None:
            self.table.choose(found)
        self._follow_choice()

    def _tell(self) -> None:
        spent = duration(time.monotonic() - self._began)
        words = _("Trying: {title}… {spent}") if self._trying else _("Getting ready…")
        self._status.setText(words.format(title=self._trying, spent=spent))

    def _follow_choice(self) -> None:
        done = self.table.chosen
        is_good = done is not None and done.verdict in (Verdict.FITS, Verdict.TIGHT) and bool(done.changes)
        self.take.setEnabled(is_good and not self.is_running)


class Start(Enum):
    """What becomes of a run that doesn't fit."""

    WITH_REMEDY = auto()
    ANYWAY = auto()
    NEVER = auto()


class MemoryActions(QObject):
    """Opens what the card asks for, and changes the form so that it can be undone."""

    def __init__(self, card: FitCard, state: MemoryState, changes: ChangeSet) -> None:
        super().__init__(card)
        self._card = card
        self._state = state
        self._changes = changes
        self.sheet: FitSheet | None = None
        self._agreed = b""
        card.ladder.remedy_chosen.connect(self.apply)
        card.ladder.fit.clicked.connect(self.fit)
        card.ladder.each.clicked.connect(self.measure_all)
        card.set_steps.clicked.connect(lambda: self.box_time(card.hours.value()))
        card.what_is_this.clicked.connect(self.explain)

    def may_start(self) -> bool:
        """Ask about a run that doesn't fit, once for what is asked; a remedy that is chosen changes the form instead.

        One that has to wait for another is compared with all there is: the other gives its memory back.
        """
        state = self._state
        state.resume()
        case, forecast = state.case, state.forecast
        if case is None or forecast is None or state.verdict is not Verdict.TOO_LARGE:
            return True
        key = key_of(case.options)
        waits = not state.ran_out and queue.ahead_of(case.options.device.name) is not None
        if key == self._agreed or (waits and state.room and forecast.parts.total <= state.room.ceiling):
            return True
        enough = (Verdict.FITS, Verdict.TIGHT)
        remedies = (one for one in state.remedies() if one.changes and state.verdict_after(one) in enough)
        remedy = next(remedies, None)
        answer = self._question(headline(forecast, state.ran_out)[1], remedy).ask(Start.NEVER)
        if answer is Start.ANYWAY:
            self._agreed = key
        elif answer is Start.WITH_REMEDY and remedy is not None:
            self.apply(remedy)
        elif answer is Start.WITH_REMEDY:
            self.fit()
        return answer is Start.ANYWAY

    def _question(self, figures: str, remedy: Remedy | None) -> Question[Start]:
        """What is asked; Return never starts what doesn't fit."""
        state = self._state
        words = _("Where memory runs out, the run ends, and other programs may become slow.")
        answers = {Start.ANYWAY: _("Start anyway")}
        if remedy is not None:
            after, gain = state.verdict_after(remedy), state.gain(remedy)
            words += f"\n\n{remedy.title}: {saving_text(remedy, state.verdict, after, gain)}"
            answers = {Start.WITH_REMEDY: _("Apply: {remedy}").format(remedy=remedy.title), **answers}
        elif state.can_measure:
            words += "\n\n" + _("No single change makes it fit; Hone can look for several that do.")
            answers = {Start.WITH_REMEDY: _("Fit it for me…"), **answers}
        title = _("It doesn't fit into memory: {figures}").format(figures=figures)
        question = Question(title, words, answers, self._card.window())
        if len(answers) == 1:
            question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        return question

    def explain(self) -> None:
        state, case, forecast = self._state, self._state.case, self._state.forecast
        if case is not None and forecast is not None:
            parts = explain_parts(case.options, case.shape, case.device, forecast)
            ExplainedSheet(forecast, () if state.is_undivided else parts, self._card).open()

    def fit(self) -> None:
        """Let Hone find what fits, by short runs."""
        state = self._state
        state.read_room()
        case = state.case
        if case is None or not state.can_measure:
            return
        fitting = Fitting(
            case.options,
            case.model,
            case.device,
            state.room,
            state.tools.dry_run,
            length=state.known_length,
            correction=state.correction,
        )
        words = _(
            "Runs short tests on your longest rows, your current settings first if they have a chance, until one fits "
            "with 10 % to spare: the fastest that keeps the result, else the fastest of those that lose least. "
            "The form changes only when you press Apply."
        )
        self._open(FitSheet(_("Fit it for me"), words, fitting, self._card.window()), case.options)

    def measure_all(self) -> None:
        """Measure what each remedy really saves and costs."""
        state = self._state
        state.read_room()
        case, now = state.case, state.forecast
        if case is None or now is None or not state.can_measure:
            return
        each = MeasuringEach(
            case.options, state.remedies(), case.device, state.room, state.tools.dry_run, as_asked=now
        )
        words = _(
            "A short real run as asked, then one with each remedy alone; what they saved and cost stays beside the "
            "remedies. Choose a line and press Apply to take it; the form does not change before."
        )
        self._open(FitSheet(_("Measure all"), words, each, self._card.window()), case.options)

    def close(self) -> None:
        """End what a sheet still runs."""
        if self.sheet is not None:
            self.sheet.reject()

    def apply(self, remedy: Remedy) -> None:
        self._changes.change(remedy.title, remedy.help, remedy.changes)

    def box_time(self, hours: float) -> None:
        """Stop after as many steps as fit into some hours, and are worth their time."""
        measured, case = self._state.measured, self._state.case
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
        self._changes.change(title, told, {"training.max_steps": least})

    def _open(self, sheet: FitSheet, asked: RunOptions) -> None:
        self._state.rest()
        self.sheet = sheet
        sheet.tried.connect(partial(self._keep, asked))
        sheet.chosen.connect(self._take)
        sheet.finished.connect(self._forget)
        sheet.open()

    def _keep(self, asked: RunOptions, done: Try) -> None:
        if done.measurement is not None:
            self._state.keep(with_changes(asked, done.changes), done.measurement)

    def _take(self, done: Try) -> None:
        self._changes.change(done.title, _("Measured by a short run."), done.changes)

    def _forget(self) -> None:
        self.sheet = None
        self._state.resume()
