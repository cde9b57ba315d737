"""Model folders that can't be used are named, with what to do."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from core.base.errors import ModelError
from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.models.past_runs import with_matrices
from core.engine.models.refusals import explained
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import ModelOptions
from tests.fakes.tiny_bert import edit_config, save_tiny_bert

prepare_torchvision()

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def config_of(**model: Any) -> Any:
    return text.load_config(RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(**model)))


def copy_of(minilm: Path, folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        shutil.copy(minilm / name, folder / name)
    return folder


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(ModelError) as refused:
        config_of(source=str(tmp_path))
    assert "config.json" in refused.value.detail
    assert "holiday.jpg" in refused.value.detail


def test_a_folder_without_weights(minilm: Path, tmp_path: Path) -> None:
    folder = copy_of(minilm, tmp_path / "bare", "config.json")
    with pytest.raises(ModelError, match="bare has no weights") as refused:
        config_of(source=str(folder))
    assert refused.value.fixes[0].changes == {"model.pretrained": False}
    assert config_of(source=str(folder), pretrained=False).hidden_size == 384


def test_a_folder_that_cannot_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ModelError, match="can't be looked into") as refused:
        config_of(source=str(tmp_path))
    assert refused.value.detail == f"{tmp_path}: Permission denied"


def test_pickled_weights_are_not_opened(minilm: Path, tmp_path: Path) -> None:
    folder = copy_of(minilm, tmp_path / "old", "config.json")
    torch.save({"weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights"):
        config_of(source=str(folder))


def test_a_damaged_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{ not json")
    with pytest.raises(ModelError, match="can't be loaded"):
        config_of(source=str(tmp_path), pretrained=False)


def test_a_hub_id_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError) as refused:
        config_of(source="nobody/no-such-model")
    assert "nobody/no-such-model" in refused.value.title
    assert "offline" in refused.value.detail


def load(folder: Path | str, *, pretrained: bool = True) -> Any:
    model = ModelOptions(source=str(folder), pretrained=pretrained)
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=model)
    config = text.load_config(options)
    tokenizer = text.load_tokenizer(model.source)
    return text.load_model(options, config, ("no", "yes"), tokenizer).model


def refusal(folder: Path | str, *, pretrained: bool = True) -> ModelError:
    with pytest.raises(ModelError) as refused:
        load(folder, pretrained=pretrained)
    return refused.value


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return save_tiny_bert(tmp_path / "tiny")


def test_the_body_keeps_its_weights_and_the_head_follows_the_seed(tiny: Path) -> None:
    first, second = load(tiny).state_dict(), load(tiny).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    random = load(tiny, pretrained=False).state_dict()
    body = "bert.encoder.layer.0.output.dense.weight"
    assert not torch.equal(first[body], random[body])


def test_half_precision_weights_train_in_fp32(tiny: Path, tmp_path: Path) -> None:
    load(tiny).half().save_pretrained(tmp_path / "half")
    shutil.copy(tiny / "tokenizer.json", tmp_path / "half")
    again = load(tmp_path / "half")
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    assert again.config.id2label == {0: "no", 1: "yes"}


@pytest.mark.parametrize("kept", [0, 40, -100])
def test_damaged_weights(tiny: Path, kept: int) -> None:
    weights = tiny / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    error = refusal(tiny)
    assert error.title == "The model in tiny is damaged"
    assert str(tiny) in error.detail


@pytest.mark.parametrize("changes", [{"hidden_size": 32}, {"model_type": "distilbert"}])
def test_weights_of_another_model_are_not_passed_over(tiny: Path, changes: dict[str, Any]) -> None:
    edit_config(tiny, **changes)
    error = refusal(tiny)
    assert error.title == "The weights of tiny belong to another model"
    assert error.fixes[0].changes == {"model.pretrained": False}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": "many"}, "hidden_size"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_attention_heads": 3}, "attention heads"),
        ({"hidden_act": "nonsense"}, "KeyError 'nonsense'"),
        ({"model_type": "nothing"}, "nothing"),
    ],
)
def test_a_config_with_a_wrong_field(tiny: Path, changes: dict[str, Any], words: str) -> None:
    edit_config(tiny, **changes)
    error = refusal(tiny)
    assert error.title == "The model in tiny can't be loaded"
    assert words in error.detail


def test_a_model_of_images(tiny: Path) -> None:
    edit_config(tiny, model_type="vit")
    error = refusal(tiny)
    assert error.title == "tiny can't classify texts"
    assert "“vit”" in error.detail


def test_weights_that_need_another_library(tiny: Path) -> None:
    edit_config(tiny, quantization_config={"quant_method": "gptq", "bits": 4})
    assert "needs a library" in refusal(tiny).title


def test_a_folder_without_a_tokenizer(tiny: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tiny / name).unlink()
    assert refusal(tiny).title == "tiny has no tokenizer"


def test_a_damaged_tokenizer(tiny: Path) -> None:
    (tiny / "tokenizer.json").write_text("{ not json")
    assert refusal(tiny).title == "The tokenizer in tiny can't be loaded"


def zeros_beside(folder: Path, name: str, hidden: bool = True) -> None:
    """Move the weights aside, and put others, all zero and pickled, under `name`."""
    weights = load_file(folder / "model.safetensors")
    torch.save({key: torch.zeros_like(value) for key, value in weights.items()}, folder / name)
    if hidden:
        (folder / "model.safetensors").rename(folder / "x.safetensors")


def test_pickled_weights_that_an_index_names_are_not_opened(tiny: Path) -> None:
    zeros_beside(tiny, "w.bin")
    (tiny / "model.safetensors.index.json").write_text('{"metadata": {}, "weight_map": {"a": "w.bin"}}')
    error = refusal(tiny)
    assert (str(tiny) in error.detail, "model.safetensors.index.json" in error.detail) == (True, True)
    assert error.fixes[0].changes == {"model.pretrained": False}


def test_pickled_weights_that_a_config_names_are_not_opened(tiny: Path) -> None:
    zeros_beside(tiny, "adapter_model.bin", hidden=False)
    edit_config(tiny, transformers_weights="adapter_model.bin")
    assert load(tiny).state_dict()["bert.embeddings.word_embeddings.weight"].any()


def test_matrices_that_are_pickled_are_not_opened(tiny: Path) -> None:
    for name in ("adapter_config.json", "adapter_model.bin"):
        (tiny / name).write_text("{}")
    with pytest.raises(ModelError, match="isn't whole"):
        with_matrices(None, tiny)


NESTED = f"{'[' * 100_000}{']' * 100_000}"


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("config.json", NESTED, "model"),
        ("tokenizer_config.json", f'{{"x": {NESTED}}}', "tokenizer"),
        ("tokenizer_config.json", "[1]", "tokenizer"),
        ("tokenizer.json", NESTED, "tokenizer"),
    ],
)
def test_files_that_no_library_foresaw(tiny: Path, name: str, content: str, part: str) -> None:
    (tiny / name).write_text(content)
    error = refusal(tiny)
    assert error.title == f"The {part} in tiny can't be loaded"
    assert (error.detail.startswith(f"{tiny}: "), len(error.fixes)) == (True, 1)


def test_sizes_below_zero(tiny: Path) -> None:
    edit_config(tiny, intermediate_size=-4)
    for pretrained in (True, False):
        assert refusal(tiny, pretrained=pretrained).title == "The model in tiny can't be loaded"


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
        RuntimeError("MPS backend is supported on MacOS 14.0+"),
        RuntimeError("Error invoking kernel in bitsandbytes"),
    ],
)
def test_what_a_device_raises_is_not_blamed_on_the_files(tiny: Path, error: RuntimeError) -> None:
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
def test_a_tokenizer_that_fails_on_a_text(
    tiny: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    """One of them ends in what isn't even an Exception: a panic of the library's."""
    parts = json.loads((tiny / "tokenizer.json").read_text())
    change(parts)
    (tiny / "tokenizer.json").write_text(json.dumps(parts))
    (tiny / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    tokenizer = text.load_tokenizer(str(tiny))
    with pytest.raises(ModelError, match="The tokenizer of tiny fails on a text") as refused:
        tokenizer([f"{'a' * 40}b"])
    assert (str(tiny) in refused.value.detail, says in refused.value.detail) == (True, True)
    assert pickle.loads(pickle.dumps(tokenizer)).vocab_size == tokenizer.vocab_size  # to another process


class TestCodeInTheFolder:
    """A model folder with Python in it: the code is never run, and nobody is asked whether to."""

    @pytest.fixture
    def tempting(self, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder that names its own classes; importing them leaves a file behind."""
        (tiny / "own.py").write_text(f"open({str(tiny / 'ran')!r}, 'w').close()\nclass Own: pass\n")
        own = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForSequenceClassification"), "own.Own")
        edit_config(tiny, auto_map=own)
        monkeypatch.setattr("builtins.input", lambda _prompt="": pytest.fail("asked on the terminal"))
        return tiny

    @pytest.mark.parametrize("pretrained", [True, False])
    def test_a_kind_of_its_own_is_refused(self, tempting: Path, pretrained: bool) -> None:
        edit_config(tempting, model_type="own")
        error = refusal(tempting, pretrained=pretrained)
        assert error.title == "tiny needs its own code to run"
        assert str(tempting) in error.detail
        assert not (tempting / "ran").exists()

    @pytest.mark.parametrize("pretrained", [True, False])
    def test_a_known_kind_is_loaded_by_the_librarys_own_class(self, tempting: Path, pretrained: bool) -> None:
        assert type(load(tempting, pretrained=pretrained)).__name__ == "BertForSequenceClassification"
        assert not (tempting / "ran").exists()

    def test_a_head_of_its_own_for_another_kind_is_refused(self, tempting: Path) -> None:
        edit_config(tempting, model_type="vit", auto_map={"AutoModelForSequenceClassification": "own.Own"})
        refusal(tempting, pretrained=False)
        assert not (tempting / "ran").exists()

    def test_a_tokenizer_of_its_own_is_not_run(self, tempting: Path) -> None:
        config = tempting / "tokenizer_config.json"
        config.write_text(
            '{"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}'
        )
        assert type(text.load_tokenizer(str(tempting))).__module__.startswith("transformers.")
        assert not (tempting / "ran").exists()


def test_a_hub_model_without_safe_weights(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the Hub's cache holds it: known to have pickled weights and no others."""
    cached = tmp_path / "cache" / "models--someone--old"
    shutil.copytree(tiny, cached / "snapshots" / COMMIT)
    (cached / "snapshots" / COMMIT / "model.safetensors").rename(
        cached / "snapshots" / COMMIT / "pytorch_model.bin"
    )
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    (cached / ".no_exist" / COMMIT).mkdir(parents=True)
    for name in ("model.safetensors", "model.safetensors.index.json"):
        (cached / ".no_exist" / COMMIT / name).touch()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = refusal("someone/old")
    assert error.title == "someone/old has only pickled weights"
    assert error.fixes[0].changes == {"model.pretrained": False}


def test_a_hub_models_index_may_not_name_pickled_weights(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "cache" / "models--someone--new"
    zeros_beside(tiny, "w.bin")
    (tiny / "model.safetensors.index.json").write_text('{"metadata": {}, "weight_map": {"a": "w.bin"}}')
    shutil.copytree(tiny, cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal("someone/new").title == "someone/new has only pickled weights"


def test_a_model_that_is_not_here_while_working_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="someone/new isn't on this computer") as refused:
        config_of(source="someone/new")
    assert "HF_HUB_OFFLINE (which --offline sets, too) forbids to fetch it" in refused.value.detail
