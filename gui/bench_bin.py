"""Moving kept results of benchmarks to the bin: asks once, moves in a thread, and tells what came of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from core.bench import kept
from core.bench.kept import Kept
from core.errors import UserError
from gui import numbers
from gui.bin_question import BinQuestion
from gui.file_work import FileWork
from gui.pages.benchmark_words import kept_title

Remove = Callable[[Path], None]


class BenchBin(QObject):
    """Asks and moves. One of it serves a page for as long as that lives.

    Signals:
        moved: Some are gone, or tried to; the list is to be read anew.
        failed: A `core.errors.UserError`: why one stayed.

    Args:
        window: What the questions belong to.
        remove: What moves a file.
    """

    moved = Signal()
    failed = Signal(object)

    def __init__(self, window: QWidget, remove: Remove = kept.remove) -> None:
        super().__init__(window)
        self._remove = remove
        self.asking = BinQuestion(window)
        self._work = FileWork(self)
        self._work.failed.connect(self._fail)

    def begin(self, results: Sequence[Kept]) -> None:
        """Ask whether they are to go. Returns at once."""
        if not results or self.asking.is_open:
            return
        if len(results) == 1:
            words = self.tr("Move “{}” to the bin?").format(kept_title(results[0]))
        else:
            words = self.tr("Move {} results to the bin?").format(numbers.count(len(results)))
        names = "\n".join(f"{kept_title(one)}, {numbers.moment(one.begun)}" for one in results[:6])
        back = self.tr("What lies in the bin can be put back until the bin is emptied.")
        paths = tuple(one.path for one in results)
        agree = self.tr("Move to the bin")
        self.asking.ask(words, f"{names}\n\n{back}", agree, lambda: self._move(paths))

    def end_work(self) -> None:
        """Put the question away, and wait for what is being moved."""
        self.asking.put_away()
        self._work.end_work()

    def _move(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._work.put(lambda path=path: self._remove(path), lambda _: self.moved.emit())  # type: ignore[misc]

    def _fail(self, error: UserError) -> None:
        self.failed.emit(error)
        self.moved.emit()
