"""Presets, the last form, recent data, and the task that data is for."""

from pathlib import Path

import pytest

from core.base import settings
from core.engine.data.text_files import ENDINGS
from core.options import Tree, presets, run_file
from core.options.catalogue import copied, options_by_path, put, value_at
from core.options.choices import Task
from core.options.device_support import hints
from core.options.method_rules import starting_options
from core.options.presets import DATA_ENDINGS, Preset, differences, find_preset, find_task, guess_task
from core.options.validate import check_tree, read_options

EXAMPLES = sorted(Path(__file__).parents[3].glob("resources/examples/*.hone"))
EACH = pytest.mark.parametrize("preset", presets.presets(), ids=lambda preset: preset.name)
FIRST_RUN = run_file.to_tree(starting_options(Task.TEXT_CLASSIFICATION))


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return settings.home()


def applied(tree: Tree, preset: Preset) -> Tree:
    """A copy of `tree` with the preset laid over it, as the form lays it."""
    copy = copied(tree)
    put(copy, {found.path: found.after for found in differences(tree, preset)})
    return copy


def test_there_are_those_that_were_promised():
    assert [preset.name for preset in presets.presets()] == ["fits-in-8-gb", "fastest", "published-guide"]
    assert find_preset("slowest") is None
    eight = find_preset("fits-in-8-gb")
    assert eight is not None
    changed = {one.path: (one.before, one.after) for one in differences({"memory": {"batch_size": 4}}, eight)}
    assert (changed["memory.batch_size"], changed["model.method"]) == ((4, 2), ("full", "lora"))


@EACH
def test_each_reads_without_a_problem_and_sets_the_same_from_wherever_it_starts(preset):
    assert preset.title
    assert preset.help.endswith(".")
    assert differences(FIRST_RUN, preset), "a preset that changes nothing of a first run is none"
    tree = applied(FIRST_RUN, preset)
    assert differences(tree, preset) == read_options(tree)[1] == ()
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


def test_the_guides_settings_pass_every_check():
    guide = find_preset("published-guide")
    assert guide is not None
    options, problems = check_tree(
        applied({"task": "text-classification", "data": {"train": "synthetic:64x16"}}, guide)
    )
    assert problems == ()
    assert options is not None
    assert (options.training.warmup, options.model.pretrained, options.device.compile) == (0.0, True, False)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_lack_nothing_but_a_persons_data(path):
    options, problems = check_tree(run_file.read_tree(path))
    assert {problem.path for problem in problems} <= {"data.train", "data.eval"}
    assert all("no file or folder" in problem.message for problem in problems)
    if path.stem == "tinyshakespeare":
        assert options is not None
        assert hints(options, None) == ()


TREE: Tree = {
    "schema": 1,
    "task": "image-classification",
    "data": {"train": "some/folder"},
    "training": {"epochs": "three"},
}


def test_the_last_form_is_found_as_it_was_typed(home):
    assert presets.find_last_form() is None
    presets.keep(TREE)
    assert presets.find_last_form() == TREE
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
    assert presets.find_last_form() is None
    assert presets.recent() == ()


def test_what_can_t_be_kept_ends_nothing(home):
    home.write_text("a file where the folder should be")
    presets.keep(TREE)
    presets.remember("hub:owner/set")
    assert (presets.find_last_form(), presets.recent()) == (None, ())


def test_of_recent_data_the_newest_comes_first_and_what_is_gone_is_left_out(tmp_path):
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.touch()
    for source in (*map(str, files), str(files[0]), "hub:owner/set", "builtin:digits", "/gone.csv"):
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
        ("books/a.md", "", Task.CAUSAL_LM),
    ],
)
def test_data_is_judged_by_its_name_and_how_it_begins(tmp_path, name, content, task):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_text(content)
    source = str(tmp_path / name.partition("/")[0])
    assert find_task(source) is task
    assert guess_task(source) is (task or Task.TEXT_CLASSIFICATION)


def test_data_is_known_by_every_ending_that_the_engine_knows():
    assert set(ENDINGS) <= DATA_ENDINGS
    assert find_task("hub:glue/mrpc") is None
