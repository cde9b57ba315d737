"""A run's figures as TensorBoard's event files, in addition to Hone's own."""

import contextlib
import socket
import time
from pathlib import Path

from tensorboardX.proto import event_pb2, summary_pb2
from tensorboardX.record_writer import RecordWriter

from core.base.errors import why
from core.base.language import _
from core.engine.reporter import Reporter
from core.runs.events import Evaluated, Event, StepFinished

FLUSH_SECONDS = 1.0


class TensorBoardFiles:
    """Writes the figures of the reporter's events while the context lasts.

    Each attempt has a file of its own, which begins with a session start: TensorBoard then drops later steps of
    earlier files. If the files can't be written, the run goes on. tensorboardX's SummaryWriter would send each figure
    through a queue between processes.
    """

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        self._folder = folder
        self._reporter = reporter
        self._file: RecordWriter | None = None
        self._flushed = 0.0

    def __enter__(self) -> "TensorBoardFiles":
        self._reporter.listeners.append(self._on_event)
        now, attempt = time.time(), self._reporter.attempt
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.attempt-{attempt}"
        try:
            self._folder.mkdir(exist_ok=True)
            self._file = RecordWriter(str(self._folder / name))
            self._write(event_pb2.Event(wall_time=now, file_version="brain.Event:2"))
            if attempt > 1:
                session = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                step = self._reporter.status.step + 1
                self._write(event_pb2.Event(step=step, wall_time=now, session_log=session))
        except OSError as error:
            self._give_up(error)
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._on_event in self._reporter.listeners:
            self._reporter.listeners.remove(self._on_event)
            if self._file is not None:
                self._file.close()

    def _on_event(self, event: Event) -> None:
        values = scalars(event)
        if not values or not isinstance(event, StepFinished | Evaluated):
            return
        summary = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        try:
            self._write(event_pb2.Event(step=event.step, wall_time=event.time, summary=summary))
        except OSError as error:
            self._give_up(error)

    def _write(self, record: event_pb2.Event) -> None:
        assert self._file is not None, "opened before"
        self._file.write(record.SerializeToString())
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def _give_up(self, error: OSError) -> None:
        self._reporter.listeners.remove(self._on_event)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._reporter.warn(
            "tensorboard-stopped",
            _("TensorBoard's files are no longer written"),
            _("{error}. Hone's own charts are not affected.").format(error=why(error)),
        )


def scalars(event: Event) -> dict[str, float]:
    """Returns the figures of an event by the names Trainer gives them in TensorBoard; empty if it has none."""
    values: dict[str, float | None] = {}
    match event:
        case StepFinished():
            values = {
                "train/loss": event.loss_value,
                "train/learning_rate": event.learning_rate,
                "train/grad_norm": event.grad_norm,
            }
            if event.seconds and not event.compile_seconds:
                values["train/samples_per_second"] = event.samples / event.seconds
        case Evaluated():
            values = {f"eval/{name.removeprefix('eval_')}": value for name, value in event.metrics.items()}
    return {name: value for name, value in values.items() if value is not None}
