"""`hone resume`: goes on with a run that ended before it was done, or trains a finished one further."""

import sys
from typing import TYPE_CHECKING, Protocol

from core import starting
from core.commands.arguments import NAME_HELP
from core.commands.attendance import WRONG_REQUEST, Attendance, Interrupts
from core.commands.output import say
from core.commands.run_text import error_text
from core.commands.runs import find_run
from core.run_folder import Action, RunFolder
from core.starting import CantResume

if TYPE_CHECKING:
    from core.commands.arguments import Commands


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
