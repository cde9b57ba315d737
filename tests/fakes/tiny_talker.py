"""A Llama of a few thousand weights with a tokenizer, saved as a model folder is, and data for it to learn from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision
from tests.fakes.tiny_tokenizer import tiny_tokenizer

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}


def save_tiny_talker(folder: Path, template: str | None = None, **config: Any) -> Path:
    """Write config, weights and tokenizer; without a chat template unless one is given."""
    prepare_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    tokenizer = tiny_tokenizer(template)
    ends = tokenizer.eos_token_id
    set_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=ends, **{**SIZES, **config})
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def instructions(rows: int = 40) -> list[dict[str, str]]:
    """Questions and answers of uneven lengths."""
    return [
        {
            "instruction": f"Count to {row % 7 + 1}, please.",
            "input": "",
            "output": " ".join("12345678"[: row % 7 + 1]),
        }
        for row in range(rows)
    ]


def pairs(rows: int = 24) -> list[dict[str, Any]]:
    """ShareGPT's form of better and worse answers."""
    return [
        {
            "conversations": [{"from": "human", "value": f"Say hello to number {row}."}],
            "chosen": {"from": "gpt", "value": f"Hello, number {row}!"},
            "rejected": {"from": "gpt", "value": "No." if row % 2 else "I will not say that, I am tired."},
        }
        for row in range(rows)
    ]


def write_json(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The rows as a JSON list."""
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path
