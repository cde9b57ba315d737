"""What a machine refuses, what to know of choices that work, and what nobody has to be asked about."""

from typing import Any

import pytest

from core.engine.devices.choose import report
from core.options import RunOptions
from core.options.backend_rules import ONLY_MLX
from core.options.catalogue import with_changes
from core.options.choices import Method, Optimizer, Task, device_title
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    Settled,
    find_device,
    hints,
    machine_may_refuse,
    machine_problems,
    model_may_refuse,
    refusal,
    settle,
    settled_beside,
    why_automatic,
    without_mlx,
)
from core.options.method_rules import rate_fixes, rate_hint, starting_options, usual_rate
from core.options.sections import DeviceOptions, ModelOptions
from core.options.validate import check_tree
from tests.fakes.machines import M1
from tests.fakes.model_shapes import asked

BERT = {"source": "/somewhere/bert"}


@pytest.mark.parametrize(
    ("sections", "machine", "model"),
    [
        ({}, False, False),
        ({"model": {**BERT, "method": "lora"}}, False, True),
        ({"model": {**BERT, "method": "qlora"}}, True, True),
        ({"model": {**BERT, "attention": "eager"}}, False, True),
        ({"memory": {"activation_checkpointing": True}}, False, True),
        ({"device": {"precision": "bf16"}}, True, False),
        ({"training": {"optimizer": "adamw-8bit"}}, True, False),
    ],
)
def test_who_may_refuse_what(sections, machine, model):
    options = asked(**sections)
    assert (machine_may_refuse(options), model_may_refuse(options)) == (machine, model)


GONE = DeviceReport(name="cpu", title="CPU", available=False, reason="It broke.")
TABLE = {"model.method": {"full": "too large", "lora": "too large"}}
SMALL = DeviceReport(name="cpu", title="CPU", available=True, refusals=TABLE)


@pytest.mark.parametrize(
    ("devices", "sections", "message", "fixes"),
    [
        ([GONE], {"device": DeviceOptions(name="cpu")}, "It broke.", ["Let Hone choose"]),
        ([GONE], {}, "It broke.", []),
        ([], {"device": DeviceOptions(name="cpu")}, "is not a device of this computer", ["Let Hone choose"]),
        ([], {}, "this computer has no device", []),
        ([SMALL], {}, "too large", []),
        ([SMALL], {"model": ModelOptions(method="lora")}, "too large", ["Use full"]),
    ],
)
def test_a_refusal_comes_with_remedies_that_are_not_taken_already(devices, sections, message, fixes):
    machine = MachineReport(devices=tuple(devices), automatic="cpu" if devices else "")
    (problem,) = machine_problems(machine, RunOptions(task=Task.TEXT_CLASSIFICATION, **sections))
    assert message in problem.message
    assert [fix.label for fix in problem.fixes] == fixes


def options(**sections: dict[str, Any]) -> RunOptions:
    tree = {"task": "text-classification", "data": {"train": "synthetic:64x64"}, **sections}
    tree["model"] = {"source": "bert-base-cased", **sections.get("model", {})}
    if str(tree["model"]["source"]).startswith("torchvision"):
        tree["task"] = "image-classification"
    found, problems = check_tree(tree)
    assert problems == ()
    assert found is not None
    return found


def gpu(title: str, precision: str = "bf16", name: str = "cuda:0", **report: Any) -> MachineReport:
    settled = {"device.precision": Settled(precision, "")}
    device = DeviceReport(name=name, title=title, available=True, automatic=settled, **report)
    return MachineReport(devices=(device,), automatic=name)


ACCUMULATED = {"batch_size": 4, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    ("sections", "path", "better"),
    [
        ({}, None, []),
        ({"model": {"source": "torchvision:resnet18"}, "memory": ACCUMULATED},
            "memory.gradient_accumulation_steps", []),
        ({"model": {"source": "torchvision:alexnet"}, "memory": ACCUMULATED}, None, []),
        ({"model": {"method": "lora"}, "training": {"learning_rate": 2e-5}}, "training.learning_rate", [2e-4]),
        ({"model": {"method": "lora"}, "training": {"learning_rate": 2e-4}}, None, []),
        ({"training": {"learning_rate": 2e-4}}, "training.learning_rate", [2e-5]),
        ({"model": {"source": "scratch:bert-tiny"}, "training": {"learning_rate": 3e-3}}, None, []),
        ({"training": {"optimizer": "sgd"}}, "training.learning_rate", [0.01]),
        ({"training": {"optimizer": "lion-8bit"}}, "training.learning_rate", [2e-6]),
        ({"training": {"optimizer": "lion"}}, "training.learning_rate", [2e-6]),
        ({"output": {"save_model": False}}, "output.save_model", [True]),
    ],
)  # fmt: skip
def test_hints_on_what_works_but_seldom_well(sections, path, better):
    found = hints(options(**sections), None)
    assert [hint.path for hint in found] == ([path] if path else [])
    assert [fix.changes[path] for hint in found for fix in hint.fixes] == better


@pytest.mark.parametrize("source", ["/somewhere/model", "torchvision:resnet18", "scratch:llama-tiny"])
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("task", Task)
def test_no_usual_learning_rate_is_warned_about(task, method, source):
    options = with_changes(starting_options(task), {"model.method": method, "model.source": source})
    for optimizer in Optimizer:
        options = with_changes(options, {"training.optimizer": optimizer})
        usual = usual_rate(options).value
        assert rate_hint(with_changes(options, {"training.learning_rate": usual})) is None
        assert (
            rate_hint(with_changes(options, {"training.learning_rate": 100 * usual})) or options.starts_random
        )


@pytest.mark.parametrize("source", ["/somewhere/model", "scratch:llama-tiny"])
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("task", Task)
def test_no_rate_is_proposed_that_would_be_warned_about(task, method, source):
    options = with_changes(starting_options(task), {"model.method": method, "model.source": source})
    usual = usual_rate(options).value
    for times in (0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.7, 2.5, 4, 5, 30, 1000):
        options = with_changes(options, {"training.learning_rate": times * usual})
        for factor in (0.1, 1 / 3, 3, 5):
            for fix in rate_fixes(options, factor):
                proposed = fix.changes["training.learning_rate"]
                is_low_already = factor < 1 and times < 0.4
                assert is_low_already or rate_hint(with_changes(options, fix.changes)) is None
                assert proposed <= 5 * usual or options.starts_random
                assert (proposed > times * usual) is (factor > 1)


@pytest.mark.parametrize(
    ("sections", "factors", "rates"),
    [
        # seen: 0.0005 is high for a pretrained model, and 0.0025 was proposed
        ({"training": {"learning_rate": 5e-4}}, (5, 0.1), [2e-5]),
        # seen: 5e-6 is usual for DPO, and 0.005 was proposed
        ({"task": "preference", "training": {"learning_rate": 1e-3}}, (5, 0.1), [5e-6]),
        ({"training": {"learning_rate": 2e-5}}, (5, 0.1), [1e-4, 2e-6]),
        ({"training": {"learning_rate": 4e-5}}, (5,), [1e-4]),
        ({"training": {"learning_rate": 6e-5}}, (3, 5), []),  # hardly more, or far too high
        ({"training": {"learning_rate": 8e-5}}, (1 / 3, 0.1), [2.7e-5, 2e-5]),
        ({"model": {"method": "lora"}, "training": {"learning_rate": 2e-4}}, (0.1,), [4e-5]),
        ({"model": {"method": "lora"}, "training": {"learning_rate": 4e-5}}, (0.1,), [4e-6]),
        ({"model": {"method": "lora"}, "training": {"learning_rate": 1e-5}}, (5,), [2e-4]),
        ({"model": {"source": "scratch:bert-tiny"}, "training": {"learning_rate": 0.02}}, (5, 0.1), [5e-4]),
    ],
)  # fmt: skip
def test_a_proposed_rate_stays_near_the_usual_one(sections, factors, rates):
    fixes = rate_fixes(options(**sections), *factors)
    assert [fix.changes["training.learning_rate"] for fix in fixes] == rates


@pytest.mark.parametrize("task", Task)
def test_a_new_run_starts_with_the_usual_learning_rate(task):
    assert rate_hint(starting_options(task)) is None


@pytest.mark.parametrize(
    ("machine", "size", "tile", "better"),
    [
        (gpu("NVIDIA GeForce RTX 3060"), 20, 8, [16]),
        (gpu("NVIDIA GeForce RTX 3060"), 24, 0, []),
        (gpu("NVIDIA A100", "fp16"), 3, 0, []),  # a small batch has its reasons
        (gpu("NVIDIA A100", "fp16"), 4, 64, [8]),
        (gpu("NVIDIA A100", "fp16"), 36, 64, [32, 64]),
        (gpu("NVIDIA A100", "fp16"), 200, 64, [192]),
        (gpu("NVIDIA A100"), 72, 0, []),  # 64 counts for fp16
        (gpu("Apple M3 Max", name="mps"), 20, 0, []),
        (gpu("a processor", name="cpu"), 20, 0, []),
    ],
)  # fmt: skip
def test_batches_that_miss_the_hardwares_multiples(machine, size, tile, better):
    found = hints(options(memory={"batch_size": size}), machine)
    assert [f"multiples of {tile}" in hint.message for hint in found] == ([True] if tile else [])
    assert [fix.changes["memory.batch_size"] for hint in found for fix in hint.fixes] == better


def test_cautions_of_the_device_are_among_the_hints():
    young = gpu("GPU", cautions={"device.compile": {"true": "is a prototype"}})
    assert [hint.message for hint in hints(options(device={"compile": True}), young)] == ["is a prototype"]
    assert hints(options(), young) == ()


def test_devices_of_other_computers_are_found_by_their_names():
    names = "cpu", "cpu@workshop", "cuda:0@workshop", "cuda:1@workshop", "mps@studio"
    devices = tuple(DeviceReport(name=name, title=name, available=True) for name in names)
    machine = MachineReport(devices=devices, automatic="cpu")
    found = {
        name: find_device(machine, name)
        for name in ("auto", "cuda", "cuda@workshop", "cuda@workshop+attic", "cuda:1@workshop", "auto@studio")
    }
    assert {name: device and device.name for name, device in found.items()} == {
        "auto": "cpu",
        "cuda": None,
        "cuda@workshop": "cuda:0@workshop",
        "cuda@workshop+attic": "cuda:0@workshop",
        "cuda:1@workshop": "cuda:1@workshop",
        "auto@studio": "mps@studio",
    }
    assert [device.kind for device in devices] == ["cpu", "cpu", "cuda", "cuda", "mps"]
    assert device_title("cuda:1@workshop+attic") == "CUDA 1 on workshop + attic"


def test_each_of_several_computers_may_refuse():
    refusals = {"model.method": {"qlora": "needs the package bitsandbytes"}}
    devices = (
        DeviceReport(name="cuda:0@workshop", title="RTX 4090", available=True),
        DeviceReport(name="cuda:0@attic", title="RTX 3060", available=True, refusals=refusals),
        DeviceReport(name="cuda:0@shed", title="RTX 3060", available=False, reason="shed doesn't answer"),
    )
    machine = MachineReport(devices=devices, automatic="cpu")

    def found(name):
        model, device = ModelOptions(**BERT, method=Method.QLORA), DeviceOptions(name=name)
        options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=model, device=device)
        return [(problem.path, problem.message) for problem in machine_problems(machine, options)]

    assert found("cuda@workshop") == []
    assert found("cuda@workshop+attic") == [("model.method", "needs the package bitsandbytes")]
    assert found("cuda@workshop+shed") == [("device.name", "shed doesn't answer")]
    unknown = "CUDA on garage is not known: add or check the computer in Settings, or with `hone hosts`"
    assert found("cuda@garage") == [("device.name", unknown)]
    other = "there is no MPS on workshop; `hone devices` lists what the computer has"
    assert found("mps@workshop") == [("device.name", other)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("cuda:0", "an NVIDIA GPU"), ("mps", "an Apple GPU"), ("cpu", "no GPU here that PyTorch can use")],
)
def test_the_reason_for_an_automatic_device_is_that_of_this_computer(name, reason):
    assert reason in why_automatic(name)


NOT_THERE = "the architecture opt is not in mlx-lm"


@pytest.mark.parametrize(
    ("task", "reason", "changes", "told"),
    [
        (Task.CHAT, NOT_THERE, {}, NOT_THERE),
        (Task.CHAT, "", {}, ""),
        (Task.CHAT, NOT_THERE, {"model.source": "org/another"}, ""),
        (Task.CHAT, NOT_THERE, {"data.packing": True}, "MLX's attention would cross"),
        (Task.CHAT, NOT_THERE, {"device.name": "cpu"}, "MLX computes on the GPU"),
        (Task.TEXT_CLASSIFICATION, "", {}, "MLX trains text generation"),
    ],
)
def test_what_depends_on_the_engine_follows_from_the_model_too(task, reason, changes, told):
    options = with_changes(starting_options(task), {"model.source": "org/OPT", "model.method": "qlora"})
    machine = without_mlx(report(M1), options, reason)
    options = with_changes(options, changes)
    device = find_device(machine, options.device.name)
    engine = settled_beside(device, "device.backend", options)
    assert (engine.value == "torch") is bool(told)
    assert engine.reason.lower().startswith(told.lower() or "it is made by apple")
    settled = settle(device, options)
    assert settled.model.quantization == ("nf4" if told else "affine4")
    assert settled.device.precision == ("fp32" if told else "bf16")


@pytest.mark.parametrize(
    ("task", "reason", "told"),
    [
        (Task.CHAT, NOT_THERE, "The architecture opt is not in mlx-lm"),
        (Task.CHAT, "", ""),
        (Task.TOKEN_CLASSIFICATION, "", "MLX trains text generation, chat and preference tuning only"),
    ],
)
def test_mlx_and_what_only_mlx_has_is_refused_for_tasks_and_models_that_it_can_not_train(task, reason, told):
    machine = without_mlx(report(M1), starting_options(task), reason)
    mac, cpu = find_device(machine, "mps"), find_device(machine, "cpu")
    for path, values in ONLY_MLX.items():
        assert {refusal(mac, path, value) for value in values} == {told}
        assert {refusal(cpu, path, value) for value in values} == {"MLX computes on the GPU of Apple silicon"}
    assert not refusal(mac, "device.backend", "torch")
    assert not refusal(mac, "model.quantization", "nf4")
