"""Models of mlx-lm, loaded from the files of transformers, and the formats of their weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from huggingface_hub import split_state_dict_into_shards_factory
from mlx import nn
from mlx_lm import utils
from mlx_lm.models import gemma3_text

from core.base.errors import ModelError
from core.base.language import _
from core.engine.mlx.architectures import Config, left_out, read_config
from core.engine.mlx.names import Arrays, Shapes
from core.engine.models import refusals
from core.options import hub
from core.options.backend_rules import USE_TORCH
from core.options.sources import INDEX, short_name

UNFIT = (
    *(ValueError, TypeError, LookupError, ArithmeticError),
    *(AttributeError, AssertionError, NotImplementedError),
)
"""What mlx-lm raises for a config or weights that it doesn't expect; for damaged files it raises RuntimeErrors."""


def load(folder: Path) -> nn.Module:
    """Loads a model from a folder of transformers, in the formats of its files; its weights are read when needed.

    Raises:
        ModelError: mlx-lm has no such architecture, the weights are damaged or don't fit it, or there are others
            beside them.
    """
    if others := {path.name for path in folder.glob("model*.safetensors")}.difference(_files(folder)):
        raise ModelError(
            _("{source} can't be loaded with MLX").format(source=short_name(str(folder))),
            _("mlx-lm would also read {files}, which are no part of the model. Move them elsewhere.").format(
                files=", ".join(sorted(others))
            ),
            (USE_TORCH,),
        )
    with refusals.explained(str(folder)):
        try:
            model, _config = utils.load_model(
                folder, lazy=True, model_config=read_config(folder), get_model_classes=_classes
            )
        except UNFIT as error:
            raise ModelError(
                _("{source} can't be loaded with MLX").format(source=short_name(str(folder))),
                _("mlx-lm says: {error}").format(error=refusals.in_short(error)),
                (USE_TORCH,),
            ) from error
    return exactly_scaled(model)


def built(config: Config) -> nn.Module:
    """Builds a model without weights: none of its random numbers is drawn before it is needed.

    Args:
        config: What is in its config.json.
    """
    whole = {**config, **left_out(config)}
    model, arguments = _classes(whole)
    made: nn.Module = model(arguments.from_dict(whole))
    return made


def exactly_scaled(model: nn.Module) -> nn.Module:
    """Returns a model whose embeddings have transformers' scale in fp32: for Gemma 3, mlx-lm rounds it to bf16."""
    for part in model.modules():
        if isinstance(part, gemma3_text.Gemma3Model) and type(part.embed_tokens) is nn.Embedding:
            exact = part.args.hidden_size**0.5
            part.embed_tokens.factor = exact / mx.array(exact, mx.bfloat16).item()
            part.embed_tokens.__class__ = ScaledEmbedding
    return model


class ScaledEmbedding(nn.Embedding):
    """Embeddings that are multiplied by `factor` in fp32; it is none of the weights."""

    factor: float

    def __call__(self, ids: mx.array) -> mx.array:
        found: mx.array = super().__call__(ids)
        return found * self.factor if found.dtype == mx.float32 else found


def published(folder: Path) -> Shapes:
    """Returns the shapes of the weights in a folder's files."""
    return {name: tuple(weight.shape) for name, weight in sorted(read_all(folder).items())}


def read_all(folder: Path) -> Arrays:
    """Opens the files of a model's weights, as `read` does."""
    return {name: weight for file in _files(folder) for name, weight in read(folder / file).items()}


def _files(folder: Path) -> list[str]:
    return hub.weights(path.name for path in folder.iterdir())


def read(path: Path) -> Arrays:
    """Opens a safetensors file; its arrays are read when they are needed.

    Raises:
        RuntimeError: It can't be read.
    """
    found: Any = mx.load(str(path))
    arrays: Arrays = found
    return arrays


SHARD = 5 * 10**9
"""Bytes of a file of weights, as of huggingface_hub and mlx-lm."""


def write(weights: Arrays, folder: Path, most: int = SHARD) -> None:
    """Writes weights as transformers does: `most` bytes to a file, each of which is taken from `weights` by then."""
    parts = split_state_dict_into_shards_factory(
        weights,
        get_storage_size=lambda weight: weight.nbytes,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=most,
    )
    for file, names in parts.filename_to_tensors.items():
        part = {name: weights.pop(name) for name in names}
        mx.save_safetensors(str(folder / file), part, metadata={"format": "pt"})
        del part
    if parts.is_sharded:
        index = {"metadata": parts.metadata, "weight_map": parts.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")


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
