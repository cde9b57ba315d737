"""What every control of a form has in common. Values are the plain values of a run file."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from core.catalogue import Option
from gui.offers import Offer, Refused
from gui.widgets.roles import set_flag

CHARACTERS_OF_A_NUMBER = 12


class Field(QWidget):
    """One control. Whatever can be typed comes out as it is: `core.checks` says what is wrong with it.

    Signals:
        changed: The person changed the value.
    """

    changed = Signal()

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.option = option
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(8)

    def value(self) -> object:
        """The value; None leaves the option out."""
        raise NotImplementedError

    def set_value(self, value: object) -> None:
        """Show a value without saying that it changed."""
        raise NotImplementedError

    def show_offer(self, offer: Offer) -> Refused:
        """Grey what the machine refuses; returns why, in words.

        Without choices to grey, the whole control is greyed where any value but the default is refused; a value that
        is already another one can still be changed back.
        """
        blocked = bool(offer.other) and self.value() == self.option.default
        self.control.setEnabled(not blocked)
        self.control.setToolTip(offer.other or self.option.help)
        return Refused(offer.other)

    def set_invalid(self, invalid: bool) -> None:
        """Show or hide that the value has a problem."""
        set_flag(self.control, "invalid", invalid)

    @property
    def control(self) -> QWidget:
        """The widget that takes the focus."""
        return self.focusProxy() or self

    def _adopt(self, control: QWidget, *, stretch: bool) -> None:
        control.setAccessibleName(self.option.title)
        control.setToolTip(self.option.help)
        self._row.addWidget(control, 1 if stretch else 0)
        if not stretch:
            self._row.addStretch(1)
        self.setFocusProxy(control)

    def _tell(self) -> None:
        self.changed.emit()


class LineField(Field):
    """Base of the controls that are a line of text; `wide` fills the row, else it is as wide as a number."""

    def __init__(self, option: Option, parent: QWidget | None = None, *, wide: bool = True) -> None:
        super().__init__(option, parent)
        self.line = QLineEdit()
        if not wide:
            self.line.setFixedWidth(number_width(self.line))
        self._adopt(self.line, stretch=wide)
        self.line.textChanged.connect(self._tell)

    def _show(self, text: str) -> None:
        blocked = self.line.blockSignals(True)
        self.line.setText(text)
        self.line.setCursorPosition(0)
        self.line.blockSignals(blocked)


def number_width(widget: QWidget) -> int:
    """Width of every control that holds a number, in pixels: room for the largest one and the arrows."""
    return widget.fontMetrics().horizontalAdvance("0" * CHARACTERS_OF_A_NUMBER) + 36
