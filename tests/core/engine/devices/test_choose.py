"""What other machines would be told: their facts, written down from the documentation, put through the rules."""

import os

import pytest

from core.base.errors import DeviceError
from core.engine.devices.capabilities import MachineFacts
from core.engine.devices.choose import report, resolve_run
from core.engine.environment import prepare_environment
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.sections import DeviceOptions
from tests.fakes.machines import (
    GTX_1660,
    INTEL_MAC,
    LAPTOP,
    M1_ON_13,
    M2_8GB,
    M3_MAX,
    NO_MPS_TORCH,
    OLD_CARD,
    PC,
    TRANSLATED,
    TWO_GPUS,
    variant,
)


def on(name: str = "auto", **device: object) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, device=DeviceOptions(name=name, **device))


def reason_for(facts: MachineFacts, name: str) -> str:
    return next(device.reason for device in report(facts).devices if device.name == name)


@pytest.mark.parametrize(
    ("facts", "name", "says"),
    [
        (M1_ON_13, "mps", "needs macOS 14.0, this is 13.6"),
        (TRANSLATED, "mps", "Install a Python for Apple silicon"),
        (INTEL_MAC, "mps", "Intel processor"),
        (NO_MPS_TORCH, "mps", "built without MPS"),
        (PC, "mps", "Apple computers"),
        (PC, "cuda:0", "No NVIDIA driver"),
        (variant(PC, nvidia_driver=True), "cuda:0", "built without CUDA"),
        (variant(PC, nvidia_driver=True, torch_cuda=True), "cuda:0", "Update the driver"),
        (M3_MAX, "cuda:0", "Macs have no CUDA"),
    ],
)
def test_says_why_a_device_is_not_to_be_had(facts: MachineFacts, name: str, says: str) -> None:
    assert says in reason_for(facts, name)
    with pytest.raises(DeviceError) as refused:
        resolve_run(facts, on(name))
    assert says in refused.value.detail


@pytest.mark.parametrize(
    ("facts", "name", "precision"),
    [
        (M3_MAX, "mps", Precision.BF16),
        (M2_8GB, "mps", Precision.FP32),
        (M1_ON_13, "cpu", Precision.FP32),
        (PC, "cpu", Precision.FP32),
        (variant(PC, cpu_bf16=True), "cpu", Precision.BF16),
        (LAPTOP, "cuda:0", Precision.BF16),
        (OLD_CARD, "cuda:0", Precision.FP16),
    ],
)
def test_automatic(facts: MachineFacts, name: str, precision: Precision) -> None:
    chosen = resolve_run(facts, on())
    assert (chosen.device.name, chosen.precision) == (name, precision)
    assert report(facts).automatic == name
    told = {device.name: device.automatic for device in report(facts).devices if device.available}
    assert told[name]["device.precision"].value == precision


def test_second_gpu_can_be_chosen_and_a_third_cannot() -> None:
    assert resolve_run(TWO_GPUS, on("cuda:1")).device.title == GTX_1660.name
    with pytest.raises(DeviceError, match="cuda:2 is not available"):
        resolve_run(TWO_GPUS, on("cuda:2"))


def test_fp16_on_a_cpu_is_refused_with_its_reason() -> None:
    with pytest.raises(DeviceError) as refused:
        resolve_run(PC, on("cpu", precision=Precision.FP16))
    assert "no fp16 training on the CPU" in refused.value.detail
    assert refused.value.fixes[0].changes == {"device.precision": "auto"}


def test_the_second_gpu_is_the_first_one_its_run_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment leaves one GPU visible, so torch calls it cuda:0; the person still reads cuda:1."""
    for name in (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "PYTORCH_ENABLE_MPS_FALLBACK",
        "TOKENIZERS_PARALLELISM",
    ):
        monkeypatch.setenv(name, "4,6")
    options = on("cuda:1")
    prepare_environment(options)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    chosen = resolve_run(LAPTOP, options, sees_one_gpu=True)
    assert (chosen.device.name, chosen.label, chosen.kind) == ("cuda:0", "cuda:1", "cuda")


def test_a_gpu_number_beyond_the_last_is_told_as_that() -> None:
    hidden = variant(PC, torch_cuda=True, nvidia_driver=True)
    with pytest.raises(DeviceError) as refused:
        resolve_run(hidden, on("cuda:3"), sees_one_gpu=True)
    assert "counted from 0" in refused.value.detail
