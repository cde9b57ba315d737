"""Hears what a trying process is asked, while it answers: a request to stop must not wait for the answer's end."""

import os
import threading
from queue import SimpleQueue

import msgspec

from core.trying import Ask, Close, Load, Said, Stop

CHUNK = 1 << 16


class Hearing:
    """Reads lines from a file number, in a thread of its own once it has begun.

    Args:
        descriptor: What is read from; read as it is, since a buffered reader can't be left waiting at the end.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._questions: SimpleQueue[Ask | None] = SimpleQueue()
        self._stopped: set[int] = set()
        self._closed = threading.Event()

    def first(self) -> Load | None:
        """The first line; None where it says something else."""
        said = self._next()
        return said if isinstance(said, Load) else None

    def begin(self) -> None:
        """Listen from now on."""
        threading.Thread(target=self._listen, name="hearing", daemon=True).start()

    def next_question(self) -> Ask | None:
        """Wait for a question; None: nobody asks any more."""
        return None if self._closed.is_set() else self._questions.get()

    def is_stopped(self, question: int) -> bool:
        """Whether the answer to a question is wanted no longer."""
        return question in self._stopped or self._closed.is_set()

    def _listen(self) -> None:
        while (said := self._next()) is not None:
            match said:
                case Ask():
                    self._questions.put(said)
                case Stop():
                    self._stopped.add(said.id)
                case Close():
                    break
        self._closed.set()
        self._questions.put(None)

    def _next(self) -> Said | None:
        """The next line; None where there is none any more, or none that can be understood."""
        while b"\n" not in self._rest:
            try:
                read = os.read(self._descriptor, CHUNK)
            except OSError:
                return None
            if not read:
                return None
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=Said)
        except msgspec.MsgspecError:
            return None
