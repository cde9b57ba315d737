"""Installing PyTorch with CUDA beside a bundle, in Settings and on the device card of New run."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.base.language import _
from core.services import gpu_install
from core.services.downloads import DownloadPace, progress_text
from core.services.gpu_install import GpuState, Install
from gui.base.background import EngineWork
from gui.base.files import reveal
from gui.base.questions import Question
from gui.base.theme import Role
from gui.widgets.bars import progress_bar
from gui.widgets.cards import Card
from gui.widgets.labels import push_button, text_label
from gui.widgets.layout import hbox, vbox


class GpuInstaller(QObject):
    """Examines, installs and removes in threads. `state` is None until it has been examined."""

    changed = Signal()  # the state, the progress or the failure
    installed = Signal()  # the engine uses another PyTorch from now on

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._install: Install | None = None
        self.state: GpuState | None = None
        self.progress: JobProgress | None = None
        self.pace = DownloadPace()
        self._looking: EngineWork[GpuState] = EngineWork(self, done=self._on_state)
        self._working: EngineWork[object] = EngineWork(
            self, progress=self._on_progress, done=self.installed, failed=self.changed, settled=self.look
        )

    @property
    def failure(self) -> UserError | None:
        return self._working.failure

    @property
    def is_installing(self) -> bool:
        return self._working.is_running and self._install is not None

    def look(self) -> None:
        self._looking.start(lambda _: gpu_install.look())

    def install(self) -> None:
        self.progress, self.pace = None, DownloadPace()
        try:
            self._install = install = gpu_install.installation(self.state)
        except UserError as error:
            self._working.failure = error
        else:
            self._working.start(lambda call: install.run(call.tell))
        self.changed.emit()

    def cancel(self) -> None:
        """End the installation; downloaded files are kept."""
        if self._install is not None:
            self._install.kill()

    def remove(self) -> None:
        self._install = None
        self._working.start(lambda _: gpu_install.remove())

    def close(self) -> None:
        self.cancel()
        self._working.close()
        self._looking.close()

    def _on_state(self, state: GpuState) -> None:
        self.state = state
        self.changed.emit()

    def _on_progress(self, progress: JobProgress) -> None:
        self.progress = progress
        if progress.total:
            self.pace.add(progress)
        self.changed.emit()


class GpuPanel(QWidget):
    """What is installed or can be, the progress, and buttons.

    Args:
        only_offers: Whether it is hidden if there is nothing to install or update.
    """

    def __init__(self, installer: GpuInstaller, *, only_offers: bool = False) -> None:
        super().__init__()
        self._installer, self._only_offers = installer, only_offers
        self.text = text_label(role=Role.MUTED, selectable=True)
        self.failure = text_label(role=Role.PROBLEM, selectable=True)
        self.step = text_label(role=Role.MUTED, selectable=True)
        self.bar = progress_bar(_("Installed"))
        self.install = push_button(pressed=installer.install)
        self.cancel = push_button(_("Cancel"), installer.cancel, _("Downloaded files are kept"))
        self.remove = push_button(_("Remove…"), self._on_remove, name=_("Remove PyTorch with CUDA"))
        self.log = push_button(_("Show the log"), lambda: reveal(gpu_install.log_file()))
        buttons = hbox(self.install, self.cancel, self.remove, self.log, None)
        self.setLayout(vbox(self.text, self.failure, self.step, self.bar, buttons))
        installer.changed.connect(self.refresh)
        if self.is_wanted:
            self._fill()
        else:
            self.hide()

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to show."""
        state = self._installer.state
        if state is None or not state.concerns:
            return False
        return self._installer.is_installing or not (self._only_offers and state.is_used)

    def refresh(self) -> None:
        self.setVisible(self.is_wanted)
        self._fill()

    def _fill(self) -> None:
        installer, state = self._installer, self._installer.state
        if state is None:
            return
        error = installer.failure
        parts = () if error is None else (error.title, error.detail, *(fix.label for fix in error.fixes))
        self.text.setText(gpu_install.state_text(state))
        self.failure.setText("\n".join(filter(None, parts)))
        self.failure.setHidden(error is None)
        is_busy, progress = installer.is_installing, installer.progress
        self.bar.setRange(0, 1000 if progress is not None and progress.total else 0)
        if progress is not None:
            self.bar.setValue(round(1000 * progress.share))
            amount = f" · {progress_text(progress, installer.pace)}" if progress.total else ""
            self.step.setText(f"{progress.what}{amount}")
        for part in (self.bar, self.step, self.cancel):
            part.setVisible(is_busy)
        self.install.setText(button_text(state))
        self.install.setHidden(is_busy or state.is_used or bool(state.refusal))
        is_there = state.installed is not None or bool(state.begun)
        self.remove.setHidden(is_busy or not is_there or self._only_offers)
        self.log.setVisible(is_busy or error is not None)

    def _on_remove(self) -> None:
        text = _("Hone then trains on the CPU. To install it again, all of it has to be downloaded.")
        title, answers = _("Remove PyTorch with CUDA?"), {True: _("Remove")}
        if Question(title, text, answers, self, return_cancels=True).ask(False):
            self._installer.remove()


class GpuCard(Card):
    """The panel as a card of Settings, shown if there is an NVIDIA card or something is installed."""

    def __init__(self, installer: GpuInstaller) -> None:
        super().__init__(_("NVIDIA GPU"))
        self.panel = GpuPanel(installer)
        self.body.addWidget(self.panel)
        self._installer = installer
        installer.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        self.setHidden(not self.panel.is_wanted)
        state = self._installer.state
        installed = state.installed if state is not None else None
        self.set_trailing("" if installed is None else formats.memory(installed.size))


def button_text(state: GpuState) -> str:
    if state.installed is not None:
        return _("Update")
    if state.begun:
        return _("Continue")
    return _("Install, {size}").format(size=formats.memory(gpu_install.DOWNLOAD))
