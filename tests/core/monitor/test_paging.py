"""The watch over hand-made runs: a clock, steps, and a sample of the computer's memory every second."""

import sys

import pytest

from core.base.errors import Fix
from core.memory.model import Basis, Parts
from core.monitor.recent import STOP, Recent
from core.monitor.system_rules import PAGING as MESSAGE
from core.monitor.system_rules import Paging
from core.runs.events import (
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
)
from core.runs.events import Outcome as Ended

GB = 1 << 30
MB = 1 << 20
FIXES = (Fix("Batches of 8", {"memory.batch_size": 8}),)
OTHER_FIXES = (Fix("Train LoRA", {"model.method": "lora"}),)


class Told:
    """Tells a watch what happens to a run. Memory is what `used`, `swap` and `pressure` are when it is sampled."""

    def __init__(self, *, fixes: tuple[Fix, ...] = FIXES) -> None:
        self.watch = Paging(fixes)
        self.raised_key = ""
        self.now = 1000.0
        self.step = 0
        self.used, self.swap, self.pressure = 8 * GB, 0 * GB, Pressure.NORMAL
        self.messages: list[Event] = []
        self._sampled = self.now
        self.tell(RunStarted(time=self.now))
        self.phase(Phase.TRAINING)

    def tell(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.watch, self.raised_key = Paging(FIXES), ""
        self.watch.apply(event)
        if isinstance(event, MemorySampled) and event.source is Source.SYSTEM:
            found = self.watch.judge(Recent(), raised=self.raised_key)
            if found and not self.raised_key:
                self.messages.append(found.message(MESSAGE))
            if self.raised_key and not found:
                self.messages.append(MessageWithdrawn(id=MESSAGE))
            self.raised_key = found.key if found else ""

    def phase(self, phase: Phase) -> None:
        self.tell(PhaseChanged(time=self.now, phase=phase))

    def wait(self, seconds: float) -> None:
        """Let time pass, with its samples."""
        until = self.now + seconds
        while self._sampled + 1.0 <= until:
            self._sampled += 1.0
            self.now = self._sampled
            self.sample()
        self.now = until

    def sample(self) -> None:
        self.tell(
            MemorySampled(
                time=self.now,
                source=Source.SYSTEM,
                bytes=self.used,
                ceiling=16 * GB,
                swap=self.swap,
                pressure=self.pressure,
            )
        )

    def steps(self, *seconds: float, compiling: float = 0.0) -> None:
        for each in seconds:
            self.wait(each + compiling)
            self.step += 1
            self.tell(
                StepFinished(
                    time=self.now,
                    step=self.step,
                    epoch=0.1,
                    seconds=each,
                    compile_seconds=compiling,
                    learning_rate=1e-3,
                    samples=8,
                )
            )

    @property
    def raised(self) -> list[MessageRaised]:
        return [message for message in self.messages if isinstance(message, MessageRaised)]

    @property
    def withdrawn(self) -> list[MessageWithdrawn]:
        return [message for message in self.messages if isinstance(message, MessageWithdrawn)]


@pytest.fixture
def run() -> Told:
    """A run that has gone on at half a second a step."""
    told = Told()
    told.steps(*[0.5] * 20)
    assert told.messages == []
    return told


def full(run: Told) -> None:
    run.used = int(15.5 * GB)


def swapping(run: Told) -> None:
    run.swap += 200 * MB


def short(run: Told) -> None:
    run.pressure = Pressure.CRITICAL


@pytest.mark.parametrize("sign", [full, swapping, short])
def test_slow_steps_while_memory_is_short_are_told_of_within_three(run: Told, sign) -> None:
    before = run.step
    while not run.raised and run.step < before + 3:
        run.now += 0.1
        sign(run)
        run.steps(4.0)
    [message] = run.raised
    assert (message.id, message.level, message.fixes) == (MESSAGE, Level.WARNING, (*FIXES, STOP))
    assert run.step - before <= 3
    run.steps(4.0, 4.0)
    assert len(run.raised) == 1, "it is told once"


def test_the_message_says_how_slow_and_why(run: Told) -> None:
    run.used, run.swap = int(15.5 * GB), 2 * GB
    run.steps(4.0)
    run.wait(1.0)
    [message] = run.raised
    assert message.title == "The run is paging: a step takes 6 times as long as before"
    assert "A step has taken 3.0 s so far, those before took 500 ms" in message.detail
    assert "97 % of the memory (16 GB) was in use and swap grew by 2.0 GB" in message.detail


def test_slow_steps_with_memory_to_spare_are_not_paging(run: Told) -> None:
    run.swap += 32 * MB
    run.steps(4.0, 4.0, 4.0, 4.0)
    assert run.messages == []


def test_steps_at_their_pace_are_not_paging_however_full_memory_is(run: Told) -> None:
    run.used, run.swap, run.pressure = 16 * GB, 4 * GB, Pressure.CRITICAL
    run.steps(*[0.5] * 5, *[1.2] * 5)
    assert run.messages == []


def test_swap_that_was_used_before_is_no_sign() -> None:
    told = Told()
    told.swap = 4 * GB
    told.steps(*[0.5] * 20, 4.0, 4.0, 4.0)
    assert told.messages == []


def test_a_step_that_is_not_over_is_told_of_while_it_lasts(run: Told) -> None:
    full(run)
    run.wait(3.0)
    [message] = run.raised
    assert "so far" in message.detail
    assert run.step == 20


def test_short_steps_have_to_be_slow_twice() -> None:
    told = Told()
    told.steps(*[0.05] * 60)
    full(told)
    told.steps(*[0.05] * 20, 0.4, *[0.05] * 40)
    assert told.messages == []
    told.steps(0.4, 0.4, 0.4)
    told.wait(0.7)
    assert len(told.raised) == 1


@pytest.mark.parametrize("phase", [Phase.EVALUATING, Phase.SAVING, Phase.COMPILING])
def test_what_lies_between_steps_is_no_step(run: Told, phase: Phase) -> None:
    full(run)
    run.phase(phase)
    run.swap += 1 * GB
    run.wait(60.0)
    run.phase(Phase.TRAINING)
    run.steps(*[0.5] * 10)
    assert run.messages == []


def test_after_an_evaluation_paging_is_still_noticed(run: Told) -> None:
    run.phase(Phase.EVALUATING)
    run.wait(10.0)
    run.phase(Phase.TRAINING)
    full(run)
    run.wait(4.0)
    assert len(run.raised) == 1


def test_the_first_steps_of_a_run_and_those_that_compile_are_slow_of_themselves() -> None:
    told = Told()
    full(told)
    told.steps(9.0, 0.3, 0.3)
    told.steps(0.4, compiling=50.0)
    told.steps(0.3, 0.3, 0.3)
    assert told.messages == []


def test_before_there_is_a_pace_nothing_is_said() -> None:
    told = Told()
    full(told)
    told.steps(9.0, 0.2, 0.2, 0.2, 0.2, 8.0)
    assert told.messages == []


def test_it_is_withdrawn_after_five_steps_at_the_old_pace(run: Told) -> None:
    full(run)
    run.steps(*[6.0] * 20)
    run.steps(*[0.8] * 4, 1.5, *[0.8] * 4)
    run.wait(1.0)
    assert run.withdrawn == []
    run.steps(0.5)
    run.wait(1.0)
    assert [message.id for message in run.withdrawn] == [MESSAGE]
    run.steps(6.0)
    run.wait(1.0)
    assert len(run.raised) == 2, "and told again when it comes back"


def test_paging_steps_do_not_become_the_usual_pace(run: Told) -> None:
    full(run)
    run.steps(*[6.0] * 60, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
    run.wait(1.0)
    assert run.withdrawn == []


@pytest.mark.parametrize(
    "sample",
    [
        MemorySampled(source=Source.TORCH, bytes=9 * GB, reserved=26 * GB, ceiling=27 * GB, unified=True),
        MemorySampled(source=Source.NVML, bytes=int(23.5 * GB), ceiling=24 * GB),
    ],
)
def test_the_memory_of_a_gpu_counts_where_it_can_page(
    run: Told, sample: MemorySampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    run.tell(sample)
    run.wait(3.0)
    [message] = run.raised
    assert "GPU" in message.detail


def test_what_the_run_offers_goes_before_what_was_thought_of_first(run: Told) -> None:
    run.tell(MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=Parts(weights=GB), fixes=OTHER_FIXES))
    full(run)
    run.wait(3.0)
    assert run.raised[0].fixes == (*OTHER_FIXES, STOP)


def test_nothing_is_said_once_the_run_is_over(run: Told) -> None:
    full(run)
    run.tell(RunFinished(time=run.now, state=Ended.FINISHED))
    run.wait(30.0)
    assert run.messages == []


def test_a_later_attempt_starts_anew(run: Told) -> None:
    full(run)
    run.wait(3.0)
    run.tell(RunStarted(time=run.now, attempt=2))
    run.phase(Phase.TRAINING)
    run.steps(9.0, 3.0, 3.0)
    assert len(run.raised) == 1
    assert run.withdrawn == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows' drivers do move a card's memory out")
def test_a_graphics_card_of_its_own_is_full_and_doesnt_page(run: Told) -> None:
    run.tell(MemorySampled(source=Source.TORCH, bytes=9 * GB, reserved=26 * GB, ceiling=27 * GB))
    run.tell(MemorySampled(source=Source.NVML, bytes=int(23.5 * GB), ceiling=24 * GB))
    run.wait(3.0)
    assert run.raised == []


def test_the_message_says_what_the_run_was_to_take(run: Told) -> None:
    parts = Parts(weights=GB, activations=5 * GB)
    run.tell(MemoryForecast(device="mps", basis=Basis.FORMULA, parts=parts))
    run.tell(
        MemorySampled(source=Source.TORCH, bytes=9 * GB, reserved=26 * GB, ceiling=27 * GB, unified=True)
    )
    run.wait(3.0)
    [message] = run.raised
    assert "The run was to take 6.0 GB by forecast. Its largest part: activations, 5.0 GB." in message.detail
