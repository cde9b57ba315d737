"""What other machines would be told: their facts, written down from the documentation, put through the rules."""

import os

import msgspec
import pytest

from core.choices import Precision, Task
from core.engine.devices import choose, choose_visible, report
from core.engine.environment import prepare_environment
from core.engine.machine_facts import CudaDevice, MachineFacts
from core.errors import DeviceError
from core.options import DeviceOptions, RunOptions

GB = 1 << 30
PC = MachineFacts(
    system="Linux",
    machine="x86_64",
    cpu_name="AMD Ryzen 7",
    memory_bytes=32 * GB,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
)
RTX_3060 = CudaDevice(name="NVIDIA GeForce RTX 3060", memory_bytes=12 * GB, capability=(8, 6))
GTX_1660 = CudaDevice(name="NVIDIA GeForce GTX 1660", memory_bytes=6 * GB, capability=(7, 5))
M3_MAX = MachineFacts(
    system="Darwin",
    machine="arm64",
    cpu_name="Apple M3 Max",
    memory_bytes=36 * GB,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
    mps_built=True,
    mps_available=True,
    mps_memory_bytes=27 * GB,
    macos="14.5",
)


def variant(facts: MachineFacts, **changes: object) -> MachineFacts:
    return msgspec.structs.replace(facts, **changes)


M1_ON_13 = variant(M3_MAX, cpu_name="Apple M1", macos="13.6", mps_available=False)
TRANSLATED = variant(M3_MAX, machine="x86_64", translated=True, mps_built=False, mps_available=False)
INTEL_MAC = variant(M3_MAX, machine="x86_64", cpu_name="Intel Core i7", mps_available=False)
NO_MPS_TORCH = variant(M3_MAX, mps_built=False, mps_available=False)


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
        choose(facts, on(name))
    assert says in refused.value.detail


@pytest.mark.parametrize(
    ("facts", "name", "precision"),
    [
        (M3_MAX, "mps", Precision.BF16),
        (variant(M3_MAX, cpu_name="Apple M2"), "mps", Precision.FP32),
        (M1_ON_13, "cpu", Precision.FP32),
        (PC, "cpu", Precision.FP32),
        (variant(PC, cpu_bf16=True), "cpu", Precision.BF16),
        (variant(PC, torch_cuda=True, nvidia_driver=True, cuda=(RTX_3060,)), "cuda:0", Precision.BF16),
        (variant(PC, torch_cuda=True, nvidia_driver=True, cuda=(GTX_1660,)), "cuda:0", Precision.FP16),
    ],
)
def test_automatic(facts: MachineFacts, name: str, precision: Precision) -> None:
    chosen = choose(facts, on())
    assert (chosen.name, chosen.precision) == (name, precision)
    assert report(facts).automatic == name
    told = {device.name: device.automatic for device in report(facts).devices if device.available}
    assert told[name]["device.precision"].value == precision


def test_second_gpu_can_be_chosen_and_a_third_cannot() -> None:
    facts = variant(PC, torch_cuda=True, nvidia_driver=True, cuda=(RTX_3060, GTX_1660))
    assert choose(facts, on("cuda:1")).title == GTX_1660.name
    with pytest.raises(DeviceError, match="cuda:2 is not available"):
        choose(facts, on("cuda:2"))


def test_fp16_on_a_cpu_is_refused_with_its_reason() -> None:
    with pytest.raises(DeviceError) as refused:
        choose(PC, on("cpu", precision=Precision.FP16))
    assert "no fp16 training on the CPU" in refused.value.detail
    assert refused.value.fixes[0].changes == {"device.precision": "auto"}


TWO_GPUS = variant(PC, torch_cuda=True, nvidia_driver=True, cuda=(RTX_3060,))


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
    chosen = choose_visible(TWO_GPUS, options)
    assert (chosen.name, chosen.label, chosen.kind) == ("cuda:0", "cuda:1", "cuda")


def test_a_gpu_number_beyond_the_last_is_told_as_that() -> None:
    hidden = variant(PC, torch_cuda=True, nvidia_driver=True)
    with pytest.raises(DeviceError) as refused:
        choose_visible(hidden, on("cuda:3"))
    assert "counted from 0" in refused.value.detail
