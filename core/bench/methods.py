"""The plan of the ladder of methods: one run in ways that differ in speed and memory, each held against the plain."""

from collections.abc import Iterator
from typing import Any

from core.bench.ladder import PLAIN, Ladder
from core.bench.making import changed, make, refuse_impossible
from core.bench.plan import Kind, Plan
from core.bench.sizes import POSITIONS, SIZES, VOCABULARY, Size, choose_size, cpu_seconds
from core.capabilities import find_device, machine_problems
from core.choices import DeepSpeed, Method, Padding, Task
from core.errors import Fix, OptionsError, Problem
from core.memory.forecast import Room
from core.memory.room import room_of
from core.method_rules import LARGEST_RATE
from core.options import DataOptions, MemoryOptions, ModelOptions, RunOptions, TrainingOptions
from core.reports import DeviceReport, MachineReport
from core.sources import short_name, synthetic

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
