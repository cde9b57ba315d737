"""The thread of a benchmark: makes its plan, measures rung after rung, and tells the window after each pass."""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Protocol

from PySide6.QtCore import QObject, QThread, Signal

from core.bench.plan import Kind, Plan
from core.bench.result import Result
from core.bench.running import Underway
from core.errors import UserError
from core.jobs import JobCancelled
from gui.engine_work import EngineWork


class Measures(Protocol):
    """One benchmark; `core.bench.running.Bench` is the real one."""

    @property
    def not_kept(self) -> str:
        """Why the newest result could not be saved; empty: it was."""

    @property
    def result(self) -> Result:
        """What is known so far; a row for each rung from the start."""

    def run(self) -> Iterator[Result]:
        """What is measured so far, after every pass."""

    def heed(self, began: Callable[[Underway], None]) -> None:
        """Have `began` told of every pass as it begins; call before `run`."""

    def stop(self) -> None:
        """End the pass that runs and make no other, from any thread; what is done is kept."""


MakePlan = Callable[[], Plan]
MakeBench = Callable[[Plan], Measures]


class NotKept(UserError):  # noqa: N818 - said as the window says it
    """What was measured is in the window, and in no file."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "The result could not be kept",
            f"{reason}. It is shown here until the window is closed: save it elsewhere, or copy it.",
        )


class _Measuring(EngineWork):
    """Makes the plan and the passes in its thread; `not_kept` says why their result is in no file.

    Signals:
        planned: The `core.bench.plan.Plan`, before the first pass.
        began: The `core.bench.running.Underway` of a pass that begins.
        measured: The `core.bench.result.Result` after a pass.
    """

    planned = Signal(object)
    began = Signal(object)
    measured = Signal(object)

    def __init__(self, make_plan: MakePlan, make: MakeBench, parent: QObject) -> None:
        super().__init__(parent)
        self._make_plan, self._make = make_plan, make
        self._bench: Measures | None = None
        self.not_kept = ""

    def begin(self) -> None:
        """Each pass starts its own process."""

    def work(self) -> None:
        """Plan and measure."""
        plan = self._make_plan()
        with self._lock:
            if self.cancelled:
                raise JobCancelled("bench")
            self._bench = self._make(plan)
        self._bench.heed(self.began.emit)
        self.planned.emit(plan)
        self.measured.emit(self._bench.result)
        try:
            for result in self._bench.run():
                self.measured.emit(result)
        finally:
            self.not_kept = self._bench.not_kept
            with self._lock:
                self._bench = None  # it knows this object by its signal: neither is to keep the other

    def kill(self) -> None:
        """End the pass that runs."""
        if self._bench is not None:
            self._bench.stop()


class Ending(Enum):
    """How a benchmark ended."""

    DONE = auto()
    CANCELLED = auto()
    FAILED = auto()


class Benchmarking(QObject):
    """Measures one benchmark at a time.

    Signals:
        changed: It began, knows its plan, or begins another pass.
        measured: The `core.bench.result.Result` so far.
        ended: How (`Ending`), after its last result.
        failed: A `core.errors.UserError` in place of a plan or of further passes, before `ended`; `NotKept` after it.

    Args:
        parent: Qt's parent.
    """

    changed = Signal()
    measured = Signal(object)
    ended = Signal(object)
    failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: _Measuring | None = None
        self._is_closed = False
        self.kind = Kind.METHODS
        self.plan: Plan | None = None
        self.underway: Underway | None = None

    @property
    def is_running(self) -> bool:
        """Whether one is under way, or on its way out."""
        return self._current is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it was cancelled, and the process of its pass is on its way out."""
        return self._current is not None and self._current.cancelled

    def start(self, kind: Kind, make_plan: MakePlan, make: MakeBench) -> None:
        """Begin, unless one is under way; returns at once.

        Args:
            kind: Which of the two tables.
            make_plan: Makes the plan; called in the thread, as it may take seconds.
            make: Makes the benchmark of it; called there, too.
        """
        if self._current is not None or self._is_closed:
            return
        work = _Measuring(make_plan, make, self)
        work.planned.connect(self._take_plan)
        work.began.connect(self._take_beginning)
        work.measured.connect(self.measured)
        work.finished.connect(self._settle)
        self.kind, self.plan, self.underway = kind, None, None
        self._current = work
        work.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def cancel(self) -> None:
        """Measure no further; `ended` comes once the process of the pass is gone. What is done is kept."""
        if self._current is not None:
            self._current.cancel()
            self.changed.emit()

    def close(self) -> None:
        """Measure no further, and wait until no thread is left; none begins after this."""
        self._is_closed = True
        if self._current is not None:
            self._current.cancel()
            self._current.wait()

    def _take_plan(self, plan: Plan) -> None:
        self.plan = plan
        self.changed.emit()

    def _take_beginning(self, underway: Underway) -> None:
        self.underway = underway
        self.changed.emit()

    def _settle(self) -> None:
        work, self._current = self._current, None
        if work is None:
            return
        failure: UserError | None = work.failure
        ending = Ending.CANCELLED if work.cancelled else Ending.DONE if failure is None else Ending.FAILED
        work.deleteLater()
        self.underway = None
        if failure is not None:
            self.failed.emit(failure)
        self.ended.emit(ending)
        if work.not_kept:
            self.failed.emit(NotKept(work.not_kept))
