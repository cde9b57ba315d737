"""Each part of a forecast explained: by a sentence, its formula with this run's numbers, and a source."""

from typing import NamedTuple

from core.base.formats import compact_count, memory
from core.base.language import _
from core.memory import estimate
from core.memory.estimate import MIB, NUMBER, Case, case_of
from core.memory.model import PART_TITLES, Basis, Forecast, KeptTensor, ModelShape, Parts
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Optimizer
from core.options.device_support import DeviceReport

ANATOMY = _("transformers, guide “Model training anatomy”")
LORA = _("Hu et al. 2021, “LoRA” (arXiv 2106.09685)")
QLORA = _("Dettmers et al. 2023, “QLoRA” (arXiv 2305.14314)")
ADAFACTOR = _("Shazeer and Stern 2018, “Adafactor” (arXiv 1804.04235)")
NO_GRADIENTS = _("There are no gradients yet at this run's peak, when activations are largest.")
COUNTED = _("counted in a pass through this model with fake tensors")


class Explanation(NamedTuple):
    """The explanation of a part."""

    sentence: str
    formula: str
    source: str


class PartExplained(NamedTuple):
    """One part of a forecast: its field in `Parts`, its bytes, and its explanation.

    If the forecast was measured, `bytes` may differ from the formula.
    """

    name: str
    title: str
    bytes: int
    sentence: str
    formula: str
    source: str


def explain_parts(
    options: RunOptions, shape: ModelShape, device: DeviceReport, forecast: Forecast
) -> tuple[PartExplained, ...]:
    """Explain each part of a run's `forecast` on `device`, in the order of `Parts`."""
    case = case_of(options, shape, device, forecast.length)
    explanations = {
        "weights": _weights(case),
        "gradients": _gradients(case, forecast),
        "optimizer": _optimizer(case),
        "activations": _activations(case, forecast),
        "temporary": _temporary(case, forecast),
        "overhead": _overhead(case),
    }
    return tuple(
        PartExplained(
            name, PART_TITLES[name], getattr(forecast.parts, name), *_together(case, name, explanations[name])
        )
        for name in Parts.__struct_fields__
    )


def _together(case: Case, name: str, one: Explanation) -> Explanation:
    """The explanation of a part where several processes train: each has one, or a share of one."""
    is_whole = name == "weights" and case.zero is DeepSpeed.ZERO_2
    if case.copies > 1:
        formula = _("{count} processes × ({formula})").format(count=case.copies, formula=one.formula)
        return one._replace(formula=formula)
    if case.shards > 1 and name in ("weights", "gradients", "optimizer") and not is_whole:
        formula = _("{formula}, divided among {count} processes")
        return one._replace(formula=formula.format(formula=one.formula, count=case.shards))
    if name == "temporary" and estimate.whole_bytes(case):
        return Explanation(
            _(
                "Layers that are put together from their parts, their gradients, and those of the widest layer."
            ),
            _("2 blocks and the output layer + their gradients before they are divided"),
            _("PyTorch, page “torch.distributed.fsdp.fully_shard”"),
        )
    return one


def _weights(case: Case) -> Explanation:
    shape = case.shape
    product = _("{weights} weights × {number} bytes")
    weights = compact_count(shape.parameters)
    if case.zero is not DeepSpeed.OFF:
        return Explanation(
            _("The model's weights, as DeepSpeed stores them on the device."),
            product.format(weights=weights, number=estimate.stored_number(case)),
            _("DeepSpeed, page “ZeRO”"),
        )
    if case.method is not Method.FULL:
        packed = shape.packable if case.method is Method.QLORA else 0
        rest = shape.parameters + estimate.added(case) - packed - case.held
        terms = ((packed, estimate.packed_number(case)), (case.held, estimate.HALF_NUMBER), (rest, NUMBER))
        parts = (
            product.format(weights=compact_count(count), number=f"{each:.3g}")
            for count, each in terms
            if count
        )
        sentence = _("The frozen weights in {frozen}, and what learns in fp32.")
        if packed:
            sentence = _("The frozen weights, quantized or in {frozen}, and what learns in fp32.")
        return Explanation(
            sentence.format(frozen=case.options.model.frozen_precision.label),
            " + ".join(parts),
            QLORA if packed else LORA if case.has_lora else ANATOMY,
        )
    return Explanation(
        _("The model's weights, in fp32 with any precision."),
        product.format(weights=weights, number=NUMBER),
        ANATOMY,
    )


def _gradients(case: Case, forecast: Forecast) -> Explanation:
    formula = _("{trainable} trained weights × {number} bytes").format(
        trainable=compact_count(case.trainable), number=estimate.stored_number(case)
    )
    if forecast.basis is Basis.MEASURED or forecast.parts.gradients or not case.trainable:
        return Explanation(_("The gradient of each trained weight, in fp32."), formula, ANATOMY)
    return Explanation(
        NO_GRADIENTS,
        _("at another moment: {formula}").format(formula=formula),
        ANATOMY,
    )


def _optimizer(case: Case) -> Explanation:
    name = case.options.training.optimizer
    source = ADAFACTOR if name is Optimizer.ADAFACTOR else ANATOMY
    if estimate.is_elsewhere(case):
        return Explanation(_("The optimizer's state is offloaded from the device."), _("0 bytes"), source)
    embeddings = estimate.tables_apart(case)
    formula = _("{trainable} trained weights × {each:g} bytes")
    if embeddings:
        formula = _(
            "{trainable} trained weights × {each:g} bytes + {embeddings} of embeddings × {full} bytes, in 32 bits"
        )
    return Explanation(
        _("The state of {optimizer} for each trained weight.").format(optimizer=name.label),
        formula.format(
            trainable=compact_count(case.trainable - embeddings),
            each=round(estimate.state_each(case), 2),
            embeddings=compact_count(embeddings),
            full=estimate.TABLES_IN_32_BITS.get(name),
        ),
        source,
    )


def _activations(case: Case, forecast: Forecast) -> Explanation:
    if case.method is Method.HEAD:
        return Explanation(_("Frozen layers save no activations."), _("0 bytes"), ANATOMY)
    formula = _activation_formula(case)
    if not forecast.parts.activations:
        return Explanation(
            _("Activations are already freed at this run's peak, the optimizer step."),
            _("at another moment: {formula}").format(formula=formula),
            COUNTED,
        )
    if case.recomputes:
        sentence = _("The input of each block, and all activations of the one that is being recomputed.")
    else:
        sentence = _("What the layers save for the backward pass; it grows with batch size and length.")
    return Explanation(sentence, formula, COUNTED)


def _activation_formula(case: Case) -> str:
    batch, shape, places = case.options.memory.batch_size, case.shape, max(1, case.places)
    if not case.is_text:
        return _("{batch} images × {side} × {side} pixels × {each:.0f} bytes").format(
            batch=batch, side=case.length, each=estimate.kept_bytes(case) / places
        )
    squares = case.size(KeptTensor(0.0, tensor.square, tensor.count) for tensor in case.kept.blocks)
    scores = squares / max(1, case.places * shape.layers)
    if case.recomputes:
        formula = _(
            "{batch} examples × {length:,} tokens × "
            "({layers} blocks × {entering:,.0f} bytes + 1 block × {block:,.0f} bytes)"
        )
    elif scores >= 1:
        formula = _(
            "{batch} examples × {length:,} tokens × {layers} blocks × {block:,.0f} bytes per token, {scores:,.0f} of "
            "them for pairs of tokens (attention scores, masks)"
        )
    else:
        formula = _("{batch} examples × {length:,} tokens × {layers} blocks × {block:,.0f} bytes per token")
    return formula.format(
        batch=batch,
        length=case.length,
        layers=shape.layers,
        entering=case.kept.entering / max(1, shape.layers),
        block=estimate.block_bytes(case) / places,
        scores=scores,
    )


def _temporary(case: Case, forecast: Forecast) -> Explanation:
    if case.kind == "mps":
        return Explanation(
            _(
                "Temporary buffers of a step, and what is unused of the heaps in which PyTorch asks macOS for memory."
            ),
            _("widest layer, optimizer step or copies of weights + up to half of a heap of {heap}").format(
                heap=memory(estimate.HEAP)
            ),
            _("heaps: source of PyTorch (MPSAllocator.h), never measured on a Mac"),
        )
    if not forecast.parts.activations:
        return Explanation(
            _("Temporary buffers of the optimizer step."),
            _("{largest} numbers of the largest weight × a few copies of {number} bytes").format(
                largest=compact_count(case.largest_trained), number=NUMBER
            ),
            _("source of transformers.optimization and torch.optim"),
        )
    if casts := estimate.cast_bytes(case):
        return Explanation(
            _(
                "Copies of the weights in half precision (mixed precision takes 6 bytes per weight), and the gradients "
                "of the widest layer."
            ),
            _("{casts} multiplied weights × 2 bytes + the widest layer's gradients").format(
                casts=compact_count(casts // 2)
            ),
            ANATOMY,
        )
    return Explanation(
        _("The gradients of the widest layer in the backward pass."),
        _("widest layer × 2: incoming and outgoing gradient"),
        COUNTED,
    )


def _overhead(case: Case) -> Explanation:
    process, gaps = estimate.process_bytes(case) // MIB, estimate.unused_bytes(case) // MIB
    if case.kind == "cuda":
        return Explanation(
            _("The CUDA context (driver and kernels), and unused memory of PyTorch's allocator."),
            _("{context:,} MB for any model + {unused:.0%} of the tensors").format(
                context=estimate.CUDA_CONTEXT // MIB, unused=estimate.CUDA_UNUSED
            ),
            _("context: transformers, guide “Efficient training on a single GPU”; allocator: simulated"),
        )
    if not gaps:
        return Explanation(
            _("Python, PyTorch and other libraries, and what they allocate at first use."),
            _("{process:,} MB for any model").format(process=process),
            _("measured on a computer without a GPU"),
        )
    return Explanation(
        _("Python, PyTorch and other libraries, and gaps between tensors in main memory."),
        _("{process:,} MB for any model + {gaps:,} MB of gaps").format(process=process, gaps=gaps),
        _("measured on computers without a GPU; the gaps are fitted to measured runs"),
    )
