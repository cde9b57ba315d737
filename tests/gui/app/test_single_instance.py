"""One window for each home: a second start hands over the files it was asked to open, and ends."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLockFile
from PySide6.QtNetwork import QLocalSocket

from gui.app import application
from gui.app.application import SingleInstance, claim_place

CLAIM = """
import os, signal, sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from gui.app.application import SingleInstance
application = QCoreApplication([])
home, then, *paths = sys.argv[1:]
instance = SingleInstance(Path(home))
is_first = instance.claim([Path(path) for path in paths])
if then == "be killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(3 if is_first else 0)
"""


@pytest.fixture
def home(tmp_path_factory):
    """A folder with a path that is short enough for a socket."""
    return tmp_path_factory.mktemp("r", numbered=True)


@pytest.fixture
def first(qapp, home):
    instance = SingleInstance(home)
    assert instance.claim(())
    yield instance
    instance.close()
    instance.deleteLater()


def send(qtbot, home, line):
    """Write to the socket; returns the answer when the other side has closed it."""
    socket = QLocalSocket()
    with qtbot.waitSignal(socket.disconnected, timeout=5000):
        socket.connectToServer(str(home / "hone.socket"))
        assert socket.waitForConnected(2000)
        socket.write(line)
    return bytes(socket.readAll().data())


def test_a_second_start_hands_over_its_file_and_ends_well(qtbot, first, home):
    odd = home / os.fsdecode(b"\xff \xc3\xa4.csv")
    with qtbot.waitSignal(first.called, timeout=10_000) as called:
        second = subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(home), "end", str(home / "run.hone"), os.fspath(odd)]
        )
    assert called.args == [(home / "run.hone", home / "\ufffd ä.csv")]
    qtbot.waitUntil(lambda: second.poll() is not None, timeout=10_000)
    assert second.returncode == 0


@pytest.mark.usefixtures("qapp", "first")
def test_a_second_start_in_a_terminal_says_that_hone_is_open(home, monkeypatch, capsys):
    monkeypatch.setenv("HONE_HOME", str(home))
    monkeypatch.setattr(SingleInstance, "_send", lambda *_: True)  # the first one is in this very process
    assert claim_place(QCoreApplication.instance(), [home / "a.hone"]) is None
    assert capsys.readouterr().out.startswith("Hone is already open")


def test_the_lock_and_socket_of_a_killed_process_stop_no_start(qapp, home):
    killed = subprocess.run([sys.executable, "-c", CLAIM, str(home), "be killed"], check=False)
    assert killed.returncode == -9
    assert (home / "hone.socket").exists()
    next_start = SingleInstance(home)
    assert next_start.claim(())
    assert next_start._server.isListening()
    next_start.close()


def test_a_first_one_that_doesnt_answer_leaves_two_windows_rather_than_none(qapp, home, monkeypatch):
    monkeypatch.setattr(application, "CONNECT_MS", 20)
    stuck = QLockFile(str(home / "hone.lock"))
    assert stuck.tryLock(0)
    assert SingleInstance(home).claim(())
    stuck.unlock()


def test_a_folder_that_cant_be_written_to_leaves_two_windows_rather_than_none(qapp, home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("HONE_HOME", str(home / "file"))
    assert claim_place(qapp, ()) is not None


def test_only_its_owner_may_use_the_socket(first, home):
    mode = (home / "hone.socket").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert not mode & 0o077


def test_what_is_no_message_is_ignored(qtbot, first, home):
    with qtbot.assertNotEmitted(first.called):
        for line in (b"hello\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b"[" * 9000 + b"\n"):
            assert send(qtbot, home, line) == b"", line[:40]
    assert send(qtbot, home, b"[]\n") == b"heard\n"


def test_late_files_are_waited_for_only_where_another_hone_is_open(qtbot, first, home, monkeypatch):
    sent = []
    monkeypatch.setattr(SingleInstance, "_send", lambda self, paths: sent.append(paths) or True)
    alone = SingleInstance(home / "other")
    assert alone.claim((), lambda: pytest.fail("no other one is open"))
    alone.close()
    late, named = [home / "late.hone"], [home / "named.hone"]
    assert not SingleInstance(home).claim((), lambda: late)
    assert not SingleInstance(home).claim(named, lambda: late)
    assert sent == [late, named]


LATE_FILES = """
from PySide6.QtCore import QTimer
from PySide6.QtGui import QFileOpenEvent
from gui.app import application as app
application = app.HoneApplication(["hone"])
def open_two():
    for name in ("/a/b.hone", "/a/c.csv"):
        application.sendEvent(application, QFileOpenEvent(name))
assert app.late_files(application, "linux") == ()
QTimer.singleShot(0, open_two)
print(*app.late_files(application, "darwin"))
app.EVENT_MS = 1
print(app.late_files(application, "darwin"))
"""


def test_a_second_start_on_a_mac_waits_for_its_files():
    ended = subprocess.run([sys.executable, "-c", LATE_FILES], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"{Path('/a/b.hone')} {Path('/a/c.csv')}", "[]"]
