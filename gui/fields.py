"""The controls of a form, one for each kind of option."""

from collections.abc import Callable

from PySide6.QtWidgets import QCheckBox, QSizePolicy, QWidget

from core.catalogue import Kind, Option
from gui.field import Field, LineField
from gui.number_fields import LARGEST_SPIN, NumberField, ShareField, WholeField
from gui.widgets.calm_inputs import CalmComboBox
from gui.widgets.segmented import Segment, Segmented

MOST_SEGMENTS = 4


class TextField(LineField):
    """A line of text."""

    def value(self) -> object:
        """The text; None where an optional one is empty."""
        text = self.line.text().strip()
        return None if not text and self.option.optional else text

    def set_value(self, value: object) -> None:
        """Show a text."""
        self._show("" if value is None else str(value))


class TextsField(LineField):
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
