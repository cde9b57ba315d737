"""Shapes of well-known models that nobody has to load, and what the engine says of a BERT, for what only counts."""

from typing import Any

import msgspec

from core.memory.model import ModelReport, ModelShape
from core.options import RunOptions
from core.options.validate import read_options

LAYERS, HIDDEN, INNER = 12, 768, 3072

BERT = ModelShape(
    parameters=109_483_778,
    packable=85_000_000,
    head=1_538,
    linear_sides=LAYERS * (4 * 2 * HIDDEN + 2 * (HIDDEN + INNER)),
    linears={
        "query": (LAYERS * HIDDEN, LAYERS * HIDDEN),
        "dense": (LAYERS * 6 * HIDDEN, LAYERS * 6 * HIDDEN),
    },
    embeddings=23_837_184,
    largest=23_440_896,
    layers=LAYERS,
    hidden=HIDDEN,
    intermediate=INNER,
    heads=12,
    key_heads=12,
    head_width=64,
    vocabulary=30_522,
    positions=512,
)
"""bert-base-uncased with two labels, as if it dropped nothing."""

DISTILBERT = msgspec.structs.replace(
    BERT,
    parameters=66_957_317,
    packable=42_467_328,
    head=594_437,
    linear_sides=BERT.linear_sides // 2,
    linears={},
    embeddings=23_834_880,
    layers=LAYERS // 2,
    dropout=True,
    attention_dropout=True,
)
"""distilbert-base-uncased with five labels."""

RESNET = ModelShape(
    parameters=11_181_642,
    head=5_130,
    largest=2_359_296,
    kept_per_pixel=230.0,
    widest_per_pixel=16.0,
    recomputed_per_pixel=40.0,
)
"""ResNet-18 with ten labels."""

SMOL = ModelShape(
    parameters=134_515_008,
    linear_sides=305_280,
    embeddings=49_152 * 576,
    largest=49_152 * 576,
    layers=30,
    hidden=576,
    intermediate=1_536,
    heads=9,
    key_heads=3,
    head_width=64,
    gated=True,
    vocabulary=49_152,
    said=49_152,
    positions=8_192,
)
"""SmolLM2-135M, a Llama."""

MODEL = ModelReport(
    architecture="BertForSequenceClassification",
    total_parameters=BERT.parameters,
    trainable_parameters=BERT.head,
    layers=BERT.layers,
    activation_checkpointing=True,
    attention=("eager", "sdpa"),
    max_length=BERT.positions,
    shape=BERT,
)


def asked(**sections: dict[str, Any]) -> RunOptions:
    """A run in fp32 of 16 texts of up to 512 tokens a batch, but for the sections given."""
    plain: dict[str, Any] = {
        "task": "text-classification",
        "model": {"source": "/somewhere/bert"},
        "data": {"max_length": 512},
        "device": {"precision": "fp32"},
        "memory": {"batch_size": 16},
    }
    options, problems = read_options({**plain, **sections})
    assert options is not None, problems
    return options
