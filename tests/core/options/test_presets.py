"""Presets, the last form, recent data, and the task that data is for."""

import os
import signal
from pathlib import Path

import pytest

from core.engine.data.text_files import ENDINGS
from core.options import Tree, presets, run_file
from core.options.catalogue import copied, options_by_path, put, value_at
from core.options.choices import Task
from core.options.device_support import hints
from core.options.method_rules import starting_options
from core.options.presets import DATA_ENDINGS, Preset, changes, find_preset, find_task
from core.options.validate import check_tree, read_options

EXAMPLES = sorted(Path(__file__).parents[3].glob("resources/examples/*.hone"))
FIRST_RUN = run_file.to_tree(starting_options(Task.TEXT_CLASSIFICATION))
ODD = {
    "task": "text-classification",
    "model": {"source": "x", "pretrained": False, "method": "head"},
    "memory": {"deepspeed": "zero-3", "activation_checkpointing": True, "batch_size": 3},
    "device": {"compile": True, "precision": "fp16"},
    "training": {"optimizer": "sgd", "warmup": 0.3, "learning_rate": 0.5},
}


def applied(tree: Tree, preset: Preset) -> Tree:
    """A copy of `tree` with the preset applied, as the form applies it."""
    copy = copied(tree)
    put(copy, changes(tree, preset.tree))
    return copy


@pytest.mark.parametrize("name", ["fits-in-8-gb", "fastest", "published-guide"])
def test_each_preset_has_no_problem_and_sets_the_same_on_any_form(name):
    preset = find_preset(name)
    assert preset is not None
    assert changes(FIRST_RUN, preset.tree), "a preset that changes nothing of a first run is none"
    tree = applied(FIRST_RUN, preset)
    assert (changes(tree, preset.tree), read_options(tree)[1]) == ({}, ())
    from_odd, from_nothing = applied(ODD, preset), applied({}, preset)
    named = set(changes({}, preset.tree))
    for path in named | {"model.method", "memory.activation_checkpointing"}:
        default = options_by_path()[path].default
        assert value_at(from_odd, path, default) == value_at(from_nothing, path, default), path


def test_a_preset_shows_what_it_changes_and_the_guides_passes_every_check():
    assert [preset.name for preset in presets.presets()] == ["fits-in-8-gb", "fastest", "published-guide"]
    assert find_preset("slowest") is None
    eight, _fastest, guide = presets.presets()
    changed = changes({"memory": {"batch_size": 4}}, eight.tree)
    assert (changed["memory.batch_size"], changed["model.method"]) == (2, "lora")
    tree = applied({"task": "text-classification", "data": {"train": "synthetic:64x16"}}, guide)
    options, problems = check_tree(tree)
    assert problems == ()
    assert (options.training.warmup, options.model.pretrained, options.device.compile) == (0.0, True, False)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_lack_nothing_but_a_persons_data(path):
    options, problems = check_tree(run_file.read_tree(path))
    assert {problem.path for problem in problems} <= {"data.train", "data.eval"}
    assert all("no file or folder" in problem.message for problem in problems)
    if path.stem == "tinyshakespeare":
        assert hints(options, None) == ()


TREE: Tree = {
    "schema": 1,
    "task": "image-classification",
    "data": {"train": "some/folder"},
    "training": {"epochs": "three"},
}


def test_the_last_form_is_found_as_it_was_typed():
    assert presets.find_last_form() is None
    presets.keep(TREE)
    presets.keep({**TREE, "data": {"train": "half a character \udcff"}})
    assert presets.find_last_form() == TREE


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"task = ", b"\xff\xfe\x00", b'schema = 2\ntask = "image-classification"'),
        *(b'schema = 1\ntask = "knitting"', b"schema = 1\ntask = []", b"schema = " + b"9" * 5000),
    ],
)
def test_a_broken_form_and_a_broken_list_are_ignored(home, content):
    home.mkdir()
    for name in ("new-run.toml", "recent-data.json"):
        (home / name).write_bytes(content)
    assert (presets.find_last_form(), presets.recent()) == (None, ())


def test_a_home_that_can_not_be_written_ends_nothing(home):
    home.write_text("a file where the folder should be")
    presets.keep(TREE)
    presets.remember("hub:owner/set")
    assert (presets.find_last_form(), presets.recent()) == (None, ())


def test_of_recent_data_the_newest_comes_first_and_what_is_gone_or_an_example_is_left_out(tmp_path):
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.touch()
    own = str(presets.RESOURCES / "examples" / "robot.jsonl")
    for source in (*map(str, files), str(files[0]), "hub:owner/set", "builtin:digits", own, "/gone.csv"):
        presets.remember(source)
    assert presets.recent() == ("hub:owner/set", str(files[0]), str(files[1]))


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("talks.jsonl", '{"messages": [{"role": "user", "content": "Hi"}]}', Task.CHAT),
        ("alpaca.json", '[{"instruction": "Add", "input": "", "output": "2"}]', Task.CHAT),
        ("pairs.json", '[{"conversations": [], "chosen": {}, "rejected": {}}]', Task.PREFERENCE),
        ("names.jsonl", '{"tokens": ["Ada"], "ner_tags": ["B-PER"]}', Task.TOKEN_CLASSIFICATION),
        ("names.conll", "Ada B-PER", Task.TOKEN_CLASSIFICATION),
        ("plays.txt", "First Citizen:", Task.CAUSAL_LM),
        ("plays.md", "a\tb\nc\td\n", Task.CAUSAL_LM),
        ("names.txt", "-DOCSTART- -X- O\n\nAda NNP B-PER\nsang VBD O\n", Task.TOKEN_CLASSIFICATION),
        ("pairs.txt", "Quality\tFirst\tSecond\n1\tOne said\tAnother said\n", None),
        ("rows.txt", '{"text": "a"}', None),
        ("train-images-idx3-ubyte.gz", "", Task.IMAGE_CLASSIFICATION),
        ("reviews.csv", "text,label", None),
        ("rows.json", '[{"text": "a", "label": 1}]', None),
        ("gone.json", None, None),
        ("pets/cat/a.png", "", Task.IMAGE_CLASSIFICATION),
        ("sets/train/cat/a.png", "", Task.IMAGE_CLASSIFICATION),
        ("pictures/a.png", "", Task.IMAGE_CLASSIFICATION),
        ("books/a.md", "", Task.CAUSAL_LM),
    ],
)
def test_the_task_follows_from_the_name_and_beginning_of_data(tmp_path, name, content, task):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_text(content)
    source = str(tmp_path / name.partition("/")[0])
    assert find_task(source) is task


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("name", ["talk.json", "book.txt", "book.txt.gz"])
def test_a_pipe_is_not_opened_to_find_its_task(tmp_path, name):
    os.mkfifo(tmp_path / name)
    signal.alarm(20)  # one that is opened blocks for ever
    try:
        assert find_task(str(tmp_path / name)) is None
    finally:
        signal.alarm(0)


def test_a_folder_that_happens_to_hold_images_is_no_image_data(tmp_path):
    assert find_task(str(tmp_path)) is None, "nothing is in it"
    for name in ("a.png", "b.png", "c.png", "notes.log"):
        (tmp_path / name).touch()
    assert find_task(str(tmp_path)) is None


def test_data_is_recognized_by_every_ending_that_the_engine_reads():
    assert set(ENDINGS) <= DATA_ENDINGS
    assert find_task("hub:glue/mrpc") is None
