"""torch.compile: real, timed apart from the steps, one compilation for all lengths, and given up where it fails."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd

from core.engine.models.vision import VisionClassifier
from core.engine.reporter import Reporter
from core.engine.training.compile import Compilation, has_many_shapes
from core.engine.training.observe import FirstBatch
from core.options import RunOptions
from core.options.choices import Padding, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions
from core.runs.events import Phase, PhaseChanged
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, resolved, reviews, train, write_reviews


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


def run(folder: Path, bert: Path, backend: str = "", **sections: Any) -> TinyRun:
    """With texts of several lengths, in batches of 8, 8, 8 and 2: whatever is not one shape shows."""
    precision = sections.pop("precision", Precision.FP32)
    mode = sections.pop("mode", "default")
    compiled = {"compile": True, "compile_backend": backend, "compile_mode": mode} if backend else {}
    data = reviews(write_reviews(folder.with_suffix(".csv"), rows=26))
    device = DeviceOptions(name="cpu", precision=precision, **compiled)
    return train(folder, **{"model": model(bert), "data": data, "device": device, **sections})


def losses(tiny: TinyRun) -> list[float | None]:
    return [step.loss for step in tiny.steps]


def phases(tiny: TinyRun) -> list[Phase]:
    return [event.phase for event in tiny.events if isinstance(event, PhaseChanged)]


@pytest.mark.long
def test_one_compilation_serves_every_length_and_is_timed_apart(bert, tmp_path):
    tiny = run(tmp_path / "run", bert, "traced-backward")
    assert tiny.status == 0
    assert tiny.messages == {}
    first, *later = tiny.steps
    assert first.compile_seconds > 0
    assert [step.compile_seconds for step in later] == [0.0] * 3
    ran = tiny.what_ran
    assert (ran.compiled, ran.compile_seconds) == ("traced-backward", first.compile_seconds)
    assert phases(tiny)[-4:] == [Phase.TRAINING, Phase.COMPILING, Phase.TRAINING, Phase.SAVING]
    finished = tiny.events[-1]
    pace = sum(step.samples for step in later) / sum(step.seconds for step in later)
    assert finished.samples_per_second == pytest.approx(pace)


def test_the_losses_are_those_of_the_plain_model_and_the_names_stay_clean(bert, tmp_path):
    from safetensors.torch import load_file

    plain = run(tmp_path / "plain", bert)
    compiled = run(tmp_path / "compiled", bert, "traced")
    assert (plain.what_ran.compiled, plain.what_ran.compile_seconds) == ("", None)
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-5)
    kept, other = (load_file(tiny.run.model / "model.safetensors") for tiny in (compiled, plain))
    assert list(kept) == list(other)


def test_what_is_inside_the_compiled_graphs_is_stated(bert, tmp_path):
    again = MemoryOptions(batch_size=8, activation_checkpointing=True)
    ran = run(tmp_path / "run", bert, "traced", precision=Precision.BF16, memory=again).what_ran
    assert (ran.autocast_dtype, ran.attention, ran.recomputed) == ("bfloat16", "sdpa", 1)


ACCUMULATED = MemoryOptions(batch_size=4, gradient_accumulation_steps=2)


@pytest.fixture(scope="module")
def plain_losses(bert, tmp_path_factory):
    return losses(run(tmp_path_factory.mktemp("plain") / "run", bert, memory=ACCUMULATED))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["fails", "fails-backward"])
def test_a_back_end_that_fails_leaves_the_run_as_it_would_have_been(backend, bert, tmp_path, plain_losses):
    tiny = run(tmp_path / "run", bert, backend, memory=ACCUMULATED)
    assert tiny.status == 0
    assert list(tiny.messages) == ["compile-failed"]
    assert "no such instruction" in tiny.messages["compile-failed"].detail
    assert tiny.what_ran.compiled == ""
    assert tiny.what_ran.attention == "sdpa"
    assert losses(tiny) == plain_losses


class Network(torch.nn.Module):
    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Sequential(*layers)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.features(pixels).flatten(1)
        return found


def compute(network: Any) -> torch.Tensor:
    pixels = torch.linspace(0, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    loss: torch.Tensor = network(pixels, torch.tensor([0, 1]))["loss"]
    loss.backward()
    return loss.detach()


def compilation(folder: Path, seen: FirstBatch) -> Compilation:
    device = DeviceOptions(compile=True, compile_backend="traced-backward")
    settled = RunOptions(task=Task.IMAGE_CLASSIFICATION, device=device)
    return Compilation(resolved(settled), Reporter(RunFolder(folder)), seen)


def test_batch_norms_count_as_they_do_uncompiled(tmp_path):
    plain = VisionClassifier(Network(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)))
    compiled = copy.deepcopy(plain)
    forms = compilation(tmp_path, FirstBatch())
    for _ in range(2):
        assert forms.run(compiled, compute) == pytest.approx(compute(plain))
    assert (forms.failed, forms.graphs) == (False, 1)
    for (name, found), expected in zip(
        compiled.state_dict().items(), plain.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(found, expected, msg=name)


def test_segments_of_images_are_recomputed_in_compiled_graphs(tmp_path):
    layers = [torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.Tanh()) for _ in range(9)]
    network, seen = VisionClassifier(Network(*layers)), FirstBatch()
    network.activation_checkpointing_enable()
    compilation(tmp_path, seen).run(network, compute)
    assert seen.recomputed == 3


class FakeInductor:
    """Takes what torch's wrapper of inductor takes, and leaves the graphs as they are."""

    modes: ClassVar[list[str]] = []

    def __init__(self, mode: str, _options: Any, dynamic: bool | None) -> None:
        self.modes.append(mode)

    def __call__(self, traced: Any, inputs: Any) -> Callable[..., Any]:
        return runs_as_it_is(traced, inputs)


def test_inductor_gets_the_mode(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "_TorchCompileInductorWrapper", FakeInductor)
    tiny = run(tmp_path / "run", bert, "inductor", mode="reduce-overhead")
    assert tiny.messages == {}
    assert set(FakeInductor.modes) == {"reduce-overhead"}
    assert tiny.what_ran.compiled == "inductor, reduce-overhead"


def test_shapes_that_stay_the_same_are_not_made_general():
    texts = RunOptions(task=Task.TEXT_CLASSIFICATION)
    padded = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(padding=Padding.FIXED))
    assert has_many_shapes(texts) is True
    assert has_many_shapes(padded) is None
    assert has_many_shapes(RunOptions(task=Task.IMAGE_CLASSIFICATION)) is None
