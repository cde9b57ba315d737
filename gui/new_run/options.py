"""The left half of the New run page: cards with all options, columns guessed from the data, changes and undo."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from PySide6.QtCore import QObject, QSignalBlocker, QSize, Signal
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from core.base.language import _
from core.options import RunOptions, Tree, presets
from core.options.catalogue import options_by_path, options_of, value_of, value_text
from core.options.choices import DEVICE_KINDS, Task, Toggle, device_title
from core.options.declare import Kind, Option
from core.options.device_support import MachineReport, Settled, find_device, settled_beside
from core.options.importing import Imported
from core.options.method_rules import big_model_advice
from core.options.presets import Difference, Preset, differences
from core.options.sources import DIGITS, short_name
from core.services.inspect import (
    COLUMNS,
    IMAGE,
    IMAGE_COLUMN,
    LABEL,
    LABEL_COLUMN,
    PATHS,
    SECOND,
    TEXT,
    TEXT_COLUMNS,
    Columns,
    DataReport,
    chosen_columns,
    guessed_columns,
    options_of_columns,
    with_use,
)
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.new_run.data_panel import SPLIT, TRAIN_SPLIT, DataOverview, SplitChoice
from gui.new_run.model_field import ModelField
from gui.new_run.state import DataReading
from gui.widgets.cards import Card, Change, ChangesStrip
from gui.widgets.fields import (
    ROOM_FOR_AUTOMATIC,
    AutomaticField,
    ComboField,
    Field,
    PairsField,
    PathField,
    SegmentedField,
    refused,
)
from gui.widgets.form import Form
from gui.widgets.form_row import FormRow, field_indent, sentence
from gui.widgets.inputs import PathLine, Segment
from gui.widgets.labels import Disclosure, link_button, role_label
from gui.widgets.layout import FLUSH, fill


class DataPathField(PathField):
    """`data.train`; the menu of its button also has the Hub and recent data."""

    hub_wanted = Signal()

    def __init__(self, option: Option) -> None:
        super().__init__(option, _("Drop a file or folder"))
        self.menu.setToolTipsVisible(True)
        self.menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._fixed = len(self.menu.actions())
        self.menu.aboutToShow.connect(self._show_recent)

    def _show_recent(self) -> None:
        for action in self.menu.actions()[self._fixed :]:
            self.menu.removeAction(action)
        recent = [(short_name(source), source) for source in presets.recent()]
        for heading, sources in (
            (_("Recent"), recent),
            (_("Comes with Hone"), [(_("Handwritten digits"), DIGITS)]),
        ):
            if sources:  # a disabled action, as style sheets show no sections
                self.menu.addSeparator()
                self.menu.addAction(heading).setEnabled(False)
            for title, source in sources:
                action = self.menu.addAction(title)
                action.setToolTip(source)
                action.triggered.connect(lambda _checked, source=source: self.line.setText(source))


LINES = 4


class _LinesEdit(QPlainTextEdit):
    """A text edit whose first line is level with the label of its row."""

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), QLineEdit().sizeHint().height())


class LinesField(Field):
    """A list of texts, one in each line."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.edit = _LinesEdit()
        self.edit.setTabChangesFocus(True)
        self.edit.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.edit.setPlaceholderText(_("One per line"))
        self.edit.setFixedHeight(LINES * self.edit.fontMetrics().lineSpacing() + 18)
        self._add_control(self.edit, stretch=True)
        self.edit.setAccessibleDescription(_("One per line"))
        self.edit.textChanged.connect(self.changed)

    def value(self) -> object:
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show texts; the same ones stay as they were typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts != self.value():
            with QSignalBlocker(self.edit):
                self.edit.setPlainText("\n".join(texts))


class SpecialFields:
    """The controls of options whose kind alone doesn't determine it; `by_path` has all of them."""

    def __init__(self) -> None:
        options = options_by_path()
        self.model = ModelField(options["model.source"])
        self.device = SegmentedField(options["device.name"])
        self.train = DataPathField(options["data.train"])
        roles = PairsField(options["data.roles"])
        roles.line.setPlaceholderText("bob = assistant")
        fields: tuple[Field, ...] = (
            self.model,
            self.device,
            self.train,
            PathField(options["data.eval"], _("Choose the validation data")),
            AutomaticField(options["data.workers"]),
            AutomaticField(options["device.threads"]),
            ComboField(options["device.compile_backend"]),
            ComboField(options["device.compile_mode"]),
            PathField(options["memory.offload_folder"], only_folders=True),
            LinesField(options["output.prompts"]),
            roles,
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
        self._more = link_button("")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._on_more)
        self.set_trailing(self._more)
        self._advanced = QWidget()
        self._more_body = fill(QVBoxLayout(self._advanced), margins=FLUSH, spacing=SPACING)
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
            row.setVisible(applies and path not in self._hidden)
            if not applies:
                row.set_problems(())
            elif path not in self._hidden and is_advanced(option):
                shown.append(option)
        for group, heading in self._headings.items():
            heading.setVisible(any(option.group == group for option in shown))
        self._more.setVisible(bool(shown))
        self._advanced.setVisible(self._more.isChecked() and bool(shown))

    def open(self) -> None:
        """Show the options behind "More"."""
        self._more.setChecked(True)

    def _on_more(self, is_open: bool) -> None:
        self.show_relevant()
        self._more.setText(_("Less") if is_open else _("More"))
        name = _("Fewer options: {card}") if is_open else _("More options: {card}")
        self._more.setAccessibleName(name.format(card=self.title))

    def _on_revealed(self, path: str) -> None:
        if path in self._rows and is_advanced(options_by_path()[path]):
            self.open()


LIFTED = frozenset({TRAIN_SPLIT, SPLIT, "data.loss_on", "data.chat_template", "model.vocabulary"})
"""Options shown without "More": their task, or the control above them, is about them."""


def is_advanced(option: Option) -> bool:
    return option.advanced and option.path not in LIFTED


TRAIN = "data.train"
RENAMING = ("data.train_split", "data.header")
"""Options with whose other values the columns have other names."""
OF_ONE_FILE = ("data.roles", "data.header", "data.train_split", "data.eval_split")
"""Options that, like its columns, describe one file and not the next."""

KEYS = {TEXT_COLUMNS: (TEXT, SECOND), LABEL_COLUMN: (LABEL,), IMAGE_COLUMN: (IMAGE,)}


class ColumnGuesses:
    """Which columns of the form were guessed from the data.

    A column is guessed (`_guessed`), or chosen by the person. With other data guessed columns are dropped; chosen ones
    wait (`_earlier`) until it is known whether the new data (`_source`) has them.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._guessed: set[str] = set()
        self._earlier: dict[str, object] = {}
        self._source: object = None

    @property
    def columns(self) -> Columns:
        """The columns in the form, by the keys of their roles."""
        return chosen_columns(self._form.task, self._value)

    @property
    def guessed(self) -> frozenset[str]:
        """The keys of the guessed ones."""
        if COLUMNS in self._guessed:
            return frozenset(self.columns)
        return frozenset(key for path in self._guessed for key in KEYS.get(path, ()))

    def reset(self) -> None:
        """Count everything in the form as chosen."""
        self._guessed.clear()
        self._earlier.clear()
        self._source = self._value(TRAIN)

    def on_report(self, report: DataReport) -> bool:
        """Fill in guessed columns where none are chosen; returns whether there were any.

        Columns chosen for earlier data are put back if the new data has all of them; then it is read once more.
        """
        earlier = {path: value for path, value in self._earlier.items() if not self._value(path)}
        self._earlier = {}
        if earlier and {column.name for column in report.columns}.issuperset(_names(earlier.values())):
            self._form.put(earlier)
            return False
        task = self._form.task
        guesses = options_of_columns(task, guessed_columns(task, report))
        guesses = {path: value for path, value in guesses.items() if value and not self._value(path)}
        self._form.put(guesses)
        self._guessed |= set(guesses)
        return bool(guesses)

    def choose(self, column: str, key: str) -> None:
        """Use a column for what the person wants."""
        wanted = options_of_columns(self._form.task, with_use(self.columns, column, key))
        self._form.set_values(
            {path: value for path, value in wanted.items() if (value or None) != (self._value(path) or None)}
        )

    def on_change(self, path: str, together: Set[str] = frozenset()) -> None:
        """Follow a change of an option.

        Args:
            path: The option.
            together: Options changed with it, which are meant for the new data.
        """
        if path in PATHS:
            self._guessed.discard(path)
            self._earlier.pop(path, None)
        elif path == TRAIN and self._value(TRAIN) != self._source:
            self._source = self._value(TRAIN)
            columns = {path: self._value(path) for path in PATHS if path not in together}
            columns = {path: value for path, value in columns.items() if value}
            self._earlier |= {path: value for path, value in columns.items() if path not in self._guessed}
            self._guessed -= set(columns)
            self._clear({*columns, *OF_ONE_FILE} - together)
        elif path in RENAMING:
            self._clear(self._guessed)
            self._guessed.clear()

    def without_guesses(self, tree: Tree) -> Tree:
        """Return a form's values without guessed columns: other data would have others."""
        data = {
            name: value for name, value in tree.get("data", {}).items() if f"data.{name}" not in self._guessed
        }
        return {**tree, "data": data} if "data" in tree else tree

    def _clear(self, paths: Set[str]) -> None:
        self._form.put({path: options_by_path()[path].default for path in paths})

    def _value(self, path: str) -> object:
        return self._form.field(path).value() if path in self._form.paths else None


def _names(values: Iterable[object]) -> set[str]:
    """The columns that values of the options in `PATHS` name."""
    names: set[str] = set()
    for value in values:
        if isinstance(value, dict):
            names |= {str(name) for name in value.values() if name}
        else:
            names |= {str(name) for name in value} if isinstance(value, list | tuple) else {str(value)}
    return names


def device_segments(machine: MachineReport | None) -> list[Segment]:
    """Return the devices to choose from; all kinds before the machine is known."""
    segments = [Segment("auto", _("Automatic"))]
    if machine is None:
        return [*segments, *(Segment(name, title) for name, title in DEVICE_KINDS.items())]
    kinds = [device.name.partition(":")[0] for device in machine.devices]
    for device, kind in zip(machine.devices, kinds, strict=True):
        name = device.name if kinds.count("cuda") > 1 else kind
        refusal = "" if device.available else device.reason
        segments.append(Segment(name, device_title(name), device.title, refusal))
    return segments


def automatic_text(option: Option, settled: Settled) -> str:
    """Return what "automatic" resolves to and why; only why if the control shows the value."""
    if option.kind is Kind.WHOLE or len(option.choices) <= ROOM_FOR_AUTOMATIC:
        return sentence(settled.reason)
    return _("Automatic: {value}, {reason}").format(value=settled.value, reason=settled.reason)


LINK_PADDING = 6


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
        layout = fill(QVBoxLayout(self), margins=(0, 0, 0, 2 * SPACING), spacing=SPACING + 4)
        self._cards = []
        for title, sections in (
            (_("Model"), ("model",)),
            (_("Data"), ("data",)),
            (_("Device and precision"), ("device",)),
            (_("Memory"), ("memory",)),
            (_("Training"), ("training", "output")),
        ):
            self._cards.append(OptionsCard(title, self.form, sections, self.fields.by_path))
            layout.addWidget(self._cards[-1])
        layout.addStretch(1)
        self._model_card, self._data_card, self._device_card, memory_card, _training = self._cards
        self._split = SplitChoice(self.form)
        self._data_card.insert_below(TRAIN, self._split)
        self._data_card.insert_below(TRAIN, self.data)
        self.data.add_problems(self.form.row(TRAIN))
        check = link_button(
            _("Check this device…"),
            lambda: self.check_requested.emit(str(self.fields.device.value())),
            _("Compare its results with those of the CPU"),
        )
        self._device_card.insert_below("device.name", self._indented(check, LINK_PADDING, None))
        self.advice = Disclosure(_("Help me choose"))
        lines = [
            _("{condition}: {advice}").format(condition=item.condition, advice=item.advice)
            for item in big_model_advice()
        ]
        self.advice.show_text(_("For a model that doesn't fit."), lines)
        self.advice.show()
        memory_card.insert_below("memory.deepspeed", self._indented(self.advice))
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(isinstance(line, PathLine))  # a file dropped elsewhere is the data
        self.form.changed.connect(self._on_change)
        self.form.fix_chosen.connect(self.fix_chosen)
        self.form.revealed.connect(self._on_revealed)
        self._split.changed.connect(self.changed)
        self.data.views.rows.use_chosen.connect(self.guesses.choose)
        self.data.findings.fix_chosen.connect(self.fix_chosen)
        self.set_machine(None)

    def _indented(self, widget: QWidget, less: int = 0, *rest: None) -> QWidget:
        """Align a widget with the controls; `rest` None leaves the space behind it empty."""
        line = QWidget()
        fill(QHBoxLayout(line), widget, *rest, margins=(field_indent(self) - less, 0, 0, 0))
        return line

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a run file; an unknown task leaves the task as it is."""
        self._set_task(next((task for task in Task if task.value == tree.get("task")), self.form.task))
        self._revealed.clear()
        self._split.reset()
        self.form.load(tree)
        self.guesses.reset()
        self._show_device()

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, `task` too, and leave the others."""
        self._set_task(Task(changes.get("task", self.form.task)))
        self.form.put(changes)
        for path in sorted(changes, key=lambda path: path not in PATHS):
            self._follow(path, frozenset(changes))
        self.changed.emit()

    def _set_task(self, task: Task) -> None:
        self.form.set_task(task)
        self.fields.model.set_task(task)

    def chosen_tree(self) -> Tree:
        """Return the values as in a run file, without guessed columns."""
        return self.guesses.without_guesses(self.form.tree())

    def full_tree(self) -> Tree:
        """Return all chosen values, even those that don't apply now, to return to later."""
        return self.guesses.without_guesses(self.form.full_tree())

    @property
    def roles(self) -> dict[str, str]:
        """The roles the person gave to names of speakers."""
        value = self.form.field("data.roles").value()
        return dict(value) if isinstance(value, dict) else {}

    def set_machine(self, machine: MachineReport | None) -> None:
        self._machine = machine
        self._show_device()

    def show_hints(self, options: RunOptions | None, longest: int | None = None) -> None:
        """Show the data, and below some fields what their values mean.

        Args:
            options: The form, None if it can't be read.
            longest: The model's context length in tokens, None if unknown.
        """
        self.data.show_state(self.form.task, self.guesses.columns, self.guesses.guessed)
        self._split.update_from(self._reading.report)
        self._hide_rows()
        if options is None:
            return
        row, limit = self.form.row, options.data.max_length
        is_cut = longest is not None and longest < limit
        self.data.views.lengths.set_limit(min(limit, longest or limit) if options.task.reads_text else None)
        text = _("This model's context is {tokens:,} tokens; longer texts are truncated")
        row("data.max_length").set_hint(text.format(tokens=longest) if is_cut else "")
        text = _("{rows:,} examples per optimizer step").format(rows=options.effective_batch)
        accumulates = options.memory.gradient_accumulation_steps > 1
        row("memory.gradient_accumulation_steps").set_hint(text if accumulates else "")
        device = find_device(self._machine, options.device.name) if self._machine else None
        for path, settled in (device.automatic if device else {}).items():
            if path in self.form.paths:
                option = row(path).field.option
                is_automatic = value_of(options, path) in ("auto", None)
                says_why = bool(row(path).refusals.summary) and option.value_type is Toggle
                text = automatic_text(option, settled_beside(settled, options))
                row(path).set_hint(text if is_automatic and not says_why else "")

    def show_gpu(self, panel: QWidget) -> None:
        """Put the offer of PyTorch with CUDA below the choice of the device."""
        panel.setContentsMargins(field_indent(self), 0, 0, 0)
        self._device_card.insert_below("device.name", panel)

    def open_more(self) -> None:
        """Show the options behind "More" in every card."""
        for card in self._cards:
            card.open()

    def _hide_rows(self) -> None:
        model, reading, form = self.fields.model, self._reading, self.form
        of_model = set() if model.is_scratch else {"model.vocabulary"}
        of_model |= {"model.pretrained"} if model.is_scratch or model.is_run else set()
        self._model_card.hide_rows(of_model)
        has_no_table = not self.data.has_table and reading.report is None and not reading.is_waiting
        shown = {path for path in PATHS if has_no_table and form.field(path).value()} | self._revealed
        self._data_card.hide_rows(set(PATHS) - shown | self._split.hidden)  # columns are chosen in the table

    def _on_revealed(self, path: str) -> None:
        self._revealed.add(path)
        self._split.reveal(path)
        self._hide_rows()

    def _on_change(self, path: str) -> None:
        self._follow(path, self.form.batch)
        self.changed.emit()

    def _follow(self, path: str, together: Set[str]) -> None:
        self.guesses.on_change(path, together)
        if path == "device.name":
            self._show_device()

    def _show_device(self) -> None:
        """Offer what the chosen device can do."""
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=frozenset({"device.name"}))
        segments = device_segments(self._machine)
        self.fields.device.segmented.set_segments(segments)
        self.form.row("device.name").set_refusals(refused(segments))


class ChangeSet(QObject):
    """Changes several options at once, as presets, imports and remedies do, lists that on `strip`, and undoes it."""

    task_wanted = Signal(object)  # the `core.options.choices.Task` that has to be chosen first
    restored = Signal(object)  # the tree of the whole form

    def __init__(self, options: OptionsColumn, strip: ChangesStrip) -> None:
        super().__init__(options)
        self._options = options
        self._strip = strip
        self._before: Tree = {}
        self._differences: tuple[Difference, ...] = ()
        self._is_whole = False
        strip.undo_chosen.connect(self.undo)

    def apply(self, preset: Preset) -> None:
        self._apply(preset.tree, _("Applied: {preset}").format(preset=preset.title), preset.help)

    def import_options(self, imported: Imported) -> None:
        values = {key: value for key, value in imported.tree.items() if key != "schema"}
        self._apply(values, _("Imported"))

    def change(self, title: str, text: str, changes: Mapping[str, Any]) -> None:
        """Change options by their paths; `title` says what was done, `text` why."""
        tree: Tree = {}
        for path, value in changes.items():
            section, _dot, name = path.partition(".")
            tree.setdefault(section, {})[name] = value
        self._apply(tree, _("Applied: {preset}").format(preset=title), text)

    def replace(self, tree: Tree, title: str) -> None:
        """Replace the whole form."""
        before = self._options.full_tree()
        self.restored.emit(tree)
        self._before, self._is_whole = before, True
        self._differences = _differences(before, self._options.full_tree())
        self._show(title, "")

    def undo(self) -> None:
        """Put back what was changed; later changes stay, unless the whole form was replaced."""
        self._strip.hide()
        if self._is_whole or self._before["task"] != self._options.form.task.value:
            self.restored.emit(self._before)
        else:
            self._options.put({change.path: change.before for change in self._differences})

    def _apply(self, tree: Tree, title: str, text: str = "") -> None:
        """Change the task first: that fills the form again, and only then is it known what is left to change."""
        self._before = self._options.full_tree()
        of_task = tuple(change for change in _differences(self._before, tree) if change.path == "task")
        for change in of_task:
            self.task_wanted.emit(Task(change.after))
        filled = self._options.full_tree()
        self._options.put({change.path: change.after for change in _differences(filled, tree)})
        self._differences = (*of_task, *_differences(filled, self._options.full_tree()))
        self._is_whole = False
        self._show(title, text)

    def _show(self, title: str, text: str) -> None:
        options = options_by_path()
        changes = [
            Change(
                options[change.path].title,
                value_text(options[change.path], change.before),
                value_text(options[change.path], change.after),
            )
            for change in self._differences
            if change.path == "task" or self._options.form.applies(options[change.path])
        ]
        nothing = _("The form already had these values.")
        self._strip.show_changes(title, text if self._differences else nothing, changes)


def _differences(before: Tree, after: Tree) -> tuple[Difference, ...]:
    return differences(before, Preset("", "", "", after))
