"""The pictures of the card "Will it fit?": fitting tightly, not at all, being measured, measured, and its sheets."""

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QPushButton

from core.memory.forecast import Room
from gui.pages.new_run_fit import FitCard
from gui.screenshot_memory import GB, PLENTY, InventedMemory, measured, ran_out
from gui.window import MainWindow

AFTER_ANSWERS_MS = 1200
"""When the model has been looked at and traced, so that the card has all it can have."""

LITTLE = Room(free=round(2.35 * GB), ceiling=8 * GB)
TOO_LITTLE = Room(free=round(1.6 * GB), ceiling=4 * GB)


class FitShots:
    """Brings the New run page into each state of the card.

    Args:
        window: The window.
        memory: What is free, and what is measured.
        text_form: Fills the form with a text model and data.
    """

    def __init__(self, window: MainWindow, memory: InventedMemory, text_form: Callable[[], None]) -> None:
        self._window = window
        self._memory = memory
        self._text_form = text_form

    def shots(self) -> dict[str, Callable[[], None]]:
        """What brings the window to each picture, by its name."""
        return {
            "fit-tight": lambda: self._show(LITTLE),
            "fit-too-large": lambda: self._show(TOO_LITTLE),
            "fit-question": lambda: self._show(TOO_LITTLE, self._window.new_run.start),
            "fit-measuring": lambda: self._show(PLENTY, self._begin_measuring),
            "fit-measured": lambda: self._show(PLENTY, self._measure),
            "fit-ran-out": lambda: self._show(TOO_LITTLE, self._run_out),
            "fit-explained": lambda: self._show(PLENTY, lambda: self._press("What is this?")),
            "fit-sheet": lambda: self._show(TOO_LITTLE, lambda: self._press("Fit it for me…")),
        }

    def tidy(self) -> None:
        """As much room as ever, and nothing under way."""
        self._memory.room, self._memory.waits = PLENTY, False
        self._card.outlook.forget_measurements()

    @property
    def _card(self) -> FitCard:
        card = self._window.new_run.findChild(FitCard)
        assert isinstance(card, FitCard)
        return card

    def _show(self, room: Room, then: Callable[[], None] | None = None) -> None:
        self._memory.room = room
        self._text_form()
        QTimer.singleShot(AFTER_ANSWERS_MS, self._card.outlook.read_room)
        if then is not None:
            QTimer.singleShot(AFTER_ANSWERS_MS, then)

    def _begin_measuring(self) -> None:
        self._memory.waits = True
        self._card.outlook.measure()

    def _measure(self) -> None:
        case = self._card.outlook.case
        if case is not None:
            self._card.outlook.take_measurement(measured(case.options, PLENTY))

    def _run_out(self) -> None:
        case = self._card.outlook.case
        if case is not None:
            self._card.outlook.take_measurement(ran_out(case.options, TOO_LITTLE))

    def _press(self, text: str) -> None:
        for button in self._card.findChildren(QPushButton):
            if button.text() == text:
                button.click()
