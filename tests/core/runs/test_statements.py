"""What ran, in words."""

import msgspec

from core.base.formats import size
from core.runs.events import Outcome, RunFinished, WhatRan
from core.runs.status import RunStory
from core.runs.words import Statement, statements, what_ran_text
from tests.fakes.run_stories import FORECAST

PLAIN = WhatRan(
    device="cpu",
    device_name="AMD Ryzen 7",
    parameter_dtype="float32",
    autocast_dtype=None,
    optimizer="AdamW, fused",
    optimizer_state_bytes=8 << 20,
    trainable_parameters=1_000_000,
    total_parameters=1_000_000,
    effective_batch=16,
)
RICH = WhatRan(
    device="cuda:1",
    device_name="NVIDIA A100",
    parameter_dtype="float32 + uint8",
    autocast_dtype="bfloat16",
    optimizer="AdamW8bit",
    optimizer_state_bytes=3 << 20,
    optimizer_state={"uint8": 2 << 20, "float32": 1 << 20},
    trainable_parameters=10_000,
    total_parameters=1_000_000,
    effective_batch=32,
    batches_per_step=8,
    attention="sdpa",
    recomputed=12,
    compiled="inductor, default",
    compile_seconds=41.2,
    adapter="LoRA, rank 16 on 12 layers",
    packed_parameters=900_000,
    workers=(11, 12),
    worker_start="spawn",
    pinned=True,
    padded_to="each batch's longest text",
    sampling="grouped by length",
    fell_back=("aten::nonzero",),
    loss_scale=65536.0,
    decayed_parameters=9_000,
    matmul="tf32",
    threads=16,
    deepspeed="ZeRO-3",
    deterministic=True,
    reasons={
        "device.name": "as asked",
        "device.precision": "bf16: this GPU computes bf16 in hardware",
        "data.group_by_length": "on: little padding",
    },
)


def said(ran: WhatRan) -> dict[str, tuple[str, str]]:
    found = statements(ran, size)
    assert len({each.title for each in found}) == len(found)
    return {each.title: (each.value, each.reason) for each in found}


def test_a_plain_run_states_what_there_is_and_no_more() -> None:
    assert {title: value for title, (value, _) in said(PLAIN).items()} == {
        "Device": "CPU (AMD Ryzen 7)",
        "Computed in": "fp32",
        "Weights": "fp32",
        "Trained": "1,000,000 of 1,000,000 weights",
        "Optimizer": "AdamW, fused",
        "Optimizer state": "8.0 MB",
        "Effective batch": "16 samples",
        "Workers": "none: loaded by the training process",
    }


def test_every_field_of_a_rich_one_is_stated() -> None:
    rich = said(RICH)
    assert rich["Device"] == ("CUDA 1 (NVIDIA A100)", "")
    assert rich["Computed in"] == ("bf16 (autocast)", "this GPU computes bf16 in hardware")
    assert rich["Weights"][0] == "fp32 + 8-bit"
    assert rich["Trained"][0] == "10,000 of 1,000,000 weights (1 %)"
    assert rich["Optimizer state"][0] == "3.0 MB (8-bit 2.0 MB, fp32 1.0 MB)"
    assert rich["Effective batch"][0] == "4 × 8 = 32 samples"
    assert rich["Compiled by"][0] == "inductor, default, in 41 s"
    assert rich["Activations"][0] == "of 12 layers computed again for the gradients"
    assert rich["Order"] == ("grouped by length", "little padding")
    assert rich["Workers"][0] == "2 processes (spawn)"
    assert rich["Computed on the CPU"][0] == "aten::nonzero"
    assert rich["Loss scale"][0] == "65,536"
    assert rich["fp32 multiplied as"][0] == "tf32"
    assert rich["CPU threads"][0] == "16"
    assert rich["Weight decay"] == (
        "on 9,000 of the 10,000 that are trained",
        "biases and norms are left out",
    )
    assert rich["DeepSpeed"][0] == "ZeRO-3"
    assert rich["Repeatability"][0] == "only kernels that give the same bits every time"


def test_they_stand_below_the_headings_of_the_form() -> None:
    headings = list(dict.fromkeys(found.group for found in statements(RICH, size, {"torch": "2.13.0"})))
    assert headings == ["Device and precision", "Model", "Training", "Data", "Memory", "Software"]


def test_a_reason_without_a_line_of_its_own_makes_one() -> None:
    told = {"data.pin_memory": "off: only NVIDIA GPUs fetch from it", "memory.something_new": "so it is"}
    *_, pinned, new = statements(msgspec.structs.replace(PLAIN, reasons=told), size)
    assert pinned == Statement("Chosen by Hone", "Pinned memory", "off", "only NVIDIA GPUs fetch from it")
    assert new == Statement("Chosen by Hone", "Something new", "so it is")


def test_one_is_one_and_none_is_none() -> None:
    single = msgspec.structs.replace(
        PLAIN,
        effective_batch=1,
        recomputed=1,
        workers=(7,),
        decayed_parameters=0,
        optimizer_state={"float32": 8},
    )
    found = {title: value for title, (value, _) in said(single).items()}
    assert found["Effective batch"] == "1 sample"
    assert found["Activations"] == "of 1 layer computed again for the gradients"
    assert found["Workers"] == "1 process"
    assert found["Weight decay"] == "none"
    assert found["Optimizer state"] == "8.0 MB in fp32"


def test_how_far_off_the_memory_forecast_was_stands_below_memory() -> None:
    story = RunStory()
    story.apply(FORECAST)
    assert not [found for found in statements(PLAIN, size, story=story) if found.title == "Forecast"]
    story.apply(RunFinished(state=Outcome.FINISHED, seconds=3, steps=7, peak_bytes=25 << 27))
    (told,) = (found for found in statements(PLAIN, size, story=story) if found.title == "Forecast")
    assert told == Statement("Memory", "Forecast", "2.5 GB", "20 % below the peak of 3.1 GB")


def test_before_the_first_step_only_the_software_is_known() -> None:
    assert statements(None, size) == ()
    assert [found.value for found in statements(None, size, {"torch": "2.13.0"})] == ["torch 2.13.0"]


def test_the_terminal_keeps_its_reasons_near_beside_long_values() -> None:
    long = msgspec.structs.replace(
        RICH, adapter="LoRA, rank 16, on " + ", ".join(["attention.output.dense"] * 6)
    )
    lines = what_ran_text(RunStory(what_ran=long, versions={"torch": "2.13.0"})).splitlines()
    assert max(map(len, lines)) < 150
    assert any(line.startswith("Versions") for line in lines)
    assert sum("attention.output.dense" in line for line in lines) > 1
