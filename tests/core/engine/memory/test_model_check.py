"""What is known of a model before its weights are read."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import transformers

from core.engine.environment import prepare_torchvision
from core.engine.memory.model_check import check_model
from core.engine.models.parts import adaptable_layers, find_targets, head_names
from core.memory.model import ModelReport
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Attention, Method, Task
from core.options.packing import Packing
from core.options.sections import MemoryOptions, ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.models import edit_config, save_tiny_bert, tiny_tokenizer

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


@pytest.mark.parametrize("kind", ["Llama4Config", "GPT2Config"])
def test_the_weights_that_the_files_hold_quantized_are_counted(kind, tmp_path):
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32}
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, **heads}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"), 0)
    config = getattr(transformers, kind)(**({"text_config": sizes} if "4" in kind else {**sizes, **ends}))
    config.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    options = RunOptions(task=Task.CHAT, model=ModelOptions(source=str(tmp_path), pretrained=False))
    shape = check_model(options).shape
    assert shape.packed == ()
    edit_config(tmp_path, quantization={"bits": 8, "group_size": 64})
    found = check_model(options)
    [(packing, count)] = found.shape.packed
    assert packing == Packing(8, 64)
    assert 0.9 * shape.parameters < count < shape.parameters == found.shape.parameters
    assert msgspec.structs.replace(found.shape, packed=()) == shape
    assert msgspec.json.decode(msgspec.json.encode(found), type=ModelReport).shape == found.shape


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


def test_adapters_in_the_last_blocks_are_fewer(bert):
    whole, last, more = (
        check_model(of_texts(bert, method=Method.LORA, lora_layers=count)) for count in (0, 1, 9)
    )
    assert whole.shape is not None
    assert (whole.shape.blocks, last.problems, more.problems) == (2, (), ())
    pooler = 16 * (16 + 16)
    in_blocks, head = (
        16 * (4 * 32 + 2 * 48),
        2 * 16 + 2,
    )  # of a block: four square layers, and the wide ones
    assert last.trainable_parameters == in_blocks + head
    assert more.trainable_parameters == 2 * in_blocks + head
    assert whole.trainable_parameters == 2 * in_blocks + head + pooler


@pytest.mark.parametrize("name", ["resnet18", "alexnet"])
def test_a_model_without_blocks_says_so(name):
    asked = of_images(name, method=Method.LORA, lora_layers=2)
    (problem,) = check_model(asked).problems
    assert (problem.path, "isn't made of blocks" in problem.message) == ("model.lora_layers", True)
    (fix,) = problem.fixes
    assert check_model(with_changes(asked, fix.changes)).problems == ()


def test_a_target_that_the_last_blocks_lack_says_so(bert):
    pooler = check_model(of_texts(bert, method=Method.LORA, lora_layers=1, lora_targets=("pooler.dense",)))
    assert paths(pooler) == ["model.lora_layers"]


@pytest.mark.parametrize(
    ("name", "first"), [("Llama", "model.layers."), ("GPT2", "transformer.h."), ("Bert", "bert.encoder.layer."),
     ("ViT", "vit.layers."), ("T5", "transformer.decoder.block.")],
)  # fmt: skip
def test_the_last_blocks_of_an_architecture_are_found(name, first):
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    kind = {"ViT": "ImageClassification", "Llama": "CausalLM", "GPT2": "CausalLM"}.get(
        name, "SequenceClassification"
    )
    with torch.device("meta"):
        config = getattr(transformers, f"{name}Config")(**sizes, num_layers=4, d_model=16, d_ff=32, d_kv=8)
        model = getattr(transformers, f"AutoModelFor{kind}").from_config(config)
    heads = head_names(model)
    found = find_targets(model, (), heads, 2)
    assert {layer.removeprefix(first).partition(".")[0] for layer in found} == {"2", "3"}
    assert found == [layer for layer in find_targets(model, (), heads) if layer in found]
    assert find_targets(model, (), heads, 0) == adaptable_layers(model, heads)


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
