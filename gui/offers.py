"""What this machine makes of an option: the values it refuses, those it lists, and what "automatic" comes to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QCoreApplication

from core.capabilities import ANY_OTHER, refusal
from core.catalogue import Choice, Kind, Option
from core.reports import DeviceReport, MachineReport, Settled
from gui.widgets.segmented import Segment

MOST_NAMES = 3
"""More names than this in one sentence are counted instead."""

ROOM_FOR_AUTOMATIC = 3
"""Where there are no more choices than this, "Automatic" has room to say what it comes to."""

ON = ("on", "true")
"""The values that stand for the option itself."""

_translate = QCoreApplication.translate


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
        """The choices as they are to be shown."""
        known = list(choices)
        brief = len(known) <= ROOM_FOR_AUTOMATIC
        return [
            Segment(
                choice.value,
                self._title(choice) if brief else choice.title,
                choice.help,
                self.refusals.get(choice.value, ""),
            )
            for choice in known
        ]

    def _title(self, choice: Choice) -> str:
        if choice.value != "auto" or self.automatic is None:
            return choice.title
        return f"{choice.title} ({self.automatic.value})"


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
        text = _translate("Offers", "{count} choices are not available here")
        return Refused(text.format(count=len(titles)), lines)
    text = _translate("Offers", "Not available here: {choices}")
    return Refused(text.format(choices=" · ".join(titles)), lines)


def _line(titles: list[str], reason: str) -> str:
    """A reason that is a sentence by itself stands alone; another begins with the choices it is about."""
    if reason[0].isupper():
        return reason
    return f"{titles[0]} {reason}" if len(titles) == 1 else f"{' · '.join(titles)}: {reason}"
