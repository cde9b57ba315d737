import io
from pathlib import Path

import pytest

from core.base import formats
from core.base.errors import Fix
from core.monitor.recent import STOP
from core.runs.events import (
    Evaluated,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    RunPlanned,
    RunStarted,
    StepFinished,
    TurnAwaited,
)
from core.runs.progress import Progress
from core.runs.queue import BENCHMARK
from core.runs.status import RunStory

PLAN = RunPlanned(
    total_steps=100, epochs=2, train_samples=800, eval_samples=8, effective_batch=16, device="mps"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *events: object) -> str:
    story = RunStory()
    progress = Progress(story, stream)
    for event in events:
        story.apply(event)
        progress.show(event)
    progress.close()
    return stream.getvalue()


def test_what_a_message_offers_names_the_run(tmp_path: Path) -> None:
    stream = io.StringIO()
    offered = MessageRaised(id="a", level=Level.WARNING, title="T", fixes=(STOP,))
    Progress(RunStory(), stream, tmp_path).show(offered)
    assert f"Try: Stop and keep (hone stop {tmp_path})" in stream.getvalue()


def steps(last: int) -> list[StepFinished]:
    return [
        StepFinished(step=number, epoch=1, seconds=0.5, learning_rate=1, samples=16, loss=2.5)
        for number in range(1, last + 1)
    ]


def test_without_a_terminal_a_line_every_tenth_of_the_run() -> None:
    lines = shown(io.StringIO(), RunStarted(), PLAN, *steps(35)).splitlines()
    assert lines == [
        "100 steps, 16 samples each, on mps: 800 training samples, 8 held out, 2 epochs",
        "Step 10 of 100, loss 2.5, about 45 s left",
        "Step 20 of 100, loss 2.5, about 40 s left",
        "Step 30 of 100, loss 2.5, about 35 s left",
    ]


def test_on_a_terminal_one_bar_with_phase_step_and_loss() -> None:
    text = shown(Terminal(), RunStarted(), PLAN, PhaseChanged(phase=Phase.TRAINING), *steps(100))
    last = text.rstrip("\n").rpartition("\r")[2]
    assert last.startswith("Training: 100%")
    assert "100/100" in last
    assert "loss 2.5" in last


def test_what_is_worth_keeping_is_a_line_of_its_own() -> None:
    for stream in (io.StringIO(), Terminal()):
        text = shown(
            stream,
            RunStarted(),
            PhaseChanged(phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
            PLAN,
            Evaluated(step=50, epoch=1, metrics={"eval_f1": 0.5, "eval_accuracy": 0.25}, seconds=1),
            MessageRaised(
                id="slow",
                level=Level.WARNING,
                title="Paging",
                detail="Memory is full.",
                fixes=(Fix("Halve it", {"memory.batch_size": 8, "model.pretrained": False}),),
            ),
        )
        assert "Loading the model: torchvision:resnet18\n" in text
        assert "Step 50, evaluated: accuracy 0.25, F1 0.5\n" in text
        assert "Warning: Paging\nMemory is full.\n" in text
        assert "Try: Halve it (--set memory.batch_size=8 --set model.pretrained=false)" in text


def test_what_no_longer_holds_is_said_too() -> None:
    warned = MessageRaised(id="paging", level=Level.WARNING, title="The run is paging")
    text = shown(io.StringIO(), RunStarted(), warned, MessageWithdrawn(id="paging"), MessageWithdrawn(id="x"))
    assert text == "Warning: The run is paging\nNo longer so: The run is paging\n"


def test_saving_is_told_at_the_end_and_not_at_each_checkpoint() -> None:
    saving = PhaseChanged(phase=Phase.SAVING)
    assert "Saving" not in shown(io.StringIO(), RunStarted(), PLAN, *steps(50), saving)
    assert shown(io.StringIO(), RunStarted(), PLAN, *steps(100), saving).endswith("\nSaving\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.size(None), "-"),
        (formats.size(500), "500 B"),
        (formats.size(912 << 20), "912 MB"),
        (formats.size(1.5 * (1 << 30)), "1.5 GB"),
        (formats.size(24 << 30), "24 GB"),
        (formats.plain_duration(8.2), "8 s"),
        (formats.plain_duration(125), "2 min 05 s"),
        (formats.plain_duration(4800), "1 h 20 min"),
        (formats.counted(1, "step"), "1 step"),
        (formats.counted(1797, "sample"), "1,797 samples"),
        (formats.counted(1.0, "epoch"), "1 epoch"),
        (formats.counted(2.5, "epoch"), "2.5 epochs"),
        (formats.number(float("nan")), "not a number"),
        (formats.number(0.123456), "0.1235"),
        (formats.metric("eval_recall", 0.5), "recall 0.5"),
    ],
)
def test_figures_have_units(text: str, expected: str) -> None:
    assert text == expected


def test_a_run_that_waits_tells_for_whom() -> None:
    waits = TurnAwaited(ahead=2, behind="2026-01-01-digits"), TurnAwaited(ahead=1, behind=BENCHMARK)
    assert shown(io.StringIO(), *waits).splitlines() == [
        "Waiting for its turn, 2 runs ahead; it comes after 2026-01-01-digits",
        "Waiting for its turn, until a benchmark is done",
    ]
