"""The controls of a form, one for each kind of option."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QWidget,
)

from core.base.language import _
from core.options.catalogue import plain_number
from core.options.declare import Choice, Kind, Option
from core.options.device_support import ANY_OTHER, DeviceReport, MachineReport, Settled, refusal
from core.options.run_file import pairs
from gui.base.theme import set_flag
from gui.widgets.inputs import CalmDoubleSpinBox, CalmSpinBox, ChoiceList, PathLine, Segment, Segmented
from gui.widgets.layout import FLUSH, fill

MOST_NAMES = 3
"""More names than this in one sentence are counted instead."""

ROOM_FOR_AUTOMATIC = 3
"""Where there are no more choices than this, "Automatic" has room to say what it comes to."""

ON = ("on", "true")
"""The values that stand for the option itself."""


@dataclass(frozen=True)
class Offer:
    """One option on one device. `refusals` are reasons by value; `listed` are the values where only PyTorch knows them.

    `other` is why every value but the default is refused, `automatic` what leaving the choice to Hone comes to.
    """

    refusals: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    other: str = ""
    automatic: Settled | None = None

    def segments(self, choices: Iterable[Choice]) -> list[Segment]:
        """The choices as they are shown; of few, "Automatic" says what it comes to."""
        known = list(choices) or [Choice(value, value, "") for value in self.listed]
        automatic = self.automatic if len(known) <= ROOM_FOR_AUTOMATIC else None
        return [
            Segment(
                one.value,
                f"{one.title} ({automatic.value})" if automatic and one.value == "auto" else one.title,
                one.help,
                self.refusals.get(one.value, ""),
            )
            for one in known
        ]


def offer_of(option: Option, machine: MachineReport | None, device: DeviceReport | None) -> Offer:
    """What a device makes of an option; everything is open before the machine is known."""
    if machine is None or device is None or not device.available:
        return Offer()
    listed = machine.choices.get(option.path, ())
    values = [choice.value for choice in option.choices] or list(listed)
    if option.kind is Kind.SWITCH:
        values = ["true"]
    reasons = {value: refusal(device, option.path, value) for value in values}
    return Offer(
        refusals={value: reason for value, reason in reasons.items() if reason},
        listed=listed,
        other=device.refusals.get(option.path, {}).get(ANY_OTHER, ""),
        automatic=device.automatic.get(option.path),
    )


@dataclass(frozen=True)
class Refused:
    """Why choices are greyed: a sentence, and lines that say more where a sentence can't say it all."""

    summary: str = ""
    details: tuple[str, ...] = ()


def refused(segments: Iterable[Segment], subject: str = "") -> Refused:
    """Sum up why some choices are greyed. Choices with one reason share a line; a single line is said outright.

    Args:
        segments: The choices.
        subject: What the reason for "on" is about: the option's title.
    """
    by_reason: dict[str, list[str]] = {}
    for segment in segments:
        if segment.refusal:
            title = subject if segment.value in ON and subject else segment.title
            by_reason.setdefault(segment.refusal, []).append(title)
    lines = tuple(_line(titles, reason) for reason, titles in by_reason.items())
    if len(lines) < 2:
        return Refused(lines[0] if lines else "")
    titles = [title for titles in by_reason.values() for title in titles]
    if len(titles) > MOST_NAMES:
        return Refused(_("{count} choices are not available here").format(count=len(titles)), lines)
    return Refused(_("Not available here: {choices}").format(choices=" · ".join(titles)), lines)


def _line(titles: list[str], reason: str) -> str:
    """A reason that is a sentence by itself stands alone; another begins with the choices it is about."""
    if reason[0].isupper():
        return reason
    return f"{titles[0]} {reason}" if len(titles) == 1 else f"{' · '.join(titles)}: {reason}"


CHARACTERS_OF_A_NUMBER = 12


class Field(QWidget):
    """One control. Whatever can be typed comes out as it is: `core.options.validate` says what is wrong with it.

    Signals:
        changed: The person changed the value.
    """

    changed = Signal()

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.option = option
        self._row = fill(QHBoxLayout(self), margins=FLUSH, spacing=8)

    def value(self) -> object:
        """The plain value, as in a run file; None leaves the option out."""
        raise NotImplementedError

    def set_value(self, value: object) -> None:
        """Show a value; `changed` is not sent."""
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
    """A line of text; `wide` fills the row, else it is as wide as a number.

    Args:
        option: The option.
        read: Makes a value of a text that isn't empty, or that its option needs.
        write: Makes a text of a value.
        wide: Whether it fills the row.
    """

    def __init__(
        self,
        option: Option,
        read: Callable[[str], object] = str,
        write: Callable[[Any], str] = str,
        *,
        wide: bool = True,
    ) -> None:
        super().__init__(option)
        self._read, self._write = read, write
        self.line = QLineEdit()
        if not wide:
            self.line.setFixedWidth(number_width(self.line))
        self._adopt(self.line, stretch=wide)
        self.line.textChanged.connect(self._tell)

    def value(self) -> object:
        text = self.line.text().strip()
        return None if not text and self.option.optional else self._read(text)

    def set_value(self, value: object) -> None:
        with QSignalBlocker(self.line):
            self.line.setText("" if value is None else self._write(value))
            self.line.setCursorPosition(0)


def number_width(widget: QWidget) -> int:
    """Width of every control that holds a number, in pixels: room for the largest one and the arrows."""
    return widget.fontMetrics().horizontalAdvance("0" * CHARACTERS_OF_A_NUMBER) + 36


def texts_field(option: Option) -> Field:
    """Several texts with commas between them."""
    return LineField(
        option,
        lambda text: [part.strip() for part in text.split(",") if part.strip()],
        lambda value: ", ".join(map(str, value)) if isinstance(value, list | tuple) else "",
    )


def number_field(option: Option) -> Field:
    """A number typed as people write it: 3, 0.001, 2e-5. What is no number comes out as the text it is."""

    def read(text: str) -> object:
        try:
            number = float(text)
        except ValueError:
            return text
        return int(text) if option.kind is Kind.WHOLE and text.isdecimal() else number

    def write(value: object) -> str:
        return plain_number(value) if isinstance(value, float) else str(value)

    return LineField(option, read, write, wide=False)


class PairsField(LineField):
    """Several `name = value` with commas between them.

    Pairs that were put there are kept as they are until the line is changed: names may have commas, too.
    """

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._put: dict[str, str] = {}

    def value(self) -> object:
        text = self.line.text()
        return dict(self._put) if text == self._words() else pairs(text)

    def set_value(self, value: object) -> None:
        self._put = {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}
        super().set_value(self._words())

    def _words(self) -> str:
        return ", ".join(f"{name} = {text}" for name, text in self._put.items())


LARGEST_SPIN = 2**31 - 1
LARGEST_PERCENT = 999_999.0


class SteppedSpinBox(CalmSpinBox):
    """Any whole number can be typed, so that a wrong one is told; arrows and wheel stay between the limits.

    Args:
        lowest: The lowest value that is stepped to.
        highest: The highest one.
        nothing: The value below the lowest that stands for none at all; None: there is no such one.
    """

    def __init__(self, lowest: int, highest: int, nothing: int | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lowest, self._highest, self._nothing = lowest, highest, nothing
        self.setRange(-LARGEST_SPIN, LARGEST_SPIN)
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        if not text and self._nothing is not None:
            return QValidator.State.Acceptable, text, place
        return super().validate(text, place)

    def valueFromText(self, text: str) -> int:  # noqa: N802 - Qt's name
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
            self._spin.setSpecialValueText(_("No limit"))
        self._spin.setFixedWidth(number_width(self._spin))
        self._adopt(self._spin, stretch=False)
        self._spin.valueChanged.connect(self._tell)

    def value(self) -> object:
        number = self._spin.value()
        return None if number == self._none else number

    def set_value(self, value: object) -> None:
        """Show a number; anything else as the default."""
        shown = value if isinstance(value, int) else self.option.default
        with QSignalBlocker(self._spin):
            least = -LARGEST_SPIN if shown is None else max(1 - LARGEST_SPIN, int(shown))
            self._spin.setValue(min(LARGEST_SPIN, least))


class AutomaticField(WholeField):
    """A whole number that Hone chooses where it is left out; it says which."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin.setSpecialValueText(_("Automatic"))

    def show_offer(self, offer: Offer) -> Refused:
        if offer.automatic is None:
            self._spin.setSpecialValueText(_("Automatic"))
        else:
            self._spin.setSpecialValueText(_("Automatic: {value}").format(value=offer.automatic.value))
        return super().show_offer(offer)


class PercentSpinBox(CalmDoubleSpinBox):
    """Per cent, with a decimal only where there is one. Any can be typed; arrows keep to the limits."""

    def __init__(self, lowest: float, highest: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lowest, self._highest = lowest, highest
        self.setDecimals(1)
        self.setRange(-LARGEST_PERCENT, LARGEST_PERCENT)
        self.setSingleStep(5.0)
        self.setSuffix(_(" %"))
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def stepBy(self, steps: int) -> None:  # noqa: N802 - Qt's name
        self.setValue(max(self._lowest, min(self._highest, self.value() + steps * self.singleStep())))
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:  # noqa: N802 - Qt's name
        flag = QAbstractSpinBox.StepEnabledFlag
        up = flag.StepUpEnabled if self.value() < self._highest else flag.StepNone
        return up | flag.StepDownEnabled if self.value() > self._lowest else up

    def textFromValue(self, val: float) -> str:  # noqa: N802 - Qt's name
        return super().textFromValue(val).removesuffix(".0")


class ShareField(Field):
    """A share of a whole, shown in per cent, kept as 0 to 1."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._spin = PercentSpinBox(100 * (option.minimum or 0.0), 100 * (option.maximum or 1.0))
        self._spin.setFixedWidth(number_width(self._spin))
        self._adopt(self._spin, stretch=False)
        self._spin.valueChanged.connect(self._tell)

    def value(self) -> object:
        return round(self._spin.value() / 100, 6)

    def set_value(self, value: object) -> None:
        """Show a share; what is no number, or too large for a spin box, as the default."""
        is_share = isinstance(value, int | float) and -1e9 < value < 1e9
        with QSignalBlocker(self._spin):
            self._spin.setValue(100 * float(value if is_share else self.option.default))  # type: ignore[arg-type]


class SwitchField(Field):
    """Yes or no."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._box = QCheckBox()
        self._adopt(self._box, stretch=False)
        self._box.toggled.connect(self._tell)

    def value(self) -> object:
        return self._box.isChecked()

    def set_value(self, value: object) -> None:
        with QSignalBlocker(self._box):
            self._box.setChecked(bool(value))

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
        self.segmented = Segmented(Offer().segments(option.choices))
        self._adopt(self.segmented, stretch=False)
        self.segmented.chosen.connect(self._tell)
        self.set_value(option.default or (option.choices[0].value if option.choices else ""))

    def show_offer(self, offer: Offer) -> Refused:
        segments = offer.segments(self.option.choices)
        if segments:
            self.segmented.set_segments(segments)
        return refused(segments, self.option.title)

    def value(self) -> object:
        return self.segmented.value()

    def set_value(self, value: object) -> None:
        self.segmented.set_value(str(value))


class ComboField(Field):
    """One of many choices, in a list; of an option without choices, those that this machine lists."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.choices = ChoiceList(Offer().segments(option.choices))
        self._adopt(self.choices, stretch=True)
        self.choices.activated.connect(self._tell)

    def show_offer(self, offer: Offer) -> Refused:
        segments = offer.segments(self.option.choices)
        if segments:
            self.choices.set_choices(segments)
        return refused(segments, self.option.title)

    def value(self) -> object:
        return self.choices.currentData()

    def set_value(self, value: object) -> None:
        """Choose a value; one that is not in the list is added as it is."""
        self.choices.choose(str(value))


class PathField(Field):
    """A path, or whatever else the option takes in its place (a Hub id, `builtin:digits`): typed, chosen or dropped.

    `menu` is that of its button, where files and folders can be chosen.
    """

    def __init__(
        self,
        option: Option,
        placeholder: str = "",
        parent: QWidget | None = None,
        *,
        only_folders: bool = False,
    ) -> None:
        super().__init__(option, parent)
        self.line = PathLine(option.help)
        self.line.setPlaceholderText(placeholder)
        self.line.setClearButtonEnabled(option.optional)
        self._adopt(self.line, stretch=True)
        self.line.textChanged.connect(self._tell)
        button = QPushButton(_("Choose…"))
        button.setAccessibleName(_("Choose: {title}").format(title=option.title))
        self.menu = QMenu(button)
        if only_folders:
            button.clicked.connect(self._choose_folder)
        else:
            self.menu.addAction(_("File…"), self._choose_file)
            self.menu.addAction(_("Folder…"), self._choose_folder)
            button.setMenu(self.menu)
            button.setProperty("hasMenu", True)
        self._row.addWidget(button)

    def value(self) -> object:
        text = self.line.text().strip()
        if text.startswith("~"):
            text = str(Path(text).expanduser())
        return None if not text and self.option.optional else text

    def set_value(self, value: object) -> None:
        self.line.show_path("" if value is None else str(value))

    def _choose_file(self) -> None:
        self._take(QFileDialog.getOpenFileName(self, self.option.title, self._start_folder())[0])

    def _choose_folder(self) -> None:
        self._take(QFileDialog.getExistingDirectory(self, self.option.title, self._start_folder()))

    def _take(self, chosen: str) -> None:
        if chosen:
            self.line.setText(chosen)

    def _start_folder(self) -> str:
        path = Path(self.line.text())
        return str(path.parent) if path.is_absolute() and path.parent.is_dir() else str(Path.home())


MOST_LETTERS = 48
"""Room for choices side by side at the window's smallest, in letters of their titles; the gaps count, too."""

LETTERS_OF_A_GAP = 4


def make_field(option: Option) -> Field:
    """The control that suits an option's kind and limits."""
    letters = sum(len(choice.title) + LETTERS_OF_A_GAP for choice in option.choices)
    fits_spin = option.maximum is None or option.maximum <= LARGEST_SPIN
    makers: dict[Kind, Callable[[Option], Field]] = {
        Kind.TEXT: LineField,
        Kind.TEXTS: texts_field,
        Kind.PAIRS: PairsField,
        Kind.WHOLE: WholeField if fits_spin else number_field,
        Kind.NUMBER: ShareField if option.is_share else number_field,
        Kind.SWITCH: SwitchField,
        Kind.CHOICE: SegmentedField if letters <= MOST_LETTERS else ComboField,
    }
    return makers[option.kind](option)
