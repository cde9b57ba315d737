"""The memory forecast: weights, gradients and optimizer state counted, activations by the engine's coefficients.

The peak is at one of a few moments of a step. When the backward pass begins, all activations are there and, without
accumulation, no gradients; when it ends, all gradients and no activations. All figures are bytes.
"""

import platform
from collections.abc import Iterator
from functools import cache, partial

import msgspec

from core.base.formats import counted
from core.base.language import _
from core.memory import mlx_estimate
from core.memory.case import HALF_NUMBER, NUMBER, Case, Term, added_up, case_of
from core.memory.model import Basis, Forecast, Kept, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.choices import (
    DeepSpeed,
    Method,
    Optimizer,
    Padding,
    Quantization,
)
from core.options.device_support import DeviceReport
from core.options.sources import parse_synthetic

MIB = 1 << 20

NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
QUANTIZED_NUMBER = {
    Quantization.AUTO: NF4,
    Quantization.NF4: NF4,
    Quantization.INT8: 1.0,
    Quantization.AFFINE4: 0.5 + 2 * HALF_NUMBER / 64,
    Quantization.AFFINE8: 1.0 + 2 * HALF_NUMBER / 64,
}
"""Bytes of a quantized weight with its share of the scales, and of MLX's biases; `auto` only where it isn't settled."""

MOST_LIVE = 1_000_000_000
"""Weights that ZeRO-3 keeps on the device (`stage3_max_live_parameters`)."""

MASTER = 4
"""Bytes of DeepSpeed's fp32 copy of each weight."""

TABLES_IN_32_BITS = {Optimizer.ADAMW_8BIT: 8, Optimizer.PAGED_ADAMW_8BIT: 8, Optimizer.LION_8BIT: 4}
"""Bytes of state per weight of an embedding: Trainer makes bitsandbytes keep it in fp32."""

OUT_OF_PLACE = {Optimizer.ADAFACTOR: 2, Optimizer.LION: 1}
"""Numbers for each one of a weight that an update in PyTorch makes."""

CPU_COPIES = {
    Optimizer.ADAMW_8BIT: (3, 5),
    Optimizer.PAGED_ADAMW_8BIT: (3, 5),
    Optimizer.LION_8BIT: (3, 5),
    Optimizer.ADEMAMIX: (4, 4),
}
"""fp32 copies of a weight that bitsandbytes makes on a CPU during its update, with state in 32 and in 8 bits: there it
computes with torch's operators (`bitsandbytes/backends/cpu/ops.py` of 0.50)."""

TILE_TOKENS, TILE_WORDS, TILE_FOLDS = 4096, 32768, 6
"""Tile sizes of `trl.kernels.chunked_logprob`, and the number of fp32 tiles at once in the backward pass, except on
CUDA, which has a kernel."""

LAST_MAPS = 0.25
"""Gradients of a vision model's last layers relative to its widest output; six models have 0.1 to 0.4."""

# --- Measured constants of the overhead

LIBRARIES = 468 * MIB
"""Resident memory of Python with all libraries of a run before model and data (CPU, Linux)."""

LORA_LIBRARIES, BITSANDBYTES = 57 * MIB, 49 * MIB
"""PEFT, which imports bitsandbytes; and bitsandbytes alone, for its optimizers."""

BY_BITSANDBYTES = (
    Optimizer.ADAMW_8BIT,
    Optimizer.PAGED_ADAMW_8BIT,
    Optimizer.LION_8BIT,
    Optimizer.ADEMAMIX,
)

AGENT = 231 * MIB
"""Resident memory of the process that starts others (torchrun's agent)."""

FIRST_USE = 46 * MIB
"""What the libraries allocate at first use: 26 MiB of code, 20 MiB of tokenizers, tables and oneDNN's kernels. Measured
in runs whose tensors were all allocated by mmap."""

REAL_TEXTS = 90 * MIB
"""Memory for reading and evaluating texts, and the gaps that batches of uneven lengths leave: 55 to 198 MiB in six
whole runs (MiniLM with MRPC, a Llama with Shakespeare), less for random texts and for those padded to one length."""

MOST_RANDOM_PIXELS = 64 * MIB
"""Maximum bytes of random images in memory (`core.engine.data.images`)."""

CUDA_CONTEXT = 1343 * MIB
"""Measured on a V100 by the guide "Efficient training on a single GPU" of transformers; newer GPUs are similar."""

CUDA_UNUSED = 0.06
"""Unused memory of torch's caching allocator relative to the tensors: 0 to 12 % in simulations of the guide's nine
rows. Never measured on a GPU by Hone."""

HEAP, SMALL_HEAP, IN_LARGE_HEAPS = 1 << 30, 32 * MIB, 10 * MIB
"""Heaps of Metal in which torch's MPS allocator puts tensors: those of `IN_LARGE_HEAPS` or more, and smaller ones
(`MPSAllocator.h` of 2.13). Never compared with a Mac."""

MPS_LOW_WATERMARK = 1.4 / 1.7
"""Share of the MPS allocator's limit, as in torch's defaults, beyond which it frees what is unused and makes heaps no
larger than needed."""

MAPPED_FROM = 32 * MIB
"""Larger tensors are allocated by mmap and returned at once (`DEFAULT_MMAP_THRESHOLD_MAX` of glibc). Smaller ones leave
gaps in the heap: see docs/decisions/memory.md."""

GAPS, GAPS_HALF, GAPS_LORA, GAPS_LARGE = 0.33, 0.27, 0.6, 0.12
"""Gaps relative to saved tensors: of those below `MAPPED_FROM` in fp32, in 16 bits, with LoRA; and of larger ones."""

GAPS_IMAGES = 0.25
"""The same for a vision model's tensors below `MAPPED_FROM`, in either precision."""

ACCUMULATED, ACCUMULATED_LARGE = 0.37, 0.13
"""Additional gaps with gradients of earlier batches among the saved tensors."""

RECOMPUTED, RECOMPUTED_LAYER, RECOMPUTED_ACCUMULATED = 1.5, 0.22, 1.2
"""Gaps relative to one block's tensors with activation checkpointing; they grow with each layer."""

PASSING = 0.45
"""The same if no tensors are saved; from one measured run, MiniLM of 32 x 128."""

GAPS_OF_GRADIENTS = 1.1
"""Gaps left by the gradients of the last step, relative to them."""


# --- The forecast


def forecast(
    options: RunOptions,
    shape: ModelShape,
    device: DeviceReport,
    *,
    length: int | None = None,
    data: int = 0,
    room: Room | None = None,
    correction: float = 1.0,
) -> Forecast:
    """Forecasts the memory of a run on `device`. Takes well under a millisecond.

    Args:
        options: The run's options; automatic ones are resolved for `device`.
        data: Bytes of data that stay in memory.
        correction: The factor learned from past runs on this device (`correction`).
    """
    case = case_of(options, shape, device, length)
    parts = max((mlx_estimate.moments if case.is_mlx else moments)(case), key=lambda parts: parts.total)
    tensors = parts.total - parts.overhead
    cached = round(CUDA_UNUSED * tensors) if case.kind == "cuda" else 0
    in_heaps = case.kind == "mps" and not case.is_mlx
    unused = unused_heap_bytes(case, tensors, device.memory_bytes) if in_heaps else 0
    parts = msgspec.structs.replace(
        parts, overhead=parts.overhead + cached + data, temporary=parts.temporary + unused
    )
    found = Forecast(
        basis=Basis.FORMULA,
        device=device.name,
        parts=together(parts, case.copies),
        room=room,
        length=case.length if case.is_text else None,
        notes=tuple(_notes(case, length)),
    )
    return corrected(found, correction)


def corrected(forecast: Forecast, factor: float) -> Forecast:
    """Returns `forecast` with the correction `factor` in place of its own; a measured one unchanged."""
    change = factor / forecast.correction
    if forecast.basis is Basis.MEASURED or change == 1.0:
        return forecast
    return msgspec.structs.replace(forecast, parts=scaled(forecast.parts, change), correction=factor)


def together(parts: Parts, copies: int) -> Parts:
    """Returns the parts of processes that share the memory, with the one that starts them."""
    found = scaled(parts, copies)
    return msgspec.structs.replace(found, overhead=found.overhead + AGENT) if copies > 1 else found


def scaled(parts: Parts, factor: float) -> Parts:
    return Parts(**{name: round(getattr(parts, name) * factor) for name in Parts.__struct_fields__})


def unused_heap_bytes(case: Case, tensors: int, recommended: int | None) -> int:
    """Returns half of Metal's last heap, less where memory is short; macOS recommends so many bytes for the GPU.

    Whole heaps would be closer, but what a remedy saves would come in steps of 1 GiB.
    """
    kept = (case.rows * one.size(case.row_places) for one in (*case.kept.blocks, *case.kept.outside))
    heap = HEAP if max(NUMBER * case.shape.largest, *kept, 0) >= IN_LARGE_HEAPS else SMALL_HEAP
    limit = min(1.0, case.options.device.mps_memory_limit or 1.0)
    short = round(MPS_LOW_WATERMARK * limit * recommended) if recommended else tensors + heap
    return max(0, min(heap // 2, short - tensors))


def moments(case: Case) -> Iterator[Parts]:
    """Yields the parts at each moment of a step that can be the peak, from the second step on."""
    gradients, casts = added_up(gradient_terms(case), case.shards), cast_bytes(case)
    lasting = Parts(
        weights=added_up(weight_terms(case), weight_shards(case)),
        optimizer=added_up(state_terms(case), case.shards),
        overhead=overhead_bytes(case),
    )
    moment = partial(msgspec.structs.replace, lasting)
    earlier = gradients if case.keeps_gradients else 0
    block, whole = block_bytes(case) if case.recomputes else 0, whole_bytes(case)
    unpacked = case.number * case.shape.largest_linear if case.method is Method.QLORA else 0
    if case.held and not case.computes_as_held:
        has_head = case.shape.vocabulary and not case.options.task.reads_conversations
        unpacked = case.number * (case.shape.largest if has_head else case.shape.largest_linear)
    first = 0 if case.is_text else min(gradients, NUMBER * case.largest_trained)  # a large classifier's
    if case.recomputes:  # end of the forward pass, with autocast's copies of all weights
        yield moment(gradients=earlier, activations=kept_bytes(case), temporary=casts + whole)
        casts //= max(1, case.shape.layers)
    at_the_end = passing_bytes(case) * (1 if case.is_text else LAST_MAPS)
    # the last block comes after the logits; DoRA's lengths take B @ A, scaled, added, and an identity
    norms = 4 * NUMBER * case.shape.largest_linear if case.has_dora else 0
    widest = max(round(at_the_end), logits_bytes(case) - block, norms)
    yield moment(  # beginning of the backward pass
        gradients=max(earlier, first),
        activations=kept_bytes(case) + block,
        temporary=casts + widest + unpacked + whole,
    )
    yield moment(  # the first block: gradients exist except its own and those of embeddings
        gradients=max(earlier, gradients - _first_block_gradients(case, gradients)),
        activations=_last_kept_bytes(case),
        temporary=passing_bytes(case) + unpacked + whole,
    )
    added_gradient = NUMBER * case.largest_trained if case.accumulates else 0
    yield moment(gradients=gradients, temporary=max(added_gradient, step_bytes(case)))  # optimizer step


# --- Weights, gradients and the optimizer


def weight_terms(case: Case) -> tuple[Term, ...]:
    """Returns terms of the weights, with LoRA's matrices or the reference model: quantized, in 16 bits, in full."""
    shape = case.shape
    if case.zero is not DeepSpeed.OFF:
        live = min(shape.parameters, MOST_LIVE) if _fetches(case) else shape.parameters
        return (Term(live, stored_number(case)),)
    packed = shape.packable if case.method is Method.QLORA else 0
    copied = shape.parameters if case.options.has_reference and case.method is Method.FULL else 0
    whole = shape.parameters - packed - case.held + _added(case) + copied
    return (
        Term(packed, QUANTIZED_NUMBER[case.options.model.quantization]),
        Term(case.held, HALF_NUMBER),
        Term(whole, NUMBER),
    )


def _fetches(case: Case) -> bool:
    """Returns whether weights are brought to the device where they are used."""
    return case.offloads and case.zero is DeepSpeed.ZERO_3


def weight_shards(case: Case) -> int:
    """Returns parts into which the weights are divided."""
    return 1 if case.zero is DeepSpeed.ZERO_2 or _fetches(case) else case.shards


def stored_number(case: Case) -> int:
    """Returns the bytes of a weight that isn't quantized: 4, or with DeepSpeed on a GPU those of the precision."""
    return case.number if case.zero is not DeepSpeed.OFF and case.kind != "cpu" else NUMBER


def _added(case: Case) -> int:
    """Returns weights LoRA adds: its matrices, and a trained copy of the classifier."""
    return case.lora_weights + case.shape.head if case.has_lora else 0


def gradient_terms(case: Case) -> tuple[Term, ...]:
    """Returns terms of the gradients of all trained weights. With offloading, ZeRO moves them at once."""
    return () if case.offloads else (Term(case.trainable, stored_number(case)),)


def _first_block_gradients(case: Case, gradients: int) -> int:
    """Returns the gradients that are computed last: of a transformer's first block and its embeddings."""
    if case.method is not Method.FULL or not case.is_text:
        return gradients
    block = (case.trainable - case.trained_tables) // max(1, case.shape.layers)
    return min(gradients, stored_number(case) * (block + case.trained_tables) // case.shards)


def state_terms(case: Case) -> tuple[Term, ...]:
    """Returns terms of the optimizer's state, embeddings kept in 32 bits by an 8-bit one, and DeepSpeed's copies."""
    if is_elsewhere(case):
        return ()
    apart = tables_apart(case)
    return (
        Term(case.trainable - apart, case.state_each),
        Term(apart, TABLES_IN_32_BITS.get(case.options.training.optimizer, 0)),
        Term(case.trainable if case.zero is not DeepSpeed.OFF else 0, MASTER),
    )


def tables_apart(case: Case) -> int:
    """Returns the number of weights with 32-bit state with an 8-bit optimizer."""
    return case.trained_tables if case.options.training.optimizer in TABLES_IN_32_BITS else 0


def is_elsewhere(case: Case) -> bool:
    return case.offloads or (case.kind != "cpu" and case.options.memory.offload_optimizer)


def step_bytes(case: Case) -> int:
    """Returns temporary memory of the optimizer step, for the weight that needs most.

    Adafactor's update is computed out of place (`transformers.optimization.Adafactor.step`), and so is Lion's.
    bitsandbytes on a CPU makes copies. Fused kernels need none.
    """
    optimizer = case.options.training.optimizer
    if optimizer in OUT_OF_PLACE:
        return OUT_OF_PLACE[optimizer] * NUMBER * case.largest_trained
    if case.kind != "cpu" or optimizer not in CPU_COPIES:
        return 0
    of_full, of_packed = CPU_COPIES[optimizer]
    if not case.trained_tables:
        return of_packed * NUMBER * case.largest_trained
    return NUMBER * max(of_full * case.largest_trained, of_packed * case.shape.largest_linear)


def whole_bytes(case: Case) -> int:
    """Returns what FSDP2 puts together of divided weights, and their gradients before they are divided.

    Two blocks, as the next one is sent while one computes, and the output layer, whose weights stay until the backward
    pass; of gradients the largest layer's and, in fp32, what is being added up of it and of the layer before. Source:
    torch.distributed.fsdp's fully_shard; on two processes of a CPU 318 MiB were measured for equal layers of 64 MiB,
    which are 320 without an output layer.
    """
    if not case.options.memory.fsdp or case.shards == 1:
        return 0
    largest = case.shape.largest
    block = (case.shape.parameters - case.shape.embeddings) // max(1, case.shape.layers)
    weights = case.number * (2 * block + largest)
    if case.method is not Method.FULL:
        return weights
    return weights + (case.number + NUMBER) * max(block, largest) + NUMBER * block


# --- Activations and temporary buffers


def kept_bytes(case: Case) -> int:
    """Returns saved tensors at the end of the forward pass."""
    if case.method is Method.HEAD:
        return 0
    inside = case.places * case.kept.entering if case.recomputes else _blocks_bytes(case)
    return round(case.passed * inside + outside_bytes(case))


def outside_bytes(case: Case) -> float:
    """Returns saved tensors outside of the blocks, with the logits' or, for images, with a step's other batches."""
    if case.is_text:
        return case.size(case.kept.outside) + case.places * _logits_per_place(case)
    batches = case.options.memory.gradient_accumulation_steps  # and one prefetched
    return case.size(case.kept.outside) + case.places * batches * 3 * NUMBER


def _blocks_bytes(case: Case) -> float:
    """Returns saved tensors of all blocks, with the inputs of LoRA's matrices and the masks of its dropout."""
    kept = case.size(case.kept.blocks)
    if not case.has_lora:
        return kept
    inputs = case.lora_sides[0] if case.is_text else case.kept.into_linears
    mask = (1 if case.kind == "cuda" else NUMBER) if case.options.model.lora_dropout else 0
    outputs = case.lora_sides[1] if case.is_text else case.kept.into_linears
    results = 2 * outputs if case.has_dora else 0  # of the layer and of LoRA, each of which DoRA scales
    return kept + case.places * (inputs * (case.number + mask) + results * case.number)


def block_bytes(case: Case) -> int:
    """Returns saved tensors of the largest block."""
    return round(case.kept.largest * _blocks_bytes(case))


def _last_kept_bytes(case: Case) -> int:
    """Returns saved tensors when the backward pass has reached the first block; not counted for vision models."""
    if case.method is Method.HEAD or not case.is_text:
        return 0
    return block_bytes(case) + round(case.size(case.kept.outside))


def _logits_per_place(case: Case) -> int:
    """Returns the bytes of fp32 log probabilities that the loss saves per place; TRL saves none."""
    return 0 if case.options.task.reads_conversations else NUMBER * case.shape.vocabulary


def logits_bytes(case: Case) -> int:
    """Returns temporary fp32 memory of the gradients of log probabilities and logits.

    TRL computes them in tiles, which need a tile of logits and the gradient of the output layer.
    """
    if not case.options.task.reads_conversations:
        return 2 * _logits_per_place(case) * case.places if case.is_text else 0
    # On a CPU only the memory that is written to counts.
    columns = TILE_WORDS if case.kind == "cuda" else min(case.shape.vocabulary, TILE_WORDS)
    folds = 0 if case.kind == "cuda" else TILE_FOLDS
    learned = case.shape.vocabulary * case.shape.hidden if case.method is Method.FULL else 0
    return min(case.places, TILE_TOKENS) * columns * (case.number + folds * NUMBER) + NUMBER * learned


def passing_bytes(case: Case) -> int:
    """Returns temporary memory at the widest layer, besides saved tensors.

    In the backward pass these are the incoming and the outgoing gradient. Those of attention scores are larger, but
    come after the saved tensors of the MLP are freed. Without saved tensors, the peak is in the forward pass: in
    attention or in the MLP. For images it is the widest feature map.
    """
    if not case.is_text:
        single = case.shape.kept.get(Kept.key(frozen=False, half=False), Kept())
        return round(
            case.places * max((tensor.each for tensor in (*single.blocks, *single.outside)), default=0)
        )
    wide, scores = _widest(case)
    if case.method is Method.HEAD:
        return round(max(2 * wide, 3 * scores) + 6 * NUMBER * case.places * case.shape.hidden)
    return round(max(2 * wide, scores - 2 * wide - 4 * NUMBER * case.places * case.shape.hidden))


def _widest(case: Case) -> tuple[float, float]:
    """Returns the bytes of the widest tensors that grow linearly and quadratically with the length."""
    blocks = case.kept.blocks
    linear = max((tensor.each for tensor in blocks if not tensor.square), default=0.0)
    quadratic = max((tensor.size(case.row_places) for tensor in blocks if tensor.square), default=0.0)
    return case.places * linear, case.rows * quadratic


def cast_bytes(case: Case) -> int:
    """Returns the bytes of autocast's 16-bit weights, part of the guide's 6 bytes per weight of mixed precision.

    Layers without gradients keep none. With dropout, DoRA multiplies a second time by each weight, whose copy in 16
    bits, or unpacked, is kept as well.
    """
    if case.method is Method.HEAD:
        return 0
    again = int(case.has_dora and case.options.model.lora_dropout > 0)
    has_none = case.method is Method.QLORA or case.held > 0
    copies = case.number * case.shape.packable * again if has_none else 0
    if not case.is_half or case.options.memory.fsdp:  # which puts weights together in 16 bits
        return copies
    casts = copies if has_none else case.kept.casts * (1 + again)
    return round(case.passed * casts) + HALF_NUMBER * case.lora_weights


# --- Overhead


def overhead_bytes(case: Case) -> int:
    """Returns everything but tensors; a Mac's GPU shares its memory with the process."""
    return CUDA_CONTEXT if case.kind == "cuda" else process_bytes(case) + unused_bytes(case)


def process_bytes(case: Case) -> int:
    """Returns the main memory of the process besides tensors; the only images counted are random ones."""
    random = parse_synthetic(case.options.data.train)
    held = libraries_bytes(case.options) + FIRST_USE
    if not case.is_text:
        return held + (min(random[0] * 3 * random[1] ** 2, MOST_RANDOM_PIXELS) if random else 0)
    is_even = random is not None or case.options.data.padding is Padding.FIXED
    return held if is_even else held + REAL_TEXTS


def libraries_bytes(options: RunOptions) -> int:
    if options.model.method in (Method.LORA, Method.QLORA):
        return LIBRARIES + LORA_LIBRARIES
    return LIBRARIES + (BITSANDBYTES if options.training.optimizer in BY_BITSANDBYTES else 0)


def unused_bytes(case: Case) -> int:
    """Returns gaps in glibc's heap at the peak of a CPU run; 0 with other allocators."""
    if case.kind != "cpu" or not uses_glibc():
        return 0
    largest = case.largest_trained
    small_weights = case.trainable - (largest if largest * NUMBER >= MAPPED_FROM else 0)
    return round(GAPS_OF_GRADIENTS * NUMBER * small_weights + _gaps(case))


@cache
def uses_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


def _gaps(case: Case) -> float:
    """Returns gaps among the saved tensors of blocks; for a vision model, among all saved tensors."""
    tensors = case.kept.blocks if case.is_text else (*case.kept.blocks, *case.kept.outside)
    whole = _blocks_bytes(case) + (0 if case.is_text else case.size(case.kept.outside))
    large = case.size(one for one in tensors if case.rows * one.size(case.row_places) >= MAPPED_FROM)
    small = whole - large
    one_block = case.kept.largest * (small + large / 2)
    if case.method is Method.HEAD:
        return PASSING * (one_block if case.is_text else 2 * passing_bytes(case) * small / max(1.0, whole))
    if not case.is_text:
        return case.passed * (GAPS_IMAGES * small + GAPS_LARGE * large) * (2 if case.recomputes else 1)
    if case.recomputes:
        times = RECOMPUTED + RECOMPUTED_LAYER * case.shape.layers
        return times * (RECOMPUTED_ACCUMULATED if case.accumulates else 1.0) * one_block
    share = GAPS_LORA if case.has_lora else GAPS_HALF if case.is_half else GAPS
    if case.accumulates:
        return case.passed * ((share + ACCUMULATED) * small + (GAPS_LARGE + ACCUMULATED_LARGE) * large)
    return case.passed * (share * small + GAPS_LARGE * large)


def _notes(case: Case, length: int | None) -> Iterator[str]:
    options = case.options
    if case.is_text and length is None:
        text = _(
            "All examples are assumed to have the maximum of {length:,} tokens; shorter ones take less memory."
        )
        if options.data.padding is Padding.FIXED:
            text = _("All examples are padded to {length:,} tokens.")
        yield text.format(length=case.length)
    if case.copies > 1:
        text = _("The {processes} share this memory, and each has the whole model.")
        yield text.format(processes=counted(case.copies, "process"))
    elif case.processes > 1:
        text = _("The forecast is for each of {count} GPUs. Buffers of NVIDIA's NCCL are not counted.")
        yield text.format(count=case.processes)
    if case.zero is not DeepSpeed.OFF:
        yield _("DeepSpeed's own buffers are not counted: the forecast is rough.")
    if is_elsewhere(case):
        yield _("The offloaded optimizer state is not counted.")
    if options.training.optimizer is Optimizer.PAGED_ADAMW_8BIT:
        yield _("Paged optimizer state is counted as if it stayed on the GPU.")
    if options.device.compile:
        yield _("A compiled model usually takes less than forecast.")
    if case.is_mlx:
        yield _("The forecast for MLX was compared with measurements on a CPU only, never on a Mac.")
    elif case.kind == "mps":
        yield _("The forecast was never compared with measurements on a Mac.")
