"""One of the two tables on the page Benchmark: what to measure, how far that is, and what came of it."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.bench.device_turn import DeviceBusy
from core.bench.kept import Kept
from core.bench.plan import Plan
from core.bench.result import Result
from core.bench.trade import best_trade
from core.errors import Fix, UserError
from core.events import Level
from gui.bench_work import Benchmarking, Ending, MakePlan
from gui.benchmark_saving import BenchmarkSaving
from gui.pages.benchmark_devices import DevicesView
from gui.pages.benchmark_methods import MethodsView
from gui.pages.benchmark_progress import BenchmarkProgress
from gui.pages.benchmark_said import ending_words, expected_words, plan_words
from gui.pages.benchmark_wish import Wish
from gui.pages.try_looking import Looking
from gui.theme import SPACING, Theme
from gui.widgets.card import Card
from gui.widgets.disclosure import Disclosure
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role

BESIDE = "bench.beside"
"""What the button of this tab's own message changes."""

REST_MS = 80
"""So long after the last change it is made out what would be measured."""


class BenchmarkTab(QWidget):
    """Asks what to measure; while it is measured shows how far that is, and the figures as they come.

    Signals:
        start_pressed: The person wants what `wish` says measured.
        cancel_pressed: The person has seen enough.
        beside_pressed: It is to be measured whatever else computes on the device.

    Args:
        theme: Colours of pictures.
        wish: What is to be measured, to be chosen.
        view: Shows results: `MethodsView` or `DevicesView`.
        words: What the table is for, in two sentences.
        parent: Qt's parent.
    """

    start_pressed = Signal()
    cancel_pressed = Signal()
    beside_pressed = Signal()

    def __init__(
        self,
        theme: Theme,
        wish: Wish,
        view: MethodsView | DevicesView,
        words: str,
        *,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.wish, self.view = wish, view
        self.saving = BenchmarkSaving(theme)
        self._preview: Looking[Plan | UserError] = Looking(self)
        self._soon = QTimer(self, interval=REST_MS, singleShot=True)
        self._planned: Plan | UserError | None = None
        self.result: Result | None = None
        self._earlier: Sequence[Kept] = ()
        self._elsewhere = ""
        self._is_running = False
        self._wants_again = False
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.progress = BenchmarkProgress()
        self.start = QPushButton(self.tr("Measure"))
        set_role(self.start, Role.PRIMARY)
        self.said = _wrapping(Role.HINT)
        self.words = _wrapping(Role.MUTED)
        self.words.setText(words)
        self.conclusion = QLabel()
        self.conclusion.setWordWrap(True)
        self.conclusion.setTextFormat(Qt.TextFormat.PlainText)
        self.conclusion.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.notes = Disclosure(self.tr("Show"))
        self.again = QPushButton(self.tr("Measure again…"))
        self.again.setToolTip(self.tr("Choose what to measure; this result is kept under Earlier results"))
        self.card = self._wish_card()
        self._lay_out()
        self._connect()
        self._refresh()

    @property
    def can_start(self) -> bool:
        """Whether there is something to start."""
        return self.card.isVisibleTo(self) and self.start.isEnabled()

    def show_progress(self, measuring: Benchmarking, waits_for: str = "") -> None:
        """This table is being measured, or `waits_for` a run to pause: show how far it is."""
        is_new = not self._is_running
        self._is_running, self._elsewhere = True, ""
        self._wants_again = False
        self.progress.show_state(measuring, waits_for)
        underway = measuring.underway
        if self.result is not None:
            self.view.show_result(self.result, None if underway is None else underway.rung.name)
        had_focus = self._leaves_focus(self.card)
        self._refresh()
        if is_new and had_focus:
            self.progress.cancel.setFocus()

    def show_rest(self, elsewhere: str = "") -> None:
        """It isn't measured. `elsewhere` says what is instead, so that nothing can be started here; empty: nothing."""
        had_focus = self._is_running and self._leaves_focus(self.progress)
        self._is_running, self._elsewhere = False, elsewhere
        self._refresh()
        if had_focus:
            (self.again if self.again.isVisibleTo(self) else self.start).setFocus()

    def show_result(self, result: Result | None) -> None:
        """Show what is measured so far; None: nothing."""
        self.result = result
        if result is not None:
            self.view.show_result(result)
        self.saving.show_result(result)
        self._refresh()

    def show_ending(self, ending: Ending) -> None:
        """Say how it ended, where that isn't as it should be."""
        words = ending_words(ending, self.result)
        if words and ending is not Ending.FAILED:
            self.strip.show_message(Level.INFO, *words)

    def show_error(self, error: UserError) -> None:
        """Say what went wrong; where the device is taken, offer to measure all the same."""
        if isinstance(error, DeviceBusy):
            beside = Fix(self.tr("Measure beside it"), {BESIDE: True})
            self.strip.show_message(Level.WARNING, error.title, error.detail, (beside,))
        else:
            self.strip.show_error(error)

    def show_earlier(self, earlier: Sequence[Kept]) -> None:
        """Say how long it took before."""
        self._earlier = earlier
        self._refresh()

    def end_work(self) -> None:
        """Wait until no thread is left; every file that is being written is whole then."""
        self._soon.stop()
        self._preview.close()
        self.saving.end_work()

    def _leaves_focus(self, part: QWidget) -> bool:
        """Whether a part that is about to be hidden had the focus; Qt would scroll to whatever gets it next."""
        had_focus = part.isAncestorOf(self.focusWidget() or self)
        if had_focus:
            self._scroll.setFocus()
        return had_focus

    def _refresh(self) -> None:
        obstacle = self._obstacle()
        is_chosen = self.result is None or self._wants_again
        self.card.setVisible(is_chosen and not self._is_running)
        self.progress.setVisible(self._is_running)
        self.words.setVisible(self.result is None)
        for part in (self.view, self._bottom):
            part.setVisible(self.result is not None)
        self.again.setVisible(not is_chosen and not self._is_running)
        self.start.setEnabled(not obstacle and self._planned is not None)
        self.said.setText(obstacle or self._outlook())
        self._conclude()

    def _obstacle(self) -> str:
        """Why nothing can be started now; empty: it can."""
        planned = self._planned
        if obstacle := self.wish.obstacle() or self._elsewhere:
            return obstacle
        return f"{planned.title}. {planned.detail}" if isinstance(planned, UserError) else ""

    def _outlook(self) -> str:
        """What would be measured, and how long that takes."""
        planned = self._planned
        if not isinstance(planned, Plan):
            return ""
        told = (plan_words(planned), self.wish.reason(planned), expected_words(planned, self._earlier))
        return "\n".join(line for line in told if line)

    def _look_ahead(self) -> None:
        """Make the plan of what is chosen, to say what it is; until it is made, what was said before stays."""
        self._preview.forget()
        if not self.wish.obstacle():
            make_plan = self.wish.plan()
            self._preview.look(lambda: _planned(make_plan))

    def _take_plan(self, planned: Plan | UserError) -> None:
        self._planned = planned
        self._refresh()

    def _conclude(self) -> None:
        """The best trade, and what has to be known of how it was measured."""
        result = self.result
        has_figures = result is not None and any(row.is_measured for row in result.rows)
        self.conclusion.setText(best_trade(result) if result is not None and has_figures else "")
        self.conclusion.setVisible(bool(self.conclusion.text()))
        notes = result.plan.notes if result is not None else ()
        self.notes.show_words(self.tr("What was measured, and how."), notes)
        self.notes.setVisible(bool(notes))

    def _ask_again(self) -> None:
        self._wants_again = True
        self.strip.hide()
        self._refresh()
        self.start.setFocus()

    def _wish_card(self) -> Card:
        card = Card(self.tr("What to measure"))
        line = QHBoxLayout()
        line.setSpacing(2 * SPACING)
        line.addWidget(self.start)
        line.addWidget(self.said, 1)
        card.body.addWidget(self.wish)
        card.body.addLayout(line)
        return card

    def _lay_out(self) -> None:
        self._bottom = QWidget()
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self.saving)
        line.addStretch(1)
        line.addWidget(self.again)
        below = QVBoxLayout(self._bottom)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(SPACING + 4)
        below.addWidget(self.conclusion)
        below.addWidget(self.notes)
        below.addLayout(line)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, SPACING, 0, 2 * SPACING)
        column.setSpacing(SPACING + 4)
        for part in (self.strip, self.words, self.progress, self.card, self.view, self._bottom):
            column.addWidget(part)
        column.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        self._scroll = PageScroll(content)
        outer.addWidget(self._scroll)

    def _connect(self) -> None:
        self.wish.changed.connect(self._refresh)
        self.wish.changed.connect(self._soon.start)
        self._soon.timeout.connect(self._look_ahead)
        self._preview.found.connect(self._take_plan)
        self.start.clicked.connect(self.start_pressed)
        self.progress.cancel_pressed.connect(self.cancel_pressed)
        self.again.clicked.connect(self._ask_again)
        self.view.published_toggled.connect(self.saving.take_published)
        self.strip.fix_chosen.connect(self.beside_pressed)
        self.saving.tell_in(self.strip)


def _planned(make_plan: MakePlan) -> Plan | UserError:
    try:
        return make_plan()
    except UserError as error:
        return error


def _wrapping(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, role)
    return label
