"""`hone predictions`: what was said of the examples, in words and as JSON."""

import json
from pathlib import Path

import pytest

from core.cli.main import main
from core.runs.event_log import EventWriter
from core.runs.events import ConfusionCounted, Example, ExamplesChosen, Predicted, RunStarted, Said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = EventWriter(tmp_path / "events.jsonl", attempt=1)
    writer.write(
        RunStarted(),
        ExamplesChosen(
            examples=(Example(given="A fine\nfilm.", expected="yes"), Example(given="Go on", is_own=True))
        ),
        Predicted(step=0, epoch=0.0, said=(Said(text="no", sure=0.6, right=False), Said(text="um"))),
        Predicted(
            step=1200, epoch=2.0, said=(Said(text="yes", sure=0.91, right=True), Said(text="on and on " * 40))
        ),
        ConfusionCounted(step=1200, labels=("no", "yes"), counts=((2, 0), (1, 3))),
    )
    return tmp_path


def test_each_example_with_what_was_said_first_and_last(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(folder), "--predictions"]) == 0
    told = capsys.readouterr().out
    assert "A fine film." in told
    assert "no (60%), wrong" in told
    assert "yes (91%), right" in told
    assert "step 1,200" in told
    assert "1 of 1" in told
    assert max(map(len, told.splitlines())) <= 96


def test_all_of_it_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(folder), "--predictions", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [found["step"] for found in told["told"]] == [0, 1200]
    assert told["confusion"]["counts"] == [[2, 0], [1, 3]]


def test_a_run_without_predictions_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    EventWriter(tmp_path / "events.jsonl", attempt=1).write(RunStarted())
    assert main(["show", str(tmp_path), "--predictions"]) == 0
    assert "No predictions" in capsys.readouterr().out
