"""The page for a new run: options on the left, what they result in on the right."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from core.base.errors import Fix, OptionsError, Problem, UserError
from core.base.files import is_there, why_missing, writing
from core.base.formats import about, capitalized, paragraph, titled
from core.base.language import _, isolated, ngettext
from core.benchmark.plan import Plan
from core.hosts.sending import SOURCES as SENT
from core.jobs.inspect import DataReport
from core.memory.model import Basis, FitVerdict, Forecast, ModelShape
from core.options import RunOptions, Tree, presets, run_file
from core.options.catalogue import copied, options_by_path, put, value_at, with_changes
from core.options.choices import Method, Task
from core.options.device_support import MachineReport, find_device, hints, without_mlx
from core.options.hub import RepoKind
from core.options.method_rules import SCRATCH_EPOCHS, starting_options
from core.options.presets import Preset
from core.options.sources import Scheme, is_scratch, scheme_of
from core.options.validate import check_tree
from core.runs.compare import sweep
from core.runs.events import Level
from core.services.columns import PATHS as COLUMN_PATHS
from gui.base.background import Ask
from gui.base.sending import CHECKING, Sending
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.new_run.column_guesses import TRAIN
from gui.new_run.fixes import Remedies
from gui.new_run.header import FILE_FILTER, ImportSheet, NewRunHeader
from gui.new_run.memory_dialogs import MemoryActions
from gui.new_run.memory_state import MemoryState, MemoryTools
from gui.new_run.model_field import ListedModel
from gui.new_run.options import OptionsColumn
from gui.new_run.outcome import FINDINGS, OutcomeColumn
from gui.new_run.state import (
    FormQuestions,
    all_problems,
    check_form,
    data_request,
    length_findings,
    quick_options,
)
from gui.new_run.sweep import SweepSheet
from gui.new_run.undo import FormHistory, Values
from gui.new_run.welcome import beginnings
from gui.settings.gpu_install import GpuInstaller
from gui.settings.model_browser import HubSheet
from gui.widgets.cards import ChangesStrip, NoticeStack, NoticeStrip
from gui.widgets.inputs import Chooser
from gui.widgets.labels import margins
from gui.widgets.layout import PageScroll, fill


def starting_tree(task: Task) -> Tree:
    """Return good values for a first run of a task, without its data, and without the model of a task on texts."""
    tree = run_file.to_tree(starting_options(task))
    tree["data"]["train"] = ""
    if task.reads_text:
        tree["model"]["source"] = ""
    return tree


def tree_for_task(task: Task, before: Tree) -> Tree:
    """Return good values, with the device, the data and the model that were chosen for another task.

    A model that the task refuses gives way to one of its kind that suits, if there is one.
    """
    tree = copied(starting_tree(task))
    tree["device"] = before.get("device", {})
    data = before["data"]
    train = data.get("train") or ""
    if Path(train).is_absolute() or scheme_of(train) is Scheme.HUB:
        names = ("train", "eval", "train_split", "eval_split")
        tree["data"] |= {name: data[name] for name in names if name in data}
    if task.reads_text and Task(before["task"]).reads_text:
        tree["model"]["source"] = before["model"].get("source") or ""
        refusals = [problem for problem in check_tree(tree)[1] if problem.path == "model.source"]
        fixes = [fix.changes for problem in refusals for fix in problem.fixes]
        if refusals:
            tree["model"]["source"] = next(
                (each["model.source"] for each in fixes if "model.source" in each), ""
            )
    return tree


FIRST_EXAMPLE = "digits"
"""What the form holds when Hone opens for the first time."""
SOURCES = (TRAIN, "model.source")


class NewRunPage(QWidget):
    """The form of a new run."""

    start_requested = Signal(object)  # the `core.options.RunOptions` to train, without problems
    sweep_requested = Signal(object, object)  # the same, and values as `core.runs.compare.sweep` takes them
    benchmark_requested = Signal(object)  # the `core.benchmark.plan.Plan`
    quick_try_requested = Signal(object)  # the options of a run that isn't that of the form
    check_requested = Signal(str)  # the device to check, as in `device.name`
    form_changed = Signal()
    welcome_wanted = Signal()

    def __init__(self, theme: Theme, ask: Ask, tools: MemoryTools | None = None) -> None:
        super().__init__()
        set_role(self, Role.PAGE)
        self.ready: RunOptions | None = None  # the checked options, if the run can start
        self.hub_sheet: HubSheet | None = None
        self._ask = ask
        self._machine: MachineReport | None = None
        self._guessed_from: DataReport | None = None
        self._example: Preset | None = None  # whose options are still in the form
        self._named: set[object] = set()  # values of the options in SENT that run files and past runs named
        self._awaits_start: Values | None = None  # the form for which Start was pressed while it was checked
        self.questions = FormQuestions(ask, self)
        self.reading = self.questions.data
        self.fit = MemoryState(ask, tools or MemoryTools(), self)
        self.header = NewRunHeader()
        self.strip, self.offer = NoticeStrip(), NoticeStrip()
        self._advice: tuple[Problem, ...] = ()
        self.options = OptionsColumn(theme, self.reading)
        self.changes = ChangesStrip()
        self.strips = (self.offer, self.strip, self.changes)
        self.history = FormHistory(self.options, self.changes)
        self.stack = self.history.stack
        self.remedies = Remedies(
            self.options, self.history, self.offer, self._change_task, self._is_untouched
        )
        self.scroll_area = PageScroll(self.options)
        self.outcome = OutcomeColumn(theme, self.fit)
        self.fit_actions = MemoryActions(self.outcome.fit, self.fit, self.history)
        self.sending = Sending(self)
        self._lay_out()
        self._connect()
        self.load_example(presets.find_example(FIRST_EXAMPLE))
        self.history.clear()

    def _lay_out(self) -> None:
        notices = NoticeStack(*self.strips)
        notices.setContentsMargins(margins(self, 0, 0, GUTTER, 2 * SPACING))
        form = fill(QVBoxLayout(), (self.scroll_area, 1), notices, spacing=SPACING)
        columns = fill(QHBoxLayout(), (form, 3), (self.outcome, 2), spacing=SPACING // 2)
        self.header.setContentsMargins(margins(self, 0, 0, GUTTER, 0))
        start, top, end, _bottom = PAGE_MARGINS
        self.setFocusProxy(self.outcome.start)
        layout = fill(QVBoxLayout(self), self.header, (columns, 1), spacing=2 * SPACING)
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))

    def _connect(self) -> None:
        self.header.task_chosen.connect(self._change_task)
        self.header.example_chosen.connect(self.load_example)
        self.header.preset_chosen.connect(self.apply_preset)
        self.header.welcome_chosen.connect(self.welcome_wanted)
        self.header.reset_chosen.connect(self.start_afresh)
        self.history.task_wanted.connect(self._change_task)
        self.history.restored.connect(self._on_restored)
        self.options.changed.connect(self.sending.drop)  # what starts is what the form shows
        self.options.changed.connect(self._refresh)
        self.options.check_requested.connect(self.check_requested)
        self.options.fix_chosen.connect(self.remedies.apply)
        self.options.fields.train.changed.connect(self.remedies.propose_task)
        self.options.fields.train.hub_wanted.connect(lambda: self.open_hub(RepoKind.DATASET))
        self.options.fields.model.hub_wanted.connect(self.open_hub)
        self.options.fields.model.models.badge = self._badge
        self.options.fields.train.changed.connect(self.strip.hide)  # what it says is about other data
        for strip in (self.strip, self.offer):
            strip.fix_chosen.connect(self.remedies.apply)
        self.strip.fix_chosen.connect(self.strip.hide)
        self.reading.changed.connect(self._on_reading)
        self.questions.model.changed.connect(self._refresh)
        self.fit.fetched.connect(self._on_config_fetched)
        self.fit.changed.connect(self._show_advice)
        self.fit.before_sending = lambda options, then: self._ask_to_send((options,), then)
        self.sending.begun.connect(partial(self.strip.show_message, Level.INFO, CHECKING, ""))
        self.sending.checked.connect(self.strip.hide)
        self.sending.failed.connect(self.show_error)
        self.outcome.checks.path_chosen.connect(self.go_to_option)
        self.fit_actions.other_model_wanted.connect(partial(self.go_to_option, "model.source"))
        self.outcome.start.clicked.connect(self.start)
        self.outcome.sweep.clicked.connect(self.try_values)
        self.outcome.quick.clicked.connect(self.try_quickly)

    def load_tree(self, tree: Mapping[str, Any], origin: str = "") -> None:
        """Begin with the values of a run file; what they leave out gets its default. Nothing can be undone then.

        Changes are counted from these values if `origin` says what they are of, else from those a task starts with.
        """
        self._fill(tree, origin)
        self._note_named(tree)
        self.history.clear()

    def _note_named(self, tree: Mapping[str, Any]) -> None:
        """Remember, as the form shows it, what a run file, a past run or a script names: to open it isn't to choose."""
        named = [path for path in SENT if value_at(dict(tree), path, None)]
        self._named.update(self.options.form.value(path) for path in named)

    def restore_tree(self, tree: Tree) -> None:
        """Fill the form as it was when Hone was closed; an example is known by its task, data and model."""
        self.load_tree(tree)
        self.header.show_restored(True)
        for example in presets.examples():
            if all(value_at(example.tree, path) == value_at(tree, path) for path in ("task", *SOURCES)):
                self.options.form.count_from(example.tree, _("example"))
                self._show_example(example)
                self._refresh()

    def replace_tree(self, tree: Mapping[str, Any], title: str, origin: str) -> None:
        """Fill the form, list the changes, and offer to undo them; `origin` is as in `load_tree`."""
        with self.history.step(title):
            self._fill(tree, origin)
        self._note_named(tree)
        self._go_to_top()

    def open_run(self, tree: Tree) -> None:
        """Fill the form with the options of the past run that they name, for another one."""
        name, tree = value_at(tree, "output.name") or _("past run"), copied(tree)
        put(tree, {"output.name": None})
        self.replace_tree(tree, _("Options of “{name}”").format(name=isolated(name)), _("past run"))
        self.begin_next(name)
        if not value_at(tree, "model.source"):
            self.go_to_option("model.source")

    def begin_next(self, name: str) -> None:
        """Make the form that of another run with the options of the run `name`, and without a name."""
        self.options.form.put({"output.name": None})
        self.history.follow()
        self._refresh()
        self._go_to_top()
        text = _("A new run with the options of “{name}”. Change what you want, then start it.")
        self.header.show_line(text.format(name=isolated(name)), is_of_sources=True)

    def _go_to_top(self) -> None:
        self.setFocus()
        for area in (self.scroll_area, self.outcome.area):
            QTimer.singleShot(0, area, partial(area.verticalScrollBar().setValue, 0))  # with the new heights

    def start_afresh(self) -> None:
        """Reset the form to what its task starts with."""
        self.replace_tree(starting_tree(self.options.form.task), _("Reset form"), "")

    def load_file(self, path: Path) -> None:
        """Fill the form from a run file, and show its problems."""
        try:
            tree = run_file.read_tree(path)
        except OptionsError as error:
            self.strip.show_error(error)
            return
        self.replace_tree(tree, _("Open {name}").format(name=path.name), _("run file"))
        options, problems = check_tree(tree)
        if options is None or any(problem.path not in self.options.form.paths for problem in problems):
            self.strip.show_error(OptionsError(problems, path.name))
        elif notes := run_file.renamings(path):
            self.strip.show_message(
                Level.INFO, _("Some names in this file are others today"), "\n".join(notes)
            )

    def load_example(self, example: Preset) -> None:
        """Fill the form from an example; data that is not part of Hone is left for the person to choose."""
        with self.history.step(
            _("Example: {name}").format(name=example.title), is_listed=bool(self.options.form.changed_from())
        ):
            self._fill(example.tree, _("example"))
            data = value_at(example.tree, TRAIN)
            if scheme_of(data) is None and not is_there(Path(data)):
                self.options.form.set_values({TRAIN: "", "data.eval": None})
                self.go_to_option("data.train")
        self._show_example(example)

    def _show_example(self, example: Preset) -> None:
        form, text = self.options.form, _("Example: {title}. Choose your own data under Training data.")
        self.header.show_line(text.format(title=example.title), is_of_sources=True)
        self._example = example if form.value(TRAIN) else None

    def apply_preset(self, preset: Preset) -> None:
        """Change the options of a preset."""
        self.strip.hide()
        self.history.apply(preset)
        self.options.form.count_from(preset.tree, _("preset"), is_whole=False)

    def apply_changes(self, title: str, text: str, changes: Mapping[str, Any]) -> None:
        """Change options by their paths, list the changes and why they are made."""
        self.strip.hide()
        self.history.change(title, text, dict(changes))

    def import_options(self) -> None:
        """Ask for a script or its arguments and take over the options."""
        sheet = ImportSheet(self)
        sheet.imported.connect(self.history.import_options)
        sheet.imported.connect(lambda imported: self._note_named(imported.tree))
        sheet.open()

    def open_hub(self, kind: RepoKind = RepoKind.MODEL) -> None:
        """Let the person choose a model for the task, or data, on the Hub."""
        task = self.options.form.task
        sheet = self.hub_sheet = HubSheet(self._ask, self, task=task.value, task_title=task.label, kind=kind)

        def use(name: str) -> None:
            source = {"model.source": name} if kind is RepoKind.MODEL else {"data.train": Scheme.HUB.of(name)}
            with self.history.step(_("Use {name}").format(name=name), is_listed=False):
                self.options.form.set_values(source)
            if kind is RepoKind.DATASET:
                self.remedies.propose_task()

        sheet.chosen.connect(use)
        sheet.finished.connect(lambda: setattr(self, "hub_sheet", None))
        sheet.open()

    def set_data(self, path: Path) -> None:
        """Train on this file or folder, and offer another task if the data suits that better."""
        missing = why_missing(path)
        if missing:
            title = _("“{value}” can't be opened").format(value=isolated(path.name or str(path)))
            self.strip.show_error(UserError(title, paragraph(capitalized(missing))))
            return
        self.strip.hide()
        with self.history.step(_("Train on {name}").format(name=path.name)):
            self.options.form.set_values({TRAIN: str(path)})
        self.remedies.propose_task()

    def go_to_option(self, path: str) -> None:
        """Scroll to an option, or to the findings in the data, and focus it."""
        if path == FINDINGS:
            self.options.data.findings.setFocus()
        self.options.form.focus(path)
        QTimer.singleShot(0, self._scroll_to_focus)  # once an opened card has its new height

    def _scroll_to_focus(self) -> None:
        focused = self.options.focusWidget()
        if focused is not None:
            findings = self.options.data.findings
            target = findings if findings.isAncestorOf(focused) else focused
            self.scroll_area.ensureWidgetVisible(target, 0, 8 * SPACING)

    def show_gpu(self, installer: GpuInstaller) -> None:
        """Offer PyTorch with CUDA below the choice of the device, if it can be installed; call it once."""
        from gui.settings.gpu_install import GpuPanel

        self.options.show_gpu(GpuPanel(installer, only_offers=True))

    def set_machine(self, machine: MachineReport) -> None:
        self._machine = machine
        self.options.set_machine(machine)
        self._refresh()

    def show_error(self, error: UserError) -> None:
        """Show an error on the page; if it prevented a start, the memory card continues."""
        self.strip.show_error(error)
        if self.isVisible() and self.fit_actions.sheet is None:
            self.fit.resume()

    def _badge(self, model: ListedModel) -> str:
        """Return a warning if a model doesn't fit with the options of the form, or not even with LoRA; else "".

        Whether it fits is known only once it is chosen: activations count, too.
        """
        options = check_form(self.tree()).readable
        device = find_device(self._machine, options.device.name) if self._machine and options else None
        if options is None or device is None or not device.available:
            return ""
        shape, fit = ModelShape(parameters=model.parameters, vocabulary=model.vocabulary), self.fit
        room, with_lora = fit.tools.room(device, options), {"model.method": Method.LORA}
        known = {"room": room, "length": fit.known_length, "correction": fit.correction}
        for changes, badge in (({}, ""), (with_lora, _("too large without LoRA"))):
            chosen = with_changes(options, {"model.source": model.source, **changes})
            if fit.tools.forecast(chosen, shape, device, **known).verdict is not FitVerdict.TOO_LARGE:
                return badge
        return _("too large, even with LoRA")

    @property
    def known_memory(self) -> Forecast | None:
        """The measured memory of the run, None if the run can forecast as well itself."""
        forecast = None if self.fit.ran_out else self.fit.forecast
        return forecast if forecast is not None and forecast.basis is not Basis.FORMULA else None

    def tree(self) -> Tree:
        """Return the values in the form as in a run file."""
        return self.options.form.tree()

    def chosen_tree(self) -> Tree:
        """Return the same without what was guessed from the data."""
        return self.options.chosen_tree()

    def start(self) -> None:
        """Request the start of the run; ask first if it doesn't fit.

        While the form is checked, the run starts once that is done, unless the form changes or this is called again.
        If something is wrong, its option gets the focus.
        """
        self.options.finish_typing()
        if self.ready is None:
            wrong = [check.path for check in self.outcome.checks.checks if check.level is Level.ERROR]
            if wrong and wrong[0]:
                self.outcome.area.ensureWidgetVisible(self.outcome.checks)
                self.go_to_option(wrong[0])
            elif self.outcome.start.isEnabled():
                self._awaits_start = None if self._is_start_awaited else self.history.values()
                self._refresh()
        elif self.fit_actions.may_start():
            self._ask_to_send((self.ready,), partial(self._request_start, self.ready))

    def _request_start(self, options: RunOptions) -> None:
        self._hide_notices()
        self.fit.pause()
        self.start_requested.emit(options)

    def _ask_to_send(self, asked: Sequence[RunOptions], then: Callable[[], None]) -> None:
        """Ask whether files that a run file or a past run named, and not the person, may leave."""
        form = self.options.form
        chosen = [path for path in SENT if form.value(path) not in self._named]
        self.sending.ask(asked, then, chosen)

    def _quick_options(self) -> RunOptions | None:
        return quick_options(self.ready, self.questions.data.counted) if self.ready is not None else None

    def try_quickly(self) -> None:
        """Request a run on the first examples, which leaves the form as it is; ask first if it doesn't fit."""
        self.options.finish_typing()
        options = self._quick_options()
        if options is not None and self.fit_actions.may_start():
            self._ask_to_send((options,), partial(self.quick_try_requested.emit, options))

    def try_values(self) -> None:
        """Ask for values of one or two options, or what a benchmark measures, and request its runs."""
        self.options.finish_typing()
        if self.ready is not None:
            sheet = SweepSheet(self.ready, partial(self._judge, self.ready), self._machine, self)
            self.fit.changed.connect(sheet.show_outlook)
            sheet.chosen.connect(partial(self._start_sweep, self.ready))
            sheet.planned.connect(self._start_benchmark)
            sheet.open()

    def _start_sweep(self, options: RunOptions, values: Mapping[str, str]) -> None:
        def begin() -> None:
            self.fit.pause()
            self.sweep_requested.emit(options, values)

        self._ask_to_send([*sweep(options, values).values()], begin)

    def _start_benchmark(self, plan: Plan) -> None:
        def begin() -> None:
            self.fit.pause()
            self.benchmark_requested.emit(plan)

        self._ask_to_send([*plan.options.values()], begin)

    def _judge(self, options: RunOptions, values: Mapping[str, str]) -> str:
        """Describe the runs of a sweep and their time. Raises OptionsError if it is refused."""
        runs, order = sweep(options, values), self.options.form.paths
        for words, one in runs.items():
            checked = check_form(run_file.to_tree(one))
            answers = length_findings(checked, self.questions.data.counted)[0]
            for problem in all_problems(checked, (), self._machine, order, answers):
                raise OptionsError((Problem(problem.path, titled(words, problem.message)),))
        seconds, large = self.fit.outlook(runs)
        text = ngettext("{count} run", "{count} runs", len(runs)).format(count=len(runs))
        if seconds is not None:
            text = _("{runs}, about {time} in all").format(runs=text, time=about(seconds))
        if large:
            text = _("{runs}. May not fit into memory: {values}").format(runs=text, values=large[0])
        return paragraph(text)

    @property
    def _is_start_awaited(self) -> bool:
        return self._awaits_start is not None and self._awaits_start == self.history.values()

    def open_file(self) -> None:
        """Ask for a run file and fill the form from it."""
        names = _("Run files ({filter})").format(filter=FILE_FILTER)
        if chosen := Chooser.file(self, _("Open a run file"), names):
            self.load_file(Path(chosen))

    def save_file(self) -> None:
        """Ask where to save the form as a run file."""
        names, start = _("Run files ({filter})").format(filter="*.hone"), Path(Chooser.start()) / "my.hone"
        if chosen := QFileDialog.getSaveFileName(self, _("Save as a run file"), str(start), names)[0]:
            path = Path(chosen)
            self._save(path if path.suffix else path.with_suffix(".hone"))

    def end_work(self) -> None:
        """Stop the engine's jobs; call this before the application ends."""
        self.questions.close()
        if self.hub_sheet is not None:
            self.hub_sheet.reject()  # pauses its download
        self.fit_actions.close()
        self.fit.close()
        self.sending.drop()

    def _fill(self, tree: Mapping[str, Any], origin: str = "") -> None:
        self.sending.drop()
        self._hide_notices()
        self.header.show_restored(False)
        self._example = None
        self.options.load(tree)
        start = tree if origin else starting_tree(self.options.form.task)
        self.options.form.count_from(start, origin or _("start value"))
        self._refresh()

    def _hide_notices(self) -> None:
        for strip in self.strips:
            strip.hide()

    def _is_untouched(self) -> bool:
        """Whether the form is as Hone opens, but for the data."""
        is_own = any(not path.startswith("data.") for path in self.options.form.changed_from())
        is_first = self._example is not None and self._example.name == FIRST_EXAMPLE
        return is_first and not (is_own or self.options.typed)

    def _change_task(self, task: Task) -> None:
        """Start with good values for a task; the task that was left last is as it was left."""
        self.options.finish_typing()
        before = self.options.full_tree()
        self.remedies.note_left(Task(before["task"]))
        if not self.history.undo_task(task):
            with self.history.step(task.label, is_listed=False):
                self._fill(tree_for_task(task, before))

    def _on_restored(self, paths: Sequence[str]) -> None:
        """Show what an undo or redo has changed."""
        if len(paths) > 1:
            self.header.show_restored(False)  # what it says may not be true any more
        if len(paths) == 1 and paths[0] not in COLUMN_PATHS:  # those are shown in the table
            self.go_to_option(paths[0])

    def _on_reading(self) -> None:
        report, failure = self.reading.report, self.reading.failure
        if report is not None and report is not self._guessed_from and not self.reading.is_waiting:
            self._guessed_from = report
            presets.remember(report.source)
            if self.options.guesses.on_report(report):
                request = data_request(check_form(self.tree()).readable)
                if request is not None:
                    self.reading.accept_guesses(request)
            self.history.follow()
            self.remedies.on_report(report)
            self._leave_example(report)
        if failure is not None and not self.reading.has_broken:
            self.remedies.on_failure(failure)
        self._refresh()

    def _leave_example(self, report: DataReport) -> None:
        """Begin with the usual values once other data takes the place of the example's."""
        example, form = self._example, self.options.form
        data = form.value(TRAIN)
        others = [one.tree for one in presets.examples() if value_at(one.tree, TRAIN) != data]
        if form.value("output.prompts") in [value_at(tree, "output.prompts") for tree in others]:
            form.put({"output.prompts": None})  # whatever they came with, such as a past run
        if example is None or data == value_at(example.tree, TRAIN):
            return
        self._example = None
        if form.value("output.name") == value_at(example.tree, "output.name"):
            form.put({"output.name": None})
        changes = self._usual_values(example, report)
        if changes:
            title = _("The usual values in place of the example's")
            with self.history.step(title):
                form.set_values(changes)

    def _usual_values(self, example: Preset, report: DataReport) -> Values:
        """Return the usual values of options that are still as an example has them, for the model and the data."""
        form, options = self.options.form, options_by_path()
        is_random = is_scratch(str(form.value("model.source") or ""))
        usual = starting_tree(form.task)
        usual["training"] |= {"epochs": SCRATCH_EPOCHS} if is_random else {}
        usual["training"]["learning_rate"] = self.options.usual_rate
        usual["model"] |= {"vocabulary": report.vocabulary} if is_random and report.vocabulary else {}
        changes = {
            path: value_at(usual, path, options[path].default)
            for path in form.paths
            if (not path.startswith("model.") or (is_random and path == "model.vocabulary"))
            and form.value(path) == value_at(example.tree, path, None)
        }
        return {path: value for path, value in changes.items() if value != form.value(path)}

    def _on_config_fetched(self) -> None:
        self.questions.model.set_request(None)
        self._refresh()

    def _refresh(self) -> None:
        """Check the form and show what it results in; what takes time is asked in the background."""
        checked, questions, form = check_form(self.tree()), self.questions, self.options.form
        self.header.show_task(form.task, [form.value(path) for path in SOURCES])
        questions.update(checked)
        problems_of_length, advice = length_findings(checked, questions.data.counted)
        advice = (*questions.data.advice, *advice)
        answers = (*problems_of_length, *questions.model.problems())
        problems = all_problems(checked, questions.data.problems(), self._machine, form.paths, answers)
        machine = self._machine
        if checked.readable is not None:
            if machine is not None:
                machine = without_mlx(machine, checked.readable, questions.model.why_not_mlx)
            wrong = {problem.path for problem in problems}
            advice = (*hints(checked.readable, machine), *advice)
            advice = tuple(hint for hint in advice if hint.path not in wrong)
        form.show_problems(problems)
        self._advice = advice
        self.options.show_hints(checked.readable, questions.model, machine)
        is_waiting = questions.prevents_start(checked.readable)
        is_ready = not (problems or is_waiting or questions.data.problem_count)
        self.ready = checked.options if is_ready else None
        self.outcome.sweep.setEnabled(is_ready)
        self.outcome.quick.setVisible(self._quick_options() is not None)
        is_start_awaited = self._is_start_awaited and self.isVisible()
        if not (is_start_awaited and is_waiting):
            self._awaits_start = None
        example = None if form.changed_from() else self._example
        is_same = example and all(form.value(path) == value_at(example.tree, path) for path in SOURCES)
        unchanged = example.name if example and is_same else ""
        self.fit.minutes = beginnings()[unchanged][-1] if unchanged in beginnings() else 0
        self.fit.update(checked, machine, questions, is_ready=self.ready is not None)
        self._show_advice()
        self.outcome.show_outcome(
            checked,
            problems,
            machine,
            questions,
            advice,
            changed=form.changed_from(),
            is_waiting=is_waiting,
            is_start_awaited=is_start_awaited,
        )
        self.form_changed.emit()
        if is_start_awaited and is_ready:
            QTimer.singleShot(0, self.start)

    def _show_advice(self) -> None:
        """Show advice at its options, without batches that wouldn't fit into memory."""
        size = "memory.batch_size"

        def offered(fix: Fix) -> bool:
            return size not in fix.changes or self.fit.may_fit(fix.changes)

        hints = (replace(hint, fixes=tuple(filter(offered, hint.fixes))) for hint in self._advice)
        self.options.form.show_advice(hints)

    def _save(self, path: Path) -> None:
        self.options.finish_typing()
        options, problems = check_tree(self.tree())
        try:
            if options is None:
                raise OptionsError(problems, _("The form"))
            with writing(path):
                run_file.write(options, path)
        except UserError as error:
            self.strip.show_error(error)
        else:
            self.strip.show_message(Level.INFO, _("Saved"), str(path))
