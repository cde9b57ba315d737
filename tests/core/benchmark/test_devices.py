"""The benchmark of devices: what a machine can compare, what is measured, and what can't be."""

import gzip
import struct

import pytest

from core.base.errors import OptionsError
from core.benchmark.devices import Sides, devices_plan
from core.benchmark.table import published
from core.engine.devices.choose import report
from core.options.catalogue import with_changes
from core.options.run_file import to_tree
from core.options.validate import check_tree
from tests.fakes.machines import EVERY_MACHINE, M2_8GB, M3_MAX, PC, SERVER
from tests.fakes.machines import variant as changed

NATIVE = changed(PC, cpu_bf16=True)
ONE_CORE, TWO_CORES = changed(PC, cores=1), changed(NATIVE, cores=2)
SMALL = {"models": ["resnet18", "tiny"]}


def planned(facts, **more):
    return devices_plan(report(facts), **more)


def named(plan):
    return {row.name: row for row in plan.benchmark.rows}


@pytest.mark.parametrize(
    ("facts", "which", "sides"),
    [
        (M3_MAX, None, ["CPU", "MPS"]),
        (SERVER, None, ["CPU", "CUDA"]),
        (NATIVE, None, ["fp32", "bf16"]),
        (PC, None, ["1 thread", "8 threads"]),
        (ONE_CORE, None, ["fp32", "bf16"]),
        (ONE_CORE, Sides.THREADS, ["1 thread", "2 threads"]),
        (M2_8GB, Sides.PRECISIONS, ["fp32", "fp16"]),
    ],
)
def test_the_sides_are_what_the_machine_has(facts, which, sides):
    plan = planned(facts, sides=which, **SMALL)
    assert list(dict.fromkeys(row.side for row in plan.benchmark.rows)) == sides


def test_the_articles_models_are_trained_as_in_the_article_in_both_batches():
    plan = planned(M3_MAX)
    assert plan.benchmark.title == "CPU against MPS: epochs of 1,000 examples, batch sizes 4, 64"
    groups = list(dict.fromkeys(row.group for row in plan.benchmark.rows))
    assert set(groups[:10]) == set(published()["devices"])
    texts = ("minilm", "bert-base", "llama-medium")
    assert groups[10:] == [f"{name}-{batch}" for name in texts for batch in (4, 64)]
    assert [row.side for row in plan.benchmark.rows[:4]] == ["CPU", "MPS", "CPU", "MPS"]
    assert len(named(plan)) == len(plan.options) == 34
    asked = to_tree(plan.options["vgg16-64-mps"])
    assert (asked["training"]["optimizer"], asked["training"]["learning_rate"]) == ("adam", 1e-3)
    assert (asked["model"]["source"], asked["model"]["pretrained"]) == ("torchvision:vgg16", False)
    assert (asked["data"]["image_size"], asked["data"]["max_train_samples"]) == (224, 1000)
    assert (asked["device"]["name"], asked["device"]["precision"]) == ("mps", "fp32")
    slow = planned(TWO_CORES)
    assert not any(name.startswith("bert-base") for name in named(slow)), "it would take a minute a step"


def test_mlx_is_a_third_side_of_the_model_that_writes():
    plan = planned(M3_MAX, models=["minilm", "llama-medium"], batches=[4])
    assert [(row.group, row.side) for row in plan.benchmark.rows] == [
        *(("minilm-4", side) for side in ("CPU", "MPS")),
        *(("llama-medium-4", side) for side in ("CPU", "MPS", "MLX")),
    ]
    backends = {name: options.device.backend for name, options in plan.options.items()}
    assert backends.pop("llama-medium-4-mlx") == "mlx"
    assert set(backends.values()) == {"torch"}
    mps, mlx = (plan.options[f"llama-medium-4-{side}"] for side in ("mps", "mlx"))
    assert with_changes(mps, {"device.backend": "mlx"}) == mlx


@pytest.mark.parametrize("facts", [SERVER, changed(M3_MAX, optional={})], ids=["server", "Mac without MLX"])
def test_without_mlx_the_model_is_not_offered_and_has_no_such_side(facts):
    assert not any(name.startswith("llama") for name in named(planned(facts)))
    asked = planned(facts, models=["llama-medium"]).benchmark.rows
    assert "MLX" not in {row.side for row in asked}
    assert "MLX" not in {row.side for row in planned(M3_MAX, sides=Sides.PRECISIONS).benchmark.rows}


@pytest.mark.parametrize("facts", EVERY_MACHINE.values(), ids=list(EVERY_MACHINE))
@pytest.mark.parametrize("which", Sides)
def test_both_sides_differ_in_the_device_only_and_are_valid_unless_refused(facts, which):
    plan = planned(facts, sides=which, **SMALL)
    rows = plan.benchmark.rows
    assert not rows[0].refusal, "a CPU can always be measured, and so can the best device"
    assert not any(check_tree(to_tree(options))[1] for options in plan.options.values())
    for first, other in zip(rows[::2], rows[1::2], strict=True):
        assert first.group == other.group
        if not other.refusal:
            one, two = plan.options[first.name], plan.options[other.name]
            for section in ("model", "data", "memory", "training", "output"):
                assert getattr(one, section) == getattr(two, section)
            assert one.device != two.device


@pytest.mark.parametrize(
    ("facts", "more", "steps"),
    [
        (TWO_CORES, {}, [8, 3]),
        (TWO_CORES, {"images": 24, "batches": [4]}, [6]),
        (NATIVE, {}, [32, 3]),
        (NATIVE, {"steps": 1}, [1, 1]),
        (NATIVE, {"steps": 400}, [250, 15]),
        (SERVER, {"sides": Sides.PRECISIONS}, [250, 15]),
        (SERVER, {"sides": Sides.PRECISIONS, "images": 4000}, [449, 28]),
    ],
)
def test_steps_are_an_epochs_or_what_is_quick(facts, more, steps):
    plan = planned(facts, models=["resnet18"], **more)
    timed = [one.training.max_steps - plan.benchmark.warm_up for one in plan.options.values()]
    assert timed[::2] == steps


def test_what_cant_be_measured_is_a_row_with_its_reason():
    rows = named(planned(PC, sides=Sides.DEVICES, **SMALL))
    assert "No NVIDIA driver was found" in rows["resnet18-4-cuda"].refusal
    assert rows["resnet18-4-cpu"].refusal == ""
    rows = named(planned(NATIVE, images=32, **SMALL))
    for name in ("resnet18-64-fp32", "tiny-64-fp32"):
        assert rows[name].refusal == "a batch of 64 is more than the 32 examples there are"
    assert rows["resnet18-4-fp32"].refusal == ""


def test_images_are_the_digits_unless_others_are_given(tmp_path):
    plan = planned(NATIVE, models=["alexnet"], images=100)
    assert next(iter(plan.options.values())).data.train == "builtin:digits"
    assert "the first 100 of the 1,797 handwritten digits" in plan.benchmark.notes[1]
    assert "epochs of 1,797 images" in planned(PC, models=["alexnet"], images=5000).benchmark.title
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 2051, 1, 28, 28) + bytes(28 * 28))
    plan = planned(NATIVE, models=["alexnet"], images=100, data=str(tmp_path))
    assert next(iter(plan.options.values())).data.train == str(tmp_path)
    assert f"the first 100 of {tmp_path.name}" in plan.benchmark.notes[1]


def test_unknown_models_and_missing_data_are_refused(tmp_path):
    for more, words in (
        ({"data": str(tmp_path / "gone")}, "gone"),
        ({"data": str(tmp_path)}, "there is nothing in"),
        ({"models": ["vgg"]}, "no model called 'vgg' is timed; there are resnet18"),
    ):
        with pytest.raises(OptionsError, match=words):
            planned(NATIVE, **more)
