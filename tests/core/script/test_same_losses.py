"""A script, run in a fresh process without Hone, takes the very steps that Hone's run took: the same loss at each."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.choices import Method, Optimizer, Precision, Schedule, Task, Toggle
from core.engine.script_facts import script_facts
from core.options import (
    DataOptions,
    DeviceOptions,
    MemoryOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    TrainingOptions,
)
from core.script.resolved import as_it_ran
from core.script.writing import write_script
from tests.fakes.answered_texts import write_data
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_talker import instructions, pairs, save_tiny_talker, write_json
from tests.fakes.tiny_training import train, write_reviews
from tests.fakes.tiny_writer import save_tiny_llama, write_text

DRIVER = """
import json, os, runpy, sys
kept = []  # what a script declares to torch lives as long as its names do
for script in sys.argv[1:]:
    folder = script.removesuffix(".py")
    os.makedirs(folder)
    os.chdir(folder)
    kept.append(runpy.run_path(script, run_name="__main__"))
    found = kept[-1]["trainer"].state.log_history
    told = [{key: entry[key] for key in ("loss", "eval_loss") if key in entry} for entry in found]
    print("TOLD", json.dumps(told), flush=True)
assert not [name for name in sys.modules if name.split(".")[0] in ("core", "gui")]
"""
ACCUMULATED = MemoryOptions(batch_size=4, gradient_accumulation_steps=2)
TRAINING = TrainingOptions(epochs=2.0, learning_rate=1e-2, schedule=Schedule.COSINE, warmup=0.2)
LISTED = {"instruction": "Count as JSON.", "input": "To 2.", "output": '["1", "2"]'}
"""An answer that looks like messages, and is none."""
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


class Told(NamedTuple):
    """What a run and its script told of each step."""

    hone: list[float | None]
    script: list[float]


def text_classification(folder: Path) -> dict[str, Any]:
    return {
        "model": ModelOptions(source=str(save_tiny_bert(folder / "bert", **DROPOUT))),
        "data": DataOptions(
            train=str(write_reviews(folder / "reviews.csv", 40)), max_length=16, eval_fraction=0.2
        ),
        "memory": ACCUMULATED,
    }


def lora(folder: Path) -> dict[str, Any]:
    asked = text_classification(folder)
    model = ModelOptions(source=asked["model"].source, method=Method.LORA, lora_rank=4, lora_dropout=0.1)
    return {**asked, "model": model, "memory": MemoryOptions(batch_size=8)}


def from_nothing(folder: Path) -> dict[str, Any]:
    data = write_data(folder, Task.TEXT_REGRESSION, 30)
    return {
        "task": Task.TEXT_REGRESSION,
        "model": ModelOptions(source="scratch:bert-tiny", vocabulary=320),
        "data": DataOptions(train=data, max_length=16, eval_fraction=0.2, group_by_length=Toggle.OFF),
        "memory": ACCUMULATED,
        "training": TrainingOptions(epochs=1.0, learning_rate=1e-3, optimizer=Optimizer.ADAM),
    }


def words(folder: Path) -> dict[str, Any]:
    return {
        "task": Task.TOKEN_CLASSIFICATION,
        "model": ModelOptions(source=str(save_tiny_bert(folder / "bert"))),
        "data": DataOptions(
            train=write_data(folder, Task.TOKEN_CLASSIFICATION, 24), max_length=16, eval_fraction=0.25
        ),
        "memory": ACCUMULATED,
    }


def random_words(folder: Path) -> dict[str, Any]:
    return {**words(folder), "data": DataOptions(train="synthetic:24x4-12")}


def digits(_folder: Path) -> dict[str, Any]:
    return {
        "task": Task.IMAGE_CLASSIFICATION,
        "model": ModelOptions(source="torchvision:resnet18", pretrained=False),
        "data": DataOptions(
            train="builtin:digits", image_size=32, max_train_samples=61, eval_fraction=0.2, max_eval_samples=8
        ),
        "memory": MemoryOptions(batch_size=16),
        "training": TrainingOptions(max_steps=4, learning_rate=1e-3, weight_decay=0.1),
    }


def running_text(folder: Path) -> dict[str, Any]:
    return {
        "task": Task.CAUSAL_LM,
        "model": ModelOptions(source=str(save_tiny_llama(folder / "llama"))),
        "data": DataOptions(train=str(write_text(folder / "text.txt", 30)), max_length=32, eval_fraction=0.2),
        "memory": ACCUMULATED,
    }


def experts(folder: Path) -> dict[str, Any]:
    """As running text, by a model that adds the loss of its routers."""
    from transformers import OlmoeConfig, OlmoeForCausalLM

    asked = running_text(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = OlmoeConfig(**sizes, vocab_size=1000, num_experts=4, num_experts_per_tok=2, pad_token_id=0)
    config.output_router_logits, config.router_aux_loss_coef = True, 0.5
    OlmoeForCausalLM(config).save_pretrained(asked["model"].source)
    return asked


def chat(folder: Path) -> dict[str, Any]:
    return {
        "task": Task.CHAT,
        "model": ModelOptions(source=str(save_tiny_talker(folder / "talker"))),
        "data": DataOptions(
            train=str(write_json(folder / "talks.json", [*instructions(), LISTED])),
            max_length=128,
            eval_fraction=0.2,
        ),
        "memory": ACCUMULATED,
        "training": TrainingOptions(max_steps=4, learning_rate=1e-2),
    }


def preference(folder: Path) -> dict[str, Any]:
    return {
        "task": Task.PREFERENCE,
        "model": ModelOptions(source=str(save_tiny_talker(folder / "talker")), method=Method.LORA),
        "data": DataOptions(
            train=str(write_json(folder / "pairs.json", pairs())), max_length=128, eval_fraction=0.2
        ),
        "memory": ACCUMULATED,
        "training": TrainingOptions(max_steps=3, learning_rate=1e-2),
    }


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    case.__name__: case for case in (text_classification, digits, chat)
}
LONG_CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    case.__name__: case
    for case in (lora, running_text, experts, from_nothing, words, random_words, preference)
}
"""A minute more: TRL's DPO takes seconds for its first step."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The short cases, see `compare`."""
    return compare(CASES, tmp_path_factory.mktemp("scripts"))


def compare(cases: dict[str, Callable[[Path], dict[str, Any]]], folder: Path) -> dict[str, Told]:
    """Every case trained by Hone here, and all their scripts in one other process."""
    hone, scripts = {}, {}
    for name, case in cases.items():
        (folder / f"{name}-data").mkdir()
        hone[name] = _losses_of_hone(folder, name, case(folder / f"{name}-data"))
        scripts[name] = folder / f"{name}.py"
    lines = _run(list(scripts.values()), folder)
    return {name: Told(hone[name], line) for name, line in zip(cases, lines, strict=True)}


def _losses_of_hone(folder: Path, name: str, asked: dict[str, Any]) -> list[float | None]:
    sections = {
        "task": Task.TEXT_CLASSIFICATION,
        "device": DeviceOptions(name="cpu", precision=Precision.FP32),
        "training": TRAINING,
        "output": OutputOptions(keep_checkpoints=0, predictions=2),
        **asked,
    }
    done = train(folder / f"{name}-run", **sections)
    assert done.status == 0
    options = RunOptions(**sections)
    script = write_script(as_it_ran(options, done.what_ran, {}), script_facts(options))
    (folder / f"{name}.py").write_text(script, encoding="utf-8")
    return [step.loss for step in done.steps]


def _run(scripts: list[Path], folder: Path) -> list[list[float]]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", DRIVER, *map(str, scripts)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("TOLD ") for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    return [[entry["loss"] for entry in json.loads(line) if "loss" in entry] for line in lines]


@pytest.mark.parametrize("name", CASES)
def test_a_script_takes_the_same_steps(told: dict[str, Told], name: str) -> None:
    assert_alike(name, told[name])


@pytest.mark.long
def test_so_do_those_of_other_tasks_and_methods(tmp_path: Path) -> None:
    for name, found in compare(LONG_CASES, tmp_path).items():
        assert_alike(name, found)


def assert_alike(name: str, found: Told) -> None:
    """To the bit where a step is one batch; accumulated, Hone adds up in 64 bits what Trainer adds up in 32."""
    assert len(found.hone) >= 3
    assert len(set(found.hone)) > 1  # it learns: the losses of a script that stood still wouldn't do
    if name in ("lora", "digits"):
        assert found.script == found.hone
    else:
        assert found.script == pytest.approx(found.hone, rel=1e-6, abs=0)
