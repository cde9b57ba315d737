"""The sentence about the best trade: what is fastest, what is leanest, and when nothing is."""

from collections.abc import Sequence
from typing import Any

import pytest

from core.benchmark.plan import Kind, Plan, Rung
from core.benchmark.result import Machine, Pass, Result, Row, Sample, Surroundings
from core.benchmark.table import best_trade, is_faster


def row(
    title: str, steps: Sequence[float] | float = (), peak: int = 1000, load: float = 0.0, **more: Any
) -> Row:
    seconds = (steps,) if isinstance(steps, float) else tuple(steps)
    asked = {"model": {"method": more.pop("method", "full")}, "data": {"train": more.pop("data", "same")}}
    rung = Rung(name=title, title=title, asked=asked, **more)
    sample = Sample(device="cpu", seconds=seconds, samples_a_step=4, rows=512, peak=peak)
    passes = (Pass(begun=0.0, sample=sample, surroundings=Surroundings(other_load=load)),) if seconds else ()
    return Row(rung=rung, passes=passes)


def told(*rows: Row, kind: Kind = Kind.METHODS) -> str:
    plan = Plan(kind=kind, title="", rungs=tuple(one.rung for one in rows), steps=4, passes=1)
    return best_trade(Result(plan=plan, machine=Machine(title="PC"), begun=0.0, rows=rows))


PLAIN = row("plain", (1.0, 1.0, 1.1, 1.2))


def test_the_fastest_and_the_leanest_are_named_with_both_figures() -> None:
    said = told(
        PLAIN,
        row("accumulation 1 × 4", 1.3, 500),
        row("bf16", 0.5, 900),
        row("all + Adafactor", 0.9, 330),
        row("bf16 + sdpa + fused", 0.35, 800),
    )
    assert said == (
        "The best trade here: bf16 + sdpa + fused, 3.00 times as fast as plain, with 80 % of its memory. Least memory "
        "without being slower than plain: all + Adafactor, 1.17 times as fast as plain, with 33 % of its memory."
    )


def test_one_that_is_both_is_named_once() -> None:
    said = told(PLAIN, row("bf16", 0.5, 900), row("bf16 + sdpa", 0.4, 300))
    assert said == (
        "The best trade here, in speed and in memory: bf16 + sdpa, 2.62 times as fast as plain, with 30 % of its "
        "memory."
    )


def test_a_difference_within_the_spread_is_none() -> None:
    close = row("bf16", (0.9, 1.0, 1.1, 1.2))
    assert not is_faster(close, PLAIN)
    assert not is_faster(PLAIN, close)
    assert told(PLAIN, close).startswith(
        "No method was faster than plain beyond its spread, and none took less"
    )
    lean = told(PLAIN, row("Adafactor", (0.9, 1.0, 1.1, 1.2), 700))
    assert (
        "the best trade here is Adafactor, as fast as plain within the spread, with 70 % of its memory."
        in lean
    )


def test_memory_that_costs_time_is_no_trade() -> None:
    said = told(PLAIN, row("+ checkpointing", 2.0, 300))
    assert said.startswith("No method was faster")
    assert "None took less memory without being slower" in told(
        PLAIN, row("checkpointing", 2.0, 300), row("bf16", 0.5)
    )


def test_lora_is_told_apart() -> None:
    said = told(PLAIN, row("bf16", 0.5, 900), row("LoRA, bf16", 0.25, 200, method="lora"))
    assert "in speed and in memory: bf16," in said
    assert said.endswith(
        "LoRA, bf16, which trains few of the weights, is 4.20 times as fast as plain, with 20 % of its memory."
    )
    both = told(row("plain", 1.0, method="lora"), row("bf16", 0.5, method="lora"))
    assert "few of the weights" not in both, "where all rows train LoRA, none is apart"


def test_padding_is_told_apart_for_its_texts_are_others() -> None:
    said = told(PLAIN, row("bf16", 0.5, 900), row("padding", 0.3, 700, data="other"))
    assert "in speed and in memory: bf16," in said
    assert "Where texts differ in length, padding makes it 3.50 times as fast as plain." in said
    assert "padding" not in told(PLAIN, row("bf16", 0.5), row("padding", 0.6, data="other"))


def test_what_only_says_what_is_added_is_named_whole() -> None:
    said = told(PLAIN, row("bf16 + sdpa + fused", 0.5), row("+ compile", 0.3, 900))
    assert "bf16 + sdpa + fused + compile, 3.50 times" in said


def test_disturbed_rows_support_no_conclusion() -> None:
    quiet, busy = row("bf16", 0.5, load=0.1), row("bf16", 0.5, load=0.6)
    assert "beside other work" not in told(PLAIN, quiet)
    for rows in ((PLAIN, busy), (row("plain", 1.0, load=0.6), quiet), (PLAIN, quiet, busy, busy)):
        said = told(*rows)
        assert "conclude" in said
        assert "measure again" in said
        assert "No method" not in said
        assert "best trade" not in said


def test_a_conclusion_leaves_disturbed_rows_out_and_says_so() -> None:
    said = told(PLAIN, row("bf16", 0.5, 900), row("bf16 + sdpa", 0.1, 100, load=0.6))
    assert said.startswith("The best trade here, in speed and in memory: bf16,")
    assert "1 of 3 rows" in said
    assert "sdpa" not in said


def test_devices_that_were_disturbed_are_left_out() -> None:
    rows = [row("VGG", 1.0, group="v", side="CPU"), row("VGG", 0.5, group="v", side="MPS", load=0.6)]
    assert told(*rows, kind=Kind.DEVICES).startswith("1 of 2 rows were measured beside other work")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), "Nothing has been measured."),
        ((row("plain"),), "Nothing has been measured."),
        ((PLAIN,), "Only plain has been measured."),
        ((PLAIN, row("tf32", refusal="no")), "Only plain has been measured."),
        ((row("plain", refusal="too large"), row("bf16", 0.5)), "plain, which has no figures: too large."),
        ((row("plain"), row("bf16", 0.5)), "plain, which has no figures: it was not measured."),
    ],
)
def test_missing_rows_are_said(rows: tuple[Row, ...], said: str) -> None:
    assert said in told(*rows)


def test_devices_are_told_from_the_least_to_the_most() -> None:
    rows = [
        row(title, seconds, group=title, side=side)
        for title, both in {
            "ResNet-18, batch 4": (1.0, 0.5),
            "VGG-16, batch 4": (3.0, 0.6),
            "AlexNet, batch 4": (1.0,),
        }.items()
        for side, seconds in zip(("CPU", "MPS"), both, strict=False)
    ]
    assert told(*rows, kind=Kind.DEVICES) == (
        "MPS is 2.00 to 5.00 times as fast as CPU: the least with ResNet-18, batch 4, the most with VGG-16, batch 4."
    )
    assert told(*rows[:2], kind=Kind.DEVICES) == "MPS is 2.00 times as fast as CPU (ResNet-18, batch 4)."
    assert told(rows[0], kind=Kind.DEVICES) == "Nothing has been measured on both sides."
