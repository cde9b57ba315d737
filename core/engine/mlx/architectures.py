"""Which models mlx-lm can build, and as they are meant."""

from collections.abc import Mapping
from typing import Any

from mlx_lm import utils

from core.base.language import _

SLIDING = ("sliding_attention",)
"""For a model of mlx-lm that has a window, but no list of the layers with one."""


def why_not(config: Mapping[str, Any], length: int) -> str:
    """Returns why mlx-lm can't train a model on rows of so many tokens; empty if it can.

    Args:
        config: The model's config.json.
        length: The most tokens in a row.
    """
    name = config["model_type"]
    try:
        _model, arguments = utils._get_classes(dict(config))  # it has no public way to ask
    except ValueError:
        return _("the architecture {name} is not in mlx-lm").format(name=name)
    try:
        built = arguments.from_dict({**config, **left_out(config)})
    except (TypeError, ValueError, KeyError) as error:
        return _("mlx-lm can't read the config of this {name} model: {error}").format(name=name, error=error)
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    slides = hasattr(built, "sliding_window") and "sliding_attention" in getattr(
        built, "layer_types", SLIDING
    )
    if window and window < length and not slides:
        return _("mlx-lm ignores that this {name} model sees {window:,} tokens back only").format(
            name=name, window=window
        )
    return ""


def left_out(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what mlx-lm looks for in a config, and transformers 5 writes elsewhere or not at all.

    mlx-lm 0.32.2 would take its own defaults for rotary embeddings: the model would load, and compute something else.
    """
    found: dict[str, Any] = {}
    rope = config.get("rope_parameters") or {}
    if "full_attention" in rope:  # a layer with a sliding window has its own
        if "sliding_attention" in rope:
            found["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    found |= {name: value for name, value in rope.items() if name != "rope_type"}
    if "rope_theta" in rope:
        found["rope_scaling"] = None if rope.get("rope_type", "default") == "default" else rope
        found["rotary_emb_base"] = rope["rope_theta"]  # as GPT-NeoX calls it
    if "partial_rotary_factor" in rope:
        found["rotary_pct"] = rope["partial_rotary_factor"]
    if "n_positions" in config:
        found["n_ctx"] = config["n_positions"]
    return {name: value for name, value in found.items() if name not in config}
