"""Which models of the Hub Hone can train, by the names of their files."""

import pytest

from core.options.choices import Task
from core.services.hub import PURPOSES, standing, wanted, weight_bytes


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["config.json", "model.safetensors"], ""),
        (["config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"], ""),
        (["config.json", "pytorch_model.bin"], "pickled"),
        (["config.json", "model.pt"], "pickled"),
        (["adapter_config.json", "adapter_model.safetensors"], "LoRA adapter"),
        (["model.safetensors"], "no config.json"),
        (["config.json", "model.gguf"], "other programs"),
        (["config.json"], "no weights"),
        (["unet/model.safetensors", "model_index.json"], "no weights"),
        ([], "no weights"),
    ],
)
def test_files_tell(files, words):
    refusal = standing("org/x", files).refusal
    assert words in refusal
    assert bool(refusal) == bool(words)


def test_code_of_its_own_weighs_more_than_safe_weights():
    files = ["config.json", "model.safetensors", "modeling_x.py"]
    assert standing("org/x", files).refusal == ""
    assert "Python code" in standing("org/x", files, tags=["custom_code"]).refusal
    assert "Python code" in standing("org/x", files, config={"auto_map": {"AutoModel": "x.X"}}).refusal


def test_what_is_asked_for():
    files = [
        "config.json", "model.safetensors", "model.safetensors.index.json", "model-00001-of-00001.safetensors",
        "pytorch_model.bin", "pytorch_model.bin.index.json", "vocab.txt", "spiece.model", "chat_template.jinja",
        "README.md", "LICENSE.txt", "modeling.py", "onnx/config.json", "tokenizer.json", "requirements.txt",
    ]  # fmt: skip
    assert wanted(files) == [
        "chat_template.jinja", "config.json", "model.safetensors", "spiece.model", "tokenizer.json", "vocab.txt",
    ]  # fmt: skip


def test_every_task_has_purposes():
    assert set(PURPOSES) == {task.value for task in Task}


def test_bytes_of_number_formats():
    assert weight_bytes({"F32": 10, "BF16": 10, "I8": 10, "F4": 10}) == 40 + 20 + 10 + 5
