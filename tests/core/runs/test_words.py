"""Sentences about runs: what ran, messages, how a run ended, and its progress in a terminal."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base import settings
from core.base.errors import Fix
from core.base.formats import size
from core.monitor.recent import END, REVEAL, STOP
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunPlanned,
    RunStarted,
    StepFinished,
    TurnAwaited,
    WhatRan,
)
from core.runs.folder import ExitRecord
from core.runs.progress import Progress
from core.runs.queue import BENCHMARK
from core.runs.status import RunStatus, State
from core.runs.words import (
    Statement,
    ending_text,
    message_text,
    queued_text,
    statements,
    time_spent_text,
    what_ran_text,
)
from tests.fakes.runs import FORECAST, make_folder, save_checkpoint

# --- What ran

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
        "device.name": "as requested",
        "device.precision": "bf16: this GPU computes bf16 in hardware",
        "data.group_by_length": "on: little padding",
    },
)
PLAIN_VALUES = {
    "Device": "CPU (AMD Ryzen 7)",
    "Computed in": "fp32",
    "Weights": "fp32",
    "Trained": "1,000,000 of 1,000,000 weights",
    "Optimizer": "AdamW, fused",
    "Optimizer state": "8.0 MB",
    "Effective batch": "16 samples",
    "Workers": "none: loaded by the training process",
}


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (PLAIN, PLAIN_VALUES),
        (
            msgspec.structs.replace(
                PLAIN,
                effective_batch=1,
                recomputed=1,
                workers=(7,),
                decayed_parameters=0,
                optimizer_state={"float32": 8},
            ),
            PLAIN_VALUES
            | {
                "Effective batch": "1 sample",
                "Activations": "of 1 layer computed again for the gradients",
                "Workers": "1 process",
                "Weight decay": "none",
                "Optimizer state": "8.0 MB in fp32",
            },
        ),
        (
            RICH,
            {
                "Device": "CUDA 1 (NVIDIA A100)",
                "Computed in": "bf16 (autocast)",
                "Weights": "fp32 + 8-bit",
                "fp32 multiplied as": "tf32",
                "Loss scale": "65,536",
                "CPU threads": "16",
                "Compiled by": "inductor, default, in 41 s",
                "Computed on the CPU": "aten::nonzero",
                "Repeatability": "only kernels that give the same bits every time",
                "Trained": "10,000 of 1,000,000 weights (1 %)",
                "Adapter": "LoRA, rank 16 on 12 layers",
                "Packed": "900,000 weights in 8 bits",
                "Attention": "sdpa",
                "Optimizer": "AdamW8bit",
                "Optimizer state": "3.0 MB (8-bit 2.0 MB, fp32 1.0 MB)",
                "Weight decay": "on 9,000 of the 10,000 that are trained",
                "Effective batch": "4 × 8 = 32 samples",
                "Padded to": "each batch's longest text",
                "Order": "grouped by length",
                "Workers": "2 processes (spawn)",
                "Pinned memory": "yes",
                "Activations": "of 12 layers computed again for the gradients",
                "DeepSpeed": "ZeRO-3",
            },
        ),
    ],
)
def test_statements(ran, expected):
    found = statements(ran, size)
    assert {one.title: one.value for one in found} == expected
    assert len(found) == len(expected)


def test_reasons_stand_with_their_lines_or_make_one():
    reasons = {one.title: one.reason for one in statements(RICH, size) if one.reason}
    assert reasons == {
        "Computed in": "this GPU computes bf16 in hardware",
        "Computed on the CPU": "the device has no such operators; each waits for the CPU",
        "Weight decay": "biases and norms are left out",
        "Order": "little padding",
    }
    others = {"data.pin_memory": "off: only NVIDIA GPUs fetch from it", "memory.something_new": "so it is"}
    *_, pinned, new = statements(msgspec.structs.replace(PLAIN, reasons=others), size)
    assert pinned == Statement(
        "Chosen automatically", "Pinned memory", "off", "only NVIDIA GPUs fetch from it"
    )
    assert new == Statement("Chosen automatically", "Something new", "so it is")


def test_headings_versions_and_the_error_of_the_forecast():
    headings = list(dict.fromkeys(found.group for found in statements(RICH, size, {"torch": "2.13.0"})))
    assert headings == ["Device and precision", "Model", "Training", "Data", "Memory", "Software"]
    assert statements(None, size) == ()
    assert [found.value for found in statements(None, size, {"torch": "2.13.0"})] == ["torch 2.13.0"]
    status = RunStatus()
    status.apply(FORECAST)
    assert not [found for found in statements(PLAIN, size, status=status) if found.title == "Forecast"]
    status.apply(RunFinished(state=Outcome.FINISHED, seconds=3, steps=7, peak_bytes=25 << 27))
    off = Statement("Memory", "Forecast", "2.5 GB", "20 % below the peak of 3.1 GB")
    assert off in statements(PLAIN, size, status=status)


def test_long_values_take_several_lines_in_a_terminal():
    adapter = "LoRA, rank 16, on " + ", ".join(["attention.output.dense"] * 6)
    ran = msgspec.structs.replace(RICH, adapter=adapter)
    lines = what_ran_text(RunStatus(what_ran=ran, versions={"torch": "2.13.0"})).splitlines()
    assert max(map(len, lines)) < 150
    assert sum("attention.output.dense" in line for line in lines) > 1


# --- The end of a run

STEP = StepFinished(step=1, epoch=0.1, seconds=2.0, learning_rate=0.1, samples=8)
EVALUATED = Evaluated(step=5, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1)


def story_of(*events: Event) -> RunStatus:
    status = RunStatus()
    status.apply_all(events)
    return status


def ended(outcome: Outcome, **more: Any) -> RunFinished:
    return RunFinished(state=outcome, seconds=3, steps=7, worked=3.0, **more)


@pytest.mark.parametrize(
    ("events", "state", "expected"),
    [
        (
            [EVALUATED, ended(Outcome.STOPPED, metrics={"eval_accuracy": 0.9})],
            State.STOPPED,
            ["Stopped after 7 steps in 3 s: accuracy 0.9"],
        ),
        (
            [EVALUATED, ended(Outcome.STOPPED)],
            State.STOPPED,
            ["Stopped after 7 steps in 3 s", "Last evaluated at step 5: accuracy 0.9"],
        ),
        (
            [
                RunStarted(attempt=2, from_step=5),
                ended(Outcome.FINISHED, samples_per_second=50.0, attempt=2),
            ],
            State.FINISHED,
            ["Finished after 7 steps in 3 s", "50 samples a second in its last attempt"],
        ),
        (
            [FORECAST, ended(Outcome.FINISHED, samples_per_second=50.0, peak_bytes=25 << 27)],
            State.FINISHED,
            ["Finished after 7 steps in 3 s", "50 samples a second", "3,200 MB of memory at most"],
        ),
    ],
)
def test_figures_of_a_run_that_ended_by_itself(tmp_path, events, state, expected):
    text = ending_text(make_folder(tmp_path / "run"), story_of(*events), state, None)
    assert text.splitlines()[: len(expected)] == expected


KILLED = ExitRecord(time=0, code=-9, signal="SIGKILL", reason="It was killed by another process.")
LEFT = ExitRecord(time=1, code=None, reason="It was taken out of the queue.", attempt=2, before=KILLED)


def test_a_crash_is_not_forgotten_once_the_run_left_the_queue(tmp_path):
    run, status = make_folder(tmp_path / "run"), story_of(RunStarted(), STEP)
    text = ending_text(run, status, State.STOPPED, LEFT)
    assert text.splitlines()[:4] == [
        "It was taken out of the queue.",
        "It is at step 1.",
        "Before that: The training process was ended by SIGKILL.",
        "It was killed by another process.",
    ]
    assert "starts again" in text
    save_checkpoint(run, 1)
    assert "continues from step 1" in ending_text(run, status, State.STOPPED, None)
    status.apply(RunFinished(state=Outcome.PAUSED, steps=1))
    assert "Before that" not in ending_text(run, status, State.STOPPED, LEFT)


def test_where_a_run_goes_on(tmp_path):
    run, status = make_folder(tmp_path / "run"), RunStatus()
    assert queued_text(run, status) == ""
    status.apply(RunStarted())
    assert "starts again" in queued_text(run, status)
    save_checkpoint(run, 3)
    assert "continues from step 3" in queued_text(run, status)
    run.options_file.unlink()
    text = ending_text(run, RunStatus(), State.PAUSED, None)
    assert "hone resume" not in text
    assert str(run.options_file) in text


def test_a_run_ended_for_lack_of_memory_has_remedies(tmp_path):
    run, status = make_folder(tmp_path / "run"), story_of(FORECAST)
    record = msgspec.structs.replace(KILLED, out_of_memory=True)
    text = ending_text(run, status, State.CRASHED, record)
    assert "Memory ran out" in text
    assert "The largest part: activations, 2.0 GB." in text
    assert "(--set memory.batch_size=8)" in text
    assert "Memory ran out" not in ending_text(run, status, State.CRASHED, KILLED)


def test_where_a_steps_time_goes():
    assert time_spent_text(RunStatus().time_spent) == ""
    parts = {"data_seconds": 0.1, "forward_seconds": 0.5, "backward_seconds": 1.2, "optimizer_seconds": 0.1}
    untimed = StepFinished(step=2, epoch=0.2, seconds=9.0, learning_rate=0.1, samples=8, data_seconds=1.0)
    status = story_of(msgspec.structs.replace(STEP, **parts), untimed)
    assert time_spent_text(status.time_spent) == (
        "A step's time goes into: waiting for data 5%, forward 25%, backward 60%, optimizer 5%, the rest 5%"
    )


def test_fixes_are_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    message = MessageRaised(id="a", level=Level.WARNING, title="T", fixes=(STOP, END, REVEAL, Fix("Wait")))
    here, elsewhere = settings.runs_folder() / "my run", tmp_path / "there"
    assert message_text(message, here).splitlines() == [
        "Warning: T",
        "  Try: Stop and keep (hone stop 'my run')",
        "  Try: End now (hone stop --now 'my run')",
        f"  Try: Show the folder ({here})",
        "  Try: Wait",
    ]
    assert f"(hone stop {elsewhere})" in message_text(message, elsewhere)
    assert "(hone stop RUN)" in message_text(message)
    assert "hone stop" not in message_text(message, here, is_over=True)


# --- Progress

PLAN = RunPlanned(
    total_steps=100, epochs=2, train_samples=800, eval_samples=8, effective_batch=16, device="mps"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *events: Event) -> str:
    status = RunStatus()
    progress = Progress(status, stream, Path("/runs/here"))
    for event in (RunStarted(), *events):
        status.apply(event)
        progress.show(event)
    progress.close()
    return stream.getvalue()


def steps(last: int) -> list[StepFinished]:
    return [
        StepFinished(step=number, epoch=1, seconds=0.5, learning_rate=1, samples=16, loss=2.5)
        for number in range(1, last + 1)
    ]


SAVING = PhaseChanged(phase=Phase.SAVING)
PAGING = MessageRaised(id="paging", level=Level.WARNING, title="The run is paging")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [PLAN, *steps(35)],
            [
                "100 steps, 16 samples each, on mps: 800 training samples, 8 for validation, 2 epochs",
                "Step 10 of 100, loss 2.5, about 45 s left",
                "Step 20 of 100, loss 2.5, about 40 s left",
                "Step 30 of 100, loss 2.5, about 35 s left",
            ],
        ),
        (
            [PAGING, MessageWithdrawn(id="paging"), MessageWithdrawn(id="x")],
            ["Warning: The run is paging", "No longer so: The run is paging"],
        ),
        (
            [TurnAwaited(ahead=2, behind="other"), TurnAwaited(ahead=1, behind=BENCHMARK)],
            [
                "Waiting for its turn, 2 runs ahead; it comes after other",
                "Waiting for its turn, until a benchmark is done",
            ],
        ),
        ([SAVING], ["Saving"]),
    ],
)
def test_progress_without_a_terminal(events, expected):
    assert shown(io.StringIO(), *events).splitlines() == expected


def test_saving_is_shown_at_the_end_and_not_at_each_checkpoint():
    assert "Saving" not in shown(io.StringIO(), PLAN, *steps(50), SAVING)
    assert shown(io.StringIO(), PLAN, *steps(100), SAVING).endswith("\nSaving\n")


def test_a_terminal_has_one_bar_with_phase_step_and_loss():
    text = shown(Terminal(), PLAN, PhaseChanged(phase=Phase.TRAINING), *steps(100))
    last = text.rstrip("\n").rpartition("\r")[2]
    assert last.startswith("Training: 100%")
    assert "100/100" in last
    assert "loss 2.5" in last


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_what_is_worth_keeping_is_a_line_of_its_own(stream):
    fixes = (Fix("Halve it", {"memory.batch_size": 8, "model.pretrained": False}), STOP)
    text = shown(
        stream,
        PhaseChanged(phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
        PLAN,
        Evaluated(step=50, epoch=1, metrics={"eval_f1": 0.5, "eval_accuracy": 0.25}, seconds=1),
        MessageRaised(id="slow", level=Level.WARNING, title="Paging", detail="Memory is full.", fixes=fixes),
    )
    for line in (
        "Loading the model: torchvision:resnet18",
        "Step 50, evaluated: accuracy 0.25, F1 0.5",
        "Warning: Paging\nMemory is full.",
        "  Try: Halve it (--set memory.batch_size=8 --set model.pretrained=false)",
        "  Try: Stop and keep (hone stop /runs/here)",
    ):
        assert f"{line}\n" in text
