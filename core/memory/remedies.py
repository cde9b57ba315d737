"""What can be changed about a run so that it takes less memory, whatever that saves: the steps of the ladder.

Each function looks at what is asked and gives what there is to change, nothing where that is chosen already. What a
device refuses, a rule forbids or a model lacks is left out afterwards, in one place.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec

from core.base.language import _
from core.memory import estimate
from core.memory.estimate import STATE
from core.memory.model import TIGHT, Forecast, ModelReport, ModelShape, Room, can_be_made
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import DeepSpeed, Method, Optimizer, Padding, Precision
from core.options.device_support import LORA_RATE, DeviceReport, caution, settle
from core.options.device_support import half_precision as half_of

# --- By what factor a step takes longer (below 1: shorter). "The guide" is transformers' on training with one GPU.

PADDING = SHORTER = 1.0
"""Shorter rows are never slower; how much faster depends on the texts, and long ones are few."""
HALF_BATCH = 1.07
"""The guide: four batches of 1 in place of one of 4, 66.03 s; that is two halvings of 7 % each."""
CHECKPOINTING = 1.29
"""The guide: 85.47 s after 66.03 s; one more forward pass would be a third."""
HALF_PRECISION = {"cuda": 0.48, "cpu": 0.4, "mps": 1.0}
"""The guide, for fp16: 27.46 s. Measured with a CPU that has bf16 in hardware: MiniLM, batch 16. MPS: unknown."""
EMULATED = 1.5
"""A guess: this processor computes bf16 through fp32 and converts forth and back."""
ADAMW_8BIT, ADAFACTOR = 0.97, 1.11
"""The guide: 55.95 s and 64.31 s."""
LORA = 0.8
"""LoRA's paper (arXiv 2106.09685, 4.2): 25 % faster than training all of GPT-3."""
QLORA_OVER_LORA = 1.39
"""S. Raschka, Finetuning LLMs with LoRA and QLoRA (2023): 39 % more time than LoRA, for a model of 7 billion."""
OFFLOAD_OPTIMIZER, ZERO_2, ZERO_3 = 1.2, 1.5, 2.0
"""Guesses: gradients and weights cross to main memory; the CPU updates the state; each layer's weights cross."""


# --- What can be changed about a run so that it takes less memory, whatever that saves


SHORTEST_TEXT = 32
SMALLEST_IMAGE = 64
ROUND_TOKENS = 8
"""Lengths are made multiples of it, which GPUs multiply fastest."""

OF_TWO_MOMENTS = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.ADEMAMIX)
OF_8_BITS = (Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT, Optimizer.ADAMW_8BIT_TORCHAO)


class Step(msgspec.Struct, frozen=True):
    """One thing to change.

    `name` tells its kind (`batch`, `precision`, ...). `changes` are values by the path of their option, as a `Fix` has
    them; empty where it is advice only. `slower` is the factor by which an optimizer step takes longer.
    """

    name: str
    title: str
    help: str = ""
    changes: dict[str, Any] = {}
    slower: float = 1.0


@dataclass(frozen=True)
class Asked:
    """What is asked, settled for `device`, and what is known of its model.

    `length` is tokens of the longest row before padding; None: not known.
    """

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
        return self.device.name.partition(":")[0]

    @property
    def pads_for_nothing(self) -> bool:
        """Whether rows are padded beyond the longest of them, as far as is known."""
        data = self.options.data
        if not self.options.task.reads_text or data.padding is not Padding.FIXED:
            return False
        padded = min(data.max_length, self.report.max_length or data.max_length)
        return self.length is None or self.length < padded

    def forecast(self, changes: Mapping[str, Any]) -> Forecast:
        """What the run takes once `changes` are made."""
        options = with_changes(self.options, changes)
        length = None if self.length is None else min(self.length, options.data.max_length)
        return estimate.forecast(
            options, self.shape, self.device, length=length, room=self.room, correction=self.correction
        )

    def allows(self, changes: Mapping[str, Any]) -> bool:
        """Whether changes can be made here; none, advice, always can."""
        return not changes or can_be_made(self.options, changes, self.device)


def dynamic_padding(asked: Asked) -> Iterator[Step]:
    """Rows as long as the longest of their batch."""
    if asked.pads_for_nothing:
        yield Step(
            "padding",
            _("Pad to the batch's longest"),
            _("Rows are no longer than the longest text of their batch. The result is the same."),
            {"data.padding": Padding.DYNAMIC.value},
            PADDING,
        )


def shorter_rows(asked: Asked) -> Iterator[Step]:
    """A limit of length that still cuts nothing off."""
    if asked.length is None or not asked.pads_for_nothing:
        return
    enough = -(-asked.length // ROUND_TOKENS) * ROUND_TOKENS
    if enough < asked.options.data.max_length:
        yield Step(
            "length",
            _("Rows of {enough:,} tokens").format(enough=enough),
            _("The longest text found has {length:,}, so that nothing is cut off.").format(
                length=asked.length
            ),
            {"data.max_length": enough},
            SHORTER,
        )


def smaller_batches(asked: Asked) -> Iterator[Step]:
    """Half the batch, a quarter, down to 1, accumulated to as many samples a step, or as near as that comes."""
    before, size, halvings = asked.options.effective_batch, asked.options.memory.batch_size, 0
    while size > 1:
        size, halvings = size // 2, halvings + 1
        steps = round(before / size)
        yield Step(
            "batch",
            _("Batch size {size:,}, {steps:,} accumulation steps").format(size=size, steps=steps),
            _accumulated(asked, size * steps),
            {"memory.batch_size": size, "memory.gradient_accumulation_steps": steps},
            HALF_BATCH**halvings,
        )


def _accumulated(asked: Asked, samples: int) -> str:
    before = asked.options.effective_batch
    if samples != before:
        return _("{samples:,} rows move the weights at a time instead of {before:,}.").format(
            samples=samples, before=before
        )
    if asked.report.normalises_batch:
        return "As many rows move the weights at a time; each small batch is normalised by itself, though."
    return _("As many rows move the weights at a time: the result is the same.")


def half_precision(asked: Asked) -> Iterator[Step]:
    """bf16, or fp16 where a device has no bf16 or only imitates it."""
    if asked.options.device.precision not in (Precision.FP32, Precision.TF32):
        return
    value = half_of(asked.device)
    if value is None:
        return
    told = caution(asked.device, "device.precision", value)
    yield Step(
        "precision",
        _("Compute in {value}").format(value=value),
        told or _("Activations in half the bits. The weights stay fp32, and results hardly differ."),
        {"device.precision": value.value},
        EMULATED if told else HALF_PRECISION[asked.kind],
    )


def checkpointing(asked: Asked) -> Iterator[Step]:
    """Compute activations again instead of keeping them; below a last layer that learns alone none are kept."""
    is_chosen = asked.options.memory.activation_checkpointing
    is_useless = asked.options.model.method is Method.HEAD
    if asked.report.activation_checkpointing and not is_chosen and not is_useless:
        yield Step(
            "checkpointing",
            _("Activation checkpointing"),
            _("Activations are not kept, but computed again in the backward pass. The result is the same."),
            {"memory.activation_checkpointing": True},
            CHECKPOINTING,
        )


def leaner_optimizers(asked: Asked) -> Iterator[Step]:
    """Less state beside each weight."""
    optimizer = asked.options.training.optimizer
    if optimizer in OF_TWO_MOMENTS:
        yield Step(
            "optimizer",
            _("8-bit AdamW"),
            _(
                "Its state takes 2 bytes a weight instead of {state:g}. Results come out as good as always."
            ).format(state=STATE[optimizer]),
            {"training.optimizer": Optimizer.ADAMW_8BIT.value},
            ADAMW_8BIT,
        )
    if optimizer in (*OF_TWO_MOMENTS, *OF_8_BITS):
        yield Step(
            "optimizer",
            _("Adafactor"),
            _("It keeps its state by rows and columns: almost none. It sometimes learns more slowly."),
            {"training.optimizer": Optimizer.ADAFACTOR.value},
            ADAFACTOR,
        )


def small_matrices(asked: Asked) -> Iterator[Step]:
    """LoRA in place of all weights."""
    if asked.options.model.method is Method.FULL and not asked.options.starts_random:
        yield Step(
            "lora",
            _("LoRA instead of full fine-tuning"),
            _("The model is frozen, and small matrices beside its layers learn: nearly the result."),
            {"model.method": Method.LORA.value, "training.learning_rate": LORA_RATE},
            LORA,
        )


def packed_weights(asked: Asked) -> Iterator[Step]:
    """QLoRA: LoRA beside weights in 4 bits."""
    method = asked.options.model.method
    if method not in (Method.FULL, Method.LORA) or asked.options.starts_random:
        return
    from_full = method is Method.FULL
    yield Step(
        "qlora",
        _("QLoRA: LoRA on a quantized model"),
        _("The frozen weights are packed into 4 bits each, and the result suffers a little."),
        {
            "model.method": Method.QLORA.value,
            **({"training.learning_rate": LORA_RATE} if from_full else {}),
        },
        QLORA_OVER_LORA * (LORA if from_full else 1.0),
    )


def offloading(asked: Asked) -> Iterator[Step]:
    """What the GPU doesn't need at the moment, put into main memory. A CPU or a Mac has but one memory."""
    if asked.kind != "cuda":
        return
    if not asked.options.memory.offload_optimizer:
        yield Step(
            "offload",
            _("CPU offload of the optimizer"),
            _("The optimizer's state is kept and updated there; gradients can't be clipped then."),
            {"memory.offload_optimizer": True, "training.max_grad_norm": 0.0},
            OFFLOAD_OPTIMIZER,
        )
    for stage, slower, what in (
        (DeepSpeed.ZERO_2, ZERO_2, _("gradients and the optimizer's state")),
        (DeepSpeed.ZERO_3, ZERO_3, _("the weights, too,")),
    ):
        if asked.options.memory.deepspeed is not stage:
            yield Step(
                "offload",
                _("DeepSpeed {replace}, offloaded to main memory").format(
                    replace=stage.value.replace("zero", "ZeRO")
                ),
                _("DeepSpeed puts {what} into main memory while the GPU doesn't need them.").format(
                    what=what
                ),
                {"memory.deepspeed": stage.value, "memory.offload": "cpu"},
                slower,
            )


def less_to_see(asked: Asked) -> Iterator[Step]:
    """Texts cut off earlier, smaller images: here something of the data is lost."""
    data = asked.options.data
    if asked.options.task.reads_text:
        longest = min(data.max_length, *filter(None, (asked.length, asked.report.max_length)), 1 << 30)
        shorter = max(SHORTEST_TEXT, longest // 2 // ROUND_TOKENS * ROUND_TOKENS)
        if shorter < longest:
            yield Step(
                "cut",
                _("Maximum length {shorter:,} tokens").format(shorter=shorter),
                _("What comes later in a text is not seen."),
                {"data.max_length": shorter},
                SHORTER,
            )
    elif data.image_size > SMALLEST_IMAGE:
        smaller = max(SMALLEST_IMAGE, data.image_size // 2)
        yield Step(
            "cut",
            _("Images of {smaller} pixels").format(smaller=smaller),
            _("Small things in an image are no longer seen."),
            {"data.image_size": smaller},
            (smaller / data.image_size) ** 2,
        )


def smaller_model(asked: Asked) -> Iterator[Step]:
    """What is left in the end: advice."""
    such = (
        _("a distilled one has about half the layers")
        if asked.options.task.reads_text
        else _("such as resnet18 or a mobilenet")
    )
    yield Step(
        "model",
        _("Choose a smaller model"),
        _("Fewer and narrower layers save in every part: {such}.").format(such=such),
    )


# --- The combinations of remedies that "Fit it for me" may try


LOSSES: dict[str, int] = {"optimizer": 1, "lora": 2, "qlora": 3, "offload": 4}
"""How much of what was asked a step gives up, by its name; the others keep the result. As on the ladder, offloading is
last: it leans on main memory, and gradients can't be clipped."""


AS_ASKED = _("As asked")
"""The title of what changes nothing."""


@dataclass(frozen=True)
class Candidate:
    """Some steps taken together, and what is forecast of them. Without any it is what was asked."""

    steps: tuple[Step, ...]
    forecast: Forecast

    @property
    def changes(self) -> dict[str, Any]:
        """All they change."""
        return together(self.steps)

    @property
    def title(self) -> str:
        """What they are, in words."""
        return "; ".join(step.title for step in self.steps) or AS_ASKED

    @property
    def total(self) -> int:
        """Bytes it takes by forecast."""
        return self.forecast.parts.total

    @property
    def slower(self) -> float:
        """By what factor a step takes longer, by forecast."""
        return math.prod(step.slower for step in self.steps)

    @property
    def loss(self) -> int:
        """How much is given up of what was asked; 0: nothing."""
        return max((LOSSES.get(step.name, 0) for step in self.steps), default=0)

    @property
    def batch_size(self) -> float:
        """Of how many samples the batches are made; infinity: as asked."""
        return float(self.changes.get("memory.batch_size", math.inf))

    def goes_further_than(self, other: "Candidate") -> bool:
        """Whether it does all that `other` does, and more, in batches no larger: then it is hardly faster."""
        mine, theirs = ({step.title for step in one.steps if step.name != "batch"} for one in (self, other))
        return mine >= theirs and self.batch_size <= other.batch_size


def candidates(asked: Asked) -> list[Candidate]:
    """Every combination that can be made, in the order in which to try them.

    What was asked comes first. Then what keeps the result, what changes the optimizer, LoRA, QLoRA, offloading; the
    fastest first in each.
    """
    found = []
    for chosen in product(*([None, *axis(asked)] for axis in AXES)):
        steps = tuple(step for step in chosen if step is not None)
        changes = together(steps)
        if not steps or asked.allows(changes):
            found.append(Candidate(steps, asked.forecast(changes)))
    return sorted(found, key=lambda one: (bool(one.steps), one.loss, one.slower, one.total))


def together(steps: tuple[Step, ...]) -> dict[str, Any]:
    """What some steps change together; a later one has the last word."""
    return {path: value for step in steps for path, value in step.changes.items()}


def _same_batches(asked: Asked) -> Iterator[Step]:
    """Smaller batches, of those only that move the weights by as many samples as before."""
    for step in smaller_batches(asked):
        size, steps = step.changes.values()
        if size * steps == asked.options.effective_batch:
            yield step


def _methods(asked: Asked) -> Iterator[Step]:
    yield from small_matrices(asked)
    yield from packed_weights(asked)


AXES: tuple[Callable[[Asked], Iterator[Step]], ...] = (
    dynamic_padding,
    _same_batches,
    half_precision,
    checkpointing,
    leaner_optimizers,
    _methods,
    offloading,
)
"""One of each, or none, makes a combination."""


# --- The ladder: what to do about a run that doesn't fit, or fits tightly


LEAST = 0.01
"""A remedy that saves less than this share of the memory is none."""

RUNGS: tuple[Callable[[Asked], Iterator[Step]], ...] = (
    dynamic_padding,
    shorter_rows,
    smaller_batches,
    half_precision,
    checkpointing,
    leaner_optimizers,
    small_matrices,
    packed_weights,
    offloading,
    less_to_see,
    smaller_model,
)
"""In the order of least loss."""


class Remedy(Step, frozen=True, kw_only=True):
    """One thing to do about memory: the bytes it saves by forecast, and what the run takes after it."""

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
    """The remedies that apply to a run, the one that loses least first. Takes a few milliseconds.

    Args:
        options: What is asked.
        report: What is known of its model; without a shape nothing can be forecast, and there is no ladder.
        device: Where it computes.
        room: The device's memory; a smaller batch is made as small as it takes to fit.
        length: Tokens of the longest row before padding, where that is known.
        correction: As `core.memory.estimate.forecast` takes it.
    """
    asked = asked_of(options, report, device, room, length=length, correction=correction)
    if asked is None:
        return ()
    now = asked.forecast({})
    remedies = []
    for rung in RUNGS:
        for step in _one_batch(asked, rung):
            after = asked.forecast(step.changes)
            saves = now.parts.total - after.parts.total
            if not step.changes or saves >= LEAST * now.parts.total:
                remedies.append(Remedy(**msgspec.structs.asdict(step), saves=saves, forecast=after))
    return tuple(remedies)


def asked_of(
    options: RunOptions,
    report: ModelReport,
    device: DeviceReport,
    room: Room | None,
    *,
    length: int | None = None,
    correction: float = 1.0,
) -> Asked | None:
    """What is asked, as remedies look at it; None where the model's shape isn't known."""
    if report.shape is None:
        return None
    return Asked(settle(device, options), report, report.shape, device, room, length, correction)


def fits(forecast: Forecast, room: Room | None) -> bool:
    """Whether a run fits with a tenth to spare; without a room nobody knows, and it doesn't."""
    return room is not None and forecast.parts.total <= TIGHT * room.free


def _one_batch(asked: Asked, rung: Callable[[Asked], Iterator[Step]]) -> list[Step]:
    """The steps of a rung that can be made; of batches the largest that fits, and the half where that isn't known."""
    steps = [step for step in rung(asked) if asked.allows(step.changes)]
    if rung is not smaller_batches or not steps:
        return steps
    if asked.room is None:
        return steps[:1]
    enough = (step for step in steps if fits(asked.forecast(step.changes), asked.room))
    return [next(enough, steps[-1])]
