"""Two choices that exclude each other, and numbers nobody can have meant, are problems at their fields."""

from pathlib import Path
from typing import Any

import pytest

from core.options.validate import check_tree

TEXT: dict[str, Any] = {
    "task": "text-classification",
    "model": {"source": "bert-base-cased"},
    "data": {"train": "synthetic:64x16"},
}
REAL = {"train": "hub:somebody/reviews"}
IMAGES: dict[str, Any] = {
    "task": "image-classification",
    "model": {"source": "torchvision:alexnet"},
    "data": {"train": "builtin:digits"},
}


def problems(base: dict[str, Any] = TEXT, **sections: dict[str, Any]) -> dict[str, str]:
    tree = {**base, **{name: {**base.get(name, {}), **values} for name, values in sections.items()}}
    return {problem.path: problem.message for problem in check_tree(tree)[1]}


def test_the_plain_requests_have_none() -> None:
    assert problems() == problems(IMAGES) == {}


@pytest.mark.parametrize("rate", [0, -1e-4, 1e3, float("nan")])
def test_impossible_learning_rates(rate: float) -> None:
    assert "training.learning_rate" in problems(training={"learning_rate": rate})


def test_a_learning_rate_that_destroys_comes_with_one_that_suits() -> None:
    _, found = check_tree({**TEXT, "training": {"learning_rate": 1.0}})
    assert [fix.changes for fix in found[0].fixes] == [{"training.learning_rate": 2e-5}]
    assert problems(training={"learning_rate": 0.5, "optimizer": "sgd"}) == {}, "SGD takes high rates"


@pytest.mark.parametrize(
    ("training", "is_wrong"),
    [
        ({"warmup": 100, "max_steps": 50}, True),
        ({"warmup": 50, "max_steps": 50}, True),
        ({"warmup": 49, "max_steps": 50}, False),
        ({"warmup": 0.5, "max_steps": 1}, False),
        ({"warmup": 2.5}, True),
        ({"warmup": 1000}, False),  # by epochs: how long the run is, the data tells
    ],
)
def test_warm_up(training: dict[str, Any], is_wrong: bool) -> None:
    assert ("training.warmup" in problems(training=training)) is is_wrong


@pytest.mark.parametrize(
    ("sections", "path", "says"),
    [
        ({"model": {"method": "qlora", "pretrained": False}}, "model.method", "random weights"),
        (
            {"model": {"method": "lora", "pretrained": False}, "data": REAL},
            "model.method",
            "freeze random weights",
        ),
        (
            {"model": {"method": "head", "pretrained": False}, "data": REAL},
            "model.method",
            "freeze random weights",
        ),
        ({"model": {"method": "qlora"}, "memory": {"deepspeed": "zero-3"}}, "memory.deepspeed", "packed"),
        ({"memory": {"deepspeed": "zero-3", "offload": "nvme"}}, "memory.offload_folder", "choose a folder"),
        (
            {"memory": {"deepspeed": "zero-3", "offload": "nvme", "offload_folder": "/no/such/folder"}},
            "memory.offload_folder",
            "there is no folder",
        ),
        (
            {"memory": {"deepspeed": "zero-2", "offload": "nvme", "offload_folder": str(Path.cwd())}},
            "memory.offload",
            "only ZeRO-3",
        ),
        (
            {"memory": {"deepspeed": "zero-2"}, "training": {"optimizer": "adafactor"}},
            "training.optimizer",
            "rows and columns",
        ),
        (
            {"memory": {"deepspeed": "zero-2"}, "training": {"optimizer": "paged-adamw-8bit"}},
            "training.optimizer",
            "not one of PyTorch's own",
        ),
        (
            {"memory": {"deepspeed": "zero-3"}, "device": {"compile": True}},
            "device.compile",
            "engine of its own",
        ),
        (
            {"memory": {"offload_optimizer": True}, "training": {"optimizer": "sgd"}},
            "memory.offload_optimizer",
            "AdamW's state",
        ),
        (
            {"memory": {"offload_optimizer": True, "deepspeed": "zero-2"}},
            "memory.offload_optimizer",
            "choose one",
        ),
        ({"memory": {"offload_optimizer": True}}, "training.max_grad_norm", "in main memory already; use 0"),
        (
            {"memory": {"offload_optimizer": True}, "device": {"precision": "fp16"}},
            "device.precision",
            "in main memory already",
        ),
        (
            {"model": {"attention": "flash_attention_2"}, "device": {"precision": "fp32"}},
            "model.attention",
            "bf16 or fp16",
        ),
        ({"device": {"name": "cpu", "precision": "fp16"}}, "device.precision", "no fp16 training on the CPU"),
    ],
)
def test_what_excludes_each_other(sections: dict[str, Any], path: str, says: str) -> None:
    assert says in problems(**sections)[path]


@pytest.mark.parametrize("method", ["lora", "head"])
def test_where_nothing_is_learned_random_weights_may_be_frozen(method: str) -> None:
    assert problems(model={"method": method, "pretrained": False}) == {}


def test_vision_models_are_not_packed() -> None:
    assert "vision model" in problems(IMAGES, model={"method": "qlora"})["model.method"]


@pytest.mark.parametrize(("name", "is_wrong"), [("alexnet", False), ("resnet18", True)])
def test_compiled_batch_norms_are_not_computed_again(name: str, is_wrong: bool) -> None:
    told = problems(
        IMAGES,
        model={"source": f"torchvision:{name}"},
        device={"compile": True},
        memory={"activation_checkpointing": True},
    )
    assert ("memory.activation_checkpointing" in told) is is_wrong


def test_options_that_would_change_nothing_say_beside_what_they_count() -> None:
    told = problems(model={"lora_rank": 8}, training={"momentum": 0.5}, device={"compile_backend": "eager"})
    assert set(told) == {"model.lora_rank", "training.momentum", "device.compile_backend"}
    assert "`model.method` lora or qlora" in told["model.lora_rank"]


@pytest.mark.parametrize("task", ["causal-lm", "chat", "preference"])
def test_a_model_that_writes_has_no_last_layer_to_train_alone(task: str) -> None:
    asked = {**TEXT, "task": task, "model": {"source": "gpt2", "method": "head"}}
    _, found = check_tree(asked)
    assert [problem.path for problem in found] == ["model.method"]
    assert [fix.changes for fix in found[0].fixes] == [{"model.method": "lora"}, {"model.method": "full"}]
    assert problems({**asked, "model": {"source": "gpt2", "method": "lora"}}) == {}
