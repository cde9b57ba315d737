"""Runs of seconds that are asked to pause, save or stop at a given step, and go on in a new attempt, in one process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.engine.training.checkpoints import find_checkpoint
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import Evaluated, Event, RunFinished, RunStarted, StepFinished
from core.runs.folder import Action, RunFolder

prepare_torchvision()

Asked = Mapping[int, Action | Callable[[], None]]
"""What is asked, or done, after which step."""


def short_run(**sections: Any) -> RunOptions:
    """A run in fp32 on the CPU; sections not given are those of a few steps on random texts."""
    return RunOptions(
        **{
            "task": Task.TEXT_CLASSIFICATION,
            "data": DataOptions(train="synthetic:16x8"),
            "device": DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
            "memory": MemoryOptions(batch_size=4),
            "training": TrainingOptions(epochs=2.0, learning_rate=1e-2),
            **sections,
        }
    )


@dataclass(frozen=True)
class Story:
    """What counts of a run: the figures of each step and evaluation, as a reader of its events shows them."""

    steps: dict[int, tuple[Any, ...]]
    evaluations: dict[int, dict[str, Any]]
    events: list[Event]
    last: RunFinished | None

    def attempt(self, number: int) -> list[Event]:
        return [event for event in self.events if event.attempt == number]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


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
    from core.engine.training import train

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

    from core.engine.training import requests, train

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

    build, between = train.build_trainer, requests.POLL_INTERVAL

    def build_asking(*args: Any) -> Any:
        trainer = build(*args)
        trainer.add_callback(Asking())
        return trainer

    train.build_trainer, requests.POLL_INTERVAL = build_asking, 0.0
    try:
        yield
    finally:
        train.build_trainer, requests.POLL_INTERVAL = build, between
