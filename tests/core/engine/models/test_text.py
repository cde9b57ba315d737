"""Model folders that can't be used are named, with what to do; nothing in one is unpickled or run."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from core.base.errors import ModelError
from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.models.pretrained import load_tokenizer
from core.engine.models.refusals import check_depth, explained
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import ModelOptions
from tests.fakes.models import edit_config, save_tiny_bert

prepare_torchvision()

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NESTED = f"{'[' * 100_000}{']' * 100_000}"


def options_of(source: Path | str, *, pretrained: bool = True) -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(source), pretrained=pretrained)
    )


def load(source: Path | str, *, pretrained: bool = True) -> Any:
    options = options_of(source, pretrained=pretrained)
    config = text.load_config(options)
    tokenizer = load_tokenizer(str(source))
    return text.load_model(options, config, ("no", "yes"), tokenizer).model


def refusal(source: Path | str, *, pretrained: bool = True) -> ModelError:
    with pytest.raises(ModelError) as refused:
        load(source, pretrained=pretrained)
    return refused.value


@pytest.fixture
def tiny(tmp_path):
    return save_tiny_bert(tmp_path / "tiny")


def test_the_body_keeps_its_weights_and_the_head_follows_the_seed(tiny):
    first, second = load(tiny).state_dict(), load(tiny).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    random = load(tiny, pretrained=False).state_dict()
    body = "bert.encoder.layer.0.output.dense.weight"
    assert not torch.equal(first[body], random[body])


Change = Callable[[Path], object]


def config(**changes: Any) -> Change:
    return lambda folder: edit_config(folder, **changes)


def write(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def cut(kept: int, file: str = "model.safetensors") -> Change:
    def change(folder: Path) -> None:
        weights = folder / file
        weights.write_bytes(weights.read_bytes()[:kept])

    return change


def remove(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


def pickled(name: str, index: bool = False) -> Change:
    """Move the weights aside, and put others, all zero and pickled, in their place."""

    def change(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        torch.save({key: torch.zeros_like(value) for key, value in weights.items()}, folder / name)
        (folder / "model.safetensors").rename(folder / "x.safetensors")
        if index:
            names = {"metadata": {}, "weight_map": {"a": name}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(names))

    return change


@pytest.mark.parametrize(
    ("change", "title", "detail"),
    [
        (remove("config.json"), "tiny is not a complete model", "config.json"),
        (remove("model.safetensors"), "tiny is not a complete model", "model.safetensors"),
        (pickled("pytorch_model.bin"), "tiny has only pickled weights", ""),
        (pickled("w.bin", index=True), "tiny is not a complete model", "index.json"),
        (write("config.json", "{ not json"), "The model in tiny can't be loaded", ""),
        (write("config.json", NESTED), "The model in tiny can't be loaded", ""),
        (cut(0), "The model in tiny can't be loaded", ""),
        (cut(40), "The model in tiny can't be loaded", ""),
        (cut(-100), "The model in tiny can't be loaded", ""),
        (config(hidden_size=32), "The weights of tiny belong to another model", ""),
        (config(model_type="distilbert"), "The weights of tiny belong to another model", ""),
        (config(hidden_size="many"), "The model in tiny can't be loaded", "hidden_size"),
        (config(vocab_size=None), "The model in tiny can't be loaded", "vocab_size"),
        (config(num_attention_heads=3), "The model in tiny can't be loaded", "attention heads"),
        (config(hidden_act="nonsense"), "The model in tiny can't be loaded", "KeyError 'nonsense'"),
        (config(model_type="nothing"), "The model in tiny can't be loaded", "nothing"),
        (config(num_hidden_layers=10**6), "tiny has more than 2,000 layers", "num_hidden_layers is 1000000"),
        (config(intermediate_size=-4), "The model in tiny can't be loaded", ""),
        (config(model_type="vit"), "tiny can't be trained for", "“vit”"),
        (config(quantization_config={"quant_method": "gptq", "bits": 4}), "tiny needs a library", ""),
        (remove("tokenizer.json", "tokenizer_config.json"), "tiny has no tokenizer", ""),
        (write("tokenizer.json", "{ not json"), "The tokenizer in tiny can't be loaded", ""),
        (write("tokenizer.json", NESTED), "The tokenizer in tiny can't be loaded", ""),
        (write("tokenizer_config.json", "[1]"), "The tokenizer in tiny can't be loaded", ""),
        (write("tokenizer_config.json", f'{{"x": {NESTED}}}'), "The tokenizer in tiny can't be loaded", ""),
    ],
)
def test_a_folder_that_can_not_be_used_is_named(tiny, change, title, detail):
    change(tiny)
    error = refusal(tiny)
    assert error.title.startswith(title)
    assert detail in error.detail
    if not title.endswith("trained for"):
        assert str(tiny) in error.detail


@pytest.mark.parametrize("change", [remove("model.safetensors"), pickled("w.bin", index=True), cut(40)])
def test_a_folder_without_safe_weights_can_be_trained_from_random_ones(tiny, change):
    change(tiny)
    assert load(tiny, pretrained=False).config.hidden_size == 16


def test_only_numbers_of_layers_are_limited():
    check_depth("gemma", AutoConfig.for_model("gemma3n"))  # it has 262,144 tokens per layer
    with pytest.raises(ModelError, match="more than 2,000 layers"):
        check_depth("swin", AutoConfig.for_model("swin", depths=[2, 10**6]))


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ModelError, match="can't be read"):
        text.load_config(options_of(tmp_path))


def test_pickled_weights_that_a_config_names_are_not_opened(tiny):
    torch.save({}, tiny / "adapter_model.bin")
    edit_config(tiny, transformers_weights="adapter_model.bin")
    assert load(tiny).state_dict()["bert.embeddings.word_embeddings.weight"].any()


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
        RuntimeError("MPS backend is supported on MacOS 14.0+"),
        RuntimeError("[METAL] Command buffer execution failed: Discarded (victim of GPU error/recovery)"),
        RuntimeError("Error invoking kernel in bitsandbytes"),
    ],
)
def test_what_a_device_raises_is_not_blamed_on_the_files(tiny, error):
    with pytest.raises(RuntimeError) as raised, explained(str(tiny)):
        raise error
    assert raised.value is error
    with pytest.raises(ModelError), explained(str(tiny)):
        raise RuntimeError("size mismatch")


def without_unknown(parts: dict[str, Any]) -> None:
    del parts["model"]["vocab"]["[UNK]"]
    parts["added_tokens"] = [token for token in parts["added_tokens"] if token["content"] != "[UNK]"]


def trying_for_ever(parts: dict[str, Any]) -> None:
    pattern = {"Regex": "(a+)+$"}
    parts["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("change", "says"), [(without_unknown, "Missing [UNK]"), (trying_for_ever, "retry-limit")]
)
def test_a_tokenizer_that_fails_on_a_text(tiny, change, says):
    """One of them ends in what isn't even an Exception: a panic of the library's."""
    parts = json.loads((tiny / "tokenizer.json").read_text())
    change(parts)
    (tiny / "tokenizer.json").write_text(json.dumps(parts))
    (tiny / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    tokenizer = load_tokenizer(str(tiny))
    with pytest.raises(ModelError, match="The tokenizer of tiny fails on a text") as refused:
        tokenizer([f"{'a' * 40}b"])
    assert (str(tiny) in refused.value.detail, says in refused.value.detail) == (True, True)
    assert pickle.loads(pickle.dumps(tokenizer)).vocab_size == tokenizer.vocab_size  # to another process


class TestCodeInTheFolder:
    """A model folder with Python in it: the code is never run, and nobody is asked whether to."""

    @pytest.fixture
    def tempting(self, tiny, monkeypatch):
        """A folder that names its own classes; importing them leaves a file behind."""
        (tiny / "own.py").write_text(f"open({str(tiny / 'ran')!r}, 'w').close()\nclass Own: pass\n")
        own = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForSequenceClassification"), "own.Own")
        edit_config(tiny, auto_map=own)
        monkeypatch.setattr("builtins.input", lambda _prompt="": pytest.fail("asked on the terminal"))
        return tiny

    @pytest.mark.parametrize("pretrained", [True, False])
    def test_a_known_kind_is_loaded_by_the_librarys_own_class_and_its_own_kind_refused(
        self, tempting, pretrained
    ):
        assert type(load(tempting, pretrained=pretrained)).__name__ == "BertForSequenceClassification"
        edit_config(tempting, model_type="own")
        assert refusal(tempting, pretrained=pretrained).title == "tiny needs its own code to run"
        edit_config(tempting, model_type="vit", auto_map={"AutoModelForSequenceClassification": "own.Own"})
        refusal(tempting, pretrained=False)
        assert not (tempting / "ran").exists()

    def test_a_tokenizer_of_its_own_is_not_run(self, tempting):
        config = tempting / "tokenizer_config.json"
        config.write_text(
            '{"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}'
        )
        assert type(load_tokenizer(str(tempting))).__module__.startswith("transformers.")
        assert not (tempting / "ran").exists()


# --- Models of the Hub, which can't be reached


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


@pytest.mark.parametrize("change", [pickled("pytorch_model.bin"), pickled("w.bin", index=True)])
def test_a_hub_model_without_safe_weights_is_refused(tiny, cache, change):
    change(tiny)
    folder = cache / "models--someone--old"
    shutil.copytree(tiny, folder / "snapshots" / COMMIT)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / ".no_exist" / COMMIT).mkdir(parents=True)
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if not (tiny / name).exists():  # the Hub is known to have none
            (folder / ".no_exist" / COMMIT / name).touch()
    error = refusal("someone/old")
    assert error.title == "someone/old has only pickled weights"
    assert error.fixes[0].changes == {"model.pretrained": False}


@pytest.mark.usefixtures("cache")
def test_a_hub_model_that_is_not_here_while_working_offline(monkeypatch):
    assert "offline" in refusal("nobody/no-such-model").detail
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = refusal("someone/new")
    assert error.title.startswith("someone/new isn't on this computer")
    assert "HF_HUB_OFFLINE" in error.detail
