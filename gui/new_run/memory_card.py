"""The line below the memory bar: the button "Measure", what a dry run does, how long the run will take, a time box."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.format import about, duration, memory, moment, step_time, three_figures
from core.memory.explain import PartExplained
from core.memory.model import Basis, Forecast, Parts, Room, Verdict
from core.memory.remedies import Remedy
from core.services import hub
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.memory_ladder import LadderView
from gui.new_run.memory_state import FitOutlook, Gain, HubLookup
from gui.widgets.bars import Limit, Part, PartsBar
from gui.widgets.cards import Card
from gui.widgets.inputs import CalmDoubleSpinBox
from gui.widgets.layout import PageScroll
from gui.widgets.tables import Group, KeyValue, Row


class LookupLine(QWidget):
    """Starts a look-up and gives it up; says what is fetched for it, or why that didn't work.

    Signals:
        fetch_pressed: The person wants to know the model's size.
        cancel_pressed: The person has waited long enough.
    """

    fetch_pressed = Signal()
    cancel_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = QPushButton()
        self.button.clicked.connect(self._press)
        self._words = QLabel()
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING + 2)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._words, 1)
        self._is_fetching = False

    @property
    def words(self) -> str:
        return self._words.text()

    def show_state(self, lookup: HubLookup) -> None:
        """Show what can be looked up, what is under way, or what came of it."""
        self._is_fetching = lookup.is_fetching
        self.setVisible(bool(lookup.source))
        self.button.setText(_("Cancel") if self._is_fetching else _("Look up its size"))
        self._words.setText(self._state_words(lookup))
        set_role(self._words, Role.PROBLEM if lookup.failure else Role.HINT)

    def _state_words(self, lookup: HubLookup) -> str:
        failure = lookup.failure
        if self._is_fetching:
            return _("Fetching {file} from {host}…").format(file=hub.CONFIG, host=hub.host())
        if failure is not None:
            return f"{failure.title}. {failure.detail}"
        words = _("Fetches only what describes the model, from {host}: {file}, a few KB")
        return words.format(host=hub.host(), file=hub.CONFIG)

    def _press(self) -> None:
        (self.cancel_pressed if self._is_fetching else self.fetch_pressed).emit()


JUST_NOW = 5 * 60.0
"""Seconds for which something was measured "just now"."""

SAME_TIME = 0.015
"""A step slower by less is no slower."""


@dataclass(frozen=True)
class Headline:
    """The answer in a word or two, the figures behind it, and how loud it is."""

    verdict: str
    figures: str
    role: Role


def headline(forecast: Forecast, ran_out: bool = False) -> Headline:
    """Whether it fits.

    Args:
        forecast: What is known, beside the room there is now.
        ran_out: Whether a dry run has run out of memory, so that the figures are those of that moment.
    """
    total, room = forecast.parts.total, forecast.room
    if ran_out:
        words = _("memory ran out at {size}").format(size=memory(total))
        return Headline(_("Doesn't fit"), words, Role.VERDICT_BAD)
    if room is None:
        words = _("how much is free can't be told here")
        return Headline(_("Takes {size}").format(size=memory(total)), words, Role.VERDICT)
    known = _("{size} of {free} free").format(size=memory(total), free=memory(room.free))
    match forecast.verdict:
        case Verdict.TOO_LARGE:
            over = _("{size}, that is {over} too much")
            words = over.format(size=memory(total), over=memory(total - room.free))
            return Headline(_("Doesn't fit"), words, Role.VERDICT_BAD)
        case Verdict.TIGHT:
            return Headline(_("Fits tightly"), known, Role.VERDICT_TIGHT)
        case _:
            return Headline(_("Fits"), known, Role.VERDICT_GOOD)


def basis_words(basis: Basis, measured_at: float | None = None) -> str:
    match basis:
        case Basis.FORMULA:
            return _("forecast")
    if measured_at is None or time.time() - measured_at < JUST_NOW:
        return _("measured just now")
    return _("measured at {clock}").format(clock=clock(measured_at))


def basis_help(basis: Basis) -> str:
    match basis:
        case Basis.FORMULA:
            return _(
                "Counted from the size of the model and your choices, without trying anything. It changes at once as "
                "you choose.",
            )
        case Basis.MEASURED:
            return _("A few real steps were trained, and this is the most that they held.")


def undivided_words() -> str:
    """What the only figure of a dry run that was ended from outside is."""
    return _("What the dry run held when it was ended; nobody could look inside.")


def bar_parts(parts: Parts, *, is_undivided: bool = False) -> list[Part]:
    """The parts as the bar shows them; buffers and overhead are one.

    Args:
        parts: The parts.
        is_undivided: Whether only the whole is known.
    """
    if is_undivided:
        return [Part(_("held in all"), parts.total, "run", undivided_words())]
    return [
        Part(
            _("weights"),
            parts.weights,
            "run",
            _("The numbers the model consists of."),
        ),
        Part(
            _("gradients"),
            parts.gradients,
            "gradients",
            _("For each weight that learns, which way it should move."),
        ),
        Part(
            _("optimizer"),
            parts.optimizer,
            "optimizer",
            _("What the optimizer remembers of the steps before."),
        ),
        Part(
            _("activations"),
            parts.activations,
            "activations",
            _("What each layer computed for this batch, kept until the gradients are known."),
        ),
        Part(
            _("overhead"),
            parts.overhead + parts.temporary,
            "others",
            _(
                "{temporary} of temporary buffers, and {overhead} of overhead: PyTorch itself, its libraries, and "
                "memory that it holds back without using it.",
            ).format(temporary=memory(parts.temporary), overhead=memory(parts.overhead)),
        ),
    ]


def bar_limits(room: Room | None) -> list[Limit]:
    if room is None:
        return []
    free = _("{size} free now").format(size=memory(room.free))
    ceiling = _("{size} in all").format(size=memory(room.ceiling))
    return [Limit(free, room.free, "text"), Limit(ceiling, room.ceiling, "bad")]


def saving_words(remedy: Remedy, now: Verdict, after: Verdict, gain: Gain | None = None) -> str:
    """What a remedy is worth, and what it costs: `−1.20 GB, then it fits · about 30 % slower`.

    Args:
        remedy: The remedy.
        now: Whether it fits as it is.
        after: Whether it fits with it.
        gain: What was measured of it, which goes before what is forecast.
    """
    if not remedy.changes:
        return remedy.help
    if gain is not None and gain.ran_out:
        return _("memory ran out with it, too, when that was measured")
    saved = _saved_words(remedy, gain)
    if now is Verdict.TOO_LARGE and after in (Verdict.FITS, Verdict.TIGHT):
        saved = _("{saved}, then it fits").format(saved=saved)
    if now is Verdict.TIGHT and after is Verdict.FITS:
        saved = _("{saved}, then with room to spare").format(saved=saved)
    if gain is not None and gain.slower is not None:
        return f"{saved} · {_measured_slower_words(gain.slower)}"
    return f"{saved} · {slower_words(remedy.slower)}"


def _saved_words(remedy: Remedy, gain: Gain | None) -> str:
    if gain is None:
        return _("−{size}").format(size=memory(remedy.saves))
    if gain.saves is None:
        return _("{size} in all measured").format(size=memory(gain.takes))
    words = _("−{size} measured") if gain.saves >= 0 else _("+{size} measured")
    return words.format(size=memory(abs(gain.saves)))


def slower_words(factor: float) -> str:
    """What a factor of the time of a step means, as far as a forecast can know it: `about 30 % slower`."""
    if abs(factor - 1) < SAME_TIME:
        return _("no slower")
    if factor >= 2:
        return _("about {factor} times as long").format(factor=three_figures(factor))
    percent = max(1, round(abs(factor - 1) * 100))
    if percent > 5:
        percent = 5 * round(percent / 5)
    words = _("about {percent} % slower") if factor > 1 else _("about {percent} % faster")
    return words.format(percent=percent)


def _measured_slower_words(factor: float) -> str:
    """The same, measured: `12 % slower measured`."""
    percent = round(abs(factor - 1) * 100)
    if abs(factor - 1) < SAME_TIME:
        return _("no slower measured")
    if factor >= 2:
        return _("{factor} times as long measured").format(factor=three_figures(factor))
    words = _("{percent} % slower measured") if factor > 1 else _("{percent} % faster measured")
    return words.format(percent=percent)


def time_words(step_seconds: float, run_seconds: float | None, compile_seconds: float) -> str:
    """How long it takes: `420 ms a step · about 12 min, done at 14:35`; compiling is told apart."""
    parts = [_("{time} a step").format(time=step_time(step_seconds))]
    if run_seconds is not None:
        words = _("about {span}, done at {clock}")
        parts.append(words.format(span=about(run_seconds), clock=clock(time.time() + run_seconds)))
    if compile_seconds >= 1:
        parts.append(_("{span} of it to compile").format(span=about(compile_seconds)))
    return " · ".join(parts)


def clock(unix_seconds: float) -> str:
    """A time of day: `14:35`; with its date where that is another day."""
    then, now = time.localtime(unix_seconds), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return moment(unix_seconds)


EXPLAINED_SIZE = (680, 600)
MOST_LAYERS = 8


class ExplainedSheet(QDialog):
    """What a forecast consists of.

    Args:
        forecast: What is shown.
        parts: Its parts, explained; none: only the whole is known.
    """

    def __init__(
        self, forecast: Forecast, parts: Sequence[PartExplained], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("What takes the memory"))
        self.resize(*EXPLAINED_SIZE)
        words = QLabel(" ".join((basis_help(forecast.basis), *forecast.notes)))
        words.setWordWrap(True)
        self.rows = KeyValue()
        self.rows.set_groups(groups(forecast, parts))
        content = QWidget()
        body = QVBoxLayout(content)
        body.setContentsMargins(0, 0, SPACING, 0)
        body.addWidget(self.rows)
        body.addStretch(1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(PageScroll(content), 1)
        layout.addWidget(buttons)


def groups(forecast: Forecast, parts: Sequence[PartExplained]) -> list[Group]:
    explained = tuple(Row(part.title, f"{memory(part.bytes)}. {part.sentence}", _how(part)) for part in parts)
    whole = Row(_("Held in all"), f"{memory(forecast.parts.total)}. {undivided_words()}")
    found = [Group(_("Parts"), explained or (whole,))]
    if forecast.layers:
        layers = tuple(Row(layer.name, memory(layer.bytes)) for layer in forecast.layers[:MOST_LAYERS])
        found.append(Group(_("Largest layers"), layers))
    return found


def _how(part: PartExplained) -> str:
    source = _("Source: {source}").format(source=part.source) if part.source else ""
    return "\n".join(line for line in (part.formula, source) if line)


MOST_HOURS = 999.0
FIRST_HOURS = 1.0
WIDEST_HOURS = "999.0 h"


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
        self._button = QPushButton(_("Measure"))
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
        return self._button

    @property
    def words(self) -> str:
        return self._words.text()

    def show_state(self, outlook: FitOutlook) -> None:
        self._is_running = outlook.measuring.is_running
        self._button.setText(self._button_words(outlook))
        self._button.setEnabled(self._is_running or outlook.can_measure)
        self._button.setToolTip(self._tip(outlook))
        self._words.setText(self._state_words(outlook))

    def _state_words(self, outlook: FitOutlook) -> str:
        measured, case = outlook.measured, outlook.case
        if self._is_running:
            spent = duration(outlook.measuring.seconds)
            return _("{doing}… {spent}").format(doing=_doing(outlook), spent=spent)
        if measured is not None and measured.ran_out:
            return ""
        if case is not None and not case.is_complete:
            return _("Can be measured once the weights are here: the first run fetches them")
        if measured is None or case is None or measured.measurement.step_seconds is None:
            return _("Trains a few steps for real, to know for sure")
        found = measured.measurement
        whole = measured.run_seconds(case.steps)
        return time_words(measured.measurement.step_seconds, whole, found.compile_seconds)

    def _button_words(self, outlook: FitOutlook) -> str:
        if self._is_running:
            return _("Cancel")
        return _("Measure") if outlook.measured is None else _("Measure again")

    def _tip(self, outlook: FitOutlook) -> str:
        if self._is_running:
            return _("Give up measuring")
        if outlook.case is not None and not outlook.case.is_ready:
            return _("First mend what stands under Checks")
        if outlook.case is not None and not outlook.case.is_complete:
            return _("It trains the model itself, which isn't on this computer yet")
        return _("{doing}, keeping nothing: how much memory and time the run takes").format(
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
        before = QLabel(_("I have"))
        set_role(before, Role.MUTED)
        self.hours = CalmDoubleSpinBox()
        self.hours.setDecimals(1)
        self.hours.setRange(0.1, MOST_HOURS)
        self.hours.setSingleStep(0.5)
        self.hours.setValue(FIRST_HOURS)
        self.hours.setSuffix(_(" h"))
        self.hours.setFixedWidth(self.hours.fontMetrics().horizontalAdvance(WIDEST_HOURS) + 5 * SPACING)
        self.hours.setAccessibleName(_("Hours that the run may take"))
        before.setBuddy(self.hours)
        self.button = QPushButton(_("Set steps"))
        self.button.setToolTip(_("Stop after as many steps as fit into that time, by what was measured"))
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
    if outlook.case is not None and outlook.case.options.task.reads_text:
        return _("Training a few steps on your longest texts")
    return _("Training a few steps on your images")


ROOM_MS = 3000
"""How often it is looked how much memory is free."""

SHORT = (Verdict.TIGHT, Verdict.TOO_LARGE)


class FitCard(Card):
    """Shows what is known (`outlook`); reads free memory while it can be seen.

    Signals:
        remedy_chosen: The `core.memory.remedies.Remedy` to apply.
        fit_pressed: The person wants Hone to find what fits.
        measure_all_pressed: The person wants every remedy measured.
        hours_chosen: How many hours the run may take.

    Args:
        outlook: What is known.
    """

    remedy_chosen = Signal(object)
    fit_pressed = Signal()
    measure_all_pressed = Signal()
    hours_chosen = Signal(float)

    def __init__(self, theme: Theme, outlook: FitOutlook, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.set_title(_("Will it fit?"))
        self.outlook = outlook
        self._was_short = False
        self._verdict, self._figures = QLabel(), _wrapping_label(Role.MUTED)
        self._basis = QLabel()
        set_role(self._basis, Role.MUTED)
        self.set_trailing(self._basis)
        self._bar = PartsBar(theme, _("Memory this run takes"))
        self._note = _wrapping_label(Role.HINT)
        self._missing = _wrapping_label(Role.MUTED)
        self._lookup = LookupLine()
        self._measure = MeasureLine()
        self._time_box = TimeBox()
        self._ladder = LadderView()
        self._explain = QPushButton(_("What is this?"))
        self._known = QWidget()
        self._lay_out()
        self._connect()
        self._timer = QTimer(self)
        self._timer.setInterval(ROOM_MS)
        self._timer.timeout.connect(outlook.read_room)
        self.show_outlook()

    @property
    def headline(self) -> str:
        return f"{self._verdict.text()} · {self._figures.text()}" if self.outlook.forecast else ""

    def show_outlook(self) -> None:
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
        self._explain.setToolTip(_("What each part is, and how Hone counts it"))
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


def _wrapping_label(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label
