"""Writes a run on MLX as a script with plain mlx-lm: fills `resources/mlx_script.py.jinja`, see `core.engine.script`.

Beside it are the examples as tokens and labels, the batches and the learning rate of each step, and the first numbers
of an adapter or of a new model, so that a script can't read, order or draw them otherwise.
"""

import inspect
import json
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import pyarrow as pa
import pyarrow.parquet
from mlx.utils import tree_flatten

from core.base.errors import ModelError, OptionsError, Problem
from core.base.language import _
from core.engine.data import NO_LABEL
from core.engine.mlx import model as models
from core.engine.mlx.architectures import left_out
from core.engine.mlx.batches import Batches
from core.engine.mlx.build import MlxModel, cast_weights, folder_of, load, packed, use_cpu
from core.engine.mlx.optimizers import decayed_names, rates
from core.engine.mlx.skeleton import is_dora, lora_parameters
from core.engine.reporter import Reporter
from core.engine.script import START, Code, closing, comment, place_of, rendered, settled
from core.jobs.script import SCRIPT, Script, ScriptRequest
from core.options import RunOptions
from core.options.backend_rules import Limit
from core.options.catalogue import value_of
from core.options.choices import AFFINE_BITS, AFFINE_GROUP, Method, Optimizer, Precision, Task
from core.options.sources import short_name

TEMPLATE = Path(__file__).resolve().parents[3] / "resources" / "mlx_script.py.jinja"
LIMITS = (
    Limit("task", (Task.CAUSAL_LM, Task.CHAT), _("a script with mlx-lm can't repeat preference tuning")),
    Limit("model.method", (Method.FULL, Method.LORA, Method.QLORA),
        _("a script with mlx-lm repeats runs that train all weights, LoRA or QLoRA")),
    Limit("training.optimizer", (Optimizer.ADAMW, Optimizer.LION),
        _("a script with mlx-lm repeats runs with AdamW or Lion")),
)  # fmt: skip


def write_script(request: ScriptRequest, options: RunOptions) -> Script:
    """Writes the script of a run and what it needs into `request.folder`, which is there and empty.

    Raises:
        OptionsError: The script can't repeat this run.
        DataError: Its data is gone, or can't be used.
        ModelError: The model can't be read, or mlx-lm alone can't read it.
    """
    problems = [
        Problem(path, reason) for path, allowed, reason in LIMITS if value_of(options, path) not in allowed
    ]
    if problems:
        raise OptionsError(tuple(problems), _("The script"))
    use_cpu()  # a run that trains keeps the GPU
    request, options = settled(request, options)
    loaded = load(options, Reporter(None, writes=False))
    into = Path(request.folder)
    _write_examples(loaded, into)
    _write_steps(options, loaded, into)
    values = {**_of_run(options, loaded), **_of_model(options, loaded, into), "kind": request.device}
    body = rendered(TEMPLATE, values)
    packages = " ".join(f"{name}=={version(name)}" for name in ("mlx", "mlx-lm", "pyarrow"))
    lines = [
        *comment(f"{request.title or 'A run'}: a script that trains as Hone did on MLX and doesn't need it."),
        *comment(f"Requires: pip install {packages}"),
        *comment("The examples beside it are those of the run, as tokens; steps.jsonl has the batches of its steps."),
        *closing(request, _differences(options, has_eval=values["has_eval"])),
    ]  # fmt: skip
    text = "\n".join((*lines, "", body, ""))
    (into / SCRIPT).write_text(text, encoding="utf-8")
    return Script(text)


def _differences(options: RunOptions, *, has_eval: bool) -> Iterator[str]:
    drops = options.model.method is not Method.FULL and options.model.lora_dropout
    if options.memory.activation_checkpointing and drops:
        yield "mlx-lm's checkpointing drops other numbers in the backward pass, so gradients differ."
    if options.keeps_best and has_eval:
        yield "It keeps the last weights, Hone those of the best evaluation."
    if has_eval:
        yield "It evaluates at the end only, and doesn't stop early."
    yield "It saves the model in the format of mlx-lm, Hone in that of transformers and PEFT."
    yield "Steps aren't compiled. It can't be paused, makes no memory forecast, and shows no predictions."


def _write_examples(loaded: MlxModel, into: Path) -> None:
    """Writes the tokens and labels of each example, without padding."""
    prepared = loaded.prepared
    for name, rows in (("train", prepared.train), ("validation", prepared.eval)):
        if not rows:
            continue
        table: dict[str, list[Any]] = {"input_ids": [], "labels": []}
        for row in rows:
            batch = prepared.collator([row])
            length = int(batch.get("attention_mask", batch["input_ids"] >= 0).sum())
            for column, values in table.items():
                values.append(batch[column][0, :length].numpy())
        pyarrow.parquet.write_table(pa.table(table), into / f"{name}.parquet")


def _write_steps(options: RunOptions, loaded: MlxModel, into: Path) -> None:
    batches = Batches(options, loaded.prepared.train, loaded.prepared.collator)
    rate = rates(options, batches.total)
    steps = enumerate(islice(batches.places_after(0), batches.total))
    lines = (json.dumps({"rate": rate(step), "batches": places}) for step, places in steps)
    (into / "steps.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _of_run(options: RunOptions, loaded: MlxModel) -> dict[str, Any]:
    training, is_half = options.training, options.device.precision is Precision.BF16
    is_full = options.model.method is Method.FULL
    numbers = f"learning_rate={training.learning_rate}, betas=[{training.beta1}, {training.beta2}]"
    if training.optimizer is Optimizer.ADAMW:
        numbers += f", eps={training.epsilon}, bias_correction=True"
    return {
        "seed": training.seed,
        "no_label": NO_LABEL,
        "multiple": options.data.pad_to_multiple_of or 1,
        "most": options.data.max_length,
        "dtype": Code("mx.bfloat16" if is_half and not is_full else "mx.float32"),
        "cast": Code(inspect.getsource(cast_weights).strip()),
        "casts": is_half and is_full,
        "is_exact": not is_half,
        "recomputes": options.memory.activation_checkpointing,
        "optimizer": Code(f"optimizers.{training.optimizer.label}"),
        "numbers": Code(numbers),
        "decay": training.weight_decay,
        "decayed": Code(inspect.getsource(decayed_names).strip())
        if is_full and training.weight_decay
        else "",
        "clip": training.max_grad_norm,
        "has_eval": bool(loaded.prepared.eval),
        "code": Code,
    }


def _of_model(options: RunOptions, loaded: MlxModel, into: Path) -> dict[str, Any]:
    """Writes what the script begins with; returns where the model is, and how an adapter is put on it.

    Raises:
        ModelError: mlx-lm alone can't read the model.
    """
    start, source = into / START, options.model.source
    start.mkdir()
    found: dict[str, Any] = {"lora": {}, "dora": False, "bits": 0, "group": AFFINE_GROUP}
    if loaded.layers:
        found |= {"lora": lora_parameters(loaded.layers), "dora": is_dora(loaded.layers)}
        adapter = tree_flatten(loaded.model.trainable_parameters(), destination={})
        mx.save_safetensors(str(start / "adapter.safetensors"), adapter)
    if options.model.method is Method.QLORA:
        found["bits"] = AFFINE_BITS[options.model.quantization]
    if options.starts_random:
        loaded.save(start)
        return found | {"place": Code(f"HERE / {START!r}"), "config": _left_out(start)}
    folder = folder_of(source)
    if any(name.startswith("transformer.") for name in loaded.shapes):
        raise ModelError(
            _("mlx-lm alone can't read {source}").format(source=short_name(source)),
            _("Its weights have other names than those that mlx-lm looks for; Hone renames them."),
        )
    if packed(models.load(folder)):
        found["bits"] = 0  # as it is published
    return found | {"place": place_of(source, into), "config": _left_out(folder)}


def _left_out(folder: Path) -> dict[str, Any]:
    return left_out(json.loads((folder / "config.json").read_text(encoding="utf-8")))
