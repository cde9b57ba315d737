"""Writes a run as a script: fills `resources/script.py.jinja` with its data, model and arguments.

Nothing in a run's files becomes code: the template writes values with `repr`, except for the `Code` made here, and
sentences as comments.
"""

import ast
import dataclasses
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
import msgspec
import torch
from transformers import TrainingArguments

from core.base.errors import DataError, Fix, OptionsError, Problem
from core.base.language import _
from core.engine.data.chat_samples import kto_weights
from core.engine.data.chat_tokens import marks_answers, set_template
from core.engine.data.columns import Guess, guess_columns, guess_score_columns, guess_tag_columns
from core.engine.data.conversations import find_shape, looks_like_messages, rating_of
from core.engine.data.exported_chats import EXPORTS, WHATSAPP
from core.engine.data.image_files import CROPS, ImageColumn, Images
from core.engine.data.images import find_images, find_training_images, idx_pairs, only_table
from core.engine.data.running_text import PlainText, read_running, text_column
from core.engine.data.splits import Files, files_of, header_asked, held_out_of, texts_of
from core.engine.data.tables import Table, read_files, read_table
from core.engine.data.text_files import DELIMITER_NAMES, ENCODINGS, MARKED_UTF8, Reading
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, report
from core.engine.environment import mps_watermarks
from core.engine.models.parts import COMPUTED_IN, frozen_dtype
from core.engine.models.past_runs import base_of, config_in
from core.engine.models.text import load_tokenizer
from core.engine.models.vision import find_image_model
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.catalogue import row_multiple
from core.options.choices import (
    METRICS_OF_TASKS,
    BestMetric,
    ChatTemplate,
    LossOn,
    Method,
    Optimizer,
    Padding,
    Precision,
    PreferenceLoss,
    Quantization,
    Task,
    Toggle,
)
from core.options.choices import ColumnRole as R
from core.options.device_support import DeviceReport, automatic_paths, find_device, settle
from core.options.past_runs import holds_adapter, model_folder
from core.options.sources import DIGITS, parse_synthetic, positions_of, scratch_model
from core.sharing.script import Script, ScriptRequest

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "script.py.jinja"
LIBRARIES = ("torch", "torchvision", "transformers", "datasets", "accelerate", "peft", "trl", "bitsandbytes")
MODULES = {
    "ast": "import ast",
    "functools": "import functools",
    "gzip": "import gzip",
    "json": "import json",
    "os": "import os",
    "np": "import numpy as np",
    "PIL": "import PIL.EpsImagePlugin\nimport PIL.Image",
    "torch": "import torch",
    "datasets": "import datasets",
    "peft": "import peft",
    "safetensors": "import safetensors.torch",
    "sklearn": "import sklearn.metrics",
    "load_digits": "from sklearn.datasets import load_digits",
    "torchao": "import torchao.optim",
    "torchvision": "import torchvision",
    "v2": "from torchvision.transforms import v2",
    "transformers": "import transformers",
    "trl": "import trl",
    "orpo": "from trl.experimental import orpo",
}
TORCHVISION = """
try:  # beside a CPU-only PyTorch, torchvision's operators may not load, and transformers fails without their names
    import torchvision  # noqa: F401
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
AUTO = {
    Task.TEXT_CLASSIFICATION: ("AutoModelForSequenceClassification", "SEQ_CLS"),
    Task.TEXT_REGRESSION: ("AutoModelForSequenceClassification", "SEQ_CLS"),
    Task.TOKEN_CLASSIFICATION: ("AutoModelForTokenClassification", "TOKEN_CLS"),
    Task.IMAGE_CLASSIFICATION: ("AutoModelForImageClassification", None),
}
"""transformers' class of a model, and PEFT's name of the task."""

SPEAKERS = {
    "human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant", "developer": "system",
}  # fmt: skip
LEFT_AT_DEFAULT = (
    "max_steps", "gradient_accumulation_steps", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon",
    "max_grad_norm", "full_determinism", "fp16", "lr_scheduler_type", "warmup_steps", "optim", "tf32",
    "train_sampling_strategy", "dataloader_num_workers", "dataloader_persistent_workers",
)  # fmt: skip
"""Arguments whose defaults are the same for Trainer and TRL: written only if they differ."""
ON_IN_TRL = ("bf16", "activation_checkpointing")
NOT_WRITTEN = (
    "output_dir", "logging_strategy", "report_to", "disable_tqdm", "remove_unused_columns",
    "ddp_find_unused_parameters",
)  # fmt: skip

VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", re.ASCII)
"""As in PEP 440, without a local version."""
_INNER = re.compile(r'\s*\{\s*"(\w+)"\s*:\s*\[\s*\{')
"""JSON with the rows inside an object: `{"data": [{...}, ...]}`."""


class Code(str):
    """An expression, written as is."""

    def __repr__(self) -> str:
        return str(self)


def write_script(request: ScriptRequest, options: RunOptions) -> Script:
    """Write the script of a run.

    Args:
        request: Title, device and versions of a run; empty for a run file.

    Raises:
        OptionsError: No data is chosen.
        DataError: Its data is gone.
        ModelError: The model's tokenizer or config can't be read.
    """
    if not options.data.train:
        raise OptionsError((Problem("data.train", _("is missing: choose the data to train on")),))
    device, notes, versions = request.device, request.notes, request.versions
    if not device:  # resolved for this computer, or its CPU
        machine = report(gather())
        found = find_device(machine, options.device.name) or find_device(machine, "cpu")
        assert found is not None, "every computer has a CPU"
        left = automatic_paths(found, options)
        notes = tuple(f"{path} = {settled.value}: {settled.reason}" for path, settled in left.items())
        device, versions, options = found.name, machine.versions, settle(found, options)
    values = {**_of_options(options), **_data(options), **_model(options)}
    values["kind"] = device.partition(":")[0]
    held, is_plain = frozen_dtype(options), not (values["network"] or values["adapter"])
    is_plain = is_plain and not options.starts_random and options.model.method is not Method.QLORA
    is_cast = COMPUTED_IN.get(options.device.precision) is held
    values["held"], values["frozen"] = held, Code(held if is_cast and is_plain else torch.float32)
    values["has_eval"] = bool(values["splits"] or values["eval_rows"])
    values["arguments"] = _arguments(options, device, values)
    loader = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, finalize=repr)
    written = loader.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    body = re.sub(r"\n{3,}", "\n\n", written).strip()

    installed = {name: versions.get(name, "").partition("+")[0] for name in LIBRARIES}
    pinned = [f"{name}=={version}" for name, version in installed.items() if VERSION.fullmatch(version)]
    packages = " ".join(pinned) or "torch torchvision transformers datasets accelerate peft trl"
    lines = comment(f"{request.title or 'A run'}: a script that trains like Hone and doesn't need it.")
    lines += comment(f"Requires: pip install {packages} scikit-learn")
    if (count := options.device.processes) > 1:
        lines += comment(f"Run: torchrun --standalone --nproc-per-node={count} and the name of this file")
    resolved = ["#", "# Automatic options:", *(line for note in notes for line in comment(f"- {note}"))]
    lines += resolved if notes else []
    differences = [text for text, differs in _differences(options, values).items() if differs]
    lines += [
        "#",
        "# Differences from Hone:",
        *(line for text in differences for line in comment(f"- {text}")),
    ]
    return Script("\n".join((*lines, "", *_imports(body, device, options), "", body, "")))


def _differences(options: RunOptions, values: dict[str, Any]) -> dict[str, Any]:
    """What the script does differently, each with whether it applies."""
    data, method, task, roles = options.data, options.model.method, options.task, values["roles"]
    best, in_hone = _best_metric(options)
    last_only = data.loss_on is LossOn.ANSWERS and not values["assistant_only"] and R.CONVERSATION in roles
    return {
        "The random samples differ.": parse_synthetic(data.train),
        "The validation split has other rows.": values["splits"],
        "data.skip_bad_rows: a row that can't be used ends the script.": data.skip_bad_rows,
        "Accuracy is that of words; Hone also reports precision, recall and F1 of whole entities.": (
            task is Task.TOKEN_CLASSIFICATION
        ),
        "Only the last answer of a conversation is learned; Hone learns all.": task is Task.CHAT
        and last_only,
        "TRL applies the chat template and truncates long texts; Hone does both itself.": task.reads_conversations,
        "Tool calls are left out: the template doesn't support them.": values["chatml"] and R.TOOLS in roles,
        "data.group_by_length: TRL doesn't group pairs by length.": (
            task is Task.PREFERENCE and data.group_by_length is Toggle.ON
        ),
        "data.pad_to_multiple_of: without effect, as the maximum length is no such multiple.": (
            data.max_length % row_multiple(options)
        ),
        f"Frozen weights are in {str(values['frozen'])[6:]}, in Hone in {str(values['held'])[6:]}.": (
            str(values["held"]) != values["frozen"]
        ),
        "All that passes between frozen layers is in 16 bits, in Hone in fp32.": (
            values["frozen"] != str(torch.float32)
        ),
        "TRL's KTO needs one order of the samples for all epochs.": options.preference is PreferenceLoss.KTO,
        "TRL keeps LoRA's matrices in bf16, Hone in fp32.": task.reads_conversations
        and method is Method.QLORA,
        "The random changes of data.augmentation are others.": task.reads_images and values["crop"],
        "EXIF rotation is ignored; weight decay applies to torchvision's batch norms.": task.reads_images,
        "Weights that the checkpoint lacks, such as a pooler's, are frozen; Hone trains them.": (
            method is not Method.FULL and not task.writes_text
        ),
        "The tokenizer is trained like a published one, from the Hub.": values["scratch"],
        "memory.activation_checkpointing: torchvision's models don't support it.": (
            values["network"] and options.memory.activation_checkpointing
        ),
        "Dropout in recomputed activations draws other numbers on an Apple GPU (PyTorch issue 127676).": (
            values["kind"] == "mps" and options.memory.activation_checkpointing
        ),
        "In half precision, evaluations may be wrong on an Apple GPU (PyTorch issue 195910); Hone avoids it.": (
            values["kind"] == "mps" and task.writes_text
        ),
        f"Evaluations are compared by {best}; Hone compares them by {in_hone}.": (
            options.keeps_best and values["has_eval"] and best is not in_hone
        ),
        "FSDP2 gathers blocks by another rule; in 16 bits it adds gradients in 16 bits, Hone in fp32.": (
            options.memory.fsdp
        ),
        "It can't be paused, makes no memory forecast, and shows no predictions.": True,
    }


def comment(text: str) -> list[str]:
    """A sentence as lines of a comment; control characters are removed, so that nothing leaves them."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    return textwrap.wrap(
        plain, 110, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    ) or ["#"]


def _imports(body: str, device: str, options: RunOptions) -> Iterator[str]:
    """The imports that `body` needs, after what must be set before torch is loaded."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    kind, _, number = device.partition(":")
    if kind == "cuda" and options.device.processes > 1:  # each process takes the GPU of its number
        yield "import os"
    elif kind == "cuda":  # with several, Trainer would use them all
        yield from ("import os", f'os.environ["CUDA_VISIBLE_DEVICES"] = "{int(number or 0)}"')
    if kind == "mps":
        high, low = mps_watermarks(options.device.mps_memory_limit)
        yield "import os"
        yield f'os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "{int(options.device.mps_fallback)}"'
        yield f'os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = "{high:.4f}"'
        yield f'os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = "{low:.4f}"'
    for name, line in MODULES.items():
        if name in used | {"torch"} and not (name == "os" and kind in ("cuda", "mps")):
            yield line
        if name == "torch" and kind == "cpu":
            yield TORCHVISION.rstrip()


def _of_options(options: RunOptions) -> dict[str, Any]:
    """The template's values that come from the options alone."""
    data, model, task, training = options.data, options.model, options.task, options.training
    numbers = {
        "lr": training.learning_rate,
        "betas": (training.beta1, training.beta2),
        "eps": training.epsilon,
    }
    optimizer = ""
    if options.memory.offload_optimizer:
        more = "".join(f", {name!r}: {value!r}" for name, value in numbers.items())
        inner = f'{{"optimizer_class": torch.optim.AdamW, "fused": True{more}}}'
        optimizer = Code(f"(torchao.optim.CPUOffloadOptimizer, {inner})")
    elif training.optimizer is Optimizer.ADAM:
        optimizer = Code(f"(torch.optim.Adam, { ({'fused': True} | numbers)!r})")
    computed = {Precision.BF16: "torch.bfloat16", Precision.FP16: "torch.float16"}
    dtype = computed.get(options.device.precision, "torch.float32")
    nf4 = f'bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype={dtype}'
    auto, peft_task = AUTO.get(task, ("AutoModelForCausalLM", "CAUSAL_LM"))
    random = parse_synthetic(data.train)
    multiple = row_multiple(options)
    rounding = Code(f"{multiple} if LENGTH % {multiple} == 0 else None" if multiple > 1 else "")
    return {
        "task": str(task),
        "loss": str(options.preference or ""),
        "seed": training.seed,
        "threads": options.device.threads,
        "accumulates": options.memory.gradient_accumulation_steps > 1,
        "data": msgspec.to_builtins(data),
        "model": msgspec.to_builtins(model),
        "first": data.max_train_samples,
        "labelled": task.has_labels,
        "auto": Code(auto),
        "peft_task": peft_task,
        "padding": Code(
            'padding="max_length", max_length=LENGTH'
            if data.padding is Padding.FIXED
            else "padding=True" + (f", pad_to_multiple_of={rounding}" if rounding else "")
        ),
        "rounding": rounding,
        "spaced": Code("add_prefix_space=True, " if task is Task.TOKEN_CLASSIFICATION else ""),
        "packing": Code(
            "load_in_8bit=True" if model.quantization is Quantization.INT8 else f"load_in_4bit=True, {nf4}"
        ),
        "speakers": {**SPEAKERS, **data.roles},
        "size": random[1] if random else data.image_size,
        "crop": CROPS.get(data.augmentation),
        "optimizer": optimizer,
        "patience": (training.early_stopping_patience, training.early_stopping_threshold),
        "code": Code,
    }


def _arguments(options: RunOptions, device: str, values: dict[str, Any]) -> dict[str, Any]:
    """Trainer's arguments: the engine's, and those for what Hone does with callbacks."""
    task, output, compiler = options.task, options.output, options.device
    resolved = ResolvedRun(options, DeviceReport(name=device, title="", available=True), requested=device)
    given = trainer_arguments(resolved, Path("checkpoints"), has_eval=values["has_eval"])
    defaults = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    found = {
        name: value
        for name, value in given.items()
        if name not in NOT_WRITTEN
        and value is not None
        and not (name in LEFT_AT_DEFAULT and value == defaults[name])
    }
    if values["network"]:
        found.pop("activation_checkpointing_kwargs", None)
        found["activation_checkpointing"] = False
    if compiler.compile:
        found |= {"torch_compile": True, "torch_compile_backend": compiler.compile_backend}
        if compiler.compile_backend == "inductor":
            found["torch_compile_mode"] = compiler.compile_mode
    if options.keeps_best and values["has_eval"]:
        best = _best_metric(options)[0]
        found |= {"save_strategy": "best", "load_best_model_at_end": True, "metric_for_best_model": str(best)}
        found["greater_is_better"] = best not in (BestMetric.LOSS, BestMetric.MAE)
        found.pop("save_steps", None)
    if found["save_strategy"] != "no":
        found["save_total_limit"] = output.keep_checkpoints or 1
    if not task.reads_conversations:  # their default in TRL is True
        found = {name: value for name, value in found.items() if value is not False or name not in ON_IN_TRL}
    found |= {"seed": Code("SEED"), "logging_steps": 1}
    found["report_to"] = "tensorboard" if output.tensorboard else "none"
    if task.reads_images:
        found["remove_unused_columns"] = False
    is_orpo = options.preference is PreferenceLoss.ORPO
    if task.reads_conversations and values["rounding"] and not is_orpo:  # TRL's ORPO has no such argument
        found["pad_to_multiple_of"] = values["rounding"]
    if task is Task.PREFERENCE:
        found |= {"beta": options.training.beta, **values.get("kto_weights", {})}
        found.pop("train_sampling_strategy", None)  # TRL's pairs have no length to group by
    if task is Task.CHAT:
        found |= {"packing": True, "eval_packing": False} if options.data.packing else {}
        found |= {"assistant_only_loss": True} if values["assistant_only"] else {}
        found |= {"dataset_text_field": values["roles"][R.TEXT]} if R.TEXT in values["roles"] else {}
    return found


def _best_metric(options: RunOptions) -> tuple[BestMetric, BestMetric]:
    """What evaluations are compared by: in the script, which has fewer metrics, and in Hone."""
    task, asked = options.task, options.training.metric_for_best_model
    if asked is BestMetric.AUTO:
        asked = METRICS_OF_TASKS[task][0]
    if task.writes_text:
        return BestMetric.LOSS, asked
    known = {BestMetric.SPEARMAN: BestMetric.PEARSON}
    if task is Task.TOKEN_CLASSIFICATION:
        known = {BestMetric.F1: BestMetric.ACCURACY}
    return known.get(asked, asked), asked


def _model(options: RunOptions) -> dict[str, Any]:
    """The model's place, or its sizes."""
    source = options.model.source
    scratch, folder = scratch_model(source), model_folder(source)
    found: dict[str, Any] = {"source": "", "adapter": "", "network": "", "weights": "", "mean": (), "std": ()}
    found |= {"scratch": scratch is not None, "random": scratch is None and options.starts_random}
    if options.task.reads_images:
        image = find_image_model(options)
        found |= {"mean": list(image.mean), "std": list(image.std), "network": image.network}
        found["weights"] = str(image.weights) if image.weights else ""
    if scratch is not None:
        sizes = {
            "hidden_size": scratch.hidden,
            "intermediate_size": scratch.inner,
            "num_hidden_layers": scratch.layers,
            "num_attention_heads": scratch.heads,
            "max_position_embeddings": positions_of(options.data.max_length),
        }
        ends = {name: Code(f"tokenizer.{name}") for name in ("bos_token_id", "eos_token_id")}
        kind, tokenizer = ("LlamaConfig", "gpt2") if scratch.writes else ("BertConfig", "bert-base-cased")
        found |= {"scratch_config": Code(kind), "scratch_tokenizer": tokenizer}
        found["scratch_sizes"] = sizes | ({**ends, "tie_word_embeddings": True} if scratch.writes else {})
    elif not found["network"]:
        found["source"] = config_in(source)
        if folder is not None and holds_adapter(folder):
            found |= {"source": base_of(folder), "adapter": str(folder)}
    return found


def _data(options: RunOptions) -> dict[str, Any]:
    """How the rows are read, and which columns are used.

    Raises:
        DataError: They are gone, or in no format that a run reads.
    """
    data, task, random = options.data, options.task, parse_synthetic(options.data.train)
    found: dict[str, Any] = dict.fromkeys(("reader", "eval_rows", "label"), "")
    found |= {"needed": [], "text_columns": (), "roles": {}, "encoding": "utf-8", "places": {}, "width": 0}
    found |= {"chatml": False, "chatml_begin": Code(""), "assistant_only": False}

    def read(files: Files, header: bool | None) -> tuple[Table | PlainText, dict[str, Any]]:
        is_text = task is Task.CAUSAL_LM
        table = read_running(files, data.text_columns) if is_text else read_files(files, header=header)
        return table, _read(files, table)

    if task.reads_images:
        found |= _images(options)
    elif random:
        found |= _random(task, *random)
    else:
        files_in = texts_of if task is Task.CAUSAL_LM else files_of
        table, reading = read(files_in(data.train, data.train_split), header_asked(data.header))
        found |= reading
        if (apart := held_out_of(data)) is not None:
            files = files_in(apart.source, apart.split, apart.option)
            found["eval_rows"] = read(files, apart.header)[1]["rows"]
        found |= _columns(options, table) if isinstance(table, Table) else {"text_columns": ("text",)}
    if task.reads_conversations:
        found |= _template(options, found["roles"])
    found["splits"] = bool(data.eval_fraction and not found["eval_rows"] and not random)
    return found


def _columns(options: RunOptions, table: Table) -> dict[str, Any]:
    data, task = options.data, options.task
    if task.reads_conversations:
        shape = find_shape(table, preference=options.preference, columns=data.columns)
        roles = {str(role): name for role, name in shape.columns.items()}
        cells = {role: table.rows[name].slice(0, 100).to_pylist() for role, name in roles.items()}
        nested = [role for role, some in cells.items() if any(map(looks_like_messages, some))]
        found: dict[str, Any] = {"roles": roles, "nested": nested}
        if R.RATING in roles:
            ratings = [str(value).strip().lower() for value in table.rows[roles[R.RATING]].to_pylist()]
            liked = [rating for rating in ratings if rating_of(rating)]
            weights = kto_weights(len(liked), len(ratings) - len(liked))
            names = ("desirable_weight", "undesirable_weight")
            found |= {"liked": sorted(set(liked)), "kto_weights": dict(zip(names, weights, strict=True))}
        return found
    if task is Task.CAUSAL_LM:
        name = text_column(table, data.text_columns)
        return {"text_columns": (name,), "needed": [name]}
    guesses = {Task.TEXT_REGRESSION: guess_score_columns, Task.TOKEN_CLASSIFICATION: guess_tag_columns}
    guess: Guess = guesses.get(task, guess_columns)(table, data.text_columns, data.label_column)
    return {"text_columns": guess.text, "label": guess.label, "needed": [*guess.text, guess.label]}


def _template(options: RunOptions, roles: dict[str, str]) -> dict[str, Any]:
    """Whether the tokenizer gets ChatML, and whether its template marks answers for TRL."""
    if R.TEXT in roles:
        return {}
    if scratch_model(options.model.source) is not None:
        return {"chatml": True, "chatml_begin": Code("")}
    tokenizer = load_tokenizer(options.model.source)
    is_chatml = set_template(tokenizer, options.data.chat_template) is ChatTemplate.CHATML
    begin = '"{{ bos_token }}" ' if tokenizer.chat_template.startswith("{{- bos_token }}") else ""
    answers_only = options.data.loss_on is LossOn.ANSWERS and options.task is Task.CHAT
    is_marked = R.CONVERSATION in roles and answers_only and marks_answers(tokenizer)
    return {"chatml": is_chatml, "chatml_begin": Code(begin), "assistant_only": is_marked}


def _random(task: Task, count: int, size: int) -> dict[str, Any]:
    """Random samples, as rows."""
    words, label = f'["word " * {size}] * {count}', f"[str(number % 2) for number in range({count})]"
    roles = {Task.CHAT: ("prompt", "answer"), Task.PREFERENCE: ("prompt", "chosen", "rejected")}.get(task, ())
    columns = dict.fromkeys(roles or ("text",), words)
    if not task.writes_text:
        columns["label"] = f'["O B " * {size}] * {count}' if task is Task.TOKEN_CLASSIFICATION else label
    rows = ", ".join(f"{name!r}: {code}" for name, code in columns.items())
    return {
        "rows": Code(f"datasets.Dataset.from_dict({{{rows}}})"),
        "text_columns": roles or ("text",),
        "label": "label",
        "roles": {name: name for name in roles},
    }


def _read(files: Files, table: Table | PlainText) -> dict[str, Any]:
    """The expression that reads files of rows or text."""
    if isinstance(table, PlainText):
        paths = [str(path) for path in table.files]
        return {"rows": _loaded("text", paths, {"sample_by": "document", **_encoding(table.reading)})}
    if table.format in (*EXPORTS, WHATSAPP):
        raise DataError(
            _("A script can't read exported chats"),
            _("{path} is from {app}. Only Hone reads its chats as conversations.").format(
                path=table.path, app=table.format
            ),
            (Fix(_("Train in Hone, or save the chats as JSON Lines with “messages” for a script")),),
        )
    paths = [str(path) for path in files]
    reading = table.reading
    if table.format == "CoNLL":
        is_universal = ".conllu" in files[0].name.lower()
        places = (
            {"tokens": 1, "tags": 3} if is_universal else {name: at for at, name in enumerate(table.columns)}
        )
        found = {"reader": "conll", "places": places, "width": 10 if is_universal else len(places)}
        rows = f"datasets.Dataset.from_list([row for path in {paths!r} for row in read_conll(path)])"
        return {**found, "rows": Code(rows), "encoding": _encoding(reading).get("encoding", "utf-8")}
    if table.format == "Parquet":
        return {"rows": _loaded("parquet", paths)}
    if table.format in ("JSON", "JSONL"):
        field = _INNER.match(files[0].read_text(encoding="utf-8", errors="replace")[:4096])
        inner = {"field": field[1]} if field and table.format == "JSON" else {}
        return {"rows": _loaded("json", paths, {**inner, **_encoding(reading)})}
    delimiters = {word: delimiter for delimiter, word in DELIMITER_NAMES.items()}
    delimiter = delimiters.get(reading.get("delimiter", ""), "\x1f")
    more: dict[str, Any] = {"delimiter": delimiter, "keep_default_na": False}
    more |= {"quoting": 3} if reading.get("quoting") == "none" else {}
    more |= {"column_names": list(table.columns)} if reading.get("header") == "none" else {}
    return {"rows": _loaded("csv", paths, {**more, **_encoding(reading)})}


def _loaded(builder: str, files: list[str], more: Mapping[str, Any] = MappingProxyType({})) -> Code:
    arguments = "".join(f", {name}={value!r}" for name, value in more.items())
    return Code(f'datasets.load_dataset({builder!r}, data_files={files!r}, split="train"{arguments})')


def _encoding(reading: Reading) -> dict[str, str]:
    """Python's name of an encoding other than UTF-8."""
    by_title = {title: encoding for encoding, title in reversed(ENCODINGS.items())}
    title = reading.get("encoding", "UTF-8")
    return {} if title in ("UTF-8", MARKED_UTF8) else {"encoding": by_title[title]}


def _images(options: RunOptions) -> dict[str, Any]:
    """How images are read: rows with an image and a label."""
    data, source = options.data, options.data.train
    column, label = "image", "label"
    if source == DIGITS or (random := parse_synthetic(source)):
        if source == DIGITS:
            pixels = '(load_digits().images * 255 / 16).round().astype("uint8")'
            images, labels = f"[PIL.Image.fromarray(image) for image in {pixels}]", "load_digits().target"
        else:
            assert random
            images = f"[PIL.Image.effect_noise(({random[1]}, {random[1]}), 64)] * {random[0]}"
            labels = f"[str(number % 2) for number in range({random[0]})]"
        rows = Code(f'datasets.Dataset.from_dict({{"image": {images}, "label": {labels}}})')
        return {"text_columns": (column,), "label": label, "rows": rows}
    train, needed = find_training_images(options), []
    if train.image_column and train.label_column:
        column, label, needed = train.image_column, train.label_column, [train.label_column]
    other, place = train.eval, source
    if data.eval:
        read = find_images(
            data.eval,
            image_column=data.image_column,
            label_column=data.label_column,
            train_split=data.eval_split,
        )
        other, place = read.eval or read.train, data.eval
    return {
        "text_columns": (column,),
        "label": label,
        "needed": needed,
        **_stored(train.train, source, column, is_eval=False),
        "eval_rows": _stored(other, place, column, is_eval=True)["rows"] if other else "",
    }


def _stored(images: Images, source: str, column: str, *, is_eval: bool) -> dict[str, Any]:
    """The expression that reads images from a disk."""
    if isinstance(images.stored, ImageColumn):
        read = _loaded("parquet", [str(path) for path in images.stored.files])
        return {"rows": Code(f"{read}.cast_column({column!r}, datasets.Image())")}
    if images.rows is not None:
        path = Path(source) if Path(source).is_file() else only_table(Path(source)) or Path(source)
        read = _read((path,), read_table(path))["rows"]
        joined = f"{{{column!r}: os.path.join({str(path.parent)!r}, row[{column!r}])}}"
        return {"rows": Code(f"{read}.map(lambda row: {joined}).cast_column({column!r}, datasets.Image())")}
    if isinstance(images.stored, list):
        common = Path(os.path.commonpath([path.parent for path in images.stored]))
        is_class = set(images.names) == {common.name}
        return {"rows": _loaded("imagefolder", [str((common.parent if is_class else common) / "**")])}
    train, other = idx_pairs(Path(source))
    pair = (other or train) if is_eval else train
    rows = f'"image": [PIL.Image.fromarray(image) for image in read_idx({str(pair.images)!r})]'
    rows += f', "label": read_idx({str(pair.labels)!r})'
    return {"reader": "idx", "rows": Code(f"datasets.Dataset.from_dict({{{rows}}})")}
