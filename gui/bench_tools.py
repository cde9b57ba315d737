"""What the page Benchmark needs of the core, in one place, so that tests and pictures can answer instead."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from core import queue
from core.bench import kept
from core.bench.devices import devices_plan
from core.bench.methods import methods_plan
from core.bench.plan import Plan
from core.bench.running import Bench
from core.bench.taking import Taking
from core.bench.this_machine import this_machine
from core.events import TurnAwaited
from core.reports import MachineReport
from core.run_folder import Action
from gui.bench_work import Measures


class MakesBench(Protocol):
    """Makes a benchmark of a plan; called in a thread."""

    def __call__(self, plan: Plan, *, machine: MachineReport, is_beside: bool) -> Measures:
        """`is_beside`: whatever else computes on the device."""


def make_bench(plan: Plan, *, machine: MachineReport, is_beside: bool) -> Measures:
    """The real one, each pass in a process of its own, kept after every pass."""
    return Bench(plan, this_machine(machine), take=Taking, save=kept.save, beside=is_beside)


def ask_to_pause(awaited: TurnAwaited) -> None:
    """Ask the run that trains to pause.

    Raises:
        OSError: Its folder can't be written to.
    """
    for run in queue.training():
        if run.name == awaited.behind:
            run.ask(Action.PAUSE)


@dataclass(frozen=True)
class BenchTools:
    """All of them."""

    methods: Callable[..., Plan] = methods_plan
    devices: Callable[..., Plan] = devices_plan
    make: MakesBench = make_bench
    ahead_of: Callable[[str], TurnAwaited | None] = queue.ahead_of
    pause: Callable[[TurnAwaited], None] = ask_to_pause
    earlier: Callable[[], list[kept.Kept]] = kept.kept
