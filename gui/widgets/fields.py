"""The controls of a form, one for each kind of option."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker, QSize, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QValidator
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from core.base.formats import ascii_digits, in_percent, plain_number, titled, with_note
from core.base.language import _
from core.options import RunOptions
from core.options.backend_rules import left_to_torch
from core.options.catalogue import ZEROS
from core.options.declare import Choice, Option, OptionKind
from core.options.device_support import (
    ANY_OTHER,
    DeviceReport,
    MachineReport,
    Settled,
    refusal,
    settled_beside,
)
from core.options.presets import RESOURCES
from core.options.run_file import pairs
from gui.widgets.inputs import (
    CalmDoubleSpinBox,
    CalmSpinBox,
    ChoiceList,
    Chooser,
    PathLine,
    Segment,
    Segmented,
)
from gui.widgets.labels import ButtonMenu
from gui.widgets.layout import FLUSH, fill

MOST_NAMES = 3
"""More names than this in one sentence are counted instead."""

ROOM_FOR_AUTOMATIC = 3
"""With at most this many choices, "Automatic" shows what it resolves to."""

ON = ("on", "true")
"""The values that mean the option itself."""


@dataclass(frozen=True)
class Offer:
    """What a device makes of an option.

    `refusals` are reasons by value, `listed` the values that only PyTorch knows, `other` why every value but the
    default is refused, `automatic` what "automatic" resolves to.
    """

    refusals: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    other: str = ""
    automatic: Settled | None = None

    def segments(self, choices: Iterable[Choice]) -> list[Segment]:
        """Return the choices as they are shown."""
        known = list(choices) or [Choice(value, value, "") for value in self.listed]
        automatic = self.automatic if len(known) <= ROOM_FOR_AUTOMATIC else None
        titles = {choice.value: choice.title for choice in known}

        def title(choice: Choice) -> str:
            if automatic and choice.value == "auto":
                return with_note(choice.title, titles[automatic.value])
            return choice.title

        return [
            Segment(choice.value, title(choice), choice.help, self.refusals.get(choice.value, ""))
            for choice in known
        ]


def offer_of(
    option: Option,
    machine: MachineReport | None,
    device: DeviceReport | None,
    options: RunOptions | None = None,
) -> Offer:
    """Return what a device makes of an option, beside the others if these can be read.

    Nothing is refused before the machine is known.
    """
    if machine is None or device is None or not device.available:
        return Offer()
    listed = machine.choices.get(option.path, ())
    values = [choice.value for choice in option.choices] or list(listed)
    if option.kind is OptionKind.SWITCH:
        values = ["true"]
    reasons = {
        value: (options and left_to_torch(options, option.path, value))
        or refusal(device, option.path, value, options)
        for value in values
    }
    return Offer(
        refusals={value: reason for value, reason in reasons.items() if reason},
        listed=listed,
        other=device.refusals.get(option.path, {}).get(ANY_OTHER, ""),
        automatic=settled_beside(device, option.path, options)
        if options
        else device.automatic.get(option.path),
    )


@dataclass(frozen=True)
class Refused:
    """Why choices are greyed: a sentence, and details if that doesn't say it all."""

    summary: str = ""
    details: tuple[str, ...] = ()


def refused(segments: Iterable[Segment], subject: str = "") -> Refused:
    """Summarise why choices are greyed; `subject` is the option's title, for the choice "on"."""
    titles_by_reason: dict[str, list[str]] = {}
    for segment in segments:
        if segment.refusal:
            title = subject if segment.value in ON and subject else segment.title
            titles_by_reason.setdefault(segment.refusal, []).append(title)
    lines = []
    for reason, titles in titles_by_reason.items():
        if reason[0].isupper():  # a sentence by itself
            lines.append(reason)
        else:
            lines.append(f"{titles[0]} {reason}" if len(titles) == 1 else titled(" · ".join(titles), reason))
    if len(lines) < 2:
        return Refused(lines[0] if lines else "")
    titles = [title for titles in titles_by_reason.values() for title in titles]
    if len(titles) > MOST_NAMES:
        return Refused(_("{count} choices are not available here").format(count=len(titles)), tuple(lines))
    return Refused(_("Not available here: {choices}").format(choices=" · ".join(titles)), tuple(lines))


CHARACTERS_OF_A_NUMBER = 12

GROUPED = re.compile(r"[1-9]\d{0,2}(,\d{3})+")
"""What may be thousands to one reader and a decimal to another."""


class Field(QWidget):
    """One control. Its value is what was typed: `core.options.validate` says what is wrong with it."""

    changed = Signal()  # by the person
    remarked = Signal(str)  # what to know while it is edited; empty if there is nothing any more

    def __init__(self, option: Option) -> None:
        super().__init__()
        self.option = option
        self._row = fill(QHBoxLayout(self), margins=FLUSH, spacing=8)

    def value(self) -> object:
        """Return the plain value, as in a run file; None leaves the option out."""
        raise NotImplementedError

    def set_value(self, value: object) -> None:
        """Show a value; `changed` is not emitted."""
        raise NotImplementedError

    def show_offer(self, offer: Offer) -> Refused:
        """Grey what the device refuses, and return why.

        A control without choices is greyed if any value but the default is refused; a value that is already another
        one can still be changed back.
        """
        is_blocked = bool(offer.other) and self.value() == self.option.default
        self.control.setEnabled(not is_blocked)
        self.control.setToolTip(offer.other or self.option.help)
        return Refused(offer.other)

    @property
    def control(self) -> QWidget:
        """The widget that takes the focus."""
        return self.focusProxy() or self

    def _add_control(self, control: QWidget, *, stretch: bool) -> None:
        control.setAccessibleName(self.option.title)
        control.setToolTip(self.option.help)
        self._row.addWidget(control, 1 if stretch else 0)
        if not stretch:
            self._row.addStretch(1)
        self.setFocusProxy(control)


class LineField(Field):
    """A line of text.

    Args:
        read: Returns the value of a text.
        write: Returns the text of a value.
        wide: Whether it fills the row, or is as wide as a number.
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
        self._add_control(self.line, stretch=wide)
        self.line.textChanged.connect(self.changed)

    def value(self) -> object:
        text = self.line.text().strip()
        return None if not text and self.option.optional else self._read(text)

    def set_value(self, value: object) -> None:
        with QSignalBlocker(self.line):
            self.line.setText("" if value is None else self._write(value))
            self.line.setCursorPosition(0)


def number_width(widget: QWidget) -> int:
    """Return the width of every control of a number, in pixels."""
    return widget.fontMetrics().horizontalAdvance("0" * CHARACTERS_OF_A_NUMBER) + 36


def texts_field(option: Option) -> Field:
    """Return a line of several texts with commas between them."""
    return LineField(
        option,
        lambda text: [part.strip() for part in text.split(",") if part.strip()],
        lambda value: ", ".join(map(str, value)) if isinstance(value, list | tuple) else "",
    )


def number_field(option: Option) -> Field:
    """Return a line for a number: 3, 0.001, 2e-5 or 0,001. Other text is returned as it is, such as 1,500."""

    def read(text: str) -> object:
        if not text and option.path in ZEROS:
            return 0.0
        text = ascii_digits(text)
        try:
            number = float(text if GROUPED.fullmatch(text) else text.replace(",", "."))
        except ValueError:
            return text
        return int(text) if option.kind is OptionKind.WHOLE and text.isdecimal() else number

    def write(value: object) -> str:
        if value == 0 and option.path in ZEROS:
            return ""
        return plain_number(value) if isinstance(value, float) else str(value)

    field = LineField(option, read, write, wide=False)
    field.line.setPlaceholderText(ZEROS.get(option.path, ""))
    return field


class PairsField(LineField):
    """Several `name = value` with commas between them.

    Pairs that were set are returned as they are until the line is edited, as names may have commas too.
    """

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._pairs: dict[str, str] = {}

    def value(self) -> object:
        text = self.line.text()
        return dict(self._pairs) if text == self._pairs_text() else pairs(text)

    def set_value(self, value: object) -> None:
        self._pairs = {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}
        super().set_value(self._pairs_text())

    def _pairs_text(self) -> str:
        return ", ".join(f"{name} = {text}" for name, text in self._pairs.items())


LINES = 4


class _LinesEdit(QPlainTextEdit):
    """A text edit whose first line is level with the label of its row."""

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), QLineEdit().sizeHint().height())


class LinesField(Field):
    """A list of texts, one in each line."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.edit = _LinesEdit()
        self.edit.setTabChangesFocus(True)
        self.edit.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.edit.setPlaceholderText(_("One per line"))
        self.edit.setFixedHeight(LINES * self.edit.fontMetrics().lineSpacing() + 18)
        self._add_control(self.edit, stretch=True)
        self.edit.setAccessibleDescription(_("One per line"))
        self.edit.textChanged.connect(self.changed)

    def value(self) -> object:
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show texts; the same ones stay as they were typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts != self.value():
            with QSignalBlocker(self.edit):
                self.edit.setPlainText("\n".join(texts))


LARGEST_SPIN = 2**31 - 1
LARGEST_PERCENT = 999_999.0


class SteppedSpinBox(CalmSpinBox):
    """A spin box that accepts any whole number, so that a wrong one is reported, but steps between limits.

    Args:
        lowest: The lowest value that is stepped to.
        none: The value below the lowest that means none; None if there is no such value.
        word: Shown instead of `none`.
    """

    _word = ""  # Qt asks for the text before it is known

    def __init__(self, lowest: int, highest: int, none: int | None, word: str = "") -> None:
        super().__init__()
        self._lowest, self._highest, self._none, self._word = lowest, highest, none, word
        self.setRange(-LARGEST_SPIN, LARGEST_SPIN)
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        if text in ("", self._word) and self._none is not None:
            return QValidator.State.Acceptable, text, place
        return super().validate(text, place)

    def textFromValue(self, val: int) -> str:  # noqa: N802 - Qt's name
        return self._word if self._word and val == self._none else super().textFromValue(val)

    def valueFromText(self, text: str) -> int:  # noqa: N802 - Qt's name
        if self._none is not None and text in ("", self._word):
            return self._none
        return super().valueFromText(text)

    def stepBy(self, steps: int) -> None:  # noqa: N802 - Qt's name
        """Step as far as the limits, and from the lowest to none."""
        value = (self._lowest - 1 if self.value() == self._none else self.value()) + steps
        is_none = self._none is not None and value < self._lowest
        self.setValue(self._none if is_none else max(self._lowest, min(self._highest, value)))  # type: ignore[arg-type]
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:  # noqa: N802 - Qt's name
        is_lowest = self.value() == self._none or (self._none is None and self.value() <= self._lowest)
        return _steps_enabled(up=self.value() < self._highest, down=not is_lowest)


def _steps_enabled(*, up: bool, down: bool) -> QAbstractSpinBox.StepEnabledFlag:
    flag = QAbstractSpinBox.StepEnabledFlag
    return (flag.StepUpEnabled if up else flag.StepNone) | (flag.StepDownEnabled if down else flag.StepNone)


class WholeField(Field):
    """A whole number; an optional one shows "No limit" below its lowest value."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._none = -LARGEST_SPIN if option.optional else None
        highest = LARGEST_SPIN if option.maximum is None else int(option.maximum)
        lowest, word = int(option.minimum or 0), ZEROS.get(option.path, "")
        none = (0, word) if word else (self._none, "")
        self._spin = SteppedSpinBox(max(1, lowest) if word else lowest, highest, *none)
        if self._none is not None:
            self._spin.setSpecialValueText(_("No limit"))
        self._spin.setFixedWidth(number_width(self._spin))
        self._add_control(self._spin, stretch=False)
        self._spin.valueChanged.connect(self.changed)

    def value(self) -> object:
        number = self._spin.value()
        return None if number == self._none else number

    def set_value(self, value: object) -> None:
        """Show a number; the default instead of anything else."""
        shown = value if isinstance(value, int) else self.option.default
        with QSignalBlocker(self._spin):
            least = -LARGEST_SPIN if shown is None else max(1 - LARGEST_SPIN, int(shown))
            self._spin.setValue(min(LARGEST_SPIN, least))


class AutomaticField(WholeField):
    """An optional whole number that is chosen automatically; it shows which."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.show_offer(Offer())

    def show_offer(self, offer: Offer) -> Refused:
        text = _("Automatic")
        if offer.automatic is not None:
            text = _("Automatic: {value}").format(value=offer.automatic.value)
        self._spin.setSpecialValueText(text)
        return super().show_offer(offer)


class PercentSpinBox(CalmDoubleSpinBox):
    """Per cent, with a decimal only where there is one. It accepts any number, but steps between limits."""

    def __init__(self, lowest: float, highest: float) -> None:
        super().__init__()
        self._lowest, self._highest = lowest, highest
        self.setDecimals(1)
        self.setRange(-LARGEST_PERCENT, LARGEST_PERCENT)
        self.setSingleStep(5.0)
        self.setSuffix(in_percent(""))
        self.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToPreviousValue)

    def stepBy(self, steps: int) -> None:  # noqa: N802 - Qt's name
        self.setValue(max(self._lowest, min(self._highest, self.value() + steps * self.singleStep())))
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:  # noqa: N802 - Qt's name
        return _steps_enabled(up=self.value() < self._highest, down=self.value() > self._lowest)

    def textFromValue(self, val: float) -> str:  # noqa: N802 - Qt's name
        return super().textFromValue(val).removesuffix(".0")


class ShareField(Field):
    """A share of 0 to 1, shown in per cent."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._spin = PercentSpinBox(100 * (option.minimum or 0.0), 100 * (option.maximum or 1.0))
        self._spin.setFixedWidth(number_width(self._spin))
        self._add_control(self._spin, stretch=False)
        self._spin.valueChanged.connect(self.changed)

    def value(self) -> object:
        return round(self._spin.value() / 100, 6)

    def set_value(self, value: object) -> None:
        """Show a share; the default instead of what is no number or too large for a spin box."""
        is_share = isinstance(value, int | float) and -1e9 < value < 1e9
        with QSignalBlocker(self._spin):
            self._spin.setValue(100 * float(value if is_share else self.option.default))  # type: ignore[arg-type]


class SwitchField(Field):
    """A check box; on and grey, whatever its value, while another option implies it."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._box = QCheckBox()
        self._add_control(self._box, stretch=False)
        self._box.toggled.connect(self.changed)
        self._implied_over: bool | None = None  # its own value

    def value(self) -> object:
        return self._box.isChecked() if self._implied_over is None else self._implied_over

    def set_value(self, value: object) -> None:
        if self._implied_over is not None:
            self._implied_over = bool(value)
            return
        with QSignalBlocker(self._box):
            self._box.setChecked(bool(value))

    def show_implied(self, *, is_implied: bool) -> None:
        value, self._implied_over = self.value(), None
        self.set_value(value or is_implied)
        self._implied_over = bool(value) if is_implied else None
        self._box.setEnabled(not is_implied)

    def show_offer(self, offer: Offer) -> Refused:
        """Grey the box if it can't be checked; a checked one can be unchecked."""
        reason = offer.refusals.get("true", "")
        self._box.setEnabled(self._implied_over is None and (not reason or self._box.isChecked()))
        self._box.setToolTip(reason or self.option.help)
        return refused([Segment("true", "", refusal=reason)], self.option.title)


class SegmentedField(Field):
    """One of a few choices, side by side."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.segmented = Segmented(Offer().segments(option.choices))
        self._add_control(self.segmented, stretch=False)
        self.segmented.chosen.connect(self.changed)
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
    """One of many choices in a list; for an option without choices, those that the machine lists."""

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self.choices = ChoiceList(Offer().segments(option.choices))
        self._add_control(self.choices, stretch=True)
        self.choices.activated.connect(self.changed)

    def show_offer(self, offer: Offer) -> Refused:
        segments = offer.segments(self.option.choices)
        if segments:
            self.choices.set_choices(segments)
        return refused(segments, self.option.title)

    def value(self) -> object:
        return self.choices.currentData()

    def set_value(self, value: object) -> None:
        """Choose a value; one that is not in the list is added."""
        self.choices.choose(str(value))


PAUSE_MS = 2000
"""The path of a file is complete once nothing was typed for so long."""


class PathField(Field):
    """A path, or what the option takes instead (a Hub id, `builtin:digits`): typed, chosen or dropped.

    While it is typed its value is that of before: the beginning of a path may be another folder. It is complete with
    Return, when the focus leaves, when it was pasted whole, and after a pause if there is such a file.
    `menu` is that of its button, in which files and folders can be chosen. The dialog shows files of `filters`, and
    opens where its own path is, else beside that of the field `near`.
    """

    filters = ""
    near: "PathField | None" = None

    def __init__(self, option: Option, placeholder: str = "", *, only_folders: bool = False) -> None:
        super().__init__(option)
        self.line = PathLine(option.help)
        self.line.setPlaceholderText(placeholder)
        self.line.setClearButtonEnabled(option.optional)
        self._add_control(self.line, stretch=True)
        self.pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self.pause.timeout.connect(self._on_pause)
        self._complete = self._seen = ""
        self.line.textChanged.connect(self._on_text)
        self.line.returnPressed.connect(self.finish_typing)
        self.line.left.connect(self.finish_typing)
        button = QPushButton(_("Choose…"))
        button.setAccessibleName(_("Choose: {title}").format(title=option.title))
        if only_folders:
            button.clicked.connect(self._choose_folder)
        else:
            self.menu = ButtonMenu(button)
            self.menu.addAction(_("File…"), self._choose_file)
            self.menu.addAction(_("Folder…"), self._choose_folder)
        self._row.addWidget(button)

    def value(self) -> object:
        return None if not self._complete and self.option.optional else self._complete

    def set_value(self, value: object) -> None:
        self.line.show_path("" if value is None else str(value))
        self._seen = self.line.text()
        self._take()

    @property
    def is_typing(self) -> bool:
        """Whether what is typed is not the value yet."""
        return self._path() != self._complete

    def finish_typing(self) -> None:
        """Take what is typed as the value."""
        is_new = self.is_typing
        self._take()
        if is_new:
            self.changed.emit()

    def _take(self) -> None:
        self.pause.stop()
        self.remarked.emit("")
        self._complete = self._path()

    def _path(self) -> str:
        text = self.line.text().strip()
        return str(Path(text).expanduser()) if text.startswith("~") else text

    def _on_text(self, text: str) -> None:
        before, self._seen = self._seen, text
        is_pasted = abs(len(text) - len(before)) > 1 and text == QGuiApplication.clipboard().text()
        if is_pasted or not text or not self.line.isModified():
            self.finish_typing()
        else:
            self.remarked.emit(_("Press Return to use it"))
            self.pause.start()

    def _on_pause(self) -> None:
        if Path(self._path()).is_file():
            self.finish_typing()

    def _choose_file(self) -> None:
        self._on_chosen(Chooser.file(self, self.option.title, self.filters, self.start_folder()))

    def _choose_folder(self) -> None:
        self._on_chosen(Chooser.directory(self, self.option.title, self.start_folder()))

    def _on_chosen(self, path: str) -> None:
        if path:
            self.line.setText(path)

    def start_folder(self) -> str:
        path = Path(self.line.text())
        if path.is_absolute() and path.parent.is_dir() and not path.is_relative_to(RESOURCES):
            return str(path.parent)
        return Chooser.start() if self.near is None else self.near.start_folder()


MOST_LETTERS = 44
"""Room for choices side by side in the smallest window, in letters of their titles and gaps."""

LETTERS_OF_A_GAP = 4


def make_field(option: Option) -> Field:
    """Return the control that suits an option's kind and limits."""
    letters = sum(len(choice.title) + LETTERS_OF_A_GAP for choice in option.choices)
    fits_spin = option.maximum is None or option.maximum <= LARGEST_SPIN
    makers: dict[OptionKind, Callable[[Option], Field]] = {
        OptionKind.TEXT: LineField,
        OptionKind.TEXTS: texts_field,
        OptionKind.PAIRS: PairsField,
        OptionKind.WHOLE: WholeField if fits_spin else number_field,
        OptionKind.NUMBER: ShareField if option.is_share else number_field,
        OptionKind.SWITCH: SwitchField,
        OptionKind.CHOICE: SegmentedField if letters <= MOST_LETTERS else ComboField,
    }
    return makers[option.kind](option)
