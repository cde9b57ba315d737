"""The card "Will it fit?": the memory a run takes beside what is free, how that is known, and what needs less."""

import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.formats import about, duration, memory, moment, step_time, three_figures
from core.base.language import _
from core.memory.model import Basis, Forecast, Parts, Verdict
from core.memory.remedies import Remedy
from core.services import hub
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.memory_state import Gain, MemoryState
from gui.widgets.bars import Part, PartsBar
from gui.widgets.cards import Card
from gui.widgets.inputs import CalmDoubleSpinBox
from gui.widgets.labels import link_button, text_label
from gui.widgets.layout import FLUSH, clear, fill

JUST_NOW = 5 * 60.0
"""Seconds for which something was measured "just now"."""

SAME_TIME = 0.015
"""A step slower by less is no slower."""


def headline(forecast: Forecast, ran_out: bool = False) -> tuple[str, str, Role]:
    """Whether it fits, in a word or two, the figures behind that, and the role of the word.

    Args:
        forecast: What is known, beside the memory that is free now.
        ran_out: Whether a dry run has run out of memory, so that the figures are those of that moment.
    """
    total, room = forecast.parts.total, forecast.room
    size = memory(total)
    if ran_out:
        return _("Doesn't fit"), _("memory ran out at {size}").format(size=size), Role.VERDICT_BAD
    if room is None:
        return _("Takes {size}").format(size=size), _("the free memory isn't known"), Role.VERDICT
    if forecast.verdict is Verdict.TOO_LARGE:
        words = _("{size}, that is {over} too much").format(size=size, over=memory(total - room.free))
        return _("Doesn't fit"), words, Role.VERDICT_BAD
    known = _("{size} of {free} free").format(size=size, free=memory(room.free))
    if forecast.verdict is Verdict.TIGHT:
        return _("Fits tightly"), known, Role.VERDICT_TIGHT
    return _("Fits"), known, Role.VERDICT_GOOD


def basis_text(basis: Basis, measured_at: float | None = None) -> str:
    if basis is Basis.FORMULA:
        return _("forecast")
    if measured_at is None or time.time() - measured_at < JUST_NOW:
        return _("measured just now")
    return _("measured at {clock}").format(clock=clock(measured_at))


def basis_help(basis: Basis) -> str:
    if basis is Basis.FORMULA:
        return _(
            "Counted from the size of the model and your choices, without trying anything. It changes at once as "
            "you choose.",
        )
    return _("A few real steps were trained, and this is the most that they held.")


def undivided_text() -> str:
    return _("What the dry run held when it was ended; its parts aren't known.")


def bar_parts(parts: Parts, *, is_undivided: bool = False) -> list[Part]:
    """The parts as the bar shows them; buffers and overhead are one. Undivided: only the whole is known."""
    if is_undivided:
        return [Part(_("held in all"), parts.total, "run", undivided_text())]
    overhead = _(
        "{temporary} of temporary buffers, and {overhead} of overhead: PyTorch itself, its libraries, and memory that "
        "its allocator keeps in reserve."
    )
    of_what = {"temporary": memory(parts.temporary), "overhead": memory(parts.overhead)}
    words = {
        "weights": (_("weights"), _("The model's parameters.")),
        "gradients": (_("gradients"), _("One for each trainable parameter.")),
        "optimizer": (_("optimizer"), _("The optimizer's state, such as Adam's two moments.")),
        "activations": (
            _("activations"),
            _("Each layer's output for this batch, kept for the backward pass."),
        ),
        "overhead": (_("overhead"), overhead.format(**of_what)),
    }
    sizes = {name: getattr(parts, name) for name in words} | {"overhead": parts.overhead + parts.temporary}
    colours = {"weights": "run", "overhead": "others"}
    return [
        Part(title, sizes[name], colours.get(name, name), words) for name, (title, words) in words.items()
    ]


def saving_text(remedy: Remedy, now: Verdict, after: Verdict, gain: Gain | None = None) -> str:
    """What a remedy is worth, and what it costs: `−1.20 GB, then it fits · about 30 % slower`.

    Args:
        remedy: The remedy.
        now: Whether it fits as it is.
        after: Whether it fits with it.
        gain: What was measured of it, which goes before what is forecast.
    """
    if not remedy.changes:
        return remedy.help
    if gain is None:
        saved = _("−{size}").format(size=memory(remedy.saves))
    elif gain.ran_out:
        return _("memory ran out with it, too, when that was measured")
    elif gain.saves is None:
        saved = _("{size} in all measured").format(size=memory(gain.takes))
    else:
        words = _("−{size} measured") if gain.saves >= 0 else _("+{size} measured")
        saved = words.format(size=memory(abs(gain.saves)))
    if now is Verdict.TOO_LARGE and after in (Verdict.FITS, Verdict.TIGHT):
        saved = _("{saved}, then it fits").format(saved=saved)
    if now is Verdict.TIGHT and after is Verdict.FITS:
        saved = _("{saved}, then with room to spare").format(saved=saved)
    if gain is not None and gain.slower is not None:
        return f"{saved} · {slower_text(gain.slower, is_measured=True)}"
    return f"{saved} · {slower_text(remedy.slower)}"


def slower_text(factor: float, *, is_measured: bool = False) -> str:
    """What a factor of the time of a step means, forecast (`about 30 % slower`) or `12 % slower measured`."""
    percent = max(1, round(abs(factor - 1) * 100))
    if not is_measured and percent > 5:
        percent = 5 * round(percent / 5)  # no finer than a forecast can know
    if abs(factor - 1) < SAME_TIME:
        words = _("no slower measured") if is_measured else _("no slower")
    elif factor >= 2:
        words = _("{factor} times as long measured") if is_measured else _("about {factor} times as long")
    elif factor > 1:
        words = _("{percent} % slower measured") if is_measured else _("about {percent} % slower")
    else:
        words = _("{percent} % faster measured") if is_measured else _("about {percent} % faster")
    return words.format(factor=three_figures(factor), percent=percent)


def time_text(step_seconds: float, run_seconds: float | None, compile_seconds: float) -> str:
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
    then = time.localtime(unix_seconds)
    return time.strftime("%H:%M", then) if then[:3] == time.localtime()[:3] else moment(unix_seconds)


class ButtonLine(QWidget):
    """A button, and beside it what it does or what came of it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = QPushButton()
        self.label = text_label(role=Role.HINT)
        row = fill(QHBoxLayout(self), margins=FLUSH, spacing=SPACING + 2)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.label, 1)

    @property
    def words(self) -> str:
        return self.label.text()


class RemedyRow(QWidget):
    """One remedy, what it is worth, and a button; advice has none.

    Signals:
        chosen: The `core.memory.remedies.Remedy` whose button was pressed.
    """

    chosen = Signal(object)

    def __init__(self, remedy: Remedy, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.remedy = remedy
        self.worth = text_label(role=Role.HINT)
        self.button = link_button(_("Apply"), lambda: self.chosen.emit(self.remedy), remedy.help)
        self.button.setAccessibleName(_("Apply: {remedy}").format(remedy=remedy.title))
        self.button.setVisible(bool(remedy.changes))
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(SPACING)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        for place, label in enumerate((text_label(remedy.title), self.worth)):
            label.setToolTip(remedy.help)
            grid.addWidget(label, place, 0)
        grid.addWidget(self.button, 0, 1, 2, 1, Qt.AlignmentFlag.AlignVCenter)


class Ladder(QWidget):
    """Remedies below each other, the least loss first; folded behind a link while memory isn't short.

    Signals:
        remedy_chosen: The `core.memory.remedies.Remedy` to apply.
        opened: It was unfolded.
    """

    remedy_chosen = Signal(object)
    opened = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[RemedyRow, ...] = ()
        self.link = link_button("", flush=True)
        self.link.setCheckable(True)
        self.link.toggled.connect(self._toggle)
        self._nothing = text_label(_("Nothing more can be saved by these choices."), Role.HINT)
        self.fit, self.each = (
            QPushButton(_("Fit it for me…")),
            link_button(_("Measure all…"), flush=True),
        )
        self.fit.setToolTip(
            _("Try these out by short real runs: the fastest that fits of those that lose least")
        )
        self.each.setToolTip(_("A short real run with each remedy alone: what it saves and costs"))
        self._list, self._remedies, last, self.heading = (
            QWidget(),
            QVBoxLayout(),
            QHBoxLayout(),
            QHBoxLayout(),
        )
        content, column = QVBoxLayout(self._list), QVBoxLayout(self)
        self._list.hide()
        for layout in (self._remedies, last, content):
            layout.setSpacing(SPACING)
        for layout, button in ((last, self.fit), (last, self.each), (self.heading, self.link)):
            layout.addWidget(button)
        last.addStretch(1)
        self.heading.addStretch(1)
        content.setContentsMargins(0, SPACING // 2, 0, 0)
        content.addLayout(self._remedies)
        content.addWidget(self._nothing)
        content.addLayout(last)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self.heading)
        column.addWidget(self._list)

    @property
    def is_open(self) -> bool:
        return self.link.isChecked()

    def show_remedies(self, remedies: Sequence[Remedy], worth: Sequence[str]) -> None:
        """Show these and what each saves and costs; the same remedies keep their rows, under the pointer."""
        before = [(row.remedy.title, row.remedy.help, row.remedy.changes) for row in self.rows]
        if before != [(remedy.title, remedy.help, remedy.changes) for remedy in remedies]:
            clear(self._remedies)
            self.rows = tuple(map(RemedyRow, remedies))
            for row in self.rows:
                row.chosen.connect(self.remedy_chosen)
                self._remedies.addWidget(row)
        self._nothing.setVisible(not self.rows)
        for row, remedy, words in zip(self.rows, remedies, worth, strict=True):
            row.remedy = remedy
            row.worth.setText(words)

    def _toggle(self, shown: bool) -> None:
        self._list.setVisible(shown)
        if shown:
            self.opened.emit()


ROOM_MS = 3000
"""How often it is looked how much memory is free."""

SHORT = (Verdict.TIGHT, Verdict.TOO_LARGE)


class FitCard(Card):
    """Shows what `state` knows, and has it read free memory while the card can be seen."""

    def __init__(self, theme: Theme, state: MemoryState, parent: QWidget | None = None) -> None:
        super().__init__(_("Will it fit?"), parent)
        self.state = state
        self._was_short = False
        self._verdict, self._figures = QLabel(), text_label(role=Role.MUTED)
        self._basis = QLabel()
        set_role(self._basis, Role.MUTED)
        self.set_trailing(self._basis)
        self._bar = PartsBar(theme, _("Memory this run takes"))
        self._note, self._missing = text_label(role=Role.HINT), text_label(role=Role.MUTED)
        self._lookup, self._measure, self.ladder = ButtonLine(), ButtonLine(), Ladder()
        self.hours = CalmDoubleSpinBox()
        self._time_box = self._make_time_box()
        self.what_is_this = link_button(
            _("What is this?"), tip=_("What each part is, and how Hone counts it")
        )
        self.ladder.heading.addWidget(self.what_is_this)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._verdict, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._figures, 1, Qt.AlignmentFlag.AlignBottom)
        self._known = QWidget()
        fill(
            QVBoxLayout(self._known),
            line,
            self._bar,
            self._note,
            self._measure,
            self._time_box,
            self.ladder,
            margins=FLUSH,
            spacing=SPACING,
        )
        self.body.addWidget(self._known)
        self.body.addWidget(self._missing)
        self.body.addWidget(self._lookup)
        state.changed.connect(self.show_state)
        self._lookup.button.clicked.connect(self._press_lookup)
        self._measure.button.clicked.connect(self._press_measure)
        self.ladder.opened.connect(self._show_remedies)
        self._timer = QTimer(self)
        self._timer.setInterval(ROOM_MS)
        self._timer.timeout.connect(state.read_room)
        self.show_state()

    def _make_time_box(self) -> QWidget:
        """ "I have 3 hours": sets after how many steps the run stops."""
        box, before = QWidget(), QLabel(_("I have"))
        set_role(before, Role.MUTED)
        before.setBuddy(self.hours)
        self.hours.setDecimals(1)
        self.hours.setRange(0.1, 999.0)
        self.hours.setSingleStep(0.5)
        self.hours.setValue(1.0)
        self.hours.setSuffix(_(" h"))
        self.hours.setAccessibleName(_("Hours that the run may take"))
        self.set_steps = link_button(
            _("Set steps"),
            tip=_("Stop after as many steps as fit into that time, by what was measured"),
        )
        fill(QHBoxLayout(box), before, self.hours, self.set_steps, None, margins=FLUSH, spacing=SPACING)
        return box

    @property
    def headline(self) -> str:
        return f"{self._verdict.text()} · {self._figures.text()}" if self.state.forecast else ""

    def showEvent(self, event: QShowEvent) -> None:
        """Look at the free memory from now on; a window that was minimised goes on as it was."""
        super().showEvent(event)
        if not event.spontaneous():
            self.state.resume()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def show_state(self) -> None:
        """Show what is known now."""
        state, forecast, measured = self.state, self.state.forecast, self.state.measured
        for widget in (self._known, self._basis):
            widget.setVisible(forecast is not None)
        self._missing.setVisible(forecast is None)
        self._missing.setText(state.missing)
        if forecast is not None:
            verdict, figures, role = headline(forecast, state.ran_out)
            self._verdict.setText(verdict)
            set_role(self._verdict, role)
            self._figures.setText(figures)
            self._basis.setText(basis_text(forecast.basis, measured.at if measured else None))
            self._basis.setToolTip(" ".join((basis_help(forecast.basis), *forecast.notes)))
            parts = bar_parts(forecast.parts, is_undivided=state.is_undivided)
            room = forecast.room
            limits = (
                [
                    Part(name, size, colour)
                    for name, size, colour in (
                        (_("free now"), room.free, "text"),
                        (_("in all"), room.ceiling, "bad"),
                    )
                ]
                if room
                else []
            )
            self._bar.show_parts(parts, limits)
            self._note.setText(state.note)
            self._note.setVisible(bool(state.note))
            self._show_ladder()
        self._show_lookup()
        self._show_measure()
        self._time_box.setVisible(measured is not None and not measured.ran_out and measured.pace is not None)

    def _show_ladder(self) -> None:
        """Unfold it when memory becomes short, fold it when that is over; in between the person decides."""
        is_short = self.state.verdict in SHORT
        if is_short != self._was_short:
            self._was_short = is_short
            self.ladder.link.setChecked(is_short)
        self.ladder.link.setText(_("What makes it fit") if is_short else _("Needs less memory"))
        for button in (self.ladder.fit, self.ladder.each):
            button.setEnabled(self.state.can_measure)
        if self.ladder.is_open:
            self._show_remedies()

    def _show_remedies(self) -> None:
        state, remedies = self.state, self.state.remedies()
        worth = [
            saving_text(one, state.verdict, state.verdict_after(one), state.gain(one)) for one in remedies
        ]
        self.ladder.show_remedies(remedies, worth)

    def _show_lookup(self) -> None:
        """Show what can be looked up, what is under way, or what came of it."""
        state, line, failure = self.state, self._lookup, self.state.lookup_failure
        is_running = state.lookup.is_running
        line.setVisible(bool(state.lookup_source))
        line.button.setText(_("Cancel") if is_running else _("Look up its size"))
        if is_running:
            words = _("Fetching {file} from {host}…")
        else:
            words = _("Fetches only what describes the model, from {host}: {file}, a few KB")
        words = words.format(file=hub.CONFIG, host=hub.host())
        line.label.setText(f"{failure.title}. {failure.detail}" if failure else words)
        set_role(line.label, Role.PROBLEM if failure else Role.HINT)

    def _press_lookup(self) -> None:
        (self.state.cancel_fetch if self.state.lookup.is_running else self.state.fetch)()

    def _show_measure(self) -> None:
        """Show what the button does, what is under way, or how long the run will take."""
        state, case, measured = self.state, self.state.case, self.state.measured
        button, is_running = self._measure.button, self.state.measuring.is_running
        reads_text = case is not None and case.options.task.reads_text
        doing = (
            _("Training a few steps on your longest texts")
            if reads_text
            else _("Training a few steps on your images")
        )
        button.setEnabled(is_running or state.can_measure)
        if is_running:
            button.setText(_("Cancel"))
            button.setToolTip(_("Give up measuring"))
            spent = duration(state.measuring_seconds)
            self._measure.label.setText(_("{doing}… {spent}").format(doing=doing, spent=spent))
            return
        button.setText(_("Measure") if measured is None else _("Measure again"))
        tip = _("{doing}, keeping nothing: how much memory and time the run takes").format(doing=doing)
        words = _("Trains a few steps for real, to know for sure")
        if case is not None and not case.is_complete:
            tip = _("It trains the model itself, which isn't on this computer yet")
            words = _("Can be measured once the weights are here: the first run fetches them")
        if case is not None and not case.is_ready:
            tip = _("First fix what is listed under Checks")
        if measured is not None and measured.ran_out:
            words = ""
        elif measured is not None and case is not None and measured.measurement.step_seconds is not None:
            found = measured.measurement
            words = time_text(
                measured.measurement.step_seconds, measured.run_seconds(case.steps), found.compile_seconds
            )
        button.setToolTip(tip)
        self._measure.label.setText(words)

    def _press_measure(self) -> None:
        (self.state.cancel if self.state.measuring.is_running else self.state.measure)()
