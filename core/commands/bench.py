"""`hone bench`: the two tables of benchmarks made on this computer, and those that were made before."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core import run_file
from core.bench.devices import BATCHES, IMAGES, devices_plan
from core.bench.methods import methods_plan
from core.bench.plan import Plan
from core.bench.sides import Sides
from core.bench.sizes import SIZES
from core.commands import bench_kept, bench_running
from core.commands.bench_showing import Form, Showing
from core.errors import Fix, OptionsError, Problem
from core.reports import MachineReport

if TYPE_CHECKING:
    from core.commands.arguments import Commands

_MOST = 1_000_000


def add_bench(commands: "Commands") -> None:
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
        run=lambda asked: bench_running.measure(
            partial(_methods, asked), beside=asked.beside, showing=_showing(asked)
        )
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
        run=lambda asked: bench_running.measure(
            partial(_devices, asked), beside=asked.beside, showing=_showing(asked)
        )
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
    listing.set_defaults(run=lambda asked: bench_kept.results(as_json=asked.json))
    showing = kinds.add_parser("show", help="show a kept result again")
    showing.add_argument("name", nargs="?", default="1", metavar="RESULT", help=bench_kept.NAME_HELP)
    _add_showing(showing)
    showing.set_defaults(run=lambda asked: bench_kept.show(asked.name, _showing(asked)))
    comparing = kinds.add_parser("compare", help="hold two kept results against each other")
    comparing.add_argument("names", nargs=2, metavar="RESULT", help=bench_kept.NAME_HELP)
    form = comparing.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    comparing.set_defaults(run=lambda asked: bench_kept.compare(*asked.names, as_markdown=asked.markdown))


def _count(text: str) -> int:
    """A number from 1 on."""
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"must be a number from 1 to {_MOST:,}; got {text!r}")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(_count, text.split(","))))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
