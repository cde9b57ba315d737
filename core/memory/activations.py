"""What a forward pass keeps for the gradients, and what is held for a moment beside it. All figures are bytes.

Counted operator by operator from what autograd saves (torch 2.13), as a BERT block computes: a linear layer keeps what
enters it, a normalising layer and an activation function what enter them, dropout its mask, attention its queries,
keys, values and, where no kernel spares them, its scores. The guides of transformers and the paper "Reducing
Activation Recomputation in Large Transformer Models" (arXiv 2205.05198, section 4) count the same way for 16 bits.
"""

from dataclasses import dataclass
from functools import cached_property

from core.memory.model import ModelShape
from core.options import RunOptions
from core.options.choices import Attention, DeepSpeed, Method, Padding, Precision, Task
from core.options.device_support import DeviceReport, settle
from core.options.sources import parse_synthetic

# --- One run as the formulas of memory see it: options with nothing left to choose


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


# --- The tiles in which TRL scores tokens (`trl.kernels.chunked_logprob`


TILE_TOKENS, TILE_WORDS = 4096, 32768
"""So many tokens are multiplied with so many words at a time."""

FOLDS_FORWARD, FOLDS_BACKWARD = 3, 6
"""Tiles of fp32 that are there at once where torch folds them, step by step."""


def tile_of(kind: str, tokens: int, words: int) -> tuple[int, int]:
    """Rows and columns of a tile. On a CPU, memory is taken where it is written to: only as wide as there are words."""
    return min(tokens, TILE_TOKENS), TILE_WORDS if kind == "cuda" else min(words, TILE_WORDS)


# --- What a forward pass keeps for the gradients


LAST_MAPS = 0.25
"""Gradients of a vision model's last layers, as a share of its widest output: traced in the six models, 0.1 to 0.4."""

EMBEDDING_NORMS = 1
"""Embeddings are normalised once before the first block, or once after the last."""


def kept_bytes(case: Case) -> int:
    """What is kept when the forward pass has ended, activation checkpointing heeded."""
    if case.method is Method.HEAD:
        return 0
    if not case.is_text:
        others = (
            case.options.memory.gradient_accumulation_steps
        )  # the batches of a step, and one that is looked ahead to
        return round(case.places * (_each_pixel(case) + others * 3 * NUMBER))
    blocks = case.shape.layers * (entering_each(case) if case.recomputes else block_each(case))
    return round(case.places * (blocks + _embedding_each(case) + said_each(case)))


def said_each(case: Case) -> int:
    """Logarithms of the probabilities of all tokens, which the loss keeps in fp32 for each place."""
    return 0 if case.scores_in_tiles else NUMBER * case.shape.said


def saying_bytes(case: Case) -> int:
    """What is held beside them for a moment while their gradients are computed, in fp32: of them, and of the logits."""
    if case.scores_in_tiles:
        return _tile_bytes(case)
    return 2 * NUMBER * case.shape.said * case.places if case.is_text else 0


def _tile_bytes(case: Case) -> int:
    """A tile of logits while its gradients are computed, and the gradient of the layer that says them."""
    rows, columns = tile_of(case.kind, case.places, case.shape.said)
    folds = 0 if case.kind == "cuda" else FOLDS_BACKWARD
    learned = case.shape.said * case.shape.hidden if case.method is Method.FULL else 0
    return rows * columns * (case.number + folds * NUMBER) + NUMBER * learned


def recomputed_bytes(case: Case) -> int:
    """What one block keeps while it is computed again; a vision model's largest segment is in `kept_bytes` already."""
    return round(case.places * block_each(case)) if case.recomputes and case.is_text else 0


def last_kept_bytes(case: Case) -> int:
    """What is still kept when the backward pass has reached the first block; of a vision model nothing is counted."""
    if case.method is Method.HEAD or not case.is_text:
        return 0
    return round(case.places * (block_each(case) + _embedding_each(case)))


def block_each(case: Case) -> float:
    """Bytes one block of a transformer keeps for each token; of an encoder's and a decoder's, the mean."""
    attending = 1 + _crossings(case)
    kept = attending * (_attention_each(case) + _around_each(case)) + _inner_each(case) + _around_each(case)
    if case.has_lora:
        return kept + _lora_each(case) / case.shape.layers
    return kept + _linear_inputs_each(case) + _crossings(case) * _crossing_inputs_each(case)


def _crossings(case: Case) -> float:
    """The share of blocks that look at an encoder's output, each with a layer of attention for it."""
    return case.shape.crossing / max(1, case.shape.layers)


def _around_each(case: Case) -> float:
    """What enters the norm beside a layer of attention or the inner layers, and the mask of dropout behind it."""
    shape = case.shape
    masks = mask_each(case) * shape.hidden if shape.dropout else 0
    return NUMBER * shape.hidden * shape.norm_keeps + masks


def block_by_size(case: Case) -> tuple[tuple[float, float], ...]:
    """What `block_each` counts, by the size of its tensors: bytes of one, and bytes of all for each token.

    They are as wide as a block, as its inner layers, and as attention's scores.
    """
    shape, places = case.shape, case.places
    scores = scores_each(case) * (1 + _crossings(case))
    inner = _inner_each(case)
    if not case.has_lora:
        inner += (
            inner_number(case) * shape.experts * shape.intermediate
        )  # what enters the layer that leads back
    rest = block_each(case) - scores - inner
    return (
        (places * shape.hidden * case.number, rest),
        (places * shape.experts * shape.intermediate * inner_number(case), inner),
        (places * shape.heads * case.length * NUMBER, scores),
    )


def entering_each(case: Case) -> float:
    """Bytes that enter a block for each token: what goes from block to block stays in fp32 under autocast."""
    return NUMBER * case.shape.hidden


def scores_each(case: Case) -> float:
    """Bytes of attention's scores that a block keeps for each token; few where a kernel computes them piece by piece.

    Kept are what softmax gives, where scores are dropped also the mask, and what then meets the values. Attention
    written out computes softmax in fp32, PyTorch's own without a kernel everything.
    """
    if not case.keeps_scores:
        return _kernel_each(case)
    is_written_out = case.options.model.attention is Attention.EAGER
    meeting = case.number if is_written_out else NUMBER
    dropped = case.shape.attention_dropout
    bytes_each = NUMBER + (mask_each(case, NUMBER) if dropped else 0)
    if dropped or meeting != NUMBER:
        bytes_each += meeting
    return float(bytes_each * case.shape.heads * case.length)


def _kernel_each(case: Case) -> float:
    """What kernels keep in place of scores: a sum for each head; PyTorch's also which tokens are padding."""
    sums = NUMBER * case.shape.heads
    return float(
        sums if case.options.model.attention is not Attention.SDPA else sums + case.number * case.length
    )


def mask_each(case: Case, number: int | None = None) -> int:
    """Bytes of dropout's mask for each number: a byte on CUDA, elsewhere a number like those it masks."""
    return 1 if case.kind == "cuda" else number or case.number


def _attention_each(case: Case) -> float:
    """Queries, keys and values; and the scores. Keys shared by heads are written out for each but by FlashAttention."""
    shape = case.shape
    width = shape.heads * shape.head_width
    shares = case.options.model.attention in (Attention.FLASH_2, Attention.FLASH_3)
    keys = shape.key_heads * shape.head_width if shares else width
    is_plain = case.keeps_scores and case.options.model.attention is Attention.SDPA
    number = NUMBER if is_plain else case.number  # torch's own without a kernel computes in fp32
    turned = (
        2 * width if shape.turns_fused else 0
    )  # what one layer gave for all three stays for the values' sake
    return number * (width + 2 * keys + turned) + scores_each(case)


def _inner_each(case: Case) -> float:
    """What enters the activation function; and where a second layer gates it, both factors of the product."""
    shape = case.shape
    each = shape.activation_keeps + (2 if shape.gated else 0)
    if shape.inner_dropped:  # its mask, and what it puts out in place of what came in
        each += shape.inner_dropped - 1 + mask_each(case) / inner_number(case)
    routed = (
        2 * shape.experts * shape.hidden if shape.all_experts > 1 else 0
    )  # taken to experts, and weighted
    return inner_number(case) * (shape.experts * shape.intermediate * each + routed)


def inner_number(case: Case) -> int:
    """Bytes of a number inside a block's inner layers. Grouped multiplications by experts are not under autocast."""
    return NUMBER if case.shape.all_experts > 1 else case.number


def _linear_inputs_each(case: Case) -> float:
    """What enters the linear layers. Under autocast each of those that share an fp32 input keeps a cast of its own."""
    shape = case.shape
    width = shape.heads * shape.head_width
    inner = inner_number(case) * shape.experts * shape.intermediate
    if case.is_half:
        casts = 3 + (2 if shape.gated else 1)
        return HALF_NUMBER * (casts * shape.hidden + width) + inner
    return NUMBER * (2 * shape.hidden + width) + inner


def _crossing_inputs_each(case: Case) -> float:
    """The same where a decoder looks at the encoder's output, which all its blocks share but for casts."""
    width = case.shape.heads * case.shape.head_width
    casts = 3 if case.is_half else 1
    return case.number * (casts * case.shape.hidden + width)


def _lora_each(case: Case) -> float:
    """What enters LoRA's matrices in all blocks: each has a dropout of its own before it, in fp32."""
    inputs, _ = case.lora_sides
    mask = mask_each(case, NUMBER) if case.options.model.lora_dropout else 0
    return inputs * (case.number + mask)


def _embedding_each(case: Case) -> float:
    """The sum of the embeddings, normalised and dropped; the last block's output. An encoder and a decoder have two."""
    shape = case.shape
    if case.method is not Method.FULL:
        return 0.0
    mask = mask_each(case, NUMBER) if shape.dropout else 0
    stacks = 2 if shape.crossing else 1
    return stacks * (EMBEDDING_NORMS * NUMBER * shape.norm_keeps + mask) * shape.hidden


def _each_pixel(case: Case) -> float:
    shape = case.shape
    kept = shape.recomputed_per_pixel if case.recomputes else shape.kept_per_pixel
    if not case.has_lora:
        return case.number * kept
    mask = mask_each(case, NUMBER) if case.options.model.lora_dropout else 0
    entering = shape.inputs_per_pixel * (kept / shape.kept_per_pixel if shape.kept_per_pixel else 0)
    return case.number * kept + (case.number + mask) * entering


def passing_bytes(case: Case, *, begins: bool = False) -> int:
    """What is held for a moment at the widest place of the model, beside what is kept.

    A vision model is widest where its backward pass ends; where it `begins`, images have long become small maps.

    In the backward pass that is the gradient which comes in and the one which goes out. Those of attention's scores are
    larger, but come when the inner layers behind them are done with. Where nothing is kept, the forward pass has its
    widest moment: in attention, or in the inner layers.
    """
    shape = case.shape
    if not case.is_text:
        return round(case.places * shape.widest_per_pixel * NUMBER * (LAST_MAPS if begins else 1))
    inner = shape.experts * shape.intermediate * (2 if shape.gated else 1) * case.number
    scores = shape.heads * case.length * NUMBER if case.keeps_scores else 0
    if case.method is Method.HEAD:
        return round(case.places * (max(2 * inner, 3 * scores) + 6 * NUMBER * shape.hidden))
    return round(case.places * max(2 * inner, scores - 2 * inner - 4 * NUMBER * shape.hidden))


def cast_bytes(case: Case) -> int:
    """Copies of weights in 16 bits that autocast makes and the backward pass needs: 2 bytes a weight.

    With them, mixed precision takes 6 bytes a weight, as the guide counts. A layer that is never asked for gradients
    keeps none.
    """
    if not case.is_half or case.method is Method.HEAD:
        return 0
    shape = case.shape
    if case.method is Method.QLORA:
        return HALF_NUMBER * case.lora_weights
    multiplied = shape.packable if shape.all_experts > 1 else shape.parameters - shape.embeddings
    return HALF_NUMBER * (multiplied + case.lora_weights)
