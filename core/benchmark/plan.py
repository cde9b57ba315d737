"""What a benchmark is going to measure: its rungs, how often, in which order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from core.base import format as figures
from core.base.errors import Fix, OptionsError, Problem
from core.memory import estimate as anatomy
from core.memory.history import correction
from core.memory.model import Forecast, ModelShape, Room, Verdict, with_changes
from core.options import RunOptions, Tree
from core.options.catalogue import ScratchModel, all_options, options_by_path, scratch_model, value_of
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
from core.options.sources import Scheme, short_name, synthetic
from core.options.validate import check_tree
from core.services.memory import room_of

# --- What a benchmark is going to measure: its rungs, how often, in which order


class Kind(StrEnum):
    """Which of the two tables."""

    METHODS = "methods"
    DEVICES = "devices"


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is measured, and becomes one row.

    `name` is short and stable, such as `bf16` or `resnet18-4-cpu`; results of different days are matched by it. `title`
    is what a person reads. `asked` are all options as plain values. `changes` are those, by path, that "Use this"
    carries into a run; they are what sets the rung apart from the plain one. `note` says what has to be known to read
    its figures. `refusal` says why this machine can't do it, empty where it can: such a rung is a row without figures.

    `group` and `side` are empty for methods. For devices, rungs of one `group` (a model and its batch) stand beside
    each other, `side` being what sets them apart (`CPU`, `MPS`, `1 thread`, `bf16`); the first of a group is what the
    others are held against.

    `steps` are timed of this one in place of the plan's; None: as many as the plan says.
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
        """Rows in a batch; None: nothing was asked."""
        size = self.asked.get("memory", {}).get("batch_size")
        return size if isinstance(size, int) else None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole benchmark.

    `title` names it in a line ("BERT-large, 512 sequences of 512 tokens"). Each rung is measured `passes` times, one
    rung after the other and then from the first again (A B A B), `steps` optimizer steps each after `warm_up` steps.
    `notes` are plain sentences about how the plan came about (why this model, what was left out). `model` is the size
    that was chosen, such as `bert-base`; empty where the options are the person's own.
    """

    kind: Kind
    title: str
    rungs: tuple[Rung, ...]
    steps: int
    passes: int
    warm_up: int = 1
    model: str = ""
    notes: tuple[str, ...] = ()

    def steps_of(self, rung: Rung) -> int:
        """How many steps of a rung are timed: its own, or the plan's."""
        return self.steps if rung.steps is None else rung.steps


# --- The models that benchmarks build from their config alone


VOCABULARY = 30_522
POSITIONS = 512
LABELS = 2

CPU_FLOPS = 35e9
"""Multiplications and additions a second that a core gets out of a plain step in fp32, about: of two cores of a server.

It decides which model is offered on a CPU, nothing else.
"""

LONGEST_CPU_STEP = 4.0
"""Seconds. With longer steps, sixteen rows in three passes take hours."""


@dataclass(frozen=True)
class Size:
    """A model: the name a person asks for, what it is called, and what `model.source` says of it."""

    name: str
    title: str
    source: str

    @property
    def built(self) -> ScratchModel:
        """Its widths."""
        found = scratch_model(self.source)
        assert found is not None, "those of SIZES are known"
        return found

    @property
    def shape(self) -> ModelShape:
        """What its memory is forecast from, with two labels; a test holds it against what the engine reads off it."""
        return _shape(self.built)

    def flops(self, rows: int, length: int) -> float:
        """Multiplications and additions of a step on so many rows of so many tokens: forward once, backward twice.

        6 for each weight of the layers and each token, and 12 for each pair of tokens, width and layer in attention
        (J. Kaplan and others, Scaling Laws for Neural Language Models, 2020, table 1).
        """
        built, tokens = self.built, rows * length
        weights = built.layers * (4 * built.hidden**2 + 2 * built.hidden * built.inner)
        return 6.0 * weights * tokens + 12.0 * built.layers * tokens * length * built.hidden


SIZES = {
    name: Size(name, title, Scheme.SCRATCH.of(source))
    for name, title, source in (
        ("bert-large", "BERT-large", "bert-large"),
        ("bert-base", "BERT-base", "bert-base"),
        ("minilm", "MiniLM size", "minilm"),
        ("tiny", "BERT-tiny", "bert-tiny"),
    )
}
"""By name, the largest first. The last is the smallest that google-research/bert lists."""


@dataclass(frozen=True)
class Choice:
    """The size that suits a machine, and why, in a sentence."""

    size: Size
    reason: str


def choose_size(plain: RunOptions, device: DeviceReport, room: Room | None) -> Choice:
    """The largest size whose plain row fits with a tenth to spare and, on a CPU, whose steps don't take for ever.

    Takes a few milliseconds and asks nobody.

    Args:
        plain: What the plain row asks for, of whichever model.
        device: Where it is to compute.
        room: The memory there now; None: it isn't known.
    """
    reason = ""
    for size in SIZES.values():
        needed = needed_by(size, plain, device, room)
        if needed.verdict not in (Verdict.FITS, Verdict.UNKNOWN):
            reason = f"{size.title} is forecast to take {figures.size(needed.parts.total)}{_free(room)}"
            continue
        seconds = cpu_seconds(size, plain, device)
        if seconds is not None and seconds > LONGEST_CPU_STEP and size is not _smallest():
            reason = f"a plain step of {size.title} would take about {seconds:.0f} s on {_cores(device)}"
            continue
        return Choice(size, _why(size, reason, needed, room))
    return Choice(_smallest(), f"{_smallest().title} is the smallest size there is, and {reason}.")


def needed_by(size: Size, plain: RunOptions, device: DeviceReport, room: Room | None) -> Forecast:
    """The memory of a row, by formula, as past runs on the device have corrected it."""
    return anatomy.forecast(plain, size.shape, device, room=room, correction=correction(device.title))


def cpu_seconds(size: Size, plain: RunOptions, device: DeviceReport) -> float | None:
    """About how long a plain step takes on a CPU; None for other devices, of which nobody knows beforehand."""
    if device.name != "cpu":
        return None
    flops = size.flops(plain.effective_batch, plain.data.max_length)
    return flops / (CPU_FLOPS * cores_of(device))


def cores_of(device: DeviceReport) -> int:
    """How many threads it computes with unless told otherwise; 1 where it doesn't tell."""
    found = device.automatic.get("device.threads")
    return int(found.value) if found is not None else 1


def of_size(options: RunOptions, size: Size) -> dict[str, object]:
    """What makes `options` ask for a size: changes by path."""
    changes: dict[str, object] = {"model.source": size.source, "model.vocabulary": VOCABULARY}
    return {path: value for path, value in changes.items() if value_of(options, path) != value}


def _smallest() -> Size:
    return list(SIZES.values())[-1]


def _why(size: Size, larger: str, needed: Forecast, room: Room | None) -> str:
    if larger:
        return f"{size.title} was taken: {larger}."
    if room is None:
        return f"{size.title} was taken, the guide's own; how much memory there is isn't known."
    return (
        f"{size.title}, the guide's own, is forecast to take {figures.size(needed.parts.total)}{_free(room)}."
    )


def _free(room: Room | None) -> str:
    return f", and {figures.size(room.free)} are free" if room else ""


def _cores(device: DeviceReport) -> str:
    return figures.counted(cores_of(device), "core")


def _shape(model: ScratchModel) -> ModelShape:
    hidden, inner, layers = model.hidden, model.inner, model.layers
    attention, pooler, head = hidden * hidden, hidden * hidden, LABELS * hidden + LABELS
    tables = (VOCABULARY + POSITIONS + 2) * hidden
    width = {"query": hidden, "key": hidden, "value": hidden}
    dense = (
        layers * (hidden + hidden + inner) + hidden
    )  # after attention, into the inner width, back, and the pooler
    linears = {name: (layers * side, layers * side) for name, side in width.items()} | {
        "dense": (dense, dense)
    }
    return ModelShape(
        parameters=model.parameters(VOCABULARY, POSITIONS) + head,
        packable=layers * (4 * attention + 2 * hidden * inner) + pooler,
        head=head,
        linear_sides=sum(inputs + outputs for inputs, outputs in linears.values()),
        linears=linears,
        embeddings=tables,
        largest=VOCABULARY * hidden,
        factored=_factored(model),
        layers=layers,
        hidden=hidden,
        intermediate=inner,
        heads=model.heads,
        key_heads=model.heads,
        head_width=hidden // model.heads,
        vocabulary=VOCABULARY,
        positions=POSITIONS,
        dropout=True,
        attention_dropout=True,
        norm_keeps=1.0 + 2.0 / hidden,
    )


def _factored(model: ScratchModel) -> int:
    """Numbers Adafactor keeps: a row and a column of each matrix, and vectors whole."""
    hidden, inner = model.hidden, model.inner
    tables = (VOCABULARY + hidden) + (POSITIONS + hidden) + (2 + hidden)
    norms, biases = 2 * 2 * hidden, 4 * hidden + inner + hidden
    block = 4 * 2 * hidden + 2 * (hidden + inner) + norms + biases
    last = 2 * hidden + hidden + (LABELS + hidden) + LABELS
    return tables + 2 * hidden + model.layers * block + last


# --- Rungs: a run's options with some of them changed, and why this machine can't do that


LEFT_OUT = "left out as asked"


@dataclass(frozen=True)
class Wanted:
    """A rung before anybody has looked whether it can be done.

    `changes` make it of the plain options, by path. `only_data` are changes of the data that belong to measuring it
    and not to the method. `refusal` is one known already. Everything else is as in `Rung`.
    """

    name: str
    title: str
    changes: Mapping[str, Any]
    only_data: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    refusal: str = ""
    group: str = ""
    side: str = ""
    steps: int | None = None


def changed(options: RunOptions, changes: Mapping[str, Any]) -> RunOptions:
    """`options` with `changes`, and without what means nothing any more beside them, such as LoRA's rank."""
    found = with_changes(options, changes)
    idle = {
        option.path: option.default
        for option in all_options()
        if not option.applies_to(found) and value_of(found, option.path) != option.default
    }
    return with_changes(found, idle)


def means_something(options: RunOptions, changes: Mapping[str, Any]) -> bool:
    """Whether every change is one of an option that counts beside the others."""
    found = with_changes(options, changes)
    return all(options_by_path()[path].applies_to(found) for path in changes)


def make(plain: RunOptions, wanted: Wanted, machine: MachineReport) -> Rung:
    """The rung, with its refusal where this machine or the rules between options forbid it."""
    options = changed(plain, {**wanted.changes, **wanted.only_data})
    return Rung(
        name=wanted.name,
        title=wanted.title,
        asked=msgspec.to_builtins(options),
        changes=dict(wanted.changes),
        note=" ".join(filter(None, (wanted.note, *_cautions(machine, options, wanted.changes)))),
        refusal=wanted.refusal or "; ".join(dict.fromkeys(_told(options, problems(machine, options)))),
        group=wanted.group,
        side=wanted.side,
        steps=wanted.steps,
    )


def problems(machine: MachineReport, options: RunOptions) -> tuple[Problem, ...]:
    """Everything that would keep `options` from being measured here."""
    return (*check_tree(msgspec.to_builtins(options))[1], *machine_problems(machine, options))


def refuse_impossible(machine: MachineReport, options: RunOptions, where: str) -> None:
    """Stop where not even the plain options can be measured: no rung could.

    Raises:
        OptionsError: With everything that is wrong.
    """
    found = problems(machine, options)
    if found:
        raise OptionsError(found, where)


def _told(options: RunOptions, found: tuple[Problem, ...]) -> Iterator[str]:
    """Messages as they stand by themselves: some go on with what was chosen, which a form shows beside them."""
    for problem in found:
        goes_on = problem.message.startswith(("is ", "moves "))
        yield f"{text_of(value_of(options, problem.path))} {problem.message}" if goes_on else problem.message


def _cautions(machine: MachineReport, options: RunOptions, changes: Mapping[str, Any]) -> Iterator[str]:
    device = find_device(machine, options.device.name)
    for path in changes if device is not None else ():
        told = caution(device, path, value_of(options, path)) if device is not None else ""
        if told:
            yield told


# --- The rungs of the ladder of methods: what each changes of the plain one, by option


Changes = Mapping[str, Any]

PLAIN: Changes = {
    "device.precision": Precision.FP32.value,
    "device.compile": False,
    "model.attention": Attention.EAGER.value,
    "memory.activation_checkpointing": False,
    "training.optimizer": Optimizer.ADAMW.value,
    "data.padding": Padding.FIXED.value,
}
"""What plain means."""

CHECKPOINTING: Changes = {"memory.activation_checkpointing": True}
ADAFACTOR: Changes = {"training.optimizer": Optimizer.ADAFACTOR.value}
ADAMW_8BIT: Changes = {"training.optimizer": Optimizer.ADAMW_8BIT.value}
SDPA: Changes = {"model.attention": Attention.SDPA.value}
COMPILED: Changes = {"device.compile": True}
DYNAMIC: Changes = {"data.padding": Padding.DYNAMIC.value}
BY_CHANCE: Changes = {"data.group_by_length": Toggle.OFF.value}
"""Trainer sorts so many batches at once, the longest first, that the first steps of an epoch are unlike the others."""
LORA: Changes = {"model.method": Method.LORA.value, "training.learning_rate": LORA_RATE}

SMALL = "It trains small matrices, not the model."

MOST_PIECES = 16
"""A batch is cut into so many at most: sixty-four batches of one would be measured for hours, and nobody trains so."""


@dataclass(frozen=True)
class Ladder:
    """The rungs beside one plain run.

    `shorter` are changes of the data that give dynamic padding something to do, where all its rows are of one length;
    None: they are of different lengths already.
    """

    plain: RunOptions
    device: DeviceReport
    with_compile: bool = True
    shorter: Changes | None = None

    def rungs(self) -> Iterator[Wanted]:
        """Those that mean something for this task and model; what the machine can't do is found out later."""
        for wanted in (*self._of_the_guide(), *self._of_hone()):
            if means_something(self.plain, wanted.changes):
                yield wanted

    @property
    def half(self) -> Precision:
        """bf16 or fp16, whichever the device does better."""
        return half_precision(self.device) or Precision.BF16

    def _of_the_guide(self) -> Iterator[Wanted]:
        half, pieces = self._half(), self._pieces()
        steps, name = self._title_of_pieces(), self.half.value
        every = {**half, **pieces, **CHECKPOINTING}
        yield Wanted("plain", "plain", self._plain())
        if pieces:
            yield Wanted("accumulation", f"accumulation {steps}", pieces)
            yield Wanted("checkpointing", "+ checkpointing", {**pieces, **CHECKPOINTING})
        else:
            yield Wanted("checkpointing", "checkpointing", CHECKPOINTING)
        yield Wanted(name, name, half)
        together = f"{name} + accumulation + checkpointing" if pieces else f"{name} + checkpointing"
        yield Wanted(f"{name}-all", together, every)
        for key, title, optimizer in (
            ("adafactor", "Adafactor", ADAFACTOR),
            ("adamw-8bit", "8-bit AdamW", ADAMW_8BIT),
        ):
            yield Wanted(key, title, optimizer)
            yield Wanted(f"{name}-all-{key}", f"all + {title}", {**every, **optimizer})

    def _of_hone(self) -> Iterator[Wanted]:
        name = self.half.value
        is_text = self.plain.task.reads_text
        own = {**self._half(), **(SDPA if is_text else {})}
        title = f"{name} + sdpa" if is_text else name
        yield Wanted("tf32", "tf32", {"device.precision": Precision.TF32.value})
        if is_text:
            yield Wanted(f"{name}-sdpa", f"{title} + fused", own)
        yield Wanted(
            f"{name}-compile",
            "+ compile" if is_text else f"{title} + compile",
            {**own, **COMPILED},
            note="Compiling is in none of these figures.",
            refusal="" if self.with_compile else LEFT_OUT,
        )
        yield Wanted(
            f"{name}-padding",
            f"{title} + dynamic padding",
            {**own, **DYNAMIC},
            only_data={**BY_CHANCE, **(self.shorter or {})},
            note=self._note_of_padding(),
        )
        yield Wanted(
            f"{name}-lean",
            f"{title} + checkpointing + Adafactor",
            {**own, **CHECKPOINTING, **ADAFACTOR},
            note="Whole batches: what the guide's leanest row saves, without cutting them.",
        )
        if self.plain.model.method is Method.FULL:
            small = {**own, **LORA}
            yield Wanted(f"{name}-lora", f"LoRA, {name}", small, note=SMALL)
            yield Wanted(
                f"{name}-lora-checkpointing",
                f"LoRA, {name} + checkpointing",
                {**small, **CHECKPOINTING},
                note=SMALL,
            )

    def _half(self) -> Changes:
        return {"device.precision": self.half.value}

    def _plain(self) -> Changes:
        """What plain means for this task: so that it, too, can be carried into a run."""
        return {path: value for path, value in PLAIN.items() if means_something(self.plain, {path: value})}

    def _pieces(self) -> Changes:
        batch = self.plain.memory.batch_size
        pieces = pieces_of(batch)
        if pieces == 1:
            return {}
        return {"memory.batch_size": batch // pieces, "memory.gradient_accumulation_steps": pieces}

    def _title_of_pieces(self) -> str:
        batch = self.plain.memory.batch_size
        return f"{batch // pieces_of(batch)} × {pieces_of(batch)}"

    def _note_of_padding(self) -> str:
        if self.shorter is None:
            return "Rows are put together by chance; grouped by length, less would be padding."
        return (
            "Of texts of 64 to 512 tokens; padded to 512, each would take what it takes in the other rows. They are "
            "put together by chance; grouped by length, less would be padding."
        )


def pieces_of(batch: int) -> int:
    """Into how many equal batches one is cut for accumulation: the most there can be, up to 16."""
    return max(count for count in range(1, MOST_PIECES + 1) if batch % count == 0)


# --- The plan of the ladder of methods: one run in ways that differ in speed and memory


ROWS, BATCH = 512, 4
"""The guide's: 512 sequences of 512 tokens, 4 in a step."""

MIXED = synthetic(ROWS, POSITIONS, 64)
"""As many sequences of 64 to 512 tokens."""

NOT_MODEL_OR_DATA: dict[str, Any] = {
    "memory.gradient_accumulation_steps": 1,
    "memory.deepspeed": DeepSpeed.OFF.value,
    "memory.offload_optimizer": False,
    "data.eval": None,
    "data.eval_split": None,
    "data.eval_fraction": 0.0,
    "training.max_steps": None,
}
"""What else is undone of a person's own options: plain has one batch a step on one device, and nothing is evaluated."""

STEPS_ON_CUDA, STEPS_ON_MPS, STEPS_ON_CPU = 20, 10, 5
CPU_SECONDS = 15.0
"""So long the timed steps of a plain pass may take on a CPU, about, where that can be told beforehand."""

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
    """The ladder for this machine. Takes milliseconds and asks no engine.

    Args:
        machine: What it can train on.
        size: One of `SIZES`; None: the largest that suits the machine. Of no meaning with `options`.
        options: The person's own run, measured on its own data in place of the guide's experiment.
        device: As in `device.name`; `auto`: that of `options`, or the machine's best.
        steps: Optimizer steps timed in each pass; None: enough for a steady median, in a sensible time.
        passes: How often each rung is measured.
        with_compile: Whether the compiled rung is measured; otherwise it says that it was left out.
        room: The memory that is free on the device; None: look.

    Raises:
        OptionsError: There is no such size or device, or `options` can't be run here.
    """
    asked = _own(options) if options is not None else _guides()
    name = device if device != "auto" else asked.device.name
    chosen = _device(machine, changed(asked, {"device.name": name}))
    plain = changed(asked, {"device.name": chosen.name})
    notes: list[str] = []
    taken: Size | None = None
    if options is None:
        taken, why = _size(size, plain, chosen, room)
        notes += [*why, *_notes_of_guide()]
        plain = changed(plain, {"model.source": taken.source})
    refuse_impossible(machine, plain, "The plain row")
    ladder = Ladder(
        plain, chosen, with_compile=with_compile, shorter={"data.train": MIXED} if taken else None
    )
    return Plan(
        kind=Kind.METHODS,
        title=_title(plain, taken),
        rungs=tuple(make(plain, wanted, machine) for wanted in ladder.rungs()),
        steps=steps if steps is not None else _enough(plain, taken, chosen),
        passes=passes,
        warm_up=warm_up_on(chosen),
        model=taken.name if taken else "",
        notes=(*notes, *(_notes_of_own(plain) if taken is None else ())),
    )


def warm_up_on(device: DeviceReport) -> int:
    """Steps before the timed ones: CUDA's libraries look for their fastest kernels in more than one."""
    return 3 if device.name.startswith("cuda") else 1


def _guides() -> RunOptions:
    """The guide's plain run, of no model yet."""
    bare = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=SIZES["tiny"].source, vocabulary=VOCABULARY),
        data=DataOptions(train=synthetic(ROWS, POSITIONS), max_length=POSITIONS, eval_fraction=0.0),
        memory=MemoryOptions(batch_size=BATCH),
    )
    return changed(bare, PLAIN)


def _own(options: RunOptions) -> RunOptions:
    """A person's own options, plain: model, data, batch and which weights move are theirs."""
    if options.training.learning_rate > LARGEST_RATE:  # SGD's, perhaps; it changes nothing about time
        rate = {"training.learning_rate": TrainingOptions().learning_rate}
    else:
        rate = {}
    return changed(options, {**NOT_MODEL_OR_DATA, **rate, **PLAIN})


def _device(machine: MachineReport, options: RunOptions) -> DeviceReport:
    found = find_device(machine, options.device.name)
    if found is None or not found.available:
        told = tuple(  # a benchmark has no run file whose options a fix could set
            Problem(one.path, one.message, tuple(Fix(fix.label) for fix in one.fixes))
            for one in machine_problems(machine, options)
            if one.path == "device.name"
        )
        raise OptionsError(told, "The benchmark")
    return found


def _size(
    asked: str | None, plain: RunOptions, device: DeviceReport, room: Room | None
) -> tuple[Size, list[str]]:
    if asked is None:
        found = choose_size(plain, device, room or room_of(device))
        return found.size, [found.reason]
    if asked not in SIZES:
        fixes = tuple(Fix(f"Use {name}") for name in SIZES)
        message = f"there is no size called {asked!r}; there are {', '.join(SIZES)}"
        raise OptionsError((Problem("model", message, fixes),), "The benchmark")
    return SIZES[asked], []


def _enough(plain: RunOptions, size: Size | None, device: DeviceReport) -> int:
    """Fast devices need more steps for a steady median, and can afford them."""
    kind = device.name.partition(":")[0]
    if kind != "cpu":
        return STEPS_ON_CUDA if kind == "cuda" else STEPS_ON_MPS
    seconds = cpu_seconds(size, plain, device) if size is not None else None
    if not seconds:
        return STEPS_ON_CPU
    return round(min(MOST_CPU_STEPS, max(FEWEST_CPU_STEPS, CPU_SECONDS / seconds)))


def _title(plain: RunOptions, size: Size | None) -> str:
    if size is not None:
        return f"{size.title}, {ROWS} sequences of {POSITIONS} tokens"
    return f"{short_name(plain.model.source)} on {short_name(plain.data.train)}"


def _notes_of_guide() -> Iterator[str]:
    yield (
        f"Every row learns from {BATCH} sequences a step, {BATCH} at once or one after the other, as in transformers' "
        "guide “Efficient training on a single GPU”."
    )
    yield "The weights are random and made from the config alone: nothing is fetched, and times don't depend on them."
    yield (
        "Plain is what the guide ran: fp32, attention written out (eager). AdamW is the fused one in every row, for "
        "Hone has no other; the guide's was slower."
    )
    yield "Half of the labels are 0 and half 1; the guide's own code gives every sequence 0."


def _notes_of_own(plain: RunOptions) -> Iterator[str]:
    batch, method = plain.memory.batch_size, plain.model.method
    words = ["fp32", "AdamW", "one batch a step"]
    if plain.task.reads_text:
        words.append("attention written out")
    if plain.data.padding is Padding.FIXED:
        words.append("every row padded to the longest text allowed")
    yield f"Model, data and batch size ({batch:,}) are your own, and nothing is evaluated. Plain is {', '.join(words)}."
    if method is not Method.FULL:
        yield f"What learns in every row is what learns in your run: {method.label}."
