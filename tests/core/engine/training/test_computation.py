"""Threads, determinism and the format of fp32 products: set for real, and stated from torch's own settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.engine.environment import process_ran
from core.options.choices import Precision
from core.options.sections import DeviceOptions, TrainingOptions
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import TinyRun, model, train


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads, fp32 = torch.get_num_threads(), torch.backends.fp32_precision
    for name in ("CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "FLASH_ATTENTION_DETERMINISTIC"):
        monkeypatch.setenv(name, "")
    for name in ("ASCEND_LAUNCH_BLOCKING", "HCCL_DETERMINISTIC"):
        monkeypatch.setenv(name, "")
    yield
    torch.set_num_threads(threads)
    torch.backends.fp32_precision = fp32
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "bert", hidden_dropout_prob=0.1)


def test_threads_are_those_asked_for_or_one_for_each_core(bert: Path, tmp_path: Path) -> None:
    asked = DeviceOptions(name="cpu", precision=Precision.FP32, threads=3)
    assert train(tmp_path / "three", model=model(bert), device=asked).what_ran.threads == 3
    ran = train(tmp_path / "automatic", model=model(bert)).what_ran
    assert ran.reasons["device.threads"] == f"{ran.threads}: one for each core"


def test_full_determinism_repeats_losses_and_weights_to_the_bit(bert: Path, tmp_path: Path) -> None:
    """Also with dropout, of the same seed. On this CPU it costs nothing: its kernels repeat themselves anyway."""

    def run(name: str, seed: int = 7) -> TinyRun:
        training = TrainingOptions(epochs=1.0, learning_rate=1e-2, deterministic=True, seed=seed)
        return train(tmp_path / name, model=model(bert), training=training)

    first, second, other = run("first"), run("second"), run("other", seed=8)
    assert first.what_ran.deterministic
    assert first.messages == {}
    losses = [[step.loss for step in tiny.steps] for tiny in (first, second, other)]
    assert len(losses[0]) == 2
    assert losses[0] == losses[1] != losses[2]
    weights, repeated = (tiny.trainer.model.state_dict() for tiny in (first, second))
    assert all(torch.equal(weights[name], repeated[name]) for name in weights)


def test_without_it_nothing_of_the_kind_is_stated(bert: Path, tmp_path: Path) -> None:
    ran = train(tmp_path / "run", model=model(bert)).what_ran
    assert (ran.deterministic, ran.matmul, ran.fell_back) == (False, "", ())


@pytest.mark.parametrize(("precision", "matmul"), [("tf32", "tf32"), ("ieee", "fp32"), ("none", "fp32")])
def test_how_cuda_multiplies_is_read_from_torch(precision: str, matmul: str) -> None:
    """The setting is there without a GPU; Trainer sets it through the same attribute."""
    torch.backends.fp32_precision = precision
    assert process_ran("cuda")["matmul"] == matmul
    assert process_ran("cpu")["matmul"] == ""
