"""A few choices side by side, one of them taken: what macOS calls a segmented control."""

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from gui.widgets.roles import Role, set_role


@dataclass(frozen=True)
class Segment:
    """One choice. `refusal` says why it can't be taken (it is then greyed and this is its tool tip)."""

    value: str
    title: str
    help: str = ""
    refusal: str = ""


class Segmented(QFrame):
    """One of a few choices. Tab reaches it once, the arrow keys move within it.

    Signals:
        chosen: The value the person took.
    """

    chosen = Signal(str)

    def __init__(self, segments: Iterable[Segment] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.SEGMENTS)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(2, 2, 2, 2)
        self._row.setSpacing(2)
        self._group = QButtonGroup(self)
        self._group.buttonClicked.connect(self._tell)
        self._segments: dict[str, QPushButton] = {}
        self.set_segments(segments)

    def set_segments(self, segments: Iterable[Segment], *, keeps_value: bool = True) -> None:
        """Show other choices. The value stays taken; one that is not among them only where it `keeps_value`."""
        taken = self.value()
        wanted = {segment.value: segment for segment in segments}
        for value in [value for value in self._segments if value not in wanted]:
            button = self._segments.pop(value)
            self._group.removeButton(button)
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        for index, segment in enumerate(wanted.values()):
            button = self._segments.get(segment.value) or self._add(segment.value, index)
            self._dress(button, segment)
        self._segments = {value: self._segments[value] for value in wanted}
        if taken and (keeps_value or taken in self._segments):
            self.set_value(taken)

    def value(self) -> str:
        """The value that is taken; empty: none."""
        return next((value for value, button in self._segments.items() if button.isChecked()), "")

    def set_value(self, value: str) -> None:
        """Take a value without telling anybody; one that is not among the choices is added as it is."""
        if value not in self._segments:
            self._dress(self._add(value, len(self._segments)), Segment(value, value))
        self._segments[value].setChecked(True)
        self.setFocusProxy(self._segments[value])

    def buttons(self) -> dict[str, QPushButton]:
        """The buttons by their values."""
        return dict(self._segments)

    def setAccessibleName(self, name: str) -> None:  # noqa: N802 - Qt's name
        """Name the whole control; every button says what it is part of."""
        super().setAccessibleName(name)
        for button in self._segments.values():
            button.setAccessibleName(f"{name}: {button.text()}")

    def _add(self, value: str, index: int) -> QPushButton:
        button = QPushButton(self)
        button.setCheckable(True)
        button.setProperty("value", value)
        set_role(button, Role.SEGMENT)
        self._group.addButton(button)
        self._row.insertWidget(index, button)
        self._segments[value] = button
        return button

    def _dress(self, button: QPushButton, segment: Segment) -> None:
        button.setText(segment.title)
        button.setToolTip(segment.refusal or segment.help)
        button.setEnabled(not segment.refusal)
        name = self.accessibleName()
        button.setAccessibleName(f"{name}: {segment.title}" if name else segment.title)

    def _tell(self, button: QPushButton) -> None:
        self.setFocusProxy(button)
        self.chosen.emit(str(button.property("value")))
