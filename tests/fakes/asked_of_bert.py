"""A BERT of 110 million weights that nobody has to load, and runs of it, for what only counts."""

from typing import Any

from core.checks import read_options
from core.memory.shape import ModelShape
from core.model_report import ModelReport
from core.options import RunOptions

BERT = ModelShape(
    parameters=110_000_000,
    packable=85_000_000,
    head=1_538,
    linear_sides=12 * (4 * 2 * 768 + 2 * 5 * 768),
    linears={"query": (12 * 768, 12 * 768), "dense": (12 * 6 * 768, 12 * 6 * 768)},
    embeddings=24_000_000,
    largest=23_440_896,
    layers=12,
    hidden=768,
    intermediate=3072,
    heads=12,
    key_heads=12,
    head_width=64,
    vocabulary=30_522,
    positions=512,
)
MODEL = ModelReport(
    architecture="BertForSequenceClassification", activation_checkpointing=True, max_length=512, shape=BERT
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
