"""Each part of a run's memory explained: by a sentence, its formula with this run's numbers, and a source."""

from dataclasses import dataclass

from core.memory import activations, overhead
from core.memory import estimate as optimizer_memory
from core.memory import estimate as weight_memory
from core.memory.activations import NUMBER, Case, case_of
from core.memory.model import PART_TITLES, Basis, Forecast, ModelShape, Parts
from core.memory.overhead import unused_bytes
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Optimizer
from core.options.device_support import DeviceReport

ANATOMY = "transformers, guide “Model training anatomy”"
LORA = "Hu et al. 2021, “LoRA” (arXiv 2106.09685)"
QLORA = "Dettmers et al. 2023, “QLoRA” (arXiv 2305.14314)"
ADAFACTOR = "Shazeer and Stern 2018, “Adafactor” (arXiv 1804.04235)"
RECOMPUTATION = "counted from torch 2.13, as in Korthikanti et al. 2022 (arXiv 2205.05198)"
VISION = "counted from what torch 2.13 keeps of a pass"


@dataclass(frozen=True)
class PartExplained:
    """One part of a forecast.

    `name` is its field in `Parts`, `bytes` what the forecast gives it. `formula` says how the closed form comes to it,
    with this run's numbers, and `source` where the formula is from; where the forecast was traced or measured, its
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
        options: What is asked.
        shape: The model's.
        device: Where it computes.
        forecast: What was told of its memory, on whatever basis.
    """
    case = case_of(options, shape, device, forecast.length)
    told = {
        "weights": _weights(case),
        "gradients": _gradients(case, forecast),
        "optimizer": _optimizer(case),
        "activations": _activations(case, forecast),
        "temporary": _temporary(case, forecast),
        "overhead": _overhead(case),
    }
    return tuple(
        PartExplained(name, PART_TITLES[name], getattr(forecast.parts, name), *told[name])
        for name in Parts.__struct_fields__
    )


Told = tuple[str, str, str]
"""A sentence, a formula, a source."""


def _weights(case: Case) -> Told:
    shape = case.shape
    if case.zero is not DeepSpeed.OFF:
        each = weight_memory.stored_number(case)
        return (
            "What the model knows, as DeepSpeed holds it on the device.",
            f"{counted(shape.parameters)} weights × {each} bytes",
            "DeepSpeed, page “ZeRO”",
        )
    if case.method is Method.QLORA:
        rest = shape.parameters - shape.packable + weight_memory.added(case)
        return (
            "What the model knows: its frozen layers packed, all else in fp32.",
            f"{counted(shape.packable)} packed weights × {weight_memory.packed_number(case):.2f} bytes + "
            f"{counted(rest)} others × {NUMBER} bytes",
            QLORA,
        )
    if case.method is Method.LORA:
        return (
            "What the model knows, frozen, and LoRA's matrices beside it: all in fp32.",
            f"({counted(shape.parameters)} + {counted(weight_memory.added(case))} of LoRA) weights × {NUMBER} bytes",
            LORA,
        )
    return (
        "What the model knows, in fp32 whatever precision it computes in.",
        f"{counted(shape.parameters)} weights × {NUMBER} bytes",
        ANATOMY,
    )


def _gradients(case: Case, forecast: Forecast) -> Told:
    formula = f"{counted(case.trainable)} weights that learn × {weight_memory.stored_number(case)} bytes"
    if forecast.basis is not Basis.MEASURED and not forecast.parts.gradients and case.trainable:
        return (
            "In which direction each weight should move. At the fullest moment of this run there are none yet: "
            "activations take more then than gradients do later.",
            f"at another moment: {formula}",
            ANATOMY,
        )
    return "In which direction each weight should move, in fp32.", formula, ANATOMY


def _optimizer(case: Case) -> Told:
    name = case.options.training.optimizer
    source = ADAFACTOR if name is Optimizer.ADAFACTOR else ANATOMY
    if optimizer_memory.is_elsewhere(case):
        return (
            "What the optimizer remembers of earlier steps lies elsewhere, not on the device.",
            "0 bytes",
            source,
        )
    apart = optimizer_memory.tables_apart(case)
    rest, each = case.trainable - apart, optimizer_memory.state_each(case)
    formula = f"{counted(rest)} weights that learn × {round(each, 2):g} bytes"
    if apart:
        in_full = optimizer_memory.TABLES_IN_32_BITS[name]
        formula += f" + {counted(apart)} of token tables × {in_full} bytes, kept in 32 bits"
    title = name.label
    return f"What {title} remembers of earlier steps, for each weight that learns.", formula, source


def _activations(case: Case, forecast: Forecast) -> Told:
    if case.method is Method.HEAD:
        return "The frozen layers keep nothing: gradients end at the last layer.", "0 bytes", ANATOMY
    if not forecast.parts.activations:
        return (
            "What the layers computed is gone again at the fullest moment of this run: when the weights move.",
            f"at another moment: {_activation_formula(case)}",
            RECOMPUTATION if case.is_text else VISION,
        )
    sentence = "What the layers computed and the gradients need again; it grows with batch and length."
    if case.recomputes:
        sentence = "What enters each block, and all of the one that is being computed again."
    return sentence, _activation_formula(case), RECOMPUTATION if case.is_text else VISION


def _activation_formula(case: Case) -> str:
    batch, shape = case.options.memory.batch_size, case.shape
    if not case.is_text:
        each = activations.kept_bytes(case) / max(1, case.places)
        return f"{batch} images × {case.length} × {case.length} pixels × {each:.0f} bytes"
    tokens = f"{batch} rows × {case.length:,} tokens"
    block = activations.block_each(case)
    if case.recomputes:
        entering = activations.entering_each(case)
        return f"{tokens} × ({shape.layers} blocks × {entering:,.0f} bytes + 1 block × {block:,.0f} bytes)"
    scores = activations.scores_each(case)
    of_them = f", {scores:,.0f} of them attention scores" if scores else ""
    return f"{tokens} × {shape.layers} blocks × {block:,.0f} bytes a token{of_them}"


def _temporary(case: Case, forecast: Forecast) -> Told:
    casts = activations.cast_bytes(case)
    if casts and forecast.parts.activations:
        return (
            "Copies of the weights in half precision, with which mixed precision takes 6 bytes a weight, and what the "
            "widest layer needs while its gradients are computed.",
            f"{counted(casts // 2)} multiplied weights × 2 bytes + the widest layer's gradients",
            ANATOMY,
        )
    if forecast.parts.activations:
        return (
            "What the widest layer needs while its gradients are computed.",
            "widest layer × 2: the gradient that comes in and the one that goes out",
            "counted from torch 2.13",
        )
    return (
        "What the optimizer computes on the side while the weights move.",
        f"{counted(case.largest_trained)} numbers of the largest weight × a few copies of {NUMBER} bytes",
        "read in transformers.optimization and torch.optim",
    )


def _overhead(case: Case) -> Told:
    mib = overhead.MIB
    if case.kind == "cuda":
        return (
            "The CUDA context (the driver's own memory and its kernels), and what PyTorch's allocator holds unused.",
            f"{overhead.CUDA_CONTEXT // mib:,} MB, whatever the model + {overhead.CUDA_UNUSED:.0%} of the tensors",
            "context: transformers, guide “Efficient training on a single GPU”; allocator: played through its rules",
        )
    process = overhead.process_bytes(case) // mib
    if case.kind == "mps":
        return (
            "Python, PyTorch and the other libraries, in the memory the GPU shares, and Metal's own buffers.",
            f"{process:,} MB + {overhead.MPS_DRIVER // mib:,} MB, whatever the model",
            "an estimate: never measured on a Mac",
        )
    gaps = unused_bytes(case) // mib
    if not gaps:
        return (
            "Python, PyTorch and the other libraries, and what they take when they first compute.",
            f"{process:,} MB, whatever the model",
            "measured by tests/performance/forecast.py",
        )
    return (
        "Python, PyTorch and the other libraries; and the gaps between tensors, which Linux's memory allocator (glibc) "
        "neither fills nor gives back.",
        f"{process:,} MB whatever the model + {gaps:,} MB of gaps",
        "measured by tests/performance/forecast.py; gaps read off traced runs, core.memory.overhead",
    )


def counted(count: float) -> str:
    """A count of weights as a person says it: `22.7 million`, `1.3 billion`, `1,026`."""
    for word, size in (("billion", 1e9), ("million", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {word}"
    return f"{count:,.0f}"
