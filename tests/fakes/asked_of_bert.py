"""What the engine says of a BERT that nobody has to load, and runs of it, for what only counts."""

from typing import Any

from core.checks import read_options
from core.model_report import ModelReport
from core.options import RunOptions
from gui.invented_models import BERT

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
