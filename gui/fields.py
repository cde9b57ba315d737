"""The controls of a form, one for each kind of option."""

from collections.abc import Callable, Mapping

from PySide6.QtWidgets import QCheckBox, QWidget

from core.catalogue import Kind, Option
from core.run_file import pairs
from gui.field import Field, LineField
from gui.number_fields import LARGEST_SPIN, NumberField, ShareField, WholeField
from gui.offers import Offer, Refused, refused
from gui.widgets.choice_list import ChoiceList
from gui.widgets.segmented import Segment, Segmented

MOST_LETTERS = 48
"""Room for choices side by side at the window's smallest, in letters of their titles; the gaps count, too."""

LETTERS_OF_A_GAP = 4


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


class PairsField(LineField):
    """Several `name = value` with commas between them.

    Pairs that were put there are kept as they are until the line is changed: names may have commas, too.
    """

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._put: dict[str, str] = {}

    def value(self) -> object:
        """The pairs."""
        text = self.line.text()
        return dict(self._put) if text == _pairs_words(self._put) else pairs(text)

    def set_value(self, value: object) -> None:
        """Show pairs."""
        known = value if isinstance(value, dict) else {}
        self._put = {str(name): str(text) for name, text in known.items()}
        self._show(_pairs_words(self._put))


def _pairs_words(known: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in known.items())


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

    def show_offer(self, offer: Offer) -> Refused:
        """Grey the box where it can't be switched on; one that is on can be switched off."""
        reason = offer.refusals.get("true", "")
        self._box.setEnabled(not reason or self._box.isChecked())
        self._box.setToolTip(reason or self.option.help)
        return refused([Segment("true", "", refusal=reason)], self.option.title)


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

    def show_offer(self, offer: Offer) -> Refused:
        """Grey the choices that can't be taken."""
        segments = offer.segments(self.option.choices)
        if segments:
            self.segmented.set_segments(segments)
        return refused(segments, self.option.title)

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
        self.choices = ChoiceList(
            Segment(choice.value, choice.title, choice.help) for choice in option.choices
        )
        self._adopt(self.choices, stretch=True)
        self.choices.activated.connect(self._tell)

    def show_offer(self, offer: Offer) -> Refused:
        """Grey the choices that can't be taken."""
        segments = offer.segments(self.option.choices)
        self.choices.set_choices(segments)
        return refused(segments, self.option.title)

    def value(self) -> object:
        """The value that is chosen."""
        return self.choices.currentData()

    def set_value(self, value: object) -> None:
        """Choose a value; one that is not in the list is added as it is."""
        self.choices.choose(str(value))


class ListedField(ComboField):
    """One of the choices that only this machine can list; before they are known, what is chosen stands alone."""

    def show_offer(self, offer: Offer) -> Refused:
        """List what there is, and grey what can't be taken."""
        segments = [Segment(value, value, refusal=offer.refusals.get(value, "")) for value in offer.listed]
        if segments:
            self.choices.set_choices(segments)
        return refused(segments, self.option.title)


def make_field(option: Option) -> Field:
    """The control that suits an option's kind and limits."""
    fits_spin = option.maximum is None or option.maximum <= LARGEST_SPIN
    makers: dict[Kind, Callable[[Option], Field]] = {
        Kind.TEXT: TextField,
        Kind.TEXTS: TextsField,
        Kind.PAIRS: PairsField,
        Kind.WHOLE: WholeField if fits_spin else NumberField,
        Kind.NUMBER: ShareField if option.is_share else NumberField,
        Kind.SWITCH: SwitchField,
        Kind.CHOICE: SegmentedField if _fit_side_by_side(option) else ComboField,
    }
    return makers[option.kind](option)


def _fit_side_by_side(option: Option) -> bool:
    return sum(len(choice.title) + LETTERS_OF_A_GAP for choice in option.choices) <= MOST_LETTERS
