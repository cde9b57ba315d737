"""The outer edge of the command line: its commands, its help, errors, and text that would act on a terminal."""

import argparse
import errno
import io
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.base import formats, settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.settings import VERSION
from core.cli import main as cli
from core.cli.main import main
from core.cli.output import print_json
from core.runs.event_log import EventWriter
from core.runs.events import Example, ExamplesChosen, Level, MessageRaised, Predicted, RunStarted, Said
from core.runs.folder import RunFolder
from core.runs.progress import Progress
from core.runs.status import RunStatus
from core.runs.words import error_text
from tests.fakes.runs import FAKES

DIGITS = str(FAKES.parents[1] / "resources" / "examples" / "digits.hone")
TITLE = "\x1b]0;title\x07"
SHOWN = r"\u001b]0;title\u0007"
ACTED_ON = "\x00\x07\x08\r\x1b\x7f\x9b\u2028\u202e\u2066\ufeff"


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    }


def test_every_command_has_an_example_that_it_understands():
    parser = cli._parser()
    found = commands(parser)
    assert set(found) == cli.names()
    assert len(found) <= 22
    for name, command in found.items():
        if name != "bench":
            example = shlex.split(command.epilog or "")
            assert example[:3] == ["Example:", "hone", name]
            parser.parse_args(example[2:])


@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (["new", "--data", "x"], "usage: hone new ", "hone new: error: unrecognized arguments: --data x\n"),
        (["trian"], "usage: hone ", "bench')\n"),
    ],
)
def test_wrong_arguments_show_the_usage(arguments, start, end, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(start)
    assert said.endswith(end)


def test_the_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"Hone {VERSION}\n"


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (PermissionError(13, "Permission denied", "runs"), "runs: Permission denied"),
            (OSError("no more processes"), "no more processes"),
            (KeyError("x"), "A fault in Hone: KeyError: 'x'"),
        ],
    )
    def test_one_sentence_and_the_rest_in_the_log_or_where_that_fails_here(
        self, error, sentence, home, monkeypatch, capsys
    ):
        def fail(_: Path) -> None:
            raise error

        monkeypatch.setattr("core.cli.runs.list_runs", fail)
        assert main(["runs"]) == 1
        log = home / "hone.log"
        assert capsys.readouterr().err == f"{sentence}\nThe whole report is in {log}\n"
        assert "Traceback" in log.read_text()
        log.unlink()
        log.mkdir()
        assert main(["runs"]) == 1
        said = capsys.readouterr().err
        assert said.endswith(f"{sentence}\n")
        assert ("Traceback" in said) == isinstance(error, KeyError)

    def test_a_home_that_is_a_file_is_named(self, home, capsys):
        home.touch()
        assert main(["train", DIGITS]) == 1
        title, detail = capsys.readouterr().err.splitlines()
        assert title == "The run's folder can't be made"
        assert str(home) in detail


class TestControlCharacters:
    """Text of data, models and names can't give the terminal orders."""

    @staticmethod
    def is_harmless(text: str) -> bool:
        return not any(character in text for character in ACTED_ON)

    def test_they_are_shown_and_columns_line_up(self):
        assert formats.visible(TITLE) == SHOWN
        assert self.is_harmless(formats.visible(ACTED_ON))
        plain = "Ünïcode 漢字 👩\u200d🚀\tand\r\nlines\n"
        assert formats.visible(plain) == plain
        lines = formats.table(("NAME", "KIND"), [(TITLE, "text"), ("plain", "text")]).splitlines()
        assert {line.index("text") for line in lines[1:]} == {len(SHOWN) + 2}

    def test_json_stays_the_same_value(self, capsys):
        print_json({"name": TITLE + ACTED_ON})
        told = capsys.readouterr().out
        assert self.is_harmless(told)
        assert json.loads(told) == {"name": TITLE + ACTED_ON}

    def test_a_run_of_such_texts(self, tmp_path, capsys):
        EventWriter(tmp_path / "events.jsonl", attempt=1).write(
            RunStarted(),
            ExamplesChosen(examples=(Example(given=TITLE, expected=TITLE),)),
            Predicted(step=0, epoch=0.0, said=(Said(text=TITLE),)),
        )
        (tmp_path / "run.toml").write_text('task = "causal-lm"\n[output]\nname = "\\u001b]0;title\\u0007"\n')
        assert main(["show", str(tmp_path), "--predictions"]) == main(["show", str(tmp_path)]) == 0
        told = capsys.readouterr().out
        assert self.is_harmless(told)
        assert told.count(SHOWN) == 4, "the input, its label, the prediction, and the run's name"

    def test_progress_and_errors(self, tmp_path, capsys):
        stream = io.StringIO()
        Progress(RunStatus(), stream).show(MessageRaised(id="a", level=Level.WARNING, title=TITLE))
        assert stream.getvalue() == f"Warning: {SHOWN}\n"
        (tmp_path / "data.csv").write_text("text,label\na,b\n")
        wrong = ["--set", f"data.label_column.{TITLE}=a"]
        assert main(["inspect", str(tmp_path / "data.csv"), *wrong]) == 2
        told = capsys.readouterr().err
        assert SHOWN in told
        assert self.is_harmless(told)
        for error in (UserError(TITLE), OptionsError((Problem("", TITLE),))):
            assert TITLE in error_text(error), "the window shows it as it is"


def _commands(run: RunFolder, target: Path) -> Iterator[list[str]]:
    yield ["export", str(run.path), "--report", str(target)]
    yield ["show", str(run.path), "--support", str(target)]
    yield ["script", str(run.path), "-o", str(target)]
    yield ["export", str(run.path), "--metrics", str(target)]
    yield ["new", "--task", "text-classification", "-o", str(target)]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("gone/x.html", "There is no folder at {there}/gone."),
        ("file/x.html", "{there}/file is no folder."),
        ("file", "{there}/file is there already; choose another name"),
        ("folder.html", "{there}/folder.html is a folder."),
    ],
)
def test_every_command_refuses_a_target_that_can_not_be(run, tmp_path, capsys, named, said):
    there = tmp_path / "there"
    (there / "folder.html").mkdir(parents=True)
    (there / "file").write_text("precious")
    for command in _commands(run, there / named):
        assert main(command) == 2, command
        told = capsys.readouterr().err
        assert said.format(there=there).replace("/", os.sep) in told.replace("/", os.sep), command
        assert "hone.log" not in told
    assert sorted(path.name for path in there.rglob("*")) == ["file", "folder.html"]
    assert not (settings.home() / "hone.log").exists()


def test_a_disk_that_fills_leaves_nothing(run, tmp_path, monkeypatch, capsys):
    target = tmp_path / "there" / "x.zip"
    target.parent.mkdir()
    monkeypatch.setattr("zipfile.ZipFile.writestr", _full)
    assert main(["show", str(run.path), "--support", str(target)]) == 1
    told = capsys.readouterr().err
    assert f"{target} is on is full" in told
    assert "hone.log" not in told
    assert list(target.parent.iterdir()) == []


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "temporary")
