"""TensorBoard's files, read back record by record."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import RecordWriter

from core.engine.reporter import Reporter
from core.engine.run import tensorboard
from core.engine.run.tensorboard import TensorBoardFiles
from core.runs.events import Evaluated, Event, MessageRaised, RunPlanned, StepFinished
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import train


def records(path: Path) -> Iterator[Any]:
    """The events in a file: each has its length, a checksum of that, itself, and a checksum of itself."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        [length] = struct.unpack_from("<Q", content, at)
        yield event_pb2.Event.FromString(content[at + 12 : at + 12 + length])
        at += 16 + length


def figures(folder: Path) -> list[tuple[int, float, str, Any]]:
    """Step, time, name and value of each figure of a folder with one file; values have 32 bits."""
    [path] = folder.iterdir()
    return [
        (event.step, event.wall_time, value.tag, pytest.approx(value.simple_value, rel=1e-6, nan_ok=True))
        for event in records(path)
        for value in event.summary.value
    ]


def step(number: int, **changes: Any) -> StepFinished:
    known = {"loss": 0.5, "grad_norm": 2.0, "seconds": 0.25, **changes}
    return StepFinished(time=1000.0 + number, step=number, epoch=0.1, learning_rate=0.01, samples=8, **known)


def test_every_known_figure_is_there_with_its_step_and_its_time(tmp_path):
    reporter = Reporter(RunFolder(tmp_path))
    with TensorBoardFiles(tmp_path / "tensorboard", reporter):
        reporter.write(
            RunPlanned(total_steps=9, epochs=1.0, train_samples=9, eval_samples=9, effective_batch=1)
        )
        reporter.write(step(1))
        metrics = {"eval_loss": 0.4, "eval_f1": None}
        reporter.write(Evaluated(time=1002.0, step=1, epoch=0.1, metrics=metrics, seconds=1.0))
        reporter.write(step(3, loss=None, non_finite="nan", grad_norm=None, compile_seconds=9.0))
    reporter.write(step(4))  # after the files were closed
    assert figures(tmp_path / "tensorboard") == [
        (1, 1001.0, "train/loss", 0.5),
        (1, 1001.0, "train/learning_rate", 0.01),
        (1, 1001.0, "train/grad_norm", 2.0),
        (1, 1001.0, "train/samples_per_second", 32.0),
        (1, 1002.0, "eval/loss", 0.4),
        (3, 1003.0, "train/loss", math.nan),
        (3, 1003.0, "train/learning_rate", 0.01),
    ]


def test_the_file_of_a_later_attempt_names_the_step_it_starts_with(tmp_path):
    """By this record, TensorBoard drops the steps of earlier files from there on."""
    starts = []
    for from_step in (0, 2):
        reporter, folder = Reporter(RunFolder(tmp_path)), tmp_path / f"from-{from_step}"
        reporter.start({}, from_step)
        with TensorBoardFiles(folder, reporter):
            reporter.write(step(from_step + 1), step(from_step + 2), step(from_step + 3))
        [path] = folder.iterdir()
        sessions = [event for event in records(path) if event.HasField("session_log")]
        starts.append([(event.step, event.session_log.status) for event in sessions])
    assert starts == [[], [(3, event_pb2.SessionLog.START)]]


@pytest.mark.parametrize("trouble", ["full", "no folder", "no file"])
def test_a_disk_that_takes_nothing_ends_the_files_and_not_the_run(trouble, tmp_path, monkeypatch):
    class FullDisk:
        is_closed = False

        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        flush = write

        def close(self) -> None:
            self.is_closed = True

    reporter, events, disk = Reporter(RunFolder(tmp_path)), list[Event](), FullDisk()
    reporter.listeners.append(events.append)
    folder = tmp_path / "tensorboard"
    if trouble == "no folder":
        folder.write_text("in the way")

    def open_file(path: str) -> Any:
        return disk if trouble == "full" else RecordWriter(str(folder / "gone" / Path(path).name))

    monkeypatch.setattr(tensorboard, "RecordWriter", open_file)
    with TensorBoardFiles(folder, reporter):
        reporter.write(step(1), step(2))
    assert [event.id for event in events if isinstance(event, MessageRaised)] == ["tensorboard-stopped"]
    assert len(reporter.listeners) == 1
    assert disk.is_closed is (trouble == "full")


def test_a_run_writes_its_losses_where_chosen(tmp_path):
    bert = save_tiny_bert(tmp_path / "bert")
    run = train(tmp_path / "run", source=bert, tensorboard=True, max_steps=2, keep_checkpoints=0)
    losses = [
        (number, value) for number, _, tag, value in figures(run.run.tensorboard) if tag == "train/loss"
    ]
    assert [(event.step, event.loss) for event in run.steps] == losses
    assert len(losses) == 2
