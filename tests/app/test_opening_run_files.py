"""Files come to the window by argument, by events of a Mac, from a second start, by drop; wrong ones are told of."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from core.base.settings import Appearance, Settings
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from tests.fakes.jobs import FakeEngine

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
    return the_window().new_run.tree()["training"]["max_steps"]

def aside():
    strip = the_window().found.strip.aside
    return strip._detail.text() if strip.isVisible() else ""

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


@pytest.fixture
def runtime():
    """A private folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


@pytest.mark.skipif(os.name != "posix", reason="its environment is one of POSIX")
def test_the_first_opens_in_the_one_window_whichever_way_they_come(tmp_path, runtime):
    files = [run_file(tmp_path / f"ä run {steps}.hone", steps) for steps in (5, 7, 9)]
    done = subprocess.run(
        [sys.executable, "-c", FIRST, *map(str, files)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HONE_HOME": str(tmp_path / "home"),
            "XDG_RUNTIME_DIR": runtime,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "argument 5 Not opened: argument.csv",
        "event 7 Not opened: event.csv",
        "second 9 Not opened: second.csv 0 Hone is open already: its window was brought to the front.",
    ]


@pytest.fixture
def window(qtbot, tmp_path):
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path / "runs")), FakeEngine())
    qtbot.addWidget(window)
    window.show()
    window.go_to(Place.SETTINGS)
    yield window
    window.end_work()


def said(window):
    strip = window.new_run._strip
    assert strip.isVisible()
    return "\n".join(label.text() for label in strip.findChildren(QLabel))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"= = no TOML", "is not a run file, or is damaged"),
        (b"", "is not a run file: it contains no option"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not a text file"),
        (b'schema = 99\ntask = "image-classification"\n', "a newer Hone may read it"),
        (None, None),
    ],
    ids=["not TOML", "empty", "not text", "of a newer Hone", "gone"],
)
def test_a_wrong_run_file_is_told_of_in_the_window(window, tmp_path, content, words):
    path = tmp_path / "wrong.hone"
    if content is not None:
        path.write_bytes(content)
    window.open_path(path)
    assert window.pages.currentWidget() is window.new_run
    assert "wrong.hone" in said(window)
    assert (words or os.strerror(errno.ENOENT)) in said(window)
    assert (path.read_bytes() if path.exists() else None) == content  # as whoever wrote it left it


@pytest.mark.parametrize("content", ["", "schema = 1\n", "= = no TOML"])
def test_what_is_no_run_file_leaves_the_form_as_it_is(window, tmp_path, content):
    window.open_path(run_file(tmp_path / "right.hone", 5))
    before = window.new_run.tree()
    wrong = tmp_path / "wrong.hone"
    wrong.write_text(content)
    window.open_path(wrong)
    assert window.new_run.tree() == before


def test_data_that_is_gone_is_told_of_and_the_form_stays(window, tmp_path):
    before = window.new_run.tree()
    window.open_paths([tmp_path / "gone.csv"])
    assert window.pages.currentWidget() is window.new_run
    assert "“gone.csv” can't be opened" in said(window)
    assert f"There is no file or folder at {tmp_path / 'gone.csv'}." in said(window)
    assert window.new_run.tree() == before
    there = tmp_path / "there.csv"
    there.write_text("text,label\n")
    window.open_paths([there])
    assert not window.new_run._strip.isVisible() or "gone" not in said(window)


def test_of_several_the_first_is_opened_and_the_others_are_named(window, tmp_path):
    paths = [run_file(tmp_path / "a.hone", 5), *(tmp_path / f"{name}.csv" for name in "bcdef")]
    window.open_paths([*paths, paths[0], paths[1]])
    assert window.new_run.tree()["training"]["max_steps"] == 5
    strip = window.found.strip.aside
    assert strip.isVisible()
    words = [label.text() for label in strip.findChildren(QLabel)]
    assert words == ["Hone opens one file or folder at a time", "Not opened: b.csv, c.csv, d.csv + 2"]
    window.open_paths([])
    assert strip.isVisible()
    window.open_paths(paths[:1])
    assert not strip.isVisible()
