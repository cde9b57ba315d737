"""One run on screen, from the first event to the last."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core import run_file
from core.errors import Fix, FixAction, OptionsError, UserError
from core.events import Level, MessageRaised
from core.files import is_there
from core.options import RunOptions, Tree
from core.run_folder import Action, ExitRecord, RunFolder
from core.run_summary import title_of
from core.story import RunStory, State
from gui.files import reveal
from gui.job_thread import JobThread
from gui.models.run_history import RunHistory
from gui.models.run_news import RunNews
from gui.pages import run_words
from gui.pages.run_charts import RunCharts
from gui.pages.run_details import RunDetails
from gui.pages.run_figures import RunFigures
from gui.pages.run_header import RunHeader
from gui.pages.run_messages import RunMessages
from gui.pages.run_model import RunModel
from gui.pages.run_words import RunFacts
from gui.theme import GUTTER, PAGE_MARGINS, SPACING, Theme
from gui.widgets.direction import margins

TICK_MS = 1000


class RunView(QWidget):
    """Follows a run and shows it. All it knows comes out of the run's events, folded once and handed to its parts.

    Signals:
        edit_requested: A tree of options to start anew from.
        state_changed: The `core.story.State` in which the run now is.
    """

    edit_requested = Signal(object)
    state_changed = Signal(object)

    def __init__(
        self,
        theme: Theme,
        run: RunFolder,
        *,
        start: bool = False,
        command: Sequence[str] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.run = run
        self._story = RunStory()
        self._history = RunHistory()
        self._state = State.STARTING
        self._exit_record: ExitRecord | None = None
        self._is_gone = False
        self._failures: list[MessageRaised] = []
        self._not_shown: MessageRaised | None = None
        self._options = self._read_options()
        self.header = RunHeader(self.title)
        self.messages = RunMessages()
        self.figures = RunFigures()
        self.model = RunModel()
        self.charts = RunCharts(theme, self._history)
        self.details = RunDetails(self.charts, self._history)
        self._lay_out()
        self.job = JobThread(run, start_job=start, command=command, parent=self)
        self._tick = QTimer(self, interval=TICK_MS)
        self._connect()
        self._show_options()
        self._refresh()
        self._tick.start()
        self.job.start()

    @property
    def title(self) -> str:
        """What the run is called."""
        return title_of(self._options) if self._options else self.run.name

    @property
    def state(self) -> State:
        """Where the run stands."""
        return self._state

    def close_view(self) -> None:
        """Stop following; the run goes on. Returns within the few milliseconds that a poll takes."""
        self._tick.stop()
        self.job.stop_following()
        self.job.wait()
        self.charts.end_work()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        start, top, end, bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, bottom))
        layout.setSpacing(SPACING + SPACING // 2)
        for part in (self.header, self.figures, self.model, self.messages):
            layout.addWidget(part)
        layout.addWidget(self.details, 1)

    def _connect(self) -> None:
        self.header.stop_pressed.connect(self._stop)
        self.header.end_pressed.connect(self._end)
        self.header.duplicate_pressed.connect(self._duplicate)
        self.header.reveal_pressed.connect(self._reveal_run)
        self.model.reveal_pressed.connect(self._reveal)
        self.messages.fix_chosen.connect(self._apply_fix)
        self.job.news_arrived.connect(self._take_news)
        self.job.log_arrived.connect(self.details.add_log)
        self.job.ended.connect(self._take_end)
        self.job.state_changed.connect(self._take_state)
        self.job.job_failed.connect(self._take_failure)
        self._tick.timeout.connect(self._show_facts)

    # What the thread tells.

    def _take_news(self, news: RunNews) -> None:
        self._story = news.story
        for batch in news.batches:
            self._history.take(batch)
        self._refresh()

    def _take_end(self, record: ExitRecord) -> None:
        self._exit_record = record

    def _take_state(self, state: State) -> None:
        self._state = state
        self._is_gone = state.is_over and not is_there(self.run.path)
        self._refresh()
        self._show_model()
        if state is State.CRASHED:
            self._show_crash()
        if state.is_over:
            self._tick.stop()
        self.state_changed.emit(state)

    def _take_failure(self, error: UserError) -> None:
        self._failures.append(
            MessageRaised(
                id=f"failure-{len(self._failures)}",
                level=Level.ERROR,
                title=error.title,
                detail=error.detail,
                fixes=error.fixes,
            )
        )
        self._show_messages()

    def _show_crash(self) -> None:
        record = self._exit_record
        if record is not None and record.log_tail and self.details.log.document().isEmpty():
            self.details.add_log(record.log_tail)
        self.details.show_end_of_log()

    # What the parts show.

    def _refresh(self) -> None:
        self._show_facts()
        self._show_messages()
        self.charts.refresh(self._story.total_steps, is_over=self._state.is_over)
        self.details.refresh(self._story.what_ran)

    def _facts(self) -> RunFacts:
        return RunFacts(self._story, self._state, self._options, self._exit_record, self._is_gone)

    def _show_facts(self) -> None:
        facts = self._facts()
        self.header.show_facts(facts)
        self.figures.show_figures(run_words.summary(facts))

    def _show_messages(self) -> None:
        crash = run_words.crash_message(self._facts())
        own = self._failures or ([crash] if crash else [])
        notes = (self._not_shown, run_words.unread_message(self._story))
        messages = [*own, *self._story.messages.values(), *filter(None, notes)]
        self.messages.show_messages(messages, is_over=self._state.is_over)

    def _show_model(self) -> None:
        has_ended_well = self._state in (State.FINISHED, State.STOPPED)
        is_kept = has_ended_well and is_there(self.run.model)
        self.model.show_model(self.run.model if is_kept else None)

    # What the person asks.

    def _stop(self) -> None:
        self.job.ask(Action.STOP)

    def _end(self) -> None:
        self.job.ask(Action.KILL)

    def _reveal_run(self) -> None:
        self._reveal(self.run.path)

    def _reveal(self, folder: Path) -> None:
        error = reveal(folder)
        self._not_shown = None
        if error is not None:
            self._not_shown = MessageRaised(
                id="not-shown", level=Level.WARNING, title=error.title, detail=error.detail
            )
        self._show_messages()

    def _duplicate(self) -> None:
        tree = self._read_tree()
        if tree is not None:
            self.edit_requested.emit(tree)

    def _apply_fix(self, fix: Fix) -> None:
        match fix.action:
            case FixAction.STOP:
                self.header.ask_stop()
            case FixAction.END:
                self._end()
            case FixAction.REVEAL:
                self._reveal_run()
            case None:
                self._start_changed(fix)

    def _start_changed(self, fix: Fix) -> None:
        tree = self._read_tree()
        if tree is not None:
            self.edit_requested.emit(with_changes(tree, fix))

    def _read_tree(self) -> Tree | None:
        try:
            return run_file.read_tree(self.run.options_file)
        except OptionsError as error:
            self._take_failure(error)
            return None

    def _read_options(self) -> RunOptions | None:
        try:
            return self.run.options()
        except OptionsError:
            return None

    def _show_options(self) -> None:
        try:
            self.details.options.setPlainText(
                self.run.options_file.read_text(encoding="utf-8", errors="replace")
            )
        except OSError as error:
            self.details.options.setPlainText(
                self.tr("{} can't be read: {}").format(self.run.options_file, error.strerror)
            )


def with_changes(tree: Tree, fix: Fix) -> Tree:
    """A copy of a run's options in which a fix has been applied."""
    changed: Tree = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for path, value in fix.changes.items():
        section, _, name = path.rpartition(".")
        target = changed.setdefault(section, {}) if section else changed
        target[name] = value
    return changed
