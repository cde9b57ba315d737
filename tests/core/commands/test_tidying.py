import json
from pathlib import Path

import msgspec
import pytest

from core.cli import main
from core.options import past_runs
from core.options.sections import TrainingOptions
from core.runs.folder import RunFolder
from core.runs.library import create
from tests.fakes.runs import digits_options, new_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    return new_run(tmp_path / "runs")


def test_names_tags_and_notes_from_the_terminal(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["show", run.name, "--rename", "The  long one"]) == 0
    assert main.main(["show", "The long one", "--tag", "night", "--tag", "lr", "--untag", "gone"]) == 0
    assert main.main(["show", run.name, "--untag", "LR", "--tag", "old", "--note", " Slower.\n"]) == 0
    notes = past_runs.read(run.path)
    assert (notes.title, notes.tags, notes.text) == ("The long one", ("night", "old"), "Slower.")
    capsys.readouterr()
    main.main(["show", run.name])
    shown = capsys.readouterr().out
    assert "The long one" in shown
    assert "Tags: night old" in shown
    assert "Note: Slower." in shown
    main.main(["show", run.name, "--rename", ""])
    assert "Digits" in capsys.readouterr().out


def test_what_is_too_long_or_empty_is_refused(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["show", run.name, "--rename", "x" * 200]) == 2
    for blank in ("", " \t"):
        assert (
            main.main(["show", run.name, "--tag", blank])
            == main.main(["show", run.name, "--untag", blank])
            == 2
        )
    capsys.readouterr()
    assert main.main(["show", "", "--rename", "x"]) == main.main(["show", " ", "--tag", "x"]) == 2
    assert capsys.readouterr().err.count("name a run; `hone runs` lists them") == 2
    assert past_runs.read(run.path) == past_runs.RunNotes()


def test_comparing_from_the_terminal(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seven = msgspec.structs.replace(digits_options(), training=TrainingOptions(epochs=7.0))
    other = create(seven, tmp_path / "runs")
    for wrong, said in (
        ([run.name], "name 2 to 8 runs; these are 1"),
        ([run.name] * 9, "name 2 to 8 runs; these are 9"),
        ([run.name, other.name, str(run.path)], f"{run.name} is named twice; name each run once"),
    ):
        assert main.main(["runs", "--compare", *wrong]) == 2
        assert said in capsys.readouterr().err
    assert main.main(["runs", "--compare", run.name, other.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("training.epochs") and line.endswith("7") for line in lines)
    assert main.main(["runs", "--compare", run.name, other.name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["options"]["training.epochs"][1] == 7.0
    assert told["runs"] == [str(run.path), str(other.path)]
    other.options_file.write_text("task = [")
    main.main(["runs", "--compare", run.name, other.name])
    assert "is no run file, or is damaged" in capsys.readouterr().out
