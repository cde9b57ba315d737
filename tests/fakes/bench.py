"""Benchmarks for tests: small plans, invented samples, passes that measure nothing, and whole invented results."""

import errno
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from core.base.errors import OptionsError, Problem
from core.base.jobs import JobCancelled
from core.benchmark.plan import Kind, Plan, Variant
from core.benchmark.result import Conditions, Machine, Pass, Result, Row, Sample
from core.benchmark.runner import Bench
from core.memory.model import Parts
from core.options.device_support import MachineReport
from core.options.sources import VISION_MODELS
from core.runs.events import TurnAwaited
from gui.benchmark.page import Tools

# --- Benchmarks for tests: small plans, invented samples, passes that measure nothing


MB = 1 << 20
MACHINE = Machine(
    title="Test GPU, 24 GB",
    processor="Test CPU",
    cores=8,
    memory=32 << 30,
    accelerator="Test GPU, 24 GB",
    system="Linux 6.1",
    versions={"hone": "0.1.0", "torch": "2.13.0"},
)
QUIET = Conditions()
CPU = {"device": {"name": "cpu"}}


def variant(name: str, *, refusal: str = "", group: str = "", side: str = "", note: str = "") -> Variant:
    return Variant(
        name=name, title=name.title(), asked=CPU, refusal=refusal, group=group, side=side, note=note
    )


def plan(
    *variants: Variant, passes: int = 2, steps: int = 4, kind: Kind = Kind.METHODS, model: str = "tiny"
) -> Plan:
    return Plan(
        kind=kind, title="Tiny BERT, 64 rows", variants=variants, steps=steps, passes=passes, model=model
    )


def sample(*seconds: float, peak: int = 100 * MB, **more: Any) -> Sample:
    plain: dict[str, Any] = {
        "device": "cpu",
        "seconds": seconds or (0.5, 0.4, 0.6, 0.5),
        "samples_a_step": 8,
        "rows": 64,
        "losses": (0.7,) * 5,
        "first_loss": 0.7,
        "parts": Parts(weights=peak // 2, activations=peak - peak // 2),
    }
    return Sample(**{**plain, **more}, peak=peak)


def measured(of: Variant, *seconds: float, peak: int = 100 * MB, conditions: Conditions = QUIET) -> Row:
    one = Pass(begun=1.0, sample=sample(*seconds, peak=peak), conditions=conditions)
    return Row(variant=of, passes=(one,))


def result(
    *rows: Row, begun: float = 1_760_000_000.0, machine: Machine = MACHINE, **of_plan: object
) -> Result:
    asked = plan(*(row.variant for row in rows), **of_plan)  # type: ignore[arg-type]
    return Result(plan=asked, machine=machine, begun=begun, ended=begun + 60, rows=rows, is_whole=True)


Answer = Pass | Callable[[], Pass]


class Measures:
    """Stands in for `core.benchmark.runner.EnginePass`: answers by name, one answer a pass; the last one stays.

    `measured` are the variants' names in the order in which they were measured.
    """

    def __init__(self, **answers: Sequence[Answer]) -> None:
        self._answers = {name: list(found) for name, found in answers.items()}
        self.measured: list[str] = []

    def __call__(self, of: Variant, _plan: Plan) -> "_Measure":
        self.measured.append(of.name)
        answers = self._answers.get(of.name, [])
        if not answers:
            return _Measure(Pass(begun=1.0, sample=sample()))
        return _Measure(answers.pop(0) if len(answers) > 1 else answers[0])


class _Measure:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._killed = threading.Event()

    def run(self) -> Pass:
        if self._killed.is_set():
            raise JobCancelled("sample")
        answer = self._answer() if callable(self._answer) else self._answer
        if self._killed.is_set():
            raise JobCancelled("sample")
        return answer

    def kill(self) -> None:
        self._killed.set()


BEGUN = 1_795_000_000.0
GB = 1 << 30
NEW = {"hone": "0.8.0", "torch": "2.13.0", "transformers": "5.23.0"}
OLD = {"hone": "0.7.2", "torch": "2.12.1", "transformers": "5.22.0"}


def _machine(title: str, processor: str, cores: int, gigabytes: int, system: str, **more: Any) -> Machine:
    asked = {"title": title, "processor": processor, "cores": cores, "system": system, "versions": NEW}
    return Machine(**{**asked, **more}, memory=gigabytes * GB)


MAC = _machine(
    *("Invented Mac", "Invented M9 Max", 14, 36, "macOS 16.1"), accelerator="Invented M9 Max GPU (MPS)"
)
PC = _machine("Invented PC", "Invented Core 12", 12, 64, "Windows 11", accelerator="Invented RTX 24 GB")
NOTEBOOK = _machine("Invented notebook", "Invented i5", 4, 16, "Linux 6.8", versions=OLD)


class Told(NamedTuple):
    """What is invented of a variant.

    `seconds` are those of a batch of four on the Mac, `held` the gigabytes of weights, gradients, optimizer,
    activations, temporary buffers and overhead.
    """

    name: str
    title: str
    seconds: float = 0.0
    held: tuple[float, ...] = ()
    changes: Mapping[str, object] = MappingProxyType({})
    compile_seconds: float = 0.0
    refusal: str = ""
    problem: str = ""
    other_load: float = 0.04


BF16 = {"device.precision": "bf16"}
SDPA = {**BF16, "model.attention": "sdpa"}
TEXTS = {"task": "text-classification", "memory": {"batch_size": 4}}
ACCUMULATED = {"memory.batch_size": 1, "memory.gradient_accumulation_steps": 4}
CHECKPOINTED = {**ACCUMULATED, "memory.activation_checkpointing": True}
ADAFACTOR = {"training.optimizer": "adafactor"}
NO_8_BIT = "needs an NVIDIA GPU; the 8-bit optimizers have no kernels for Metal."
RAN_OUT = "Memory ran out: 9.1 GB were asked for where 1.3 GB were free."
LADDER = (
    Told("plain", "plain", 1.29, (1.25, 1.25, 2.5, 7.9, 0.9, 0.8)),
    Told("accumulation", "accumulation 1 × 4", 1.43, (1.25, 1.25, 2.5, 2.1, 0.6, 0.8), ACCUMULATED),
    Told("checkpointing", "+ checkpointing", 1.82, (1.25, 1.25, 2.5, 0.5, 0.3, 0.8), CHECKPOINTED),
    Told("bf16", "bf16", 0.68, (1.25, 1.25, 2.5, 4.4, 1.4, 0.8), BF16),
    Told(
        *("bf16-all", "bf16 + accumulation + checkpointing", 0.98, (1.25, 1.25, 2.5, 0.4, 0.9, 0.8)),
        {**BF16, **CHECKPOINTED},
    ),
    Told("adafactor", "Adafactor", 1.38, (1.25, 1.25, 0.02, 7.9, 0.8, 0.8), ADAFACTOR, other_load=0.31),
    Told("adamw-8bit", "8-bit AdamW", refusal=NO_8_BIT),
    Told("bf16-sdpa", "bf16 + sdpa + fused", 0.625, (1.25, 1.25, 2.5, 4.1, 1.4, 0.8), SDPA),
    Told(
        *("bf16-compile", "+ compile", 0.58, (1.25, 1.25, 2.5, 3.2, 1.1, 1.1)),
        *({**SDPA, "device.compile": True}, 47.2),
    ),
    Told(
        *("bf16-padding", "bf16 + sdpa + dynamic padding", 0.555, (1.25, 1.25, 2.5, 2.3, 1.0, 0.8)),
        {**BF16, "data.padding": "dynamic"},
    ),
    Told(
        *("bf16-lora", "LoRA, bf16", 0.455, (1.3, 0.02, 0.03, 2.4, 0.6, 0.8)),
        {**BF16, "model.method": "lora"},
    ),
    Told("large-batch", "batch of 64", changes={"memory.batch_size": 64}, problem=RAN_OUT),
)


def methods_result(
    machine: Machine = MAC,
    *,
    speed: float = 1.0,
    done: int | None = None,
    faster: Mapping[str, float] = MappingProxyType({}),
    begun: float = BEGUN,
) -> Result:
    """The ladder, as some machine would have measured it; no such machine has.

    Args:
        machine: Which.
        speed: How many times as fast as the invented Mac.
        done: So many variants have all their passes, and it goes on; None: it is finished.
        faster: How many times as fast as that some variants are, by their names.
        begun: When, in unix seconds.
    """
    chance = random.Random(machine.title)
    rows: list[Row] = []
    for place, told in enumerate(LADDER):
        of = msgspec.structs.replace(
            variant(told.name, refusal=told.refusal),
            title=told.title,
            changes=dict(told.changes),
            asked=TEXTS,
        )
        is_done = done is None or place < done
        rows.append(
            Row(
                variant=of,
                passes=_passes(told, chance, speed * faster.get(told.name, 1.0)) if is_done else (),
            )
        )
    return _result(
        rows,
        machine,
        begun,
        2400,
        done,
        title="BERT-large, 512 sequences of 512 tokens",
        passes=3,
        model="bert-large",
    )


def _result(
    rows: list[Row], machine: Machine, begun: float, seconds: float, done: int | None, **of_plan: Any
) -> Result:
    """Of rows of which so many are `done`; None: all, and it has ended."""
    asked = Plan(
        **{"kind": Kind.METHODS, "steps": 12, **of_plan}, variants=tuple(row.variant for row in rows)
    )
    ended = begun + seconds if done is None else None
    return Result(
        plan=asked, machine=machine, begun=begun, ended=ended, rows=tuple(rows), is_whole=done is None
    )


def updated_result() -> Result:
    """The ladder on the invented Mac a month later, with a newer torch: some of it faster, some slower."""
    machine = msgspec.structs.replace(MAC, versions={**NEW, "torch": "2.14.0"})
    faster = {"bf16": 1.11, "bf16-sdpa": 1.14, "bf16-compile": 1.32, "bf16-lora": 1.09, "adafactor": 0.91}
    return methods_result(machine, faster=faster, begun=BEGUN + 30 * 86_400)


def _passes(told: Told, chance: random.Random, speed: float) -> tuple[Pass, ...]:
    if told.refusal:
        return ()
    if told.problem:
        return (Pass(begun=BEGUN, problem=told.problem),)
    names = ("weights", "gradients", "optimizer", "activations", "temporary", "overhead")
    parts = Parts(**{name: int(size * GB) for name, size in zip(names, told.held, strict=True)})
    return tuple(
        Pass(
            begun=BEGUN + 60 * number,
            sample=sample(
                *_steps(told.seconds / speed, chance),
                device="mps",
                compile_seconds=told.compile_seconds,
                samples_a_step=4,
                rows=512,
                parts=parts,
                peak=parts.total,
            ),
            conditions=Conditions(
                other_load=told.other_load if number == 1 else 0.04,
                watts=31 + chance.random(),
                power_source="Apple",
                on_battery=False,
            ),
        )
        for number in range(3)
    )


def _steps(seconds: float, chance: random.Random) -> tuple[float, ...]:
    return tuple(seconds * (1 + 0.05 * chance.random() ** 2) for _ in range(12))


EPOCHS = {
    "vgg16": ((121.0, 16.4), (133.5, 14.9)),
    "alexnet": ((24.8, 6.1), (12.7, 2.9)),
    "resnet18": ((29.6, 9.2), (41.3, 5.2)),
    "mobilenet_v2": ((96.4, 24.0), (142.0, 9.7)),
    "efficientnet_b0": ((118.7, 39.5), (171.3, 13.8)),
}
"""Seconds of 1,000 images on the invented CPU and GPU, in batches of 4 and of 64."""


def devices_result(
    machine: Machine = MAC, *, done: int | None = None, sides: tuple[str, str] = ("CPU", "MPS")
) -> Result:
    """The table of devices, as some machine would have measured it.

    Args:
        machine: Which.
        done: So many variants are measured, and it goes on; None: it is finished.
        sides: What the two devices are called.
    """
    chance = random.Random(machine.title)
    rows: list[Row] = []
    for place, batch in enumerate((4, 64)):
        for model, epochs in EPOCHS.items():
            for side, seconds in zip(sides, epochs[place], strict=True):
                of = msgspec.structs.replace(
                    variant(f"{model}-{batch}-{side.lower()}", group=f"{model}-{batch}", side=side),
                    title=f"{VISION_MODELS[model].title}, batch {batch}",
                    asked={
                        "task": "image-classification",
                        "model": {"source": f"torchvision:{model}"},
                        "device": {"name": side.lower()},
                        "memory": {"batch_size": batch},
                    },
                )
                is_done = done is None or len(rows) < done
                rows.append(
                    Row(variant=of, passes=(_epoch(seconds, batch, chance, side),) if is_done else ())
                )
    title = "Five vision models, 1,000 images of 224 x 224"
    return _result(rows, machine, BEGUN + 86_400, 3600, done, kind=Kind.DEVICES, title=title, passes=1)


def _epoch(seconds: float, batch: int, chance: random.Random, side: str) -> Pass:
    taken = sample(
        *_steps(seconds * batch / 1000, chance),
        device=side.lower(),
        samples_a_step=batch,
        rows=1000,
        losses=(2.31, 2.28, 2.2),
        first_loss=2.3061 + (2e-7 if side == "CPU" else 0.0),
        is_random=True,
        parts=Parts(weights=45 << 20, gradients=45 << 20, activations=batch << 24, overhead=600 << 20),
        peak=(690 << 20) + (batch << 24),
    )
    load = 0.42 if side == "CPU" and 140 < seconds < 150 else 0.03
    return Pass(begun=BEGUN, sample=taken, conditions=Conditions(other_load=load))


# --- Benchmarks for tests of the window: the real `Bench`, whose passes measure nothing


PLAIN = variant("plain")
BF16_VARIANT = variant("bf16")
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
        self.plan = plan(PLAIN, BF16_VARIANT, LORA, passes=1)
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
