"""The left half of the New run page: the cards with all options, and the fields that know machine and data."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from gettext import gettext as _
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from core.options import RunOptions, Tree
from core.options.catalogue import Kind, Option, options_by_path, options_of, value_of, value_words
from core.options.choices import DEVICE_KINDS, Precision, Task, Toggle, device_title
from core.options.device_support import DeviceReport, MachineReport, Settled, find_device, settled_beside
from core.options.importing import Imported
from core.options.method_rules import big_model_advice
from core.options.presets import Difference, Preset, differences
from core.services import inspect as column_roles
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
from gui.new_run.data_panel import SPLIT as EVAL_SPLIT
from gui.new_run.data_panel import TRAIN_SPLIT, DataOverview, SplitChoice
from gui.new_run.fields import OwnFields
from gui.new_run.state import DataReading
from gui.widgets.cards import Card, Change, ChangesStrip
from gui.widgets.fields import ROOM_FOR_AUTOMATIC, Field, refused
from gui.widgets.form import Form
from gui.widgets.form_row import FormRow, field_indent, sentence
from gui.widgets.inputs import PathLine, Segment
from gui.widgets.labels import Disclosure


class BigModelAdvice(QWidget):
    """The guides' decision tree as a list: the first line that holds is the one to take."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = Disclosure(_("Which one?"))
        self._words.show_words(
            _("For a model that doesn't fit."),
            [
                _("{condition}: {advice}").format(condition=found.condition, advice=found.advice)
                for found in big_model_advice()
            ],
        )
        self._words.show()
        row = QHBoxLayout(self)
        row.setContentsMargins(field_indent(self), 0, 0, 0)
        row.addWidget(self._words, 1)

    @property
    def words(self) -> Disclosure:
        return self._words


class OptionsCard(Card):
    """The rows of some sections of a run file.

    Args:
        title: What the card is about.
        form: Where the rows belong.
        sections: Whose options it shows, in order.
        fields: Controls for options whose usual one won't do, by path.
        lifted: Advanced options that are always in view here, as they belong to a control that is.
    """

    def __init__(
        self,
        title: str,
        form: Form,
        sections: Sequence[str],
        fields: Mapping[str, Field] | None = None,
        parent: QWidget | None = None,
        *,
        lifted: Set[str] = frozenset(),
    ) -> None:
        super().__init__(title, parent)
        self._form = form
        self._fields = fields or {}
        self._lifted = lifted
        self._hidden: frozenset[str] = frozenset()
        self._rows: dict[str, FormRow] = {}
        self._headings: dict[str, QLabel] = {}
        self._more = QPushButton()
        set_role(self._more, Role.LINK)
        self._more.setCheckable(True)
        self._more.toggled.connect(self._show_advanced)
        self.set_trailing(self._more)
        self._advanced = QWidget()
        self._more_body = QVBoxLayout(self._advanced)
        self._more_body.setContentsMargins(0, 0, 0, 0)
        self._more_body.setSpacing(SPACING)
        options = [option for section in sections for option in options_of(section)]
        for option in options:
            if not self._is_advanced(option):
                self._add(option, self.body)
        self._add_groups([option for option in options if self._is_advanced(option)])
        self.body.addWidget(self._advanced)
        form.revealed.connect(self._reveal)
        form.relevance_changed.connect(self.show_relevant)
        self._show_advanced(False)

    def _add(self, option: Option, layout: QVBoxLayout) -> None:
        row = self._form.add(option.path, self._fields.get(option.path))
        self._rows[option.path] = row
        layout.addWidget(row)

    def _add_groups(self, options: Sequence[Option]) -> None:
        """Below "More": the options of each group together, each group below its heading."""
        for group in dict.fromkeys(option.group for option in options):
            if group:
                heading = QLabel(group)
                set_role(heading, Role.GROUP_TITLE)
                heading.setContentsMargins(0, SPACING, 0, 0)
                self._headings[group] = heading
                self._more_body.addWidget(heading)
            for option in options:
                if option.group == group:
                    self._add(option, self._more_body)

    def insert_below(self, path: str, widget: QWidget) -> None:
        layout = self._more_body if self._is_advanced(self._rows[path].field.option) else self.body
        layout.insertWidget(layout.indexOf(self._rows[path]) + 1, widget)

    def hide_rows(self, paths: frozenset[str]) -> None:
        """Leave out the rows of these options: they are chosen elsewhere, or say nothing at the moment."""
        if paths != self._hidden:
            self._hidden = paths
            self.show_relevant()

    def show_relevant(self) -> None:
        """Show the options that mean something beside the values in the form, and the headings they stand below."""
        for row in self._rows.values():
            applies = self._form.applies(row.field.option)
            row.setVisible(applies and row.field.option.path not in self._hidden)
            if not applies:
                row.set_problems(())
        shown = [option for option in self._advanced_options() if self._is_shown(option)]
        for group, heading in self._headings.items():
            heading.setVisible(any(option.group == group for option in shown))
        self._more.setVisible(bool(shown))
        self._advanced.setVisible(self._more.isChecked() and bool(shown))

    def open(self) -> None:
        self._more.setChecked(True)

    def _is_advanced(self, option: Option) -> bool:
        return option.advanced and option.path not in self._lifted

    def _is_shown(self, option: Option) -> bool:
        return self._form.applies(option) and option.path not in self._hidden

    def _advanced_options(self) -> list[Option]:
        return [row.field.option for row in self._rows.values() if self._is_advanced(row.field.option)]

    def _show_advanced(self, shown: bool) -> None:
        self.show_relevant()
        self._more.setText(_("Less") if shown else _("More"))
        name = _("Fewer options: {card}") if shown else _("More options: {card}")
        self._more.setAccessibleName(name.format(card=self.title))

    def _reveal(self, path: str) -> None:
        row = self._rows.get(path)
        if row is not None and self._is_advanced(row.field.option):
            self.open()


TRAIN = "data.train"
OF_OTHER_COLUMNS = ("data.train_split", "data.header")
"""Options beside whose other values columns have other names."""
OF_ONE_FILE = ("data.roles", "data.header", "data.train_split", "data.eval_split")
"""What was said of one file and means nothing of the next, beside its columns."""

KEYS = {TEXT_COLUMNS: (TEXT, SECOND), LABEL_COLUMN: (LABEL,), IMAGE_COLUMN: (IMAGE,)}


class ColumnGuesses:
    """Which columns the form holds, and which of them were guessed.

    Args:
        form: The form.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._guessed: set[str] = set()
        self._source: object = None
        self._set_aside: dict[str, object] = {}

    @property
    def columns(self) -> Columns:
        """The columns the form holds, by the keys of their roles."""
        return chosen_columns(self._task, self._value)

    @property
    def guessed(self) -> frozenset[str]:
        if COLUMNS in self._guessed:
            return frozenset(self.columns)
        return frozenset(key for path in self._guessed for key in KEYS.get(path, ()))

    def forget(self) -> None:
        self._guessed.clear()
        self._set_aside.clear()
        self._source = self._value(TRAIN)

    def take(self, report: DataReport) -> bool:
        """Take over what is likely meant, where nothing was chosen; whether anything was taken.

        Columns chosen for other data are chosen again where this has them all; then it is to be looked at anew.
        """
        if self._choose_again(report):
            return False
        found = options_of_columns(self._task, guessed_columns(self._task, report))
        taken = {path: value for path, value in found.items() if value and not self._value(path)}
        self._form.put(taken)
        self._guessed |= set(taken)
        return bool(taken)

    def use(self, column: str, key: str) -> None:
        """Let a column be something else, as the person wants it."""
        wanted = options_of_columns(self._task, with_use(self.columns, column, key))
        changes = {
            path: value for path, value in wanted.items() if (value or None) != (self._value(path) or None)
        }
        self._form.set_values(changes)

    def note(self, path: str, along: Set[str] = frozenset()) -> None:
        """An option was changed: chosen columns are no guess, and other data, or another header, has others.

        Args:
            path: The option.
            along: Options that were changed together with it: these are meant for the new data.
        """
        if path in PATHS:
            self._guessed.discard(path)
            self._set_aside.pop(path, None)
        elif path == TRAIN:
            if self._value(TRAIN) != self._source:
                self._source = self._value(TRAIN)
                self._forget_file(along)
        elif path in OF_OTHER_COLUMNS and self._guessed:
            self._form.put({guessed: _nothing(guessed) for guessed in self._guessed})
            self._guessed.clear()

    def without(self, tree: Tree) -> Tree:
        """A form's values without what was guessed: other data would have others."""
        data = {
            name: value for name, value in tree.get("data", {}).items() if f"data.{name}" not in self._guessed
        }
        return {**tree, "data": data} if "data" in tree else tree

    def _forget_file(self, along: Set[str]) -> None:
        """Other data: what was said of the columns of the old is not said of its."""
        held = {path: self._value(path) for path in PATHS if path not in along and self._value(path)}
        self._set_aside |= {path: value for path, value in held.items() if path not in self._guessed}
        defaults = {path: options_by_path()[path].default for path in OF_ONE_FILE if path not in along}
        self._form.put({**{path: _nothing(path) for path in held}, **defaults})
        self._guessed -= set(held)

    def _choose_again(self, report: DataReport) -> bool:
        """Put back the columns that were chosen for other data, if all of them are here, too."""
        kept, self._set_aside = self._set_aside, {}
        names = {column.name for column in report.columns}
        here = {path: value for path, value in kept.items() if not self._value(path)}
        if not here or not names.issuperset(name for value in here.values() for name in _names(value)):
            return False
        self._form.put(here)
        return True

    @property
    def _task(self) -> Task:
        return self._form.task

    def _value(self, path: str) -> object:
        return self._form.field(path).value() if path in self._form.paths else None


def _nothing(path: str) -> object:
    return {TEXT_COLUMNS: [], COLUMNS: {}}.get(path, "")


def _names(value: object) -> list[str]:
    """The columns that a value of one of the options names."""
    if isinstance(value, dict):
        return [str(name) for name in value.values() if name]
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


@dataclass(frozen=True)
class Computed:
    """What a run will be computed on, in words. Empty where only the engine can tell."""

    device: str
    precision: str


def device_segments(machine: MachineReport | None) -> list[Segment]:
    """The devices to choose from; before the machine is known, all kinds."""
    automatic = Segment("auto", _("Automatic"))
    if machine is None:
        return [automatic, *(Segment(name, title) for name, title in DEVICE_KINDS.items())]
    counts = [device.name.partition(":")[0] for device in machine.devices]
    return [
        automatic,
        *(
            Segment(
                value=device.name if counts.count("cuda") > 1 else device.name.partition(":")[0],
                title=device_title(
                    device.name if counts.count("cuda") > 1 else device.name.partition(":")[0]
                ),
                help=device.title,
                refusal="" if device.available else device.reason,
            )
            for device in machine.devices
        ),
    ]


def computed(machine: MachineReport | None, options: RunOptions) -> Computed:
    """What device and precision the options come to on this machine."""
    if machine is None:
        return Computed(
            _("looking at this computer…"),
            _("looking at this computer…"),
        )
    device = find_device(machine, options.device.name)
    if device is None:
        return Computed(options.device.name, options.device.precision.value)
    kind = device_title(device.name.partition(":")[0])
    title = kind if device.title in (kind, "") else f"{kind} · {device.title}"
    return Computed(title, _precision(device, options.device.precision))


def _precision(device: DeviceReport, asked: Precision) -> str:
    settled = device.automatic.get("device.precision")
    name = settled.value if asked is Precision.AUTO and settled else asked.value
    if name == Precision.AUTO:
        return _("settled when the run starts")
    if name in (Precision.FP32, Precision.TF32):
        return name
    return _("{precision} autocast, fp32 weights").format(precision=name)


def automatic_words(option: Option, settled: Settled) -> str:
    """What "automatic" comes to and why; only why, where the control says the rest itself."""
    reason = sentence(settled.reason)
    if option.kind is Kind.WHOLE or len(option.choices) <= ROOM_FOR_AUTOMATIC:
        return reason
    text = _("Automatic: {value}, {reason}")
    return text.format(value=settled.value, reason=settled.reason)


LINK_PADDING = 6
"""What a link has at its left, inside."""

LIFTED = frozenset({TRAIN_SPLIT, EVAL_SPLIT, "data.loss_on", "data.chat_template", "model.vocabulary"})
"""Options that are in view without "More": they are what their task, or the control above them, is about."""


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
        self._reading = reading
        self._machine: MachineReport | None = None
        self._revealed: set[str] = set()
        self.fields = OwnFields()
        self._guesses = ColumnGuesses(self.form)
        self.data = DataOverview(theme, reading)
        self._cards = self._make_cards()
        self._split = SplitChoice(self.form)
        self._model_card, self._data_card = self._cards[:2]
        self._data_card.insert_below("data.train", self._split)
        self._data_card.insert_below("data.train", self.data)
        self.data.take_problems(self.form.row("data.train"))
        self._cards[2].insert_below("device.name", self._check_line())
        self._cards[3].insert_below("memory.deepspeed", BigModelAdvice())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 2 * SPACING)
        layout.setSpacing(SPACING + 4)
        for card in self._cards:
            layout.addWidget(card)
        layout.addStretch(1)
        self._leave_drops_to_the_window()
        self._connect()
        self.set_machine(None)

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
        for path in sorted(changes, key=lambda path: path not in column_roles.PATHS):
            self._note(
                path, frozenset(changes)
            )  # columns that come with other data are chosen, not guessed from the old
        self.changed.emit()

    def tree(self) -> Tree:
        return self.form.tree()

    def chosen_tree(self) -> Tree:
        """The same without columns that were guessed: other data would have others."""
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
        """List the columns that were found, and take over which ones are likely meant; whether any was taken."""
        self.fields.offer_columns(report.columns)
        return self._guesses.take(report)

    def show_meanings(self, options: RunOptions | None, longest: int | None = None) -> None:
        """Say what the data is, and below some fields what their values come to.

        Args:
            options: What the form says; None: it can't be read.
            longest: The most tokens the model can see; None: not known.
        """
        self._show_data(options, longest)
        if options is None:
            return
        form = self.form
        form.row("memory.gradient_accumulation_steps").set_hint(
            _("{rows:,} rows move the weights once").format(rows=options.effective_batch)
            if options.memory.gradient_accumulation_steps > 1
            else ""
        )
        is_cut = longest is not None and longest < options.data.max_length
        form.row("data.max_length").set_hint(
            _("This model sees {tokens:,} tokens; texts are cut off there").format(tokens=longest)
            if is_cut
            else ""
        )
        device = find_device(self._machine, options.device.name) if self._machine else None
        for path, settled in (device.automatic if device else {}).items():
            if path in form.paths:
                row = form.row(path)
                is_left = value_of(options, path) in ("auto", None)
                says_why = bool(row.refusals.summary) and row.field.option.value_type is Toggle
                words = automatic_words(row.field.option, settled_beside(settled, options))
                row.set_hint(words if is_left and not says_why else "")

    def show_gpu(self, panel: QWidget) -> None:
        """Put the offer of PyTorch with CUDA below the choice of the device."""
        panel.setContentsMargins(field_indent(self), 0, 0, 0)
        self._cards[2].insert_below("device.name", panel)

    def open_more(self) -> None:
        for card in self._cards:
            card.open()

    def _connect(self) -> None:
        self.form.changed.connect(self._note_change)
        self.form.fix_chosen.connect(self.fix_chosen)
        self.form.revealed.connect(self._reveal)
        self._split.changed.connect(self.changed)
        self.data.use_chosen.connect(self._guesses.use)
        self.data.fix_chosen.connect(self.fix_chosen)

    def _leave_drops_to_the_window(self) -> None:
        """What is dropped anywhere becomes the data, but where a path is asked for; no line takes it as its text."""
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(isinstance(line, PathLine))

    def _make_cards(self) -> tuple[OptionsCard, ...]:
        titles = (
            (_("Model"), ("model",)),
            (_("Data"), ("data",)),
            (_("Device and precision"), ("device",)),
            (_("Memory"), ("memory",)),
            (_("Training"), ("training", "output")),
        )
        own = self.fields.by_path
        return tuple(
            OptionsCard(title, self.form, sections, own, lifted=LIFTED) for title, sections in titles
        )

    def _show_data(self, options: RunOptions | None, longest: int | None) -> None:
        report = self._reading.report
        self.data.show_state(self.form.task, self._guesses.columns, self._guesses.guessed)
        if options is not None:
            limit = options.data.max_length if options.task.reads_text else None
            self.data.set_limit(min(limit, longest) if limit and longest else limit)
        self._split.follow(report)
        self._hide_rows()

    def _hide_rows(self) -> None:
        """Leave out what is chosen elsewhere or says nothing at the moment, but no row with a problem."""
        model = self.fields.model
        of_model = set() if model.is_scratch else {"model.vocabulary"}
        of_model |= {"model.pretrained"} if model.is_scratch or model.is_run else set()
        for card, hidden in (
            (self._model_card, of_model),
            (self._data_card, self._hidden_columns() | self._split.hidden),
        ):
            card.hide_rows(frozenset(path for path in hidden if not self.form.row(path).problems))

    def _hidden_columns(self) -> frozenset[str]:
        """Columns are chosen in the table where there is one; a row is there for what can't be chosen so."""
        if self.data.leaves_out_columns:
            return frozenset()
        is_open = not self.data.has_table and self._reading.report is None and not self._reading.is_reading
        return frozenset(
            path
            for path in column_roles.PATHS
            if not (path in self._revealed or (is_open and self.form.field(path).value()))
        )

    def _reveal(self, path: str) -> None:
        self._revealed.add(path)
        self._split.show_path(path)
        self._hide_rows()

    def _check_line(self) -> QWidget:
        button = QPushButton(_("Check this device…"))
        button.setToolTip(_("Compare what it computes with what the CPU computes"))
        set_role(button, Role.LINK)
        button.clicked.connect(self._ask_for_check)
        line = QWidget()
        row = QHBoxLayout(line)
        row.setContentsMargins(field_indent(self) - LINK_PADDING, 0, 0, 0)
        row.addWidget(button)
        row.addStretch(1)
        return line

    def _ask_for_check(self) -> None:
        self.check_requested.emit(str(self.fields.device.value()))

    def _note_change(self, path: str) -> None:
        self._note(path, self.form.batch)
        self.changed.emit()

    def _note(self, path: str, along: Set[str]) -> None:
        self._guesses.note(path, along)
        if path == "device.name":
            self._follow_device()

    def _follow_device(self) -> None:
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=frozenset({"device.name"}))
        segments = device_segments(self._machine)
        self.fields.device.segmented.set_segments(segments)
        self.form.row("device.name").set_refusals(refused(segments))


class Laying(QObject):
    """Changes several options at once, lists what that changed, and undoes it.

    Signals:
        task_wanted: The `core.options.choices.Task` that has to be chosen first.
        restored: The whole form as it was before, a tree.

    Args:
        options: The form.
        strip: Where the changes are listed.
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

    def replace(self, tree: Tree) -> None:
        before = self._options.full_tree()
        self.restored.emit(tree)
        self._before, self._is_whole = before, True
        self._made = differences(before, Preset("", "", "", self._options.full_tree()))
        self._tell(_("Started afresh"), "")

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
        nothing = _("The form stood like this already.")
        self._strip.show_changes(done, words if self._made else nothing, self._changes())

    def _changes(self) -> list[Change]:
        known = options_by_path()
        return [
            Change(
                known[made.path].title,
                value_words(known[made.path], made.before),
                value_words(known[made.path], made.after),
            )
            for made in self._made
            if made.path == "task" or self._options.form.applies(known[made.path])
        ]
