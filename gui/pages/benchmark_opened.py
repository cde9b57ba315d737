"""One earlier result, shown as it was when it was measured."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.bench.result import Result
from core.bench.trade import best_trade
from gui.benchmark_picture import view_of
from gui.benchmark_saving import BenchmarkSaving
from gui.pages.benchmark_devices import DevicesView
from gui.pages.benchmark_methods import MethodsView
from gui.pages.benchmark_words import machine_words
from gui.theme import SPACING, Theme
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role


class OpenedResult(QWidget):
    """Its title and machine, what can be done with it, its charts and its table.

    Signals:
        left: The person wants back to the list.
        use_requested: The `core.bench.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    left = Signal()
    use_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.view: MethodsView | DevicesView | None = None
        self.back = QPushButton(self.tr("‹ Earlier results"))
        set_role(self.back, Role.LINK)
        self.title, self.where = ElidedLabel(), ElidedLabel()
        set_role(self.title, Role.CARD_TITLE)
        set_role(self.where, Role.MUTED)
        self.saving = BenchmarkSaving(theme)
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.notes = QLabel()
        self.notes.setWordWrap(True)
        set_role(self.notes, Role.MUTED)
        self._lay_out()
        self._connect()

    def show_result(self, result: Result) -> None:
        """Show another one."""
        self.strip.hide()
        self.title.setText(result.plan.title)
        self.where.setText(machine_words(result))
        self.notes.setText("\n".join((best_trade(result), *result.plan.notes)))
        self.saving.show_result(result)
        self.saving.take_published(False)
        if self.view is not None:
            self._column.removeWidget(self.view)
            self.view.hide()
            self.view.deleteLater()
        self.view = view_of(result, self._theme)
        if isinstance(self.view, MethodsView):
            self.view.use_requested.connect(self.use_requested)
        self.view.published_toggled.connect(self.saving.take_published)
        self._column.insertWidget(2, self.view)

    def _connect(self) -> None:
        self.back.clicked.connect(self.left)
        self.saving.tell_in(self.strip)

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.title)
        names.addWidget(self.where)
        head = QHBoxLayout()
        head.setSpacing(SPACING)
        head.addLayout(names, 1)
        head.addWidget(self.saving)
        head.addWidget(self.back)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACING + 4)
        self._column.addLayout(head)
        self._column.addWidget(self.strip)
        self._column.addWidget(self.notes)
        self._column.addStretch(1)
