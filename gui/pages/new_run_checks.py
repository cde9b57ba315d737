"""The card "Checks": every problem at once, each a link to its field, and what is in order."""

import html
from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from core.events import Level
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.link_label import LinkLabel
from gui.widgets.roles import Role, set_role


@dataclass(frozen=True)
class Check:
    """One line. `level` None: in order. With a `path` its `subject` is a link to that option."""

    level: Level | None
    text: str
    subject: str = ""
    path: str = ""


MARKS = {None: ("✓", Role.OK), Level.INFO: ("…", Role.MUTED), Level.WARNING: ("!", Role.WARNING)}


class ChecksCard(Card):
    """Lines of what is wrong, worth knowing, or in order.

    Signals:
        path_chosen: The path of the option whose link was pressed.
    """

    path_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.set_title(self.tr("Checks"))
        self._shown: list[Check] = []

    def show_checks(self, checks: Iterable[Check]) -> None:
        """Show these lines."""
        wanted = list(checks)
        if wanted == self._shown:
            return
        self._shown = wanted
        while (item := self.body.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        for check in wanted:
            self.body.addWidget(self._line(check))

    @property
    def checks(self) -> list[Check]:
        """The lines shown."""
        return list(self._shown)

    def _line(self, check: Check) -> QWidget:
        line = QWidget(self)
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        symbol, role = MARKS.get(check.level, ("✕", Role.PROBLEM_MARK))
        mark = QLabel(symbol)
        set_role(mark, role)
        mark.setFixedWidth(mark.fontMetrics().horizontalAdvance("✓✓"))
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._text(check), 1)
        return line

    def _text(self, check: Check) -> QLabel:
        if check.path:
            label: QLabel = LinkLabel()
            link = f'<a href="{html.escape(check.path)}" style="text-decoration:none">{html.escape(check.subject)}</a>'
            label.setText(f"{link}&nbsp; {html.escape(check.text)}")
            label.setAccessibleName(f"{check.subject} {check.text}".rstrip())
            label.linkActivated.connect(self.path_chosen)
        else:
            label = QLabel()
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setText(check.text)
        return label
