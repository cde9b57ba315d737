"""What each recorded machine refuses, and why: read by the form, the run file's checks and the run alike."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import DeviceError
from core.engine.devices.capabilities import MachineFacts
from core.engine.devices.choose import report, resolve_run
from core.engine.environment import prepare_environment
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.device_support import (
    OF_MACHINES,
    cautions,
    machine_may_refuse,
    machine_problems,
    refusal,
)
from tests.fakes.machines import (
    BARE,
    BUNDLED,
    EVERY_MACHINE,
    GB,
    GTX_1660,
    INTEL_MAC,
    LAPTOP,
    M1_ON_13,
    M2_8GB,
    M3_MAX,
    NO_MPS_TORCH,
    OLD_CARD,
    OLDER_CARD,
    PC,
    SERVER,
    SPARK,
    TRANSLATED,
    TWO_GPUS,
    variant,
)


def asked(**values: Any) -> RunOptions:
    """Options from `section__option=value`."""
    options = RunOptions(task=Task.TEXT_CLASSIFICATION)
    for name, value in values.items():
        section, _, option = name.partition("__")
        value_type = options_by_path()[f"{section}.{option}"].value_type
        changed = msgspec.structs.replace(
            getattr(options, section), **{option: msgspec.convert(value, value_type)}
        )
        options = msgspec.structs.replace(options, **{section: changed})
    return options


def told(facts: MachineFacts, **values: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in machine_problems(report(facts), asked(**values))}


@pytest.mark.parametrize(
    ("facts", "values", "reason"),
    [
        (PC, {"device__precision": "fp16"}, "needs a GPU: PyTorch has no fp16 training on the CPU"),
        (PC, {"device__precision": "tf32"}, "is a format of NVIDIA GPUs from Ampere on"),
        (M3_MAX, {"device__precision": "tf32"}, "is a format of NVIDIA GPUs from Ampere on"),
        (OLD_CARD, {"device__precision": "bf16"}, "needs an NVIDIA GPU from Ampere on"),
        (
            M3_MAX,
            {"training__optimizer": "adamw-8bit"},
            "8-bit optimizers have no MPS kernels in bitsandbytes 0.50",
        ),
        (M3_MAX, {"training__optimizer": "ademamix"}, "AdEMAMix has no MPS kernel in bitsandbytes 0.50"),
        (PC, {"training__optimizer": "paged-adamw-8bit"}, "bitsandbytes does that with CUDA only"),
        (OLD_CARD, {"memory__offload_optimizer": True}, "fp16's loss scaling doesn't reach gradients"),
        (
            BARE,
            {"training__optimizer": "adamw-8bit"},
            "needs the package bitsandbytes, which isn't installed",
        ),
        (
            PC,
            {"training__optimizer": "adamw-8bit-torchao"},
            "needs the package torchao, which isn't installed",
        ),
        (M3_MAX, {"model__method": "qlora"}, "QLoRA was never tried on an Apple GPU"),
        (BARE, {"model__method": "qlora"}, "needs the package bitsandbytes, which isn't installed"),
        (variant(BUNDLED, optional={}), {"model__method": "qlora"}, "comes with PyTorch with CUDA"),
        (PC, {"model__attention": "flash_attention_2"}, "needs an NVIDIA GPU from Ampere on"),
        (OLD_CARD, {"model__attention": "flash_attention_2"}, "needs an NVIDIA GPU from Ampere on"),
        (
            LAPTOP,
            {"model__attention": "flash_attention_2"},
            "needs the package flash-attn, which isn't installed",
        ),
        (LAPTOP, {"model__attention": "flash_attention_3"}, "needs an NVIDIA Hopper GPU"),
        (M3_MAX, {"data__pin_memory": "on"}, "serves NVIDIA GPUs, which fetch batches by themselves"),
        (M3_MAX, {"memory__deepspeed": "zero-2"}, "nccl or gloo, and PyTorch has neither for MPS"),
        (LAPTOP, {"memory__deepspeed": "zero-3"}, "needs the package deepspeed, which isn't installed"),
        (M3_MAX, {"memory__offload_optimizer": True}, "needs an NVIDIA GPU"),
        (LAPTOP, {"memory__offload_optimizer": True}, "needs the package torchao, which isn't installed"),
        (M3_MAX, {"device__processes": 2}, "PyTorch has neither gloo nor nccl for MPS"),
        (TWO_GPUS, {"device__processes": 2}, "Hone trains in one process"),
        (BUNDLED, {"device__compile": True}, "needs a compiler and headers that the app doesn't bring along"),
        (PC, {"device__compile": True, "device__compile_backend": "cudagraphs"}, "needs CUDA"),
        (PC, {"device__compile": True, "device__compile_backend": "tvm"}, "the package tvm, which isn't"),
        (OLDER_CARD, {"device__compile": True}, "needs an NVIDIA GPU from Volta on"),
        (
            PC,
            {"device__compile": True, "device__compile_backend": "onnxrt"},
            "must be one of inductor, cudagraphs",
        ),
        (PC, {"device__compile": True, "device__compile_mode": "fastest"}, "must be one of default"),
    ],
)
def test_a_choice_that_can_not_be_is_refused_with_its_reason_everywhere(facts, values, reason):
    [(path, message)] = told(facts, **values).items()
    assert reason in message
    assert machine_may_refuse(asked(**values)), "the command line would not have asked the machine"
    with pytest.raises(DeviceError) as refused:
        resolve_run(facts, asked(**values))
    assert message in refused.value.detail
    assert refused.value.fixes, f"{path} has no way out"


@pytest.mark.parametrize(
    "values",
    [
        {"device__precision": "tf32"},
        {"training__optimizer": "paged-adamw-8bit"},
        {"training__optimizer": "adamw-8bit-torchao"},
        {"model__method": "qlora"},
        {"model__attention": "flash_attention_3"},
        {"memory__deepspeed": "zero-3"},
        {"memory__offload_optimizer": True},
        {"data__pin_memory": "on"},
        {"device__compile": True, "device__compile_backend": "cudagraphs"},
        {"device__compile": True, "device__compile_backend": "openxla"},
        {"device__compile": True, "device__compile_backend": "tvm"},
    ],
)
def test_a_server_with_everything_refuses_nothing(values):
    assert told(SERVER, **values) == {}
    resolve_run(SERVER, asked(**values))


def test_all_refusals_are_told_at_once():
    wanted = asked(training__optimizer="adamw-8bit", memory__deepspeed="zero-2", device__precision="tf32")
    with pytest.raises(DeviceError) as refused:
        resolve_run(M3_MAX, wanted)
    assert all(
        path in refused.value.detail
        for path in ("training.optimizer", "memory.deepspeed", "device.precision")
    )


@pytest.mark.parametrize("name", EVERY_MACHINE)
def test_defaults_and_automatic_are_never_refused(name):
    for task in Task:
        assert list(machine_problems(report(EVERY_MACHINE[name]), RunOptions(task=task))) == []
    settled = resolve_run(EVERY_MACHINE[name], asked()).options
    assert "auto" not in (settled.device.precision, settled.data.group_by_length, settled.data.pin_memory)
    assert settled.data.workers is not None
    assert settled.device.threads is not None


@pytest.mark.parametrize("name", EVERY_MACHINE)
def test_whatever_is_refused_is_an_option_the_command_line_looks_at(name):
    machine = report(EVERY_MACHINE[name])
    for device in machine.devices:
        assert set(device.refusals) | set(machine.choices) <= set(OF_MACHINES)
        for path, free in OF_MACHINES.items():
            assert not any(refusal(device, path, value) for value in free if device.available), path


def test_what_works_but_should_be_known():
    def said(facts: MachineFacts, **values: Any) -> dict[str, str]:
        return {found.path: found.message for found in cautions(report(facts), asked(**values))}

    assert "emulated on M1 and M2" in said(M2_8GB, device__precision="bf16")["device.precision"]
    assert said(M3_MAX, device__precision="bf16") == {}
    assert "whole Mac to a halt" in said(M2_8GB, device__mps_memory_limit=0.0)["device.mps_memory_limit"]
    assert (
        said(PC, device__mps_memory_limit=1.0)["device.mps_memory_limit"] == "It counts on Apple GPUs only."
    )
    assert said(M3_MAX, device__mps_memory_limit=1.0) == {}
    assert "early prototype" in said(M3_MAX, device__compile=True)["device.compile"]
    assert "no bf16 units" in said(PC, device__precision="bf16")["device.precision"]


def test_automatic_suits_each_machine_and_says_why():
    settled = {name: resolve_run(facts, asked()) for name, facts in EVERY_MACHINE.items()}
    precisions = {name: resolved.options.device.precision.value for name, resolved in settled.items()}
    assert precisions == {
        "PC": "fp32",
        "RTX 3060 laptop": "bf16",
        "old card": "fp16",
        "older card": "fp32",
        "two GPUs": "bf16",
        "GB10": "bf16",
        "server": "bf16",
        "M3 Max": "bf16",
        "M2 8 GB": "fp32",
        "M1 on macOS 13.6": "fp32",
        "translated": "fp32",
        "Intel Mac": "fp32",
        "torch without MPS": "fp32",
        "bundled": "fp32",
        "bare": "fp32",
    }
    assert settled["M2 8 GB"].reasons["device.precision"] == "fp32: Apple M2 has no bf16 hardware"
    assert settled["M3 Max"].options.data.pin_memory == "off"
    assert "older than Volta" in settled["older card"].reasons["device.precision"]
    assert settled["server"].options.data.pin_memory == "on"
    assert all(resolved.options.data.workers == 0 for resolved in settled.values() if resolved.kind != "cuda")


def test_what_bitsandbytes_has_for_apple_gpus_is_what_the_reasons_say():
    from importlib.util import find_spec

    backends = Path(find_spec("bitsandbytes").submodule_search_locations[0]) / "backends"
    mps, plain = ((backends / name / "ops.py").read_text(encoding="utf-8") for name in ("mps", "default"))
    assert "optimizer_update" not in mps
    assert "optimizer_update_8bit_blockwise" not in plain
    assert '@register_kernel("bitsandbytes::optimizer_update_32bit", "default")' in plain
    assert '@register_kernel("bitsandbytes::dequantize_4bit", "mps")' in mps
    assert 'get_kernel("kernels-community/bitsandbytes-mps"' in mps


def test_memory_shared_with_the_cpu_is_told():
    device = resolve_run(SPARK, asked()).device
    assert (device.name, device.memory_bytes) == ("cuda:0", 120 * GB)


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
def test_says_why_a_device_is_not_to_be_had(facts, name, says):
    assert says in reason_for(facts, name)
    with pytest.raises(DeviceError) as refused:
        resolve_run(facts, asked(device__name=name))
    assert says in refused.value.detail


def test_second_gpu_can_be_chosen_and_a_third_cannot():
    assert resolve_run(TWO_GPUS, asked(device__name="cuda:1")).device.title == GTX_1660.name
    with pytest.raises(DeviceError, match="cuda:2 is not available"):
        resolve_run(TWO_GPUS, asked(device__name="cuda:2"))


def test_the_second_gpu_is_the_first_one_its_run_sees(monkeypatch):
    """The environment leaves one GPU visible, so torch calls it cuda:0; the person still reads cuda:1."""
    for name in (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "PYTORCH_ENABLE_MPS_FALLBACK",
        "TOKENIZERS_PARALLELISM",
    ):
        monkeypatch.setenv(name, "4,6")
    options = asked(device__name="cuda:1")
    prepare_environment(options)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    chosen = resolve_run(LAPTOP, options, sees_one_gpu=True)
    assert (chosen.device.name, chosen.label, chosen.kind) == ("cuda:0", "cuda:1", "cuda")


def test_a_gpu_number_beyond_the_last_is_told_as_that():
    hidden = variant(PC, torch_cuda=True, nvidia_driver=True)
    with pytest.raises(DeviceError) as refused:
        resolve_run(hidden, asked(device__name="cuda:3"), sees_one_gpu=True)
    assert "counted from 0" in refused.value.detail
