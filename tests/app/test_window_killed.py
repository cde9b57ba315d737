"""A window that is killed ends no run: the next window finds it and shows it from its first step."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from core.runs.events import Action
from core.runs.status import State
from tests.fakes.runs import make_folder

ROOT = Path(__file__).resolve().parent.parent.parent
KEEPER = ROOT / "tests" / "fakes" / "keeper.py"

FIRST_WINDOW = """
import sys
from functools import partial
from pathlib import Path
from core.runs import start as starting
from core.runs.folder import RunFolder
from core.base.settings import Appearance, Settings
from core.runs.status import State
from gui.app.application import HoneApplication, set_up
from gui.base.theme import Theme
from gui.app.window import MainWindow
from tests.fakes.jobs import FakeEngine

run, keeper = RunFolder(Path(sys.argv[1])), sys.argv[2]
application = HoneApplication(["hone"])
set_up(application)
window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(run.path.parent)), FakeEngine())
window.show()
command = [sys.executable, "-P", keeper, "wait", str(run.path)]
window.pages.show_run(run, partial(starting.start, run, command))
tell = lambda state: state is State.TRAINING and print("trains", flush=True)
window.pages.run.view.state_changed.connect(tell)
application.exec()
"""


def test_the_next_window_shows_the_run_from_its_start(qtbot, tmp_path, make_window):
    run = make_folder(tmp_path / "runs" / "run")
    command = [sys.executable, "-c", FIRST_WINDOW, str(run.path), str(KEEPER)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "trains\n"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    window = make_window()
    try:
        qtbot.waitUntil(
            lambda: window.pages.run is not None and window.pages.run.view is not None, timeout=5000
        )
        view = window.pages.run.view
        qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=5000)
        seen = len(view.history.loss)
        qtbot.waitUntil(lambda: len(view.history.loss) > seen + 3, timeout=5000)
        assert view.history.loss.x[0] == 1
        assert len(view.history.loss) == view.status.step
    finally:
        run.request(Action.STOP)
        qtbot.waitUntil(lambda: run.exit_record() is not None, timeout=10_000)
