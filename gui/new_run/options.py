"""The left half of the New run page: cards with all options, columns guessed from the data, changes and undo."""

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QTextDocument
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from core.base.language import _, pgettext
from core.options import RunOptions, Tree, presets
from core.options.catalogue import options_by_path, options_of, value_of
from core.options.choices import Task, Toggle
from core.options.declare import Option, OptionKind
from core.options.device_support import MachineReport, Settled, find_device, settle, settled_beside
from core.options.method_rules import big_model_advice, extent, usual_rate
from core.options.sources import DIGITS, short_name
from core.services.columns import PATHS
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.new_run.column_guesses import TRAIN, ColumnGuesses
from gui.new_run.data_panel import SPLIT, TRAIN_SPLIT, DataOverview, SplitChoice
from gui.new_run.device_field import DeviceField, has_parts
from gui.new_run.model_field import ModelField
from gui.new_run.state import DataReading, ModelCheck, check_form
from gui.widgets.cards import Card, Note
from gui.widgets.fields import (
    ROOM_FOR_AUTOMATIC,
    AutomaticField,
    ComboField,
    Field,
    LinesField,
    PairsField,
    PathField,
    SwitchField,
)
from gui.widgets.form import Form, FormRow, field_indent, sentence
from gui.widgets.inputs import PathLine
from gui.widgets.labels import link_button, role_label
from gui.widgets.layout import FLUSH, fill, keep_place, set_shown


class DataPathField(PathField):
    """`data.train`; the menu of its button also has the Hub and recent data."""

    hub_wanted = Signal()

    def __init__(self, option: Option) -> None:
        super().__init__(option, _("Drop a file or folder"))
        self.task = Task.IMAGE_CLASSIFICATION
        self.others: list[PathField] = []  # that hold the same kind of data
        self.menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._fixed = len(self.menu.actions())
        self.menu.aboutToShow.connect(self._show_recent)

    def set_task(self, task: Task) -> None:
        """Ask for files that a task may read; the others are found under "All files"."""
        self.task = task
        texts = presets.DATA_ENDINGS - presets.IMAGE_FORMATS.keys()
        images = presets.IMAGE_FORMATS.keys() | presets.TABLE_ENDINGS
        known = images if task.reads_images else texts
        endings = " ".join(f"*{ending} *{ending}.gz" for ending in sorted(known))
        kind = _("Images and tables") if task.reads_images else _("Texts and tables")
        others = _("All files")
        for field in (self, *self.others):
            field.filters = f"{kind} ({endings});;{others} (*)"

    def _show_recent(self) -> None:
        for action in self.menu.actions()[self._fixed :]:
            self.menu.removeAction(action)
        recent = [(short_name(source), source) for source in presets.recent()]
        for heading, sources in (
            (_("Recent"), recent),
            (_("Comes with Hone"), [(_("Handwritten digits"), DIGITS)] if self.task.reads_images else []),
        ):
            if sources:  # a disabled action, as style sheets show no sections
                self.menu.addSeparator()
                self.menu.addAction(heading).setEnabled(False)
            for title, source in sources:
                action = self.menu.addAction(title)
                action.setToolTip(source)
                action.triggered.connect(lambda _checked, source=source: self.line.setText(source))


class SpecialFields:
    """The controls of options whose kind alone doesn't determine it; `by_path` has all of them."""

    def __init__(self) -> None:
        options = options_by_path()
        self.model = ModelField(options["model.source"])
        self.device = DeviceField(options["device.name"])
        self.train = DataPathField(options["data.train"])
        evaluated = PathField(options["data.eval"], _("Choose the validation data"))
        evaluated.near = self.train
        self.train.others.append(evaluated)
        self.train.set_task(self.train.task)
        roles, names = PairsField(options["data.roles"]), PairsField(options["data.label_names"])
        roles.line.setPlaceholderText("bob = assistant")
        names.line.setPlaceholderText(_("0 = negative, 1 = positive"))
        numbers = ("data.workers", "device.threads", "data.pad_to_multiple_of")
        fields: tuple[Field, ...] = (
            self.model,
            self.device,
            self.train,
            evaluated,
            *(AutomaticField(options[path]) for path in numbers),
            ComboField(options["device.compile_backend"]),
            ComboField(options["device.compile_mode"]),
            PathField(options["memory.offload_folder"], only_folders=True),
            LinesField(options["output.prompts"]),
            roles,
            names,
        )
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}


class OptionsCard(Card):
    """The rows of some sections of a run file; advanced ones, except those that are `LIFTED`, behind "More"."""

    def __init__(self, title: str, form: Form, sections: Sequence[str], fields: Mapping[str, Field]) -> None:
        super().__init__(title)
        self._form = form
        self._hidden: frozenset[str] = frozenset()
        self._rows: dict[str, FormRow] = {}
        self._headings: dict[str, QLabel] = {}
        self.more = link_button("")
        self.more.setCheckable(True)
        self.more.toggled.connect(self._on_more)
        self.set_trailing(self.more)
        keep_place(self.more)
        self._advanced = QWidget()
        self._more_body = fill(QVBoxLayout(self._advanced), margins=FLUSH, spacing=SPACING // 2)
        self.body.setSpacing(SPACING // 2)
        options = [option for section in sections for option in options_of(section)]
        advanced = [option for option in options if is_advanced(option)]
        for option in options:
            if option not in advanced:
                self._add(option, fields, self.body)
        for group in dict.fromkeys(option.group for option in advanced):
            if group:
                heading = self._headings[group] = role_label(Role.GROUP_TITLE, group)
                heading.setContentsMargins(0, SPACING, 0, 0)
                self._more_body.addWidget(heading)
            for option in advanced:
                if option.group == group:
                    self._add(option, fields, self._more_body)
        self.body.addWidget(self._advanced)
        form.revealed.connect(self._on_revealed)
        form.relevance_changed.connect(self.show_relevant)
        self._on_more(False)

    def _add(self, option: Option, fields: Mapping[str, Field], layout: QBoxLayout) -> None:
        row = self._rows[option.path] = self._form.add(option.path, fields.get(option.path))
        layout.addWidget(row)

    def insert_below(self, path: str, widget: QWidget) -> None:
        layout = self._more_body if is_advanced(options_by_path()[path]) else self.body
        layout.insertWidget(layout.indexOf(self._rows[path]) + 1, widget)

    def hide_rows(self, paths: Iterable[str]) -> None:
        """Hide the rows of these options, except those with a problem."""
        hidden = frozenset(path for path in paths if not self._form.row(path).problems)
        if hidden != self._hidden:
            self._hidden = hidden
            self.show_relevant()

    def show_relevant(self) -> None:
        """Show the options that apply with the values of the form, and the headings above them."""
        shown = []
        for path, row in self._rows.items():
            option = row.field.option
            applies = self._form.applies(option)
            set_shown(row, applies and path not in self._hidden)
            if not applies:
                row.set_problems(())
            elif path not in self._hidden and is_advanced(option):
                shown.append(option)
        for group, heading in self._headings.items():
            set_shown(heading, any(option.group == group for option in shown))
        set_shown(self.more, bool(shown))
        set_shown(self._advanced, self.more.isChecked() and bool(shown))

    def open(self) -> None:
        """Show the options behind "More"."""
        self.more.setChecked(True)

    def show_changed(self) -> None:
        """Say at "More" how many of the options behind it are changed."""
        rows = (
            row
            for path, row in self._rows.items()
            if is_advanced(row.field.option) and path not in self._hidden
        )
        changed = sum(row.is_changed and self._form.applies(row.field.option) for row in rows)
        more = _("More ({count:,} changed)").format(count=changed) if changed else _("More")
        self.more.setText(_("Less") if self.more.isChecked() else more)

    def _on_more(self, is_open: bool) -> None:
        self.show_relevant()
        self.show_changed()
        name = _("Fewer options: {card}") if is_open else _("More options: {card}")
        self.more.setAccessibleName(name.format(card=self.title))

    def _on_revealed(self, path: str) -> None:
        if path in self._rows and is_advanced(options_by_path()[path]):
            self.open()


LIFTED = frozenset({TRAIN_SPLIT, SPLIT, "data.loss_on", "data.chat_template", "model.vocabulary"})
"""Options shown without "More": their task, or the control above them, is about them."""


def is_advanced(option: Option) -> bool:
    return option.advanced and option.path not in LIFTED


def automatic_text(option: Option, settled: Settled) -> str:
    """Return what "automatic" resolves to and why; only why if the control shows the value."""
    if option.kind is OptionKind.WHOLE or len(option.choices) <= ROOM_FOR_AUTOMATIC:
        return sentence(settled.reason)
    return _("Automatic: {value}, {reason}").format(value=settled.value, reason=settled.reason)


LINK_PADDING = 6
LABEL_NAMES = "data.label_names"
RATE = "training.learning_rate"
WITH_DEVICES = frozenset({"device.name"})
"""The row whose field shows the machine by itself."""


class OptionsColumn(QWidget):
    """All cards of options, one below the other."""

    changed = Signal()  # by the person
    check_requested = Signal(str)  # the device to check, as in `device.name`
    fix_chosen = Signal(object)  # a `core.base.errors.Fix`

    def __init__(self, theme: Theme, reading: DataReading) -> None:
        super().__init__()
        self.form = Form(Task.IMAGE_CLASSIFICATION, self)
        self.fields = SpecialFields()
        self.data = DataOverview(theme, reading)
        self._reading = reading
        self._machine: MachineReport | None = None
        self._revealed: set[str] = set()
        self.guesses = ColumnGuesses(self.form)
        self.usual_rate: float | None = None  # for the model and method of the form
        layout = fill(QVBoxLayout(self), margins=(0, 0, 0, 2 * SPACING), spacing=SPACING + 4)
        self.cards = []
        for title, sections in (
            (_("Model"), ("model",)),
            (_("Data"), ("data",)),
            (_("Device and precision"), ("device",)),
            (_("Memory"), ("memory",)),
            (pgettext("options", "Training"), ("training", "output")),
        ):
            self.cards.append(OptionsCard(title, self.form, sections, self.fields.by_path))
            layout.addWidget(self.cards[-1])
        layout.addStretch(1)
        self._model_card, self._data_card, self.device_card, memory_card, _training = self.cards
        self.split = SplitChoice(self.form)
        self._data_card.insert_below(TRAIN, self.split)
        self._data_card.insert_below(TRAIN, self.data)
        self.check = check = link_button(
            _("Check this device…"),
            lambda: self.check_requested.emit(str(self.fields.device.value())),
            _("Compare its results with those of the CPU"),
        )
        self.device_card.insert_below("device.name", self._indented(check, LINK_PADDING, None))
        advice = Note(_("Help me choose"))
        lines = [
            _("{condition}: {advice}").format(condition=item.condition, advice=item.advice)
            for item in big_model_advice()
        ]
        advice.say((_("For a model that doesn't fit."), *lines))
        memory_card.insert_below("memory.deepspeed", self._indented(advice))
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(isinstance(line, PathLine))  # a file dropped elsewhere is the data
        for kind in (QLineEdit, QAbstractSpinBox, QPlainTextEdit):
            for control in self.findChildren(kind):
                control.installEventFilter(self)
        self.form.changed.connect(self._on_change)
        self.form.fix_chosen.connect(self.fix_chosen)
        self.device_card.more.toggled.connect(self._hide_rows)
        self.form.revealed.connect(self._on_revealed)
        self.split.changed.connect(self.changed)
        self.data.views.rows.use_chosen.connect(self.guesses.choose)
        self.data.views.labels.named.connect(self._name_label)
        self.data.findings.fix_chosen.connect(self.fix_chosen)
        self.set_machine(None)

    def _indented(self, widget: QWidget, less: int = 0, *rest: None) -> QWidget:
        """Align a widget with the controls; `rest` None leaves the space behind it empty."""
        line = QWidget()
        fill(QHBoxLayout(line), widget, *rest, margins=(field_indent(self) - less, 0, 0, 0))
        return line

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Leave Undo and Redo to the page where the text with the focus has nothing to undo or redo."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.ShortcutOverride:
            text = watched.lineEdit() if isinstance(watched, QAbstractSpinBox) else watched
            text = text.document() if isinstance(text, QPlainTextEdit) else text
            assert isinstance(text, QLineEdit | QTextDocument)
            is_undo = event.matches(QKeySequence.StandardKey.Undo) and not text.isUndoAvailable()
            if is_undo or (event.matches(QKeySequence.StandardKey.Redo) and not text.isRedoAvailable()):
                event.ignore()
                return True
        return super().eventFilter(watched, event)

    @property
    def typed(self) -> list[PathField]:
        """The fields of paths that are still being typed."""
        return [field for field in self.findChildren(PathField) if field.is_typing]

    def finish_typing(self) -> None:
        for field in self.typed:
            field.finish_typing()

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a run file; an unknown task leaves the task as it is."""
        with suppress(ValueError):
            self._set_task(Task(str(tree.get("task"))))
        self._revealed.clear()
        self.split.reset()
        self.form.load(tree)
        self.guesses.reset()
        self._follow(frozenset())
        self._show_device()

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, `task` too, and leave the others."""
        self._set_task(Task(changes.get("task", self.form.task)))
        self.form.put(changes)
        self._follow(changes.keys())
        self.changed.emit()

    def _set_task(self, task: Task) -> None:
        self.form.set_task(task)
        self.fields.model.set_task(task)
        self.fields.train.set_task(task)

    def chosen_tree(self) -> Tree:
        """Return the values as in a run file, without guessed columns."""
        return self.guesses.without_guesses(self.form.tree())

    def full_tree(self) -> Tree:
        """Return all chosen values, even those that don't apply now, to return to later."""
        return self.guesses.without_guesses(self.form.full_tree())

    @property
    def roles(self) -> dict[str, str]:
        """The roles the person gave to names of speakers."""
        return self._pairs("data.roles")

    def _pairs(self, path: str) -> dict[str, str]:
        value = self.form.field(path).value()
        return dict(value) if isinstance(value, dict) else {}

    def set_machine(self, machine: MachineReport | None) -> None:
        self._machine = machine
        self._show_device()

    def show_hints(
        self, options: RunOptions | None, model: ModelCheck, machine: MachineReport | None
    ) -> None:
        """Show the data, and below some fields what the values of the form mean, None if they can't be read.

        `machine` is for these options and this model.
        """
        names = self.form.row(LABEL_NAMES)
        self.data.show_state(self.form.task, self.guesses.columns, self.guesses.guessed, names)
        self.split.update_from(self._reading.report)
        self._hide_rows()
        for card in self.cards:
            card.show_changed()
        if options is None:
            return
        is_random = options.starts_random and not self.fields.model.is_scratch
        self.fields.model.models.vocabulary = options.model.vocabulary
        shape = model.shaped.shape if model.shaped is not None else None
        facts = self.fields.model.facts(shape.parameters if shape is not None else None)
        self.form.row("model.source").set_hint("" if is_random else facts)
        row, limit, longest = self.form.row, options.data.max_length, model.longest
        is_cut = longest is not None and longest < limit
        self.data.views.lengths.set_limit(min(limit, longest or limit) if options.task.reads_text else None)
        text = _("This model's context is {tokens:,} tokens; longer texts are truncated")
        row("data.max_length").set_hint(text.format(tokens=longest) if is_cut else "")
        most, known = options.data.max_train_samples, extent(options, options.data.max_train_samples or 0)
        text = _("{trained:,} for training, {evaluated:,} for validation")
        text = text.format(trained=known.trained, evaluated=known.evaluated or 0)
        is_shared = most and known.evaluated and options.task is not Task.CAUSAL_LM
        row("data.max_train_samples").set_hint(text if is_shared else "")
        most_evaluated, counted = options.data.max_eval_samples, self._reading.counted
        evaluated = counted.eval_rows if counted is not None else None
        is_without_effect = most_evaluated and evaluated is not None and evaluated < most_evaluated
        text = _("No effect: there are {count:,} validation examples").format(count=evaluated or 0)
        row("data.max_eval_samples").set_hint(text if is_without_effect else "")
        best, stops_early = row("output.keep_best"), options.training.early_stopping_patience > 0
        assert isinstance(best.field, SwitchField)
        best.field.show_implied(is_implied=stops_early)
        best.set_hint(_("Early stopping always keeps the best") if stops_early else "")
        device = find_device(machine, options.device.name) if machine else None
        effective = (settle(device, options) if device else options).effective_batch
        text = _("Effective batch size: {rows:,}").format(rows=effective)
        accumulates = options.memory.gradient_accumulation_steps > 1
        row("memory.gradient_accumulation_steps").set_hint(text if accumulates else "")
        self.form.show_machine(machine, device, options, but=WITH_DEVICES)
        for path in self.form.paths:
            settled = settled_beside(device, path, options) if device else None
            if settled is not None:
                option = row(path).field.option
                is_automatic = value_of(options, path) in ("auto", None)
                says_why = bool(row(path).refusals.summary) and option.value_type is Toggle
                text = automatic_text(option, settled)
                row(path).set_hint(text if is_automatic and not says_why else "")

    def show_gpu(self, panel: QWidget) -> None:
        """Put the offer of PyTorch with CUDA below the choice of the device."""
        panel.setContentsMargins(field_indent(self), 0, 0, 0)
        self.device_card.insert_below("device.name", panel)

    def _hide_rows(self) -> None:
        model, reading, form = self.fields.model, self._reading, self.form
        self._model_card.hide_rows({"model.pretrained"} if model.is_run else ())
        has_no_table = not self.data.has_table and reading.report is None and not reading.is_waiting
        shown = {path for path in PATHS if has_no_table and form.field(path).value()} | self._revealed
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        is_cpu, processes = device is not None and device.kind == "cpu", "device.processes"
        is_wanted = has_parts(self._machine, device) and (not is_cpu or self.device_card.more.isChecked())
        is_wanted |= processes in self._revealed or form.field(processes).value() != 1
        self.device_card.hide_rows(() if is_wanted else {processes})
        self._data_card.hide_rows(set(PATHS) - shown | self.split.hidden)  # columns are chosen in the table

    def _on_revealed(self, path: str) -> None:
        self._revealed.add(path)
        self.split.reveal(path)
        self._hide_rows()

    def _on_change(self, paths: Set[str]) -> None:
        before, rate, was_typed = (
            self.usual_rate,
            self.form.field(RATE).value(),
            RATE in self.form.changed_from(),
        )
        self._follow(paths)
        is_other = self.usual_rate not in (None, before)
        if RATE not in paths and is_other and (rate == before or not was_typed):
            self.form.put({RATE: self.usual_rate})
            usual = {"training": {"learning_rate": self.usual_rate}}
            self.form.count_from(usual, _("start value"), is_whole=False)
        self.changed.emit()

    def _name_label(self, label: str, name: str) -> None:
        before = self._pairs(LABEL_NAMES)
        names = {one: given for one, given in {**before, label: name}.items() if given}
        if names != before:
            self.form.set_values({LABEL_NAMES: names})

    def _follow(self, paths: Set[str]) -> None:
        readable = check_form(self.form.tree()).readable
        self.usual_rate = usual_rate(readable).value if readable is not None else None
        for path in sorted(paths, key=lambda path: path not in PATHS):
            self.guesses.on_change(path, paths)
        if "device.name" in paths:
            self._show_device()

    def _show_device(self) -> None:
        """Offer what the chosen device can do."""
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=WITH_DEVICES)
        self.check.setEnabled("@" not in str(self.fields.device.value()))
        self.form.row("device.name").set_refusals(self.fields.device.show_machine(self._machine))
