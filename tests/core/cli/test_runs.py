"""`hone runs` and `hone show`."""

import os

import msgspec
import pytest

from core.base import settings
from core.base.errors import OptionsError
from core.cli.runs import find_run
from core.options import past_runs
from core.options.sections import TrainingOptions
from core.runs.event_log import EventWriter
from core.runs.events import (
    ConfusionCounted,
    Example,
    ExamplesChosen,
    Level,
    MessageRaised,
    Predicted,
    RunStarted,
    Said,
)
from core.runs.library import create
from core.runs.status import State
from tests.fakes.runs import FAKES, digits_options, link, new_run, record_keeper, write_events

DIGITS = str(FAKES.parents[1] / "resources" / "examples" / "digits.hone")


def test_where_no_run_is_or_can_be(home, hone):
    assert "No runs yet" in hone("runs").out
    home.touch()
    assert f"none can be made: {home} " in hone("runs").out


def test_runs_are_listed_and_shown_by_folder_or_name(home, hone):
    hone("train", DIGITS)
    [folder] = (home / "runs").iterdir()
    [run] = hone("runs", "--json").json
    assert (run["state"], run["metric"], run["best"]) == ("finished", "eval_accuracy", 0.75)
    assert run["folder"] == str(folder)
    damaged = new_run(home / "runs")
    damaged.options_file.write_text("=")
    out = hone("runs").out
    for text in ("Handwritten digits", "finished", "accuracy 0.75", damaged.name, "(unreadable)"):
        assert text in out
    warning = MessageRaised(id="paging", level=Level.WARNING, title="The run is paging")
    write_events(damaged.events_file, RunStarted(), warning)
    assert "Warning: The run is paging" in hone("show", damaged.name).out
    for name in (folder.name, folder):
        assert hone("show", name).out.startswith("Handwritten digits: finished\n")
    assert "--compare or --delete" in hone("runs", folder.name, status=2).err


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
    for name in ("2026-01-01-sea", str(folder / "2026-01-01-sea"), "my sea", "My S", "01-01"):
        assert find_run(name).path == folder / "2026-01-01-sea"
    (folder / "2026-03-03-b" / "run.toml").write_text("[output\n")
    assert find_run("twice").path == folder / "2026-02-02-a", "a damaged file has no title"


def test_the_run_started_or_resumed_last_is_latest_and_only_a_whole_name_is_deleted(folder, hone):
    os.utime(folder / "2026-01-01-sea" / "run.toml", (4e9, 4e9))
    assert find_run("latest").path == folder / "2026-01-01-sea"
    (folder / "2026-02-02-a" / "keeper.json").touch()
    os.utime(folder / "2026-02-02-a" / "keeper.json", (5e9, 5e9))
    assert find_run("latest").path == folder / "2026-02-02-a"
    for name in ("latest", "my s"):
        hone("runs", "--delete", "--permanently", "--yes", name, status=2)
    assert len(list(folder.iterdir())) == 4


def test_latest_is_the_run_that_trains_and_not_one_that_waits_for_it(begin, home):
    training = begin().run
    waiting = [begin(queued=True, until=State.QUEUED).run for _ in range(2)]
    assert find_run("latest") == training
    for run in (training, *waiting):  # those that wait alone are as any others
        record_keeper(run, started=0.0)
    os.utime(waiting[1].keeper_file, (5e9, 5e9))
    assert find_run("latest") == waiting[1]


def test_latest_is_a_run_that_has_ended_since_another_one_began(begin, home):
    begin()
    ended = new_run(settings.runs_folder())
    record_keeper(ended, started=0.0)
    os.utime(ended.keeper_file, (5e9, 5e9))
    assert find_run("latest") == ended


@pytest.mark.parametrize("kept", [(), ("log.txt.before-1",)])
def test_records_that_were_lost_elsewhere_and_are_kept_here_are_named(kept, home, hone):
    run = new_run(settings.runs_folder())
    link(run, over=True, kept=kept)
    assert ("log.txt.before-1" in hone("show", run.name).out) is bool(kept)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lastest", "there is no run lastest; did you mean latest?"),
        ("my see", "there is no run my see; did you mean 2026-01-01-sea?"),
        (
            "2026-0",
            "2026-0 is the name of several runs: 2026-03-03-b (twice), 2026-02-02-a (twice), 2026-01-01-sea (my sea)",
        ),
        ("zzzzzz", "there is no run zzzzzz; `hone runs` lists them"),
        ("", "name a run; `hone runs` lists them"),
        ("empty", "{runs.parent}/empty is not a run: it has neither run.toml nor events.jsonl"),
        ("hollow", "{runs}/hollow is not a run: it has neither run.toml nor events.jsonl"),
        ("twice", "twice is the name of several runs: 2026-03-03-b (twice), 2026-02-02-a (twice)"),
    ],
)
def test_names_of_no_run_or_of_several(name, message, folder):
    with pytest.raises(OptionsError) as caught:
        find_run(name)
    assert caught.value.detail == message.format(runs=folder)


def test_names_tags_and_notes(run, hone):
    hone("show", run.name, "--rename", "The  long one")
    hone("show", "The long one", "--tag", "night", "--tag", "lr", "--untag", "gone")
    hone("show", run.name, "--untag", "LR", "--tag", "old", "--note", " Slower.\n")
    notes = past_runs.read(run.path)
    assert (notes.title, notes.tags, notes.text) == ("The long one", ("night", "old"), "Slower.")
    out = hone("show", run.name).out
    assert all(text in out for text in ("The long one", "Tags: night old", "Note: Slower."))
    for wrong in (["--rename", "x" * 200], ["--tag", " \t"], ["--untag", ""]):
        hone("show", run.name, *wrong, status=2)
    assert past_runs.read(run.path) == notes
    hone("show", run.name, "--rename", "", "--note", "")
    assert past_runs.read(run.path) == past_runs.RunNotes(tags=("night", "old"))


def test_comparing(run, hone):
    seven = msgspec.structs.replace(digits_options(), training=TrainingOptions(epochs=7.0))
    other = create(seven, run.path.parent)
    for wrong, message in (
        ([], "name 2 to 12 runs to compare, not 0"),
        ([run.name] * 13, "name 2 to 12 runs to compare, not 13"),
        ([run.name, other.name, str(run.path)], f"{run.name} is named twice; name each run once"),
    ):
        assert message in hone("runs", "--compare", *wrong, status=2).err
    lines = hone("runs", "--compare", run.name, other.name).out.splitlines()
    assert any(line.startswith("training.epochs") and line.endswith("7") for line in lines)
    assert [line[:1] for line in lines[1:3]] == ["1", "2"]  # a line for each run, however many
    answer = hone("runs", "--compare", run.name, other.name, "--json").json
    assert answer["options"]["training.epochs"][1] == 7.0
    assert answer["runs"] == [str(run.path), str(other.path)]
    other.options_file.write_text("task = [")
    assert "is not a run file, or it is damaged" in hone("runs", "--compare", run.name, other.name).out


def test_predictions(tmp_path, hone):
    writer = EventWriter(tmp_path / "events.jsonl", attempt=1)
    writer.write(RunStarted())
    assert "saved no predictions" in hone("show", tmp_path, "--predictions").out
    examples = Example(given="A fine\nfilm.", expected="yes"), Example(given="Go on", is_own=True)
    first = Said(text="no", sure=0.6, right=False), Said(text="um")
    last = Said(text="yes", sure=0.91, right=True), Said(text="on and on " * 40)
    writer.write(
        ExamplesChosen(examples=examples),
        Predicted(step=0, epoch=0.0, said=first),
        Predicted(step=1200, epoch=2.0, said=last),
        ConfusionCounted(step=1200, labels=("no", "yes"), counts=((2, 0), (1, 3))),
    )
    out = hone("show", tmp_path, "--predictions").out
    for text in ("A fine film.", "no (60%) ✗", "yes (91%) ✓", "step 1,200", "1 of 1"):
        assert text in out
    assert [line.split() for line in out.splitlines()[-3:]] == [
        ["LABEL", "PRECISION", "RECALL", "F1", "COUNT"],
        [*("no", "66.7", "%", "100.0", "%", "80.0", "%"), "2"],
        [*("yes", "100.0", "%", "75.0", "%", "85.7", "%"), "4"],
    ]
    assert max(map(len, out.splitlines())) <= 96
    answer = hone("show", tmp_path, "--predictions", "--json").json
    assert [predicted["step"] for predicted in answer["told"]] == [0, 1200]
    assert answer["confusion"]["counts"] == [[2, 0], [1, 3]]
