"""One window per person: a second start of Hone passes its files to the first one, and ends.

The first one listens on a local socket (a named pipe on Windows) that only this person may use. Its name depends on the
person and on Hone's folder, so that two profiles, or a test, never meet. A lock file tells which one is first: the
operating system releases it when its owner dies. A message is one short line of JSON.
"""

import getpass
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QDeadlineTimer, QDir, QLockFile, QObject, QThread, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

log = logging.getLogger("hone")

LARGEST_MESSAGE = 256 << 10
"""Bytes of a message at most."""

MOST_WAITING = 4
"""Number of pending connections."""

PATIENCE_MS = 2000
"""How long a second start may take to send its message."""

CONNECT_MS = 1000
"""How long the second one tries to connect to the first, which may have begun a moment ago."""

ANSWER_MS = 10_000
"""How long the second one waits for an answer: the first one may be about to create its window."""

RETRY_MS = 50

HEARD = b"heard\n"


class Handover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message of a second start: absolute paths to open, if any."""

    open: tuple[str, ...] = ()


class SingleInstance(QObject):
    """Is the first Hone of this person, or passes files to the first one."""

    called = Signal(object)  # Hone was started again with these files, a tuple of `Path`

    def __init__(self, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._home = home
        self._lock: QLockFile | None = None
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(MOST_WAITING)
        self._server.newConnection.connect(self._on_connection)

    def claim(self, paths: Sequence[Path], late: Callable[[], Sequence[Path]] = tuple) -> bool:
        """Become the first one; returns False if there is another one, which has received `paths`.

        If the other one doesn't answer, or no socket can be created, there are two windows rather than none.

        Args:
            late: Waits for files to open; called only if there is another one, and no path yet.
        """
        try:
            lock, name = QLockFile(lock_path(self._home)), socket_name(self._home)
        except OSError as error:
            log.warning("this Hone can't know of another one: %s", error)
            return True
        lock.setStaleLockTime(0)  # a lock is valid as long as its process lives
        if lock.tryLock(0):
            self._lock = lock
            QLocalServer.removeServer(name)  # left by one that was killed
            if not self._server.listen(name):
                log.warning("another Hone can't reach this one: %s", self._server.errorString())
            return True
        return not self._send(name, paths or late())

    def close(self) -> None:
        self._server.close()
        if self._lock is not None:
            self._lock.unlock()

    def _send(self, name: str, paths: Sequence[Path]) -> bool:
        """Send the message to the first one; returns whether it has answered."""
        socket = QLocalSocket()
        patience = QDeadlineTimer(CONNECT_MS)
        socket.connectToServer(name)
        while not socket.waitForConnected(max(0, patience.remainingTime())):
            if patience.hasExpired():
                return False
            QThread.msleep(RETRY_MS)
            socket.connectToServer(name)
        _let_come_forward()
        socket.write(encoded(paths))
        socket.waitForBytesWritten(ANSWER_MS)
        while not socket.canReadLine():
            if not socket.waitForReadyRead(ANSWER_MS):
                return False
        return bytes(socket.readLine().data()) == HEARD

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.setReadBufferSize(LARGEST_MESSAGE)
            socket.readyRead.connect(partial(self._read, socket))
            socket.disconnected.connect(socket.deleteLater)
            QTimer.singleShot(PATIENCE_MS, socket, socket.abort)
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        """Answer a line that is a message; close the connection after any line, or too much without one."""
        if socket.canReadLine():
            message = decoded(bytes(socket.readLine().data()))
            if message is not None:
                socket.write(HEARD)
                socket.flush()
            socket.disconnectFromServer()
            if message is not None:
                self.called.emit(tuple(Path(path) for path in message.open))
        elif socket.bytesAvailable() >= LARGEST_MESSAGE:
            socket.abort()


def _let_come_forward() -> None:
    """Let the first one raise its window, which Windows allows only to a process that the person has just started.

    https://learn.microsoft.com/windows/win32/api/winuser/nf-winuser-allowsetforegroundwindow
    """
    if sys.platform == "win32":
        import ctypes

        any_process = -1
        ctypes.windll.user32.AllowSetForegroundWindow(any_process)


def encoded(paths: Sequence[Path]) -> bytes:
    """The message for as many paths as fit."""
    texts: list[str] = []
    size = len(msgspec.json.encode(Handover())) + len(b"\n")
    for path in paths:
        text = os.fsencode(path.absolute()).decode(errors="replace")  # JSON is text
        size += len(msgspec.json.encode(text)) + len(b",")
        if size > LARGEST_MESSAGE:
            break
        texts.append(text)
    return msgspec.json.encode(Handover(tuple(texts))) + b"\n"


def decoded(line: bytes) -> Handover | None:
    """Returns None if the line is no message."""
    try:
        message = msgspec.json.decode(line, type=Handover)
    except (ValueError, RecursionError):
        return None
    are_paths = all(Path(path).is_absolute() and "\0" not in path for path in message.open)
    return message if are_paths else None


def socket_name(home: Path) -> str:
    """A path if sockets are files, else a name."""
    name = _name(home)
    return name if os.name == "nt" else str(_private_folder() / f"{name}.socket")


def lock_path(home: Path) -> str:
    return str(_private_folder() / f"{_name(home)}.lock")


def _name(home: Path) -> str:
    whose = f"{_person()} {home.absolute()}".encode(errors="surrogateescape")
    return f"hone-{hashlib.sha256(whose).hexdigest()[:20]}"


def _person() -> str:
    return getpass.getuser() if os.name == "nt" else str(os.getuid())


def _private_folder() -> Path:
    """A folder that only this person may use, with a path short enough for a socket (a hundred characters).

    That is XDG_RUNTIME_DIR on Linux, and the folder for temporary files on a Mac and on Windows; else a new folder in
    that.
    """
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if os.environ.get("XDG_RUNTIME_DIR") and _is_own(runtime):
        return runtime
    shared = Path(QDir.tempPath())
    if os.name == "nt" or _is_own(shared):
        return shared
    own = shared / f"hone-{_person()}"
    own.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(own):
        raise PermissionError(13, "the folder belongs to another user", str(own))
    return own


def _is_own(folder: Path) -> bool:
    """Whether it is a folder, no link, which belongs to this person and is closed to others."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_folder = folder.is_dir() and not folder.is_symlink()
    return is_folder and os.name != "nt" and status.st_uid == os.getuid() and not status.st_mode & 0o077
