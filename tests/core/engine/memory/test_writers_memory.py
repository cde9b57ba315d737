"""What a model that writes holds beside one that classifies: the probabilities of all its tokens at every place."""

from pathlib import Path

import pytest

from core.engine.devices.capabilities import gather
from core.engine.devices.choose import resolve_run
from core.engine.environment import prepare_torchvision
from core.engine.memory.forecast import longest_row
from core.engine.models import text
from core.engine.models.check import check_model
from core.memory import estimate, model
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions
from tests.fakes.tiny_writer import save_tiny_llama, write_text

prepare_torchvision()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def asked(vocabulary: int, precision: Precision = Precision.FP32) -> RunOptions:
    return RunOptions(
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny", vocabulary=vocabulary),
        data=DataOptions(train="synthetic:64x128", max_length=128),
        device=DeviceOptions(name="cpu", precision=precision),
        memory=MemoryOptions(batch_size=4),
    )


def by_formula(options: RunOptions) -> model.Forecast:
    report = check_model(options)
    assert report.shape is not None
    device = resolve_run(gather(with_compilers=False), options).device
    return estimate.forecast(options, report.shape, device, length=128)


def test_every_token_it_can_say_takes_memory_at_every_place() -> None:
    small, large = by_formula(asked(1_000)), by_formula(asked(11_000))
    places = 4 * 128
    assert large.parts.activations - small.parts.activations == 4 * 10_000 * places
    assert large.parts.temporary - small.parts.temporary > 7 * 10_000 * places


def test_lora_trains_nothing_but_its_matrices(tmp_path: Path) -> None:
    llama = save_tiny_llama(tmp_path / "llama")
    options = RunOptions(
        task=Task.CAUSAL_LM, model=ModelOptions(source=str(llama), method=Method.LORA, lora_rank=4)
    )
    report = check_model(options)
    assert report.shape is not None
    assert report.trainable_parameters == report.shape.linear_sides * 4


def test_rows_of_a_text_are_as_long_as_is_allowed(tmp_path: Path) -> None:
    llama = save_tiny_llama(tmp_path / "llama")
    data = DataOptions(train=str(write_text(tmp_path / "text.txt")), max_length=48)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source=str(llama)), data=data)
    config = text.load_config(options)
    assert longest_row(options, config, None).tokens == 48
    assert longest_row(options, config, text.load_tokenizer(str(llama))).tokens == 48
