"""A run's figures as TensorBoard's event files, beside Hone's own."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tensorboardX.proto import event_pb2, summary_pb2
from tensorboardX.record_writer import RecordWriter

from core.base.language import _
from core.engine.reporter import Reporter
from core.runs.events import Evaluated, Event, StepFinished

FLUSH_SECONDS = 1.0
"""So much of the newest figures may be missing from the file after a crash."""


class RecordFile(Protocol):
    """A file of records; tensorboardX's `RecordWriter` is the real one."""

    def write(self, data: bytes) -> None:
        """Append a record."""

    def flush(self) -> None:
        """Leave nothing unwritten."""

    def close(self) -> None:
        """Close the file."""


class TensorBoardFiles:
    """Writes what `reporter` reports, from `__enter__` to `__exit__`.

    Each attempt has a file of its own in the same folder. That of a later attempt begins by taking back the steps that
    its start left behind, as TensorBoard provides for. A folder that can't be written, or a disk that is full or gone,
    ends the writing, not the run. tensorboardX's SummaryWriter would send each figure through
    a queue between processes.

    Args:
        folder: Where the files go; made where it is absent.
        reporter: Whose events are written.
        open_file: Begins a file.
    """

    def __init__(
        self, folder: Path, reporter: Reporter, open_file: Callable[[str], RecordFile] = RecordWriter
    ) -> None:
        self._folder = folder
        self._reporter = reporter
        self._open_file = open_file
        self._file: RecordFile | None = None
        self._flushed = 0.0

    def __enter__(self) -> "TensorBoardFiles":
        """Begin."""
        self._reporter.listeners.append(self._listen)
        now, attempt = time.time(), self._reporter.attempt
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.attempt-{attempt}"
        try:
            self._folder.mkdir(exist_ok=True)
            self._file = self._open_file(str(self._folder / name))
            self._write(event_pb2.Event(wall_time=now, file_version="brain.Event:2"))
            if attempt > 1:  # steps of earlier files from here on don't count
                session = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                begins_at = self._reporter.status.step + 1
                self._write(event_pb2.Event(step=begins_at, wall_time=now, session_log=session))
        except OSError as error:
            self._give_up(error)
        return self

    def __exit__(self, *_raised: object) -> None:
        """Write what is left, and end."""
        if self._listen in self._reporter.listeners:
            self._reporter.listeners.remove(self._listen)
            if self._file is not None:
                self._file.close()

    def _listen(self, event: Event) -> None:
        try:
            for step, found in scalars(event):
                values = [summary_pb2.Summary.Value(tag=tag, simple_value=one) for tag, one in found.items()]
                summary = summary_pb2.Summary(value=values)
                self._write(event_pb2.Event(step=step, wall_time=event.time, summary=summary))
        except OSError as error:
            self._give_up(error)

    def _write(self, record: event_pb2.Event) -> None:
        assert self._file is not None, "opened before"
        self._file.write(record.SerializeToString())
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def _give_up(self, error: OSError) -> None:
        self._reporter.listeners.remove(self._listen)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._reporter.warn(
            "tensorboard-stopped",
            _("TensorBoard's files are no longer written"),
            _("{strerror}. Hone's own go on.").format(strerror=error.strerror),
        )


def scalars(event: Event) -> Iterator[tuple[int, dict[str, float]]]:
    """The figures of an event by TensorBoard's names (`eval/loss` as Trainer calls it), with their step."""
    found: dict[str, float | None]
    match event:
        case StepFinished():
            found = {
                "train/loss": event.loss_value,
                "train/learning_rate": event.learning_rate,
                "train/grad_norm": event.grad_norm,
            }
            if event.seconds and not event.compile_seconds:
                found["train/samples_per_second"] = event.samples / event.seconds
        case Evaluated():
            found = {f"eval/{name.removeprefix('eval_')}": value for name, value in event.metrics.items()}
        case _:
            return
    yield event.step, {name: value for name, value in found.items() if value is not None}
