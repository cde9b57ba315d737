"""The writers of exports that transformers, torchvision, PEFT and Ollama load: model folders and adapters.

Each returns how its export is checked.
"""

import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from core.base.files import is_link
from core.base.language import _
from core.base.processes import command_line
from core.engine.data.chat_tokens import TURN_END, chatml_end, has_chatml
from core.engine.export.verify import (
    EXACT,
    HALF,
    MERGED,
    ExampleBatches,
    ExportTarget,
    Tell,
    Tolerance,
    Written,
    answers,
    by_logits,
    load_base,
    load_trained,
    merged,
)
from core.engine.models.past_runs import BASE, base_of
from core.engine.models.pretrained import read_pretrained
from core.engine.models.vision import PREPROCESSOR, preprocessor, read_recipe
from core.jobs.export import NumberFormat
from core.options.choices import Task
from core.options.sources import Scheme
from core.runs.export_source import ExportSource, base_name, is_on_hub

# --- torchvision's networks


PREFIX = "network."
"""Prefix of the weights' names in a run, whose model is the network inside a module that computes the loss."""


def write_network(source: ExportSource, place: ExportTarget, tell: Tell) -> Tolerance:
    """Writes the weights, `config.json` (architecture, labels, size and colours of images), and the preprocessor.

    Raises:
        ModelError: The model can't be read.
    """
    from safetensors.torch import save_file

    recipe = read_recipe(source.folder)
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    if place.numbers in (NumberFormat.BF16, NumberFormat.FP16):
        model = model.to(torch.bfloat16 if place.numbers is NumberFormat.BF16 else torch.float16)
    state = {name.removeprefix(PREFIX): value.contiguous() for name, value in model.state_dict().items()}
    tell(_("Writing the model"))
    save_file(state, place.into / "model.safetensors", metadata={"format": "pt"})
    config = {
        "library": "torchvision",
        "architecture": Scheme.TORCHVISION.name_of(recipe.architecture),
        "labels": list(recipe.labels),
        "image_size": recipe.image_size,
        "image_mean": list(recipe.mean),
        "image_std": list(recipe.std),
    }
    (place.into / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (place.into / PREPROCESSOR).write_bytes(
        preprocessor(recipe.image_size, recipe.mean, recipe.std, recipe.image_fit)
    )
    return HALF.get(place.numbers, MERGED if source.is_adapter else EXACT)


def network_answers(folder: Path, rows: ExampleBatches) -> list[torch.Tensor]:
    """Returns the logits of an exported network, loaded as in its card."""
    import torchvision
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_bytes())
    model = torchvision.models.get_model(
        config["architecture"], weights=None, num_classes=len(config["labels"])
    )
    model.load_state_dict(load_file(folder / "model.safetensors"))
    model.eval()
    with torch.no_grad():
        return [model(row.inputs["pixel_values"])[0] for row in rows.rows]


# --- Model folders: the model as it was trained


WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "config.json")
BESIDE = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "chat_template.jinja",
    "preprocessor_config.json", "hone.json",
)  # fmt: skip
"""Files besides the weights. Nothing else is copied: no pickles, no untrusted files."""
IN_FORMAT = _(
    "The adapter was merged in fp32 into the weights of its base model as they are stored, even if the run held "
    "them with fewer bits, and written in {numbers}."
)
OF_BITS = _(
    "The weights of its base model have {bits} bits. The adapter was merged in fp32 into the numbers that they stand "
    "for, and written in {numbers}."
)
DTYPES = {
    NumberFormat.FP32: torch.float32,
    NumberFormat.BF16: torch.bfloat16,
    NumberFormat.FP16: torch.float16,
}


def write_folder(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes a whole model as transformers, or torchvision, loads it.

    Raises:
        ModelError: The model can't be read.
    """
    tolerance = write_whole(source, place, tell)
    task, folder = source.options.task, place.into
    notes = merge_notes(source, place)
    if source.network:
        return Written(by_logits(task, tolerance, lambda rows: network_answers(folder, rows)), notes=notes)
    check = by_logits(task, tolerance, lambda rows: answers(read_pretrained(str(folder), task).eval(), rows))
    return Written(check, notes=notes)


def merge_notes(source: ExportSource, place: ExportTarget) -> tuple[str, ...]:
    """Tells how an adapter was merged into its base model; nothing of a model that was trained whole."""
    numbers = numbers_of(source, place)
    if numbers is NumberFormat.AUTO:
        numbers = NumberFormat.FP32
    note = OF_BITS if source.bits else IN_FORMAT
    return (note.format(numbers=numbers, bits=source.bits),) if source.is_adapter else ()


def write_whole(source: ExportSource, place: ExportTarget, tell: Tell) -> Tolerance:
    """Writes the weights and the files besides them; returns how far its logits may be from the trained model's."""
    if source.network:
        return write_network(source, place, tell)
    copy_files(source.folder, place.into, BESIDE)
    numbers = numbers_of(source, place)
    if not source.is_adapter and numbers is NumberFormat.AUTO:
        tell(_("Copying the model"))
        copy_files(source.folder, place.into, WEIGHTS)
        return EXACT
    tell(_("Loading the model"))
    model = merged(load_trained(source))
    tell(_("Writing the model"))
    if numbers is not NumberFormat.AUTO:
        model = model.to(DTYPES[numbers])
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(place.into)
    copy_files(source.folder, place.into, ("generation_config.json",))  # with the end tokens it has learned
    return HALF.get(numbers, MERGED if source.is_adapter else EXACT)


def numbers_of(source: ExportSource, place: ExportTarget) -> NumberFormat:
    """Returns the format of the weights; by default, merged ones are written as the base was published."""
    if place.numbers is not NumberFormat.AUTO or not source.is_adapter or source.network:
        return place.numbers
    from transformers import AutoConfig

    published = getattr(
        AutoConfig.from_pretrained(base_of(source.folder), trust_remote_code=False), "dtype", None
    )
    return next((numbers for numbers, dtype in DTYPES.items() if dtype == published), NumberFormat.FP32)


def copy_files(folder: Path, into: Path, patterns: tuple[str, ...]) -> None:
    """Copies the files that match; links, which may lead anywhere, are skipped."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not is_link(path):
                shutil.copyfile(path, into / path.name)


def change_json(path: Path, **changes: Any) -> None:
    """Changes fields of a JSON file; None removes one."""
    values = {**json.loads(path.read_bytes()), **changes}
    values = {name: value for name, value in values.items() if value is not None or name not in changes}
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


# --- LoRA adapters


FILES = ("adapter_config.json", "adapter_model.safetensors", "config.json", *BESIDE)


def write_adapter(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Copies the matrices, and writes their base model if it is a past run's or quantized for MLX.

    Raises:
        ModelError: The adapter or its base can't be read.
    """
    tell(_("Copying the adapter"))
    copy_files(source.folder, place.into, FILES)
    if (place.into / "config.json").is_file():
        change_json(place.into / "config.json", quantization_config=None)
    if (source.folder / BASE).is_dir():
        (place.into / BASE).mkdir()
        copy_files(source.folder / BASE, place.into / BASE, (*WEIGHTS, *BESIDE))
    tolerance = EXACT
    if source.plain is not None:
        numbers = numbers_of(source, place)
        load_base(source).to(DTYPES[numbers]).save_pretrained(place.into / BASE)
        tolerance = HALF.get(numbers, EXACT)
    note = name_base(source, place, "base_model_name_or_path")
    exported = replace(source, folder=place.into, plain=None)
    check = by_logits(source.options.task, tolerance, lambda rows: answers(load_trained(exported), rows))
    return Written(check, notes=(note,) if note else ())


def name_base(source: ExportSource, place: ExportTarget, field: str) -> str:
    """Writes the base's final place into `field` of the adapter's config; returns a note on it, or an empty text."""
    base = base_name(source.folder)
    if (place.into / BASE).is_dir():
        base = str(place.target / BASE)
        change_json(place.into / "adapter_config.json", **{field: base})
        note = _(
            "Its base is the model of a past run, in {folder}/; update adapter_config.json if you move it."
        )
        if source.bits:
            note = _(
                "Its base was quantized for MLX and has plain weights in {folder}/; update adapter_config.json if you "
                "move it."
            )
        return note.format(folder=BASE)
    if is_on_hub(base) or not Path(base).is_absolute():
        return ""
    return _("Its base is the model in {base}: it is needed to use the adapter.").format(base=base)


# --- A model folder with a Modelfile beside, for `ollama create`


DETECTED = _(
    "Ollama recognizes well-known chat templates: “ollama show --template {name}” shows the one in use. If that is "
    "only {{{{ .Prompt }}}}, add a TEMPLATE to the Modelfile, or export GGUF: llama.cpp reads the tokenizer's own."
)


MESSAGES = """\
{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>{end}
{{ end }}<|im_start|>assistant
"""
"""ChatML in Ollama's Go template, as `CHATML` writes messages (https://docs.ollama.com/template, November 2026)."""


def write_ollama(source: ExportSource, place: ExportTarget, tell: Tell) -> Written:
    """Writes the whole model and its Modelfile: stop tokens, and the template unless it is the model's own.

    Raises:
        ModelError: The model can't be read.
    """
    from transformers import GenerationConfig

    from core.engine.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    written = write_folder(source, place, tell)
    ends: Any = None
    if (place.into / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(place.into).eos_token_id
    ids = [*([] if ends is None else [ends] if isinstance(ends, int) else ends), tokenizer.eos_token_id]
    stops = tokenizer.convert_ids_to_tokens([token for token in dict.fromkeys(ids) if token is not None])
    is_chat = source.options.task is not Task.CAUSAL_LM and bool(tokenizer.chat_template)
    is_chatml = is_chat and has_chatml(tokenizer)
    if is_chatml and TURN_END not in stops:
        stops.append(TURN_END)
    ended = chatml_end(tokenizer) is None  # then each answer ends with the end of text
    end = f'{{{{ if eq .Role "assistant" }}}}{tokenizer.eos_token}{{{{ end }}}}' if ended else ""
    template = MESSAGES.replace("{end}", end) if is_chatml else "{{ .Prompt }}"
    lines = [
        "FROM .",
        *([] if is_chat and not is_chatml else [f'TEMPLATE """{template}"""']),
        # a line of a Modelfile can't hold others
        *(f'PARAMETER stop "{stop}"' for stop in stops if '"' not in stop and stop.splitlines() == [stop]),
    ]
    (place.into / "Modelfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = source.run.name
    name = re.sub(r"[^a-z0-9._-]+", "", run.lower()).strip("-._")  # Ollama's names have no other letters
    if len(name) < len(run):  # so that two runs don't have the same
        name = f"{name or 'hone'}-{hashlib.sha256(run.encode()).hexdigest()[:6]}"
    steps = (("cd", place.target), ("ollama", "create", name), ("ollama", "run", name))
    commands = "\n".join(command_line(*step) for step in steps)
    note = "\n".join((_("To use it, in a terminal:"), commands))
    detected = [DETECTED.format(name=name)] if is_chat and not is_chatml else []
    checked = _("The weights were checked, Ollama itself was not run.")
    return Written(written.check, notes=(note, checked, *detected), code=commands)
