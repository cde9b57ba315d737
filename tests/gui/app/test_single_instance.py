"""One window for each home: a second start hands over the files it was asked to open, and ends."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLockFile
from PySide6.QtNetwork import QLocalSocket

from gui.app import single_instance
from gui.app.application import claim_place
from gui.app.single_instance import LARGEST_MESSAGE, SingleInstance, decoded, encoded, lock_path, socket_name

CLAIM = """
import os, signal, sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from gui.app.single_instance import SingleInstance
application = QCoreApplication([])
home, then, *paths = sys.argv[1:]
instance = SingleInstance(Path(home))
is_first = instance.claim([Path(path) for path in paths])
if then == "be killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(3 if is_first else 0)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory, monkeypatch):
    """A private folder with a short path."""
    folder = tmp_path_factory.mktemp("r", numbered=True)
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def first(qapp, tmp_path):
    instance = SingleInstance(tmp_path)
    assert instance.claim(())
    yield instance
    instance.close()
    instance.deleteLater()


def send(qtbot, home, line):
    """Write to the socket; returns the answer when the other side has closed it."""
    socket = QLocalSocket()
    with qtbot.waitSignal(socket.disconnected, timeout=5000):
        socket.connectToServer(socket_name(home))
        assert socket.waitForConnected(2000)
        socket.write(line)
    return bytes(socket.readAll().data())


def test_a_second_start_hands_over_its_file_and_ends_well(qtbot, first, tmp_path):
    with qtbot.waitSignal(first.called, timeout=10_000) as called:
        second = subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path), "end", str(tmp_path / "run.hone")]
        )
    assert called.args == [(tmp_path / "run.hone",)]
    qtbot.waitUntil(lambda: second.poll() is not None, timeout=10_000)
    assert second.returncode == 0


@pytest.mark.usefixtures("qapp", "first")
def test_a_second_start_in_a_terminal_says_that_hone_is_open(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr(SingleInstance, "_send", lambda *_: True)  # the first one is in this very process
    assert claim_place(QCoreApplication.instance(), [tmp_path / "a.hone"]) is None
    assert capsys.readouterr().out.startswith("Hone is already open")


def test_the_lock_and_socket_of_a_killed_process_stop_no_start(qapp, tmp_path):
    killed = subprocess.run([sys.executable, "-c", CLAIM, str(tmp_path), "be killed"], check=False)
    assert killed.returncode == -9
    assert Path(socket_name(tmp_path)).exists()
    next_start = SingleInstance(tmp_path)
    assert next_start.claim(())
    assert next_start._server.isListening()
    next_start.close()


def test_a_first_one_that_doesnt_answer_leaves_two_windows_rather_than_none(qapp, tmp_path, monkeypatch):
    monkeypatch.setattr(single_instance, "CONNECT_MS", 20)
    stuck = QLockFile(lock_path(tmp_path))
    assert stuck.tryLock(0)
    assert SingleInstance(tmp_path).claim(())
    stuck.unlock()


def test_only_its_owner_may_use_the_socket(first, tmp_path, monkeypatch, runtime):
    mode = Path(socket_name(tmp_path)).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert not mode & 0o077
    runtime.chmod(0o755)
    monkeypatch.setattr(single_instance.QDir, "tempPath", lambda: str(tmp_path))
    tmp_path.chmod(0o777)
    own = tmp_path / f"hone-{os.getuid()}"
    assert socket_name(tmp_path).startswith(str(own))
    assert not own.stat().st_mode & 0o077
    own.chmod(0o777)
    with pytest.raises(PermissionError):
        socket_name(tmp_path)
    assert SingleInstance(tmp_path).claim(())
    own.chmod(0o700)


def test_what_is_no_message_is_ignored_and_silence_is_cut_off(qtbot, first, tmp_path, monkeypatch):
    with qtbot.assertNotEmitted(first.called):
        for line in (
            *(b"hello\n", b"[]\n", b'{"open": [], "of_tomorrow": 1}\n', b'{"open": "/a"}\n'),
            *(b'{"open": ["relative"]}\n', b'{"open": ["/a\\u0000b"]}\n', b'{"run": "/bin/sh"}\n'),
            *(b"\xff\xfe\n", b"[" * 9000 + b"\n", b"x" * (LARGEST_MESSAGE + 9)),
        ):
            assert send(qtbot, tmp_path, line) == b"", line[:40]
    assert send(qtbot, tmp_path, b'{"open": []}\n') == b"heard\n"
    monkeypatch.setattr(single_instance, "PATIENCE_MS", 20)
    assert send(qtbot, tmp_path, b'{"open": ["') == b""


def test_a_message_has_as_many_absolute_paths_as_fit(tmp_path):
    odd = [tmp_path / "ä b.csv", tmp_path / os.fsdecode(b"\xff.csv")]
    assert decoded(encoded(odd)).open == (str(odd[0]), str(tmp_path / "\ufffd.csv"))
    paths = [tmp_path / f"{number:05}.csv" for number in range(9_000)]
    line = encoded(paths)
    assert LARGEST_MESSAGE - 200 < len(line) <= LARGEST_MESSAGE
    sent = decoded(line).open
    assert sent == tuple(map(str, paths[: len(sent)]))
    assert len(sent) > 900


def test_late_files_are_waited_for_only_where_another_hone_is_open(qtbot, first, tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(SingleInstance, "_send", lambda self, name, paths: sent.append(paths) or True)
    alone = SingleInstance(tmp_path / "other")
    assert alone.claim((), lambda: pytest.fail("no other one is open"))
    alone.close()
    late, named = [tmp_path / "late.hone"], [tmp_path / "named.hone"]
    assert not SingleInstance(tmp_path).claim((), lambda: late)
    assert not SingleInstance(tmp_path).claim(named, lambda: late)
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
