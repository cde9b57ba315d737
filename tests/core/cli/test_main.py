"""The outer edge of the command line: its commands, its help, errors, and text that would act on a terminal."""

import errno
import io
import json
import os
import shlex

import pytest

from core.base import formats, settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.settings import VERSION
from core.cli import main as cli
from core.cli.output import print_json
from core.runs.event_log import EventWriter
from core.runs.events import Example, ExamplesChosen, Level, MessageRaised, Predicted, RunStarted, Said
from core.runs.progress import Progress
from core.runs.status import RunStatus
from core.runs.words import error_text

TITLE = "\x1b]0;title\x07"
SHOWN = r"\u001b]0;title\u0007"
ACTED_ON = "\x00\x07\x08\r\x1b\x7f\x9b\u2028\u202e\u2066\ufeff"


def test_every_command_has_an_example_that_it_understands():
    parser, commands = cli._parser()
    for name, command in commands._subparsers.choices.items():
        example = shlex.split(command.epilog)
        assert example[:3] == ["Example:", "hone", name]
        parser.parse_args(example[2:])


@pytest.mark.parametrize(
    ("arguments", "status", "start", "end"),
    [
        (["new", "--data", "x"], 2, "usage: hone new ", "unrecognized arguments: --data x\n"),
        (["trian"], 2, "usage: hone ", "There is no command trian. Did you mean train?\n"),
        (["zzz"], 2, "usage: hone ", "hosts.\n"),
        (["--version"], 0, f"Hone {VERSION}", "\n"),
    ],
)
def test_usage_suggestions_and_the_version(arguments, status, start, end, hone):
    text = "".join(hone(*arguments, status=status))
    assert text.startswith(start)
    assert text.endswith(end)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "runs"), "runs: Permission denied"),
        (OSError("no more processes"), "no more processes"),
        (KeyError("x"), "A bug in Hone: KeyError: 'x'"),
    ],
)
def test_faults_are_logged_or_printed(error, message, home, monkeypatch, hone):
    def fail(_):
        raise error

    monkeypatch.setattr("core.cli.runs.list_runs", fail)
    log = home / "hone.log"
    assert hone("runs", status=1).err == f"{message}\nThe whole report is in {log}\n"
    assert "Traceback" in log.read_text()
    log.unlink()
    log.mkdir()
    err = hone("runs", status=1).err
    assert err.endswith(f"{message}\n")
    assert ("Traceback" in err) == isinstance(error, KeyError)


def is_harmless(text):
    return not any(character in text for character in ACTED_ON)


def test_control_characters_are_shown_columns_line_up_and_json_stays_the_same_value(capsys):
    assert formats.visible(TITLE) == SHOWN
    assert is_harmless(formats.visible(ACTED_ON))
    plain = "Ünïcode 漢字 👩\u200d🚀\tand\r\nlines\n"
    assert formats.visible(plain) == plain
    lines = formats.table(("NAME", "KIND"), [(TITLE, "text"), ("plain", "text")]).splitlines()
    assert {line.index("text") for line in lines[1:]} == {len(SHOWN) + 2}
    print_json({"name": TITLE + ACTED_ON})
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert json.loads(out) == {"name": TITLE + ACTED_ON}


def test_control_characters_of_runs_messages_and_errors_do_not_act_on_the_terminal(tmp_path, hone):
    EventWriter(tmp_path / "events.jsonl", attempt=1).write(
        RunStarted(),
        ExamplesChosen(examples=(Example(given=TITLE, expected=TITLE),)),
        Predicted(step=0, epoch=0.0, said=(Said(text=TITLE),)),
    )
    (tmp_path / "run.toml").write_text('task = "causal-lm"\n[output]\nname = "\\u001b]0;title\\u0007"\n')
    shown = hone("show", tmp_path, "--predictions").out + hone("show", tmp_path).out
    assert shown.count(SHOWN) == 5, "the input, its label, the prediction, and twice the run's name"
    stream = io.StringIO()
    Progress(RunStatus(), stream).show(MessageRaised(id="a", level=Level.WARNING, title=TITLE))
    (tmp_path / "data.csv").write_text("text,label\na,b\n")
    wrong = hone("inspect", tmp_path / "data.csv", "--set", f"data.label_column.{TITLE}=a", status=2).err
    for text in (shown, wrong, stream.getvalue()):
        assert SHOWN in text
        assert is_harmless(text)
    for error in (UserError(TITLE), OptionsError((Problem("", TITLE),))):
        assert TITLE in error_text(error), "the window shows it as it is"


@pytest.mark.parametrize(
    ("command", "target", "message"),
    [
        ("export {run} --report {target}", "gone/x.html", "There is no folder at {there}/gone."),
        ("show {run} --support {target}", "file/x.html", "{there}/file is no folder."),
        ("script {run} -o {target}", "file", "{there}/file is there already; choose another name"),
        ("export {run} --metrics {target}", "folder.csv", "{there}/folder.csv is a folder."),
        ("export {run} --metrics {target}", "a.xyz", "are written as .csv or .parquet, not as a.xyz"),
        ("new --task text-classification -o {target}", "file", "{there}/file is there already"),
    ],
)
def test_every_command_refuses_an_impossible_target(command, target, message, run, home, hone):  # noqa: PLR0917
    there = home / "there"
    (there / "folder.csv").mkdir(parents=True)
    (there / "file").write_text("precious")
    arguments = (part.format(run=run.path, target=there / target) for part in command.split())
    err = hone(*arguments, status=2).err.replace(os.sep, "/")
    assert message.format(there=there).replace(os.sep, "/") in err
    assert sorted(path.name for path in there.rglob("*")) == ["file", "folder.csv"]
    assert not (settings.home() / "hone.log").exists()


def test_a_full_disk_leaves_nothing(run, tmp_path, monkeypatch, hone):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "temporary")

    target = tmp_path / "there" / "x.zip"
    target.parent.mkdir()
    monkeypatch.setattr("zipfile.ZipFile.writestr", fail)
    err = hone("show", run.path, "--support", target, status=1).err
    assert f"{target} is on is full" in err
    assert "hone.log" not in err
    assert list(target.parent.iterdir()) == []
