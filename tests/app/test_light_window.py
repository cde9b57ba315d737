"""The window's process stays light: it never imports what trains, and is up before torch could be."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

SHOW_ALL_PAGES = """
import json, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from core.base.settings import Appearance, Settings
from gui.app.application import HoneApplication, set_up
from gui.app.sidebar import Place
from gui.base.theme import Theme
from gui.app.window import MainWindow
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import (Plot, finish, write_story)
from tests.fakes.runs import (make_folder)

folder = Path(sys.argv[1])
run = make_folder(folder / "done")
plot = Plot(steps=16, reached=16)
finish(run, plot, write_story(run, plot))
application = HoneApplication(["hone"])
set_up(application)
theme = Theme(Appearance.DARK)
theme.apply()
window = MainWindow(theme, Settings(runs_folder=str(folder)), FakeEngine())
window.show()
at_start = set(sys.modules)
window.open_path(run.path)
window.go_to(Place.RUNS)
window.go_to(Place.BENCHMARK)
window.go_to(Place.SETTINGS)
window.end_work()
print(json.dumps([sorted(at_start), sorted(sys.modules)]))
"""

HEAVY = {
    "torch",
    "torchvision",
    "transformers",
    "datasets",
    "accelerate",
    "sklearn",
    "pyarrow",
    "pandas",
    "PIL",
}
LATER = {"numpy", "pyqtgraph"}


def test_no_page_brings_the_training_libraries_along(tmp_path):
    environment = {**os.environ, "HONE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", SHOW_ALL_PAGES, str(tmp_path / "runs")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    at_start, in_the_end = map(set, json.loads(ended.stdout))
    assert HEAVY & in_the_end == set()
    assert LATER & at_start == set()
    assert in_the_end >= LATER  # the run page was really shown


def test_the_program_says_when_it_has_painted(tmp_path):
    environment = {**os.environ, "HONE_HOME": str(tmp_path), "HONE_QUIT_AFTER_PAINT": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "gui"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    words = ended.stdout.split()
    assert words[0] == "first-paint"
    assert float(words[1]) > 0
    assert (tmp_path / "hone.log").is_file()
