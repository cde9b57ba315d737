"""The plan of the table of devices: the same models on two devices, in two precisions or with two counts of threads.

The five vision models, batches of 4 and 64 and 1,000 images of 224 pixels are those of a much-read article on training
with an Apple M1 Max; texts are Hone's addition.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from core.base import format as figures
from core.base.errors import OptionsError, Problem
from core.benchmark.plan import SIZES, VOCABULARY, Kind, Plan, Rung, Wanted, cores_of, make
from core.options import RunOptions
from core.options.choices import Optimizer, Padding, Precision, Schedule, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device, half_precision
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import (
    DIGITS,
    VISION_MODELS,
    VISION_TITLES,
    Scheme,
    parse_synthetic,
    scheme_of,
    short_name,
    synthetic,
)
from core.options.validate import check_tree

# --- What is held against each other in the table of devices: two devices, two precisions


CPU = "cpu"


class Sides(StrEnum):
    """In what the sides differ."""

    DEVICES = "devices"
    PRECISIONS = "precisions"
    THREADS = "threads"


@dataclass(frozen=True)
class Side:
    """One of them: what a person reads, and the options that make it."""

    label: str
    changes: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What names end in: `cpu`, `1-thread`."""
        return self.label.lower().replace(" ", "-")


@dataclass(frozen=True)
class Pair:
    """The first, which the other is held against, and why these."""

    first: Side
    other: Side
    reason: str = ""

    @property
    def title(self) -> str:
        """`CPU against MPS`."""
        return f"{self.first.label} against {self.other.label}"


def pair_of(machine: MachineReport, sides: Sides | None) -> Pair:
    """What is held against each other on a machine.

    Args:
        machine: What it can train on.
        sides: In what they are to differ; None: devices where there is an accelerator. Where there is none, precisions
            where the processor computes bf16 in hardware, else threads.
    """
    match sides:
        case Sides.DEVICES:
            return Pair(_device(CPU), _device(_accelerator(machine)))
        case Sides.PRECISIONS:
            return _precisions(machine)
        case Sides.THREADS:
            return _threads(machine)
        case None:
            return _automatic(machine)


def cpu_of(machine: MachineReport) -> DeviceReport:
    """What the machine says of its processor."""
    return find_device(machine, CPU) or DeviceReport(name=CPU, title="CPU", available=True)


def _automatic(machine: MachineReport) -> Pair:
    if machine.automatic and machine.automatic != CPU:
        return Pair(_device(CPU), _device(machine.automatic))
    cpu = cpu_of(machine)
    precision = cpu.automatic.get("device.precision")
    if precision is not None and precision.value == Precision.BF16:
        why = "which this processor computes in hardware"
        found = _precisions(machine)
    elif cores_of(cpu) > 1:
        why = "for this processor has no bf16 hardware"
        found = _threads(machine)
    else:
        return _precisions(machine)
    reason = f"There is no accelerator here: {found.first.label} is held against {found.other.label}, {why}."
    return Pair(found.first, found.other, reason)


def _accelerator(machine: MachineReport) -> str:
    """The best there is; where none is available, one of which the machine says why."""
    if machine.automatic and machine.automatic != CPU:
        return machine.automatic
    return next((device.name for device in machine.devices if device.name != CPU), "cuda")


def _device(name: str) -> Side:
    kind = name.partition(":")[0]
    return Side(kind.upper(), {"device.name": name, "device.precision": Precision.FP32.value})


def _precisions(machine: MachineReport) -> Pair:
    device = find_device(machine, "auto") or cpu_of(machine)
    half = half_precision(device) or Precision.BF16
    first, other = (
        Side(value.value, {"device.name": device.name, "device.precision": value.value})
        for value in (Precision.FP32, half)
    )
    return Pair(first, other)


def _threads(machine: MachineReport) -> Pair:
    first, other = (
        Side(
            figures.counted(count, "thread"),
            {"device.name": CPU, "device.precision": Precision.FP32.value, "device.threads": count},
        )
        for count in (1, max(2, cores_of(cpu_of(machine))))
    )
    return Pair(first, other)


# --- The plan of the table of devices: the same models on two devices


ARTICLE = ("vgg16", "alexnet", "resnet18", "mobilenet_v2", "efficientnet_b0")
"""In the article's order."""

TEXTS = ("minilm", "bert-base")
MANY_CORES = 8
"""With fewer, and no accelerator, a step of BERT-base on 64 texts takes a minute."""

IMAGES, BATCHES = 1000, (4, 64)
"""The article's, too."""

PIXELS, TOKENS = 224, 128
DIGITS_THERE_ARE = 1797
IMAGES_A_CORE = 16
"""So many are timed for each core where a CPU is one of the sides: 128 on 8 cores, about a minute of VGG-16."""

FEWEST_STEPS = 3
"""For a median, and as many losses to compare."""


def devices_plan(
    machine: MachineReport,
    *,
    models: Sequence[str] | None = None,
    batches: Sequence[int] = BATCHES,
    images: int = IMAGES,
    data: str | None = None,
    steps: int | None = None,
    passes: int = 1,
    sides: Sides | None = None,
) -> Plan:
    """The table for this machine. Takes milliseconds and asks no engine.

    Args:
        machine: What it can train on.
        models: Names of torchvision's models or of `SIZES`; None: the article's five, and those of texts.
        batches: Batch sizes; each model is measured with each.
        images: How many images, or texts, make an epoch.
        data: A file or folder with MNIST, or another source of images; None: the digits that come with Hone.
        steps: The most steps timed of each; None: an epoch, or what is quick where a CPU takes part.
        passes: How often each is measured.
        sides: In what the sides differ; None: what this machine has.

    Raises:
        OptionsError: There is no such model, or `data` can't be read.
    """
    pair = pair_of(machine, sides)
    names = tuple(models) if models is not None else default_models(machine, pair)
    source = _source(data)
    _refuse_unknown(names)
    _refuse_unreadable(source)
    limit = _limit(machine, pair)
    rungs = tuple(
        rung
        for name in names
        for batch in batches
        for rung in _group(machine, pair, _plain(name, batch, images, source), steps, limit)
    )
    return Plan(
        kind=Kind.DEVICES,
        title=f"{pair.title}: epochs of {_rows(names, images, source)}, batches of {_listed(batches)}",
        rungs=rungs,
        steps=max((rung.steps or 0 for rung in rungs), default=0),
        passes=passes,
        warm_up=2 if _kinds(pair) & {"cuda"} else 1,
        notes=tuple(_notes(pair, names, images, data)),
    )


def title_of(name: str) -> str:
    """What a model is called."""
    return VISION_TITLES.get(name) or SIZES[name].title


def default_models(machine: MachineReport, pair: Pair) -> tuple[str, ...]:
    """Those measured unless somebody says which: the article's, and models of texts that don't take for ever here."""
    can_wait = _kinds(pair) != {CPU} or cores_of(cpu_of(machine)) >= MANY_CORES
    return (*ARTICLE, *(TEXTS if can_wait else TEXTS[:1]))


def _group(
    machine: MachineReport, pair: Pair, plain: RunOptions, steps: int | None, limit: int
) -> Iterator[Rung]:
    batch, rows = plain.memory.batch_size, _epoch(plain)
    name = _name_of(plain)
    refusal = f"a batch of {batch:,} is more than the {rows:,} there are" if batch > rows else ""
    for side in (pair.first, pair.other):
        wanted = Wanted(
            f"{name}-{batch}-{side.key}",
            f"{title_of(name)}, batch {batch}",
            side.changes,
            refusal=refusal,
            group=f"{name}-{batch}",
            side=side.label,
            steps=_steps(batch, rows, steps, limit),
        )
        yield make(plain, wanted, machine)


def _plain(name: str, batch: int, images: int, source: str) -> RunOptions:
    """The run of a model, on no device yet."""
    memory = MemoryOptions(batch_size=batch)
    if name in SIZES:
        return RunOptions(
            task=Task.TEXT_CLASSIFICATION,
            model=ModelOptions(source=SIZES[name].source, vocabulary=VOCABULARY),
            data=DataOptions(
                train=synthetic(images, TOKENS), max_length=TOKENS, padding=Padding.FIXED, eval_fraction=0.0
            ),
            memory=memory,
        )
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False),
        data=DataOptions(train=source, max_train_samples=images, image_size=PIXELS, eval_fraction=0.0),
        memory=memory,
        training=TrainingOptions(
            optimizer=Optimizer.ADAM, learning_rate=1e-3, schedule=Schedule.CONSTANT
        ),  # as the article did
    )


def _name_of(plain: RunOptions) -> str:
    named = {size.source: size.name for size in SIZES.values()}
    return named.get(plain.model.source) or short_name(plain.model.source)


def _epoch(plain: RunOptions) -> int:
    """Rows of an epoch, as far as that is known before the data is read."""
    random, most = parse_synthetic(plain.data.train), plain.data.max_train_samples
    there = random[0] if random else DIGITS_THERE_ARE if plain.data.train == DIGITS else sys.maxsize
    return min(most or there, there)


def _source(data: str | None) -> str:
    if not data:
        return DIGITS
    return data if scheme_of(data) else str(Path(data).expanduser().absolute())


def _kinds(pair: Pair) -> set[str]:
    names = (str(side.changes["device.name"]) for side in (pair.first, pair.other))
    return {name.partition(":")[0] for name in names}


def _refuse_unknown(names: Sequence[str]) -> None:
    known = (*VISION_MODELS, *SIZES)
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"no model called {unknown[0]!r} is timed; there are {', '.join(known)}"
        raise OptionsError((Problem("models", message),), "The benchmark")


def _refuse_unreadable(source: str) -> None:
    _, found = check_tree(msgspec.to_builtins(_plain(ARTICLE[0], 1, 1, source)))
    if found:
        raise OptionsError(found, "The benchmark")
    folder = Path(source)
    if not scheme_of(source) and folder.is_dir() and not any(folder.iterdir()):
        message = f"there is nothing in {source}; name a file or folder with images"
        raise OptionsError((Problem("data", message),), "The benchmark")


def _limit(machine: MachineReport, pair: Pair) -> int:
    """How many rows are timed at most, unless somebody says how many steps."""
    if CPU not in _kinds(pair):
        return sys.maxsize
    return IMAGES_A_CORE * max(2, cores_of(cpu_of(machine)))


def _steps(batch: int, rows: int, asked: int | None, limit: int) -> int:
    """An epoch's, or as many as are quick, or as were asked for; the last, smaller batch of an epoch is not timed."""
    epoch = max(FEWEST_STEPS, rows // batch)
    return min(asked or max(FEWEST_STEPS, limit // batch), epoch)


def _rows(names: Sequence[str], images: int, source: str) -> str:
    kinds = {name in SIZES for name in names}
    if kinds == {False} and source == DIGITS:
        images = min(images, DIGITS_THERE_ARE)
    noun = "row" if len(kinds) > 1 else "text" if True in kinds else "image"
    return figures.counted(images, noun)


def _listed(batches: Sequence[int]) -> str:
    *first, last = map(str, batches)
    return f"{', '.join(first)} and {last}" if first else last


def _notes(pair: Pair, names: Sequence[str], images: int, data: str | None) -> Iterator[str]:
    if pair.reason:
        yield pair.reason
    if set(names) - set(SIZES):
        yield _note_of_images(images, data)
        yield (
            "As in the article, Adam learns at 1e-3. Weights are random, where the article's were pretrained: "
            "what a step takes doesn't depend on them."
        )
    if set(names) & set(SIZES):
        yield f"Texts are random sequences of {TOKENS} tokens, and the weights of their models are random, too."
    yield "An epoch is reckoned from the steps that were timed, and its last, smaller batch from the others."


def _note_of_images(images: int, data: str | None) -> str:
    size = f"{PIXELS} x {PIXELS} pixels"
    if data:
        return f"Images are the first {images:,} of {short_name(_source(data))}, at {size}."
    there = "all 1,797" if images >= DIGITS_THERE_ARE else f"the first {images:,} of the 1,797"
    return (
        f"Images are {there} handwritten digits that come with Hone, enlarged to {size}. The article's are MNIST's; "
        "what an image shows changes nothing about time."
    )
