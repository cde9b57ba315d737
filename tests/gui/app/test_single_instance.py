"""One window a person: who comes second hands over what it was asked to open."""

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

SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from gui.app.single_instance import SingleInstance
application = QCoreApplication([])
paths = [Path(path) for path in sys.argv[2:]]
sys.exit(3 if SingleInstance(Path(sys.argv[1])).claim(paths) else 0)
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from gui.app.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
instance.claim(())
os.kill(os.getpid(), signal.SIGKILL)
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


def start_second(*arguments):
    return subprocess.Popen([sys.executable, "-c", SECOND, *map(str, arguments)])


def status_of(qtbot, process):
    qtbot.waitUntil(lambda: process.poll() is not None, timeout=10_000)
    return process.returncode


def say(qtbot, home, words):
    """Say something on the socket; returns what is answered until the other side hangs up."""
    socket = QLocalSocket()
    with qtbot.waitSignal(socket.disconnected, timeout=5000):
        socket.connectToServer(socket_name(home))
        assert socket.waitForConnected(2000)
        socket.write(words)
    return bytes(socket.readAll().data())


@pytest.mark.parametrize("names", [("run.hone",), ()])
def test_a_second_start_hands_over_its_file_and_ends_well(qtbot, first, tmp_path, names):
    paths = [tmp_path / name for name in names]
    with qtbot.waitSignal(first.called, timeout=10_000) as called:
        second = start_second(tmp_path, *paths)
    assert called.args == [tuple(paths)]
    assert status_of(qtbot, second) == 0


@pytest.mark.usefixtures("qapp", "first")
def test_a_second_start_in_a_terminal_reports_the_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr(SingleInstance, "_send", lambda *_: True)  # the first one is in this very process
    assert claim_place(QCoreApplication.instance(), [tmp_path / "a.hone"]) is None
    assert capsys.readouterr().out.startswith("Hone is open already")


def test_what_one_left_that_was_killed_stops_nobody(qapp, tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert Path(socket_name(tmp_path)).exists()
    heir = SingleInstance(tmp_path)
    assert heir.claim(())
    assert heir._server.isListening()
    heir.close()


def test_one_that_does_not_answer_leaves_nobody_without_a_window(qapp, tmp_path, monkeypatch):
    monkeypatch.setattr(single_instance, "CONNECT_MS", 20)
    stuck = QLockFile(lock_path(tmp_path))
    assert stuck.tryLock(0)
    assert SingleInstance(tmp_path).claim(())
    stuck.unlock()


def test_nobody_else_may_use_the_socket(first, tmp_path):
    mode = Path(socket_name(tmp_path)).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert not mode & 0o077


def test_what_is_no_handover_is_ignored(qtbot, first, tmp_path):
    with qtbot.assertNotEmitted(first.called):
        for words in (
            b"hello\n", b"[]\n", b'{"open": [], "of_tomorrow": 1}\n',
            b'{"open": "/a"}\n', b'{"open": ["relative"]}\n', b'{"run": "/bin/sh"}\n',
            b"\xff\xfe\n", b"[" * 9000 + b"\n", b"x" * (LARGEST_MESSAGE + 9),
        ):  # fmt: skip
            assert say(qtbot, tmp_path, words) == b""
    assert say(qtbot, tmp_path, b'{"open": []}\n') == b"heard\n"


def test_who_says_nothing_is_sent_away(qtbot, first, tmp_path, monkeypatch):
    monkeypatch.setattr(single_instance, "PATIENCE_MS", 20)
    assert say(qtbot, tmp_path, b'{"open": ["') == b""


def test_a_folder_that_others_may_enter_is_not_taken(tmp_path, monkeypatch, runtime):
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


def test_a_line_is_absolute_paths_or_nothing(tmp_path):
    named = [tmp_path, tmp_path / "ä b.csv"]
    assert decoded(b'{"open": []}').open == ()
    assert decoded(encoded(named)).open == tuple(map(str, named))
    assert decoded(b'{"open": ["/a\\u0000b"]}') is None
    assert decoded(encoded([tmp_path / os.fsdecode(b"\xff.csv")])).open == (str(tmp_path / "\ufffd.csv"),)


def test_of_more_paths_than_a_line_holds_the_first_are_handed_over(qtbot, first, tmp_path):
    paths = [tmp_path / f"{number:05}.csv" for number in range(9_000)]
    line = encoded(paths)
    assert LARGEST_MESSAGE - 200 < len(line) <= LARGEST_MESSAGE
    with qtbot.waitSignal(first.called, timeout=10_000) as called:
        assert say(qtbot, tmp_path, line) == b"heard\n"
    (handed,) = called.args
    assert handed == tuple(paths[: len(handed)])
    assert len(handed) > 900


def test_what_comes_late_is_asked_for_only_where_another_one_is_open(qtbot, first, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(SingleInstance, "_send", lambda self, name, paths: told.append(paths) or True)
    alone = SingleInstance(tmp_path / "other")
    assert alone.claim((), lambda: pytest.fail("nobody else is there"))
    alone.close()
    late, named = [tmp_path / "late.hone"], [tmp_path / "named.hone"]
    assert not SingleInstance(tmp_path).claim((), lambda: late)
    assert not SingleInstance(tmp_path).claim(named, lambda: late)
    assert told == [late, named]


def test_a_mac_s_second_start_waits_for_its_files(tmp_path):
    """In a process of its own: an application can't be made twice."""
    code = """
import sys
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{Path('/a/b.hone')} {Path('/a/c.csv')}", "[]"]
