"""The weights of a model on MLX are written as transformers writes them, file by file."""

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx.utils import tree_flatten

from core.base.errors import ModelError
from core.engine.mlx import model as models
from core.engine.mlx.build import folder_of
from core.engine.mlx.names import as_published, is_undone, sanitized
from tests.core.engine.mlx.test_train import KINDS, save
from tests.core.engine.models.test_text import Change, config, cut, pickled
from tests.fakes.hub import Repo, a_hub
from tests.fakes.models import save_tiny_llama


def weights_of(model: Any) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [20_000, models.SHARD])
def test_what_is_written_is_what_was_read(kind, most, tmp_path):
    source, into = KINDS[kind](tmp_path / "source"), tmp_path / "into"
    into.mkdir()
    model = models.load(source)
    models.write(as_published(model, weights_of(model), models.published(source)), into, most)
    files = sorted(path.name for path in into.iterdir())
    if most == models.SHARD:
        assert files == ["model.safetensors"]
    else:
        *parts, index = files
        assert index == "model.safetensors.index.json"
        assert parts == [
            f"model-{part:05}-of-{len(parts):05}.safetensors" for part in range(1, len(parts) + 1)
        ]
        told = json.loads((into / index).read_text())
        held = {name: part for part in parts for name in load_file(into / part)}
        assert told["weight_map"] == held
        assert told["metadata"]["total_size"] == sum(
            one.nbytes for part in parts for one in load_file(into / part).values()
        )
    again = sanitized(model, models.read_all(into))
    expected = weights_of(model)
    assert again.keys() == expected.keys()
    assert all(mx.array_equal(again[name], one).item() for name, one in expected.items())
    (into / "config.json").write_bytes((source / "config.json").read_bytes())
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        before, after = (
            AutoModelForCausalLM.from_pretrained(one)(input_ids=ids).logits for one in (source, into)
        )
    assert torch.equal(before, after)


@pytest.mark.parametrize("beside", ["model-00001-of-00002.safetensors", "model.fp16.safetensors"])
def test_weights_that_only_mlx_lm_would_read_are_refused(beside, tmp_path):
    source = KINDS["llama"](tmp_path / "source")
    (source / "adapter.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    models.load(source)
    (source / beside).write_bytes((source / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match="can't be loaded with MLX") as refused:
        models.load(source)
    assert beside in refused.value.detail


CANT, DOESNT_FIT = "The model in source can't be loaded", "source can't be loaded with MLX"


@pytest.mark.parametrize(
    ("change", "title"),
    [
        *((cut(kept), CANT) for kept in (0, 40, -100)),
        (pickled("pytorch_model.bin"), "source has only pickled weights"),
        (pickled("w.bin", index=True), "source is not a complete model"),
        (config(hidden_size=64), DOESNT_FIT),
        (config(num_hidden_layers=3), DOESNT_FIT),
        (config(model_type="cohere", vocab_size=0), DOESNT_FIT),  # an AssertionError
    ],
)
def test_weights_that_can_not_be_used_are_refused_with_a_remedy(change: Change, title, tmp_path):
    source = KINDS["llama"](tmp_path / "source")
    change(source)
    with pytest.raises(ModelError) as refused:
        models.load(folder_of(str(source)))
    assert refused.value.title == title
    assert "\n" not in refused.value.detail
    assert refused.value.fixes


def test_what_a_run_needs_of_the_hub_is_downloaded_once(tmp_path, monkeypatch):
    source = KINDS["llama"](tmp_path / "source")
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    more = {"model-00001-of-00002.safetensors": b"others", "onnx/model.json": b"{}"}
    with a_hub(tmp_path / "home", monkeypatch) as hub:
        hub.repos["models", "org/tiny"] = Repo(files | more)
        folder = folder_of("org/tiny")
        assert {path.name for path in folder.iterdir()} == files.keys()
        models.load(folder)
        hub.asked.clear()
        assert folder_of("org/tiny") == folder
        assert not [
            asked for asked in hub.asked if "api" in asked.path or asked.path.endswith(".safetensors")
        ]


def test_writing_takes_the_memory_of_a_file_besides_the_weights(tmp_path):
    """Of Mixtral: its experts lie in one array, and in a file each."""
    source, into = (
        save("Mixtral", tmp_path / "source", hidden_size=128, num_hidden_layers=6),
        tmp_path / "into",
    )
    into.mkdir()
    model, shapes = models.load(source), models.published(source)
    mx.eval(model.parameters())
    sizes = [one.nbytes for one in weights_of(model).values()]
    before = mx.get_active_memory()

    def peak(most: int) -> int:
        mx.reset_peak_memory()
        models.write(as_published(model, weights_of(model), shapes), into, most)
        assert mx.get_active_memory() == before
        return mx.get_peak_memory() - before

    assert peak(sum(sizes)) > 0.7 * sum(sizes)
    assert peak(sum(sizes) // 10) < 0.1 * sum(sizes) + 2 * max(sizes)


def test_a_change_of_the_numbers_themselves_is_not_undone(tmp_path, monkeypatch):
    model = models.load(save_tiny_llama(tmp_path / "source"))
    shapes = models.published(tmp_path / "source")
    first = next(iter(shapes))
    assert is_undone(model, shapes)
    plain = type(model).sanitize

    def scaled(model: Any, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        return plain(model, {name: one * (2 if name == first else 1) for name, one in weights.items()})

    monkeypatch.setattr(type(model), "sanitize", scaled)
    assert not is_undone(model, shapes)
