from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from gui.new_run.model_field import download_note, model_title
from gui.new_run.options import device_segments
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


def test_the_summary_says_what_will_run():
    rows = dict(summary_rows(options(), frozenset(), CPU_ONLY, DIGITS))
    assert rows["Model"] == "ResNet-18, from scratch"
    assert rows["Data"] == "digits · 1,438 for training, 359 for validation"
    assert rows["Batch"] == "32 × 1 = 32 examples"
    assert rows["Steps"] == "about 225 · 45 per epoch"
    assert rows["Device"] == "CPU · Old processor"
    assert rows["Precision"] == "fp32"
    assert rows["Downloads"] == "none"


def test_what_depends_on_an_unreadable_option_is_left_open():
    rows = dict(summary_rows(options(), {"memory.batch_size"}, CPU_ONLY, DIGITS))
    assert (rows["Batch"], rows["Steps"]) == ("–", "–")
    assert rows["Data"] == "digits · 1,438 for training, 359 for validation"
    rows = dict(summary_rows(options(), {"data.eval_fraction"}, CPU_ONLY, DIGITS))
    assert (rows["Data"], rows["Steps"]) == ("digits", "–")
    empty = options(model=ModelOptions(source=""))
    assert dict(summary_rows(empty, frozenset(), CPU_ONLY, DIGITS))["Model"] == "choose a model"


def precision(value):
    return {"device.precision": Settled(value, "so it is")}


def test_automatic_precision_is_that_of_the_chosen_device():
    both = MachineReport(
        devices=(
            DeviceReport(name="mps", title="GPU", available=True, automatic=precision("bf16")),
            DeviceReport(name="cpu", title="CPU", available=True, automatic=precision("fp32")),
            DeviceReport(name="cuda:0", title="NVIDIA GPU", available=False),
        ),
        automatic="mps",
    )
    said = {
        name: computed(both, options(device=DeviceOptions(name=name)))[1] for name in ("auto", "cpu", "cuda")
    }
    assert said == {
        "auto": "bf16 autocast, fp32 weights",
        "cpu": "fp32",
        "cuda": "decided when the run starts",
    }


def test_downloads_are_told_as_far_as_they_can_be_known(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    pretrained = options(model=ModelOptions(source="torchvision:alexnet"))
    assert download_note(pretrained) == "about 233 MB of weights, once"
    weights = tmp_path / "torch" / "hub" / "checkpoints" / "alexnet-owt-7be5be79.pth"
    weights.parent.mkdir(parents=True)
    weights.touch()
    assert download_note(pretrained) == "none, the weights are here already"

    from_hub = options(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source="org/model"))
    assert "Hugging Face Hub" in download_note(from_hub)
    config = tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / "abc" / "config.json"
    refs = config.parents[2] / "refs"
    for folder in (config.parent, refs):
        folder.mkdir(parents=True)
    (refs / "main").write_text("abc")
    config.touch()
    assert "Hugging Face Hub" in download_note(from_hub), "its weights are still to come"
    config.with_name("model.safetensors").touch()
    assert download_note(from_hub) == "none, the model is here already"

    in_folder = options(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(tmp_path / "mine")))
    assert download_note(in_folder) == "none"
    assert model_title(in_folder) == "mine, pretrained"


def test_all_is_open_before_the_machine_is_known():
    assert not any(segment.refusal for segment in device_segments(None))
    assert "checking" in computed(None, options())[0]
