"""The dialog that queues several runs to compare: values of options, methods, or devices."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import OptionsError, Problem
from core.base.formats import compact_count, items_of, plain_number, titled
from core.base.language import _
from core.benchmark.devices import (
    BATCHES,
    IMAGES,
    Sides,
    default_models,
    devices_plan,
    models_of,
    pair_of,
    title_of,
)
from core.benchmark.methods import SIZES, methods_plan
from core.benchmark.plan import BenchmarkKind, Plan, there
from core.options import RunOptions
from core.options.catalogue import value_of
from core.options.declare import Option, OptionKind
from core.options.device_support import MachineReport, find_device
from core.runs.compare import sweepable
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.form import sentence
from gui.widgets.inputs import CalmSpinBox, ChoiceList, Segment, Segmented
from gui.widgets.labels import push_button, role_label, text_label, tip_of
from gui.widgets.layout import FLUSH, FlowLayout, Sheet, fill, fill_dialog, hbox


def first_values(option: Option, value: Any) -> str:
    """What to try first: all choices; half (of whole numbers a whole one), once and twice a number."""
    if option.kind is OptionKind.CHOICE:
        return ", ".join(choice.value for choice in option.choices if choice.value != "auto")
    if option.kind is OptionKind.SWITCH:
        return "false, true"
    if value is None:
        return ""
    half = value / 2 if isinstance(value, float) and (value % 1 or value == 1) else value // 2
    shown = (plain_number(one) for one in (half, value, 2 * value) if not option.broken_limit(one))
    return ", ".join(dict.fromkeys(shown))


# --- What a benchmark measures


MOST_STEPS, MOST_IMAGES = 10_000, 60_000
FORM = "form"
"""The person's own model and data, in the list of sizes."""


class Setup(QWidget):
    """Asks what a benchmark measures; the device is that of the form."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._rows = QFormLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(SPACING)
        self._rows.setLabelAlignment(Qt.AlignmentFlag.AlignVCenter)
        self.steps = self.number_box(0, MOST_STEPS)
        self.steps.setSpecialValueText(_("automatic"))
        self.steps.setToolTip(_("Optimizer steps that are timed, after the warm-up. More are steadier."))

    def plan(self) -> Plan:
        """Make the plan of what is chosen.

        Raises:
            OptionsError: It is refused.
        """
        raise NotImplementedError

    def add_row(self, title: str, field: QWidget) -> None:
        label = role_label(Role.LABEL, title)
        label.setBuddy(field)
        field.setAccessibleName(title)
        self._rows.addRow(label, field)

    def number_box(self, least: int, most: int) -> CalmSpinBox:
        box = CalmSpinBox()
        box.setRange(least, most)
        box.valueChanged.connect(lambda _value: self.changed.emit())
        return box


class MethodsSetup(Setup):
    """Asks for the model, and whether to compile it."""

    def __init__(self, machine: MachineReport, options: RunOptions) -> None:
        super().__init__()
        self._machine, self._options = machine, options
        weights = _("{count} parameters with random values. Nothing is downloaded.")
        self.models = ChoiceList(
            [
                Segment(
                    "", _("Largest that fits"), _("The largest model whose baseline fits into memory here.")
                ),
                *(
                    Segment(name, size.title, weights.format(count=compact_count(size.parameters)))
                    for name, size in SIZES.items()
                ),
                Segment(FORM, _("As on New run"), _("Your model and data, as the form is now.")),
            ]
        )
        self.compiled = QCheckBox(_("Also with torch.compile (takes longer)"))
        self.compiled.setChecked(True)
        self.add_row(_("Model"), self.models)
        self.add_row(_("Timed steps"), self.steps)
        self._rows.addRow("", self.compiled)
        self.models.currentIndexChanged.connect(lambda _index: self.changed.emit())
        self.compiled.toggled.connect(lambda _on: self.changed.emit())

    def plan(self) -> Plan:
        chosen = str(self.models.currentData())
        return methods_plan(
            self._machine,
            size=chosen if chosen in SIZES else None,
            options=self._options if chosen == FORM else None,
            device=self._options.device.name,
            steps=self.steps.value() or None,
            with_compile=self.compiled.isChecked(),
        )


class DevicesSetup(Setup):
    """Asks which devices, models, batch sizes and number of images."""

    def __init__(self, machine: MachineReport, options: RunOptions) -> None:
        super().__init__()
        self._machine, self._computer = machine, next(iter(options.device.computers), "")
        at = there(machine, self._computer)
        lacks = (
            ""
            if at.automatic not in ("", "cpu")
            else _("There is no accelerator here that Hone can train on.")
        )
        self.sides = Segmented(
            Segment(sides.value, pair_of(at, sides).title, refusal=lacks if sides is Sides.DEVICES else "")
            for sides in Sides
        )
        self._usual = pair_of(at)
        self.sides.set_value(self._usual.sides.value)
        self.models = {name: QCheckBox(title_of(name)) for name in models_of(at)}
        self.batches = QLineEdit(", ".join(map(str, BATCHES)))
        self.batches.setToolTip(_("Batch sizes; each model is measured with each"))
        self.images = self.number_box(1, MOST_IMAGES)
        self.images.setValue(IMAGES)
        boxes = QWidget()
        flow = FlowLayout(2 * SPACING, 0, boxes)
        for name, box in self.models.items():
            flow.addWidget(box)
            box.setChecked(name in default_models(at, self._usual))
            box.toggled.connect(lambda _on: self.changed.emit())
        self.add_row(_("Compare"), self.sides)
        self.add_row(_("Models"), boxes)
        self.add_row(_("Batch sizes"), self.batches)
        self.add_row(_("Number of images"), self.images)
        self.add_row(_("Timed steps"), self.steps)
        self.sides.chosen.connect(self.changed)
        self.batches.textChanged.connect(self.changed)

    def plan(self) -> Plan:
        models = tuple(name for name, box in self.models.items() if box.isChecked())
        words = items_of(self.batches.text())
        batches = tuple(dict.fromkeys(int(word) for word in words if word.isdecimal()))
        if not models:
            raise OptionsError((Problem("models", _("choose a model")),))
        if not batches or len(words) != len(batches):
            raise OptionsError((Problem("batches", _("batches are whole numbers, such as 4, 64")),))
        sides = Sides(self.sides.value())
        return devices_plan(
            self._machine,
            models=models,
            batches=batches,
            images=self.images.value(),
            computer=self._computer,
            steps=self.steps.value() or None,
            sides=None if sides is self._usual.sides else sides,
        )


# --- The dialog


VALUES = "values"


class SweepSheet(Sheet):
    """Asks which values of one or two options to try, or which benchmark to make.

    Args:
        judge: Says what trying values takes; raises OptionsError if they are refused.
        machine: None: not known yet, so that there are no benchmarks.
    """

    chosen = Signal(object)  # the values, as `core.runs.compare.sweep` takes them
    planned = Signal(object)  # the `core.benchmark.plan.Plan` of a benchmark

    def __init__(
        self,
        options: RunOptions,
        judge: Callable[[dict[str, str]], str],
        machine: MachineReport | None,
        parent: QWidget,
    ) -> None:
        super().__init__(_("Try several values"), parent)
        self._options, self._judge, self._known = options, judge, sweepable(options)
        self.rows = [(ChoiceList(), QLineEdit()), (ChoiceList(), QLineEdit())]
        self.setups: dict[str, Setup] = {}
        self.status = text_label()
        self.start = push_button(_("Add to queue"), self.accept)
        self.what = ChoiceList([Segment(VALUES, _("Values of options"))])
        self.what.setAccessibleName(_("What to compare"))
        values = QWidget()
        help_text = _("Type values with commas between them: each becomes a run.")
        fill(QVBoxLayout(values), text_label(help_text, Role.MUTED), *self._rows(), None, margins=FLUSH)
        self._pages = QStackedWidget()
        self._pages.addWidget(values)
        self._add_benchmarks(machine)
        general = _("The runs wait in the queue, get the same tag, and are compared while they train.")
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.start)
        fill_dialog(self, self.what, self._pages, text_label(general, Role.MUTED), self.status, None, buttons)
        self.resize(SPACING * 80, SPACING * 58)
        self.what.activated.connect(self._pages.setCurrentIndex)
        self.what.activated.connect(lambda _index: self.show_outlook())
        self.accepted.connect(self._on_accepted)
        self.rows[0][1].setFocus()

    def values(self) -> dict[str, str]:
        return {path: line.text() for choice, line in self.rows if (path := str(choice.currentData()))}

    def _add_benchmarks(self, machine: MachineReport | None) -> None:
        found = find_device(machine, self._options.device.name) if machine is not None else None
        device = found.title if found is not None else self._options.device.name
        offers = (
            (
                BenchmarkKind.METHODS,
                _("Methods that save memory or time"),
                _(
                    "The same model trained in many ways on the device of the form ({device}), each a run of a few "
                    "steps: it shows which options pay."
                ).format(device=device),
                MethodsSetup,
            ),
            (
                BenchmarkKind.DEVICES,
                _("Devices"),
                _(
                    "The same models on the processor and on the accelerator. A computer without an accelerator "
                    "compares threads or precisions."
                ),
                DevicesSetup,
            ),
        )
        for kind, title, help_text, setup_class in offers:
            refusal = _("Detecting what this computer can do…") if machine is None else ""
            self.what.append(Segment(kind.value, title, refusal=refusal))
            if machine is not None:
                setup, page = setup_class(machine, self._options), QWidget()
                setup.changed.connect(self.show_outlook)
                fill(QVBoxLayout(page), text_label(help_text, Role.MUTED), setup, None, margins=FLUSH)
                self.setups[kind.value] = setup
                self._pages.addWidget(page)

    def _rows(self) -> Iterator[QBoxLayout]:
        choices = [Segment(path, option.title) for path, option in self._known.items()]
        names = (_("Option"), _("Values")), (_("Second option"), _("Values of the second option"))
        for number, ((choice, line), (name, of_values)) in enumerate(zip(self.rows, names, strict=True)):
            choice.setAccessibleName(name)
            line.setAccessibleName(of_values)
            choice.set_choices([*[Segment("", _("no second option"))] * number, *choices])
            choice.activated.connect(partial(self._propose, number))
            line.textChanged.connect(self.show_outlook)
            self._propose(number)
            yield hbox((choice, 1), (line, 1))

    def _propose(self, number: int, _index: int = 0) -> None:
        """Begin with usual values of the option that was chosen in a row; the other row has another one."""
        (choice, line), (second, _line) = self.rows[number], self.rows[1]
        if second.currentData() == self.rows[0][0].currentData():
            second.choose("")
            self.rows[1][1].clear()
        option = self._known.get(str(choice.currentData()))
        line.setToolTip(tip_of(f"{option.help}\n{sentence(option.expectation())}") if option else "")
        line.setText(first_values(option, value_of(self._options, option.path)) if option else "")
        self.show_outlook()

    def show_outlook(self) -> None:
        """Say what the runs take, or what is wrong with them."""
        self.rows[1][1].setEnabled(bool(self.rows[1][0].currentData()))
        text, role = "", Role.PROBLEM
        try:
            text, role = self._outlook(), Role.STRONG
        except OptionsError as error:
            text = sentence(error.problems[0].message)
        self.status.setText(text)
        set_role(self.status, role)
        self.start.setEnabled(role is Role.STRONG)

    def _outlook(self) -> str:
        if (setup := self._setup) is None:
            return self._judge(self.values())
        plan = setup.plan()
        if not plan.options:
            raise OptionsError((Problem("", plan.benchmark.rows[0].refusal),))
        return "\n".join((titled(plan.benchmark.title, plan.amount), *plan.benchmark.notes[:1]))

    @property
    def _setup(self) -> Setup | None:
        """The form of the benchmark that is chosen; None: values of options."""
        return self.setups.get(str(self.what.currentData()))

    def _on_accepted(self) -> None:
        if (setup := self._setup) is None:
            self.chosen.emit(self.values())
        else:
            self.planned.emit(setup.plan())
