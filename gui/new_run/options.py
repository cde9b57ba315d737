"""The left half of the New run page: the cards with all options, what is guessed from the data, and undo."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from PySide6.QtCore import QObject, QSignalBlocker, QSize, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

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
from gui.base.theme import Role, Theme, set_role
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
from gui.widgets.labels import Disclosure, link_button
from gui.widgets.layout import FLUSH, fill


class DataPathField(PathField):
    """`data.train`; what was trained on lately stands in the menu of its button, beside the way to the Hub.

    Signals:
        hub_wanted: The person wants to look for data on the Hub.
    """

    hub_wanted = Signal()

    def __init__(self, option: Option, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(option, placeholder, parent)
        self.menu.setToolTipsVisible(True)
        self.menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._own = len(self.menu.actions())
        self.menu.aboutToShow.connect(self._offer_recent)

    def _offer_recent(self) -> None:
        """Put the sources below what the menu has of its own."""
        for old in self.menu.actions()[self._own :]:
            self.menu.removeAction(old)
        sources = presets.recent()
        if sources:
            self._add_heading(_("Lately"))
        for source in sources:
            self._add(short_name(source), source)
        self._add_heading(_("Comes with Hone"))
        self._add(_("Handwritten digits"), DIGITS)

    def _add_heading(self, title: str) -> None:
        """A line, and below it words that can't be chosen: style sheets show no sections."""
        self.menu.addSeparator()
        self.menu.addAction(title).setEnabled(False)

    def _add(self, title: str, source: str) -> None:
        action = self.menu.addAction(title)
        action.setToolTip(source)
        action.triggered.connect(lambda: self.line.setText(source))


LINES = 4


class _Lines(QPlainTextEdit):
    """A text whose first line stands beside the label of its row."""

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), QLineEdit().sizeHint().height())


class LinesField(Field):
    """A list of texts of which each has a line of its own."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.edit = _Lines()
        self.edit.setTabChangesFocus(True)
        self.edit.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.edit.setPlaceholderText(_("One in each line"))
        self.edit.setFixedHeight(LINES * self.edit.fontMetrics().lineSpacing() + 18)
        self._adopt(self.edit, stretch=True)
        self.edit.setAccessibleDescription(_("One in each line"))
        self.edit.textChanged.connect(self._tell)

    def value(self) -> object:
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show a list of texts; what is there already stays as it was typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts == self.value():
            return
        with QSignalBlocker(self.edit):
            self.edit.setPlainText("\n".join(texts))


class SpecialFields:
    """The controls of options for which the usual one of their kind won't do; `by_path` has all of them."""

    def __init__(self) -> None:
        known = options_by_path()
        self.model = ModelField(known["model.source"])
        self.device = SegmentedField(known["device.name"])
        self.train = DataPathField(known["data.train"], _("Drop a file or folder"))
        roles = PairsField(known["data.roles"])
        roles.line.setPlaceholderText("bob = assistant")
        fields: tuple[Field, ...] = (
            self.model,
            self.device,
            self.train,
            PathField(known["data.eval"], _("Choose the held-out data")),
            AutomaticField(known["data.workers"]),
            AutomaticField(known["device.threads"]),
            ComboField(known["device.compile_backend"]),
            ComboField(known["device.compile_mode"]),
            PathField(known["memory.offload_folder"], only_folders=True),
            LinesField(known["output.prompts"]),
            roles,
        )
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}


class OptionsCard(Card):
    """The rows of some sections of a run file; advanced ones behind "More", but for those that are `LIFTED`."""

    def __init__(self, title: str, form: Form, sections: Sequence[str], fields: Mapping[str, Field]) -> None:
        super().__init__(title)
        self._form = form
        self._hidden: frozenset[str] = frozenset()
        self._rows: dict[str, FormRow] = {}
        self._headings: dict[str, QLabel] = {}
        self._more = QPushButton()
        set_role(self._more, Role.LINK)
        self._more.setCheckable(True)
        self._more.toggled.connect(self._show_advanced)
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
                heading = self._headings[group] = QLabel(group)
                set_role(heading, Role.GROUP_TITLE)
                heading.setContentsMargins(0, SPACING, 0, 0)
                self._more_body.addWidget(heading)
            for option in advanced:
                if option.group == group:
                    self._add(option, fields, self._more_body)
        self.body.addWidget(self._advanced)
        form.revealed.connect(self._reveal)
        form.relevance_changed.connect(self.show_relevant)
        self._show_advanced(False)

    def _add(self, option: Option, fields: Mapping[str, Field], layout: QBoxLayout) -> None:
        row = self._rows[option.path] = self._form.add(option.path, fields.get(option.path))
        layout.addWidget(row)

    def insert_below(self, path: str, widget: QWidget) -> None:
        """Put a widget below an option's row."""
        layout = self._more_body if is_advanced(options_by_path()[path]) else self.body
        layout.insertWidget(layout.indexOf(self._rows[path]) + 1, widget)

    def hide_rows(self, paths: Set[str]) -> None:
        """Leave out the rows of these options that have no problem: they are chosen elsewhere, or say nothing now."""
        hidden = frozenset(path for path in paths if not self._form.row(path).problems)
        if hidden != self._hidden:
            self._hidden = hidden
            self.show_relevant()

    def show_relevant(self) -> None:
        """Show the options that mean something beside the values in the form, and the headings above them."""
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

    def _show_advanced(self, shown: bool) -> None:
        self.show_relevant()
        self._more.setText(_("Less") if shown else _("More"))
        name = _("Fewer options: {card}") if shown else _("More options: {card}")
        self._more.setAccessibleName(name.format(card=self.title))

    def _reveal(self, path: str) -> None:
        if path in self._rows and is_advanced(options_by_path()[path]):
            self.open()


LIFTED = frozenset({TRAIN_SPLIT, SPLIT, "data.loss_on", "data.chat_template", "model.vocabulary"})
"""Options that are in view without "More": they are what their task, or the control above them, is about."""


def is_advanced(option: Option) -> bool:
    return option.advanced and option.path not in LIFTED


TRAIN = "data.train"
OF_OTHER_COLUMNS = ("data.train_split", "data.header")
"""Options beside whose other values columns have other names."""
OF_ONE_FILE = ("data.roles", "data.header", "data.train_split", "data.eval_split")
"""What was said of one file and means nothing of the next, beside its columns."""

KEYS = {TEXT_COLUMNS: (TEXT, SECOND), LABEL_COLUMN: (LABEL,), IMAGE_COLUMN: (IMAGE,)}


class ColumnGuesses:
    """Which columns the form holds, and which of them were guessed from the data, until the person chooses others."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._guessed: set[str] = set()
        self._source: object = None
        self._set_aside: dict[str, object] = {}

    @property
    def columns(self) -> Columns:
        """The columns the form holds, by the keys of their roles."""
        return chosen_columns(self._form.task, self._value)

    @property
    def guessed(self) -> frozenset[str]:
        """The keys of those that were guessed."""
        if COLUMNS in self._guessed:
            return frozenset(self.columns)
        return frozenset(key for path in self._guessed for key in KEYS.get(path, ()))

    def forget(self) -> None:
        """Count all that the form holds as chosen."""
        self._guessed.clear()
        self._set_aside.clear()
        self._source = self._value(TRAIN)

    def take(self, report: DataReport) -> bool:
        """Take over what is likely meant, where nothing was chosen; whether anything was taken.

        Columns chosen for other data are chosen again where this has them all; then it is to be looked at anew.
        """
        kept, self._set_aside = self._set_aside, {}
        kept = {path: value for path, value in kept.items() if not self._value(path)}
        names = {column.name for column in report.columns}
        if kept and names.issuperset(name for value in kept.values() for name in _names(value)):
            self._form.put(kept)
            return False
        task = self._form.task
        found = options_of_columns(task, guessed_columns(task, report))
        taken = {path: value for path, value in found.items() if value and not self._value(path)}
        self._form.put(taken)
        self._guessed |= set(taken)
        return bool(taken)

    def use(self, column: str, key: str) -> None:
        """Let a column be something else, as the person wants it."""
        wanted = options_of_columns(self._form.task, with_use(self.columns, column, key))
        self._form.set_values(
            {path: value for path, value in wanted.items() if (value or None) != (self._value(path) or None)}
        )

    def note(self, path: str, along: Set[str] = frozenset()) -> None:
        """An option was changed: chosen columns are no guess, and other data, or another header, has others.

        Args:
            path: The option.
            along: Options that were changed together with it: these are meant for the new data.
        """
        if path in PATHS:
            self._guessed.discard(path)
            self._set_aside.pop(path, None)
        elif path == TRAIN and self._value(TRAIN) != self._source:
            self._source = self._value(TRAIN)
            held = {path: self._value(path) for path in PATHS if path not in along and self._value(path)}
            self._set_aside |= {path: value for path, value in held.items() if path not in self._guessed}
            defaults = {path: options_by_path()[path].default for path in OF_ONE_FILE if path not in along}
            self._form.put({**{path: _nothing(path) for path in held}, **defaults})
            self._guessed -= set(held)
        elif path in OF_OTHER_COLUMNS and self._guessed:
            self._form.put({guessed: _nothing(guessed) for guessed in self._guessed})
            self._guessed.clear()

    def without(self, tree: Tree) -> Tree:
        """A form's values without what was guessed: other data would have others."""
        data = {
            name: value for name, value in tree.get("data", {}).items() if f"data.{name}" not in self._guessed
        }
        return {**tree, "data": data} if "data" in tree else tree

    def _value(self, path: str) -> object:
        return self._form.field(path).value() if path in self._form.paths else None


def _nothing(path: str) -> object:
    return {TEXT_COLUMNS: [], COLUMNS: {}}.get(path, "")


def _names(value: object) -> list[str]:
    """The columns that a value of one of the options names."""
    if isinstance(value, dict):
        return [str(name) for name in value.values() if name]
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def device_segments(machine: MachineReport | None) -> list[Segment]:
    """The devices to choose from; before the machine is known, all kinds."""
    automatic = Segment("auto", _("Automatic"))
    if machine is None:
        return [automatic, *(Segment(name, title) for name, title in DEVICE_KINDS.items())]
    kinds = [device.name.partition(":")[0] for device in machine.devices]
    found = [automatic]
    for device, kind in zip(machine.devices, kinds, strict=True):
        name = device.name if kinds.count("cuda") > 1 else kind
        refusal = "" if device.available else device.reason
        found.append(Segment(name, device_title(name), device.title, refusal))
    return found


def automatic_text(option: Option, settled: Settled) -> str:
    """What "automatic" comes to and why; only why, where the control says the rest itself."""
    if option.kind is Kind.WHOLE or len(option.choices) <= ROOM_FOR_AUTOMATIC:
        return sentence(settled.reason)
    return _("Automatic: {value}, {reason}").format(value=settled.value, reason=settled.reason)


LINK_PADDING = 6
"""What a link has at its left, inside."""


class OptionsColumn(QWidget):
    """All cards of options, one below the other.

    Signals:
        changed: The person changed an option.
        check_requested: The person wants the device checked; its name as in `device.name`.
        fix_chosen: The `core.base.errors.Fix` of something found in the data.
    """

    changed = Signal()
    check_requested = Signal(str)
    fix_chosen = Signal(object)

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = Form(Task.IMAGE_CLASSIFICATION, self)
        self.fields = SpecialFields()
        self.data = DataOverview(theme, reading)
        self._reading = reading
        self._machine: MachineReport | None = None
        self._revealed: set[str] = set()
        self._guesses = ColumnGuesses(self.form)
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
        self.data.take_problems(self.form.row(TRAIN))
        check = link_button(
            _("Check this device…"),
            lambda: self.check_requested.emit(str(self.fields.device.value())),
            _("Compare what it computes with what the CPU computes"),
        )
        self._device_card.insert_below("device.name", self._indented(check, LINK_PADDING))
        self.advice = Disclosure(_("Which one?"))
        lines = [
            _("{condition}: {advice}").format(condition=one.condition, advice=one.advice)
            for one in big_model_advice()
        ]
        self.advice.show_words(_("For a model that doesn't fit."), lines)
        self.advice.show()
        memory_card.insert_below("memory.deepspeed", self._indented(self.advice, fills=True))
        for line in self.findChildren(
            QLineEdit
        ):  # what is dropped elsewhere becomes the data, not a line's text
            line.setAcceptDrops(isinstance(line, PathLine))
        self.form.changed.connect(self._on_change)
        self.form.fix_chosen.connect(self.fix_chosen)
        self.form.revealed.connect(self._reveal)
        self._split.changed.connect(self.changed)
        self.data.views.rows.use_chosen.connect(self._guesses.use)
        self.data.findings.fix_chosen.connect(self.fix_chosen)
        self.set_machine(None)

    def _indented(self, widget: QWidget, less: int = 0, *, fills: bool = False) -> QWidget:
        """In line with the controls."""
        line = QWidget()
        row = fill(
            QHBoxLayout(line), (widget, 1 if fills else 0), margins=(field_indent(self) - less, 0, 0, 0)
        )
        if not fills:
            row.addStretch(1)
        return line

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a run file; a task that is none stays as it is."""
        task = next((task for task in Task if task.value == tree.get("task")), self.form.task)
        self.form.set_task(task)
        self.fields.model.set_task(task)
        self._revealed.clear()
        self._split.forget()
        self.form.load(tree)
        self._guesses.forget()
        self._follow_device()

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, `task` too, and leave the others."""
        task = Task(changes.get("task", self.form.task))
        self.form.set_task(task)
        self.fields.model.set_task(task)
        self.form.put(changes)
        for path in sorted(changes, key=lambda path: path not in PATHS):
            self._note(path, frozenset(changes))  # columns that come with other data are chosen for it
        self.changed.emit()

    def chosen_tree(self) -> Tree:
        """The values as a run file holds them, without columns that were guessed: other data would have others."""
        return self._guesses.without(self.form.tree())

    def full_tree(self) -> Tree:
        """All that was chosen, also what means nothing at the moment: what going back to the form begins with."""
        return self._guesses.without(self.form.full_tree())

    @property
    def roles(self) -> dict[str, str]:
        """What names of speakers mean, as far as the person said so."""
        value = self.form.field("data.roles").value()
        return dict(value) if isinstance(value, dict) else {}

    def set_machine(self, machine: MachineReport | None) -> None:
        self._machine = machine
        self._follow_device()

    def take_guesses(self, report: DataReport) -> bool:
        """Take over which columns are likely meant; whether any was taken."""
        return self._guesses.take(report)

    def show_meanings(self, options: RunOptions | None, longest: int | None = None) -> None:
        """Say what the data is, and below some fields what their values come to.

        Args:
            options: What the form says; None: it can't be read.
            longest: The most tokens the model can see; None: not known.
        """
        self.data.show_state(self.form.task, self._guesses.columns, self._guesses.guessed)
        self._split.follow(self._reading.report)
        self._hide_rows()
        if options is None:
            return
        row, limit = self.form.row, options.data.max_length
        is_cut = longest is not None and longest < limit
        self.data.set_limit(min(limit, longest or limit) if options.task.reads_text else None)
        words = _("This model sees {tokens:,} tokens; texts are cut off there")
        row("data.max_length").set_hint(words.format(tokens=longest) if is_cut else "")
        words = _("{rows:,} rows move the weights once").format(rows=options.effective_batch)
        accumulates = options.memory.gradient_accumulation_steps > 1
        row("memory.gradient_accumulation_steps").set_hint(words if accumulates else "")
        device = find_device(self._machine, options.device.name) if self._machine else None
        for path, settled in (device.automatic if device else {}).items():
            if path in self.form.paths:
                option = row(path).field.option
                is_left = value_of(options, path) in ("auto", None)
                says_why = bool(row(path).refusals.summary) and option.value_type is Toggle
                words = automatic_text(option, settled_beside(settled, options))
                row(path).set_hint(words if is_left and not says_why else "")

    def show_gpu(self, panel: QWidget) -> None:
        """Put the offer of PyTorch with CUDA below the choice of the device."""
        panel.setContentsMargins(field_indent(self), 0, 0, 0)
        self._device_card.insert_below("device.name", panel)

    def open_more(self) -> None:
        """Show the options behind "More" in every card."""
        for card in self._cards:
            card.open()

    def _hide_rows(self) -> None:
        model = self.fields.model
        of_model = set() if model.is_scratch else {"model.vocabulary"}
        of_model |= {"model.pretrained"} if model.is_scratch or model.is_run else set()
        self._model_card.hide_rows(of_model)
        self._data_card.hide_rows(self._hidden_columns() | self._split.hidden)

    def _hidden_columns(self) -> frozenset[str]:
        """Columns are chosen in the table where there is one; a row is there for what can't be chosen so."""
        is_open = not self.data.has_table and self._reading.report is None and not self._reading.is_waiting
        return frozenset(
            path
            for path in PATHS
            if not (path in self._revealed or (is_open and self.form.field(path).value()))
        )

    def _reveal(self, path: str) -> None:
        self._revealed.add(path)
        self._split.show_path(path)
        self._hide_rows()

    def _on_change(self, path: str) -> None:
        self._note(path, self.form.batch)
        self.changed.emit()

    def _note(self, path: str, along: Set[str]) -> None:
        self._guesses.note(path, along)
        if path == "device.name":
            self._follow_device()

    def _follow_device(self) -> None:
        """Offer what the chosen device can do."""
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=frozenset({"device.name"}))
        segments = device_segments(self._machine)
        self.fields.device.segmented.set_segments(segments)
        self.form.row("device.name").set_refusals(refused(segments))


class ChangeSet(QObject):
    """Changes several options at once, as presets, imports and remedies do, lists that on `strip`, and undoes it.

    Signals:
        task_wanted: The `core.options.choices.Task` that has to be chosen first.
        restored: The whole form as it was before, a tree.
    """

    task_wanted = Signal(object)
    restored = Signal(object)

    def __init__(self, options: OptionsColumn, strip: ChangesStrip, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._options = options
        self._strip = strip
        self._before: Tree = {}
        self._made: tuple[Difference, ...] = ()
        self._is_whole = False
        strip.undo_chosen.connect(self.undo)

    def apply(self, preset: Preset) -> None:
        self._lay(preset, _("Applied: {preset}").format(preset=preset.title))

    def take_over(self, imported: Imported) -> None:
        """Change the options that a script has set."""
        values = {key: value for key, value in imported.tree.items() if key != "schema"}
        self._lay(Preset("", "", "", values), _("Imported"))

    def change(self, title: str, words: str, changes: Mapping[str, Any]) -> None:
        """Change some options by their paths.

        Args:
            title: What was done, for the strip.
            words: Why.
            changes: Values by path.
        """
        tree: Tree = {}
        for path, value in changes.items():
            section, _dot, name = path.partition(".")
            tree.setdefault(section, {})[name] = value
        self._lay(Preset("", title, words, tree), _("Applied: {preset}").format(preset=title))

    def replace(self, tree: Tree, done: str) -> None:
        """Fill the whole form anew."""
        before = self._options.full_tree()
        self.restored.emit(tree)
        self._before, self._is_whole = before, True
        self._made = differences(before, Preset("", "", "", self._options.full_tree()))
        self._tell(done, "")

    def undo(self) -> None:
        """Put back what was changed; what the person has changed since stays, unless all of the form is another."""
        self._strip.hide()
        if self._is_whole or self._before["task"] != self._options.form.task.value:
            self.restored.emit(self._before)
        else:
            self._options.put({made.path: made.before for made in self._made})

    def _lay(self, preset: Preset, done: str) -> None:
        """Change the task first: that fills the form anew, and only then is it known what is left to change."""
        self._before = self._options.full_tree()
        of_task = tuple(made for made in differences(self._before, preset) if made.path == "task")
        for made in of_task:
            self.task_wanted.emit(Task(made.after))
        filled = self._options.full_tree()
        self._options.put({made.path: made.after for made in differences(filled, preset)})
        self._made = (*of_task, *differences(filled, Preset("", "", "", self._options.full_tree())))
        self._is_whole = False
        self._tell(done, preset.help)

    def _tell(self, done: str, words: str) -> None:
        known = options_by_path()
        changes = [
            Change(
                known[made.path].title,
                value_text(known[made.path], made.before),
                value_text(known[made.path], made.after),
            )
            for made in self._made
            if made.path == "task" or self._options.form.applies(known[made.path])
        ]
        nothing = _("The form already had these values.")
        self._strip.show_changes(done, words if self._made else nothing, changes)
