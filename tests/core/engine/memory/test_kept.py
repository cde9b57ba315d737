"""What the formula says that a pass keeps is what autograd really saves of one, byte for byte counted on the CPU."""

from typing import Any

import msgspec
import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.memory.model_shape import NUMBER_BYTES, Kept, shape_of
from core.engine.models.parts import apply_method
from core.memory import activations
from core.memory.activations import case_of
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.options.validate import read_options

prepare_torchvision()

CPU = DeviceReport(name="cpu", title="a processor", available=True)
ROWS, TOKENS = 4, 96
BERT = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 128,
}
LLAMA = {**BERT, "num_key_value_heads": 2, "intermediate_size": 160}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}
MIXTRAL = {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}
DISTILBERT = {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 256, "max_position_embeddings": 128}
T5 = {"d_model": 64, "d_kv": 16, "num_layers": 3, "d_ff": 256, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 64,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "decoder_start_token_id": 0,
    "bos_token_id": 2,
    "max_position_embeddings": 128,
}
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "BERT": ("bert", BERT, {}),
    "BERT, bf16": ("bert", BERT, {"device.precision": "bf16"}),
    "BERT, eager": ("bert", BERT, {"model.attention": "eager"}),
    "BERT, eager, bf16": ("bert", BERT, {"model.attention": "eager", "device.precision": "bf16"}),
    "BERT without dropout": (
        "bert",
        {**BERT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        {},
    ),
    "BERT, LoRA": ("bert", BERT, {"model.method": "lora"}),
    "BERT, LoRA, bf16": ("bert", BERT, {"model.method": "lora", "device.precision": "bf16"}),
    "BERT, LoRA without dropout": ("bert", BERT, {"model.method": "lora", "model.lora_dropout": 0.0}),
    "BERT, last layer": ("bert", BERT, {"model.method": "head"}),
    "GPT-2": ("gpt2", GPT2, {}),
    "Llama": ("llama", LLAMA, {}),
    "Llama, bf16": ("llama", LLAMA, {"device.precision": "bf16"}),
    "Mixtral": ("mixtral", MIXTRAL, {}),
    "DistilBERT": ("distilbert", DISTILBERT, {}),
    "T5": ("t5", T5, {}),
    "T5, bf16": ("t5", T5, {"device.precision": "bf16"}),
    "T5, LoRA": ("t5", T5, {"model.method": "lora"}),
    "gated T5": ("t5", {**T5, "feed_forward_proj": "gated-gelu", "d_ff": 160}, {}),
    "BART": ("bart", BART, {}),
}
ENDS = 1
"""The token at the end of a text, by which an encoder-decoder finds where to look."""


@pytest.mark.parametrize("name", RUNS)
def test_it_keeps_what_the_formula_says(name: str) -> None:
    kind, sizes, changes = RUNS[name]
    options = asked(changes)
    real = kept_by_torch(kind, sizes, options)
    case = case_of(options, shape(kind, sizes), CPU, TOKENS)
    told = activations.kept_bytes(case) + activations.cast_bytes(case)
    assert told == pytest.approx(real, rel=0.09 if "without dropout" in name else 0.03, abs=100_000)


def asked(changes: dict[str, Any]) -> RunOptions:
    tree: dict[str, Any] = {
        "task": "text-classification",
        "memory": {"batch_size": ROWS},
        "device": {"precision": "fp32"},
    }
    for path, value in changes.items():
        section, name = path.split(".")
        tree.setdefault(section, {})[name] = value
    options, problems = read_options(tree)
    assert options is not None, problems
    return msgspec.structs.replace(options, device=msgspec.structs.replace(options.device, name="cpu"))


def config_of(kind: str, sizes: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    found = AutoConfig.for_model(kind, vocab_size=100, pad_token_id=0, eos_token_id=ENDS, **sizes)
    found.use_cache = False  # as Trainer does
    return found


def shape(kind: str, sizes: dict[str, Any]) -> Any:
    from transformers import AutoModelForSequenceClassification

    with torch.device("meta"):
        return shape_of(AutoModelForSequenceClassification.from_config(config_of(kind, sizes)))


def kept_by_torch(kind: str, sizes: dict[str, Any], options: RunOptions) -> float:
    """Bytes that autograd saves of one forward pass with real numbers."""
    from transformers import AutoModelForSequenceClassification

    plain = AutoModelForSequenceClassification.from_config(
        config_of(kind, sizes), attn_implementation=options.model.attention.value
    )
    model = apply_method(plain, options).train()
    ids, mask = torch.randint(2, 100, (ROWS, TOKENS)), torch.ones(ROWS, TOKENS, dtype=torch.long)
    ids[0, 80:] = mask[0, 80:] = 0
    ids[:, 79] = ENDS
    kept = Kept(model)
    half = options.device.precision == "bf16"
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half), kept.listening():
        model(input_ids=ids, attention_mask=mask, labels=torch.zeros(ROWS, dtype=torch.long))
    return NUMBER_BYTES * sum(kept.by_place().values())
