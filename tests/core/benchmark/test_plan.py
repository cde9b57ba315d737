"""The ladder of methods on many machines: its variants, what is refused, the size that is chosen."""

import pytest

from core.base.errors import OptionsError
from core.benchmark.plan import (
    BATCH,
    SIZES,
    choose_size,
    methods_plan,
    pieces_of,
)
from core.benchmark.published import GUIDE, guide_row
from core.engine.devices.choose import report
from core.engine.environment import prepare_torchvision
from core.memory.model import Room
from core.options.catalogue import with_changes
from core.options.validate import check_tree, read_options
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

prepare_torchvision()
GB = 1 << 30
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


def room(gigabytes):
    return Room(free=int(gigabytes * GB), ceiling=int(gigabytes * GB))


def planned(facts, tree=None, **more):
    options = None
    if tree is not None:
        options, found = check_tree(tree)
        assert not found
    return methods_plan(report(facts), options=options, room=room(64), **more)


def named(plan):
    return {one.name: one for one in plan.variants}


def options_of(one):
    return read_options(one.asked)[0]


def test_the_guides_rows_come_first_and_in_its_order():
    plan = planned(SERVER)
    assert plan.title == "BERT-large, 512 sequences of 512 tokens"
    assert [one.title for one in plan.variants] == [
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
    assert len(named(plan)) == len(plan.variants)
    assert not any(one.refusal for one in plan.variants)


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
def test_every_variant_that_is_not_refused_keeps_the_rules(facts):
    for one in planned(facts).variants:
        assert bool(check_tree(one.asked)[1]) <= bool(one.refusal)
        options = options_of(one)
        assert options.effective_batch == BATCH
        assert "auto" not in (options.device.name, options.device.precision)


def test_plain_is_what_the_guide_ran():
    asked = planned(SERVER).variants[0].asked
    wanted = {
        "device": {"precision": "fp32"},
        "model": {"attention": "eager"},
        "training": {"optimizer": "adamw"},
        "memory": {"batch_size": 4, "activation_checkpointing": False},
        "data": {
            "train": "synthetic:512x512",
            "max_length": 512,
            "eval_fraction": 0,
            "padding": "fixed",
        },
    }
    for section, values in wanted.items():
        assert values.items() <= asked[section].items()


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
def test_half_precision_is_what_the_machine_does_best(facts, half):
    found = named(planned(facts))
    assert options_of(found[half]).device.precision == half
    assert options_of(found[f"{half}-all-adafactor"]).device.precision == half
    assert ("slower than fp32" in found[half].note) is (facts is PC)


@pytest.mark.parametrize(
    ("facts", "more", "name", "reason"),
    [
        (M3_MAX, {}, "adamw-8bit", "no MPS kernel in bitsandbytes 0.50"),
        (M3_MAX, {}, "bf16-all-adamw-8bit", "no MPS kernel in bitsandbytes 0.50"),
        (M3_MAX, {}, "tf32", "tf32 is a format of NVIDIA GPUs from Ampere on"),
        (BARE, {}, "adamw-8bit", "bitsandbytes"),
        (BARE, {}, "bf16-compile", "C++ compiler"),
        (BUNDLED, {}, "bf16-compile", "the app doesn't contain"),
        (LAPTOP, {"with_compile": False}, "bf16-compile", "left out as requested"),
        (LAPTOP, {"tree": IMAGES}, "bf16-lora", "freeze random weights"),
    ],
)
def test_what_the_machine_cant_do_is_a_row_with_its_reason(facts, more, name, reason):
    assert reason in named(planned(facts, **more))[name].refusal


def test_changes_carry_the_method_and_neither_model_nor_data():
    found = named(planned(LAPTOP))
    assert found["bf16"].changes == {"device.precision": "bf16"}
    assert found["accumulation"].changes == {"memory.batch_size": 1, "memory.gradient_accumulation_steps": 4}
    assert found["plain"].changes["device.precision"] == "fp32"
    for one in found.values():
        assert not {"model.source", "data.train", "data.max_length"} & set(one.changes)
        options = with_changes(options_of(found["plain"]), one.changes)
        assert (options.device, options.training) == (options_of(one).device, options_of(one).training)
    padding = found["bf16-padding"].asked["data"]
    assert (padding["train"], padding["padding"]) == ("synthetic:512x64-512", "dynamic")


def test_steps_suit_the_device():
    assert [(planned(facts).steps, planned(facts).warm_up) for facts in (SERVER, M3_MAX)] == [
        (20, 3),
        (10, 1),
    ]
    slow = variant(PC, cores=2)
    steps = [planned(slow, size=size).steps for size in ("tiny", "minilm", "bert-base", "bert-large")]
    assert steps == sorted(steps, reverse=True)
    assert (steps[0], steps[-1]) == (20, 4)
    assert planned(slow, steps=7).steps == 7


def test_what_is_asked_for_is_taken_or_refused(tmp_path):
    plan = planned(SERVER, size="minilm", device="cpu", passes=1)
    assert (plan.model, plan.passes, plan.variants[0].asked["device"]["name"]) == ("minilm", 1, "cpu")
    with pytest.raises(OptionsError, match="no size called 'huge'; there are bert-large"):
        planned(SERVER, size="huge")
    with pytest.raises(OptionsError, match="NVIDIA driver") as caught:
        planned(PC, device="cuda")
    assert [fix.is_advice for fix in caught.value.problems[0].fixes] == [True]
    options, _ = check_tree({**TEXT, "data": {"train": str(tmp_path / "gone.csv")}})
    with pytest.raises(OptionsError, match=r"gone\.csv"):
        methods_plan(report(LAPTOP), options=options)


def test_a_persons_own_run_keeps_model_data_and_method():
    plan = planned(LAPTOP, TEXT)
    found = named(plan)
    plain = options_of(found["plain"])
    assert (plan.model, plan.title) == ("", "bert-base-cased on somebody/reviews")
    assert (plain.model.source, plain.model.method, plain.model.lora_rank) == ("bert-base-cased", "lora", 4)
    assert (plain.data.train, plain.data.eval_fraction, plain.training.max_steps) == (
        "hub:somebody/reviews",
        0,
        None,
    )
    assert (plain.device.precision, plain.training.optimizer) == ("fp32", "adamw")
    assert (plain.memory.batch_size, plain.memory.gradient_accumulation_steps) == (16, 1)
    assert found["accumulation"].title == "accumulation 1 × 16"
    assert found["bf16-padding"].asked["data"]["train"] == "hub:somebody/reviews"
    assert "bf16-lora" not in found, "all rows train so already"
    assert not any(guide_row(one) for one in plan.variants)


HEAD_ONLY = {"checkpointing", "bf16-all", "bf16-all-adafactor", "bf16-all-adamw-8bit", "bf16-lean"}
LORAS = {"bf16-lora", "bf16-lora-checkpointing"}
CHAT = {"source": "some/chat"}


def own(task, model, **sections):
    return {"task": task, "model": model, "data": {"train": "hub:a/b"}, **sections}


@pytest.mark.parametrize(
    ("tree", "lacks"),
    [
        (IMAGES, {"bf16-sdpa", "bf16-padding"}),
        (
            own(
                "chat",
                {**CHAT, "method": "qlora", "quantization": "int8"},
                data={"train": "hub:a/b", "packing": True},
            ),
            LORAS,
        ),
        (own("preference", CHAT, memory={"deepspeed": "zero-3", "offload": "none"}), set()),
        (
            own(
                "causal-lm",
                CHAT,
                training={"optimizer": "lion-8bit", "beta2": 0.98},
                device={"compile": True, "compile_mode": "max-autotune"},
            ),
            {"bf16-padding"},
        ),
        (own("token-classification", {"source": "some/bert", "method": "head"}), HEAD_ONLY | LORAS),
    ],
    ids=lambda value: value["task"] if isinstance(value, dict) else "",
)
def test_other_tasks_have_the_rows_that_mean_something(tree, lacks):
    plan = planned(SERVER, {**tree, "memory": {"batch_size": 4, **tree.get("memory", {})}})
    assert set(named(planned(SERVER))) - set(named(plan)) == lacks
    assert all(one.name.startswith("bf16-lora") for one in plan.variants if one.refusal)
    assert ("padded" in plan.notes[0]) is (tree["task"] not in ("causal-lm", "image-classification"))


def test_a_batch_of_one_is_not_divided():
    found = named(planned(LAPTOP, {**IMAGES, "memory": {"batch_size": 1}}))
    assert "accumulation" not in found
    assert found["checkpointing"].title == "checkpointing"
    assert [pieces_of(batch) for batch in (1, 4, 6, 16, 17, 64)] == [1, 4, 6, 16, 1, 16]


@pytest.mark.parametrize(("size", "gigabytes"), [("bert-large", 14.9), ("bert-base", 6.0), ("tiny", 1.2)])
def test_a_plain_run_of_a_size_takes_about_as_much_as_measured(size, gigabytes):
    assert SIZES[size].bytes(4, 512, "cuda") == pytest.approx(gigabytes * 1e9, rel=0.15)


@pytest.mark.parametrize(
    ("facts", "gigabytes", "name", "reason"),
    [
        (SERVER, 79, "bert-large", "the guide's model"),
        (LAPTOP, 13, "bert-base", ""),  # BERT-large would fit into 13 GB, but not with a tenth to spare
        (LAPTOP, 6, "bert-base", "and 6.00 GB are free"),
        (LAPTOP, 3, "minilm", ""),
        (LAPTOP, 0.5, "tiny", "the smallest size"),
        (LAPTOP, None, "bert-large", "isn't known"),
        (M3_MAX, 25, "bert-large", ""),
        (M2_8GB, 4.5, "minilm", ""),
        (PC, 28, "minilm", ""),
        (variant(PC, cores=2), 28, "minilm", "BERT-base would take about"),
        (variant(PC, cores=64), 60, "bert-large", ""),
    ],
)
def test_the_largest_size_that_suits_is_chosen_and_the_reason_said(facts, gigabytes, name, reason):
    machine = report(facts)
    options = options_of(methods_plan(machine, size="tiny", room=room(64)).variants[0])
    device = next(one for one in machine.devices if one.name == options.device.name)
    size, said = choose_size(options, device, room(gigabytes) if gigabytes else None)
    assert size.name == name
    assert reason in said


@pytest.mark.parametrize("facts", [SERVER, M2_8GB])
def test_published_figures_belong_to_the_guides_nine_rows(facts):
    rows = [guide_row(one) for one in planned(facts).variants]
    assert rows[:9] == list(GUIDE.values())
    assert not any(rows[9:])
    assert (GUIDE["half"].speed, GUIDE["all-adafactor"].memory) == pytest.approx((2.1, 0.324), abs=0.01)
