"""One run as the formulas of memory see it: options with nothing left to choose, a model's shape, a kind of device."""

from dataclasses import dataclass
from functools import cached_property

from core.choices import Attention, DeepSpeed, Method, Padding, Precision, Task
from core.memory.shape import ModelShape
from core.options import RunOptions
from core.reports import DeviceReport
from core.settling import settle
from core.sources import parse_synthetic

NUMBER, HALF_NUMBER = 4, 2
"""Bytes of a number of fp32, and of bf16 or fp16."""


@dataclass(frozen=True)
class Case:
    """What is asked (`options`, settled), of which model, on which kind of device (`cpu`, `cuda`, `mps`).

    `length` is tokens of the longest row, or pixels of an image's side.
    """

    options: RunOptions
    shape: ModelShape
    kind: str
    length: int

    @property
    def is_text(self) -> bool:
        """Whether the model is a transformer that reads tokens."""
        return self.options.task.reads_text

    @property
    def method(self) -> Method:
        """Which weights learn."""
        return self.options.model.method

    @property
    def has_lora(self) -> bool:
        """Whether small matrices learn beside a frozen model."""
        return self.method in (Method.LORA, Method.QLORA)

    @property
    def is_half(self) -> bool:
        """Whether autocast computes in 16 bits."""
        return self.options.device.precision in (Precision.BF16, Precision.FP16)

    @property
    def number(self) -> int:
        """Bytes of a number that a matrix is multiplied with."""
        return HALF_NUMBER if self.is_half else NUMBER

    @property
    def recomputes(self) -> bool:
        """Whether activations are computed again for the gradients; a last layer alone has none below it to keep."""
        return self.options.memory.activation_checkpointing and self.method is not Method.HEAD

    @property
    def accumulates(self) -> bool:
        """Whether gradients of earlier batches are there while the next one is computed."""
        return self.options.memory.gradient_accumulation_steps > 1

    @property
    def places(self) -> int:
        """Tokens of a batch, or its pixels."""
        each = self.length if self.is_text else self.length * self.length
        rows = 2 if self.options.task is Task.PREFERENCE else 1  # of the better and of the worse answer
        return rows * self.options.memory.batch_size * each

    @property
    def scores_in_tiles(self) -> bool:
        """Whether TRL computes the logarithms of probabilities, which keeps none of all tokens."""
        return self.options.task.reads_conversations

    @cached_property
    def lora_sides(self) -> tuple[int, int]:
        """Inputs and outputs of the layers that get LoRA's matrices, added up."""
        asked, linears = self.options.model.lora_targets, self.shape.linears
        names = {target.rpartition(".")[2] for target in asked} if asked else set(linears)
        chosen = [sides for name, sides in linears.items() if name in names]
        return sum(inputs for inputs, _ in chosen), sum(outputs for _, outputs in chosen)

    @cached_property
    def lora_weights(self) -> int:
        """How many weights LoRA's matrices have."""
        return sum(self.lora_sides) * self.options.model.lora_rank if self.has_lora else 0

    @property
    def trainable(self) -> int:
        """How many weights learn."""
        if self.method is Method.FULL:
            return self.shape.parameters
        return self.shape.head + self.lora_weights

    @property
    def trained_tables(self) -> int:
        """Weights of tables of tokens and positions that learn."""
        return self.shape.embeddings if self.method is Method.FULL else 0

    @property
    def largest_trained(self) -> int:
        """Numbers in the largest weight that learns; of LoRA's, none is large."""
        return self.shape.largest if self.method is Method.FULL else 0

    @property
    def zero(self) -> DeepSpeed:
        """Which stage of DeepSpeed's ZeRO, if any."""
        return self.options.memory.deepspeed

    @property
    def keeps_scores(self) -> bool:
        """Whether attention keeps its table of scores, heads x tokens x tokens, for the gradients.

        Written out, it does. PyTorch's own has kernels that don't: on CUDA, and on a CPU where no score is dropped
        (`check_for_dropout` in torch's `sdp_utils_cpp.cpp`); on MPS none that gives gradients (`attention.cpp`).
        """
        match self.options.model.attention:
            case Attention.EAGER:
                return True
            case Attention.SDPA:
                return self.kind == "mps" or (self.kind == "cpu" and self.shape.attention_dropout)
        return False


def case_of(options: RunOptions, shape: ModelShape, device: DeviceReport, length: int | None = None) -> Case:
    """The case of a run.

    Args:
        options: What is asked; what is left to Hone is settled for `device`.
        shape: The model's.
        device: Where it computes.
        length: Tokens of the longest row; None: as many as the options and the model allow. Of no meaning for images.
    """
    settled = settle(device, options)
    kind = device.name.partition(":")[0]
    return Case(settled, shape, kind, _length(settled, shape, length))


def _length(options: RunOptions, shape: ModelShape, length: int | None) -> int:
    synthetic = parse_synthetic(options.data.train)
    if options.task.reads_images:
        return synthetic[1] if synthetic else options.data.image_size
    if options.data.padding is Padding.FIXED:  # rows are as long as is allowed, whatever is in them
        length = options.data.max_length
    longest = length or (synthetic[1] if synthetic else options.data.max_length)
    return min(longest, shape.positions) if shape.positions else longest
