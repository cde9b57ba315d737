"""`hone follow`, `stop`, `pause` and `save`: runs that were started elsewhere, in the window or another terminal."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.commands.arguments import NAME_HELP
from core.commands.attendance import (
    BACKLOG,
    POLL_SECONDS,
    REMOVED,
    Attendance,
    Interrupts,
    ended_well,
)
from core.commands.output import say
from core.commands.run_text import ending_text
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.events import CheckpointSaved, Event, RequestAnswered
from core.follow import RunFollower
from core.run_folder import Action, Request, RunFolder
from core.run_summary import summarize
from core.story import State

if TYPE_CHECKING:
    from core.commands.arguments import Commands


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
