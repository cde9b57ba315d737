"""Short runs that really train, are paused, saved or stopped at a given step; and finished runs with a model."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.engine.environment import prepare_torchvision
from core.engine.models.method import apply_method
from core.engine.reporter import Reporter
from core.engine.run.checkpoints import find_checkpoint
from core.options import RunOptions, run_file
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    Action,
    Evaluated,
    Event,
    Example,
    ExamplesChosen,
    MessageRaised,
    Outcome,
    RunFinished,
    RunStarted,
    StepFinished,
)
from core.runs.folder import RunFolder
from core.runs.status import IN_BOTH
from tests.fakes.runs import write_events

# --- Runs of seconds that are asked to pause, save or stop at a given step


prepare_torchvision()

Asked = Mapping[int, Action | Callable[[], None]]
"""What is asked, or done, after which step."""


@dataclass(frozen=True)
class Story:
    """What counts of a run: the figures of each step and evaluation, as a reader of its events shows them."""

    steps: dict[int, tuple[Any, ...]]
    evaluations: dict[int, dict[str, Any]]
    events: list[Event]
    last: RunFinished | None

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ended(self) -> tuple[Outcome, int]:
        """Outcome and step of the last attempt that ended."""
        assert self.last is not None
        return self.last.state, self.last.steps

    @property
    def messages(self) -> dict[str, MessageRaised]:
        """By id, without the one that tiny data repeat themselves."""
        return {event.id: event for event in self.of(MessageRaised) if event.id != IN_BOTH}


def story_of(run: RunFolder) -> Story:
    """Read a run's events; steps that an attempt took back are gone."""
    steps: dict[int, tuple[Any, ...]] = {}
    evaluations: dict[int, dict[str, Any]] = {}
    last = None
    events = EventReader(run.events_file).read_all()
    for event in events:
        match event:
            case RunStarted():
                steps = {step: told for step, told in steps.items() if step <= event.from_step}
                evaluations = {step: told for step, told in evaluations.items() if step <= event.from_step}
            case StepFinished():
                steps[event.step] = (
                    event.loss,
                    event.grad_norm,
                    event.learning_rate,
                    event.samples,
                    event.epoch,
                )
            case Evaluated():
                evaluations[event.step] = event.metrics
            case RunFinished():
                last = event
    return Story(steps, evaluations, events, last)


def attempt(
    folder: Path, options: RunOptions, asked: Asked | None = None, while_evaluating: bool = False
) -> int:
    """One attempt as the engine makes it, from the newest checkpoint on; returns its exit status."""
    from core.engine import train

    folder.mkdir(exist_ok=True)
    run = RunFolder(folder)
    start = find_checkpoint(run)
    reporter = Reporter(run)
    reporter.start({}, start.step)
    start.warn(reporter)
    with _asking(run, asked or {}, while_evaluating):
        return train.train_run(run, options, reporter, start.checkpoint)


def in_attempts(folder: Path, options: RunOptions, *steps: int) -> Story:
    """Pause after each of `steps`, going on each time; then to the end."""
    for step in steps:
        assert attempt(folder, options, {step: Action.PAUSE}) == 0
    assert attempt(folder, options) == 0
    return story_of(RunFolder(folder))


@contextmanager
def _asking(run: RunFolder, asked: Asked, while_evaluating: bool) -> Iterator[None]:
    from transformers import TrainerCallback

    from core.engine import train

    class Asking(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            wanted = None if while_evaluating else asked.get(state.global_step)
            if isinstance(wanted, Action):
                run.request(wanted)
            elif wanted is not None:
                wanted()

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            wanted = asked.get(state.global_step) if while_evaluating else None
            if isinstance(wanted, Action) and not run.open_requests():
                run.request(wanted)

    build = train.build_trainer

    def build_asking(*args: Any) -> Any:
        trainer = build(*args)
        trainer.add_callback(Asking())
        return trainer

    train.build_trainer = build_asking
    try:
        yield
    finally:
        train.build_trainer = build


# --- Folders of runs that are over, with a model in them that nobody had to train


METRICS = {"eval_accuracy": 0.875, "eval_loss": 0.5}


def finished_run(
    folder: Path, task: Task, source: Path | str, given: tuple[str, ...] = (), **model: Any
) -> tuple[RunFolder, RunOptions]:
    """A run's folder without its model: what was asked, that it started, was evaluated, and what it was asked about."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    options = RunOptions(
        task=task,
        model=ModelOptions(source=str(source), **model),
        data=DataOptions(train="/home/somebody/secret-place/reviews.csv", max_length=64),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
    )
    run_file.write(options, run.options_file)
    events = [
        RunStarted(versions={"torch": "2.13.0"}),
        Evaluated(step=3, epoch=1.0, metrics=METRICS, seconds=0.1),
    ]
    chosen = ExamplesChosen(examples=tuple(Example(given=text) for text in given))
    write_events(run.events_file, *events, *([chosen] if given else []))
    return run, options


def with_model(run: RunFolder, options: RunOptions, labels: tuple[str, ...] = ()) -> Any:
    """Save what a run of these options would, its weights moved a little; returns the model."""
    prepare_torchvision()
    import torch

    from core.engine.models.pretrained import load_tokenizer
    from core.engine.models.text import load_config, load_model

    tokenizer = load_tokenizer(options.model.source)
    loaded = load_model(options, load_config(options), labels, tokenizer)
    model: Any = apply_method(loaded.model, options, loaded.fresh)
    with torch.no_grad():
        noise = torch.Generator().manual_seed(5)
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn(weight.shape, generator=noise), alpha=0.1)
    model.save_pretrained(str(run.model))
    tokenizer.save_pretrained(str(run.model))
    if options.task.writes_text:
        loaded.model.generation_config.save_pretrained(str(run.model))
    return model.eval()


def with_network(run: RunFolder, options: RunOptions, size: int = 64) -> Any:
    """The same of a network of torchvision's."""
    prepare_torchvision()
    from safetensors.torch import save_file

    from core.engine.models.vision import RECIPE, VisionRecipe, load_vision_model

    labels = ("cat", "dog", "owl")
    model = load_vision_model(options.model, len(labels), 3).eval()
    run.model.mkdir()
    save_file(model.state_dict(), run.model / "model.safetensors")
    recipe = VisionRecipe(
        architecture=options.model.source,
        labels=labels,
        image_size=size,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )
    (run.model / RECIPE).write_bytes(msgspec.json.encode(recipe))
    return model
