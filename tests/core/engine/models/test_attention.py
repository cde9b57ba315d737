"""Attention: what was called in the first forward is what is stated, and what a model lacks is said before it runs."""

import pytest
import torch

from core.base.errors import ModelError
from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.training.observe import FirstBatch
from core.options import RunOptions
from core.options.choices import Attention, Task
from core.options.sections import ModelOptions
from tests.fakes.models import edit_config, save_tiny_bert
from tests.fakes.training import model, train

prepare_torchvision()

from transformers import OpenAIGPTPreTrainedModel  # noqa: E402 - torchvision must be prepared first

FLASH = (Attention.FLASH_2, Attention.FLASH_3)


@pytest.fixture
def bert(tmp_path):
    return save_tiny_bert(tmp_path / "bert")


@pytest.mark.parametrize("attention", [Attention.SDPA, Attention.EAGER])
def test_what_was_called_is_stated(attention, bert, tmp_path):
    ran = train(tmp_path / "run", model=model(bert, attention=attention)).what_ran
    assert (ran.attention, "model.attention" in ran.reasons) == (attention, False)


def test_a_config_does_not_choose(bert, tmp_path):
    edit_config(bert, _attn_implementation="eager", attn_implementation="eager")
    assert train(tmp_path / "run", model=model(bert)).what_ran.attention == "sdpa"


def test_a_model_without_sdpa_runs_its_own_and_says_so(bert, tmp_path):
    edit_config(bert, model_type="openai-gpt")  # transformers wrote neither sdpa nor flash for GPT of 2018
    tiny = train(tmp_path / "run", model=model(bert, pretrained=False))
    assert tiny.what_ran.attention == "eager"
    assert tiny.what_ran.reasons["model.attention"] == "this model has no sdpa"
    assert tiny.messages == {}


def test_a_model_that_has_sdpa_and_does_not_call_it_is_not_said_to_have_none(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(OpenAIGPTPreTrainedModel, "_supports_sdpa", True)
    edit_config(bert, model_type="openai-gpt")
    ran = train(tmp_path / "run", model=model(bert, pretrained=False)).what_ran
    assert ran.attention == "eager"
    assert "this model has sdpa" in ran.reasons["model.attention"]


@pytest.mark.parametrize("attention", FLASH)
def test_flash_attention_that_a_model_lacks_is_refused_by_its_name(attention, bert):
    edit_config(bert, model_type="openai-gpt")
    model = ModelOptions(source=str(bert), attention=attention)
    asked = RunOptions(task=Task.TEXT_CLASSIFICATION, model=model)
    with pytest.raises(ModelError, match=f"has no {attention}") as refused:
        text.attention_for(asked, text.load_config(asked))
    assert refused.value.fixes[0].changes == {"model.attention": "sdpa"}


@pytest.mark.parametrize("attention", FLASH)
def test_a_registered_implementation_is_heard_too(attention):
    """As FlashAttention is called: through transformers' registry. Its kernels need an NVIDIA GPU."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    before = ALL_ATTENTION_FUNCTIONS[attention]
    ALL_ATTENTION_FUNCTIONS.register(attention.value, lambda values: values + 1)
    called = ALL_ATTENTION_FUNCTIONS[attention]

    class Layer(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = ALL_ATTENTION_FUNCTIONS[attention](values.softmax(-1))
            return found

    watch, layer = FirstBatch(), Layer()
    try:
        with watch.watching(layer):
            layer(torch.ones(2))
        assert ALL_ATTENTION_FUNCTIONS[attention] is called, "not put back"
    finally:
        ALL_ATTENTION_FUNCTIONS.register(attention.value, before)
    assert watch.attention == (attention,)


def test_a_model_without_attention_has_none():
    watch, layer = FirstBatch(), torch.nn.Linear(2, 2)
    with watch.watching(layer):
        torch.nn.functional.cross_entropy(layer(torch.ones(1, 2)), torch.tensor([1])).backward()
    assert (watch.attention, watch.recomputed) == ((), 0)
