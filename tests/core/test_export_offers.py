"""What a run's model can become, and why not the rest."""

import json
import tomllib
from pathlib import Path

import pytest

from core.options import RunOptions, run_file
from core.options.choices import Method, Task
from core.options.sections import ModelOptions
from core.runs.folder import RunFolder
from core.services import export
from core.services.export import ExportKind, default_pushed, find_source, offers


def source(folder: Path, task: Task, *, architecture: str = "", adapter: str = "") -> export.ExportSource:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.safetensors").touch()
    if architecture:
        (folder / "model" / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    if adapter:
        told = json.dumps({"base_model_name_or_path": adapter})
        (folder / "model" / "adapter_config.json").write_text(told)
    method = Method.LORA if adapter else Method.FULL
    options = RunOptions(task=task, model=ModelOptions(source="some/model", method=method))
    run_file.write(options, folder / "run.toml")
    return find_source(RunFolder(folder))


def refusals(found: export.ExportSource) -> dict[ExportKind, str]:
    return {one.kind: one.refusal for one in offers(found)}


def test_a_classifier(tmp_path: Path) -> None:
    said = refusals(
        source(tmp_path / "run", Task.TEXT_CLASSIFICATION, architecture="BertForSequenceClassification")
    )
    assert {kind for kind, why in said.items() if not why} == {ExportKind.FOLDER, ExportKind.ONNX}
    assert "write text" in said[ExportKind.GGUF]
    assert "Mac" in said[ExportKind.COREML]
    assert "HF_HUB_OFFLINE" in said[ExportKind.HUB]


def test_a_chat_model_with_lora_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    found = source(tmp_path / "run", Task.CHAT, architecture="Qwen2ForCausalLM", adapter="some/base")
    said = refusals(found)
    assert {kind for kind, why in said.items() if why} == {
        ExportKind.FOLDER,
        ExportKind.ONNX,
        ExportKind.COREML,
    }
    assert "LoRA" in said[ExportKind.FOLDER]
    assert default_pushed(found) is ExportKind.ADAPTER


def test_an_adapter_beside_a_folder_is_merged_before_it_is_sent(tmp_path: Path) -> None:
    found = source(tmp_path / "run", Task.CHAT, adapter=str(tmp_path))
    assert default_pushed(found) is ExportKind.MERGED


def test_the_architecture_of_what_lora_was_trained_beside_counts(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    said = refusals(source(tmp_path / "run", Task.CAUSAL_LM, adapter=str(tmp_path / "base")))
    assert "GPT2LMHeadModel" in said[ExportKind.OLLAMA]
    assert not said[ExportKind.GGUF]


def test_a_package_that_is_missing_is_named_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ONNX_PACKAGES", ("onnx", "not_to_be_had"))
    said = refusals(source(tmp_path / "run", Task.TEXT_REGRESSION, architecture="Bert"))
    assert "takes not_to_be_had" in said[ExportKind.ONNX]
    assert "pip install" in said[ExportKind.ONNX]


def test_the_versions_it_asks_for_are_those_that_are_tested() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(extras["onnx"]) <= set(extras["test"])
    assert all(f'"{wanted}"' in export.ONNX_INSTALL for wanted in extras["onnx"])
