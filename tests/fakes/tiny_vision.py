"""Vision models of a few thousand weights, saved as model folders are, made in milliseconds."""

import json
from collections.abc import Sequence
from pathlib import Path

from core.engine.environment import prepare_torchvision

SIZE = 32
VIT = {
    "image_size": SIZE,
    "patch_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
CONFIGS = {
    "vit": VIT,
    "deit": VIT,
    "convnext": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "swin": {
        "image_size": SIZE,
        "patch_size": 4,
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    },
}


def save_tiny_vision(
    folder: Path,
    kind: str = "vit",
    mean: Sequence[float] | None = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.5, 0.5, 0.5),
    **config: object,
) -> Path:
    """Write config, weights for two labels and, unless `mean` is None, what says how images are normalised."""
    prepare_torchvision()
    from transformers import AutoConfig, AutoModelForImageClassification, set_seed

    set_seed(0)
    made = AutoConfig.for_model(kind, **{**CONFIGS[kind], **config})
    made.architectures = []  # DeiT has two forms: the first
    AutoModelForImageClassification.from_config(made).save_pretrained(folder)
    if mean is not None:
        told = {"do_normalize": True, "image_mean": list(mean), "image_std": list(std)}
        (folder / "preprocessor_config.json").write_text(json.dumps(told))
    return folder
