"""The GPU pack as the window installs it: looked for, installed, paused, gone on with, given up, removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from core.errors import UserError
from core.hub_download import Pace
from gui.engine_work import EngineWork
from gui.file_work import FileWork
from gui.pausable import Pausable, State

if TYPE_CHECKING:
    from core.gpu_pack.install import PackProgress
    from core.gpu_pack.pack import Pack
    from core.gpu_pack.what import Offer, Situation


class Installing(Protocol):
    """An installation that can be run once; `core.gpu_pack.install.Install` is the real one."""

    def run(self, tell: Callable[[PackProgress], None]) -> Pack:
        """Install, waiting until it is done."""

    def kill(self) -> None:
        """End it at once."""


class PackTools(Protocol):
    """What is done with the pack; each may take its time."""

    def look(self) -> Situation:
        """How things stand."""

    def installation(self, offer: Offer | None) -> Installing:
        """What installs it; raises UserError where it isn't to be had."""

    def remove(self) -> int:
        """Delete it; returns the bytes freed."""

    def drop_begun(self) -> int:
        """Delete what has come of one that isn't done."""


class RealTools:
    """Those of `core.gpu_pack`, imported where they are used: the window is up sooner."""

    def look(self) -> Situation:
        """As `PackTools` has it."""
        from core.gpu_pack import what

        return what.look()

    def installation(self, offer: Offer | None) -> Installing:
        """As `PackTools` has it."""
        from core.gpu_pack import install

        return install.installation(offer=offer)

    def remove(self) -> int:
        """As `PackTools` has it."""
        from core.gpu_pack import install

        return install.remove()

    def drop_begun(self) -> int:
        """As `PackTools` has it."""
        from core.gpu_pack import install

        return install.drop_begun()


class _Running(EngineWork):
    """Installs in its thread.

    Signals:
        progressed: A `core.gpu_pack.install.PackProgress`.
    """

    progressed = Signal(object)

    def __init__(self, make: Callable[[], Installing], parent: QObject) -> None:
        super().__init__(parent)
        self._make = make
        self._installing: Installing | None = None
        self.is_done = False

    def begin(self) -> None:
        self._installing = self._make()

    def work(self) -> None:
        assert self._installing is not None
        self._installing.run(self.progressed.emit)
        self.is_done = True

    def kill(self) -> None:
        if self._installing is not None:
            self._installing.kill()


class PackWork(Pausable):
    """Knows how the pack stands, and does what the person asks for.

    `situation` is what was found, None before. `changed` is sent for it as well.

    Signals:
        installed: The engine runs from another PyTorch from now on.
    """

    installed = Signal()

    def __init__(self, tools: PackTools | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tools = tools or RealTools()
        self._running: _Running | None = None
        self._threads: list[_Running] = []
        self._gives_up = False
        self._step = ""
        self._files = FileWork(self)
        self._files.failed.connect(self._fail)
        self.situation: Situation | None = None

    @property
    def title(self) -> str:
        """What is done at the moment, as far as it has been told."""
        match self._step:
            case "Python":
                return self.tr("Bringing Python")
            case "libraries":
                return self.tr("Bringing PyTorch and what else trains")
            case "check":
                return self.tr("Checking that it works")
        return self.tr("Installing the GPU pack")

    @property
    def doing(self) -> str:
        """Nothing: the title says it."""
        return ""

    def look(self) -> None:
        """Find out how the pack stands."""
        self._files.put(self._tools.look, self._take)

    def resume(self) -> None:
        """Install it, or go on with that."""
        if self.state is State.RUNNING:
            return
        self.state, self.failure, self.progress, self.pace = State.RUNNING, None, None, Pace()
        self._step = ""
        offer = self.situation.offer if self.situation is not None else None
        running = _Running(lambda: self._tools.installation(offer), self)
        running.progressed.connect(self._hear)
        running.finished.connect(self._settle)
        self._threads.append(running)
        self._running = running
        running.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def pause(self) -> None:
        """End it; what has come stays on the disk."""
        if self.state is State.RUNNING:
            self._end()
            self.state = State.PAUSED
            self.changed.emit()

    def cancel(self) -> None:
        """Give it up: what has come is deleted as soon as the processes have ended."""
        self._end()
        self.state, self.progress, self.failure = State.IDLE, None, None
        self._gives_up = True
        if not self._threads:
            self._drop()
        self.changed.emit()

    def remove(self) -> None:
        """Delete the pack."""
        self.failure = None
        self._files.put(self._tools.remove, self._removed)

    def close(self) -> None:
        """Pause, and wait until no thread is left."""
        self.pause()
        for thread in list(self._threads):
            thread.wait()
        self._files.end_work()

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def _drop(self) -> None:
        if self._gives_up:
            self._gives_up = False
            self._files.put(self._tools.drop_begun, lambda _: self.look())

    def _removed(self, _freed: int) -> None:
        self.state = State.IDLE
        self.look()
        self.installed.emit()

    def _take(self, situation: Situation) -> None:
        self.situation = situation
        self.changed.emit()

    def _hear(self, progress: PackProgress) -> None:
        if self.sender() is self._running:
            self._step = progress.step.value
            self.progress = progress if progress.total else None
            if progress.total:
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
        if ended is self._running:
            self._running = None
            self.look()
            if ended.failure is not None:
                self._fail(ended.failure)
            elif ended.is_done:
                self.state, self.progress = State.IDLE, None
                self.changed.emit()
                self.installed.emit()

    def _fail(self, error: UserError) -> None:
        if self.state is State.RUNNING:
            self.state = State.FAILED
        self.failure = error
        self.changed.emit()
