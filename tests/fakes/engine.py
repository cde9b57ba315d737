"""A stand-in for the engine: writes the events of a run without torch. `python engine.py SCENARIO RUN_DIR`.

A run that is gone on with goes on after the step that its last attempt has told of.

Scenarios: `finish` (three steps), `wait` (trains until a stop or pause request comes or it is killed),
`stubborn` (doesn't hear requests), `fail` (says what went
wrong), `large` (doesn't fit, unless somebody has agreed to that), `bug` (a traceback and exit status 1),
`crash` (ends without a word), `child` (starts a process and waits),
`spin` and `eat` (read without end, or more than there is),
`page` and `stuck` (some steps, then one that lasts until somebody has said so, then steps until a stop request comes).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from core.base.ceiling import Pace, say
from core.base.errors import Fix
from core.base.files import ENGINE_LOCK, locked
from core.runs.event_log import EventReader, EventWriter
from core.runs.events import (
    Action,
    CheckpointSaved,
    Evaluated,
    Level,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    StepFinished,
)
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.status import DOESNT_FIT
from core.runs.summary import current_attempt
from core.runs.words import ONLY_IF_IT_FITS

OUTCOMES = {Action.STOP: Outcome.STOPPED, Action.PAUSE: Outcome.PAUSED}


def step(number: int) -> StepFinished:
    return StepFinished(
        step=number, epoch=number / 3, seconds=0.01, learning_rate=1e-3, samples=4, loss=1 / number
    )


def begin(writer: EventWriter, pid: int, from_step: int) -> None:
    print("The fake engine is here.", flush=True)
    writer.write(RunStarted(pid=pid, from_step=from_step))
    writer.write(PhaseChanged(phase=Phase.LOADING_MODEL, detail="fake"))
    writer.write(
        RunPlanned(total_steps=3, epochs=1, train_samples=12, eval_samples=4, effective_batch=4, device="cpu")
    )
    writer.write(PhaseChanged(phase=Phase.TRAINING))


def spin(_writer: EventWriter, _run: RunFolder) -> int:
    say("The chat template", Pace.QUICK)
    while True:
        pass


def eat(_writer: EventWriter, _run: RunFolder) -> int:
    say("The chat template", Pace.QUICK)
    held = []
    while len(held) < 100:
        held.append(b"x" * (10 << 20))
    return 0


def finish(writer: EventWriter, run: RunFolder) -> int:
    for number in (1, 2, 3):
        writer.write(step(number))
    metrics = {"eval_accuracy": 0.75, "eval_loss": 0.5}
    writer.write(Evaluated(step=3, epoch=1, metrics=metrics, seconds=0.1))
    writer.write(RunFinished(state=Outcome.FINISHED, metrics=metrics, seconds=0.1, steps=3))
    return 0


def wait(writer: EventWriter, run: RunFolder) -> int:
    for number in range(read_status(run).step + 1, 10_000):
        writer.write(step(number))
        for request in run.open_requests():
            if request.action is Action.KILL:
                continue
            writer.write(RequestAnswered(request=request.id, action=request.action, accepted=True))
            run.close_request(request)
            if request.action is Action.SAVE:
                path = f"checkpoints/checkpoint-{number}"
                writer.write(CheckpointSaved(step=number, path=path, bytes=0, seconds=0.0))
            else:
                writer.write(RunFinished(state=OUTCOMES[request.action], steps=number))
                return 0
        time.sleep(0.02)
    return 3


def stubborn(writer: EventWriter, run: RunFolder) -> int:
    for number in range(1, 10_000):
        writer.write(step(number))
        time.sleep(0.02)
    return 3


def fail(writer: EventWriter, run: RunFolder) -> int:
    writer.write(
        MessageRaised(
            id="failed",
            level=Level.ERROR,
            title="The data has one class only",
            detail="Column label of data.csv holds 'yes' in all rows.",
            fixes=(Fix("Choose another label column"),),
        )
    )
    writer.write(RunFinished(state=Outcome.FAILED))
    return 1


def large(writer: EventWriter, run: RunFolder) -> int:
    if ONLY_IF_IT_FITS not in os.environ:
        return finish(writer, run)
    writer.write(MessageRaised(id=DOESNT_FIT, level=Level.ERROR, title="It doesn't fit into memory"))
    writer.write(RunFinished(state=Outcome.FAILED))
    return 1


def bug(writer: EventWriter, run: RunFolder) -> int:
    raise RuntimeError("a bug in the fake engine")


def crash(writer: EventWriter, run: RunFolder) -> int:
    return 7


def child(writer: EventWriter, run: RunFolder) -> int:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (run.path / "child.pid").write_text(str(started.pid))
    return wait(writer, run)


def page(writer: EventWriter, run: RunFolder) -> int:
    for number in range(1, 11):
        writer.write(step(number))
        time.sleep(0.01)
    while not any(isinstance(event, MessageRaised) for event in EventReader(run.machine_file).read_all()):
        time.sleep(0.02)
    return wait(writer, run)


def main(scenario: str, run_dir: str) -> int:
    run = RunFolder(Path(run_dir))
    writer = EventWriter(run.events_file, attempt=current_attempt(run))
    scenarios = {
        "finish": finish,
        "wait": wait,
        "stubborn": stubborn,
        "fail": fail,
        "large": large,
        "bug": bug,
        "crash": crash,
        "child": child,
        "page": page,
        "stuck": page,
        "hang": child,
        "spin": spin,
        "eat": eat,
    }
    with locked(run.path, name=ENGINE_LOCK):
        begin(writer, os.getpid(), read_status(run).step)
        return scenarios[scenario](writer, run)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
