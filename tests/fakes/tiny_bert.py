"""A Bert of a few thousand weights, saved as a model folder is, made in milliseconds."""

import json
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision

WORDS = ("good", "bad", "fine", "poor", "a", "the", "story", "film", "very", "not")
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def save_tiny_bert(folder: Path, **config: Any) -> Path:
    """Write config, weights and tokenizer; without dropout, so that two ways of computing can be compared."""
    prepare_torchvision()
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, set_seed

    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64}
    set_seed(0)
    model = BertForSequenceClassification(
        BertConfig(vocab_size=len(vocabulary), **{**SIZES, **plain, **config})
    )
    model.save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(vocabulary)})
    tokenizer.save_pretrained(folder)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    """Change fields of a saved config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
