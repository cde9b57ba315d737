"""The dialogs of the card "Will it fit?", and the changes they and the card make to the form."""

import time
from collections.abc import Sequence
from enum import Enum, auto
from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.base.formats import MISSING, about, counted, duration, memory, paragraph, step_time, titled
from core.base.language import _
from core.memory import history
from core.memory.explain import PartExplained, explain_parts
from core.memory.model import FitVerdict, key_of
from core.memory.remedies import Remedy
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.runs import queue
from core.services.autofit import Begun, Fitting, Try
from gui.base.background import Call, EngineWork
from gui.base.questions import Question
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.new_run.memory_card import FitCard, basis_help, headline, undivided_text
from gui.new_run.memory_state import MemoryState
from gui.new_run.state import failure_text
from gui.new_run.undo import FormHistory
from gui.run.words import forecast_text
from gui.widgets.bars import progress_bar
from gui.widgets.labels import push_button, text_label
from gui.widgets.layout import PageScroll, Sheet, fill, fill_dialog, hbox
from gui.widgets.tables import Group, KeyValue, TableRow, set_up_texts


class ExplainedSheet(Sheet):
    """Each part of the memory with a sentence, a formula and its source; only the whole if there are no parts."""

    def __init__(self, basis: str, total: int, parts: Sequence[PartExplained], parent: QWidget) -> None:
        super().__init__(_("What takes the memory"), parent)
        self.resize(680, 600)
        rows = [TableRow(_("Total"), paragraph(memory(total), undivided_text()))]
        if parts:
            rows = list(map(self._row, parts))
        self.rows = KeyValue()
        self.rows.set_groups([Group(_("Parts"), tuple(rows))])
        content = QWidget()
        fill(QVBoxLayout(content), self.rows, None, margins=(0, 0, SPACING, 0))
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close)
        fill_dialog(self, text_label(basis), (PageScroll(content), 1), buttons)

    def _row(self, part: PartExplained) -> TableRow:
        source = _("Source: {source}").format(source=part.source) if part.source else ""
        note = "\n".join(line for line in (part.formula, source) if line)
        return TableRow(part.title, paragraph(memory(part.bytes), part.sentence), note)


class TriesTable(QTableWidget):
    """The tries: what was changed and what it took, then those that are planned. One that has ended can be selected."""

    def __init__(self) -> None:
        super().__init__()
        self.tries: list[Try] = []
        titles = (_("Change"), _("Peak memory"), _("Step time"), _("Result"))
        set_up_texts(self, _("Tries"), titles)
        self.setWordWrap(True)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)

    def show_plan(self, titles: Sequence[str]) -> None:
        """Show below the results which try runs now, and those that follow if it doesn't fit."""
        self.setRowCount(len(self.tries))
        for place, title in enumerate(titles):
            self._set_row(
                len(self.tries) + place, (title, "", "", _("running…") if place == 0 else _("planned"))
            )

    def add(self, trial: Try) -> None:
        """Show the result of the try that ran; the plan below it is out of date."""
        self.show_plan(())
        self.tries.append(trial)
        measured = trial.measurement
        results = {
            FitVerdict.FITS: _("✓ fits"),
            FitVerdict.TIGHT: _("! fits tightly"),
            FitVerdict.TOO_LARGE: _("✕ doesn't fit"),
            FitVerdict.UNKNOWN: _("✕ failed"),
        }
        cells = (
            trial.title,
            memory(measured.peak) if measured else MISSING,
            step_time(measured.step_seconds) if measured else MISSING,
            results[trial.verdict],
        )
        self._set_row(self.rowCount(), cells, trial.problem or (measured.out_of_memory if measured else ""))

    def _set_row(self, row: int, cells: Sequence[str], tip: str = "") -> None:
        self.setRowCount(max(row + 1, self.rowCount()))
        for column, text in enumerate(cells):
            item = QTableWidgetItem(text)
            item.setToolTip(tip or text)
            if row >= len(self.tries):
                item.setFlags(Qt.ItemFlag.NoItemFlags)
            self.setItem(row, column, item)

    def choose(self, trial: Try) -> None:
        self.selectRow(self.tries.index(trial))

    @property
    def chosen(self) -> Try | None:
        rows = self.selectionModel().selectedRows()
        return self.tries[rows[0].row()] if rows else None


class FitSheet(Sheet):
    """ "Fit it for me": shows each short run as it ends. Closing it ends them."""

    tried = Signal(object)  # a `core.services.autofit.Try` that has ended
    chosen = Signal(object)  # the one whose changes the person wants

    def __init__(self, title: str, text: str, tries: Fitting, parent: QWidget) -> None:
        super().__init__(title, parent)
        self.resize(760, 520)
        self._tries = tries
        self._began = self._try_began = time.monotonic()
        self._begun: Begun | None = None
        self.status = text_label(role=Role.STRONG)
        self._time = text_label(role=Role.HINT)
        self._progress = progress_bar(_("Tries"))
        self.table = TriesTable()
        self.table.itemSelectionChanged.connect(self._show_button)
        tip = _("Change the form to the selected settings. You can undo this.")
        self.stop = push_button(_("Stop"), tries.stop)
        self.apply = push_button(_("Apply"), self.accept, tip)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close, self.apply)
        fill_dialog(
            self,
            text_label(text, Role.MUTED),
            hbox((self.status, 1), self.stop),
            self._progress,
            self._time,
            (self.table, 1),
            buttons,
        )
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._show_status)
        self._clock.start()
        self._work: EngineWork[None] = EngineWork(self, progress=self._on_progress, settled=self._on_settled)
        self._show_status()
        self._show_button()
        self.table.setFocus()
        self._work.start(self._make_tries)

    @property
    def is_running(self) -> bool:
        return self._clock.isActive()

    def accept(self) -> None:
        trial = self.table.chosen
        if trial is not None and trial.changes:
            self.chosen.emit(trial)
            super().accept()

    def done(self, result: int) -> None:
        self._clock.stop()
        self._tries.stop()
        self._work.close()
        super().done(result)

    def _make_tries(self, call: Call) -> None:
        """Report each try as it begins and as it ends. Runs in the thread."""
        self._tries.on_begin(call.tell)
        for trial in self._tries.tries():
            call.tell(trial)

    def _on_progress(self, progress: Begun | Try) -> None:
        if isinstance(progress, Begun):
            self._begun, self._try_began = progress, time.monotonic()
            self._progress.setRange(0, progress.most)
            self._progress.setValue(progress.number - 1)
            self.table.show_plan(progress.plan)
        else:
            self.table.add(progress)
            self.tried.emit(progress)
        self._show_status()

    def _on_settled(self) -> None:
        self._clock.stop()
        self._progress.hide()
        self._time.hide()
        self.stop.hide()
        self.table.show_plan(())
        changes, tries = self._tries.changes, self.table.tries
        result = next((trial for trial in tries if changes is not None and trial.changes == changes), None)
        if self._work.failure is not None:
            text = str(self._work.failure)
        elif result is None:
            text = self._tries.reason
        elif result.changes:
            text = _("Suggestion: {changes}").format(changes=result.title)
        else:
            text = _("Your settings fit with room to spare. Nothing needs to change.")
        self.status.setText(text)
        if result is not None:
            self.table.choose(result)
        self._show_button()

    def _show_status(self) -> None:
        """Show which try runs, the time that has passed, and the most that is left by the mean of the tries so far."""
        now, done, begun = time.monotonic(), len(self.table.tries), self._begun
        if begun is None:
            self.status.setText(_("Preparing…"))
            return
        text = _("Try {number} of at most {most}: {title}")
        self.status.setText(text.format(number=begun.number, most=begun.most, title=begun.plan[0]))
        spent = duration(now - self._began)
        if not done:
            self._time.setText(_("{spent} so far").format(spent=spent))
            return
        each = (self._try_began - self._began) / done
        left = max(0.0, each * (begun.most - done) - (now - self._try_began))
        self._time.setText(
            _("{spent} so far, at most about {left} left").format(spent=spent, left=about(left))
        )

    def _show_button(self) -> None:
        trial = self.table.chosen
        fits = trial is not None and trial.verdict in (FitVerdict.FITS, FitVerdict.TIGHT)
        self.apply.setEnabled(fits and bool(trial and trial.changes) and not self.is_running)


class DoesntFitAnswer(Enum):
    """The answer about a run that doesn't fit."""

    WITH_REMEDY = auto()
    ANYWAY = auto()
    NEVER = auto()


class MemoryActions(QObject):
    """Opens the dialogs of the card, and changes the form so that it can be undone."""

    other_model_wanted = Signal()

    def __init__(self, card: FitCard, state: MemoryState, changes: FormHistory) -> None:
        super().__init__(card)
        self._card = card
        self._state = state
        self._changes = changes
        self.sheet: FitSheet | None = None
        self._confirmed = b""
        card.ladder.remedy_chosen.connect(self.apply)
        card.ladder.fit.clicked.connect(self.fit)
        card.ladder.explain.clicked.connect(self.explain)
        card.set_steps.clicked.connect(self.limit_time)

    def may_start(self) -> bool:
        """Ask about a run that doesn't fit, once for the same memory; a chosen remedy changes the form instead.

        A run that has to wait for another one is compared with all the memory there is: the other frees its own.
        """
        state = self._state
        state.resume()
        failure = state.lookup.failure
        if state.lookup_source and failure is not None:
            title = _("{model} isn't on this computer, and can't be downloaded now")
            answers = {
                DoesntFitAnswer.WITH_REMEDY: _("Choose another model"),
                DoesntFitAnswer.ANYWAY: _("Start anyway"),
            }
            title, text = title.format(model=state.lookup_source), failure_text(failure)
            answer = Question(title, text, answers, self._card.window()).ask(DoesntFitAnswer.NEVER)
            if answer is DoesntFitAnswer.WITH_REMEDY:
                self.other_model_wanted.emit()
            if answer is not DoesntFitAnswer.ANYWAY:
                return False
        case, forecast = state.case, state.forecast
        if case is None or forecast is None or FitVerdict.TOO_LARGE not in (state.verdict, forecast.verdict):
            return True
        key = key_of(case.options)
        waits = not state.ran_out and queue.ahead_of(queue.device_held(case.options)) is not None
        fits_alone = state.room is not None and forecast.parts.total <= state.room.ceiling
        if key == self._confirmed or (waits and fits_alone):
            return True
        enough = (FitVerdict.FITS, FitVerdict.TIGHT)
        remedies = (item for item in state.remedies() if item.changes and state.verdict_after(item) in enough)
        remedy = next(remedies, None)
        answer = self._question(headline(state, forecast)[1], remedy).ask(DoesntFitAnswer.NEVER)
        if answer is DoesntFitAnswer.ANYWAY:
            self._confirmed = key
        elif answer is DoesntFitAnswer.WITH_REMEDY and remedy is not None:
            self.apply(remedy)
        elif answer is DoesntFitAnswer.WITH_REMEDY:
            self.fit()
        return answer is DoesntFitAnswer.ANYWAY

    def _question(self, figures: str, remedy: Remedy | None) -> Question[DoesntFitAnswer]:
        """Return the question. The Return key doesn't start a run that doesn't fit."""
        text = _("If memory runs out, the run ends and other programs may become slow.")
        answers = {DoesntFitAnswer.ANYWAY: _("Start anyway")}
        if remedy is not None:
            text += "\n\n" + titled(remedy.title, self._card.worth(remedy))
            answers = {
                DoesntFitAnswer.WITH_REMEDY: _("Apply: {remedy}").format(remedy=remedy.title),
                **answers,
            }
        elif self._state.can_measure:
            text += "\n\n" + _("No single change makes it fit. Hone can look for a combination that does.")
            answers = {DoesntFitAnswer.WITH_REMEDY: _("Fit it for me…"), **answers}
        title = _("This run doesn't fit into memory: {figures}")
        if self._state.is_upper_bound:
            title = _("This run may not fit into memory: {figures}")
        title = title.format(figures=figures)
        return Question(title, text, answers, self._card.window(), return_cancels=len(answers) == 1)

    def explain(self) -> None:
        state, case, forecast = self._state, self._state.case, self._state.forecast
        if case is not None and forecast is not None:
            parts = explain_parts(case.options, case.shape, case.device, forecast)
            parts = () if state.is_undivided else parts
            basis = "\n".join(filter(None, (basis_help(state, forecast), forecast_text(history.read()))))
            ExplainedSheet(basis, forecast.parts.total, parts, self._card).open()

    def fit(self) -> None:
        """Search for what fits, by short runs."""
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
        text = _(
            "Tests your settings, then lighter ones, in short runs and suggests the fastest that fits with "
            "10 % to spare. Settings that may change the result come last. The form changes only when you press Apply."
        )
        begin = partial(self._open, case.options, text, fitting)
        state.before_sending(case.options, begin)

    def close(self) -> None:
        """Close the dialog, which ends what it runs."""
        if self.sheet is not None:
            self.sheet.reject()

    def apply(self, remedy: Remedy) -> None:
        self._changes.change(remedy.title, remedy.help, remedy.changes)

    def limit_time(self) -> None:
        """Stop after as many steps as fit into the time of the card."""
        box = self._card.time
        steps = self._state.steps_within(box.value())[0]
        title = _("Train all epochs")
        if steps is not None:
            title = _("Stop each run after {steps}") if self._state.pair else _("Stop after {steps}")
            title = title.format(steps=counted(steps, "step"))
        text = _("As many steps as fit into {time} at the measured speed.").format(time=box.text())
        self._changes.change(title, text, {"training.max_steps": steps})

    def _open(self, options: RunOptions, text: str, fitting: Fitting) -> None:
        self._state.pause()
        sheet = self.sheet = FitSheet(_("Fit it for me"), text, fitting, self._card.window())
        sheet.tried.connect(partial(self._on_tried, options))
        sheet.chosen.connect(self._on_chosen)
        sheet.finished.connect(self._on_finished)
        sheet.open()

    def _on_tried(self, options: RunOptions, trial: Try) -> None:
        if trial.measurement is not None:
            self._state.add_measurement(with_changes(options, trial.changes), trial.measurement)

    def _on_chosen(self, trial: Try) -> None:
        self._changes.change(trial.title, _("Measured in a short run."), trial.changes)

    def _on_finished(self) -> None:
        self.sheet = None
        self._state.resume()
