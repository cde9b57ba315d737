"""What is told of a model before its weights are read is what a run with it finds."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.jobs import run_job
from core.engine.environment import prepare_torchvision
from core.engine.models.check import check_model
from core.memory.model import ModelReport, options_request
from core.options import RunOptions
from core.options.choices import Attention, Method, Task
from core.options.sections import MemoryOptions, ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.models import edit_config, save_tiny_bert
from tests.fakes.training import model, train

prepare_torchvision()


def of_texts(source: Path, **asked: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(source), **asked))


def of_images(name: str, **asked: Any) -> RunOptions:
    source = ModelOptions(source=f"torchvision:{name}", **asked)
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, model=source)


@pytest.fixture
def bert(tmp_path):
    return save_tiny_bert(tmp_path / "bert", num_hidden_layers=2)


def paths(report: ModelReport) -> list[str]:
    return [problem.path for problem in report.problems]


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA, Method.HEAD])
def test_it_counts_what_a_run_counts(method, bert, tmp_path):
    report = check_model(of_texts(bert, method=method), labels=2)
    ran = train(tmp_path / "run", model=model(bert, method=method)).what_ran
    assert (report.total_parameters, report.trainable_parameters) == (
        ran.total_parameters,
        ran.trainable_parameters,
    )
    assert report.problems == ()


def test_it_describes_a_text_model(bert):
    report = check_model(of_texts(bert), labels=5)
    assert (report.architecture, report.layers, report.max_length) == ("BertForSequenceClassification", 2, 64)
    assert report.attention == ("eager", "sdpa", "flash_attention_2", "flash_attention_3")
    assert report.activation_checkpointing
    assert not report.normalises_batch
    fewer = check_model(of_texts(bert), labels=2)
    assert report.total_parameters - fewer.total_parameters == 3 * (
        16 + 1
    )  # weights and bias of three labels


@pytest.mark.parametrize("name", VISION_MODELS)
def test_it_describes_a_vision_model(name):
    report = check_model(of_images(name, method=Method.HEAD), labels=10)
    assert report.problems == ()
    assert report.normalises_batch is VISION_MODELS[name].normalises_batch
    assert 0 < report.trainable_parameters < report.total_parameters / 10
    assert (report.attention, report.max_length) == ((), None)


def test_its_published_weights_are_not_asked_for(monkeypatch):
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", lambda *_a, **_k: pytest.fail("downloaded"))
    assert check_model(of_images("vgg16", method=Method.LORA)).layers == 16


def test_targets_that_match_nothing_are_a_problem_with_ways_out(bert):
    report = check_model(of_texts(bert, method=Method.LORA, lora_targets=("q_proj", "value", "LayerNorm")))
    (problem,) = report.problems
    assert problem.path == "model.lora_targets"
    assert problem.message.startswith("LoRA can't be used on q_proj, LayerNorm. ")
    assert "query, key, value, dense" in problem.message
    for fix in problem.fixes:
        mended = of_texts(bert, method=Method.LORA, lora_targets=fix.changes["model.lora_targets"])
        assert check_model(mended).problems == ()


@pytest.mark.parametrize(
    ("name", "ends"), [("resnet18", "conv1, conv2, downsample.0."), ("alexnet", "features.0, features.3, ")]
)
def test_a_mere_number_is_never_offered_as_a_layers_name(name, ends):
    (problem,) = check_model(of_images(name, method=Method.LORA, lora_targets=("query",))).problems
    assert f"are called {ends}" in problem.message


def test_the_classifier_is_no_target(bert):
    report = check_model(of_texts(bert, method=Method.LORA, lora_targets=("classifier",)))
    assert paths(report) == ["model.lora_targets"]


def test_packed_weights_are_checked_without_packing(bert):
    lora, packed = (check_model(of_texts(bert, method=method)) for method in (Method.LORA, Method.QLORA))
    assert packed == lora


def test_a_folder_without_a_model_is_a_problem_at_its_option(tmp_path):
    assert paths(check_model(of_texts(tmp_path))) == ["model.source"]


def test_a_config_that_builds_no_model_is_one_too(bert):
    edit_config(bert, num_attention_heads=3)
    report = check_model(of_texts(bert))
    assert paths(report) == ["model.source"]
    assert "attention heads" in report.problems[0].message


def test_what_the_architecture_lacks_is_told(tmp_path, bert):
    """GPT of 2018 has neither checkpointing nor FlashAttention in transformers."""
    edit_config(bert, model_type="openai-gpt")
    asked = of_texts(bert, pretrained=False, attention=Attention.FLASH_2)
    asked = msgspec.structs.replace(asked, memory=MemoryOptions(activation_checkpointing=True))
    report = check_model(asked)
    assert paths(report) == ["memory.activation_checkpointing", "model.attention"]
    assert report.attention == ("eager",)


@pytest.mark.long
def test_the_engine_answers_it_as_a_job(bert):
    asked = of_texts(bert, method=Method.LORA, lora_targets=("query",))
    assert run_job("check-model", options_request(asked, labels=3), ModelReport) == check_model(
        asked, labels=3
    )


def test_a_model_whose_widths_cant_be_read_is_described_all_the_same(bert, monkeypatch):
    def fail(_model: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("core.engine.models.check.shape_of", fail)
    report = check_model(of_texts(bert))
    assert (report.shape, report.problems) == (None, ())
    assert report.architecture == "BertForSequenceClassification"
