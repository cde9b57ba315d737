"""`hone bench`: measure methods or devices on this computer; list, show and compare results."""

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

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
from core.cli.output import INTERRUPTED, Commands, add_flag, note, print_json, refuse, say
from core.cli.train import Interrupts
from core.options import run_file
from core.options.device_support import MachineReport

POLL_SECONDS = 0.5
LARGEST_NUMBER = 1_000_000


def add_commands(commands: Commands) -> None:
    """Add `bench methods`, `bench devices` and `bench results`."""
    command = commands.add(
        "bench",
        None,
        summary=_("measure what methods and devices do on this computer"),
        example="methods",
        details=_(
            "Measures how fast training is here and how much memory it takes: one method after the other, or one "
            "device against another. Each row is measured by fresh processes in turn (A B A B). Results are saved; "
            "Ctrl-C saves what is done."
        ),
    )
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    methods = kinds.add_parser(
        "methods", help=_("the ladder of methods: accumulation, half precision, LoRA, ...")
    )
    what = methods.add_mutually_exclusive_group()
    sizes = _("{names}; default: the largest that suits").format(names=", ".join(SIZES))
    what.add_argument("--model", choices=list(SIZES), metavar="SIZE", help=sizes)
    what.add_argument("--run", dest="file", type=Path, metavar="RUN.hone", help=_("your own model and data"))
    methods.add_argument("--device", default="auto", metavar="NAME", help=_("as `hone devices` names it"))
    add_flag(methods, "--no-compile", _("leave out torch.compile, which takes longest"))
    _add_measuring(methods, _methods, passes=3)

    devices = kinds.add_parser("devices", help=_("the CPU against the accelerator, on several models"))
    models = _("default: vision models and models of texts")
    devices.add_argument("--models", type=_names, metavar="A,B", help=models)
    images = _("default: {count:,}").format(count=IMAGES)
    devices.add_argument("--images", type=_count, default=IMAGES, metavar="N", help=images)
    devices.add_argument("--batch", type=_counts, default=BATCHES, metavar="N,N", help=_("default: 4,64"))
    devices.add_argument("--data", metavar="DIR", help=_("images; default: the digits that come with Hone"))
    devices.add_argument("--sides", choices=[sides.value for sides in Sides], help=_("default: what suits"))
    _add_measuring(devices, _devices, passes=1)

    saved = kinds.add_parser("results", help=_("list the results, newest first; show one, or compare two"))
    number = _("its number in the list (1 is the newest), or a file")
    saved.add_argument("names", nargs="*", metavar="RESULT", help=number)
    _add_output(saved)
    saved.set_defaults(run=show_results)


def _add_measuring(
    command: argparse.ArgumentParser,
    make_plan: Callable[[argparse.Namespace, MachineReport], Plan],
    passes: int,
) -> None:
    steps = _("timed steps per pass; default: by the model")
    command.add_argument("--steps", type=_count, metavar="N", help=steps)
    default = _("default: {count:,}").format(count=passes)
    command.add_argument("--passes", type=_count, default=passes, metavar="N", help=default)
    add_flag(command, "--beside", _("measure also while a run trains"))
    _add_output(command)
    command.set_defaults(run=lambda arguments: measure(partial(make_plan, arguments), arguments))


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
            message = _("{side} can't be measured: {reason}").format(side=side, reason=refusals[0])
            others = [sides for sides in Sides if sides is not Sides.DEVICES]
            fixes = tuple(Fix(_("Use --sides {name}").format(name=name)) for name in others)
            raise OptionsError((Problem("sides", message, fixes),), _("The benchmark"))
    return plan


def measure(make_plan: Callable[[MachineReport], Plan], arguments: argparse.Namespace) -> int:
    """Measure and show the result; returns the exit status.

    Raises:
        OptionsError: The request is wrong.
        DeviceBusy: A run trains on the device.
    """
    note(_("Checking what this computer supports ..."))
    machine = run_job("devices", None, MachineReport)
    plan = make_plan(machine)
    rows = sum(not variant.refusal for variant in plan.variants)
    note(f"{plan.title}: {formats.counted(rows, 'row')}, {table.amount_of(plan)}")
    bench = Bench(plan, this_machine(machine), measure=EnginePass, save=results.save, beside=arguments.beside)
    bench.on_begin = print_progress
    with Interrupts() as interrupts, ThreadPoolExecutor(1, "bench") as worker:
        running = worker.submit(_run, bench)
        while not running.done():
            wait([running], POLL_SECONDS)
            if interrupts.count:
                bench.stop()
        running.result()
    result = bench.result
    if not any(row.passes for row in result.rows):
        note(_("Nothing was measured."))
    else:
        show(result, arguments)
        if bench.not_saved:
            note(_("It could not be saved: {reason}").format(reason=bench.not_saved))
        else:
            note(_("Saved as {path}").format(path=results.path_of(result)))
    if interrupts.count:
        return INTERRUPTED
    return 0 if result.measured and not bench.not_saved else 1


def _run(bench: Bench) -> None:
    before = bench.result.rows
    for result in bench.run():
        for old, row in zip(before, result.rows, strict=True):
            if len(row.passes) > len(old.passes):
                newest, speed = row.passes[-1], row.samples_per_second
                memory = formats.memory(newest.sample.peak if newest.sample else None)
                if speed:
                    memory = _("{speed} examples/s, {memory}").format(
                        speed=formats.three_figures(speed.median), memory=memory
                    )
                note(f"  {newest.failure or memory}")
        before = result.rows


def print_progress(progress: Progress) -> None:
    variant = progress.variant
    text = _("{number} of {total}: {title}, pass {pass_number}").format(
        number=progress.done + 1,
        total=progress.total,
        title=f"{variant.title}, {variant.side}" if variant.side else variant.title,
        pass_number=progress.number,
    )
    if progress.seconds_left:
        left = formats.duration(progress.seconds_left)
        text = _("{progress}, about {time} left").format(progress=text, time=left)
    note(text)


def show(result: Result, arguments: argparse.Namespace) -> None:
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
            refuse(_("only two results can be compared"))
    return 0


def _list(arguments: argparse.Namespace) -> None:
    saved = results.saved()
    if arguments.form == "json":
        print_json([{"file": str(item.path), "title": item.title, "problem": item.problem} for item in saved])
        return
    if not saved:
        say(_("Nothing was measured yet. `hone bench methods` and `hone bench devices` do."))
        return
    rows = []
    for number, item in enumerate(saved, 1):
        cells = ["", "", item.problem]
        if (result := item.result) is not None:
            state = _("{measured} of {rows}, {state}").format(
                measured=len(result.measured), rows=len(result.rows), state=result.standing
            )
            cells = [formats.full_moment(result.begun), state, result.machine.title]
        rows.append((str(number), item.title, *cells))
    say(formats.table(("", _("WHAT"), _("MEASURED"), _("ROWS"), _("ON")), rows))


def find(name: str) -> Result:
    """The result of a number in the list or of a file.

    Raises:
        OptionsError: There is none.
        CantRead: It can't be read.
    """
    saved = results.saved()
    if name.isascii() and name.isdecimal() and 0 < int(name[:9]) <= len(saved):
        return results.load(saved[int(name[:9]) - 1].path)
    if is_there(Path(name)):
        return results.load(Path(name))
    refuse(_("there is no result {name}; `hone bench results` lists them").format(name=name))


def _count(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= LARGEST_NUMBER:
        return int(text[:9])
    message = _("must be a number from 1 to {most:,}, not {text!r}")
    raise argparse.ArgumentTypeError(message.format(most=LARGEST_NUMBER, text=text))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_count, text.split(","))))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
