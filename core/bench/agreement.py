"""Whether two sides of a benchmark compute the same: their losses on the same rows, from the same weights.

What is judged are losses before anything was learned. Once the weights have moved they tell little: Adam's first step
moves each weight by the sign of its gradient, whatever its size, so that rounding decides about the smallest. Measured
with ResNet-18, batch 4, Adam at 1e-3, one thread against two in fp32: apart by 2e-6 at the first step, by 0.9 % at the
second, by 17 % at the sixth, and both are right.

MobileNet's and EfficientNet's first losses say the least: evaluated from random weights, their batch norms let nearly
nothing through, and the loss is that of guessing.
"""

from dataclasses import dataclass
from enum import StrEnum

from core import figures
from core.bench.result import Row
from core.bench.sample import Sample
from core.choices import Precision

FP32 = 1e-3
"""Sums in another order differ by 1e-6 or so; kernels of GPUs, which multiply in other pieces, by up to 1e-4."""

HALF = 2e-2
"""bf16 has 8 bits: each number is off by up to 0.4 %. Measured on a CPU, from random weights: losses apart by 0.09 % at
most (ResNet-18; BERT-base 0.04 %, AlexNet 0.002 %). Larger models and other kernels may add up more.
"""

TINY = 1e-12


class Verdict(StrEnum):
    """What came of it; UNKNOWN where a side has no figures."""

    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Agreement:
    """How two sides compare.

    `difference` is the largest relative one of the losses before anything was learned, up to `tolerance` counting as
    agreement. `is_random` says that dropout drew random numbers, which no two kinds of device draw alike: then an
    evaluation of the first batch is all there is to compare. `apart` is how far the losses of the last step both made
    are apart, after `steps` steps; None where there is none, or dropout.
    """

    verdict: Verdict
    difference: float | None = None
    tolerance: float = FP32
    is_random: bool = False
    apart: float | None = None
    steps: int = 0

    @property
    def words(self) -> str:
        """For a cell of a table: `agree (2e-06)`, `first loss agrees (2e-06)`, `differ by 8 %`."""
        if self.verdict is Verdict.UNKNOWN:
            return figures.MISSING
        if self.difference is None:
            return "differ: a loss is no number"
        if self.verdict is Verdict.DIFFER:
            return f"differ by {_percent(self.difference)}"
        told = f"({self.difference:.0e})" if self.difference else "(exactly)"
        return f"first loss agrees {told}" if self.is_random else f"agree {told}"

    @property
    def explanation(self) -> str:
        """What was compared, and how, in sentences."""
        if self.verdict is Verdict.UNKNOWN:
            return "There is nothing to compare: a side has no figures."
        limit = f"Up to {_percent(self.tolerance)} counts as the same."
        if self.is_random:
            return (
                "The loss of the first batch before anything was learned. The model leaves numbers out at random while "
                f"it learns (dropout), so that later losses can't be compared. {limit}"
            )
        later = (
            f" After {figures.counted(self.steps, 'step')} the losses are apart by {_percent(self.apart)}: rounding "
            "grows while weights move, and says nothing of which is right."
            if self.apart is not None
            else ""
        )
        return f"The losses of the first batch before anything was learned. {limit}{later}"


def agreement(left: Row, right: Row) -> Agreement:
    """Compare two rows of a group by the first pass of each that has figures."""
    if not left.samples or not right.samples:
        return Agreement(Verdict.UNKNOWN)
    one, other = left.samples[0], right.samples[0]
    is_random = one.is_random or other.is_random
    tolerance = HALF if _is_half(left) or _is_half(right) else FP32
    pairs = [(one.first_loss, other.first_loss), *([] if is_random else _losses(one, other)[:1])]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if not known or len(known) < len(pairs):
        both_lack = all(mine is None and theirs is None for mine, theirs in pairs)
        return Agreement(Verdict.UNKNOWN if both_lack else Verdict.DIFFER, tolerance=tolerance)
    worst = max(_relative(mine, theirs) for mine, theirs in known)
    apart, steps = (None, 0) if is_random else _later(one, other)
    verdict = Verdict.AGREE if worst <= tolerance else Verdict.DIFFER
    return Agreement(verdict, worst, tolerance, is_random, apart, steps)


def _losses(one: Sample, other: Sample) -> list[tuple[float | None, float | None]]:
    return list(zip(one.losses, other.losses, strict=False))


def _later(one: Sample, other: Sample) -> tuple[float | None, int]:
    """How far the last losses of both are apart, and after how many steps that was."""
    found = _losses(one, other)
    if len(found) < 2:
        return None, 0
    mine, theirs = found[-1]
    return (None if mine is None or theirs is None else _relative(mine, theirs)), len(found) - 1


def _relative(mine: float, theirs: float) -> float:
    return abs(mine - theirs) / max(abs(mine), abs(theirs), TINY)


def _is_half(row: Row) -> bool:
    """Whether numbers have fewer bits than fp32's, as far as was asked or has run."""
    asked = row.rung.asked.get("device", {}).get("precision")
    ran = row.samples[0].ran
    return asked in (Precision.BF16, Precision.FP16, Precision.TF32) or bool(ran and ran.autocast_dtype)


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %"
