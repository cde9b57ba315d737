"""A download from the Hub, and its progress."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.base.language import _
from core.jobs import hub as hub_jobs
from core.services import downloads
from gui.base.background import Ask, EngineWork
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.bars import progress_bar
from gui.widgets.labels import ElidedLabel, push_button, role_label
from gui.widgets.layout import hbox, vbox


class Download(QObject):
    """One download at a time, `request`. If it doesn't run, it is paused or has failed, and can be resumed."""

    changed = Signal()
    finished = Signal(object)  # the finished `core.jobs.hub.DownloadRequest`

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._loading: EngineWork[hub_jobs.Downloaded] = EngineWork(
            self,
            progress=self._on_progress,
            done=self._on_done,
            failed=self.changed,
            idle=self._remove_cancelled,
        )
        self._removing: EngineWork[hub_jobs.Removed] = EngineWork(self, failed=self.changed)
        self._cancelled: hub_jobs.DownloadRequest | None = None
        self.request: hub_jobs.DownloadRequest | None = None
        self.progress: JobProgress | None = None
        self.pace = downloads.DownloadPace()

    @property
    def is_running(self) -> bool:
        return self._loading.is_running

    @property
    def failure(self) -> UserError | None:
        return self._loading.failure or self._removing.failure

    def start(self, request: hub_jobs.DownloadRequest) -> None:
        """Start a download; one that runs is paused."""
        self.request, self.progress = request, None
        self.resume()

    def resume(self) -> None:
        if self.request is not None:
            self.pace = downloads.DownloadPace()
            self._loading.ask(self._ask, "hub-download", hub_jobs.Downloaded, self.request)
            self.changed.emit()

    def pause(self) -> None:
        """Kill the process; the files so far stay on the disk."""
        self._loading.cancel()
        self.changed.emit()

    def cancel(self) -> None:
        """Kill the process, and delete the files so far once it has ended."""
        self._cancelled, self.request, self.progress = self.request, None, None
        self._loading.cancel()
        self._loading.failure = None
        if self._loading.is_idle:
            self._remove_cancelled()
        self.changed.emit()

    def close(self) -> None:
        """Pause, and wait for the download's thread; files of a cancelled one are deleted all the same."""
        self._loading.close()
        self._remove_cancelled()

    def _on_progress(self, progress: JobProgress) -> None:
        self.progress = progress
        self.pace.add(progress)
        self.changed.emit()

    def _on_done(self) -> None:
        request, self.request = self.request, None
        self.changed.emit()
        self.finished.emit(request)

    def _remove_cancelled(self) -> None:
        request, self._cancelled = self._cancelled, None
        if request is not None:
            partly = hub_jobs.RemoveRequest(id=request.id, kind=request.kind, only_partial=True)
            self._removing.ask(self._ask, "hub-remove", hub_jobs.Removed, partly)


class DownloadLine(QWidget):
    """Shows a download; hidden while there is none."""

    def __init__(self, download: Download) -> None:
        super().__init__()
        self._download = download
        self._name, self.status = ElidedLabel(role=Role.STRONG), role_label(Role.MUTED)
        self._bar = progress_bar(_("Downloaded"))
        self.pause = push_button(
            pressed=lambda: download.pause() if download.is_running else download.resume()
        )
        self.cancel = push_button(_("Cancel"), download.cancel, _("Stop, and delete what was downloaded"))
        texts = vbox(hbox((self._name, 1), self.status), self._bar, spacing=SPACING // 2)
        self.setLayout(hbox((texts, 1), self.pause, self.cancel))
        download.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        download = self._download
        self.setVisible(download.request is not None)
        if download.request is None:
            return
        self._name.setText(download.request.id)
        self.status.setText(self._status_text())
        self.pause.setText(_("Pause") if download.is_running else _("Resume"))
        progress = download.progress
        if progress is None or not progress.total:
            self._bar.setRange(0, 0 if download.is_running else 1)
        else:
            self._bar.setRange(0, 1000)
            self._bar.setValue(round(1000 * progress.share))

    def _status_text(self) -> str:
        download = self._download
        if download.progress is None:
            return _("Requesting the list of files…") if download.is_running else _("Paused")
        if download.is_running:
            return downloads.progress_text(download.progress, download.pace)
        text = _("Paused at {share}") if download.failure is None else _("Stopped at {share}")
        return text.format(share=downloads.progress_text(download.progress, downloads.DownloadPace()))
