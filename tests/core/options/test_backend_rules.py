"""What MLX can't train is refused where it is asked for, and only there."""

from typing import Any

import pytest

from core.options import RunOptions
from core.options.backend_rules import LIMITS, backend_problems, only_with_mlx, why_not_mlx
from core.options.catalogue import options_by_path, value_of, with_changes
from core.options.choices import Task
from core.options.method_rules import starting_options

BESIDE = {"model.quantization": {"model.method": "qlora"}, "model.frozen_precision": {"model.method": "lora"}}
OTHERS = {
    "model.quantization": ("nf4", "int8"),
    "model.attention": ("eager",),
    "model.frozen_precision": ("bf16",),
    "data.workers": (2,),
    "device.precision": ("fp16", "tf32"),
    "device.processes": (2,),
    "memory.deepspeed": ("zero-2",),
    "training.optimizer": ("adamw-8bit", "lion-8bit", "ademamix"),
    "data.pin_memory": ("on",),
}
"""Values that MLX can't train with; of switches it is `true`."""
WRONG = [(limit.path, value) for limit in LIMITS for value in OTHERS.get(limit.path, (True,))]


def asked(backend: str, changes: dict[str, Any], task: Task = Task.CHAT) -> RunOptions:
    return with_changes(starting_options(task), {"device.backend": backend, **changes})


def found(options: RunOptions) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in backend_problems(options)]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_what_mlx_has_not_is_refused_with_it_alone_and_each_fix_ends_it(path, value):
    changes = {**BESIDE.get(path, {}), path: value}
    options = asked("mlx", changes)
    (problem,) = backend_problems(options)
    assert problem.path == path
    assert len(problem.fixes) == 2
    for fix in problem.fixes:
        assert not found(with_changes(options, fix.changes))
    for backend in ("auto", "torch"):
        assert not found(asked(backend, changes))


def test_without_an_option_that_applies_nothing_is_refused():
    """Such as the format of weights that aren't quantized."""
    assert not found(asked("mlx", {"model.quantization": "int8", "model.method": "lora"}))
    assert not found(asked("mlx", {"data.packing": True}, Task.CAUSAL_LM))


@pytest.mark.parametrize("task", Task)
def test_mlx_trains_what_writes_text(task):
    assert bool(found(asked("mlx", {}, task))) is not task.writes_text
    assert not found(asked("auto", {}, task))


@pytest.mark.parametrize(
    ("name", "works"),
    [("auto", True), ("mps", True), ("cpu", True), ("mps@studio", True), ("cuda", False), ("cuda:1", False),
     ("cuda@attic", False), ("cpu@attic+studio", False)],
)  # fmt: skip
def test_mlx_computes_on_one_mac(name, works):
    assert [path for path, _ in found(asked("mlx", {"device.name": name}))] == ["device.name"] * (not works)


@pytest.mark.parametrize("quantization", ["auto", "affine4", "affine8"])
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "adafactor", "lion", "sgd", "muon"])
def test_what_mlx_trains(quantization, optimizer):
    changes = {"model.method": "qlora", "model.quantization": quantization, "training.optimizer": optimizer}
    assert not found(asked("mlx", {**changes, "device.precision": "bf16", "device.processes": 0}))


@pytest.mark.parametrize(
    ("backend", "changes", "message"),
    [
        ("torch", {}, "only MLX has it, and PyTorch was chosen"),
        ("auto", {"data.packing": True}, "only MLX has it, and MLX's attention would cross"),
        ("auto", {}, ""),
        ("mlx", {}, ""),
    ],
)
@pytest.mark.parametrize(
    "own",
    [{"model.method": "qlora", "model.quantization": "affine4"}, {"training.optimizer": "muon"}],
    ids=str,
)
def test_a_format_or_an_optimizer_of_mlx_needs_mlx(backend, changes, message, own):
    options = asked(backend, {**own, **changes})
    problems = list(backend_problems(options))
    assert [problem.path for problem in problems] == [*own][-1:] * bool(message)
    assert all(problem.message.startswith(message) for problem in problems)
    assert not any(found(with_changes(options, fix.changes)) for problem in problems for fix in problem.fixes)


@pytest.mark.parametrize(
    "changes",
    [
        {"model.method": "lora", "model.quantization": "affine4"},
        {"model.method": "qlora", "model.quantization": "nf4"},
        {"training.optimizer": "lion"},
    ],
    ids=str,
)
def test_pytorch_trains_the_rest(changes):
    assert not found(asked("torch", changes))


def test_only_mlx_trains_what_asks_for_it_its_formats_or_its_optimizer():
    qlora = {"model.method": "qlora", "model.quantization": "affine4"}
    assert [*only_with_mlx(asked("mlx", qlora))] == ["device.backend", "model.quantization"]
    assert [*only_with_mlx(asked("auto", {"training.optimizer": "muon"}))] == ["training.optimizer"]
    assert not [*only_with_mlx(asked("auto", {}))]
    assert not [*only_with_mlx(asked("auto", {**qlora, "model.method": "lora"}))]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.path)
def test_the_default_of_each_option_is_no_obstacle(limit):
    assert options_by_path()[limit.path].default in limit.values
    options = starting_options(Task.CHAT)
    assert value_of(options, limit.path) in limit.values
    assert not list(why_not_mlx(options))
