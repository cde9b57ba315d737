"""The benchmark of methods on many machines: its rows, what is refused, the size that is chosen."""

import pytest

from core.base.errors import OptionsError
from core.benchmark.methods import BATCH, SIZES, choose_size, methods_plan
from core.benchmark.plan import BenchmarkKind
from core.benchmark.table import published, published_row
from core.engine.devices.choose import report
from core.engine.environment import prepare_torchvision
from core.memory.model import Room
from core.options.catalogue import with_changes
from core.options.run_file import to_tree
from core.options.validate import check_tree
from tests.fakes.machines import (
    BARE,
    BUNDLED,
    EVERY_MACHINE,
    INTEL_MAC,
    LAPTOP,
    M2_8GB,
    M3_MAX,
    OLD_CARD,
    PC,
    SERVER,
    TWO_GPUS,
)
from tests.fakes.machines import variant as changed

prepare_torchvision()
GB = 1 << 30
NATIVE = changed(PC, cpu_bf16=True)
TWO_CORES = changed(PC, cores=2)
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
        options, problems = check_tree(tree)
        assert not problems
    return methods_plan(report(facts), options=options, room=room(64), **more)


def named(plan):
    return {row.name: row for row in plan.benchmark.rows}


def test_the_guides_rows_come_first_and_in_its_order():
    plan = planned(SERVER)
    assert plan.benchmark.title == "BERT-large, 512 examples of 512 tokens"
    assert [row.title for row in plan.benchmark.rows] == [
        *("plain", "accumulation 1 × 4", "accumulation 1 × 4 + checkpointing", "bf16"),
        "bf16 + accumulation + checkpointing",
        *("Adafactor", "all + Adafactor", "8-bit AdamW", "all + 8-bit AdamW"),
        *("tf32", "bf16 + sdpa + fused", "bf16 + sdpa + compile", "bf16 + sdpa + dynamic padding"),
        *("bf16 + sdpa + checkpointing + Adafactor", "LoRA, bf16", "LoRA, bf16 + checkpointing"),
    ]
    assert len(named(plan)) == len(plan.benchmark.rows) == len(plan.options)
    for facts in (SERVER, M2_8GB):
        rows = [published_row(BenchmarkKind.METHODS, row) for row in planned(facts).benchmark.rows]
        assert rows[:9] == list(published()["methods"].values())
        assert not any(rows[9:])


def test_plain_is_what_the_guide_ran():
    asked = to_tree(planned(SERVER).options["plain"])
    for section, values in {
        "device": {"precision": "fp32"},
        "model": {"attention": "eager"},
        "training": {"optimizer": "adamw"},
        "memory": {"batch_size": 4, "activation_checkpointing": False},
        "data": {"train": "synthetic:512x512", "max_length": 512, "eval_fraction": 0, "padding": "fixed"},
    }.items():
        assert values.items() <= asked[section].items()


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
def test_every_row_that_is_not_refused_keeps_the_rules_and_only_measures(facts):
    plan = planned(facts)
    assert set(plan.options) == {row.name for row in plan.benchmark.rows if not row.refusal}
    for options in plan.options.values():
        assert not check_tree(to_tree(options))[1]
        assert not options.output.save_model
        assert options.effective_batch == BATCH * options.device.processes
        assert "auto" not in (options.device.name, options.device.precision)


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        (SERVER, ()),
        (TWO_GPUS, ("processes-2",)),
        (changed(TWO_GPUS, cuda=TWO_GPUS.cuda * 4), ("processes-2", "processes-4", "processes-8")),
        (TWO_CORES, ("processes-2",)),
        (changed(PC, cores=16), ("processes-2", "processes-4")),
        (changed(PC, cores=1), ()),
        (M3_MAX, ()),
    ],
)
def test_several_processes_have_rows_up_to_the_cards_or_four(facts, counts):
    plan = planned(facts)
    rows = named(plan)
    assert tuple(name for name in rows if name.startswith("processes")) == counts
    for name in counts:
        assert not rows[name].refusal
        assert plan.options[name].device.processes == int(name.partition("-")[2])


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
    plan = planned(facts)
    assert plan.options[half].device.precision == half
    assert plan.options[f"{half}-all-adafactor"].device.precision == half
    assert ("slower than fp32" in named(plan)[half].note) is (facts is PC)


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
    plan = planned(LAPTOP)
    rows = named(plan)
    assert rows["bf16"].changes == {"device.precision": "bf16"}
    assert rows["accumulation"].changes == {"memory.batch_size": 1, "memory.gradient_accumulation_steps": 4}
    plain = plan.options["plain"]
    for row in rows.values():
        assert not {"model.source", "data.train", "data.max_length"} & set(row.changes)
        options, expected = with_changes(plain, row.changes), plan.options[row.name]
        assert (options.device, options.training) == (expected.device, expected.training)
    padding = plan.options["bf16-padding"].data
    assert (padding.train, padding.padding) == ("synthetic:512x64-512", "dynamic")


def test_steps_suit_the_device():
    def steps_of(plan):
        (steps,) = {one.training.max_steps for one in plan.options.values()}
        return steps - plan.benchmark.warm_up, plan.benchmark.warm_up

    assert list(map(steps_of, map(planned, (SERVER, M3_MAX)))) == [(40, 3), (20, 1)]
    steps = [steps_of(planned(TWO_CORES, size=size))[0] for size in SIZES]
    assert steps == sorted(steps)
    assert (steps[-1], steps[0]) == (40, 8)
    plan = planned(TWO_CORES, steps=7)
    assert steps_of(plan) == (7, 1)
    assert plan.amount == "16 runs of 7 timed steps. One more is left out; the table says why."
    assert planned(SERVER).amount == "16 runs of 40 timed steps."


def test_size_and_device_are_taken_or_refused(tmp_path):
    plan = planned(SERVER, size="minilm", device="cpu")
    assert plan.benchmark.name == "Methods, MiniLM size"
    assert {one.device.name for one in plan.options.values()} == {"cpu"}
    with pytest.raises(OptionsError, match="NVIDIA driver") as caught:
        planned(PC, device="cuda")
    assert [fix.is_advice for fix in caught.value.problems[0].fixes] == [True]
    gone = own("text-classification", {"source": "bert"}, data={"train": str(tmp_path / "gone.csv")})
    with pytest.raises(OptionsError, match=r"gone\.csv"):
        methods_plan(report(LAPTOP), options=check_tree(gone)[0])


# --- A person's own run


def own(task, model, **sections):
    return {"task": task, "model": model, "data": {"train": "hub:a/b"}, **sections}


def test_a_persons_own_run_keeps_model_data_batch_and_method():
    tree = own(
        "text-classification",
        {"source": "bert-base-cased", "lora_rank": 4, "method": "lora"},
        data={"train": "hub:somebody/reviews", "eval_fraction": 0.2},
        memory={"batch_size": 16, "gradient_accumulation_steps": 2},
        device={"precision": "bf16"},
        training={"optimizer": "sgd", "learning_rate": 0.5, "momentum": 0.5, "max_steps": 100, "warmup": 90},
    )
    plan = planned(LAPTOP, tree)
    rows, plain = named(plan), plan.options["plain"]
    assert plan.benchmark.title == "bert-base-cased on somebody/reviews"
    assert (plain.model.source, plain.model.method, plain.model.lora_rank) == ("bert-base-cased", "lora", 4)
    assert (plain.data.train, plain.data.eval_fraction) == ("hub:somebody/reviews", 0)
    assert (plain.device.precision, plain.training.optimizer, plain.training.max_steps) == (
        "fp32",
        "adamw",
        43,
    )
    assert (plain.memory.batch_size, plain.memory.gradient_accumulation_steps) == (16, 1)
    assert rows["accumulation"].title == "accumulation 1 × 16"
    assert plan.options["bf16-padding"].data.train == "hub:somebody/reviews"
    assert "bf16-lora" not in rows, "all rows train so already"
    assert not plan.benchmark.has_published


HEAD_ONLY = {"checkpointing", "bf16-all", "bf16-all-adafactor", "bf16-all-adamw-8bit", "bf16-lean"}
LORAS = {"bf16-lora", "bf16-lora-checkpointing"}
CHAT = {"source": "some/chat"}
PACKED = {"train": "hub:a/b", "packing": True}
COMPILED = {"compile": True, "compile_mode": "max-autotune"}


@pytest.mark.parametrize(
    ("tree", "lacks"),
    [
        (IMAGES, {"bf16-sdpa", "bf16-padding"}),
        (own("chat", {**CHAT, "method": "qlora", "quantization": "int8"}, data=PACKED), LORAS),
        (own("preference", CHAT, memory={"deepspeed": "zero-3", "offload": "none"}), set()),
        (own("causal-lm", CHAT, training={"optimizer": "lion-8bit"}, device=COMPILED), {"bf16-padding"}),
        (own("token-classification", {"source": "some/bert", "method": "head"}), HEAD_ONLY | LORAS),
    ],
    ids=["images", "chat", "preference", "causal-lm", "token-classification"],
)
def test_other_tasks_have_the_rows_that_mean_something(tree, lacks):
    plan = planned(SERVER, {**tree, "memory": {"batch_size": 4, **tree.get("memory", {})}})
    assert set(named(planned(SERVER))) - set(named(plan)) == lacks
    assert all(row.name.startswith("bf16-lora") for row in plan.benchmark.rows if row.refusal)
    assert ("padded" in plan.benchmark.notes[0]) is (
        tree["task"] not in ("causal-lm", "image-classification")
    )


MLX_ROWS = {"mlx": "MLX", "mlx-lora": "MLX, LoRA", "mlx-qlora": "MLX, QLoRA 4 bits"}
ON_CPU = changed(PC, mlx_on_cpu=True, optional=M3_MAX.optional)


@pytest.mark.parametrize("facts", [M3_MAX, ON_CPU], ids=["Mac", "with HONE_MLX_CPU"])
@pytest.mark.parametrize("task", ["causal-lm", "chat", "preference"])
def test_mlx_is_measured_beside_pytorch_where_it_computes(facts, task):
    plan = planned(facts, own(task, CHAT))
    assert {row.name: row.title for row in plan.benchmark.rows if row.name.startswith("mlx")} == MLX_ROWS
    for name, options in plan.options.items():
        assert options.device.backend == ("mlx" if name in MLX_ROWS else "torch")
    assert [plan.options[name].model.method for name in MLX_ROWS] == ["full", "lora", "qlora"]
    assert plan.options["mlx-qlora"].model.quantization == "affine4"
    assert named(plan)["mlx-qlora"].note.startswith("It trains small matrices")


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        ({"method": "lora"}, {"mlx": "lora", "mlx-qlora": "qlora"}),
        ({"method": "qlora", "quantization": "nf4"}, {"mlx": "qlora"}),
        ({"method": "qlora", "quantization": "affine4"}, {"mlx": "qlora"}),
    ],
)
def test_mlx_trains_with_a_persons_own_method_and_its_own_format(model, rows):
    plan = planned(M3_MAX, own("chat", {**CHAT, **model}))
    assert {name: plan.options[name].model.method for name in MLX_ROWS if name in plan.options} == rows
    for name, method in rows.items():
        assert method != "qlora" or plan.options[name].model.quantization == "affine4"
    plain = plan.options["plain"]
    assert (plain.device.backend, plain.model.method) == ("torch", model["method"])


@pytest.mark.parametrize(
    ("facts", "tree"),
    [
        *((facts, own("chat", CHAT)) for facts in (PC, SERVER, INTEL_MAC)),
        (changed(M3_MAX, optional={}), own("chat", CHAT)),
        (M3_MAX, own("text-classification", {"source": "bert"})),
        (M3_MAX, None),
    ],
    ids=["PC", "server", "Intel Mac", "Mac without MLX", "another task", "the guide"],
)
def test_mlx_has_no_row_elsewhere(facts, tree):
    assert not [name for name in named(planned(facts, tree)) if name.startswith("mlx")]


@pytest.mark.parametrize(("batch", "title"), [(1, None), (6, "1 × 6"), (17, None), (64, "4 × 16")])
def test_a_batch_is_divided_into_up_to_16(batch, title):
    rows = named(planned(LAPTOP, {**IMAGES, "memory": {"batch_size": batch}}))
    if title is None:
        assert "accumulation" not in rows
        assert rows["checkpointing"].title == "checkpointing"
    else:
        assert rows["accumulation"].title == f"accumulation {title}"


# --- Sizes


@pytest.mark.parametrize(("size", "gigabytes"), [("bert-large", 14.9), ("bert-base", 6.0), ("tiny", 1.2)])
def test_a_plain_run_of_a_size_takes_about_as_much_as_measured(size, gigabytes):
    assert SIZES[size].bytes(4, 512, "cuda") == pytest.approx(gigabytes * 1e9, rel=0.15)


@pytest.mark.parametrize(
    ("facts", "gigabytes", "name", "reason"),
    [
        (SERVER, 79, "bert-large", "the guide's model"),
        (LAPTOP, 13, "bert-base", ""),  # BERT-large would fit into 13 GB, but not with a tenth to spare
        (LAPTOP, 6, "bert-base", "and 6.00 GB are free"),
        (LAPTOP, 0.5, "tiny", "the smallest size"),
        (LAPTOP, None, "bert-large", "isn't known"),
        (M2_8GB, 4.5, "minilm", ""),
        (PC, 28, "minilm", ""),
        (TWO_CORES, 28, "minilm", "BERT-base would take about"),
        (changed(PC, cores=64), 60, "bert-large", ""),
    ],
)
def test_the_largest_size_that_suits_is_chosen_with_a_reason(facts, gigabytes, name, reason):
    machine = report(facts)
    options = methods_plan(machine, size="tiny", room=room(64)).options["plain"]
    device = next(device for device in machine.devices if device.name == options.device.name)
    size, sentence = choose_size(options, device, room(gigabytes) if gigabytes else None)
    assert size.name == name
    assert reason in sentence
