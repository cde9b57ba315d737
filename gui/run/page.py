"""The page of one run: header, figures, messages and tabs."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import Popen

import msgspec
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QInputDialog, QVBoxLayout, QWidget

from core.base.errors import Fix, FixAction, OptionsError, UserError
from core.base.files import writing
from core.base.language import _, isolated, pgettext
from core.options import RunOptions, Tree, past_runs, run_file
from core.runs import queue
from core.runs import start as starting
from core.runs.events import Action, Level, MessageRaised
from core.runs.folder import Connection, ExitRecord, RunFolder
from core.runs.models import TrainedModel
from core.runs.notes import write as write_notes
from core.runs.related import Related, Relation
from core.runs.start import Extension
from core.runs.status import RunStatus, State
from core.runs.verdict import RunFinding, verdict
from core.runs.words import kept_message, unread_message
from gui.base.background import EngineWork
from gui.base.files import reveal
from gui.base.questions import Question
from gui.base.sending import CHECKING, Sending
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.charts.grid import RunCharts
from gui.charts.history import RunHistory, RunUpdate
from gui.run import words as run_text
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet, Length, ModelTestSheet, from_its_model, titled, with_changes
from gui.run.follower import Asked, Begin, Remains, RunFollowerThread
from gui.run.header import RunAction, RunFigures, RunHeader
from gui.run.messages import VERDICT, RunMessages, cause_of
from gui.run.share import RunSharing
from gui.run.tabs import RunDetails
from gui.run.words import BeginTurn, RunFacts, ask_turn, starts_now
from gui.widgets.labels import margins, role_label
from gui.widgets.layout import FLUSH, QuietScroll, fill

TICK_MS = 1000

TO_HEED = (RunFinding.HARDLY_LEARNED, RunFinding.OVERFITS, RunFinding.WORSENED)
"""What a verdict warns of."""

Resume = Callable[..., Popen[bytes]]
"""Resumes a run, as `core.runs.start.resume` does."""


class RunView(QWidget):
    """Follows a run and shows it."""

    edit_requested = Signal(object)  # a tree of options for a new run
    state_changed = Signal(object)  # a `core.runs.status.State`
    renamed = Signal()  # it has another title now
    bin_requested = Signal()  # move the run to the trash
    try_requested = Signal()  # open its model under "Try it"
    test_requested = Signal(object)  # the `RunOptions` of a run that evaluates its model on other data
    compare_requested = Signal()  # choose a run to compare it with
    run_opened = Signal(object)  # a `RunFolder` that belongs to this run
    move_requested = Signal(object, object)  # this run, and its `core.runs.queue.Move`

    def __init__(
        self,
        theme: Theme,
        run: RunFolder,
        *,
        begin: Begin | None = None,
        resume: Resume | None = None,
        dismissed: set[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self.run = run
        self._resume_run = resume or partial(starting.resume, queued=True)
        self.status = RunStatus()
        self.history = RunHistory()
        self._state: State | None = None
        self._is_read = False
        self._exit_record: ExitRecord | None = None
        self._connection: Connection | None = None
        self._related = Related()
        self._remains = Remains()
        self._attempt_left = -1
        self._failures: list[MessageRaised] = []
        self._note: MessageRaised | None = None
        self._asked = Asked("")
        self.header = RunHeader()
        self._dismissed = set() if dismissed is None else dismissed
        self.messages = RunMessages(self._dismissed)
        self.figures = RunFigures()
        self.charts = RunCharts(theme, self.history)
        self.details = RunDetails(theme, run.path, self.charts, self.history)
        self.sharing = RunSharing(run, self)
        self._lay_out()
        self.job = RunFollowerThread(run, begin=begin, parent=self)
        self._reconnecting: EngineWork[bool] = EngineWork(self, failed=self.show_error)
        self.sending = Sending(self)
        self._tick = QTimer(self, interval=TICK_MS)
        self._connect()
        self.details.show_task(None)
        self.job.start()

    @property
    def title(self) -> str:
        return self._asked.title

    @property
    def _options(self) -> RunOptions | None:
        return self._asked.options

    @property
    def state(self) -> State | None:
        """Returns None while nothing is read yet."""
        return self._state

    def close_view(self) -> None:
        """Stop following; the run goes on. Takes a few milliseconds."""
        self._tick.stop()
        for sheet in self.findChildren(ExportSheet):
            sheet.done(0)
        self.sharing.close()
        self._reconnecting.close()
        self.sending.drop()
        self.job.stop_following()
        self.job.wait()
        self.charts.end_work()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        start, top, end, bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, bottom))
        layout.setSpacing(SPACING + SPACING // 2)
        band = QWidget()  # what is in it comes and goes, and nothing below moves
        band.setFixedHeight(2 * self.fontMetrics().lineSpacing() + 2 * SPACING)
        fill(QHBoxLayout(band), (self.header.bar, 1), (self.messages, 3), margins=FLUSH, spacing=2 * SPACING)
        for part in (self.header, band, self.figures):
            layout.addWidget(part)
        layout.addWidget(self.details, 1)

    def _connect(self) -> None:
        do: dict[RunAction, Callable[[], None]] = {
            RunAction.PAUSE: partial(self.job.request, Action.PAUSE),
            RunAction.RESUME: self.resume,
            RunAction.STOP: partial(self.job.request, Action.STOP),
            RunAction.END: partial(self.job.request, Action.KILL),
            RunAction.SAVE: partial(self.job.request, Action.SAVE),
            RunAction.DUPLICATE: lambda: self._request_edit(dict),
            RunAction.EXTEND: self._ask_to_extend,
            RunAction.TRY: self.try_requested.emit,
            RunAction.TEST: self._ask_to_test,
            RunAction.EXPORT: lambda: ExportSheet(self.run, self.title, self).open(),
            RunAction.COMPARE: self.compare_requested.emit,
            RunAction.RENAME: self._ask_name,
            RunAction.SCRIPT: self.sharing.save_script,
            RunAction.REPORT: self.sharing.save_report,
            RunAction.SUPPORT: self.sharing.show_support,
            RunAction.REVEAL: self._reveal,
            RunAction.TRASH: self.bin_requested.emit,
        }
        self.header.buttons.requested.connect(lambda action: do[action]())
        self.header.other.clicked.connect(self._open_related)
        self.sharing.reported.connect(self._show_note)
        self.messages.fix_chosen.connect(self._apply_fix)
        self.job.updated.connect(self._on_update)
        self.job.log_arrived.connect(self.details.add_log)
        self.job.ended.connect(self._on_end)
        self.job.connection_changed.connect(self._on_connection)
        self.job.asked_read.connect(self._on_asked)
        self.job.related_found.connect(self._on_related)
        self.job.remains_changed.connect(self._on_remains)
        self.job.state_changed.connect(self._on_state)
        self.job.job_failed.connect(self.show_error)
        checking = MessageRaised(id="checking", level=Level.INFO, title=CHECKING, detail="")
        self.sending.begun.connect(partial(self._show_note, checking))
        self.sending.checked.connect(self._on_checked)
        self.sending.failed.connect(self.show_error)
        self._tick.timeout.connect(self._on_tick)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.look_again()  # it may have been renamed since, or the other run deleted
        self._refresh()

    def _on_update(self, update: RunUpdate) -> None:
        self.status, self._is_read = update.status, update.is_complete
        for batch in update.batches:
            self.history.add(batch)
        self._refresh()

    def _on_end(self, record: ExitRecord) -> None:
        self._exit_record = record

    def _on_connection(self, connection: Connection | None) -> None:
        self._connection = connection
        self._refresh()

    def _on_tick(self) -> None:
        self._show_facts()
        if self._connection is not None:  # how long ago it was heard
            self._show_messages()

    def _on_remains(self, remains: Remains) -> None:
        self._remains = remains

    def _on_state(self, state: State) -> None:
        if self._state is not None and self._state.is_over and not state.is_over:
            self._begin_attempt(state)
        if state.is_over:
            # if the new attempt never began, messages of the one before are valid again
            self._attempt_left = -1
        self._state = state
        self._refresh()
        if state is State.CRASHED:
            self._show_crash()
        if state.is_over:
            self._tick.stop()
        else:
            self._tick.start()
        self.state_changed.emit(state)

    def _begin_attempt(self, state: State) -> None:
        """Hide messages about earlier attempts."""
        self._attempt_left = self.status.attempt
        self._exit_record = None
        if state is not State.QUEUED:  # a queued run has just reported its checkpoint
            self._remains = Remains()
        self._failures.clear()

    def show_error(self, error: UserError) -> None:
        self._failures.append(
            MessageRaised(
                id=f"failure-{len(self._failures)}",
                level=Level.ERROR,
                title=error.title,
                detail=error.detail,
                fixes=error.fixes,
            )
        )
        self._dismissed.discard(cause_of(self._failures[-1]))
        self._refresh()

    def _show_crash(self) -> None:
        record = self._exit_record
        if record is not None and record.log_tail and self.details.log.document().isEmpty():
            self.details.add_log(record.log_tail)
        self.details.show_end_of_log()

    def _refresh(self) -> None:
        if self._state is None:
            return
        self._show_facts()
        self._show_messages()
        is_over = self._state.is_over if self._is_read else None
        self.charts.refresh(self.status.total_steps, is_over=is_over)
        has_ended = bool(is_over) and self._state is not State.PAUSED
        self.details.refresh(self.status, self._options, is_over=has_ended)

    def _facts(self) -> RunFacts:
        assert self._state is not None, "the page is shown once the state is known"
        return RunFacts(
            status=self.status,
            state=self._state,
            options=self._options,
            exit_record=self._exit_record,
            is_gone=self._state.is_over and self._remains.is_gone,
            has_model=self._trained is not None,
            saved_step=self._remains.step,
            crash=self._remains.crash,
            is_between=self.status.attempt <= self._attempt_left,
            related=self._related,
            connection=self._connection,
        )

    def _show_facts(self) -> None:
        facts = self._facts()
        self.header.show_facts(facts)
        self.figures.show_figures(run_text.summary(facts) or run_text.so_far(facts))

    def _verdict(self, state: State) -> MessageRaised | None:
        judged = verdict(self.status, self._options) if self._is_read and state.is_over else None
        if judged is None:
            return None
        level = Level.WARNING if judged.finding in TO_HEED else Level.INFO
        # training longer is a button of the header
        fixes = tuple(fix for fix in judged.fixes if fix.action is not FixAction.EXTEND)
        return MessageRaised(id=VERDICT, level=level, title=judged.title, detail=judged.detail, fixes=fixes)

    @property
    def next_run(self) -> RunFolder | None:
        """The run that teaches the model to chat which this one pretrains, if it does."""
        other = self._related.other
        return other.run if other is not None and self._related.relation is Relation.CHAT else None

    def look_again(self) -> None:
        """Read anew what the run is called and asked, which run belongs to it, and how that is."""
        self.job.look_again()

    def _on_related(self, related: Related) -> None:
        self._related = related
        self._refresh()

    def _open_related(self) -> None:
        if self._related.other is not None:
            self.run_opened.emit(self._related.other.run)

    def _show_messages(self) -> None:
        facts = self._facts()
        crash = run_text.crash_message(facts) or run_text.left_queue_message(facts)
        own = self._failures or ([crash] if crash else [])
        notes = (
            run_text.connection_message(facts, time.time()),
            kept_message(facts.connection),
            self._note,
            unread_message(self.status),
            self._verdict(facts.state),
        )
        raised = (
            message for message in self.status.messages.values() if message.attempt > self._attempt_left
        )
        messages = [*own, *raised, *filter(None, notes)]
        state = facts.state
        ends = [] if state in (State.STARTING, State.TRAINING) else [FixAction.STOP, FixAction.PAUSE]
        self.messages.show_messages(messages, without=[*ends, FixAction.END] if state.is_over else ends)

    @property
    def _trained(self) -> TrainedModel | None:
        """The trained model, unless a checkpoint is newer."""
        is_over = self._state is not None and self._state.is_over
        newest = self._remains.model if is_over else None
        return newest if newest is not None and not newest.is_checkpoint else None

    def resume(self, longer: Extension | None = None) -> None:
        """Resume the run, or train it longer, and follow it here; asks when, if others train on its device."""
        if self._state is State.QUEUED:
            if starts_now(self.status.awaited, self):
                self.move_requested.emit(self.run, queue.Move.NOW)
            self._refresh()
            return
        options = self._options
        awaited = queue.ahead_of(queue.device_held(options), run=self.run) if options is not None else None
        turn = BeginTurn.WAIT if awaited is None else ask_turn(awaited, self)
        if turn is BeginTurn.NEVER:
            self._refresh()
            return
        how = {"queued": False} if turn is BeginTurn.NOW else {}
        begin = partial(self._resume_run, self.run, longer=longer, **how)
        self.sending.ask([options] if options is not None else [], partial(self.job.begin, begin))

    def _ask_to_extend(self) -> None:
        if self._options is not None:
            starts = self._remains.step is not None, self._trained is not None
            sheet = ExtendSheet(Length(self._options, self.status, *starts), self)
            sheet.chosen.connect(self.resume)
            sheet.new_run_chosen.connect(lambda: self._request_edit(partial(from_its_model, run=self.run)))
            sheet.open()

    def _ask_to_test(self) -> None:
        sheet = ModelTestSheet(self.run, self)
        sheet.chosen.connect(self.test_requested)
        sheet.open()

    def _ask_name(self) -> None:
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(_("Rename"))
        dialog.setLabelText(_("Name of the run"))
        dialog.setTextValue(self.title)
        dialog.textValueSelected.connect(self._rename)
        dialog.open()

    def _rename(self, title: str) -> None:
        folder = self.run.path
        try:
            with writing(folder):
                notes = msgspec.structs.replace(past_runs.read(folder), title=" ".join(title.split()))
                write_notes(folder, notes)
        except UserError as error:
            self.show_error(error)
        self.look_again()

    def follow_again(self) -> None:
        """Follow a run that another process has resumed."""
        self.job.follow_again()

    def _reveal(self) -> None:
        error, note = reveal(self.run.path), None
        if error is not None:
            note = MessageRaised(id="not-shown", level=Level.WARNING, title=error.title, detail=error.detail)
        self._show_note(note)

    def _show_note(self, note: MessageRaised | None) -> None:
        self._note = note
        if note is not None:
            self._dismissed.discard(cause_of(note))
        self._show_messages()

    def _on_checked(self) -> None:
        """Offer Resume again, whatever the answer will be."""
        self._note = None
        self._refresh()

    def _request_edit(self, change: Callable[[Tree], Tree]) -> None:
        """Open a new run with the options of this one, changed."""
        try:
            tree = run_file.read_tree(self.run.options_file)
        except OptionsError as error:
            self.show_error(error)
        else:
            self.edit_requested.emit(titled(change(tree), self.title))

    def _apply_fix(self, fix: Fix) -> None:
        match fix.action:
            case None:
                self._request_edit(lambda tree: with_changes(tree, fix))
            case FixAction.TESTED:
                self._open_related()
            case FixAction.RECONNECT:
                self._reconnecting.start(lambda _call: starting.follow_again(self.run, at_once=True))
            case FixAction.GIVE_UP:
                self._give_up()
            case action:
                self.header.buttons.request(RunAction(action))

    def _give_up(self) -> None:
        assert self._connection is not None, "only a run elsewhere offers it"
        text = _(
            "What was received stays here. The run may still train on {computer}; its model doesn't come back. If the "
            "computer is found again, Resume follows it again."
        ).format(computer=self._connection.computer)
        title = _("Give up “{run}”?").format(run=isolated(self.title))
        if Question(title, text, {True: _("Give up")}, self, return_cancels=True).ask(False):
            self.job.request(Action.KILL)

    def _on_asked(self, asked: Asked) -> None:
        """Show name and options, which change if it is renamed or to train longer; the changed options come first."""
        if asked == self._asked:
            return
        self._asked, before = asked, self.title
        self.header.name.setText(asked.title)
        if asked.title != before:
            self.renamed.emit()
        self.details.show_task(asked.options)
        if asked.options is None:
            self.details.options.setPlainText(asked.text)
            return
        changed, others = run_file.applied(asked.options)
        blocks = (["# " + pgettext("options", "Changed"), *changed], ["# " + _("Default values"), *others])
        self.details.options.setPlainText("\n\n".join(map("\n".join, blocks)))


class RunPage(QuietScroll):
    """The page for a run; it scrolls if the window is too low."""

    edit_requested = Signal(object)  # a tree of options for a new run ("Duplicate", or a fix)
    run_changed = Signal(object)  # the `RunFolder` whose state has changed
    run_renamed = Signal()  # the run that is shown has another title
    bin_requested = Signal(object)  # the `RunFolder` to move to the trash
    try_requested = Signal(object)  # the `RunFolder` whose model is to be opened under "Try it"
    test_requested = Signal(object)  # the `RunOptions` of a run that evaluates the model of the one shown
    compare_requested = Signal(object)  # the `RunFolder` to compare with another
    run_opened = Signal(object)  # a `RunFolder` that belongs to the one that is shown
    move_requested = Signal(object, object)  # the `RunFolder` in the queue, and a `core.runs.queue.Move`

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        set_role(self, Role.PAGE)
        self.view: RunView | None = None
        self._dismissed: dict[Path, set[tuple[str, str]]] = {}
        # Translators: a noun, one training of a model
        self.setAccessibleName(_("Run"))
        self._show_nothing()

    def show_run(self, run: RunFolder, begin: Begin | None = None) -> None:
        """Show a run, which `begin` starts first, unless it is shown already."""
        if self.view is not None and self.view.run == run and begin is None:
            return
        self.end_work()
        dismissed = self._dismissed.setdefault(run.path, set())
        self.view = RunView(self._theme, run, begin=begin, dismissed=dismissed)
        self.view.edit_requested.connect(self.edit_requested)
        self.view.state_changed.connect(lambda _state: self.run_changed.emit(run))
        self.view.renamed.connect(self.run_renamed)
        self.view.bin_requested.connect(lambda: self.bin_requested.emit(run))
        self.view.try_requested.connect(lambda: self.try_requested.emit(run))
        self.view.test_requested.connect(self.test_requested)
        self.view.compare_requested.connect(lambda: self.compare_requested.emit(run))
        self.view.run_opened.connect(self.run_opened)
        self.view.move_requested.connect(self.move_requested)
        set_role(self.view, Role.PAGE)
        self.setWidget(self.view)

    def end_work(self) -> None:
        """Stop following the run, which goes on."""
        if self.view is not None:
            self.view.close_view()
            self.view = None
            self._show_nothing()

    def forget(self, gone: list[Path]) -> None:
        """Close the run if its folder has been moved away."""
        if self.view is not None and self.view.run.path in gone:
            self.end_work()

    def _show_nothing(self) -> None:
        words = role_label(Role.MUTED, _("No run is open. Choose one under Runs."))
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setWidget(words)
