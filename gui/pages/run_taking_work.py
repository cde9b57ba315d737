"""What takes a while about taking a run elsewhere: asking the engine, reading long files, writing one."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from core import support
from core.jobs import EngineJob, JobCancelled
from core.report import save_report
from core.run_folder import RunFolder
from core.script import Ask, script_of_run
from core.support import SupportFile
from gui.engine_work import EngineWork

WriteScript = Callable[[RunFolder, Ask], str]
"""Writes a run as a script, as `core.script.script_of_run` does."""


class Scripting(EngineWork):
    """Writes the script of a run; `text` is it."""

    def __init__(self, run: RunFolder, parent: QObject, write: WriteScript = script_of_run) -> None:
        super().__init__(parent)
        self._run, self._write = run, write
        self._job: EngineJob | None = None
        self.text = ""

    def begin(self) -> None:
        """Each question starts its own process."""

    def work(self) -> None:
        """Ask what it takes, and write it."""
        self.text = self._write(self._run, self._ask)

    def _ask(self, name: str, request: bytes) -> bytes:
        with self._lock:
            if self.cancelled:
                raise JobCancelled(name)
            self._job = EngineJob(name)
        return self._job.ask(request)

    def kill(self) -> None:
        """End the question that is under way."""
        if self._job is not None:
            self._job.kill()


class _ByItself(EngineWork):
    """Work without an engine: files are read or written. It is over soon, and waited for."""

    def begin(self) -> None:
        """There is no process."""

    def kill(self) -> None:
        """There is none to end."""


class Reporting(_ByItself):
    """Saves the page of a run."""

    def __init__(self, run: RunFolder, path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._run, self.path = run, path

    def work(self) -> None:
        """Read the run, and write the page."""
        save_report(self._run, self.path)


class Collecting(_ByItself):
    """Reads and redacts what a support file is to hold; `files` is it."""

    def __init__(self, run: RunFolder, parent: QObject) -> None:
        super().__init__(parent)
        self._run = run
        self.files: tuple[SupportFile, ...] = ()

    def work(self) -> None:
        """Read and redact."""
        self.files = support.collect(self._run)


class Saving(_ByItself):
    """Saves a support file."""

    def __init__(self, files: tuple[SupportFile, ...], path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._files, self.path = files, path

    def work(self) -> None:
        """Write the zip."""
        support.save(self._files, self.path)
