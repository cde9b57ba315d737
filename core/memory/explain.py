"""Each part of a run's memory explained: by a sentence, its formula with this run's numbers, and a source."""

from typing import NamedTuple

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
COUNTED = _(
    "counted: what torch keeps of a pass through this very model, gone through with tensors that hold nothing"
)


class PartExplained(NamedTuple):
    """One part of a forecast.

    `name` is its field in `Parts`, `bytes` what the forecast gives it. `formula` says how the closed form comes to it,
    with this run's numbers, and `source` where the formula is from; where the forecast was measured, its
    figure may differ from what the formula gives.
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
    """Explain each part of `forecast`, in the order of `Parts`.

    Args:
        options: The run's.
        shape: The model's.
        device: Where it computes.
        forecast: What is known of its memory, on whatever basis.
    """
    case = case_of(options, shape, device, forecast.length)
    found = {
        "weights": _weights(case),
        "gradients": _gradients(case, forecast),
        "optimizer": _optimizer(case),
        "activations": _activations(case, forecast),
        "temporary": _temporary(case, forecast),
        "overhead": _overhead(case),
    }
    return tuple(
        PartExplained(name, PART_TITLES[name], getattr(forecast.parts, name), *found[name])
        for name in Parts.__struct_fields__
    )


Explanation = tuple[str, str, str]
"""A sentence, a formula, a source."""


def _weights(case: Case) -> Explanation:
    shape = case.shape
    weights = counted(shape.parameters)
    if case.zero is not DeepSpeed.OFF:
        sentence = _("What the model knows, as DeepSpeed holds it on the device.")
        return (
            sentence,
            f"{weights} weights × {estimate.stored_number(case)} bytes",
            _("DeepSpeed, page “ZeRO”"),
        )
    if case.method is Method.QLORA:
        rest = counted(shape.parameters - shape.packable + estimate.added(case))
        each = estimate.packed_number(case)
        formula = _("{packable} packed weights × {each:.2f} bytes + {rest} others × {number} bytes").format(
            packable=counted(shape.packable), each=each, rest=rest, number=NUMBER
        )
        return _("What the model knows: its frozen layers packed, all else in fp32."), formula, QLORA
    if case.method is Method.LORA:
        formula = f"({weights} + {counted(estimate.added(case))} of LoRA) weights × {NUMBER} bytes"
        return _("What the model knows, frozen, and LoRA's matrices beside it: all in fp32."), formula, LORA
    sentence = _("What the model knows, in fp32 whatever precision it computes in.")
    return sentence, f"{weights} weights × {NUMBER} bytes", ANATOMY


def _gradients(case: Case, forecast: Forecast) -> Explanation:
    formula = _("{trainable} weights that learn × {case} bytes").format(
        trainable=counted(case.trainable), case=estimate.stored_number(case)
    )
    if forecast.basis is Basis.MEASURED or forecast.parts.gradients or not case.trainable:
        return _("In which direction each weight should move, in fp32."), formula, ANATOMY
    return (
        _(
            "In which direction each weight should move. At the fullest moment of this run there are none yet: "
            "activations take more then than gradients do later."
        ),
        _("at another moment: {formula}").format(formula=formula),
        ANATOMY,
    )


def _optimizer(case: Case) -> Explanation:
    name = case.options.training.optimizer
    source = ADAFACTOR if name is Optimizer.ADAFACTOR else ANATOMY
    if estimate.is_elsewhere(case):
        sentence = _("What the optimizer remembers of earlier steps lies elsewhere, not on the device.")
        return sentence, "0 bytes", source
    apart = estimate.tables_apart(case)
    each = round(estimate.state_each(case), 2)
    formula = _("{trainable} weights that learn × {each:g} bytes").format(
        trainable=counted(case.trainable - apart), each=each
    )
    if apart:
        in_full = estimate.TABLES_IN_32_BITS[name]
        formula += _(" + {apart} of token tables × {in_full} bytes, kept in 32 bits").format(
            apart=counted(apart), in_full=in_full
        )
    return (
        _("What {label} remembers of earlier steps, for each weight that learns.").format(label=name.label),
        formula,
        source,
    )


def _activations(case: Case, forecast: Forecast) -> Explanation:
    if case.method is Method.HEAD:
        return _("The frozen layers keep nothing: gradients end at the last layer."), "0 bytes", ANATOMY
    formula = _activation_formula(case)
    if not forecast.parts.activations:
        sentence = _(
            "What the layers computed is gone again at the fullest moment of this run: when the weights move."
        )
        return sentence, _("at another moment: {formula}").format(formula=formula), COUNTED
    if case.recomputes:
        return _("What enters each block, and all of the one that is being computed again."), formula, COUNTED
    sentence = "What the layers computed and the gradients need again; it grows with batch and length."
    return sentence, formula, COUNTED


def _activation_formula(case: Case) -> str:
    batch, shape = case.options.memory.batch_size, case.shape
    if not case.is_text:
        each = estimate.kept_bytes(case) / max(1, case.places)
        return f"{batch} images × {case.length} × {case.length} pixels × {each:.0f} bytes"
    tokens = f"{batch} rows × {case.length:,} tokens"
    block = estimate.block_bytes(case) / max(1, case.places)
    if case.recomputes:
        entering = case.kept.entering / max(1, shape.layers)
        return f"{tokens} × ({shape.layers} blocks × {entering:,.0f} bytes + 1 block × {block:,.0f} bytes)"
    of_pairs = case.size(KeptTensor(0.0, one.square, one.count) for one in case.kept.blocks)
    scores = of_pairs / max(1, case.places * shape.layers)
    of_them = (
        _(", {scores:,.0f} of them for pairs of tokens (attention scores, masks)").format(scores=scores)
        if scores >= 1
        else ""
    )
    return _("{tokens} × {layers} blocks × {block:,.0f} bytes a token{of_them}").format(
        tokens=tokens, layers=shape.layers, block=block, of_them=of_them
    )


def _temporary(case: Case, forecast: Forecast) -> Explanation:
    casts = estimate.cast_bytes(case)
    if not forecast.parts.activations:
        largest = counted(case.largest_trained)
        return (
            _("What the optimizer computes on the side while the weights move."),
            _("{largest} numbers of the largest weight × a few copies of {number} bytes").format(
                largest=largest, number=NUMBER
            ),
            _("read in transformers.optimization and torch.optim"),
        )
    if casts:
        return (
            _(
                "Copies of the weights in half precision, with which mixed precision takes 6 bytes a weight, and "
                "what the "
                "widest layer needs while its gradients are computed."
            ),
            _("{casts} multiplied weights × 2 bytes + the widest layer's gradients").format(
                casts=counted(casts // 2)
            ),
            ANATOMY,
        )
    formula = _("widest layer × 2: the gradient that comes in and the one that goes out")
    return _("What the widest layer needs while its gradients are computed."), formula, COUNTED


def _overhead(case: Case) -> Explanation:
    process, gaps = estimate.process_bytes(case) // MIB, estimate.unused_bytes(case) // MIB
    if case.kind == "cuda":
        return (
            _(
                "The CUDA context (the driver's own memory and its kernels), and what PyTorch's "
                "allocator holds unused."
            ),
            _("{cuda_context:,} MB, whatever the model + {cuda_unused:.0%} of the tensors").format(
                cuda_context=estimate.CUDA_CONTEXT // MIB, cuda_unused=estimate.CUDA_UNUSED
            ),
            "context: transformers, guide “Efficient training on a single GPU”; allocator: played through its rules",
        )
    if case.kind == "mps":
        return (
            _(
                "Python, PyTorch and the other libraries, in the memory the GPU shares, and Metal's "
                "own buffers."
            ),
            _("{process:,} MB + {mps_driver:,} MB, whatever the model").format(
                process=process, mps_driver=estimate.MPS_DRIVER // MIB
            ),
            _("an estimate: never measured on a Mac"),
        )
    if not gaps:
        return (
            _("Python, PyTorch and the other libraries, and what they take when they first compute."),
            _("{process:,} MB, whatever the model").format(process=process),
            _("measured by tests/performance/forecast.py"),
        )
    return (
        "Python, PyTorch and the other libraries; and the gaps between tensors, which Linux's memory allocator (glibc) "
        "neither fills nor gives back.",
        _("{process:,} MB whatever the model + {gaps:,} MB of gaps").format(process=process, gaps=gaps),
        "measured by tests/performance/forecast.py; gaps fitted to measured runs, core.memory.estimate",
    )


def counted(count: float) -> str:
    """A count of weights as a person says it: `22.7 million`, `1.3 billion`, `1,026`."""
    for word, size in (("billion", 1e9), ("million", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {word}"
    return f"{count:,.0f}"
