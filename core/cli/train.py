"""Commands of running training: train, resume, follow, stop, pause and queue."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from core.base import formats, settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _
from core.cli.output import (
    INTERRUPTED,
    NAME_HELP,
    TOO_LARGE,
    WRONG_REQUEST,
    add_command,
    add_json,
    agrees,
    print_json,
    say,
)
from core.cli.runs import find_run
from core.memory.model import ModelReport
from core.options import RunOptions, run_file
from core.options.device_support import (
    MachineReport,
    hints,
    machine_may_refuse,
    machine_problems,
    model_may_refuse,
)
from core.runs import queue
from core.runs import start as runs_start
from core.runs.event_log import RunFollower
from core.runs.events import CheckpointSaved, Event, RequestAnswered, encode
from core.runs.folder import Action, Request, RunFolder
from core.runs.library import create
from core.runs.progress import Progress
from core.runs.queue import Move
from core.runs.start import CantResume
from core.runs.status import DOESNT_FIT, PAUSED_ITSELF, State
from core.runs.summary import RunSummary, summarize
from core.runs.words import ONLY_IF_IT_FITS, ending_text, error_text, name_of, unread_text
from core.services import hub

if TYPE_CHECKING:
    from core.cli.output import Commands

POLL_SECONDS = 0.1
BACKLOG = 1000
"""Events in one poll above which the next poll follows at once: a long file is being read."""

REMOVED = _(
    "The run's folder is no longer there: it was removed or renamed, or its disk is not connected. Where it was "
    "renamed, the run goes on in it."
)
_SAID = {
    Action.STOP: "Stopping; what is trained is kept. Ctrl-C again ends it at once.",
    Action.KILL: _("Ending it at once. Ctrl-C again leaves it alone."),
}
EVENTS = _("print events as JSON lines")
QUEUE = _("wait until nothing else trains on its device (see `hone queue`)")


class Start(Protocol):
    """Starts the keeper of a run."""

    def __call__(self, run: RunFolder, *, queued: bool = False) -> subprocess.Popen[bytes]:
        """Returns its process."""


class KeeperCommand(Protocol):
    """The command that starts the keeper of a run."""

    def __call__(self, run: RunFolder, *, queued: bool = False) -> list[str]:
        """The program and its arguments."""


def add_commands(commands: "Commands") -> None:
    command = add_command(
        commands,
        "train",
        train,
        summary=_("train what a run file asks for"),
        example="mine.hone --set memory.batch_size=8",
        details=(
            "Ctrl-C stops and keeps what is trained; twice ends it at once; three times leaves it alone. "
            "A run that doesn't fit into free memory by forecast ends before it trains, with exit status "
            "3, unless --yes is given."
        ),
    )
    command.add_argument("file", type=Path, metavar="RUN.hone")
    command.add_argument("--run-dir", type=Path, metavar="DIR", help=_("the run's own folder: new or empty"))
    add_set(command)
    add_json(command, EVENTS)
    command.add_argument("--queue", action="store_true", help=QUEUE)
    command.add_argument("--yes", action="store_true", help=_("train even if it doesn't fit by forecast"))
    command.add_argument(
        "--offline", action="store_true", help="download nothing; the same as HF_HUB_OFFLINE=1"
    )

    command = add_command(
        commands,
        "resume",
        resume,
        summary=_("continue a run that was paused, stopped or interrupted"),
        example="2026-01-31-digits",
        details="It continues from the newest complete checkpoint as if it had not been interrupted. A finished run is "
        "trained further with --epochs or --max-steps. Ctrl-C works as in `hone train`.",
    )
    _add_name(command)
    longer = command.add_mutually_exclusive_group()
    longer.add_argument("--epochs", type=float, metavar="N", help=_("train N epochs in total"))
    longer.add_argument("--max-steps", type=int, metavar="N", help=_("train N steps in total"))
    command.add_argument("--queue", action="store_true", help=QUEUE)
    add_json(command, EVENTS)

    command = add_command(
        commands,
        "follow",
        lambda arguments: follow(find_run(arguments.name), as_json=arguments.json),
        summary=_("show the progress of a run that was started elsewhere"),
        example="2026-01-31-digits",
        details="Ctrl-C leaves it; the run goes on.",
    )
    _add_name(command)
    add_json(command, EVENTS)

    command = add_command(
        commands,
        "stop",
        lambda arguments: stop(find_run(arguments.name), at_once=arguments.now),
        summary=_("stop a run and keep what is trained"),
        example="2026-01-31-digits",
        details=_("Waits until it has stopped. A queued run is removed from the queue."),
    )
    _add_name(command)
    command.add_argument("--now", action="store_true", help="end it at once; only checkpoints are kept")

    command = add_command(
        commands,
        "pause",
        lambda arguments: (save if arguments.save_only else pause)(arguments.name),
        summary=_("save a checkpoint of a run and end it for now"),
        example="2026-01-31-digits",
        details=_("Its memory is freed. `hone resume` continues it."),
    )
    _add_name(command)
    command.add_argument("--save-only", action="store_true", help=_("save a checkpoint and keep training"))

    command = add_command(
        commands,
        "queue",
        change_queue,
        summary=_("show which runs train and which wait, or change their order"),
        example="--move 2026-01-31-digits first",
        details="`hone train --queue` and `hone resume --queue` add a run; `hone stop RUN` removes it.",
    )
    command.add_argument(
        "--move",
        nargs=2,
        metavar=("RUN", "PLACE"),
        help=_("move a waiting run: {move}, or its new number in `hone queue`").format(move=", ".join(Move)),
    )
    add_json(command)


def add_set(command: argparse.ArgumentParser) -> None:
    """Add `--set`, which overrides options of a run file."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="SECTION.OPTION=VALUE",
        help="change an option of the file; may be repeated (see `hone options`)",
    )


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="RUN", help=NAME_HELP)


# --- A terminal that stays with a run


class Interrupts:
    """Counts Ctrl-C and SIGTERM while entered, in place of ending the program."""

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
    """One terminal that shows one run.

    Args:
        run: The run's folder.
        interrupts: Counts Ctrl-C, entered already.
        answers: What the first Ctrl-C asks of the run, and the second; one more leaves the run alone.
        as_json: Whether events go to standard output, a JSON line each.
        first_attempt: Events of earlier attempts are not shown.
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
        self._progress = Progress(self._follower.status, sys.stderr, run.path)
        self._as_json = as_json
        self._first_attempt = first_attempt
        self.has_left = False

    def stay(self) -> int:
        """Wait for the run's end, or until the person leaves it; returns the exit status."""
        try:
            self._progress.say(_("The run is kept in {path}").format(path=self._run.path))
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
        if self.has_left:
            name = name_of(self._run)
            self._progress.say(
                _(
                    "The run goes on. `hone follow {name}` comes back to it, `hone stop {name}` stops it."
                ).format(name=name)
            )
            return INTERRUPTED
        return self._conclude()

    def _answer_interrupt(self) -> None:
        if self._answered == self._interrupts.count:
            return
        if self._answered == len(self._answers):
            self.has_left = True
            return
        action = self._answers[self._answered]
        self._answered += 1
        try:
            self._run.request(action)
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
            except BrokenPipeError:  # the reader has gone: the same as Ctrl-C
                self._as_json = False
                self._interrupts.count = max(1, self._interrupts.count)

    def _conclude(self) -> int:
        follower = self._follower
        if self._run.is_removed:
            self._progress.say(REMOVED)
            return 1
        if unread := unread_text(follower.status):
            self._progress.say(unread)
        self._progress.say(ending_text(self._run, follower.status, follower.state, follower.exit_record))
        if ended_well(follower):
            return INTERRUPTED if self._interrupts.count else 0
        return TOO_LARGE if DOESNT_FIT in follower.status.messages else 1


def ended_well(follower: RunFollower) -> bool:
    """Whether a run ended as asked for; one that paused by itself, for lack of disk space, didn't."""
    is_asked = follower.state in (State.FINISHED, State.STOPPED, State.PAUSED)
    return is_asked and PAUSED_ITSELF not in follower.status.messages


# --- hone train


def train(arguments: argparse.Namespace) -> int:
    if arguments.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # processes started from here inherit it
    file, overrides = arguments.file, tuple(arguments.overrides)
    options = run_file.read(file, overrides)
    for note in run_file.renamings(file, overrides):
        say(f"Note: {note}", sys.stderr)
    if hub.is_forbidden() and not hub.is_complete(options):
        raise hub.not_here(options.model.source)
    machine = check_machine(options, file)
    check_model(options, file)
    for hint in hints(options, machine):
        say(f"Note: {hint.path}: {hint.message}", sys.stderr)
    run = create(options, settings.runs_folder(), arguments.run_dir)
    status = _start(arguments, run, agreed=arguments.yes)
    if status == TOO_LARGE and not arguments.json and sys.stdin.isatty() and agrees(_("Start it anyway?")):
        status = _start(arguments, run, agreed=True)
    return status


def _start(arguments: argparse.Namespace, run: RunFolder, *, agreed: bool) -> int:
    os.environ.pop(ONLY_IF_IT_FITS, None)
    if not agreed:
        os.environ[ONLY_IF_IT_FITS] = "1"  # its keeper and its engine inherit it
    start = arguments.start or runs_start.start
    with Interrupts() as interrupts:  # before there is anything that a Ctrl-C would leave behind
        return _attend(run, start(run, queued=arguments.queue), interrupts, as_json=arguments.json)


def _attend(run: RunFolder, keeper: subprocess.Popen[bytes], interrupts: Interrupts, *, as_json: bool) -> int:
    answers = (Action.STOP, Action.KILL)
    attendance = Attendance(run, interrupts, answers, as_json=as_json, first_attempt=run.attempt_kept())
    status = attendance.stay()
    if not attendance.has_left:
        keeper.wait()
    return status


def check_machine(options: RunOptions, file: Path) -> MachineReport | None:
    """What this machine can do; None where the options hold nothing that it might refuse.

    Raises:
        OptionsError: It refuses something.
    """
    if not machine_may_refuse(options):
        return None
    machine = run_job("devices", None, MachineReport)
    problems = tuple(machine_problems(machine, options))
    if problems:
        raise OptionsError(problems, str(file))
    return machine


def check_model(options: RunOptions, file: Path) -> None:
    """Check options that a model may not support, where it is on this computer. A failing check is only noted.

    Raises:
        OptionsError: The model can't be trained so.
    """
    question = hub.question_about(options) if model_may_refuse(options) else None
    if question is None:
        return
    try:
        problems = run_job("check-model", question, ModelReport).problems
    except (UserError, EngineCrashed) as error:
        say(_("Note: the model could not be checked before the run. {error}").format(error=error), sys.stderr)
        return
    if problems:
        raise OptionsError(problems, str(file))


# --- hone resume, follow, stop and pause


def resume(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    command = arguments.keeper(run, queued=arguments.queue) if arguments.keeper is not None else None
    with Interrupts() as interrupts:
        try:
            if arguments.epochs is None and arguments.max_steps is None:
                keeper = runs_start.resume(run, command, queued=arguments.queue)
            else:
                more = {"epochs": arguments.epochs, "max_steps": arguments.max_steps}
                keeper = runs_start.extend(run, command, **more, queued=arguments.queue)
        except CantResume as error:
            say(error_text(error), sys.stderr)
            return WRONG_REQUEST
        return _attend(run, keeper, interrupts, as_json=arguments.json)


def follow(run: RunFolder, *, as_json: bool) -> int:
    with Interrupts() as interrupts:
        return Attendance(run, interrupts, as_json=as_json).stay()


def stop(run: RunFolder, *, at_once: bool) -> int:
    state = summarize(run).state
    if state.is_over:
        say(_("It is over already: {state}.").format(state=state), sys.stderr)
        return 0
    return _end(run, Action.KILL if at_once else Action.STOP)


def pause(name: str) -> int:
    run = find_run(name)
    state = summarize(run).state
    if state is State.PAUSED:
        say(_("It is paused already."), sys.stderr)
        return 0
    _refuse_if_over(name, state, "paused")
    return _end(run, Action.PAUSE)


def save(name: str) -> int:
    """Save a checkpoint at the next step and wait for it; returns 0 once it is saved."""
    run = find_run(name)
    _refuse_if_over(name, summarize(run).state, "saved")
    follower = RunFollower(run)
    request = run.request(Action.SAVE)
    answer: RequestAnswered | None = None
    for event in _events_until_over(follower):
        match event:
            case RequestAnswered(request=request.id):
                answer = event
                if not event.accepted:
                    break
            case CheckpointSaved() if answer is not None:
                say(
                    _("Saved step {step:,}: {path}").format(step=event.step, path=run.path / event.path),
                    sys.stderr,
                )
                return 0
    if answer is not None and answer.detail:
        say(answer.detail, sys.stderr)
        return 1
    return _conclude(run, request, follower) or 1


def _refuse_if_over(name: str, state: State, done: str) -> None:
    if state.is_over:
        raise OptionsError(
            (
                Problem(
                    "",
                    _("{name} can't be {done}: nothing is under way, it is {state}").format(
                        name=name, done=done, state=state
                    ),
                ),
            )
        )


def _end(run: RunFolder, action: Action) -> int:
    request = run.request(action)
    follower = RunFollower(run)
    for _rest in _events_until_over(follower):
        pass
    return _conclude(run, request, follower)


def _events_until_over(follower: RunFollower) -> Iterator[Event]:
    """A run's events from its beginning until it is over or its folder removed."""
    while not (follower.is_over or follower.run.is_removed):
        events = follower.poll()
        yield from events
        if len(events) < BACKLOG:
            time.sleep(POLL_SECONDS)


def _conclude(run: RunFolder, request: Request, follower: RunFollower) -> int:
    """Say how a run ended; returns the exit status."""
    if run.is_removed:
        say(REMOVED, sys.stderr)
        return 1
    run.close_request(request)  # it may have ended by itself before it read the request
    say(ending_text(run, follower.status, follower.state, follower.exit_record), sys.stderr)
    return 0 if ended_well(follower) else 1


# --- hone queue


def change_queue(arguments: argparse.Namespace) -> int:
    if arguments.move:
        name, place = arguments.move
        if not queue.move(find_run(name), _place(place)):
            raise OptionsError((Problem("", f"{name} is not waiting; `hone queue` shows which runs are"),))
    return show_queue(as_json=arguments.json)


def _place(text: str) -> Move | int:
    if text.isascii() and text.isdecimal() and int(text[:9]) > 0:
        return int(text[:9])
    if text in list(Move):
        return Move(text)
    raise OptionsError(
        (Problem("", f"PLACE must be {', '.join(Move)}, or a number from 1 on; got {text!r}"),)
    )


def show_queue(*, as_json: bool) -> int:
    """Print the runs that train and those that wait, in their order, and benchmarks that are measuring."""
    trained, waiting = ([summarize(run) for run in runs] for runs in (queue.training(), queue.waiting()))
    measured = queue.benchmarks()
    if as_json:
        print_json(
            {
                "training": list(map(_as_plain, trained)),
                "waiting": list(map(_as_plain, waiting)),
                "measuring": [{"title": entry.benchmark, "device": entry.device} for entry in measured],
            }
        )
    elif trained or waiting or measured:
        rows: list[tuple[str, ...]] = [
            ("", queue.BENCHMARK, "measuring", entry.benchmark, formats.PLAIN_MISSING, entry.device)
            for entry in measured
        ]
        rows += [_row("", summary) for summary in trained]
        rows += [_row(str(number), summary) for number, summary in enumerate(waiting, 1)]
        say(formats.table(("", "NAME", "STATE", "MODEL", "DATA", "DEVICE"), rows))
    else:
        say("No run trains or waits. `hone train RUN.hone --queue` adds one to the queue.")
    return 0


def _row(place: str, summary: RunSummary) -> tuple[str, ...]:
    return (
        place,
        summary.run.name,
        summary.state.value,
        summary.model or "(unreadable)",
        summary.data or formats.PLAIN_MISSING,
        queue.device_of(summary.run),
    )


def _as_plain(summary: RunSummary) -> dict[str, Any]:
    return {
        "folder": str(summary.run.path),
        "title": summary.title,
        "state": summary.state,
        "device": queue.device_of(summary.run),
    }
