"""Files are opened in the one window by argument, by events of a Mac, from a second start, and by drop."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent

from gui.app.sidebar import Place

ROOT = Path(__file__).resolve().parents[2]

FIRST = """
import subprocess, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from gui.app import application as app
from gui.app.window import MainWindow
from tests.fakes.jobs import FakeEngine

by_argument, by_event, by_second = sys.argv[1:]
app.ask_real_engine = FakeEngine()

def the_window():
    return next(one for one in QApplication.topLevelWidgets() if isinstance(one, MainWindow))

def steps():
    return the_window().pages.new_run.tree()["training"]["max_steps"]

def aside():
    strip = the_window().found.strip.aside
    return strip.detail.text() if strip.isVisible() else ""

def once(holds, then):
    waiting = QTimer(QApplication.instance(), interval=10)

    def look():
        if holds():
            waiting.stop()
            then()

    waiting.timeout.connect(look)
    waiting.start()

def by_arguments():
    application = QApplication.instance()
    print("argument", steps(), aside())
    for name in (by_event, "/a/event.csv"):
        application.sendEvent(application, QFileOpenEvent(name))
    once(lambda: steps() == 7, by_events)

def by_events():
    print("event", steps(), aside())
    command = [sys.executable, "-m", "gui", Path(by_second).name, "second.csv"]
    second = subprocess.Popen(command, cwd=Path(by_second).parent, stdout=subprocess.PIPE, text=True)

    def ended():
        print("second", steps(), aside(), second.returncode, second.stdout.read().strip())
        QApplication.closeAllWindows()

    once(lambda: second.poll() is not None and steps() == 9, ended)

app.import_charts_soon = by_arguments  # called once the window has been painted
sys.exit(app.run_app(["hone", by_argument, "argument.csv"]))
"""


def run_file(path, steps):
    path.write_text(
        f'schema = 1\ntask = "image-classification"\n[model]\nsource = "torchvision:resnet18"\n'
        f'[data]\ntrain = "builtin:digits"\n[training]\nmax_steps = {steps}\n'
    )
    return path


@pytest.mark.skipif(os.name != "posix", reason="its environment is one of POSIX")
def test_the_one_window_opens_files_whichever_way_they_come(tmp_path, own_home):
    files = [run_file(tmp_path / f"ä run {steps}.hone", steps) for steps in (5, 7, 9)]
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # a path short enough for a socket
        ended = subprocess.run(
            [sys.executable, "-c", FIRST, *map(str, files)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": runtime},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "argument 5 Not opened: argument.csv",
        "event 7 Not opened: event.csv",
        "second 9 Not opened: second.csv 0 Hone is already open. Its window was brought to the front.",
    ]


@pytest.fixture
def window(make_window):
    window = make_window()
    window.pages.go_to(Place.SETTINGS)
    return window


def message(window):
    strip = window.pages.new_run.strip
    assert strip.isVisible()
    return "\n".join(strip.note.lines)


def test_a_wrong_file_is_named_and_leaves_the_form_and_itself_as_they_are(window, tmp_path):
    window.open_path(run_file(tmp_path / "right.hone", 5))
    before = window.pages.new_run.tree()
    assert before["training"]["max_steps"] == 5
    wrong = tmp_path / "wrong.hone"
    for content, words in (
        (b"= = no TOML", "is not a run file, or it is damaged"),
        (b"schema = 1\n", "is not a run file: it contains no option"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not a text file"),
        (None, os.strerror(errno.ENOENT)),
    ):
        window.pages.go_to(Place.SETTINGS)
        wrong.write_bytes(content or b"")
        if content is None:
            wrong.unlink()
        window.open_path(wrong)
        assert window.pages.currentWidget() is window.pages.new_run
        assert "wrong.hone" in message(window)
        assert words in message(window)
        assert (wrong.read_bytes() if wrong.exists() else None) == content
        assert window.pages.new_run.tree() == before, content
    window.open_paths([tmp_path / "gone.csv"])
    assert f"There is no file or folder at {tmp_path / 'gone.csv'}." in message(window)
    assert window.pages.new_run.tree() == before
    there = tmp_path / "there.csv"
    there.write_text("text,label\n")
    window.open_paths([there])
    assert not window.pages.new_run.strip.isVisible() or "gone" not in message(window)
    wrong.write_bytes(b'schema = 99\ntask = "image-classification"\n')
    window.open_path(wrong)
    assert "a newer Hone may read it" in message(window)


def drop(window, *paths):
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    none = Qt.KeyboardModifier.NoModifier
    window.dropEvent(
        QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, content, Qt.MouseButton.LeftButton, none)
    )


def test_of_several_files_the_first_is_opened_and_the_others_are_named(window, tmp_path):
    paths = [run_file(tmp_path / "a.hone", 5), *(tmp_path / f"{name}.csv" for name in "bcdef")]
    window.open_paths([*paths, paths[0], paths[1]])
    assert window.pages.new_run.tree()["training"]["max_steps"] == 5
    strip = window.found.strip.aside
    assert strip.detail.text() == "Not opened: b.csv, c.csv, d.csv + 2"
    window.open_paths([])
    assert strip.isVisible()
    window.open_paths(paths[:1])
    assert not strip.isVisible()
    data = tmp_path / "photos"
    data.mkdir()
    drop(window, data, paths[0])
    assert window.pages.new_run.tree()["data"]["train"] == str(data)
    assert "a.hone" in strip.detail.text()
