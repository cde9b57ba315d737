import pytest
from PySide6.QtWidgets import QLabel, QWidget

from core.base.settings import Appearance
from core.memory.history import PastRun
from core.memory.model import Basis
from core.runs.events import WhatRan
from core.runs.status import RunStatus
from gui.base.theme import Theme
from gui.charts.history import RunHistory
from gui.run.tabs import RunDetails, what_ran_groups
from gui.run.words import forecast_text

PLAIN = WhatRan(
    device="cpu",
    device_name="16-core processor",
    parameter_dtype="float32",
    autocast_dtype="bfloat16",
    optimizer="AdamW",
    optimizer_state_bytes=89_400_000,
    trainable_parameters=11_181_642,
    total_parameters=11_181_642,
    effective_batch=32,
    reasons={
        "device.name": "CUDA comes first, then MPS, then the CPU",
        "device.precision": "bf16: this CPU computes bf16 in hardware",
        "data.workers": "0: the cores are busy computing; workers would take them away",
    },
)

FULL = WhatRan(
    device="cuda:0",
    device_name="NVIDIA GeForce RTX 4090 Laptop GPU",
    parameter_dtype="float32 + uint8",
    autocast_dtype="float16",
    optimizer="AdamW8bit, fused",
    optimizer_state_bytes=2_400_000,
    trainable_parameters=1_181_642,
    total_parameters=311_181_642,
    effective_batch=1024,
    attention="sdpa",
    reasons=PLAIN.reasons,
    optimizer_state={"uint8": 2_000_000, "float32": 400_000},
    decayed_parameters=1_100_000,
    loss_scale=65536.0,
    matmul="tf32",
    recomputed=12,
    compiled="inductor, max-autotune",
    compile_seconds=48.0,
    adapter="LoRA, rank 16, alpha 32, on query, key, value, attention.output.dense, intermediate.dense, output.dense",
    packed_parameters=300_000_000,
    batches_per_step=8,
    padded_to="the longest of each batch, in steps of 8 tokens",
    sampling="texts of like length together",
    workers=(11, 12, 13, 14),
    worker_start="spawn",
    pinned=True,
    threads=16,
    deepspeed="ZeRO-3, parameters and optimizer in main memory",
    deterministic=True,
    fell_back=tuple(f"aten::_some_operator_with_a_long_name_{number}" for number in range(8)),
)


def rows_of(groups):
    return {row.name: row for group in groups for row in group.rows}


def test_before_the_first_step_it_says_when_it_will_be_known():
    (group,) = what_ran_groups(RunStatus())
    assert [row.value for row in group.rows] == ["Known after the first step"]


def test_a_reason_stands_below_what_it_is_about_and_nothing_twice():
    groups = what_ran_groups(RunStatus(what_ran=PLAIN, versions={"torch": "2.13.0"}))
    names = [row.name for group in groups for row in group.rows]
    assert len(names) == len(set(names))
    rows = rows_of(groups)
    assert rows["Device"].value == "CPU (16-core processor)"
    assert rows["Device"].note == "CUDA comes first, then MPS, then the CPU"
    assert (rows["Computed in"].value, rows["Computed in"].note) == (
        "bf16 (autocast)",
        "This CPU computes bf16 in hardware",
    )
    assert rows["Versions"].value == "torch 2.13.0"


@pytest.mark.parametrize("width", [420, 800])
def test_many_rows_wrap_and_none_is_cut_off(qtbot, width, tmp_path):
    details = RunDetails(Theme(Appearance.LIGHT), tmp_path, QWidget(), RunHistory())
    qtbot.addWidget(details)
    details.resize(width, 260)
    details.refresh(RunStatus(what_ran=FULL), is_over=False)
    details.setCurrentIndex(4)
    with qtbot.waitExposed(details):
        details.show()
    assert len(details.what_ran.rows()) > 20
    assert details.what_ran.headings() == ["Device and precision", "Model", "Training", "Data", "Memory"]
    labels = [label for label in details.what_ran.findChildren(QLabel) if label.isVisible()]
    qtbot.waitUntil(
        lambda: all(
            label.height() >= label.heightForWidth(label.width()) for label in labels if label.wordWrap()
        ),
        timeout=2000,
    )
    assert all(label.x() + label.width() <= label.parentWidget().width() for label in labels)
    assert details.what_ran.width() <= width


def kept(forecast: int, measured: int, device: str = "Apple M2") -> PastRun:
    return PastRun(device=device, basis=Basis.FORMULA, forecast=forecast, measured=measured)


@pytest.mark.parametrize(
    ("past", "parts"),
    [
        ([kept(96, 100)], ["off by 4 % in one"]),
        ([kept(90, 99)] * 3, ["off by 9 % in the median of 3", "Apple M2 +10 %."]),
        (
            [*[kept(90, 99)] * 3, *[kept(100, 96, "NVIDIA RTX 4070")] * 3],
            ["off by 7 % in the median of 6", "Apple M2 +10 %, NVIDIA RTX 4070 −4 %."],
        ),
    ],
)
def test_forecasts_show_their_accuracy_and_correction(past, parts):
    assert all(part in forecast_text(past) for part in parts)
    assert forecast_text([]) == ""
