"""A model that is being tried, as the window sees it: a thread that waits for what its process says."""

import threading

from PySide6.QtCore import QObject, Signal

from core.trying import Load, Said
from core.trying_process import Start, TryProcess
from gui.engine_work import EngineWork


class TrySession(EngineWork):
    """One model in a process of its own; `start` begins it, `cancel` ends it and frees its memory.

    `failure` tells why it has ended, None: it was told to.

    Signals:
        told: A line of the process (`core.trying.Told`).

    Args:
        start: Starts the process.
        load: What it is to load.
        parent: Qt's parent.
    """

    told = Signal(object)

    def __init__(self, start: Start, load: Load, parent: QObject) -> None:
        super().__init__(parent)
        self._start_process = start
        self._load = load
        self._process: TryProcess | None = None
        self._queue = threading.Lock()
        self._early: list[Said] = []

    def say(self, said: Said) -> None:
        """Send a line; one that comes before the process is there waits for it."""
        with self._queue:
            if self._process is None:
                self._early.append(said)
            else:
                self._process.say(said)

    def begin(self) -> None:
        """Start the process, and say what was to be said meanwhile."""
        process = self._start_process(self._load)
        with self._queue:
            self._process = process
            for said in self._early:
                process.say(said)

    def work(self) -> None:
        """Pass on what the process says until it ends."""
        assert self._process is not None
        for told in self._process.lines():
            self.told.emit(told)

    def kill(self) -> None:
        """End the process, if it has been started."""
        if self._process is not None:
            self._process.kill()
