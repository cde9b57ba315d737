"""The two models of a run that can be tried: what they are called, whether they are there, and how large they are."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.files import open_plain
from core.hub_files import snapshot
from core.hub_questions import Kind
from core.options import RunOptions
from core.run_folder import RunFolder
from core.run_models import holds_adapter, model_folder
from core.run_notes import model_name, title_of
from core.scratch_models import is_scratch
from core.sources import scheme_of
from core.trained_model import WEIGHTS, trained_model
from core.trying import Which

LARGEST_HEADER = 64 << 20
"""A safetensors file begins with its header's length and the header, JSON; a longer one is no file of weights."""
MOST_SIDES = 16
"""No tensor has more; a stranger's file may name so many large ones that counting them would take for ever."""


def name_of(run: RunFolder, options: RunOptions, which: Which) -> str:
    """What a model of a run is called beside its answers."""
    if which is Which.TRAINED:
        title, newest = title_of(run.path, options), trained_model(run)
        return f"{title}, step {newest.step:,}" if newest and newest.has_gone_on else title
    is_untrained = is_scratch(options.model.source) or not options.model.pretrained
    return f"{model_name(options)} (untrained)" if is_untrained else model_name(options)


def lacks_model(run: RunFolder) -> str:
    """Why a run has no trained model to try, in a sentence; empty where it has one."""
    newest = trained_model(run)
    if newest is not None and not newest.is_checkpoint:
        return ""
    if newest is not None:
        return (
            f"Its newest weights are those of its checkpoint of step {newest.step:,}: resume it, and its model is "
            "written when it ends, or export the checkpoint."
        )
    return "It has no model: it hasn't ended yet, or its model was deleted."


def parameters_of(run: RunFolder, options: RunOptions, which: Which) -> int | None:
    """How many weights a model of a run has, told by the headers of its files; None where they aren't to be found."""
    own = count_weights(run.model.glob(WEIGHTS))
    if not holds_adapter(run.model):
        return own or None  # before training, it had as many
    base = _base(run, options)
    found = 0 if base is None else count_weights(base.glob(WEIGHTS))
    if not found:
        return None
    return found + own if which is Which.TRAINED else found


def _base(run: RunFolder, options: RunOptions) -> Path | None:
    """The folder of the model that LoRA matrices were trained beside."""
    kept, source = run.model / "base", options.model.source
    if kept.is_dir():
        return kept
    past = model_folder(source)
    if past is not None:
        return past
    if Path(source).is_dir():
        return Path(source)
    return None if scheme_of(source) else snapshot(source, Kind.MODEL)


def count_weights(files: Iterable[Path]) -> int:
    """How many numbers safetensors files hold."""
    return sum(_numbers(_header(path)) for path in files)


def _header(path: Path) -> dict[str, Any]:
    """What a file says of itself (https://huggingface.co/docs/safetensors); empty where it can't be read."""
    try:
        with open_plain(path) as file:
            length = int.from_bytes(file.read(8), "little")
            found = json.loads(file.read(length)) if length <= LARGEST_HEADER else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(header: dict[str, Any]) -> int:
    total = 0
    for name, tensor in header.items():
        shape = tensor.get("shape") if isinstance(tensor, dict) and name != "__metadata__" else None
        if isinstance(shape, list) and len(shape) <= MOST_SIDES and all(map(_is_side, shape)):
            count = 1
            for side in shape:
                count *= side
            total += count
    return total


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 48
