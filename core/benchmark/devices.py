"""The benchmark of devices: the same models on two devices, in two precisions, or with two numbers of threads.

The five vision models, batches of 4 and 64 and 1,000 images of 224 pixels are those of a widely read article on
training with an Apple M1 Max; the text models are Hone's addition, and where MLX computes, one that writes text.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base.errors import OptionsError, Problem
from core.base.formats import counted, enumerated
from core.base.language import _
from core.benchmark.methods import SIZES, VOCABULARY
from core.benchmark.plan import OUTPUT, Benchmark, BenchmarkKind, Plan, cores_of, make_plan, make_row, there
from core.options import RunOptions
from core.options.catalogue import Changes, with_changes
from core.options.choices import Backend, Optimizer, Padding, Precision, Schedule, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, find_device, half_precision, has_mlx
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import (
    DIGITS,
    SCRATCH_MODELS,
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
    """What is compared."""

    DEVICES = "devices"
    PRECISIONS = "precisions"
    THREADS = "threads"


@dataclass(frozen=True)
class Pair:
    """The two settings that are compared.

    Attributes:
        settings: The options of each by its label, such as `CPU` and `MPS`; the first is the baseline.
        reason: Why they were chosen; empty if `sides` was given.
    """

    sides: Sides
    settings: Mapping[str, Changes]
    reason: str = ""

    @property
    def title(self) -> str:
        first, other = self.settings
        return _("{label} against {label_2}").format(label=first, label_2=other)

    @property
    def devices(self) -> set[str]:
        """The kinds of devices, such as `cpu` and `cuda`."""
        return {str(changes["device.name"]).partition(":")[0] for changes in self.settings.values()}


def pair_of(machine: MachineReport, sides: Sides | None = None) -> Pair:
    """Returns the settings to compare on this machine.

    With `sides` None, these are the CPU and the accelerator; without an accelerator, two precisions if the CPU has
    bf16 instructions or a single core, otherwise two numbers of threads.
    """
    cpu, reason = cpu_of(machine), ""
    has_accelerator = machine.automatic not in ("", CPU)
    if sides is None and not has_accelerator:
        precision = cpu.automatic.get("device.precision")
        has_bf16 = precision is not None and precision.value == Precision.BF16
        sides = Sides.PRECISIONS if has_bf16 or cores_of(cpu) == 1 else Sides.THREADS
        if has_bf16:
            reason = _("There is no accelerator, and this processor has bf16 hardware.")
        else:
            reason = _("There is no accelerator, and this processor has no bf16 hardware.")
    if sides is Sides.PRECISIONS:
        device = find_device(machine, "auto") or cpu
        both = (Precision.FP32, half_precision(device) or Precision.BF16)
        return Pair(sides, {half.value: _setting(device.name, half) for half in both}, reason)
    if sides is Sides.THREADS:
        counts = (1, max(2, cores_of(cpu)))
        threads = {counted(count, "thread"): {**_setting(CPU), "device.threads": count} for count in counts}
        return Pair(sides, threads, reason)
    others = (device.name for device in machine.devices if device.name != CPU)
    name = machine.automatic if has_accelerator else next(others, "cuda")
    label = name.partition(":")[0].upper()
    return Pair(Sides.DEVICES, {"CPU": _setting(CPU), label: _setting(name)})


def cpu_of(machine: MachineReport) -> DeviceReport:
    return find_device(machine, CPU) or DeviceReport(name=CPU, title="CPU", available=True)


def _setting(device: str, precision: Precision = Precision.FP32, backend: Backend = Backend.TORCH) -> Changes:
    return {"device.name": device, "device.precision": precision.value, "device.backend": backend.value}


# --- The plan


ARTICLE = ("vgg16", "alexnet", "resnet18", "mobilenet_v2", "efficientnet_b0")
TEXTS = ("minilm", "bert-base")
LLAMA = "llama-medium"
SOURCES = {**{name: size.source for name, size in SIZES.items()}, LLAMA: Scheme.SCRATCH.of(LLAMA)}
"""The text models that can be timed: BERTs classify, Llama writes."""
MANY_CORES = 8
"""With fewer cores and no accelerator, a step of BERT-base on 64 texts takes a minute."""

IMAGES, BATCHES = 1000, (4, 64)
PIXELS, TOKENS = 224, 128
COUNT_OF_DIGITS = 1797

IMAGES_PER_CORE = 16
"""Images timed per core of a CPU: 128 on 8 cores, about a minute of VGG-16."""

MIN_STEPS = 3
"""For a median, and losses to compare."""


def devices_plan(
    machine: MachineReport,
    *,
    models: Sequence[str] | None = None,
    batches: Sequence[int] = BATCHES,
    images: int = IMAGES,
    data: str | None = None,
    computer: str = "",
    steps: int | None = None,
    sides: Sides | None = None,
) -> Plan:
    """Plans the benchmark for this machine, which takes milliseconds.

    Args:
        models: Names of torchvision models or of `SIZES`. Default: the article's five and the text models.
        batches: Batch sizes; each model is measured with each.
        images: Number of images, or texts, per epoch.
        data: An image file or folder, such as MNIST's. Default: the digits that come with Hone.
        computer: The name of another computer; empty: this one.
        steps: Maximum number of timed steps. Default: one epoch, or fewer if the CPU is measured.
        sides: What is compared. Default: what suits this machine.

    Raises:
        OptionsError: There is no such model, or `data` can't be read.
    """
    machine = there(machine, computer)
    pair = pair_of(machine, sides)
    names = tuple(models) if models is not None else default_models(machine, pair)
    source = DIGITS if not data else data if scheme_of(data) else str(Path(data).expanduser().absolute())
    _check(names, source)
    limit = IMAGES_PER_CORE * max(2, cores_of(cpu_of(machine))) if CPU in pair.devices else sys.maxsize
    warm_up = 2 if "cuda" in pair.devices else 1
    made = []
    for name in names:
        for batch in batches:
            baseline = _baseline(name, batch, images, source)
            rows = rows_of_epoch(baseline)
            refusal = _("a batch of {batch:,} is more than the {rows:,} examples there are")
            epoch = max(MIN_STEPS, rows // batch)  # the last, smaller batch of an epoch is not timed
            timed = min(steps or max(MIN_STEPS, limit // batch), epoch)
            baseline = with_changes(baseline, {"training.max_steps": warm_up + timed})
            made += [
                make_row(
                    baseline,
                    machine,
                    f"{name}-{batch}-{label.lower().replace(' ', '-')}",
                    _("{name}, batch {batch}").format(name=title_of(name), batch=batch),
                    changes,
                    refusal=refusal.format(batch=batch, rows=rows) if batch > rows else "",
                    group=f"{name}-{batch}",
                    side=label,
                )
                for label, changes in _settings(machine, pair, name).items()
            ]
    is_text = {name in SOURCES for name in names}
    noun = "example" if len(is_text) > 1 else "text" if True in is_text else "image"
    count = min(images, COUNT_OF_DIGITS) if noun == "image" and source == DIGITS else images
    listed = enumerated(map(str, batches))
    benchmark = Benchmark(
        kind=BenchmarkKind.DEVICES,
        name=pair.title,
        title=_("{title}: epochs of {there}, batch sizes {listed}").format(
            title=pair.title, there=counted(count, noun), listed=listed
        ),
        rows=tuple(row for row, _options in made),
        warm_up=warm_up,
        notes=tuple(_notes(pair, names, images, source)),
        has_published=bool(set(names) & set(ARTICLE)),
    )
    return make_plan(benchmark, {row.name: one for row, one in made}, computer)


def _settings(machine: MachineReport, pair: Pair, name: str) -> Mapping[str, Changes]:
    """Returns the settings that a model is measured with: MLX trains only what writes text."""
    device = find_device(machine, "auto")
    if pair.sides is not Sides.DEVICES or name != LLAMA or device is None or not has_mlx(device):
        return pair.settings
    return {**pair.settings, "MLX": _setting(device.name, backend=Backend.MLX)}


def title_of(name: str) -> str:
    if name == LLAMA:
        return SCRATCH_MODELS[LLAMA].title
    return VISION_MODELS[name].title if name in VISION_MODELS else SIZES[name].title


def models_of(machine: MachineReport) -> tuple[str, ...]:
    """Returns the models that are offered."""
    device = find_device(machine, "auto")
    return (*ARTICLE, *TEXTS, *((LLAMA,) if device is not None and has_mlx(device) else ()))


def default_models(machine: MachineReport, pair: Pair) -> tuple[str, ...]:
    is_fast = pair.devices != {CPU} or cores_of(cpu_of(machine)) >= MANY_CORES
    return models_of(machine) if is_fast else (*ARTICLE, TEXTS[0])


def rows_of_epoch(options: RunOptions) -> int:
    """Returns the number of rows per epoch, as far as known before the data is read."""
    random, limit = parse_synthetic(options.data.train), options.data.max_train_samples
    count = random[0] if random else COUNT_OF_DIGITS if options.data.train == DIGITS else sys.maxsize
    return min(limit or count, count)


def _baseline(name: str, batch: int, images: int, source: str) -> RunOptions:
    memory = MemoryOptions(batch_size=batch)
    if name in SOURCES:
        texts = synthetic(images, TOKENS)
        return RunOptions(
            task=Task.CAUSAL_LM if name == LLAMA else Task.TEXT_CLASSIFICATION,
            model=ModelOptions(source=SOURCES[name], vocabulary=VOCABULARY),
            data=DataOptions(train=texts, max_length=TOKENS, padding=Padding.FIXED, eval_fraction=0.0),
            memory=memory,
            output=OUTPUT,
        )
    as_in_article = TrainingOptions(optimizer=Optimizer.ADAM, learning_rate=1e-3, schedule=Schedule.CONSTANT)
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False),
        data=DataOptions(train=source, max_train_samples=images, image_size=PIXELS, eval_fraction=0.0),
        memory=memory,
        training=as_in_article,
        output=OUTPUT,
    )


def _check(names: Sequence[str], source: str) -> None:
    known = (*VISION_MODELS, *SOURCES)
    problems = [
        Problem("models", f"no model called {name!r} is timed; there are {', '.join(known)}")
        for name in names
        if name not in known
    ]
    problems += check_tree(msgspec.to_builtins(_baseline(ARTICLE[0], 1, 1, source)))[1]
    folder = Path(source)
    if not problems and not scheme_of(source) and folder.is_dir() and not any(folder.iterdir()):
        problems.append(Problem("data", f"there is nothing in {source}; name a file or folder with images"))
    if problems:
        raise OptionsError(tuple(problems), _("The benchmark"))


def _notes(pair: Pair, names: Sequence[str], images: int, source: str) -> Iterator[str]:
    if pair.reason:
        yield pair.reason
    if set(names) - set(SOURCES):
        size = _("{pixels} x {pixels} pixels").format(pixels=PIXELS)
        if source != DIGITS:
            words = _("Images are the first {images:,} of {source}, at {size}.")
        elif images >= COUNT_OF_DIGITS:
            words = _(
                "Images are all {count:,} handwritten digits that come with Hone, enlarged to {size}. The article's "
                "are MNIST's; what an image shows doesn't change the time."
            )
        else:
            words = _(
                "Images are the first {images:,} of the {count:,} handwritten digits that come with Hone, enlarged to "
                "{size}. The article's are MNIST's; what an image shows doesn't change the time."
            )
        yield words.format(images=images, count=COUNT_OF_DIGITS, source=short_name(source), size=size)
        yield _(
            "As in the article, Adam trains at 1e-3. Weights are random, where the article's were pretrained: "
            "the time of a step doesn't depend on them."
        )
    if set(names) & set(SOURCES):
        words = _(
            "Texts are random sequences of {tokens} tokens; the weights of their models are random, too."
        )
        yield words.format(tokens=TOKENS)
    yield _("The time of an epoch is computed from the timed steps.")
