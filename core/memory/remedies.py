"""What can be changed about a run so that it takes less memory, whatever that saves: the steps of the ladder.

Each function looks at what is asked and gives what there is to change, nothing where that is chosen already. What a
device refuses, a rule forbids or a model lacks is left out afterwards, in one place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.capabilities import caution
from core.capabilities import half_precision as half_of
from core.choices import DeepSpeed, Method, Optimizer, Padding, Precision
from core.hints import LORA_RATE
from core.memory import anatomy, costs
from core.memory.changes import can_be_made, with_changes
from core.memory.forecast import Forecast, Room
from core.memory.optimizer_memory import STATE
from core.memory.shape import ModelShape
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport
from core.scratch_models import starts_random

SHORTEST_TEXT = 32
SMALLEST_IMAGE = 64
ROUND_TOKENS = 8
"""Lengths are made multiples of it, which GPUs multiply fastest."""

OF_TWO_MOMENTS = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.ADEMAMIX)
OF_8_BITS = (Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT, Optimizer.ADAMW_8BIT_TORCHAO)


@dataclass(frozen=True)
class Step:
    """One thing to change. `name` tells its kind; `changes` are empty where it is advice only."""

    name: str
    title: str
    help: str
    changes: Mapping[str, Any] = field(default_factory=dict)
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
    def is_text(self) -> bool:
        """Whether rows are tokens."""
        return self.options.task.reads_text

    @property
    def pads_for_nothing(self) -> bool:
        """Whether rows are padded beyond the longest of them, as far as is known."""
        data = self.options.data
        if not self.is_text or data.padding is not Padding.FIXED:
            return False
        padded = min(data.max_length, self.report.max_length or data.max_length)
        return self.length is None or self.length < padded

    def forecast(self, changes: Mapping[str, Any]) -> Forecast:
        """What the run takes once `changes` are made."""
        options = with_changes(self.options, changes)
        length = None if self.length is None else min(self.length, options.data.max_length)
        return anatomy.forecast(
            options, self.shape, self.device, length=length, room=self.room, correction=self.correction
        )

    def allows(self, step: Step) -> bool:
        """Whether a step can be made here; advice always can."""
        return not step.changes or can_be_made(self.options, step.changes, self.device)


def dynamic_padding(asked: Asked) -> Iterator[Step]:
    """Rows as long as the longest of their batch."""
    if asked.pads_for_nothing:
        yield Step(
            "padding",
            "Pad to the batch's longest",
            "Rows are no longer than the longest text of their batch. The result is the same.",
            {"data.padding": Padding.DYNAMIC.value},
            costs.PADDING.factor,
        )


def shorter_rows(asked: Asked) -> Iterator[Step]:
    """A limit of length that still cuts nothing off."""
    if asked.length is None or not asked.pads_for_nothing:
        return
    enough = -(-asked.length // ROUND_TOKENS) * ROUND_TOKENS
    if enough < asked.options.data.max_length:
        yield Step(
            "length",
            f"Rows of {enough:,} tokens",
            f"The longest text found has {asked.length:,}, so that nothing is cut off.",
            {"data.max_length": enough},
            costs.SHORTER.factor,
        )


def smaller_batches(asked: Asked) -> Iterator[Step]:
    """Half the batch, a quarter, down to 1, accumulated to as many samples a step, or as near as that comes."""
    before, size, halvings = asked.options.effective_batch, asked.options.memory.batch_size, 0
    while size > 1:
        size, halvings = size // 2, halvings + 1
        steps = round(before / size)
        yield Step(
            "batch",
            f"Batches of {size:,}, accumulated {steps:,} times",
            _accumulated(asked, size * steps),
            {"memory.batch_size": size, "memory.gradient_accumulation_steps": steps},
            costs.HALF_BATCH.factor**halvings,
        )


def _accumulated(asked: Asked, samples: int) -> str:
    before = asked.options.effective_batch
    if samples != before:
        return f"{samples:,} rows move the weights at a time instead of {before:,}."
    if asked.report.normalises_batch:
        return "As many rows move the weights at a time; each small batch is normalised by itself, though."
    return "As many rows move the weights at a time: the result is the same."


def half_precision(asked: Asked) -> Iterator[Step]:
    """bf16, or fp16 where a device has no bf16 or only imitates it."""
    if asked.options.device.precision not in (Precision.FP32, Precision.TF32):
        return
    value = half_of(asked.device)
    if value is None:
        return
    told = caution(asked.device, "device.precision", value)
    by_kind = {"cuda": costs.HALF_ON_CUDA, "mps": costs.HALF_ON_MPS}
    cost = costs.EMULATED if told else by_kind.get(asked.kind, costs.HALF_ON_CPU)
    yield Step(
        "precision",
        f"Compute in {value}",
        told or "Activations in half the bits. The weights stay fp32, and results hardly differ.",
        {"device.precision": value.value},
        cost.factor,
    )


def checkpointing(asked: Asked) -> Iterator[Step]:
    """Compute activations again instead of keeping them; below a last layer that learns alone none are kept."""
    is_chosen = asked.options.memory.activation_checkpointing
    is_useless = asked.options.model.method is Method.HEAD
    if asked.report.activation_checkpointing and not is_chosen and not is_useless:
        yield Step(
            "checkpointing",
            "Compute activations again",
            "What layers computed is forgotten, and computed again for the gradients. The result is the same.",
            {"memory.activation_checkpointing": True},
            costs.CHECKPOINTING.factor,
        )


def leaner_optimizers(asked: Asked) -> Iterator[Step]:
    """Less state beside each weight."""
    optimizer = asked.options.training.optimizer
    if optimizer in OF_TWO_MOMENTS:
        yield Step(
            "optimizer",
            "AdamW in 8 bits",
            f"Its state takes 2 bytes a weight instead of {STATE[optimizer]:g}. Results come out as good as always.",
            {"training.optimizer": Optimizer.ADAMW_8BIT.value},
            costs.ADAMW_8BIT.factor,
        )
    if optimizer in (*OF_TWO_MOMENTS, *OF_8_BITS):
        yield Step(
            "optimizer",
            "Adafactor",
            "It keeps its state by rows and columns: almost none. It sometimes learns more slowly.",
            {"training.optimizer": Optimizer.ADAFACTOR.value},
            costs.ADAFACTOR.factor,
        )


def small_matrices(asked: Asked) -> Iterator[Step]:
    """LoRA in place of all weights."""
    if asked.options.model.method is Method.FULL and not starts_random(asked.options):
        yield Step(
            "lora",
            "Train LoRA in place of all weights",
            "The model is frozen, and small matrices beside its layers learn: nearly the result.",
            {"model.method": Method.LORA.value, "training.learning_rate": LORA_RATE},
            costs.LORA.factor,
        )


def packed_weights(asked: Asked) -> Iterator[Step]:
    """QLoRA: LoRA beside weights in 4 bits."""
    method = asked.options.model.method
    if method not in (Method.FULL, Method.LORA) or starts_random(asked.options):
        return
    from_full = method is Method.FULL
    yield Step(
        "qlora",
        "Train QLoRA: LoRA beside packed weights",
        "The frozen weights are packed into 4 bits each, and the result suffers a little.",
        {
            "model.method": Method.QLORA.value,
            **({"training.learning_rate": LORA_RATE} if from_full else {}),
        },
        costs.QLORA_OVER_LORA.factor * (costs.LORA.factor if from_full else 1.0),
    )


def offloading(asked: Asked) -> Iterator[Step]:
    """What the GPU doesn't need at the moment, put into main memory. A CPU or a Mac has but one memory."""
    if asked.kind != "cuda":
        return
    if not asked.options.memory.offload_optimizer:
        yield Step(
            "offload",
            "Optimizer in main memory",
            "The optimizer's state is kept and updated there; gradients can't be clipped then.",
            {"memory.offload_optimizer": True, "training.max_grad_norm": 0.0},
            costs.OFFLOAD_OPTIMIZER.factor,
        )
    for stage, cost, what in (
        (DeepSpeed.ZERO_2, costs.ZERO_2, "gradients and the optimizer's state"),
        (DeepSpeed.ZERO_3, costs.ZERO_3, "the weights, too,"),
    ):
        if asked.options.memory.deepspeed is not stage:
            yield Step(
                "offload",
                f"DeepSpeed {stage.value.replace('zero', 'ZeRO')}, offloaded to main memory",
                f"DeepSpeed puts {what} into main memory while the GPU doesn't need them.",
                {"memory.deepspeed": stage.value, "memory.offload": "cpu"},
                cost.factor,
            )


def less_to_see(asked: Asked) -> Iterator[Step]:
    """Texts cut off earlier, smaller images: here something of the data is lost."""
    data = asked.options.data
    if asked.is_text:
        longest = min(data.max_length, *filter(None, (asked.length, asked.report.max_length)), 1 << 30)
        shorter = max(SHORTEST_TEXT, longest // 2 // ROUND_TOKENS * ROUND_TOKENS)
        if shorter < longest:
            yield Step(
                "cut",
                f"Cut texts at {shorter:,} tokens",
                "What comes later in a text is not seen.",
                {"data.max_length": shorter},
                costs.SHORTER.factor,
            )
    elif data.image_size > SMALLEST_IMAGE:
        smaller = max(SMALLEST_IMAGE, data.image_size // 2)
        yield Step(
            "cut",
            f"Images of {smaller} pixels",
            "Small things in an image are no longer seen.",
            {"data.image_size": smaller},
            (smaller / data.image_size) ** 2,
        )


def smaller_model(asked: Asked) -> Iterator[Step]:
    """What is left in the end: advice."""
    such = "a distilled one has about half the layers" if asked.is_text else "such as resnet18 or a mobilenet"
    yield Step("model", "Choose a smaller model", f"Fewer and narrower layers save in every part: {such}.")
