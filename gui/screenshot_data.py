"""The pictures of the card about the data: each task with its data, each view of it, and what is wrong with it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer

from core.choices import Task
from gui.pages.new_run_tasks import starting_tree
from gui.window import MainWindow

AFTER_READING_MS = 900

FILES = {
    Task.TEXT_CLASSIFICATION: "paraphrases.tsv",
    Task.TEXT_REGRESSION: "scores.csv",
    Task.TOKEN_CLASSIFICATION: "names.conll",
    Task.CAUSAL_LM: "plays.txt",
    Task.CHAT: "instructions.json",
    Task.PREFERENCE: "answers.json",
    Task.IMAGE_CLASSIFICATION: "pets",
}
SEEN, LENGTHS = 1, 2
WRITER = "SmolLM2-135M-Instruct"
"""The folder of a model that can say something, for the tasks in which it has to: one from scratch can't chat yet."""


class DataShots:
    """Brings the New run page into the states of its card about the data.

    Args:
        window: The window.
        model: The folder of a model that reads texts.
        folder: Where the invented data lies.
    """

    def __init__(self, window: MainWindow, model: Path, folder: Path) -> None:
        self._window = window
        self._model = model
        self._folder = folder
        (folder / WRITER).mkdir()
        for name in ("config.json", "model.safetensors"):
            (folder / WRITER / name).touch()
        for task, name in FILES.items():
            path = folder / name
            if task.reads_images:
                path.mkdir()
            else:
                path.write_text("{}")

    def shots(self) -> dict[str, Callable[[], None]]:
        """What brings the window to each picture, by its name."""
        made = {f"data-{task.value}": partial(self._show, task) for task in Task}
        return {
            **made,
            "data-sees-chat": lambda: self._show(Task.CHAT, lambda: self._turn_to(SEEN)),
            "data-sees-pair": lambda: self._show(Task.PREFERENCE, lambda: self._turn_to(SEEN)),
            "data-lengths": lambda: self._show(Task.CHAT, lambda: self._turn_to(LENGTHS)),
            "data-findings": lambda: self._show(
                Task.CHAT, lambda: self._window.new_run.go_to_option("data.max_length")
            ),
        }

    def _show(self, task: Task, then: Callable[[], None] | None = None) -> None:
        tree = starting_tree(task)
        tree["data"]["train"] = str(self._folder / FILES[task])
        if task.writes_text:
            tree["model"]["source"] = str(self._folder / WRITER)
        elif task.reads_text:
            tree["model"]["source"] = str(self._model)
        if task is Task.CHAT:
            tree["data"]["max_length"] = 512
        self._window.edit(tree)
        QTimer.singleShot(AFTER_READING_MS, lambda: self._turn_to(0))
        if then is not None:
            QTimer.singleShot(AFTER_READING_MS, then)

    def _turn_to(self, view: int) -> None:
        self._window.new_run.data_views.setCurrentIndex(view)
