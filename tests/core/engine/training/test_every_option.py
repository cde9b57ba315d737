"""Every option of a run file reaches something: whoever adds one that does nothing finds it here.

Each option is changed by itself, beside those it needs, and what the engine makes of the run must change: Trainer's
arguments, the environment, the process, or the model, data and batches that it learns from.
"""

import csv
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from core.engine import environment
from core.engine.environment import prepare_environment
from core.engine.reporter import Reporter
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_of
from core.options.choices import Task, Toggle
from core.options.data import DataOptions
from core.options.declare import Kind, Option
from core.options.sections import DeviceOptions, ModelOptions
from core.runs.folder import RunFolder
from tests.fakes.models import WORDS, save_tiny_bert
from tests.fakes.training import resolved

VALUES: dict[str, tuple[Any, ...]] = {
    "model.source": ("other",),
    "model.lora_targets": (("query",),),
    "data.train": ("more.csv",),
    "data.eval": ("more.csv",),
    "data.train_split": ("test",),
    "data.eval_split": ("test",),
    "data.text_columns": (("title",),),
    "data.label_column": ("mood",),
    "data.max_length": (8,),
    "data.max_train_samples": (12,),
    "data.max_eval_samples": (1,),
    "device.name": ("cuda:1",),
    "memory.offload_folder": ("/fast",),
}
"""What to change an option to where no other value can be made up; files are those of `files`."""

ELSEWHERE = {
    "data.chat_template",
    "data.columns",
    "data.drop_duplicates",
    "data.header",
    "data.image_column",
    "data.loss_on",
    "data.packing",
    "data.roles",
    "data.skip_bad_rows",
    "device.compile",
    "device.compile_backend",
    "device.compile_mode",
    "device.processes",
    "memory.offload_optimizer",
    "model.vocabulary",
    "output.keep_best",
    "output.keep_checkpoints",
    "output.name",
    "output.predictions",
    "output.prompts",
    "output.tensorboard",
    "task",
    "training.beta",
}
"""Options that no view below shows: their own tests do, such as those of chats, predictions and compiling."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two models and two tables."""
    folder = tmp_path_factory.mktemp("files")
    save_tiny_bert(folder / "bert")
    save_tiny_bert(folder / "other", num_hidden_layers=2)
    (folder / "split").mkdir()
    for name, rows in (
        ("reviews.csv", 24),
        ("more.csv", 30),
        ("split/train.csv", 20),
        ("split/test.csv", 18),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["title", "text", "label", "mood"])
            for row in range(rows):
                words = " ".join(WORDS[(row + word) % len(WORDS)] for word in range(12))
                writer.writerow(
                    [WORDS[row % 5], words, ("no", "yes")[row % 2], ("dull", "keen")[row % 3 > 0]]
                )
    return folder


@pytest.fixture(autouse=True)
def process(tmp_path, monkeypatch):
    """Put back what the process has: its variables and its threads."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    before, threads = dict(os.environ), torch.get_num_threads()
    yield
    os.environ.clear()
    os.environ.update(before)
    torch.set_num_threads(threads)


def plain(files: Path, option: Option) -> RunOptions:
    """A run beside which `option` means something."""
    of_images = options_by_path()["data.image_size"].needs == option.needs
    divided = "split" if option.path.endswith("_split") else "reviews.csv"
    options = RunOptions(
        task=Task.IMAGE_CLASSIFICATION if of_images else Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(files / "bert")),
        data=DataOptions(
            train="builtin:digits" if of_images else str(files / divided),
            text_columns=("text",),
            label_column="label",
            max_length=32,
            workers=1,
            group_by_length=Toggle.OFF,
        ),
        device=DeviceOptions(threads=1),
    )
    for path, needed in reversed(_needs(option)):
        if value_of(options, path) not in needed:
            options = changed(options, path, needed[0])
    assert option.applies_to(options)
    return options


def _needs(option: Option) -> list[tuple[str, tuple[Any, ...]]]:
    """What an option needs, and what that needs."""
    found = list(option.needs.items())
    return found + [further for path, _ in found for further in _needs(options_by_path()[path])]


def changed(options: RunOptions, path: str, value: Any) -> RunOptions:
    section, _, name = path.rpartition(".")
    if not section:
        return msgspec.structs.replace(options, **{name: value})
    replaced = msgspec.structs.replace(getattr(options, section), **{name: value})
    return msgspec.structs.replace(options, **{section: replaced})


def other_values(option: Option, now: Any, files: Path) -> tuple[Any, ...]:
    """What `option` could be in place of `now`."""
    if option.path in VALUES:
        found = VALUES[option.path]
        names = [path.name for path in files.iterdir()]
        return tuple(str(files / value) if value in names else value for value in found)
    match option.kind:
        case Kind.SWITCH:
            return (not now,)
        case Kind.CHOICE:
            return tuple(value for value in option.value_type if value != now)
        case Kind.WHOLE:
            return (1 if now is None else now + 1,)
        case Kind.NUMBER:
            return (now / 2 or 0.25,)
    return pytest.fail(f"{option.path} needs a line in VALUES")


def of_trainer(options: RunOptions, folder: Path) -> Any:
    run = resolved(options, "cuda:0")
    return trainer_arguments(run, folder / "checkpoints", has_eval=True)


def of_process(options: RunOptions, folder: Path) -> Any:
    prepare_environment(options)
    environment.apply(options)
    return dict(os.environ), torch.get_num_threads()


def of_task(options: RunOptions, folder: Path) -> Any:
    """The data, a batch of it, and the model with what of it learns."""
    if options.task is Task.IMAGE_CLASSIFICATION:
        from core.engine.data.images import load_image_data

        return load_image_data(options).size
    from core.engine.tasks.text import prepare

    (folder / "run").mkdir(exist_ok=True)
    prepared = prepare(options, Reporter(RunFolder(folder / "run")))
    model: Any = prepared.model
    batch = prepared.collator([prepared.train[0], prepared.train[1]])
    adapters = getattr(model, "peft_config", {})
    return (
        [list(prepared.train), list(prepared.eval or ())],
        {name: value.tolist() for name, value in batch.items()},
        {name: (weight.sum().item(), weight.dtype) for name, weight in model.state_dict().items()},
        [name for name, weight in model.named_parameters() if weight.requires_grad],
        {name: str(sorted(config.to_dict().items(), key=str)) for name, config in adapters.items()},
        model.config._attn_implementation,
    )


VIEWS: dict[str, tuple[Callable[[RunOptions, Path], Any], ...]] = {
    "model": (of_task,),
    "data": (of_trainer, of_task),
    "device": (of_trainer, of_process),
    "memory": (of_trainer,),
    "training": (of_trainer,),
    "output": (of_trainer,),
}


@pytest.mark.parametrize(
    "option", [found for found in all_options() if found.path not in ELSEWHERE], ids=lambda found: found.path
)
def test_changing_an_option_changes_the_run(option, files, tmp_path):
    if "qlora" in str(option.needs) and "lora_" not in option.name and find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed")
    asked = plain(files, option)
    now = value_of(asked, option.path)
    views = VIEWS[option.section]
    before = [view(asked, tmp_path) for view in views]
    assert [view(asked, tmp_path) for view in views] == before, "what differs by itself shows nothing"
    for value in other_values(option, now, files):
        if option.path == "model.attention" and value.startswith("flash"):
            continue  # loading a model so needs the package
        if option.path == "model.method" and value == "qlora" and find_spec("bitsandbytes") is None:
            continue
        if [view(changed(asked, option.path, value), tmp_path) for view in views] != before:
            return
    pytest.fail(f"{option.path} reaches nothing; if it is consumed elsewhere, name it in ELSEWHERE")


def test_those_shown_elsewhere_are_options():
    assert set(options_by_path()) >= ELSEWHERE
