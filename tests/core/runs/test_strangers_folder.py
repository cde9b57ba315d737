"""A run's folder that a stranger made: reading it, asking it and going on with it leaves everything else as it is."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from core.base.errors import RunFolderError, UserError
from core.base.files import file_inside
from core.engine.training import checkpoints
from core.options import run_file
from core.runs import start
from core.runs.event_log import EventReader, EventWriter, RunFollower
from core.runs.events import PhaseChanged, RunStarted
from core.runs.folder import Action, KeeperRecord
from core.runs.library import create, read_status
from core.runs.models import MARKER, newest, newest_first
from core.runs.summary import summarize
from core.sharing import support
from core.sharing.support import Redactor
from tests.fakes.runs import digits_options, keeper_command, new_run, write_events

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need a right of their own on Windows")

PLACES = (
    *("events.jsonl", "machine.jsonl", "log.txt", "events.jsonl.torn", "exit.json", "keeper.json", ".lock"),
    *(".engine.lock", ".spare"),
    *("requests", "checkpoints", "model", "tensorboard", "examples"),
    *("checkpoints/checkpoint-3", "examples/0.png", "tensorboard/events"),
)


@pytest.fixture
def outside(tmp_path):
    """A folder of the person's own, with a whole checkpoint in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine\n")
    (folder / "trainer_state.json").write_text("{}")
    checkpoints.seal(folder)
    return folder


@pytest.fixture
def run(tmp_path):
    made = new_run(tmp_path / "runs")
    write_events(made.events_file, RunStarted())
    with made.events_file.open("ab") as file:
        file.write(b"a torn line")
    return made


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_written_through_a_link(place, run, outside):
    link = run.path / place
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    is_folder = (
        place in ("requests", "checkpoints", "model", "tensorboard", "examples") or "checkpoint-" in place
    )
    link.symlink_to(outside if is_folder else outside / "mine.txt")
    before = content(outside)
    with pytest.raises(RunFolderError) as refused:
        start.start(run, keeper_command(run, "finish")).wait()
    assert str(link) in str(refused.value)
    assert content(outside) == before


def test_a_request_is_not_left_elsewhere(run, outside):
    run.requests.symlink_to(outside)
    before = content(outside)
    with pytest.raises(OSError, match="leads elsewhere"):
        run.request(Action.STOP)
    assert content(outside) == before


def test_cleaning_takes_nothing_away_elsewhere(run, outside):
    run.checkpoints.mkdir()
    (run.checkpoints / "checkpoint-5").symlink_to(outside)
    lying = run.checkpoints / "checkpoint-6"
    lying.mkdir()
    names = ("../../../../outside/mine.txt", str(outside / "mine.txt"), "link/mine.txt")
    (lying / "link").symlink_to(outside)
    before = content(outside)
    for name in names:
        entry = {name: {"bytes": 5, "sha256": "x"}, "trainer_state.json": {"bytes": 2, "sha256": "x"}}
        (lying / "trainer_state.json").write_text("{}")
        (lying / MARKER).write_bytes(msgspec.json.encode(entry))
        assert newest_first(run.checkpoints) == []
    assert newest(run) is None
    checkpoints.clean(run.checkpoints)
    assert content(outside) == before
    assert not lying.exists()


@pytest.mark.parametrize(
    "place", ["events.jsonl", "machine.jsonl", "exit.json", "keeper.json", "run.toml", "log.txt"]
)
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "loop"])
def test_what_is_no_file_is_neither_waited_for_nor_read_without_end(place, kind, run):
    path = run.path / place
    path.unlink(missing_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
    signal.alarm(20)  # a pipe that is waited for ends the test run, not only this test
    try:
        summary, status = summarize(run), read_status(run)
        follower = RunFollower(run)
        follower.poll()
    finally:
        signal.alarm(0)
    assert follower.is_caught_up
    assert (str(path) in status.trouble) == place.startswith(("events", "machine"))
    assert (str(path) in summary.problem) == (place == "run.toml")


def test_a_line_without_end_is_left_out_and_the_rest_is_read(run, tmp_path):
    path = tmp_path / "events.jsonl"
    write_events(path, RunStarted())
    with path.open("ab") as file:
        file.write(bytes(33 << 20) + b"\n")
    write_events(path, PhaseChanged(phase="training"))
    reader = EventReader(path)
    assert [type(event) for event in reader.read_all()] == [RunStarted, PhaseChanged]
    assert (reader.skipped, reader.is_at_end) == (1, True)


def test_figures_that_are_none_cost_their_lines_only(tmp_path):
    path = tmp_path / "events.jsonl"
    EventWriter(path).write(RunStarted())
    good = path.read_bytes()
    bad = [
        good.replace(b'"pid":0', b'"pid":-1'),
        good.replace(b'"from_step":0', b'"from_step":' + b"9" * 30),
        b'{"type":"run_started","time":1e300}\n',
        b'{"type":"run_started","versions":' + b'{"a":' * 100_000 + b"}\n",
        b'{"type":"phase_changed","phase":"training","detail":"\xff"}\n',
    ]
    path.write_bytes(good + b"".join(bad) + good)
    reader = EventReader(path)
    assert len(reader.read_all()) == 2
    assert reader.skipped == len(bad)


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "..", "a/b\\c", "x\x00y", "con", "~root"])
def test_a_name_leads_to_no_other_folder(name, tmp_path):
    home = tmp_path / "runs"
    made = create(digits_options(name), home)
    assert made.path.parent == home
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_paths_of_a_run_file_are_only_read(tmp_path):
    path = tmp_path / "theirs.hone"
    text = run_file.dumps(digits_options())
    path.write_text(text.replace('train = "builtin:digits"', 'train = "../../../etc/passwd"'))
    before = content(tmp_path)
    with contextlib.suppress(UserError):  # where there is no such file
        assert run_file.read(path).data.train.endswith("etc/passwd")
    assert content(tmp_path) == before


def test_looking_at_a_run_starts_nothing(run):
    run.exit_file.write_text('{"time": 1, "code": 0}')
    foreign = subprocess.Popen(["sleep", "60"])
    try:
        run.record_keeper(foreign.pid)
        record = run.keeper_record()
        assert isinstance(record, KeeperRecord)
        before = content(run.path)
        summarize(run)
        RunFollower(run).poll()
        run.state(read_status(run))
        assert content(run.path) == before
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_support_file_holds_no_file_that_a_link_leads_to(run, outside):
    run.log_file.symlink_to(outside / "mine.txt")
    assert "log.txt" not in [file.name for file in support.collect(run)]


def test_long_words_are_searched_for_secrets_in_no_time():
    signal.alarm(20)
    try:
        for text in ("x" * 300_000, "secret" * 30_000, "a." * 100_000, "\\" * 100_000):
            assert Redactor((), (), ())(text) == text
    finally:
        signal.alarm(0)


def test_images_of_examples_lie_within_the_run(run, outside):
    images = run.path / "examples"
    images.mkdir()
    (images / "0.png").write_bytes(b"image")
    (images / "link.png").symlink_to(outside / "mine.txt")
    (images / "loop.png").symlink_to("loop.png")
    os.mkfifo(images / "pipe.png")
    assert file_inside(run.path, "examples/0.png") == (images / "0.png").resolve()
    strange = ("link.png", "loop.png", "pipe.png", "none.png", "a\0b", ".", "../../../outside/mine.txt")
    assert [file_inside(images, name) for name in (*strange, str(outside / "mine.txt"))] == [None] * 8
