"""What the window says of the runs it finds as it opens: which train, and which were interrupted."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.errors import Fix, FixAction, UserError
from core.events import Level
from core.interrupted import Interrupted
from core.live_runs import LiveRun
from core.run_folder import RunFolder
from core.state import State
from gui import numbers
from gui.live_runs import percent
from gui.theme import PAGE_MARGINS, SPACING
from gui.widgets.brief_strip import BriefStrip
from gui.widgets.direction import margins
from gui.widgets.message_strip import MessageStrip

MOST_NAMES = 3
"""So many runs are named; of more the rest is counted."""


class StartStrip(QWidget):
    """Strips above every page, each hidden until there is something to say, and once it is put away.

    One tells of runs that train, one of those that were interrupted, and one why something can't be done.

    Signals:
        show_requested: The `RunFolder` to be shown; None: the list of runs.
        resume_requested: A list of `RunFolder`s to go on with, one after the other.
        seen: What was interrupted need not be told again.
    """

    show_requested = Signal(object)
    resume_requested = Signal(object)
    seen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._training: list[LiveRun] = []
        self._interrupted: list[Interrupted] = []
        self.training = BriefStrip()
        self.interrupted = MessageStrip(closable=True)
        self.trouble = MessageStrip(closable=True)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        layout.setSpacing(SPACING)
        for strip in (self.training, self.interrupted, self.trouble):
            layout.addWidget(strip)
            strip.hide()
            strip.closed.connect(self._fit)
        self.training.pressed.connect(self._show_training)
        self.interrupted.fix_chosen.connect(self._choose)
        self.interrupted.closed.connect(self.seen)
        self.hide()

    def tell_training(self, live: Sequence[LiveRun]) -> None:
        """Say that runs train, the newest first."""
        self._training = list(live)
        if len(live) == 1:
            title = self.tr("“{}” is training").format(live[0].title)
            words = self.tr("It went on while Hone was closed.")
        else:
            title = self.tr("{} runs are training").format(len(live))
            words = listed([_with_percent(one) for one in live])
        self.training.show_words(title, words, self._show_words(one=len(live) == 1))
        self._fit()

    def keep_up(self, live: Sequence[LiveRun]) -> None:
        """These train or wait now: nothing more is said of training that is over, or of runs that go on."""
        now = {one.run: one for one in live}
        self._keep_training(
            [
                now[old.run]
                for old in self._training
                if old.run in now and now[old.run].state is not State.QUEUED
            ]
        )
        self._keep_interrupted([one for one in self._interrupted if one.run not in now])

    def leave_out(self, run: RunFolder) -> None:
        """The person sees a run: its page says all there is to say."""
        self._keep_training([one for one in self._training if one.run != run])
        self._keep_interrupted([one for one in self._interrupted if one.run != run])

    def _keep_training(self, live: list[LiveRun]) -> None:
        if live == self._training or self.training.isHidden():
            return
        self._training = live
        if live:
            self.tell_training(live)
        else:
            self.training.hide()
            self._fit()

    def _keep_interrupted(self, found: list[Interrupted]) -> None:
        if found == self._interrupted or self.interrupted.isHidden():
            return
        self._interrupted = found
        if found:
            self.tell_interrupted(found)
        else:
            self.interrupted.hide()
            self._fit()
            self.seen.emit()

    def tell_interrupted(self, found: Sequence[Interrupted]) -> None:
        """Offer to go on with runs that ended without a word."""
        self._interrupted = list(found)
        one = len(found) == 1
        title = (
            self.tr("“{}” was interrupted").format(found[0].title)
            if one
            else self.tr("{} runs were interrupted").format(len(found))
        )
        self.interrupted.show_message(Level.WARNING, title, self._where(found), self._fixes(one=one))
        self._fit()

    def tell_trouble(self, error: UserError) -> None:
        """Say why what was asked for can't be done."""
        self.trouble.show_error(error)
        self._fit()

    def _where(self, found: Sequence[Interrupted]) -> str:
        if len(found) == 1:
            step = found[0].step
            if step is None:
                return self.tr("Nothing of it had been saved, so it would start again.")
            return self.tr("It can go on from its checkpoint of step {}.").format(numbers.count(step))
        names = [f"“{one.title}”" for one in found]
        order = self.tr("They can go on from their last checkpoints, one after the other.")
        return f"{listed(names)}. {order}"

    def _fixes(self, *, one: bool) -> tuple[Fix, ...]:
        resume = self.tr("Resume") if one else self.tr("Resume all")
        return (
            Fix(resume, action=FixAction.RESUME),
            Fix(self._show_words(one=one), action=FixAction.REVEAL),
        )

    def _show_words(self, *, one: bool) -> str:
        return self.tr("Show it") if one else self.tr("Show them")

    def _show_training(self) -> None:
        runs = [one.run for one in self._training]
        self.training.hide()
        self._fit()
        self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _choose(self, fix: Fix) -> None:
        runs = [one.run for one in self._interrupted]
        if fix.action is FixAction.RESUME:
            self.interrupted.hide()
            self._fit()
            self.resume_requested.emit(runs)
            self.seen.emit()
        else:
            self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _fit(self) -> None:
        strips = self.training, self.interrupted, self.trouble
        self.setVisible(not all(strip.isHidden() for strip in strips))


def _with_percent(live: LiveRun) -> str:
    done = percent(live)
    return f"“{live.title}”" if done is None else f"“{live.title}” ({done} %)"


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = list(names[:MOST_NAMES])
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" + {rest}" if rest else "")
