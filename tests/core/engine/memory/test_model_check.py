"""What is known of a model before its weights are read."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.engine.environment import prepare_torchvision
from core.engine.memory.model_check import check_model
from core.memory.model import ModelReport
from core.options import RunOptions
from core.options.choices import Attention, Method, Task
from core.options.sections import MemoryOptions, ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.models import edit_config, save_tiny_bert

prepare_torchvision()


def of_texts(source: Path, **model: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(source), **model))


def of_images(name: str, **model: Any) -> RunOptions:
    source = ModelOptions(source=f"torchvision:{name}", **model)
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, model=source)


@pytest.fixture
def bert(tmp_path):
    return save_tiny_bert(tmp_path / "bert", num_hidden_layers=2)


def paths(report: ModelReport) -> list[str]:
    return [problem.path for problem in report.problems]


def test_a_text_model_is_described(bert, monkeypatch):
    report = check_model(of_texts(bert), labels=5)
    assert (report.architecture, report.layers, report.max_length) == ("BertForSequenceClassification", 2, 64)
    assert report.attention == ("eager", "sdpa", "flash_attention_2", "flash_attention_3")
    assert (report.activation_checkpointing, report.normalises_batch) == (True, False)
    fewer = check_model(of_texts(bert), labels=2)
    weights_and_biases = 3 * (16 + 1)
    assert report.total_parameters - fewer.total_parameters == weights_and_biases

    def fail(_model: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("core.engine.memory.model_check.shape_of", fail)
    unknown = check_model(of_texts(bert), labels=5)
    assert unknown == msgspec.structs.replace(report, shape=None), "the forecast alone needs the shape"


@pytest.mark.parametrize("name", VISION_MODELS)
def test_a_vision_model_is_described_without_its_published_weights(name, monkeypatch):
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", lambda *_a, **_k: pytest.fail("downloaded"))
    report = check_model(of_images(name, method=Method.HEAD), labels=10)
    assert report.problems == ()
    assert report.normalises_batch is VISION_MODELS[name].normalises_batch
    assert 0 < report.trainable_parameters < report.total_parameters / 10
    assert (report.attention, report.max_length) == ((), None)


def test_targets_that_match_nothing_are_a_problem_with_fixes(bert):
    report = check_model(of_texts(bert, method=Method.LORA, lora_targets=("q_proj", "value", "LayerNorm")))
    (problem,) = report.problems
    assert problem.path == "model.lora_targets"
    assert problem.message.startswith("LoRA can't be used on q_proj, LayerNorm. ")
    assert "query, key, value, dense" in problem.message
    for fix in problem.fixes:
        targets = fix.changes["model.lora_targets"]
        assert check_model(of_texts(bert, method=Method.LORA, lora_targets=targets)).problems == ()
    classifier = check_model(of_texts(bert, method=Method.LORA, lora_targets=("classifier",)))
    assert paths(classifier) == ["model.lora_targets"], "it is trained whole"


@pytest.mark.parametrize(
    ("name", "layers"), [("resnet18", "conv1, conv2, downsample.0."), ("alexnet", "features.0, features.3, ")]
)
def test_a_mere_number_is_never_offered_as_a_layers_name(name, layers):
    (problem,) = check_model(of_images(name, method=Method.LORA, lora_targets=("query",))).problems
    assert f"are called {layers}" in problem.message


def test_a_model_that_cannot_be_built_is_a_problem_at_its_option(bert, tmp_path):
    assert paths(check_model(of_texts(tmp_path))) == ["model.source"]
    edit_config(bert, num_attention_heads=3)
    report = check_model(of_texts(bert))
    assert paths(report) == ["model.source"]
    assert "attention heads" in report.problems[0].message


def test_what_the_architecture_lacks_is_a_problem(bert):
    edit_config(bert, model_type="openai-gpt")  # of 2018: neither checkpointing nor FlashAttention
    options = of_texts(bert, pretrained=False, attention=Attention.FLASH_2)
    memory = MemoryOptions(activation_checkpointing=True)
    report = check_model(msgspec.structs.replace(options, memory=memory))
    assert paths(report) == ["memory.activation_checkpointing", "model.attention"]
    assert report.attention == ("eager",)


def test_quantized_weights_are_checked_without_quantizing(bert):
    lora, qlora = (check_model(of_texts(bert, method=method)) for method in (Method.LORA, Method.QLORA))
    assert qlora == lora
