"""The forms of the page Benchmark: what to measure of methods, and of devices."""

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QWidget,
)

from core.base.formats import compact_count
from core.base.language import _
from core.benchmark.device_plan import (
    ARTICLE,
    BATCHES,
    CPU,
    IMAGES,
    TEXTS,
    Sides,
    default_models,
    pair_of,
    title_of,
)
from core.benchmark.plan import SIZES, Plan
from core.options import RunOptions
from core.options.choices import device_title
from core.options.device_support import MachineReport, find_device, refusal
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.form import label_width
from gui.widgets.inputs import CalmSpinBox, ChoiceList, Segment, Segmented
from gui.widgets.labels import role_label
from gui.widgets.layout import FlowLayout

AUTOMATIC = "auto"
MOST_PASSES = 20
MOST_STEPS = 10_000
SPIN_LETTERS = 14

MakePlan = Callable[[], Plan]
FormOptions = Callable[[], RunOptions | None]
"""Returns the options of the page New run; None if they contain errors."""


class Setup(QWidget):
    """A form with the number of passes and steps, which both benchmarks have."""

    changed = Signal()  # a choice has changed, or the machine has become known

    def __init__(self, make_plan: Callable[..., Plan], passes: int) -> None:
        super().__init__()
        self.machine: MachineReport | None = None
        self._make_plan = make_plan
        self.rows = QFormLayout(self)
        self.rows.setContentsMargins(0, 0, 0, 0)
        self.rows.setSpacing(SPACING)
        self.passes = self.number_box(1, MOST_PASSES, _("Repetitions"))
        self.passes.setValue(passes)
        self.passes.setToolTip(
            _(
                "How often each is measured, in turn: changes over time, such as heat, then affect all of them."
            )
        )
        self.steps = self.number_box(0, MOST_STEPS, _("Timed steps"))
        self.steps.setSpecialValueText(_("automatic"))
        self.steps.setToolTip(_("Optimizer steps timed in a pass, after the warm-up. More are steadier."))

    def set_machine(self, machine: MachineReport) -> None:
        self.machine = machine
        self.show_machine(machine)
        self.changed.emit()

    def obstacle(self) -> str:
        """Why nothing can be measured yet, in a sentence; empty if it can."""
        if self.machine is None:
            return _("Detecting what this computer can do…")
        return self.mistake()

    def plan(self) -> MakePlan:
        """Return a function that makes the plan of the current choice, in any thread."""
        assert self.machine is not None
        steps, passes = self.steps.value() or None, self.passes.value()
        return partial(self._make_plan, self.machine, steps=steps, passes=passes, **self.arguments())

    def show_machine(self, machine: MachineReport) -> None:
        """Offer what this machine can do."""
        raise NotImplementedError

    def mistake(self) -> str:
        """What is wrong with the choice, in a sentence; empty if nothing is."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Arguments of `make_plan` other than passes and steps."""
        raise NotImplementedError

    def add_row(self, title: str, *parts: QWidget | str, is_wide: bool = False) -> None:
        """Add a label and a line of controls. A text labels the next control; `is_wide` lets the first one grow."""
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        for part in parts:
            widget = role_label(Role.LABEL, part) if isinstance(part, str) else part
            line.addWidget(widget, int(is_wide and part is parts[0]))
        if not is_wide:
            line.addStretch(1)
        label = role_label(Role.LABEL, title)
        label.setMinimumWidth(label_width(self))
        self.rows.addRow(label, line)

    def number_box(self, least: int, most: int, name: str) -> CalmSpinBox:
        box = CalmSpinBox()
        box.setRange(least, most)
        box.setAccessibleName(name)
        box.setFixedWidth(SPIN_LETTERS * self.fontMetrics().averageCharWidth() + 4 * SPACING)
        box.valueChanged.connect(self.emit_changed)
        return box

    def emit_changed(self, _value: object = None) -> None:
        self.changed.emit()


# --- Methods


FITTING, FORM = "fitting", "form"
"""Entries of the list of models, in addition to the sizes."""


class MethodsSetup(Setup):
    """The model, the device and whether to compile."""

    def __init__(self, make_plan: Callable[..., Plan], form: FormOptions) -> None:
        super().__init__(make_plan, passes=3)
        self._form = form
        weights = _("{count} parameters with random values. Nothing is downloaded.")
        sizes = (
            Segment(name, size.title, weights.format(count=compact_count(size.parameters)))
            for name, size in SIZES.items()
        )
        self.models = ChoiceList(
            [
                Segment(
                    FITTING,
                    _("Largest that fits"),
                    _("The largest model whose baseline fits into memory here."),
                ),
                *sizes,
                Segment(FORM, _("As on New run"), _("Your model and data, as the form is now.")),
            ]
        )
        self.models.setAccessibleName(_("Model"))
        self.devices = ChoiceList([Segment(AUTOMATIC, _("Automatic"))])
        self.devices.setAccessibleName(_("Device"))
        self.compiled = QCheckBox(_("Also with torch.compile (takes longer)"))
        self.compiled.setChecked(True)
        self.add_row(_("Model"), self.models, is_wide=True)
        self.add_row(_("Device"), self.devices, is_wide=True)
        self.add_row(_("Repetitions"), self.passes, _("Timed steps"), self.steps, self.compiled)
        self.models.currentIndexChanged.connect(self.emit_changed)
        self.devices.currentIndexChanged.connect(self._choose_device)
        self.compiled.toggled.connect(self.emit_changed)

    def show_machine(self, machine: MachineReport) -> None:
        best = device_title(machine.automatic.removesuffix(":0"))
        choices = [Segment(AUTOMATIC, _("Automatic ({device})").format(device=best))]
        for device in machine.devices:
            title = f"{device_title(device.name.removesuffix(':0'))} · {device.title}"
            choices.append(Segment(device.name, title, refusal="" if device.available else device.reason))
        self.devices.set_choices(choices)
        self._choose_device()

    def mistake(self) -> str:
        if self.models.currentData() == FORM and self._form() is None:
            return _("The form on New run contains errors; fix them first.")
        return ""

    def device(self) -> str:
        return str(self.devices.currentData())

    def arguments(self) -> dict[str, Any]:
        chosen = str(self.models.currentData())
        return {
            "size": chosen if chosen in SIZES else None,
            "options": self._form() if chosen == FORM else None,
            "device": self.device(),
            "with_compile": self.compiled.isEnabled() and self.compiled.isChecked(),
        }

    def _choose_device(self) -> None:
        device = find_device(self.machine, self.device()) if self.machine else None
        reason = refusal(device, "device.compile", True) if device else ""
        self.compiled.setEnabled(not reason)
        self.compiled.setToolTip(reason or _("Adds torch.compile, timed after compiling"))
        self.emit_changed()


# --- Devices


LARGEST_BATCH = 4096
MOST_IMAGES = 60_000


class DevicesSetup(Setup):
    """The devices, models, batch sizes and number of images."""

    def __init__(self, make_plan: Callable[..., Plan]) -> None:
        super().__init__(make_plan, passes=1)
        self.sides = Segmented()
        self.models = {name: QCheckBox(title_of(name)) for name in (*ARTICLE, *TEXTS)}
        self.batches = QLineEdit(", ".join(map(str, BATCHES)))
        self.batches.setAccessibleName(_("Batches"))
        self.batches.setToolTip(_("Batch sizes; each model is measured with each"))
        self.images = self.number_box(1, MOST_IMAGES, _("Images"))
        self.images.setValue(IMAGES)
        boxes = QWidget()
        flow = FlowLayout(2 * SPACING, 0, boxes)
        for box in self.models.values():
            flow.addWidget(box)
            box.setChecked(True)
            box.toggled.connect(self.emit_changed)
        self.add_row(_("Compare"), self.sides)
        self.add_row(_("Models"), boxes, is_wide=True)
        self.add_row(_("Batches"), self.batches, _("Images"), self.images)
        self.add_row(_("Repetitions"), self.passes, _("Timed steps"), self.steps)
        self.sides.chosen.connect(self.emit_changed)
        self.batches.textChanged.connect(self.emit_changed)

    def show_machine(self, machine: MachineReport) -> None:
        """Offer what this machine can compare; initially what suits it best."""
        none = _("There is no accelerator here that Hone can train on.")
        lacks = machine.automatic in ("", CPU)
        is_first = not self.sides.value()
        self.sides.set_segments(
            Segment(
                sides.value,
                pair_of(machine, sides).title,
                refusal=none if lacks and sides is Sides.DEVICES else "",
            )
            for sides in Sides
        )
        self.sides.setAccessibleName(_("What is compared"))
        if is_first:
            pair = pair_of(machine)
            self.sides.set_value(pair.sides.value)
            for name, box in self.models.items():
                box.setChecked(name in default_models(machine, pair))

    def mistake(self) -> str:
        if not any(box.isChecked() for box in self.models.values()):
            return _("Choose a model.")
        if not self._batches():
            words = _("Batches are whole numbers from 1 to {most}, such as 4, 64.")
            return words.format(most=f"{LARGEST_BATCH:,}")
        return ""

    def arguments(self) -> dict[str, Any]:
        assert self.machine is not None
        is_automatic = self.sides.value() == pair_of(self.machine).sides
        return {
            "models": tuple(name for name, box in self.models.items() if box.isChecked()),
            "batches": self._batches(),
            "images": self.images.value(),
            "sides": None if is_automatic else Sides(self.sides.value()),
        }

    def _batches(self) -> tuple[int, ...]:
        """The batch sizes; empty if one of them is no number within the limits."""
        words = [word.strip() for word in self.batches.text().split(",")]
        if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= LARGEST_BATCH for word in words):
            return ()
        return tuple(dict.fromkeys(map(int, words)))
