"""A synthetic run with every kind of file and event in it, for the mutations to damage."""

import msgspec

from core.base.errors import Fix, FixAction
from core.memory.model import Basis, Forecast, Parts, Room
from core.runs.event_log import EventWriter
from core.runs.events import (
    Action,
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
from core.runs.folder import ExitRecord, KeeperRecord, Request, RunFolder
from core.runs.library import create
from tests.fakes.runs import OPTIONS, VERSIONS, Plot, write_story

STEPS, RESUMED_AT = 60, 30
PARTS = Parts(weights=45_000_000, gradients=45_000_000, optimizer=90_000_000, activations=610_000_000)
ROOM = Room(free=1 << 33, ceiling=1 << 34)
FILES = {
    "log.txt": "Loading\n" + "".join(f"Step {step} of {STEPS}\n" for step in range(STEPS)),
    "notes.json": '{"schema": 1, "tags": ["first"], "text": "a note"}',
    "model/config.json": '{"model_type": "bert", "architectures": ["BertForMaskedLM"]}',
    "model/model.safetensors": "\0" * 64,
    "model/hone.json": '{"architecture": "torchvision:resnet18", "labels": ["cat", "dog"]}',
}


def write_sample(runs_folder, name: str = "sample") -> RunFolder:
    """Write a run into a new folder of `runs_folder`: to its end, then once more from a checkpoint."""
    forecast = Forecast(basis=Basis.FORMULA, device="cpu", parts=PARTS, room=ROOM)
    run = create(OPTIONS, runs_folder, runs_folder / name, forecast)
    plot = Plot(steps=STEPS, epochs=3, reached=STEPS)
    end = write_story(run, plot)
    _write(run.events_file, _second_attempt(end + 5))
    waited = [TurnAwaited(time=end + 4, ahead=1, behind="another"), TurnCame(time=end + 4)]
    sampled = [BatterySampled(time=end + 4, share=0.5), DiskSampled(time=end + 4, free=1, total=9)]
    _write(run.machine_file, [*waited, *sampled])
    run.record_exit(ExitRecord(time=end + 90, code=0, attempt=2, log_tail="Step 60 of 60"))
    booted = plot.start - 5000
    keeper = KeeperRecord(pid=2, started=plot.start - 1, host="elsewhere", booted=booted, attempt=2)
    run.keeper_file.write_bytes(msgspec.json.encode(keeper))
    for folder in (run.model, run.requests, run.tensorboard, run.path / "examples"):
        folder.mkdir(parents=True)
    for path, content in FILES.items():
        (run.path / path).write_text(content)
    request = Request(id="a" * 32, action=Action.STOP)
    (run.requests / f"{request.id}.json").write_bytes(msgspec.json.encode(request))
    return run


def _write(path, events: list[Event]) -> None:
    writer = EventWriter(path, attempt=2)
    writer.write(*events)
    writer.close()


def _second_attempt(at: float) -> list[Event]:
    """Resumed from a checkpoint; the loss of a step is not a number, and its examples have predictions."""
    examples = (Example(given="a text", expected="cat"), Example(image="examples/0.png"))
    end, place = at + STEPS + 1, {"step": STEPS, "epoch": 3.0}
    answers = (Said(text="cat", sure=0.8, right=True), Said(text="dog", is_cut=True))
    fixes = (Fix("Stop it", action=FixAction.STOP), Fix("Halve it", {"memory.batch_size": 4}))
    metrics = {"eval_loss": 0.4, "eval_accuracy": 0.9, "eval_f1": None}
    return [
        RunStarted(time=at, pid=3, versions=VERSIONS, from_step=RESUMED_AT),
        ExamplesChosen(time=at, examples=examples),
        *(_step(step, at) for step in range(RESUMED_AT + 1, STEPS + 1)),
        PhaseChanged(time=end, phase=Phase.EVALUATING),
        Evaluated(time=end, **place, metrics=metrics, seconds=0.2),
        Predicted(time=end, **place, said=answers, seconds=0.1),
        ConfusionCounted(time=end, step=STEPS, labels=("cat", "dog"), counts=((9, 1), (2, 8))),
        MessageRaised(time=end, id="slow", level=Level.WARNING, title="Slow", detail="Why.", fixes=fixes),
        MessageRaised(time=end, id="gone", level=Level.INFO, title="Paging"),
        MessageWithdrawn(time=end, id="gone"),
        RequestAnswered(time=end, request="a1", action="stop", accepted=True),
        RunFinished(time=end + 1, state=Outcome.FINISHED, metrics=metrics, steps=STEPS, peak_bytes=2 << 30),
    ]


def _step(step: int, at: float) -> StepFinished:
    loss, non_finite = (None, "nan") if step == RESUMED_AT + 7 else (2.0 / step, None)
    return StepFinished(
        time=at + step,
        step=step,
        epoch=step / 20,
        seconds=0.9,
        learning_rate=1e-3,
        samples=8,
        tokens=512,
        loss=loss,
        non_finite=non_finite,
    )
