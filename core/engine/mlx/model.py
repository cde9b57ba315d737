"""Models of mlx-lm, loaded from the files of transformers, and the formats of their weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm import utils

from core.base.errors import ModelError
from core.base.language import _
from core.engine.mlx.architectures import left_out
from core.engine.mlx.names import Arrays, Shapes
from core.options.backend_rules import USE_TORCH
from core.options.sources import short_name


def load(folder: Path) -> nn.Module:
    """Loads a model from a folder of transformers, in the formats of its files; its weights are read when needed.

    Raises:
        ModelError: mlx-lm has no such architecture, or the weights don't fit it.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        model, _config = utils.load_model(
            folder, lazy=True, model_config=left_out(config), get_model_classes=_classes
        )
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise ModelError(
            _("{source} can't be loaded with MLX").format(source=short_name(str(folder))),
            _("mlx-lm says: {error}").format(error=error),
            (USE_TORCH,),
        ) from error
    return model


def published(folder: Path) -> Shapes:
    """Returns the shapes of the weights in a folder's files."""
    found: Shapes = {}
    for path in sorted(folder.glob("model*.safetensors")):
        found |= {name: tuple(weight.shape) for name, weight in read(path).items()}
    return found


def read(path: Path) -> Arrays:
    """Opens a safetensors file; its arrays are read when they are needed.

    Raises:
        RuntimeError: It can't be read.
    """
    found: Any = mx.load(str(path))
    arrays: Arrays = found
    return arrays


def _classes(config: dict[str, Any]) -> tuple[Any, Any]:
    """Returns mlx-lm's classes of a model; that of GPT-2 also takes the names that transformers writes."""
    model, arguments = utils._get_classes(config)
    return (_without_prefix(model) if config["model_type"] == "gpt2" else model), arguments


def _without_prefix(model: Any) -> Any:
    class WithoutPrefix(model):
        def sanitize(self, weights: Arrays) -> Arrays:
            named = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
            sanitize: Callable[[Arrays], Arrays] = super().sanitize
            return sanitize(named)

    return WithoutPrefix
