"""Text of data, models and names can't give the terminal orders: what it would act on is shown."""

import io
import json
from pathlib import Path

import pytest

from core.base import format
from core.base.errors import OptionsError, Problem, UserError
from core.cli import main
from core.cli.output import print_json
from core.runs.event_log import EventWriter
from core.runs.events import Example, ExamplesChosen, Level, MessageRaised, Predicted, RunStarted, Said
from core.runs.progress import Progress
from core.runs.status import RunStory
from core.runs.words import error_text

TITLE = "\x1b]0;title\x07"
SHOWN = r"\u001b]0;title\u0007"
ACTED_ON = "\x00\x07\x08\r\x1b\x7f\x9b\u2028\u202e\u2066\ufeff"


def is_harmless(text: str) -> bool:
    return not any(character in text for character in ACTED_ON)


def test_what_a_terminal_acts_on_is_shown() -> None:
    assert format.visible(TITLE) == SHOWN
    assert is_harmless(format.visible(ACTED_ON))
    plain = "Ünïcode 漢字 👩\u200d🚀\tand\r\nlines\n"
    assert format.visible(plain) == plain


def test_columns_line_up_beside_it() -> None:
    lines = format.table(("NAME", "KIND"), [(TITLE, "text"), ("plain", "text")]).splitlines()
    assert lines[1] == f"{SHOWN}  text"
    assert {line.index("text") for line in lines[1:]} == {len(SHOWN) + 2}


def test_json_stays_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": TITLE + ACTED_ON})
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert json.loads(told) == {"name": TITLE + ACTED_ON}


def test_a_run_of_such_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    EventWriter(tmp_path / "events.jsonl", attempt=1).write(
        RunStarted(),
        ExamplesChosen(examples=(Example(given=TITLE, expected=TITLE),)),
        Predicted(step=0, epoch=0.0, said=(Said(text=TITLE),)),
    )
    (tmp_path / "run.toml").write_text('task = "causal-lm"\n[output]\nname = "\\u001b]0;title\\u0007"\n')
    assert main.main(["show", str(tmp_path), "--predictions"]) == 0
    assert main.main(["show", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert told.count(SHOWN) == 4, "what was given, expected and said, and the run's name"


def test_progress_and_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    Progress(RunStory(), stream).show(MessageRaised(id="a", level=Level.WARNING, title=TITLE))
    assert stream.getvalue() == f"Warning: {SHOWN}\n"
    data = tmp_path / "data.csv"
    data.write_text("text,label\na,b\n")
    assert main.main(["inspect", str(data), "--set", f"data.label_column.{TITLE}=a"]) == 2
    told = capsys.readouterr().err
    assert SHOWN in told
    assert is_harmless(told)


def test_error_texts_are_left_alone_until_they_are_printed() -> None:
    """The window shows them as they are."""
    for error in (UserError(TITLE), OptionsError((Problem("", TITLE),))):
        assert TITLE in error_text(error)
