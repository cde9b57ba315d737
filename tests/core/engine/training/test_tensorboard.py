"""TensorBoard's files, read back by the rules of the record file format and compared with Hone's own."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import RecordWriter

from core.engine.reporter import Reporter
from core.engine.training.tensorboard import TensorBoardFiles
from core.options.sections import OutputOptions, TrainingOptions
from core.runs.events import Evaluated, Event, MessageRaised, RunPlanned, StepFinished
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert

CRC_POLYNOMIAL = 0x82F63B78


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> Iterator[Any]:
    """The events in a file: each has its length, a checksum of that, itself, and a checksum of itself."""
    content = path.read_bytes()
    at = 0
    while at < len(content):
        length, of_length = struct.unpack_from("<QI", content, at)
        data = content[at + 12 : at + 12 + length]
        [of_data] = struct.unpack_from("<I", content, at + 12 + length)
        assert (of_length, of_data) == (masked(content[at : at + 8]), masked(data))
        yield event_pb2.Event.FromString(data)
        at += 16 + length


def told(folder: Path) -> list[tuple[int, float, str, float]]:
    """Step, unix seconds, name and value of each figure, file after file."""
    return [
        (event.step, event.wall_time, value.tag, value.simple_value)
        for path in sorted(folder.iterdir())
        for event in records(path)
        for value in event.summary.value
    ]


def close(number: float) -> Any:
    return pytest.approx(number, rel=1e-6)  # the files hold 32 bits


def step(number: int, **figures: Any) -> StepFinished:
    known = {"loss": 0.5, "grad_norm": 2.0, "seconds": 0.25, **figures}
    return StepFinished(time=1000.0 + number, step=number, epoch=0.1, learning_rate=0.01, samples=8, **known)


def test_every_figure_is_there_with_its_step_and_its_time(tmp_path):
    reporter = Reporter(RunFolder(tmp_path))
    with TensorBoardFiles(tmp_path / "tensorboard", reporter):
        reporter.write(
            RunPlanned(total_steps=9, epochs=1.0, train_samples=9, eval_samples=9, effective_batch=1)
        )
        reporter.write(step(1))
        reporter.write(Evaluated(time=1002.0, step=1, epoch=0.1, metrics={"eval_loss": 0.4}, seconds=1.0))
    reporter.write(step(2))  # after the files were closed
    assert told(tmp_path / "tensorboard") == [
        (1, 1001.0, "train/loss", 0.5),
        (1, 1001.0, "train/learning_rate", close(0.01)),
        (1, 1001.0, "train/grad_norm", 2.0),
        (1, 1001.0, "train/samples_per_second", 32.0),
        (1, 1002.0, "eval/loss", close(0.4)),
    ]


def test_what_is_not_known_is_left_out_and_a_loss_that_is_no_number_is_told(tmp_path):
    reporter = Reporter(RunFolder(tmp_path))
    with TensorBoardFiles(tmp_path / "tensorboard", reporter):
        reporter.write(step(1, loss=None, grad_norm=None, compile_seconds=9.0))
        reporter.write(step(2, loss=None, non_finite="nan", grad_norm=3.0, compile_seconds=9.0))
        reporter.write(Evaluated(step=1, epoch=0.1, metrics={"eval_f1": None}, seconds=1.0))
    found = [(tag, value) for _, _, tag, value in told(tmp_path / "tensorboard")]
    rate = "train/learning_rate"
    assert [tag for tag, _ in found] == [rate, "train/loss", rate, "train/grad_norm"]
    assert math.isnan(found[1][1])


def test_the_file_of_a_later_attempt_names_the_step_it_starts_with(tmp_path):
    """The record by which TensorBoard drops the steps before is there; no reader of TensorBoard's was asked."""
    run = RunFolder(tmp_path)
    for from_step in (0, 2):
        reporter = Reporter(run)
        reporter.start({}, from_step)
        with TensorBoardFiles(tmp_path / "tensorboard", reporter):
            for number in range(from_step + 1, from_step + 4):
                reporter.write(step(number))
    first, second = sorted(
        (tmp_path / "tensorboard").iterdir(), key=lambda path: path.name.split(".attempt-")[1]
    )
    starts = [event for event in records(second) if event.HasField("session_log")]
    assert [(event.step, event.session_log.status) for event in starts] == [(3, event_pb2.SessionLog.START)]
    assert not [event for event in records(first) if event.HasField("session_log")]


class FullDisk:
    """A file of records on a disk that is full."""

    is_closed = False

    def write(self, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    flush = write

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("trouble", ["full", "no folder", "no file"])
def test_a_disk_that_takes_nothing_ends_the_files_and_not_the_run(trouble, tmp_path):
    reporter, events, disk = Reporter(RunFolder(tmp_path)), list[Event](), FullDisk()
    reporter.listeners.append(events.append)
    folder, open_file = tmp_path / "tensorboard", RecordWriter
    if trouble == "full":
        open_file = lambda _: disk  # noqa: E731
    elif trouble == "no folder":
        folder.write_text("in the way")
    else:
        open_file = lambda path: RecordWriter(str(folder / "gone" / Path(path).name))  # noqa: E731
    with TensorBoardFiles(folder, reporter, open_file):
        reporter.write(step(1))
        reporter.write(step(2))
    assert [event.id for event in events if isinstance(event, MessageRaised)] == ["tensorboard-stopped"]
    assert len(reporter.listeners) == 1
    assert disk.is_closed is (trouble == "full")


def test_a_run_writes_what_its_events_say_where_asked(tmp_path):
    from tests.fakes import training

    sections: dict[str, Any] = {
        "model": training.model(save_tiny_bert(tmp_path / "bert")),
        "training": TrainingOptions(epochs=1.0),
    }
    asked = OutputOptions(tensorboard=True, keep_checkpoints=0)
    run = training.train(tmp_path / "run", output=asked, **sections)
    losses = [(number, value) for number, _, tag, value in told(run.run.tensorboard) if tag == "train/loss"]
    assert losses == [(event.step, close(event.loss or 0.0)) for event in run.steps]
    assert losses
