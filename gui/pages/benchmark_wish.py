"""What a benchmark is to measure, to be chosen: what both kinds have in common."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QLayout, QWidget

from core.bench.plan import Plan
from core.device_names import device_title
from core.reports import MachineReport
from gui.bench_work import MakePlan
from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmSpinBox
from gui.widgets.form_row import label_width
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment

AUTOMATIC = "auto"
MOST_PASSES = 20
MOST_STEPS = 10_000
SPIN_LETTERS = 14
"""Width of a box for a number: the word "automatic" and the arrows."""


class Wish(QWidget):
    """Rows of labels and controls.

    Signals:
        changed: The person has chosen something else, or the machine has become known.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.machine: MachineReport | None = None
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(SPACING)
        self._grid.setVerticalSpacing(SPACING)
        self._grid.setColumnMinimumWidth(0, label_width(self))
        self._grid.setColumnStretch(1, 1)

    def set_machine(self, machine: MachineReport) -> None:
        """Offer what this machine has."""
        self.machine = machine
        self.show_machine(machine)
        self.changed.emit()

    def obstacle(self) -> str:
        """What has to be mended before it can be measured, in a sentence; empty: nothing."""
        if self.machine is None:
            return self.tr("Looking at what this machine can do…")
        return self.mistake()

    # What each kind says of itself.

    def show_machine(self, machine: MachineReport) -> None:
        """Offer the devices there are, and grey what they can't do."""
        raise NotImplementedError

    def mistake(self) -> str:
        """What is wrong with what is chosen, in a sentence; empty: nothing."""
        raise NotImplementedError

    def device(self) -> str:
        """The device that is computed on, as in `device.name`."""
        raise NotImplementedError

    def reason(self, plan: Plan) -> str:
        """Why a plan that was made of this is as it is, where Hone has chosen; empty: the person has."""
        raise NotImplementedError

    def plan(self) -> MakePlan:
        """What makes the plan, in any thread, of what is chosen now."""
        raise NotImplementedError

    # Rows.

    def add_row(self, title: str, control: QWidget, *, trailing: QWidget | None = None) -> QLabel:
        """Add a labelled control, and something beside it; returns the label."""
        label = QLabel(title)
        label.setBuddy(control)
        set_role(label, Role.LABEL)
        row = self._grid.rowCount()
        self._grid.addWidget(label, row, 0)
        if trailing is None:
            self._grid.addWidget(control, row, 1)
            return label
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(control, 1)
        line.addWidget(trailing)
        self._grid.addLayout(line, row, 1)
        return label

    def add_line(self, title: str, line: QLayout, buddy: QWidget) -> None:
        """Add a label and several controls, the first of which it stands for."""
        label = QLabel(title)
        label.setBuddy(buddy)
        set_role(label, Role.LABEL)
        row = self._grid.rowCount()
        self._grid.addWidget(label, row, 0)
        self._grid.addLayout(line, row, 1)

    def passes_box(self, passes: int) -> CalmSpinBox:
        """How often each is measured."""
        box = self.number_box(1, MOST_PASSES, self.tr("Passes"))
        box.setValue(passes)
        box.setToolTip(
            self.tr(
                "Each is measured so often, one after the other and then from the first again, so that what changes "
                "with time (heat, other programs) meets all of them."
            )
        )
        return box

    def steps_box(self) -> CalmSpinBox:
        """How many steps are timed; 0: Hone chooses."""
        box = self.number_box(0, MOST_STEPS, self.tr("Timed steps"))
        box.setSpecialValueText(self.tr("automatic"))
        box.setToolTip(
            self.tr("Optimizer steps that are timed in a pass, after those that warm up. More are steadier.")
        )
        return box

    def number_box(self, least: int, most: int, name: str) -> CalmSpinBox:
        """A whole number."""
        box = CalmSpinBox()
        box.setRange(least, most)
        box.setAccessibleName(name)
        box.setFixedWidth(SPIN_LETTERS * self.fontMetrics().averageCharWidth() + 4 * SPACING)
        box.valueChanged.connect(self._tell)
        return box

    def beside(self, *parts: QWidget | tuple[str, QWidget]) -> QHBoxLayout:
        """Controls side by side, as small as they are; a text before one is its label."""
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        for part in parts:
            if isinstance(part, tuple):
                label = QLabel(part[0])
                label.setBuddy(part[1])
                set_role(label, Role.LABEL)
                line.addSpacing(SPACING)
                line.addWidget(label)
                line.addWidget(part[1])
            else:
                line.addWidget(part)
        line.addStretch(1)
        return line

    def _tell(self, _value: object = None) -> None:
        self.changed.emit()


def device_choices(machine: MachineReport, automatic: str) -> list[Segment]:
    """The devices of a machine as choices; those that aren't there are greyed and say why."""
    found = [Segment(AUTOMATIC, automatic.format(device_title(machine.automatic.removesuffix(":0"))))]
    for device in machine.devices:
        title = f"{device_title(device.name.removesuffix(':0'))} · {device.title}"
        refusal = "" if device.available else device.reason
        found.append(Segment(device.name, title, refusal=refusal))
    return found
