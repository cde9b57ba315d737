"""The line that shows a download: which, how far, how fast, and the buttons that pause, go on and give up."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from gui.pages.hub_words import progress_words
from gui.pausable import Pausable, State
from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role

THOUSAND = 1000


class TransferLine(QWidget):
    """Shows one download, and is hidden while there is none."""

    def __init__(self, transfer: Pausable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._transfer = transfer
        self._name = ElidedLabel()
        set_role(self._name, Role.STRONG)
        self._words = QLabel()
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._words, Role.MUTED)
        self._bar = QProgressBar()
        self._bar.setAccessibleName(self.tr("Downloaded"))
        self._bar.setTextVisible(False)
        self.pause = QPushButton()
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton(self.tr("Cancel"))
        self.cancel.setToolTip(self.tr("Give it up, and delete what has come of it"))
        self.cancel.clicked.connect(transfer.cancel)
        self._lay_out()
        transfer.changed.connect(self.refresh)
        self.refresh()

    @property
    def words(self) -> str:
        """What is said of the download."""
        return self._words.text()

    def refresh(self) -> None:
        """Show where the download stands."""
        transfer = self._transfer
        self.setVisible(transfer.state is not State.IDLE)
        if not transfer.title:
            return
        self._name.setText(transfer.title)
        self._words.setText(self._state_words())
        is_running = transfer.state is State.RUNNING
        self.pause.setText(self.tr("Pause") if is_running else self.tr("Go on"))
        progress = transfer.progress
        if progress is None or not progress.total:
            self._bar.setRange(0, 0 if is_running else 1)
        else:
            self._bar.setRange(0, THOUSAND)
            self._bar.setValue(THOUSAND * progress.done // progress.total)

    def _state_words(self) -> str:
        transfer = self._transfer
        if transfer.progress is None:
            return transfer.doing if transfer.state is State.RUNNING else self.tr("Paused")
        if transfer.state is State.RUNNING:
            return progress_words(transfer.progress, transfer.pace)
        share = progress_words(transfer.progress, type(transfer.pace)())
        words = (
            self.tr("Paused at {share}") if transfer.state is State.PAUSED else self.tr("Stopped at {share}")
        )
        return words.format(share=share)

    def _pause_or_resume(self) -> None:
        if self._transfer.state is State.RUNNING:
            self._transfer.pause()
        else:
            self._transfer.resume()

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._name, 1)
        heading.addWidget(self._words)
        told = QVBoxLayout()
        told.setSpacing(SPACING // 2)
        told.addLayout(heading)
        told.addWidget(self._bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addLayout(told, 1)
        row.addWidget(self.pause)
        row.addWidget(self.cancel)
