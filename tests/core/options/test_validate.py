"""Options that can't be read, or don't go together, are problems at their fields with their remedies."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.options import RunOptions
from core.options.catalogue import all_options, copied, put
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sources import VISION_MODELS, Lack
from core.options.validate import check_tree, read_options, splits

Tree = dict[str, Any]

IMAGES: Tree = {
    "schema": 1,
    "task": "image-classification",
    "model": {"source": "torchvision:resnet18"},
    "data": {"train": "builtin:digits"},
}
TEXTS: Tree = {
    "task": "text-classification",
    "model": {"source": "bert-base-cased"},
    "data": {"train": "synthetic:64x16"},
}
WRITING: Tree = {
    "task": "causal-lm",
    "model": {"source": "scratch:llama-tiny"},
    "data": {"train": "synthetic:8x8"},
}
CHAT: Tree = {**WRITING, "task": "chat", "data": {"train": __file__}}
PREFERENCE: Tree = {**CHAT, "task": "preference", "model": {"source": "HuggingFaceTB/SmolLM2-135M-Instruct"}}
REAL = {"data.train": "hub:somebody/reviews"}


def with_changes(tree: Tree, *changes: Tree) -> Tree:
    """A copy of a tree with values by path, or sections, merged in."""
    tree = copied(tree)
    for change in changes:
        for path, value in change.items():
            merged = isinstance(value, dict) and "." not in path
            put(tree, {path: {**tree.get(path, {}), **value} if merged else value})
    return tree


def check(tree: Tree, *changes: Tree) -> dict[str, tuple[str, list[Any]]]:
    """The problems of a tree: path, message, changes of its fixes."""
    _, problems = check_tree(with_changes(tree, *changes))
    return {one.path: (one.message, [fix.changes for fix in one.fixes]) for one in problems}


def test_a_good_tree_gives_options_with_every_value_in_its_type():
    tree = with_changes(IMAGES, {"device": {"precision": "bf16"}, "training": {"epochs": 2, "max_steps": 5}})
    options, problems = check_tree(tree)
    assert problems == ()
    assert isinstance(options, RunOptions)
    assert (options.task, options.device.precision) == (Task.IMAGE_CLASSIFICATION, Precision.BF16)
    assert (options.training.epochs, options.training.max_steps) == (2.0, 5)
    assert check(TEXTS) == check(WRITING) == {}


def test_every_problem_is_reported_at_once_with_its_path():
    found = check(
        IMAGES,
        {
            "data": {"batch_size": 3},
            "memory": {"batch_size": 0, "gradient_acumulation_steps": 2},
            "training": {"learning_rate": "fast", "epochs": -1, "schedule": "cosin"},
            "device": {"precision": "bf61", "name": "tpu"},
            "trainig": {},
            "output": 3,
        },
    )
    assert {path: message for path, (message, _) in found.items()} == {
        "trainig": "no such option here; did you mean training?",
        "data.batch_size": "no such option here; did you mean memory.batch_size?",
        "memory.gradient_acumulation_steps": "no such option here; did you mean gradient_accumulation_steps?",
        "memory.batch_size": "must be 1 or more, not 0",
        "training.learning_rate": 'must be a number above 0 and at most 10, not "fast"',
        "training.epochs": "must be 0 or more, not -1",
        "training.schedule": 'must be one of linear, cosine, polynomial, inverse-sqrt, constant, not "cosin"',
        "device.precision": 'must be one of auto, fp32, tf32, bf16, fp16, not "bf61"',
        "device.name": "must be auto, cuda, cuda:NUMBER, mps or cpu, for other computers with @NAME after it, not "
        '"tpu"',
        "output": "must be a section ([output] and its options below), not 3",
    }
    assert found["training.schedule"][1] == [{"training.schedule": "cosine"}]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("training.learning_rate", float("nan"), "must be a finite number, not nan"),
        ("memory.batch_size", True, "must be a whole number from 1 to 65,536, not True"),
        ("memory.batch_size", 2.5, "must be a whole number from 1 to 65,536, not 2.5"),
        ("training.max_steps", 0, "must be 1 or more, not 0"),
        ("training.seed", 2**32, "must be 4,294,967,295 or less, not 4,294,967,296"),
        ("data.train", 5, "must be a text, not 5"),
        ("data.max_length", 2**64, "is too large a number"),
        ("training.warmup", 16**6000, "is too large a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_says_what_it_must_be(path, value, message):
    section, _, name = path.partition(".")
    said = check(IMAGES, {section: {name: value}})[path][0]
    assert said.startswith(message)
    assert len(said) < 200


@pytest.mark.parametrize("task", [None, "image-clasification", 5])
def test_without_a_task_rules_for_every_task_are_checked(task):
    found = check({"task": task, "schema": 2, "device": {"name": "tpu"}, "memory": {"batch_size": 0}})
    assert set(found) == {
        *("task", "schema", "model.source", "data.train", "device.name"),
        "memory.batch_size",
    }


@pytest.mark.parametrize("task", Task)
def test_a_task_may_be_called_by_its_title(task):
    """As README and the window do: text generation is `causal-lm`."""
    for word in (task.label, task.label.lower().replace(" ", "-"), task.value):
        options, _problems = read_options({"task": word})
        assert options is not None
        assert options.task is task


def test_reading_options_looks_at_no_file_and_optional_ones_may_be_empty():
    options, problems = read_options(with_changes(IMAGES, {"data": {"train": "/nowhere/at-all"}}))
    assert options is not None
    assert problems == ()
    for option in (one for one in all_options() if one.optional):
        assert check(IMAGES, {option.section: {option.name: None}}) == {}, option.path


NVME = {"memory.deepspeed": "zero-3", "memory.offload": "nvme"}
DIVIDED = {"memory.fsdp": True, "device.processes": 0}
SMALL = {"data.image_size": 32, "memory.batch_size": 1}
ALEXNET = {"model.source": "torchvision:alexnet"}
RECOMPILED = {"device.compile": True, "memory.activation_checkpointing": True}


@pytest.mark.parametrize(
    ("tree", "changes", "path", "fixes"),
    [
        # models
        (TEXTS, {"model.source": "torchvision:resnet18"}, "model.source", []),
        (IMAGES, {"model.source": "torchvision:resnet81"}, "model.source", ["torchvision:resnet18"]),
        (TEXTS, {"model.source": "tape:bert"}, "model.source", []),
        (TEXTS, {"model.source": "builtin:digits"}, "model.source", []),
        (TEXTS, {"model.source": __file__}, "model.source", []),
        (WRITING, {"model.source": "scratch:lama-small"}, "model.source", ["scratch:llama-small"]),
        (CHAT, {"model.source": "scratch:foo"}, "model.source", []),
        (WRITING, {"model.source": "scratch:bert-small"}, "model.source", ["scratch:llama-small"]),
        (CHAT, {"model.method": "lora"}, "model.method", ["full"]),
        (CHAT, {"model.method": "qlora"}, "model.method", ["full"]),
        (CHAT, {"task": "preference"}, "model.source", []),
        (IMAGES, {"model.source": "scratch:bert-tiny"}, "model.source", ["torchvision:resnet18"]),
        (WRITING, {"model.source": "some/model", "model.vocabulary": 2048}, "model.vocabulary", [1024]),
        (IMAGES, {"model.source": "torchvision:vgg16", "data.train": "synthetic:8x31"},
            "data.train", ["synthetic:8x32"]),
        (IMAGES, SMALL, "memory.batch_size", [2, {"data.image_size": 64}]),
        # data
        (TEXTS, {"data.train": "torchvision:vgg16"}, "data.train", []),
        (TEXTS, {"data.train": "/no/such.csv"}, "data.train", []),
        (TEXTS, {"data.train": "builtin:x"}, "data.train", ["builtin:digits"]),
        (TEXTS, {"data.train": "synthetic:8"}, "data.train", []),
        (TEXTS, {"data.train": __file__, "data.eval": "synthetic:8x8"}, "data.eval", [None]),
        (TEXTS, {"data.eval": __file__}, "data.eval", [None]),
        (TEXTS, {"data.train": __file__, "data.eval": "builtin:digits"}, "data.eval", []),
        (WRITING, {"data.train": "synthetic:8x64-96"}, "data.train", ["synthetic:8x96"]),
        (IMAGES, {"data.train": "synthetic:8x64-96"}, "data.train", ["synthetic:8x96"]),
        (TEXTS, {"data.text_columns": ["a", "a"]}, "data.text_columns", []),
        (TEXTS, {"data.text_columns": ["a", "b", "c"]}, "data.text_columns", []),
        (TEXTS, {"data.text_columns": ["a"], "data.label_column": "a"}, "data.label_column", []),
        (TEXTS, {"data.label_names": {"0": "bad", "1": " "}}, "data.label_names", []),
        (WRITING, {"output.prompts": ["A cat", " ", ""]}, "output.prompts", [["A cat"]]),
        # options without effect
        (IMAGES, {"data.text_columns": ["a"]}, "data.text_columns", [()]),
        (IMAGES, {"data.group_by_length": True}, "data.group_by_length", ["auto"]),
        (TEXTS, {"model.lora_rank": 8}, "model.lora_rank", [16]),
        (TEXTS, {"training.momentum": 0.5}, "training.momentum", [0.9]),
        (TEXTS, {"device.compile_backend": "eager"}, "device.compile_backend", ["inductor"]),
        # training
        (TEXTS, {"training.learning_rate": 1.0}, "training.learning_rate", [2e-5]),
        (TEXTS, {"training.warmup": 50, "training.max_steps": 50}, "training.warmup", [0.1]),
        (TEXTS, {"training.warmup": 2.5}, "training.warmup", []),
        # several computers
        (TEXTS, {"device.name": "cuda:1@workshop+attic"}, "device.name", ["cuda@workshop+attic"]),
        (TEXTS, {"device.name": "cpu@workshop+workshop"}, "device.name", ["cpu@workshop"]),
        (TEXTS, {"device.name": "mps@studio+attic"}, "device.name", ["mps@studio"]),
        # methods
        (TEXTS, {"model.method": "qlora", "model.pretrained": False}, "model.method",
            ["full", {"model.pretrained": True}]),
        (TEXTS, {"model.method": "lora", "model.pretrained": False, **REAL},
            "model.method", ["full", {"model.pretrained": True}]),
        (TEXTS, {"model.source": "scratch:bert-tiny", "model.method": "head", **REAL}, "model.method", ["full"]),
        (IMAGES, {"model.method": "qlora"}, "model.method", ["lora"]),
        (WRITING, {"model.source": "gpt2", "model.method": "head"}, "model.method", ["lora", "full"]),
        (TEXTS, {"model.method": "qlora", "memory.deepspeed": "zero-3"}, "memory.deepspeed", ["off"]),
        (TEXTS, {"model.method": "qlora", "model.quantization": "int8", "model.lora_dora": True}, "model.lora_dora",
            [{"model.quantization": "nf4"}, False]),
        (TEXTS, NVME, "memory.offload_folder", []),
        (TEXTS, {**NVME, "memory.offload_folder": "/no/such"}, "memory.offload_folder", []),
        (TEXTS, {**NVME, "memory.deepspeed": "zero-2"}, "memory.offload", [{"memory.deepspeed": "zero-3"}, "cpu"]),
        (TEXTS, {"memory.deepspeed": "zero-2", "training.optimizer": "adafactor"}, "training.optimizer", ["adamw"]),
        (TEXTS, {"memory.deepspeed": "zero-2", "training.optimizer": "paged-adamw-8bit"},
            "training.optimizer", ["adamw"]),
        (TEXTS, {"memory.deepspeed": "zero-3", "device.compile": True}, "device.compile", [False]),
        (TEXTS, {"memory.fsdp": True}, "memory.fsdp", [{"device.processes": 0}, False]),
        (TEXTS, {**DIVIDED, "memory.deepspeed": "zero-3"}, "memory.fsdp", [False]),
        (TEXTS, {**DIVIDED, "model.method": "qlora"}, "memory.fsdp", [False, {"model.method": "lora"}]),
        (IMAGES, DIVIDED, "memory.fsdp", [False]),
        (PREFERENCE, DIVIDED, "memory.fsdp", [{"model.method": "lora"}, False]),
        (TEXTS, {**DIVIDED, "training.optimizer": "adafactor"}, "training.optimizer",
            ["adamw", {"memory.fsdp": False}]),
        (TEXTS, {**DIVIDED, "training.optimizer": "adamw-8bit"}, "training.optimizer",
            ["adamw", {"memory.fsdp": False}]),
        (TEXTS, {**DIVIDED, "device.compile": True}, "device.compile", [False, {"memory.fsdp": False}]),
        (TEXTS, {"memory.offload_optimizer": True, "training.optimizer": "sgd"},
            "memory.offload_optimizer", [{"training.optimizer": "adamw"}]),
        (TEXTS, {"memory.offload_optimizer": True, "memory.deepspeed": "zero-2"},
            "memory.offload_optimizer", [False]),
        (TEXTS, {"memory.offload_optimizer": True}, "training.max_grad_norm", [0.0]),
        (TEXTS, {"memory.offload_optimizer": True, "device.precision": "fp16"}, "device.precision", ["bf16"]),
        (TEXTS, {"model.attention": "flash_attention_2", "device.precision": "fp32"},
            "model.attention", [{"device.precision": "bf16"}, "sdpa"]),
        (PREFERENCE, {"memory.batch_size": 1, "training.preference_loss": "kto"}, "memory.batch_size", [2]),
        (PREFERENCE, {"training.epochs": 0, "data.eval": __file__}, "training.epochs", [3]),
        (CHAT, {"training.preference_loss": "orpo"}, "training.preference_loss", ["dpo"]),
        (IMAGES, {"device.name": "cpu", "device.precision": "fp16"}, "device.precision", ["bf16", "fp32"]),
        (IMAGES, RECOMPILED, "memory.activation_checkpointing", [False, {"device.compile": False}]),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tree, changes, path, fixes):
    """`fixes` are the values of the option itself, or changes of others."""
    assert check(tree, changes)[path][1] == [fix if isinstance(fix, dict) else {path: fix} for fix in fixes]


@pytest.mark.parametrize(
    ("tree", "changes"),
    [
        (IMAGES, {"data.train": "synthetic:8x64", "data.eval": "synthetic:4x64"}),
        (IMAGES, {**ALEXNET, **RECOMPILED, "data.image_size": 64}),
        (TEXTS, {"data.train": "synthetic:8x64-96"}),
        (TEXTS, {"training.learning_rate": 0.5, "training.optimizer": "sgd"}),
        (TEXTS, {"training.warmup": 49, "training.max_steps": 50}),
        (TEXTS, {"training.warmup": 0.5, "training.max_steps": 1}),
        (TEXTS, {"training.warmup": 1000}),  # by epochs: how long the run is, the data tells
        (TEXTS, {"model.method": "lora", "model.pretrained": False}),  # random data is for timing
        (TEXTS, {"model.method": "head", "model.pretrained": False}),
        (TEXTS, {"model.source": "scratch:llama-tiny"}),
        (TEXTS, {"model.source": "scratch:bert-large", "model.vocabulary": 30522}),
        (CHAT, {}),
        (CHAT, {"data.train": "synthetic:8x8"}),
        (CHAT, {**DIVIDED, "training.optimizer": "sgd"}),
        (PREFERENCE, {**DIVIDED, "training.preference_loss": "orpo"}),
        (PREFERENCE, {"memory.batch_size": 1}),
        (PREFERENCE, {"training.preference_loss": "orpo", "training.epochs": 0, "data.eval": __file__}),
        (IMAGES, {"data": {o.name: o.default for o in all_options() if o.section == "data" and o.name != "train"}}),
    ],
)  # fmt: skip
def test_what_goes_together(tree, changes):
    assert check(tree, changes) == {}


@pytest.mark.parametrize("name", VISION_MODELS)
def test_images_too_small_for_a_model_come_with_a_size_that_will_do(name):
    model = {"model": {"source": f"torchvision:{name}"}, "data": {"image_size": 32}}
    found = check(IMAGES, model)
    assert list(found) == (["data.image_size"] if VISION_MODELS[name].smallest > 32 else [])
    for _, [fix] in found.values():
        assert check(IMAGES, model, {"data": {"image_size": fix["data.image_size"]}}) == {}


def test_a_model_folder_must_have_what_is_loaded(tmp_path, monkeypatch):
    source = {"model.source": str(tmp_path)}
    assert check(TEXTS, source) == {"model.source": (Lack.CONFIG.value.format(folder=tmp_path), [])}
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert check(TEXTS, source) == {
        "model.source": (Lack.WEIGHTS.value.format(folder=tmp_path), [{"model.pretrained": False}])
    }
    (tmp_path / "model.safetensors").touch()
    assert check(TEXTS, source) == {}

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert check(TEXTS, source) == {"model.source": (f"{tmp_path} can't be read: Permission denied", [])}


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"eval": "/b.csv"}, []),
        ({"eval_split": "test"}, []),
        ({"eval_fraction": 0.3}, []),
        ({"eval": "/b.csv", "eval_fraction": 0.0}, []),
        ({"eval": "/b.csv", "eval_split": "test"}, ["data.eval_split"]),
        ({"eval": "/b.csv", "eval_fraction": 0.3}, ["data.eval_fraction"]),
        ({"eval_split": "test", "eval_fraction": 0.3}, ["data.eval_fraction"]),
        ({"eval_split": "train"}, ["data.eval_split"]),
        ({"train_split": "test", "eval_split": "test"}, ["data.eval_split"]),
        *(({"train": train, "eval_split": "test"}, ["data.eval_split"]) for train in (__file__, "builtin:digits")),
        ({"train": "synthetic:64x32", "train_split": "test"}, ["data.train_split"]),
    ],
)  # fmt: skip
def test_validation_data_is_named_once_and_each_fix_ends_its_problem(tmp_path, data, paths):
    data = DataOptions(**{"train": str(tmp_path), **data})
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, data=data)
    problems = list(splits(options))
    assert [problem.path for problem in problems] == paths
    for fix in (fix for problem in problems for fix in problem.fixes):
        tree = with_changes(msgspec.to_builtins(options))
        for path, value in fix.changes.items():
            tree["data"][path.removeprefix("data.")] = value
        fixed, _ = read_options(tree)
        assert fixed is not None
        assert not list(splits(fixed))
