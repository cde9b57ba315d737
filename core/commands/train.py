"""`hone train`: starts a run and stays with it in the terminal until it is over."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from core import jobs, run_file, settings
from core.commands.progress import Progress
from core.commands.run_text import ending_text
from core.events import Event, encode
from core.follow import RunFollower
from core.runs import Action, RunFolder, create
from core.story import State

POLL_SECONDS = 0.1
INTERRUPTED = 130

Start = Callable[[RunFolder], subprocess.Popen[bytes]]


def train(
    file: Path,
    overrides: tuple[str, ...],
    run_dir: Path | None,
    *,
    as_json: bool,
    start: Start = jobs.start,
) -> int:
    """Train what `file` asks for and return the exit status.

    Args:
        file: The run file.
        overrides: `section.option=value` pairs that go before what the file says.
        run_dir: The run's folder, empty or absent; None: a new one among all runs.
        as_json: Whether events go to standard output, a JSON line each.
        start: What starts a run's keeper.

    Raises:
        OptionsError: The request is wrong.
        RunFolderError: The run can't be started.
    """
    options = run_file.read(file, overrides)
    run = create(options, settings.runs_folder(), run_dir)
    keeper = start(run)
    status = Attendance(run, as_json=as_json).stay()
    keeper.wait()
    return status


class Attendance:
    """One terminal staying with one run: shows its progress, passes on Ctrl-C, says how it ended."""

    def __init__(self, run: RunFolder, *, as_json: bool) -> None:
        self._run = run
        self._follower = RunFollower(run)
        self._progress = Progress(self._follower.story, sys.stderr)
        self._as_json = as_json
        self._interrupts = 0
        self._passed_on = 0

    def stay(self) -> int:
        """Wait for the run's end; returns the exit status."""
        before = {
            number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._progress.say(f"The run is kept in {self._run.path}")
            while not self._follower.is_over:
                for event in self._follower.poll():
                    self._show(event)
                self._pass_on_interrupts()
                time.sleep(POLL_SECONDS)
        finally:
            self._progress.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._conclude()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1

    def _pass_on_interrupts(self) -> None:
        if self._interrupts > 0 and self._passed_on == 0:
            self._passed_on = 1
            self._run.ask(Action.STOP)
            self._progress.say("Stopping; what is trained is kept. Ctrl-C again ends it at once.")
        elif self._interrupts > 1 and self._passed_on == 1:
            self._passed_on = 2
            self._run.ask(Action.KILL)
            self._progress.say("Ending it at once.")

    def _show(self, event: Event) -> None:
        self._progress.show(event)
        if self._as_json:
            try:
                sys.stdout.buffer.write(encode(event))
                sys.stdout.flush()
            except BrokenPipeError:  # who asked has gone: end as other programs do, but keep what is trained
                self._as_json = False
                self._interrupts = max(1, self._interrupts)

    def _conclude(self) -> int:
        follower = self._follower
        self._progress.say(ending_text(self._run, follower.story, follower.state, follower.exit_record))
        if follower.state in (State.FINISHED, State.STOPPED):
            return INTERRUPTED if self._interrupts else 0
        return 1
