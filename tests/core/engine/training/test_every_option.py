"""Every option of a run file reaches something: whoever adds one that does nothing finds it here.

Each option is changed by itself, beside those it needs, and what the engine makes of the run must change: Trainer's
arguments, the environment, the process, or the model, data and batches that it learns from.
"""

import csv
import os
from collections.abc import Callable, Iterator
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
from tests.fakes.building import resolved
from tests.fakes.tiny_bert import WORDS, save_tiny_bert

ROOT = Path(__file__).resolve().parents[4]

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
    "model.vocabulary": "tests/core/engine/tasks/test_causal_lm.py::test_it_starts_from_nothing_and_learns",
    "task": "tests/core/engine/training/test_compile.py::test_batch_norms_count_as_they_do_uncompiled",
    "device.processes": "tests/core/engine/devices/test_capabilities.py"
    "::test_a_choice_that_can_not_be_is_refused_with_its_reason_everywhere",
    "device.compile": "tests/core/engine/training/test_compile.py"
    "::test_one_compilation_serves_every_length_and_is_timed_apart",
    "device.compile_backend": "tests/core/engine/training/test_compile.py"
    "::test_a_back_end_that_fails_leaves_the_run_as_it_would_have_been",
    "device.compile_mode": "tests/core/engine/training/test_compile.py::test_inductor_gets_the_mode",
    "memory.offload_optimizer": "tests/core/engine/training/test_optimizers.py"
    "::test_an_optimizer_in_main_memory_gets_adamw_its_numbers_and_its_groups",
    "data.image_column": "tests/core/engine/data/test_image_tables.py::test_columns_can_be_chosen",
    "output.predictions": "tests/core/engine/generate/test_predict.py"
    "::test_the_same_examples_before_training_and_at_each_evaluation",
    "output.prompts": "tests/core/engine/generate/test_predict.py::test_prompts_of_ones_own_are_gone_on_from",
    "data.header": "tests/core/engine/data/test_headers.py::test_a_run_reads_training_and_evaluation_data_as_asked",
    "data.skip_bad_rows": "tests/core/engine/inspect/test_agreement.py"
    "::test_bad_rows_stop_a_run_and_can_be_left_out",
    "data.drop_duplicates": "tests/core/engine/inspect/test_agreement.py::test_repeats_can_be_left_out",
    "data.columns": "tests/core/engine/tasks/test_chat.py::test_columns_and_roles_say_what_is_what",
    "data.roles": "tests/core/engine/tasks/test_chat.py::test_columns_and_roles_say_what_is_what",
    "data.chat_template": "tests/core/engine/tasks/test_chat.py"
    "::test_the_models_own_template_is_used_unless_chatml_is_asked_for",
    "data.loss_on": "tests/core/engine/tasks/test_chat.py::test_everything_can_be_learned",
    "data.packing": "tests/core/engine/tasks/test_chat.py"
    "::test_packed_rows_hold_several_conversations_that_do_not_see_each_other",
    "training.beta": "tests/core/engine/tasks/test_preference.py::test_beta_holds_the_model_closer_to_what_it_was",
    "output.name": "tests/core/runs/test_runs.py::test_a_new_run_holds_what_was_asked_under_a_name_with_its_date",
    "output.keep_checkpoints": "tests/core/engine/training/test_callbacks.py::test_one_sealed_checkpoint_is_kept",
    "output.keep_best": "tests/core/engine/training/test_best.py::test_the_best_is_kept_and_becomes_the_model",
    "output.tensorboard": "tests/core/engine/training/test_tensorboard.py"
    "::test_a_run_writes_what_its_events_say_where_asked",
}
"""Options that no view below shows, and the test that does."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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
    from core.engine.tasks.text import prepare_classification as prepare

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
def test_changing_an_option_changes_the_run(option: Option, files: Path, tmp_path: Path) -> None:
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
    pytest.fail(f"{option.path} reaches nothing; if it is consumed elsewhere, name the test in ELSEWHERE")


def test_those_shown_elsewhere_are_options_and_their_tests_are_there() -> None:
    assert set(ELSEWHERE) <= set(options_by_path())
    for named in ELSEWHERE.values():
        file, _, test = named.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), named
