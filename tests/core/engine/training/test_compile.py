"""torch.compile: real, timed apart from the steps, one compilation for all lengths, and given up where it fails."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd

from core.engine.models.vision import VisionClassifier
from core.engine.reporter import Reporter
from core.engine.training.compile import Compilation, has_many_shapes
from core.engine.training.observe import FirstBatch
from core.options.choices import Padding, Precision, Task
from core.runs.events import Phase, PhaseChanged, RunFinished
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, options_of, resolved, train, write_reviews


def fails(_traced: Any, _inputs: Any) -> Any:
    raise RuntimeError("no such instruction")


def runs_as_it_is(traced: Any, _inputs: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = traced.forward
    return found


def runs_boxed(traced: Any, inputs: Any) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(traced.forward)


BACKENDS = {
    "traced": runs_as_it_is,
    "traced-backward": aot_autograd(fw_compiler=runs_boxed),
    "fails": fails,
    "fails-backward": aot_autograd(fw_compiler=runs_boxed, bw_compiler=fails),
}
"""Back ends of milliseconds; inductor itself takes a minute, and is timed by tests/performance/compiled.py."""


@pytest.fixture(autouse=True)
def listed():
    for name, backend in BACKENDS.items():
        registry.register_backend(backend, name=name)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    for name in BACKENDS:
        del registry._COMPILER_FNS[name]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "bert", hidden_dropout_prob=0.1)


def run(folder: Path, bert: Path, backend: str = "", **device: Any) -> TinyRun:
    """With texts of several lengths, in batches of 4, 4, ... and 2: whatever is not one shape shows."""
    compiled = {"compile": True, "compile_backend": backend} if backend else {}
    batches = {"batch_size": 4, "gradient_accumulation_steps": 2}
    rows = write_reviews(folder.with_suffix(".csv"), rows=26)
    return train(folder, source=bert, train=rows, predictions=0, **batches, **compiled, **device)


@pytest.fixture(scope="module")
def plain(bert, tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain") / "run", bert)


def losses(tiny: TinyRun) -> list[float | None]:
    return [step.loss for step in tiny.steps]


@pytest.mark.parametrize("backend", ["traced", pytest.param("traced-backward", marks=pytest.mark.long)])
def test_one_compilation_serves_every_length_is_timed_apart_and_computes_the_same(
    backend, bert, plain, tmp_path
):
    tiny = run(tmp_path / "run", bert, backend)
    assert (tiny.status, tiny.messages) == (0, {})
    first, *later = tiny.steps
    assert first.compile_seconds > 0
    assert [step.compile_seconds for step in later] == [0.0] * 3
    ran = tiny.what_ran
    assert (ran.compiled, ran.compile_seconds) == (backend, first.compile_seconds)
    phases = [event.phase for event in tiny.events if isinstance(event, PhaseChanged)]
    assert phases[-4:] == [Phase.TRAINING, Phase.COMPILING, Phase.TRAINING, Phase.SAVING]
    [finished] = [event for event in tiny.events if isinstance(event, RunFinished)]
    pace = sum(step.samples for step in later) / sum(step.seconds for step in later)
    assert finished.samples_per_second == pytest.approx(pace)

    assert losses(tiny) == pytest.approx(losses(plain), rel=1e-5)
    assert (plain.what_ran.compiled, plain.what_ran.compile_seconds) == ("", None)
    saved, expected = (load_file(done.run.model / "model.safetensors") for done in (tiny, plain))
    assert list(saved) == list(expected), "names have no prefix of the compiled model"


@pytest.mark.parametrize("backend", ["fails", pytest.param("fails-backward", marks=pytest.mark.long)])
def test_a_back_end_that_fails_leaves_the_run_as_it_would_have_been(backend, bert, tmp_path, plain):
    tiny = run(tmp_path / "run", bert, backend)
    assert tiny.status == 0
    assert list(tiny.messages) == ["compile-failed"]
    assert "no such instruction" in tiny.messages["compile-failed"].detail
    assert (tiny.what_ran.compiled, tiny.what_ran.attention) == ("", "sdpa")
    assert losses(tiny) == losses(plain)


class FakeInductor:
    """Takes what torch's wrapper of inductor takes, and leaves the graphs as they are."""

    modes: ClassVar[list[str]] = []

    def __init__(self, mode: str, _options: Any, dynamic: bool | None) -> None:
        self.modes.append(mode)

    def __call__(self, traced: Any, inputs: Any) -> Callable[..., Any]:
        return runs_as_it_is(traced, inputs)


def test_inductor_gets_the_mode_and_what_is_inside_its_graphs_is_stated(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "_TorchCompileInductorWrapper", FakeInductor)
    monkeypatch.setenv(
        "CXX", sys.executable
    )  # any program: the fake needs no compiler, and Hone asks for one
    mode = {"compile_mode": "reduce-overhead", "precision": Precision.BF16}
    tiny = run(tmp_path / "run", bert, "inductor", **mode)
    assert tiny.messages == {}
    assert set(FakeInductor.modes) == {"reduce-overhead"}
    ran = tiny.what_ran
    assert (ran.compiled, ran.autocast_dtype, ran.attention) == (
        "inductor, reduce-overhead",
        "bfloat16",
        "sdpa",
    )


# --- Images


class Network(torch.nn.Module):
    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(*layers)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.features(pixels).flatten(1)
        return found


def compute(network: Any) -> torch.Tensor:
    pixels = torch.linspace(0, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    loss: torch.Tensor = network(pixels, torch.tensor([0, 1]))["loss"]
    loss.backward()
    return loss.detach()


def compilation(seen: FirstBatch) -> Compilation:
    options = options_of(Task.IMAGE_CLASSIFICATION, compile=True, compile_backend="traced-backward")
    return Compilation(resolved(options), Reporter(None), seen)


def test_batch_norms_count_as_they_do_uncompiled():
    plain = VisionClassifier(Network(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)))
    compiled = copy.deepcopy(plain)
    forms = compilation(FirstBatch())
    for _ in range(2):
        assert forms.run(compiled, compute) == pytest.approx(compute(plain))
    assert (forms.failed, forms.graphs) == (False, 1)
    expected = plain.state_dict()
    for name, found in compiled.state_dict().items():
        torch.testing.assert_close(found, expected[name], msg=name)


def test_segments_of_images_are_recomputed_in_compiled_graphs():
    layers = [torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.Tanh()) for _ in range(9)]
    network, seen = VisionClassifier(Network(*layers)), FirstBatch()
    network.activation_checkpointing_enable()
    compilation(seen).run(network, compute)
    assert seen.recomputed == 3


def test_shapes_that_stay_the_same_are_not_made_general():
    assert has_many_shapes(options_of()) is True
    assert has_many_shapes(options_of(padding=Padding.FIXED)) is None
    assert has_many_shapes(options_of(Task.IMAGE_CLASSIFICATION)) is None
