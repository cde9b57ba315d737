"""The command line of the developer's benchmarks; `python3 start.py bench` is the way in."""

import argparse
import sys
from datetime import date
from pathlib import Path

from core.base.jobs import run_job
from core.benchmark.result import Machine, this_machine
from core.options.device_support import MachineReport
from tests.performance.suite import page, record, running, tables
from tests.performance.suite.entries import BENCHMARKS, Benchmark, UnknownNameError, chosen
from tests.performance.suite.record import Form


def main(arguments: list[str]) -> int:
    """Run what was asked for; 0 where all goals were reached, 1 where one was missed or a benchmark failed."""
    asked = read_arguments(arguments)
    if asked.list:
        print(tables.listing())
        return 0
    if asked.page:
        page.rewrite(record.newest(asked.results))
        return 0
    try:
        wanted = chosen(asked.names)
    except UnknownNameError as error:
        print(f"There is no benchmark called {error}. --list names them all.", file=sys.stderr)
        return 2
    lacking = [one.name for one in wanted if one.data is not None and asked.data is None]
    if lacking and asked.names:
        print(f"{', '.join(lacking)}: name the folder of data sets with --data.", file=sys.stderr)
        return 2
    if lacking:
        print(f"Left out, for they need data sets (--data): {', '.join(lacking)}.")
        wanted = tuple(one for one in wanted if one.name not in lacking)
    form = Form.QUICK if asked.quick else Form.FULL
    return run_all(wanted, form, asked.data, asked.results)


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="start.py bench",
        description="Run the developer's benchmarks, print a table each, and keep the figures under "
        "tests/performance/results/. The exit status is 1 where a goal is missed.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; default: all, which takes hours")
    parser.add_argument("--list", action="store_true", help="only name them, with what each measures")
    parser.add_argument("--quick", action="store_true", help="short forms, which only show that they work")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="data sets, for those that need some")
    parser.add_argument(
        "--results", type=Path, metavar="FOLDER", default=record.RESULTS, help="keep them here"
    )
    parser.add_argument(
        "--page", action="store_true", help="only put the newest results into docs/benchmarks.md"
    )
    return parser.parse_args(arguments)


def run_all(
    wanted: tuple[Benchmark, ...], form: Form, data: Path | None, folder: Path, machine: Machine | None = None
) -> int:
    """Run benchmarks one after the other, keeping each one's outcome as soon as it is there."""
    day = date.today()
    machine = record.without_build(machine or this_machine(run_job("devices", None, MachineReport)))
    file = record.file_for(folder, machine, day)
    kept = record.begin(file, machine, day)
    is_reached = True
    for number, benchmark in enumerate(wanted, start=1):
        print(f"\n[{number} of {len(wanted)}] {benchmark.name} …", flush=True)
        outcome = running.run(benchmark, form, data)
        is_reached &= outcome.is_reached
        print(f"\n{tables.terminal(outcome)}", flush=True)
        kept = kept.with_outcome(outcome, tuple(one.name for one in BENCHMARKS))
        record.keep(file, kept)
    print(f"\nkept in {file}", flush=True)
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
