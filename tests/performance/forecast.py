"""How near the forecasts of memory come to what runs really take, in one invocation.

Each run is trained a few steps on the CPU in a fresh engine process as `hone train` does it, in two groups: the runs
the forecast was written with, and those held out. Measured is the peak of the process (resident memory) less what it
held when its libraries were loaded; beside it stands the forecast, less what it counts for the libraries. Peaks are
kept in the file of `--measured`, and runs found in it are not trained again.

With `--gpu` the nine rows that transformers' guide on training with one GPU has measured (BERT-large, 512 tokens) are
trained on this computer's NVIDIA GPU: what the allocator reserved and CUDA's context.

The held-out group was written down before any of its runs was measured, and no constant was chosen by it. Models not
bundled are made with random weights, whose values change nothing about memory.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from core.base.jobs import run_job
from core.benchmark.published import GUIDE
from core.memory import estimate
from core.memory.model import ModelReport, options_request
from core.options import RunOptions
from core.options.device_support import DeviceReport, MachineReport
from core.options.validate import read_options
from core.runs.library import create
from tests.performance.figures import ROOT, Figure, apart, at_most, figure, main, minilm, progress, use_home

STEPS = 4
USED, HELD_OUT = GROUPS = "used while writing the formulas", "held out"

SETS: dict[str, dict[str, Any]] = {
    "fp32, AdamW": {},
    "accumulated, recomputed": {
        "memory.gradient_accumulation_steps": 2,
        "memory.activation_checkpointing": True,
    },
    "bf16": {"device.precision": "bf16"},
    "Adafactor": {"training.optimizer": "adafactor"},
    "LoRA": {"model.method": "lora"},
}
"""What each set changes of a plain run; a vision model's published weights would have to be fetched for LoRA."""

MORE_OF_MINILM: dict[str, dict[str, Any]] = {
    "8-bit AdamW": {"training.optimizer": "adamw-8bit"},
    "last layer": {"model.method": "head"},
    "QLoRA": {"model.method": "qlora"},
    "eager, accumulated": {"model.attention": "eager", "memory.gradient_accumulation_steps": 2},
    "8-bit AdamW, 4 x 64": {
        "training.optimizer": "adamw-8bit",
        "memory.batch_size": 4,
        "data.max_length": 64,
    },
}
"""Runs that earlier formulas were wrong about."""

BERT_BASE = ("BertConfig", {})
BERT_LARGE = (
    "BertConfig",
    {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
)
T5 = (
    "T5Config",
    {"vocab_size": 30522, "d_model": 512, "num_layers": 6, "d_ff": 2048, "num_heads": 8, "eos_token_id": 102,
     "decoder_start_token_id": 0, "pad_token_id": 0},
)  # fmt: skip
GATED_T5 = (
    "T5Config",
    {**T5[1], "num_layers": 8, "d_ff": 1024, "num_heads": 6, "feed_forward_proj": "gated-gelu"},
)
BART = (
    "BartConfig",
    {"vocab_size": 30522, "d_model": 512, "encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 2048,
     "decoder_ffn_dim": 2048, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
     "max_position_embeddings": 512,
     "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "decoder_start_token_id": 102},
)  # fmt: skip
DISTILBERT = ("DistilBertConfig", {})
GPT2 = ("GPT2Config", {"vocab_size": 30522, "n_embd": 512, "n_layer": 6, "n_head": 8, "pad_token_id": 0})
LLAMA = (
    "LlamaConfig",
    {"vocab_size": 30522, "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6,
     "num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0},
)  # fmt: skip
ALBERT = (
    "AlbertConfig",
    {"vocab_size": 30522, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
)

IMAGES = {"task": "image-classification", "model.pretrained": False, "data.eval_fraction": 0.0}


class Run(NamedTuple):
    """One run to compare: what to call it, what is asked, and in which group it is."""

    name: str
    options: RunOptions
    group: str = USED


def cpu_runs(group: str, data: Path | None, folder: Path) -> list[Run]:
    """Every run of a group.

    Args:
        group: Which of `GROUPS`.
        data: Folder with MRPC; None: MiniLM reads random tokens in place of it.
        folder: Where models are made.
    """
    found = _used(data, folder) if group == USED else _held_out(folder)
    return [Run(name, asked(options, "cpu"), group) for name, options in found.items()]


def _used(data: Path | None, folder: Path) -> dict[str, dict[str, Any]]:
    minilm, bert = _minilm(data), _random_text(folder, "bert-base", BERT_BASE, "256x128", 16)
    plain = (("MiniLM", minilm), ("BERT base", bert), ("ResNet-18", _images("resnet18", "256x224", 16)))
    found = {
        f"{name}, {words}": {**options, **changes}
        for name, options in plain
        for words, changes in SETS.items()
        if name != "ResNet-18" or words != "LoRA"
    }
    found |= {f"MiniLM, {words}": {**minilm, **changes} for words, changes in MORE_OF_MINILM.items()}
    return {
        **found,
        "T5, 16 x 128": _written_text(folder, "t5", T5, length=128, batch=16),
        "MobileNet, 16 x 128 px": _images("mobilenet_v2", "256x128", 16),
    }


def _held_out(folder: Path) -> dict[str, dict[str, Any]]:
    small = str(minilm())
    base = _random_text(folder, "bert-base", BERT_BASE, "128x256", 16)
    return {
        "DistilBERT, 24 x 96": _random_text(folder, "distilbert", DISTILBERT, "128x96", 24),
        "GPT-2, 8 x 256": _random_text(folder, "gpt2", GPT2, "128x256", 8),
        "Llama, 8 x 192, bf16": {
            **_random_text(folder, "llama", LLAMA, "128x192", 8),
            "device.precision": "bf16",
        },
        "MiniLM, 64 x 64, 8-bit AdamW": {
            **_text(small, "256x64", 64),
            "training.optimizer": "adamw-8bit",
        },
        "BERT base, 2 x 128, 8-bit AdamW": {
            **base,
            "data.train": "synthetic:64x128",
            "memory.batch_size": 2,
            "training.optimizer": "adamw-8bit",
        },
        "MiniLM, 16 x 256, LoRA 32, bf16": {
            **_text(small, "128x256", 16),
            "model.method": "lora",
            "model.lora_rank": 32,
            "device.precision": "bf16",
        },
        "BERT base, 8 x 192, QLoRA 32": {
            **base,
            "data.train": "synthetic:128x192",
            "memory.batch_size": 8,
            "model.method": "qlora",
            "model.lora_rank": 32,
        },
        "BERT base, 16 x 256, last layer": {**base, "model.method": "head"},
        "ALBERT, 6 x 512": _random_text(folder, "albert", ALBERT, "64x512", 6),
        "GPT-2, 6 x 320, recomputed": {
            **_random_text(folder, "gpt2", GPT2, "64x320", 6),
            "memory.activation_checkpointing": True,
        },
        "gated T5, 8 x 128": _written_text(folder, "gated-t5", GATED_T5, length=128, batch=8),
        "BART, 12 x 160": _written_text(folder, "bart", BART, length=160, batch=12),
        "EfficientNet, 16 x 160 px": _images("efficientnet_b0", "128x160", 16),
        "MobileNet, 12 x 224 px, bf16, SGD": {
            **_images("mobilenet_v2", "128x224", 12),
            "device.precision": "bf16",
            "training.optimizer": "sgd",
        },
        "SqueezeNet, 16 x 224 px": _images("squeezenet1_0", "128x224", 16),
    }


def asked(changes: dict[str, Any], device_name: str) -> RunOptions:
    """Options of a short run in fp32, but for `changes` by path."""
    plain = {"device.name": device_name, "device.precision": "fp32", "training.max_steps": STEPS}
    tree: dict[str, Any] = {}
    for path, value in {**plain, **changes}.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    options, problems = read_options(tree)
    if options is None:
        raise SystemExit(f"{changes}: {problems}")
    return options


def model_folder(folder: Path, config: tuple[str, dict[str, Any]]) -> Path:
    """A model of this config with random weights and MiniLM's tokenizer; made once, in a process of its own."""
    if folder.is_dir():
        return folder
    folder.mkdir()
    for file in minilm().iterdir():
        if (file.is_file() and "token" in file.name) or file.name == "vocab.txt":
            shutil.copy(file, folder)
    kind, settings = config
    script = (
        "from core.engine.environment import prepare_torchvision; prepare_torchvision()\n"
        f"from transformers import AutoModelForSequenceClassification, {kind}\n"
        f"model = AutoModelForSequenceClassification.from_config({kind}(**{settings!r}))\n"
        f"model.save_pretrained({str(folder)!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, capture_output=True)
    return folder


def _minilm(data: Path | None) -> dict[str, Any]:
    mrpc = data.resolve() / "msr_paraphrase_train.txt" if data else None
    pairs = {"data.text_columns": ["#1 String", "#2 String"], "data.label_column": "Quality"}
    plain = _text(str(minilm()), "256x128", 32)
    return {**plain, **({"data.train": str(mrpc), **pairs} if mrpc else {}), "data.padding": "fixed"}


def _text(source: str, data: str, batch: int) -> dict[str, Any]:
    return {
        "task": "text-classification",
        "data.eval_fraction": 0.0,
        "data.train": f"synthetic:{data}",
        "data.max_length": int(data.partition("x")[2]),
        "model.source": source,
        "memory.batch_size": batch,
    }


def _random_text(
    folder: Path, name: str, config: tuple[str, dict[str, Any]], data: str, batch: int
) -> dict[str, Any]:
    return _text(str(model_folder(folder / name, config)), data, batch)


def _written_text(
    folder: Path, name: str, config: tuple[str, dict[str, Any]], *, length: int, batch: int
) -> dict[str, Any]:
    """Words rather than random tokens: encoder-decoders look for the token that ends a text."""
    file = folder / "words.csv"
    if not file.exists():
        file.write_text("text,label\n" + "".join(f"{'word ' * 300},{row % 2}\n" for row in range(128)))
    plain = _text(str(model_folder(folder / name, config)), f"1x{length}", batch)
    return {**plain, "data.train": str(file), "data.padding": "fixed"}


def _images(name: str, data: str, batch: int) -> dict[str, Any]:
    return {
        **IMAGES,
        "model.source": f"torchvision:{name}",
        "data.train": f"synthetic:{data}",
        "memory.batch_size": batch,
    }


GUIDE_CHANGES: dict[str, dict[str, Any]] = {
    "plain": {"memory.batch_size": 4},
    "accumulation": {"memory.gradient_accumulation_steps": 4},
    "checkpointing": {"memory.gradient_accumulation_steps": 4, "memory.activation_checkpointing": True},
    "half": {"memory.batch_size": 4, "device.precision": "fp16"},
    "adafactor": {"memory.batch_size": 4, "training.optimizer": "adafactor"},
    "adamw-8bit": {"memory.batch_size": 4, "training.optimizer": "adamw-8bit"},
}
GUIDE_CHANGES["all"] = {**GUIDE_CHANGES["checkpointing"], "device.precision": "fp16"}
GUIDE_CHANGES["all-adafactor"] = {**GUIDE_CHANGES["all"], "training.optimizer": "adafactor"}
GUIDE_CHANGES["all-adamw-8bit"] = {**GUIDE_CHANGES["all"], "training.optimizer": "adamw-8bit"}
"""What each row of the guide changes of batch 1 in fp32. Its figures were read from nvidia-smi on a V100."""


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        use_home(folder)
        return on_gpu(Path(folder)) if arguments.gpu else on_cpu(arguments, Path(folder))


def on_cpu(arguments: argparse.Namespace, folder: Path) -> list[Figure]:
    device, kept = find_device("cpu"), arguments.measured
    known: dict[str, dict[str, int]] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    figures = []
    for group in GROUPS:
        errors = []
        for run in cpu_runs(group, arguments.data, folder):
            if not all(word in f"{group}: {run.name}" for word in arguments.only):
                continue
            if run.name not in known:
                known[run.name] = trained(run, folder)
                if kept is not None:
                    kept.write_text(json.dumps(known, indent=1))
            measured = known[run.name]["peak"] - known[run.name]["base"]
            forecast = forecast_bytes(run.options, device) - estimate.libraries_bytes(run.options)
            errors.append(100 * (forecast - measured) / measured)
            progress(
                f"{run.name:38}{measured >> 20:9,} MB, forecast {forecast >> 20:9,} MB {errors[-1]:+8.1f} %"
            )
        if errors:
            name, sizes = f"{group} ({len(errors)} runs)", [abs(error) for error in errors]
            figures += [
                figure(f"{name}: median error", statistics.median(sizes), "%", goal=at_most(10)),
                figure(f"{name}: worst error", max(sizes), "%", goal=at_most(20)),
            ]
    return figures


def on_gpu(folder: Path) -> list[Figure]:
    """The guide's rows: what was measured against the forecast, by the guide's own figure."""
    gpu = find_device("cuda:0")
    if not gpu.available:
        raise SystemExit(f"The guide's rows are measured on an NVIDIA GPU only. {gpu.reason}")
    plain = _text(str(model_folder(folder / "bert-large", BERT_LARGE)), "512x512", 1)
    figures = []
    for row, changes in GUIDE_CHANGES.items():
        run = Run(row, asked({**plain, **changes}, "cuda:0"))
        peak, total = trained(run, folder)["peak"], forecast_bytes(run.options, gpu)
        name = f"{row} (guide: {GUIDE[row].megabytes:,} MB)"
        figures.append(figure(name, total / (1 << 20), "MB", peer=peak / (1 << 20)))
    return figures


def find_device(name: str) -> DeviceReport:
    return next(one for one in run_job("devices", None, MachineReport).devices if one.name == name)


def forecast_bytes(options: RunOptions, device: DeviceReport) -> int:
    report = run_job("check-model", options_request(options), ModelReport)
    if report.shape is None:
        raise SystemExit(f"{options.model.source}: {report.problems}")
    return estimate.forecast(options, report.shape, device).parts.total


def trained(run: Run, folder: Path) -> dict[str, int]:
    """Train it in a fresh process: `base` and `peak` in bytes."""
    made = create(run.options, folder, Path(tempfile.mkdtemp(dir=folder)) / "run")
    found: dict[str, int] = apart(train_here, made.path, seconds=1800)
    shutil.rmtree(made.path)
    return found


def train_here(path: Path, to: Connection) -> None:
    """The engine's job `train`, with a look at the memory between its imports and its work."""
    from core.engine.environment import hide_libraries, prepare_environment, prepare_torchvision
    from core.engine.reporter import Reporter
    from core.runs.folder import RunFolder

    run = RunFolder(path)
    options = run.options()
    prepare_environment(options)
    hide_libraries(options)
    prepare_torchvision()
    from core.engine.memory.weigh import CurrentMemory, gpu_used
    from core.engine.training.train import load_libraries, train_run

    load_libraries(options)
    with CurrentMemory(options.device.name.partition(":")[0], gpu_used_before=gpu_used()) as held:
        if train_run(run, options, Reporter(run)) == 0:
            to.send({"base": held.base, "peak": held.most()[0]})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="folder with msr_paraphrase_train.txt")
    parser.add_argument("--only", nargs="*", default=(), help="words that a run's group and name must have")
    parser.add_argument("--gpu", action="store_true", help="the guide's nine rows on an NVIDIA GPU")
    parser.add_argument("--measured", type=Path, help="file that keeps what was measured")


if __name__ == "__main__":
    main(__doc__, measure, add=add_arguments)
