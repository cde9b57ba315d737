"""The table of devices: which sides a machine has, what is measured on both, and what can't be."""

import gzip
import struct
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import OptionsError
from core.benchmark.device_plan import Sides, devices_plan
from core.benchmark.plan import Kind, Plan, Rung
from core.engine.devices import report
from core.options.validate import check_tree
from tests.fakes.machines import EVERY_MACHINE, M2_8GB, M3_MAX, PC, SERVER, variant

NATIVE = variant(PC, cpu_bf16=True)
SMALL = {"models": ["resnet18", "tiny"]}


def planned(facts: object, **more: Any) -> Plan:
    return devices_plan(report(facts), **more)


def rungs(plan: Plan) -> dict[str, Rung]:
    return {rung.name: rung for rung in plan.rungs}


def sides(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rung.side for rung in plan.rungs))


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (M3_MAX, ("CPU", "MPS")),
        (SERVER, ("CPU", "CUDA")),
        (NATIVE, ("fp32", "bf16")),
        (PC, ("1 thread", "8 threads")),
        (variant(PC, cores=1), ("fp32", "bf16")),
    ],
)
def test_the_sides_are_what_the_machine_has(facts: object, found: tuple[str, str]) -> None:
    assert sides(planned(facts, **SMALL)) == found


def test_the_articles_models_are_measured_in_both_batches() -> None:
    plan = planned(M3_MAX)
    assert plan.kind is Kind.DEVICES
    assert plan.title == "CPU against MPS: epochs of 1,000 rows, batches of 4 and 64"
    groups = list(dict.fromkeys(rung.group for rung in plan.rungs))
    assert groups[:4] == ["vgg16-4", "vgg16-64", "alexnet-4", "alexnet-64"]
    assert groups[10:] == ["minilm-4", "minilm-64", "bert-base-4", "bert-base-64"]
    assert [rung.side for rung in plan.rungs[:4]] == ["CPU", "MPS", "CPU", "MPS"]
    assert len(rungs(plan)) == len(plan.rungs) == 28
    few = planned(variant(NATIVE, cores=2))
    assert not any(rung.group.startswith("bert-base") for rung in few.rungs), "it would take a minute a step"


def test_it_learns_as_in_the_article() -> None:
    asked = rungs(planned(M3_MAX))["vgg16-64-mps"].asked
    assert (asked["training"]["optimizer"], asked["training"]["learning_rate"]) == ("adam", 1e-3)
    assert (asked["model"]["source"], asked["model"]["pretrained"]) == ("torchvision:vgg16", False)
    assert (asked["data"]["image_size"], asked["data"]["max_train_samples"]) == (224, 1000)
    assert (asked["device"]["name"], asked["device"]["precision"]) == ("mps", "fp32")
    assert asked["data"]["eval_fraction"] == 0


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
@pytest.mark.parametrize("which", Sides)
def test_every_rung_that_is_not_refused_keeps_the_rules(facts: object, which: Sides) -> None:
    plan = planned(facts, sides=which, **SMALL)
    assert not plan.rungs[0].refusal, "a CPU can always be measured, and so can the best device"
    for rung in plan.rungs:
        assert bool(check_tree(rung.asked)[1]) <= bool(rung.refusal)


def test_the_title_names_no_more_images_than_there_are() -> None:
    small = {"models": ["alexnet"], "batches": (4,)}
    assert "epochs of 1,797 images" in planned(PC, **small, images=5000).title
    assert "epochs of 5,000 images" in planned(PC, **small, images=5000, data="synthetic:5000x32").title


def test_threads_of_one_core_are_still_two_sides() -> None:
    assert sides(planned(variant(PC, cores=1), **SMALL, sides=Sides.THREADS)) == ("1 thread", "2 threads")


def test_a_side_the_machine_lacks_says_why() -> None:
    found = rungs(planned(PC, sides=Sides.DEVICES, models=["alexnet"]))
    assert "No NVIDIA driver was found" in found["alexnet-4-cuda"].refusal
    assert not found["alexnet-4-cpu"].refusal


def test_the_sides_differ_in_nothing_else() -> None:
    for facts, which in ((M2_8GB, Sides.PRECISIONS), (SERVER, Sides.DEVICES), (PC, Sides.THREADS)):
        first, other = planned(facts, sides=which, models=["tiny"], batches=[4]).rungs
        for section in ("model", "data", "memory", "training"):
            assert first.asked[section] == other.asked[section]
        assert first.asked["device"] != other.asked["device"]
        assert (first.group, first.steps) == (other.group, other.steps)


def test_half_precision_is_the_one_the_device_does_better() -> None:
    assert sides(planned(M2_8GB, sides=Sides.PRECISIONS, **SMALL)) == ("fp32", "fp16")
    assert sides(planned(M3_MAX, sides=Sides.PRECISIONS, **SMALL)) == ("fp32", "bf16")


@pytest.mark.parametrize(
    ("facts", "more", "steps"),
    [
        (variant(NATIVE, cores=2), {}, [8, 3]),
        (variant(NATIVE, cores=2), {"images": 64}, [8, 3]),
        (variant(NATIVE, cores=2), {"images": 24, "batches": [4]}, [6]),
        (NATIVE, {}, [32, 3]),
        (NATIVE, {"steps": 5}, [5, 5]),
        (NATIVE, {"steps": 400}, [250, 15]),
        (NATIVE, {"steps": 1}, [1, 1]),
        (SERVER, {"sides": Sides.PRECISIONS}, [250, 15]),
        (SERVER, {"sides": Sides.PRECISIONS, "images": 4000}, [449, 28]),
    ],
)
def test_steps_are_an_epochs_or_what_is_quick(facts: object, more: dict[str, Any], steps: list[int]) -> None:
    plan = planned(facts, models=["resnet18"], **more)
    assert [rung.steps for rung in plan.rungs[::2]] == steps
    assert plan.steps == max(steps)


def test_a_batch_larger_than_the_data_is_a_row_with_its_reason() -> None:
    found = rungs(planned(NATIVE, images=32, **SMALL))
    assert found["resnet18-64-fp32"].refusal == "a batch of 64 is more than the 32 there are"
    assert found["tiny-64-fp32"].refusal == found["resnet18-64-fp32"].refusal
    assert not found["resnet18-4-fp32"].refusal


def test_images_are_the_digits_unless_there_are_others(tmp_path: Path) -> None:
    plan = planned(NATIVE, models=["alexnet"], images=100)
    assert plan.rungs[0].asked["data"]["train"] == "builtin:digits"
    assert "the first 100 of the 1,797 handwritten digits" in plan.notes[1]
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 2051, 1, 28, 28) + bytes(28 * 28))
    plan = planned(NATIVE, models=["alexnet"], images=100, data=str(tmp_path))
    assert plan.rungs[0].asked["data"]["train"] == str(tmp_path)
    assert f"the first 100 of {tmp_path.name}" in plan.notes[1]


def test_what_can_not_be_had_is_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"gone"):
        planned(NATIVE, data=str(tmp_path / "gone"))
    with pytest.raises(OptionsError, match="there is nothing in"):
        planned(NATIVE, data=str(tmp_path))
    with pytest.raises(OptionsError, match="no model called 'vgg' is timed; there are resnet18"):
        planned(NATIVE, models=["vgg"])
