"""The strip at the sidebar's foot: this computer, its memory, how busy it is. Always alive, never kept."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.machine.memory import ProcessorLoad, system_memory
from core.reports import MachineReport
from gui.numbers import memory
from gui.theme import SPACING, Theme
from gui.widgets.meter import Meter
from gui.widgets.roles import Role, set_role

SAMPLE_MS = 2000


class MachineStrip(QWidget):
    """Name of the device, memory in use, processors busy; read every two seconds while it can be seen."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._load = ProcessorLoad()
        self._load.read()
        self._device = _line(Role.STRONG)
        self._memory = _line(Role.HINT)
        self._busy = _line(Role.HINT)
        self._memory_meter = Meter(theme, "run", self.tr("Memory in use"))
        self._busy_meter = Meter(theme, "activations", self.tr("Processors busy"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACING + 2, SPACING, SPACING + 2, 0)
        layout.setSpacing(SPACING // 2)
        for widget in (self._device, self._memory, self._memory_meter, self._busy, self._busy_meter):
            layout.addWidget(widget)
        self._device.setText(self.tr("This computer"))
        self._timer = QTimer(self)
        self._timer.setInterval(SAMPLE_MS)
        self._timer.timeout.connect(self.sample)
        self._timer.start()
        self.sample()

    def set_machine(self, machine: MachineReport) -> None:
        """Name what "automatic" trains on."""
        device = next((device for device in machine.devices if device.name == machine.automatic), None)
        if device is not None:
            self._device.setText(device.title)

    def sample(self) -> None:
        """Read memory and processors now."""
        found = system_memory()
        total = memory(found.total)
        used = memory(found.used).removesuffix(f" {total.partition(' ')[2]}")  # the same unit is said once
        self._memory.setText(self.tr("Memory {used} of {total}").format(used=used, total=total))
        self._memory_meter.set_share(found.used / found.total)
        busy = self._load.read()
        if busy is None:
            self._busy.setText(self.tr("CPU"))
            return
        self._busy.setText(self.tr("CPU {percent:.0f} % busy").format(percent=100 * busy))
        self._busy_meter.set_share(busy)


def _line(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    set_role(label, role)
    return label
