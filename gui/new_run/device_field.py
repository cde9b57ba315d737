"""The control of `device.name`: the devices of this computer side by side; with those of others, a list."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDialogButtonBox, QWidget

from core.base.formats import memory
from core.base.language import _
from core.options.choices import DEVICE_KINDS, device_title
from core.options.declare import Option
from core.options.device_support import DeviceReport, MachineReport
from gui.base.theme import Role
from gui.widgets.fields import Field, Refused, refused
from gui.widgets.inputs import ChoiceList, Segment, Segmented
from gui.widgets.labels import push_button, text_label
from gui.widgets.layout import Sheet, fill_dialog

SHEET_WIDTH = 420
SEVERAL = "several"
"""The entry of the list that asks which computers train together."""

NO_MPS = _("The GPUs of Macs (MPS) can't train together: PyTorch has no way to add up their gradients.")


def device_segments(machine: MachineReport | None) -> list[Segment]:
    """Return the devices to choose from, those of other computers last; all kinds before the machine is known."""
    segments = [Segment("auto", _("Automatic"))]
    if machine is None:
        return [*segments, *(Segment(name, title) for name, title in DEVICE_KINDS.items())]
    ready = {computer_of(device) for device in machine.devices if device.available}
    for device in machine.devices:
        place, text = computer_of(device), device.title
        if place and place not in ready:  # one entry says why
            waiting = Segment(f"auto@{place}", place, refusal=device.reason)
            segments += [waiting] if waiting not in segments else []
            continue
        if place and not device.available:
            continue
        name = device.name.replace(":0", "")
        if device.kind == "cuda" and cards(machine, place) > 1 and name != device.name:
            text = _("{title}; with several processes all {count} GPUs").format(
                title=text, count=cards(machine, place)
            )
        if place and device.memory_bytes:
            text = _("{title}, {memory}").format(title=text, memory=memory(device.memory_bytes))
        refusal = "" if device.available else device.reason
        segments.append(Segment(name, device_title(name), text, refusal))
    return segments


def has_parts(machine: MachineReport | None, device: DeviceReport | None) -> bool:
    """Whether several processes can train on a device: on a CPU, or where there are several CUDA devices."""
    if machine is None or device is None:
        return False
    return device.kind == "cpu" or (device.kind == "cuda" and cards(machine, computer_of(device)) > 1)


def computer_of(device: DeviceReport) -> str:
    """Return the name of the computer that has a device; empty for this computer."""
    return device.name.partition("@")[2]


def cards(machine: MachineReport, computer: str) -> int:
    """How many CUDA devices a computer has."""
    return sum(
        device.kind == "cuda" and device.available and computer_of(device) == computer
        for device in machine.devices
    )


class TogetherSheet(Sheet):
    """Asks which computers train one model together."""

    chosen = Signal(str)  # as in `device.name`

    def __init__(
        self, kinds: Mapping[str, Sequence[str]], ticked: Sequence[str], parent: QWidget | None = None
    ) -> None:
        super().__init__(_("Several computers"), parent)
        self.setMinimumWidth(SHEET_WIDTH)
        self._kinds = kinds
        text = _(
            "Each computer trains on batches of its own, and after each step they average their gradients. This pays "
            "on a fast network."
        )
        self.boxes = {name: QCheckBox(name) for name in kinds}
        for name, box in self.boxes.items():
            box.setChecked(name in ticked)
            box.toggled.connect(self._show)
        self._found = text_label(role=Role.MUTED)
        hints = [text_label(NO_MPS, Role.HINT)] if any("mps" in one for one in kinds.values()) else []
        self.use = push_button(_("Use them"), self._choose)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.use)
        fill_dialog(self, text_label(text), *self.boxes.values(), self._found, *hints, buttons)
        self._show()

    @property
    def value(self) -> str:
        """Return CUDA if all ticked computers have it, else CPU; empty if fewer than two are ticked."""
        names = [name for name, box in self.boxes.items() if box.isChecked()]
        kind = "cuda" if all("cuda" in self._kinds[name] for name in names) else "cpu"
        return f"{kind}@{'+'.join(names)}" if len(names) > 1 else ""

    def _show(self) -> None:
        text = _("They train on {device}.").format(device=device_title(self.value))
        self._found.setText(text if self.value else _("Choose two or more."))
        self.use.setEnabled(bool(self.value))

    def _choose(self) -> None:
        self.chosen.emit(self.value)
        self.accept()


class DeviceField(Field):
    """The devices side by side, or in a list if there are other computers."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.segmented, self.list = Segmented(), ChoiceList()
        self._value, self._segments = str(option.default), device_segments(None)
        self._kinds: dict[str, list[str]] = {}
        for control in (self.segmented, self.list):
            self._add_control(control, stretch=True)
        self._row.setAlignment(self.segmented, Qt.AlignmentFlag.AlignLeading)
        self.segmented.chosen.connect(self._choose)
        self.list.activated.connect(lambda: self._choose(str(self.list.currentData())))
        self._fill()

    def show_machine(self, machine: MachineReport | None) -> Refused:
        """Show the devices there are, and return why some are greyed."""
        self._segments, self._kinds = device_segments(machine), {}
        for device in machine.devices if machine is not None else ():
            if device.available and computer_of(device):
                self._kinds.setdefault(computer_of(device), []).append(device.kind)
        self._fill()
        return refused(self._segments)

    def value(self) -> object:
        return self._value

    def set_value(self, value: object) -> None:
        self._value = str(value)
        self._fill()

    def _fill(self) -> None:
        is_list = bool(self._kinds) or "@" in self._value
        shown = [*self._segments] if is_list else []
        if is_list and self._value not in [segment.value for segment in shown]:
            shown.append(Segment(self._value, device_title(self._value)))
        if len(self._kinds) > 1:
            shown.append(Segment(SEVERAL, _("Several computers…"), _("Train one model on them together")))
        self.list.set_choices(shown)
        self.list.choose(self._value)
        if not is_list:
            self.segmented.set_segments(self._segments)
            self.segmented.set_value(self._value)
        self.segmented.setHidden(is_list)
        self.list.setVisible(is_list)
        self.setFocusProxy(self.list if is_list else self.segmented)

    def _choose(self, value: str) -> None:
        if value == SEVERAL:
            self.list.choose(self._value)  # until it is known which
            ticked = self._value.partition("@")[2].split("+")
            sheet = TogetherSheet(self._kinds, ticked, self)
            sheet.chosen.connect(self._choose)
            sheet.open()
            return
        self.set_value(value)
        self.changed.emit()
