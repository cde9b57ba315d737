import json

import pytest
import torch

from core.engine.models.vision import load_vision_model
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.options.sources import (
    SCRATCH_MODELS,
    TIMED_MODELS,
    VISION_MODELS,
    Lack,
    Scheme,
    parse_synthetic,
    positions_of,
    scheme_of,
    scratch_model,
    short_name,
    synthetic,
    synthetic_lengths,
    unknown_scheme,
    what_lacks,
)
from core.services.hub import is_complete, question_about


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("synthetic:512x128", (512, 128)),
        ("synthetic:512x64-128", (512, 128)),
        (synthetic(3, 4), (3, 4)),
        (synthetic(3, 4, 2), (3, 4)),
        *((f"synthetic:{name}", None) for name in ("", "5", "0x3", "5x9-8", "5x0-8", "5x8-", "5x-8", "5x1-2-3")),
        ("synthetic:5x²", None),
        ("synthetic:" + "9" * 5000 + "x5", None),
        ("other:5x5", None),
        ("data.csv", None),
    ],
)  # fmt: skip
def test_synthetic_sizes(source, expected):
    assert parse_synthetic(source) == expected


def test_synthetic_texts_may_differ_in_length():
    assert synthetic_lengths("synthetic:512x64-128") == (64, 128)
    assert synthetic_lengths("synthetic:512x128") == (128, 128)
    assert synthetic_lengths("data.csv") is None
    assert synthetic(512, 128, 64) == "synthetic:512x64-128"
    assert synthetic(512, 128, 128) == "synthetic:512x128"


@pytest.mark.parametrize(
    ("source", "scheme", "unknown", "short"),
    [
        ("builtin:digits", Scheme.BUILTIN, "", "digits"),
        ("torchvision:vgg16", Scheme.TORCHVISION, "", "vgg16"),
        ("synthetic:8x8", Scheme.SYNTHETIC, "", "8x8"),
        ("scratch:llama-tiny", Scheme.SCRATCH, "", "llama-tiny"),
        ("tape:bert", None, "tape", "tape:bert"),
        ("C:/data.csv", None, "", "data.csv"),
        ("/data/a:b.csv", None, "", "a:b.csv"),
        ("somebody/bert-base", None, "", "bert-base"),
        ("/runs/sea/model", None, "", "sea"),
        ("owner/model", None, "", "model"),
        ("synthetic", None, "", "synthetic"),
    ],
)
def test_what_stands_before_the_colon(source, scheme, unknown, short):
    assert (scheme_of(source), unknown_scheme(source), short_name(source)) == (scheme, unknown, short)


def test_a_model_from_scratch_is_known_by_its_name_and_always_at_hand():
    assert scratch_model("scratch:llama-small") is SCRATCH_MODELS["llama-small"]
    assert scratch_model("scratch:bert-large") is TIMED_MODELS["bert-large"]
    assert scratch_model("scratch:llama") is scratch_model("llama-small") is None
    assert not set(TIMED_MODELS) & set(SCRATCH_MODELS)
    assert (positions_of(8), positions_of(1024)) == (256, 1024)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="scratch:llama-tiny"))
    longer = RunOptions(task=options.task, model=options.model, data=DataOptions(max_length=512))
    assert is_complete(options)
    assert None is not question_about(options) != question_about(longer), "positions follow from the data"


@pytest.fixture(params=VISION_MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    with torch.device("meta"):
        options = ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False)
        return load_vision_model(options, classes=3, seed=1).train()


def test_a_vision_model_trains_at_its_limits_and_not_below(model, name):
    limits = VISION_MODELS[name]
    for size, batch in ((limits.smallest, 2), (limits.smallest_alone, 1)):
        assert model(torch.empty(batch, 3, size, size, device="meta"))["logits"].shape == (batch, 3)
        if size > 1:
            with pytest.raises((RuntimeError, ValueError)):
                model(torch.empty(batch, 3, size - 1, size - 1, device="meta"))
    over_the_batch = torch.nn.modules.batchnorm._BatchNorm
    assert limits.normalises_batch is any(isinstance(layer, over_the_batch) for layer in model.modules())


@pytest.mark.parametrize("config", ['{"name": "my app"}', "[1, 2]"])
def test_a_config_that_is_no_models_is_told_before_missing_weights(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    assert what_lacks(tmp_path, needs_weights=True) is Lack.KIND
    assert what_lacks(tmp_path, needs_weights=False) is Lack.KIND


@pytest.mark.parametrize(
    "part",
    [
        "w.bin",
        "../outside.safetensors",
        "/outside.safetensors",
        "..\\outside.safetensors",
        "gone.safetensors",
    ],
)
def test_an_index_may_name_only_safetensors_beside_it(tmp_path, part):
    (tmp_path / "outside.safetensors").touch()
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    for name in ("x.safetensors", "w.bin", "part.safetensors"):
        (folder / name).touch()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "part.safetensors"}}))
    assert what_lacks(folder, needs_weights=True) is None
    index.write_text(json.dumps({"weight_map": {"a": "part.safetensors", "b": part}}))
    assert what_lacks(folder, needs_weights=True) is Lack.PARTS
    index.unlink()
    assert what_lacks(folder, needs_weights=True) is Lack.SAFE_WEIGHTS  # transformers would load neither


def test_matrices_beside_a_model_may_not_be_pickled(tmp_path):
    for name in ("model.safetensors", "adapter_config.json", "adapter_model.bin"):
        (tmp_path / name).touch()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert what_lacks(tmp_path, needs_weights=True) is Lack.SAFE_WEIGHTS


def test_a_config_of_a_model_lacks_its_weights_only(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert what_lacks(tmp_path, needs_weights=True) is Lack.WEIGHTS
    assert what_lacks(tmp_path, needs_weights=False) is None
    (tmp_path / "model.safetensors").touch()
    assert what_lacks(tmp_path, needs_weights=True) is None
