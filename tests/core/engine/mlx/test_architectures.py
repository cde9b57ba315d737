"""Which models are left to the other engine, as mlx-lm hasn't them or would compute something else."""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
import transformers

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx.utils import tree_flatten

from core.engine.mlx.architectures import read_config, why_not
from core.engine.mlx.model import load, published
from core.engine.mlx.skeleton import as_saved, freeze_buffers, on_meta
from core.engine.mlx.trainable import why_not as why_not_trained
from core.engine.models.text import load_config
from core.options.choices import Method, Task
from tests.fakes.training import run_options

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 64,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
HALF = {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}
LINEAR = {"rope_type": "linear", "rope_theta": 5e3, "factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 5e3, "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {"rope_type": "longrope", "rope_theta": 5e3, "long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
GEMMA3 = {
    "hidden_size": 72,  # its root isn't the same in bf16
    "num_hidden_layers": 6,  # the last sees everything
    "head_dim": 16,
    "sliding_window": 8,
    "rope_parameters": {
        "full_attention": LINEAR,
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
    },
}
QWEN35 = {
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "head_dim": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
}
QWEN_VISION = {"hidden_size": 32, "intermediate_size": 32, "depth": 1, "num_heads": 2, "out_hidden_size": 64}


def config(kind, **more):
    return getattr(transformers, f"{kind}Config")(**{**SIZES, **ENDS, **more})


def seeing(kind, text, vision):
    """A model that also sees, with small parts."""
    return getattr(transformers, f"{kind}Config")(
        text_config={**SIZES, **ENDS, **text}, vision_config=vision, **ENDS
    )


KINDS = {
    "llama": ("Llama", {}),
    "llama-scaled": ("Llama", {"rope_parameters": LLAMA3}),
    "llama-linear": ("Llama", {"rope_parameters": LINEAR}),
    "mistral": ("Mistral", {"sliding_window": None, "rope_parameters": YARN}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "qwen2": ("Qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3}}),
    "qwen3": ("Qwen3", {"head_dim": 16, "rope_parameters": YARN}),
    "qwen3-moe": ("Qwen3Moe", EXPERTS),  # transformers 5 writes another name for the number of experts
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2": ("Gemma2", {"head_dim": 16}),
    "gemma3": ("Gemma3Text", GEMMA3),
    "phi": ("Phi", {"rope_parameters": HALF}),
    "phi3": ("Phi3", {"sliding_window": None}),
    "gpt2": ("GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 4}),
    "gpt-neox": ("GPTNeoX", {"intermediate_size": 256, "rope_parameters": HALF}),
    "stablelm": ("StableLm", {"rope_parameters": HALF}),
    "olmo2": ("Olmo2", {"rope_parameters": YARN}),
    "smollm3": ("SmolLM3", {}),
    "granite": ("Granite", {}),
    "cohere2": ("Cohere2", {"sliding_window": 8}),
    "glm4": ("Glm4", {"head_dim": 16}),
    "lfm2": ("Lfm2", {"block_dim": 64, "layer_types": ["conv", "full_attention"] * 2}),
}


OTHER_GELU = ("gemma", "gpt-neox")
"""mlx-lm computes theirs exactly where transformers doesn't, or the other way round."""


def answers(model, ids):
    with torch.no_grad():
        return model.eval()(input_ids=ids, use_cache=False).logits.numpy()


def spread(model):
    """Draws weights as different as trained ones are; norms begin as ones."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model


def difference(folder, like):
    """The largest difference of logits, as a share of the largest."""
    ids = torch.randint(1, 64, (2, 24))
    expected, got = answers(like, ids), np.array(load(folder)(mx.array(ids.numpy())))
    return np.abs(got - expected).max() / np.abs(expected).max()


def asked(folder, method):
    return run_options(Task.CAUSAL_LM, source=folder, method=Method(method), train=folder, max_length=24)


@pytest.mark.parametrize("kind", KINDS)
def test_mlx_computes_what_transformers_computes(kind, tmp_path):
    transformers.set_seed(3)
    name, more = KINDS[kind]
    like = spread(transformers.AutoModelForCausalLM.from_config(config(name, **more)))
    like.save_pretrained(tmp_path)
    assert difference(tmp_path, like) < (5e-4 if kind in OTHER_GELU else 5e-6)
    assert [why_not_trained(asked(tmp_path, method)) for method in ("full", "lora")] == ["", ""]


@pytest.mark.parametrize(
    ("kind", "text", "vision", "full"),
    [
        ("Gemma3", GEMMA3, VISION, "mlx-lm has only that part of this gemma3 model which is for texts"),
        (
            "Qwen3_5",
            QWEN35,
            QWEN_VISION,
            "Hone can't undo what mlx-lm does to the weights of this qwen3_5 model",
        ),
    ],
)
def test_of_a_model_that_also_sees_an_adapter_for_texts_is_trained(kind, text, vision, full, tmp_path):
    transformers.set_seed(3)
    whole = getattr(transformers, f"{kind}ForConditionalGeneration")(seeing(kind, text, vision))
    spread(whole).save_pretrained(tmp_path)
    assert difference(tmp_path, transformers.AutoModelForCausalLM.from_pretrained(tmp_path)) < 2e-5
    assert why_not_trained(asked(tmp_path, "lora")) == ""
    assert why_not_trained(asked(tmp_path, "full")) == full
    options = asked(tmp_path, "lora")
    named = as_saved(on_meta(options, load_config(options)), is_part=kind == "Qwen3_5")
    assert named.keys() <= published(tmp_path).keys()


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        ("Bloom", {}, "the architecture bloom is not in mlx-lm"),
        (
            "Mistral",
            {"sliding_window": 15},
            "mlx-lm ignores that this mistral model sees 15 tokens back only",
        ),
        ("Mistral", {"sliding_window": 16}, ""),
        ("Qwen2", {"sliding_window": 8, "use_sliding_window": False}, ""),
        ("Glm", {"head_dim": 16}, "mlx-lm ignores that this glm model rotates a part of each head only"),
        ("Glm4", {"head_dim": 16}, ""),
        (
            "Qwen3Moe",
            {**EXPERTS, "rope_parameters": YARN},
            "mlx-lm ignores how this qwen3_moe model stretches its positions",
        ),
        (
            "Phi3",
            {"rope_parameters": LONGROPE, "original_max_position_embeddings": 64, "sliding_window": None},
            "mlx-lm ignores how this phi3 model stretches its positions",
        ),
        (
            "Llama",
            {"quantization_config": {"quant_method": "awq"}},
            "its weights are quantized in the format awq",
        ),
        (
            "Llama",
            {"quantization_config": {"bits": 4}, "quantization": {"bits": 4, "group_size": 64}},
            "",
        ),
    ],
)
def test_why_a_model_is_left_to_torch(kind, more, reason):
    assert why_not(config(kind, **more).to_dict(), 16) == reason


def test_a_model_that_mlx_lm_reads_with_a_library_that_is_not_here(monkeypatch):
    class Leaving(ModuleType):
        """That of OLMo ends the program where its library isn't installed."""

        def __getattr__(self, _name):
            sys.exit(1)

    monkeypatch.setitem(sys.modules, "mlx_lm.models.llama", Leaving("llama"))
    assert why_not(config("Llama").to_dict(), 16) == "the architecture llama is not in mlx-lm"


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        (
            "GptOss",
            {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 64},
            "mlx-lm expects other weights of this gpt_oss model",
        ),
        ("MiniCPM3", {}, "mlx-lm can't build this minicpm3 model: 'NoneType' object has no attribute 'get'"),
    ],
)
def test_weights_that_mlx_lm_would_not_take_are_known_before_they_are_read(kind, more, reason, tmp_path):
    config(kind, **more).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not read")
    assert why_not_trained(asked(tmp_path, "lora")) == reason


def test_what_is_in_a_config_is_taken_before_what_follows_from_others(tmp_path):
    """A head may be larger than its share of the model, and numbers that aren't finite are written as objects."""
    made = config("Qwen3", head_dim=24, initializer_range=float("inf"))
    made.save_pretrained(tmp_path)
    read = read_config(tmp_path)
    assert (read["head_dim"], read["initializer_range"]) == (24, float("inf"))


def test_what_is_no_parameter_in_transformers_does_not_learn(tmp_path):
    """A buffer of Gemma 4, which MLX would train and let decay."""
    made = config("Gemma4Text", num_hidden_layers=6, num_kv_shared_layers=0, hidden_size_per_layer_input=0)
    like = transformers.AutoModelForCausalLM.from_config(made)
    like.save_pretrained(tmp_path)
    model, shapes = load(tmp_path), published(tmp_path)

    def learning():
        return {name for name, _weight in tree_flatten(model.trainable_parameters())}

    before = learning()
    freeze_buffers(model, like, shapes)
    assert before - learning() == {f"model.layers.{layer}.layer_scalar" for layer in range(6)}
