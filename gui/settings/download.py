"""The line that shows a download: which, how far, how fast, and the buttons that pause, go on and give up."""

from collections.abc import Callable
from gettext import gettext as _

from PySide6.QtCore import QObject, Qt, QThread, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.services import hub
from core.services.hub import (
    Download,
    Downloaded,
    DownloadRequest,
    Found,
    Kind,
    Pace,
    Removed,
    RemoveRequest,
    Transfer,
)
from gui.base.background import Ask, EngineWork, JobTask, Pausable, State
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import ElidedLabel

# --- A download from the Hub as the window runs it: begun, paused, gone on with, given up


MakeTransfer = Callable[[DownloadRequest], Transfer]


class _Running(EngineWork):
    """Downloads in its thread.

    Signals:
        progressed: A `core.base.jobs.JobProgress`.
    """

    progressed = Signal(object)

    def __init__(self, transfer: Transfer, parent: QObject) -> None:
        super().__init__(parent)
        self._transfer = transfer
        self.done: Downloaded | None = None

    def begin(self) -> None:
        """The process is started where it is followed."""

    def work(self) -> None:
        self.done = self._transfer.run(self.progressed.emit)

    def kill(self) -> None:
        self._transfer.kill()


class HubTransfer(Pausable):
    """One download at a time.

    Signals:
        finished: The `core.services.hub.DownloadRequest` of which all has come.

    Args:
        ask: Starts the engine's job that deletes what is unfinished.
        make: Makes what downloads, in a process of its own.
        parent: Qt's parent.
    """

    finished = Signal(object)

    def __init__(self, ask: Ask, make: MakeTransfer = Download, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._make = make
        self._running: _Running | None = None
        self._threads: list[_Running] = []
        self._dropping = JobTask(ask, "hub-remove", Removed, self)
        self._dropping.failed.connect(self._fail)
        self._given_up: DownloadRequest | None = None
        self.request: DownloadRequest | None = None

    @property
    def title(self) -> str:
        """As `Pausable` has it."""
        return "" if self.request is None else self.request.id

    @property
    def doing(self) -> str:
        """As `Pausable` has it."""
        return _("Asking for the list of files…")

    def begin(self, request: DownloadRequest) -> None:
        """Download; what was under way before is paused."""
        self._end()
        self.request, self.progress, self.failure = request, None, None
        self.resume()

    def resume(self) -> None:
        """Go on where it ended."""
        if self.request is None or self.state is State.RUNNING:
            return
        self.state, self.failure, self.pace = State.RUNNING, None, Pace()
        running = _Running(self._make(self.request), self)
        running.progressed.connect(self._take)
        running.finished.connect(self._settle)
        self._threads.append(running)
        self._running = running
        running.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def pause(self) -> None:
        """End the process; what has come stays on the disk."""
        if self.state is State.RUNNING:
            self._end()
            self.state = State.PAUSED
            self.changed.emit()

    def cancel(self) -> None:
        """Give it up: what has come of it is deleted as soon as the process has ended."""
        if self.request is None:
            return
        self._given_up, self.request = self.request, None
        self._end()
        self.state, self.progress, self.failure = State.IDLE, None, None
        if not self._threads:
            self._drop()
        self.changed.emit()

    def close(self) -> None:
        """Pause, and wait until no thread is left."""
        self.pause()
        for thread in list(self._threads):
            thread.wait()
        self._dropping.close()

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def _drop(self) -> None:
        given_up, self._given_up = self._given_up, None
        if given_up is not None:
            self._dropping.put(RemoveRequest(id=given_up.id, kind=given_up.kind, only_partial=True))

    def _take(self, progress: JobProgress) -> None:
        if self.sender() is self._running:
            self.progress = progress
            self.pace.add(progress)
            self.changed.emit()

    def _settle(self) -> None:
        ended = self.sender()
        if not isinstance(ended, _Running):
            return
        self._threads.remove(ended)
        ended.deleteLater()
        if not self._threads:
            self._drop()
        if ended is not self._running:
            return
        self._running = None
        if ended.failure is not None:
            self._fail(ended.failure)
        elif ended.done is not None and self.request is not None:
            request, self.request, self.state = self.request, None, State.IDLE
            self.changed.emit()
            self.finished.emit(request)

    def _fail(self, error: UserError) -> None:
        self.state, self.failure = State.FAILED, error
        self.changed.emit()


# --- What the window says of a model on the Hub: its state, what the button does


HERE = "✓"


def state_words(found: Found) -> str:
    """The state in a few letters: here, partly here, gated, not for Hone."""
    if found.refusal:
        return _("can't be used")
    if found.complete:
        return _("{mark} here").format(mark=HERE)
    if found.here and found.size:
        share = formats.whole_percent(min(0.99, found.here / found.size))
        return _("{share} here").format(share=share)
    if found.here:
        return _("{size} here").format(size=formats.memory(found.here))
    if found.gated:
        return _("gated")
    return _("private") if found.private else ""


def button_words(found: Found | None, *, signed_in: bool) -> str:
    """What pressing the button does with a model, or why nothing."""
    if found is None or found.complete:
        return _("Use")
    if found.refusal:
        return _("Can't be used")
    if needs_token(found, signed_in=signed_in):
        return _("Sign in first…")
    return _download_words(found)


def _download_words(found: Found) -> str:
    if found.size is None or found.kind is Kind.DATASET:  # of which a subset may be all that comes
        return _("Download and use")
    if found.here:
        rest = formats.memory(max(0, found.size - found.here))
        return _("Download the other {size} and use").format(size=rest)
    return _("Download {size} and use").format(size=formats.memory(found.size))


def needs_token(found: Found, *, signed_in: bool) -> bool:
    """Whether a token has to be given before it can be had."""
    return found.gated and not signed_in and not found.complete and not found.refusal


def facts(found: Found) -> str:
    """A line of what is known of it."""
    purpose = found.purpose.replace("-", " ")
    licence = _("licence {name}").format(name=found.licence) if found.licence else ""
    return " · ".join(part for part in (purpose, licence) if part)


def explanation(found: Found, *, signed_in: bool) -> str:
    """What to know of it before pressing the button, its refusal aside."""
    if found.refusal:
        return found.remedy
    if found.complete:
        return _("It is on this computer: using it needs no network.")
    words = (
        _("Fetches its weights (safetensors), config and tokenizer from {host}; no code.")
        if found.kind is Kind.MODEL
        else _("Fetches its rows (Parquet, CSV, JSON) from {host}; no code.")
    ).format(host=hub.host())
    return f"{_gated_words(signed_in=signed_in)}\n{words}" if found.gated else words


def progress_words(progress: JobProgress, pace: Pace) -> str:
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


def _gated_words(*, signed_in: bool) -> str:
    words = _(
        "Its owner lets in only who has accepted its terms: open its page, sign in there, and accept them.",
    )
    if not signed_in:
        words += " " + _("Then give Hone a token of yours.")
    return words


# --- The line that shows a download: which, how far, how fast, and the buttons that pause


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
        self._bar.setAccessibleName(_("Downloaded"))
        self._bar.setTextVisible(False)
        self.pause = QPushButton()
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton(_("Cancel"))
        self.cancel.setToolTip(_("Give it up, and delete what has come of it"))
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
        self.pause.setText(_("Pause") if is_running else _("Go on"))
        progress = transfer.progress
        if progress is None or not progress.total:
            self._bar.setRange(0, 0 if is_running else 1)
        else:
            self._bar.setRange(0, THOUSAND)
            self._bar.setValue(THOUSAND * progress.done // progress.total)

    def _state_words(self) -> str:
        transfer = self._transfer
        if transfer.progress is None:
            return transfer.doing if transfer.state is State.RUNNING else _("Paused")
        if transfer.state is State.RUNNING:
            return progress_words(transfer.progress, transfer.pace)
        share = progress_words(transfer.progress, type(transfer.pace)())
        words = _("Paused at {share}") if transfer.state is State.PAUSED else _("Stopped at {share}")
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
