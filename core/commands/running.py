"""`hone follow` and `hone stop`: runs that were started elsewhere, in the window or another terminal."""

import sys
import time

from core.commands.attendance import BACKLOG, POLL_SECONDS, REMOVED, Attendance, Interrupts
from core.commands.run_text import ending_text
from core.commands.runs import find_run
from core.follow import RunFollower
from core.run_folder import Action
from core.run_summary import summarize
from core.story import State


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
        print(f"It is over already: {state}.", file=sys.stderr)
        return 0
    request = run.ask(Action.KILL if at_once else Action.STOP)
    follower = RunFollower(run)
    while not (follower.is_over or run.is_removed):
        if len(follower.poll()) < BACKLOG:
            time.sleep(POLL_SECONDS)
    if run.is_removed:
        print(REMOVED, file=sys.stderr)
        return 1
    run.close_request(request)  # it may have ended by itself before it read the request
    print(ending_text(run, follower.story, follower.state, follower.exit_record), file=sys.stderr)
    return 0 if follower.state in (State.FINISHED, State.STOPPED) else 1
