"""The line below the memory bar: the button "Measure", what a dry run does, how long the run will take, a time box."""

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from gui.numbers import duration
from gui.pages.new_run_fit_outlook import FitOutlook
from gui.pages.new_run_fit_words import time_words
from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmDoubleSpinBox
from gui.widgets.roles import Role, set_role

MOST_HOURS = 999.0
FIRST_HOURS = 1.0
WIDEST_HOURS = "999.0 h"

_translate = QCoreApplication.translate


class MeasureLine(QWidget):
    """Starts a dry run and gives it up; once it has ended, says how long the run will take.

    Signals:
        measure_pressed: The person wants to know.
        cancel_pressed: The person has waited long enough.
    """

    measure_pressed = Signal()
    cancel_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._button = QPushButton(self.tr("Measure"))
        self._button.clicked.connect(self._press)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING + 2)
        row.addWidget(self._button)
        row.addWidget(self._words, 1)
        self._is_running = False

    @property
    def button(self) -> QPushButton:
        """Starts, and while it runs gives up."""
        return self._button

    @property
    def words(self) -> str:
        """What stands beside the button."""
        return self._words.text()

    def show_state(self, outlook: FitOutlook) -> None:
        """Show what is under way, or what came of it."""
        self._is_running = outlook.measuring.is_running
        self._button.setText(self._button_words(outlook))
        self._button.setEnabled(self._is_running or outlook.can_measure)
        self._button.setToolTip(self._tip(outlook))
        self._words.setText(self._state_words(outlook))

    def _state_words(self, outlook: FitOutlook) -> str:
        measured, case = outlook.measured, outlook.case
        if self._is_running:
            spent = duration(outlook.measuring.seconds)
            return self.tr("{doing}… {spent}").format(doing=_doing(outlook), spent=spent)
        if measured is not None and measured.ran_out:
            return ""
        if case is not None and not case.is_complete:
            return self.tr("Can be measured once the weights are here: the first run fetches them")
        if measured is None or case is None or measured.measurement.step_seconds is None:
            return self.tr("Trains a few steps for real, to know for sure")
        found = measured.measurement
        whole = measured.run_seconds(case.steps)
        return time_words(measured.measurement.step_seconds, whole, found.compile_seconds)

    def _button_words(self, outlook: FitOutlook) -> str:
        if self._is_running:
            return self.tr("Cancel")
        return self.tr("Measure") if outlook.measured is None else self.tr("Measure again")

    def _tip(self, outlook: FitOutlook) -> str:
        if self._is_running:
            return self.tr("Give up measuring")
        if outlook.case is not None and not outlook.case.is_ready:
            return self.tr("First mend what stands under Checks")
        if outlook.case is not None and not outlook.case.is_complete:
            return self.tr("It trains the model itself, which isn't on this computer yet")
        return self.tr("{doing}, keeping nothing: how much memory and time the run takes").format(
            doing=_doing(outlook)
        )

    def _press(self) -> None:
        (self.cancel_pressed if self._is_running else self.measure_pressed).emit()


class TimeBox(QWidget):
    """ "I have 3 hours": sets after how many steps the run stops.

    Signals:
        hours_chosen: The hours there are.
    """

    hours_chosen = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        before = QLabel(self.tr("I have"))
        set_role(before, Role.MUTED)
        self.hours = CalmDoubleSpinBox()
        self.hours.setDecimals(1)
        self.hours.setRange(0.1, MOST_HOURS)
        self.hours.setSingleStep(0.5)
        self.hours.setValue(FIRST_HOURS)
        self.hours.setSuffix(self.tr(" h"))
        self.hours.setFixedWidth(self.hours.fontMetrics().horizontalAdvance(WIDEST_HOURS) + 5 * SPACING)
        self.hours.setAccessibleName(self.tr("Hours that the run may take"))
        before.setBuddy(self.hours)
        self.button = QPushButton(self.tr("Set steps"))
        self.button.setToolTip(
            self.tr("Stop after as many steps as fit into that time, by what was measured")
        )
        set_role(self.button, Role.LINK)
        self.button.clicked.connect(self._tell)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for widget in (before, self.hours, self.button):
            row.addWidget(widget)
        row.addStretch(1)

    def _tell(self) -> None:
        self.hours_chosen.emit(self.hours.value())


def _doing(outlook: FitOutlook) -> str:
    """What a dry run does, in words."""
    if outlook.case is not None and outlook.case.options.task.reads_text:
        return _translate("Fit", "Training a few steps on your longest texts")
    return _translate("Fit", "Training a few steps on your images")
