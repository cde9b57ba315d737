"""Whether MLX can train the model of a run, found out without its weights."""

from typing import Any

from mlx.utils import tree_flatten

from core.base.errors import ModelError
from core.base.language import _
from core.engine.mlx import architectures, model
from core.engine.mlx.names import constants, is_undone, sanitize
from core.engine.mlx.skeleton import adapted, as_saved, on_meta, places
from core.engine.models.parts import LoraTargetError
from core.engine.models.past_runs import config_in
from core.engine.models.refusals import UNREADABLE
from core.engine.models.text import load_config
from core.options import RunOptions
from core.options.choices import Method
from core.options.packing import packing


def why_not(options: RunOptions) -> str:
    """Returns why MLX can't train the model of a run; empty if it can.

    Raises:
        ModelError: The config can't be loaded.
    """
    config = load_config(options)
    published = (
        config.to_dict()
        if options.starts_random
        else architectures.config_as_published(config_in(options.model.source))
    )
    reason = architectures.why_not(published, options.data.max_length)
    if reason or packing(published.get("quantization")):
        return reason  # quantized weights have the names of mlx-lm
    like, name = on_meta(options, config), published["model_type"]
    if options.model.method is Method.FULL and _is_more_than_text(like):
        return _("mlx-lm has only that part of this {name} model which is for texts").format(name=name)
    shapes = as_saved(like, is_part="text_config" in published and not hasattr(like.config, "text_config"))
    try:
        empty = model.built(published)
        found = sanitize(empty, constants(shapes))
        expected = tree_flatten(empty.parameters())  # of Gemma, sanitize changes the model
        if {one: array.shape for one, array in found.items()} != {
            one: array.shape for one, array in expected
        }:
            return _("mlx-lm expects other weights of this {name} model").format(name=name)
        if options.model.method is not Method.FULL:
            places(empty, adapted(like, options), shapes)
        elif not is_undone(empty, shapes):
            return _("Hone can't undo what mlx-lm does to the weights of this {name} model").format(name=name)
    except LoraTargetError:
        return ""  # no engine can train those
    except ModelError as error:
        return error.title
    except (ValueError, *UNREADABLE) as error:  # mlx-lm checks nothing before it builds a model
        return _("mlx-lm can't build this {name} model: {error}").format(name=name, error=error)
    return ""


def _is_more_than_text(like: Any) -> bool:
    used = {*like.get_decoder().parameters(), *like.get_output_embeddings().parameters()}
    return not used.issuperset(like.parameters())
