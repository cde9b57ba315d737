"""A run's figures as TensorBoard's event files, beside Hone's own.

They are written from the very events that Hone writes, by a thread of its own, so that no step waits for a file.
Imported only where a run asks for it.
"""

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2, summary_pb2

from core.engine.reporter import Reporter
from core.events import Evaluated, Event, LossesLogged, StepFinished

FLUSH_SECONDS = 1.0
"""So much of the newest figures may be missing from the file after a crash."""

Scalars = dict[str, float]


class TensorBoardFiles:
    """Writes what `reporter` reports, from `__enter__` to `__exit__`.

    Each attempt has a file of its own in the same folder. That of a later attempt begins by taking back the steps that
    its start left behind, as TensorBoard provides for. A disk that is full or gone ends the writing, not the run.

    Args:
        folder: Where the files go; made where it is absent.
        reporter: Whose events are written.
    """

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        self._reporter = reporter
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        folder.mkdir(exist_ok=True)
        # Not the library's SummaryWriter, which sends each figure through a queue between processes.
        self._file = EventsWriter(str(folder / "events"), f".attempt-{reporter.attempt}")
        if reporter.attempt > 1:
            self._take_back(reporter.story.step + 1)
        self._thread = threading.Thread(target=self._write_all, name="tensorboard", daemon=True)

    def __enter__(self) -> "TensorBoardFiles":
        """Begin."""
        self._reporter.listeners.append(self._events.put)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left, and end."""
        self._stop_listening()
        self._events.put(None)
        self._thread.join()

    def _stop_listening(self) -> None:
        if self._events.put in self._reporter.listeners:
            self._reporter.listeners.remove(self._events.put)

    def _take_back(self, step: int) -> None:
        """Have TensorBoard forget all from `step` on that files before this one say."""
        session = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._file.write_event(event_pb2.Event(step=step, wall_time=time.time(), session_log=session))

    def _write_all(self) -> None:
        try:
            while self._write_some():
                self._file.flush()
            self._file.close()
        except OSError as error:
            self._stop_listening()
            self._reporter.warn(
                "tensorboard-stopped",
                "TensorBoard's files are no longer written",
                f"{error.strerror}. Hone's own go on.",
            )

    def _write_some(self) -> bool:
        """Write what comes within `FLUSH_SECONDS`; returns whether there will be more."""
        until = time.monotonic() + FLUSH_SECONDS
        while (left := until - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left)
            except queue.Empty:
                return True
            if event is None:
                return False
            for step, found in scalars(event):
                self._file.write_event(record(event.time, step, found))
        return True


def record(moment: float, step: int, found: Scalars) -> event_pb2.Event:
    """The figures of a step as TensorBoard's event; `moment` in unix seconds."""
    values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in found.items()]
    return event_pb2.Event(step=step, wall_time=moment, summary=summary_pb2.Summary(value=values))


def scalars(event: Event) -> Iterator[tuple[int, Scalars]]:
    """What TensorBoard is told of `event`: figures by their names, each with its step."""
    match event:
        case StepFinished():
            pace = None if event.compile_seconds or not event.seconds else event.samples / event.seconds
            yield (
                event.step,
                _known(
                    {
                        "train/loss": event.loss_value,
                        "train/learning_rate": event.learning_rate,
                        "train/grad_norm": event.grad_norm,
                        "train/samples_per_second": pace,
                    }
                ),
            )
        case LossesLogged():
            for late in event.losses:
                yield late.step, _known({"train/loss": late.loss_value, "train/grad_norm": late.grad_norm})
        case Evaluated():
            yield event.step, _known({_eval_name(name): value for name, value in event.metrics.items()})


def _known(values: dict[str, float | None]) -> Scalars:
    return {name: value for name, value in values.items() if value is not None}


def _eval_name(metric: str) -> str:
    """`eval_loss` as Trainer's own reports to TensorBoard call it: `eval/loss`."""
    return f"eval/{metric.removeprefix('eval_')}"
