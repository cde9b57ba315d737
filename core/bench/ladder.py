"""The rungs of the ladder of methods: what each changes of the plain one, by option.

The first nine are those of transformers' guide "Efficient training on a single GPU" (4.26 and before), in its order;
the others are Hone's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.bench.making import LEFT_OUT, Wanted, means_something
from core.capabilities import half_precision
from core.choices import Attention, Method, Optimizer, Padding, Precision, Toggle
from core.hints import LORA_RATE
from core.options import RunOptions
from core.reports import DeviceReport

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
