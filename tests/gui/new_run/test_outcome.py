"""The card "What will run"."""

import pytest
from msgspec.structs import replace

from core.options import RunOptions
from core.options.choices import Backend, FrozenPrecision, Method, Precision, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from gui.new_run.model_field import download_note, model_title
from gui.new_run.outcome import computed, summary_rows
from tests.fakes.jobs import CPU_ONLY, DIGITS


def options(**sections):
    defaults = {
        "task": Task.IMAGE_CLASSIFICATION,
        "model": ModelOptions(source="torchvision:resnet18", pretrained=False),
        "data": DataOptions(train="builtin:digits", eval_fraction=0.2),
        "memory": MemoryOptions(batch_size=32),
        "training": TrainingOptions(epochs=5.0),
    }
    return RunOptions(**{**defaults, **sections})


def of_text(source):
    return options(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=source))


def test_the_summary_names_what_will_run_and_leaves_open_what_is_unreadable():
    def rows(*unreadable):
        return dict(summary_rows(options(), frozenset(unreadable), CPU_ONLY, DIGITS))

    known = {
        "Model": "ResNet-18, from scratch",
        "Data": "digits · 1,438 for training, 359 for validation",
        "Batch": "32 per step",
        "Steps": "about 225 · 45 per epoch",
        "Device": "CPU · Old processor",
        "Precision": "fp32",
        "Downloads": "none",
    }
    assert known.items() <= rows().items()
    assert rows("memory.batch_size").items() >= (known | {"Batch": "–", "Steps": "–"}).items()
    assert rows("data.eval_fraction").items() >= {"Data": "digits", "Steps": "–"}.items()


def test_the_format_of_frozen_weights_is_named_where_some_are_frozen():
    settled = {"device.precision": Settled("bf16", ""), "model.frozen_precision": Settled("bf16", "")}
    device = DeviceReport(name="mps", title="", available=True, automatic=settled)
    machine = MachineReport(devices=(device,), automatic="mps")

    def precision(**model):
        return computed(machine, options(model=ModelOptions(source="bert", **model)))[1]

    assert precision() == "bf16 autocast, fp32 weights"
    assert precision(method=Method.LORA) == "bf16 autocast, frozen weights in bf16"
    held = {"method": Method.HEAD, "frozen_precision": FrozenPrecision.FP32}
    assert precision(**held) == "bf16 autocast, fp32 weights"


@pytest.mark.parametrize(
    ("backend", "engine", "precision", "attention"),
    [
        ("auto", "MLX", "bf16, frozen weights in bf16", None),
        ("mlx", "MLX", "bf16, frozen weights in bf16", None),
        ("torch", None, "bf16 autocast, frozen weights in bf16", "sdpa"),
    ],
)
def test_mlx_is_named_where_it_trains_and_what_only_pytorch_has_is_not(backend, engine, precision, attention):
    settled = {"device.backend": Settled("mlx", ""), "model.frozen_precision": Settled("bf16", "")}
    device = DeviceReport(name="mps", title="M4", available=True, automatic=settled)
    machine = MachineReport(devices=(device,), automatic="mps")
    model = ModelOptions(source="llama", method=Method.LORA)
    asked = DeviceOptions(precision=Precision.BF16, backend=Backend(backend))
    chat = options(task=Task.CHAT, model=model, device=asked)
    rows = dict(summary_rows(chat, frozenset(), machine, None))
    assert [rows.get(name) for name in ("Engine", "Precision", "Attention")] == [engine, precision, attention]
    words = replace(chat, task=Task.TEXT_CLASSIFICATION, device=replace(asked, backend=Backend.AUTO))
    assert "Engine" not in dict(summary_rows(words, frozenset(), machine, None)), "PyTorch trains it"


def test_automatic_precision_is_that_of_the_chosen_device():
    def precision(machine, name):
        return computed(machine, options(device=DeviceOptions(name=name)))[1]

    settled = {"device.precision": Settled("bf16", "")}
    mps = DeviceReport(name="mps", title="", available=True, automatic=settled)
    machine = MachineReport(devices=(mps, *CPU_ONLY.devices), automatic="mps")
    assert precision(machine, "auto") == "bf16 autocast, fp32 weights"
    assert precision(machine, "cpu") == "fp32"
    assert "checking" in precision(None, "auto")


def test_downloads_are_named_as_far_as_they_are_known(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    pretrained = options(model=ModelOptions(source="torchvision:alexnet"))
    assert download_note(pretrained) == "about 233 MB of weights, once"
    weights = tmp_path / "torch" / "hub" / "checkpoints" / "alexnet-owt-7be5be79.pth"
    weights.parent.mkdir(parents=True)
    weights.touch()
    assert download_note(pretrained) == "none, the model is on this computer"

    from_hub, repository = of_text("org/model"), tmp_path / "hub" / "models--org--model"
    assert "Hugging Face Hub" in download_note(from_hub)
    snapshot = repository / "snapshots" / "abc"
    for folder in (snapshot, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "config.json").touch()
    assert "Hugging Face Hub" in download_note(from_hub), "its weights are still to come"
    (snapshot / "model.safetensors").touch()
    assert download_note(from_hub) == "none, the model is on this computer"

    in_folder = of_text(str(tmp_path / "mine"))
    assert (download_note(in_folder), model_title(in_folder)) == ("none", "mine, pretrained")
    assert model_title(of_text("")) == "choose a model"
