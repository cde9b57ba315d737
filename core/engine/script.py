"""Writes a run as a script: fills `resources/script.py.jinja` with its model and arguments, its examples beside it.

The examples are written as the run's trainer gets them, so that a script can't read, split or tokenize them otherwise;
what Hone corrects in Trainer and TRL is written word for word, from its source. Nothing in a run's files becomes code:
the template writes values with `repr`, except for the `Code` made here, and sentences as comments.
"""

import ast
import dataclasses
import inspect
import io
import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from transformers import TrainingArguments

from core.base.errors import OptionsError, Problem
from core.base.language import _
from core.engine.data import NO_LABEL, batches
from core.engine.data.image_files import CROPS, FORMATS, HEIC, LARGE_PIXELS, ImageSet, opened
from core.engine.data.tables import lengths_of
from core.engine.devices import computing
from core.engine.devices.capabilities import BITSANDBYTES_OPTIMIZERS, gather
from core.engine.devices.choose import ResolvedRun, report
from core.engine.environment import TORCHVISION, mps_watermarks
from core.engine.models import parts, refusals, vision
from core.engine.models.past_runs import weights_in
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.training import arguments, lion, loss_scale
from core.engine.training.build import prepare, trained_by
from core.jobs.script import SCRIPT, Script, ScriptRequest
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import (
    METRICS_OF_TASKS,
    Attention,
    Augmentation,
    BestMetric,
    DeepSpeed,
    Method,
    Optimizer,
    Precision,
    PreferenceLoss,
    Quantization,
    Task,
    Toggle,
)
from core.options.device_support import DeviceReport, automatic_paths, find_device, settle
from core.options.past_runs import holds_adapter, model_folder

TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "script.py.jinja"
START = "start"
"""The folder with the model's config and tokenizer."""
MERGED = "merged"
"""The folder with the model that the run started from, if that is a past run's with its adapter merged."""
PACKAGES = {
    "torch": "torch", "transformers": "transformers", "datasets": "datasets", "pyarrow": "pyarrow", "peft": "peft",
    "trl": "trl", "torchvision": "torchvision", "PIL": "pillow", "sklearn": "scikit-learn", "torchao": "torchao",
}  # fmt: skip
"""Packages by the module that a script imports."""
MODULES = {
    "copy": "import copy",
    "inspect": "import inspect",
    "io": "import io",
    "os": "import os",
    "pathlib": "import pathlib",
    "Iterable": "from collections.abc import Iterable",
    "Callable": "from collections.abc import Callable",
    "dataclass": "from dataclasses import dataclass",
    "partial": "from functools import partial",
    "Any": "from typing import Any",
    "np": "import numpy as np",
    "PIL": "import PIL.Image\nimport PIL.ImageOps",
    "pyarrow": "import pyarrow.parquet",
    "torch": "import torch",
    "datasets": "import datasets",
    "peft": "import peft",
    "safetensors": "import safetensors.torch",
    "sklearn": "import sklearn.metrics",
    "torchao": "import torchao.optim",
    "torchvision": "import torchvision",
    "v2": "from torchvision.transforms import v2",
    "transformers": "import transformers",
    "trl": "import trl",
    "logsigmoid": "from torch.nn.functional import logsigmoid",
    "Trainer": "from transformers import Trainer",
    "DPOTrainer": "from trl import DPOTrainer",
    "add_fused_lm_head": "from trl.trainer.utils import add_fused_lm_head",
}
PEFT_TASKS = {
    Task.TEXT_CLASSIFICATION: "SEQ_CLS",
    Task.TEXT_REGRESSION: "SEQ_CLS",
    Task.TOKEN_CLASSIFICATION: "TOKEN_CLS",
    Task.IMAGE_CLASSIFICATION: None,
}
"""PEFT's names of tasks, others are "CAUSAL_LM"."""

LEFT_AT_DEFAULT = (
    "max_steps", "gradient_accumulation_steps", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon",
    "max_grad_norm", "full_determinism", "fp16", "lr_scheduler_type", "warmup_steps", "optim", "tf32",
    "train_sampling_strategy", "dataloader_num_workers", "dataloader_persistent_workers",
)  # fmt: skip
"""Arguments whose defaults are the same for Trainer and TRL: written only if they differ."""
ON_IN_TRL = ("bf16", "activation_checkpointing")
NOT_WRITTEN = (
    "output_dir", "logging_strategy", "report_to", "disable_tqdm", "ddp_find_unused_parameters",
)  # fmt: skip

VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", re.ASCII)
"""As in PEP 440, without a local version."""


class Code(str):
    """An expression, written as is."""

    def __repr__(self) -> str:
        return str(self)


def write_script(request: ScriptRequest, options: RunOptions) -> Script:
    """Writes the script of a run and its examples into `request.folder`, which is there and empty.

    The model isn't loaded: its config on torch's meta device tells all that the script needs.

    Args:
        request: Title, device and versions of a run; empty for a run file.

    Raises:
        OptionsError: No data is chosen.
        DataError: Its data is gone, or can't be used.
        ModelError: The model's tokenizer or config can't be read.
    """
    if not options.data.train:
        raise OptionsError((Problem("data.train", _("is missing: choose the data to train on")),))
    request, options = settled(request, options)
    device = request.device
    with torch.device("meta"):
        prepared = prepare(with_changes(options, {"model.method": Method.FULL}), Reporter(None, writes=False))
    into = Path(request.folder)
    has_paths = _write_examples(prepared, options, into)
    values = {**_of_options(options), **_of_model(options, prepared, into)}
    values |= {"kind": device.partition(":")[0], "has_eval": bool(prepared.eval)}
    held, is_plain = parts.frozen_dtype(options), not (values["network"] or options.starts_random)
    is_cast = computing.COMPUTED_IN.get(options.device.precision) is held
    is_plain = is_plain and options.model.method is not Method.QLORA
    values["held"], values["frozen"] = held, Code(held if is_cast and is_plain else torch.float32)
    values |= _of_trainer(options, prepared, values)
    values["arguments"] = _arguments(options, device, values, prepared)
    body = rendered(TEMPLATE, values)

    imports = [*_imports(body, device, options)]
    lines = comment(f"{request.title or 'A run'}: a script that trains as Hone did and doesn't need it.")
    lines += comment(f"Requires: pip install {' '.join(_packages(imports, options, request.versions))}")
    if (count := options.device.processes) > 1:
        lines += comment(f"Run: torchrun --standalone --nproc-per-node={count} {SCRIPT}")
    lines += comment(
        f"The examples beside it are those of the run in their order: {len(prepared.train):,} to train on"
        f"{f', {len(prepared.eval):,} to validate' if prepared.eval else ''}, as Hone read them"
        f"{'' if options.task.reads_images else ', and as tokens'}."
        f"{' Images in files stay where they are: it has their paths.' if has_paths else ''}"
    )
    lines += closing(request, (text for text, differs in _differences(options, values).items() if differs))
    text = "\n".join((*lines, "", *imports, "", body, ""))
    (into / SCRIPT).write_text(text, encoding="utf-8")
    return Script(text)


def rendered(template: Path, values: dict[str, Any]) -> str:
    """Fills a template; values are written by `repr`."""
    loader = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, finalize=repr)
    written = loader.from_string(template.read_text(encoding="utf-8")).render(values)
    return re.sub(r"\n{3,}(?! )", "\n\n\n", re.sub(r"\n{3,}(?= )", "\n\n", written)).strip()


def settled(request: ScriptRequest, options: RunOptions) -> tuple[ScriptRequest, RunOptions]:
    """Resolves what is automatic: the device and the options of a run file for this computer, or its CPU."""
    if not request.device:
        machine = report(gather())
        found = find_device(machine, options.device.name) or find_device(machine, "cpu")
        assert found is not None, "every computer has a CPU"
        left = automatic_paths(found, options)
        notes = tuple(f"{path} = {value.value}: {value.reason}" for path, value in left.items())
        more = {"device": found.name, "notes": notes, "versions": machine.versions}
        request, options = msgspec.structs.replace(request, **more), settle(found, options)
    return request, with_changes(options, {"device.name": request.device})


def closing(request: ScriptRequest, differences: Iterable[str]) -> Iterator[str]:
    """Yields the end of a script's first comment: what was automatic, and what differs from the run."""
    for title, texts in (("Automatic options", request.notes), ("Differences from Hone", differences)):
        if lines := [line for text in texts for line in comment(f"- {text}")]:
            yield from ("#", f"# {title}:", *lines)


def _differences(options: RunOptions, values: dict[str, Any]) -> dict[str, Any]:
    """Returns what the script does differently, each with whether it applies."""
    task, data = options.task, options.data
    best, in_hone = _best_metric(options)
    flash = options.model.attention in (Attention.FLASH_2, Attention.FLASH_3)
    return {
        "Accuracy is that of words; Hone also reports precision, recall and F1 of whole entities.": (
            task is Task.TOKEN_CLASSIFICATION
        ),
        "The validation loss is a mean over examples; Hone's over the tokens that are learned.": (
            task is Task.CHAT and values["has_eval"]
        ),
        "With FlashAttention, packed conversations see each other; in Hone they don't.": data.packing
        and flash,
        f"Frozen weights are in {str(values['frozen'])[6:]}, in Hone in {str(values['held'])[6:]}.": (
            str(values["held"]) != values["frozen"]
        ),
        "All that passes between frozen layers is in 16 bits, in Hone in fp32.": (
            values["frozen"] != str(torch.float32)
        ),
        "The random changes of data.augmentation are others.": values["crop"] and task.reads_images,
        "memory.activation_checkpointing: torchvision's models don't support it.": (
            values["network"] and options.memory.activation_checkpointing
        ),
        "Dropout in recomputed activations draws other numbers on an Apple GPU (PyTorch issue 127676).": (
            values["kind"] == "mps" and options.memory.activation_checkpointing
        ),
        "In half precision, evaluations may be wrong on an Apple GPU (PyTorch issue 195910); Hone avoids it.": (
            values["kind"] == "mps" and task.writes_text
        ),
        "Dropout takes the same places in the examples of each process.": options.device.processes > 1,
        "data.group_by_length: the order is drawn for each process.": (
            options.device.processes > 1 and data.group_by_length is Toggle.ON
        ),
        f"Evaluations are compared by {best}; Hone compares them by {in_hone}.": (
            options.keeps_best and values["has_eval"] and best is not in_hone
        ),
        "FSDP2 gathers blocks by another rule; in 16 bits it adds gradients in 16 bits, Hone in fp32.": (
            options.memory.fsdp
        ),
        "Weights of a mixture's router count more where batches are accumulated.": (
            values["scales"] and values["has_router"]
        ),
        "It saves the model.": not options.output.save_model,
        "It can't be paused, makes no memory forecast, and shows no predictions.": True,
    }


def comment(text: str) -> list[str]:
    """Returns a sentence as lines of a comment; control characters are removed, so that nothing leaves them."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    return textwrap.wrap(
        plain, 110, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    ) or ["#"]


def _packages(imports: list[str], options: RunOptions, versions: dict[str, str]) -> Iterator[str]:
    """Yields what the script imports, and what transformers needs for it, each in the version of the run or of Hone."""
    text = "\n".join(imports)
    names = [
        package
        for module, package in PACKAGES.items()
        if re.search(rf"^(import|from) {module}\b", text, re.MULTILINE)
    ]
    optimizer = options.training.optimizer
    named = {
        "bitsandbytes": options.model.method is Method.QLORA or optimizer in BITSANDBYTES_OPTIMIZERS,
        "torchao": optimizer is Optimizer.ADAMW_8BIT_TORCHAO,
        "deepspeed": options.memory.deepspeed is not DeepSpeed.OFF,
        "tensorboard": options.output.tensorboard,
    }
    for name in dict.fromkeys([*names, "accelerate", *(name for name, is_used in named.items() if is_used)]):
        try:
            known = (versions.get(name) or version(name)).partition("+")[0]
        except PackageNotFoundError:
            known = ""
        yield f"{name}=={known}" if VERSION.fullmatch(known) else name


def _imports(body: str, device: str, options: RunOptions) -> Iterator[str]:
    """Yields the imports that `body` needs, after what must be set before torch is loaded."""
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
            yield f"\n{TORCHVISION.rstrip()}"


def _of_options(options: RunOptions) -> dict[str, Any]:
    """Returns the template's values that come from the options alone."""
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
    elif training.optimizer is Optimizer.LION:
        del numbers["eps"]
        optimizer = Code(f"(Lion, {numbers!r})")
    computed = {Precision.BF16: "torch.bfloat16", Precision.FP16: "torch.float16"}
    dtype = computed.get(options.device.precision, "torch.float32")
    nf4 = f'bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype={dtype}'
    return {
        "task": str(task),
        "seed": training.seed,
        "threads": options.device.threads,
        "processes": options.device.processes,
        "data": msgspec.to_builtins(data),
        "model": msgspec.to_builtins(model),
        "random": options.starts_random,
        "peft_task": PEFT_TASKS.get(task, "CAUSAL_LM"),
        "packing": Code(
            "load_in_8bit=True" if model.quantization is Quantization.INT8 else f"load_in_4bit=True, {nf4}"
        ),
        "crop": CROPS.get(data.augmentation),
        "changes": {
            Augmentation.LIGHT: "v2.ColorJitter(0.2, 0.2, 0.2)",
            Augmentation.STRONG: "v2.RandAugment()",
        }.get(data.augmentation, ""),
        "erases": data.augmentation is Augmentation.STRONG,
        "formats": tuple(name for name in FORMATS if name != HEIC),
        "large": LARGE_PIXELS,
        "optimizer": optimizer,
        "patience": (training.early_stopping_patience, training.early_stopping_threshold),
        "code": Code,
    }


def _of_model(options: RunOptions, prepared: Prepared, into: Path) -> dict[str, Any]:
    """Writes config, tokenizer and an adapter's merged model beside the script; returns where the weights are.

    Raises:
        ModelError: A past run, or its adapter's base model, is gone.
    """
    source, task, model = options.model.source, options.task, prepared.model
    found: dict[str, Any] = {"network": "", "weights": "", "place": "", "mean": (), "std": (), "size": 0}
    found |= {"labels": list(prepared.labels), "auto": "", "unpacked": []}
    if task.reads_images:
        seen = prepared.train.transform
        found |= {"mean": list(seen.mean), "std": list(seen.std), "size": seen.size}
    if isinstance(model, vision.VisionClassifier):
        image = vision.find_image_model(options)
        return found | {"network": image.network, "weights": str(image.weights or "")}
    start: Any = into / START
    model.config.save_pretrained(start)
    if prepared.processing_class is not None:
        prepared.processing_class.save_pretrained(start)
        prepared.save_extras(start)
    found["auto"] = Code(refusals.auto_class(task).__name__)
    if options.model.method is Method.QLORA:
        found["unpacked"] = list(parts.left_unpacked(model, options))
    return found if options.starts_random else found | {"place": place_of(source, into)}


def place_of(source: str, into: Path) -> str:
    """Returns where a script finds weights; a past run's with its adapter merged are written beside the script.

    Raises:
        ModelError: The run, or its adapter's base model, is gone.
    """
    folder = model_folder(source)
    if folder is None or not holds_adapter(folder):
        return weights_in(source)
    (into / MERGED).mkdir()
    for path in Path(weights_in(source)).iterdir():
        try:
            os.link(path, into / MERGED / path.name)  # takes no space
        except OSError:
            shutil.copyfile(path, into / MERGED / path.name)
    return Code(f"HERE / {MERGED!r}")


def _of_trainer(options: RunOptions, prepared: Prepared, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the trainer, what is given to it, and the source of Hone's own functions and classes for it."""
    task, method, by = options.task, options.model.method, trained_by(options, prepared)
    is_network, collate = bool(values["network"]), prepared.collator
    lacks = method is not Method.FULL and not (options.starts_random or is_network)
    own: list[Any] = [lion.Lion] if options.training.optimizer is Optimizer.LION else []
    if task.reads_images:
        own += [collate]
    else:
        own += [batches._padded, *(one for one in reversed(type(collate).__mro__) if one is not object)]
    if is_network:
        own += [vision._replace_head]
    if method is not Method.FULL:
        own += [parts.head_names]
        own += (
            [parts.adaptable_layers, parts.part_for_texts, parts._takes_lora, parts._is_linear]
            if method is not Method.HEAD
            else []
        )
        own += [parts.freeze_batch_norms] if task.reads_images else []
        if lacks:
            own += [refusals.fresh_weights, refusals._not_loaded, refusals._body, parts.owners]
    name, more = "transformers.Trainer", {}
    if task is Task.CHAT:
        name = "trl.SFTTrainer"
    elif task is Task.PREFERENCE:
        from core.engine.training import trl_trainers as trl

        own += [trl.disable_dropout]
        loss = {PreferenceLoss.KTO: trl.RatedLoss, PreferenceLoss.ORPO: trl.OddsRatioLoss}.get(
            options.training.preference_loss, trl.PairsAsTokens
        )
        own += [trl.PairsAsTokens] if issubclass(loss, trl.PairsAsTokens) else []
        own += [loss] if loss is not trl.PairsAsTokens else []
        name, more = loss.__name__, {key: value for key, value in by.more.items() if key != "ref_model"}
    bases = []
    if method is Method.QLORA and task.reads_conversations:
        from core.engine.training.trl_trainers import KeepsAdapter

        own, bases = [*own, KeepsAdapter], [KeepsAdapter.__name__]
    decays = bool(task.reads_images and options.training.weight_decay)
    own += [arguments.norm_parameters] if decays else []
    judges = options.device.processes > 1 and values["has_eval"]
    accumulates = options.memory.gradient_accumulation_steps * options.device.processes > 1
    scales = accumulates and not (task.reads_conversations or is_network)
    if scales:
        own += [parts.base_of, loss_scale.fix_loss_scaling, loss_scale._divides_by_items]
        own += [loss_scale.loss_by_label] if task is Task.TOKEN_CLASSIFICATION else []
    sources = [inspect.getsource(one).strip().replace("    @override\n", "") for one in own]
    names = {node.id for one in sources for node in ast.walk(ast.parse(one)) if isinstance(node, ast.Name)}
    constants = {
        "BY_TOKEN": batches.BY_TOKEN, "LENGTHS": batches.LENGTHS, "NO_LABEL": NO_LABEL,
        "ROWS": ("input_ids", "attention_mask", "completion_mask"), "MANY_ITEMS": loss_scale.MANY_ITEMS,
    }  # fmt: skip
    used = [f"{constant} = {value!r}" for constant, value in constants.items() if constant in names]
    return {
        "own": [Code("\n".join(used)), *map(Code, sources)] if used else [*map(Code, sources)],
        "trainer": Code(name),
        "bases": ", ".join((*bases, name)) if bases or decays or judges else "",
        "decays": decays,
        "judges": judges,
        "scales": scales,
        "lacks": lacks,
        "last_blocks": tuple(
            f"{name}." for name in parts.block_names(prepared.model)[-options.model.lora_layers :]
        ),
        "has_router": any(hasattr(prepared.model, weight) for weight in loss_scale.ROUTER_WEIGHTS),
        "more": more,
        "collator": "stack" if task.reads_images else repr(collate),
        "copies": prepared.reference is not None and method is Method.FULL,
    }


def _write_examples(prepared: Prepared, options: RunOptions, into: Path) -> bool:
    """Writes what the run trains on and is judged by as Parquet files; returns whether images in files stay there."""
    has_paths = False
    for name, samples in (("train", prepared.train), ("validation", prepared.eval)):
        if not samples:
            continue
        if isinstance(samples, ImageSet):
            table = _pictures(samples)
            has_paths |= table["path"].null_count < len(table)
        else:
            table = samples.with_format("arrow")[:]  # as a table, so that a selection of rows is heeded
            if options.task is Task.PREFERENCE and options.data.group_by_length is Toggle.ON:
                table = table.append_column("length", pa.array(lengths_of(samples)))
        pyarrow.parquet.write_table(table, into / f"{name}.parquet")
    return has_paths


def _pictures(samples: ImageSet) -> pa.Table:
    """Returns path or bytes of each image, and its label's number; HEIC, which needs a plugin, becomes PNG."""
    paths, contents = [], []
    for place in samples.chosen:
        stored = samples.images.encoded(place)
        with opened(stored) as image:
            if isinstance(stored, np.ndarray) or image.format == HEIC:
                written = io.BytesIO()
                image.save(written, "PNG")
                stored = written.getvalue()
        paths.append(str(stored.absolute()) if isinstance(stored, Path) else None)
        contents.append(None if isinstance(stored, Path) else stored)
    columns = {"path": pa.array(paths, pa.string()), "bytes": pa.array(contents, pa.large_binary())}
    return pa.table({**columns, "label": pa.array(samples.labels, pa.int64())})


def _arguments(
    options: RunOptions, device: str, values: dict[str, Any], prepared: Prepared
) -> dict[str, Any]:
    """Returns Trainer's arguments: the engine's, and those for what Hone does with callbacks."""
    task, output, compiler = options.task, options.output, options.device
    resolved = ResolvedRun(options, DeviceReport(name=device, title="", available=True), requested=device)
    given = arguments.trainer_arguments(resolved, Path("checkpoints"), has_eval=values["has_eval"])
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
    by = trained_by(resolved.options, prepared)
    library = "transformers" if by.arguments is TrainingArguments else "trl"
    values["arguments_class"] = f"{library}.{by.arguments.__name__}"
    found |= by.settings
    return found


def _best_metric(options: RunOptions) -> tuple[BestMetric, BestMetric]:
    """Returns what evaluations are compared by: in the script, which has fewer metrics, and in Hone."""
    task, asked = options.task, options.training.metric_for_best_model
    if asked is BestMetric.AUTO:
        asked = METRICS_OF_TASKS[task][0]
    if task.writes_text:
        return BestMetric.LOSS, asked
    known = {BestMetric.SPEARMAN: BestMetric.PEARSON}
    if task is Task.TOKEN_CLASSIFICATION:
        known = {BestMetric.F1: BestMetric.ACCURACY}
    return known.get(asked, asked), asked
