"""The page Try it: the same question to a run's trained model and to the one it started from."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFocusEvent, QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from core.base.errors import Fix
from core.base.language import _, pgettext
from core.jobs.chat import Which
from core.runs.events import Level
from core.runs.folder import RunFolder
from core.runs.queue import LiveRun
from core.runs.status import State
from core.services import chat
from core.services.chat import LoadVerdict, Start, TryChoice, TryProcess
from gui.base.background import EngineWork
from gui.base.theme import Role, Theme
from gui.base.titles import distinct_titles
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.try_it.column import ModelColumn
from gui.try_it.input import TryInput, TryQuestion
from gui.try_it.process import ModelProcess
from gui.widgets.cards import MessageStrip
from gui.widgets.inputs import ChoiceList, Segment, Segmented
from gui.widgets.labels import isolated, role_label, text_label
from gui.widgets.layout import fill, hbox, tab_stops, vbox

IDLE_MS = 5 * 60 * 1000
"""Delay from leaving the page to unloading the models."""
TITLE_LETTERS = 60
"""Maximum width of the list of runs."""
WIDE = SPACING + SPACING // 2
BOTH = "both"
ON_CPU, ONLY = "try.on_cpu", "try.only"
"""What the buttons of this page's messages change."""


class TryPage(QWidget):
    """Asks one model of a run, or both. They are loaded when the page shows the run, if memory allows.

    Args:
        room_for: Whether models may be loaded now (`core.services.chat.room_for`).
    """

    def __init__(
        self,
        theme: Theme,
        runs_folder: Callable[[], Path],
        start: Start = TryProcess,
        room_for: Callable[..., LoadVerdict] = chat.room_for,
    ) -> None:
        super().__init__()
        self._runs_folder = runs_folder
        self._room_for = room_for
        self._wanted: RunFolder | None = None
        self.choice = TryChoice(())
        self._waiting: TryQuestion | None = None  # for the answer about memory, or for the person
        self._on_cpu = False
        self._wants_focus = False  # for the text, once a run is shown
        self._unloaded_for: RunFolder | None = None  # the run that the message names
        self._is_refused = False  # the message says that runs which train need the memory
        self._runs: EngineWork[TryChoice] = EngineWork(self)
        self._room: EngineWork[LoadVerdict] = EngineWork(self)
        self.idle = QTimer(self, interval=IDLE_MS, singleShot=True)
        self.run_list = ChoiceList()
        self.run_list.setAccessibleName(_("Run"))
        self.shown = Segmented(
            (
                Segment(BOTH, _("Both"), _("The trained model and the one it started from, side by side.")),
                Segment(Which.TRAINED.value, pgettext("answers", "Trained"), _("Only the trained model.")),
                Segment(Which.BEFORE.value, _("Before training"), _("Only the model the run started from.")),
            )
        )
        self.shown.setAccessibleName(_("Models to use"))
        self.shown.set_value(BOTH)
        self.task_name = role_label(Role.MUTED)
        self.strip = MessageStrip(closable=True)
        self._processes = {which: ModelProcess(start) for which in Which}
        self.columns = {which: ModelColumn(theme, which, self._processes[which]) for which in Which}
        self.input = TryInput()
        self.empty = text_label(role=Role.MUTED)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out()
        self._connect()
        self._show_choice(TryChoice(()))

    def show_run(self, run: RunFolder) -> None:
        self._wanted = run
        self.find_runs()

    def take_live(self, live: tuple[LiveRun, ...]) -> None:
        """Unload the models when a run trains, unless they were loaded on the CPU beside it."""
        training = [run for run in live if run.state is not State.QUEUED]
        is_over = self._unloaded_for is not None and self._unloaded_for not in [one.run for one in training]
        if is_over or (self._is_refused and not training):
            waiting, self._waiting = self._waiting, None
            self._hide_message()
            if waiting is not None:
                self._ask(waiting)
        if not training:
            self._on_cpu = False
        elif not self._on_cpu and any(column.is_loaded for column in self.columns.values()):
            pending = next((one.question for one in self.columns.values() if one.question), self._waiting)
            self._unload()
            title = _("Models unloaded while “{run}” trains").format(run=isolated(training[0].title))
            self.strip.show_message(Level.INFO, title, _("They are loaded again when you ask something."))
            self._unloaded_for = training[0].run
            if pending is not None:
                self._ask(pending)

    def end_work(self) -> None:
        """End all processes and wait for all threads."""
        self.idle.stop()
        self._runs.close()
        self._room.close()
        for column in self.columns.values():
            column.end()
        for process in self._processes.values():
            process.close()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._wants_focus = True
        self.idle.stop()
        self.find_runs()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the models for some time: the person may come back."""
        super().hideEvent(event)
        self.idle.start()

    def focusInEvent(self, _event: QFocusEvent) -> None:
        """Focus the text to be written, or where a picture is chosen."""
        text = self.input.text
        for part in [text] if text.isVisible() else tab_stops(self.input)[:1]:
            part.setFocus()

    def _lay_out(self) -> None:
        title = role_label(Role.PAGE_TITLE, _("Try it"))
        top = hbox(title, (self.run_list, 3), self.task_name, None, self.shown)
        top.insertSpacing(1, SPACING)
        self.run_list.setMaximumWidth(TITLE_LETTERS * self.fontMetrics().averageCharWidth())
        columns = hbox(*((column, 1) for column in self.columns.values()), spacing=WIDE)
        page = QWidget()
        page.setLayout(vbox((columns, 1), self.input, spacing=WIDE))
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(page)
        fill(QVBoxLayout(self), top, self.strip, (self._stack, 1), margins=PAGE_MARGINS, spacing=WIDE)

    def _connect(self) -> None:
        self._runs.done.connect(self._show_choice)
        self._room.done.connect(self._on_verdict)
        self._room.failed.connect(lambda error: self._on_verdict(LoadVerdict((), error.title, error.detail)))
        self.idle.timeout.connect(self._unload)
        self.run_list.currentIndexChanged.connect(self._select_run)
        self.run_list.view().pressed.connect(lambda: setattr(self, "_wants_focus", True))
        self.shown.chosen.connect(self._show_columns)
        self.strip.fix_chosen.connect(self._apply_fix)
        self.strip.closed.connect(lambda: self._unload() if self._waiting is not None else None)
        self.input.asked.connect(self._ask)
        self.input.image.failed.connect(self.strip.show_error)
        self.input.stop_pressed.connect(partial(self._unload, ModelColumn.stop))
        self.input.clear_pressed.connect(self._hide_message)
        self.input.clear_pressed.connect(partial(self._unload, ModelColumn.clear))
        for column in self.columns.values():
            column.settled.connect(self._show_busy)
            column.sent.connect(self.input.clear_sent)
            column.refused.connect(self.strip.show_error)  # that of both models is the same
            column.image_seen.connect(self.input.image.show_seen)
            column.context_known.connect(self.input.settings.show_context)

    # The run

    def find_runs(self) -> None:
        folder, wanted = self._runs_folder(), self._wanted
        self._runs.start(lambda _call: chat.look(folder, wanted))

    def _select_run(self, row: int) -> None:
        path = self.run_list.itemData(row)
        if path:
            self.show_run(RunFolder(Path(path)))

    def _show_choice(self, choice: TryChoice) -> None:
        before, self.choice = self.choice.chosen, choice
        chosen = choice.chosen
        titles = distinct_titles([(run.run.path, run.title) for run in choice.runs])
        self.run_list.set_choices(
            Segment(str(run.run.path), title, run.task.label)
            for run, title in zip(choice.runs, titles, strict=True)
        )
        for widget in (self.run_list, self.shown, self.task_name):
            widget.setVisible(chosen is not None)
        self._stack.setCurrentIndex(0 if chosen is None else 1)
        no_run = _("No run has a model yet.\nTrain one under New run: then you can try it here.")
        problem = _("This run can't be tried.\n{problem}").format(problem=choice.problem)
        self.empty.setText(problem if choice.problem else no_run)
        if chosen is None:
            self._unload()
            return
        self._wanted = chosen.run
        self.run_list.choose(str(chosen.run.path))
        self.task_name.setText(chosen.task.label)
        if chosen != before:
            self._waiting = None
            self._room.cancel()
            self._hide_message()
            for which, column in self.columns.items():
                process = self._processes[Which.TRAINED if chosen.is_adapter else which]
                column.show_model(chosen, process)
            self.input.show_choice(choice)
            self._show_columns()
        if self._wants_focus:
            self.setFocus()
        self._wants_focus = False
        if self.isVisible() and not self._room.is_running:
            self._load()

    # The models

    @property
    def _selected(self) -> tuple[Which, ...]:
        """The models to ask, the trained one first."""
        value = self.shown.value()
        return tuple(Which) if value == BOTH else (Which(value),)

    def _show_columns(self, _value: str = "") -> None:
        for which, column in self.columns.items():
            is_shown = which in self._selected
            column.setVisible(is_shown)
            if not is_shown:
                column.end()
        self._show_busy()

    def _unload(self, withdraw: Callable[[ModelColumn], None] = ModelColumn.end) -> None:
        """End the models' processes, which frees their memory; answers stay. Or `withdraw` their questions."""
        self._waiting = None
        self._room.cancel()
        for column in self.columns.values():
            withdraw(column)
        self._show_busy()

    # Questions

    def _ask(self, question: TryQuestion) -> None:
        """Ask the models; if one has to be loaded, first find out whether there is enough memory."""
        chosen = self.choice.chosen
        if chosen is None:
            return
        self._hide_message()
        if all(self.columns[which].is_loaded for which in self._selected):
            self._send(question, self._selected)
            return
        self._waiting = question
        self._load()

    def _load(self) -> None:
        """Load the models that aren't loaded, if there is enough memory; then ask what waits, if anything."""
        chosen, folder, room_for = self.choice.chosen, self._runs_folder(), self._room_for
        missing = tuple(which for which in self._selected if not self.columns[which].is_loaded)
        if chosen is not None and missing:
            for which in self._selected if self._waiting else missing:
                self.columns[which].begin(self._waiting)
            find = partial(room_for, chosen.run, missing, folder, on_cpu=self._on_cpu)
            self._room.start(lambda _call: find())
        self._show_busy()

    def _on_verdict(self, verdict: LoadVerdict) -> None:
        question, self._waiting = self._waiting, None
        if verdict.title:
            level = Level.INFO if verdict.allowed else Level.WARNING
            self.strip.show_message(level, verdict.title, verdict.detail, self._fixes(verdict))
            self._is_refused = not verdict.allowed
        models = tuple(
            which for which in self._selected if self.columns[which].is_loaded or which in verdict.allowed
        )
        waits = _("Choose above, or wait until the run has ended.")
        if verdict.cpu_helps:
            self._waiting = question
        for which in set(self._selected).difference(models):
            self.columns[which].refuse(waits if verdict.cpu_helps else "")
        if question is None:
            for which in models:
                self.columns[which].load(on_cpu=self._on_cpu)
        elif models:
            self._send(question, models)
        self._show_busy()

    def _fixes(self, verdict: LoadVerdict) -> tuple[Fix, ...]:
        if verdict.cpu_helps:
            return (Fix(_("Try anyway"), {ON_CPU: True}),)
        if verdict.allowed and len(self._selected) > 1:
            return (
                Fix(_("Use only the trained model"), {ONLY: Which.TRAINED.value}),
                Fix(_("Use only the model before training"), {ONLY: Which.BEFORE.value}),
            )
        return ()

    def _apply_fix(self, fix: Fix) -> None:
        question, self._waiting = self._waiting, None
        self._hide_message()
        if ON_CPU in fix.changes:
            self._on_cpu = True
            self.input.text.setFocus()
        elif ONLY in fix.changes:
            self.shown.set_value(str(fix.changes[ONLY]))
            self._show_columns()
        if question is not None:
            self._ask(question)
        else:
            self._load()

    def _send(self, question: TryQuestion, models: tuple[Which, ...]) -> None:
        writing = self.input.settings.writing()
        for which in models:
            self.columns[which].ask(question, writing, on_cpu=self._on_cpu)
        self._show_busy()

    def _show_busy(self) -> None:
        self.input.show_busy(any(column.is_busy for column in self.columns.values()))

    def _hide_message(self) -> None:
        self.strip.hide()
        self._unloaded_for, self._is_refused = None, False
