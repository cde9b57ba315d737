"""LoRA adapters alone, and what they are to be used with."""

from dataclasses import replace
from pathlib import Path

from core.engine.exporting.agreement import EXACT
from core.engine.exporting.folders import BESIDE, WEIGHTS, change_json, copy_files
from core.engine.exporting.rows import answers
from core.engine.exporting.trained import load_trained
from core.engine.exporting.written import Place, Tell, Written, by_logits
from core.engine.models.past_runs import BASE
from core.export_offers import ExportSource, base_name, is_on_hub

FILES = ("adapter_config.json", "adapter_model.safetensors", "config.json", *BESIDE)


def write_adapter(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Copy the matrices, and the model they were trained beside where nobody else has it: a past run's.

    Raises:
        ModelError: The adapter, or what it belongs to, can't be read.
    """
    tell("Copying the adapter")
    copy_files(source.folder, place.into, FILES)
    if (place.into / "config.json").is_file():
        change_json(place.into / "config.json", quantization_config=None)
    note = _name_base(source, place)
    exported = replace(source, folder=place.into)
    check = by_logits(source.options.task, EXACT, lambda rows: answers(load_trained(exported), rows))
    return Written(check, notes=(note,) if note else ())


def _name_base(source: ExportSource, place: Place) -> str:
    """Have the adapter name what it belongs to by where that will be; returns what a person should know of it."""
    base = base_name(source.folder)
    if (source.folder / BASE).is_dir():
        (place.into / BASE).mkdir()
        copy_files(source.folder / BASE, place.into / BASE, (*WEIGHTS, *BESIDE))
        base = str(place.target / BASE)
        change_json(place.into / "adapter_config.json", base_model_name_or_path=base)
        return f"It was trained beside the model of a past run, which lies in {BASE}/; moved, it has to name that anew."
    if is_on_hub(base) or not Path(base).is_absolute():
        return ""
    return f"It belongs to the model in {base}: whoever else uses it needs that model, too."
