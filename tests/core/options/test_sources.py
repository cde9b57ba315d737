"""Sources of models and data, and what a model's folder lacks."""

import json

import pytest
import torch

from core.engine.models.vision import load_vision_model
from core.memory.model import question_about
from core.options import RunOptions, sources
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.hub import is_complete
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS, Lack, Scheme


@pytest.mark.parametrize(
    ("source", "size", "lengths"),
    [
        ("synthetic:512x128", (512, 128), (128, 128)),
        ("synthetic:512x64-128", (512, 128), (64, 128)),
        (sources.synthetic(3, 4), (3, 4), (4, 4)),
        (sources.synthetic(512, 128, 64), (512, 128), (64, 128)),
        *((f"synthetic:{size}", None, None) for size in ("", "5", "0x3", "5x9-8", "5x0-8", "5x8-", "5x-8", "5x1-2-3")),
        ("synthetic:5x²", None, None),
        ("synthetic:" + "9" * 5000 + "x5", None, None),
        ("other:5x5", None, None),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)  # fmt: skip
def test_synthetic_data_has_rows_and_lengths(source, size, lengths):
    assert (sources.parse_synthetic(source), sources.synthetic_lengths(source)) == (size, lengths)


@pytest.mark.parametrize(
    ("source", "scheme", "unknown", "short"),
    [
        ("torchvision:vgg16", Scheme.TORCHVISION, "", "vgg16"),
        ("scratch:llama-tiny", Scheme.SCRATCH, "", "llama-tiny"),
        ("run:/runs/sea", Scheme.RUN, "", "sea"),
        ("tape:bert", None, "tape", "tape:bert"),
        ("C:/data.csv", None, "", "data.csv"),
        ("/data/a:b.csv", None, "", "a:b.csv"),
        ("owner/model", None, "", "model"),
        ("/runs/sea/model", None, "", "sea"),
    ],
)
def test_a_scheme_is_what_is_before_the_colon(source, scheme, unknown, short):
    assert sources.scheme_of(source) is scheme
    assert (sources.unknown_scheme(source), sources.short_name(source)) == (unknown, short)


def test_a_model_from_scratch_needs_no_download():
    assert sources.scratch_model("scratch:llama-small") is sources.SCRATCH_MODELS["llama-small"]
    assert sources.scratch_model("scratch:bert-large") is sources.TIMED_MODELS["bert-large"]
    assert sources.scratch_model("scratch:llama") is sources.scratch_model("llama-small") is None
    assert (sources.positions_of(8), sources.positions_of(1024)) == (256, 1024)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="scratch:llama-tiny"))
    longer = RunOptions(task=options.task, model=options.model, data=DataOptions(max_length=512))
    assert is_complete(options)
    assert None is not question_about(options) != question_about(longer), "positions follow from the data"


@pytest.mark.parametrize("name", VISION_MODELS)
def test_a_vision_model_trains_at_its_limits_and_not_below(name):
    limits = VISION_MODELS[name]
    with torch.device("meta"):
        options = ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False)
        model = load_vision_model(options, classes=3, seed=1).train()
    for size, batch in ((limits.smallest, 2), (limits.smallest_alone, 1)):
        assert model(torch.empty(batch, 3, size, size, device="meta"))["logits"].shape == (batch, 3)
        if size > 1:
            with pytest.raises((RuntimeError, ValueError)):
                model(torch.empty(batch, 3, size - 1, size - 1, device="meta"))
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    assert limits.normalises_batch is any(isinstance(layer, batch_norm) for layer in model.modules())


BERT = '{"model_type": "bert"}'
ADAPTER = {"adapter_config.json": "", "adapter_model.bin": ""}


@pytest.mark.parametrize(
    ("files", "lack", "lack_without_weights"),
    [
        ({"config.json": '{"name": "my app"}'}, Lack.KIND, Lack.KIND),
        ({"config.json": "[1, 2]"}, Lack.KIND, Lack.KIND),
        ({"config.json": BERT}, Lack.WEIGHTS, None),
        ({"config.json": BERT, "model.safetensors": ""}, None, None),
        ({"config.json": BERT, "w.bin": "", "x.safetensors": ""}, Lack.SAFE_WEIGHTS, None),
        ({"config.json": BERT, "model.safetensors": "", **ADAPTER}, Lack.SAFE_WEIGHTS, Lack.SAFE_WEIGHTS),
    ],
)
def test_what_a_model_folder_lacks(tmp_path, files, lack, lack_without_weights):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert sources.what_lacks(tmp_path, needs_weights=True) is lack
    assert sources.what_lacks(tmp_path, needs_weights=False) is lack_without_weights


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
    (folder / "config.json").write_text(BERT)
    for name in ("w.bin", "part.safetensors"):
        (folder / name).touch()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "part.safetensors"}}))
    assert sources.what_lacks(folder, needs_weights=True) is None
    index.write_text(json.dumps({"weight_map": {"a": "part.safetensors", "b": part}}))
    assert sources.what_lacks(folder, needs_weights=True) is Lack.PARTS
