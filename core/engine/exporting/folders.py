"""Model folders: the model as it was trained, or one whole model with its LoRA matrices worked in."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from core.engine.exporting.agreement import EXACT, HALF, MERGED, Tolerance
from core.engine.exporting.networks import network_answers, write_network
from core.engine.exporting.rows import answers
from core.engine.exporting.trained import load_trained, merged
from core.engine.exporting.written import Place, Tell, Written, by_logits
from core.engine.models.past_runs import base_of
from core.engine.models.text_models import read_pretrained
from core.export_offers import ExportSource
from core.exporting import NumberFormat
from core.files import is_link

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "config.json")
BESIDE = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "chat_template.jinja",
    "preprocessor_config.json", "hone.json",
)  # fmt: skip
"""What stands beside the weights. Nothing else is taken along: no pickles, nothing that a stranger has put there."""
FROM_PACKED = (
    "It was trained beside packed weights. Here they are full, as is what it was held against: it answers a little "
    "differently than it did while it trained."
)
DTYPES = {
    NumberFormat.FP32: torch.float32,
    NumberFormat.BF16: torch.bfloat16,
    NumberFormat.FP16: torch.float16,
}


def write_folder(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write a whole model as transformers, or torchvision, loads it.

    Raises:
        ModelError: The model can't be read.
    """
    tolerance = write_whole(source, place, tell)
    task, folder = source.options.task, place.into
    if source.network:
        return Written(by_logits(task, tolerance, lambda rows: network_answers(folder, rows)))
    check = by_logits(task, tolerance, lambda rows: answers(read_pretrained(str(folder), task).eval(), rows))
    return Written(check, notes=(FROM_PACKED,) if source.is_packed else ())


def write_whole(source: ExportSource, place: Place, tell: Tell) -> Tolerance:
    """Write the weights and what stands beside them; returns how far the answers may be from the trained model's."""
    if source.network:
        return write_network(source, place, tell)
    copy_files(source.folder, place.into, BESIDE)
    numbers = numbers_of(source, place)
    if not source.is_adapter and numbers is NumberFormat.AUTO:
        tell("Copying the model")
        copy_files(source.folder, place.into, WEIGHTS)
        return EXACT
    tell("Loading the model")
    model = merged(load_trained(source))
    tell("Writing the model")
    if numbers is not NumberFormat.AUTO:
        model = model.to(DTYPES[numbers])
    _forget_packing(model)
    model.save_pretrained(place.into)
    copy_files(source.folder, place.into, ("generation_config.json",))  # with the ends it has learned
    return HALF.get(numbers, MERGED if source.is_adapter else EXACT)


def numbers_of(source: ExportSource, place: Place) -> NumberFormat:
    """What the weights are written in: for merged ones, unless something is asked for, what they were published in."""
    if place.numbers is not NumberFormat.AUTO or not source.is_adapter or source.network:
        return place.numbers
    from transformers import AutoConfig

    published = getattr(
        AutoConfig.from_pretrained(base_of(source.folder), trust_remote_code=False), "dtype", None
    )
    return next((numbers for numbers, dtype in DTYPES.items() if dtype == published), NumberFormat.FP32)


def copy_files(folder: Path, into: Path, patterns: tuple[str, ...]) -> None:
    """Copy the files of these names that are there; links, which may lead anywhere, are left out."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not is_link(path):
                shutil.copyfile(path, into / path.name)


def change_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None takes one away."""
    told = {**json.loads(path.read_bytes()), **changes}
    kept = {name: value for name, value in told.items() if value is not None or name not in changes}
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _forget_packing(model: Any) -> None:
    """Nothing is packed any more, whatever the config said."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
