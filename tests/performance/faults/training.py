"""A small real run for faults to happen in: seconds long, with evaluations and checkpoints, the same each time."""

import csv
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
import psutil

from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Backend, Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import RunStarted, StepFinished
from core.runs.folder import RunFolder
from core.runs.library import create
from core.runs.status import State
from tests.fakes.models import instructions, save_tiny_talker, write_json

WORDS = "a the film story play very not good bad fine poor long short dull bright and but or"
PATIENCE_SECONDS = 300.0
"""The longest wait for anything of a run; on a busy machine an engine takes half a minute to start."""

POLL_SECONDS = 0.003


def write_texts(path: Path, rows: int) -> Path:
    """Texts with two labels, the same each time."""
    chance = Random(11)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = chance.choices(WORDS.split(), k=chance.randint(4, 16))
            writer.writerow([" ".join(words), "yes" if "good" in words or "bright" in words else "no"])
    return path


def small_options(data: Path, epochs: float, *, seed: int = 7) -> RunOptions:
    """A new Bert with dropout, shuffled data, an evaluation an epoch, a checkpoint every 25 steps."""
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source="scratch:bert-tiny"),
        data=DataOptions(train=str(data), max_length=32, eval_fraction=0.2),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
        memory=MemoryOptions(batch_size=4),
        training=TrainingOptions(epochs=epochs, learning_rate=1e-3, seed=seed),
        output=OutputOptions(save_steps=25, keep_checkpoints=2, predictions=2),
    )


def mlx_options(folder: Path, epochs: float) -> RunOptions:
    """An adapter with dropout for a small Llama, trained with MLX on conversations; the rest as above."""
    rows = write_json(folder / "rows.json", instructions(200))
    changes = {
        "device.backend": Backend.MLX,
        "model.source": str(save_tiny_talker(folder / "talker")),
        "model.method": Method.LORA,
        "model.lora_dropout": 0.2,
        "data.max_length": 96,
    }
    options = msgspec.structs.replace(small_options(rows, epochs), task=Task.CHAT)
    return with_changes(options, changes)


def new_run(options: RunOptions, path: Path) -> RunFolder:
    return create(options, path.parent, path)


class Attended:
    """A run that is followed closely.

    `follower` is polled by `until`; `keeper` is the process of the attempt under way, a child of this one.
    """

    def __init__(
        self, run: RunFolder, start: Callable[[RunFolder], "subprocess.Popen[bytes]"] = runs_start.start
    ):
        self.run = run
        self._follow(start(run))

    def _follow(self, keeper: "subprocess.Popen[bytes]") -> None:
        self.keeper = keeper
        self.follower = RunFollower(self.run)
        self.follower.poll()

    def resume(self, command: Sequence[str] | None = None) -> None:
        """See `core.runs.start.resume`."""
        self._follow(runs_start.resume(self.run, command))

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Poll until `holds` does; False if the run or the time is over before."""
        deadline = time.monotonic() + seconds
        while not holds():
            if self.follower.is_over or time.monotonic() > deadline:
                return holds()
            time.sleep(POLL_SECONDS)
            self.follower.poll()
        return True

    def until_over(self) -> None:
        """Wait for the end of the attempt, and of its keeper."""
        self.until(lambda: self.follower.is_over)
        try:
            self.keeper.wait(30)
        except subprocess.TimeoutExpired:
            self.keeper.kill()
            self.keeper.wait()

    @property
    def engine(self) -> int | None:
        """The process number of the engine of this attempt; None before there is one."""
        try:
            return next((child.pid for child in psutil.Process(self.keeper.pid).children()), None)
        except psutil.Error:
            return None

    def end(self) -> None:
        """Leave nothing running."""
        for pid in filter(None, (self.engine, self.keeper.pid)):
            if self.keeper.poll() is None:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
        self.keeper.wait()


class Reference:
    """The losses, the hash of the weights and the final metrics of a run that is over."""

    def __init__(self, run: RunFolder) -> None:
        weights = next(run.model.glob("*.safetensors"), run.model)
        self.losses = losses(run)
        self.weights = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else "none"
        follower = RunFollower(run)
        while not follower.is_caught_up:
            follower.poll()
        finished = follower.status.finished
        self.metrics = msgspec.json.encode(dict(sorted(finished.metrics.items())) if finished else None)


def losses(run: RunFolder) -> dict[int, float | None]:
    """The loss of each step, by the newest attempt that made it."""
    found: dict[int, float | None] = {}
    for event in EventReader(run.events_file).read_all():
        if isinstance(event, RunStarted):
            found = {step: loss for step, loss in found.items() if step <= event.from_step}
        elif isinstance(event, StepFinished):
            found[event.step] = event.loss_value
    return found


def train_alone(path: Path, options: RunOptions) -> Reference:
    """Train without any fault."""
    run = new_run(options, path)
    attended = Attended(run)
    try:
        attended.until_over()
    finally:
        attended.end()
    if attended.follower.state is not State.FINISHED:
        raise SystemExit(f"the undisturbed run is {attended.follower.state}: see {run.log_file}")
    return Reference(run)


def differences(attended: Attended, reference: Reference) -> list[str]:
    """In what a run that was resumed differs from the undisturbed one."""
    run = attended.run
    if attended.follower.state is not State.FINISHED:
        return [f"it ended as {attended.follower.state}: see {run.log_file}"]
    found = Reference(run)
    return [
        f"the {name} differ"
        for name in ("losses", "weights", "metrics")
        if getattr(found, name) != getattr(reference, name)
    ]


def whole_lines(run: RunFolder) -> dict[Path, bytes]:
    """The contents of the run's files of events, up to the last whole line."""
    found = {}
    for path in (run.events_file, run.machine_file):
        content = path.read_bytes() if path.exists() else b""
        found[path] = content[: content.rfind(b"\n") + 1]
    return found


def lost_lines(before: dict[Path, bytes]) -> int:
    """How many lines of `whole_lines` are no longer at the beginning of their file."""
    lost = 0
    for path, content in before.items():
        now = path.read_bytes() if path.exists() else b""
        if not now.startswith(content):
            still = set(now.splitlines())
            lost += max(1, sum(line not in still for line in content.splitlines()))
    return lost
