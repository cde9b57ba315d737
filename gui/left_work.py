"""Threads that nobody waits for any more: they end out of sight, and what began them may be gone by then."""

from PySide6.QtCore import QThread

_left: list[QThread] = []


def leave(thread: QThread) -> None:
    """Let a thread end by itself, though the object it belongs to goes. Returns at once."""
    _left[:] = [other for other in _left if other.isRunning()]
    if thread.isRunning():
        thread.setParent(None)
        _left.append(thread)


def end_left() -> None:
    """Wait until all of them have ended: Qt bears no thread that outlives the program."""
    for thread in _left:
        thread.wait()
    _left.clear()
