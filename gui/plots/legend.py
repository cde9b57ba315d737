"""What a chart reads right now, in one line beside its title: a coloured dot and a value for each line."""

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from gui.theme import Tokens
from gui.widgets.roles import Role, set_role


@dataclass(frozen=True)
class Reading:
    """One figure. `colour` names a field of `gui.theme.Tokens`; empty is plain text."""

    text: str
    colour: str = ""


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
        width = self.fontMetrics().horizontalAdvance
        for number, reading in enumerate(readings):
            room -= width(f"●  {reading.text}   " if reading.colour else f"{reading.text}   ")
            if room < 0 and number:
                return readings[:number]
        return readings


def _as_html(reading: Reading, tokens: Tokens) -> str:
    text = reading.text.replace(" ", "&nbsp;")
    if not reading.colour:
        return text
    return f'<span style="color:{getattr(tokens, reading.colour)}">●</span>&nbsp;{text}'
