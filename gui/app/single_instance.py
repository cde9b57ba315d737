"""One window a person: a second start of Hone hands over what it was asked to open to the first, and ends.

The first listens on a local socket (a named pipe on Windows) that only this person may use; nothing of it can be
reached over a network. Its name holds who the person is and where Hone's folder is, so that two profiles, or a test,
never meet. A lock file beside it tells who is first: the operating system knows when its owner has died, and what it
left is then taken away. What comes over the socket is one short line; anything else is ignored.
"""

import getpass
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from PySide6.QtCore import QDeadlineTimer, QDir, QLockFile, QObject, QThread, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

log = logging.getLogger("hone")

LARGEST_MESSAGE = 256 << 10
"""Bytes; a path has a few hundred, and only the first of them is opened."""

MOST_WAITING = 4
"""So many may be heard at once; who comes beyond that is sent away."""

PATIENCE_MS = 2000
"""How long a second start may take to say what it wants."""

CONNECT_MS = 1000
"""How long the second tries to reach the first, which may have begun a moment ago, too."""

ANSWER_MS = 10_000
"""How long the second waits to be heard: the first one's window may be about to be made, from a cold disk."""

RETRY_MS = 50

HEARD = b"heard\n"


class Handover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a second start says: the absolute paths it was asked to open, if any."""

    open: tuple[str, ...] = ()


class SingleInstance(QObject):
    """Is the first Hone of this person, or tells the first one what to open.

    Signals:
        called: Somebody started Hone again: a tuple with each `Path` to be opened.

    Args:
        home: Hone's folder.
        parent: Qt's parent.
    """

    called = Signal(object)

    def __init__(self, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._home = home
        self._lock: QLockFile | None = None
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(MOST_WAITING)
        self._server.newConnection.connect(self._welcome)
        self._talks: list[_Talk] = []

    def claim(self, paths: Sequence[Path], late: Callable[[], Sequence[Path]] = tuple) -> bool:
        """Become the first; returns False where another one is, which now knows of `paths`.

        Where the other one doesn't answer, or where no socket can be made, there are two windows rather than none.

        Args:
            paths: What is to be opened.
            late: Waits a moment for what is to be opened; asked only where there is another one, and no path yet.
        """
        try:
            lock, name = QLockFile(lock_path(self._home)), socket_name(self._home)
        except OSError as error:
            log.warning("this Hone can't know of another one: %s", error)
            return True
        lock.setStaleLockTime(0)  # however old it is, a lock holds as long as its process lives
        if lock.tryLock(0):
            self._lock = lock
            QLocalServer.removeServer(name)  # what one left that was killed
            if not self._server.listen(name):
                log.warning("another Hone can't reach this one: %s", self._server.errorString())
            return True
        return not self._tell(name, paths or late())

    def close(self) -> None:
        """Listen no longer; the next start is the first again."""
        self._server.close()
        if self._lock is not None:
            self._lock.unlock()

    def _tell(self, name: str, paths: Sequence[Path]) -> bool:
        """Say it to the first; returns whether it has heard."""
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

    def _welcome(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            if len(self._talks) >= MOST_WAITING:
                socket.abort()
                socket.deleteLater()
                continue
            talk = _Talk(socket, self)
            talk.said.connect(self._hear)
            talk.ended.connect(self._forget)
            self._talks.append(talk)
            talk.listen()

    def _hear(self, message: Handover) -> None:
        self.called.emit(tuple(Path(path) for path in message.open))

    def _forget(self, talk: "_Talk") -> None:
        self._talks.remove(talk)
        talk.deleteLater()


def _let_come_forward() -> None:
    """Let the first show its window before all others: Windows allows that only to what the person has just started.

    https://learn.microsoft.com/windows/win32/api/winuser/nf-winuser-allowsetforegroundwindow
    """
    if sys.platform == "win32":
        import ctypes

        any_process = -1
        ctypes.windll.user32.AllowSetForegroundWindow(any_process)


class _Talk(QObject):
    """One line from a second start; `said` where it makes sense, and in any case `ended`, soon."""

    said = Signal(object)
    ended = Signal(object)

    def __init__(self, socket: QLocalSocket, parent: QObject) -> None:
        super().__init__(parent)
        self._socket = socket
        self._is_over = False
        socket.setParent(self)
        socket.setReadBufferSize(LARGEST_MESSAGE)
        self._patience = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._patience.timeout.connect(self._end)

    def listen(self) -> None:
        """Wait for the line."""
        self._socket.readyRead.connect(self._read)
        self._socket.disconnected.connect(self._end)
        self._patience.start()
        self._read()

    def _read(self) -> None:
        if self._socket.canReadLine():
            message = decoded(bytes(self._socket.readLine().data()))
            if message is not None:
                self._socket.write(HEARD)
                self._socket.flush()
                self.said.emit(message)
            self._end()
        elif self._socket.bytesAvailable() >= LARGEST_MESSAGE:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._patience.stop()
            self._socket.disconnectFromServer()
            self.ended.emit(self)


def encoded(paths: Sequence[Path]) -> bytes:
    """The line that says them, without the last ones where it has no room for all."""
    texts: list[str] = []
    room = LARGEST_MESSAGE - len(msgspec.json.encode(Handover())) - len(b"\n")
    for path in paths:
        text = os.fsencode(path.absolute()).decode(errors="replace")  # JSON has no word for other bytes
        room -= len(msgspec.json.encode(text)) + len(b",")
        if room < 0:
            break
        texts.append(text)
    return msgspec.json.encode(Handover(tuple(texts))) + b"\n"


def decoded(line: bytes) -> Handover | None:
    """What a line says; None where it is none of Hone's."""
    try:
        message = msgspec.json.decode(line, type=Handover)
    except (ValueError, RecursionError):
        return None
    are_paths = all(Path(path).is_absolute() and "\0" not in path for path in message.open)
    return message if are_paths else None


def socket_name(home: Path) -> str:
    """Where the first listens: a path where sockets are files, a name elsewhere."""
    name = _name(home)
    return name if os.name == "nt" else str(_private_folder() / f"{name}.socket")


def lock_path(home: Path) -> str:
    """The file that tells who is first."""
    return str(_private_folder() / f"{_name(home)}.lock")


def _name(home: Path) -> str:
    whose = f"{_person()} {home.absolute()}".encode(errors="surrogateescape")
    return f"hone-{hashlib.sha256(whose).hexdigest()[:20]}"


def _person() -> str:
    return getpass.getuser() if os.name == "nt" else str(os.getuid())


def _private_folder() -> Path:
    """A folder that is this person's alone, with a path short enough for a socket (a hundred characters).

    Linux has one for just that; the folder for temporary files is private on a Mac and on Windows. Elsewhere one is
    made in it that nobody else may enter.
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
        raise PermissionError(13, "somebody else has made this folder", str(own))
    return own


def _is_own(folder: Path) -> bool:
    """Whether a folder is there, not a link, this person's, and closed to everybody else."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    is_folder = folder.is_dir() and not folder.is_symlink()
    return is_folder and os.name != "nt" and found.st_uid == os.getuid() and not found.st_mode & 0o077
