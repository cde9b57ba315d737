"""Pictures of runs that rest, wait or were broken off, and of what the window asks and offers about them."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QMessageBox

from core.events import TurnAwaited
from core.interrupted import Interrupted
from core.live_runs import LiveRun
from core.run_folder import RunFolder
from core.story import State
from gui.closing import Underway
from gui.closing import question_about as closing_question
from gui.invented_runs import Plot, break_off, finish, pause, write_story
from gui.pages.new_run_header import DIGITS
from gui.sidebar import Place
from gui.turn_question import question_about as turn_question
from gui.window import MainWindow

REACHED = 130
STEPS = 225
EPOCHS = 5

READ_MS = 500
"""By then a run is read, and what can be done with it is known."""


def _folder(place: Path, name: str) -> RunFolder:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "run.toml").write_bytes(DIGITS.read_bytes())
    return RunFolder(folder)


class SurviveShots:
    """Each of them leaves the window to the next.

    Args:
        window: What is shown.
        place: A new folder for runs.
    """

    def __init__(self, window: MainWindow, place: Path) -> None:
        self._window = window
        self._box: QMessageBox | None = None
        plot = Plot(steps=STEPS, epochs=EPOCHS, reached=REACHED, start=time.time() - 3600)
        self._paused, self._broken = _folder(place, "paused"), _folder(place, "broken")
        self._done = _folder(place, "done")
        pause(self._paused, plot, write_story(self._paused, plot))
        break_off(self._broken, write_story(self._broken, plot))
        whole = Plot(steps=STEPS, epochs=EPOCHS, reached=STEPS, start=time.time() - 7200)
        finish(self._done, whole, write_story(self._done, whole))
        names = "Handwritten digits", "Reviews, LoRA", "Names in news"
        runs = [self._paused, self._broken, self._done]
        self._live = [
            LiveRun(run, name, 0.0, State.QUEUED, 0.45) for run, name in zip(runs, names, strict=True)
        ]

    def shots(self) -> dict[str, Callable[[], None]]:
        """What brings the window there, by the name of the picture."""
        return {
            "found-runs": self._strips,
            "run-paused": partial(self._window.show_run, self._paused),
            "run-broken-off": partial(self._window.show_run, self._broken),
            "extend": self._extend,
            "runs-waiting": self._queue,
            "closing": self._closing,
            "turn": self._turn,
        }

    def tidy(self) -> None:
        """Say nothing above the pages, and let no run wait."""
        strip = self._window.found.strip
        strip.training.hide()
        strip.interrupted.hide()
        strip.hide()
        if self._window.runs is not None:
            self._window.runs.queue.show_waiting(())

    def _strips(self) -> None:
        self._window.open_path(DIGITS)
        self._window.found.strip.tell_training(self._live[:1])
        found = [Interrupted(self._paused, "Reviews, LoRA", 120), Interrupted(self._done, "Names in news")]
        self._window.found.strip.tell_interrupted(found)

    def _extend(self) -> None:
        self._window.show_run(self._done)
        QTimer.singleShot(READ_MS, self._open_sheet)

    def _open_sheet(self) -> None:
        page = self._window.run
        if page is not None and page.view is not None:
            page.view.header.buttons.extend_pressed.emit()

    def _queue(self) -> None:
        self._window.go_to(Place.RUNS)
        if self._window.runs is not None:
            self._window.runs.queue.show_waiting(self._live)

    def _closing(self) -> None:
        states = State.TRAINING, State.TRAINING, State.QUEUED
        found = [Underway(one.run, one.title, state) for one, state in zip(self._live, states, strict=True)]
        self._box = closing_question(found, self._window)
        self._box.open()

    def _turn(self) -> None:
        self._box = turn_question(TurnAwaited(ahead=1, behind="“Handwritten digits”"), self._window)
        self._box.open()
