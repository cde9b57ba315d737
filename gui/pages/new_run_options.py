"""The left half of the New run page: the cards with all options, and the fields that know machine and data."""

from collections.abc import Mapping, Set
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from core import column_roles
from core.capabilities import find_device, settled_beside
from core.catalogue import value_of
from core.choices import Task, Toggle
from core.data_report import DataReport
from core.options import RunOptions, Tree
from core.reports import MachineReport
from gui.form import Form
from gui.offers import refused
from gui.pages.data_overview import DataOverview
from gui.pages.data_split import SPLIT as EVAL_SPLIT
from gui.pages.data_split import TRAIN_SPLIT, SplitChoice
from gui.pages.new_run_advice import BigModelAdvice
from gui.pages.new_run_cards import OptionsCard
from gui.pages.new_run_fields import OwnFields
from gui.pages.new_run_guesses import ColumnGuesses
from gui.pages.new_run_machine import automatic_words, device_segments
from gui.pages.new_run_reading import DataReading
from gui.theme import SPACING, Theme
from gui.widgets.form_row import field_indent
from gui.widgets.path_line import PathLine
from gui.widgets.roles import Role, set_role

LINK_PADDING = 6
"""What a link has at its left, inside."""

LIFTED = frozenset({TRAIN_SPLIT, EVAL_SPLIT, "data.loss_on", "data.chat_template", "model.vocabulary"})
"""Options that are in view without "More": they are what their task, or the control above them, is about."""


class OptionsColumn(QWidget):
    """All cards of options, one below the other.

    Signals:
        changed: The person changed an option.
        check_requested: The person wants the device checked; its name as in `device.name`.
        fix_chosen: The `core.errors.Fix` of something found in the data.
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
        """The values as a run file holds them."""
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
        """Offer what this machine has."""
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
            self.tr("{rows:,} rows move the weights once").format(rows=options.effective_batch)
            if options.memory.gradient_accumulation_steps > 1
            else ""
        )
        is_cut = longest is not None and longest < options.data.max_length
        form.row("data.max_length").set_hint(
            self.tr("This model sees {tokens:,} tokens; texts are cut off there").format(tokens=longest)
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

    def show_gpu_pack(self, panel: QWidget) -> None:
        """Put the offer of the GPU pack below the choice of the device."""
        panel.setContentsMargins(field_indent(self), 0, 0, 0)
        self._cards[2].insert_below("device.name", panel)

    def open_more(self) -> None:
        """Show the options behind "More" in every card."""
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
            (self.tr("Model"), ("model",)),
            (self.tr("Data"), ("data",)),
            (self.tr("Device and precision"), ("device",)),
            (self.tr("Memory"), ("memory",)),
            (self.tr("Training"), ("training", "output")),
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
        button = QPushButton(self.tr("Check this device…"))
        button.setToolTip(self.tr("Compare what it computes with what the CPU computes"))
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
        """Offer what the chosen device can do."""
        device = find_device(self._machine, str(self.fields.device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=frozenset({"device.name"}))
        segments = device_segments(self._machine)
        self.fields.device.segmented.set_segments(segments)
        self.form.row("device.name").set_refusals(refused(segments))
