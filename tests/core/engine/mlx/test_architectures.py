"""Which models are left to the other engine, as mlx-lm hasn't them or would compute something else."""

import numpy as np
import pytest
import torch
import transformers

pytest.importorskip("mlx.core")

import mlx.core as mx

from core.engine.mlx.architectures import why_not
from core.engine.mlx.model import load

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}
ENDS = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}


def config(kind, **more):
    return getattr(transformers, f"{kind}Config")(**{**SIZES, **ENDS, **more})


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        ("Llama", {}, ""),
        ("Bloom", {}, "the architecture bloom is not in mlx-lm"),
        (
            "Mistral",
            {"sliding_window": 15},
            "mlx-lm ignores that this mistral model sees 15 tokens back only",
        ),
        ("Mistral", {"sliding_window": 16}, ""),
        ("Mistral", {"sliding_window": None}, ""),
        ("Qwen2", {"sliding_window": 8, "use_sliding_window": False}, ""),
    ],
)
def test_why_a_model_is_left_to_torch(kind, more, reason):
    assert why_not(config(kind, **more).to_dict(), 16) == reason


def test_a_window_that_mlx_lm_has_is_no_reason():
    asked = config("Gemma3Text", sliding_window=8, head_dim=8)
    assert why_not(asked.to_dict(), 16) == ""


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (
            "Phi",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}},
        ),
        (
            "StableLm",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}},
        ),
        (
            "GPTNeoX",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}},
        ),
        ("Qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3}}),
    ],
)
def test_rotary_embeddings_are_those_of_transformers(kind, more, tmp_path):
    transformers.set_seed(3)
    made = getattr(transformers, f"{kind}ForCausalLM")(
        config(kind, intermediate_size=128, num_key_value_heads=4, **more)
    ).eval()
    made.save_pretrained(tmp_path)
    ids = torch.randint(0, 64, (2, 12))
    with torch.no_grad():
        expected = made(input_ids=ids).logits.numpy()
    assert np.abs(np.array(load(tmp_path)(mx.array(ids.numpy()))) - expected).max() < 1e-5
