"""Attention: what the first forward called is what is stated, and what a model lacks is said before it runs."""

from dataclasses import replace

import msgspec
import pytest
import torch

from core.base.errors import ModelError
from core.engine.environment import prepare_torchvision
from core.engine.models import attention, text
from core.engine.training.observe import FirstBatch
from core.options import RunOptions, run_file
from core.options.choices import Attention, Method, Precision, Task
from core.options.sections import ModelOptions
from core.runs.events import Evaluated
from tests.fakes.devices import leaky_attention
from tests.fakes.models import edit_config, save_tiny_bert, save_tiny_llama, write_text
from tests.fakes.training import load, model, run_options, train

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


# --- A GPU whose sdpa lets tokens see later ones, in half precision where no gradients are recorded


@pytest.fixture
def as_on_mps(monkeypatch):
    """The CPU takes the place of a Mac's GPU where the cure is decided on."""
    found_out, cure = attention.sees_later_tokens, attention.cure_causal_attention
    monkeypatch.setattr(attention, "sees_later_tokens", lambda _device, dtype: found_out("cpu", dtype))

    def cured(model, resolved):
        mps = msgspec.structs.replace(resolved.device, name="mps")
        return cure(model, replace(resolved, device=mps))

    monkeypatch.setattr("core.engine.training.build.cure_causal_attention", cured)
    monkeypatch.setattr("core.engine.generate.loading.cure_causal_attention", cured)


def test_evaluation_and_try_it_are_right_where_sdpa_is_not(tmp_path, monkeypatch, request):
    llama = save_tiny_llama(tmp_path / "llama", initializer_range=0.5)
    chosen = {
        "task": Task.CAUSAL_LM,
        "source": llama,
        "train": write_text(tmp_path / "text.txt"),
        "eval_fraction": 0.4,
        "max_length": 16,
        "precision": Precision.BF16,
        "method": Method.LORA,
        "max_steps": 1,
        "learning_rate": 1e-12,
        "predictions": 0,
    }

    def found(name):
        tiny = train(tmp_path / name, **chosen)
        assert tiny.status == 0, tiny.messages
        run_file.write(run_options(**chosen), tiny.run.options_file)
        loss = [event for event in tiny.events if isinstance(event, Evaluated)][-1].metrics["eval_loss"]
        tried = load(tiny.run)
        with torch.no_grad(), tried.computing():
            chances = tried.model(input_ids=torch.arange(4, 16).unsqueeze(0)).logits.float().softmax(-1)
        return loss, chances, tiny

    loss, chances, right = found("right")
    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", leaky_attention())
    wrong_loss, wrong_chances, _tiny = found("wrong")
    request.getfixturevalue("as_on_mps")
    cured_loss, cured_chances, cured = found("cured")
    assert abs(wrong_loss - loss) > 0.02
    # the frozen weights are in bf16, too: the two implementations round otherwise
    assert cured_loss == pytest.approx(loss, abs=0.003)
    assert (wrong_chances - chances).abs().max() > 0.1
    assert (cured_chances - chances).abs().max() < 0.03
    assert cured.steps[0].loss == right.steps[0].loss, "training keeps sdpa"
    assert cured.what_ran.reasons["model.attention"].startswith("eager in evaluations")
    assert "model.attention" not in right.what_ran.reasons
