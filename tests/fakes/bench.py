"""Benchmarks for tests: small plans, passes that measure nothing, and whole invented results."""

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
from gui.benchmark.page import Tools

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
MAC = Machine(
    title="Invented Mac",
    processor="Invented M9 Max",
    cores=14,
    memory=36 * GB,
    accelerator="Invented M9 Max GPU (MPS)",
    system="macOS 16.1",
    versions=NEW,
)
NOTEBOOK = Machine(
    title="Invented notebook",
    processor="Invented i5",
    cores=4,
    memory=16 * GB,
    system="Linux 6.8",
    versions=OLD,
)


class Figures(NamedTuple):
    """The figures of a variant: seconds of a batch of four on the Mac, and gigabytes of the parts of memory."""

    name: str
    title: str
    seconds: float = 0.0
    held: tuple[float, ...] = ()
    changes: Mapping[str, object] = MappingProxyType({})
    compile_seconds: float = 0.0
    refusal: str = ""
    problem: str = ""
    other_load: float = 0.04


PARTS = ("weights", "gradients", "optimizer", "activations", "temporary", "overhead")
BF16 = {"device.precision": "bf16"}
SDPA = {**BF16, "model.attention": "sdpa"}
TEXTS = {"task": "text-classification", "memory": {"batch_size": 4}}
ACCUMULATED = {"memory.batch_size": 1, "memory.gradient_accumulation_steps": 4}
CHECKPOINTED = {**ACCUMULATED, "memory.activation_checkpointing": True}
ADAFACTOR = {"training.optimizer": "adafactor"}
NO_8_BIT = "needs an NVIDIA GPU; the 8-bit optimizers have no kernels for Metal."
RAN_OUT = "Memory ran out: 9.1 GB were asked for where 1.3 GB were free."
LADDER = (
    Figures("plain", "plain", 1.29, (1.25, 1.25, 2.5, 7.9, 0.9, 0.8)),
    Figures("accumulation", "accumulation 1 × 4", 1.43, (1.25, 1.25, 2.5, 2.1, 0.6, 0.8), ACCUMULATED),
    Figures("checkpointing", "+ checkpointing", 1.82, (1.25, 1.25, 2.5, 0.5, 0.3, 0.8), CHECKPOINTED),
    Figures("bf16", "bf16", 0.68, (1.25, 1.25, 2.5, 4.4, 1.4, 0.8), BF16),
    Figures(
        *("bf16-all", "bf16 + accumulation + checkpointing", 0.98, (1.25, 1.25, 2.5, 0.4, 0.9, 0.8)),
        {**BF16, **CHECKPOINTED},
    ),
    Figures("adafactor", "Adafactor", 1.38, (1.25, 1.25, 0.02, 7.9, 0.8, 0.8), ADAFACTOR, other_load=0.31),
    Figures("adamw-8bit", "8-bit AdamW", refusal=NO_8_BIT),
    Figures("bf16-sdpa", "bf16 + sdpa + fused", 0.625, (1.25, 1.25, 2.5, 4.1, 1.4, 0.8), SDPA),
    Figures(
        *("bf16-compile", "+ compile", 0.58, (1.25, 1.25, 2.5, 3.2, 1.1, 1.1)),
        *({**SDPA, "device.compile": True}, 47.2),
    ),
    Figures(
        *("bf16-padding", "bf16 + sdpa + dynamic padding", 0.555, (1.25, 1.25, 2.5, 2.3, 1.0, 0.8)),
        {**BF16, "data.padding": "dynamic"},
    ),
    Figures(
        *("bf16-lora", "LoRA, bf16", 0.455, (1.3, 0.02, 0.03, 2.4, 0.6, 0.8)),
        {**BF16, "model.method": "lora"},
    ),
    Figures("large-batch", "batch of 64", changes={"memory.batch_size": 64}, problem=RAN_OUT),
)


def methods_result(
    machine: Machine = MAC,
    *,
    done: int | None = None,
    faster: Mapping[str, float] = MappingProxyType({}),
    begun: float = BEGUN,
) -> Result:
    """The ladder, as a machine might measure it.

    Args:
        machine: The machine.
        done: How many variants have all their passes, if it is under way; None: it is finished.
        faster: How many times as fast as on the Mac some variants are, by their names.
        begun: Unix seconds.
    """
    chance = random.Random(machine.title)
    rows = []
    for place, of in enumerate(LADDER):
        named = variant(of.name, refusal=of.refusal)
        named = msgspec.structs.replace(named, title=of.title, changes=dict(of.changes), asked=TEXTS)
        is_done = done is None or place < done
        passes = _passes(of, chance, faster.get(of.name, 1.0)) if is_done else ()
        rows.append(Row(variant=named, passes=passes))
    title = "BERT-large, 512 examples of 512 tokens"
    return _result(rows, machine, begun, 2400, done, title=title, passes=3, model="bert-large")


def _result(
    rows: list[Row], machine: Machine, begun: float, seconds: float, done: int | None, **of_plan: Any
) -> Result:
    variants = tuple(row.variant for row in rows)
    asked = Plan(**{"kind": Kind.METHODS, "steps": 12, **of_plan}, variants=variants)
    is_whole, ended = done is None, begun + seconds if done is None else None
    return Result(plan=asked, machine=machine, begun=begun, ended=ended, rows=tuple(rows), is_whole=is_whole)


def updated_result() -> Result:
    """The ladder on the invented Mac a month later, with a newer torch: some of it faster, some slower."""
    machine = msgspec.structs.replace(MAC, versions={**NEW, "torch": "2.14.0"})
    faster = {"bf16": 1.11, "bf16-sdpa": 1.14, "bf16-compile": 1.32, "bf16-lora": 1.09, "adafactor": 0.91}
    return methods_result(machine, faster=faster, begun=BEGUN + 30 * 86_400)


def _passes(of: Figures, chance: random.Random, speed: float) -> tuple[Pass, ...]:
    if of.refusal:
        return ()
    if of.problem:
        return (Pass(begun=BEGUN, problem=of.problem),)
    parts = Parts(**{name: int(size * GB) for name, size in zip(PARTS, of.held, strict=True)})
    passes = []
    for number in range(3):
        taken = sample(
            *_steps(of.seconds / speed, chance),
            device="mps",
            compile_seconds=of.compile_seconds,
            samples_a_step=4,
            rows=512,
            parts=parts,
            peak=parts.total,
        )
        load = of.other_load if number == 1 else 0.04
        conditions = Conditions(other_load=load, on_battery=False)
        passes.append(Pass(begun=BEGUN + 60 * number, sample=taken, conditions=conditions))
    return tuple(passes)


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


def devices_result(done: int | None = None) -> Result:
    """The table of devices on the invented Mac; `done` as in `methods_result`."""
    chance = random.Random(MAC.title)
    rows: list[Row] = []
    for place, batch in enumerate((4, 64)):
        for model, epochs in EPOCHS.items():
            for side, seconds in zip(("CPU", "MPS"), epochs[place], strict=True):
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
                passes = (_epoch(seconds, batch, chance, side),) if is_done else ()
                rows.append(Row(variant=of, passes=passes))
    title = "Five vision models, 1,000 images of 224 x 224"
    return _result(rows, MAC, BEGUN + 86_400, 3600, done, kind=Kind.DEVICES, title=title, passes=1)


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
    """The real `Bench` for the page, with passes that measure nothing.

    `waiting` are the names of variants whose passes don't end until they are removed from it, or killed; `failing`
    those that fail. `kept` is what was saved, `is_full` whether nothing can be, `asked` and `asked_devices` the
    options of plans, and `beside` whether each benchmark was made beside others.
    """

    def __init__(self) -> None:
        self.plan = plan(PLAIN, BF16_VARIANT, LORA, passes=1)
        self.waiting: set[str] = set()
        self.failing: set[str] = set()
        self.kept: list[Result] = []
        self.asked: list[dict[str, object]] = []
        self.asked_devices: list[dict[str, object]] = []
        self.beside: list[bool] = []
        self.refuses = ""
        self.is_full = False

    def make_methods(self, _machine: MachineReport, **asked: object) -> Plan:
        self.asked.append(asked)
        return self._made()

    def make_devices(self, _machine: MachineReport, **asked: object) -> Plan:
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
        return Tools(
            methods=self.make_methods,
            devices=self.make_devices,
            make=self.make,
        )


def always(made: Plan) -> Callable[[], Plan]:
    """Makes this plan."""
    return lambda: made
