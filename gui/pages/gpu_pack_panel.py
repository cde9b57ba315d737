"""The GPU pack in Settings and on the device card of New run: how it stands, how far it is, and what to press."""

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gui import numbers
from gui.gpu_pack_work import PackWork
from gui.pages.gpu_pack_words import button_words, situation_words
from gui.pages.hub_transfer_line import TransferLine
from gui.pausable import State
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.question import Question
from gui.widgets.roles import Role, set_role

_translate = QCoreApplication.translate

Confirm = Callable[[QWidget], bool]
"""Asks whether the pack is to be removed."""


class GpuPackPanel(QWidget):
    """Words, a line while something comes, and buttons.

    Args:
        work: What it shows and does.
        only_offers: Whether it is there only while there is something to do: to install it, renew it, mend the driver.
        confirm: Asks whether it is to be removed.
        parent: Qt's parent.
    """

    def __init__(
        self,
        work: PackWork,
        parent: QWidget | None = None,
        *,
        only_offers: bool = False,
        confirm: Confirm | None = None,
    ) -> None:
        super().__init__(parent)
        self._work, self._only_offers = work, only_offers
        self._confirm = confirm or ask_whether_to_remove
        self._words = _text(Role.MUTED)
        self._trouble = _text(Role.PROBLEM)
        self.line = TransferLine(work)
        self.install = QPushButton()
        self.install.clicked.connect(work.resume)
        self.drop = QPushButton(self.tr("Delete what has come"))
        self.drop.clicked.connect(work.cancel)
        self.remove = QPushButton(self.tr("Remove…"))
        self.remove.setAccessibleName(self.tr("Remove the GPU pack"))
        self.remove.clicked.connect(self._remove)
        self._lay_out()
        work.changed.connect(self.refresh)
        if self.is_wanted:
            self._fill()
        else:
            self.hide()  # but never shown here: without its parent yet, it would be a window

    @property
    def words(self) -> str:
        """What is said, with what went wrong."""
        return "\n".join(label.text() for label in (self._words, self._trouble) if label.text())

    def refresh(self) -> None:
        """Show how the pack stands, or nothing."""
        self.setVisible(self.is_wanted)
        self._fill()

    def _fill(self) -> None:
        found, work = self._work.situation, self._work
        is_idle = work.state is State.IDLE
        if found is None:
            return
        self._words.setText(situation_words(found))
        self._trouble.setText(self._failure())
        self._trouble.setVisible(bool(self._trouble.text()))
        words = button_words(found)
        self.install.setText(words)
        self.install.setVisible(is_idle and bool(words))
        self.drop.setVisible(is_idle and bool(found.begun) and not self._only_offers)
        can_remove = is_idle or work.state is State.FAILED
        self.remove.setVisible(can_remove and found.standing.is_there and not self._only_offers)

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to show."""
        found = self._work.situation
        if found is None or not (found.concerns or self._work.state is not State.IDLE):
            return False
        return not (self._only_offers and found.standing.is_used and self._work.state is State.IDLE)

    def _failure(self) -> str:
        error = self._work.failure
        if error is None:
            return ""
        return "\n".join(
            part for part in (error.title, error.detail, *(fix.label for fix in error.fixes)) if part
        )

    def _remove(self) -> None:
        if self._confirm(self):
            self._work.remove()

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(SPACING)
        for button in (self.install, self.drop, self.remove):
            buttons.addWidget(button)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING)
        for label in (self._words, self._trouble):
            layout.addWidget(label)
        layout.addWidget(self.line)
        layout.addLayout(buttons)


class GpuPackCard(Card):
    """The panel as a card of Settings, there where there is an NVIDIA card or a pack."""

    def __init__(self, work: PackWork, parent: QWidget | None = None) -> None:
        super().__init__(_translate("GpuPack", "GPU pack"), parent)
        self.panel = GpuPackPanel(work)
        self.body.addWidget(self.panel)
        self._work = work
        work.changed.connect(self._follow)
        if self.panel.is_wanted:
            self._tell_size()
        else:
            self.hide()

    def _follow(self) -> None:
        self.setVisible(self.panel.is_wanted)
        self._tell_size()

    def _tell_size(self) -> None:
        found = self._work.situation
        pack = found.standing.pack if found is not None else None
        self.set_trailing("" if pack is None else numbers.memory(pack.size))


def ask_whether_to_remove(parent: QWidget) -> bool:
    """Ask whether to delete the pack."""
    title = _translate("GpuPack", "Remove the GPU pack?")
    words = _translate(
        "GpuPack", "Hone then trains on the CPU. To have it again, all of it has to be downloaded anew."
    )
    return Question(title, words, {True: _translate("GpuPack", "Remove")}, parent).ask(False)


def _text(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    set_role(label, role)
    return label
