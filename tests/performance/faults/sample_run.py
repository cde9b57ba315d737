"""A run that never was, with every kind of file and event in it: what the mutations are made of."""

import msgspec

from core.base.errors import Fix, FixAction
from core.memory.model import Basis, Forecast, Parts, Room
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventWriter
from core.runs.events import (
    BatterySampled,
    CheckpointSaved,
    ConfusionCounted,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Event,
    Example,
    ExamplesChosen,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Predicted,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    Said,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
    WhatRan,
)
from core.runs.folder import Action, ExitRecord, KeeperRecord, Request, RunFolder
from core.runs.library import create

START = 1_795_230_000.0
STEPS = 60
RESUMED_AT = 30
LABELS = ("cat", "dog")
VERSIONS = {"python": "3.11.7", "torch": "2.13.0"}
PARTS = Parts(weights=45_000_000, gradients=45_000_000, optimizer=90_000_000, activations=610_000_000)


def sample_options() -> RunOptions:
    """A request with a value of every type in it."""
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18", pretrained=False),
        data=DataOptions(train="builtin:digits"),
        training=TrainingOptions(epochs=3.0, learning_rate=1e-3),
        output=OutputOptions(name="A sample"),
    )


def write_sample(runs_folder, name: str = "sample") -> RunFolder:
    """Write the run into a new folder of `runs_folder`."""
    forecast = Forecast(
        basis=Basis.FORMULA, device="cpu", parts=PARTS, room=Room(free=1 << 33, ceiling=1 << 34)
    )
    run = create(sample_options(), runs_folder, runs_folder / name, forecast)
    _write(run.events_file, 1, first_attempt())
    _write(run.events_file, 2, second_attempt())
    _write(run.machine_file, 1, machine(0, RESUMED_AT + 10))
    _write(run.machine_file, 2, machine(RESUMED_AT + 20, 80))
    run.log_file.write_text("Loading\n" + "".join(f"Step {step} of {STEPS}\n" for step in range(STEPS)))
    run.record_exit(ExitRecord(time=START + 90, code=0, log_tail="Step 60 of 60"))
    keeper = KeeperRecord(pid=2, started=START - 1, host="elsewhere", booted=START - 5000)
    run.keeper_file.write_bytes(msgspec.json.encode(keeper))
    _write_folders(run)
    return run


def _write(path, attempt: int, events: list[Event]) -> None:
    writer = EventWriter(path, attempt)
    writer.write(*events)
    writer.close()


def _write_folders(run: RunFolder) -> None:
    checkpoint = run.checkpoints / f"checkpoint-{STEPS}"
    for folder in (checkpoint, run.model, run.requests, run.tensorboard, run.path / "examples"):
        folder.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(bytes(64))
    (checkpoint / "trainer_state.json").write_text('{"global_step": 60, "log_history": []}')
    entries = {"model.safetensors": {"bytes": 64, "sha256": "0" * 64}}
    (checkpoint / "complete.json").write_bytes(msgspec.json.encode(entries))
    (run.model / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForMaskedLM"]}')
    (run.model / "model.safetensors").write_bytes(bytes(64))
    (run.model / "hone.json").write_text('{"architecture": "torchvision:resnet18", "labels": ["cat", "dog"]}')
    (run.path / "notes.json").write_text('{"schema": 1, "tags": ["first"], "note": "a note"}')
    request = Request(id="a1", action=Action.STOP)
    (run.requests / "a1.json").write_bytes(msgspec.json.encode(request))


def first_attempt() -> list[Event]:
    """Loading, some steps, an evaluation, a checkpoint; then it was killed."""
    return [*_opening(0), *_steps(1, RESUMED_AT + 9)]


def second_attempt() -> list[Event]:
    """It goes on from its checkpoint to the end."""
    at = START + 85
    return [
        *_opening(RESUMED_AT),
        *_steps(RESUMED_AT + 1, STEPS),
        MessageRaised(
            time=at,
            id="slow",
            level=Level.WARNING,
            title="It is slow",
            detail="Other programs compute, too.",
            fixes=(Fix("Stop it", action=FixAction.STOP), Fix("Halve it", {"memory.batch_size": 4})),
        ),
        MessageRaised(time=at, id="gone", level=Level.INFO, title="Paging"),
        MessageWithdrawn(time=at, id="gone"),
        RequestAnswered(time=at, request="a1", action="stop", accepted=True),
        RunFinished(
            time=at + 1,
            state=Outcome.FINISHED,
            metrics={"eval_loss": 0.4, "eval_accuracy": 0.9},
            samples_per_second=140.0,
            seconds=80.0,
            steps=STEPS,
            peak_bytes=2 << 30,
        ),
    ]


def _opening(from_step: int) -> list[Event]:
    at = START + from_step
    return [
        RunStarted(time=at, pid=3, versions=VERSIONS, from_step=from_step),
        PhaseChanged(time=at + 0.1, phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
        MemoryForecast(time=at + 0.2, device="cpu", basis=Basis.FORMULA, parts=PARTS),
        RunPlanned(
            time=at + 0.3,
            total_steps=STEPS,
            epochs=3.0,
            train_samples=200,
            eval_samples=20,
            effective_batch=8,
            labels=LABELS,
            device="cpu",
        ),
        ExamplesChosen(
            time=at + 0.4, examples=(Example(given="a text", expected="cat"), Example(image="examples/0.png"))
        ),
        PhaseChanged(time=at + 0.5, phase=Phase.TRAINING),
    ]


def _steps(first: int, last: int) -> list[Event]:
    found: list[Event] = []
    for step in range(first, last + 1):
        found.append(_step(step))
        if step == first:
            found.append(_what_ran(step))
        if step % 10 == 0:
            found += _evaluation(step)
    return found


def _step(step: int) -> StepFinished:
    return StepFinished(
        time=START + 1 + step,
        step=step,
        epoch=step / 20,
        seconds=0.9,
        learning_rate=1e-3 * (1 - step / STEPS),
        samples=8,
        tokens=512,
        data_seconds=0.1,
        forward_seconds=0.3,
        backward_seconds=0.4,
        optimizer_seconds=0.1,
        loss=None if step == 7 else 2.0 / step,
        non_finite="nan" if step == 7 else None,
        grad_norm=1.5,
    )


def _evaluation(step: int) -> list[Event]:
    at, epoch = START + 1.5 + step, step / 20
    metrics = {"eval_loss": 1.0 / step, "eval_accuracy": 0.9, "eval_f1": None}
    said = (Said(text="cat", sure=0.8, right=True), Said(text="dog", is_cut=True))
    path = f"checkpoints/checkpoint-{step}"
    return [
        PhaseChanged(time=at, phase=Phase.EVALUATING),
        Evaluated(time=at, step=step, epoch=epoch, metrics=metrics, seconds=0.2),
        Predicted(time=at, step=step, epoch=epoch, said=said, seconds=0.1),
        ConfusionCounted(time=at, step=step, labels=LABELS, counts=((9, 1), (2, 8))),
        CheckpointSaved(time=at, step=step, path=path, bytes=134_000_000, seconds=0.3),
    ]


def _what_ran(step: int) -> WhatRan:
    return WhatRan(
        time=START + 1 + step,
        device="cpu",
        device_name="Processor",
        parameter_dtype="float32",
        autocast_dtype="bfloat16",
        optimizer="AdamW",
        optimizer_state_bytes=89_453_136,
        optimizer_state={"float32": 89_453_136},
        trainable_parameters=11_181_642,
        total_parameters=11_181_642,
        effective_batch=8,
        reasons={"device.name": "there is no GPU"},
        workers=(100, 101),
        threads=2,
    )


def machine(first: int, last: int) -> list[Event]:
    """What the keeper sampled each second."""
    found: list[Event] = [
        TurnAwaited(time=START + first, ahead=1, behind="another"),
        TurnCame(time=START + first),
    ]
    for second in range(first, last):
        at = START + second + 0.25
        found += [
            MemorySampled(time=at, source=Source.PROCESS, bytes=700_000_000 + second),
            MemorySampled(time=at, source=Source.SYSTEM, bytes=9 << 30, ceiling=16 << 30, swap=1 << 20),
            DeviceSampled(time=at, source=Source.SYSTEM, name="Processor", busy=0.9, temperature=70.0),
        ]
        if second % 10 == 0:
            found += [BatterySampled(time=at, share=0.5), DiskSampled(time=at, free=1 << 36, total=1 << 38)]
    return found
