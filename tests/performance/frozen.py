"""What frozen weights in 16 bits save, and what they cost: LoRA on a decoder of 109 million weights.

Each run trains 50 steps on the CPU in a process of its own, on the texts of docs/, with the frozen weights in fp32 (the
peer) and in bf16: the bytes of the live model, the process's peak, the mean loss, the time of a step. One of them is
paused in the middle and resumed. The model is built from a config with random weights.

`--table` trains nothing: it prints the forecasts of models of 1 to 14 billion weights in Markdown, for the guide.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from core.base.jobs import run_job
from core.engine.devices.capabilities import CudaDevice, MachineFacts
from core.engine.devices.choose import report
from core.memory import estimate
from core.memory.model import TIGHT, ModelReport, ModelShape, options_request
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport, find_device
from core.options.validate import read_options
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.folder import Action
from tests.performance.figures import (
    ROOT,
    Figure,
    apart,
    at_most,
    figure,
    main,
    minilm,
    own_home,
    progress,
    ratio_at_most,
)

STEPS, PAUSED_AT = 50, 25
MAKE = """
from core.engine.environment import prepare_torchvision; prepare_torchvision()
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
import sys
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
bpe.train_from_iterator((path.read_text(encoding="utf-8") for path in sorted(Path("docs").rglob("*.md"))),
    trainers.BpeTrainer(vocab_size=8192, special_tokens=["<end>"], show_progress=False))
PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<end>").save_pretrained(sys.argv[1])
set_seed(0)
LlamaForCausalLM(LlamaConfig(vocab_size=len(bpe.get_vocab()) , hidden_size=768, intermediate_size=2048,
    num_hidden_layers=16, num_attention_heads=12, num_key_value_heads=4, eos_token_id=0)).save_pretrained(sys.argv[1])
"""


def options_of(changes: dict[str, Any]) -> RunOptions:
    tree: dict[str, Any] = {}
    for path, value in changes.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    options, problems = read_options(tree)
    if options is None:
        raise SystemExit(f"{changes}: {problems}")
    return options


# --- Runs


def train_here(folder: Path, options: RunOptions, pauses: tuple[int, ...], to: Connection) -> None:
    """Train as the engine does, from the newest checkpoint on; sends bytes of live weights, and the process's."""
    from core.engine.environment import prepare_environment, prepare_torchvision

    prepare_environment(options)
    prepare_torchvision()
    from core.engine.memory.measure import CurrentMemory, weight_bytes_on
    from core.engine.training import train
    from tests.fakes.trained_runs import attempt

    train.load_libraries(options)
    build, weights = train.build_trainer, []

    def weighed(*args: Any) -> Any:
        trainer = build(*args)
        weights.append(weight_bytes_on("cpu", trainer.model))
        return trainer

    train.build_trainer = weighed
    with CurrentMemory("cpu") as held:
        for step in pauses:
            attempt(folder, options, {step: Action.PAUSE})
        if attempt(folder, options) == 0:
            to.send({"weights": weights[0], "peak": held.most()[0] - held.base})


def measure(arguments: argparse.Namespace) -> list[Figure]:
    if arguments.table:
        print(memory_table())
        return []
    figures = []
    with own_home() as home:
        model = home / "decoder"
        subprocess.run([sys.executable, "-c", MAKE, str(model)], check=True, cwd=ROOT, capture_output=True)
        told: dict[tuple[str, str, bool], dict[str, Any]] = {}
        for precision, frozen, resumes in (
            ("bf16", "fp32", False), ("bf16", "bf16", False), ("bf16", "bf16", True),
            ("fp32", "fp32", False), ("fp32", "bf16", False),
        ):  # fmt: skip
            folder = home / f"{precision}-{frozen}-{resumes}"
            options = options_of(
                {
                    "task": "causal-lm", "model.source": str(model), "model.method": "lora", "device.name": "cpu",
                    "device.precision": precision, "model.frozen_precision": frozen, "data.train": str(ROOT / "docs"),
                    "data.eval_fraction": 0.0, "data.max_length": 64, "memory.batch_size": 4,
                    "training.max_steps": STEPS, "training.learning_rate": 1e-3, "output.predictions": 0,
                }
            )  # fmt: skip
            run = apart(train_here, folder, options, (PAUSED_AT,) if resumes else (), seconds=3000)
            steps = [
                event
                for event in EventReader(folder / "events.jsonl").read_all()
                if isinstance(event, StepFinished)
            ]
            run |= {
                "losses": [step.loss for step in steps],
                "seconds": statistics.median(step.seconds for step in steps),
            }
            told[precision, frozen, resumes] = run
            name, losses = f"computed in {precision}, frozen in {frozen}", run["losses"]
            sizes = f"{run['weights'] / 1e6:.1f} MB of weights, peak {run['peak'] / 1e6:.1f} MB"
            progress(
                f"{name}: {sizes}, {statistics.mean(losses):.4f}, last {losses[-1]:.4f}, {run['seconds']:.2f} s a step"
            )
    for precision in ("bf16", "fp32"):
        half, single = told[precision, "bf16", False], told[precision, "fp32", False]
        apart_by = abs(statistics.mean(half["losses"]) - statistics.mean(single["losses"]))
        title = f"computed in {precision}"
        figures += [
            figure(
                f"{title}: weights",
                half["weights"] / 1e6,
                "MB",
                peer=single["weights"] / 1e6,
                goal=ratio_at_most(0.53),
            ),
            figure(
                f"{title}: peak of the process",
                half["peak"] / 1e6,
                "MB",
                peer=single["peak"] / 1e6,
                goal=ratio_at_most(1.0),
            ),
            figure(f"{title}: mean losses apart", apart_by, goal=at_most(0.01)),
            figure(f"{title}: a step", half["seconds"], "s", peer=single["seconds"]),
        ]
    pairs = zip(told["bf16", "bf16", False]["losses"], told["bf16", "bf16", True]["losses"], strict=True)
    figures.append(
        figure("steps whose loss differs after a pause", sum(a != b for a, b in pairs), goal=at_most(0))
    )
    return figures


# --- The table of the guide


SIZES: dict[str, dict[str, Any]] = {
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True},
    "3B": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
           "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": True},
    "7B": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 32, "vocab_size": 32000},
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "14B": {"hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 40, "num_attention_heads": 40,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
}  # fmt: skip
"""Configs as published: Llama 3.2 1B and 3B, Llama 2 7B, Llama 3 8B, and Qwen3 14B as a Llama."""
MACS, CARDS = (8, 16, 24, 36, 64), (8, 12, 16, 24)

METHODS: dict[str, dict[str, Any]] = {
    "LoRA, fp32": {"model.method": "lora", "model.frozen_precision": "fp32"},
    "LoRA, 16 bits": {"model.method": "lora"},
    "QLoRA": {"model.method": "qlora"},
}
RUN: dict[str, Any] = {
    "task": "chat",
    "model.pretrained": False,  # only its config is there
    "data.train": "synthetic:64x512",
    "data.max_length": 512,
    "memory.batch_size": 1,
    "memory.activation_checkpointing": True,
}
CARD = MachineFacts(
    system="Linux", machine="x86_64", cpu_name="", memory_bytes=64 << 30, cpu_bf16=False, torch_cuda=True,
    nvidia_driver=True, cuda=(CudaDevice(name="NVIDIA", memory_bytes=24 << 30, capability=(8, 6)),),
)  # fmt: skip
MAC = MachineFacts(
    system="Darwin", machine="arm64", cpu_name="Apple M3", memory_bytes=24 << 30, cpu_bf16=False, torch_cuda=False,
    nvidia_driver=False, mps_built=True, mps_available=True, macos="15.0",
)  # fmt: skip


def memory_table() -> str:
    """Forecasts of a run of `RUN` on a Mac from M3 on and on a card from Ampere on, and where they fit."""
    lines = [
        [
            "model",
            "method",
            "Mac",
            *(f"{size} GB" for size in MACS),
            "card",
            *(f"{size} GB" for size in CARDS),
        ]
    ]
    lines.append(["---"] * len(lines[0]))
    with own_home() as home:
        for file in (minilm() / name for name in ("tokenizer.json", "tokenizer_config.json")):
            shutil.copy(file, home)  # which one makes no difference
        for name, sizes in SIZES.items():
            config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **sizes}
            (home / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
            runs = [run_of(home, facts) for facts in (MAC, CARD)]
            for method, changes in METHODS.items():
                forecasts = (
                    estimate.forecast(with_changes(asked, changes), shape, device)
                    for asked, shape, device in runs
                )
                on_mac, on_card = (forecast.parts.total / 1e9 for forecast in forecasts)
                rooms = [size * (0.75 if size >= 36 else 2 / 3) for size in MACS]  # what macOS recommends
                mac, card = (
                    ["fits" if size <= TIGHT * room else "" for room in each]
                    for size, each in ((on_mac, rooms), (on_card, CARDS))
                )
                lines.append([name, method, f"{on_mac:.1f}", *mac, f"{on_card:.1f}", *card])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run_of(folder: Path, facts: MachineFacts) -> tuple[RunOptions, ModelShape, DeviceReport]:
    """A run of `RUN` on a machine, with its model's shape."""
    device = find_device(report(facts), "auto")
    assert device is not None
    asked = options_of(
        {**RUN, "model.source": str(folder), "model.method": "lora", "device.name": device.name}
    )
    model = run_job("check-model", options_request(asked), ModelReport)
    assert model.shape is not None, model.problems
    return asked, model.shape, device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", action="store_true", help="print the guide's table of forecasts")


if __name__ == "__main__":
    main(__doc__, measure, add=add_arguments)
