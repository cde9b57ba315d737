"""The card "Will it fit?": the memory a run takes next to what is free, how that is known, and what needs less."""

import math
import re
import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent, QValidator
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from core.base.formats import (
    about,
    duration,
    in_line,
    memory,
    moment,
    paragraph,
    step_time,
    three_figures,
    whole_percent,
)
from core.base.language import _
from core.memory.model import BUSY, Basis, FitVerdict, Forecast, Parts
from core.memory.remedies import Remedy
from core.options import RunOptions, hub
from core.options.choices import Method, Task
from core.options.method_rules import steps_of
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.data_views import cut_by
from gui.new_run.memory_state import MemoryState, PastMeasurement
from gui.widgets.bars import Part, PartsBar
from gui.widgets.cards import Card
from gui.widgets.inputs import CalmDoubleSpinBox
from gui.widgets.labels import link_button, meanings_in, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, clear, fill, hbox, vbox

SAME_TIME = 0.015
"""Smaller changes of the step time, as a share, are not shown."""


def is_elsewhere(state: MemoryState) -> bool:
    """Whether the memory is another computer's, of which it isn't known how much is free."""
    return state.case is not None and bool(state.case.options.device.computers)


def headline(state: MemoryState, forecast: Forecast) -> tuple[str, str, Role]:
    """Return the verdict in a word or two, its figures, and the role of the word."""
    total, room = forecast.parts.total, forecast.room
    size = memory(total)
    if state.ran_out:
        return _("Doesn't fit"), _("memory ran out at {size}").format(size=size), Role.VERDICT_BAD
    if room is None:
        return _("Takes {size}").format(size=size), _("the free memory isn't known"), Role.VERDICT
    text, is_least = _("{size} of {free} free"), state.case is not None and state.case.is_listed
    if state.is_upper_bound or is_least:
        size = (_("at least {size}") if is_least else _("at most {size}")).format(size=size)
        text = _("{size}, {free} free")
    if is_elsewhere(state):
        text = _("{size} of {total} in total")
    text = text.format(size=size, free=memory(room.free), total=memory(room.ceiling))
    match state.verdict:
        case FitVerdict.TOO_LARGE if state.is_upper_bound:
            return _("May not fit"), text, Role.VERDICT_TIGHT
        case FitVerdict.TOO_LARGE:
            text = _("{size}, that is {over} too much").format(size=size, over=memory(total - room.free))
            return _("Doesn't fit"), text, Role.VERDICT_BAD
        case FitVerdict.TIGHT if not is_least:
            return _("Fits tightly"), text, Role.VERDICT_TIGHT
        case FitVerdict.UNKNOWN:
            return _("Reading lengths…"), text, Role.VERDICT
    if is_least:
        return _("May fit"), text, Role.VERDICT
    # Translators: the run fits into the memory
    return _("Fits"), text, Role.VERDICT_GOOD


def basis_text(state: MemoryState) -> str:
    if state.measured is None:
        return _("estimate")
    if state.pair:
        return _("run 2 measured")
    return _("measured at {clock}").format(clock=clock(state.measured.at))


def basis_help(state: MemoryState, forecast: Forecast) -> str:
    text = _("Estimated from the size of the model and your settings; it changes as you change them.")
    if state.case is not None and state.case.is_listed:
        text = _("Estimated from the number of parameters alone; activations take more memory.")
    elif forecast.basis is Basis.MEASURED:
        text = _("The peak of a few real training steps.")
    elif state.is_upper_bound:
        text = _("Assumes that every example has the maximum length; shorter examples take less memory.")
    return paragraph(state.pair, text, *forecast.notes)


def undivided_text() -> str:
    return _("Memory of the test run when it ended. How it was divided isn't known.")


def bar_parts(parts: Parts, *, is_undivided: bool = False) -> list[Part]:
    """Return the parts of the bar, buffers and overhead as one; undivided if only the whole is known."""
    if is_undivided:
        return [Part(_("this run"), parts.total, "run", undivided_text())]
    overhead = _(
        "{temporary} of temporary buffers and {overhead} of overhead: libraries, and memory that is kept in reserve."
    ).format(temporary=memory(parts.temporary), overhead=memory(parts.overhead))
    return [
        Part(_("weights"), parts.weights, "run", meanings_in(_("weights"))),
        Part(_("gradients"), parts.gradients, "gradients", meanings_in(_("gradients"))),
        Part(_("optimizer"), parts.optimizer, "optimizer", meanings_in(_("optimizer"))),
        Part(_("activations"), parts.activations, "activations", meanings_in(_("activations"))),
        Part(_("overhead"), parts.overhead + parts.temporary, "others", overhead),
    ]


def saving_text(
    remedy: Remedy,
    now: FitVerdict,
    after: FitVerdict,
    without: PastMeasurement | None = None,
    measured: PastMeasurement | None = None,
) -> str:
    """Return what a remedy saves and costs: `−1.20 GB, then it fits · 30 % slower`.

    Args:
        now: The verdict without it.
        after: The verdict with it.
        without: What was measured without it.
        measured: What was measured with it; goes before the forecast.
    """
    if not remedy.changes:
        return remedy.help
    if measured is not None and measured.ran_out:
        return _("memory ran out with this as well (measured)")
    slower: float | None = remedy.slower
    if measured is None:
        saved = _("−{size}").format(size=memory(remedy.saves))
    elif without is None or without.ran_out:
        saved, slower = _("{size} in total").format(size=memory(measured.measurement.peak)), None
    else:
        saves = without.measurement.peak - measured.measurement.peak
        saved = (_("−{size}") if saves >= 0 else _("+{size}")).format(size=memory(abs(saves)))
        seconds, before = measured.measurement.step_seconds, without.measurement.step_seconds
        slower = seconds / before if seconds and before else None
    if now is FitVerdict.TOO_LARGE and after in (FitVerdict.FITS, FitVerdict.TIGHT):
        saved = _("{saved}, then it fits").format(saved=saved)
    if now is FitVerdict.TIGHT and after is FitVerdict.FITS:
        saved = _("{saved}, then with room to spare").format(saved=saved)
    parts = [saved] if slower is None else [saved, slower_text(slower, is_measured=measured is not None)]
    text = in_line(*parts)
    return text if measured is None else _("{text} (measured)").format(text=text)


def slower_text(factor: float, *, is_measured: bool) -> str:
    """Return what a factor of the step time means: `12 % slower`; a forecast in steps of 5 %."""
    percent = max(1, round(abs(factor - 1) * 100))
    if not is_measured and percent > 5:
        percent = 5 * round(percent / 5)
    if abs(factor - 1) < SAME_TIME:
        return _("no slower")
    if factor >= 2:
        return _("{factor} times as long").format(factor=three_figures(factor))
    text = _("{percent} % slower") if factor > 1 else _("{percent} % faster")
    return text.format(percent=percent)


def time_text(state: MemoryState) -> str:
    """Return how long the run takes and how that is known, or how it can be."""
    case, runs = state.case, state.expected
    known = [seconds for seconds, _title in runs if seconds is not None]
    if known and case is not None:
        by_past_run = next((words for _seconds, words in runs if words), "")
        basis = _("as measured, evaluations estimated") if case.validation else _("as measured")
        if case.validation is None:
            basis = _("as measured; evaluations are not included")
        basis = by_past_run or basis
        amount, text = _("about {time}"), _("Takes {amount}, {basis}.")
        if case.options.training.early_stopping_patience:
            amount = _("at most about {time}")
        if len(known) == 2:
            text = _("Takes {amount} ({first} to pretrain, {second} to chat), {basis}.")
        elif len(runs) == 2 and runs[0][0] is None:
            text = _("Run 2 (chat) takes {amount}, {basis}. Run 1 (pretraining) can't be measured.")
        elif len(runs) == 2:
            text = _("Run 1 (pretraining) takes {amount}, {basis}. The time of run 2 (chat) isn't known yet.")
        amount, first, second = amount.format(time=about(sum(known))), about(known[0]), about(known[-1])
        return text.format(amount=amount, basis=basis, first=first, second=second)
    if state.minutes:
        text = _("About {minutes} min on two processor cores. Press Measure for this computer.")
        return text.format(minutes=state.minutes)
    return (
        _("Press Measure to see how long it takes.") if state.can_measure else _("The time isn't known yet.")
    )


def clock(unix_seconds: float) -> str:
    """Return a time of day, `14:35`, with its date if that is another day."""
    then = time.localtime(unix_seconds)
    return time.strftime("%H:%M", then) if then[:3] == time.localtime()[:3] else moment(unix_seconds)


class TimeBox(CalmDoubleSpinBox):
    """A length of time in minutes, typed as `10 min`, `1.5 h` or `90`; what can't be read leaves it as it is."""

    refused = Signal(str)  # why

    def __init__(self) -> None:
        super().__init__()
        self.setRange(1, 60_000)
        self.setSingleStep(30)
        self.setKeyboardTracking(False)
        self.setCorrectionMode(CalmDoubleSpinBox.CorrectionMode.CorrectToPreviousValue)
        self.setValue(60)
        self.setAccessibleName(_("Time that the run may take"))
        self.setToolTip(_("Minutes or hours: 10 min, 1.5 h, or 90 for minutes"))

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        is_known = self._minutes(text) is not None
        return QValidator.State.Acceptable if is_known else QValidator.State.Intermediate, text, place

    def fixup(self, text: str) -> str:
        self.refused.emit(_("“{text}” isn't a time: type 10 min, 1.5 h, or 90 for minutes").format(text=text))
        return self.textFromValue(self.value())

    def textFromValue(self, val: float) -> str:  # noqa: N802 - Qt's name
        if val < 60:
            return _("{minutes:g} min").format(minutes=val)
        return duration(60 * val) if val % 6 else _("{hours:g} h").format(hours=val / 60)

    def valueFromText(self, text: str) -> float:  # noqa: N802 - Qt's name
        minutes = self._minutes(text)
        return self.value() if minutes is None else minutes

    def _minutes(self, text: str) -> float | None:
        """Read a time, None if it isn't one or out of range."""
        hour, minute = _("{hours} h").format(hours="").strip(), _("{minutes} min").format(minutes="").strip()
        number, plain = r"([\d.,]+)\s*", text.lower().translate(dict.fromkeys(map(ord, "\u2068\u2069")))
        found = re.fullmatch(rf"\s*(?:{number}(?:{hour}|h\w*))?\s*(?:{number}(?:{minute}|m\w*)?)?\s*", plain)
        parts = found.groups() if found else ("?", "?")
        try:
            hours, minutes = (float((part or "0").replace(",", ".")) for part in parts)
        except ValueError:
            return None
        total = 60 * hours + minutes
        return total if self.minimum() <= total <= self.maximum() else None


def is_focused(button: QPushButton) -> bool:
    """Whether it has the focus, also of a window that isn't active; hidden or disabled, it would lose it."""
    return button.window().focusWidget() is button


class ButtonLine(QWidget):
    """A button with a hint next to it."""

    def __init__(self) -> None:
        super().__init__()
        self.button = QPushButton()
        self.label = text_label(role=Role.HINT)
        row = fill(QHBoxLayout(self), margins=FLUSH, spacing=SPACING + 2)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.label, 1)


class RemedyRow(QWidget):
    """A remedy, what it saves and costs, and a button; advice has none."""

    chosen = Signal(object)  # the `core.memory.remedies.Remedy`

    def __init__(self, remedy: Remedy) -> None:
        super().__init__()
        self.remedy = remedy
        self.worth = text_label(role=Role.HINT)
        name = _("Apply: {remedy}").format(remedy=remedy.title)
        self.button = link_button(_("Apply"), lambda: self.chosen.emit(self.remedy), remedy.help, name=name)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(SPACING)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        for place, label in enumerate((text_label(remedy.title), self.worth)):
            label.setToolTip(remedy.help)
            grid.addWidget(label, place, 0)
        grid.addWidget(self.button, 0, 1, 2, 1, Qt.AlignmentFlag.AlignVCenter)
        self.button.setVisible(bool(remedy.changes))


class Ladder(QWidget):
    """Remedies below each other, the least loss first; folded behind a link while memory isn't short."""

    remedy_chosen = Signal(object)  # the `core.memory.remedies.Remedy` to apply
    opened = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[RemedyRow, ...] = ()
        self.link = link_button("", flush=True)
        self.link.setCheckable(True)
        self.link.toggled.connect(self._on_toggled)
        self.explain = link_button(_("What is this?"), tip=_("Explains each part and how it is computed"))
        fit_tip = _("Test lighter settings in short real runs and suggest the fastest that fits")
        self.fit = push_button(_("Fit it for me…"), tip=fit_tip)
        self._nothing = text_label(_("No setting can reduce the memory further."), Role.HINT)
        self._list, self._remedies = QWidget(), vbox()
        fill(
            QVBoxLayout(self._list),
            self._remedies,
            self._nothing,
            hbox(self.fit, None),
            margins=(0, SPACING // 2, 0, 0),
            spacing=SPACING,
        )
        self._list.hide()
        fill(QVBoxLayout(self), hbox(self.link, None, self.explain), self._list, margins=FLUSH, spacing=0)

    @property
    def is_open(self) -> bool:
        return self.link.isChecked()

    def show_remedies(self, remedies: Sequence[Remedy], worth: Sequence[str]) -> None:
        """Show remedies and what each saves and costs; the same ones keep their rows, under the pointer."""
        before = [(row.remedy.title, row.remedy.help, row.remedy.changes) for row in self.rows]
        if before != [(remedy.title, remedy.help, remedy.changes) for remedy in remedies]:
            clear(self._remedies)
            self.rows = tuple(map(RemedyRow, remedies))
            for row in self.rows:
                row.chosen.connect(self.remedy_chosen)
                self._remedies.addWidget(row)
        self._nothing.setVisible(not self.rows)
        for row, remedy, text in zip(self.rows, remedies, worth, strict=True):
            row.remedy = remedy
            row.worth.setText(text)

    def _on_toggled(self, is_open: bool) -> None:
        self._list.setVisible(is_open)
        if is_open:
            self.opened.emit()


ROOM_MS = 3000
"""How often the free memory is read."""

SHORT = (FitVerdict.TIGHT, FitVerdict.TOO_LARGE)


class FitCard(Card):
    """Shows a `MemoryState`, which reads the free memory while the card is visible."""

    def __init__(self, theme: Theme, state: MemoryState) -> None:
        super().__init__(_("Will it fit?"))
        self.state = state
        self._was_short = False
        self._verdict, self._figures = role_label(Role.VERDICT, " "), text_label(role=Role.MUTED)
        self.basis = role_label(Role.MUTED)
        self.set_trailing(self.basis)
        self.bar = PartsBar(theme, _("Memory of this run"))
        self.note, self.missing = text_label(role=Role.HINT), text_label(role=Role.MUTED)
        self.note.hide()
        self.lookup, self.measure, self.ladder = ButtonLine(), ButtonLine(), Ladder()
        self.run_time = text_label(role=Role.MUTED)  # shown above Start
        self.time, self.fits = TimeBox(), text_label(role=Role.MUTED)
        self.set_steps = link_button(
            _("Set steps"), tip=_("Set the maximum steps to what fits into this time, as measured")
        )
        label = role_label(Role.MUTED, _("I have"))
        label.setBuddy(self.time)
        self.time_box = QWidget()
        line = hbox(label, self.time, self.set_steps, None)
        fill(QVBoxLayout(self.time_box), line, self.fits, margins=FLUSH, spacing=0)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._verdict, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._figures, 1, Qt.AlignmentFlag.AlignBottom)
        self._known = QWidget()
        parts = (line, self.bar, self.note, self.measure, self.time_box, self.ladder)
        fill(QVBoxLayout(self._known), *parts, margins=FLUSH, spacing=SPACING)
        self._unknown = QWidget()
        fill(QVBoxLayout(self._unknown), self.missing, self.lookup, None, margins=FLUSH, spacing=SPACING)
        self._pages = QStackedWidget()  # as high as its highest page: nothing moves when the forecast arrives
        self._pages.addWidget(self._unknown)
        self._pages.addWidget(self._known)
        self.body.addWidget(self._pages)
        state.changed.connect(self.show_state)
        self.lookup.button.clicked.connect(self._press_lookup)
        self.measure.button.clicked.connect(self._press_measure)
        self.time.valueChanged.connect(self._show_time_box)
        self.time.refused.connect(self.fits.setText)
        self.ladder.opened.connect(self._show_remedies)
        self.timer = QTimer(self, interval=ROOM_MS)
        self.timer.timeout.connect(state.read_room)
        self.show_state()

    @property
    def headline(self) -> str:
        return f"{self._verdict.text()} · {self._figures.text()}" if self.state.forecast else ""

    def showEvent(self, event: QShowEvent) -> None:
        """Read the free memory from now on; a window that was minimised continues as it was."""
        super().showEvent(event)
        if not event.spontaneous():
            self.state.resume()
        self.timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.timer.stop()

    def show_state(self) -> None:
        state, forecast = self.state, self.state.forecast
        had_focus = is_focused(self.lookup.button)
        self._pages.setCurrentWidget(self._unknown if forecast is None else self._known)
        if had_focus and forecast is not None:
            self.measure.button.setEnabled(True)
            self.measure.button.setFocus()
        self.basis.setVisible(forecast is not None)
        self.missing.setText(state.missing)
        if forecast is not None:
            verdict, figures, role = headline(state, forecast)
            self._verdict.setText(verdict)
            set_role(self._verdict, role)
            self._figures.setText(figures)
            self.basis.setText(basis_text(state))
            self.basis.setToolTip(basis_help(state, forecast))
            room, limits = forecast.room, []
            if room is not None:
                unused = Part(_("free memory"), room.free, "text", _("What no program uses now."))
                total = _("All memory of the device, including what other programs use.")
                limits = [] if is_elsewhere(state) else [unused]
                limits.append(Part(_("all memory"), room.ceiling, "bad", total))
            self.bar.show_parts(bar_parts(forecast.parts, is_undivided=state.is_undivided), limits)
            self.note.setText(state.note)
            self.note.setVisible(bool(state.note))
            self._show_ladder()
        self.run_time.setText(time_text(state))
        self._show_measure()
        self._show_lookup()
        self._show_time_box()

    def _show_time_box(self) -> None:
        state, case, timed = self.state, self.state.case, self.state.timed
        if case is None or timed is None or timed.ran_out or timed.pace is None:
            self.time_box.hide()
            return
        steps, seconds = state.steps_within(self.time.value())
        is_set, text = steps == case.options.training.max_steps, ""
        self.set_steps.setEnabled(not is_set or is_focused(self.set_steps))
        if seconds <= 60 * self.time.value():
            text = (
                _("Fits with maximum steps {steps:,}").format(steps=steps) if steps else _("All epochs fit")
            )
            an_epoch = steps_of(case.options, case.trained or 1)[1]
            share = steps / an_epoch if steps else case.options.training.epochs
            text = (_("The run fits into this time") if is_set else text) + self._seen(share, case.options)
        elif seconds < math.inf:
            text = _("Not even one step fits, with its evaluation")
        self.fits.setText(text)
        self.time_box.show()

    def _seen(self, share: float, options: RunOptions) -> str:
        """What share of an epoch a run sees, and how it sees more; empty if it sees all."""
        if not 0 < share < 1:
            return ""
        ways = _("a smaller model")
        if options.task.reads_text:
            ways = _("shorter texts or {ways}").format(ways=ways)
        if options.model.method is not Method.HEAD and not options.task.writes_text:
            ways = _("“Last layer”, {ways}").format(ways=ways)
        text = _(": {share} of one epoch. To see more in this time: {ways}.")
        return text.format(share=whole_percent(max(0.01, share)), ways=ways)

    def _show_ladder(self) -> None:
        """Unfold it when memory becomes short and fold it when that is over; in between the person decides."""
        is_short = self.state.verdict in SHORT
        if is_short != self._was_short:
            self._was_short = is_short
            self.ladder.link.setChecked(is_short)
        self.ladder.link.setText(_("How to make it fit") if is_short else _("Reduce memory"))
        self.ladder.fit.setEnabled(self.state.can_measure)
        if self.ladder.is_open:
            self._show_remedies()

    def _show_remedies(self) -> None:
        remedies = self.state.remedies()
        self.ladder.show_remedies(remedies, [self.worth(remedy) for remedy in remedies])

    def worth(self, remedy: Remedy) -> str:
        """Return what a remedy saves and costs now."""
        state = self.state
        after, measured = state.verdict_after(remedy), state.measured_after(remedy)
        if state.case is not None and state.case.is_listed:
            after = FitVerdict.UNKNOWN  # it may fit
        text = saving_text(remedy, state.verdict, after, state.measured, measured)
        limit, case = remedy.changes.get("data.max_length"), state.case
        if limit is None or state.lengths is None or case is None or case.options.task is Task.CAUSAL_LM:
            return text
        cut = _("about {count:,} of {rows:,} examples are truncated")
        count = cut_by(state.lengths, limit)[0]
        return in_line(text, cut.format(count=count, rows=sum(state.lengths.counts)))

    def _show_lookup(self) -> None:
        """Show the line about the model's description, where one is missing: in place of that about measuring."""
        state, failure, is_running = self.state, self.state.lookup.failure, self.state.lookup.is_running
        line = self.lookup if state.forecast is None else self.measure
        self.lookup.setVisible(bool(state.lookup_source) or is_focused(self.lookup.button))
        if not state.lookup_source:
            return
        line.button.setEnabled(True)
        line.button.setToolTip("")
        line.button.setText(_("Cancel") if is_running else _("Look up details"))
        text = _("Downloads only {file}, which describes the model, from {host} (a few KB)")
        if is_running:
            text = _("Downloading {file} from {host}…")
        text = text.format(file=hub.CONFIG, host=hub.host())
        line.label.setText(paragraph(failure.title, failure.detail) if failure else text)
        set_role(line.label, Role.PROBLEM if failure else Role.HINT)

    def _press_lookup(self) -> None:
        (self.state.cancel_fetch if self.state.lookup.is_running else self.state.fetch)()

    def _show_measure(self) -> None:
        """Show what the button does, that it runs, or how long a step took."""
        state, case, measured, timed = self.state, self.state.case, self.state.measured, self.state.timed
        button, is_running = self.measure.button, state.measuring.is_running
        set_role(self.measure.label, Role.HINT)
        button.setEnabled(is_running or state.can_measure or is_focused(button))
        if is_running:
            button.setText(_("Cancel"))
            button.setToolTip("")
            text = _("Running a few steps on your data… {spent}")
            self.measure.label.setText(
                text.format(spent=duration(state.measuring_seconds).replace(" ", "\u00a0"))
            )
            return
        # Translators: the button that runs a few steps to measure memory and time
        button.setText(_("Measure") if measured is None else _("Measure again"))
        tip = _("Uses your data (of texts the longest), in a separate process. Nothing is saved.")
        text = _("Measures memory and time in a few real steps")
        if state.pair:
            text = _("Measures run 2 (chat) in a few real steps")
        if case is not None and not case.is_complete:
            tip = _("Measuring needs the model's weights, which are not on this computer yet")
            text = _("Available once the model is downloaded. The first run downloads it.")
        if case is not None and not case.is_ready:
            tip = _("Fix the problems listed under Checks first")
        if measured is not None and measured.ran_out:
            text = ""
        elif timed is not None and case is not None and timed.measurement.step_seconds is not None:
            text = _("{time} a step").format(time=step_time(timed.measurement.step_seconds))
            if timed.measurement.compile_seconds >= 1:
                compiling = about(timed.measurement.compile_seconds)
                text = _("{step}, and {span} to compile").format(step=text, span=compiling)
            if (share := timed.measurement.other_load or 0.0) > BUSY:
                slowed = _("{step}. Slowed: other programs use {share} of the CPU.")
                text = slowed.format(step=text, share=whole_percent(share))
        button.setToolTip(tip)
        self.measure.label.setText(text)

    def _press_measure(self) -> None:
        if self.state.lookup_source:
            self._press_lookup()
        else:
            (self.state.cancel if self.state.measuring.is_running else self.state.measure)()
