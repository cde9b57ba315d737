"""`hone train`: starts a run and stays with it in the terminal until it is over."""

import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol

from core.cli.output import NAME_HELP, Progress, say
from core.cli.runs import find_run
from core.runs import start as starting
from core.runs.event_log import RunFollower
from core.runs.events import Event, encode
from core.runs.folder import Action, RunFolder
from core.runs.start import CantResume
from core.runs.status import DOESNT_FIT, PAUSED_ITSELF, State
from core.runs.words import ending_text, error_text, name_of, unread_text

if TYPE_CHECKING:
    from core.cli.output import Commands
import argparse
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.base import format as figures
from core.base import settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.jobs import EngineCrashed
from core.cli.output import agrees, print_json
from core.options import RunOptions, run_file
from core.options.device_support import (
    MachineReport,
    hints,
    machine_may_refuse,
    machine_problems,
    model_may_refuse,
)
from core.runs import queue
from core.runs.events import CheckpointSaved, RequestAnswered
from core.runs.folder import Request
from core.runs.library import create
from core.runs.queue import Entry, Move
from core.runs.summary import RunSummary, summarize
from core.runs.words import ONLY_IF_IT_FITS
from core.services import hub, questions
from core.services import hub as model_lookup

# --- A terminal that stays with a run: shows its progress, passes on Ctrl-C, says how it ended


POLL_SECONDS = 0.1
BACKLOG = 1000
"""So many events in one poll are a long file being caught up with: no pause then."""

INTERRUPTED = 130
WRONG_REQUEST = 2
TOO_LARGE = 3
"""The exit status of an answer that is no: the run doesn't fit."""

ENDED_WELL = (State.FINISHED, State.STOPPED, State.PAUSED)
"""What a run can come to that was asked for."""

REMOVED = (
    "The run's folder is no longer there: it was removed or renamed, or its disk is not connected. Where it was "
    "renamed, the run goes on in it."
)

_SAID = {
    Action.STOP: "Stopping; what is trained is kept. Ctrl-C again ends it at once.",
    Action.KILL: "Ending it at once. Ctrl-C again leaves it alone.",
}


def ended_well(follower: RunFollower) -> bool:
    """Whether a run came to what was asked for; one that paused by itself, for want of room, didn't."""
    return follower.state in ENDED_WELL and PAUSED_ITSELF not in follower.story.messages


class Interrupts:
    """While entered, counts Ctrl-C and SIGTERM, which else would end the program wherever it is."""

    def __init__(self) -> None:
        self.count = 0
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> "Interrupts":
        for number in self._before:
            signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


class Attendance:
    """One terminal staying with one run.

    Args:
        run: The run's folder.
        interrupts: What counts Ctrl-C, entered already.
        answers: What the first Ctrl-C asks of the run, what the second; one more leaves the run alone.
        as_json: Whether events go to standard output, a JSON line each.
        first_attempt: What earlier attempts told is not shown.
    """

    def __init__(
        self,
        run: RunFolder,
        interrupts: Interrupts,
        answers: Sequence[Action] = (),
        *,
        as_json: bool = False,
        first_attempt: int = 0,
    ) -> None:
        self._run = run
        self._interrupts = interrupts
        self._answers = answers
        self._answered = 0
        self._follower = RunFollower(run)
        self._progress = Progress(self._follower.story, sys.stderr, run.path)
        self._as_json = as_json
        self._first_attempt = first_attempt
        self.has_left = False

    def stay(self) -> int:
        """Wait for the run's end, or until the person leaves it; returns the exit status."""
        try:
            self._progress.say(f"The run is kept in {self._run.path}")
            while not (self._follower.is_over or self._run.is_removed or self.has_left):
                events = self._follower.poll()
                for event in events:
                    if event.attempt >= self._first_attempt:
                        self._show(event)
                self._answer_interrupt()
                if len(events) < BACKLOG:
                    time.sleep(POLL_SECONDS)
        finally:
            self._progress.close()
        return self._leave() if self.has_left else self._conclude()

    def _answer_interrupt(self) -> None:
        """Do what the next unanswered Ctrl-C is for."""
        if self._answered == self._interrupts.count:
            return
        if self._answered == len(self._answers):
            self.has_left = True
            return
        action = self._answers[self._answered]
        self._answered += 1
        try:
            self._run.ask(action)
        except OSError as error:
            self._progress.say(f"The run can't be asked to end: {error}. It goes on; try Ctrl-C again.")
        else:
            self._progress.say(_SAID[action])

    def _show(self, event: Event) -> None:
        self._progress.show(event)
        if self._as_json:
            try:
                sys.stdout.buffer.write(encode(event))
                sys.stdout.flush()
            except BrokenPipeError:  # who asked has gone: as if they had pressed Ctrl-C
                self._as_json = False
                self._interrupts.count = max(1, self._interrupts.count)

    def _leave(self) -> int:
        name = name_of(self._run)
        self._progress.say(
            f"The run goes on. `hone follow {name}` comes back to it, `hone stop {name}` stops it."
        )
        return INTERRUPTED

    def _conclude(self) -> int:
        follower = self._follower
        if self._run.is_removed:
            self._progress.say(REMOVED)
            return 1
        if unread := unread_text(follower.story):
            self._progress.say(unread)
        self._progress.say(ending_text(self._run, follower.story, follower.state, follower.exit_record))
        if ended_well(follower):
            return INTERRUPTED if self._interrupts.count else 0
        return TOO_LARGE if DOESNT_FIT in follower.story.messages else 1


# --- `hone resume`: goes on with a run that ended before it was done


class KeeperCommand(Protocol):
    """Tells what starts the keeper of a run."""

    def __call__(self, run: RunFolder, *, queued: bool = False) -> list[str]:
        """The program and its arguments."""


def resume(
    name: str,
    *,
    epochs: float | None,
    max_steps: int | None,
    queued: bool,
    as_json: bool,
    command: KeeperCommand | None = None,
) -> int:
    """Go on with a run that ended before it was done, or train a finished one further, and stay with it.

    Args:
        name: Its folder, or its name among all runs.
        epochs: So many in all, from now on; None: as it was asked for.
        max_steps: So many steps in all.
        queued: Whether it waits for its turn.
        as_json: Whether events go to standard output, a JSON line each.
        command: What starts the keeper of a run, where it isn't Hone's own.

    Raises:
        OptionsError: There is no such run.
        RunFolderError: It can't be started.
    """
    run = find_run(name)
    starter = command(run, queued=queued) if command is not None else None
    with Interrupts() as interrupts:
        try:
            if epochs is None and max_steps is None:
                keeper = starting.resume(run, starter, queued=queued)
            else:
                keeper = starting.extend(run, starter, epochs=epochs, max_steps=max_steps, queued=queued)
        except CantResume as error:
            say(error_text(error), sys.stderr)
            return WRONG_REQUEST
        attendance = Attendance(
            run,
            interrupts,
            (Action.STOP, Action.KILL),
            as_json=as_json,
            first_attempt=run.attempt_kept(),
        )
        status = attendance.stay()
    if not attendance.has_left:
        keeper.wait()
    return status


def add_resume(commands: "Commands", keeper: KeeperCommand | None) -> None:
    """Add the command to the parser; `keeper` tells what starts a run's keeper, where it isn't Hone's own."""
    command = commands.add_parser(
        "resume",
        help="go on with a run that was paused, stopped or cut short",
        description="Go on with a run from its newest complete checkpoint, exactly as if it had not been interrupted, "
        "and stay with it as `hone train` does. A run that has finished is trained further with --epochs or "
        "--max-steps. Ctrl-C stops and keeps what is trained.",
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    longer = command.add_mutually_exclusive_group()
    longer.add_argument("--epochs", type=float, metavar="N", help="train N epochs in all instead")
    longer.add_argument("--max-steps", type=int, metavar="N", help="train N steps in all instead")
    command.add_argument("--queue", action="store_true", help="wait until nothing else trains on its device")
    command.add_argument("--json", action="store_true", help="print what happens as JSON lines")
    command.set_defaults(
        run=lambda asked: resume(
            asked.name,
            epochs=asked.epochs,
            max_steps=asked.max_steps,
            queued=asked.queue,
            as_json=asked.json,
            command=keeper,
        )
    )


# --- `hone follow`, `stop`, `pause` and `save`: runs that were started elsewhere


def add_running(commands: "Commands") -> None:
    """Add the commands to the parser."""
    following = commands.add_parser(
        "follow",
        help="show the progress of a run that was started elsewhere",
        description="Show a run's progress until it is over. Ctrl-C leaves it, and it goes on.",
    )
    following.add_argument("name", metavar="RUN", help=NAME_HELP)
    following.add_argument("--json", action="store_true", help="print what happens as JSON lines")
    following.set_defaults(run=lambda asked: follow(asked.name, as_json=asked.json))
    stopping = commands.add_parser(
        "stop",
        help="stop a run and keep what is trained",
        description="Ask a run to stop at its next step, keeping what is trained, and wait until it has. One that "
        "waits for its turn is taken out of the queue.",
    )
    stopping.add_argument("name", metavar="RUN", help=NAME_HELP)
    stopping.add_argument(
        "--now", action="store_true", help="end it at once instead; only checkpoints are kept"
    )
    stopping.set_defaults(run=lambda asked: stop(asked.name, at_once=asked.now))
    pausing = commands.add_parser(
        "pause",
        help="save a run's state and end it for now",
        description="Ask a run to save a checkpoint at its next step and to end, which gives its memory back, and wait "
        "until it has. `hone resume` goes on with it.",
    )
    pausing.add_argument("name", metavar="RUN", help=NAME_HELP)
    pausing.set_defaults(run=lambda asked: pause(asked.name))
    saving = commands.add_parser("save", help="save a checkpoint of a run now; it goes on")
    saving.add_argument("name", metavar="RUN", help=NAME_HELP)
    saving.set_defaults(run=lambda asked: save(asked.name))


def follow(name: str, *, as_json: bool) -> int:
    """Show a run's progress until it is over; Ctrl-C leaves it, and it goes on.

    Args:
        name: Its folder, or its name among all runs.
        as_json: Whether events go to standard output, a JSON line each.

    Raises:
        OptionsError: There is no such run.
    """
    run = find_run(name)
    with Interrupts() as interrupts:
        return Attendance(run, interrupts, as_json=as_json).stay()


def stop(name: str, *, at_once: bool) -> int:
    """Ask a run to end and wait until it has; 0 if it ended well, 1 if not or if its folder was removed meanwhile.

    One that waits for its turn is taken out of the queue.

    Args:
        name: Its folder, or its name among all runs.
        at_once: Whether it is killed. Otherwise it ends at its next step and keeps what is trained.

    Raises:
        OptionsError: There is no such run.
        OSError: It can't be asked.
    """
    run = find_run(name)
    state = summarize(run).state
    if state.is_over:
        say(f"It is over already: {state}.", sys.stderr)
        return 0
    return _end(run, Action.KILL if at_once else Action.STOP)


def pause(name: str) -> int:
    """Ask a run to save a checkpoint and end, and wait until it has; 0 if it ended well, 1 if not.

    Args:
        name: Its folder, or its name among all runs.

    Raises:
        OptionsError: There is no such run, or nothing in it is under way.
        OSError: It can't be asked.
    """
    run = find_run(name)
    state = summarize(run).state
    if state is State.PAUSED:
        say("It is paused already.", sys.stderr)
        return 0
    _refuse_if_over(name, state, "paused")
    return _end(run, Action.PAUSE)


def save(name: str) -> int:
    """Ask a run to save a checkpoint at its next step, and wait until it has; 0 if it has, 1 if not.

    Args:
        name: Its folder, or its name among all runs.

    Raises:
        OptionsError: There is no such run, or nothing in it is under way.
        OSError: It can't be asked.
    """
    run = find_run(name)
    _refuse_if_over(name, summarize(run).state, "saved")
    follower = RunFollower(run)
    request = run.ask(Action.SAVE)
    answer: RequestAnswered | None = None
    for event in _events_until_over(follower):
        match event:
            case RequestAnswered(request=request.id):
                answer = event
                if not event.accepted:
                    break
            case CheckpointSaved() if answer is not None:
                say(f"Saved step {event.step:,}: {run.path / event.path}", sys.stderr)
                return 0
    if answer is not None and answer.detail:
        say(answer.detail, sys.stderr)
        return 1
    return _conclude(run, request, follower) or 1


def _refuse_if_over(name: str, state: State, done: str) -> None:
    if state.is_over:
        raise OptionsError((Problem("", f"{name} can't be {done}: nothing is under way, it is {state}"),))


def _end(run: RunFolder, action: Action) -> int:
    request = run.ask(action)
    follower = RunFollower(run)
    for _ in _events_until_over(follower):
        pass
    return _conclude(run, request, follower)


def _events_until_over(follower: RunFollower) -> Iterator[Event]:
    """What a run tells from its beginning until it is over or its folder removed."""
    while not (follower.is_over or follower.run.is_removed):
        events = follower.poll()
        yield from events
        if len(events) < BACKLOG:
            time.sleep(POLL_SECONDS)


def _conclude(run: RunFolder, request: Request, follower: RunFollower) -> int:
    """Say how a run ended that was asked for something; returns the exit status."""
    if run.is_removed:
        say(REMOVED, sys.stderr)
        return 1
    run.close_request(request)  # it may have ended by itself before it read the request
    say(ending_text(run, follower.story, follower.state, follower.exit_record), sys.stderr)
    return 0 if ended_well(follower) else 1


# --- `hone train`: starts a run and stays with it in the terminal until it is over


class Start(Protocol):
    """Starts the keeper of a run."""

    def __call__(self, run: RunFolder, *, queued: bool = False) -> subprocess.Popen[bytes]:
        """Returns its process."""


def train(
    file: Path,
    overrides: tuple[str, ...],
    run_dir: Path | None,
    *,
    as_json: bool,
    queued: bool = False,
    agreed: bool = False,
    start: Start = starting.start,
) -> int:
    """Train what `file` asks for and return the exit status.

    Args:
        file: The run file.
        overrides: `section.option=value` pairs that go before what the file says.
        run_dir: The run's folder, empty or absent; None: a new one among all runs.
        as_json: Whether events go to standard output, a JSON line each.
        queued: Whether it waits for its turn.
        agreed: Whether it is started though its memory forecast doesn't fit; otherwise that is asked at a terminal.
        start: What starts a run's keeper.

    Raises:
        OptionsError: The request is wrong.
        ModelError: The model isn't here, and nothing may be fetched.
        RunFolderError: The run can't be started.
    """
    options = run_file.read(file, overrides)
    for note in run_file.renamings(file, overrides):
        say(f"Note: {note}", sys.stderr)
    if hub.is_forbidden() and not model_lookup.is_complete(options):
        raise hub.not_here(options.model.source)
    machine = check_machine(options, file)
    check_model(options, file)
    for hint in hints(options, machine):
        say(f"Note: {hint.path}: {hint.message}", sys.stderr)
    run = create(options, settings.runs_folder(), run_dir)
    status = _attend(run, start, queued=queued, as_json=as_json, agreed=agreed)
    if status == TOO_LARGE and not as_json and sys.stdin.isatty() and agrees("Start it anyway?"):
        status = _attend(run, start, queued=queued, as_json=as_json, agreed=True)
    return status


def _attend(run: RunFolder, start: Start, *, queued: bool, as_json: bool, agreed: bool) -> int:
    os.environ.pop(ONLY_IF_IT_FITS, None)
    if not agreed:
        os.environ[ONLY_IF_IT_FITS] = "1"  # its keeper and its engine inherit it
    with Interrupts() as interrupts:  # before there is anything that a Ctrl-C would leave behind
        keeper = start(run, queued=queued)
        attendance = Attendance(
            run,
            interrupts,
            (Action.STOP, Action.KILL),
            as_json=as_json,
            first_attempt=run.attempt_kept(),
        )
        status = attendance.stay()
    if not attendance.has_left:
        keeper.wait()
    return status


def check_machine(options: RunOptions, file: Path) -> MachineReport | None:
    """Ask the engine what this machine can do, where the options hold anything that it might refuse.

    Returns:
        What it can do; None where nobody had to ask.

    Raises:
        OptionsError: It refuses something.
    """
    if not machine_may_refuse(options):
        return None
    machine = questions.ask_devices()
    problems = tuple(machine_problems(machine, options))
    if problems:
        raise OptionsError(problems, str(file))
    return machine


def check_model(options: RunOptions, file: Path) -> None:
    """Ask the engine about the model, where the options hold anything that it might lack and it is on this computer.

    An engine that can't tell is no reason not to train: the run would say what is wrong.

    Raises:
        OptionsError: The model can't be trained so.
    """
    question = model_lookup.question_about(options) if model_may_refuse(options) else None
    if question is None:
        return
    try:
        problems = questions.ask_check_model(question).problems
    except (UserError, EngineCrashed) as error:
        say(f"Note: the model could not be looked at before the run. {error}", sys.stderr)
        return
    if problems:
        raise OptionsError(problems, str(file))


# --- `hone queue`: which runs train and wait, in which order; moving them and taking them out


_TITLES = ("", "NAME", "STATE", "MODEL", "DATA", "DEVICE")


def add_queue(commands: "Commands") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "queue",
        help="show which runs wait for their turn, and change their order",
        description="Show which runs train and which wait for their turn. `hone train --queue` and `hone resume "
        "--queue` let a run wait until nothing trains on its device and nothing that waits there was before it.",
    )
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=lambda asked: show(as_json=asked.json))
    actions = command.add_subparsers(metavar="ACTION")
    moving = actions.add_parser("move", help="put a waiting run elsewhere in the order")
    moving.add_argument("name", metavar="RUN", help=NAME_HELP)
    moving.add_argument(
        "to", type=_place, metavar="PLACE", help=f"{', '.join(Move)}, or its number in `hone queue`"
    )
    moving.set_defaults(run=lambda asked: move(asked.name, asked.to))
    cancelling = actions.add_parser("cancel", help="take a waiting run out; it can be started later")
    cancelling.add_argument("name", metavar="RUN", help=NAME_HELP)
    cancelling.set_defaults(run=lambda asked: cancel(asked.name))


def show(*, as_json: bool) -> int:
    """Print the runs that train and those that wait, in the order in which they will."""
    trained, waiting = ([summarize(run) for run in runs] for runs in (queue.training(), queue.waiting()))
    measured = queue.benchmarks()
    if as_json:
        told = {"training": list(map(_as_plain, trained)), "waiting": list(map(_as_plain, waiting))}
        print_json({**told, "measuring": [_benchmark_as_plain(entry) for entry in measured]})
    elif trained or waiting or measured:
        rows = [_benchmark_row(entry) for entry in measured]
        rows += [_row("", summary) for summary in trained]
        rows += [_row(str(number), summary) for number, summary in enumerate(waiting, 1)]
        say(figures.table(_TITLES, rows))
    else:
        say("No run trains or waits. `hone train RUN.hone --queue` lets one wait for its turn.")
    return 0


def _place(text: str) -> Move | int:
    """Where to in the queue, as it is typed."""
    if text.isascii() and text.isdecimal() and int(text[:9]) > 0:
        return int(text[:9])
    if text in list(Move):
        return Move(text)
    raise argparse.ArgumentTypeError(f"must be {', '.join(Move)}, or a number from 1 on; got {text!r}")


def move(name: str, to: Move | int) -> int:
    """Put a waiting run elsewhere in the queue, and print it; a number is its new place, from 1 on.

    Raises:
        OptionsError: There is no such run, or it doesn't wait.
        OSError: The order can't be written.
    """
    if not queue.move(find_run(name), to):
        raise OptionsError(
            (Problem("", f"{name} doesn't wait for its turn; `hone queue` shows which runs do"),)
        )
    return show(as_json=False)


def cancel(name: str) -> int:
    """Take a waiting run out of the queue; it can be started later.

    Raises:
        OptionsError: There is no such run, or it doesn't wait.
        OSError: It can't be asked.
    """
    run = find_run(name)
    state = summarize(run).state
    if state is not State.QUEUED and run not in _waiting():
        raise OptionsError((Problem("", f"{name} doesn't wait for its turn: it is {state}"),))
    return stop(str(run.path), at_once=False)


def _waiting() -> list[RunFolder]:
    return [RunFolder(run.path.absolute()) for run in queue.waiting()]


def _row(place: str, summary: RunSummary) -> tuple[str, ...]:
    return (
        place,
        summary.run.name,
        summary.state.value,
        summary.model or "(unreadable)",
        summary.data or figures.PLAIN_MISSING,
        queue.device_of(summary.run),
    )


def _benchmark_row(entry: Entry) -> tuple[str, ...]:
    return ("", queue.BENCHMARK, "measuring", entry.benchmark, figures.PLAIN_MISSING, entry.device)


def _benchmark_as_plain(entry: Entry) -> dict[str, Any]:
    return {"title": entry.benchmark, "device": entry.device}


def _as_plain(summary: RunSummary) -> dict[str, Any]:
    return {
        "folder": str(summary.run.path),
        "title": summary.title,
        "state": summary.state,
        "device": queue.device_of(summary.run),
    }
