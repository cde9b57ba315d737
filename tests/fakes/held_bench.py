"""Benchmarks for tests of the window: the real `Bench`, whose passes measure nothing, and wait where a test says so."""

import errno
import threading
from collections.abc import Callable

from core.base.errors import OptionsError, Problem
from core.base.jobs import JobCancelled
from core.benchmark.plan import Plan, Variant
from core.benchmark.result import Pass, Result
from core.benchmark.runner import Bench
from core.options.device_support import MachineReport
from core.runs.events import TurnAwaited
from gui.benchmark.page import Tools
from tests.fakes.bench import MACHINE, plan, sample, variant

PLAIN = variant("plain")
BF16 = variant("bf16")
LORA = variant("lora", refusal="needs the package peft")


class _HeldPass:
    def __init__(self, of: Variant, held: "HeldBenches") -> None:
        self._of, self._held = of, held
        self._killed = threading.Event()

    def run(self) -> Pass:
        while self._of.name in self._held.waiting and not self._killed.wait(0.002):
            pass
        if self._killed.is_set():
            raise JobCancelled("sample")
        if self._of.name in self._held.failing:
            return Pass(begun=1.0, problem="The engine ended by itself.")
        return Pass(begun=1.0, sample=sample(0.5, 0.5, 0.5, 0.5))

    def kill(self) -> None:
        self._killed.set()


class HeldBenches:
    """What the page needs of the core, answered here.

    `waiting` are the names of variants whose passes don't end until they are taken out, or killed; `failing` those that
    fail. `kept` is what was saved, `is_full` whether nothing can be, `asked` and `asked_devices` the wishes that
    plans were made of, `ahead` what is in the way, `paused` who was asked to pause, and `beside` whether each
    benchmark was made beside others.
    """

    def __init__(self) -> None:
        self.plan = plan(PLAIN, BF16, LORA, passes=1)
        self.waiting: set[str] = set()
        self.failing: set[str] = set()
        self.kept: list[Result] = []
        self.asked: list[dict[str, object]] = []
        self.asked_devices: list[dict[str, object]] = []
        self.ahead: TurnAwaited | None = None
        self.paused: list[TurnAwaited] = []
        self.beside: list[bool] = []
        self.refuses = ""
        self.is_full = False

    def make_methods(self, _machine: MachineReport, **asked: object) -> Plan:
        """Makes plans of methods."""
        self.asked.append(asked)
        return self._made()

    def make_devices(self, _machine: MachineReport, **asked: object) -> Plan:
        """Makes plans of devices."""
        self.asked_devices.append(asked)
        return self._made()

    def _made(self) -> Plan:
        if self.refuses:
            raise OptionsError((Problem("model.source", self.refuses),), "The benchmark")
        return self.plan

    def make(self, asked: Plan, *, machine: MachineReport | None = None, beside: bool = True) -> Bench:
        """A real benchmark, without an engine."""
        self.beside.append(beside)
        return Bench(
            asked,
            MACHINE,
            measure=lambda of, _plan: _HeldPass(of, self),
            save=self._save,
            beside=beside,
        )

    def _save(self, result: Result) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.kept.append(result)

    @property
    def tools(self) -> Tools:
        """All of it."""
        return Tools(
            methods=self.make_methods,
            devices=self.make_devices,
            make=self.make,
            ahead_of=lambda _device: self.ahead,
            pause=self.paused.append,
            saved=list,
        )


def always(made: Plan) -> Callable[[], Plan]:
    """Makes this plan."""
    return lambda: made
