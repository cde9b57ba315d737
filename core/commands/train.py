"""`hone train`: starts a run and stays with it in the terminal until it is over."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from core import hub, model_lookup, questions, run_file, settings, starting
from core.capabilities import machine_problems
from core.commands.attendance import TOO_LARGE, Attendance, Interrupts
from core.commands.output import agrees, say
from core.doubts import machine_may_refuse, model_may_refuse
from core.errors import OptionsError, UserError
from core.hints import hints
from core.jobs import EngineCrashed
from core.memory.shortage import ONLY_IF_IT_FITS
from core.options import RunOptions
from core.reports import MachineReport
from core.run_folder import Action, RunFolder
from core.runs import create


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
