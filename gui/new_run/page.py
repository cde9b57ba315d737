"""The page on which a run is put together: options on the left, what comes of them on the right."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from core.base.errors import Fix, OptionsError, UserError
from core.base.files import is_there, why_missing, writing
from core.base.language import _
from core.memory.model import Basis, Forecast
from core.options import RunOptions, Tree, presets, run_file
from core.options.catalogue import copied
from core.options.choices import Task
from core.options.device_support import MachineReport, hints
from core.options.method_rules import starting_options
from core.options.presets import Preset, find_task
from core.options.sources import Scheme, scheme_of, short_name
from core.options.validate import check_tree
from core.runs.events import Level
from core.services.hub import Kind
from core.services.inspect import DataReport
from gui.base.background import Ask
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.new_run.data_panel import DataViews
from gui.new_run.header import DIGITS, MRPC, NewRunHeader
from gui.new_run.import_dialog import ImportSheet
from gui.new_run.memory_dialogs import MemoryActions
from gui.new_run.memory_state import MemoryState, MemoryTools
from gui.new_run.options import ChangeSet, OptionsColumn
from gui.new_run.outcome import FINDINGS, OutcomeColumn
from gui.new_run.state import (
    FormQuestions,
    all_problems,
    check_form,
    data_request,
    length_hints,
    length_problems,
)
from gui.settings.gpu_install import GpuInstaller
from gui.settings.model_browser import HubSheet
from gui.widgets.cards import ChangesStrip, MessageStrip
from gui.widgets.labels import margins
from gui.widgets.layout import PageScroll, fill


def starting_tree(task: Task) -> Tree:
    """Good values for a first run of a task, its data left open; a text model is for the person to choose."""
    tree = run_file.to_tree(starting_options(task))
    tree["data"]["train"] = ""
    if task.reads_text:
        tree["model"]["source"] = ""
    return tree


def tree_for_task(task: Task, before: Tree) -> Tree:
    """Good values, with the data that was chosen for another task, and the model where it can do this one, too."""
    made = copied(starting_tree(task))
    data, model = before["data"].get("train") or "", before["model"].get("source") or ""
    if Path(data).is_absolute() or scheme_of(data) is Scheme.HUB:
        made["data"]["train"] = data
    other = Task(before["task"])
    is_alike = task.reads_text and other.reads_text and task.writes_text is other.writes_text
    if is_alike and scheme_of(model) is not Scheme.SCRATCH:
        made["model"]["source"] = model
    return made


ROLES = "data.roles"


class Remedies(QObject):
    """Does what a fix says, one that changes the task too; offers another task on `strip` where the data is for it."""

    def __init__(
        self, options: OptionsColumn, strip: MessageStrip, change_task: Callable[[Task], None]
    ) -> None:
        super().__init__(options)
        self._options = options
        self._strip = strip
        self._change_task = change_task
        self._judged = ""
        self._has_offered = False

    def apply(self, fix: Fix) -> None:
        changes = dict(fix.changes)
        if "task" in changes:
            task, form = Task(changes.pop("task")), self._options.form
            kept = {path: str(form.value(path) or "") for path in ("data.train", "model.source")}
            is_for_both = form.task.reads_text and task.reads_text
            if not is_for_both or scheme_of(kept["model.source"]) is Scheme.SCRATCH:
                del kept["model.source"]
            changes = {**{path: value for path, value in kept.items() if value}, **changes}
            self._strip.hide()
            self._change_task(task)
        if ROLES in changes:  # pressed one after the other, each has the roles known when it was offered
            changes[ROLES] = {**self._options.roles, **changes[ROLES]}
        self._options.form.set_values(changes)

    def propose_task(self) -> None:
        """Offer to change the task where the chosen data is likely for another, by its name and how it begins."""
        source = str(self._options.fields.train.value() or "")
        self._judged = source
        can_be_judged = bool(source) and (scheme_of(source) is not None or is_there(Path(source)))
        self._offer(source, find_task(source) if can_be_judged else None)

    def judge(self, report: DataReport | None, failure: UserError | None) -> None:
        """Offer it again, or no longer, once the engine has looked into the data that was chosen last, or failed to."""
        if self._judged and failure is not None:
            source, self._judged = self._judged, ""
            proposed = [fix.changes["task"] for fix in failure.fixes if "task" in fix.changes]
            self._offer(source, Task(proposed[0]) if proposed else None)
        elif report is not None and report.source == self._judged:
            self._judged = ""
            self._offer(report.source, report.suits)

    def _offer(self, source: str, likely: Task | None) -> None:
        task = self._options.form.task
        is_prose_to_chat = likely is Task.CAUSAL_LM and task is Task.CHAT  # plain texts can be chatted about
        is_other = likely is not None and likely is not task and not is_prose_to_chat
        if likely is not None and is_other:
            words = _("{name} looks like data for “{task}”").format(
                name=short_name(source), task=likely.label
            )
            change = _("Change to “{task}”").format(task=likely.label)
            fix = Fix(change, {"task": likely.value, "data.train": source})
            self._strip.show_message(Level.INFO, words, "", (fix,))
        elif self._has_offered:
            self._strip.hide()
        self._has_offered = is_other


class NewRunPage(QWidget):
    """Puts a run together.

    Signals:
        start_requested: The `core.options.RunOptions` to train, checked and without problems.
        check_requested: The person wants a device checked; its name as in `device.name`.
        form_changed: Something in the form may be another.

    Args:
        theme: Colours for what paints itself.
        ask: Starts an engine job.
        tools: What is asked about memory.
    """

    start_requested = Signal(object)
    check_requested = Signal(str)
    form_changed = Signal()

    def __init__(
        self, theme: Theme, ask: Ask, tools: MemoryTools | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        set_role(self, Role.PAGE)
        self.ready: RunOptions | None = None  # None: something is wrong with the form, or isn't known yet
        self.hub_sheet: HubSheet | None = None
        self._ask = ask
        self._machine: MachineReport | None = None
        self._trees: dict[Task, Tree] = {}  # the form of each task that was shown
        self._adopted: DataReport | None = None
        self._questions = FormQuestions(ask, self)
        self._reading = self._questions.data
        self._fit = MemoryState(ask, tools or MemoryTools(), self)
        self._header = NewRunHeader()
        self._strip = MessageStrip(closable=True)
        self._strip.hide()
        self._options = OptionsColumn(theme, self._reading)
        self._changes = ChangesStrip()
        self._remedies = Remedies(self._options, self._strip, self._change_task)
        self._change_set = ChangeSet(self._options, self._changes, self)
        self._scroll = PageScroll(self._options)
        self._outcome = OutcomeColumn(theme, self._fit)
        self._fit_actions = MemoryActions(self._outcome.fit, self._fit, self._change_set)
        self._lay_out()
        self._connect()
        self.load_tree(run_file.read_tree(DIGITS))

    def _lay_out(self) -> None:
        columns = QHBoxLayout()
        columns.setSpacing(SPACING // 2)
        foot = QVBoxLayout()  # what comes in by itself comes in here: the fields above must not move
        foot.setContentsMargins(margins(self, 0, 0, GUTTER, 2 * SPACING))
        foot.setSpacing(SPACING)
        foot.addWidget(self._strip)
        foot.addWidget(self._changes)
        form = fill(QVBoxLayout(), (self._scroll, 1), foot, spacing=2 * SPACING)
        columns.addLayout(form, 3)
        columns.addWidget(self._outcome, 2)
        layout = QVBoxLayout(self)
        start, top, end, _bottom = PAGE_MARGINS
        self._header.setContentsMargins(margins(self, 0, 0, GUTTER, 0))
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        layout.setSpacing(2 * SPACING)
        layout.addWidget(self._header)
        layout.addLayout(columns, 1)

    def _connect(self) -> None:
        self._header.task_chosen.connect(self._change_task)
        self._header.file_chosen.connect(self.load_file)
        self._header.example_chosen.connect(self.load_example)
        self._header.preset_chosen.connect(self.apply_preset)
        self._header.import_chosen.connect(self.import_options)
        self._header.afresh_chosen.connect(self.start_afresh)
        self._header.save_chosen.connect(self._save)
        self._change_set.task_wanted.connect(self._change_task)
        self._change_set.restored.connect(self.load_tree)
        self._options.changed.connect(self._refresh)
        self._options.check_requested.connect(self.check_requested)
        self._options.fix_chosen.connect(self._remedies.apply)
        self._options.fields.train.changed.connect(self._remedies.propose_task)
        self._options.fields.train.hub_wanted.connect(lambda: self.open_hub(Kind.DATASET))
        self._options.fields.model.hub_wanted.connect(self.open_hub)
        self._strip.fix_chosen.connect(self._remedies.apply)
        self._reading.changed.connect(self._on_reading)
        self._questions.model.changed.connect(self._refresh)
        self._fit.fetched.connect(self._look_again)
        self._outcome.checks.path_chosen.connect(self.go_to_option)
        self._outcome.start.clicked.connect(self.start)

    def load_tree(self, tree: Mapping[str, Any]) -> None:
        """Fill the form from the plain values of a run file; what they leave out takes its default."""
        self._strip.hide()
        self._changes.hide()
        self._header.show_restored(False)
        self._options.load(tree)
        self._header.show_task(self._options.form.task)
        self._refresh()

    def restore_tree(self, tree: Mapping[str, Any]) -> None:
        """Fill the form as it was left, and offer the way back."""
        self.load_tree(tree)
        self._header.show_restored(True)

    def start_afresh(self) -> None:
        """Put back what Hone starts with, list what that changed, and offer to undo that."""
        self._header.show_restored(False)
        self._change_set.replace(run_file.read_tree(DIGITS), _("Started afresh"))

    def load_file(self, path: Path) -> None:
        """Fill the form from a run file; what is wrong with it is said on the page, and it can be undone."""
        try:
            tree = run_file.read_tree(path)
        except OptionsError as error:
            self._strip.show_error(error)
            return
        options, problems = check_tree(tree)
        if options is not None and all(problem.path in self._options.form.paths for problem in problems):
            self.load_tree(tree)
        else:
            self._change_set.replace(tree, _("Opened: {name}").format(name=path.name))
            self._strip.show_error(OptionsError(problems, path.name))

    def load_example(self, path: Path) -> None:
        """Fill the form from an example; the files it can't bring along are left for the person to choose."""
        self.load_file(path)
        if path == MRPC:
            self._options.form.set_values({"data.train": "", "data.eval": None})
            self.go_to_option("data.train")

    def apply_preset(self, preset: Preset) -> None:
        """Change the options a preset is about, list them, and offer to undo that."""
        self._strip.hide()
        self._change_set.apply(preset)

    def lay_changes(self, title: str, words: str, changes: Mapping[str, Any]) -> None:
        """Change some options by their paths, list them with why, and offer to undo that."""
        self._strip.hide()
        self._change_set.change(title, words, changes)

    def import_options(self) -> None:
        """Ask for a script or its arguments and take over what they say."""
        sheet = ImportSheet(self)
        sheet.imported.connect(self._change_set.take_over)
        sheet.open()

    def open_hub(self, kind: Kind = Kind.MODEL) -> None:
        """Let a model for the task, or data, be chosen on the Hub."""
        task = self._options.form.task
        sheet = self.hub_sheet = HubSheet(self._ask, self, task=task.value, task_title=task.label, kind=kind)
        is_model = kind is Kind.MODEL
        sheet.chosen.connect(
            lambda name: self._options.form.set_values(
                {"model.source": name} if is_model else {"data.train": Scheme.HUB.of(name)}
            )
        )
        sheet.finished.connect(self._forget_hub)
        sheet.open()

    def _forget_hub(self) -> None:
        self.hub_sheet = None

    def set_data(self, path: Path) -> None:
        """Train on this file or folder; where it is likely for another task, offer to change to that.

        Where there is nothing, that is said on the page, and the form stays as it is.
        """
        missing = why_missing(path)
        if missing:
            title = _("“{}” can't be opened").format(path.name or path)
            self._strip.show_error(UserError(title, f"{missing[0].upper()}{missing[1:]}."))
            return
        self._strip.hide()
        self._options.form.set_values({"data.train": str(path)})
        self._remedies.propose_task()

    def go_to_option(self, path: str) -> None:
        """Bring an option, or what was found in the data, into view and give it the focus."""
        if path == FINDINGS:
            self._options.data.findings.setFocus()
        self._options.form.focus(path)
        QTimer.singleShot(0, self._scroll_to_focus)  # once a card that has been opened has its new height

    def _scroll_to_focus(self) -> None:
        focused = self._options.focusWidget()
        if focused is not None:
            findings = self._options.data.findings
            whole = findings if findings.isAncestorOf(focused) else focused
            self._scroll.ensureWidgetVisible(whole, 0, 8 * SPACING)

    def open_more(self) -> None:
        """Show the options behind "More" in every card."""
        self._options.open_more()

    def show_gpu(self, installer: GpuInstaller) -> None:
        """Offer PyTorch with CUDA below the choice of the device, where it can be installed; call it once."""
        from gui.settings.gpu_install import GpuPanel

        self._options.show_gpu(GpuPanel(installer, only_offers=True))

    def set_machine(self, machine: MachineReport) -> None:
        self._machine = machine
        self._options.set_machine(machine)
        self._refresh()

    def show_error(self, error: UserError) -> None:
        """Show on the page what went wrong; where that was a start, the card goes on."""
        self._strip.show_error(error)
        if self.isVisible() and self._fit_actions.sheet is None:
            self._fit.resume()

    @property
    def data_views(self) -> DataViews:
        return self._options.data.views

    @property
    def known_memory(self) -> Forecast | None:
        """What was measured of the run's memory; None: nothing that the run couldn't tell by itself.

        What a dry run held when memory ran out is not what the run takes.
        """
        forecast = None if self._fit.ran_out else self._fit.forecast
        return forecast if forecast is not None and forecast.basis is not Basis.FORMULA else None

    def tree(self) -> Tree:
        """The values in the form, as a run file holds them."""
        return self._options.form.tree()

    def chosen_tree(self) -> Tree:
        """The same without what was guessed from the data."""
        return self._options.chosen_tree()

    def start(self) -> None:
        """Ask for the run to be started, if nothing is wrong with it; one that doesn't fit is asked about first."""
        if self.ready is not None and self._fit_actions.may_start():
            self._strip.hide()
            self._fit.rest()
            self.start_requested.emit(self.ready)

    def open_file(self) -> None:
        """Ask for a run file and fill the form from it."""
        self._header.open_file()

    def save_file(self) -> None:
        """Ask where to save the form as a run file."""
        self._header.save_file()

    def close_questions(self) -> None:
        """Give up what the engine was asked; call before the application ends."""
        self._questions.close()
        if self.hub_sheet is not None:
            self.hub_sheet.reject()  # pauses what it downloads
        self._fit_actions.close()
        self._fit.close()

    def _change_task(self, task: Task) -> None:
        """Show what was chosen for this task before, or good values to start from; the device stays."""
        before = self._options.full_tree()
        self._trees[Task(before["task"])] = before
        tree = self._trees.get(task) or tree_for_task(task, before)
        self.load_tree({**tree, "device": before.get("device", {})})

    def _on_reading(self) -> None:
        report = self._reading.report
        if report is not None and report is not self._adopted and not self._reading.is_waiting:
            self._adopted = report
            presets.remember(report.source)
            self._remedies.judge(report, None)
            if self._options.take_guesses(report):
                request = data_request(check_form(self.tree()).readable)
                if request is not None:
                    self._reading.settle_on(request)
        if self._reading.failure is not None and not self._reading.has_broken:
            self._remedies.judge(None, self._reading.failure)
        self._refresh()

    def _look_again(self) -> None:
        """Ask about the model anew: more of it is on this computer now."""
        self._questions.model.look_at(None)
        self._refresh()

    def _refresh(self) -> None:
        """Check the form, and show what comes of it; what takes time is asked in the background."""
        checked, questions, form = check_form(self.tree()), self._questions, self._options.form
        questions.look_at(checked)
        counted = questions.data.counted
        answers = (*length_problems(checked, counted), *questions.model.problems())
        problems = all_problems(checked, questions.data.problems(), self._machine, form.paths, answers)
        of_options = hints(checked.readable, self._machine) if checked.readable else ()
        advice = (*of_options, *length_hints(checked, counted))
        form.show_problems(problems)
        form.show_advice(advice)
        self._options.show_meanings(checked.readable, questions.model.longest)
        waits = questions.keeps_waiting(checked.readable)
        self.ready = None if problems or waits or questions.data.stops else checked.options
        self._fit.look_at(checked, self._machine, questions, is_ready=self.ready is not None)
        self._outcome.show_outcome(checked, problems, self._machine, questions, advice, is_waiting=waits)
        self.form_changed.emit()

    def _save(self, path: Path) -> None:
        options, problems = check_tree(self.tree())
        try:
            if options is None:
                raise OptionsError(problems, _("The form"))
            with writing(path):
                run_file.write(options, path)
        except UserError as error:
            self._strip.show_error(error)
        else:
            self._strip.show_message(Level.INFO, _("Saved"), str(path))
