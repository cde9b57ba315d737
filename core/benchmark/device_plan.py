"""The plan of a benchmark of devices: the same models on two devices, in two precisions or with two counts of threads.

The five vision models, batches of 4 and 64 and 1,000 images of 224 pixels are those of a much-read article on training
with an Apple M1 Max; models of texts are Hone's addition.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base.errors import OptionsError, Problem
from core.base.formats import counted
from core.base.language import _
from core.benchmark.plan import SIZES, VOCABULARY, Changes, Kind, Plan, cores_of, make_variant
from core.options import RunOptions
from core.options.choices import Optimizer, Padding, Precision, Schedule, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device, half_precision
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import (
    DIGITS,
    VISION_MODELS,
    Scheme,
    parse_synthetic,
    scheme_of,
    short_name,
    synthetic,
)
from core.options.validate import check_tree

CPU = "cpu"


class Sides(StrEnum):
    """In what the two sides differ."""

    DEVICES = "devices"
    PRECISIONS = "precisions"
    THREADS = "threads"


@dataclass(frozen=True)
class Side:
    """A label and the options it stands for."""

    label: str
    changes: Changes

    @property
    def device(self) -> str:
        return str(self.changes["device.name"]).partition(":")[0]


@dataclass(frozen=True)
class Pair:
    """The baseline and the other side. `reason` says why these, where Hone chose."""

    sides: Sides
    first: Side
    other: Side
    reason: str = ""

    @property
    def title(self) -> str:
        """`CPU against MPS`."""
        return _("{label} against {label_2}").format(label=self.first.label, label_2=self.other.label)

    @property
    def devices(self) -> set[str]:
        return {self.first.device, self.other.device}


def pair_of(machine: MachineReport, sides: Sides | None = None) -> Pair:
    """The pair that differs in `sides`; None: what suits the machine.

    That is the CPU and the accelerator; without one, precisions where the CPU has bf16 hardware, else threads.
    """
    cpu = cpu_of(machine)
    cores = cores_of(cpu)
    has_accelerator = machine.automatic not in ("", CPU)
    if sides is Sides.DEVICES or (sides is None and has_accelerator):
        others = (device.name for device in machine.devices if device.name != CPU)
        name = machine.automatic if has_accelerator else next(others, "cuda")
        return Pair(Sides.DEVICES, _side("CPU", CPU), _side(name.partition(":")[0].upper(), name))
    if sides is None:
        precision = cpu.automatic.get("device.precision")
        has_bf16 = precision is not None and precision.value == Precision.BF16
        chosen = pair_of(machine, Sides.PRECISIONS if has_bf16 or cores == 1 else Sides.THREADS)
        has = "has" if has_bf16 else _("has no")
        return replace(chosen, reason=f"There is no accelerator, and this processor {has} bf16 hardware.")
    if sides is Sides.PRECISIONS:
        device = find_device(machine, "auto") or cpu
        half = half_precision(device) or Precision.BF16
        return Pair(sides, _side("fp32", device.name), _side(half.value, device.name, half))
    return Pair(sides, _threads(1), _threads(max(2, cores)))


def cpu_of(machine: MachineReport) -> DeviceReport:
    return find_device(machine, CPU) or DeviceReport(name=CPU, title="CPU", available=True)


def _side(label: str, device: str, precision: Precision = Precision.FP32) -> Side:
    return Side(label, {"device.name": device, "device.precision": precision.value})


def _threads(count: int) -> Side:
    changes = _side("", CPU).changes
    return Side(counted(count, "thread"), {**changes, "device.threads": count})


# --- The plan


ARTICLE = ("vgg16", "alexnet", "resnet18", "mobilenet_v2", "efficientnet_b0")
TEXTS = ("minilm", "bert-base")
MANY_CORES = 8
"""With fewer cores and no accelerator, a step of BERT-base on 64 texts takes a minute."""

IMAGES, BATCHES = 1000, (4, 64)
PIXELS, TOKENS = 224, 128
DIGITS_THERE_ARE = 1797

IMAGES_PER_CORE = 16
"""Images timed per core where a CPU is one of the sides: 128 on 8 cores, about a minute of VGG-16."""

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
    """The plan for this machine; takes milliseconds.

    Args:
        machine: What it can train on.
        models: Names of torchvision's models or of `SIZES`; None: the article's five, and those of texts.
        batches: Batch sizes; each model is measured with each.
        images: Images, or texts, of an epoch.
        data: A file or folder of images such as MNIST's; None: the digits that come with Hone.
        steps: Timed steps at most; None: an epoch, or what is quick where a CPU is one of the sides.
        passes: How often each is measured.
        sides: In what the sides differ; None: what suits this machine.

    Raises:
        OptionsError: There is no such model, or `data` can't be read.
    """
    pair = pair_of(machine, sides)
    names = tuple(models) if models is not None else default_models(machine, pair)
    source = DIGITS if not data else data if scheme_of(data) else str(Path(data).expanduser().absolute())
    _check(names, source)
    limit = IMAGES_PER_CORE * max(2, cores_of(cpu_of(machine))) if CPU in pair.devices else sys.maxsize
    variants = []
    for name in names:
        for batch in batches:
            plain = _plain(name, batch, images, source)
            rows = _epoch(plain)
            few = (
                _("a batch of {batch:,} is more than the {rows:,} there are").format(batch=batch, rows=rows)
                if batch > rows
                else ""
            )
            epoch = max(FEWEST_STEPS, rows // batch)  # the last, smaller batch of an epoch is not timed
            variants += [
                make_variant(
                    plain,
                    machine,
                    f"{name}-{batch}-{side.label.lower().replace(' ', '-')}",
                    _("{name}, batch {batch}").format(name=title_of(name), batch=batch),
                    side.changes,
                    refusal=few,
                    group=f"{name}-{batch}",
                    side=side.label,
                    steps=min(steps or max(FEWEST_STEPS, limit // batch), epoch),
                )
                for side in (pair.first, pair.other)
            ]
    kinds = {name in SIZES for name in names}
    noun = "row" if len(kinds) > 1 else "text" if True in kinds else "image"
    there = min(images, DIGITS_THERE_ARE) if noun == "image" and source == DIGITS else images
    listed = " and ".join(filter(None, (", ".join(map(str, batches[:-1])), str(batches[-1]))))
    return Plan(
        kind=Kind.DEVICES,
        title=_("{title}: epochs of {there}, batches of {listed}").format(
            title=pair.title, there=counted(there, noun), listed=listed
        ),
        variants=tuple(variants),
        steps=max((variant.steps or 0 for variant in variants), default=0),
        passes=passes,
        warm_up=2 if "cuda" in pair.devices else 1,
        notes=tuple(_notes(pair, names, images, source)),
    )


def title_of(name: str) -> str:
    return VISION_MODELS[name].title if name in VISION_MODELS else SIZES[name].title


def default_models(machine: MachineReport, pair: Pair) -> tuple[str, ...]:
    is_fast = pair.devices != {CPU} or cores_of(cpu_of(machine)) >= MANY_CORES
    return (*ARTICLE, *(TEXTS if is_fast else TEXTS[:1]))


def _epoch(plain: RunOptions) -> int:
    """Rows of an epoch, as far as known before the data is read."""
    random, most = parse_synthetic(plain.data.train), plain.data.max_train_samples
    there = random[0] if random else DIGITS_THERE_ARE if plain.data.train == DIGITS else sys.maxsize
    return min(most or there, there)


def _plain(name: str, batch: int, images: int, source: str) -> RunOptions:
    if name in SIZES:
        return RunOptions(
            task=Task.TEXT_CLASSIFICATION,
            model=ModelOptions(source=SIZES[name].source, vocabulary=VOCABULARY),
            data=DataOptions(
                train=synthetic(images, TOKENS), max_length=TOKENS, padding=Padding.FIXED, eval_fraction=0.0
            ),
            memory=MemoryOptions(batch_size=batch),
        )
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False),
        data=DataOptions(train=source, max_train_samples=images, image_size=PIXELS, eval_fraction=0.0),
        memory=MemoryOptions(batch_size=batch),
        training=TrainingOptions(
            optimizer=Optimizer.ADAM, learning_rate=1e-3, schedule=Schedule.CONSTANT
        ),  # as in the article
    )


def _check(names: Sequence[str], source: str) -> None:
    known = (*VISION_MODELS, *SIZES)
    problems = [
        Problem("models", f"no model called {name!r} is timed; there are {', '.join(known)}")
        for name in names
        if name not in known
    ]
    problems += check_tree(msgspec.to_builtins(_plain(ARTICLE[0], 1, 1, source)))[1]
    folder = Path(source)
    if not problems and not scheme_of(source) and folder.is_dir() and not any(folder.iterdir()):
        problems.append(Problem("data", f"there is nothing in {source}; name a file or folder with images"))
    if problems:
        raise OptionsError(tuple(problems), _("The benchmark"))


def _notes(pair: Pair, names: Sequence[str], images: int, source: str) -> Iterator[str]:
    if pair.reason:
        yield pair.reason
    if set(names) - set(SIZES):
        size = f"{PIXELS} x {PIXELS} pixels"
        some = "all" if images >= DIGITS_THERE_ARE else _("the first {images:,} of the").format(images=images)
        if source == DIGITS:
            yield (
                f"Images are {some} 1,797 handwritten digits that come with Hone, enlarged to {size}. The article's "
                "are MNIST's; what an image shows doesn't change the time."
            )
        else:
            yield _("Images are the first {images:,} of {source}, at {size}.").format(
                images=images, source=short_name(source), size=size
            )
        yield (
            _(
                "As in the article, Adam trains at 1e-3. Weights are random, where the article's were pretrained: "
                "the time of a step doesn't depend on them."
            )
        )
    if set(names) & set(SIZES):
        yield f"Texts are random sequences of {TOKENS} tokens; the weights of their models are random, too."
    yield _("The time of an epoch is computed from the timed steps.")
