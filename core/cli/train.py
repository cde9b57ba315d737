"""Commands of running training: train, test, resume, follow, stop, pause and queue."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from core.base import formats, settings
from core.base.errors import DataError, OptionsError, UserError
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _
from core.cli.data import problem_lines
from core.cli.output import (
    INTERRUPTED,
    OFFLINE_HELP,
    SEND_HELP,
    TOO_LARGE,
    WRONG_REQUEST,
    CommandParsers,
    add_flag,
    add_json,
    add_repeated,
    add_run,
    add_set,
    ask_to_send,
    confirm,
    named_in,
    note,
    print_answer,
    print_no_more,
    refuse,
)
from core.cli.runs import compare_runs, find_run
from core.hosts.install import with_computers
from core.jobs.inspect import DataReport, inspect_request
from core.memory import model
from core.memory.model import ModelReport
from core.options import RunOptions, hub, run_file
from core.options.device_support import (
    MachineReport,
    hints,
    machine_may_refuse,
    machine_problems,
    model_may_refuse,
)
from core.options.presets import DATA_ENDINGS
from core.options.sections import DeviceOptions
from core.options.sources import is_scratch, scheme_of
from core.runs import queue
from core.runs import start as runs_start
from core.runs.compare import create_sweep, sweep
from core.runs.event_log import RunFollower
from core.runs.events import Action, CheckpointSaved, Event, RequestAnswered, encode
from core.runs.folder import RunFolder
from core.runs.library import create_all, options_of_test
from core.runs.progress import Progress
from core.runs.queue import Move
from core.runs.start import CantResume, Extension, HasFinished
from core.runs.status import DOESNT_FIT, PAUSED_ITSELF, State
from core.runs.summary import RunSummary, summarize
from core.runs.words import (
    ONLY_IF_IT_FITS,
    ending_text,
    error_text,
    message_text,
    name_of,
    state_word,
    unread_message,
)
from core.services.sending import agree_to_new

POLL_SECONDS = 0.1
BACKLOG = 1000
"""Events in one poll above which the next poll follows at once: a long file is being read."""

REMOVED = _(
    "The run's folder is no longer there: it was deleted or renamed, or its disk is not connected. If it was renamed, "
    "the run continues there."
)
REQUESTED = {
    Action.STOP: _(
        "Stopping, then evaluating and saving what is to be kept… Press Ctrl-C again to end it at once."
    ),
    Action.KILL: _("Ending it now. Press Ctrl-C again to leave it running."),
}
EVENTS = _("print events as JSON lines")
QUEUE = _("wait until no other run trains on its device (see `hone queue`)")


def add_commands(commands: CommandParsers) -> None:
    _add_train(commands)
    _add_test(commands)
    _add_resume(commands)
    _add_follow(commands)
    _add_stop(commands)
    _add_pause(commands)
    _add_queue(commands)


# --- Following a run


class Interrupts:
    """Counts Ctrl-C and SIGTERM while entered, and streams that nobody reads; they don't end the program."""

    def __init__(self) -> None:
        self.count = 0
        self._woken = SimpleQueue[None]()  # the only queue that a signal may put into while it is read
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> "Interrupts":
        for number in self._before:
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._woken.put(None)

    def wait(self, seconds: float) -> None:
        """Waits that long, or until a signal comes; on Windows always that long."""
        with suppress(Empty):
            self._woken.get(timeout=seconds)

    @contextmanager
    def unless_unread(self) -> Iterator[None]:
        """Counts what is printed in here and nobody reads any more as a first Ctrl-C: `hone train --json | head -1`."""
        try:
            yield
        except BrokenPipeError:
            print_no_more()
            self.count = max(1, self.count)


def attend(
    run: RunFolder,
    interrupts: Interrupts,
    keeper: subprocess.Popen[bytes] | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Shows a run's progress until it ends, or until Ctrl-C leaves it alone; returns the exit status.

    Args:
        interrupts: Counts Ctrl-C, entered already.
        keeper: The run's keeper if this process started it: events of earlier attempts are not shown, and the first
            Ctrl-C stops the run, the second ends it at once. Otherwise the first leaves it alone.
        as_json: Whether to print events to standard output, a JSON line each.
    """
    actions: Sequence[Action] = () if keeper is None else (Action.STOP, Action.KILL)
    first_attempt = 0 if keeper is None else run.attempt_kept()
    answered = 0
    follower = RunFollower(run)
    with closing(Progress(follower.status, sys.stderr, run.path)) as progress:
        with interrupts.unless_unread():
            progress.say(_("The run is saved in {path}").format(path=run.path))
        for events in _polls(follower, interrupts.wait):
            for event in events:
                if event.attempt < first_attempt:
                    continue
                with interrupts.unless_unread():
                    if as_json:
                        sys.stdout.buffer.write(encode(event))
                        sys.stdout.flush()
                    progress.show(event)
            if answered == interrupts.count:
                continue
            with interrupts.unless_unread():
                if answered == len(actions):
                    progress.say(
                        _(
                            "The run continues. `hone follow {name}` shows it again, `hone stop {name}` stops it."
                        ).format(name=name_of(run))
                    )
                    return INTERRUPTED
                action = actions[answered]
                answered += 1
                try:
                    run.request(action)
                except OSError as error:
                    progress.say(
                        _("The run can't be stopped: {error}. It continues; try Ctrl-C again.").format(
                            error=error
                        )
                    )
                else:
                    progress.say(REQUESTED[action])
    status = 0
    with interrupts.unless_unread():
        status = _conclude(follower)
    if keeper is not None:
        keeper.wait()
    return INTERRUPTED if status == 0 and interrupts.count else status


def _polls(follower: RunFollower, wait: Callable[[float], object] = time.sleep) -> Iterator[Sequence[Event]]:
    """Yields a run's events from its beginning until it is over or its folder removed, a list for each poll."""
    runs_start.follow_again(follower.run)
    while not (follower.is_over or follower.run.is_removed):
        events = follower.poll()
        yield events
        if len(events) < BACKLOG:
            wait(POLL_SECONDS)


def _conclude(follower: RunFollower) -> int:
    """Prints how a run ended; returns the exit status, 0 if it ended as requested."""
    if follower.run.is_removed:
        note(REMOVED)
        return 1
    status = follower.status
    if (unread := unread_message(status)) is not None:
        note(message_text(unread))
    note(ending_text(follower.run, status, follower.state, follower.exit_record))
    if (
        follower.state in (State.FINISHED, State.STOPPED, State.PAUSED)
        and PAUSED_ITSELF not in status.messages
    ):
        return 0
    return TOO_LARGE if DOESNT_FIT in status.messages else 1


# --- hone train


def _add_train(commands: CommandParsers) -> None:
    command = commands.add(
        "train",
        train,
        summary=_("train a run file"),
        example="mine.hone --set memory.batch_size=8",
        details=_(
            "Ctrl-C once stops the run and saves the model, twice ends it at once, three times leaves it running. A "
            "run that is estimated not to fit into memory doesn't start (exit status 3) unless you add --yes. What a "
            "run file names is sent to another computer only once you agreed to the list of it. --sweep queues one "
            "run for each value; they get a tag of their own."
        ),
    )
    command.add_argument("file", type=Path, metavar="RUN.hone")
    command.add_argument(
        "--run-dir", type=Path, metavar="DIR", help=_("where to save the run: a new or empty folder")
    )
    add_set(command)
    sweeping = _("train a run for each value and compare them; give it twice to try all pairs of two options")
    add_repeated(command, "--sweep", "SECTION.OPTION=VALUE,VALUE", sweeping)
    add_flag(command, "--queue", QUEUE)
    add_flag(
        command,
        "--yes",
        _("start even if it is estimated not to fit into memory, and send files without asking"),
    )
    add_flag(command, "--offline", OFFLINE_HELP)
    add_json(command, EVENTS)


def train(arguments: argparse.Namespace) -> int:
    if arguments.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # processes started from here inherit it
    file, overrides = arguments.file, tuple(arguments.overrides)
    if Path(file.name.lower().removesuffix(".gz")).suffix in DATA_ENDINGS:
        refuse(
            _(
                "{file} is data, not a run file. Make a run file with `hone new --task TASK -o mine.hone`, then "
                "`hone train mine.hone --set data.train={file}`; `hone {file}` opens it in the window."
            ).format(file=file)
        )
    options = run_file.read(file, overrides)
    for renaming in run_file.renamings(file, overrides):
        note(_("Note: {text}").format(text=renaming))
    if hub.is_forbidden() and not hub.is_complete(options):
        raise hub.not_here(options.model.source)
    values = dict[str, str]()
    for path, _equals, texts in (each.partition("=") for each in arguments.sweep):
        values[path] = f"{values.get(path, '')},{texts}"  # an option may be named twice
    if values and arguments.run_dir:
        refuse(_("--run-dir is the folder of one run, and --sweep makes several"))
    asked = list(sweep(options, values).values()) if values else [options]
    machine = _check_machine(asked, file)
    _check_model(asked, file)
    _check_data(asked)
    for hint in hints(options, machine):
        note(_("Note: {text}").format(text=f"{hint.path}: {hint.message}"))
    ask_to_send(asked, is_agreed=arguments.yes, chosen=named_in(overrides))
    if values:
        runs: Sequence[RunFolder] = create_sweep(options, values, settings.runs_folder())
        status = start_and_show(arguments, runs, forced=arguments.yes, are_alone=True)
        left = [str(run.path) for run in runs if run.options_file.exists()]
        if not arguments.json and len(left) > 1:
            compare_runs(left, as_json=False)
        return status
    runs = create_all(options, settings.runs_folder(), arguments.run_dir)
    agree_to_new(runs)
    status = start_and_show(arguments, runs, forced=arguments.yes)
    if status == TOO_LARGE and not arguments.json and sys.stdin.isatty() and confirm(_("Start it anyway?")):
        status = start_and_show(arguments, runs, forced=True)
    return status


# --- hone test


def _add_test(commands: CommandParsers) -> None:
    command = commands.add(
        "test",
        test,
        summary=_("evaluate a run's model on a file or folder"),
        example="2026-01-31-reviews test.tsv",
        details=_(
            "The data has to be in the format of the training data, with its labels or answers. Nothing is trained; "
            "the result is a run of its own, with metrics, predictions and confusion matrix."
        ),
    )
    add_run(command)
    command.add_argument("data", metavar="FILE")
    add_flag(command, "--queue", QUEUE)
    add_flag(command, "--yes", SEND_HELP)
    add_json(command, EVENTS)


def test(arguments: argparse.Namespace) -> int:
    options = options_of_test(find_run(arguments.name), arguments.data)
    ask_to_send([options], is_agreed=arguments.yes, chosen=("data.eval", "model.source"))
    return start_and_show(arguments, create_all(options, settings.runs_folder()), forced=True)


def start_and_show(
    arguments: argparse.Namespace, runs: Sequence[RunFolder], *, forced: bool, are_alone: bool = False
) -> int:
    """Starts the runs and shows each until it ends; returns the exit status of the first that doesn't finish.

    The others are stopped then. Those that `are_alone`, as in a sweep, need none before them: they are queued, and only
    Ctrl-C stops them.
    """
    os.environ.pop(ONLY_IF_IT_FITS, None)
    if not forced:
        os.environ[ONLY_IF_IT_FITS] = "1"  # its keeper and its engine inherit it
    status = 0
    with Interrupts() as interrupts:  # before there is anything that a Ctrl-C would leave behind
        keepers = runs_start.start_all(runs, queued=arguments.queue or are_alone)
        for run, keeper in zip(runs, keepers, strict=True):
            if interrupts.count if are_alone else status:
                run.request(Action.STOP)
                keeper.wait()
            else:
                ended = attend(run, interrupts, keeper, as_json=arguments.json)
                status = status or ended
    return status


def _check_machine(asked: Sequence[RunOptions], file: Path) -> MachineReport | None:
    """Returns what this machine supports, or None if it supports these options in any case."""
    doubted = [options for options in asked if machine_may_refuse(options)]
    if not doubted:
        return None
    machine = with_computers(run_job("devices", None, MachineReport))
    if problems := {str(found): found for options in doubted for found in machine_problems(machine, options)}:
        raise OptionsError(tuple(problems.values()), str(file))
    return machine


def _check_model(asked: Sequence[RunOptions], file: Path) -> None:
    """Checks that the model suits the task and options, if it is on this computer. A failing check is only noted."""
    questions = []
    for options in asked:
        is_in_doubt = options.task.reads_text and not is_scratch(options.model.source)
        question = model.question_about(options) if is_in_doubt or model_may_refuse(options) else None
        questions += [] if question is None or question in questions else [question]
    for question in questions:
        note(_("Checking the model…"))
        try:
            problems = run_job("check-model", question, ModelReport).problems
        except (UserError, EngineCrashed) as error:
            note(_("Note: the model could not be checked before the run. {error}").format(error=error))
            return
        if problems:
            raise OptionsError(problems, str(file))


def _check_data(asked: Sequence[RunOptions]) -> None:
    """Checks the conversations of chat runs that come after pretraining, which would be for nothing.

    Raises:
        DataError: They can't be used.
    """
    requests = [
        inspect_request(options)
        for options in asked
        if options.pretrains and scheme_of(options.data.train) is None
    ]
    for place, request in enumerate(requests):
        if request in requests[:place]:
            continue
        note(_("Checking the data…"))
        if problems := list(problem_lines(run_job("inspect", request, DataReport))):
            raise DataError(_("The chat run would stop at its data"), "\n".join(problems))


# --- hone resume, follow, stop and pause


def _add_resume(commands: CommandParsers) -> None:
    command = commands.add(
        "resume",
        resume,
        summary=_("continue a run that was paused, stopped or interrupted"),
        example="2026-01-31-digits",
        details=_(
            "It continues from the newest complete checkpoint as if it had not been interrupted, and starts also if it "
            "is estimated not to fit into memory. --epochs or --max-steps train a finished run longer. Ctrl-C works as "
            "in `hone train`."
        ),
    )
    add_run(command)
    longer = command.add_mutually_exclusive_group()
    longer.add_argument("--epochs", type=float, metavar="N", help=_("train N epochs in total"))
    longer.add_argument("--max-steps", type=int, metavar="N", help=_("train N steps in total"))
    add_flag(command, "--queue", QUEUE)
    add_flag(command, "--yes", SEND_HELP)
    add_json(command, EVENTS)


def resume(arguments: argparse.Namespace) -> int:
    run, length = find_run(arguments.name), Extension(arguments.epochs, arguments.max_steps)
    asked = [options] if (options := run.readable_options()) is not None else []
    ask_to_send(asked, is_agreed=arguments.yes)
    with Interrupts() as interrupts:
        try:
            longer = None if length == Extension() else length
            keeper = runs_start.resume(run, longer=longer, queued=arguments.queue)
        except HasFinished as error:
            note(error.title)
            further = _("`hone resume {name} --epochs N` or `--max-steps N` trains it further.")
            if asked and asked[0].training.max_steps is not None:
                further = _("`hone resume {name} --max-steps N` trains it further.")
            note(further.format(name=name_of(run)))
            return WRONG_REQUEST
        except CantResume as error:
            note(error_text(error))
            return WRONG_REQUEST
        return attend(run, interrupts, keeper, as_json=arguments.json)


def _add_follow(commands: CommandParsers) -> None:
    command = commands.add(
        "follow",
        follow,
        summary=_("show the progress of a run that was started elsewhere"),
        example="2026-01-31-digits",
        details=_("Ctrl-C ends the display; the run continues."),
    )
    add_run(command)
    add_json(command, EVENTS)


def follow(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    with Interrupts() as interrupts:
        return attend(run, interrupts, as_json=arguments.json)


def _add_stop(commands: CommandParsers) -> None:
    command = commands.add(
        "stop",
        stop,
        summary=_("stop a run and save its model"),
        example="2026-01-31-digits",
        details=_("Waits until it has stopped. A queued run is removed from the queue."),
    )
    add_run(command)
    add_flag(command, "--now", _("end it at once, without saving; checkpoints are kept"))


def stop(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    state = summarize(run).state
    if state.is_over:
        note(_("It has already ended: {state}.").format(state=state))
        return 0
    return _end(run, Action.KILL if arguments.now else Action.STOP)


def _add_pause(commands: CommandParsers) -> None:
    command = commands.add(
        "pause",
        pause,
        summary=_("save a checkpoint of a run and free its memory"),
        example="2026-01-31-digits",
        details=_("`hone resume` continues it."),
    )
    add_run(command)
    add_flag(command, "--save-only", _("save a checkpoint and keep training"))


def pause(arguments: argparse.Namespace) -> int:
    """Pauses a run, or saves a checkpoint of it, and waits until that is done."""
    run = find_run(arguments.name)
    state = summarize(run).state
    if state is State.PAUSED and not arguments.save_only:
        note(_("It is already paused."))
        return 0
    if state.is_over:
        refuse(_("{name} isn't training: it is {state}").format(name=arguments.name, state=state))
    return _save(run) if arguments.save_only else _end(run, Action.PAUSE)


def _save(run: RunFolder) -> int:
    request = run.request(Action.SAVE)
    follower = RunFollower(run)
    accepted = False
    for events in _polls(follower):
        for event in events:
            match event:
                case RequestAnswered(request=request.id, accepted=True):
                    accepted = True
                case RequestAnswered(request=request.id):
                    note(event.detail)
                    return 1
                case CheckpointSaved() if accepted:
                    path = run.path / event.path
                    note(_("Saved step {step:,}: {path}").format(step=event.step, path=path))
                    return 0
    run.close_request(request)  # the run ended before it read the request
    return _conclude(follower) or 1


def _end(run: RunFolder, action: Action) -> int:
    request = run.request(action)
    follower = RunFollower(run)
    for _events in _polls(follower):
        pass
    if not run.is_removed:
        run.close_request(request)  # the run may have ended by itself before it read the request
    return _conclude(follower)


# --- hone queue


def _add_queue(commands: CommandParsers) -> None:
    command = commands.add(
        "queue",
        change_queue,
        summary=_("show which runs train and which wait, change their order, or start one now"),
        example="--move 2026-01-31-digits first",
        details=_(
            "`hone train --queue` and `hone resume --queue` add a run; `hone stop RUN` removes it. `--move RUN now` "
            "starts it now, while other runs train on the same device. They slow each other down and share the memory."
        ),
    )
    moving = _("move a waiting run: {moves}, or its new number in `hone queue`").format(moves=", ".join(Move))
    command.add_argument("--move", nargs=2, metavar=("RUN", "PLACE"), help=moving)
    add_json(command)


def change_queue(arguments: argparse.Namespace) -> int:
    """Moves a waiting run, if one is named; prints the runs that train and those that wait."""
    if arguments.move:
        name, place = arguments.move
        if not queue.move(find_run(name), _place(place)):
            refuse(_("{name} is not waiting; `hone queue` shows which runs are").format(name=name))
    training, waiting = ([summarize(run) for run in runs] for runs in (queue.training(), queue.waiting()))
    answer = {
        "training": [_as_plain(summary) for summary in training],
        "waiting": [_as_plain(summary) for summary in waiting],
    }
    rows = [_row("", summary) for summary in training]
    rows += [_row(str(number), summary) for number, summary in enumerate(waiting, 1)]
    titles = ("", _("Name"), _("State"), _("Model"), _("Data"), _("Device"))
    none = _("No run trains or waits. `hone train RUN.hone --queue` adds one to the queue.")
    print_answer(answer, [formats.table(titles, rows) if rows else none], as_json=arguments.json)
    return 0


def _place(text: str) -> Move | int:
    if text.isdecimal() and int(text[:9]) > 0:
        return int(text[:9])
    if text in list(Move):
        return Move(text)
    refuse(
        _("PLACE must be {moves}, or a number from 1 on, not {text!r}").format(
            moves=", ".join(Move), text=text
        )
    )


def _row(place: str, summary: RunSummary) -> tuple[str, ...]:
    return (
        place,
        summary.run.name,
        state_word(summary),
        summary.model or _("(unreadable)"),
        summary.data or formats.MISSING,
        _device(summary),
    )


def _as_plain(summary: RunSummary) -> dict[str, str]:
    return {
        "folder": str(summary.run.path),
        "title": summary.title,
        "state": summary.state,
        "device": _device(summary),
    }


def _device(summary: RunSummary) -> str:
    """Returns the device that a run asks for."""
    options = summary.run.readable_options()
    return (options.device if options else DeviceOptions()).name
