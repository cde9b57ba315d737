"""Shapes of well-known models that nobody has to load, and what the engine says of a BERT, for what only counts."""

from typing import Any

import msgspec

from core.memory.model import Kept, KeptTensor, ModelReport, ModelShape
from core.options import RunOptions
from core.options.validate import read_options

LAYERS, HIDDEN, INNER = 12, 768, 3072


def kept(layers: int, hidden: int, inner: int, heads: int = 0, casts: int = 0) -> dict[str, Kept]:
    """About what a transformer keeps; of so many heads the scores, as where a CPU drops some of them."""
    return {
        Kept.key(frozen=frozen, half=half): Kept(
            blocks=(
                KeptTensor((2 if half else 4) * hidden, count=(5 if frozen else 8) * layers),
                KeptTensor((2 if half else 4) * inner, count=(1 if frozen else 2) * layers),
                *([KeptTensor(0.0, 4.0 * heads, 3 * layers)] if heads else []),
            ),
            outside=(KeptTensor(4 * hidden, count=3),),
            entering=4.0 * hidden * layers,
            largest=1 / layers,
            casts=2 * casts if half else 0,
        )
        for frozen in (False, True)
        for half in (False, True)
    }


def kept_of_images(inside: float, outside: float, entering: float) -> dict[str, Kept]:
    """What a vision model of four equal segments keeps: bytes for each pixel, of a number in fp32."""
    return {
        Kept.key(frozen=frozen, half=half): Kept(
            blocks=(KeptTensor(inside / 8 / (1 + half), count=8),),
            outside=(KeptTensor(outside / (1 + half)),),
            entering=entering / (1 + half),
            largest=0.25,
            into_linears=inside / 8,
        )
        for frozen in (False, True)
        for half in (False, True)
    }


BERT = ModelShape(
    parameters=109_483_778,
    packable=85_000_000,
    head=1_538,
    linears={
        "query": (LAYERS * HIDDEN, LAYERS * HIDDEN),
        "dense": (LAYERS * 6 * HIDDEN, LAYERS * 6 * HIDDEN),
    },
    embeddings=23_837_184,
    largest=23_440_896,
    largest_linear=HIDDEN * INNER,
    layers=LAYERS,
    hidden=HIDDEN,
    positions=512,
    kept=kept(LAYERS, HIDDEN, INNER, casts=85_646_594),
)
"""bert-base-uncased with two labels, as if it dropped nothing."""

DISTILBERT = msgspec.structs.replace(
    BERT,
    parameters=66_957_317,
    packable=42_467_328,
    head=594_437,
    linears={name: (inputs // 2, outputs // 2) for name, (inputs, outputs) in BERT.linears.items()},
    embeddings=23_834_880,
    layers=LAYERS // 2,
    kept=kept(LAYERS // 2, HIDDEN, INNER, 12, casts=43_122_437),
)
"""distilbert-base-uncased with five labels."""

RESNET = ModelShape(
    parameters=11_181_642,
    head=5_130,
    largest=2_359_296,
    kept=kept_of_images(600.0, 320.0, 64.0),
)
"""ResNet-18 with ten labels."""

SMOL = ModelShape(
    parameters=134_515_008,
    linears={"q_proj": (152_640, 152_640)},
    embeddings=49_152 * 576,
    largest=49_152 * 576,
    layers=30,
    hidden=576,
    vocabulary=49_152,
    positions=8_192,
    kept=kept(30, 576, 2 * 1_536, casts=106_203_456),
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
