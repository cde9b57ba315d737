"""Threads that nobody waits for any more: they end out of sight, and what began them may be gone by then."""

import logging
import os

from PySide6.QtCore import QThread

PATIENCE_MS = 1000

_left: list[QThread] = []
_stuck: list[QThread] = []


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


def wait_briefly(thread: QThread) -> None:
    """Wait for a thread that only reads and was told to end; where a disk doesn't answer, go on without it."""
    if thread not in _stuck and not thread.wait(PATIENCE_MS):
        thread.setParent(None)
        _stuck.append(thread)


def end_program(status: int) -> int:
    """The exit status; where a thread reads still, this process ends here."""
    if any(thread.isRunning() for thread in _stuck):
        logging.shutdown()
        os._exit(status)
    return status
