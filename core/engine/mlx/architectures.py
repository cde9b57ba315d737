"""Which models mlx-lm can build, and as they are meant."""

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlx_lm import utils
from transformers import CONFIG_MAPPING, PreTrainedConfig

from core.base.language import _

Config = Mapping[str, Any]
"""What is in a config.json."""

SLIDING = ("sliding_attention",)
"""For a model of mlx-lm that has a window, but no list of the layers with one."""

PARTLY_ROTATED = {"partial_rotary_factor", "rotary_pct", "rotary_dim", "rope_parameters"}
STRETCHED = {"rope_scaling", "rope_parameters"}
SHORT_OR_LONG = ("longrope", "su")
"""Ways with other factors for short texts than for long ones, of which mlx-lm takes the latter always."""


def read_config(folder: Path) -> dict[str, Any]:
    """Returns the config of a model's folder as mlx-lm reads it, and what it looks for there in vain."""
    config: dict[str, Any] = utils.load_config(folder)
    return config | left_out(config)


def config_as_published(source: str) -> dict[str, Any]:
    """Returns what is in the config.json of a folder or a model of the Hub."""
    config: dict[str, Any] = PreTrainedConfig.get_config_dict(source)[0]
    return config


def why_not(config: Config, length: int) -> str:
    """Returns why mlx-lm can't train a model on rows of so many tokens; empty if it can.

    Args:
        config: What is in the model's config.json.
        length: The most tokens in a row.
    """
    name = config["model_type"]
    try:
        _model, arguments = utils._get_classes(dict(config))  # it has no public way to ask
    except (ValueError, SystemExit):  # a module may want a library that isn't here
        return _("the architecture {name} is not in mlx-lm").format(name=name)
    how = (config.get("quantization_config") or {}).get("quant_method")
    if how and not config.get("quantization"):
        return _("its weights are quantized in the format {how}").format(how=how)
    try:
        arguments.from_dict({**config, **left_out(config)})
    except (TypeError, ValueError, KeyError) as error:
        return _("mlx-lm can't read the config of this {name} model: {error}").format(name=name, error=error)
    text = config.get("text_config") or config  # models that also see or hear have one within
    text = {**text, **left_out(text)}
    with suppress(ValueError):  # it is no model of mlx-lm by itself
        return _ignored(name, text, utils._get_classes(text)[1].from_dict(text), length)
    return ""


def _ignored(name: str, config: Config, built: Any, length: int) -> str:
    """Returns what mlx-lm would ignore of a config that it has made the arguments `built` of."""
    known = _names_in(type(built))
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    slides = "sliding_window" in known and "sliding_attention" in getattr(built, "layer_types", SLIDING)
    if window and window < length and not slides:
        return _("mlx-lm ignores that this {name} model sees {window:,} tokens back only").format(
            name=name, window=window
        )
    if (config.get("partial_rotary_factor") or 1) != 1 and not known & PARTLY_ROTATED:
        return _("mlx-lm ignores that this {name} model rotates a part of each head only").format(name=name)
    how = config.get("rope_scaling")
    if how and (not known & STRETCHED or how.get("rope_type", how.get("type")) in SHORT_OR_LONG):
        return _("mlx-lm ignores how this {name} model stretches its positions").format(name=name)
    return ""


def _names_in(arguments: type) -> set[str]:
    """Returns the names in the code that is beside the class of a model's arguments; some are taken and never used."""
    beside = vars(sys.modules[arguments.__module__]).values()
    kinds = (one for one in beside if inspect.isclass(one) and one is not arguments)
    functions = [*beside, *(function for kind in kinds for function in vars(kind).values())]
    return {name for one in functions if inspect.isfunction(one) for name in one.__code__.co_names}


def left_out(config: Config) -> dict[str, Any]:
    """Returns what mlx-lm looks for in a config, and transformers 5 writes elsewhere or not at all.

    mlx-lm 0.32.2 would take its own defaults for rotary embeddings: the model would load, and compute something else.
    """
    found: dict[str, Any] = {}
    if text := config.get("text_config"):
        found["text_config"] = {**text, **left_out(text)}
        found |= {"vocab_size": text["vocab_size"]} if "vocab_size" in text else {}
    if config.get("model_type") in CONFIG_MAPPING:
        names = CONFIG_MAPPING[config["model_type"]].attribute_map.items()
        found |= {other: config[name] for other, name in names if isinstance(config.get(name), int)}
    if config.get("hidden_size") and config.get("num_attention_heads"):
        found["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    if "full_attention" in rope:  # a layer with a sliding window has its own
        if "sliding_attention" in rope:
            found["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    found |= {name: value for name, value in rope.items() if name != "rope_type"}
    if "rope_theta" in rope:
        how = rope.get("rope_type", "default")
        found["rope_scaling"] = None if how == "default" else {**rope, "type": how}
        found["rotary_emb_base"] = rope["rope_theta"]  # as GPT-NeoX calls it
    if "partial_rotary_factor" in rope:
        found["rotary_pct"] = rope["partial_rotary_factor"]
    if "n_positions" in config:
        found["n_ctx"] = config["n_positions"]
    return {name: value for name, value in found.items() if name == "text_config" or config.get(name) is None}
