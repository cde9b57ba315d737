"""The list of results that were kept, newest first: to open one, to hold two against each other, to be rid of some."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.bench.kept import Kept
from core.bench.plan import Kind
from core.bench.result import Result, Standing
from gui import numbers
from gui.models.figures_model import Cell, Heading, Line, Tone
from gui.pages.benchmark_words import kept_title
from gui.theme import SPACING, Theme
from gui.widgets.figures_table import FiguresTable, on_card
from gui.widgets.roles import Role, set_role


class KeptList(QWidget):
    """A line a result; files that can't be read say why.

    Signals:
        opened: A `Kept` that is to be shown.
        compared: Two results, the earlier one first, that are to be held against each other.
        bin_wanted: The `Kept`s, a tuple, that are to go.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    opened = Signal(object)
    compared = Signal(object, object)
    bin_wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept: tuple[Kept, ...] = ()
        self.empty = QLabel(
            self.tr("Nothing has been measured yet. What you measure under Methods and Devices is kept here.")
        )
        self.empty.setWordWrap(True)
        set_role(self.empty, Role.MUTED)
        self.table = FiguresTable(self.tr("Earlier results"), theme)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.open = QPushButton(self.tr("Open"))
        self.compare = QPushButton(self.tr("Compare"))
        self.bin = QPushButton(self.tr("Move to the bin…"))
        self.said = QLabel()
        set_role(self.said, Role.HINT)
        self._card = on_card(self.table)
        self._buttons = QWidget()
        self._lay_out()
        self._connect()
        self.show_kept(())

    def show_kept(self, found: Sequence[Kept]) -> None:
        """Show these; what is chosen stays so."""
        self._kept = tuple(found)
        self.table.show_lines(self._headings(), [self._line(one) for one in found])
        self.empty.setVisible(not found)
        self._card.setVisible(bool(found))
        self._buttons.setVisible(bool(found))
        self._offer()

    def chosen(self) -> tuple[Kept, ...]:
        """What is chosen, from top to bottom."""
        keys = self.table.chosen
        return tuple(one for one in self._kept if str(one.path) in keys)

    def _offer(self) -> None:
        chosen = self.chosen()
        self.open.setEnabled(len(chosen) == 1 and chosen[0].result is not None)
        self.bin.setEnabled(bool(chosen))
        self.compare.setEnabled(self._pair() is not None)
        self.said.setText(self._why_not(chosen))

    def _pair(self) -> tuple[Result, Result] | None:
        """The two that can be compared, the earlier one first."""
        found = [one.result for one in self.chosen() if one.result is not None]
        if len(found) != 2 or len(self.chosen()) != 2 or found[0].kind is not found[1].kind:
            return None
        earlier, later = sorted(found, key=lambda one: one.begun)
        return earlier, later

    def _why_not(self, chosen: Sequence[Kept]) -> str:
        if len(chosen) < 2:
            return self.tr("Choose two of the same kind to compare them.") if len(self._kept) > 1 else ""
        if len(chosen) > 2:
            return self.tr("Only two can be compared.")
        if any(one.result is None for one in chosen):
            return self.tr("A file that can't be read can't be compared.")
        return "" if self._pair() else self.tr("Methods and devices can't be compared.")

    def _headings(self) -> tuple[Heading, ...]:
        return (
            Heading(self.tr("What was measured"), is_figure=False),
            Heading(self.tr("Kind"), is_figure=False),
            Heading(self.tr("Machine"), is_figure=False),
            Heading(self.tr("Measured"), is_figure=False),
            Heading(self.tr("Rows"), self.tr("How many have figures, of how many"), leaves=1),
            Heading("", is_figure=False),
        )

    def _line(self, one: Kept) -> Line:
        result, key = one.result, str(one.path)
        if result is None:
            return Line(
                key, (Cell(kept_title(one), Tone.QUIET),), Cell(one.problem, Tone.WARNING), one.problem
            )
        kinds = {Kind.METHODS: self.tr("Methods"), Kind.DEVICES: self.tr("Devices")}
        measured = sum(row.is_measured for row in result.rows)
        rows = self.tr("{} of {}").format(numbers.count(measured), numbers.count(len(result.plan.rungs)))
        cells = (
            Cell(result.plan.title, tip=result.plan.title),
            Cell(kinds[result.kind]),
            Cell(result.machine.title, tip=result.machine.title),
            Cell(numbers.moment(result.begun)),
            Cell(rows, Tone.QUIET),
            Cell(self._state(result), Tone.QUIET),
        )
        return Line(key, cells)

    def _state(self, result: Result) -> str:
        words = {
            Standing.WHOLE: self.tr("whole"),
            Standing.CANCELLED: self.tr("cancelled"),
            Standing.UNDER_WAY: self.tr("under way"),
            Standing.BROKEN_OFF: self.tr("broken off"),
        }
        return words[result.standing]

    def _open(self, key: str) -> None:
        for one in self._kept:
            if str(one.path) == key and one.result is not None:
                self.opened.emit(one)

    def _open_chosen(self) -> None:
        self._open(str(self.chosen()[0].path))

    def _compare(self) -> None:
        pair = self._pair()
        if pair is not None:
            self.compared.emit(*pair)

    def _want_bin(self) -> None:
        if chosen := self.chosen():
            self.bin_wanted.emit(chosen)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self._buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for button in (self.open, self.compare, self.bin):
            row.addWidget(button)
        row.addSpacing(SPACING)
        row.addWidget(self.said, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        for widget in (self._buttons, self._card, self.empty):
            column.addWidget(widget)
        column.addStretch(1)

    def _connect(self) -> None:
        self.table.choice_changed.connect(self._offer)
        self.table.opened.connect(self._open)
        self.table.bin_wanted.connect(self._want_bin)
        self.open.clicked.connect(self._open_chosen)
        self.compare.clicked.connect(self._compare)
        self.bin.clicked.connect(self._want_bin)
