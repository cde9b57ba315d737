"""The card "Will it fit?": the memory a run takes beside what is free, how that is known, and what to do about it."""

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.memory.forecast import Forecast, Verdict
from core.memory.ladder import Remedy
from gui.pages.new_run_fit_explained import ExplainedSheet
from gui.pages.new_run_fit_ladder import LadderView
from gui.pages.new_run_fit_lookup_line import LookupLine
from gui.pages.new_run_fit_measure import MeasureLine, TimeBox
from gui.pages.new_run_fit_outlook import FitOutlook
from gui.pages.new_run_fit_words import bar_limits, bar_parts, basis_help, basis_words, headline, saving_words
from gui.theme import SPACING, Theme
from gui.widgets.card import Card
from gui.widgets.parts_bar import PartsBar
from gui.widgets.roles import Role, set_role

ROOM_MS = 3000
"""How often it is looked how much memory is free."""

SHORT = (Verdict.TIGHT, Verdict.TOO_LARGE)


class FitCard(Card):
    """Shows what is known (`outlook`); reads free memory while it can be seen.

    Signals:
        remedy_chosen: The `core.memory.ladder.Remedy` to apply.
        fit_pressed: The person wants Hone to find what fits.
        measure_all_pressed: The person wants every remedy measured.
        hours_chosen: How many hours the run may take.

    Args:
        theme: The colours.
        outlook: What is known.
        parent: Qt's parent.
    """

    remedy_chosen = Signal(object)
    fit_pressed = Signal()
    measure_all_pressed = Signal()
    hours_chosen = Signal(float)

    def __init__(self, theme: Theme, outlook: FitOutlook, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.set_title(self.tr("Will it fit?"))
        self.outlook = outlook
        self._was_short = False
        self._verdict, self._figures = QLabel(), _wrapping(Role.MUTED)
        self._basis = QLabel()
        set_role(self._basis, Role.MUTED)
        self.set_trailing(self._basis)
        self._bar = PartsBar(theme, self.tr("Memory this run takes"))
        self._note = _wrapping(Role.HINT)
        self._missing = _wrapping(Role.MUTED)
        self._lookup = LookupLine()
        self._measure = MeasureLine()
        self._time_box = TimeBox()
        self._ladder = LadderView()
        self._explain = QPushButton(self.tr("What is this?"))
        self._known = QWidget()
        self._lay_out()
        self._connect()
        self._timer = QTimer(self)
        self._timer.setInterval(ROOM_MS)
        self._timer.timeout.connect(outlook.read_room)
        self.show_outlook()

    @property
    def headline(self) -> str:
        """What is said above the bar."""
        return f"{self._verdict.text()} · {self._figures.text()}" if self.outlook.forecast else ""

    def show_outlook(self) -> None:
        """Show what is known now."""
        forecast = self.outlook.forecast
        self._known.setVisible(forecast is not None)
        self._missing.setVisible(forecast is None)
        self._missing.setText(self.outlook.missing)
        self._lookup.show_state(self.outlook.lookup)
        self._basis.setVisible(forecast is not None)
        if forecast is not None:
            self._show_forecast(forecast)
            self._show_ladder()
        self._measure.show_state(self.outlook)
        measured = self.outlook.measured
        can_plan = measured is not None and not measured.ran_out and measured.pace is not None
        self._time_box.setVisible(can_plan)

    def showEvent(self, event: QShowEvent) -> None:
        """Look at the free memory from now on; a window that was minimised goes on as it was."""
        super().showEvent(event)
        if not event.spontaneous():
            self.outlook.resume()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody sees it: look no longer."""
        super().hideEvent(event)
        self._timer.stop()

    def _show_forecast(self, forecast: Forecast) -> None:
        outlook = self.outlook
        said = headline(forecast, outlook.ran_out)
        self._verdict.setText(said.verdict)
        set_role(self._verdict, said.role)
        self._figures.setText(said.figures)
        measured = outlook.measured
        self._basis.setText(basis_words(forecast.basis, measured.at if measured else None))
        self._basis.setToolTip(" ".join((basis_help(forecast.basis), *forecast.notes)))
        parts = bar_parts(forecast.parts, is_undivided=outlook.is_undivided)
        self._bar.show_parts(parts, bar_limits(forecast.room))
        self._note.setText(outlook.note)
        self._note.setVisible(bool(outlook.note))

    def _show_ladder(self) -> None:
        """Unfold it when memory becomes short, fold it when that is over; in between the person decides."""
        is_short = self.outlook.verdict in SHORT
        if is_short != self._was_short:
            self._was_short = is_short
            self._ladder.open(is_short)
        self._ladder.show_verdict(self.outlook.verdict, can_measure=self.outlook.can_measure)
        if self._ladder.is_open:
            self._fill_ladder()

    def _fill_ladder(self) -> None:
        self._ladder.show_remedies(self.outlook.remedies(), self._worth)

    def _worth(self, remedy: Remedy) -> str:
        outlook = self.outlook
        return saving_words(remedy, outlook.verdict, outlook.verdict_after(remedy), outlook.gain(remedy))

    def _explain_parts(self) -> None:
        case, forecast = self.outlook.case, self.outlook.forecast
        if case is not None and forecast is not None and case.model.shape is not None:
            parts = self.outlook.tools.explain(case.options, case.model.shape, case.device, forecast)
            ExplainedSheet(forecast, () if self.outlook.is_undivided else parts, self).open()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._verdict, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._figures, 1, Qt.AlignmentFlag.AlignBottom)
        set_role(self._explain, Role.LINK)
        self._explain.setToolTip(self.tr("What each part is, and how Hone counts it"))
        known = QVBoxLayout(self._known)
        known.setContentsMargins(0, 0, 0, 0)
        known.setSpacing(SPACING)
        known.addLayout(line)
        known.addWidget(self._bar)
        known.addWidget(self._note)
        known.addWidget(self._measure)
        known.addWidget(self._time_box)
        known.addWidget(self._ladder)
        self._ladder.add_trailing(self._explain)
        self.body.addWidget(self._known)
        self.body.addWidget(self._missing)
        self.body.addWidget(self._lookup)

    def _connect(self) -> None:
        self.outlook.changed.connect(self.show_outlook)
        self._lookup.fetch_pressed.connect(self.outlook.lookup.fetch)
        self._lookup.cancel_pressed.connect(self.outlook.lookup.cancel)
        self._measure.measure_pressed.connect(self.outlook.measure)
        self._measure.cancel_pressed.connect(self.outlook.cancel)
        self._time_box.hours_chosen.connect(self.hours_chosen)
        self._ladder.remedy_chosen.connect(self.remedy_chosen)
        self._ladder.fit_pressed.connect(self.fit_pressed)
        self._ladder.measure_all_pressed.connect(self.measure_all_pressed)
        self._ladder.opened.connect(self._fill_ladder)
        self._explain.clicked.connect(self._explain_parts)


def _wrapping(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label
