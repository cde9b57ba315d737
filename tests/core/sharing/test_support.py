"""The support file holds no secret, name, path or data, whatever file they are in; huge logs are cut."""

import json
import re
import zipfile

import pytest

from core.cli.main import main
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import OutputOptions
from core.runs.events import (
    ConfusionCounted,
    Example,
    ExamplesChosen,
    LabelCounted,
    Level,
    MessageRaised,
    Predicted,
    RunStarted,
    Said,
)
from core.runs.folder import ExitRecord, RunFolder
from core.sharing import support
from core.sharing.support import Redactor
from tests.fakes.runs import make_folder, plan, record_keeper, write_events

LINUX, MAC = "/home", "/Users"
HOME, USER, HOST = "/home/anneliese", "anneliese", "annes-laptop.lan"
SECRETS = (
    "hf_QwErTyUiOpAsDfGhJkLz",
    "sk-proj-abcdefgh12345678",
    "ghp_abcdefghijkl0123456789",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "hunter2-in-address",
    "hunter3-in-header",
    "hunter4-in-variable",
    "hunter5 with spaces",
    "hunter6-in-json",
)
PLANTED = f"""\
token={SECRETS[0]} {SECRETS[1]} and {SECRETS[2]}, {SECRETS[3]}
cookie {SECRETS[4]}
https://me:{SECRETS[5]}@hub.example/x?y=1
Authorization: Bearer {SECRETS[6]}
HF_TOKEN={SECRETS[7]} PASSWORD='{SECRETS[8]}' {{"api_key": "{SECRETS[9]}"}}
{HOME}/data/reviews.csv on {HOST}, by {USER}; also annes-laptop and C:\\\\Users\\\\{USER}\\\\x
"""
DATA = ("The secret diary of a customer", "What the model made of it", "A prompt of my own")
FORBIDDEN = (*SECRETS, HOME, USER, "annes-laptop", *DATA)
REDACT = Redactor(places=(HOME,), users=(USER,), hosts=(HOST,))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with secrets, names and data in every file."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hone.log").write_text(PLANTED)
    options = RunOptions(
        task=Task.CAUSAL_LM,
        data=DataOptions(train=f"{HOME}/data/reviews.csv"),
        output=OutputOptions(name=f"by {USER}", prompts=(DATA[2],)),
    )
    run = make_folder(tmp_path / "run", options)
    write_events(
        run.events_file,
        MessageRaised(id="x", level=Level.INFO, title="Odd", detail=PLANTED),
        ExamplesChosen(examples=(Example(given=DATA[0], expected="yes"),)),
        Predicted(step=1, epoch=0.0, said=(Said(text=DATA[1]),)),
    )
    with run.events_file.open("ab") as file:
        file.write(b'{"type":"predicted","said":[{"text":"' + DATA[1].encode() + b"\n")  # torn
        file.write(b'[{"type":"predicted","said":[{"text":"' + DATA[1].encode() + b"\n")
    write_events(run.machine_file, MessageRaised(id="y", level=Level.INFO, title=PLANTED))
    run.log_file.write_bytes(b"\xff\xfe\x00" + PLANTED.encode() + SECRETS[0].encode("utf-16-le"))
    run.record_exit(ExitRecord(time=1.0, code=1, reason=PLANTED, log_tail=PLANTED))
    record_keeper(run, host=HOST)
    run.forecast_file.write_text(json.dumps({"note": PLANTED}))
    return run


def collected(run: RunFolder, name: str) -> support.SupportFile:
    (found,) = [file for file in support.collect(run, REDACT) if file.name == name]
    return found


def test_nothing_secret_is_in_the_file_and_what_is_left_out_is_stated(run, tmp_path):
    files = support.collect(run, REDACT)
    support.save(files, tmp_path / "support.zip")
    with zipfile.ZipFile(tmp_path / "support.zip") as archive:
        saved = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(saved) == [
        *("support/about.txt", "support/events.jsonl", "support/exit.json", "support/forecast.json"),
        *("support/hone.log", "support/keeper.json", "support/log.txt", "support/machine.jsonl"),
        "support/run.toml",
    ]
    found = {
        (name, word) for name, text in saved.items() for word in FORBIDDEN if word.lower() in text.lower()
    }
    assert found == set()
    for file in files:
        assert file.text in saved[f"support/{file.name}"], "as it was shown"
    assert 'train = "[path]"' in saved["support/run.toml"]
    assert "[host]" in saved["support/keeper.json"]
    notes = {file.name: file.note for file in files}
    assert notes["events.jsonl"].startswith("2 events ")
    assert ". 2 unreadable lines " in notes["events.jsonl"]
    assert "prompts are left out" in notes["run.toml"]


def test_a_short_host_a_damaged_run_file_and_labels_of_the_data(run):
    run.keeper_file.write_text('{"pid":1,"host":"vm","booted":1.0}')
    assert collected(run, "keeper.json").text == '{"pid":1,"host":"[host]","booted":1.0}'
    planned = plan(labels=("acme", "b"))
    message = MessageRaised(id="few", level=Level.INFO, title="“acme” has one row")
    counted = LabelCounted(label="acme", true=1, predicted=1, right=1)
    confusion = ConfusionCounted(step=1, labels=("acme", "b"), counts=((1, 0), (0, 1)), of_labels=(counted,))
    write_events(run.events_file, RunStarted(), planned, message, confusion)
    (events,) = [file.text for file in support.collect(run) if file.name == "events.jsonl"]
    assert "acme" not in events
    assert '"labels":["[label]","[label]"]' in events
    run.options_file.write_text(f'task = [\n[output]\nprompts = [\n  "{DATA[2]}",\n]\n')
    assert DATA[2] not in collected(run, "run.toml").text


def test_a_huge_log_is_cut_in_the_middle(run):
    lines = [f"line {number:07}" for number in range(200_000)]
    run.log_file.write_text("\n".join(lines) + "\n")
    log = collected(run, "log.txt")
    assert log.note.endswith("in the middle are left out.")
    assert len(log.text) <= support.FIRST_BYTES + support.LAST_BYTES + 100
    kept = log.text.splitlines()
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    (gap,) = [place for place, line in enumerate(kept) if not line.startswith("line ")]
    assert "are left out" in kept[gap]
    assert set(kept[:gap] + kept[gap + 1 :]) < set(lines), "whole lines only"


@pytest.mark.parametrize(
    "text",
    [
        "model_max_length=512, tokens: 1,024",
        '"tokens":128,"seconds":0.2',
        "pad_token_id = 3 and num_tokens: 12",
        "task = 'text-classification'",
        "https://huggingface.co/docs and a@b",
        "The bearer of bad news",
        "a skater, sk-8",
    ],
)
def test_words_figures_and_addresses_stay(text):
    assert REDACT(text) == text


@pytest.mark.parametrize(
    ("redactor", "text", "expected"),
    [
        (Redactor((), ("jo",), ()), f"jo in {LINUX}/jo/x", "jo in [path]"),
        (Redactor(("C:\\Users\\Ann",), ("Ann",), ()), '"C:\\\\Users\\\\Ann\\\\x"', '"[path]"'),
        (Redactor(("/",), (), ()), "/", "/"),
        (Redactor((f"{MAC}/André",), (), ()), f'"{MAC}/Andr\\u00e9/x"', '"[path]"'),
        (Redactor(("/data/acme clinic", "a-1.csv")), "/data/acme clinic/b/1.png, a-1.csv", "[path], [path]"),
        (Redactor(labels=("acme", "loss")), '“acme” has 3 rows; "loss":1', '“[label]” has 3 rows; "loss":1'),
        (Redactor((), ("anna",), ()), "banana anna_b", "banana [user]_b"),
    ],
)  # fmt: skip
def test_names_are_redacted_as_names(redactor, text, expected):
    assert redactor(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/acme-hospital/patients.csv: gone", "[path]: gone"),
        ('"/data/acme hospital/patients.csv"', '"[path]"'),
        ('"one\\n/data/acme/x.csv"', '"one\\n[path]"'),
        ("in ~/acme/x.csv, file:///data/acme/x.csv", "in [path], [path]"),
        ("D:\\acme\\x.csv and D:/acme/x", "[path] and [path]"),
        ("\\\\server\\acme\\x.csv", "[path]"),
        (
            f'File "{LINUX}/x/.venv/lib/python3.11/site-packages/torch/nn.py", line 3',
            'File "[path]/lib/python3.11/site-packages/torch/nn.py", line 3',
        ),
        ('File "/opt/acme/core/engine/train.py", line 3', 'File "[path]/core/engine/train.py", line 3'),
        ("/data/acme hospital/patients.csv: not found", "[path]: not found"),
        ("No /data/acme hospital list.csv\nNext", "No [path]\nNext"),
        ("C:\\Users\\Anna Maria\\x.csv: gone", "[path]: gone"),
        ("/data/x and /home/y took 3.5 s", "[path] and [path] took 3.5 s"),
        ("/data/x.csv has rows/columns", "[path] has rows/columns"),
        ("[/home/somebody/x]", "[[path]]"),
        ("[INST] 5 /s [/INST]", "[INST] 5 /s [/INST]"),
        ("https://huggingface.co/docs/x 12 samples/s 3/4", "https://huggingface.co/docs/x 12 samples/s 3/4"),
    ],
)
def test_every_absolute_path_is_redacted(text, expected):
    assert Redactor()(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "--token SeCrEt-1x",
        "--api-key=SeCrEt-1x",
        "npm_SeCrEt1xabcdef",
        "pypi-SeCrEt1xabcdef",
        "ya29.SeCrEt1xabcdef",
        "key dapi0123456789abcdef0123456789abcdef",
        "https://hooks.slack.com/services/T0SeCrEt/B0SeCrEt/SeCrEt",
        "DefaultEndpoints;AccountKey=SeCrEt1x==;x",
        "https://s3.example/x?X-Amz-Signature=SeCrEt1x&y=1",
        "MYSQL_PWD=SeCrEt1x",
        "wandb: Using the API key SeCrEt1x",
        "https://0123456789@host/x",
        "https://hf_abcdefgh1234:SeCrEt@host/x",
        "Authorization: 0123456789",
        'password="SeCrEt hf_abcdefgh1234"',
    ],
)
def test_every_kind_of_secret_is_redacted(text):
    redacted = Redactor()(text)
    assert "[secret]" in redacted
    assert re.search("SeCrEt|0123456789", redacted) is None


def test_the_command_shows_and_saves(run, tmp_path, capsys):
    assert main(["show", str(run.path), "--support", "-"]) == 0
    assert "===== run.toml (Your own prompts are left out.)" in capsys.readouterr().out
    target = tmp_path / "support.zip"
    assert main(["show", str(run.path), "--support", str(target)]) == 0
    assert zipfile.is_zipfile(target)
    assert main(["show", str(run.path), "--support", str(target)]) == 2


def test_an_empty_folder_gives_a_file_about_the_computer(tmp_path):
    assert [file.name for file in support.collect(RunFolder(tmp_path), REDACT)] == ["about.txt"]
