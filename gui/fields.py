"""The controls of a form, one for each kind of option. Values are the plain values of a run file."""

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QSizePolicy, QWidget

from core.catalogue import Kind, Option
from gui.widgets.calm_inputs import CalmComboBox, CalmDoubleSpinBox, CalmSpinBox
from gui.widgets.roles import set_flag
from gui.widgets.segmented import Segment, Segmented

LARGEST_SPIN = 2**31 - 1
MOST_SEGMENTS = 4
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


class WholeField(Field):
    """A whole number; one that may be left out reads "All" at its lowest."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin = CalmSpinBox()
        lowest = int(option.minimum or 0)
        self._none = lowest - 1 if option.optional else None
        largest = LARGEST_SPIN if option.maximum is None else int(option.maximum)
        self._spin.setRange(lowest if self._none is None else self._none, largest)
        if self._none is not None:
            self._spin.setSpecialValueText(self.tr("No limit"))
        self._spin.setFixedWidth(number_width(self._spin))
        self._adopt(self._spin, stretch=False)
        self._spin.valueChanged.connect(self._tell)

    def value(self) -> object:
        """A whole number, or None for "no limit"."""
        number = self._spin.value()
        return None if number == self._none else number

    def set_value(self, value: object) -> None:
        """Show a number; anything else as the default."""
        shown = value if isinstance(value, int) else self.option.default
        blocked = self._spin.blockSignals(True)
        if shown is None:
            self._spin.setValue(self._spin.minimum())
        else:
            self._spin.setValue(max(-LARGEST_SPIN, min(LARGEST_SPIN, int(shown))))
        self._spin.blockSignals(blocked)


class ShareField(Field):
    """A share of a whole, shown in per cent, kept as 0 to 1."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin = CalmDoubleSpinBox()
        self._spin.setDecimals(1)
        self._spin.setSuffix(self.tr(" %"))
        self._spin.setRange(100 * (option.minimum or 0.0), 100 * (option.maximum or 1.0))
        self._spin.setSingleStep(5.0)
        self._spin.setFixedWidth(number_width(self._spin))
        self._adopt(self._spin, stretch=False)
        self._spin.valueChanged.connect(self._tell)

    def value(self) -> object:
        """The share, 0 to 1."""
        return round(self._spin.value() / 100, 6)

    def set_value(self, value: object) -> None:
        """Show a share."""
        shown = value if isinstance(value, int | float) else self.option.default
        blocked = self._spin.blockSignals(True)
        self._spin.setValue(100 * float(shown))
        self._spin.blockSignals(blocked)


class _LineField(Field):
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


class NumberField(_LineField):
    """A number typed as people write it: 3, 0.001, 2e-5."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent, wide=False)

    def value(self) -> object:
        """The number; None where an optional one is empty; the text itself where it is no number."""
        text = self.line.text().strip()
        if not text and self.option.optional:
            return None
        try:
            number = float(text)
        except ValueError:
            return text
        return int(text) if self.option.kind is Kind.WHOLE and text.isdecimal() else number

    def set_value(self, value: object) -> None:
        """Show a number."""
        self._show("" if value is None else plain_number(value) if isinstance(value, float) else str(value))


class TextField(_LineField):
    """A line of text."""

    def value(self) -> object:
        """The text; None where an optional one is empty."""
        text = self.line.text().strip()
        return None if not text and self.option.optional else text

    def set_value(self, value: object) -> None:
        """Show a text."""
        self._show("" if value is None else str(value))


class TextsField(_LineField):
    """Several texts with commas between them."""

    def value(self) -> object:
        """The texts, empty ones left out."""
        return [part.strip() for part in self.line.text().split(",") if part.strip()]

    def set_value(self, value: object) -> None:
        """Show a list of texts."""
        self._show(", ".join(map(str, value)) if isinstance(value, list | tuple) else "")


class SwitchField(Field):
    """Yes or no."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._box = QCheckBox()
        self._adopt(self._box, stretch=False)
        self._box.toggled.connect(self._tell)

    def value(self) -> object:
        """Whether it is on."""
        return self._box.isChecked()

    def set_value(self, value: object) -> None:
        """Switch it on or off."""
        blocked = self._box.blockSignals(True)
        self._box.setChecked(bool(value))
        self._box.blockSignals(blocked)


class SegmentedField(Field):
    """One of a few choices, side by side."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.segmented = Segmented(
            Segment(choice.value, choice.title, choice.help) for choice in option.choices
        )
        self._adopt(self.segmented, stretch=False)
        self.segmented.chosen.connect(self._tell)
        self.set_value(option.default or (option.choices[0].value if option.choices else ""))

    def value(self) -> object:
        """The value that is taken."""
        return self.segmented.value()

    def set_value(self, value: object) -> None:
        """Take a value."""
        self.segmented.set_value(str(value))


class ComboField(Field):
    """One of many choices, in a list."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._combo = CalmComboBox()
        self._combo.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        for choice in option.choices:
            self._combo.addItem(choice.title, choice.value)
        self._adopt(self._combo, stretch=True)
        self._combo.activated.connect(self._tell)

    def value(self) -> object:
        """The value that is chosen."""
        return self._combo.currentData()

    def set_value(self, value: object) -> None:
        """Choose a value; one that is not in the list is added as it is."""
        index = self._combo.findData(str(value))
        if index < 0:
            self._combo.addItem(str(value), str(value))
            index = self._combo.count() - 1
        self._combo.setCurrentIndex(index)


def number_width(widget: QWidget) -> int:
    """Width of every control that holds a number, in pixels: room for the largest one and the arrows."""
    return widget.fontMetrics().horizontalAdvance("0" * CHARACTERS_OF_A_NUMBER) + 36


def plain_number(value: float) -> str:
    """A float as a person writes it: `3`, `0.001`, `2e-5`."""
    text = f"{value:.10g}"
    mantissa, exponential, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else text


def make_field(option: Option) -> Field:
    """The control that suits an option's kind and limits."""
    is_share = option.maximum is not None and option.maximum < 1
    fits_spin = option.maximum is None or option.maximum <= LARGEST_SPIN
    makers: dict[Kind, Callable[[Option], Field]] = {
        Kind.TEXT: TextField,
        Kind.TEXTS: TextsField,
        Kind.WHOLE: WholeField if fits_spin else NumberField,
        Kind.NUMBER: ShareField if is_share else NumberField,
        Kind.SWITCH: SwitchField,
        Kind.CHOICE: SegmentedField if len(option.choices) <= MOST_SEGMENTS else ComboField,
    }
    return makers[option.kind](option)
