"""Folders of runs that are over, with a model in them that nobody had to train."""

from pathlib import Path
from typing import Any

import msgspec

from core.engine.environment import prepare_torchvision
from core.engine.models.parts import apply_method
from core.options import RunOptions, run_file
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions
from core.runs.events import Evaluated, Example, ExamplesChosen, RunStarted
from core.runs.folder import RunFolder
from tests.fakes.runs import write_events

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

    from core.engine.models.text import load_config, load_model, load_tokenizer

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
