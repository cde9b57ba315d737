"""Which models of the Hub can be trained, which are on this computer, and when the engine checks them."""

import shutil
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base.jobs import run_job
from core.memory.model import ModelReport, question_about
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.hub import (
    INDEX,
    PURPOSES,
    RepoKind,
    is_complete,
    may_be_there,
    names_here,
    standing,
    wanted,
    weight_bytes,
)
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from tests.fakes.models import save_tiny_bert


def of_texts(source: str, **fields: object) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=source, **fields))


def of_images(source: str) -> RunOptions:
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, model=ModelOptions(source=source))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache of the Hub."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def fetch(hub: Path, folder: Path, *names: str) -> None:
    """Put files into the cache as the model `org/tiny`, as huggingface_hub does."""
    model = hub / "models--org--tiny"
    snapshot = model / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    for name in names:
        shutil.copy(folder / name, snapshot / name)


# --- Models on this computer


def test_only_models_on_this_computer_are_checked(hub, tmp_path):
    missing = ("", "org/tiny", str(tmp_path / "nothing"))
    assert [question_about(of_texts(source)) for source in missing] == [None] * 3
    assert question_about(of_images("org/tiny")) is None
    assert question_about(of_texts(str(tmp_path))) is not None
    assert question_about(of_images("torchvision:resnet18")) is not None
    (tmp_path / "config.json").write_text("{}")
    fetch(hub, tmp_path, "config.json")
    assert question_about(of_texts("org/tiny")) is not None
    (hub / "models--org--tiny" / "refs" / "main").write_text("def")
    assert question_about(of_texts("org/tiny")) is None, "only an older version is here"


@pytest.mark.parametrize("variable", ["HF_HOME", "XDG_CACHE_HOME"])
def test_the_cache_may_be_elsewhere(variable, tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    fetch(tmp_path / ("hub" if variable == "HF_HOME" else "huggingface/hub"), tmp_path, "config.json")
    assert "config.json" in names_here("org/tiny", RepoKind.MODEL)


def test_options_that_do_not_matter_make_no_other_question():
    resnet = of_images("torchvision:resnet18")
    assert question_about(resnet) == question_about(replace(resnet, training=TrainingOptions(epochs=9.0)))
    alpha = replace(resnet, model=replace(resnet.model, lora_alpha=3.0))
    assert question_about(resnet) == question_about(alpha)
    checkpointing = replace(resnet, memory=MemoryOptions(activation_checkpointing=True))
    assert question_about(resnet) != question_about(checkpointing)
    assert question_about(resnet) != question_about(resnet, labels=10)


@pytest.mark.parametrize("task", [Task.CHAT, Task.TEXT_CLASSIFICATION])
def test_how_long_texts_are_matters_where_mlx_may_train(task, tmp_path):
    """MLX may not see as far as a model's attention does."""
    (tmp_path / "config.json").write_text("{}")
    short = RunOptions(task=task, model=ModelOptions(source=str(tmp_path)))
    longer = replace(short, data=DataOptions(max_length=8192))
    assert (question_about(short) != question_about(longer)) is task.writes_text


@pytest.mark.parametrize(
    ("names", "pretrained", "complete"),
    [
        ((), True, False),
        (("config.json", "tokenizer.json"), True, False),
        (("config.json", INDEX, "model-00001-of-00002.safetensors"), True, False),
        (("config.json", INDEX, "model-00001-of-00001.safetensors"), True, True),
        (("config.json", "model.safetensors"), True, True),
        (("config.json",), False, False),
        (("config.json", "tokenizer.json"), False, True),
    ],
)
def test_whether_all_files_of_a_model_are_in_the_cache(names, pretrained, complete, hub, tmp_path):
    for name in names:
        (tmp_path / name).touch()
    fetch(hub, tmp_path, *names)
    assert is_complete(of_texts("org/tiny", pretrained=pretrained)) is complete
    assert is_complete(of_texts(str(tmp_path)))
    assert is_complete(of_images("torchvision:resnet18"))


@pytest.mark.parametrize(
    ("source", "may_be"),
    [
        ("bert-base-cased", True),
        ("google-bert/bert-base-cased", True),
        ("a/b/c", False),
        ("/home/me/bert", False),
        ("../bert", False),
        ("run:mine", False),
        ("torchvision:resnet18", False),
        ("", False),
    ],
)
def test_which_names_may_be_those_of_models_on_the_hub(source, may_be):
    assert may_be_there(of_texts(source)) is may_be
    assert may_be_there(of_images(source)) is may_be


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "fields", "expected"),
    [
        (
            ("config.json", "tokenizer.json", "tokenizer_config.json"),
            {"method": Method.LORA, "lora_targets": ("q_proj",)},
            (64, ["model.lora_targets"]),
        ),
        (("config.json",), {}, (None, [])),  # a tokenizer that isn't here yet is no problem
    ],
)
def test_the_engine_checks_a_downloaded_model_without_a_connection(  # noqa: PLR0917
    files, fields, expected, hub, tmp_path, monkeypatch
):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        fetch(hub, save_tiny_bert(tmp_path / "bert"), *files)
        report = run_job("check-model", question_about(of_texts("org/tiny", **fields)), ModelReport)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert report.architecture == "BertForSequenceClassification"
    assert (report.max_length, [problem.path for problem in report.problems]) == expected


# --- Models that can be trained


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
def test_which_files_can_be_trained(files, words):
    refusal = standing(files).refusal
    assert words in refusal
    assert bool(refusal) == bool(words)


def test_code_of_its_own_weighs_more_than_safe_weights():
    files = ["config.json", "model.safetensors", "modeling_x.py"]
    assert standing(files).refusal == ""
    assert "Python code" in standing(files, tags=["custom_code"]).refusal
    assert "Python code" in standing(files, config={"auto_map": {"AutoModel": "x.X"}}).refusal


def test_which_files_of_a_model_are_downloaded():
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
