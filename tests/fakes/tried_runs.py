"""Tiny runs that are over and can be tried: trained in this process, with the run file that a real one has."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.engine.generate.chat_job import inference_options
from core.options import RunOptions, run_file
from core.options.choices import Precision
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import Example, ExamplesChosen, Predicted, Said
from core.runs.folder import RunFolder
from core.services.chat import Answered, Ask, Given, Load, Piece, Which, Writing
from tests.fakes.tiny_training import train

if TYPE_CHECKING:
    from core.engine.generate.loading import TriedModel


def tried(folder: Path, **sections: Any) -> RunFolder:
    """Train in the new folder `folder` and write what was asked beside it."""
    asked = {
        "device": DeviceOptions(name="cpu", precision=Precision.FP32),
        "memory": MemoryOptions(batch_size=8),
        "training": TrainingOptions(epochs=1.0, learning_rate=1e-2),
        "output": OutputOptions(predictions=4),
        **sections,
    }
    run = train(folder, **asked)
    assert run.status == 0, run.messages
    run_file.write(RunOptions(**asked), run.run.options_file)
    return run.run


def examples(run: RunFolder) -> tuple[Example, ...]:
    return next(event for event in _events(run) if isinstance(event, ExamplesChosen)).examples


def first_and_last(run: RunFolder) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
    """What was said before training, and at last."""
    told = [event for event in _events(run) if isinstance(event, Predicted)]
    return told[0].said, told[-1].said


def _events(run: RunFolder) -> list[Any]:
    return EventReader(run.events_file).read_all()


def load(run: RunFolder, which: Which = Which.TRAINED) -> "TriedModel":
    from core.engine.generate.loading import load_model

    return load_model(run, inference_options(run.options(), Load(run=str(run.path), which=which)), which)


class Received:
    """Collects pieces of text, and stops the answer after so many; None: never."""

    def __init__(self, pieces: int | None = None) -> None:
        self.pieces: list[str] = []
        self._most = pieces

    def should_stop(self) -> bool:
        return self._most is not None and len(self.pieces) >= self._most

    def add(self, told: Any) -> None:
        assert isinstance(told, Piece)
        self.pieces.append(told.text)


def ask(model: "TriedModel", given: Given, received: Received | None = None, **writing: Any) -> Answered:
    from core.engine.generate.chat_job import answer

    received = received or Received()
    asked = Ask(id=1, given=given, writing=Writing(**writing))
    return answer(model, asked, received.add, received.should_stop)
