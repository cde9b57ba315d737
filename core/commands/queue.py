"""`hone queue`: which runs train and wait, in which order; moving them and taking them out."""

import argparse
from typing import TYPE_CHECKING, Any

from core import figures, queue
from core.commands.arguments import NAME_HELP
from core.commands.output import print_json, say
from core.commands.running import stop
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.queue import Entry, Move
from core.run_folder import RunFolder
from core.run_summary import RunSummary, summarize
from core.story import State

if TYPE_CHECKING:
    from core.commands.arguments import Commands

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
        summary.data or figures.MISSING,
        queue.device_of(summary.run),
    )


def _benchmark_row(entry: Entry) -> tuple[str, ...]:
    return ("", queue.BENCHMARK, "measuring", entry.benchmark, figures.MISSING, entry.device)


def _benchmark_as_plain(entry: Entry) -> dict[str, Any]:
    return {"title": entry.benchmark, "device": entry.device}


def _as_plain(summary: RunSummary) -> dict[str, Any]:
    return {
        "folder": str(summary.run.path),
        "title": summary.title,
        "state": summary.state,
        "device": queue.device_of(summary.run),
    }
