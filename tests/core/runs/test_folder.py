"""A run's folder: made, listed and read; requests in it; and whether somebody works on it."""

import errno
import json
import os
import time

import msgspec
import pytest
from msgspec.structs import replace

from core.base.errors import OptionsError, RunFolderError
from core.options import run_file
from core.options.choices import Task
from core.options.sections import ModelOptions
from core.options.validate import check_tree
from core.runs import elsewhere, folder
from core.runs.events import Action, MemorySampled, RunStarted, Source, encode
from core.runs.folder import ExitRecord
from core.runs.library import create, create_all, list_runs, pretraining_pair, read_status, run_title
from core.runs.status import RunStatus, State
from tests.fakes.runs import digits_options, new_run, record_keeper, write_events


def test_each_new_run_gets_a_folder_of_its_own_with_its_options(tmp_path):
    first, second = (create(digits_options(), tmp_path / "runs") for _ in range(2))
    assert first.path.parent == tmp_path / "runs"
    assert first.name == f"{time.strftime('%Y-%m-%d-%H%M')}-digits"
    assert second.name == f"{first.name}-2"
    assert first.options() == digits_options()
    second.options_file.unlink()  # as of a run that is just being made
    assert create(digits_options(), tmp_path / "runs").path not in (first.path, second.path)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("Digits", ["Digits", "Digits 2", "Digits 3"]),
        ("Epoch 3", ["Epoch 3", "Epoch 3 2", "Epoch 3 3"]),
        (None, ["resnet18 on digits", "resnet18 on digits 2", "resnet18 on digits 3"]),
    ],
)
def test_a_name_that_a_run_has_gets_a_number(asked, names, tmp_path):
    runs = [create_all(digits_options(asked), tmp_path)[0] for _ in names]
    assert [run_title(run) for run in runs] == names
    again = create_all(runs[1].options(), tmp_path)
    assert run_title(again[0]) == f"{names[0]} 4", "of a copy of a numbered run, too"


def test_a_chat_model_from_scratch_is_pretrained_by_a_run_of_its_own(tmp_path):
    tree = {
        "task": "chat",
        "model": {"source": "scratch:llama-tiny", "vocabulary": 512},
        "data": {"train": __file__, "columns": {"prompt": "q"}, "chat_template": "chatml", "packing": True},
        "output": {"name": "Pip", "prompts": ["Who are you?"]},
    }
    options, problems = check_tree(tree)
    assert (options is not None, problems) == (True, ())
    first, second = create_all(options, tmp_path)
    before, after = first.options(), second.options()
    assert check_tree(run_file.to_tree(before))[1] == ()
    assert (before.task, before.model, before.data.columns) == (
        Task.CAUSAL_LM,
        options.model,
        {"prompt": "q"},
    )
    assert replace(after, model=options.model) == options
    assert (after.model.source, after.model.vocabulary) == (f"run:{first.path}", ModelOptions().vocabulary)
    assert after.output.name != before.output.name
    assert pretraining_pair(first) == pretraining_pair(second) == (first, second)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Größe / Test?", "grosse-test"),
        ("Étude n\u00ba 2, cafe\u0301", "etude-no-2-cafe"),
        ("数字", "数字"),
        ("가게에 온 메시지", "가게에-온-메시지"),
        ("رسائل إلى متجر", "رسائل-إلى-متجر"),
        ("हिन्दी ข้อความ", "हिन्दी-ข้อความ"),
        ("Мой чай", "мой-чай"),
        ("…", "run"),
        ("x" * 100, "x" * 48),
        ("../../escaped", "escaped"),
        ("..", "run"),
        ("a/b\\c\x00", "a-b-c"),
        ("~root", "root"),
    ],
)
def test_folder_names_are_safe_everywhere(name, expected, tmp_path):
    made = create(digits_options(name), tmp_path / "runs")
    assert made.name.endswith(f"-{expected}")
    assert made.path.parent == tmp_path / "runs"


def test_a_chosen_run_folder_must_be_empty_or_absent(tmp_path):
    chosen = tmp_path / "new" / "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "file").touch()
    assert create(digits_options(), tmp_path, chosen).path == chosen
    assert create(digits_options(), tmp_path, empty).path == empty
    for taken in (empty, tmp_path / "file"):
        with pytest.raises(OptionsError) as caught:
            create(digits_options(), tmp_path, taken)
        assert str(taken) in str(caught.value)
    with pytest.raises(RunFolderError) as refused:
        create(digits_options(), tmp_path / "file" / "runs")
    assert str(tmp_path / "file") in refused.value.detail


def test_runs_are_listed_newest_first_damaged_ones_too(tmp_path):
    old, new, damaged = (new_run(tmp_path) for _ in range(3))
    damaged.options_file.unlink()
    damaged.events_file.write_text("?")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file.txt").touch()
    for age, path in enumerate((new.options_file, old.options_file, damaged.events_file)):
        os.utime(path, (1000 - age, 1000 - age))
    assert list_runs(tmp_path) == [new, old, damaged]
    assert list_runs(tmp_path / "none") == []


def test_the_status_sums_up_both_files_and_counts_what_can_not_be_read(run):
    run.events_file.write_bytes(encode(RunStarted(time=1.0)) + b'{"type":"of_tomorrow"}\n')
    run.machine_file.write_bytes(b"damaged\n")
    write_events(run.machine_file, MemorySampled(time=2.0, source=Source.PROCESS, bytes=7))
    status = read_status(run)
    assert (status.started, status.peak_bytes) == (1.0, 7)
    assert status.skipped == 2


# --- Requests


def test_requests_are_open_until_they_are_closed(run):
    assert run.open_requests() == []
    stop, kill = run.request(Action.STOP), run.request(Action.KILL)
    assert {request.id for request in run.open_requests()} == {stop.id, kill.id}
    assert run.requested() == {Action.STOP, Action.KILL}
    run.close_request(stop)
    run.close_request(stop)
    assert run.open_requests() == [kill]


@pytest.mark.parametrize("request_id", ["../../mine", "{outside}", "zzz", "0" * 32, "A" * 32, ""])
def test_a_strangers_request_names_no_other_file(request_id, run, tmp_path):
    own = run.request(Action.SAVE)
    outside = tmp_path / "mine.json"
    outside.write_text("{}")
    strange = run.requests / "a.json"
    strange.write_text(json.dumps({"id": request_id.format(outside=tmp_path / "mine"), "action": "kill"}))
    assert run.open_requests() == [own]
    assert strange.exists()
    assert run.open_requests(clean=True) == [own]
    assert [path.name for path in run.requests.iterdir()] == [f"{own.id}.json"]
    assert outside.exists()


def test_files_that_are_no_requests_are_removed_but_for_folders(run):
    own = run.request(Action.SAVE)
    locked = run.requests / "locked.json"
    locked.write_text("{")
    locked.chmod(0)
    (run.requests / "folder.json").mkdir()
    if os.name == "posix":
        os.mkfifo(run.requests / "pipe.json")
        for name, target in (("device", "/dev/zero"), ("nowhere", "nowhere"), ("circle", "circle.json")):
            (run.requests / f"{name}.json").symlink_to(target)
    assert run.open_requests() == [own]
    assert run.open_requests(clean=True) == [own]
    assert {path.name for path in run.requests.iterdir()} == {f"{own.id}.json", "folder.json"}


def test_a_request_on_a_disk_that_fails_for_a_moment_stays(run, monkeypatch):
    request = run.request(Action.STOP)

    def fail(_path: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("core.runs.folder.read_small", fail)
        assert run.open_requests(clean=True) == []
    assert run.open_requests() == [request]


# --- Whether somebody works on it


@pytest.mark.parametrize(
    ("changes", "is_alive"),
    [
        ({}, True),
        ({"started": 0.0}, False),  # another process has its number now
        ({"host": "renamed.local"}, True),  # a Mac's name follows its network
        ({"host": "elsewhere", "booted": 0.0}, False),
    ],
)
def test_the_keeper_is_the_process_that_was_recorded(run, changes, is_alive):
    assert not run.keeper_is_alive()
    record_keeper(run, **changes)
    assert run.keeper_is_alive() is is_alive


def test_a_run_on_another_computer_lives_as_long_as_it_writes(run):
    record_keeper(run, host="elsewhere", booted=0.0)
    assert run.is_alive()
    for path in (run.keeper_file, run.events_file):
        path.touch()
        os.utime(path, (0, time.time() - folder.SILENCE_SECONDS - 1))
    assert not run.is_alive()
    run.machine_file.touch()
    assert run.is_alive()


def test_a_run_on_a_named_computer_lives_without_a_keeper_here_until_it_is_over(run):
    record_keeper(run, started=0.0)
    assert not run.is_alive()
    link = folder.Connection(computer="workshop", folder="digits", attempt=1)
    run.connection_file.write_bytes(msgspec.json.encode(link))
    assert run.connection() == link
    assert not run.is_alive(), "a stranger's folder may say anything"
    elsewhere.claim(run.path, "workshop", "digits")
    assert run.is_alive(), "the keeper here was killed, which ends nothing there"
    run.connection_file.write_bytes(msgspec.json.encode(replace(link, attempt=0)))
    assert not run.is_alive(), "it hasn't begun there"
    run.connection_file.write_bytes(msgspec.json.encode(replace(link, over=True)))
    assert not run.is_alive(), "it was given up"
    run.connection_file.write_bytes(msgspec.json.encode(link))
    run.record_exit(ExitRecord(time=0.0, code=0))
    assert not run.is_alive()


def test_a_new_folder_is_starting_and_an_old_one_without_a_keeper_has_crashed(run):
    assert run.state(RunStatus()) is State.STARTING
    long_ago = time.time() - folder.STARTING_SECONDS - 1
    os.utime(run.options_file, (long_ago, long_ago))
    assert run.state(RunStatus()) is State.CRASHED
