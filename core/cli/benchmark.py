"""How far a benchmark is, on a terminal: a bar with the time left, and a line for each pass that is measured."""

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from core.base import format as figures
from core.base.errors import Fix, OptionsError, Problem
from core.base.files import is_there, new_file, write_atomically, writing
from core.base.format import markdown, markdown_lines, visible
from core.base.jobs import run_job
from core.benchmark import result as kept
from core.benchmark import table as tables
from core.benchmark import table as words
from core.benchmark.comparison import compare as hold_against
from core.benchmark.comparison import comparison_table
from core.benchmark.device_plan import BATCHES, IMAGES, Sides, devices_plan
from core.benchmark.plan import SIZES, Plan, methods_plan
from core.benchmark.result import Kept, Result, Row, this_machine
from core.benchmark.runner import Bench, Taking, Underway
from core.cli.output import INTERRUPTED, print_json, say
from core.cli.train import Interrupts
from core.options import run_file
from core.options.device_support import MachineReport

if TYPE_CHECKING:
    from core.cli.output import Commands


# --- How far a benchmark is, on a terminal: a bar with the time left


BAR = "{desc} |{bar}| {n_fmt} of {total_fmt}{postfix}"


class BenchProgress:
    """Shows how far a benchmark is. `begin` may be called from another thread.

    Args:
        stream: Where to write; a bar is drawn if it is a terminal, else a line a pass.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm | None = None
        self._underway: Underway | None = None
        self._began = 0.0

    def begin(self, underway: Underway) -> None:
        """A pass begins."""
        self._underway, self._began = underway, time.monotonic()
        if self._stream.isatty():
            self._draw()
        else:
            say(f"{_what(underway)} ({underway.done + 1} of {underway.total}){self._left()}", self._stream)

    def tick(self) -> None:
        """Let the time left run down."""
        if self._bar is not None:
            self._draw()

    def measured(self, result: Result, place: int) -> None:
        """A pass is made, of the row at a place."""
        text = visible(f"  {_came_to(result.rows[place])}")
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            say(text, self._stream)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _draw(self) -> None:
        underway = self._underway
        if underway is None:
            return
        if self._bar is None:
            tqdm.monitor_interval = 0  # no watching thread for a bar that is fed twice a second
            self._bar = tqdm(total=underway.total, file=self._stream, dynamic_ncols=True, bar_format=BAR)
        self._bar.total, self._bar.n = underway.total, underway.done
        self._bar.set_description_str(visible(_what(underway)), refresh=False)
        self._bar.set_postfix_str(self._left().removeprefix(", "), refresh=False)
        self._bar.refresh()

    def _left(self) -> str:
        if self._underway is None or self._underway.seconds_left is None:
            return ""
        left = self._underway.seconds_left - (time.monotonic() - self._began)
        return f", about {figures.plain_duration(left)} left" if left >= 1 else ""


def _what(underway: Underway) -> str:
    rung = underway.rung
    title = words.with_side(rung, rung.title)
    return f"{title}, pass {underway.number_of_pass}"


def _came_to(row: Row) -> str:
    """What the newest pass of a row came to."""
    newest, title = row.passes[-1], words.with_side(row.rung, row.rung.title)
    if newest.failure:
        return f"{title}: {newest.failure}"
    pace = row.samples_per_second
    told = f"{words.figure(pace.median)} samples/s, " if pace else ""
    return f"{title}: {told}{figures.size(newest.sample.peak if newest.sample else None)}"


# --- How a result is shown on a terminal or written for other programs


STDOUT = "-"


class Form(StrEnum):
    """What a result is shown as."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


@dataclass(frozen=True)
class Showing:
    """How a result is shown; `file` is where CSV goes, `published` puts the figures of others beside."""

    form: Form = Form.TEXT
    file: str = ""
    published: bool = False

    def check(self) -> None:
        """Look at the file before anything is measured for it.

        Raises:
            TargetError: Something is there, or it can't be written there.
        """
        if self.file and self.file != STDOUT:
            new_file(Path(self.file))

    def show(self, result: Result) -> None:
        """Show a result.

        Raises:
            TargetError: The file can't be written there.
            UserError: It can't be written, for another reason: the disk is full.
        """
        match self.form:
            case Form.JSON:
                print_json(result)
            case Form.MARKDOWN:
                say(tables.markdown(result, published=self.published), end="")
            case Form.CSV if self.file == STDOUT:
                say(tables.csv(result), end="")
            case Form.CSV:
                say(tables.text(result, published=self.published))
                self._write(Path(self.file), tables.csv(result))
            case Form.TEXT:
                say(tables.text(result, published=self.published))

    def _write(self, path: Path, content: str) -> None:
        with writing(path):
            write_atomically(new_file(path), content.encode())
        say(f"Written to {path}", sys.stderr)


# --- `hone bench results`, `show` and `compare`: what was measured before


NAME_HELP = "its number in `hone bench results` (1 is the newest), its name there, or a file"

_TITLES = ("", "NAME", "MEASURED", "WHAT", "ROWS", "ON")


def results(*, as_json: bool) -> int:
    """Print what is kept, the newest first."""
    found = kept.kept()
    if as_json:
        print_json([_as_plain(one) for one in found])
    elif found:
        say(figures.table(_TITLES, [_row(number, one) for number, one in enumerate(found, 1)]))
    else:
        say("Nothing was measured yet. `hone bench methods` and `hone bench devices` do.")
    return 0


def _row(number: int, one: Kept) -> tuple[str, ...]:
    when = figures.full_moment(one.begun)
    if one.result is None:
        return (str(number), one.path.stem, when, figures.PLAIN_MISSING, "", one.problem)
    return (
        str(number),
        one.path.stem,
        when,
        one.result.plan.title,
        _rows(one.result),
        one.result.machine.title,
    )


def _rows(result: Result) -> str:
    measured = sum(row.is_measured for row in result.rows)
    standing = "" if result.is_whole else f", {result.standing}"
    return f"{measured} of {len(result.rows)}{standing}"


def _as_plain(one: Kept) -> dict[str, Any]:
    result = one.result
    told: dict[str, Any] = {"file": str(one.path), "begun": one.begun, "problem": one.problem}
    if result is None:
        return told
    return {**told, "kind": result.kind, "title": result.plan.title, "machine": result.machine.title}


def show(name: str, showing: Showing) -> int:
    """Show a result again.

    Raises:
        OptionsError: There is no such result.
        CantRead: It can't be read.
    """
    showing.check()
    showing.show(find(name))
    return 0


def compare(one: str, other: str, *, as_markdown: bool) -> int:
    """Print two results against each other, whichever is named first: the older one stands first.

    Raises:
        OptionsError: There is no such result, both are the same, or they measured different things.
        CantRead: One can't be read.
    """
    earlier, later = sorted((find(one), find(other)), key=lambda result: result.begun)
    if earlier == later:
        raise OptionsError((Problem("", f"{one} and {other} are the same result"),), "The comparison")
    found = hold_against(earlier, later)
    table = comparison_table(found)
    if as_markdown:
        say("\n".join([*markdown_lines(table), *(f"- {markdown(note)}" for note in found.notes)]))
        return 0
    rows = [tuple(str(cell) for cell in row) for row in table.rows]
    say(figures.table(tuple(title.upper() for title in table.titles), rows))
    if found.notes:
        say("\n" + "\n".join(found.notes))
    return 0


def find(name: str) -> Result:
    """The result of a number, a name or a file.

    Raises:
        OptionsError: There is none.
        CantRead: It can't be read.
    """
    found = kept.kept()
    if name.isascii() and name.isdecimal() and 0 < int(name[:9]) <= len(found):
        return kept.load(found[int(name[:9]) - 1].path)
    for one in found:
        if name in (one.path.name, one.path.stem):
            return kept.load(one.path)
    if is_there(Path(name)):
        return kept.load(Path(name))
    there = f"there are 1 to {len(found)}" if found else "none is kept yet"
    raise OptionsError((Problem("", f"{name} is no result: {there}, see `hone bench results`"),))


# --- `hone bench methods` and `hone bench devices`: what is to be measured, measuring it


TICK_SECONDS = 0.5


MakePlan = Callable[[MachineReport], Plan]


def measure(make: MakePlan, *, beside: bool, showing: Showing) -> int:
    """Measure and show what came of it; returns the exit status.

    Args:
        make: Makes the plan, knowing what this computer can do.
        beside: Whether it is measured while a run trains.
        showing: How the result is shown.

    Raises:
        OptionsError: The request is wrong.
        DeviceBusy: A run trains, and it isn't to be measured beside that.
    """
    showing.check()
    say("Looking at what this computer can do...", sys.stderr)
    machine = run_job("devices", None, MachineReport)
    plan = make(machine)
    rungs = [rung for rung in plan.rungs if not rung.refusal]
    say(f"{plan.title}: {figures.counted(len(rungs), 'row')}, {words.how_measured(plan)}", sys.stderr)
    bench = Bench(plan, this_machine(machine), take=Taking, save=kept.save, beside=beside)
    was_interrupted = _attend(bench)
    result = bench.result
    if any(row.passes for row in result.rows):
        try:
            showing.show(result)
        finally:  # also where a file can't be written: what was measured isn't lost
            _say_where(bench, result)
    else:
        say("Nothing was measured.", sys.stderr)
    if was_interrupted:
        return INTERRUPTED
    return 0 if any(row.is_measured for row in result.rows) and not bench.not_kept else 1


def _attend(bench: Bench) -> bool:
    """Stay until it is over; Ctrl-C ends it and keeps what is done. Returns whether there was one."""
    progress = BenchProgress(sys.stderr)
    bench.heed(progress.begin)
    with Interrupts() as interrupts, ThreadPoolExecutor(1, "bench") as worker:
        running = worker.submit(_run, bench, progress)
        while not running.done():
            wait([running], TICK_SECONDS)
            if interrupts.count:
                bench.stop()
            progress.tick()
        progress.close()
        running.result()
        return interrupts.count > 0


def _run(bench: Bench, progress: BenchProgress) -> None:
    """In a thread of its own, so that the terminal can answer meanwhile."""
    made = [len(row.passes) for row in bench.result.rows]
    for result in bench.run():
        now = [len(row.passes) for row in result.rows]
        for place, (before, after) in enumerate(zip(made, now, strict=True)):
            if after > before:
                progress.measured(result, place)
        made = now


def _say_where(bench: Bench, result: Result) -> None:
    if bench.not_kept:
        say(f"It could not be kept: {bench.not_kept}", sys.stderr)
    else:
        say(f"Kept in {kept.path_of(result)}; `hone bench show` shows it again.", sys.stderr)


# --- `hone bench`: the two tables of benchmarks made on this computer


_MOST = 1_000_000


def add_commands(commands: "Commands") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "bench",
        help="measure what methods and devices do on this computer",
        description="Measure how fast training is here and how much memory it takes: one method after the other, or "
        "one device against another. Each row is measured by fresh processes in turn (A B A B). Results are kept; "
        "Ctrl-C keeps what is done.",
    )
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    _add_methods(kinds)
    _add_devices(kinds)
    _add_kept(kinds)


def _add_methods(kinds: "Commands") -> None:
    command = kinds.add_parser(
        "methods",
        help="the ladder of methods: accumulation, checkpointing, half precision, 8-bit optimizers, ...",
        description="Train the same model with one method after the other, and hold each against the plain one: time, "
        "samples a second, memory. What this computer can't do is listed with the reason.",
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--model",
        choices=list(SIZES),
        metavar="SIZE",
        help=f"{', '.join(SIZES)}; default: the largest that suits this computer",
    )
    what.add_argument("--run", dest="file", type=Path, metavar="RUN.hone", help="your own model and data")
    command.add_argument("--device", default="auto", metavar="NAME", help="as `hone devices` names it")
    command.add_argument(
        "--no-compile", action="store_true", help="leave torch.compile out, which takes longest"
    )
    _add_how(command, passes=3)
    command.set_defaults(
        run=lambda asked: measure(partial(_methods, asked), beside=asked.beside, showing=_showing(asked))
    )


def _methods(asked: argparse.Namespace, machine: MachineReport) -> Plan:
    return methods_plan(
        machine,
        size=asked.model,
        options=run_file.read(asked.file, ()) if asked.file is not None else None,
        device=asked.device,
        steps=asked.steps,
        passes=asked.passes,
        with_compile=not asked.no_compile,
    )


def _add_devices(kinds: "Commands") -> None:
    command = kinds.add_parser(
        "devices",
        help="the CPU against the accelerator, on several models",
        description="Train the same models on the CPU and on the accelerator: seconds an epoch, and whether both "
        "learn the same. Without an accelerator, one thread is held against all, or one precision against another.",
    )
    command.add_argument(
        "--models", type=_names, metavar="A,B", help="default: five vision models and models of texts"
    )
    command.add_argument("--images", type=_count, default=IMAGES, metavar="N", help=f"default: {IMAGES:,}")
    command.add_argument("--batch", type=_counts, default=BATCHES, metavar="N,N", help="default: 4,64")
    command.add_argument(
        "--data", metavar="DIR", help="images to learn; default: the digits that come with Hone"
    )
    command.add_argument(
        "--sides", choices=[sides.value for sides in Sides], help="default: devices, where there are two"
    )
    _add_how(command, passes=1)
    command.set_defaults(
        run=lambda asked: measure(partial(_devices, asked), beside=asked.beside, showing=_showing(asked))
    )


def _devices(asked: argparse.Namespace, machine: MachineReport) -> Plan:
    plan = devices_plan(
        machine,
        models=asked.models,
        batches=asked.batch,
        images=asked.images,
        data=asked.data,
        steps=asked.steps,
        passes=asked.passes,
        sides=Sides(asked.sides) if asked.sides else None,
    )
    _refuse_one_sided(plan)
    return plan


def _refuse_one_sided(plan: Plan) -> None:
    """Measure no side that nothing could be held against.

    Raises:
        OptionsError: This computer lacks the other one.
    """
    for side in dict.fromkeys(rung.side for rung in plan.rungs):
        refusals = [rung.refusal for rung in plan.rungs if rung.side == side]
        if all(refusals):
            fixes = tuple(Fix(f"Use --sides {other}") for other in Sides if other is not Sides.DEVICES)
            raise OptionsError(
                (Problem("sides", f"{side} can't be measured: {refusals[0]}", fixes),), "The benchmark"
            )


def _add_how(command: argparse.ArgumentParser, passes: int) -> None:
    """What both tables can be told of how to measure."""
    command.add_argument(
        "--steps", type=_count, metavar="N", help="timed optimizer steps a pass; default: by the model"
    )
    command.add_argument("--passes", type=_count, default=passes, metavar="N", help=f"default: {passes}")
    command.add_argument("--beside", action="store_true", help="measure also while a run trains")
    _add_showing(command)


def _add_showing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--published",
        action="store_true",
        help="put the figures beside that others published: the guide's of a V100, the article's of an M1 Max",
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    form.add_argument("--csv", metavar="FILE", help="write the table to a new CSV file; - prints it")


def _showing(asked: argparse.Namespace) -> Showing:
    form = (
        Form.JSON if asked.json else Form.MARKDOWN if asked.markdown else Form.CSV if asked.csv else Form.TEXT
    )
    return Showing(form, asked.csv or "", published=asked.published)


def _add_kept(kinds: "Commands") -> None:
    listing = kinds.add_parser("results", help="list the results that are kept, newest first")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=lambda asked: results(as_json=asked.json))
    showing = kinds.add_parser("show", help="show a kept result again")
    showing.add_argument("name", nargs="?", default="1", metavar="RESULT", help=NAME_HELP)
    _add_showing(showing)
    showing.set_defaults(run=lambda asked: show(asked.name, _showing(asked)))
    comparing = kinds.add_parser("compare", help="hold two kept results against each other")
    comparing.add_argument("names", nargs=2, metavar="RESULT", help=NAME_HELP)
    form = comparing.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    comparing.set_defaults(run=lambda asked: compare(*asked.names, as_markdown=asked.markdown))


def _count(text: str) -> int:
    """A number from 1 on."""
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"must be a number from 1 to {_MOST:,}; got {text!r}")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_count, text.split(","))))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
