"""The ladder of methods, on machines nobody of us has at hand: what is measured, and what is refused in which words."""

from pathlib import Path
from typing import Any

import pytest

from core.base.errors import OptionsError
from core.benchmark.plan import BATCH, Kind, Plan, Rung, changed, methods_plan, pieces_of
from core.engine.devices import report
from core.memory.model import Room, with_changes
from core.options import RunOptions
from core.options.validate import check_tree
from tests.fakes.machines import (
    BARE,
    BUNDLED,
    EVERY_MACHINE,
    LAPTOP,
    M2_8GB,
    M3_MAX,
    OLD_CARD,
    PC,
    SERVER,
    variant,
)

ENOUGH = Room(free=1 << 36, ceiling=1 << 36)
NATIVE = variant(PC, cpu_bf16=True)
TEXT = {
    "task": "text-classification",
    "model": {"source": "bert-base-cased", "lora_rank": 4, "method": "lora"},
    "data": {"train": "hub:somebody/reviews", "eval_fraction": 0.2},
    "memory": {"batch_size": 16, "gradient_accumulation_steps": 2},
    "device": {"precision": "bf16"},
    "training": {"optimizer": "sgd", "learning_rate": 0.5, "momentum": 0.5, "max_steps": 100},
}
IMAGES = {
    "task": "image-classification",
    "model": {"source": "torchvision:resnet18", "pretrained": False},
    "data": {"train": "builtin:digits"},
    "memory": {"batch_size": 6},
}


def planned(facts: object, tree: dict[str, Any] | None = None, **more: Any) -> Plan:
    options = None
    if tree is not None:
        options, found = check_tree(tree)
        assert options is not None
        assert not found
    return methods_plan(report(facts), options=options, room=ENOUGH, **more)


def rungs(plan: Plan) -> dict[str, Rung]:
    return {rung.name: rung for rung in plan.rungs}


def options_of(rung: Rung) -> RunOptions:
    options, _ = check_tree(rung.asked)
    assert options is not None
    return options


def test_the_guides_rows_come_first_and_in_its_order() -> None:
    plan = planned(SERVER)
    assert (plan.kind, plan.title) == (Kind.METHODS, "BERT-large, 512 sequences of 512 tokens")
    assert [rung.title for rung in plan.rungs] == [
        "plain",
        "accumulation 1 × 4",
        "+ checkpointing",
        "bf16",
        "bf16 + accumulation + checkpointing",
        "Adafactor",
        "all + Adafactor",
        "8-bit AdamW",
        "all + 8-bit AdamW",
        "tf32",
        "bf16 + sdpa + fused",
        "+ compile",
        "bf16 + sdpa + dynamic padding",
        "bf16 + sdpa + checkpointing + Adafactor",
        "LoRA, bf16",
        "LoRA, bf16 + checkpointing",
    ]
    assert not any(rung.refusal for rung in plan.rungs)


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
def test_every_rung_that_is_not_refused_keeps_the_rules(facts: object) -> None:
    for rung in planned(facts).rungs:
        _, found = check_tree(rung.asked)
        assert bool(found) <= bool(rung.refusal)
        assert options_of(rung).effective_batch == BATCH
        assert options_of(rung).device.name != "auto"


def test_names_tell_rungs_apart() -> None:
    plan = planned(SERVER)
    assert len(rungs(plan)) == len(plan.rungs) == len({rung.title for rung in plan.rungs})


def test_plain_is_what_the_guide_ran() -> None:
    plain = options_of(planned(SERVER).rungs[0])
    assert (plain.device.precision, plain.model.attention, plain.training.optimizer) == (
        "fp32",
        "eager",
        "adamw",
    )
    assert (plain.memory.batch_size, plain.memory.activation_checkpointing) == (4, False)
    assert all(
        options_of(rung).device.precision != "auto" and options_of(rung).data.padding == "fixed"
        for name, rung in rungs(planned(SERVER)).items()
        if name != "bf16-padding"
    )
    assert (plain.data.train, plain.data.max_length, plain.data.eval_fraction) == (
        "synthetic:512x512",
        512,
        0,
    )


@pytest.mark.parametrize(
    ("facts", "half"),
    [
        (SERVER, "bf16"),
        (OLD_CARD, "fp16"),
        (M3_MAX, "bf16"),
        (M2_8GB, "fp16"),
        (NATIVE, "bf16"),
        (PC, "bf16"),
    ],
)
def test_half_precision_is_what_the_machine_does_best(facts: object, half: str) -> None:
    found = rungs(planned(facts))
    assert options_of(found[half]).device.precision == half
    assert options_of(found[f"{half}-all-adafactor"]).device.precision == half
    assert ("slower than fp32" in found[half].note) is (facts is PC)


def test_a_mac_refuses_in_the_engines_words() -> None:
    found = rungs(planned(M3_MAX))
    assert found["adamw-8bit"].refusal == "8-bit optimizers have no MPS kernels in bitsandbytes 0.50"
    assert found["bf16-all-adamw-8bit"].refusal == found["adamw-8bit"].refusal
    assert found["tf32"].refusal == "tf32 is a format of NVIDIA GPUs from Ampere on"
    assert "early prototype" in found["bf16-compile"].note
    assert {name for name, rung in found.items() if rung.refusal} == {
        "adamw-8bit",
        "bf16-all-adamw-8bit",
        "tf32",
    }


def test_what_is_not_installed_is_named() -> None:
    found = rungs(planned(BARE))
    assert "bitsandbytes" in found["adamw-8bit"].refusal
    assert "C++ compiler" in found["bf16-compile"].refusal
    assert "the app doesn't bring along" in rungs(planned(BUNDLED))["bf16-compile"].refusal


def test_compiling_is_left_out_as_asked() -> None:
    found = rungs(planned(LAPTOP, with_compile=False))
    assert found["bf16-compile"].refusal == "left out as asked"
    assert not found["bf16-sdpa"].refusal


def test_use_this_carries_the_method_and_neither_model_nor_data() -> None:
    found = rungs(planned(LAPTOP))
    assert found["bf16"].changes == {"device.precision": "bf16"}
    assert found["accumulation"].changes == {"memory.batch_size": 1, "memory.gradient_accumulation_steps": 4}
    assert found["bf16-lora"].changes["model.method"] == "lora"
    assert found["plain"].changes["device.precision"] == "fp32"
    for rung in found.values():
        assert not {"model.source", "data.train", "data.max_length"} & set(rung.changes)
        options = with_changes(options_of(found["plain"]), rung.changes)
        assert options.device == options_of(rung).device, "with them, plain becomes the rung"
        assert options.training == options_of(rung).training


def test_padding_is_measured_on_texts_that_need_some() -> None:
    rung = rungs(planned(LAPTOP))["bf16-padding"]
    assert rung.asked["data"]["train"] == "synthetic:512x64-512"
    assert rung.asked["data"]["padding"] == "dynamic"
    assert "padded to 512" in rung.note


@pytest.mark.parametrize(("facts", "steps", "warm_up"), [(SERVER, 20, 3), (M3_MAX, 10, 1)])
def test_steps_suit_the_device(facts: object, steps: int, warm_up: int) -> None:
    plan = planned(facts)
    assert (plan.steps, plan.warm_up, plan.passes) == (steps, warm_up, 3)


def test_a_slow_cpu_takes_fewer_steps_of_a_larger_model() -> None:
    slow = variant(PC, cores=2)
    steps = [planned(slow, size=size).steps for size in ("tiny", "minilm", "bert-base", "bert-large")]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == 20
    assert steps[-1] == 4
    assert planned(slow, steps=7).steps == 7


def test_what_is_asked_for_is_taken_or_refused() -> None:
    plan = planned(SERVER, size="minilm", device="cpu", passes=1)
    assert (plan.model, plan.passes, plan.rungs[0].asked["device"]["name"]) == ("minilm", 1, "cpu")
    with pytest.raises(OptionsError, match="no size called 'huge'; there are bert-large"):
        planned(SERVER, size="huge")
    with pytest.raises(OptionsError, match="NVIDIA driver") as caught:
        planned(PC, device="cuda")
    assert [fix.is_advice for fix in caught.value.problems[0].fixes] == [True]


def test_a_persons_own_run_keeps_model_data_and_what_learns() -> None:
    plan = planned(LAPTOP, TEXT)
    found = rungs(plan)
    plain = options_of(found["plain"])
    assert plan.model == ""
    assert plan.title == "bert-base-cased on somebody/reviews"
    assert (plain.model.source, plain.model.method, plain.model.lora_rank) == ("bert-base-cased", "lora", 4)
    assert all(
        options_of(rung).device.precision != "auto" and options_of(rung).data.padding == "fixed"
        for name, rung in rungs(planned(SERVER)).items()
        if name != "bf16-padding"
    )
    assert (plain.data.train, plain.data.eval_fraction) == ("hub:somebody/reviews", 0)
    assert (plain.device.precision, plain.training.optimizer, plain.training.max_steps) == (
        "fp32",
        "adamw",
        None,
    )
    assert (plain.memory.batch_size, plain.memory.gradient_accumulation_steps) == (16, 1)
    assert found["accumulation"].title == "accumulation 1 × 16"
    assert found["bf16-padding"].asked["data"]["train"] == "hub:somebody/reviews"
    assert "bf16-lora" not in found, "all rows train so already"
    assert not any(rung.refusal for rung in plan.rungs)


def test_images_have_neither_attention_nor_padding() -> None:
    found = rungs(planned(LAPTOP, IMAGES))
    assert set(found) == {
        "plain",
        "accumulation",
        "checkpointing",
        "bf16",
        "bf16-all",
        "adafactor",
        "bf16-all-adafactor",
        "adamw-8bit",
        "bf16-all-adamw-8bit",
        "tf32",
        "bf16-compile",
        "bf16-lean",
        "bf16-lora",
        "bf16-lora-checkpointing",
    }
    assert found["bf16-compile"].title == "bf16 + compile"
    assert "freeze random weights" in found["bf16-lora"].refusal


@pytest.mark.parametrize(
    ("tree", "lacks"),
    [
        (
            {
                "task": "chat",
                "model": {"source": "some/chat", "method": "qlora", "quantization": "int8"},
                "data": {"train": "hub:a/b", "packing": True},
            },
            {"bf16-lora", "bf16-lora-checkpointing"},
        ),
        (
            {
                "task": "preference",
                "model": {"source": "some/chat"},
                "data": {"train": "hub:a/b"},
                "memory": {"deepspeed": "zero-3", "offload": "none"},
            },
            set(),
        ),
        (
            {
                "task": "causal-lm",
                "model": {"source": "some/chat"},
                "data": {"train": "hub:a/b"},
                "training": {"optimizer": "lion-8bit", "beta2": 0.98},
                "device": {"compile": True, "compile_mode": "max-autotune"},
            },
            {"bf16-padding"},
        ),
        (
            {
                "task": "token-classification",
                "model": {"source": "some/bert", "method": "head"},
                "data": {"train": "hub:a/b"},
            },
            {
                "checkpointing",
                "bf16-all",
                "bf16-all-adafactor",
                "bf16-all-adamw-8bit",
                "bf16-lean",
                "bf16-lora",
                "bf16-lora-checkpointing",
            },
        ),
    ],
    ids=lambda value: value["task"] if isinstance(value, dict) else "",
)
def test_other_tasks_have_the_rows_that_mean_something(tree: dict[str, Any], lacks: set[str]) -> None:
    plan = planned(SERVER, {**tree, "memory": {"batch_size": 4, **tree.get("memory", {})}})
    assert set(rungs(planned(SERVER))) - set(rungs(plan)) == lacks
    assert not any(rung.refusal for rung in plan.rungs)
    assert ("padded" in plan.notes[0]) is (tree["task"] != "causal-lm")


def test_a_batch_of_one_is_not_cut() -> None:
    found = rungs(planned(LAPTOP, {**IMAGES, "memory": {"batch_size": 1}}))
    assert "accumulation" not in found
    assert found["checkpointing"].title == "checkpointing"
    assert [pieces_of(batch) for batch in (1, 4, 6, 16, 17, 64)] == [1, 4, 6, 16, 1, 16]


def test_a_run_file_that_can_not_run_is_refused_whole(tmp_path: Path) -> None:
    options, _ = check_tree({**TEXT, "data": {"train": str(tmp_path / "gone.csv")}})
    assert options is not None
    with pytest.raises(OptionsError, match=r"gone\.csv"):
        methods_plan(report(LAPTOP), options=options, room=ENOUGH)


def test_what_counts_no_more_is_taken_out() -> None:
    options, _ = check_tree(TEXT)
    assert options is not None
    found = changed(options, {"model.method": "full", "training.optimizer": "adafactor"})
    assert found.model.lora_rank == 16
    assert found.training.momentum == 0.9
