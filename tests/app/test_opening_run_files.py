"""A run file comes to the window by argument, by an event of a Mac, from a second start; a wrong one is told of."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from core.settings import Appearance, Settings
from gui.sidebar import Place
from gui.theme import Theme
from gui.window import MainWindow
from tests.fakes.asking import FakeEngine

ROOT = Path(__file__).resolve().parents[2]

FIRST = """
import subprocess, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from gui import app
from gui.window import MainWindow
from tests.fakes.asking import FakeEngine

by_argument, by_event, by_second = sys.argv[1:]
app.ask_real_engine = FakeEngine()

def steps():
    window = next(one for one in QApplication.topLevelWidgets() if isinstance(one, MainWindow))
    return window.new_run.tree()["training"]["max_steps"]

def look():
    application = QApplication.instance()
    print("argument", steps())
    application.sendEvent(application, QFileOpenEvent(by_event))
    print("event", steps())
    command = [sys.executable, "-m", "gui", Path(by_second).name]
    second = subprocess.Popen(command, cwd=Path(by_second).parent, stdout=subprocess.PIPE, text=True)
    waiting = QTimer(application, interval=10)

    def wait():
        if second.poll() is not None and steps() == 9:
            waiting.stop()
            print("second", steps(), second.returncode, second.stdout.read().strip())
            application.closeAllWindows()

    waiting.timeout.connect(wait)
    waiting.start()

app.import_charts_soon = look  # called once the window has been painted
sys.exit(app.run_app(["hone", by_argument]))
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
def test_a_run_file_opens_in_the_one_window_whichever_way_it_comes(tmp_path, runtime):
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
        "argument 5",
        "event 7",
        "second 9 0 Hone is open already; it was brought to the front.",
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
        (b"= = no TOML", "is not TOML"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not a text file"),
        (b'schema = 99\ntask = "image-classification"\n', "a newer Hone may read it"),
        (None, "No such file"),
    ],
    ids=["not TOML", "not text", "of a newer Hone", "gone"],
)
def test_a_wrong_run_file_is_told_of_in_the_window(window, tmp_path, content, words):
    path = tmp_path / "wrong.hone"
    if content is not None:
        path.write_bytes(content)
    window.open_path(path)
    assert window.pages.currentWidget() is window.new_run
    assert "wrong.hone" in said(window)
    assert words in said(window)
    assert (path.read_bytes() if path.exists() else None) == content  # as whoever wrote it left it
