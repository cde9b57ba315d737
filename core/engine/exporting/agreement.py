"""How an exported model answers beside the trained one, and how far apart they may be."""

from dataclasses import dataclass

import torch

from core.choices import Task
from core.engine.exporting.rows import Rows
from core.exporting import Agreement, Compared, NumberFormat


@dataclass(frozen=True)
class Tolerance:
    """How large the largest difference of two logits may be, as a share of the largest logit, and why."""

    share: float
    why: str


EXACT = Tolerance(1e-5, "The weights are the same numbers, computed in the same way.")
MERGED = Tolerance(
    1e-4,
    "Merged, a layer multiplies once where it multiplied three times: fp32 rounds otherwise, to 7 digits each.",
)
KERNELS = Tolerance(
    2e-4, "ONNX Runtime computes the same fp32 numbers by other kernels, which add in another order."
)
HALF = {
    NumberFormat.BF16: Tolerance(
        0.05, "The weights are rounded to bf16, which keeps 8 bits: each is off by up to 0.4 %."
    ),
    NumberFormat.FP16: Tolerance(
        0.01, "The weights are rounded to fp16, which keeps 11 bits: each is off by up to 0.05 %."
    ),
}
"""Measured on all-MiniLM-L6-v2: bf16 was off by 2.3 % of the largest logit, fp16 by 0.2 %, merged by 2e-6."""
APPLE = Tolerance(0.01, "Core ML computes in fp32 by other kernels, and may round on the way.")

_COMPARED = {
    Task.TEXT_REGRESSION: Compared.NUMBERS,
    Task.TOKEN_CLASSIFICATION: Compared.WORD_LABELS,
    Task.CAUSAL_LM: Compared.TOKENS,
    Task.CHAT: Compared.TOKENS,
    Task.PREFERENCE: Compared.TOKENS,
}


def compare(
    task: Task, rows: Rows, before: list[torch.Tensor], after: list[torch.Tensor], tolerance: Tolerance
) -> Agreement:
    """Hold the answers of two models against each other.

    They agree where no logit is off by more than the tolerance; then a label or token differs only where the trained
    model itself finds two of them as likely, within that.

    Args:
        task: What the model does.
        rows: What both were given.
        before: The trained model's logits.
        after: The exported one's, of the same shapes.
        tolerance: How far they may be apart.
    """
    what = _COMPARED.get(task, Compared.LABELS)
    is_alike = [one.shape for one in before] == [one.shape for one in after]
    apart = list(map(_apart, before, after)) if is_alike else [None]
    largest = None if None in apart else max(filter(None, apart), default=0.0)
    allowed = tolerance.share * max((_largest(one) for one in before), default=0.0)
    pairs = list(zip(before, after, strict=True)) if is_alike else []
    if what is Compared.NUMBERS:
        same = [(one - other).abs().flatten() <= allowed for one, other in pairs]
    else:
        same = [(one.argmax(-1) == other.argmax(-1)).flatten() for one, other in pairs]
    return Agreement(
        examples=len(rows.rows),
        held_out=rows.held_out,
        compared=what,
        equal=sum(int(one.sum()) for one in same),
        counted=sum(one.numel() for one in same),
        largest=largest,
        allowed=allowed,
        why=tolerance.why,
        holds=largest is not None and largest <= allowed,
    )


def _largest(logits: torch.Tensor) -> float:
    """The largest of the logits that are numbers."""
    return float(torch.nan_to_num(logits, 0.0, 0.0, 0.0).abs().max()) if logits.numel() else 0.0


def _apart(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """The largest difference; None where one of the two has no number and the other has."""
    if not torch.equal(one.isfinite(), other.isfinite()):
        return None
    return _largest(one - other)
