"""`hone bench`: measure methods or devices on this computer; list, show and compare results."""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.base import formats
from core.base.errors import Fix, OptionsError, Problem
from core.base.files import is_there
from core.base.formats import markdown as escaped
from core.base.jobs import run_job
from core.base.language import _
from core.benchmark import result as results
from core.benchmark import table
from core.benchmark.device_plan import BATCHES, IMAGES, Sides, devices_plan
from core.benchmark.plan import SIZES, Plan, methods_plan
from core.benchmark.result import Result, this_machine
from core.benchmark.runner import Bench, EnginePass, Progress
from core.cli.output import INTERRUPTED, print_json, say
from core.cli.train import Interrupts
from core.options import run_file
from core.options.device_support import MachineReport

if TYPE_CHECKING:
    from core.cli.output import Commands

POLL_SECONDS = 0.5
LARGEST_NUMBER = 1_000_000


def add_commands(commands: "Commands") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "bench",
        help=_("measure what methods and devices do on this computer"),
        description="Measure how fast training is here and how much memory it takes: one method after the other, or "
        "one device against another. Each row is measured by fresh processes in turn (A B A B). Results are kept; "
        "Ctrl-C keeps what is done.",
    )
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    methods = kinds.add_parser(
        "methods", help=_("the ladder of methods: accumulation, half precision, LoRA, ...")
    )
    what = methods.add_mutually_exclusive_group()
    what.add_argument(
        "--model",
        choices=list(SIZES),
        metavar="SIZE",
        help=f"{', '.join(SIZES)}; default: the largest that suits",
    )
    what.add_argument("--run", dest="file", type=Path, metavar="RUN.hone", help=_("your own model and data"))
    methods.add_argument("--device", default="auto", metavar="NAME", help=_("as `hone devices` names it"))
    methods.add_argument(
        "--no-compile", action="store_true", help=_("leave out torch.compile, which takes longest")
    )
    _add_measuring(methods, _methods, passes=3)
    devices = kinds.add_parser("devices", help=_("the CPU against the accelerator, on several models"))
    devices.add_argument(
        "--models", type=_names, metavar="A,B", help=_("default: vision models and models of texts")
    )
    devices.add_argument("--images", type=_count, default=IMAGES, metavar="N", help=f"default: {IMAGES:,}")
    devices.add_argument("--batch", type=_counts, default=BATCHES, metavar="N,N", help="default: 4,64")
    devices.add_argument("--data", metavar="DIR", help="images; default: the digits that come with Hone")
    devices.add_argument("--sides", choices=[sides.value for sides in Sides], help=_("default: what suits"))
    _add_measuring(devices, _devices, passes=1)
    kept = kinds.add_parser("results", help="list the results, newest first; show one, or compare two")
    kept.add_argument(
        "names", nargs="*", metavar="RESULT", help=_("its number in the list (1 is the newest), or a file")
    )
    _add_output(kept)
    kept.set_defaults(run=show_results)


def _add_measuring(
    command: argparse.ArgumentParser,
    make_plan: Callable[[argparse.Namespace, MachineReport], Plan],
    passes: int,
) -> None:
    command.add_argument(
        "--steps", type=_count, metavar="N", help="timed steps per pass; default: by the model"
    )
    command.add_argument("--passes", type=_count, default=passes, metavar="N", help=f"default: {passes}")
    command.add_argument("--beside", action="store_true", help=_("measure also while a run trains"))
    _add_output(command)
    command.set_defaults(run=lambda arguments: measure(partial(make_plan, arguments), arguments))


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--published", action="store_true", help=_("add figures published by others"))
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", dest="form", const="json", help=_("print JSON"))
    form.add_argument(
        "--markdown", action="store_const", dest="form", const="markdown", help=_("print Markdown")
    )
    form.add_argument("--csv", action="store_const", dest="form", const="csv", help=_("print CSV"))


def _methods(arguments: argparse.Namespace, machine: MachineReport) -> Plan:
    return methods_plan(
        machine,
        size=arguments.model,
        options=run_file.read(arguments.file, ()) if arguments.file is not None else None,
        device=arguments.device,
        steps=arguments.steps,
        passes=arguments.passes,
        with_compile=not arguments.no_compile,
    )


def _devices(arguments: argparse.Namespace, machine: MachineReport) -> Plan:
    plan = devices_plan(
        machine,
        models=arguments.models,
        batches=arguments.batch,
        images=arguments.images,
        data=arguments.data,
        steps=arguments.steps,
        passes=arguments.passes,
        sides=Sides(arguments.sides) if arguments.sides else None,
    )
    for side in dict.fromkeys(variant.side for variant in plan.variants):
        refusals = [variant.refusal for variant in plan.variants if variant.side == side]
        if all(refusals):  # there would be nothing to compare with
            fixes = tuple(
                Fix(_("Use --sides {other}").format(other=other))
                for other in Sides
                if other is not Sides.DEVICES
            )
            problem = Problem(
                "sides",
                _("{side} can't be measured: {refusals}").format(side=side, refusals=refusals[0]),
                fixes,
            )
            raise OptionsError((problem,), _("The benchmark"))
    return plan


def measure(make_plan: Callable[[MachineReport], Plan], arguments: argparse.Namespace) -> int:
    """Measure and show the result; returns the exit status.

    Raises:
        OptionsError: The request is wrong.
        DeviceBusy: A run trains on the device.
    """
    say(_("Looking at what this computer can do..."), sys.stderr)
    machine = run_job("devices", None, MachineReport)
    plan = make_plan(machine)
    rows = sum(not variant.refusal for variant in plan.variants)
    say(f"{plan.title}: {formats.counted(rows, 'row')}, {table.amount_of(plan)}", sys.stderr)
    bench = Bench(plan, this_machine(machine), measure=EnginePass, save=results.save, beside=arguments.beside)
    bench.on_begin = say_progress
    with Interrupts() as interrupts, ThreadPoolExecutor(1, "bench") as worker:
        running = worker.submit(_run, bench)
        while not running.done():
            wait([running], POLL_SECONDS)
            if interrupts.count:
                bench.stop()
        running.result()
    result = bench.result
    if any(row.passes for row in result.rows):
        show(result, arguments)
        path = results.path_of(result)
        kept = (
            _("It could not be saved: {not_saved}").format(not_saved=bench.not_saved)
            if bench.not_saved
            else _("Saved as {path}").format(path=path)
        )
        say(kept, sys.stderr)
    else:
        say(_("Nothing was measured."), sys.stderr)
    if interrupts.count:
        return INTERRUPTED
    return 0 if result.measured and not bench.not_saved else 1


def _run(bench: Bench) -> None:
    made = bench.result.rows
    for result in bench.run():
        for before, row in zip(made, result.rows, strict=True):
            if len(row.passes) > len(before.passes):
                newest, pace = row.passes[-1], row.samples_per_second
                speed = f"{formats.three_figures(pace.median)} samples/s, " if pace else ""
                memory = formats.memory(newest.sample.peak if newest.sample else None)
                say(f"  {newest.failure or f'{speed}{memory}'}", sys.stderr)
        made = result.rows


def say_progress(progress: Progress) -> None:
    """Say which pass begins, and how long the rest takes."""
    variant, seconds = progress.variant, progress.seconds_left
    title = f"{variant.title}, {variant.side}" if variant.side else variant.title
    left = _(", about {seconds} left").format(seconds=formats.duration(seconds)) if seconds else ""
    say(
        _("{done} of {total}: {title}, pass {number}{left}").format(
            done=progress.done + 1, total=progress.total, title=title, number=progress.number, left=left
        ),
        sys.stderr,
    )


def show(result: Result, arguments: argparse.Namespace) -> None:
    """Print a result in the form that was asked for."""
    match arguments.form:
        case "json":
            print_json(result)
        case "csv":
            say(table.csv(result), end="")
        case "markdown":
            say(table.markdown(result, published=arguments.published), end="")
        case _:
            say(table.text(result, published=arguments.published))


def show_results(arguments: argparse.Namespace) -> int:
    """List the results, show one, or compare two.

    Raises:
        OptionsError: There is no such result, or the two can't be compared.
        CantRead: One can't be read.
    """
    found = [find(name) for name in arguments.names]
    match found:
        case []:
            _list(arguments)
        case [one]:
            show(one, arguments)
        case [one, other]:
            comparison = table.compare(one, other)
            both = table.comparison_table(comparison)
            if arguments.form == "markdown":
                say("\n".join([*both.markdown(), *(f"- {escaped(note)}" for note in comparison.notes)]))
            else:
                say("\n".join([both.text(), "", *comparison.notes]).rstrip())
        case _:
            raise OptionsError((Problem("", _("only two results can be compared")),))
    return 0


def _list(arguments: argparse.Namespace) -> None:
    found = results.saved()
    if arguments.form == "json":
        print_json([{"file": str(one.path), "title": one.title, "problem": one.problem} for one in found])
        return
    if not found:
        say(_("Nothing was measured yet. `hone bench methods` and `hone bench devices` do."))
        return
    rows = []
    for number, one in enumerate(found, 1):
        result = one.result
        if result is None:
            rows.append((str(number), one.title, "", "", one.problem))
            continue
        state = _("{measured} of {rows}, {standing}").format(
            measured=len(result.measured), rows=len(result.rows), standing=result.standing
        )
        when = formats.full_moment(result.begun)
        rows.append((str(number), one.title, when, state, result.machine.title))
    say(formats.table(("", "WHAT", "MEASURED", "ROWS", "ON"), rows))


def find(name: str) -> Result:
    """The result of a number in the list or of a file.

    Raises:
        OptionsError: There is none.
        CantRead: It can't be read.
    """
    found = results.saved()
    if name.isascii() and name.isdecimal() and 0 < int(name[:9]) <= len(found):
        return results.load(found[int(name[:9]) - 1].path)
    if is_there(Path(name)):
        return results.load(Path(name))
    there = _("there are 1 to {found}").format(found=len(found)) if found else _("none is kept yet")
    raise OptionsError(
        (
            Problem(
                "", _("{name} is no result: {there}, see `hone bench results`").format(name=name, there=there)
            ),
        )
    )


def _count(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= LARGEST_NUMBER:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"must be a number from 1 to {LARGEST_NUMBER:,}; got {text!r}")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_count, text.split(","))))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
