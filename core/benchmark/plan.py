"""The plan of a benchmark: the variants that are measured; and the benchmark of methods.

Its variants are those of transformers' guide "Efficient training on a single GPU" and some of Hone's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from core.base import formats
from core.base.errors import Fix, OptionsError, Problem
from core.base.language import _
from core.memory.model import Room, Verdict, verdict
from core.monitor.device_memory import room_of
from core.options import RunOptions, Tree
from core.options.catalogue import all_options, options_by_path, value_of, with_changes
from core.options.choices import Attention, DeepSpeed, Method, Optimizer, Padding, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    caution,
    find_device,
    half_precision,
    machine_problems,
    text_of,
)
from core.options.method_rules import LARGEST_RATE
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import Scheme, ScratchModel, scratch_model, short_name, synthetic
from core.options.validate import check_tree

Changes = Mapping[str, Any]
"""Values of options by path, such as `{"device.precision": "bf16"}`."""


class Kind(StrEnum):
    """What is compared: methods on one device, or devices."""

    METHODS = "methods"
    DEVICES = "devices"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is measured; a row of the result.

    Attributes:
        name: Stable identifier, such as `bf16` or `resnet18-4-cpu`, by which results are compared.
        asked: All options as builtins.
        changes: The options by path that differ from the first variant.
        note: What has to be known to read the figures.
        refusal: Why this machine can't run it; empty if it can.
        group: Model and batch size of a benchmark of devices; the first variant of a group is its baseline.
        side: The setting that is compared within a group: `CPU`, `MPS`, `1 thread`, `bf16`. Empty for methods.
        steps: Number of timed steps; None: the plan's.
    """

    name: str
    title: str
    asked: Tree
    changes: dict[str, Any] = {}
    note: str = ""
    refusal: str = ""
    group: str = ""
    side: str = ""
    steps: int | None = None

    @property
    def batch(self) -> int | None:
        size = self.asked.get("memory", {}).get("batch_size")
        return size if isinstance(size, int) else None


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename={"variants": "rungs"}):
    """What a benchmark measures.

    Attributes:
        steps: Number of timed optimizer steps of each pass.
        passes: Number of measurements of each variant; all variants are measured before any is repeated (A B A B).
        warm_up: Number of steps before the timed ones.
        model: The chosen size, such as `bert-base`; empty if the options are a person's own.
    """

    kind: Kind
    title: str
    variants: tuple[Variant, ...]
    steps: int
    passes: int
    warm_up: int = 1
    model: str = ""
    notes: tuple[str, ...] = ()

    def steps_of(self, variant: Variant) -> int:
        return self.steps if variant.steps is None else variant.steps


def changed(options: RunOptions, changes: Changes) -> RunOptions:
    """Change options, and reset those that no longer apply, such as LoRA's rank, to their defaults."""
    options = with_changes(options, changes)
    unused = {option.path: option.default for option in all_options() if not option.applies_to(options)}
    return with_changes(options, unused)


def make_variant(
    baseline: RunOptions,
    machine: MachineReport,
    name: str,
    title: str,
    changes: Changes,
    *,
    data: Changes | None = None,
    note: str = "",
    refusal: str = "",
    **more: Any,
) -> Variant:
    """Create a variant of `baseline`, with the reason if the machine or the rules between options refuse it.

    `data` are options of the data that the method needs, which don't count as `changes`. Cautions about the device are
    appended to `note`. `more` are other fields of `Variant`.
    """
    options = changed(baseline, {**changes, **(data or {})})
    device = find_device(machine, options.device.name)
    cautions = [caution(device, path, value_of(options, path)) for path in changes] if device else []
    reasons = dict.fromkeys(_in_full(options, problem) for problem in _problems(machine, options))
    return Variant(
        name=name,
        title=title,
        asked=msgspec.to_builtins(options),
        changes=dict(changes),
        note=" ".join(filter(None, (note, *cautions))),
        refusal=refusal or "; ".join(reasons),
        **more,
    )


def _problems(machine: MachineReport, options: RunOptions) -> tuple[Problem, ...]:
    return (*check_tree(msgspec.to_builtins(options))[1], *machine_problems(machine, options))


def _in_full(options: RunOptions, problem: Problem) -> str:
    """The message of a problem, preceded by the value if a form would show it next to the value."""
    if problem.message.startswith(("is ", "moves ")):
        return f"{text_of(value_of(options, problem.path))} {problem.message}"
    return problem.message


# --- Sizes of BERT, built from their config


VOCABULARY, POSITIONS, LABELS = 30_522, 512, 2

CPU_FLOPS = 35e9
"""FLOPS that a core reaches in a plain fp32 step, roughly; measured on two cores of a server."""

OVERHEAD = 1 << 30
"""Bytes of a process besides its tensors: PyTorch, and on a GPU its libraries."""

LONGEST_CPU_STEP = 4.0
"""Seconds. With longer steps, sixteen variants in three passes take hours."""


@dataclass(frozen=True)
class Size:
    """A model of a certain size; `source` is for `model.source`."""

    name: str
    title: str
    source: str

    @property
    def built(self) -> ScratchModel:
        model = scratch_model(self.source)
        assert model is not None
        return model

    @property
    def parameters(self) -> int:
        """The number of weights, with a head for two labels."""
        return self.built.parameters(VOCABULARY, POSITIONS) + LABELS * (self.built.hidden + 1)

    def bytes(self, rows: int, length: int, kind: str) -> int:
        """Approximate memory of a plain run (fp32, AdamW, eager attention) on a kind of device, in bytes.

        Weights, gradients, AdamW's two moments, and activations per layer as in V. Korthikanti et al., Reducing
        Activation Recomputation in Large Transformer Models, 2022, section 4.1, in fp32 and with dropout's masks.
        """
        model, tokens, mask = self.built, rows * length, 1 if kind == "cuda" else 4
        linear = tokens * ((32 + 2 * mask) * model.hidden + 8 * model.inner)
        attention = tokens * length * model.heads * (8 + mask)
        return OVERHEAD + 16 * self.parameters + model.layers * (linear + attention)

    def flops(self, rows: int, length: int) -> float:
        """FLOPs of a step on `rows` rows of `length` tokens.

        6 per weight and token, and 12 per pair of tokens, width and layer in attention (J. Kaplan et al., Scaling Laws
        for Neural Language Models, 2020, table 1).
        """
        model, tokens = self.built, rows * length
        weights = model.layers * (4 * model.hidden**2 + 2 * model.hidden * model.inner)
        return 6.0 * weights * tokens + 12.0 * model.layers * tokens * length * model.hidden


SIZES = {
    name: Size(name, title, Scheme.SCRATCH.of(source))
    for name, title, source in (
        ("bert-large", "BERT-large", "bert-large"),
        ("bert-base", "BERT-base", "bert-base"),
        ("minilm", _("MiniLM size"), "minilm"),
        ("tiny", "BERT-tiny", "bert-tiny"),
    )
}
"""By name, largest first."""


def choose_size(plain: RunOptions, device: DeviceReport, room: Room | None) -> tuple[Size, str]:
    """The largest size whose plain run fits, with steps of tolerable length on a CPU; and the reason as a sentence."""
    free = _(", and {free} are free").format(free=formats.memory(room.free)) if room else ""
    reason = ""
    for size in SIZES.values():
        needed = size.bytes(plain.effective_batch, plain.data.max_length, device.kind)
        memory = _("is estimated to take {needed}{free}").format(needed=formats.memory(needed), free=free)
        seconds = cpu_seconds(size, plain, device)
        if verdict(needed, room) not in (Verdict.FITS, Verdict.UNKNOWN):
            reason = f"{size.title} {memory}"
        elif seconds and seconds > LONGEST_CPU_STEP and size.name != "tiny":
            cores = formats.counted(cores_of(device), "core")
            reason = _("a plain step of {title} would take about {seconds:.0f} s on {cores}").format(
                title=size.title, seconds=seconds, cores=cores
            )
        elif reason:
            return size, _("{title} was chosen: {reason}.").format(title=size.title, reason=reason)
        elif room is None:
            return size, f"{size.title}, the guide's model, was chosen; the free memory isn't known."
        else:
            return size, _("{title}, the guide's model, {memory}.").format(title=size.title, memory=memory)
    return size, _("{title} is the smallest size, and {reason}.").format(title=size.title, reason=reason)


def cpu_seconds(size: Size, plain: RunOptions, device: DeviceReport) -> float | None:
    """Estimated duration of a plain step on a CPU; None for other devices."""
    if device.name != "cpu":
        return None
    return size.flops(plain.effective_batch, plain.data.max_length) / (CPU_FLOPS * cores_of(device))


def cores_of(device: DeviceReport) -> int:
    """The default number of threads of a CPU; 1 if unknown."""
    threads = device.automatic.get("device.threads")
    return int(threads.value) if threads is not None else 1


# --- The benchmark of methods


PLAIN: Changes = {
    "device.precision": Precision.FP32.value,
    "device.compile": False,
    "model.attention": Attention.EAGER.value,
    "memory.activation_checkpointing": False,
    "training.optimizer": Optimizer.ADAMW.value,
    "data.padding": Padding.FIXED.value,
}
WITHOUT_EXTRAS: Changes = {
    "memory.gradient_accumulation_steps": 1,
    "device.processes": 1,
    "memory.deepspeed": DeepSpeed.OFF.value,
    "memory.fsdp": False,
    "memory.offload_optimizer": False,
    "data.eval": None,
    "data.eval_split": None,
    "data.eval_fraction": 0.0,
    "training.max_steps": None,
}
"""Applied to a person's own options, too: one batch per step, one device, no evaluation."""

CHECKPOINTING: Changes = {"memory.activation_checkpointing": True}
ADAFACTOR: Changes = {"training.optimizer": Optimizer.ADAFACTOR.value}
ADAMW_8BIT: Changes = {"training.optimizer": Optimizer.ADAMW_8BIT.value}
LORA: Changes = {"model.method": Method.LORA.value}

SMALL = _("It trains small matrices, not the model.")
SHUFFLED = "Batches are shuffled; grouped by length, less would be padding."

MAX_ACCUMULATION = 16
"""Accumulation steps at most: 64 batches of one row would take hours."""

ROWS, BATCH = 512, 4
"""As in the guide: 512 sequences of 512 tokens, 4 per step."""

VARIED = synthetic(ROWS, POSITIONS, 64)
"""As many sequences of 64 to 512 tokens."""

STEPS = {"cuda": 20, "mps": 10, "cpu": 5}
"""Number of timed steps by device, where the duration of a step can't be estimated."""

CPU_SECONDS = 15.0
"""Target duration of the timed steps of a plain pass on a CPU."""

MIN_CPU_STEPS, MAX_CPU_STEPS = 4, 20


def methods_plan(
    machine: MachineReport,
    *,
    size: str | None = None,
    options: RunOptions | None = None,
    device: str = "auto",
    steps: int | None = None,
    passes: int = 3,
    with_compile: bool = True,
    room: Room | None = None,
) -> Plan:
    """Plan the benchmark for this machine, which takes milliseconds.

    Args:
        size: One of `SIZES`. Default: the largest that suits the machine.
        options: A person's own run, measured with its model and data instead of the guide's.
        device: As in `device.name`; `auto`: that of `options`, or the best one.
        steps: Number of timed steps per pass. Default: enough for a stable median.
        room: The free memory of the device. Default: it is read.

    Raises:
        OptionsError: There is no such size or device, or the plain run is refused.
    """
    plain = _own(options) if options is not None else _guides()
    plain = changed(plain, {"device.name": plain.device.name if device == "auto" else device})
    found = _device(machine, plain)
    plain = changed(plain, {"device.name": found.name})
    chosen: Size | None = None
    if options is not None:
        title = _("{source} on {train}").format(
            source=short_name(plain.model.source), train=short_name(plain.data.train)
        )
        notes = tuple(_notes_of_own(plain))
    else:
        chosen, reason = _size(size), ""
        if chosen is None:
            chosen, reason = choose_size(plain, found, room or room_of(found))
        plain = changed(plain, {"model.source": chosen.source})
        title = _("{title}, {rows} examples of {positions} tokens").format(
            title=chosen.title, rows=ROWS, positions=POSITIONS
        )
        notes = (*filter(None, (reason,)), *NOTES_OF_GUIDE)
    if problems := _problems(machine, plain):
        raise OptionsError(problems, _("The plain row"))
    kind = found.kind
    seconds = cpu_seconds(chosen, plain, found) if chosen else None
    if steps is None and seconds:
        steps = round(min(MAX_CPU_STEPS, max(MIN_CPU_STEPS, CPU_SECONDS / seconds)))
    return Plan(
        kind=Kind.METHODS,
        title=title,
        variants=tuple(
            _variants(plain, machine, found, with_compile=with_compile, is_guide=chosen is not None)
        ),
        steps=steps if steps is not None else STEPS.get(kind, STEPS["mps"]),
        passes=passes,
        warm_up=3 if kind == "cuda" else 1,  # CUDA's libraries try out kernels in the first steps
        model=chosen.name if chosen else "",
        notes=notes,
    )


def _variants(
    plain: RunOptions, machine: MachineReport, device: DeviceReport, *, with_compile: bool, is_guide: bool
) -> list[Variant]:
    """The variants that apply to the task and model; those that the machine can't run have a refusal."""
    variants: list[Variant] = []

    def applies(changes: Changes) -> bool:
        options = with_changes(plain, changes)
        return all(options_by_path()[path].applies_to(options) for path in changes)

    def add(name: str, title: str, changes: Changes, **more: Any) -> None:
        if applies(changes):
            variants.append(make_variant(plain, machine, name, title, changes, **more))

    half = (half_precision(device) or Precision.BF16).value
    lower: Changes = {"device.precision": half}
    batch = plain.memory.batch_size
    steps = max(count for count in range(1, MAX_ACCUMULATION + 1) if batch % count == 0)
    accumulated: Changes = {}
    if steps > 1:
        accumulated = {"memory.batch_size": batch // steps, "memory.gradient_accumulation_steps": steps}
    combined = {**lower, **accumulated, **CHECKPOINTING}

    # The guide's nine, in its order.
    add("plain", "plain", {path: value for path, value in PLAIN.items() if applies({path: value})})
    if accumulated:
        title = _("accumulation {batch} × {count}").format(batch=batch // steps, count=steps)
        add("accumulation", title, accumulated)
    title = "+ checkpointing" if accumulated else "checkpointing"
    add("checkpointing", title, {**accumulated, **CHECKPOINTING})
    add(half, half, lower)
    add(f"{half}-all", f"{half}{' + accumulation' if accumulated else ''} + checkpointing", combined)
    add("adafactor", "Adafactor", ADAFACTOR)
    add(f"{half}-all-adafactor", "all + Adafactor", {**combined, **ADAFACTOR})
    add("adamw-8bit", _("8-bit AdamW"), ADAMW_8BIT)
    add(f"{half}-all-adamw-8bit", _("all + 8-bit AdamW"), {**combined, **ADAMW_8BIT})

    # Hone's own.
    is_text = plain.task.reads_text
    own = {**lower, "model.attention": Attention.SDPA.value} if is_text else lower
    title = f"{half} + sdpa" if is_text else half
    add("tf32", "tf32", {"device.precision": Precision.TF32.value})
    if is_text:
        add(f"{half}-sdpa", f"{title} + fused", own)
    add(
        f"{half}-compile",
        "+ compile" if is_text else f"{title} + compile",
        {**own, "device.compile": True},
        note=_("Compiling is not included in these figures."),
        refusal="" if with_compile else _("left out as requested"),
    )
    # Grouped by length, the first batches of an epoch are the longest and unlike the others.
    lengths = {"data.group_by_length": Toggle.OFF.value, **({"data.train": VARIED} if is_guide else {})}
    texts = "Texts of 64 to 512 tokens; padded to 512 they would take as long as in the other rows. "
    add(
        f"{half}-padding",
        _("{title} + dynamic padding").format(title=title),
        {**own, "data.padding": Padding.DYNAMIC.value},
        data=lengths,
        note=f"{texts if is_guide else ''}{SHUFFLED}",
    )
    add(
        f"{half}-lean",
        f"{title} + checkpointing + Adafactor",
        {**own, **CHECKPOINTING, **ADAFACTOR},
        note=_("Whole batches: what the guide's leanest row saves, without accumulation."),
    )
    if plain.model.method is Method.FULL:
        lora, title = {**own, **LORA}, _("LoRA, {half}").format(half=half)
        add(f"{half}-lora", title, lora, note=SMALL)
        title = _("LoRA, {half} + checkpointing").format(half=half)
        add(f"{half}-lora-checkpointing", title, {**lora, **CHECKPOINTING}, note=SMALL)
    for count in _counts_of_processes(machine, device):
        note = _("Each process has a batch of {batch:,} and averages its gradients with the others (DDP).")
        add(
            f"processes-{count}",
            _("{count} processes").format(count=count),
            {"device.processes": count, "device.name": device.kind},
            note=note.format(batch=batch),
        )
    return variants


def _counts_of_processes(machine: MachineReport, device: DeviceReport) -> Iterator[int]:
    """2, 4, ...: as many as there are GPUs; on a processor at most 4, as they share its cores."""
    count, most = 2, min(4, cores_of(device)) if device.kind == "cpu" else 0
    if device.kind == "cuda":
        most = sum(one.available and one.kind == "cuda" for one in machine.devices)
    while count <= most:
        yield count
        count *= 2


def _guides() -> RunOptions:
    bare = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=SIZES["tiny"].source, vocabulary=VOCABULARY),
        data=DataOptions(train=synthetic(ROWS, POSITIONS), max_length=POSITIONS, eval_fraction=0.0),
        memory=MemoryOptions(batch_size=BATCH),
    )
    return changed(bare, PLAIN)


def _own(options: RunOptions) -> RunOptions:
    """A person's own options as a plain run with their model, data, batch size and method."""
    rate: Changes = {}
    if options.training.learning_rate > LARGEST_RATE:  # suits SGD only; it doesn't affect the time
        rate = {"training.learning_rate": TrainingOptions().learning_rate}
    return changed(options, {**WITHOUT_EXTRAS, **rate, **PLAIN})


def _device(machine: MachineReport, options: RunOptions) -> DeviceReport:
    found = find_device(machine, options.device.name)
    if found is None or not found.available:
        problems = tuple(  # a benchmark has no run file whose options a fix could set
            Problem(problem.path, problem.message, tuple(Fix(fix.label) for fix in problem.fixes))
            for problem in machine_problems(machine, options)
            if problem.path == "device.name"
        )
        raise OptionsError(problems, _("The benchmark"))
    return found


def _size(name: str | None) -> Size | None:
    if name is None or name in SIZES:
        return SIZES.get(name or "")
    fixes = tuple(Fix(_("Use {known}").format(known=known)) for known in SIZES)
    message = f"there is no size called {name!r}; there are {', '.join(SIZES)}"
    raise OptionsError((Problem("model", message, fixes),), _("The benchmark"))


NOTES_OF_GUIDE = (
    _(
        "Every row trains on {batch} examples per step, {batch} at once or one after the "
        "other, as in transformers' "
        "guide “Efficient training on a single GPU”."
    ).format(batch=BATCH),
    _(
        "The weights are random and made from the config alone: nothing is downloaded, and "
        "times don't depend on them."
    ),
    "Plain is what the guide ran: fp32, eager attention. AdamW is the fused one in every row; the guide's was slower.",
    "Half of the labels are 0 and half 1; the guide's own code gives every sequence 0.",
)


def _notes_of_own(plain: RunOptions) -> Iterator[str]:
    words = ["fp32", "AdamW", _("one batch per step")]
    if plain.task.reads_text:
        words.append(_("eager attention"))
    if plain.data.padding is Padding.FIXED:
        words.append(_("every example padded to the maximum length"))
    batch = plain.memory.batch_size
    yield _(
        "Model, data and batch size ({batch:,}) are your own, without evaluation. Plain is {words}."
    ).format(batch=batch, words=", ".join(words))
    if plain.model.method is not Method.FULL:
        yield _("Every row trains with the method of your run: {label}.").format(
            label=plain.model.method.label
        )
