"""Sentences about a run: out of memory, what ran, messages, how it ended, and its progress in a terminal."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.base import settings
from core.base.errors import Fix, FixAction
from core.memory.model import Basis, Parts, Room
from core.monitor.recent import END, REVEAL, STOP
from core.options import RunOptions, run_file
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions
from core.runs import words
from core.runs.events import (
    Evaluated,
    Event,
    Level,
    MemoryForecast,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Predicted,
    RunFinished,
    RunStarted,
    TurnAwaited,
    TurnCame,
    WhatRan,
)
from core.runs.folder import ExitRecord
from core.runs.progress import Progress
from core.runs.status import RunStatus, State
from tests.fakes.runs import FORECAST, GB, plan, save_checkpoint, step, what_ran

# --- Out of memory

TEXTS = RunOptions(task=Task.TEXT_CLASSIFICATION, memory=MemoryOptions(batch_size=16))
MPS = (
    "MPS backend out of memory (MPS allocated: 17.87 GB, other allocations: 28.00 MB, max allowed: 18.13 GB). Tried to "
    "allocate 256.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory "
    "allocations (may cause system failure)."
)


def test_out_of_memory_names_batch_forecast_room_largest_part_and_remedies():
    remedy = Fix("Batches of 8 (saves 2.00 GB)", {"memory.batch_size": 8})
    parts = Parts(weights=GB, activations=5 * GB, optimizer=2 * GB)
    room = Room(free=6 * GB, ceiling=16 * GB)
    forecast = MemoryForecast(
        device="mps", basis=Basis.FORMULA, parts=parts, room=room, length=128, fixes=(remedy,)
    )
    found = words.out_of_memory(TEXTS, forecast, MPS)
    assert found.detail == (
        "A batch of 16 examples of up to 128 tokens didn't fit. The run was estimated to take 8.00 GB. 6.00 GB of "
        "16.0 GB were free. The largest part: activations, 5.00 GB. Allocating 256 MB more failed."
    )
    assert found.fixes == (remedy,)
    assert "WATERMARK" not in str(found), "PyTorch's advice may cause system failure"


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8 GiB",
            "2.50 GB more",
        ),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.", "4.00 KB more"),
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 2147483648 bytes.", "2.00 GB more"),
        (
            "[metal::malloc] Attempting to allocate 2147483648 bytes which is greater than the maximum allowed buffer "
            "size of 1073741824 bytes.",
            "2.00 GB more",
        ),
    ],
)
def test_the_size_that_failed(report, text):
    assert text in words.out_of_memory(TEXTS, None, report).detail


def test_a_limit_below_a_full_card_is_named_with_the_drivers_policy():
    detail = words.out_of_memory(TEXTS, None, limit=7 * GB).detail
    assert "limited to the 7.00 GB that were free" in detail
    assert "Sysmem Fallback Policy" in detail


def test_without_a_forecast_simple_remedies_are_offered():
    found = words.out_of_memory(TEXTS, None)
    assert found.fixes[0].changes == {"memory.batch_size": 8, "memory.gradient_accumulation_steps": 2}
    last_layer = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(method=Method.HEAD),  # recomputes nothing
        data=DataOptions(max_length=40),
        memory=MemoryOptions(batch_size=1),
    )
    assert [fix.changes for fix in words.first_aid(last_layer)] == [{"data.max_length": 32}]


# --- What ran

PLAIN = what_ran(
    device_name="AMD Ryzen 7",
    optimizer_state_bytes=8 << 20,
    trainable_parameters=1_000_000,
    total_parameters=1_000_000,
)


def values(ran: WhatRan) -> dict[str, str]:
    return {statement.title: statement.value for statement in words.statements(ran)}


def test_what_ran_on_a_cpu():
    assert values(PLAIN) == {
        "Device": "CPU (AMD Ryzen 7)",
        "Computed in": "fp32",
        "Weights": "fp32",
        "Trained": "1,000,000 of 1,000,000 parameters",
        "Optimizer": "AdamW",
        "Optimizer state": "8.00 MB",
        "Effective batch": "8 examples",
        "Workers": "none: loaded by the training process",
    }


@pytest.mark.parametrize(
    ("changes", "title", "value"),
    [
        ({"device": "cuda:1", "device_name": "NVIDIA A100"}, "Device", "CUDA 1 (NVIDIA A100)"),
        ({"parameter_dtype": "float32 + uint8"}, "Weights", "fp32 + 8-bit"),
        ({"autocast_dtype": "bfloat16"}, "Computed in", "bf16 (autocast)"),
        ({"matmul": "tf32"}, "Computed in", "tf32"),
        ({"matmul": "tf32", "autocast_dtype": "bfloat16"}, "fp32 multiplied as", "tf32"),
        ({"loss_scale": 65536.0}, "Loss scale", "65,536"),
        ({"compiled": "inductor", "compile_seconds": 41.2}, "Compiled by", "inductor, in 41 s"),
        ({"trainable_parameters": 10_000}, "Trained", "10,000 of 1,000,000 parameters (1 %)"),
        ({"packed_parameters": 900_000, "adapter": "QLoRA (int8)"}, "Packed", "900,000 parameters in 8 bits"),
        ({"packed_parameters": 900_000, "adapter": "QLoRA (nf4), rank 8"}, "Packed", "900,000 parameters in 4 bits"),
        (
            {"packed_parameters": 900_000, "adapter": "QLoRA (affine4, affine6), rank 8 on 4 layers, DoRA"},
            "Packed",
            "900,000 parameters in 4 + 6 bits",
        ),
        ({"optimizer_state": {"float32": 8}}, "Optimizer state", "8.00 MB in fp32"),
        ({"optimizer_state": {"uint8": 2 << 20, "float32": 8}}, "Optimizer state", "8.00 MB (8-bit 2.00 MB, fp32 8 B)"),
        ({"decayed_parameters": 0}, "Weight decay", "none"),
        ({"decayed_parameters": 9_000}, "Weight decay", "on 9,000 of the 1,000,000 that are trained"),
        ({"effective_batch": 32, "batches_per_step": 8}, "Effective batch", "4 × 8 = 32 examples"),
        ({"workers": (7,)}, "Workers", "1 process"),
        ({"workers": (7, 8), "worker_start": "spawn"}, "Workers", "2 processes (spawn)"),
        ({"memory_limit": 7 << 30}, "Memory limit", "7.00 GB"),
        ({"empty_cache_steps": 50}, "Cache", "emptied every 50 steps"),
        ({"recomputed": 12}, "Activations", "of 12 layers computed again for the gradients"),
    ],
)  # fmt: skip
def test_what_ran_otherwise(changes, title, value):
    assert values(replace(PLAIN, **changes))[title] == value


def test_a_reason_belongs_to_its_statement_or_is_one_of_its_own():
    reasons = {
        "device.name": "as requested",
        "device.precision": "fp32: this CPU has no bf16",
        "data.pin_memory": "off: only NVIDIA GPUs fetch from it",
        "memory.something_new": "so it is",
    }
    found = words.statements(replace(PLAIN, reasons=reasons))
    assert [(one.title, one.reason) for one in found[:3] if one.reason] == [
        ("Computed in", "this CPU has no bf16")
    ]
    group = "Chosen automatically"
    assert found[-2:] == (
        words.Statement(group, "Pinned memory", "off", "only NVIDIA GPUs fetch from it"),
        words.Statement(group, "Something new", "so it is"),
    )


def test_versions_and_the_error_of_the_forecast_are_statements_too():
    assert words.statements(None) == ()
    assert [found.value for found in words.statements(None, {"torch": "2.13.0"})] == ["torch 2.13.0"]
    status = status_of(FORECAST)
    assert "Estimate" not in {found.title for found in words.statements(PLAIN, status=status)}
    status.apply(RunFinished(state=Outcome.FINISHED, seconds=3, steps=7, peak_bytes=25 << 27))
    off = words.Statement("Memory", "Estimate", "2.50 GB", "20 % below the peak of 3.12 GB")
    assert off in words.statements(PLAIN, status=status)


# --- The end of a run

EVALUATED = Evaluated(step=5, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1)
KILLED = ExitRecord(time=0, code=-9, signal="SIGKILL", reason="It was killed by another process.")


def status_of(*events: Event) -> RunStatus:
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
            [RunStarted(attempt=2, from_step=5), ended(Outcome.FINISHED, samples_per_second=50.0, attempt=2)],
            State.FINISHED,
            ["Finished after 7 steps in 3 s", "50 examples/s since it was resumed"],
        ),
        (
            [FORECAST, ended(Outcome.FINISHED, samples_per_second=50.0, peak_bytes=25 << 27)],
            State.FINISHED,
            ["Finished after 7 steps in 3 s", "50 examples/s", "3.12 GB of memory at most"],
        ),
    ],
)
def test_figures_of_a_run_that_ended_by_itself(run, events, state, expected):
    text = words.ending_text(run, status_of(*events), state, None)
    assert text.splitlines()[: len(expected)] == expected


def test_a_crash_is_still_shown_once_the_run_left_the_queue(run):
    left = ExitRecord(time=1, code=None, reason="It was taken out of the queue.", attempt=2, before=KILLED)
    status = status_of(RunStarted(), step(1))
    text = words.ending_text(run, status, State.STOPPED, left)
    for fact in (left.reason, "step 1", "SIGKILL", KILLED.reason, "starts again"):
        assert fact in text
    save_checkpoint(run, 1)
    assert "continues from step 1" in words.ending_text(run, status, State.STOPPED, None)
    status.apply(RunFinished(state=Outcome.PAUSED, steps=1))
    assert "SIGKILL" not in words.ending_text(run, status, State.STOPPED, left)


def test_where_a_queued_run_continues_and_why_a_damaged_one_can_not(run):
    assert words.queued_text(run, RunStatus()) == ""
    status = status_of(RunStarted())
    assert "starts again" in words.queued_text(run, status)
    save_checkpoint(run, 3)
    assert "continues from step 3" in words.queued_text(run, status)
    run.options_file.unlink()
    text = words.ending_text(run, RunStatus(), State.PAUSED, None)
    assert "hone resume" not in text
    assert str(run.options_file) in text


def test_a_run_that_the_system_ended_for_lack_of_memory_has_remedies(run):
    status = status_of(FORECAST)
    text = words.ending_text(run, status, State.CRASHED, replace(KILLED, out_of_memory=True))
    assert "The largest part: activations, 2.00 GB." in text
    assert "(--set memory.batch_size=8)" in text
    assert "--set" not in words.ending_text(run, status, State.CRASHED, KILLED)


def test_where_a_steps_time_goes():
    assert words.time_spent_text(RunStatus().time_spent) == ""
    parts = {"data_seconds": 0.1, "forward_seconds": 0.5, "backward_seconds": 1.2, "optimizer_seconds": 0.1}
    status = status_of(step(1, seconds=2.0, **parts), step(2, seconds=9.0, data_seconds=1.0))
    assert words.time_spent_text(status.time_spent) == (
        "A step's time goes into: waiting for data 5 %, forward 25 %, backward 60 %, optimizer 5 %, the rest 5 %"
    )
    thirds = {"data_seconds": 1.0, "forward_seconds": 1.0, "backward_seconds": 1.0, "optimizer_seconds": 0.0}
    text = words.time_spent_text(status_of(step(1, seconds=3.0, **thirds)).time_spent)
    assert sum(map(int, re.findall(r"(\d+) %", text))) == 100


def test_the_share_of_evaluations_is_told_where_it_is_large_and_of_no_test():
    def text(evaluated: float, predicted: float, *more: Event) -> str:
        events = [
            replace(EVALUATED, seconds=evaluated / 2),
            replace(EVALUATED, step=6, seconds=evaluated / 2),
        ]
        return words.evaluations_text(status_of(*more, *events, predicted_in(predicted)), 10.0)

    def predicted_in(seconds: float) -> Predicted:
        return Predicted(step=5, epoch=1, said=(), seconds=seconds)

    assert text(4, 1.7) == "40 % of the time went into evaluations, 17 % into sample predictions."
    assert text(4, 0) == "40 % of the time went into evaluations."
    assert text(0.01, 3) == "30 % of the time went into sample predictions."
    assert text(1, 0.9) == ""
    assert text(4, 1.7, plan(total_steps=0)) == ""
    assert words.evaluations_text(status_of(EVALUATED), None) == ""


def test_fixes_are_commands(tmp_path):
    message = MessageRaised(id="a", level=Level.WARNING, title="T", fixes=(STOP, END, REVEAL, Fix("Wait")))
    here, elsewhere = settings.runs_folder() / "my run", tmp_path / "there"
    text = words.message_text(message, here)
    for fix in ("(hone stop 'my run')", "(hone stop --now 'my run')", f"({here})", "Try: Wait"):
        assert fix in text
    assert f"(hone stop {elsewhere})" in words.message_text(message, elsewhere)
    assert "(hone stop RUN)" in words.message_text(message)
    assert "hone stop" not in words.message_text(message, here, is_over=True)


@pytest.mark.parametrize(
    ("length", "option"), [({"epochs": 2.0}, "--epochs"), ({"max_steps": 9}, "--max-steps")]
)
def test_a_run_is_trained_longer_in_what_its_length_was_given_in(run, length, option):
    training = replace(run.options().training, **length)
    run_file.write(replace(run.options(), training=training), run.options_file)
    longer = Fix("Train longer", action=FixAction.EXTEND)
    assert words.fix_text(longer, run.path) == f"  Try: Train longer (hone resume {option} N {run.path})"


# --- Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PLAN = plan(total_steps=100, epochs=2, train_samples=800, eval_samples=8, effective_batch=16, device="mps")
STEPS = [step(number, loss=2.5) for number in range(1, 101)]
LOADING = PhaseChanged(phase=Phase.LOADING_MODEL, detail="torchvision:resnet18")
FIXES = (Fix("Halve it", {"memory.batch_size": 8, "model.pretrained": False}), STOP)
PAGING = MessageRaised(id="slow", level=Level.WARNING, title="Paging", detail="Memory is full.", fixes=FIXES)


def shown(stream: io.StringIO, *events: Event) -> list[str]:
    status = RunStatus()
    progress = Progress(status, stream, Path("/runs/here"))
    for event in (RunStarted(), *events):
        status.apply(event)
        progress.show(event)
    progress.close()
    return stream.getvalue().splitlines()


LINES = [
    "Loading the model: torchvision:resnet18",
    "100 steps, 16 examples each, on mps: 800 training examples, 8 for validation, 2 epochs",
    "Step 50, evaluated: accuracy 0.25, F1 0.5",
    "Warning: Paging",
    "Memory is full.",
    "  Try: Halve it (--set memory.batch_size=8 --set model.pretrained=false)",
    "  Try: Stop and save model (hone stop /runs/here)",
]


def test_a_file_gets_a_line_each_tenth_and_a_terminal_a_bar():
    evaluated = Evaluated(step=50, epoch=1, metrics={"eval_f1": 0.5, "eval_accuracy": 0.25}, seconds=1)
    events = (LOADING, PLAN, evaluated, PAGING)
    assert shown(io.StringIO(), *events, *STEPS[:25]) == [
        *LINES,
        "Step 10 of 100, loss 2.5, about 46 s left",
        "Step 20 of 100, loss 2.5, about 41 s left",
    ]
    *lines, bar = (
        line.rpartition("\r")[2]
        for line in shown(Terminal(), *events, PhaseChanged(phase=Phase.TRAINING), *STEPS)
    )
    assert [line for line in lines if line in LINES] == LINES
    for part in ("Training: 100%", "100/100", "loss 2.5"):
        assert part in bar


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([MessageRaised(id="a", level=Level.WARNING, title="T"), MessageWithdrawn(id="a"), MessageWithdrawn(id="x")],
            ["Warning: T", "Resolved: T"]),
        ([TurnAwaited(ahead=2, behind="other")], ["Queued behind other and 1 more"]),
        ([TurnAwaited(ahead=1, behind="other", is_source=True)] * 2, ["Waits for the model of other"]),
        ([TurnAwaited(ahead=1, behind="a"), TurnCame(), TurnAwaited(ahead=1, behind="a")],
            ["Queued behind a", "Starting", "Queued behind a"]),
        ([PhaseChanged(phase=Phase.SAVING)], ["Saving"]),
    ],
)  # fmt: skip
def test_waiting_withdrawn_messages_and_saving_are_lines(events, expected):
    assert shown(io.StringIO(), *events) == expected
