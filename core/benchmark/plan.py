"""What a benchmark measures: variants of a run, how often and in which order. The plan of the ladder of methods.

The ladder is that of transformers' guide "Efficient training on a single GPU" and some more of Hone's own.
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
from core.options import RunOptions, Tree
from core.options.catalogue import all_options, options_by_path, value_of, with_changes
from core.options.choices import Attention, DeepSpeed, Method, Optimizer, Padding, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.device_support import (
    LORA_RATE,
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
from core.services.memory import room_of

Changes = Mapping[str, Any]
"""Values of options by path."""


class Kind(StrEnum):
    """Which benchmark: of methods on one device, or of devices."""

    METHODS = "methods"
    DEVICES = "devices"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is measured; a row of the result.

    `name` is stable, such as `bf16` or `resnet18-4-cpu`: results are compared by it. `asked` are all options as plain
    values, `changes` those by path that set it apart from the first variant. `note` is needed to read its figures,
    `refusal` says why this machine can't run it.

    Variants of one `group` (a model and its batch) differ by their `side` (`CPU`, `MPS`, `1 thread`, `bf16`); the
    first of a group is the baseline of the others. Both are empty for methods, whose baseline is the first variant.

    `steps` are timed in place of the plan's; None: the plan's.
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
    """A whole benchmark.

    Each variant is measured `passes` times, all of them once before the first is measured again (A B A B), `steps`
    optimizer steps each after `warm_up` steps. `notes` say how the plan came about. `model` is the size that was
    chosen, such as `bert-base`; empty: the run is the person's own.
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
    """`options` with `changes`; options that no longer apply, such as LoRA's rank, get their defaults."""
    found = with_changes(options, changes)
    idle = {option.path: option.default for option in all_options() if not option.applies_to(found)}
    return with_changes(found, idle)


def make_variant(
    plain: RunOptions,
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
    """`plain` with `changes` and other `data`, with the refusal of the machine or of the rules between options."""
    options = changed(plain, {**changes, **(data or {})})
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
    """A message that a form shows behind the chosen value, with that value."""
    if problem.message.startswith(("is ", "moves ")):
        return f"{text_of(value_of(options, problem.path))} {problem.message}"
    return problem.message


# --- Sizes of models, built from their config


VOCABULARY, POSITIONS, LABELS = 30_522, 512, 2

CPU_FLOPS = 35e9
"""FLOPS a core reaches in a plain fp32 step, roughly; measured on two cores of a server."""

OVERHEAD = 1 << 30
"""Bytes of a process with PyTorch beside the tensors, on a GPU with its libraries."""

LONGEST_CPU_STEP = 4.0
"""Seconds. With longer steps sixteen variants in three passes take hours."""


@dataclass(frozen=True)
class Size:
    """A model by its name: its title and `model.source`."""

    name: str
    title: str
    source: str

    @property
    def built(self) -> ScratchModel:
        found = scratch_model(self.source)
        assert found is not None
        return found

    @property
    def parameters(self) -> int:
        """Of the model with a head for two labels."""
        return self.built.parameters(VOCABULARY, POSITIONS) + LABELS * (self.built.hidden + 1)

    def bytes(self, rows: int, length: int, kind: str) -> int:
        """Memory of a plain run (fp32, AdamW, eager attention) on a kind of device, roughly.

        Weights, gradients and AdamW's two moments; activations counted per layer as by V. Korthikanti et al., Reducing
        Activation Recomputation in Large Transformer Models, 2022, section 4.1, in fp32 and with dropout's masks.
        """
        model, tokens, mask = self.built, rows * length, 1 if kind == "cuda" else 4
        linear = tokens * ((32 + 2 * mask) * model.hidden + 8 * model.inner)
        attention = tokens * length * model.heads * (8 + mask)
        return OVERHEAD + 16 * self.parameters + model.layers * (linear + attention)

    def flops(self, rows: int, length: int) -> float:
        """FLOPs of a step on so many rows of so many tokens.

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
"""By name, the largest first."""


def choose_size(plain: RunOptions, device: DeviceReport, room: Room | None) -> tuple[Size, str]:
    """The largest size whose plain run fits, with steps of bearable length on a CPU; and the reason in a sentence."""
    free = _(", and {free} are free").format(free=formats.memory(room.free)) if room else ""
    reason = ""
    for size in SIZES.values():
        needed = size.bytes(plain.effective_batch, plain.data.max_length, device.name.partition(":")[0])
        memory = _("is forecast to take {needed}{free}").format(needed=formats.memory(needed), free=free)
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
    """Estimated time of a plain step on a CPU; None for other devices."""
    if device.name != "cpu":
        return None
    return size.flops(plain.effective_batch, plain.data.max_length) / (CPU_FLOPS * cores_of(device))


def cores_of(device: DeviceReport) -> int:
    """Threads a CPU computes with by default; 1 if unknown."""
    found = device.automatic.get("device.threads")
    return int(found.value) if found is not None else 1


# --- The ladder of methods


PLAIN: Changes = {
    "device.precision": Precision.FP32.value,
    "device.compile": False,
    "model.attention": Attention.EAGER.value,
    "memory.activation_checkpointing": False,
    "training.optimizer": Optimizer.ADAMW.value,
    "data.padding": Padding.FIXED.value,
}
NOT_MODEL_OR_DATA: Changes = {
    "memory.gradient_accumulation_steps": 1,
    "memory.deepspeed": DeepSpeed.OFF.value,
    "memory.offload_optimizer": False,
    "data.eval": None,
    "data.eval_split": None,
    "data.eval_fraction": 0.0,
    "training.max_steps": None,
}
"""Reset in a person's own options as well: one batch per step, one device, no evaluation."""

CHECKPOINTING: Changes = {"memory.activation_checkpointing": True}
ADAFACTOR: Changes = {"training.optimizer": Optimizer.ADAFACTOR.value}
ADAMW_8BIT: Changes = {"training.optimizer": Optimizer.ADAMW_8BIT.value}
LORA: Changes = {"model.method": Method.LORA.value, "training.learning_rate": LORA_RATE}

SMALL = _("It trains small matrices, not the model.")
SHUFFLED = "Batches are shuffled; grouped by length, less would be padding."

MOST_PIECES = 16
"""Batches a batch is divided into for accumulation, at most: 64 batches of one would be measured for hours."""

ROWS, BATCH = 512, 4
"""The guide's: 512 sequences of 512 tokens, 4 per step."""

MIXED = synthetic(ROWS, POSITIONS, 64)
"""As many sequences of 64 to 512 tokens."""

STEPS = {"cuda": 20, "mps": 10, "cpu": 5}
"""Timed steps by device, where the time of a step can't be estimated."""

CPU_SECONDS = 15.0
"""Target for the timed steps of a plain pass on a CPU."""

FEWEST_CPU_STEPS, MOST_CPU_STEPS = 4, 20


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
    """The ladder for this machine; takes milliseconds.

    Args:
        machine: What it can train on.
        size: One of `SIZES`; None: the largest that suits the machine.
        options: The person's own run, measured on its own data, in place of the guide's.
        device: As in `device.name`; `auto`: that of `options`, or the machine's best.
        steps: Timed steps per pass; None: enough for a steady median.
        passes: How often each variant is measured.
        with_compile: Whether the compiled variant is measured.
        room: The free memory of the device; None: read it.

    Raises:
        OptionsError: There is no such size or device, or the plain run is refused.
    """
    asked = _own(options) if options is not None else _guides()
    asked = changed(asked, {"device.name": asked.device.name if device == "auto" else device})
    found = _device(machine, asked)
    plain = changed(asked, {"device.name": found.name})
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
        title = _("{title}, {rows} sequences of {positions} tokens").format(
            title=chosen.title, rows=ROWS, positions=POSITIONS
        )
        notes = (*filter(None, (reason,)), *NOTES_OF_GUIDE)
    if problems := _problems(machine, plain):
        raise OptionsError(problems, _("The plain row"))
    kind = found.name.partition(":")[0]
    seconds = cpu_seconds(chosen, plain, found) if chosen else None
    if steps is None and seconds:
        steps = round(min(MOST_CPU_STEPS, max(FEWEST_CPU_STEPS, CPU_SECONDS / seconds)))
    return Plan(
        kind=Kind.METHODS,
        title=title,
        variants=tuple(
            _ladder(plain, machine, found, with_compile=with_compile, is_guide=chosen is not None)
        ),
        steps=steps if steps is not None else STEPS.get(kind, STEPS["mps"]),
        passes=passes,
        warm_up=3 if kind == "cuda" else 1,  # CUDA's libraries try out kernels in the first steps
        model=chosen.name if chosen else "",
        notes=notes,
    )


def _ladder(
    plain: RunOptions, machine: MachineReport, device: DeviceReport, *, with_compile: bool, is_guide: bool
) -> list[Variant]:
    """The variants that mean something for this task and model; what the machine can't do is refused in them."""
    found: list[Variant] = []

    def applies(changes: Changes) -> bool:
        options = with_changes(plain, changes)
        return all(options_by_path()[path].applies_to(options) for path in changes)

    def add(name: str, title: str, changes: Changes, **more: Any) -> None:
        if applies(changes):
            found.append(make_variant(plain, machine, name, title, changes, **more))

    half = (half_precision(device) or Precision.BF16).value
    lower: Changes = {"device.precision": half}
    batch, count = plain.memory.batch_size, pieces_of(plain.memory.batch_size)
    pieces: Changes = {}
    if count > 1:
        pieces = {"memory.batch_size": batch // count, "memory.gradient_accumulation_steps": count}
    every = {**lower, **pieces, **CHECKPOINTING}

    # The guide's nine, in its order.
    add("plain", "plain", {path: value for path, value in PLAIN.items() if applies({path: value})})
    if pieces:
        add(
            "accumulation",
            _("accumulation {batch} × {count}").format(batch=batch // count, count=count),
            pieces,
        )
    add("checkpointing", "+ checkpointing" if pieces else "checkpointing", {**pieces, **CHECKPOINTING})
    add(half, half, lower)
    add(f"{half}-all", f"{half}{' + accumulation' if pieces else ''} + checkpointing", every)
    add("adafactor", "Adafactor", ADAFACTOR)
    add(f"{half}-all-adafactor", "all + Adafactor", {**every, **ADAFACTOR})
    add("adamw-8bit", _("8-bit AdamW"), ADAMW_8BIT)
    add(f"{half}-all-adamw-8bit", _("all + 8-bit AdamW"), {**every, **ADAMW_8BIT})

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
    lengths = {"data.group_by_length": Toggle.OFF.value, **({"data.train": MIXED} if is_guide else {})}
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
        small = {**own, **LORA}
        add(f"{half}-lora", _("LoRA, {half}").format(half=half), small, note=SMALL)
        add(
            f"{half}-lora-checkpointing",
            _("LoRA, {half} + checkpointing").format(half=half),
            {**small, **CHECKPOINTING},
            note=SMALL,
        )
    return found


def pieces_of(batch: int) -> int:
    """Equal batches one is divided into for accumulation: the most possible, up to 16."""
    return max(count for count in range(1, MOST_PIECES + 1) if batch % count == 0)


def _guides() -> RunOptions:
    bare = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=SIZES["tiny"].source, vocabulary=VOCABULARY),
        data=DataOptions(train=synthetic(ROWS, POSITIONS), max_length=POSITIONS, eval_fraction=0.0),
        memory=MemoryOptions(batch_size=BATCH),
    )
    return changed(bare, PLAIN)


def _own(options: RunOptions) -> RunOptions:
    """A person's own options, plain: model, data, batch and method stay."""
    rate: Changes = {}
    if options.training.learning_rate > LARGEST_RATE:  # SGD's; it has no influence on time
        rate = {"training.learning_rate": TrainingOptions().learning_rate}
    return changed(options, {**NOT_MODEL_OR_DATA, **rate, **PLAIN})


def _device(machine: MachineReport, options: RunOptions) -> DeviceReport:
    found = find_device(machine, options.device.name)
    if found is None or not found.available:
        problems = tuple(  # a benchmark has no run file whose options a fix could set
            Problem(one.path, one.message, tuple(Fix(fix.label) for fix in one.fixes))
            for one in machine_problems(machine, options)
            if one.path == "device.name"
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
        "Every row trains on {batch} sequences per step, {batch} at once or one after the "
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
        words.append(_("every row padded to the maximum length"))
    batch = plain.memory.batch_size
    yield _(
        "Model, data and batch size ({batch:,}) are your own, without evaluation. Plain is {words}."
    ).format(batch=batch, words=", ".join(words))
    if plain.model.method is not Method.FULL:
        yield _("Every row trains with the method of your run: {label}.").format(
            label=plain.model.method.label
        )
