"""What each recorded machine refuses, and why: the same in the form, the run file's checks and the run."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import DeviceError
from core.base.processes import source_digest
from core.engine.devices.capabilities import MachineFacts, gather, versions
from core.engine.devices.choose import report, resolve_run
from core.engine.devices.stored_checks import StoredCheck, software
from core.engine.environment import prepare_environment
from core.hosts.computers import CheckedComputer, Computer, save
from core.options import RunOptions
from core.options.catalogue import options_by_path, row_multiple, with_changes
from core.options.choices import Task
from core.options.device_support import (
    OF_MACHINES,
    cautions,
    machine_may_refuse,
    machine_problems,
    refusal,
    settle,
)
from tests.fakes.machines import (
    BARE,
    BUNDLED,
    EVERY_MACHINE,
    GB,
    GTX_1660,
    INTEL_MAC,
    LAPTOP,
    M1,
    M1_ON_13,
    M2_8GB,
    M3_MAX,
    M4,
    M4_WITHOUT_BITSANDBYTES,
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


def requested(**values: Any) -> RunOptions:
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


def problems(facts: MachineFacts, **values: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in machine_problems(report(facts), requested(**values))}


REFUSED = [
    ("PC", PC, {"device__precision": "fp16"}),
    ("PC", PC, {"device__precision": "tf32"}),
    ("old-card", OLD_CARD, {"device__precision": "bf16"}),
    ("M3", M3_MAX, {"training__optimizer": "adamw-8bit"}),
    ("PC", PC, {"training__optimizer": "paged-adamw-8bit"}),
    ("bare", BARE, {"training__optimizer": "adamw-8bit"}),
    ("PC", PC, {"training__optimizer": "adamw-8bit-torchao"}),
    ("M3", M3_MAX, {"training__optimizer": "paged-adamw-8bit"}),
    ("M1-on-13", M1_ON_13, {"model__method": "qlora"}),
    ("bare", BARE, {"model__method": "qlora"}),
    ("bundled", variant(BUNDLED, optional={}), {"model__method": "qlora"}),
    ("no-nf4", M4_WITHOUT_BITSANDBYTES, {"model__method": "qlora"}),  # classification, which MLX has not
    ("old-card", OLD_CARD, {"model__attention": "flash_attention_2"}),
    ("laptop", LAPTOP, {"model__attention": "flash_attention_2"}),
    ("laptop", LAPTOP, {"model__attention": "flash_attention_3"}),
    ("M3", M3_MAX, {"data__pin_memory": "on"}),
    ("M3", M3_MAX, {"memory__deepspeed": "zero-2"}),
    ("PC", PC, {"memory__empty_cache_steps": 50}),
    ("old-card", OLD_CARD, {"memory__offload_optimizer": True}),
    ("laptop", LAPTOP, {"memory__offload_optimizer": True}),
    ("M3", M3_MAX, {"device__processes": 2}),
    ("two-GPUs", TWO_GPUS, {"device__processes": 3}),
    ("M3", M3_MAX, {"memory__fsdp": True}),
    ("PC", PC, {"memory__fsdp": True}),
    ("bundled", BUNDLED, {"device__compile": True}),
    ("PC", PC, {"device__compile_backend": "cudagraphs", "device__compile": True}),
    ("older-card", OLDER_CARD, {"device__compile_backend": "inductor", "device__compile": True}),
    ("PC", PC, {"device__compile_backend": "onnxrt", "device__compile": True}),
    ("PC", PC, {"device__compile_mode": "fastest", "device__compile": True}),
    ("PC", PC, {"device__backend": "mlx"}),
    ("server", SERVER, {"device__backend": "mlx"}),
    ("M4-bare", variant(M4, optional={}), {"device__backend": "mlx"}),
    ("M4-on-CPU", M4, {"device__backend": "mlx", "device__name": "cpu"}),
    ("PC", PC, {"model__quantization": "affine8", "model__method": "qlora"}),
]


@pytest.mark.parametrize(
    ("facts", "values"),
    [
        pytest.param(facts, values, id=f"{name}-{'-'.join(map(str, values.values()))}")
        for name, facts, values in REFUSED
    ],
)
def test_the_form_the_command_line_and_the_run_refuse_the_same(facts, values):
    [(path, message)] = problems(facts, **values).items()
    assert path == next(iter(values)).replace("__", ".")
    assert machine_may_refuse(requested(**values)), "the command line would not have asked the machine"
    with pytest.raises(DeviceError) as refused:
        resolve_run(facts, requested(**values))
    assert message in refused.value.detail
    assert refused.value.fixes


@pytest.mark.parametrize(
    ("facts", "name", "count"),
    [
        (TWO_GPUS, "auto", 2),
        (TWO_GPUS, "cuda", 2),
        (TWO_GPUS, "cuda:1", 1),
        (LAPTOP, "auto", 1),
        (TWO_GPUS, "cpu", 1),
        (M3_MAX, "auto", 1),
        (PC, "auto", 1),
    ],
)
def test_no_number_of_processes_is_one_for_each_card(facts, name, count):
    asked = requested(device__name=name, device__processes=0)
    assert resolve_run(facts, asked).options.device.processes == count
    # the engine sees one card, but knows how many there are
    sees = variant(facts, cuda=facts.cuda[:1], cards=len(facts.cuda))
    assert resolve_run(sees, asked, sees_one_gpu=True).options.device.processes == count


def test_a_process_that_sees_one_card_of_two_is_one_of_two():
    sees = variant(TWO_GPUS, cuda=TWO_GPUS.cuda[:1], cards=2)
    asked = requested(device__name="cuda", device__processes=2, memory__fsdp=True)
    assert resolve_run(sees, asked, sees_one_gpu=True).options.device.processes == 2


@pytest.mark.parametrize(
    "values",
    [
        {"device__precision": "tf32", "training__optimizer": "paged-adamw-8bit", "model__method": "qlora"},
        {"training__optimizer": "adamw-8bit-torchao", "model__attention": "flash_attention_3"},
        {"memory__deepspeed": "zero-3", "data__pin_memory": "on", "memory__empty_cache_steps": 50},
        {"memory__offload_optimizer": True, "device__compile": True, "device__compile_backend": "cudagraphs"},
        {"device__compile": True, "device__compile_backend": "openxla"},
        {"device__compile": True, "device__compile_backend": "tvm"},
    ],
    ids=["8-bit", "torchao", "deepspeed", "offload", "openxla", "tvm"],
)
def test_a_server_with_everything_refuses_nothing(values):
    assert problems(SERVER, **values) == {}
    resolve_run(SERVER, requested(**values))


def test_all_refusals_are_reported_at_once():
    wanted = requested(training__optimizer="adamw-8bit", memory__deepspeed="zero-2", device__precision="tf32")
    with pytest.raises(DeviceError) as refused:
        resolve_run(M3_MAX, wanted)
    paths = ("training.optimizer", "memory.deepspeed", "device.precision")
    assert all(path in refused.value.detail for path in paths)


@pytest.mark.parametrize("name", EVERY_MACHINE)
def test_defaults_are_never_refused_and_what_is_refused_is_checked_by_the_command_line(name):
    machine = report(EVERY_MACHINE[name])
    for task in Task:
        assert list(machine_problems(machine, RunOptions(task=task))) == []
    settled = resolve_run(EVERY_MACHINE[name], requested()).options
    assert "auto" not in (
        settled.device.name,
        settled.device.backend,
        settled.device.precision,
        settled.data.group_by_length,
        settled.data.pin_memory,
    )
    assert None not in (settled.data.workers, settled.device.threads)
    for device in machine.devices:
        assert set(device.refusals) | set(machine.choices) <= set(OF_MACHINES)
        for path, free in OF_MACHINES.items():
            assert not any(refusal(device, path, value) for value in free if device.available), path


TESTING = variant(PC, optional=M4.optional, mlx_on_cpu=True)
QLORA = {"model__method": "qlora"}


@pytest.mark.parametrize(
    ("facts", "values", "backend", "quantization"),
    [
        (M4, QLORA, "mlx", "affine4"),
        (M4_WITHOUT_BITSANDBYTES, QLORA, "mlx", "affine4"),
        (M4_WITHOUT_BITSANDBYTES, {**QLORA, "device__backend": "mlx"}, "mlx", "affine4"),
        (M4_WITHOUT_BITSANDBYTES, {**QLORA, "model__quantization": "affine8"}, "mlx", "affine8"),
        (M4, {**QLORA, "device__backend": "torch"}, "torch", "nf4"),
        (M4, {**QLORA, "model__quantization": "affine8"}, "mlx", "affine8"),
        (M4, {**QLORA, "model__quantization": "int8"}, "torch", "int8"),
        (M4, {**QLORA, "device__compile": True}, "torch", "nf4"),
        (M4, {**QLORA, "device__name": "cpu"}, "torch", "nf4"),
        (M1, {}, "mlx", "auto"),
        (variant(M4, optional=PC.optional), QLORA, "torch", "nf4"),
        (M1_ON_13, {}, "torch", "auto"),
        (TRANSLATED, {}, "torch", "auto"),
        (PC, QLORA, "torch", "nf4"),
        (SERVER, QLORA, "torch", "nf4"),
        (TESTING, QLORA, "torch", "nf4"),
        (TESTING, {**QLORA, "device__backend": "mlx"}, "mlx", "affine4"),
    ],
)
def test_the_engine_suits_the_computer_and_the_options_and_the_format_suits_the_engine(
    facts, values, backend, quantization
):
    asked = msgspec.structs.replace(requested(**values), task=Task.CHAT)
    resolved = resolve_run(facts, asked)
    assert (resolved.options.device.backend, resolved.options.model.quantization) == (backend, quantization)
    assert ("device.backend" in resolved.reasons) is ("device__backend" not in values)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"device__backend": "torch"}, "model.method"),
        ({"device__compile": True}, "model.method"),
        ({"data__packing": True}, "model.method"),
        ({"model__quantization": "nf4"}, "model.quantization"),
        ({"model__quantization": "int8"}, "model.quantization"),
    ],
)
def test_without_bitsandbytes_a_mac_has_qlora_only_where_mlx_trains(values, path):
    asked = msgspec.structs.replace(requested(**QLORA, **values), task=Task.CHAT)
    (problem,) = machine_problems(report(M4_WITHOUT_BITSANDBYTES), asked)
    assert (problem.path, problem.message) == (path, "needs the package bitsandbytes, which isn't installed")
    resolve_run(M4_WITHOUT_BITSANDBYTES, with_changes(asked, problem.fixes[0].changes))
    assert not [*machine_problems(report(M4), asked)]


@pytest.mark.parametrize(
    ("kind", "rounded", "precision"),
    [("auto", "32: MLX ", "bf16"), ("mlx", "32: MLX ", "bf16"), ("torch", "64: PyTorch ", "fp32")],
)
def test_lengths_and_precision_are_those_of_the_engine_that_trains(kind, rounded, precision):
    options = msgspec.structs.replace(requested(device__backend=kind), task=Task.CHAT)
    resolved = resolve_run(M4, options)
    assert resolved.reasons["data.pad_to_multiple_of"].startswith(rounded)
    assert resolved.precision == precision


@pytest.mark.parametrize(
    ("facts", "backend", "multiple"),
    [(M4, "auto", 32), (M4, "torch", 64), (TESTING, "mlx", 32), (TESTING, "auto", 1)],
)
def test_rows_are_rounded_for_mlx_which_compiles_for_each_length(facts, backend, multiple):
    asked = msgspec.structs.replace(requested(device__backend=backend), task=Task.CHAT)
    assert row_multiple(resolve_run(facts, asked).options) == multiple


def test_where_mlx_can_not_train_the_task_the_reason_is_told():
    assert "MLX trains text generation" in resolve_run(M4, requested()).reasons["device.backend"]
    assert "Apple silicon" in resolve_run(PC, requested()).reasons["device.backend"]


@pytest.mark.parametrize(
    ("facts", "values", "is_noted"),
    [
        (M2_8GB, {"device__precision": "bf16"}, True),
        (M3_MAX, {"device__precision": "bf16"}, False),
        (PC, {"device__precision": "bf16"}, True),
        (M2_8GB, {"device__mps_memory_limit": 0.0}, True),
        (M3_MAX, {"device__mps_memory_limit": 1.0}, False),
        (PC, {"device__mps_memory_limit": 1.5}, True),
        (M3_MAX, {"device__compile": True}, True),
    ],
    ids=["M2-bf16", "M3-bf16", "PC-bf16", "no-limit", "limit", "limit-on-PC", "compile"],
)
def test_choices_that_work_with_a_caution(facts, values, is_noted):
    paths = [found.path for found in cautions(report(facts), requested(**values))]
    assert paths == [name.replace("__", ".") for name in values] * is_noted


def test_automatic_suits_each_machine_and_says_why():
    settled = {name: resolve_run(facts, requested()) for name, facts in EVERY_MACHINE.items()}
    precisions = {name: resolved.options.device.precision.value for name, resolved in settled.items()}
    assert precisions == {
        "PC": "fp32",
        "RTX 3060 laptop": "bf16",
        "old card": "fp16",
        "older card": "fp32",
        "two GPUs": "bf16",
        "GB10": "bf16",
        "server": "bf16",
        "M3 Max": "fp32",
        "M2 8 GB": "fp32",
        "M1": "fp32",
        "M4": "fp32",
        "M4 without bitsandbytes": "fp32",
        "M1 on macOS 13.6": "fp32",
        "translated": "fp32",
        "Intel Mac": "fp32",
        "torch without MPS": "fp32",
        "bundled": "fp32",
        "bare": "fp32",
    }
    frozen = {
        name: settle(
            resolved.device, with_changes(requested(), {"model.method": "lora"})
        ).model.frozen_precision
        for name, resolved in settled.items()
    }
    assert {name for name, value in frozen.items() if value == "fp16"} == {"old card", "older card"}
    on_cpu = {name for name, resolved in settled.items() if resolved.kind == "cpu"}
    assert {name for name, value in frozen.items() if value == "fp32"} == on_cpu  # none has bf16 in hardware
    in_fp32 = with_changes(requested(), {"model.method": "lora", "device.precision": "fp32"})
    measured = resolve_run(variant(M3_MAX, bf16_speedup=1.3), requested()).device
    assert settle(measured, in_fp32).model.frozen_precision == "fp32"
    assert settle(settled["M2 8 GB"].device, in_fp32).model.frozen_precision == "bf16"
    assert settled["M2 8 GB"].reasons["device.precision"].startswith("fp32: ")
    assert "is measured when its next run begins" in settled["M3 Max"].reasons["device.precision"]
    assert settled["M3 Max"].options.data.pin_memory == "off"
    assert settled["server"].options.data.pin_memory == "on"
    multiples = {
        name: settled[name].options.data.pad_to_multiple_of for name in ("M3 Max", "M2 8 GB", "server", "PC")
    }
    assert multiples == {"M3 Max": 64, "M2 8 GB": 64, "server": 8, "PC": 1}
    assert all(resolved.options.data.workers == 0 for resolved in settled.values() if resolved.kind != "cuda")


@pytest.mark.parametrize(
    ("facts", "precision", "multiple"),
    [
        (SERVER, "fp16", 8),
        (SERVER, "fp32", 1),
        (SERVER, "tf32", 1),
        (OLD_CARD, "auto", 8),
        (OLDER_CARD, "auto", 1),
    ],
)
def test_rows_are_rounded_on_nvidias_gpus_in_16_bits(facts, precision, multiple):
    resolved = resolve_run(facts, requested(device__precision=precision))
    assert resolved.options.data.pad_to_multiple_of == multiple
    assert resolved.reasons["data.pad_to_multiple_of"].startswith(f"{multiple}: ")
    for beside in ({"data__padding": "fixed"}, {"data__packing": True}):
        asked = msgspec.structs.replace(requested(**beside), task=Task.CHAT)
        assert row_multiple(resolve_run(facts, asked).options) == 1


@pytest.mark.parametrize(
    ("facts", "speedup", "precision"),
    [(M3_MAX, 1.31, "bf16"), (M3_MAX, 0.83, "fp32"), (M2_8GB, 1.31, "fp32")],
    ids=["faster", "slower", "emulated"],
)
def test_a_mac_computes_in_bf16_only_where_that_was_measured_faster(facts, speedup, precision):
    run = resolve_run(variant(facts, bf16_speedup=speedup), requested())
    assert run.options.device.precision.value == precision
    assert (f"{speedup:.2f} times" in run.reasons["device.precision"]) is (facts is M3_MAX)


def test_on_windows_the_package_with_triton_has_another_name():
    bare = variant(LAPTOP, optional={})
    for system, package in (("Windows", "triton-windows"), ("Linux", "triton")):
        device = report(variant(bare, system=system)).devices[0]
        assert f"the package {package}," in refusal(device, "device.compile_backend", "inductor")


def test_the_measurement_of_bf16_is_a_fact_of_this_computer(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    monkeypatch.setattr("torch.mps.recommended_max_memory", lambda: 1 << 30)
    assert gather().bf16_speedup is None
    stored = {software(): StoredCheck(bf16_speedup=1.25)}
    (tmp_path / "device-checks.json").write_bytes(msgspec.json.encode(stored))
    assert gather().bf16_speedup == 1.25


def test_the_versions_of_a_run_name_mlx_where_it_is_installed(monkeypatch):
    pytest.importorskip("mlx_lm")
    assert {name: versions()[name] for name in ("mlx", "mlx-lm")} == {
        name: version(name) for name in ("mlx", "mlx-lm")
    }
    for name in ("mlx", "mlx_lm"):
        monkeypatch.setitem(sys.modules, name, None)
    assert not {"mlx", "mlx-lm"} & versions().keys()
    assert "torch" in versions()


@pytest.mark.parametrize(
    ("facts", "device", "qlora", "caution", "optimizer"),
    [
        (M1_ON_13, "cpu", "needs macOS 14.0, and this is 13.6", "", "this is 13.6"),
        (M1, "mps", "", "", "no MPS kernel"),
        (M2_8GB, "mps", "", "", "no MPS kernel"),
        (M3_MAX, "mps", "", "", "no MPS kernel"),
        (M4, "mps", "", "", "no MPS kernel"),
        (variant(M4, optional=PC.optional), "mps", "", "New and slow", "no MPS kernel"),
        (variant(M4, optional={}), "mps", "needs the package bitsandbytes", "New", "no MPS kernel"),
        (PC, "cpu", "", "", ""),
        (variant(M4, frozen=True), "mps", "", "", "no MPS kernel"),
    ],
    ids=["M1-on-13", "M1", "M2", "M3-Max", "M4", "M4-without-MLX", "M4-bare", "PC", "M4-bundled"],
)
def test_qlora_on_each_mac(facts, device, qlora, caution, optimizer):
    machine = report(facts)
    assert machine.automatic == device
    [found] = [one for one in machine.devices if one.name == device]

    def said(table: dict[str, dict[str, str]], path: str, value: str) -> str:
        return table.get(path, {}).get(value, "")

    for reason, expected in (
        (said(found.refusals, "model.method", "qlora"), qlora),
        (said(found.cautions, "model.method", "qlora"), caution),
        (said(found.refusals, "training.optimizer", "adamw-8bit"), optimizer),
    ):
        assert expected in reason
        assert bool(expected) is bool(reason)
    assert not said(found.refusals, "model.quantization", "int8")
    has_mlx = device == "mps" and not said(found.refusals, "device.backend", "mlx")
    assert ("New and slow" in said(found.cautions, "model.quantization", "nf4")) is has_mlx
    if not qlora:
        resolve_run(facts, requested(model__method="qlora"))


def test_what_bitsandbytes_has_for_apple_gpus_is_what_the_reasons_say():
    from importlib.util import find_spec

    backends = Path(find_spec("bitsandbytes").submodule_search_locations[0]) / "backends"
    mps, plain = ((backends / name / "ops.py").read_text(encoding="utf-8") for name in ("mps", "default"))
    assert "optimizer_update" not in mps
    assert "optimizer_update_8bit_blockwise" not in plain
    assert '@register_kernel("bitsandbytes::optimizer_update_32bit", "default")' in plain
    assert '@register_kernel("bitsandbytes::dequantize_4bit", "mps")' in mps
    assert 'get_kernel("kernels-community/bitsandbytes-mps"' in mps


@pytest.mark.parametrize(
    ("facts", "name", "reason"),
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
def test_a_device_that_is_not_available_says_why(facts, name, reason):
    assert reason in next(device.reason for device in report(facts).devices if device.name == name)
    with pytest.raises(DeviceError) as refused:
        resolve_run(facts, requested(device__name=name))
    assert reason in refused.value.detail


def test_a_chosen_gpu_is_the_first_one_its_run_sees(monkeypatch):
    """The environment leaves one GPU visible, so torch calls it cuda:0; the person still reads cuda:1."""
    assert resolve_run(TWO_GPUS, requested(device__name="cuda:1")).device.title == GTX_1660.name
    with pytest.raises(DeviceError, match="cuda:2 is not available"):
        resolve_run(TWO_GPUS, requested(device__name="cuda:2"))
    hidden = variant(PC, torch_cuda=True, nvidia_driver=True)
    with pytest.raises(DeviceError) as refused:
        resolve_run(hidden, requested(device__name="cuda:3"), sees_one_gpu=True)
    assert "hone devices" in refused.value.detail
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    options = requested(device__name="cuda:1")
    prepare_environment(options)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    chosen = resolve_run(LAPTOP, options, sees_one_gpu=True)
    assert (chosen.device.name, chosen.label, chosen.kind) == ("cuda:0", "cuda:1", "cuda")


def test_a_forecast_for_another_computer_uses_what_its_check_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    checked = CheckedComputer(time=1.0, source=source_digest(), machine=report(LAPTOP))
    save(Computer(name="workshop", address="workshop", checked=checked))
    options = requested(device__name="cuda:0@workshop")
    prepare_environment(options)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    chosen = resolve_run(M1, options, sees_one_gpu=True)
    assert (chosen.device.name, chosen.kind) == ("cuda:0@workshop", "cuda")
    assert chosen.device.memory_bytes == resolve_run(LAPTOP, requested()).device.memory_bytes
    with pytest.raises(DeviceError, match="not available here"):
        resolve_run(M1, requested(device__name="cuda:0@attic"), sees_one_gpu=True)


def test_memory_shared_with_the_cpu_is_that_of_the_gpu():
    device = resolve_run(SPARK, requested()).device
    assert (device.name, device.memory_bytes) == ("cuda:0", 120 * GB)
