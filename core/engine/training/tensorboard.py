"""A run's figures as TensorBoard's event files, beside Hone's own."""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tensorboardX.proto import event_pb2, summary_pb2
from tensorboardX.record_writer import RecordWriter

from core.engine.reporter import Reporter
from core.runs.events import Evaluated, Event, StepFinished

TENSORBOARD_FLUSH_SECONDS = 1.0
"""So much of the newest figures may be missing from the file after a crash."""

FILE_VERSION = "brain.Event:2"

Scalars = dict[str, float]


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
    ends the writing, not the run.

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
        self._begins_at = reporter.story.step + 1
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="tensorboard", daemon=True)

    def __enter__(self) -> "TensorBoardFiles":
        """Begin."""
        self._reporter.listeners.append(self._events.put)
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        """Write what is left, and end."""
        self._stop_listening()
        self._events.put(None)
        self._thread.join()

    def _stop_listening(self) -> None:
        if self._events.put in self._reporter.listeners:
            self._reporter.listeners.remove(self._events.put)

    def _begin(self) -> RecordFile:
        # Not the library's SummaryWriter, which sends each figure through a queue between processes, nor its
        # EventsWriter, which leaves a file open that can't be written any more.
        self._folder.mkdir(exist_ok=True)
        moment, attempt = time.time(), self._reporter.attempt
        name = f"events.out.tfevents.{int(moment)}.{socket.gethostname()}.attempt-{attempt}"
        return self._open_file(str(self._folder / name))

    def _write_all(self) -> None:
        try:
            with contextlib.closing(self._begin()) as file:
                head = event_pb2.Event(wall_time=time.time(), file_version=FILE_VERSION)
                file.write(head.SerializeToString())
                if self._reporter.attempt > 1:  # steps of earlier files from here on don't count
                    session = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                    head = event_pb2.Event(step=self._begins_at, wall_time=time.time(), session_log=session)
                    file.write(head.SerializeToString())
                while self._write_some(file):
                    file.flush()
        except OSError as error:
            self._stop_listening()
            self._reporter.warn(
                "tensorboard-stopped",
                "TensorBoard's files are no longer written",
                f"{error.strerror}. Hone's own go on.",
            )

    def _write_some(self, file: RecordFile) -> bool:
        """Write what comes within `FLUSH_SECONDS`; returns whether there will be more."""
        until = time.monotonic() + TENSORBOARD_FLUSH_SECONDS
        while (left := until - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left)
            except queue.Empty:
                return True
            if event is None:
                return False
            for step, found in scalars(event):
                file.write(record(event.time, step, found).SerializeToString())
        return True


def record(moment: float, step: int, found: Scalars) -> event_pb2.Event:
    """The figures of a step as TensorBoard's event; `moment` in unix seconds."""
    values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in found.items()]
    return event_pb2.Event(step=step, wall_time=moment, summary=summary_pb2.Summary(value=values))


def scalars(event: Event) -> Iterator[tuple[int, Scalars]]:
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
