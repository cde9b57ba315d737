"""`hone bench`: measure methods or devices on this computer, and show what was measured."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from core.base import formats, settings
from core.base.errors import Fix, OptionsError, Problem
from core.base.jobs import run_job
from core.base.language import _
from core.benchmark import table
from core.benchmark.devices import BATCHES, IMAGES, Sides, devices_plan
from core.benchmark.figures import Result, read_result
from core.benchmark.methods import SIZES, methods_plan
from core.benchmark.plan import Plan, create, list_benchmarks
from core.cli.output import (
    INTERRUPTED,
    SEND_HELP,
    CommandParsers,
    add_flag,
    ask_to_send,
    note,
    print_json,
    refuse,
    say,
)
from core.cli.train import start_and_show
from core.hosts.install import with_computers
from core.options import run_file
from core.options.device_support import MachineReport

LARGEST_NUMBER = 1_000_000


def add_commands(commands: CommandParsers) -> None:
    """Adds `bench methods`, `bench devices` and `bench results`."""
    command = commands.add(
        "bench",
        None,
        summary=_("measure what methods and devices do on this computer"),
        example="methods",
        details=_(
            "Measures how fast training is here and how much memory it takes: one method after the other, or one "
            "device against another. Each row is a short run of its own, which waits in the queue; they get a tag of "
            "their own. Ctrl-C keeps what is done."
        ),
    )
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    methods = kinds.add_parser(
        "methods", help=_("the ladder of methods: accumulation, half precision, LoRA, …")
    )
    what = methods.add_mutually_exclusive_group()
    sizes = _("{names}; default: the largest that suits this computer").format(names=", ".join(SIZES))
    what.add_argument("--model", choices=list(SIZES), metavar="SIZE", help=sizes)
    what.add_argument("--run", dest="file", type=Path, metavar="RUN.hone", help=_("your own model and data"))
    methods.add_argument("--device", default="auto", metavar="NAME", help=_("a name from `hone devices`"))
    add_flag(methods, "--no-compile", _("leave out torch.compile, which takes longest"))
    _add_measuring(methods, _methods)

    devices = kinds.add_parser("devices", help=_("the CPU against the accelerator, on several models"))
    models = _("default: vision models and text models")
    devices.add_argument("--models", type=_names, metavar="A,B", help=models)
    images = _("default: {count:,}").format(count=IMAGES)
    devices.add_argument("--images", type=_count, default=IMAGES, metavar="N", help=images)
    devices.add_argument("--batch", type=_counts, default=BATCHES, metavar="N,N", help=_("default: 4,64"))
    devices.add_argument("--data", metavar="DIR", help=_("images; default: the digits that come with Hone"))
    devices.add_argument(
        "--sides", choices=[sides.value for sides in Sides], help=_("default: what suits this computer")
    )
    _add_measuring(devices, _devices)

    results = kinds.add_parser("results", help=_("list what was measured, newest first; or show one"))
    number = _("its number in the list (1 is the newest)")
    results.add_argument("number", nargs="?", type=_count, metavar="NUMBER", help=number)
    _add_output(results)
    results.set_defaults(run=show_results)


def _add_measuring(
    command: argparse.ArgumentParser, make_plan: Callable[[argparse.Namespace, MachineReport], Plan]
) -> None:
    steps = _("timed steps of each run; default: depends on the model")
    command.add_argument("--steps", type=_count, metavar="N", help=steps)
    add_flag(command, "--yes", SEND_HELP)
    _add_output(command)
    command.set_defaults(run=partial(measure, make_plan), queue=False, json=False)


def _add_output(command: argparse.ArgumentParser) -> None:
    add_flag(command, "--published", _("add figures published by others"))
    form = command.add_mutually_exclusive_group()
    for name, text in (("json", _("print JSON")), ("markdown", _("print Markdown")), ("csv", _("print CSV"))):
        form.add_argument(f"--{name}", action="store_const", dest="form", const=name, help=text)


def _methods(arguments: argparse.Namespace, machine: MachineReport) -> Plan:
    return methods_plan(
        machine,
        size=arguments.model,
        options=run_file.read(arguments.file, ()) if arguments.file is not None else None,
        device=arguments.device,
        steps=arguments.steps,
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
        sides=Sides(arguments.sides) if arguments.sides else None,
    )
    rows = plan.benchmark.rows
    for side in dict.fromkeys(row.side for row in rows):
        refusals = [row.refusal for row in rows if row.side == side]
        if all(refusals):  # there would be nothing to compare with
            message = _("{side} can't be measured: {reason}").format(side=side, reason=refusals[0])
            others = [sides for sides in Sides if sides is not Sides.DEVICES]
            fixes = tuple(Fix(_("Use --sides {name}").format(name=name)) for name in others)
            raise OptionsError((Problem("sides", message, fixes),), _("The benchmark"))
    return plan


def measure(
    make_plan: Callable[[argparse.Namespace, MachineReport], Plan], arguments: argparse.Namespace
) -> int:
    """Queues the runs of a benchmark, shows each until it ends, and then the result; returns the exit status.

    Raises:
        OptionsError: The request is wrong.
    """
    note(_("Checking what this computer supports…"))
    plan = make_plan(arguments, with_computers(run_job("devices", None, MachineReport)))
    ask_to_send([*plan.options.values()], is_agreed=arguments.yes)
    note(formats.titled(plan.benchmark.title, plan.amount))
    measured = create(plan, settings.runs_folder())
    runs = [*measured.runs.values()]
    status = start_and_show(arguments, runs, forced=True, are_alone=True)
    result = read_result(measured)
    show(result, arguments)
    return status if status == INTERRUPTED or not result.measured else 0


def show(result: Result, arguments: argparse.Namespace) -> None:
    """Prints a result in the form that was asked for."""
    match arguments.form:
        case "json":
            print_json(table.records(result))
        case "csv":
            say(table.csv(result), end="")
        case "markdown":
            say(table.markdown(result, with_published=arguments.published), end="")
        case _:
            say(table.text(result, with_published=arguments.published))


def show_results(arguments: argparse.Namespace) -> int:
    """Lists what was measured, or shows one of the list.

    Raises:
        OptionsError: There is no such number.
    """
    found = list_benchmarks(settings.runs_folder())
    if arguments.number is not None:
        if arguments.number > len(found):
            refuse(
                _("there is no result {name}; `hone bench results` lists them").format(name=arguments.number)
            )
        show(read_result(found[arguments.number - 1]), arguments)
        return 0
    results = list(map(read_result, found))
    if arguments.form == "json":
        print_json({result.benchmark.name: table.records(result) for result in results})
        return 0
    if not results:
        say(_("Nothing was measured yet. `hone bench methods` and `hone bench devices` measure."))
        return 0
    rows = []
    for number, result in enumerate(results, 1):
        measured = _("{measured} of {rows}").format(measured=len(result.measured), rows=len(result.rows))
        begun = min((one.begun for one in result.measured if one.begun is not None), default=None)
        rows.append((str(number), result.benchmark.name, formats.full_moment(begun), measured))
    say(formats.table(("", _("What"), _("Measured"), _("Rows")), rows))
    return 0


def _count(text: str) -> int:
    if text.isdecimal() and 0 < int(text[:9]) <= LARGEST_NUMBER:
        return int(text[:9])
    message = _("must be a number from 1 to {most:,}, not {text!r}")
    raise argparse.ArgumentTypeError(message.format(most=LARGEST_NUMBER, text=text))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_count, formats.items_of(text) or [text])))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(formats.items_of(text) or [text]))
