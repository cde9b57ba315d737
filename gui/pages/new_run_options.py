"""The left half of the New run page: the cards with all options, and the fields that know machine and data."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from core.capabilities import find_device, settled_beside
from core.catalogue import Option, options_by_path, value_of
from core.choices import Task, Toggle
from core.options import RunOptions, Tree
from core.reports import DataReport, MachineReport
from gui.fields import ListedField, SegmentedField
from gui.form import Form
from gui.number_fields import AutomaticField
from gui.offers import refused
from gui.pages.new_run_advice import BigModelAdvice
from gui.pages.new_run_cards import OptionsCard
from gui.pages.new_run_columns import LabelColumnField, TextColumnsField
from gui.pages.new_run_data_status import DataStatus
from gui.pages.new_run_machine import automatic_words, device_segments
from gui.pages.new_run_model import ModelField
from gui.pages.new_run_reading import DataReading
from gui.path_field import PathField, Wanted
from gui.theme import SPACING, Theme
from gui.widgets.form_row import field_indent
from gui.widgets.roles import Role, set_role

LINK_PADDING = 6
"""What a link has at its left, inside."""

COLUMN_PATHS = ("data.text_columns", "data.label_column")


class OptionsColumn(QWidget):
    """All cards of options, one below the other.

    Signals:
        changed: The person changed an option.
        check_requested: The person wants the device checked; its name as in `device.name`.
    """

    changed = Signal()
    check_requested = Signal(str)

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = Form(Task.IMAGE_CLASSIFICATION, self)
        self._machine: MachineReport | None = None
        self._columns_are_guessed = False
        self._make_fields()
        self._cards = self._make_cards()
        self._cards[1].insert_below("data.train", DataStatus(theme, reading))
        self._cards[2].insert_below("device.name", self._check_line())
        self._cards[3].insert_below("memory.deepspeed", BigModelAdvice())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 2 * SPACING)
        layout.setSpacing(SPACING + 4)
        for card in self._cards:
            layout.addWidget(card)
        layout.addStretch(1)
        self.form.changed.connect(self._note_change)
        self.form.fix_chosen.connect(self.form.apply_fix)
        self.set_machine(None)

    def load(self, tree: Mapping[str, Any]) -> None:
        """Show the values of a run file; a task that is none stays as it is."""
        task = next((task for task in Task if task.value == tree.get("task")), self.form.task)
        self.form.set_task(task)
        self._model.set_task(task)
        self._columns_are_guessed = False
        self.form.load(tree)
        self._show_guess_hint()
        self._follow_device()

    def put(self, changes: Mapping[str, Any]) -> None:
        """Set some options by their paths, `task` too, and leave the others."""
        task = Task(changes.get("task", self.form.task))
        self.form.set_task(task)
        self._model.set_task(task)
        self.form.put(changes)
        for path in sorted(changes, key=lambda path: path not in COLUMN_PATHS):
            self._note(path)  # columns that come with other data are chosen, not guessed from the old
        self.changed.emit()

    def tree(self) -> Tree:
        """The values as a run file holds them."""
        return self.form.tree()

    def chosen_tree(self) -> Tree:
        """The same without columns that were guessed: other data would have others."""
        tree = self.form.tree()
        if self._columns_are_guessed:
            data = {name: value for name, value in tree["data"].items() if f"data.{name}" not in COLUMN_PATHS}
            return {**tree, "data": data}
        return tree

    def set_machine(self, machine: MachineReport | None) -> None:
        """Offer what this machine has."""
        self._machine = machine
        self._follow_device()

    def take_guesses(self, report: DataReport) -> bool:
        """List the columns that were found, and take over which ones are likely meant; whether any was taken."""
        self._text_columns.offer(report.columns)
        self._label_column.offer(report.columns)
        taken = False
        if not self._text_columns.value() and report.text_columns:
            self._text_columns.set_value(report.text_columns)
            taken = True
        if not self._label_column.value() and report.label_column:
            self._label_column.set_value(report.label_column)
            taken = True
        self._columns_are_guessed |= taken
        self._show_guess_hint()
        return taken

    def show_meanings(self, options: RunOptions | None, longest: int | None = None) -> None:
        """Say below some fields what their values come to; `longest` is the most tokens the model can see."""
        if options is None:
            return
        form = self.form
        form.row("data.eval_fraction").setEnabled(options.data.eval is None)
        form.row("memory.gradient_accumulation_steps").set_hint(
            self.tr("{samples:,} samples move the weights once").format(samples=options.effective_batch)
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

    def open_more(self) -> None:
        """Show the options behind "More" in every card."""
        for card in self._cards:
            card.open()

    def _make_fields(self) -> None:
        def option(path: str) -> Option:
            return options_by_path()[path]

        drop = self.tr("Drop a file or folder")
        held_out = self.tr("A part is held out")
        self._model = ModelField(option("model.source"))
        self._device = SegmentedField(option("device.name"))
        self._train = PathField(option("data.train"), Wanted.EITHER, drop)
        self._eval = PathField(option("data.eval"), Wanted.EITHER, held_out)
        self._text_columns = TextColumnsField(option("data.text_columns"))
        self._label_column = LabelColumnField(option("data.label_column"))
        self._plain = (
            AutomaticField(option("data.workers")),
            AutomaticField(option("device.threads")),
            ListedField(option("device.compile_backend")),
            ListedField(option("device.compile_mode")),
            PathField(option("memory.offload_folder"), Wanted.FOLDER),
        )

    def _make_cards(self) -> tuple[OptionsCard, ...]:
        own = (
            self._model,
            self._train,
            self._eval,
            self._text_columns,
            self._label_column,
            self._device,
            *self._plain,
        )
        fields = {field.option.path: field for field in own}
        titles = (
            (self.tr("Model"), ("model",)),
            (self.tr("Data"), ("data",)),
            (self.tr("Device and precision"), ("device",)),
            (self.tr("Memory"), ("memory",)),
            (self.tr("Training"), ("training", "output")),
        )
        return tuple(OptionsCard(title, self.form, sections, fields) for title, sections in titles)

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
        self.check_requested.emit(str(self._device.value()))

    def _note_change(self, path: str) -> None:
        self._note(path)
        self.changed.emit()

    def _note(self, path: str) -> None:
        if path in COLUMN_PATHS:
            self._columns_are_guessed = False
            self._show_guess_hint()
        elif path == "data.train" and self._columns_are_guessed:
            self._columns_are_guessed = False
            self._text_columns.set_value([])
            self._label_column.set_value("")
            self._show_guess_hint()
        elif path == "device.name":
            self._follow_device()

    def _follow_device(self) -> None:
        """Offer what the chosen device can do."""
        device = find_device(self._machine, str(self._device.value())) if self._machine else None
        self.form.show_machine(self._machine, device, but=frozenset({"device.name"}))
        segments = device_segments(self._machine)
        self._device.segmented.set_segments(segments)
        self.form.row("device.name").set_refusals(refused(segments))

    def _show_guess_hint(self) -> None:
        hint = self.tr("Guessed from the data") if self._columns_are_guessed else ""
        for path in COLUMN_PATHS:
            self.form.row(path).set_hint(hint)
