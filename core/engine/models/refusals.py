"""Why a model can't be used: checks before its files are opened, and what libraries raise in plain words."""

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
from core.base.errors import Fix, ModelError, why
from core.base.formats import capitalized, paragraph
from core.base.language import _
from core.engine.devices.computing import is_out_of_memory
from core.options import hub, sources
from core.options.choices import Backend, Method, Task
from core.options.packing import packing
from core.options.past_runs import is_run, model_folder
from core.options.sources import ADAPTER, INDEX, RANDOM_WEIGHTS, Lack, names_safe_parts, what_lacks

LOADING_ERRORS = (OSError, ValueError, KeyError, ImportError, StrictDataclassError, SafetensorError)
"""What transformers raises for a model that is missing, damaged or of another kind; network errors are OSErrors."""
UNREADABLE = (RuntimeError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What building a model or tokenizer raises if its files describe it wrongly."""


class NotFetched(ModelError):  # noqa: N818 - nothing is wrong with it
    """A model on the Hub isn't there, isn't open to all, or isn't in the cache while offline."""


def short_name(source: str) -> str:
    """Returns the name of a model's folder or past run, or its id on the Hub."""
    return sources.short_name(source) if Path(source).is_dir() or is_run(source) else source


# --- Files


def check_folder(folder: Path, *, needs_weights: bool) -> None:
    """Checks which files there are before any of them is read.

    Raises:
        ModelError: There is no config.json, or there are no weights that can be opened safely.
    """
    name = sources.short_name(str(folder))
    try:
        lack = what_lacks(folder, needs_weights=needs_weights)
    except OSError as error:
        raise ModelError(_("{name} can't be read").format(name=name), f"{folder}: {why(error)}") from error
    if lack is Lack.SAFE_WEIGHTS:
        raise only_pickled_weights(name, str(folder))
    if lack is not None:
        raise _incomplete(name, lack, folder)


def _incomplete(name: str, lack: Lack, folder: Path) -> ModelError:
    fixes = (RANDOM_WEIGHTS,) if lack in (Lack.WEIGHTS, Lack.PARTS) else ()
    detail = lack.value.format(folder=folder)
    detail = paragraph(capitalized(detail))
    return ModelError(_("{name} is not a complete model").format(name=name), detail, fixes)


def check_weights(source: str) -> None:
    """Makes sure that transformers opens safetensors files only of a folder, or of an id on the Hub.

    Raises:
        ModelError: It would open others, or there are none.
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
        raise _incomplete(source, Lack.ALL_BUT_ADAPTER, Path(source))
    if index is not None and not names_safe_parts(Path(index)):
        raise only_pickled_weights(source, source)


def only_pickled_weights(name: str, where: str) -> ModelError:
    return ModelError(
        _("{name} has only pickled weights").format(name=name),
        _(
            "The weights of {where} are in a format that can run code when opened, so Hone doesn't open them. Use "
            "a copy of the model with .safetensors files."
        ).format(where=where),
        (RANDOM_WEIGHTS,),
    )


# --- Errors of libraries


@contextlib.contextmanager
def explained(source: str, part: str = "model", *, builds: bool = False) -> Iterator[None]:
    """Turns what libraries raise while they read or build the model `source` into a ModelError.

    `part` is `model` or `tokenizer`; `builds`: the model is only built from its config, without weights.

    Raises:
        ModelError: It can't be read or built; an error that may be a bug is printed to the log.
    """
    pace = Pace.QUICK if builds or part == "tokenizer" else Pace.SLOW
    is_local = builds or (model_folder(source) or Path(source)).is_dir()
    place = _("The tokenizer {source}") if part == "tokenizer" else _("The model {source}")
    try:
        with reading(place.format(source=source), pace if is_local else Pace.OPEN):
            yield
    except LOADING_ERRORS as error:
        raise not_loaded(source, error, part) from error
    except BaseException as error:
        of_files = isinstance(error, UNREADABLE) and not is_out_of_memory(error) and not _of_device(error)
        if not of_files and not _of_tokenizers(error):
            raise
        traceback.print_exc(file=sys.stderr)
        raise not_loaded(source, error, part) from error


def not_loaded(source: str, error: BaseException, part: str = "model") -> ModelError:
    """Returns the error for what a library raised while it read the model or tokenizer at `source`."""
    text, reason, name = str(error), in_short(error), short_name(source)
    if "trust_remote_code" in text:
        return ModelError(
            _("{source} needs its own code to run").format(source=name),
            _("Hone doesn't run code that comes with a model ({source}).").format(source=source),
            (sources.ANOTHER_MODEL,),
        )
    if isinstance(error, ImportError):
        return ModelError(
            _("{source} needs a library that Hone doesn't have").format(source=name),
            f"{source}: {reason}",
            (Fix(_("Choose another model, or the same one with plain weights")),),
        )
    if (model_folder(source) or Path(source)).is_dir():
        title = _("The model in {source} can't be loaded")
        if part == "tokenizer":
            title = _("The tokenizer in {source} can't be loaded")
        return ModelError(
            title.format(source=name),
            f"{source}: {reason}",
            (Fix(_("Copy it again from its source, or choose another model")),),
        )
    if "does not appear to have a file named model.safetensors" in text:
        return only_pickled_weights(source, source)
    if isinstance(error, OSError) and hub.is_forbidden():
        forbidden = hub.not_here(source)
        return NotFetched(forbidden.title, forbidden.detail, (sources.ANOTHER_MODEL, *forbidden.fixes))
    detail = _("The model doesn't exist, or needs a login. ({reason})").format(reason=reason)
    if "connect" in reason:
        detail = _("This computer can't reach {host}. Models that are on it work offline.")
        detail = detail.format(host=hub.host())
    title = _("{source} can't be downloaded from the Hugging Face Hub").format(source=source)
    return NotFetched(title, detail, (sources.ANOTHER_MODEL,))


def in_short(error: BaseException) -> str:
    """Returns the first two lines of an error; with its type if that is a single word."""
    text = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
    return text if " " in text else f"{type(error).__name__} {text}".strip()


def _of_tokenizers(error: BaseException) -> bool:
    """Returns whether the library `tokenizers` raised it: a bare Exception, or a panic, which isn't even one."""
    return type(error) is Exception or type(error).__name__ == "PanicException"


def _of_device(error: Exception) -> bool:
    """Returns whether a device or its libraries failed, not the files; torch has classes for few of these errors."""
    pattern = r"\b(cuda|hip|mps|xpu|nccl|cu(dnn|blas)\w*|bitsandbytes)\b|^\[metal"
    return isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and re.search(pattern, str(error), re.IGNORECASE) is not None
    )


@functools.cache
def explain_encoding() -> None:
    """Has every tokenizer raise a ModelError where it fails to encode a text, wherever that happens."""
    from transformers import PreTrainedTokenizerFast

    encode: Callable[..., Any] = PreTrainedTokenizerFast._encode_plus

    @functools.wraps(encode)
    def explaining(self: Any, *args: Any, **kwargs: Any) -> Any:
        source = self.name_or_path
        try:
            with reading(_("The tokenizer of {source}").format(source=short_name(source)), Pace.QUICK):
                return encode(self, *args, **kwargs)
        except BaseException as error:
            if not _of_tokenizers(error):
                raise
            raise ModelError(
                _("The tokenizer of {source} fails on a text").format(source=short_name(source)),
                _("tokenizer.json in {source}: {reason}. Copy it again, or choose another model.").format(
                    source=source, reason=in_short(error)
                ),
            ) from error

    PreTrainedTokenizerFast._encode_plus = explaining  # type: ignore[method-assign]


# --- Whether a model fits its task


def auto_class(task: Task) -> Any:
    """Returns the class of transformers that loads a model with the head of `task`."""
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
    """Raises a ModelError where transformers has no model of this architecture for `task`."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    if type(config) not in auto_class(task)._model_mapping:
        detail = _("transformers has no “{model_type}” model for this task.")
    elif (
        task.writes_text
        and type(config) in MODEL_FOR_MASKED_LM_MAPPING
        and not getattr(config, "is_decoder", False)
    ):
        detail = _("“{model_type}” is an encoder; this task needs a causal language model.")
    else:
        return
    if task.reads_images:
        example = _("Choose a vision model, such as torchvision:resnet18")
    elif task.writes_text:
        example = _("Choose a causal language model, such as gpt2")
    else:
        example = _("Choose a text model, such as bert-base-cased")
    raise ModelError(
        _("{source} can't be trained for “{task}”").format(source=short_name(source), task=task.label),
        detail.format(model_type=config.model_type),
        (Fix(example),),
    )


def check_quantized(source: str, config: Any, backend: Backend, method: Method) -> None:
    """Raises a ModelError for weights in MLX's quantized formats: only MLX reads them, and only adapters learn."""
    packed, name = packing(getattr(config, "quantization", None)), short_name(source)
    if packed is None:
        return
    bits = packed.bits
    if is_run(source):
        raise ModelError(
            _("A new run can't go on from {source}").format(source=name),
            _("Its adapter can't be merged into {bits}-bit weights, on which it was trained.").format(
                bits=bits
            ),
            (Fix(_("Train that run longer, or start from the model it started from")),),
        )
    if backend is Backend.MLX:
        if method is not Method.FULL:
            return
        raise ModelError(
            _("The weights of {source} are quantized").format(source=name),
            _("{bits}-bit weights can't learn themselves; an adapter can be trained on them.").format(
                bits=bits
            ),
            (Fix(_("Train LoRA"), {"model.method": "lora"}),),
        )
    raise ModelError(
        _("{source} is quantized for MLX").format(source=name),
        _("PyTorch can't read its {bits}-bit weights.").format(bits=bits),
        (
            Fix(
                _("Choose the same model with plain weights; with MLX, an adapter can be trained on this one")
            ),
        ),
    )


MOST_LAYERS = 2000
"""Building each takes a few milliseconds; the deepest published transformer has 1,000 (arXiv 2203.00555)."""
_LAYERS = re.compile(r"(layers?|depths?)$")
"""Names of numbers of layers in configs, unlike `vocab_size_per_layer_input` of Gemma 3n."""


def check_depth(source: str, config: Any) -> None:
    """Raises a ModelError for a config of more layers than any model has: building them would take minutes."""
    for name, value in (vars(config) | vars(config.get_text_config())).items():
        numbers = value if isinstance(value, list | tuple) else (value,)
        if _LAYERS.search(name) and any(
            isinstance(number, int) and number > MOST_LAYERS for number in numbers
        ):
            raise ModelError(
                _("{source} has more than {most:,} layers").format(
                    source=short_name(source), most=MOST_LAYERS
                ),
                _("config.json of {source}: {name} is {value}.").format(
                    source=source, name=name, value=f"{value}"[:60]
                ),
                (sources.ANOTHER_MODEL,),
            )


def check_tokenizer(source: str, tokenizer: Any) -> None:
    """Raises a ModelError for a tokenizer without its files, which has special tokens only."""
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ModelError(
            _("{source} has no tokenizer").format(source=short_name(source)),
            _(
                "{source}: tokenizer.json (or vocab.txt, or tokenizer.model) is missing or empty. Copy it from "
                "where the model is from."
            ).format(source=source),
        )


def check_word_ids(source: str, tokenizer: Any) -> None:
    """Raises a ModelError for a tokenizer written in Python, which can't map tokens to words."""
    if not tokenizer.is_fast:
        raise ModelError(
            _("The tokenizer of {source} can't map tokens to words").format(source=short_name(source)),
            _("{source}: token classification needs a fast tokenizer (tokenizer.json).").format(
                source=source
            ),
            (Fix(_("Choose a model with a tokenizer.json, such as bert-base-cased")),),
        )


def check_loaded(source: str, model: Any, info: dict[str, Any]) -> None:
    """Raises a ModelError if more than half of the weights of the model's body were not in the checkpoint.

    `info` is transformers' `output_loading_info`: names of weights that were missing or of another shape.
    """
    body = _body(model)
    missing = fresh_weights(model, info)
    if len(missing) > len(body) / 2:
        raise ModelError(
            _("The weights of {source} belong to another model").format(source=short_name(source)),
            _(
                "{source}: {missing} of {total} weights that config.json describes are missing or have another "
                "shape; the first is {first}."
            ).format(source=source, missing=len(missing), total=len(body), first=missing[0]),
            (RANDOM_WEIGHTS,),
        )


def check_language_head(source: str, model: Any, info: dict[str, Any]) -> None:
    """Raises a ModelError if the checkpoint has no weights for the language modeling head; `info` as above."""
    prefix = f"{model.base_model_prefix}."
    missing = sorted(name for name in _not_loaded(info) if not name.startswith(prefix))
    if missing:
        raise ModelError(
            _("{source} has no language modeling head").format(source=short_name(source)),
            _("{source}: there are no weights for {name}. It is an encoder or a classifier.").format(
                source=source, name=missing[0]
            ),
            (Fix(_("Choose the model it was made from")),),
        )


def fresh_weights(model: Any, info: dict[str, Any]) -> list[str]:
    """Returns names of the weights of the model's body that are random; `info` as in `check_loaded`."""
    fresh = _not_loaded(info)
    return [name for name in _body(model) if name in fresh]


def _not_loaded(info: dict[str, Any]) -> set[str]:
    return {*info["missing_keys"], *(name for name, *_rest in info["mismatched_keys"])}


def _body(model: Any) -> list[str]:
    prefix = f"{model.base_model_prefix}."
    return [name for name, _rest in model.named_parameters() if name.startswith(prefix)]
