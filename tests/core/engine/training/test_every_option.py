"""Every option of a run file reaches something: whoever adds one that does nothing finds it here.

Each option is changed by itself, beside those it needs, and what the engine makes of the run must change: Trainer's
arguments, the environment, the process, or the model, data and batches that it learns from.
"""

import csv
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from core.engine import environment
from core.engine.data.images import load_image_data
from core.engine.reporter import Reporter
from core.engine.tasks import text
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_of
from core.options.choices import Task, Toggle
from core.options.declare import Option, OptionKind
from tests.fakes.models import WORDS, save_tiny_bert
from tests.fakes.training import options_of, resolved

VALUES: dict[str, Any] = {
    "model.source": "other",
    "model.lora_targets": ("query",),
    "data.train": "more.csv",
    "data.eval": "more.csv",
    "data.train_split": "test",
    "data.eval_split": "test",
    "data.text_columns": ("title",),
    "data.label_column": "mood",
    "data.max_length": 8,
    "data.max_train_samples": 12,
    "data.max_eval_samples": 1,
    "data.pad_to_multiple_of": 16,
    "device.name": "cuda:1",
    "memory.offload_folder": "/fast",
}
"""Another value of the options for which none can be made up; files are those of `files`."""

ELSEWHERE = {
    "data.chat_template",
    "data.columns",
    "data.drop_duplicates",
    "data.header",
    "data.image_column",
    "data.image_fit",  # the digits are square
    "data.label_names",
    "data.loss_on",
    "data.packing",
    "data.roles",
    "data.skip_bad_rows",
    "device.backend",
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
    "output.save_model",
    "output.tensorboard",
    "task",
    "training.beta",
    "training.early_stopping_patience",
    "training.early_stopping_threshold",
    "training.metric_for_best_model",
    "training.preference_loss",
}
"""Options whose effect is held by tests of their own, such as those of chats, predictions and compiling."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two models and some tables."""
    folder = tmp_path_factory.mktemp("files")
    save_tiny_bert(folder / "bert")
    save_tiny_bert(folder / "other", num_hidden_layers=2)
    (folder / "split").mkdir()
    for name, rows in {
        "reviews.csv": 24,
        "more.csv": 30,
        "split/train.csv": 20,
        "split/test.csv": 18,
    }.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["title", "text", "label", "mood"])
            for row in range(rows):
                words = " ".join(WORDS[(row + word) % len(WORDS)] for word in range(12))
                writer.writerow([WORDS[row % 5], words, row % 2, row % 3 > 0])
    return folder


@pytest.fixture(autouse=True)
def threads_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def plain(files: Path, option: Option) -> RunOptions:
    """A run beside which `option` means something."""
    of_images = option.needs.get("task") == (Task.IMAGE_CLASSIFICATION,)
    table = files / ("split" if option.path.endswith("_split") else "reviews.csv")
    options = options_of(
        Task.IMAGE_CLASSIFICATION if of_images else Task.TEXT_CLASSIFICATION,
        source=files / "bert",
        train="builtin:digits" if of_images else table,
        text_columns=("text",),
        label_column="label",
        max_length=32,
        workers=1,
        group_by_length=Toggle.OFF,
        threads=1,
    )
    for path, values in reversed(_needs(option)):
        if value_of(options, path) not in values:
            options = changed(options, path, values[0])
    assert option.applies_to(options)
    return options


def _needs(option: Option) -> list[tuple[str, tuple[Any, ...]]]:
    """What an option needs, and what that needs; defaults need nothing."""
    found = [
        (path, values)
        for path, values in option.needs.items()
        if path == "task" or options_by_path()[path].default not in values
    ]
    return found + [further for path, _ in found for further in _needs(options_by_path()[path])]


def changed(options: RunOptions, path: str, value: Any) -> RunOptions:
    section, _, name = path.rpartition(".")
    replaced = msgspec.structs.replace(getattr(options, section), **{name: value})
    return msgspec.structs.replace(options, **{section: replaced})


def other_values(option: Option, now: Any, files: Path) -> tuple[Any, ...]:
    """What `option` could be in place of `now`."""
    if option.path in VALUES:
        value = VALUES[option.path]
        is_file = isinstance(value, str) and (files / value).exists()
        return (str(files / value) if is_file else value,)
    match option.kind:
        case OptionKind.SWITCH:
            return (not now,)
        case OptionKind.CHOICE:  # flash attention and QLoRA need packages
            absent = () if find_spec("bitsandbytes") else ("qlora",)
            return tuple(
                value
                for value in option.value_type
                if value not in (now, *absent) and not value.startswith("flash")
            )
        case OptionKind.WHOLE:
            return (1 if now is None else now + 1,)
        case OptionKind.NUMBER:
            return (now / 2 or 0.25,)
    return pytest.fail(f"{option.path} needs a line in VALUES")


def of_trainer(options: RunOptions) -> Any:
    return trainer_arguments(resolved(options, "cuda:0"), Path("checkpoints"), has_eval=True)


def of_process(options: RunOptions) -> Any:
    environment.prepare_environment(options)
    environment.apply(options)
    return dict(os.environ), torch.get_num_threads()


def of_task(options: RunOptions) -> Any:
    """The data, a batch of it, and the model with what of it learns."""
    if options.task is Task.IMAGE_CLASSIFICATION:
        data = load_image_data(options)
        return data.size, [data.train[index]["pixel_values"].tolist() for index in range(8)]
    prepared = text.prepare(options, Reporter(None))
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


MADE: dict[str, Any] = {}


def of_task_once(options: RunOptions) -> Any:
    """Made once of the same options: most options are changed in the same run."""
    key = repr(options)
    MADE[key] = MADE[key] if key in MADE else of_task(options)
    return MADE[key]


VIEWS = {
    "model": (of_task_once,),
    "data": (of_trainer, of_task_once),
    "device": (of_trainer, of_process),
    "memory": (of_trainer,),
    "training": (of_trainer,),
    "output": (of_trainer,),
}
OPTIONS = [option for option in all_options() if option.path not in ELSEWHERE]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.path)
def test_changing_an_option_changes_the_run(option, files):
    if "qlora" in str(option.needs) and "lora_" not in option.name and find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed")
    options, views = plain(files, option), VIEWS[option.section]
    before = [view(options) for view in views]
    for value in other_values(option, value_of(options, option.path), files):
        if [view(changed(options, option.path, value)) for view in views] != before:
            return
    pytest.fail(f"{option.path} reaches nothing; if it is consumed elsewhere, name it in ELSEWHERE")


def test_the_same_options_give_the_same_run(files):
    options = plain(files, options_by_path()["data.max_length"])
    assert of_task(options) == of_task(options)
    assert set(options_by_path()) >= ELSEWHERE
