"""Runs that learn to chat from what a test has written into a folder: its `writer` and its `talks.json`."""

from pathlib import Path
from typing import Any

from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from tests.fakes.building import options


def asked(folder: Path, *, method: Method = Method.FULL, **more: Any) -> RunOptions:
    sections = {name: more.pop(name) for name in ("memory", "training", "device") if name in more}
    data = {"train": str(folder / "talks.json"), "max_length": 128, "eval_fraction": 0.0, **more}
    model = ModelOptions(source=str(folder / "writer"), method=method)
    return options(Task.CHAT, model, DataOptions(**data), **sections)


def prepared(asked_for: RunOptions) -> Any:
    from core.engine.reporter import Reporter
    from core.engine.training.train import prepare

    return prepare(asked_for, Reporter(None))
