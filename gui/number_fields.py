"""The controls that hold a number: counted, as a share in per cent, or typed as people write it."""

from typing import Any

from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from core.catalogue import Kind, Option
from core.option_words import plain_number
from gui.field import Field, LineField, number_width
from gui.offers import Offer, Refused
from gui.widgets.calm_inputs import CalmDoubleSpinBox, CalmSpinBox

LARGEST_SPIN = 2**31 - 1
LARGEST_PERCENT = 999_999.0


class SteppedSpinBox(CalmSpinBox):
    """Any whole number can be typed, so that a wrong one is told; arrows and wheel stay between the limits.

    Args:
        lowest: The lowest value that is stepped to.
        highest: The highest one.
        nothing: The value below the lowest that stands for none at all; None: there is no such one.
        parent: Qt's parent.
    """

    def __init__(self, lowest: int, highest: int, nothing: int | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lowest, self._highest, self._nothing = lowest, highest, nothing
        self.setRange(-LARGEST_SPIN, LARGEST_SPIN)
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Whether a text is a number, or empty where that means none at all."""
        if not text and self._nothing is not None:
            return QValidator.State.Acceptable, text, place
        return super().validate(text, place)

    def valueFromText(self, text: str) -> int:  # noqa: N802 - Qt's name
        """The number; for an empty text the one that stands for none."""
        return self._nothing if not text and self._nothing is not None else super().valueFromText(text)

    def stepBy(self, steps: int) -> None:  # noqa: N802 - Qt's name
        """Step as far as the limits, and from the lowest to none."""
        now = self._lowest - 1 if self.value() == self._nothing else self.value()
        if self._nothing is not None and now + steps < self._lowest:
            self.setValue(self._nothing)
        else:
            self.setValue(max(self._lowest, min(self._highest, now + steps)))
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:  # noqa: N802 - Qt's name
        """Which arrows lead anywhere."""
        flag = QAbstractSpinBox.StepEnabledFlag
        up = flag.StepUpEnabled if self.value() < self._highest else flag.StepNone
        is_lowest = self.value() == self._nothing or (self._nothing is None and self.value() <= self._lowest)
        return up if is_lowest else up | flag.StepDownEnabled


class WholeField(Field):
    """A whole number; one that may be left out says so below its lowest."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._none = -LARGEST_SPIN if option.optional else None
        highest = LARGEST_SPIN if option.maximum is None else int(option.maximum)
        self._spin = SteppedSpinBox(int(option.minimum or 0), highest, self._none)
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
            self._spin.setValue(-LARGEST_SPIN)
        else:
            self._spin.setValue(max(1 - LARGEST_SPIN, min(LARGEST_SPIN, int(shown))))
        self._spin.blockSignals(blocked)


class AutomaticField(WholeField):
    """A whole number that Hone chooses where it is left out; it says which."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin.setSpecialValueText(self.tr("Automatic"))

    def show_offer(self, offer: Offer) -> Refused:
        """Say what leaving it out comes to."""
        if offer.automatic is None:
            self._spin.setSpecialValueText(self.tr("Automatic"))
        else:
            text = self.tr("Automatic: {value}").format(value=offer.automatic.value)
            self._spin.setSpecialValueText(text)
        return super().show_offer(offer)


class PercentSpinBox(CalmDoubleSpinBox):
    """Per cent, with a decimal only where there is one: `20 %`, `12.5 %`. Any can be typed; arrows keep to the limits.

    Args:
        lowest: The lowest value that is stepped to.
        highest: The highest one.
        parent: Qt's parent.
    """

    def __init__(self, lowest: float, highest: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lowest, self._highest = lowest, highest
        self.setDecimals(1)
        self.setRange(-LARGEST_PERCENT, LARGEST_PERCENT)
        self.setSingleStep(5.0)
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def stepBy(self, steps: int) -> None:  # noqa: N802 - Qt's name
        """Step as far as the limits."""
        self.setValue(max(self._lowest, min(self._highest, self.value() + steps * self.singleStep())))
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:  # noqa: N802 - Qt's name
        """Which arrows lead anywhere."""
        flag = QAbstractSpinBox.StepEnabledFlag
        up = flag.StepUpEnabled if self.value() < self._highest else flag.StepNone
        return up | flag.StepDownEnabled if self.value() > self._lowest else up

    def textFromValue(self, val: float) -> str:  # noqa: N802 - Qt's name
        """The figure, without a decimal that says nothing."""
        return super().textFromValue(val).removesuffix(".0")


class ShareField(Field):
    """A share of a whole, shown in per cent, kept as 0 to 1."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin = PercentSpinBox(100 * (option.minimum or 0.0), 100 * (option.maximum or 1.0))
        self._spin.setSuffix(self.tr(" %"))
        self._spin.setFixedWidth(number_width(self._spin))
        self._adopt(self._spin, stretch=False)
        self._spin.valueChanged.connect(self._tell)

    def value(self) -> object:
        """The share, 0 to 1."""
        return round(self._spin.value() / 100, 6)

    def set_value(self, value: object) -> None:
        """Show a share."""
        shown: Any = self.option.default
        if (
            isinstance(value, int | float) and -1e9 < value < 1e9
        ):  # else no float, or nothing a spin box takes
            shown = value
        blocked = self._spin.blockSignals(True)
        self._spin.setValue(100 * float(shown))
        self._spin.blockSignals(blocked)


class NumberField(LineField):
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
