"""The queue: runs that wait for their turn, in the order in which they will train."""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QPushButton, QWidget

from core.base.formats import in_line
from core.base.language import _
from core.runs.queue import LiveRun, Move
from core.runs.words import awaited_text
from gui.base.theme import Role
from gui.base.titles import distinct_titles
from gui.base.tokens import SPACING
from gui.run.words import starts_now
from gui.widgets.cards import Card
from gui.widgets.labels import ElidedLabel, link_button, role_label

FIRST_BUTTON = 2
"""The column of the first button, after the place and the name."""


class QueueCard(Card):
    """A row per waiting run: place, name, and buttons to open, move, start or remove it. Hidden while none waits."""

    run_opened = Signal(object)  # a `RunFolder`
    move_requested = Signal(object, object)  # a `RunFolder` and a `core.runs.queue.Move`
    leave_requested = Signal(object)  # the `RunFolder` to remove from the queue

    def __init__(self) -> None:
        super().__init__(_("Queue"))
        self.waiting: tuple[LiveRun, ...] = ()
        self._titles: list[str] = []
        self._buttons: dict[tuple[Path, int], QPushButton] = {}
        self.rows = QWidget()
        self.body.addWidget(self.rows)
        self.hide()

    def show_waiting(self, waiting: Sequence[LiveRun]) -> None:
        focused = next((at for at, button in self._buttons.items() if button.hasFocus()), None)
        self.waiting = tuple(waiting)
        self._titles = distinct_titles([(live.run.path, live.title) for live in self.waiting])
        self._buttons = {}
        rows = QWidget()
        grid = QGridLayout(rows)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(SPACING // 2)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(1, 1)
        for place, live in enumerate(self.waiting):
            self._add_row(grid, place, live)
        self.body.replaceWidget(self.rows, rows)
        self.rows.deleteLater()
        self.rows = rows
        self.setVisible(bool(self.waiting))
        if focused is not None:
            rows.show()  # a hidden button can't have the focus
            self._focus(*focused)

    def _add_row(self, grid: QGridLayout, place: int, live: LiveRun) -> None:
        grid.addWidget(role_label(Role.MUTED, f"{place + 1}"), place, 0)
        waits_for = awaited_text(live.awaited) if live.awaited is not None and live.awaited.is_source else ""
        grid.addWidget(ElidedLabel(in_line(self._titles[place], waits_for)), place, 1)
        for column, button in enumerate(self._row_buttons(place, live), FIRST_BUTTON):
            self._buttons[live.run.path, column] = button
            button.setAccessibleName(f"{button.text()}: {self._titles[place]}")
            grid.addWidget(button, place, column)

    def _needs(self, place: int, other: int) -> bool:
        """Whether a run starts from the model of another one."""
        awaited = self.waiting[place].awaited
        return awaited is not None and awaited.is_source and awaited.behind == self.waiting[other].run.name

    def _focus(self, run: Path, column: int) -> None:
        """Focus this button, or the nearest one of the row that is enabled."""
        at_the_row = [
            (abs(other - column), button)
            for (path, other), button in self._buttons.items()
            if path == run and button.isEnabled()
        ]
        if at_the_row:
            min(at_the_row, key=itemgetter(0))[1].setFocus()

    def _row_buttons(self, place: int, live: LiveRun) -> tuple[QPushButton, ...]:
        run = live.run
        up = link_button(_("Move up"), partial(self.move_requested.emit, run, Move.UP))
        up.setEnabled(place > 0 and not self._needs(place, place - 1))
        down = link_button(_("Move down"), partial(self.move_requested.emit, run, Move.DOWN))
        down.setEnabled(place < len(self.waiting) - 1 and not self._needs(place + 1, place))
        start = link_button(_("Start now"), partial(self._start, live))
        start.setEnabled(not (live.awaited and live.awaited.is_source))
        if (link := run.connection()) is not None:
            for button in (up, down, start):
                button.setEnabled(False)
                button.setToolTip(
                    _("It waits on {computer}, in the queue there.").format(computer=link.computer)
                )
        tip = _("It will not train. It can be started later.")
        leaving = link_button(_("Remove from the queue"), partial(self.leave_requested.emit, run), tip)
        return link_button(_("Open"), partial(self.run_opened.emit, run)), up, down, start, leaving

    def _start(self, live: LiveRun) -> None:
        if starts_now(live.awaited, self):
            self.move_requested.emit(live.run, Move.NOW)
