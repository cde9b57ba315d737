"""Notes of runs, what runs are called, and the model of an earlier run as `run:NAME`."""

from pathlib import Path

import msgspec
import pytest

from core.base.errors import OptionsError, Problem
from core.cli.runs import find_run
from core.options import RunOptions, past_runs
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import RunNotes
from core.options.sections import ModelOptions
from core.options.validate import problems_of
from core.runs import library, notes
from core.runs.queue import LiveRuns
from core.runs.summary import summarize
from tests.fakes.runs import digits_options, keep_alive, new_run


@pytest.fixture
def runs(home):
    return home / "runs"


@pytest.fixture
def run(runs):
    return new_run(runs)


NOTES = RunNotes(title="The long one", tags=("night", "lr"), text="Slower, and\nno better.")


def test_notes_are_read_wherever_the_run_is_named(run):
    notes.write(run.path, NOTES)
    summary = summarize(run)
    assert (summary.title, summary.tags, summary.note) == (NOTES.title, NOTES.tags, NOTES.text)
    assert find_run("The long one") == run
    keep_alive(run)
    live = LiveRuns()
    live.follow(run)
    assert live.live[0].title == NOTES.title
    notes.write(run.path, msgspec.structs.replace(NOTES, title="Renamed while it trains"))
    live.look(run.path.parent)
    assert live.live[0].title == "Renamed while it trains"
    notes.write(run.path, RunNotes())
    assert notes.title_of(run.path, digits_options("Digits")) == "Digits"
    assert notes.title_of(run.path, digits_options(None)) == "resnet18 on digits"
    assert notes.title_of(run.path, None) == run.name


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\x00\xff", b"[]", b'{"tags": 3}', b'{"title": null}', b'{"title": "\xff"}'),
        b" " * (past_runs.LARGEST_FILE + 1),
    ],
)
def test_a_damaged_file_is_no_notes(run, content):
    (run.path / "notes.json").write_bytes(content)
    assert past_runs.read(run.path) == RunNotes()
    notes.write(run.path, NOTES)
    assert past_runs.read(run.path) == NOTES


def test_no_more_of_a_strangers_notes_is_shown_than_the_limits_allow(run):
    wild = RunNotes(title="a\nb" * 500, tags=("x y", *(f"t{n}" * 40 for n in range(90))), text="z" * 30_000)
    (run.path / "notes.json").write_bytes(msgspec.json.encode(wild))
    found = past_runs.read(run.path)
    assert "\n" not in found.title
    assert len(found.title) <= past_runs.LONGEST_TITLE
    assert len(found.tags) <= past_runs.MOST_TAGS
    assert found.tags[0] == "x-y"
    assert max(map(len, found.tags)) <= past_runs.LONGEST_TAG
    assert len(found.text) == past_runs.LONGEST_NOTE


@pytest.mark.parametrize(
    "refused",
    [
        RunNotes(title="x" * 121),
        RunNotes(tags=("x" * 33,)),
        RunNotes(tags=("two words",)),
        RunNotes(tags=tuple(map(str, range(17)))),
        RunNotes(text="x" * 20_001),
    ],
)
def test_what_is_too_long_is_refused_and_nothing_changes(run, refused):
    notes.write(run.path, NOTES)
    with pytest.raises(OptionsError):
        notes.write(run.path, refused)
    assert past_runs.read(run.path) == NOTES


def test_tags_are_separated_by_spaces_and_commas_and_each_is_there_once():
    assert notes.tags_in("#night, lr  Night,,") == ("night", "lr")
    assert notes.retagged(NOTES, ["New", "LR"], ["NIGHT"]).tags == ("lr", "New")
    assert notes.retagged(RunNotes(tags=("Night",)), remove=["night"]).tags == ()


# --- Models


def past_run(runs: Path, folder_name: str, task: str = "causal-lm", *files: str, name: str = "") -> Path:
    folder = runs / folder_name
    (folder / "model").mkdir(parents=True)
    (folder / "run.toml").write_text(f'task = "{task}"\n[output]\nname = "{name}"\n')
    for file in files or ("config.json", "model.safetensors"):
        (folder / "model" / file).write_text("{}")
    return folder


def options(source: str, task: Task = Task.CAUSAL_LM, train: str = "synthetic:8x8") -> RunOptions:
    return RunOptions(task=task, model=ModelOptions(source=source), data=DataOptions(train=train))


def problem(source: str, task: Task = Task.CAUSAL_LM) -> Problem | None:
    return next((one for one in problems_of(options(source, task)) if one.path == "model.source"), None)


def message(source: str, task: Task = Task.CAUSAL_LM) -> str:
    found = problem(source, task)
    return found.message if found else ""


def test_a_run_from_another_one_is_named_after_what_that_is_called(tmp_path):
    past = tmp_path / "2026-11-21-2344-llama-small-on-text"
    past.mkdir()

    def title(model: str = "", data: str = "/d/chat.jsonl") -> str:
        if model:
            text = f'[model]\nsource = "{model}"\n[data]\ntrain = "/d/text.txt"\n'
            (past / "run.toml").write_text(text)
        return notes.asked_title(options(f"run:{past}", Task.CHAT, data))

    assert title("scratch:llama-small") == "llama-small on text on chat"
    notes.write(past, RunNotes(title="Sea"))
    assert title() == "Sea on chat"
    assert title(data="/d/text.txt") == "Sea, longer"
    (past / "notes.json").unlink()
    assert title(f"run:{past}").count(", longer") == notes.MOST_GENERATIONS, "it may name itself"
    (past / "run.toml").unlink()
    assert title() == f"{past.name} on chat"


def test_a_run_is_found_by_folder_path_and_given_name_and_its_path_is_kept(runs, tmp_path):
    first = past_run(runs, "2026-01-01-1200-sea", name="my sea")
    for source in (f"run:{first.name}", f"run:{first}", "run:my sea"):
        assert message(source) == ""
        assert past_runs.model_folder(source) == first / "model"
        made = library.create(options(source), tmp_path / "elsewhere")
        assert made.options().model.source == f"run:{first}"
    second = past_run(runs, "2026-02-02-1200-sea", name="my sea")
    found = problem("run:my sea")
    assert found is not None
    assert "2 runs are called “my sea”" in found.message
    assert found.fixes[0].changes == {"model.source": f"run:{second.name}"}, "the newest first"
    folder = past_run(runs, "my sea")
    assert past_runs.model_folder("run:my sea") == folder / "model", "a folder's own name goes first"


def test_a_run_that_is_not_there_comes_with_those_of_similar_names(runs):
    assert message("run:") == "name a run"
    past_run(runs, "2026-01-01-1200-sea", name="my sea")
    found = problem("run:2026-01-01-1200-see")
    assert found is not None
    assert found.fixes[0].changes == {"model.source": "run:2026-01-01-1200-sea"}
    for source in ("run:2026-01-01-1200-see", "run:my see", "run:2026-01-01-1200"):
        assert "did you mean 2026-01-01-1200-sea?" in message(source)
    assert message("run:") == "name a run, such as run:2026-01-01-1200-sea"
    assert ".." not in message("run:../quite-another").partition("runs are in")[2]


LORA = ("adapter_config.json", "adapter_model.safetensors", "config.json")


@pytest.mark.parametrize(
    ("learned", "task", "files", "gone", "text"),
    [
        ("causal-lm", Task.CHAT, (), (), ""),
        ("chat", Task.PREFERENCE, (), (), ""),
        ("causal-lm", Task.TEXT_CLASSIFICATION, (), (), ""),
        ("text-classification", Task.CAUSAL_LM, (), (), "can't be used for"),
        ("image-classification", Task.CAUSAL_LM, (), (), "can't be used for"),
        ("image-classification", Task.IMAGE_CLASSIFICATION, ("adapter_config.json",), (), "torchvision"),
        ("causal-lm", Task.CAUSAL_LM, LORA, (), ""),
        ("causal-lm", Task.CAUSAL_LM, LORA, ("model/adapter_model.safetensors",), "incomplete"),
        ("causal-lm", Task.CAUSAL_LM, (), ("model/config.json",), "incomplete"),
        ("causal-lm", Task.CAUSAL_LM, (), ("model/config.json", "model/model.safetensors", "model"), "no model"),
        ("causal-lm", Task.CAUSAL_LM, (), ("run.toml",), "task of past is unknown"),
    ],
)  # fmt: skip
def test_a_runs_model_must_be_whole_and_fit_the_task(runs, learned, task, files, *, gone, text):
    folder = past_run(runs, "past", learned, *files)
    for name in gone:
        (folder / name).rmdir() if name == "model" else (folder / name).unlink()
    found = message("run:past", task)
    assert text in found
    assert bool(found) is bool(text)
