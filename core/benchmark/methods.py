"""The benchmark of methods: one model, trained plainly and with each method that saves memory or time.

Its rows are those of transformers' guide "Efficient training on a single GPU" and some of Hone's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from core.base import formats
from core.base.errors import Fix, OptionsError, Problem
from core.base.language import _
from core.benchmark.plan import (
    OUTPUT,
    Benchmark,
    BenchmarkKind,
    BenchmarkRow,
    Plan,
    changed,
    cores_of,
    make_plan,
    make_row,
    problems,
    there,
)
from core.memory.model import FitVerdict, Room, verdict
from core.monitor.device_memory import room_of
from core.options import RunOptions
from core.options.catalogue import Changes, options_by_path, with_changes
from core.options.choices import (
    Attention,
    Backend,
    DeepSpeed,
    Method,
    Optimizer,
    Padding,
    Precision,
    Quantization,
    Task,
    Toggle,
)
from core.options.data import DataOptions
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    find_device,
    half_precision,
    has_mlx,
    machine_problems,
)
from core.options.method_rules import LARGEST_RATE
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import Scheme, ScratchModel, scratch_model, short_name, synthetic

# --- Sizes of BERT, built from their config


VOCABULARY, POSITIONS, LABELS = 30_522, 512, 2

CPU_FLOPS = 35e9
"""FLOPS that a core reaches in a plain fp32 step, roughly; measured on two cores of a server."""

OVERHEAD = 1 << 30
"""Bytes of a process besides its tensors: PyTorch, and on a GPU its libraries."""

LONGEST_CPU_STEP = 4.0
"""Seconds. With longer steps, sixteen rows take an hour."""


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
        """Returns the approximate memory of a plain run (fp32, AdamW, eager attention) on a kind of device, in bytes.

        Weights, gradients, AdamW's two moments, and activations per layer as in V. Korthikanti et al., Reducing
        Activation Recomputation in Large Transformer Models, 2022, section 4.1, in fp32 and with dropout's masks.
        """
        model, tokens, mask = self.built, rows * length, 1 if kind == "cuda" else 4
        linear = tokens * ((32 + 2 * mask) * model.hidden + 8 * model.inner)
        attention = tokens * length * model.heads * (8 + mask)
        return OVERHEAD + 16 * self.parameters + model.layers * (linear + attention)

    def flops(self, rows: int, length: int) -> float:
        """Returns the FLOPs of a step on `rows` rows of `length` tokens.

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
    """Returns the largest size whose plain run fits, on a CPU with steps of tolerable length; and the reason."""
    free = formats.memory(room.free) if room else ""
    reason = ""
    for size in SIZES.values():
        needed = size.bytes(plain.effective_batch, plain.data.max_length, device.kind)
        seconds = cpu_seconds(size, plain, device)
        if verdict(needed, room) not in (FitVerdict.FITS, FitVerdict.UNKNOWN):
            reason = _("{title} is estimated to take {needed}, and {free} are free").format(
                title=size.title, needed=formats.memory(needed), free=free
            )
        elif seconds and seconds > LONGEST_CPU_STEP and size.name != "tiny":
            cores = formats.counted(cores_of(device), "core")
            reason = _("a plain step of {title} would take about {seconds:.0f} s on {cores}").format(
                title=size.title, seconds=seconds, cores=cores
            )
        elif reason:
            return size, _("{title} was chosen: {reason}.").format(title=size.title, reason=reason)
        elif room is None:
            words = _("{title}, the guide's model, was chosen; the free memory isn't known.")
            return size, words.format(title=size.title)
        else:
            words = _("{title}, the guide's model, is estimated to take {needed}, and {free} are free.")
            return size, words.format(title=size.title, needed=formats.memory(needed), free=free)
    return size, _("{title} is the smallest size, and {reason}.").format(title=size.title, reason=reason)


def cpu_seconds(size: Size, plain: RunOptions, device: DeviceReport) -> float | None:
    """Returns estimated duration of a plain step on a CPU; None for other devices."""
    if device.name != "cpu":
        return None
    return size.flops(plain.effective_batch, plain.data.max_length) / (CPU_FLOPS * cores_of(device))


# --- The benchmark of methods


PLAIN: Changes = {
    "device.backend": Backend.TORCH.value,
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
    "training.early_stopping_patience": 0,
    "training.warmup": 0.0,
}
"""Applied to a person's own options, too: one batch per step, one device, no evaluation."""

CHECKPOINTING: Changes = {"memory.activation_checkpointing": True}
ADAFACTOR: Changes = {"training.optimizer": Optimizer.ADAFACTOR.value}
ADAMW_8BIT: Changes = {"training.optimizer": Optimizer.ADAMW_8BIT.value}
LORA: Changes = {"model.method": Method.LORA.value}
MLX: Changes = {
    "device.backend": Backend.MLX.value,
    "device.precision": Precision.BF16.value,
    "model.attention": Attention.SDPA.value,
}
MLX_QLORA: Changes = {
    **MLX,
    "model.method": Method.QLORA.value,
    "model.quantization": Quantization.AFFINE4.value,
}

SMALL = _("It trains small matrices, not the model.")
SHUFFLED = _("Batches are shuffled; grouped by length, less would be padding.")

MAX_ACCUMULATION = 16
"""Accumulation steps at most: 64 batches of one row would take hours."""

ROWS, BATCH = 512, 4
"""As in the guide: 512 sequences of 512 tokens, 4 per step."""

VARIED = synthetic(ROWS, POSITIONS, 64)
"""As many sequences of 64 to 512 tokens."""

STEPS = {"cuda": 40, "mps": 20, "cpu": 10}
"""Number of timed steps by device, where the duration of a step can't be estimated."""

CPU_SECONDS = 30.0
"""Target duration of the timed steps of a plain run on a CPU."""

MIN_CPU_STEPS, MAX_CPU_STEPS = 8, 40


def methods_plan(
    machine: MachineReport,
    *,
    size: str | None = None,
    options: RunOptions | None = None,
    device: str = "auto",
    steps: int | None = None,
    with_compile: bool = True,
    room: Room | None = None,
) -> Plan:
    """Plans the benchmark for this machine, which takes milliseconds.

    Args:
        size: One of `SIZES`. Default: the largest that suits the machine.
        options: A person's own run, measured with its model and data instead of the guide's.
        device: As in `device.name`, of several computers the first; `auto`: that of `options`, or the best one.
        steps: Number of timed steps of each run. Default: enough for a stable median.
        room: The free memory of the device. Default: it is read.

    Raises:
        OptionsError: There is no such device, or the plain run is refused.
    """
    plain = _own(options) if options is not None else _guides()
    plain = changed(plain, {"device.name": plain.device.name if device == "auto" else device})
    computer = next(iter(plain.device.computers), "")
    machine, plain = there(machine, computer), changed(plain, {"device.name": plain.device.there})
    found = _device(machine, plain)
    plain = changed(plain, {"device.name": found.name})
    chosen: Size | None = None
    if options is not None:
        short = _("{source} on {train}").format(
            source=short_name(plain.model.source), train=short_name(plain.data.train)
        )
        title, notes = short, tuple(_notes_of_own(plain))
    else:
        chosen, reason = SIZES.get(size or ""), ""
        if chosen is None:
            chosen, reason = choose_size(plain, found, room or (None if computer else room_of(found)))
        plain = changed(plain, {"model.source": chosen.source})
        short = chosen.title
        title = _("{title}, {rows} examples of {positions} tokens").format(
            title=chosen.title, rows=ROWS, positions=POSITIONS
        )
        notes = (*filter(None, (reason,)), *NOTES_OF_GUIDE)
    if refused := problems(machine, plain):
        raise OptionsError(refused, _("The plain row"))
    seconds = cpu_seconds(chosen, plain, found) if chosen else None
    if steps is None and seconds:
        steps = round(min(MAX_CPU_STEPS, max(MIN_CPU_STEPS, CPU_SECONDS / seconds)))
    warm_up = 3 if found.kind == "cuda" else 1  # CUDA's libraries try out kernels in the first steps
    steps = steps or STEPS.get(found.kind, STEPS["mps"])
    plain = with_changes(plain, {"training.max_steps": warm_up + steps})
    made = _rows(plain, machine, found, with_compile=with_compile, is_guide=chosen is not None)
    benchmark = Benchmark(
        kind=BenchmarkKind.METHODS,
        name=_("Methods, {model}").format(model=short),
        title=title,
        rows=tuple(row for row, _options in made),
        warm_up=warm_up,
        notes=notes,
        has_published=chosen is not None,
    )
    return make_plan(benchmark, {row.name: one for row, one in made}, computer)


def _rows(
    plain: RunOptions, machine: MachineReport, device: DeviceReport, *, with_compile: bool, is_guide: bool
) -> list[tuple[BenchmarkRow, RunOptions]]:
    """Returns the rows that apply to the task and model; those that the machine can't run have a refusal."""
    rows: list[tuple[BenchmarkRow, RunOptions]] = []

    def applies(changes: Changes) -> bool:
        options = with_changes(plain, changes)
        return all(options_by_path()[path].applies_to(options) for path in changes)

    def add(name: str, title: str, changes: Changes, **more: Any) -> None:
        if applies(changes):
            rows.append(make_row(plain, machine, name, title, changes, **more))

    half = (half_precision(device) or Precision.BF16).value
    lower: Changes = {"device.precision": half}
    batch = plain.memory.batch_size
    steps = max(count for count in range(1, MAX_ACCUMULATION + 1) if batch % count == 0)
    accumulated: Changes = {}
    if steps > 1:
        accumulated = {"memory.batch_size": batch // steps, "memory.gradient_accumulation_steps": steps}
    combined = {**lower, **accumulated, **CHECKPOINTING}

    # The guide's nine, in its order.
    add("plain", _("plain"), {path: value for path, value in PLAIN.items() if applies({path: value})})
    checkpointing = title = _("checkpointing")
    if accumulated:
        accumulation = _("accumulation {batch} × {count}").format(batch=batch // steps, count=steps)
        add("accumulation", accumulation, accumulated)
        title = f"{accumulation} + {checkpointing}"
    add("checkpointing", title, {**accumulated, **CHECKPOINTING})
    add(half, half, lower)
    named = [_("accumulation")] if accumulated else []
    add(f"{half}-all", " + ".join([half, *named, checkpointing]), combined)
    add("adafactor", "Adafactor", ADAFACTOR)
    add(f"{half}-all-adafactor", _("all + Adafactor"), {**combined, **ADAFACTOR})
    add("adamw-8bit", _("8-bit AdamW"), ADAMW_8BIT)
    add(f"{half}-all-adamw-8bit", _("all + 8-bit AdamW"), {**combined, **ADAMW_8BIT})

    # Hone's own.
    is_text = plain.task.reads_text
    own = {**lower, "model.attention": Attention.SDPA.value} if is_text else lower
    title = f"{half} + sdpa" if is_text else half
    add("tf32", "tf32", {"device.precision": Precision.TF32.value})
    if is_text:
        add(f"{half}-sdpa", _("{title} + fused").format(title=title), own)
    add(
        f"{half}-compile",
        f"{title} + compile",
        {**own, "device.compile": True},
        note=_("Compiling is not included in these figures."),
        refusal="" if with_compile else _("left out as requested"),
    )
    # Grouped by length, the first batches of an epoch are the longest and unlike the others.
    lengths = {"data.group_by_length": Toggle.OFF.value, **({"data.train": VARIED} if is_guide else {})}
    texts = _("Texts of 64 to 512 tokens; padded to 512 they would take as long as in the other rows.")
    add(
        f"{half}-padding",
        _("{title} + dynamic padding").format(title=title),
        {**own, "data.padding": Padding.DYNAMIC.value},
        data=lengths,
        note=formats.paragraph(texts, SHUFFLED) if is_guide else SHUFFLED,
    )
    add(
        f"{half}-lean",
        f"{title} + {checkpointing} + Adafactor",
        {**own, **CHECKPOINTING, **ADAFACTOR},
        note=_("Whole batches: what the guide's leanest row saves, without accumulation."),
    )
    if plain.model.method is Method.FULL:
        lora, title = {**own, **LORA}, _("LoRA, {half}").format(half=half)
        add(f"{half}-lora", title, lora, note=SMALL)
        title = _("LoRA, {half} + checkpointing").format(half=half)
        add(f"{half}-lora-checkpointing", title, {**lora, **CHECKPOINTING}, note=SMALL)
    method = plain.model.method
    if plain.task.writes_text and has_mlx(device):
        add("mlx", "MLX", MLX_QLORA if method is Method.QLORA else MLX)
        if method is Method.FULL:
            add("mlx-lora", "MLX, LoRA", {**MLX, **LORA}, note=SMALL)
        if method in (Method.FULL, Method.LORA):
            note = SMALL if method is Method.FULL else ""
            add("mlx-qlora", _("MLX, QLoRA 4 bits"), MLX_QLORA, note=note)
    for count in _counts_of_processes(machine, device):
        note = _("Each process has a batch of {batch:,} and averages its gradients with the others (DDP).")
        add(
            f"processes-{count}",
            formats.counted(count, "process"),
            {"device.processes": count, "device.name": device.kind},
            note=note.format(batch=batch),
        )
    return rows


def _counts_of_processes(machine: MachineReport, device: DeviceReport) -> Iterator[int]:
    """Yields 2, 4, ...: as many as there are GPUs; on a CPU at most 4, as they share its cores."""
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
        output=OUTPUT,
    )
    return changed(bare, PLAIN)


def _own(options: RunOptions) -> RunOptions:
    """Returns a person's own options as a plain run with their model, data, batch size and method."""
    unsuited: dict[str, Any] = {}
    if options.training.learning_rate > LARGEST_RATE:  # suits SGD only; it doesn't affect the time
        unsuited["training.learning_rate"] = TrainingOptions().learning_rate
    if options.model.quantization.is_affine:  # MLX's own
        unsuited["model.quantization"] = Quantization.AUTO.value
    return changed(msgspec.structs.replace(options, output=OUTPUT), {**WITHOUT_EXTRAS, **unsuited, **PLAIN})


def _device(machine: MachineReport, options: RunOptions) -> DeviceReport:
    found = find_device(machine, options.device.name)
    if found is None or not found.available:
        refused = tuple(  # a benchmark has no run file whose options a fix could set
            Problem(problem.path, problem.message, tuple(Fix(fix.label) for fix in problem.fixes))
            for problem in machine_problems(machine, options)
            if problem.path == "device.name"
        )
        raise OptionsError(refused, _("The benchmark"))
    return found


NOTES_OF_GUIDE = (
    _(
        "Every row trains on {batch} examples per step, {batch} at once or one after the other, as in transformers' "
        "guide “Efficient training on a single GPU”."
    ).format(batch=BATCH),
    _(
        "The weights are random and made from the config alone: nothing is downloaded, and "
        "times don't depend on them."
    ),
    _(
        "Plain is what the guide ran: fp32, eager attention. AdamW is the fused one in every row; the guide's was "
        "slower."
    ),
    _("Half of the labels are 0 and half 1; the guide's own code gives every sequence 0."),
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
