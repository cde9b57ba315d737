"""Loads the trained model of a run with MLX to try it, or the one before, as `core.engine.generate.loading` does."""

from functools import partial

import mlx.core as mx
from mlx.utils import tree_flatten

from core.engine.devices.memory import ceiling_of
from core.engine.generate.loading import TriedModel, require_model, stop_as_learned
from core.engine.mlx import model as models
from core.engine.mlx.build import cast_weights, folder_of, hold, resolve
from core.engine.mlx.generate import Answers
from core.engine.mlx.losses import without_adapter
from core.engine.mlx.memory import MlxMemory
from core.engine.mlx.skeleton import add_adapter, set_magnitudes, without_weights
from core.engine.models.past_runs import base_of, with_adapter
from core.engine.models.pretrained import load_tokenizer
from core.engine.models.text import load_config
from core.jobs.chat import Which
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Precision
from core.options.past_runs import holds_adapter
from core.options.sources import Scheme
from core.runs.folder import RunFolder
from core.runs.models import name_of


def load_model(run: RunFolder, options: RunOptions, which: Which, why: str) -> TriedModel:
    """Loads a model of `run` in the formats of its training, with its `inference_options`; `why` with MLX.

    Raises:
        ModelError: It is missing, damaged, or isn't on this computer.
        DeviceError: This computer can't run it.
    """
    require_model(run)
    resolved = resolve(options, why)
    options, own = resolved.options, Scheme.RUN.of(str(run.path.absolute()))
    has_adapter, source = holds_adapter(run.model), options.model.source
    if has_adapter:
        source = base_of(run.model)
    elif which is Which.TRAINED:
        source = own
    tokenizer, folder = load_tokenizer(own), folder_of(source)
    asked = with_changes(options, {"model.source": source, "model.method": "full"})
    like = without_weights(asked, load_config(asked), tokenizer)
    stop_as_learned(like, run)
    model = models.load(folder)
    hold(model, options)
    if has_adapter and which is Which.TRAINED:
        set_magnitudes(model, add_adapter(model, with_adapter(like, run.model), models.published(folder)))
    if (
        options.model.method is Method.FULL and resolved.precision is Precision.BF16
    ):  # as while it was trained
        cast_weights(model, mx.bfloat16)
    weights = sum(array.nbytes for _name, array in tree_flatten(model.parameters()))
    MlxMemory(resolved.kind, ceiling_of(resolved)).limit(weights)
    mx.eval(model.parameters())
    model.eval()
    tried = TriedModel(
        model=like,
        name=name_of(run, options, which),
        options=options,
        resolved=resolved,
        tokenizer=tokenizer,
        write_answer=Answers(model),
    )
    if has_adapter and which is Which.TRAINED:  # each keeps keys and values of its own
        return tried.with_before(run, switched=partial(without_adapter, model), write_answer=Answers(model))
    return tried
