"""How near the forecasts of memory come to what runs really take, in one invocation.

Each run is trained a few steps in a fresh engine process as `hone train` does it, in three groups: the runs that the
forecast was written with, and those held out, by PyTorch on the CPU; and runs by MLX, on a Mac on its GPU. The peak of
the process's resident memory, less its size when its libraries were loaded, is compared with the forecast, less the
part of the libraries; of MLX, the peak that it counts itself. The file of `--measured` keeps the peaks, and its runs
are not trained again.

The held-out group was written down before any of its runs was measured, and no constant was chosen by it. Models not
bundled are made with random weights, whose values change nothing about memory.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from core.base.jobs import run_job
from core.memory import estimate
from core.memory.model import ModelReport, Parts, options_request
from core.options import RunOptions
from core.options.choices import Backend
from core.options.device_support import DeviceReport, MachineReport
from core.options.validate import read_options
from core.runs.library import create
from tests.performance.figures import ROOT, Figure, apart, at_most, figure, main, minilm, own_home, progress

STEPS = 4
USED, HELD_OUT, BY_MLX = GROUPS = "used while writing the formulas", "held out", "by MLX"
GOALS = {USED: (10, 20), HELD_OUT: (10, 20), BY_MLX: (5, 15)}
"""The most that the median and the largest error may be, in percent."""

Changes = dict[str, Any]
"""Options by path, as a run changes them."""

ACCUMULATED: Changes = {"memory.gradient_accumulation_steps": 2}
RECOMPUTED: Changes = {"memory.activation_checkpointing": True}
BF16: Changes = {"device.precision": "bf16"}
EIGHT_BIT: Changes = {"training.optimizer": "adamw-8bit"}
LORA, HEAD, QLORA = ({"model.method": method} for method in ("lora", "head", "qlora"))
RANK_32: Changes = {"model.lora_rank": 32}

SETS: dict[str, Changes] = {
    "fp32, AdamW": {},
    "accumulated, recomputed": {**ACCUMULATED, **RECOMPUTED},
    "bf16": BF16,
    "Adafactor": {"training.optimizer": "adafactor"},
    "LoRA": LORA,
}
"""Changes of a plain run of each model. ResNet has none with LoRA, for which weights must be downloaded."""

MORE_OF_MINILM: dict[str, Changes] = {
    "8-bit AdamW": EIGHT_BIT,
    "last layer": HEAD,
    "QLoRA": QLORA,
    "eager, accumulated": {"model.attention": "eager", **ACCUMULATED},
    "8-bit AdamW, 4 x 64": {**EIGHT_BIT, "memory.batch_size": 4, "data.max_length": 64},
}
"""Runs that earlier formulas were wrong about."""

CONFIGS: dict[str, tuple[str, Changes]] = {
    "bert-base": ("BertConfig", {}),
    "bert-large": (
        "BertConfig",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "t5": (
        "T5Config",
        {"vocab_size": 30522, "d_model": 512, "num_layers": 6, "d_ff": 2048, "num_heads": 8, "eos_token_id": 102,
         "decoder_start_token_id": 0, "pad_token_id": 0},
    ),
    "bart": (
        "BartConfig",
        {"vocab_size": 30522, "d_model": 512, "encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 2048,
         "decoder_ffn_dim": 2048, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
         "max_position_embeddings": 512,
         "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "decoder_start_token_id": 102},
    ),
    "distilbert": ("DistilBertConfig", {}),
    "gpt2": (
        "GPT2Config", {"vocab_size": 30522, "n_embd": 512, "n_layer": 6, "n_head": 8, "pad_token_id": 0},
    ),
    "llama": (
        "LlamaConfig",
        {"vocab_size": 30522, "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6,
         "num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0},
    ),
    "albert": (
        "AlbertConfig",
        {"vocab_size": 30522, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
}  # fmt: skip
CONFIGS["qwen3"] = (
    "Qwen3Config",
    {"vocab_size": 30522, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8,
     "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "pad_token_id": 0},
)  # fmt: skip
CONFIGS["gpt2-base"] = ("GPT2Config", {"vocab_size": 30522, "pad_token_id": 0})
CONFIGS["llama-base"] = (
    "LlamaConfig",
    {"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
     "num_attention_heads": 12, "num_key_value_heads": 4, "pad_token_id": 0},
)  # fmt: skip
CONFIGS["llama-1b"] = (
    "LlamaConfig",
    {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
     "num_attention_heads": 32, "num_key_value_heads": 8, "pad_token_id": 0, "dtype": "bfloat16"},
)  # fmt: skip
CONFIGS["bert-small"] = (
    "BertConfig",
    {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
)
CONFIGS["gated-t5"] = (
    "T5Config",
    {**CONFIGS["t5"][1], "num_layers": 8, "d_ff": 1024, "num_heads": 6, "feed_forward_proj": "gated-gelu"},
)


def runs_of(group: str, data: Path | None, folder: Path) -> dict[str, RunOptions]:
    """The runs of a group of `GROUPS` by name.

    `data` is a folder with MRPC (None: MiniLM reads random tokens instead); models are made in `folder`.
    """
    if group == BY_MLX:
        return {name: options_of(changes, MLX_DEVICE) for name, changes in runs_by_mlx(folder).items()}
    runs = runs_used(data, folder) if group == USED else runs_held_out(folder)
    return {name: options_of(changes, "cpu") for name, changes in runs.items()}


def runs_used(data: Path | None, folder: Path) -> dict[str, Changes]:
    small = {**text(minilm(), 256, 128, 32), "data.padding": "fixed"}
    if data is not None:
        small["data.train"] = str(data.resolve() / "msr_paraphrase_train.txt")
        small |= {"data.text_columns": ["#1 String", "#2 String"], "data.label_column": "Quality"}
    bert = text(model(folder, "bert-base"), 256, 128, 16)
    runs = {f"MiniLM, {title}": {**small, **changes} for title, changes in SETS.items()}
    runs |= {f"BERT base, {title}": {**bert, **changes} for title, changes in SETS.items()}
    resnet = images("resnet18", 256, 224, 16)
    runs |= {f"ResNet-18, {title}": {**resnet, **SETS[title]} for title in SETS if title != "LoRA"}
    runs |= {f"MiniLM, {title}": {**small, **changes} for title, changes in MORE_OF_MINILM.items()}
    runs["T5, 16 x 128"] = words(folder, "t5", 128, 16)
    runs["MobileNet, 16 x 128 px"] = images("mobilenet_v2", 256, 128, 16)
    return runs


def runs_held_out(folder: Path) -> dict[str, Changes]:
    base, gpt2 = model(folder, "bert-base"), model(folder, "gpt2")
    small_lora = {**LORA, **RANK_32, **BF16}
    mobile_sgd = {**BF16, "training.optimizer": "sgd"}
    return {
        "DistilBERT, 24 x 96": text(model(folder, "distilbert"), 128, 96, 24),
        "GPT-2, 8 x 256": text(gpt2, 128, 256, 8),
        "Llama, 8 x 192, bf16": text(model(folder, "llama"), 128, 192, 8) | BF16,
        "MiniLM, 64 x 64, 8-bit AdamW": text(minilm(), 256, 64, 64) | EIGHT_BIT,
        "BERT base, 2 x 128, 8-bit AdamW": text(base, 64, 128, 2) | EIGHT_BIT | {"data.max_length": 256},
        "MiniLM, 16 x 256, LoRA 32, bf16": text(minilm(), 128, 256, 16) | small_lora,
        "BERT base, 8 x 192, QLoRA 32": text(base, 128, 192, 8) | QLORA | RANK_32 | {"data.max_length": 256},
        "BERT base, 16 x 256, last layer": text(base, 128, 256, 16) | HEAD,
        "ALBERT, 6 x 512": text(model(folder, "albert"), 64, 512, 6),
        "GPT-2, 6 x 320, recomputed": text(gpt2, 64, 320, 6) | RECOMPUTED,
        "gated T5, 8 x 128": words(folder, "gated-t5", 128, 8),
        "BART, 12 x 160": words(folder, "bart", 160, 12),
        "EfficientNet, 16 x 160 px": images("efficientnet_b0", 128, 160, 16),
        "MobileNet, 12 x 224 px, bf16, SGD": images("mobilenet_v2", 128, 224, 12) | mobile_sgd,
        "SqueezeNet, 16 x 224 px": images("squeezenet1_0", 128, 224, 16),
    }


MLX_DEVICE = "mps" if sys.platform == "darwin" else "cpu"
SGD: Changes = {"training.optimizer": "sgd"}
ADAFACTOR: Changes = {"training.optimizer": "adafactor"}


def runs_by_mlx(folder: Path) -> dict[str, Changes]:
    if find_spec("mlx") is None:
        return {}

    def writes(name: str, length: int, batch: int) -> Changes:
        return writing(folder, name, length, batch)

    def chats(name: str, length: int, batch: int) -> Changes:
        return writes(name, length, batch) | {"task": "chat", "data.train": str(conversations(folder))}

    def prefers(loss: str, length: int, batch: int) -> Changes:
        data = {"data.train": str(ratings(folder) if loss == "kto" else preferences(folder))}
        return (
            writes("llama", length, batch) | {"task": "preference", "training.preference_loss": loss} | data
        )

    return {
        "Llama, 4 x 128": writes("llama", 128, 4),
        "Llama, 4 x 128, accumulated, recomputed": writes("llama", 128, 4) | ACCUMULATED | RECOMPUTED,
        "Llama, 2 x 96, bf16": writes("llama", 96, 2) | BF16,
        "Llama, chat, 2 x 256, LoRA": chats("llama", 256, 2) | LORA,
        "Llama, chat, 2 x 128, QLoRA, bf16": chats("llama", 128, 2) | QLORA | BF16,
        "Llama of 131 M, 1 x 64, SGD": writes("llama-base", 64, 1) | SGD,
        "Llama, 1 x 64, Lion": writes("llama", 64, 1) | {"training.optimizer": "lion"},
        "Llama of 131 M, 1 x 64, Lion": writes("llama-base", 64, 1) | {"training.optimizer": "lion"},
        "Llama, chat, 2 x 256, LoRA in the last 2": chats("llama", 256, 2) | LORA | {"model.lora_layers": 2},
        "GPT-2, 4 x 128": writes("gpt2", 128, 4),
        "GPT-2, chat, 2 x 320, LoRA 32, recomputed": chats("gpt2", 320, 2) | LORA | RANK_32 | RECOMPUTED,
        "GPT-2 of 110 M, 1 x 96, Adafactor": writes("gpt2-base", 96, 1) | ADAFACTOR,
        "Qwen3, chat, 2 x 64, bf16, accumulated": chats("qwen3", 64, 2) | BF16 | ACCUMULATED,
        "Qwen3, 8 x 96, QLoRA": writes("qwen3", 96, 8) | QLORA,
        "Qwen3, 1 x 512, recomputed": writes("qwen3", 512, 1) | RECOMPUTED,
        "Llama, 1 x 64, Muon": writes("llama", 64, 1) | {"training.optimizer": "muon"},
        "Llama, chat, 2 x 128, LoRA, evaluated": chats("llama", 128, 2) | LORA | {"data.eval_fraction": 0.3},
        "Llama, DPO, 2 x 128, LoRA": prefers("dpo", 128, 2) | LORA,
        "Llama, DPO, 1 x 96": prefers("dpo", 96, 1),
        "Llama, ORPO, 1 x 96, bf16": prefers("orpo", 96, 1) | BF16,
        "Llama, KTO, 2 x 128, LoRA": prefers("kto", 128, 2) | LORA,
    }


def text(source: Path, rows: int, length: int, batch: int) -> Changes:
    return {
        "task": "text-classification",
        "data.eval_fraction": 0.0,
        "data.train": f"synthetic:{rows}x{length}",
        "data.max_length": length,
        "model.source": str(source),
        "memory.batch_size": batch,
    }


def words(folder: Path, name: str, length: int, batch: int) -> Changes:
    """Words rather than random tokens: encoder-decoders search for the token that ends a text."""
    file = folder / "words.csv"
    if not file.exists():
        file.write_text("text,label\n" + "".join(f"{'word ' * 300},{row % 2}\n" for row in range(128)))
    return text(model(folder, name), 1, length, batch) | {"data.train": str(file), "data.padding": "fixed"}


def writing(folder: Path, name: str, length: int, batch: int) -> Changes:
    """A run of a model that writes, by MLX; each batch has the full length."""
    file = folder / "words.txt"
    if not file.exists():
        file.write_text("\n".join("some words " * 1000 for _ in range(20)))
    return {
        "task": "causal-lm",
        "device.backend": "mlx",
        "data.eval_fraction": 0.0,
        "data.train": str(file),
        "data.max_length": length,
        "model.source": str(model(folder, name, "CausalLM")),
        "memory.batch_size": batch,
        "training.predictions": 0,
        "output.save_model": False,
        "output.keep_checkpoints": 0,
    }


def conversations(folder: Path) -> Path:
    file = folder / "conversations.jsonl"
    if not file.exists():
        row = {"prompt": "some words", "answer": "more words " * 1000}
        file.write_text(f"{json.dumps(row)}\n" * 32)
    return file


def preferences(folder: Path) -> Path:
    file = folder / "preferences.jsonl"
    row = {"prompt": "some words " * 20, "chosen": "some words " * 200, "rejected": "other words " * 200}
    file.write_text(f"{json.dumps(row)}\n" * 20)
    return file


def ratings(folder: Path) -> Path:
    file = folder / "ratings.jsonl"
    rows = [
        {"prompt": f"some words {n}", "completion": "some words " * 200, "label": n % 2 == 0}
        for n in range(20)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def images(name: str, count: int, pixels: int, batch: int) -> Changes:
    return {
        "task": "image-classification",
        "model.pretrained": False,
        "model.source": f"torchvision:{name}",
        "data.eval_fraction": 0.0,
        "data.train": f"synthetic:{count}x{pixels}",
        "memory.batch_size": batch,
    }


def options_of(changes: Changes, device_name: str, steps: int = STEPS) -> RunOptions:
    """Options of a short run in fp32, but for `changes`."""
    plain = {"device.name": device_name, "device.precision": "fp32", "training.max_steps": steps}
    tree: dict[str, Any] = {}
    for path, value in {**plain, **changes}.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    options, problems = read_options(tree)
    if options is None:
        raise SystemExit(f"{changes}: {problems}")
    return options


def model(parent: Path, name: str, purpose: str = "SequenceClassification") -> Path:
    """The folder of a model of `CONFIGS` with random weights and MiniLM's tokenizer; made once, in another process."""
    folder = parent / f"{name}-{purpose}"
    if folder.is_dir():
        return folder
    folder.mkdir(parents=True)
    for file in minilm().iterdir():
        if (file.is_file() and "token" in file.name) or file.name == "vocab.txt":
            shutil.copy(file, folder)
    kind, settings = CONFIGS[name]
    script = (
        "from core.engine.environment import prepare_torchvision; prepare_torchvision()\n"
        f"from transformers import AutoModelFor{purpose}, AutoTokenizer, {kind}\n"
        f"tokenizer = AutoTokenizer.from_pretrained({str(folder)!r})\n"
        "tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token\n"
        f"tokenizer.save_pretrained({str(folder)!r})\n"
        f"model = AutoModelFor{purpose}.from_config({kind}(**{settings!r}))\n"
        f"model.save_pretrained({str(folder)!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, capture_output=True)
    return folder


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with own_home() as folder:
        return in_groups(arguments, folder)


def in_groups(arguments: argparse.Namespace, folder: Path) -> list[Figure]:
    os.environ["HONE_MLX_CPU"] = "1"
    file = arguments.measured
    measured: dict[str, dict[str, int]] = json.loads(file.read_text()) if file and file.exists() else {}
    figures = []
    for group in GROUPS:
        errors = []
        device = find_device(MLX_DEVICE if group == BY_MLX else "cpu")
        for name, options in runs_of(group, arguments.data, folder).items():
            if not all(word in f"{group}: {name}" for word in arguments.only):
                continue
            if name not in measured:
                measured[name] = trained(options, folder)
                if file is not None:
                    file.write_text(json.dumps(measured, indent=1))
            peak = measured[name]["peak"] - measured[name]["base"]
            parts = forecast_parts(options, device)
            libraries = parts.overhead if group == BY_MLX else estimate.libraries_bytes(options)
            forecast = parts.total - libraries
            errors.append(100 * (forecast - peak) / peak)
            progress(f"{name:38}{peak >> 20:9,} MB, forecast {forecast >> 20:9,} MB {errors[-1]:+8.1f} %")
        if errors:
            title, sizes = f"{group} ({len(errors)} runs)", [abs(error) for error in errors]
            figures += [
                figure(
                    f"{title}: median error", statistics.median(sizes), "%", goal=at_most(GOALS[group][0])
                ),
                figure(f"{title}: worst error", max(sizes), "%", goal=at_most(GOALS[group][1])),
            ]
    return figures


def find_device(name: str) -> DeviceReport:
    devices = run_job("devices", None, MachineReport).devices
    return next(device for device in devices if device.name == name)


def forecast_parts(options: RunOptions, device: DeviceReport) -> Parts:
    report = run_job("check-model", options_request(options), ModelReport)
    if report.shape is None:
        raise SystemExit(f"{options.model.source}: {report.problems}")
    return estimate.forecast(options, report.shape, device).parts


def trained(options: RunOptions, folder: Path) -> dict[str, int]:
    """Train in a fresh process: `base` and `peak` in bytes, and `resident`, the peak of the process by MLX."""
    run = create(options, folder, Path(tempfile.mkdtemp(dir=folder)) / "run")
    memory: dict[str, int] = apart(train_here, run.path, seconds=1800)
    shutil.rmtree(run.path)
    return memory


def train_here(path: Path, to: Connection) -> None:
    """The engine's job `train`, with the memory measured between its imports and its work."""
    from core.engine.environment import hide_libraries, prepare_environment, prepare_torchvision
    from core.engine.reporter import Reporter
    from core.runs.folder import RunFolder

    run = RunFolder(path)
    options = run.options()
    prepare_environment(options)
    hide_libraries(options)
    prepare_torchvision()
    if options.device.backend is Backend.MLX:
        import mlx.core as mx

        from core.engine.devices.memory import process_peak
        from core.engine.mlx.train import train_run as train_by_mlx

        if train_by_mlx(run, options, Reporter(run)) == 0:
            to.send({"base": 0, "peak": mx.get_peak_memory(), "resident": process_peak()})
        return
    from core.engine.memory.measure import CurrentMemory, gpu_used
    from core.engine.train import train_run
    from core.engine.training.build import load_libraries

    load_libraries(options)
    with CurrentMemory(options.device.name.partition(":")[0], gpu_used_before=gpu_used()) as held:
        if train_run(run, options, Reporter(run)) == 0:
            to.send({"base": held.base, "peak": held.most()[0]})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="folder with msr_paraphrase_train.txt")
    parser.add_argument("--only", nargs="*", default=(), help="words that a run's group and name must have")
    parser.add_argument("--measured", type=Path, help="file that keeps what was measured")


if __name__ == "__main__":
    main(__doc__, measure, add=add_arguments)
