"""Presets are run files that read without a problem and change what their titles say."""

from pathlib import Path

import pytest

from core.options import Tree, run_file
from core.options.catalogue import copied, options_by_path, put, value_at
from core.options.choices import Task
from core.options.method_rules import starting_options
from core.options.presets import Preset, differences, presets
from core.options.presets import find_preset as find
from core.options.validate import check_tree, read_options


def applied(tree: Tree, preset: Preset) -> Tree:
    """A copy of `tree` with the preset laid over it, as the form lays it."""
    copy = copied(tree)
    put(copy, {found.path: found.after for found in differences(tree, preset)})
    return copy


EXAMPLES = sorted(Path(__file__).parents[3].glob("resources/examples/*.hone"))
EACH = pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)


def test_there_are_those_that_were_promised() -> None:
    assert [preset.name for preset in presets()] == ["fits-in-8-gb", "fastest", "published-guide"]
    assert find("fastest") is presets()[1]
    assert find("slowest") is None


@EACH
def test_each_has_words_and_reads_without_a_problem(preset: Preset) -> None:
    assert preset.title
    assert preset.help.endswith(".")
    tree = applied(run_file.to_tree(starting_options(Task.TEXT_CLASSIFICATION)), preset)
    options, problems = read_options(tree)
    assert options is not None
    assert problems == ()


@EACH
def test_each_sets_the_same_from_wherever_it_starts(preset: Preset) -> None:
    """A form full of other choices comes out as a fresh one does, in all that training depends on."""
    odd = {
        "model": {"source": "x", "pretrained": False, "method": "head"},
        "memory": {"deepspeed": "zero-3", "activation_checkpointing": True, "batch_size": 3},
        "device": {"compile": True, "precision": "fp16"},
        "training": {"optimizer": "sgd", "warmup": 0.3, "learning_rate": 0.5},
    }
    from_odd, fresh = applied({"task": "text-classification", **odd}, preset), applied({}, preset)
    named = {difference.path for difference in differences({}, preset)}
    for path in named | {"model.method", "memory.activation_checkpointing"}:
        default = options_by_path()[path].default
        assert value_at(from_odd, path, default) == value_at(fresh, path, default), path


def test_the_guides_settings_pass_every_check() -> None:
    guide = find("published-guide")
    assert guide is not None
    tree = applied({"task": "text-classification", "data": {"train": "synthetic:64x16"}}, guide)
    options, problems = check_tree(tree)
    assert problems == ()
    assert options is not None
    assert (options.training.warmup, options.model.pretrained, options.device.compile) == (0.0, True, False)


@EACH
def test_once_applied_nothing_differs(preset: Preset) -> None:
    before = run_file.to_tree(starting_options(Task.TEXT_CLASSIFICATION))
    changed = differences(before, preset)
    assert changed, "a preset that changes nothing of a first run is none"
    assert differences(applied(before, preset), preset) == ()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_lack_nothing_but_a_persons_data(path: Path) -> None:
    _, problems = check_tree(run_file.read_tree(path))
    assert {problem.path for problem in problems} <= {"data.train", "data.eval"}
    assert all("no file or folder" in problem.message for problem in problems)


def test_a_difference_tells_both_values_defaults_included() -> None:
    eight = find("fits-in-8-gb")
    assert eight is not None
    changed = {
        found.path: (found.before, found.after) for found in differences({"memory": {"batch_size": 4}}, eight)
    }
    assert changed["memory.batch_size"] == (4, 2)
    assert changed["model.method"] == ("full", "lora")
