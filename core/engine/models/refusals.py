"""Why a text model can't be used, in words a person can act on: what is looked at before, what libraries raise."""

import contextlib
import functools
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from core.base.ceiling import Pace, reading
from core.base.errors import Fix, ModelError
from core.base.language import _
from core.engine.training.failures import is_out_of_memory
from core.options import sources
from core.options.choices import Task
from core.options.past_runs import is_run, model_folder
from core.options.sources import ADAPTER, INDEX, RANDOM_WEIGHTS, Lack, names_safe_parts, what_lacks
from core.services import hub

LOADING_ERRORS = (OSError, ValueError, KeyError, ImportError, StrictDataclassError, SafetensorError)
"""What transformers raises for a model that is missing, damaged or foreign. Hub and network errors are OSErrors."""
UNREADABLE = (RuntimeError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What comes out of building a model, or a tokenizer, that its files describe wrongly; also of nesting too deep."""


class NotFetched(ModelError):  # noqa: N818 - nothing is wrong with it
    """A model on the Hub can't be had: not there, not open to all, or not in the cache while offline."""


def check_folder(folder: Path, *, needs_weights: bool) -> None:
    """Look at the files before any of them is read.

    Raises:
        ModelError: It can't be looked into, or there is no config.json, or no weights that can be opened safely.
    """
    name = sources.short_name(str(folder))
    try:
        lack = what_lacks(folder, needs_weights=needs_weights)
    except OSError as error:
        raise ModelError(
            _("{name} can't be looked into").format(name=name), f"{folder}: {error.strerror}"
        ) from error
    if lack is Lack.CONFIG:
        inside = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ModelError(
            _("{name} is not a model folder").format(name=name),
            _("{lack} It holds: {inside}.").format(lack=_told(lack, folder), inside=inside),
        )
    if lack is Lack.SAFE_WEIGHTS:
        raise only_pickled_weights(name, str(folder))
    if lack is not None:
        fixes = (RANDOM_WEIGHTS,) if lack in (Lack.WEIGHTS, Lack.PARTS) else ()
        raise ModelError(f"{name} {TITLE[lack]}", _told(lack, folder), fixes)


TITLE = {
    Lack.KIND: _("is not a model folder"),
    Lack.ALL_BUT_ADAPTER: _("holds LoRA matrices without their model"),
    Lack.WEIGHTS: _("has no weights"),
    Lack.PARTS: _("names weights that can't be loaded"),
}


def _told(lack: Lack, folder: Path) -> str:
    said = lack.value.format(folder=folder)
    return f"{said[:1].upper()}{said[1:]}."


def check_weights(source: str) -> None:
    """Stop before transformers opens weights that aren't in model.safetensors or the parts its index names.

    Args:
        source: A folder, or an id on the Hub.

    Raises:
        ModelError: Others would be opened, or there are none.
    """
    if Path(source).is_dir():
        check_folder(Path(source), needs_weights=True)
        return
    from transformers.utils import cached_file

    with explained(source):
        adapter, index = (
            cached_file(source, name, _raise_exceptions_for_missing_entries=False)
            for name in (ADAPTER, INDEX)
        )
    if adapter is not None:
        raise ModelError(f"{source} {TITLE[Lack.ALL_BUT_ADAPTER]}", _told(Lack.ALL_BUT_ADAPTER, Path(source)))
    if index is not None and not names_safe_parts(Path(index)):
        raise only_pickled_weights(source, _("{source} on the Hugging Face Hub").format(source=source))


@contextlib.contextmanager
def explained(source: str, part: str = "model", *, builds: bool = False) -> Iterator[None]:
    """Turn what libraries raise while they read or build the model at `source` into what a person can act on.

    Args:
        source: A folder, or an id on the Hub.
        part: What is read of it.
        builds: Whether a model without numbers is built of its config, and nothing else.

    Raises:
        ModelError: It can't be read or built; what reads like a bug is in the log, too.
    """
    pace = Pace.QUICK if builds or part == "tokenizer" else Pace.SLOW
    is_here = builds or (model_folder(source) or Path(source)).is_dir()
    place = (
        _("Building {source} from its config").format(source=source)
        if builds
        else _("The {part} {source}").format(part=part, source=source)
    )
    try:
        with reading(place, pace if is_here else Pace.OPEN):
            yield
    except LOADING_ERRORS as error:
        raise not_loaded(source, error, part) from error
    except BaseException as error:
        is_files = (
            isinstance(error, UNREADABLE) and not is_out_of_memory(error) and not _is_of_accelerator(error)
        )
        if not is_files and not is_of_tokenizers(error):
            raise
        traceback.print_exc(file=sys.stderr)
        raise not_loaded(source, error, part) from error


def is_of_tokenizers(error: BaseException) -> bool:
    """Whether it is what the library `tokenizers` raises: a bare Exception, or a panic, which isn't even that."""
    return type(error) is Exception or type(error).__name__ == "PanicException"


def _is_of_accelerator(error: Exception) -> bool:
    """Whether a device or its libraries failed, not the files: torch has a class for few of these."""
    is_said = re.search(
        r"\b(cuda|hip|mps|xpu|nccl|cu(dnn|blas)\w*|bitsandbytes)\b", str(error), re.IGNORECASE
    )
    return isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and is_said is not None
    )


@functools.cache
def explain_encoding() -> None:
    """Have it said of which tokenizer a failure is while it encodes a text, wherever that is."""
    from transformers import PreTrainedTokenizerFast

    encode: Callable[..., Any] = PreTrainedTokenizerFast._encode_plus

    @functools.wraps(encode)
    def explaining(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with reading(
                _("A text with the tokenizer of {name_or_path}").format(
                    name_or_path=short_name(self.name_or_path)
                ),
                Pace.QUICK,
            ):
                return encode(self, *args, **kwargs)
        except BaseException as error:
            if not is_of_tokenizers(error):
                raise
            raise ModelError(
                _("The tokenizer of {name_or_path} fails on a text").format(
                    name_or_path=short_name(self.name_or_path)
                ),
                f"tokenizer.json in {self.name_or_path}: {_in_short(error)}. Copy it again from where the model is "
                "from, or choose another model.",
            ) from error

    PreTrainedTokenizerFast._encode_plus = explaining


def only_pickled_weights(name: str, where: str) -> ModelError:
    """The error for weights that nobody should open."""
    return ModelError(
        _("{name} has only pickled weights").format(name=name),
        _(
            "The weights in {where} are in a format that can run code when opened, so Hone "
            "doesn't open them. "
            "Use a copy of the model with .safetensors files."
        ).format(where=where),
        (RANDOM_WEIGHTS,),
    )


FORMS = {
    Task.TEXT_CLASSIFICATION: (_("classify texts"), _("a text model, such as bert-base-cased")),
    Task.TEXT_REGRESSION: (_("score texts"), _("a text model, such as bert-base-cased")),
    Task.TOKEN_CLASSIFICATION: (_("label words"), _("a text model, such as bert-base-cased")),
    Task.CAUSAL_LM: (_("write texts"), _("a causal language model, such as gpt2")),
    Task.CHAT: (_("write texts"), _("a causal language model, such as gpt2")),
    Task.PREFERENCE: (_("write texts"), _("a causal language model, such as gpt2")),
    Task.IMAGE_CLASSIFICATION: (_("classify images"), _("a vision model, such as torchvision:resnet18")),
}
"""What a model that doesn't fit the task can't do, and one that does."""


def auto_class(task: Task) -> Any:
    """The class of transformers that loads a model with the head of `task`."""
    import transformers

    match task:
        case Task.TEXT_CLASSIFICATION | Task.TEXT_REGRESSION:
            return transformers.AutoModelForSequenceClassification
        case Task.TOKEN_CLASSIFICATION:
            return transformers.AutoModelForTokenClassification
        case Task.CAUSAL_LM | Task.CHAT | Task.PREFERENCE:
            return transformers.AutoModelForCausalLM
        case Task.IMAGE_CLASSIFICATION:
            return transformers.AutoModelForImageClassification


def check_fits_task(source: str, config: Any, task: Task) -> None:
    """Stop where transformers has no form of this kind of model for `task`.

    Raises:
        ModelError: It has none: an image model for texts, an encoder that should write, ...
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    lacks, example = FORMS[task]
    reads_both_sides = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(
        config, "is_decoder", False
    )
    why = ""
    if type(config) not in auto_class(task)._model_mapping:
        why = _("which has no form for {label}.").format(label=task.label.lower())
    elif task.writes_text and reads_both_sides:
        why = "which reads a text from both sides; to continue texts it would have to see only what comes before."
    if why:
        raise ModelError(
            _("{source} can't {lacks}").format(source=short_name(source), lacks=lacks),
            _("{source} is a model of the kind “{model_type}”, {why}").format(
                source=source, model_type=config.model_type, why=why
            ),
            (Fix(_("Choose {example}").format(example=example)),),
        )


def check_tokenizer(source: str, tokenizer: Any) -> None:
    """Stop where there is a tokenizer in name only: without its files, it comes out with special tokens alone.

    Raises:
        ModelError: It knows no words.
    """
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ModelError(
            _("{source} has no tokenizer").format(source=short_name(source)),
            _(
                "{source} doesn't say how texts become tokens: tokenizer.json (or vocab.txt, or "
                "tokenizer.model) is "
                "missing or empty. Copy it from where the model is from."
            ).format(source=source),
        )


def check_word_ids(source: str, tokenizer: Any) -> None:
    """Stop where a tokenizer can't say which word a token is from.

    Raises:
        ModelError: It is one written in Python.
    """
    if not tokenizer.is_fast:
        raise ModelError(
            _("The tokenizer of {source} can't tell words").format(source=short_name(source)),
            _(
                "{source}: labelling words needs a fast tokenizer (tokenizer.json), which knows the "
                "word of each token. "
                "This one is written in Python."
            ).format(source=source),
            (Fix(_("Choose a model with a tokenizer.json, such as bert-base-cased")),),
        )


def check_loaded(source: str, model: Any, info: dict[str, Any]) -> None:
    """Stop where nearly nothing of the weights found its place: the model would be random without saying so.

    Args:
        source: Where the model is from.
        model: As loaded.
        info: transformers' `output_loading_info`: names of weights that were missing or of another shape.

    Raises:
        ModelError: More than half of the model's body has no weights.
    """
    body = _body(model)
    missing = fresh_weights(model, info)
    if len(missing) > len(body) / 2:
        raise ModelError(
            _("The weights of {source} belong to another model").format(source=short_name(source)),
            f"{source}: {len(missing)} of {len(body)} weights that config.json asks for are missing or have another "
            f"shape; the first is {missing[0]}.",
            (RANDOM_WEIGHTS,),
        )


def check_language_head(source: str, model: Any, info: dict[str, Any]) -> None:
    """Stop where a model that is to write has no weights in the layer that says the next token.

    Args:
        source: Where the model is from.
        model: As loaded.
        info: As in `check_loaded`.

    Raises:
        ModelError: It hasn't: it was made to classify, or is but a part of a model.
    """
    inside = f"{model.base_model_prefix}."
    lost = {*info["missing_keys"], *(name for name, *_rest in info["mismatched_keys"])}
    outside = sorted(name for name in lost if not name.startswith(inside))
    if outside:
        raise ModelError(
            _("{source} has no layer that says the next token").format(source=short_name(source)),
            _(
                "{source}: there are no weights for {outside}. Such a model reads, or was trained to "
                "classify."
            ).format(source=source, outside=outside[0]),
            (Fix(_("Choose the model it was made from")),),
        )


def fresh_weights(model: Any, info: dict[str, Any]) -> list[str]:
    """Names of the weights of the model's body that came out random; `info` as in `check_loaded`."""
    fresh = {*info["missing_keys"], *(name for name, *_rest in info["mismatched_keys"])}
    return [name for name in _body(model) if name in fresh]


def _body(model: Any) -> list[str]:
    return [
        name for name, _rest in model.named_parameters() if name.startswith(f"{model.base_model_prefix}.")
    ]


def not_loaded(source: str, error: BaseException, part: str = "model") -> ModelError:
    """The error for what a library raised while it read the model, or its tokenizer, at `source`."""
    words, why = str(error), _in_short(error)
    if "trust_remote_code" in words:
        return ModelError(
            _("{source} needs its own code to run").format(source=short_name(source)),
            _("Hone doesn't run code that comes with a model ({source}).").format(source=source),
            (Fix(_("Choose another model")),),
        )
    if isinstance(error, ImportError):
        return ModelError(
            _("{source} needs a library that Hone doesn't have").format(source=short_name(source)),
            f"{source}: {why}",
            (Fix(_("Choose another model, or the same one with plain weights")),),
        )
    if (model_folder(source) or Path(source)).is_dir():
        what = _("is damaged") if isinstance(error, SafetensorError) else _("can't be loaded")
        fixes = (Fix(_("Copy it again from where it is from, or choose another model")),)
        return ModelError(
            _("The {part} in {source} {what}").format(part=part, source=short_name(source), what=what),
            f"{source}: {why}",
            fixes,
        )
    if "does not appear to have a file named model.safetensors" in words:
        return only_pickled_weights(source, _("{source} on the Hugging Face Hub").format(source=source))
    if isinstance(error, OSError) and hub.is_forbidden():
        said = hub.not_here(source)
        return NotFetched(
            said.title,
            _("{detail} (The library says: {why})").format(detail=said.detail, why=why),
            said.fixes,
        )
    return NotFetched(
        _("{source} can't be had from the Hugging Face Hub").format(source=source),
        "Either there is no such model there, it needs a login, or this computer is offline. A model used before "
        f"works offline; so does a folder with a model in it. (The library says: {why})",
    )


def _in_short(error: BaseException) -> str:
    """The first two lines of what a library says; its kind too, where that is a bare word."""
    said = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
    return said if " " in said else f"{type(error).__name__} {said}".strip()


def short_name(source: str) -> str:
    """What a model is called: its folder's name, that of its run, or its id on the Hub."""
    return sources.short_name(source) if Path(source).is_dir() or is_run(source) else source
