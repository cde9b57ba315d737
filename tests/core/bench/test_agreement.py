"""Whether two sides compute the same: what is compared, how close it has to be, and how that is said."""

import msgspec
import pytest

from core.benchmark.plan import Rung
from core.benchmark.result import Pass, Row, Sample
from core.benchmark.table import FP32, HALF, Verdict, agreement

FIRST = Sample(device="cpu", seconds=(1.0,), samples_a_step=4, rows=8, first_loss=2.5, losses=(2.4, 2.3, 2.2))


def row(precision: str = "fp32", **changes: object) -> Row:
    rung = Rung(name="one", title="one", asked={"device": {"precision": precision}})
    sample = msgspec.structs.replace(FIRST, **changes)
    return Row(rung=rung, passes=(Pass(begun=0.0, sample=sample),))


def test_the_same_losses_agree_exactly() -> None:
    found = agreement(row(), row())
    assert (found.verdict, found.difference, found.words) == (Verdict.AGREE, 0.0, "agree (exactly)")


def test_rounding_is_no_difference_and_is_told() -> None:
    found = agreement(row(), row(first_loss=2.5 + 5e-6))
    assert found.verdict is Verdict.AGREE
    assert found.words == "agree (2e-06)"


def test_a_wrong_loss_is_found() -> None:
    found = agreement(row(), row(first_loss=2.3))
    assert found.verdict is Verdict.DIFFER
    assert found.words == "differ by 8 %"


def test_the_first_step_is_compared_where_nothing_is_random() -> None:
    wrong = (2.4 * 1.02, 2.3, 2.2)
    assert agreement(row(), row(losses=wrong)).verdict is Verdict.DIFFER
    found = agreement(row(is_random=True), row(is_random=True, losses=wrong))
    assert found.verdict is Verdict.AGREE
    assert found.words == "first loss agrees (exactly)"
    assert "dropout" in found.explanation


def test_later_steps_are_told_and_not_judged() -> None:
    found = agreement(row(), row(losses=(2.4, 2.3, 2.0)))
    assert found.verdict is Verdict.AGREE
    assert (found.apart, found.steps) == (pytest.approx(0.0909, abs=1e-4), 2)
    assert "After 2 steps the losses are apart by 9.1 %" in found.explanation
    assert agreement(row(), row(losses=(2.4,))).apart is None


@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32"])
def test_fewer_bits_may_differ_more(precision: str) -> None:
    close = 2.5 * (1 + 0.9 * HALF)
    assert agreement(row(), row(precision, first_loss=close)).verdict is Verdict.AGREE
    assert agreement(row(), row(first_loss=close)).verdict is Verdict.DIFFER
    assert agreement(row(), row(precision, first_loss=2.5 * (1 + 2 * HALF))).verdict is Verdict.DIFFER
    assert FP32 < HALF


def test_what_is_no_number_differs_from_what_is_one() -> None:
    found = agreement(row(), row(first_loss=None))
    assert (found.verdict, found.words) == (Verdict.DIFFER, "differ: a loss is no number")
    assert agreement(row(), row(losses=(None, None, None))).verdict is Verdict.DIFFER
    both = agreement(row(first_loss=None, losses=()), row(first_loss=None, losses=()))
    assert (both.verdict, both.words) == (Verdict.UNKNOWN, "-")


def test_without_figures_there_is_nothing_to_say() -> None:
    empty = Row(rung=Rung(name="two", title="two", asked={}, refusal="no such device"))
    found = agreement(row(), empty)
    assert (found.verdict, found.words) == (Verdict.UNKNOWN, "-")
    assert "no figures" in found.explanation
