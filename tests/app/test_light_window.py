"""The window's process stays light: it never imports what trains, and charts only once a run is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PySide6")
ROOT = Path(__file__).resolve().parent.parent.parent

SHOW_ALL_PAGES = """
import json, sys
from pathlib import Path
from core.base.settings import Appearance, Settings
from gui.app.application import HoneApplication, set_up
from gui.app.sidebar import Place
from gui.base.theme import Theme
from gui.app.window import MainWindow
from tests.fakes.jobs import FakeEngine
from tests.fakes.runs import Plot, finish, make_folder, write_story

folder = Path(sys.argv[1])
run = make_folder(folder / "done")
plot = Plot(steps=16, reached=16)
finish(run, plot, write_story(run, plot))
application = HoneApplication(["hone"])
set_up(application)
theme = Theme(Appearance.DARK)
theme.apply()
window = MainWindow(theme, Settings(runs_folder=str(folder)), FakeEngine())
window.pages.go_to(Place.WELCOME)
window.show()
at_start = set(sys.modules)
window.pages.go_to(Place.RUNS)
with_list = set(sys.modules)
window.open_path(run.path)
for place in Place:
    window.pages.go_to(place)
window.end_work()
print(json.dumps([sorted(at_start), sorted(with_list), sorted(sys.modules)]))
"""

HEAVY = {
    *("torch", "torchvision", "transformers", "datasets", "accelerate", "sklearn"),
    *("pyarrow", "pandas", "PIL"),
}
CHARTS = {"numpy", "pyqtgraph"}


def run_python(home, *arguments, **variables):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "HONE_HOME": str(home), "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_no_page_imports_the_training_libraries(tmp_path):
    found = json.loads(run_python(tmp_path / "home", "-c", SHOW_ALL_PAGES, str(tmp_path / "runs")))
    at_start, with_list, in_the_end = map(set, found)
    assert HEAVY & in_the_end == set()
    assert CHARTS & at_start == CHARTS & with_list == set()
    assert "gui.new_run.page" not in at_start
    assert in_the_end >= CHARTS  # the run's page was really shown


FORM_AFTER_PAINT = """
import sys
from PySide6.QtWidgets import QApplication
from gui.app import application
from gui.app.window import MainWindow

def then():
    [window] = [shown for shown in QApplication.topLevelWidgets() if isinstance(shown, MainWindow)]
    print("then", window.pages.count())
    QApplication.quit()

MainWindow.ask_for_devices = lambda window: print("painted", window.pages.count())
application.import_charts_soon = then
sys.exit(application.run_app(["hone"]))
"""


def test_the_form_is_made_when_the_first_page_has_been_painted(tmp_path):
    assert run_python(tmp_path, "-c", FORM_AFTER_PAINT).splitlines() == ["painted 1", "then 2"]


def test_the_program_prints_when_it_has_painted(tmp_path):
    words = run_python(tmp_path, "-m", "gui", HONE_QUIT_AFTER_PAINT="1").split()
    assert words[0] == "first-paint"
    assert float(words[1]) > 0
    assert (tmp_path / "hone.log").is_file()
