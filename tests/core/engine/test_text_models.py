"""Model folders that can't be used are named, with what to do."""

import shutil
from pathlib import Path

import pytest
import torch

from core.engine.models import text_models
from core.engine.torchvision_ops import prepare_torchvision
from core.errors import ModelError
from core.options import ModelOptions

prepare_torchvision()


def copy_of(minilm: Path, folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        shutil.copy(minilm / name, folder / name)
    return folder


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(ModelError) as refused:
        text_models.load_config(ModelOptions(source=str(tmp_path)))
    assert "config.json" in refused.value.detail
    assert "holiday.jpg" in refused.value.detail


def test_a_folder_without_weights(minilm: Path, tmp_path: Path) -> None:
    folder = copy_of(minilm, tmp_path / "bare", "config.json")
    with pytest.raises(ModelError, match="bare has no weights") as refused:
        text_models.load_config(ModelOptions(source=str(folder)))
    assert refused.value.fixes[0].changes == {"model.pretrained": False}
    assert text_models.load_config(ModelOptions(source=str(folder), pretrained=False)).hidden_size == 384


def test_pickled_weights_are_not_opened(minilm: Path, tmp_path: Path) -> None:
    folder = copy_of(minilm, tmp_path / "old", "config.json")
    torch.save({"weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights"):
        text_models.load_config(ModelOptions(source=str(folder)))


def test_a_damaged_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{ not json")
    with pytest.raises(ModelError, match="can't be loaded"):
        text_models.load_config(ModelOptions(source=str(tmp_path), pretrained=False))


def test_a_hub_id_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError) as refused:
        text_models.load_config(ModelOptions(source="nobody/no-such-model"))
    assert "nobody/no-such-model" in refused.value.title
    assert "offline" in refused.value.detail


def test_half_precision_weights_train_in_fp32(minilm: Path, tmp_path: Path) -> None:
    options = ModelOptions(source=str(minilm))
    config = text_models.load_config(options)
    tokenizer = text_models.load_tokenizer(str(minilm))
    labels = ("no", "yes")
    text_models.load_classifier(options, config, labels, tokenizer, 1).half().save_pretrained(tmp_path)
    again = text_models.load_classifier(
        ModelOptions(source=str(tmp_path)),
        text_models.load_config(ModelOptions(source=str(tmp_path))),
        labels,
        tokenizer,
        1,
    )
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    assert again.config.id2label == {0: "no", 1: "yes"}
