"""A lock on a folder that processes take in turn; the operating system gives it back when its holder dies."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_SECONDS = 10.0
"""How long a lock is waited for. Whoever holds one does so for milliseconds."""

LOCK_FILE = ".lock"
"""An empty file that stays in the folder: taken away, two processes could hold two files of the same name."""

ENGINE_LOCK = ".engine.lock"
"""The same in a run's folder, for the engine that works on it."""

_PAUSE_SECONDS = 0.01
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def locked(folder: Path, seconds: float = LOCK_SECONDS, name: str = LOCK_FILE) -> Iterator[None]:
    """Keep everybody else out who locks the same folder, threads of this process included.

    A disk that knows no locks (some network folders) keeps nobody out.

    Args:
        folder: An existing folder.
        seconds: How long to wait for whoever holds it.
        name: The file that is locked; another one is another lock.

    Raises:
        TimeoutError: Somebody held it all the time.
        OSError: The folder can't be written to.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(folder / name, flags, 0o600)
    try:
        _take(file, folder, seconds)
        try:
            yield
        finally:
            _give_back(file)
    finally:
        os.close(file)


def is_locked(folder: Path, name: str) -> bool:
    """Whether somebody holds a lock on a folder; no where that can't be found out."""
    try:
        file = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        _try_to_take(file)
    except OSError as error:
        return error.errno in _TAKEN
    else:
        _give_back(file)
        return False
    finally:
        os.close(file)


def _take(file: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            _try_to_take(file)
        except OSError as error:
            if error.errno not in _TAKEN:
                return
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, "Another process keeps it locked", str(folder)) from error
            time.sleep(_PAUSE_SECONDS)
        else:
            return


if sys.platform == "win32":
    import msvcrt

    def _try_to_take(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _give_back(file: int) -> None:
        with contextlib.suppress(OSError):
            os.lseek(file, 0, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_to_take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(file: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)  # also where a child that is being started has a copy of it
