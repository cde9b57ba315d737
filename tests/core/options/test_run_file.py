"""Run files: written, read with --set, and refused with the reason when they can't be read."""

from pathlib import Path

import pytest

from core.base.errors import OptionsError
from core.base.files import LARGEST_TEXT, load_toml
from core.options import DELETED, RENAMED, SECTIONS, run_file
from core.options.catalogue import all_options, value_at, value_of
from core.options.choices import Task
from core.options.method_rules import starting_options
from core.options.validate import read_options
from core.runs.folder import RunFolder
from tests.fakes.runs import digits_options

FILES = Path(__file__).parents[2] / "data" / "run-files"
DIGITS = 'task = "image-classification"\n[model]\nsource = "torchvision:resnet18"\n[data]\ntrain = "builtin:digits"\n'


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "my.hone"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_what_is_written_is_read_again_below_a_comment_with_any_characters(tmp_path):
    path = tmp_path / "run.toml"
    run_file.write(digits_options(), path, "Made of my\nrun\x00 \udcff, naïve.hone")
    assert run_file.read(path) == digits_options()
    assert path.read_text(encoding="utf-8").startswith("# Made of my?run? ?, naïve.hone\n\nschema = 1\n")
    assert [found.name for found in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize("task", Task)
def test_a_new_file_explains_every_option_of_its_task_and_reads_back(task, tmp_path):
    text = run_file.dumps_with_help(starting_options(task))
    assert text.isascii(), "whatever code page a terminal has"
    tree = run_file.read_tree(write(tmp_path, text))
    for option in all_options()[1:]:
        is_there = f"# {option.title}: " in text
        assert is_there == option.applies_to(starting_options(task)), option.path
        if is_there and value_of(starting_options(task), option.path) is not None and not option.is_path:
            assert option.name in tree[option.section]


def test_a_run_file_of_the_first_version_opens_with_all_its_values():
    path = FILES / "first.hone"
    written = load_toml(path.read_text(encoding="utf-8"))
    written["data"]["group_by_length"] = "on"  # was true or false
    options, problems = read_options(run_file.read_tree(path))
    assert problems == ()
    read = load_toml(run_file.dumps(options))
    assert {section: {**read[section], **written[section]} for section in SECTIONS} == {
        section: read[section] for section in SECTIONS
    }


def test_every_option_that_a_run_file_ever_had_is_known():
    """An option that is renamed or deleted is to be in `RENAMED` or `DELETED`; a new one joins the file."""
    path = FILES / "whole.hone"
    tree = load_toml(path.read_text(encoding="utf-8"))
    assert not [option.path for option in all_options() if value_at(tree, option.path) is None]
    options, problems = read_options(run_file.read_tree(path))
    assert options is not None
    assert problems == ()


@pytest.fixture
def later(monkeypatch):
    """A later version, in which an option has another name and one is gone."""
    monkeypatch.setitem(RENAMED, "training.warm_up", "training.warmup")
    monkeypatch.setitem(DELETED, "memory.offload", "there is memory enough")


OLD = f"{DIGITS}[training]\nwarm_up = 0.2\nepochs = 3\n[memory]\noffload = true\n"


def test_an_old_run_file_opens_with_a_renamed_option_and_without_a_deleted_one(later, tmp_path):
    path = write(tmp_path, OLD)
    options = run_file.read(path)
    assert (options.training.warmup, options.training.epochs) == (0.2, 3)
    assert run_file.renamings(path) == (
        "training.warm_up is training.warmup here",
        "memory.offload is left out: there is memory enough",
    )
    options = run_file.read(path, ("training.warm_up=0.3", "memory.offload=false"))
    assert options.training.warmup == 0.3
    run = RunFolder(tmp_path)
    path.rename(run.options_file)
    assert run.options().training.warmup == 0.2


def test_a_former_name_beside_todays_and_a_name_that_never_was_are_errors(later, tmp_path):
    for more in ("warmup = 0.1", "warm_upp = 0.1"):
        with pytest.raises(OptionsError) as refused:
            run_file.read(write(tmp_path, OLD.replace("epochs = 3", more)))
        (problem,) = refused.value.problems
        assert problem.path == ("training.warm_up" if more == "warmup = 0.1" else "training.warm_upp")


def test_paths_are_relative_to_the_file_and_in_set_to_the_working_folder(tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    for path in (there / "my-model" / "train.csv", here / "eval.csv"):
        path.parent.mkdir(parents=True)
        path.touch()
    text = 'task = "text-classification"\n[model]\nsource = "bert-base-cased"\n[data]\ntrain = "my-model/train.csv"\n'
    monkeypatch.chdir(here)
    options = run_file.read(write(there, text), ("data.eval=eval.csv",))
    assert options.data.train == str(there / "my-model" / "train.csv")
    assert options.data.eval == str(here / "eval.csv")
    assert options.model.source == "bert-base-cased"
    tree = run_file.read_tree(write(there, '[model]\nsource = "my-model"\n'))
    assert tree["model"]["source"] == str(there / "my-model")
    monkeypatch.setattr("core.options.run_file.is_there", lambda _path: pytest.fail("looked for"))
    absolute = str(tmp_path / "model")
    assert run_file.absolute(absolute, tmp_path, must_exist=True) == absolute


@pytest.mark.parametrize(
    ("pair", "path", "value"),
    [
        ("memory.batch_size=8", "memory.batch_size", 8),
        ("training.learning_rate = 2e-5", "training.learning_rate", 2e-5),
        ("model.pretrained=false", "model.pretrained", False),
        ("device.precision=fp32", "device.precision", "fp32"),
        ("output.name=Tom's run", "output.name", "Tom's run"),
        ("output.name= a name ", "output.name", "a name "),  # as a path may end
        ("memory.batch_size= 8 ", "memory.batch_size", 8),
        ("output.name=", "output.name", None),
        ("training.max_steps=none", "training.max_steps", None),
        ("output.prompts=first, second", "output.prompts", ("first", "second")),
        ('output.prompts=["#1 String"]', "output.prompts", ("#1 String",)),
    ],
)
def test_set_reads_each_kind_of_value(pair, path, value, tmp_path):
    tree = run_file.read_tree(write(tmp_path, DIGITS))
    assert run_file.apply_overrides(tree, (pair,), tmp_path) == []
    assert value_of(read_options(tree)[0], path) == value


def test_problems_of_the_file_and_of_set_come_together(tmp_path):
    path = write(tmp_path, DIGITS + "[memory]\nbatch_size = 0\n")
    with pytest.raises(OptionsError) as caught:
        run_file.read(path, ("nonsense", "training.epochs=-1"))
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["nonsense", "memory.batch_size", "training.epochs"]


@pytest.mark.parametrize(
    ("pair", "hint"),
    [
        ("memroy.batch_size=8", "there is no section memroy; did you mean memory.batch_size?"),
        ("trainer.seed=1", "did you mean training.seed?"),
        ("modell.nothing=1", "did you mean model?"),
        ("foo.bar=1", "there is no section foo; known here: model, data, "),
    ],
)
def test_an_unknown_section_comes_with_the_likely_one(pair, hint):
    (problem,) = run_file.apply_overrides({}, (pair,), Path.cwd())
    assert problem.path == pair.partition("=")[0]
    assert hint in problem.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"task = ", "is not a run file, or it is damaged: Invalid value"),
        (b"task = \xff", "is not a text file in UTF-8 or UTF-16"),
        (b"\xff\xfet", "is not a text file in UTF-8 or UTF-16"),
        (b"x = " + b"9" * 5000, "is not a run file, or it is damaged"),
        (b"schema = 1\nx = 2\ny = ?", "at line 3, column 5"),
        (b".".join([b"a"] * 32_000) + b" = 1", "a key has more than 50 parts"),
        (b"x = {" + b" . ".join([b"'a'"] * 60) + b" = 1}", "a key has more than 50 parts"),
        (b"p = 'x'\n" + b"a." * 60 + b"b = 1", "a key has more than 50 parts"),
        (b'"a".' * 49 + b" " * 900_000, "is not a run file, or it is damaged"),  # took seconds
        (b"# " + b"x" * LARGEST_TEXT, r"can't be read: \w"),
        (b"# nothing\nschema = 1\n[data]\n", "is not a run file: it contains no option"),
        (None, "can't be read"),
    ],
    ids=lambda value: value[:16] if isinstance(value, bytes) else None,
)
def test_a_file_that_is_no_run_file_is_refused(content, reason, tmp_path):
    path = tmp_path / "my.hone" if content is None else write(tmp_path, content)
    with pytest.raises(OptionsError, match=reason) as caught:
        run_file.read(path)
    assert str(path) in caught.value.title


@pytest.mark.parametrize("quote", ['"', "'", '"""', "'''"])
def test_a_text_of_many_sentences_is_no_deep_key(quote):
    words = "Yes. No. " * 30
    assert load_toml(f"p = [{quote}{words}{quote}]  # {words}\n") == {"p": [words]}


@pytest.mark.parametrize("value", [r'"C:\data\x.csv"', r'"C:\Users\me"', r'"C:\temp\"'])
def test_a_windows_path_in_double_quotes_comes_with_how_to_write_it(value, tmp_path):
    with pytest.raises(OptionsError, match="write Windows paths in 'single quotes' or with forward slashes"):
        run_file.read(write(tmp_path, f"[data]\ntrain = {value}\n"))


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + DIGITS.encode(), DIGITS.replace("\n", "\r\n").encode("utf-16")]
)
def test_a_byte_order_mark_and_the_encoding_of_powershell_are_no_problem(tmp_path, content):
    assert run_file.read(write(tmp_path, content)).task is Task.IMAGE_CLASSIFICATION


@pytest.mark.parametrize("name", ["~nobody-is-called-so.csv", "x" * 5000])
def test_a_path_that_can_not_be_checked_is_a_problem(name, tmp_path):
    path = write(tmp_path, DIGITS.replace("builtin:digits", name).replace("torchvision:resnet18", name))
    with pytest.raises(OptionsError) as caught:
        run_file.read(path, (f"data.eval={name}",))
    assert {"data.train", "data.eval"} <= {problem.path for problem in caught.value.problems}


def test_options_that_do_not_apply_are_left_out_and_changed_ones_come_first():
    changed, others = run_file.applied(digits_options())
    assert 'model.source = "torchvision:resnet18"' in changed
    assert "training.epochs = 3.0" in others
    assert not [
        line for line in (*changed, *others) if "[" in line or "lora" in line or "chat_template" in line
    ]
