"""A made-up run with every kind of file and event in it: what the mutations are made of."""

import msgspec

from core.base.errors import Fix, FixAction
from core.memory.model import Basis, Forecast, Parts, Room
from core.options import RunOptions
from core.runs.event_log import EventWriter
from core.runs.events import (
    BatterySampled,
    ConfusionCounted,
    DiskSampled,
    Evaluated,
    Event,
    Example,
    ExamplesChosen,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Predicted,
    RequestAnswered,
    RunFinished,
    RunStarted,
    Said,
    StepFinished,
    TurnAwaited,
    TurnCame,
)
from core.runs.folder import Action, ExitRecord, KeeperRecord, Request, RunFolder
from core.runs.library import create
from tests.fakes.runs import OPTIONS, VERSIONS, Plot, write_story

STEPS, RESUMED_AT = 60, 30
LABELS = ("cat", "dog")
PARTS = Parts(weights=45_000_000, gradients=45_000_000, optimizer=90_000_000, activations=610_000_000)


def sample_options() -> RunOptions:
    return OPTIONS


def write_sample(runs_folder, name: str = "sample") -> RunFolder:
    """Write the run into a new folder of `runs_folder`: to its end, then once more from a checkpoint."""
    room = Room(free=1 << 33, ceiling=1 << 34)
    forecast = Forecast(basis=Basis.FORMULA, device="cpu", parts=PARTS, room=room)
    run = create(sample_options(), runs_folder, runs_folder / name, forecast)
    plot = Plot(steps=STEPS, epochs=3, reached=STEPS)
    end = write_story(run, plot)
    _write(run.events_file, 2, _second_attempt(end + 5))
    at = end + 4
    _write(run.machine_file, 2, [TurnAwaited(time=at, ahead=1, behind="another"), TurnCame(time=at)])
    _write(run.machine_file, 2, [BatterySampled(time=at, share=0.5), DiskSampled(time=at, free=1, total=9)])
    run.log_file.write_text("Loading\n" + "".join(f"Step {step} of {STEPS}\n" for step in range(STEPS)))
    run.record_exit(ExitRecord(time=end + 90, code=0, attempt=2, log_tail="Step 60 of 60"))
    keeper = KeeperRecord(
        pid=2, started=plot.start - 1, host="elsewhere", booted=plot.start - 5000, attempt=2
    )
    run.keeper_file.write_bytes(msgspec.json.encode(keeper))
    for folder in (run.model, run.requests, run.tensorboard, run.path / "examples"):
        folder.mkdir(parents=True)
    (run.model / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForMaskedLM"]}')
    (run.model / "model.safetensors").write_bytes(bytes(64))
    (run.model / "hone.json").write_text('{"architecture": "torchvision:resnet18", "labels": ["cat", "dog"]}')
    (run.path / "notes.json").write_text('{"schema": 1, "tags": ["first"], "text": "a note"}')
    request = Request(id="a" * 32, action=Action.STOP)
    (run.requests / f"{request.id}.json").write_bytes(msgspec.json.encode(request))
    return run


def _write(path, attempt: int, events: list[Event]) -> None:
    writer = EventWriter(path, attempt)
    writer.write(*events)
    writer.close()


def _second_attempt(at: float) -> list[Event]:
    """It goes on from a checkpoint; a loss is not a number, and what it says of its examples is kept."""
    examples = (Example(given="a text", expected="cat"), Example(image="examples/0.png"))
    found: list[Event] = [
        RunStarted(time=at, pid=3, versions=VERSIONS, from_step=RESUMED_AT),
        ExamplesChosen(time=at, examples=examples),
    ]
    for step in range(RESUMED_AT + 1, STEPS + 1):
        is_bad = step == RESUMED_AT + 7
        found.append(
            StepFinished(
                time=at + step,
                step=step,
                epoch=step / 20,
                seconds=0.9,
                learning_rate=1e-3,
                samples=8,
                tokens=512,
                loss=None if is_bad else 2.0 / step,
                non_finite="nan" if is_bad else None,
            )
        )
    end, step, epoch = at + STEPS + 1, STEPS, 3.0
    said = (Said(text="cat", sure=0.8, right=True), Said(text="dog", is_cut=True))
    fixes = (Fix("Stop it", action=FixAction.STOP), Fix("Halve it", {"memory.batch_size": 4}))
    metrics = {"eval_loss": 0.4, "eval_accuracy": 0.9, "eval_f1": None}
    return [
        *found,
        PhaseChanged(time=end, phase=Phase.EVALUATING),
        Evaluated(time=end, step=step, epoch=epoch, metrics=metrics, seconds=0.2),
        Predicted(time=end, step=step, epoch=epoch, said=said, seconds=0.1),
        ConfusionCounted(time=end, step=step, labels=LABELS, counts=((9, 1), (2, 8))),
        MessageRaised(time=end, id="slow", level=Level.WARNING, title="Slow", detail="Why.", fixes=fixes),
        MessageRaised(time=end, id="gone", level=Level.INFO, title="Paging"),
        MessageWithdrawn(time=end, id="gone"),
        RequestAnswered(time=end, request="a1", action="stop", accepted=True),
        RunFinished(time=end + 1, state=Outcome.FINISHED, metrics=metrics, steps=STEPS, peak_bytes=2 << 30),
    ]
