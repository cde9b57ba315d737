"""The process of a model under Try it, or of both models of a run that trained an adapter."""

from typing import Protocol

from PySide6.QtCore import QObject

from core.base.errors import UserError
from core.jobs import chat as chat_jobs
from core.services import chat
from gui.base.background import Call, EngineWork


class Listener(Protocol):
    """A column, which hears all that its model's process says."""

    def hear(self, message: chat_jobs.Told) -> None: ...

    def fail(self, error: UserError) -> None: ...

    def lose(self) -> None:
        """The process has ended."""


class ModelProcess(QObject):
    """A process, for the columns that use it: it is started for the first of them, and ends with the last."""

    def __init__(self, start: chat.Start) -> None:
        super().__init__()
        self._start = start
        self._process: chat.TryProcess | None = None
        self._loaded: chat_jobs.Loaded | None = None
        self._users: list[Listener] = []
        self._work: EngineWork[None] = EngineWork(
            self, progress=self._on_message, failed=self._on_failure, settled=self._on_end
        )

    @property
    def is_running(self) -> bool:
        """Whether it runs; its model may still be loading."""
        return self._work.is_running

    def serves(self, user: Listener) -> bool:
        return user in self._users

    def serve(self, user: Listener, load: chat_jobs.Load) -> None:
        """Let a column use the process, which is started in a thread unless it runs."""
        self._users.append(user)
        if self._loaded is not None:
            user.hear(self._loaded)
        if self.is_running:
            return

        def talk(call: Call) -> None:
            process = call.launch(lambda: self._start(load))
            call.tell(process)
            for message in process.lines():
                call.tell(message)

        self._work.start(talk)

    def leave(self, user: Listener) -> None:
        """End the process, which frees its memory, unless another column uses it."""
        if user in self._users:
            self._users.remove(user)
        if not self._users:
            self._work.cancel()
            self._process = self._loaded = None

    def say(self, message: chat_jobs.Said) -> None:
        if self._process is not None:
            self._process.say(message)

    def close(self) -> None:
        self._work.close()

    def _on_message(self, message: chat.TryProcess | chat_jobs.Told) -> None:
        if isinstance(message, chat.TryProcess):
            self._process = message
            return
        if isinstance(message, chat_jobs.Loaded):
            self._loaded = message
        for user in self._users:
            user.hear(message)

    def _on_failure(self, error: UserError) -> None:
        for user in self._users:
            user.fail(error)

    def _on_end(self) -> None:
        self._process = self._loaded = None
        users, self._users = self._users, []
        for user in users:
            user.lose()
