"""Lists of models to start from: small ones made from nothing, and those of past runs."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget

from core import run_models, settings
from core.choices import Task
from core.run_folder import RunFolder
from core.runs import list_runs, run_title
from core.scratch_models import SCRATCH_MODELS
from core.sources import Scheme
from gui.run_titles import told_apart
from gui.widgets.choice_list import ChoiceList
from gui.widgets.segmented import Segment

_translate = QCoreApplication.translate

MOST_RUNS = 60


def scratch_segments(task: Task) -> list[Segment]:
    """The models from scratch that suit a task, those made for it first."""
    fitting = [
        (name, model) for name, model in SCRATCH_MODELS.items() if model.writes or not task.writes_text
    ]
    fitting.sort(key=lambda pair: pair[1].writes is not task.writes_text)
    return [Segment(Scheme.SCRATCH.of(name), model.title, model.help) for name, model in fitting]


def run_segments(task: Task, folder: Path) -> list[Segment]:
    """The past runs whose model can be trained on for a task, the newest first."""
    found = [
        run
        for run in list_runs(folder)[:MOST_RUNS]
        if run_models.problem_with(_source_of(run), task, is_new=True) is None
    ]
    titles = told_apart([(run.path, run_title(run)) for run in found])
    return [
        Segment(_source_of(run), title, _what_it_learned(run))
        for title, run in zip(titles, found, strict=True)
    ]


def _source_of(run: RunFolder) -> str:
    return Scheme.RUN.of(str(run.path.absolute()))


def title_of_source(source: str) -> str:
    """What the past run of `run:NAME` is called."""
    folder = run_models.run_folder(source)
    return run_title(RunFolder(folder)) if folder is not None else source


def _what_it_learned(run: RunFolder) -> str:
    learned = run_models.task_of(run.path)
    return learned.label if learned is not None else ""


class PastRunList(ChoiceList):
    """The past runs that fit; looked for each time the list is opened."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__((), parent)
        self._task = Task.TEXT_CLASSIFICATION
        self.setPlaceholderText(self.tr("Choose a run"))

    def set_task(self, task: Task) -> None:
        """Offer the runs that fit a task."""
        self._task = task

    def choose(self, value: str) -> None:
        """Choose a run, named by the folder's name or by its path."""
        if not value:
            self.setCurrentIndex(-1)
            return
        if self.findData(value) < 0:  # not looked for yet, or named by its folder's name
            super().choose(value)
            self.setItemText(self.findData(value), title_of_source(value))
        else:
            super().choose(value)

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        """Look for runs, then open."""
        self.look()
        super().showPopup()

    def look(self) -> None:
        """Look for runs; what is chosen stays chosen."""
        segments = run_segments(self._task, settings.runs_folder())
        if not segments:
            segments = [
                Segment("", self.tr("No run fits"), refusal=self.tr("None has a model for this task."))
            ]
        chosen = str(self.currentData() or "")
        self.set_choices(segments)
        self.choose(chosen)
