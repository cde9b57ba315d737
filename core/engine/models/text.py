"""Text models and tokenizers: from a folder, the Hub, a past run or nothing; safetensors only, no code executed."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from core.base.errors import Fix, ModelError
from core.base.language import _
from core.engine.models.parts import base_of, head_names, owners, packing_arguments
from core.engine.models.past_runs import check_run, config_in, tokenizer_in, weights_in
from core.engine.models.refusals import (
    auto_class,
    check_fits_task,
    check_folder,
    check_language_head,
    check_loaded,
    check_tokenizer,
    check_weights,
    explain_encoding,
    explained,
    fresh_weights,
    short_name,
)
from core.engine.models.scratch import scratch_config, train_tokenizer
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Attention, Method, Task
from core.options.sections import ModelOptions
from core.options.sources import is_scratch
from core.services import hub


def implementation_for(options: ModelOptions, config: Any, model_class: Any = None) -> str:
    """What to load a model with: always said outright, or its config.json would choose.

    sdpa is the default, so a model that has none runs its own in its place; the run states it.

    Args:
        options: What is asked.
        config: The model's.
        model_class: The class it will be; None: that of a classifier of texts.

    Raises:
        ModelError: FlashAttention was asked for by name, and the model has none.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    if model_class is None:
        model_class = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    match options.attention:
        case Attention.SDPA if not model_class._supports_sdpa:
            return Attention.EAGER.value
        case Attention.FLASH_2 | Attention.FLASH_3 if not model_class._supports_flash_attn:
            raise ModelError(
                _("{source} has no {attention}").format(
                    source=short_name(options.source), attention=options.attention
                ),
                _("transformers has not written it for {name}.").format(name=model_class.__name__),
                (Fix(_("Use sdpa"), {"model.attention": "sdpa"}),),
            )
    return options.attention.value


# --- Whether conversations in one packed row see each other


FIRST, SECOND = (1, 2, 3, 4), (5, 6, 7, 8)
"""Two texts of four tokens, which any vocabulary has."""


def leaks_between_packed(model: Any) -> bool:
    """Whether what stands before a conversation in its row changes what the model makes of it.

    transformers draws the borders by `position_ids` that begin anew, where it makes the masks; models with masks or a
    memory of their own, such as recurrent ones, don't heed them. The second text is read alone, behind the first as if
    both were one, and behind it with positions of its own: that has to be as good as alone.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            alone, of_one, behind = (
                _read(model, tokens, positions)[-len(SECOND) :]
                for tokens, positions in (
                    (SECOND, range(4)),
                    ((*FIRST, *SECOND), range(8)),
                    ((*FIRST, *SECOND), (*range(4), *range(4))),
                )
            )
    finally:
        model.train(was_training)
    return bool((behind - alone).abs().max() > 0.1 * (of_one - alone).abs().max())


def _read(model: Any, tokens: Any, positions: Any) -> torch.Tensor:
    device = next(model.parameters()).device
    ids, places = (torch.tensor([list(numbers)], device=device) for numbers in (tokens, positions))
    logits: torch.Tensor = model(input_ids=ids, position_ids=places, use_cache=False).logits[0]
    return logits.float()


def warn_if_packing_leaks(model: Any, reporter: Reporter) -> None:
    """Say so where packing lets conversations see each other."""
    if leaks_between_packed(model):
        reporter.warn(
            "packed-neighbours",
            _("Conversations in one row see each other"),
            _("{name} doesn't heed where one begins: each reads those before it, too.").format(
                name=type(base_of(model)).__name__
            ),
            (Fix(_("Don't pack them"), {"data.packing": False}),),
        )


# --- Configs, tokenizers, models


def load_config(options: RunOptions) -> Any:
    """Read a model's config.

    Raises:
        ModelError: The folder holds no model of texts, or the Hub has none or can't be reached.
    """
    from transformers import AutoConfig

    asked = options.model
    if is_scratch(asked.source):
        config = scratch_config(options)
        check_fits_task(asked.source, config, options.task)
        return config
    check_run(asked.source, options.task)
    if Path(asked.source).is_dir():
        check_folder(Path(asked.source), needs_weights=asked.pretrained)
    with explained(asked.source):
        config = AutoConfig.from_pretrained(config_in(asked.source), trust_remote_code=False)
    check_fits_task(asked.source, config, options.task)
    return config


def tokenizer_for(options: RunOptions, texts: Callable[[], Iterable[str]]) -> Any:
    """The model's tokenizer, which for a model from scratch is trained now.

    Args:
        options: What is asked.
        texts: Called only then: what is trained on, and nothing that is held out, in pieces of any length.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    if is_scratch(options.model.source):
        return train_tokenizer(options, texts())
    return load_tokenizer(options.model.source)


def load_tokenizer(source: str) -> Any:
    """Read a model's tokenizer. A model from scratch has none before a run: see `tokenizer_for`.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    from transformers import AutoTokenizer

    explain_encoding()
    with explained(source, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_in(source), trust_remote_code=False)
    check_tokenizer(source, tokenizer)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def tokenizer_at_hand(source: str) -> Any | None:
    """The model's tokenizer; None where less of a model on the Hub has been fetched so far, and for one from scratch.

    That is looked for among the files: from a config alone, transformers makes a tokenizer that knows no words.

    Raises:
        ModelError: A folder has none, or one that can't be read.
    """
    if is_scratch(source):
        return None
    if Path(tokenizer_in(source)).is_dir():
        return load_tokenizer(source)
    if not hub.names_here(source, hub.Kind.MODEL).keys() - {hub.CONFIG}:
        return None
    try:
        return load_tokenizer(source)
    except ModelError:
        return None


def longest_text(config: Any, tokenizer: Any) -> int:
    """The most tokens the model can see; a huge number where nothing limits it."""
    positions = getattr(config, "max_position_embeddings", None) or 0
    limit: int = tokenizer.model_max_length
    return min(limit, positions) if positions > 0 else limit  # XLNet says -1


@dataclass(frozen=True)
class LoadedModel:
    """A text model with the head of its task. `fresh` names the modules of its body that have no weights to load."""

    model: torch.nn.Module
    fresh: tuple[str, ...] = ()


def set_labels(config: Any, task: Task, labels: tuple[str, ...]) -> None:
    """Give the model's config what its head is to say: labels to tell apart, one number, or nothing of the kind.

    Args:
        config: The model's, changed in place.
        task: What it learns.
        labels: The labels; of no meaning for tasks without.
    """
    if task is Task.TEXT_REGRESSION:
        config.num_labels = 1
        config.problem_type = "regression"
    if not task.has_labels:
        return
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}


def load_model(options: RunOptions, config: Any, labels: tuple[str, ...], tokenizer: Any) -> LoadedModel:
    """Load the model with the head of the task, its weights in fp32, or packed for QLoRA.

    Args:
        options: What is asked.
        config: The model's, from `load_config`.
        labels: What its head tells apart; empty for tasks without labels.
        tokenizer: The model's; None for one that reads no texts.

    Raises:
        ModelError: There are no safe weights, they are damaged, or they don't fit; or it lacks the attention asked for.
    """
    from transformers import set_seed

    set_labels(config, options.task, labels)
    if tokenizer is not None and config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    attention = implementation_for(options.model, config, class_of(config, options.task))
    set_seed(options.training.seed)  # the head's random weights
    with explained(options.model.source):
        if not options.model.pretrained or is_scratch(options.model.source):
            return LoadedModel(random_model(config, options.task, attn_implementation=attention))
        if options.model.method is Method.QLORA:
            return _load_packed(options, config, attn_implementation=attention)
        return _load(options, config, attn_implementation=attention)


def class_of(config: Any, task: Task) -> Any:
    """The class a model with this config and the head of `task` has; the first where there are several."""
    found = auto_class(task)._model_mapping[type(config)]
    return found[0] if isinstance(found, tuple | list) else found


def random_model(config: Any, task: Task, **more: Any) -> torch.nn.Module:
    """Build the model with random weights; under `torch.device("meta")` with none at all, in milliseconds.

    Args:
        config: Its config.
        task: Decides its head.
        more: Arguments for transformers' `from_config`.
    """
    # Said outright: left to itself, transformers would ask on the terminal whether to run a model's own code.
    model: torch.nn.Module = auto_class(task).from_config(
        config, dtype=torch.float32, trust_remote_code=False, **more
    )
    return model


def read_pretrained(source: str, task: Task, config: Any = None, **more: Any) -> Any:
    """What transformers' `from_pretrained` makes of a folder, or an id on the Hub, with weights in fp32.

    Raises:
        ModelError: There are no safe weights, or they can't be read.
    """
    from transformers import AutoConfig

    check_weights(source)
    with explained(source):
        config = config or AutoConfig.from_pretrained(source, trust_remote_code=False)
        vars(config).pop("transformers_weights", None)  # may name any file of the folder, pickled ones too
        return auto_class(task).from_pretrained(
            source,
            config=config,
            dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
            use_safetensors=True,
            trust_remote_code=False,
            **more,
        )


def _load(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    source = options.model.source
    model, info = read_pretrained(
        weights_in(source),
        options.task,
        config,
        ignore_mismatched_sizes=True,  # a checkpoint with a head for other labels gets a fresh one
        output_loading_info=True,
        **more,
    )
    check_loaded(source, model, info)
    if options.task.writes_text:
        check_language_head(source, model, info)
    return LoadedModel(model, owners(fresh_weights(model, info)))


def _load_packed(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    """Load with packed weights, but for the head and for what has none in the checkpoint: these learn."""
    with torch.device("meta"):
        heads = head_names(random_model(copy.deepcopy(config), options.task))
    loaded = _load(options, copy.deepcopy(config), **packing_arguments(options, heads), **more)
    if loaded.fresh:
        loaded = _load(options, config, **packing_arguments(options, (*heads, *loaded.fresh)), **more)
    return loaded
