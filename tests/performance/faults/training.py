"""A small real run for faults to be put into: seconds long, with evaluations and checkpoints, the same each time."""

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
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import RunStarted, StepFinished
from core.runs.folder import RunFolder
from core.runs.library import create

WORDS = (
    *("a", "the", "film", "story", "play", "very", "not", "good", "bad", "fine"),
    *("poor", "long", "short", "dull", "bright", "and", "but", "or"),
)
BATCH = 4
SAVE_STEPS = 25
PATIENCE_SECONDS = 300.0
"""How long anything of a run is waited for; on a busy machine an engine takes half a minute to start."""

POLL_SECONDS = 0.003


def write_texts(path: Path, rows: int) -> Path:
    """Texts with two labels, the same each time."""
    chance = Random(11)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = chance.choices(WORDS, k=chance.randint(4, 16))
            writer.writerow([" ".join(words), "yes" if "good" in words or "bright" in words else "no"])
    return path


def small_options(data: Path, epochs: float, *, seed: int = 7) -> RunOptions:
    """A Bert from nothing with dropout, shuffled data, an evaluation an epoch, a checkpoint every 25 steps."""
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source="scratch:bert-tiny"),
        data=DataOptions(train=str(data), max_length=32, eval_fraction=0.2),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
        memory=MemoryOptions(batch_size=BATCH),
        training=TrainingOptions(epochs=epochs, learning_rate=1e-3, seed=seed),
        output=OutputOptions(save_steps=SAVE_STEPS, keep_checkpoints=2, predictions=2),
    )


def new_run(options: RunOptions, path: Path) -> RunFolder:
    """Its folder, made."""
    return create(options, path.parent, path)


class Attended:
    """A run with somebody who follows it closely.

    `follower` is polled by `until`; `keeper` is the process of the attempt under way, a child of this one.
    """

    def __init__(
        self, run: RunFolder, start: Callable[[RunFolder], "subprocess.Popen[bytes]"] = runs_start.start
    ):
        self.run = run
        self.keeper = start(run)
        self.follower = RunFollower(run)
        self.follower.poll()

    def resume(self, command: Sequence[str] | None = None) -> None:
        """Go on with it; see `core.runs.start.resume`."""
        self.keeper = runs_start.resume(self.run, command)
        self.follower = RunFollower(self.run)
        self.follower.poll()

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Poll until something holds; False where the run is over before, or time is."""
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
        """Leave nothing running, whatever went wrong."""
        for pid in filter(None, (self.engine, self.keeper.pid)):
            if self.keeper.poll() is None:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
        self.keeper.wait()


def whole_lines(run: RunFolder) -> dict[Path, bytes]:
    """What stands in the run's files of events, up to the last whole line."""
    found = {}
    for path in (run.events_file, run.machine_file):
        content = path.read_bytes() if path.exists() else b""
        found[path] = content[: content.rfind(b"\n") + 1]
    return found


def lost_lines(before: dict[Path, bytes]) -> int:
    """How many lines that once stood in a file stand there no longer, or elsewhere."""
    lost = 0
    for path, content in before.items():
        now = path.read_bytes() if path.exists() else b""
        if not now.startswith(content):
            still = set(now.splitlines())
            lost += max(1, sum(line not in still for line in content.splitlines()))
    return lost


def losses(run: RunFolder) -> dict[int, float | None]:
    """The loss of each step as the newest attempt that made it told it."""
    found: dict[int, float | None] = {}
    for event in EventReader(run.events_file).read_all():
        if isinstance(event, RunStarted):
            found = {step: loss for step, loss in found.items() if step <= event.from_step}
        elif isinstance(event, StepFinished):
            found[event.step] = event.loss_value
    return found


def weights(run: RunFolder) -> str:
    """A hash of the trained model's weights."""
    path = run.model / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"


def final_metrics(run: RunFolder) -> bytes:
    """The metrics with which the run ended, those of time left out."""
    follower = RunFollower(run)
    while not follower.is_caught_up:
        follower.poll()
    finished = follower.status.finished
    return msgspec.json.encode(dict(sorted(finished.metrics.items())) if finished else None)
