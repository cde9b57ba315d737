"""What the pictures of Try it show: invented runs with a model, and invented answers of it and of the one before."""

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor, QImage, QPainter

from core import run_file
from core.choices import Task
from core.events import ExamplesChosen, encode
from core.options import DataOptions, ModelOptions, OutputOptions, RunOptions
from core.predictions import Example
from core.run_folder import RunFolder
from core.sources import short_name
from core.trying import (
    Answered,
    Ask,
    Chance,
    EndedBy,
    Load,
    Loaded,
    Said,
    Told,
    Which,
    Word,
)
from core.trying_process import TryProcess
from core.trying_room import Verdict
from gui.pages.try_it import TryPage
from gui.pages.try_question import Question
from gui.theme import Theme
from gui.window import MainWindow

TEXT = "Ada Lovelace wrote to Charles Babbage from London."
RECIPE = "How do I keep basil alive on a window sill?"
SHOTS: dict[str, tuple[Task, str, str, str]] = {
    "chat": (Task.CHAT, "Kitchen helper", "qwen2.5-0.5b", "/data/kitchen.jsonl"),
    "text": (Task.TEXT_CLASSIFICATION, "Reviews by stars", "distilbert-base-uncased", "/data/reviews.csv"),
    "words": (Task.TOKEN_CLASSIFICATION, "Names in letters", "bert-base-cased", "/data/letters.conll"),
    "number": (Task.TEXT_REGRESSION, "How helpful", "distilbert-base-uncased", "/data/helpful.csv"),
    "image": (Task.IMAGE_CLASSIFICATION, "Handwritten digits", "torchvision:resnet18", "builtin:digits"),
}
"""By the picture's name: what the run learned, what it is called, the model and the data."""

EXAMPLES = {
    "chat": ("What can I cook from rice and one egg?", "How long does bread dough rest?"),
    "text": ("Warm and quick, but the handle broke.", "Would buy it again at once."),
    "words": (TEXT, "Greetings from Turin, yours, Amedeo."),
    "number": ("Hold the lid while you pour, it drips.", "Nice colour."),
}
ANSWERS = {
    Which.TRAINED: "Give it light and little water: pour into the saucer when the top of the soil is dry. Pinch off "
    "the tips above a pair of leaves every week, and it grows bushy instead of tall.",
    Which.BEFORE: "Basil is a herb of the mint family that is used in many kitchens of the world. Basil is a herb "
    "that needs light. Basil is",
}
ASK_MS = 500
"""When the page has read which runs there are."""
DIGITS = {Which.TRAINED: (0.962, 0.021, 0.009), Which.BEFORE: (0.148, 0.131, 0.122)}


class InventedTry(TryProcess):
    """In place of a model's process: loads at once, and answers from the texts above."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._task = RunFolder(Path(load.run)).options().task
        self._heard: SimpleQueue[Said | None] = SimpleQueue()

    def say(self, said: Said) -> None:
        """Hear what is asked."""
        self._heard.put(said)

    def lines(self) -> Iterator[Told]:
        """The model is there, and answers."""
        yield Loaded(name="", task=self._task, device="mps", dtype="bf16")
        while (said := self._heard.get()) is not None:
            if isinstance(said, Ask):
                yield _answer(said, self._load.which, self._task)

    def kill(self) -> None:
        """End it."""
        self._heard.put(None)


def _answer(asked: Ask, which: Which, task: Task) -> Answered:
    _, title, model, _ = next(shot for shot in SHOTS.values() if shot[0] is task)
    is_trained = which is Which.TRAINED
    plain = Answered(
        id=asked.id,
        name=title if is_trained else short_name(model),
        seconds=1.31 if task.writes_text else 0.021,
        device="mps",
        dtype="bf16",
        read=31,
    )
    return msgspec.structs.replace(plain, **_said(asked, which, task))


def _said(asked: Ask, which: Which, task: Task) -> dict[str, Any]:
    is_trained = which is Which.TRAINED
    match task:
        case Task.CHAT:
            ended = EndedBy.MODEL if is_trained else EndedBy.LENGTH
            return {"text": ANSWERS[which], "tokens": 44 if is_trained else 32, "ended_by": ended}
        case Task.TEXT_CLASSIFICATION:
            chances = (0.71, 0.18, 0.08, 0.02, 0.01) if is_trained else (0.22, 0.21, 0.2, 0.19, 0.18)
            return {
                "chances": tuple(map(Chance, ("4 stars", "3 stars", "5 stars", "2 stars", "1 star"), chances))
            }
        case Task.TOKEN_CLASSIFICATION:
            return {"words": _words(is_trained=is_trained)}
        case Task.TEXT_REGRESSION:
            return {"number": 4.31 if is_trained else -0.0724}
        case _:
            rest = (1 - sum(DIGITS[which])) / 7
            others = (rest * (1.3 - 0.1 * place) for place in range(7))
            return {"chances": tuple(map(Chance, "7192384650", (*DIGITS[which], *others)))}


def _words(*, is_trained: bool) -> tuple[Word, ...]:
    labels = ("B-PER", "I-PER", "O", "O", "B-PER", "I-PER", "O", "B-PLACE")
    guessed = labels if is_trained else ("O", "B-PLACE", "O", "O", "O", "B-PER", "O", "O")
    places = []
    for word in TEXT.removesuffix(".").split(" "):
        start = TEXT.index(word)
        places.append((start, start + len(word)))
    return tuple(Word(start, end, label, 0.9) for (start, end), label in zip(places, guessed, strict=True))


def make_tried_runs(folder: Path) -> dict[str, RunFolder]:
    """Write the folders of the runs that are tried."""
    return {name: _make_run(folder / f"2026-11-2{place}-{name}", name) for place, name in enumerate(SHOTS)}


def _make_run(path: Path, name: str) -> RunFolder:
    task, title, model, data = SHOTS[name]
    run = RunFolder(path)
    run.model.mkdir(parents=True, exist_ok=True)
    (run.model / "model.safetensors").touch()
    options = RunOptions(
        task=task,
        model=ModelOptions(source=model),
        data=DataOptions(train=data),
        output=OutputOptions(name=title),
    )
    run_file.write(options, run.options_file)
    expected = {"text": ("4 stars", "5 stars"), "number": ("4.5", "2")}.get(name, ("", ""))
    shown = tuple(
        Example(given=text, expected=right, is_own=task.writes_text)
        for text, right in zip(EXAMPLES.get(name, ()), expected, strict=False)
    )
    if task.reads_images:
        shown = tuple(_digit(run, digit) for digit in "7301942")
    run.events_file.write_bytes(encode(ExamplesChosen(examples=shown, time=0.0, attempt=1)))
    return run


def _digit(run: RunFolder, digit: str) -> Example:
    picture = QImage(64, 64, QImage.Format.Format_RGB32)
    picture.fill(QColor("black"))
    painter = QPainter(picture)
    painter.setPen(QColor("white"))
    font = painter.font()
    font.setPixelSize(52)
    painter.setFont(font)
    painter.drawText(picture.rect(), Qt.AlignmentFlag.AlignCenter, digit)
    painter.end()
    path = run.path / "examples" / f"{digit}.png"
    path.parent.mkdir(exist_ok=True)
    picture.save(str(path))
    return Example(image=f"examples/{digit}.png", expected=digit)


def ask_shown(page: TryPage, name: str) -> None:
    """Ask what a picture shows."""
    if name == "chat":
        page.input.asked.emit(Question(texts=(RECIPE,)))
    else:
        page.input.examples.buttons[0].click()


def room_for_all(*_asked: object, **_more: object) -> Verdict:
    """There is room, whatever else is running."""
    return Verdict(tuple(Which))


class TryShots:
    """Brings the page Try it to an answer of each kind.

    Args:
        window: The window, whose page isn't made yet.
        theme: Colours.
        folder: Where the runs are written that are tried.
    """

    def __init__(self, window: MainWindow, theme: Theme, folder: Path) -> None:
        self._window = window
        self._runs = make_tried_runs(folder)
        self._page = TryPage(theme, lambda: folder, InventedTry, room_for_all)
        window.pages.try_it = self._page

    def show(self, name: str) -> None:
        """Choose a run and ask its models."""
        self._window.try_run(self._runs[name])
        QTimer.singleShot(ASK_MS, lambda: ask_shown(self._page, name))
