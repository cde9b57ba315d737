"""A download from the Hub in the window, and the line that shows it."""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.base.language import _
from core.services.hub import Downloaded, DownloadRequest, Pace, Removed, RemoveRequest
from gui.base.background import Ask, JobTask
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import ElidedLabel


class Download(QObject):
    """One download at a time. It runs, or it is paused or failed (`failure` says why) and can be continued.

    Signals:
        changed: Its state or progress.
        finished: The finished `core.services.hub.DownloadRequest`.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    changed = Signal()
    finished = Signal(object)

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._task = JobTask(ask, "hub-download", Downloaded, self)
        self._task.progress.connect(self._on_progress)
        self._task.done.connect(self._finish)
        self._task.failed.connect(self._fail)
        self._removing = JobTask(ask, "hub-remove", Removed, self)
        self._removing.failed.connect(self._fail)
        self.request: DownloadRequest | None = None
        self.progress: JobProgress | None = None
        self.failure: UserError | None = None
        self.pace = Pace()

    @property
    def is_running(self) -> bool:
        return self._task.is_running

    def start(self, request: DownloadRequest) -> None:
        """Download this; a download under way is paused."""
        self.request, self.progress = request, None
        self.resume()

    def resume(self) -> None:
        self.failure, self.pace = None, Pace()
        self._task.put(self.request)
        self.changed.emit()

    def pause(self) -> None:
        """End the process; what has come stays on the disk."""
        self._task.cancel()
        self.changed.emit()

    def cancel(self) -> None:
        """Give it up, and delete what has come of it."""
        self._task.close()  # its process has to be over before
        request, self.request, self.progress, self.failure = self.request, None, None, None
        if request is not None:
            self._removing.put(RemoveRequest(id=request.id, kind=request.kind, only_partial=True))
        self.changed.emit()

    def close(self) -> None:
        """Pause, and wait until no thread is left."""
        self._task.close()
        self._removing.close()

    def _on_progress(self, progress: JobProgress) -> None:
        self.progress = progress
        self.pace.add(progress)
        self.changed.emit()

    def _finish(self) -> None:
        request, self.request = self.request, None
        self.changed.emit()
        self.finished.emit(request)

    def _fail(self, error: UserError) -> None:
        self.failure = error
        self.changed.emit()


def progress_text(progress: JobProgress, pace: Pace) -> str:
    """How far a download is: `120 of 268 MB · 12.1 MB/s · 12 s left`."""
    words = _("{done} of {total}").format(
        done=formats.memory(progress.done), total=formats.memory(progress.total)
    )
    speed, left = pace.speed, pace.left(progress)
    if speed:
        words += " · " + _("{speed}/s").format(speed=formats.memory(speed))
    if left is not None:
        words += " · " + _("{time} left").format(time=formats.duration(left))
    return words


THOUSAND = 1000


class DownloadLine(QWidget):
    """Shows a download, and is hidden while there is none."""

    def __init__(self, download: Download, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._download = download
        self._name = ElidedLabel()
        set_role(self._name, Role.STRONG)
        self._words = QLabel()
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._words, Role.MUTED)
        self._bar = QProgressBar()
        self._bar.setAccessibleName(_("Downloaded"))
        self._bar.setTextVisible(False)
        self.pause = QPushButton()
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton(_("Cancel"))
        self.cancel.setToolTip(_("Give it up, and delete what has come of it"))
        self.cancel.clicked.connect(download.cancel)
        layout = QVBoxLayout()
        layout.setSpacing(SPACING // 2)
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._name, 1)
        heading.addWidget(self._words)
        layout.addLayout(heading)
        layout.addWidget(self._bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addLayout(layout, 1)
        row.addWidget(self.pause)
        row.addWidget(self.cancel)
        download.changed.connect(self.refresh)
        self.refresh()

    @property
    def words(self) -> str:
        return self._words.text()

    def refresh(self) -> None:
        download = self._download
        self.setVisible(download.request is not None)
        if download.request is None:
            return
        self._name.setText(download.request.id)
        self._words.setText(self._state())
        self.pause.setText(_("Pause") if download.is_running else _("Go on"))
        progress = download.progress
        if progress is None or not progress.total:
            self._bar.setRange(0, 0 if download.is_running else 1)
        else:
            self._bar.setRange(0, THOUSAND)
            self._bar.setValue(round(THOUSAND * progress.share))

    def _state(self) -> str:
        download = self._download
        if download.progress is None:
            return _("Asking for the list of files…") if download.is_running else _("Paused")
        if download.is_running:
            return progress_text(download.progress, download.pace)
        words = _("Paused at {share}") if download.failure is None else _("Stopped at {share}")
        return words.format(share=progress_text(download.progress, Pace()))

    def _pause_or_resume(self) -> None:
        if self._download.is_running:
            self._download.pause()
        else:
            self._download.resume()
