"""What a chart reads right now, in one line beside its title: a coloured dot and a value for each line."""

from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from gui.theme import Tokens
from gui.widgets.roles import Role, set_role


@dataclass(frozen=True)
class Reading:
    """One figure. `colour` names a field of `gui.theme.Tokens`; empty is plain text.

    `name` is what stands for it where there is no room for all figures, so that no dot goes unexplained.
    """

    text: str
    colour: str = ""
    name: str = ""


def plain(readings: list[Reading]) -> str:
    """Readings as one line of text."""
    return " · ".join(reading.text for reading in readings)


class Legend(QLabel):
    """As many readings as there is room for, the first one at least. It never makes its chart wider."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setMinimumWidth(1)
        set_role(self, Role.MUTED)

    def show_readings(self, readings: list[Reading], room: int, tokens: Tokens) -> bool:
        """Write them; returns whether what stands there has changed.

        Args:
            readings: In the order of their weight.
            room: Pixels at hand.
            tokens: The colours in force.
        """
        html = "&nbsp;&nbsp; ".join(_as_html(reading, tokens) for reading in self._fitting(readings, room))
        if html == self.text():
            return False
        self.setText(html)
        return True

    def _fitting(self, readings: list[Reading], room: int) -> list[Reading]:
        """All of them; else those with a name by it alone; else those that there is room for."""
        widths = [self._width(reading) for reading in readings]
        if sum(widths) <= room:
            return readings
        named = [Reading(reading.name, reading.colour) for reading in readings if reading.name]
        if len(named) > 1 and _count_fitting(widths, room) < len(named):
            readings, widths = named, [self._width(reading) for reading in named]
        return readings[: max(1, _count_fitting(widths, room))]

    def _width(self, reading: Reading) -> int:
        text = f"●  {reading.text}   " if reading.colour else f"{reading.text}   "
        return self.fontMetrics().horizontalAdvance(text)


def _count_fitting(widths: list[int], room: int) -> int:
    return sum(total <= room for total in accumulate(widths))


def _as_html(reading: Reading, tokens: Tokens) -> str:
    text = reading.text.replace(" ", "&nbsp;")
    if not reading.colour:
        return text
    return f'<span style="color:{getattr(tokens, reading.colour)}">●</span>&nbsp;{text}'
