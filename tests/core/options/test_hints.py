"""What is worth knowing beside choices that work."""

from typing import Any

from core.options import RunOptions
from core.options.device_support import DeviceReport, MachineReport, Settled, hints
from core.options.validate import check_tree


def options(**sections: dict[str, Any]) -> RunOptions:
    tree = {"task": "text-classification", **sections}
    tree["model"] = {"source": "bert-base-cased", **sections.get("model", {})}
    if str(tree["model"]["source"]).startswith("torchvision"):
        tree["task"] = "image-classification"
    tree["data"] = {"train": "synthetic:64x64"}
    found, problems = check_tree(tree)
    assert problems == ()
    assert found is not None
    return found


def machine(title: str, precision: str = "bf16", **report: Any) -> MachineReport:
    device = DeviceReport(
        name="cuda:0",
        title=title,
        available=True,
        automatic={"device.precision": Settled(precision, "")},
        **report,
    )
    return MachineReport(devices=(device,), automatic="cuda:0")


def paths(asked: RunOptions, on: MachineReport | None = None) -> list[str]:
    return [hint.path for hint in hints(asked, on)]


def test_a_plain_run_needs_no_words() -> None:
    assert paths(options()) == []
    assert paths(options(), machine("NVIDIA A100")) == []


def test_batches_that_miss_the_hardwares_multiples() -> None:
    a_gpu = machine("NVIDIA GeForce RTX 3060")
    [hint] = hints(options(memory={"batch_size": 20}), a_gpu)
    assert "multiples of 8" in hint.message
    assert hint.fixes[0].changes == {"memory.batch_size": 16}
    assert paths(options(memory={"batch_size": 24}), a_gpu) == []
    large = machine("NVIDIA A100-SXM4-80GB", precision="fp16")
    [hint] = hints(options(memory={"batch_size": 72}), large)
    assert "multiples of 64" in hint.message
    for size, better in {
        4: [8],
        8: [],
        20: [16],
        31: [32],
        32: [64],
        36: [32, 64],
        62: [64],
        72: [64],
        200: [192],
    }.items():
        [hint] = hints(options(memory={"batch_size": size}), large)
        assert "multiples of 64" in hint.message
        assert [fix.changes["memory.batch_size"] for fix in hint.fixes] == better
    assert paths(options(memory={"batch_size": 3}), large) == []
    assert paths(options(memory={"batch_size": 72}), machine("NVIDIA A100")) == [], "64 counts for fp16"
    assert paths(options(memory={"batch_size": 1}), a_gpu) == [], "a small batch has its reasons"


def test_apple_names_no_multiples() -> None:
    asked = options(memory={"batch_size": 20})
    for name in ("mps", "cpu"):
        device = DeviceReport(name=name, title="Apple M3 Max", available=True)
        assert paths(asked, MachineReport(devices=(device,), automatic=name)) == []


def test_batch_normalisation_makes_accumulation_differ() -> None:
    memory = {"batch_size": 4, "gradient_accumulation_steps": 4}
    accumulated = {
        name: paths(options(model={"source": f"torchvision:{name}"}, memory=memory))
        for name in ("resnet18", "alexnet")
    }
    assert accumulated == {"resnet18": ["memory.gradient_accumulation_steps"], "alexnet": []}


def test_rates_that_do_not_suit_the_method() -> None:
    [hint] = hints(options(model={"method": "lora"}, training={"learning_rate": 2e-5}), None)
    assert hint.fixes[0].changes == {"training.learning_rate": 2e-4}
    assert paths(options(model={"method": "lora"}, training={"learning_rate": 2e-4})) == []
    assert paths(options(training={"learning_rate": 2e-4})) == ["training.learning_rate"]
    assert paths(options(training={"optimizer": "sgd"})) == ["training.learning_rate"]
    assert paths(options(training={"optimizer": "lion-8bit"})) == ["training.learning_rate"]


def test_cautions_of_the_device_are_among_them() -> None:
    young = machine("GPU", cautions={"device.compile": {"true": "is a prototype"}})
    assert [hint.message for hint in hints(options(device={"compile": True}), young)] == ["is a prototype"]
    assert paths(options(), young) == []
