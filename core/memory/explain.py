"""Each part of a forecast explained: by a sentence, its formula with this run's numbers, and a source."""

from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from core.base.formats import compact_count, counted, memory, paragraph
from core.base.language import _, ngettext
from core.memory import estimate, mlx_estimate
from core.memory.case import NUMBER, Case, Term, added_up, case_of
from core.memory.estimate import MIB
from core.memory.model import PART_TITLES, Basis, Forecast, KeptTensor, ModelShape, Parts
from core.options import RunOptions
from core.options.choices import DeepSpeed, FrozenPrecision, Method, Optimizer, Precision
from core.options.device_support import DeviceReport

ANATOMY = _("transformers, guide “Model training anatomy”")
LORA = _("Hu et al. 2021, “LoRA” (arXiv 2106.09685)")
QLORA = _("Dettmers et al. 2023, “QLoRA” (arXiv 2305.14314)")
ADAFACTOR = _("Shazeer and Stern 2018, “Adafactor” (arXiv 1804.04235)")
NO_GRADIENTS = _("There are no gradients yet at this run's peak, when activations are largest.")
ALL = 0.99  # of the gradients: less is some of them
COUNTED = _("counted in a pass through this model with fake tensors")
BY_MLX = _("compared with what MLX counts on a CPU, never on a Mac")


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
    """Explains each part of a run's `forecast` on `device`, in the order of `Parts`."""
    case = case_of(options, shape, device, forecast.length)
    explanations = {
        "weights": _weights(case),
        "gradients": _gradients(case, forecast),
        "optimizer": _optimizer(case),
        "activations": _activations(case, forecast),
        "temporary": (_temporary_of_mlx if case.is_mlx else _temporary)(case, forecast),
        "overhead": _overhead(case),
    }
    return tuple(
        PartExplained(
            name, PART_TITLES[name], getattr(forecast.parts, name), *_together(case, name, explanations[name])
        )
        for name in Parts.__struct_fields__
    )


def _together(case: Case, name: str, one: Explanation) -> Explanation:
    """Returns the explanation of a part where several processes train, each with its own."""
    if case.copies > 1:
        return one._replace(formula=f"{counted(case.copies, 'process')} × ({one.formula})")
    if name == "temporary" and estimate.whole_bytes(case):
        return Explanation(
            _(
                "Layers that are put together from their parts, their gradients, and those of the widest layer."
            ),
            _("2 blocks and the output layer + their gradients before they are divided"),
            _("PyTorch, page “torch.distributed.fsdp.fully_shard”"),
        )
    return one


def _formulas(case: Case) -> ModuleType:
    """Returns the module with the formulas of the run's engine."""
    return mlx_estimate if case.is_mlx else estimate


def _added(terms: Iterable[Term], product: str, shards: int) -> str:
    """Returns the sum of terms, each by `product`, divided among so many processes; "0 bytes" of none."""
    products = [
        product.format(count=compact_count(term.numbers), each=f"{term.each:.3g}")
        for term in terms
        if term.numbers and term.each
    ]
    if not products:
        return _("0 bytes")
    formula = " + ".join(products)
    if shards == 1:
        return formula
    return _("{formula}, divided among {processes}").format(
        formula=formula, processes=counted(shards, "process")
    )


def _weights(case: Case) -> Explanation:
    formula = _added(
        _formulas(case).weight_terms(case), _("{count} weights × {each} bytes"), estimate.weight_shards(case)
    )
    if case.zero is not DeepSpeed.OFF:
        sentence = _("The model's weights, as DeepSpeed stores them on the device.")
        return Explanation(sentence, formula, _("DeepSpeed, page “ZeRO”"))
    if case.method is not Method.FULL:
        is_packed = case.shape.packed or (case.method is Method.QLORA and case.shape.packable)
        held: FrozenPrecision | Precision = case.options.model.frozen_precision
        if case.is_mlx:
            held = case.options.device.precision
        sentence = _("The frozen weights in {frozen}, and what learns in fp32.")
        if is_packed:
            sentence = _("The frozen weights, quantized or in {frozen}, and what learns in fp32.")
        return Explanation(
            sentence.format(frozen=held.label),
            formula,
            QLORA if is_packed else LORA if case.has_lora else ANATOMY,
        )
    sentence = _("The model's weights, in fp32 with any precision.")
    if case.options.has_reference:
        sentence = _("The weights of the model and of its copy for reference, in fp32 with any precision.")
    return Explanation(sentence, formula, ANATOMY)


def _gradients(case: Case, forecast: Forecast) -> Explanation:
    terms = _formulas(case).gradient_terms(case)
    formula = _added(terms, _("{count} trained weights × {each} bytes"), case.shards)
    if not terms:
        return Explanation(_("The gradients are offloaded from the device."), formula, ANATOMY)
    found = forecast.parts.gradients / case.copies / forecast.correction
    if forecast.basis is not Basis.MEASURED and 0 < found < ALL * added_up(terms, case.shards):
        return Explanation(
            _("The gradients at this run's peak: the first block and embeddings get theirs last."),
            _("at most {formula}").format(formula=formula),
            ANATOMY,
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
    formula = _added(
        _formulas(case).state_terms(case), _("{count} trained weights × {each} bytes"), case.shards
    )
    if estimate.is_elsewhere(case):
        return Explanation(_("The optimizer's state is offloaded from the device."), formula, source)
    sentence = _("The state of {optimizer} for each trained weight.")
    if case.zero is not DeepSpeed.OFF:
        sentence = _("The state of {optimizer} for each trained weight, and DeepSpeed's copy of it in fp32.")
    elif name is Optimizer.MUON:
        sentence = _("The state of {optimizer} for each weight of a matrix, and of AdamW for the others.")
    elif estimate.tables_apart(case):
        sentence = _("The state of {optimizer} for each trained weight; for embeddings in 32 bits.")
    return Explanation(sentence.format(optimizer=name.label), formula, source)


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
        return _("{images} × {side} × {side} pixels × {each:.0f} bytes").format(
            images=counted(batch, "image"), side=case.length, each=estimate.kept_bytes(case) / places
        )
    pairs = ngettext("{count} pair × 2 answers", "{count} pairs × 2 answers", batch).format(count=batch)
    examples = counted(batch, "example") if case.rows == batch else pairs
    squares = case.size(KeptTensor(0.0, tensor.square, tensor.count) for tensor in case.kept.blocks)
    if case.is_mlx:
        squares = case.places * mlx_estimate.scores_each(case)
    scores = squares / max(1, case.places * shape.layers)
    if case.recomputes:
        formula = _(
            "{examples} × {length:,} tokens × "
            "({layers} blocks × {entering:,.0f} bytes + 1 block × {block:,.0f} bytes)"
        )
    elif scores >= 1:
        formula = _(
            "{examples} × {length:,} tokens × {layers} blocks × {block:,.0f} bytes per token, {scores:,.0f} of "
            "them for pairs of tokens (attention scores, masks)"
        )
    else:
        formula = _("{examples} × {length:,} tokens × {layers} blocks × {block:,.0f} bytes per token")
    blocks = formula.format(
        examples=examples.format(batch=batch),
        length=case.length,
        layers=round(case.passed * shape.layers),
        entering=case.kept.entering / max(1, shape.layers),
        block=_formulas(case).block_bytes(case) / places,
        scores=scores,
    )
    outside = _formulas(case).outside_bytes(case)
    if not outside:
        return blocks
    return _("{blocks}; {outside} outside of the blocks").format(blocks=blocks, outside=memory(outside))


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
            _("largest weight: {largest} numbers × {number} bytes, a few copies").format(
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


def _temporary_of_mlx(case: Case, forecast: Forecast) -> Explanation:
    if not forecast.parts.activations:
        return Explanation(
            _("Temporary buffers of the optimizer step: MLX updates several weights at once."),
            _("largest weight: {largest} numbers × {number} bytes, a few copies").format(
                largest=compact_count(case.largest_trained), number=NUMBER
            ),
            BY_MLX,
        )
    sentence = _("The gradients of a block in the backward pass.")
    formula = _("{size} for the largest block").format(size=memory(mlx_estimate.backward_bytes(case)))
    if mlx_estimate.logits_bytes(case) >= mlx_estimate.backward_bytes(case):
        sentence = _("The scores of all words for each token, and their gradients.")
        formula = _("{places:,} tokens × {words:,} words × {each} bytes").format(
            places=case.places, words=case.shape.vocabulary, each=mlx_estimate.logit_bytes(case)
        )
    if casts := mlx_estimate.cast_bytes(case):
        sentence = paragraph(sentence, _("The weights in bf16, in which the model computes."))
        formula = _("{formula} + {count} weights × 2 bytes").format(
            formula=formula, count=compact_count(casts // 2)
        )
    return Explanation(sentence, formula, BY_MLX)


def _overhead(case: Case) -> Explanation:
    if case.is_mlx:
        return Explanation(
            _("Python, MLX, PyTorch, which reads the data, and other libraries."),
            _("{process:,} MB for any model").format(process=mlx_estimate.libraries_bytes(case) // MIB),
            _("measured on a computer without a GPU"),
        )
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
