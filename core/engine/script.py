"""Writes a run as a script: `resources/script.py.jinja`, filled with what its data, model and device come to.

Nothing of a run's files becomes code. What stands between double braces in the template is written by `repr`, but for
the expressions made here, which are `Code`; sentences are written as comments.
"""

import ast
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
import msgspec

from core.engine.data.chat_tokens import marks_answers, set_template
from core.engine.data.columns import Guess, guess_columns, guess_score_columns, guess_tag_columns
from core.engine.data.conversations import find_shape, looks_like_messages
from core.engine.data.image_files import ImageColumn, Images
from core.engine.data.images import find_images, find_training_images, idx_pairs, only_table
from core.engine.data.running_text import PlainText, read_running, text_column
from core.engine.data.splits import Files, files_of, header_asked, held_out_of, texts_of
from core.engine.data.tables import Table, read_files, read_table
from core.engine.data.text_files import DELIMITER_NAMES, ENCODINGS, Reading
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, report
from core.engine.environment import mps_watermarks
from core.engine.models.past_runs import base_of, config_in
from core.engine.models.text import load_tokenizer
from core.engine.models.vision import find_image_model
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.choices import (
    ChatTemplate,
    LossOn,
    Method,
    Optimizer,
    Padding,
    Precision,
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
    "human": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "developer": "system",
}
DEFAULTS: dict[str, Any] = {
    "max_steps": -1,
    "gradient_accumulation_steps": 1,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "full_determinism": False,
    "fp16": False,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0.0,
    "optim": "adamw_torch_fused",
    "tf32": False,
    "train_sampling_strategy": "random",
    "dataloader_num_workers": 0,
    "dataloader_persistent_workers": False,
}
"""What Trainer and TRL take anyhow, so that no line says it."""
TRLS = ("bf16", "activation_checkpointing")
NOT_WRITTEN = ("output_dir", "logging_strategy", "report_to", "disable_tqdm", "remove_unused_columns")

VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", re.ASCII)
"""As in PEP 440, without what follows a plus."""
_INNER = re.compile(r'\s*\{\s*"(\w+)"\s*:\s*\[\s*\{')
"""Of JSON, rows in an object: `{"data": [{...}, ...]}`."""


class Code(str):
    """An expression, which is written as it stands."""

    def __repr__(self) -> str:
        return str(self)


def write_script(request: ScriptRequest, options: RunOptions) -> Script:
    """The script of a run.

    Args:
        request: What is asked.
        options: The same as options.

    Raises:
        DataError: Its data is gone.
        ModelError: The model's tokenizer or config can't be read.
    """
    device, notes, versions = request.device, request.notes, request.versions
    if not device:  # as it would run here; where this computer lacks the device asked for, on the CPU
        machine = report(gather())
        found = find_device(machine, options.device.name) or find_device(machine, "cpu")
        assert found is not None, "every machine has a CPU"
        left = automatic_paths(found, options)
        notes = tuple(f"{path} = {settled.value}: {settled.reason}" for path, settled in left.items())
        device, versions, options = found.name, machine.versions, settle(found, options)
    values = {**_of_options(options), **_data(options), **_model(options)}
    values["kind"] = device.partition(":")[0]
    values["has_eval"] = bool(values["splits"] or values["eval_rows"])
    values["arguments"] = _arguments(options, device, values)
    loader = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, finalize=repr)
    written = loader.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    body = re.sub(r"\n{3,}", "\n\n", written).strip()
    head = [*_head(request.title, notes, versions), *_differences(options, values)]
    return Script("\n".join((*head, "", *_imports(body, device, options), "", body, "")))


def _head(title: str, notes: tuple[str, ...], versions: dict[str, str]) -> Iterator[str]:
    """The comment: what it is, what it takes, and what was settled."""
    yield from comment(f"{title or 'A run'}: what Hone trains, as a script that needs no Hone.")
    found = {name: versions.get(name, "").partition("+")[0] for name in LIBRARIES}
    kept = [f"{name}=={version}" for name, version in found.items() if VERSION.fullmatch(version)]
    packages = " ".join(kept) or "torch torchvision transformers datasets accelerate peft trl"
    yield from comment(f"It takes: pip install {packages} scikit-learn")
    if notes:
        yield from ("#", "# What was left to Hone:")
        yield from (line for note in notes for line in comment(f"- {note}"))


def _differences(options: RunOptions, values: dict[str, Any]) -> Iterator[str]:
    """The rest of the comment: what the script does in another way."""
    data, method, task = options.data, options.model.method, options.task
    is_last = data.loss_on is LossOn.ANSWERS and not values["assistant_only"]
    held_out = (
        "the last blocks; Hone's are the end of each text"
        if task is Task.CAUSAL_LM
        else "other rows than Hone's"
    )
    alike = (
        ", which are of each label alike"
        if values["labelled"] and task is not Task.TOKEN_CLASSIFICATION
        else ""
    )
    told = {
        "The random samples are others.": parse_synthetic(data.train),
        f"Held out are {held_out}{alike}.": values["splits"],
        "data.skip_bad_rows: a row that can't be used ends the script.": data.skip_bad_rows,
        "Accuracy is that of words; Hone also tells precision, recall and F1 of whole entities.": (
            task is Task.TOKEN_CLASSIFICATION
        ),
        "The last answer of a conversation is learned; Hone learns all.": (
            task is Task.CHAT and is_last and R.CONVERSATION in values["roles"]
        ),
        "TRL applies the chat template and cuts long texts; Hone does both itself.": task.reads_conversations,
        "Calls of tools aren't written: the template has no place for them.": values["chatml"]
        and R.TOOLS in values["roles"],
        "data.group_by_length: TRL's pairs are drawn whatever their length.": (
            task is Task.PREFERENCE and data.group_by_length is Toggle.ON
        ),
        "TRL keeps LoRA's matrices in bf16, Hone in fp32.": task.reads_conversations
        and method is Method.QLORA,
        "Images aren't turned as their EXIF says; weight decay reaches torchvision's batch norms.": task.reads_images,
        "Weights that the model's body lacks, such as a pooler's, are frozen; in Hone they learn.": (
            method is not Method.FULL and not task.writes_text
        ),
        "The tokenizer is trained by the rules of a published one, from the Hub.": values["scratch"],
        "memory.activation_checkpointing: torchvision's models can't by themselves.": (
            values["network"] and options.memory.activation_checkpointing
        ),
        "output.keep_best: Trainer keeps the best only where it saves after each evaluation.": (
            options.output.keep_best and "load_best_model_at_end" not in values["arguments"]
        ),
        "It can't be paused, foresees no lack of memory, and shows no predictions.": True,
    }
    yield from ("#", "# What differs from Hone:")
    yield from (line for text, is_so in told.items() if is_so for line in comment(f"- {text}"))


def comment(text: str) -> list[str]:
    """A sentence as lines of a comment; whatever a name holds, it stays on them."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    return textwrap.wrap(
        plain, 110, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    ) or ["#"]


def _imports(body: str, device: str, options: RunOptions) -> Iterator[str]:
    """The imports of what `body` names, behind what has to be set before torch is loaded."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    kind, _, number = device.partition(":")
    if kind == "cuda":  # with several, Trainer would use them all
        yield from ("import os", f'os.environ["CUDA_VISIBLE_DEVICES"] = "{int(number or 0)}"')
    if kind == "mps":
        high, low = mps_watermarks(options.device.mps_memory_limit)
        yield from (
            "import os",
            f'os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "{int(options.device.mps_fallback)}"',
        )
        yield f'os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = "{high:.4f}"'
        yield f'os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = "{low:.4f}"'
    for name, line in MODULES.items():
        if name in used | {"torch"} and not (name == "os" and kind in ("cuda", "mps")):
            yield line
        if name == "torch" and kind == "cpu":
            yield TORCHVISION.rstrip()


def _of_options(options: RunOptions) -> dict[str, Any]:
    """What stands in the options themselves."""
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
    return {
        "task": str(task),
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
            'padding="max_length", max_length=LENGTH' if data.padding is Padding.FIXED else "padding=True"
        ),
        "spaced": Code("add_prefix_space=True, " if task is Task.TOKEN_CLASSIFICATION else ""),
        "packing": Code(
            "load_in_8bit=True" if model.quantization is Quantization.INT8 else f"load_in_4bit=True, {nf4}"
        ),
        "speakers": {**SPEAKERS, **data.roles},
        "size": random[1] if random else data.image_size,
        "optimizer": optimizer,
        "code": Code,
    }


def _arguments(options: RunOptions, device: str, values: dict[str, Any]) -> dict[str, Any]:
    """Trainer's arguments: those the engine hands to it, and those for what Hone does by callbacks of its own."""
    task, output, compiler = options.task, options.output, options.device
    resolved = ResolvedRun(options, DeviceReport(name=device, title="", available=True), requested=device)
    given = trainer_arguments(resolved, Path("checkpoints"), has_eval=values["has_eval"])
    found = {
        name: value
        for name, value in given.items()
        if name not in NOT_WRITTEN and value is not None and DEFAULTS.get(name, NOT_WRITTEN) != value
    }
    if values["network"]:
        found.pop("activation_checkpointing_kwargs", None)
        found["activation_checkpointing"] = False
    if compiler.compile:
        found |= {"torch_compile": True, "torch_compile_backend": compiler.compile_backend}
        found |= (
            {"torch_compile_mode": compiler.compile_mode} if compiler.compile_backend == "inductor" else {}
        )
    if output.keep_best and values["has_eval"] and found["save_strategy"] != "steps":
        best = "loss" if task.writes_text else "pearson" if task is Task.TEXT_REGRESSION else "accuracy"
        found |= {"save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": best}
        found["greater_is_better"] = best != "loss"
    if found["save_strategy"] != "no":
        found["save_total_limit"] = output.keep_checkpoints or 1
    if not task.reads_conversations:  # TRL would switch these on by itself
        found = {name: value for name, value in found.items() if value is not False or name not in TRLS}
    found |= {
        "seed": Code("SEED"),
        "logging_steps": 1,
        "report_to": "tensorboard" if output.tensorboard else "none",
    }
    if task.reads_images:
        found["remove_unused_columns"] = False
    if task is Task.PREFERENCE:
        found["beta"] = options.training.beta
        found.pop("train_sampling_strategy", None)  # TRL's pairs have no length to be grouped by
    if task is Task.CHAT:
        found |= {"packing": True, "eval_packing": False} if options.data.packing else {}
        found |= {"assistant_only_loss": True} if values["assistant_only"] else {}
        found |= {"dataset_text_field": values["roles"][R.TEXT]} if R.TEXT in values["roles"] else {}
    return found


def _model(options: RunOptions) -> dict[str, Any]:
    """Where the model is, or what it is made of."""
    source = options.model.source
    scratch, folder = scratch_model(source), model_folder(source)
    found: dict[str, Any] = {"source": "", "adapter": "", "network": "", "weights": "", "mean": (), "std": ()}
    found |= {"scratch": scratch is not None, "random": scratch is None and not options.model.pretrained}
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
        ends = {
            "bos_token_id": Code("tokenizer.bos_token_id"),
            "eos_token_id": Code("tokenizer.eos_token_id"),
        }
        kind, tokenizer = ("LlamaConfig", "gpt2") if scratch.writes else ("BertConfig", "bert-base-cased")
        found |= {"scratch_config": Code(kind), "scratch_tokenizer": tokenizer}
        found["scratch_sizes"] = sizes | ({**ends, "tie_word_embeddings": True} if scratch.writes else {})
    elif not found["network"]:
        found["source"] = config_in(source)
        if folder is not None and holds_adapter(folder):
            found |= {"source": base_of(folder), "adapter": str(folder)}
    return found


def _data(options: RunOptions) -> dict[str, Any]:
    """How the rows are read, and which columns count.

    Raises:
        DataError: They are gone, or of no kind that a run reads.
    """
    data, task, random = options.data, options.task, parse_synthetic(options.data.train)
    found: dict[str, Any] = {
        "reader": "",
        "needed": [],
        "eval_rows": "",
        "text_columns": (),
        "label": "",
        "roles": {},
    }
    found |= {
        "chatml": False,
        "chatml_begin": Code(""),
        "assistant_only": False,
        "encoding": "utf-8",
        "places": {},
        "width": 0,
    }
    if task.reads_images:
        found |= _images(options)
    elif random:
        found |= _random(task, *random)
    else:
        is_text = task is Task.CAUSAL_LM
        files_in = texts_of if is_text else files_of
        files = files_in(data.train, data.train_split)
        table = (
            read_running(files, data.text_columns)
            if is_text
            else read_files(files, header=header_asked(data.header))
        )
        found |= _read(files, table)
        apart = held_out_of(data)
        if apart is not None:
            other = files_in(apart.source, apart.split, apart.option)
            read = (
                read_running(other, data.text_columns) if is_text else read_files(other, header=apart.header)
            )
            found["eval_rows"] = _read(other, read)["rows"]
        if isinstance(table, Table):
            found |= _columns(options, table)
        else:
            found["text_columns"] = ("text",)
    if task.reads_conversations:
        found |= _template(options, found["roles"])
    found["splits"] = bool(data.eval_fraction and not found["eval_rows"] and not random)
    return found


def _columns(options: RunOptions, table: Table) -> dict[str, Any]:
    data, task = options.data, options.task
    if task.reads_conversations:
        shape = find_shape(table, preference=task is Task.PREFERENCE, columns=data.columns)
        roles = {str(role): name for role, name in shape.columns.items()}
        nested = [role for role, name in roles.items() if _holds_messages(table, name)]
        return {"roles": roles, "nested": nested}
    if task is Task.CAUSAL_LM:
        name = text_column(table, data.text_columns)
        return {"text_columns": (name,), "needed": [name]}
    guesses = {Task.TEXT_REGRESSION: guess_score_columns, Task.TOKEN_CLASSIFICATION: guess_tag_columns}
    guess: Guess = guesses.get(task, guess_columns)(table, data.text_columns, data.label_column)
    return {"text_columns": guess.text, "label": guess.label, "needed": [*guess.text, guess.label]}


def _holds_messages(table: Table, name: str) -> bool:
    """Whether a column's cells are messages rather than texts, by its first rows."""
    return any(looks_like_messages(cell) for cell in table.rows[name].slice(0, 100).to_pylist())


def _template(options: RunOptions, roles: dict[str, str]) -> dict[str, Any]:
    """Whether the tokenizer gets ChatML, and whether TRL can tell the answers of conversations by marks."""
    if R.TEXT in roles:
        return {}
    if scratch_model(options.model.source) is not None:
        return {"chatml": True, "chatml_begin": Code("")}
    tokenizer = load_tokenizer(options.model.source)
    is_chatml = set_template(tokenizer, options.data.chat_template) is ChatTemplate.CHATML
    begin = '"{{ bos_token }}" ' if tokenizer.chat_template.startswith("{{- bos_token }}") else ""
    by_marks = (
        R.CONVERSATION in roles and options.data.loss_on is LossOn.ANSWERS and options.task is Task.CHAT
    )
    is_marked = by_marks and marks_answers(tokenizer)
    return {"chatml": is_chatml, "chatml_begin": Code(begin), "assistant_only": is_marked}


def _random(task: Task, count: int, size: int) -> dict[str, Any]:
    """Random samples, in the shape of rows that are read."""
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
    """The expression that reads files of rows, or of text."""
    if isinstance(table, PlainText):
        paths = [str(path) for path in table.files]
        return {"rows": _loaded("text", paths, {"sample_by": "document", **_encoding(table.reading)})}
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
    more: dict[str, Any] = {
        "delimiter": delimiters.get(reading.get("delimiter", ""), "\x1f"),
        "keep_default_na": False,
    }
    more |= {"quoting": 3} if reading.get("quoting") == "none" else {}
    more |= {"column_names": list(table.columns)} if reading.get("header") == "none" else {}
    return {"rows": _loaded("csv", paths, {**more, **_encoding(reading)})}


def _loaded(builder: str, files: list[str], more: Mapping[str, Any] = MappingProxyType({})) -> Code:
    told = "".join(f", {name}={value!r}" for name, value in more.items())
    return Code(f'datasets.load_dataset({builder!r}, data_files={files!r}, split="train"{told})')


def _encoding(reading: Reading) -> dict[str, str]:
    """Python's name of an encoding that isn't UTF-8."""
    by_word = {word: encoding for encoding, word in reversed(ENCODINGS.items())}
    told = reading.get("encoding", "UTF-8").removesuffix(" with a byte order mark")
    return {} if told == "UTF-8" else {"encoding": by_word.get(told, told)}


def _images(options: RunOptions) -> dict[str, Any]:
    """How images are read: rows with an image and a label."""
    data, source = options.data, options.data.train
    found: dict[str, Any] = {"text_columns": ("image",), "label": "label"}
    random = parse_synthetic(source)
    if random:
        size = (random[1], random[1])
        labels = f"[str(number % 2) for number in range({random[0]})]"
        rows = f'"image": [PIL.Image.effect_noise({size}, 64)] * {random[0]}, "label": {labels}'
        return {**found, "rows": Code(f"datasets.Dataset.from_dict({{{rows}}})")}
    if source == DIGITS:
        pixels = '(load_digits().images * 255 / 16).round().astype("uint8")'
        rows = f'"image": [PIL.Image.fromarray(image) for image in {pixels}]'
        rows += ', "label": load_digits().target'
        return {**found, "rows": Code(f"datasets.Dataset.from_dict({{{rows}}})")}
    train = find_training_images(options)
    if train.image_column and train.label_column:
        found |= {
            "text_columns": (train.image_column,),
            "label": train.label_column,
            "needed": [train.label_column],
        }
    other, place = train.eval, source
    if data.eval:
        read = find_images(
            data.eval,
            image_column=data.image_column,
            label_column=data.label_column,
            train_split=data.eval_split,
        )
        other, place = read.eval or read.train, data.eval
    found |= _stored(train.train, source, found["text_columns"][0], is_eval=False)
    return {
        **found,
        "eval_rows": _stored(other, place, found["text_columns"][0], is_eval=True)["rows"] if other else "",
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
