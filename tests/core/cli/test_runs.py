"""`hone runs` and `hone show`."""

import json

import msgspec
import pytest

from core.base.errors import OptionsError
from core.cli.main import main
from core.cli.runs import find_run
from core.options import past_runs
from core.options.sections import TrainingOptions
from core.runs.event_log import EventWriter
from core.runs.events import ConfusionCounted, Example, ExamplesChosen, Predicted, RunStarted, Said
from core.runs.library import create
from tests.fakes.runs import FAKES, digits_options, new_run

DIGITS = str(FAKES.parents[1] / "resources" / "examples" / "digits.hone")


def test_where_no_run_is_or_can_be(home, capsys):
    assert main(["runs"]) == 0
    assert "No runs yet" in capsys.readouterr().out
    home.touch()
    assert main(["runs"]) == 0
    assert f"none can be made: {home} " in capsys.readouterr().out


def test_runs_are_listed_and_shown_by_folder_or_name(hone, home, capfd):
    hone("train", DIGITS)
    [folder] = (home / "runs").iterdir()
    capfd.readouterr()
    assert main(["runs", "--json"]) == 0
    [run] = json.loads(capfd.readouterr().out)
    assert (run["state"], run["metric"], run["best"]) == ("finished", "eval_accuracy", 0.75)
    assert run["folder"] == str(folder)
    damaged = new_run(home / "runs")
    damaged.options_file.write_text("=")
    assert main(["runs"]) == 0
    out = capfd.readouterr().out
    for text in (folder.name, "finished", "accuracy 0.75", damaged.name, "(unreadable)"):
        assert text in out
    for name in (folder.name, str(folder)):
        assert main(["show", name]) == 0
        assert capfd.readouterr().out.startswith("Handwritten digits: finished\n")
    assert main(["runs", folder.name]) == 2
    assert "--compare or --delete" in capfd.readouterr().err


@pytest.fixture
def folder(home, monkeypatch):
    """A folder of runs, two of which have the same name, a folder without a run and one outside."""
    titles = {"2026-01-01-sea": "my sea", "2026-02-02-a": "twice", "2026-03-03-b": "twice"}
    for name, title in titles.items():
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "run.toml").write_text(f'task = "chat"\n[output]\nname = "{title}"\n')
    (home / "runs" / "hollow").mkdir()
    (home / "empty").mkdir()
    monkeypatch.chdir(home)
    return home / "runs"


def test_a_run_is_found_by_folder_path_and_title(folder):
    for name in ("2026-01-01-sea", str(folder / "2026-01-01-sea"), "my sea"):
        assert find_run(name).path == folder / "2026-01-01-sea"
    (folder / "2026-03-03-b" / "run.toml").write_text("[output\n")
    assert find_run("twice").path == folder / "2026-02-02-a", "a damaged file has no title"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my see", "there is no run my see; did you mean 2026-01-01-sea?"),
        ("zzzzzz", "there is no run zzzzzz; `hone runs` lists them"),
        ("", "name a run; `hone runs` lists them"),
        ("empty", "{runs.parent}/empty is not a run: it has neither run.toml nor events.jsonl"),
        ("hollow", "{runs}/hollow is not a run: it has neither run.toml nor events.jsonl"),
        ("twice", "several runs are called twice; name one of 2026-03-03-b, 2026-02-02-a"),
    ],
)
def test_names_of_no_run_or_of_several(name, message, folder):
    with pytest.raises(OptionsError) as caught:
        find_run(name)
    assert caught.value.detail == message.format(runs=folder)


def test_names_tags_and_notes(run, capsys):
    assert main(["show", run.name, "--rename", "The  long one"]) == 0
    assert main(["show", "The long one", "--tag", "night", "--tag", "lr", "--untag", "gone"]) == 0
    assert main(["show", run.name, "--untag", "LR", "--tag", "old", "--note", " Slower.\n"]) == 0
    notes = past_runs.read(run.path)
    assert (notes.title, notes.tags, notes.text) == ("The long one", ("night", "old"), "Slower.")
    capsys.readouterr()
    main(["show", run.name])
    out = capsys.readouterr().out
    assert all(text in out for text in ("The long one", "Tags: night old", "Note: Slower."))
    for wrong in (["--rename", "x" * 200], ["--tag", " \t"], ["--untag", ""]):
        assert main(["show", run.name, *wrong]) == 2
    assert past_runs.read(run.path) == notes
    assert main(["show", run.name, "--rename", "", "--note", ""]) == 0
    assert past_runs.read(run.path) == past_runs.RunNotes(tags=("night", "old"))


def test_comparing(run, capsys):
    seven = msgspec.structs.replace(digits_options(), training=TrainingOptions(epochs=7.0))
    other = create(seven, run.path.parent)
    for wrong, message in (
        ([], "name 2 to 8 runs; these are 0"),
        ([run.name] * 9, "name 2 to 8 runs; these are 9"),
        ([run.name, other.name, str(run.path)], f"{run.name} is named twice; name each run once"),
    ):
        assert main(["runs", "--compare", *wrong]) == 2
        assert message in capsys.readouterr().err
    assert main(["runs", "--compare", run.name, other.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("training.epochs") and line.endswith("7") for line in lines)
    assert main(["runs", "--compare", run.name, other.name, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["options"]["training.epochs"][1] == 7.0
    assert answer["runs"] == [str(run.path), str(other.path)]
    other.options_file.write_text("task = [")
    main(["runs", "--compare", run.name, other.name])
    assert "is not a run file, or is damaged" in capsys.readouterr().out


def test_predictions(tmp_path, capsys):
    writer = EventWriter(tmp_path / "events.jsonl", attempt=1)
    writer.write(RunStarted())
    assert main(["show", str(tmp_path), "--predictions"]) == 0
    assert "saved no predictions" in capsys.readouterr().out
    examples = Example(given="A fine\nfilm.", expected="yes"), Example(given="Go on", is_own=True)
    first = Said(text="no", sure=0.6, right=False), Said(text="um")
    last = Said(text="yes", sure=0.91, right=True), Said(text="on and on " * 40)
    writer.write(
        ExamplesChosen(examples=examples),
        Predicted(step=0, epoch=0.0, said=first),
        Predicted(step=1200, epoch=2.0, said=last),
        ConfusionCounted(step=1200, labels=("no", "yes"), counts=((2, 0), (1, 3))),
    )
    assert main(["show", str(tmp_path), "--predictions"]) == 0
    out = capsys.readouterr().out
    for text in ("A fine film.", "no (60%), wrong", "yes (91%), right", "step 1,200", "1 of 1"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 96
    main(["show", str(tmp_path), "--predictions", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [predicted["step"] for predicted in answer["told"]] == [0, 1200]
    assert answer["confusion"]["counts"] == [[2, 0], [1, 3]]
