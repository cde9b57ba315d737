"""The benchmark of devices: which sides a machine has, what is measured on both, and what can't be."""

import gzip
import struct

import pytest

from core.base.errors import OptionsError
from core.benchmark.device_plan import ARTICLE as MODELS
from core.benchmark.device_plan import Sides, devices_plan
from core.benchmark.published import ARTICLE
from core.engine.devices.choose import report
from core.options.validate import check_tree
from tests.fakes.machines import EVERY_MACHINE, M2_8GB, M3_MAX, PC, SERVER, variant

NATIVE = variant(PC, cpu_bf16=True)
SMALL = {"models": ["resnet18", "tiny"]}


def planned(facts, **more):
    return devices_plan(report(facts), **more)


def named(plan):
    return {one.name: one for one in plan.variants}


@pytest.mark.parametrize(
    ("facts", "which", "sides"),
    [
        (M3_MAX, None, ["CPU", "MPS"]),
        (SERVER, None, ["CPU", "CUDA"]),
        (NATIVE, None, ["fp32", "bf16"]),
        (PC, None, ["1 thread", "8 threads"]),
        (variant(PC, cores=1), None, ["fp32", "bf16"]),
        (variant(PC, cores=1), Sides.THREADS, ["1 thread", "2 threads"]),
        (M2_8GB, Sides.PRECISIONS, ["fp32", "fp16"]),
        (M3_MAX, Sides.PRECISIONS, ["fp32", "bf16"]),
    ],
)
def test_the_sides_are_what_the_machine_has(facts, which, sides):
    assert list(dict.fromkeys(one.side for one in planned(facts, sides=which, **SMALL).variants)) == sides


def test_the_articles_models_are_measured_in_both_batches():
    plan = planned(M3_MAX)
    assert plan.title == "CPU against MPS: epochs of 1,000 rows, batches of 4 and 64"
    groups = list(dict.fromkeys(one.group for one in plan.variants))
    assert groups[:4] == ["vgg16-4", "vgg16-64", "alexnet-4", "alexnet-64"]
    assert groups[10:] == ["minilm-4", "minilm-64", "bert-base-4", "bert-base-64"]
    assert set(groups[:10]) == set(ARTICLE)
    assert len(ARTICLE) == 2 * len(MODELS)
    assert [one.side for one in plan.variants[:4]] == ["CPU", "MPS", "CPU", "MPS"]
    assert len(named(plan)) == len(plan.variants) == 28
    few = planned(variant(NATIVE, cores=2))
    assert not any(one.group.startswith("bert-base") for one in few.variants), "it would take a minute a step"


def test_it_trains_as_in_the_article():
    asked = named(planned(M3_MAX))["vgg16-64-mps"].asked
    assert (asked["training"]["optimizer"], asked["training"]["learning_rate"]) == ("adam", 1e-3)
    assert (asked["model"]["source"], asked["model"]["pretrained"]) == ("torchvision:vgg16", False)
    assert (asked["data"]["image_size"], asked["data"]["max_train_samples"]) == (224, 1000)
    assert (asked["device"]["name"], asked["device"]["precision"]) == ("mps", "fp32")


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
@pytest.mark.parametrize("which", Sides)
def test_variants_that_are_not_refused_keep_the_rules_and_differ_in_the_device_only(facts, which):
    plan = planned(facts, sides=which, **SMALL)
    assert not plan.variants[0].refusal, "a CPU can always be measured, and so can the best device"
    for one in plan.variants:
        assert bool(check_tree(one.asked)[1]) <= bool(one.refusal)
    for first, other in zip(plan.variants[::2], plan.variants[1::2], strict=True):
        assert (first.group, first.steps) == (other.group, other.steps)
        for section in ("model", "data", "memory", "training"):
            assert first.asked[section] == other.asked[section]
        assert first.asked["device"] != other.asked["device"]


@pytest.mark.parametrize(
    ("facts", "more", "steps"),
    [
        (variant(NATIVE, cores=2), {}, [8, 3]),
        (variant(NATIVE, cores=2), {"images": 24, "batches": [4]}, [6]),
        (NATIVE, {}, [32, 3]),
        (NATIVE, {"steps": 5}, [5, 5]),
        (NATIVE, {"steps": 400}, [250, 15]),
        (NATIVE, {"steps": 1}, [1, 1]),
        (SERVER, {"sides": Sides.PRECISIONS}, [250, 15]),
        (SERVER, {"sides": Sides.PRECISIONS, "images": 4000}, [449, 28]),
    ],
)
def test_steps_are_an_epochs_or_what_is_quick(facts, more, steps):
    plan = planned(facts, models=["resnet18"], **more)
    assert [one.steps for one in plan.variants[::2]] == steps
    assert plan.steps == max(steps)


@pytest.mark.parametrize(
    ("facts", "more", "name", "refusal"),
    [
        (PC, {"sides": Sides.DEVICES}, "resnet18-4-cuda", "No NVIDIA driver was found"),
        (PC, {"sides": Sides.DEVICES}, "resnet18-4-cpu", ""),
        (NATIVE, {"images": 32}, "resnet18-64-fp32", "a batch of 64 is more than the 32 there are"),
        (NATIVE, {"images": 32}, "tiny-64-fp32", "a batch of 64 is more than the 32 there are"),
        (NATIVE, {"images": 32}, "resnet18-4-fp32", ""),
    ],
)
def test_what_cant_be_measured_is_a_row_with_its_reason(facts, more, name, refusal):
    found = named(planned(facts, **more, **SMALL))[name].refusal
    assert refusal in found
    assert bool(refusal) == bool(found)


def test_images_are_the_digits_unless_there_are_others(tmp_path):
    plan = planned(NATIVE, models=["alexnet"], images=100)
    assert plan.variants[0].asked["data"]["train"] == "builtin:digits"
    assert "the first 100 of the 1,797 handwritten digits" in plan.notes[1]
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 2051, 1, 28, 28) + bytes(28 * 28))
    plan = planned(NATIVE, models=["alexnet"], images=100, data=str(tmp_path))
    assert plan.variants[0].asked["data"]["train"] == str(tmp_path)
    assert f"the first 100 of {tmp_path.name}" in plan.notes[1]
    assert "epochs of 1,797 images" in planned(PC, models=["alexnet"], images=5000).title


def test_what_is_not_there_is_refused_whole(tmp_path):
    with pytest.raises(OptionsError, match=r"gone"):
        planned(NATIVE, data=str(tmp_path / "gone"))
    with pytest.raises(OptionsError, match="there is nothing in"):
        planned(NATIVE, data=str(tmp_path))
    with pytest.raises(OptionsError, match="no model called 'vgg' is timed; there are resnet18"):
        planned(NATIVE, models=["vgg"])
