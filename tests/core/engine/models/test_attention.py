"""Attention: what the first forward called is what is stated, and what a model lacks is said before it runs."""

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
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402

FLASH = (Attention.FLASH_2, Attention.FLASH_3)
GPT1 = {"model_type": "openai-gpt"}
"""transformers has neither sdpa nor flash attention for GPT of 2018."""


@pytest.fixture
def bert(tmp_path):
    return save_tiny_bert(tmp_path / "bert")


@pytest.mark.parametrize(
    ("attention", "config", "has_sdpa", "ran", "reason"),
    [
        ("eager", {}, False, "eager", ""),
        ("sdpa", {"_attn_implementation": "eager", "attn_implementation": "eager"}, False, "sdpa", ""),
        ("sdpa", GPT1, False, "eager", "this model has no sdpa"),
        ("sdpa", GPT1, True, "eager", "this model has sdpa"),
    ],
    ids=["eager", "config-does-not-choose", "has-no-sdpa", "has-sdpa-and-does-not-call-it"],
)
def test_the_attention_that_was_called_is_stated(
    bert, tmp_path, monkeypatch, attention, config, *, has_sdpa, ran, reason
):
    monkeypatch.setattr(OpenAIGPTPreTrainedModel, "_supports_sdpa", has_sdpa)
    edit_config(bert, **config)
    source = model(bert, attention=Attention(attention), pretrained=False)
    tiny = train(tmp_path / "run", model=source)
    assert (tiny.what_ran.attention, tiny.messages) == (ran, {})
    stated = tiny.what_ran.reasons.get("model.attention", "")
    assert reason in stated if reason else not stated


@pytest.mark.parametrize("attention", FLASH)
def test_flash_attention_that_a_model_lacks_is_refused_by_its_name(attention, bert):
    edit_config(bert, **GPT1)
    source = ModelOptions(source=str(bert), attention=attention)
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=source)
    with pytest.raises(ModelError, match=f"has no {attention}") as refused:
        text.attention_for(options, text.load_config(options))
    assert refused.value.fixes[0].changes == {"model.attention": "sdpa"}


def test_flash_attention_is_observed_in_the_registry_of_transformers():
    """Its kernels need an NVIDIA GPU; here a stand-in is registered."""
    attention = Attention.FLASH_2
    before = ALL_ATTENTION_FUNCTIONS[attention]
    ALL_ATTENTION_FUNCTIONS.register(attention.value, lambda values: values + 1)
    called = ALL_ATTENTION_FUNCTIONS[attention]

    class Layer(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = ALL_ATTENTION_FUNCTIONS[attention](values.softmax(-1))
            return result

    watch, layer = FirstBatch(), Layer()
    try:
        with watch.watching(layer):
            layer(torch.ones(2))
        assert ALL_ATTENTION_FUNCTIONS[attention] is called, "not put back"
    finally:
        ALL_ATTENTION_FUNCTIONS.register(attention.value, before)
    assert watch.attention == (attention,)
