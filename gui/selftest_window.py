"""`hone --selftest-window`: the window tries itself out, on the screen there is or on none.

It opens, shows each page, trains the digits for a few steps as a person would, and draws their page into a PNG file.
One line for each check, as `hone --selftest` has them; `--keep FOLDER` leaves the pictures in FOLDER.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QEventLoop, QMessageLogContext, QTimer, QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from core.figures import counted
from core.selftest.checking import Check, Failed
from core.selftest.command import UNTOUCHED, own_home, test
from core.selftest.untouched import Untouched
from core.settings import Appearance, Settings
from core.state import State
from core.tree import put
from core.version import VERSION
from gui.app import FirstPaint, HoneApplication, dress
from gui.closing import Closing, Underway
from gui.engine_question import ask_real_engine
from gui.pages.new_run_header import DIGITS
from gui.sidebar import Place
from gui.theme import Theme
from gui.window import MainWindow

STEPS = 5
SECONDS = 600.0
"""How long anything may take."""
POLL_MS = 50
SETTLE_MS = 600
"""Time in which what a page has just heard comes to be painted."""
FEWEST_COLOURS = 12
"""A page has text with smoothed edges; what has fewer colours is an empty one."""
LOOKED_AT = 8
"""One pixel in so many, each way, is looked at."""
HARMLESS = ("propagateSizeHints",)
"""What the offscreen platform can't do."""


def main(arguments: Sequence[str]) -> int:
    """Run the checks of the window; 0 where all passed, 1 where one failed, 2 where the request was wrong."""
    parser = argparse.ArgumentParser(
        prog="hone --selftest-window", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="work in FOLDER and leave the pictures there"
    )
    asked = parser.parse_args(arguments)
    with own_home(asked.keep) as folder:
        tried = WindowTest(folder)
        try:
            return test(tried.checks(), (), folder)
        finally:
            tried.end()


class WindowTest:
    """Holds the application and its window while the checks run, each of which lets the event loop turn.

    Args:
        folder: Where the pictures go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: list[str] = []
        self._untouched = Untouched()
        qInstallMessageHandler(self._hear)
        sys.excepthook = self._hear_error
        self._application = HoneApplication(["hone"])
        dress(self._application)
        self._theme = Theme(Appearance.LIGHT, self._application)
        self._theme.apply()
        self._window = MainWindow(self._theme, Settings(), ask_real_engine, _stop_runs)

    def checks(self) -> list[Check]:
        """What is tried, in order."""
        return [
            Check("window", self._open),
            *(Check(f"page-{place.name.lower().replace('_', '-')}", self._page(place)) for place in Place),
            Check("train", self._train),
            Check("quiet", self._was_quiet),
            Check(UNTOUCHED, self._untouched.check),
        ]

    def end(self) -> None:
        """Close the window and leave no thread behind."""
        self._window.end_work()
        self._window.close()

    def _open(self, _folder: Path) -> str:
        began = time.monotonic()
        painted: list[float] = []
        paint = FirstPaint(self._window)
        paint.painted.connect(lambda: painted.append(time.monotonic()))
        self._window.show()
        self._wait("the window was painted", lambda: bool(painted))
        platform = self._application.platformName()
        return f"Hone {VERSION} on the platform {platform}, painted {painted[0] - began:.2f} s after it was shown"

    def _page(self, place: Place) -> Callable[[Path], str]:
        def look(_folder: Path) -> str:
            self._window.go_to(place)
            return self._draw(f"page-{place.name.lower()}")

        return look

    def _train(self, _folder: Path) -> str:
        """Open the first example, shorten it, press Start, and wait for its end."""
        window = self._window
        window.ask_for_devices()
        window.open_path(DIGITS)
        tree = window.new_run.tree()
        put(tree, {"training.max_steps": STEPS, "device.name": "cpu", "data.max_eval_samples": 64})
        window.edit(tree)
        began = time.monotonic()
        window.new_run.start()
        self._wait("the run began", lambda: window.run is not None and window.run.view is not None)
        assert window.run is not None
        view = window.run.view
        assert view is not None
        self._wait("the run was over", lambda: view.state is not None and view.state.is_over)
        if view.state is not State.FINISHED:
            log = view.run.log_file.read_text(encoding="utf-8", errors="replace")
            raise Failed(f"the run is {view.state}; the end of its log: {log[-2000:]}")
        seconds = time.monotonic() - began
        return f"{counted(STEPS, 'step')} of the digits in {seconds:.1f} s, {self._draw('page-run')}"

    def _was_quiet(self, _folder: Path) -> str:
        if self._said:
            raise Failed("; ".join(dict.fromkeys(self._said)))
        return "no warning of Qt's and no unhandled error"

    def _draw(self, name: str) -> str:
        """Paint the window into a PNG file, and see that there is something in it."""
        self._pause()
        picture = self._window.grab().toImage()
        path = self._folder / f"{name}.png"
        if not picture.save(str(path)):
            raise Failed(f"{path} can't be written")
        colours = colours_in(picture)
        if colours < FEWEST_COLOURS:
            raise Failed(f"the page is empty: {colours} colours")
        return f"{picture.width()} x {picture.height()} pixels, {path.stat().st_size / 1e3:.0f} kB of PNG"

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Let the event loop turn until something is so."""
        deadline = time.monotonic() + SECONDS
        loop, timer = QEventLoop(), QTimer()
        timer.timeout.connect(lambda: loop.quit() if is_so() or time.monotonic() > deadline else None)
        timer.start(POLL_MS)
        loop.exec()
        if not is_so():
            raise Failed(f"{SECONDS:.0f} s went by before {what}")

    def _pause(self) -> None:
        loop = QEventLoop()
        QTimer.singleShot(SETTLE_MS, loop.quit)
        loop.exec()

    def _hear(self, kind: QtMsgType, _where: QMessageLogContext, text: str) -> None:
        is_news = kind in (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg)
        if is_news and not any(word in text for word in HARMLESS):
            self._said.append(f"Qt says: {text}")

    def _hear_error(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        sys.__excepthook__(kind, error, where)
        self._said.append(f"an error nobody handled: {kind.__name__}: {error}")


def _stop_runs(found: Sequence[Underway], parent: QWidget, *, is_measuring: bool) -> Closing:
    """What trains when the window closes is stopped, without a question; so is what measures."""
    return Closing.STOP


def colours_in(picture: QImage) -> int:
    """How many colours a picture has, of the pixels that are looked at."""
    across, down = range(0, picture.width(), LOOKED_AT), range(0, picture.height(), LOOKED_AT)
    return len({picture.pixel(x, y) for x in across for y in down})
