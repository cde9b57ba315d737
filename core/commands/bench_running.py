"""`hone bench methods` and `hone bench devices`: what is to be measured, measuring it, and what came of it."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from core import figures, questions
from core.bench import kept, words
from core.bench.plan import Plan
from core.bench.result import Result
from core.bench.running import Bench
from core.bench.taking import Taking
from core.bench.this_machine import this_machine
from core.commands.attendance import INTERRUPTED, Interrupts
from core.commands.bench_progress import BenchProgress
from core.commands.bench_showing import Showing
from core.commands.output import say
from core.reports import MachineReport

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
    machine = questions.ask_devices()
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
