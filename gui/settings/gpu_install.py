"""The GPU pack in Settings and on the device card of New run: how it stands, how far it is, and what to press."""

from __future__ import annotations

from collections.abc import Callable
from gettext import gettext as _
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from core.base.errors import UserError
from core.services.hub import Pace
from gui.base.background import EngineWork, FileWork, Pausable, State

if TYPE_CHECKING:
    from core.base.jobs import Pack
    from core.services.gpu_install import Offer, PackProgress, Situation
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base import format as numbers
from core.base.jobs import Pack
from core.services.gpu_install import Offer, Situation
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.base.trash import Question
from gui.settings.download import TransferLine
from gui.widgets.cards import Card

# --- The GPU pack as the window installs it: looked for, installed, paused, gone on with


class Installing(Protocol):
    """An installation that can be run once; `core.services.gpu_install.Install` is the real one."""

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
        from core.services import gpu_install

        return gpu_install.look()

    def installation(self, offer: Offer | None) -> Installing:
        """As `PackTools` has it."""
        from core.services import gpu_install

        return gpu_install.installation(offer=offer)

    def remove(self) -> int:
        """As `PackTools` has it."""
        from core.services import gpu_install

        return gpu_install.remove()

    def drop_begun(self) -> int:
        """As `PackTools` has it."""
        from core.services import gpu_install

        return gpu_install.drop_begun()


class _Running(EngineWork):
    """Installs in its thread.

    Signals:
        progressed: A `core.services.gpu_install.PackProgress`.
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
                return _("Bringing Python")
            case "libraries":
                return _("Bringing PyTorch and what else trains")
            case "check":
                return _("Checking that it works")
        return _("Installing the GPU pack")

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


# --- What the window says of the GPU pack: what it is, how it stands, what it takes


def situation_words(found: Situation) -> str:
    """How it stands, in a sentence or three."""
    standing = found.standing
    if standing.is_used and standing.pack is not None:
        return pack_words(standing.pack)
    if standing.refusal:
        return standing.refusal
    if not found.offer.stands:
        return found.offer.refusal
    return offer_words(found)


def offer_words(found: Situation) -> str:
    """What can be installed, and what it takes."""
    offer = found.offer
    name = offer.card.name if offer.card is not None else ""
    words = _(
        "{card} is in this computer, and Hone came with PyTorch for the CPU alone. The GPU pack is PyTorch with CUDA: "
        "about {download} to download, {installed} once installed.",
    ).format(card=name, download=numbers.memory(offer.download), installed=numbers.memory(offer.installed))
    if found.free is not None:
        words += " " + _("{free} are free.").format(free=numbers.memory(found.free))
    if found.begun:
        words += " " + _("{size} of it are here already.").format(size=numbers.memory(found.begun))
    return words


def pack_words(pack: Pack) -> str:
    """What a pack that is used is, and whether it reaches the card."""
    checked = pack.checked
    cuda = checked.cuda or _("none")
    told = {"torch": checked.torch, "cuda": cuda, "device": checked.device, "size": numbers.memory(pack.size)}
    if checked.device:
        words = _("Hone computes with PyTorch {torch} and CUDA {cuda} on {device}. It takes {size}.")
        return words.format(**told)
    words = _(
        "Hone computes with PyTorch {torch}, CUDA {cuda}, which reached no NVIDIA card when it was installed. It takes "
        "{size}.",
    )
    why = checked.problem or _("The driver may be too old: update it.")
    return f"{words.format(**told)} {why}"


def button_words(found: Situation) -> str:
    """What pressing the button does; empty: there is nothing to press."""
    standing = found.standing
    if standing.is_used:
        return ""
    if standing.can_renew:
        return _("Renew")
    if not found.offer.stands:
        return ""
    if standing.is_there:
        return _("Renew, {size}").format(size=_size(found.offer))
    if found.begun:
        return _("Go on installing")
    return _("Install the GPU pack, {size}").format(size=_size(found.offer))


def _size(offer: Offer) -> str:
    return numbers.memory(offer.download)


# --- The GPU pack in Settings and on the device card of New run: how it stands, how far it is


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
        self.drop = QPushButton(_("Delete what has come"))
        self.drop.clicked.connect(work.cancel)
        self.remove = QPushButton(_("Remove…"))
        self.remove.setAccessibleName(_("Remove the GPU pack"))
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
        super().__init__(_("GPU pack"), parent)
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
    title = _("Remove the GPU pack?")
    words = _("Hone then trains on the CPU. To have it again, all of it has to be downloaded anew.")
    return Question(title, words, {True: _("Remove")}, parent).ask(False)


def _text(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    set_role(label, role)
    return label
