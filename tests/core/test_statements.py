"""What ran, in words."""

from core.commands.figures import size
from core.events import WhatRan
from core.statements import statements

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
    reasons={
        "device.name": "as asked",
        "device.precision": "bf16: this GPU computes bf16 in hardware",
        "data.group_by_length": "on: little padding",
    },
)


def said(ran: WhatRan) -> dict[str, tuple[str, str]]:
    return {found.title: (found.value, found.reason) for found in statements(ran, size)}


def test_a_plain_run_states_what_there_is_and_no_more() -> None:
    assert {title: value for title, (value, _) in said(PLAIN).items()} == {
        "Device": "cpu (AMD Ryzen 7)",
        "Computed in": "fp32",
        "Weights": "fp32",
        "Trained": "1,000,000 of 1,000,000 weights",
        "Optimizer": "AdamW, fused",
        "Its state": "8.0 MB",
        "Effective batch": "16 samples",
        "Workers": "none: loaded by the training process",
    }


def test_every_field_of_a_rich_one_is_stated() -> None:
    rich = said(RICH)
    assert rich["Device"] == ("cuda:1 (NVIDIA A100)", "")
    assert rich["Computed in"] == ("bf16 (autocast)", "this GPU computes bf16 in hardware")
    assert rich["Weights"][0] == "fp32 + 8-bit"
    assert rich["Trained"][0] == "10,000 of 1,000,000 weights (1.0%)"
    assert rich["Its state"][0] == "3.0 MB (8-bit 2.0 MB, fp32 1.0 MB)"
    assert rich["Effective batch"][0] == "4 × 8 = 32 samples"
    assert rich["Compiled by"][0] == "inductor, default, in 41 s"
    assert rich["Activation checkpointing"][0] == "12 layers computed again for the gradients"
    assert rich["Order"] == ("grouped by length", "little padding")
    assert rich["Workers"][0] == "2, by spawn"
    assert rich["Computed on the CPU"][0] == "aten::nonzero"
    assert rich["Loss scale"][0] == "65,536"
