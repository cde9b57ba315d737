"""Invented results of benchmarks, for the screenshots and for tests: no such machine measured any of it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from core.bench.plan import Kind, Plan, Rung
from core.bench.result import Machine, Pass, Result, Row, Surroundings
from core.bench.sample import Sample
from core.memory.forecast import Parts
from core.vision_models import VISION_TITLES

BEGUN = 1_795_000_000.0
GB = 1 << 30
ROWS = 512
PASSES = 3
STEPS = 12

MAC = Machine(
    title="Invented Mac",
    processor="Invented M9 Max",
    cores=14,
    memory=36 * GB,
    accelerator="Invented M9 Max GPU (MPS)",
    system="macOS 16.1",
    versions={"hone": "0.8.0", "torch": "2.13.0", "transformers": "5.23.0"},
)
PC = Machine(
    title="Invented PC",
    processor="Invented Core 12",
    cores=12,
    memory=64 * GB,
    accelerator="Invented RTX 24 GB",
    system="Windows 11",
    versions={"hone": "0.8.0", "torch": "2.13.0", "transformers": "5.23.0"},
)
NOTEBOOK = Machine(
    title="Invented notebook",
    processor="Invented i5",
    cores=4,
    memory=16 * GB,
    system="Linux 6.8",
    versions={"hone": "0.7.2", "torch": "2.12.1", "transformers": "5.22.0"},
)


@dataclass(frozen=True)
class Told:
    """What is invented of a rung.

    `seconds` are those of a batch of four on the Mac, `held` the gigabytes of weights, gradients, optimizer,
    activations, temporary buffers and overhead.
    """

    name: str
    title: str
    seconds: float = 0.0
    held: tuple[float, ...] = ()
    changes: tuple[tuple[str, object], ...] = ()
    compile_seconds: float = 0.0
    refusal: str = ""
    problem: str = ""
    other_load: float = 0.04


BF16 = ("device.precision", "bf16")
ACCUMULATED = (("memory.batch_size", 1), ("memory.gradient_accumulation_steps", 4))
CHECKPOINTED = ("memory.activation_checkpointing", True)
LADDER = (
    Told("plain", "plain", 1.29, (1.25, 1.25, 2.5, 7.9, 0.9, 0.8)),
    Told("accumulation", "accumulation 1 × 4", 1.43, (1.25, 1.25, 2.5, 2.1, 0.6, 0.8), ACCUMULATED),
    Told(
        "checkpointing",
        "+ checkpointing",
        1.82,
        (1.25, 1.25, 2.5, 0.5, 0.3, 0.8),
        (*ACCUMULATED, CHECKPOINTED),
    ),
    Told("bf16", "bf16", 0.68, (1.25, 1.25, 2.5, 4.4, 1.4, 0.8), (BF16,)),
    Told(
        "bf16-all",
        "bf16 + accumulation + checkpointing",
        0.98,
        (1.25, 1.25, 2.5, 0.4, 0.9, 0.8),
        (BF16, *ACCUMULATED, CHECKPOINTED),
    ),
    Told(
        "adafactor",
        "Adafactor",
        1.38,
        (1.25, 1.25, 0.02, 7.9, 0.8, 0.8),
        (("training.optimizer", "adafactor"),),
        other_load=0.31,
    ),
    Told(
        "adamw-8bit",
        "8-bit AdamW",
        refusal="needs an NVIDIA GPU; the 8-bit optimizers have no kernels for Metal.",
    ),
    Told(
        "bf16-sdpa",
        "bf16 + sdpa + fused",
        0.625,
        (1.25, 1.25, 2.5, 4.1, 1.4, 0.8),
        (BF16, ("model.attention", "sdpa")),
    ),
    Told(
        "bf16-compile",
        "+ compile",
        0.58,
        (1.25, 1.25, 2.5, 3.2, 1.1, 1.1),
        (BF16, ("model.attention", "sdpa"), ("device.compile", True)),
        compile_seconds=47.2,
    ),
    Told(
        "bf16-padding",
        "bf16 + sdpa + dynamic padding",
        0.555,
        (1.25, 1.25, 2.5, 2.3, 1.0, 0.8),
        (BF16, ("data.padding", "dynamic")),
    ),
    Told(
        "bf16-lora", "LoRA, bf16", 0.455, (1.3, 0.02, 0.03, 2.4, 0.6, 0.8), (BF16, ("model.method", "lora"))
    ),
    Told(
        "large-batch",
        "batch of 64",
        problem="Memory ran out: 9.1 GB were asked for where 1.3 GB were free.",
        changes=(("memory.batch_size", 64),),
    ),
)


NOTHING_FASTER: Mapping[str, float] = MappingProxyType({})


def methods_result(
    machine: Machine = MAC,
    *,
    speed: float = 1.0,
    done: int | None = None,
    faster: Mapping[str, float] = NOTHING_FASTER,
    begun: float = BEGUN,
) -> Result:
    """The ladder, as some machine would have measured it.

    Args:
        machine: Which.
        speed: How many times as fast as the invented Mac.
        done: So many rungs have all their passes, and it goes on; None: it is finished.
        faster: How many times as fast as that some rungs are, by their names.
        begun: When, in unix seconds.
    """
    chance = random.Random(machine.title)
    rungs = tuple(_rung(told) for told in LADDER)
    count = len(LADDER) if done is None else done
    rows = tuple(
        Row(
            rung=rung,
            passes=_passes(told, chance, speed * faster.get(told.name, 1.0)) if place < count else (),
        )
        for place, (rung, told) in enumerate(zip(rungs, LADDER, strict=True))
    )
    return Result(
        plan=Plan(
            kind=Kind.METHODS,
            title="BERT-large, 512 sequences of 512 tokens",
            rungs=rungs,
            steps=STEPS,
            passes=PASSES,
            model="bert-large",
        ),
        machine=machine,
        begun=begun,
        ended=None if done is not None else begun + 2400,
        rows=rows,
        is_whole=done is None,
    )


EPOCHS = {
    "vgg16": ((121.0, 16.4), (133.5, 14.9)),
    "alexnet": ((24.8, 6.1), (12.7, 2.9)),
    "resnet18": ((29.6, 9.2), (41.3, 5.2)),
    "mobilenet_v2": ((96.4, 24.0), (142.0, 9.7)),
    "efficientnet_b0": ((118.7, 39.5), (171.3, 13.8)),
}
"""Seconds of 1,000 images on the invented CPU and GPU, in batches of 4 and of 64."""

IMAGES = 1000


def devices_result(
    machine: Machine = MAC, *, done: int | None = None, sides: tuple[str, str] = ("CPU", "MPS")
) -> Result:
    """The table of devices, as some machine would have measured it.

    Args:
        machine: Which.
        done: So many rungs are measured, and it goes on; None: it is finished.
        sides: What the two devices are called.
    """
    chance = random.Random(machine.title)
    rows: list[Row] = []
    for place, batch in enumerate((4, 64)):
        for model, epochs in EPOCHS.items():
            for side, seconds in zip(sides, epochs[place], strict=True):
                is_done = done is None or len(rows) < done
                rows.append(
                    _device_row(model, batch, side, _one(seconds, batch, chance, side) if is_done else None)
                )
    return Result(
        plan=Plan(
            kind=Kind.DEVICES,
            title="Five vision models, 1,000 images of 224 x 224",
            rungs=tuple(row.rung for row in rows),
            steps=STEPS,
            passes=1,
        ),
        machine=machine,
        begun=BEGUN + 86_400,
        ended=None if done is not None else BEGUN + 90_000,
        rows=tuple(rows),
        is_whole=done is None,
    )


def _device_row(model: str, batch: int, side: str, measured: Pass | None) -> Row:
    name = f"{model}-{batch}"
    asked = {
        "task": "image-classification",
        "model": {"source": f"torchvision:{model}"},
        "device": {"name": side.lower()},
        "memory": {"batch_size": batch},
    }
    rung = Rung(
        name=f"{name}-{side.lower()}",
        title=f"{VISION_TITLES[model]}, batch {batch}",
        asked=asked,
        group=name,
        side=side,
    )
    return Row(rung=rung, passes=() if measured is None else (measured,))


def updated_result() -> Result:
    """The ladder on the invented Mac a month later, with a newer torch: some of it faster, some slower."""
    machine = msgspec.structs.replace(MAC, versions={**MAC.versions, "torch": "2.14.0"})
    faster = {"bf16": 1.11, "bf16-sdpa": 1.14, "bf16-compile": 1.32, "bf16-lora": 1.09, "adafactor": 0.91}
    return methods_result(machine, faster=faster, begun=BEGUN + 30 * 86_400)


def _one(seconds: float, batch: int, chance: random.Random, side: str) -> Pass:
    load = 0.42 if side == "CPU" and 140 < seconds < 150 else 0.03
    sample = Sample(
        device=side.lower(),
        seconds=_steps(seconds * batch / IMAGES, chance),
        samples_a_step=batch,
        rows=IMAGES,
        losses=(2.31, 2.28, 2.2),
        first_loss=2.3061 + (2e-7 if side == "CPU" else 0.0),
        is_random=True,
        parts=Parts(weights=45 << 20, gradients=45 << 20, activations=batch << 24, overhead=600 << 20),
        peak=(690 << 20) + (batch << 24),
    )
    return Pass(begun=BEGUN, sample=sample, surroundings=Surroundings(other_load=load))


def _rung(told: Told) -> Rung:
    return Rung(
        name=told.name,
        title=told.title,
        asked={"task": "text-classification", "memory": {"batch_size": 4}},
        changes=dict(told.changes),
        refusal=told.refusal,
    )


def _passes(told: Told, chance: random.Random, speed: float) -> tuple[Pass, ...]:
    if told.refusal:
        return ()
    if told.problem:
        return (Pass(begun=BEGUN, problem=told.problem),)
    return tuple(
        Pass(
            begun=BEGUN + 60 * number,
            sample=_sample(told, chance, speed),
            surroundings=Surroundings(
                other_load=told.other_load if number == 1 else 0.04,
                watts=31 + chance.random(),
                power_source="Apple",
                on_battery=False,
            ),
        )
        for number in range(PASSES)
    )


def _sample(told: Told, chance: random.Random, speed: float) -> Sample:
    sizes = [int(size * GB) for size in told.held]
    parts = Parts(
        weights=sizes[0],
        gradients=sizes[1],
        optimizer=sizes[2],
        activations=sizes[3],
        temporary=sizes[4],
        overhead=sizes[5],
    )
    return Sample(
        device="mps",
        seconds=_steps(told.seconds / speed, chance),
        compile_seconds=told.compile_seconds,
        samples_a_step=4,
        rows=ROWS,
        losses=(0.71, 0.69),
        first_loss=0.71,
        parts=parts,
        peak=parts.total,
    )


def _steps(seconds: float, chance: random.Random) -> tuple[float, ...]:
    return tuple(seconds * (1 + 0.05 * chance.random() ** 2) for _ in range(STEPS))
