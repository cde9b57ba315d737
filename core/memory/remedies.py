"""Remedies for a run that doesn't fit: the steps of the ladder, and their combinations for "Fit it for me".

Each function yields steps that are not taken already. Steps that a device refuses or a rule forbids are filtered out
afterwards (`RemedyRequest.allows`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import msgspec

from core.base.language import _
from core.memory import estimate
from core.memory.case import STATE
from core.memory.model import TIGHT, Forecast, ModelReport, ModelShape, Room, can_be_made
from core.options import RunOptions
from core.options.catalogue import value_of, with_changes
from core.options.choices import DeepSpeed, Method, Optimizer, Padding, Precision
from core.options.device_support import DeviceReport, caution, settle
from core.options.device_support import half_precision as half_of
from core.options.method_rules import usual_rate

# --- Factors by which a step takes longer. "The guide" is that of transformers on training with one GPU.

PADDING = SHORTER = 1.0
"""Shorter rows are never slower; how much faster depends on the data."""
HALF_BATCH = 1.07
"""The guide: four batches of 1 in place of one of 4, 66.03 s; that is two halvings of 7 % each."""
CHECKPOINTING = 1.29
"""The guide: 85.47 s after 66.03 s; one more forward pass would be a third."""
HALF_PRECISION = {"cuda": 0.48, "cpu": 0.4, "mps": 1.0}
"""The guide, for fp16: 27.46 s. Measured with a CPU that has bf16 in hardware: MiniLM, batch 16. MPS: unknown."""
EMULATED = 1.5
"""A guess, for processors that emulate bf16 in fp32."""
ADAMW_8BIT, ADAFACTOR = 0.97, 1.11
"""The guide: 55.95 s and 64.31 s."""
COPIED = 1.2
"""Products in fp32 with copies of 16-bit weights, measured on a CPU: 1.1 to 1.4."""
LORA = 0.8
"""LoRA's paper (arXiv 2106.09685, 4.2): 25 % faster than training all of GPT-3."""
QLORA_OVER_LORA = 1.39
"""S. Raschka, Finetuning LLMs with LoRA and QLoRA (2023): 39 % more time than LoRA, for a model of 7 billion."""
DIVIDED = 1.3
"""A guess: layers are sent between GPUs while others compute; with fast links less."""
OFFLOAD_OPTIMIZER, ZERO_2, ZERO_3 = 1.2, 1.5, 2.0
"""Guesses: gradients and weights cross to main memory; the CPU updates the state; each layer's weights cross."""


# --- Steps


SHORTEST_TEXT = 32
SMALLEST_IMAGE = 64
ROUND_TOKENS = 8
"""GPUs multiply fastest with multiples of it."""

OF_TWO_MOMENTS = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.ADEMAMIX)
OF_8_BITS = (Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT, Optimizer.ADAMW_8BIT_TORCHAO)


class RemedyStep(msgspec.Struct, frozen=True):
    """A change that may save memory.

    `name` is its kind (`batch`, `precision`, ...). `changes` are values by path, empty for mere advice. `slower` is the
    factor by which an optimizer step takes longer.
    """

    name: str
    title: str
    help: str = ""
    changes: dict[str, Any] = {}
    slower: float = 1.0


@dataclass(frozen=True)
class RemedyRequest:
    """Options resolved for `device`, and what is known of the model; `length` is that of the longest unpadded row."""

    options: RunOptions
    report: ModelReport
    shape: ModelShape
    device: DeviceReport
    room: Room | None = None
    length: int | None = None
    correction: float = 1.0

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.kind

    @property
    def pads_needlessly(self) -> bool:
        """Whether rows may be padded beyond the longest of them."""
        data = self.options.data
        if not self.options.task.reads_text or data.padding is not Padding.FIXED:
            return False
        padded = min(data.max_length, self.report.max_length or data.max_length)
        return self.length is None or self.length < padded

    def forecast(self, changes: Mapping[str, Any]) -> Forecast:
        """Returns the memory of the run with `changes`."""
        options = with_changes(self.options, changes)
        length = None if self.length is None else min(self.length, options.data.max_length)
        return estimate.forecast(
            options, self.shape, self.device, length=length, room=self.room, correction=self.correction
        )

    def allows(self, changes: Mapping[str, Any]) -> bool:
        """Returns whether the device and the rules allow `changes`; always true for none."""
        return not changes or can_be_made(self.options, changes, self.device)


def request_of(
    options: RunOptions,
    report: ModelReport,
    device: DeviceReport,
    room: Room | None,
    *,
    length: int | None = None,
    correction: float = 1.0,
) -> RemedyRequest | None:
    """Resolves a request. Returns None if the model's shape is unknown."""
    if report.shape is None:
        return None
    return RemedyRequest(settle(device, options), report, report.shape, device, room, length, correction)


Steps = Callable[[RemedyRequest], Iterator[RemedyStep]]


def dynamic_padding(request: RemedyRequest) -> Iterator[RemedyStep]:
    if request.pads_needlessly:
        yield RemedyStep(
            "padding",
            _("Pad to the batch's longest"),
            _("Examples are padded to the longest of their batch only. The result is the same."),
            {"data.padding": Padding.DYNAMIC.value},
            PADDING,
        )


def shorter_rows(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Yields a maximum length that truncates nothing."""
    if request.length is None or not request.pads_needlessly:
        return
    enough = -(-request.length // ROUND_TOKENS) * ROUND_TOKENS
    if enough < request.options.data.max_length:
        help_text = _("The longest text has {length:,} tokens, so nothing is truncated.")
        yield RemedyStep(
            "length",
            _("Maximum length {enough:,} tokens").format(enough=enough),
            help_text.format(length=request.length),
            {"data.max_length": enough},
            SHORTER,
        )


def smaller_batches(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Yields half the batch size, a quarter, down to 1, with accumulation to about as many samples per step."""
    memory, processes, halvings = request.options.memory, max(1, request.options.device.processes), 0
    size, before = memory.batch_size, memory.batch_size * memory.gradient_accumulation_steps
    while size > 1:
        size, halvings = size // 2, halvings + 1
        steps = round(before / size)
        if size * steps != before:
            help_text = _("The effective batch size is {samples:,} instead of {before:,}.")
        elif request.report.normalises_batch:
            help_text = _(
                "The effective batch size is the same, but each small batch is normalized by itself."
            )
        else:
            help_text = _("The effective batch size, and so the result, is the same.")
        yield RemedyStep(
            "batch",
            _("Batch size {size:,}, {steps:,} accumulation steps").format(size=size, steps=steps),
            help_text.format(samples=size * steps * processes, before=before * processes),
            {"memory.batch_size": size, "memory.gradient_accumulation_steps": steps},
            HALF_BATCH**halvings,
        )


def half_precision(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Computes in bf16, or in fp16 if the device has no bf16 or only emulates it."""
    value = half_of(request.device)
    if value is None or request.options.device.precision not in (Precision.FP32, Precision.TF32):
        return
    slow = caution(request.device, "device.precision", value)
    yield RemedyStep(
        "precision",
        _("Compute in {value}").format(value=value),
        slow or _("Activations take half the memory. The weights stay fp32; results hardly differ."),
        {"device.precision": value.value},
        EMULATED if slow else HALF_PRECISION[request.kind],
    )


def held_in_half(request: RemedyRequest) -> Iterator[RemedyStep]:
    automatic = request.device.automatic.get("model.frozen_precision")
    value = automatic.value if automatic and automatic.value != Precision.FP32 else Precision.BF16.value
    if str(request.options.model.frozen_precision) == Precision.FP32:
        is_copied = request.options.device.precision in (Precision.FP32, Precision.TF32)
        yield RemedyStep(
            "frozen",
            _("Frozen weights in {value}").format(value=value),
            _("They take half the memory. What learns stays fp32; results hardly differ."),
            {"model.frozen_precision": value},
            COPIED if is_copied else 1.0,
        )


def checkpointing(request: RemedyRequest) -> Iterator[RemedyStep]:
    is_useful = request.report.activation_checkpointing and request.options.model.method is not Method.HEAD
    if is_useful and not request.options.memory.activation_checkpointing:
        yield RemedyStep(
            "checkpointing",
            _("Activation checkpointing"),
            _("Activations are recomputed in the backward pass. The result is the same."),
            {"memory.activation_checkpointing": True},
            CHECKPOINTING,
        )


def dividing(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Divides the model among all NVIDIA GPUs; the effective batch stays where it can be divided, too."""
    options, automatic = request.options, request.device.automatic.get("device.processes")
    before = max(1, options.device.processes)
    count = max(before, int(automatic.value) if automatic else 1)
    if request.kind != "cuda" or options.memory.fsdp or count == 1:
        return
    changes: dict[str, Any] = {"memory.fsdp": True}
    help_text = _("Each GPU holds a part and puts layers together as they compute. The result is the same.")
    if before != count:
        paths = ("memory.batch_size", "memory.gradient_accumulation_steps")
        even = [path for path in paths if value_of(options, path) * before % count == 0][:1]
        changes |= {path: value_of(options, path) * before // count for path in even}
        changes |= {
            "device.processes": count,
            "device.name": options.device.name.replace(options.device.there, "cuda"),
        }
        if not even:
            help_text = _(
                "Each GPU holds a part and puts layers together as they compute. The effective batch grows."
            )
    yield RemedyStep(
        "divide",
        _("Divide the model among {count} GPUs (FSDP2)").format(count=count),
        help_text,
        changes,
        DIVIDED * before / count,
    )


def leaner_optimizers(request: RemedyRequest) -> Iterator[RemedyStep]:
    optimizer = request.options.training.optimizer
    if optimizer in OF_TWO_MOMENTS:
        help_text = _("Its state takes 2 bytes per weight instead of {bytes:g}. Results are as good.")
        yield RemedyStep(
            "optimizer",
            _("8-bit AdamW"),
            help_text.format(bytes=STATE[optimizer]),
            {"training.optimizer": Optimizer.ADAMW_8BIT.value},
            ADAMW_8BIT,
        )
    if optimizer in (*OF_TWO_MOMENTS, *OF_8_BITS):
        yield RemedyStep(
            "optimizer",
            _("Adafactor"),
            _("Its state is factored and takes almost no memory. It sometimes converges more slowly."),
            {"training.optimizer": Optimizer.ADAFACTOR.value},
            ADAFACTOR,
        )


def _adapter(options: RunOptions, method: Method) -> dict[str, Any]:
    usual = usual_rate(with_changes(options, {"model.method": method}))
    return {"model.method": method.value, "training.learning_rate": usual.value}


def lora(request: RemedyRequest) -> Iterator[RemedyStep]:
    if request.options.model.method is Method.FULL and not request.options.starts_random:
        yield RemedyStep(
            "lora",
            _("LoRA instead of full fine-tuning"),
            _("Freezes the model and trains small adapter matrices. Results usually come close."),
            _adapter(request.options, Method.LORA),
            LORA,
        )


def qlora(request: RemedyRequest) -> Iterator[RemedyStep]:
    method = request.options.model.method
    if method not in (Method.FULL, Method.LORA) or request.options.starts_random:
        return
    changes: dict[str, Any] = {"model.method": Method.QLORA.value}
    if method is Method.FULL:
        changes = _adapter(request.options, Method.QLORA)
    yield RemedyStep(
        "qlora",
        _("QLoRA: LoRA on a quantized model"),
        _("The frozen weights are quantized to 4 bits; results are slightly worse."),
        changes,
        QLORA_OVER_LORA * (LORA if method is Method.FULL else 1.0),
    )


def offloading(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Offloads to main memory, which only NVIDIA GPUs don't share."""
    if request.kind != "cuda":
        return
    if not request.options.memory.offload_optimizer:
        yield RemedyStep(
            "offload",
            _("CPU offload of the optimizer"),
            _("The optimizer's state is stored and updated in main memory; gradients can't be clipped then."),
            {"memory.offload_optimizer": True, "training.max_grad_norm": 0.0},
            OFFLOAD_OPTIMIZER,
        )
    for stage, slower, help_text in (
        (
            DeepSpeed.ZERO_2,
            ZERO_2,
            _("Gradients and optimizer state move to main memory while they aren't needed."),
        ),
        (DeepSpeed.ZERO_3, ZERO_3, _("Weights, too, move to main memory while they aren't needed.")),
    ):
        if request.options.memory.deepspeed is not stage:
            yield RemedyStep(
                "offload",
                _("DeepSpeed {stage}, offloaded to main memory").format(stage=stage.label),
                help_text,
                {"memory.deepspeed": stage.value, "memory.offload": "cpu"},
                slower,
            )


def shorter_or_smaller_samples(request: RemedyRequest) -> Iterator[RemedyStep]:
    """Truncates texts or shrinks images, which loses some of the data."""
    data = request.options.data
    if request.options.task.reads_text:
        longest = min(data.max_length, *filter(None, (request.length, request.report.max_length)), 1 << 30)
        shorter = max(SHORTEST_TEXT, longest // 2 // ROUND_TOKENS * ROUND_TOKENS)
        if shorter < longest:
            yield RemedyStep(
                "cut",
                _("Maximum length {shorter:,} tokens").format(shorter=shorter),
                _("The rest of longer texts is ignored."),
                {"data.max_length": shorter},
                SHORTER,
            )
    elif data.image_size > SMALLEST_IMAGE:
        smaller = max(SMALLEST_IMAGE, data.image_size // 2)
        yield RemedyStep(
            "cut",
            _("Images of {smaller} pixels").format(smaller=smaller),
            _("Small details are lost."),
            {"data.image_size": smaller},
            (smaller / data.image_size) ** 2,
        )


def smaller_model(_request: RemedyRequest) -> Iterator[RemedyStep]:
    yield RemedyStep("model", _("Choose a smaller model"), _("It saves memory everywhere."))


# --- Combinations for "Fit it for me"


LOSSES: dict[str, int] = {"optimizer": 1, "lora": 2, "qlora": 3, "offload": 4}
"""How much the result suffers, by the name of a step; 0 for others. Offloading is last: it is the slowest."""


AS_ASKED = _("As requested")
"""The title of the unchanged options."""


@dataclass(frozen=True)
class Candidate:
    """A combination of steps and its forecast; without steps, the unchanged options."""

    steps: tuple[RemedyStep, ...]
    forecast: Forecast

    @property
    def changes(self) -> dict[str, Any]:
        return together(self.steps)

    @property
    def title(self) -> str:
        return "; ".join(step.title for step in self.steps) or AS_ASKED

    @property
    def total(self) -> int:
        """Bytes by forecast."""
        return self.forecast.parts.total

    @property
    def slower(self) -> float:
        """The factor by which a step takes longer, by forecast."""
        return math.prod(step.slower for step in self.steps)

    @property
    def loss(self) -> int:
        """The largest of the steps' `LOSSES`."""
        return max((LOSSES.get(step.name, 0) for step in self.steps), default=0)

    def goes_further_than(self, other: "Candidate") -> bool:
        """Returns whether it has all steps of `other` and batches no larger, so that it is hardly faster."""
        mine, others = ({step.title for step in each.steps if step.name != "batch"} for each in (self, other))
        size, other_size = (each.changes.get("memory.batch_size", math.inf) for each in (self, other))
        return mine >= others and size <= other_size


def candidates(request: RemedyRequest) -> list[Candidate]:
    """Returns all allowed combinations in the order to try them: by loss, then by speed. The first is unchanged."""
    found = []
    for chosen in product(*([None, *axis(request)] for axis in AXES)):
        steps = tuple(step for step in chosen if step is not None)
        changes = together(steps)
        if request.allows(changes):
            found.append(Candidate(steps, request.forecast(changes)))
    return sorted(found, key=lambda each: (bool(each.steps), each.loss, each.slower, each.total))


def together(steps: tuple[RemedyStep, ...]) -> dict[str, Any]:
    """Returns the changes of several steps; the last one counts."""
    return {path: value for step in steps for path, value in step.changes.items()}


def _same_effective_batches(request: RemedyRequest) -> Iterator[RemedyStep]:
    memory = request.options.memory
    for step in smaller_batches(request):
        if math.prod(step.changes.values()) == memory.batch_size * memory.gradient_accumulation_steps:
            yield step


AXES: tuple[Steps, ...] = (
    dynamic_padding,
    _same_effective_batches,
    half_precision,
    held_in_half,
    checkpointing,
    leaner_optimizers,
    lambda request: chain(lora(request), qlora(request)),
    offloading,
)
"""A combination has at most one step of each."""


# --- The ladder: what to do about a run that doesn't fit, or fits tightly


LEAST = 0.01
"""Remedies that save a smaller fraction of the memory are left out."""

RUNGS: tuple[Steps, ...] = (
    dynamic_padding,
    shorter_rows,
    smaller_batches,
    half_precision,
    held_in_half,
    checkpointing,
    dividing,
    leaner_optimizers,
    lora,
    qlora,
    offloading,
    shorter_or_smaller_samples,
    smaller_model,
)
"""In the order of least loss."""


class Remedy(RemedyStep, frozen=True, kw_only=True):
    """A step with the bytes it saves by forecast, and the forecast after it."""

    saves: int = 0
    forecast: Forecast


def ladder(
    options: RunOptions,
    report: ModelReport,
    device: DeviceReport,
    room: Room | None,
    *,
    length: int | None = None,
    correction: float = 1.0,
) -> tuple[Remedy, ...]:
    """Returns the remedies for a run, the one that loses least first. Takes a few milliseconds.

    Args:
        report: The report on its model; without a shape there are no remedies.
        room: The device's memory; the batch size is made as small as it takes to fit.
        length: Tokens of the longest row before padding, None if unknown.
        correction: As for `core.memory.estimate.forecast`.
    """
    request = request_of(options, report, device, room, length=length, correction=correction)
    if request is None:
        return ()
    before = request.forecast({}).parts.total
    remedies = []
    for rung in RUNGS:
        steps = [step for step in rung(request) if request.allows(step.changes)]
        for step in _one_batch(request, steps) if rung is smaller_batches else steps:
            after = request.forecast(step.changes)
            saves = before - after.parts.total
            if not step.changes or saves >= LEAST * before:
                remedies.append(Remedy(**msgspec.structs.asdict(step), saves=saves, forecast=after))
    return tuple(remedies)


def fits(forecast: Forecast, room: Room | None) -> bool:
    """Returns whether a run fits with 10 % to spare; False if `room` is unknown."""
    return room is not None and forecast.parts.total <= TIGHT * room.free


def _one_batch(request: RemedyRequest, steps: list[RemedyStep]) -> list[RemedyStep]:
    """Returns the largest batch size that fits, else the smallest; without a known room, half the batch size."""
    if request.room is None or not steps:
        return steps[:1]
    fitting = (step for step in steps if fits(request.forecast(step.changes), request.room))
    return [next(fitting, steps[-1])]
