"""A run's folder that a stranger made: reading it and resuming it leaves everything else as it is."""

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from core.base.errors import RunFolderError
from core.base.files import file_inside
from core.engine.run import checkpoints
from core.runs import start
from core.runs.event_log import RunFollower
from core.runs.events import Action, RunStarted
from core.runs.library import read_status
from core.runs.models import MARKER, newest_first
from core.runs.start import CantResume
from core.runs.summary import summarize
from core.sharing import support
from core.sharing.support import Redactor
from tests.fakes.runs import keeper_command, write_events

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need a right of their own on Windows")

FILES = (
    *("events.jsonl", "machine.jsonl", "log.txt", "events.jsonl.torn", "exit.json", "keeper.json", ".lock"),
    *(".engine.lock", ".spare", "examples/0.png", "tensorboard/events"),
)
FOLDERS = ("requests", "checkpoints", "model", "tensorboard", "examples", "checkpoints/checkpoint-3")


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
def run(run):
    write_events(run.events_file, RunStarted())
    with run.events_file.open("ab") as file:
        file.write(b"a torn line")
    return run


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@contextmanager
def at_most_20_seconds():
    signal.alarm(20)  # a pipe that blocks ends the test run, not only this test
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("place", [*FILES, *FOLDERS])
def test_nothing_is_written_through_a_link(place, run, outside):
    link = run.path / place
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if place in FOLDERS else outside / "mine.txt")
    before = content(outside)
    with pytest.raises(RunFolderError) as refused:
        start.start(run, keeper_command(run, "finish")).wait()
    assert str(link) in str(refused.value)
    if place == "requests":
        with pytest.raises(OSError, match="leads elsewhere"):
            run.request(Action.STOP)
    assert content(outside) == before


def test_a_pipe_is_not_written_to(run):
    os.mkfifo(run.log_file)
    with at_most_20_seconds(), pytest.raises(CantResume, match="neither a file nor a folder"):
        start.start(run, keeper_command(run, "finish"))


def test_cleaning_checkpoints_takes_nothing_away_elsewhere(run, outside):
    lying = run.checkpoints / "checkpoint-6"
    lying.mkdir(parents=True)
    (run.checkpoints / "checkpoint-5").symlink_to(outside)
    (lying / "link").symlink_to(outside)
    (lying / "trainer_state.json").write_text("{}")
    before = content(outside)
    for name in ("../../../../outside/mine.txt", str(outside / "mine.txt"), "link/mine.txt"):
        entry = {name: {"bytes": 5, "sha256": "x"}, "trainer_state.json": {"bytes": 2, "sha256": "x"}}
        (lying / MARKER).write_bytes(msgspec.json.encode(entry))
        assert newest_first(run.checkpoints) == []
    checkpoints.clean(run.checkpoints)
    assert content(outside) == before
    assert not lying.exists()


@pytest.mark.parametrize(
    "place", ["events.jsonl", "machine.jsonl", "exit.json", "keeper.json", "run.toml", "log.txt"]
)
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "loop"])
def test_what_is_no_file_neither_blocks_nor_is_read_without_end(place, kind, run):
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
    with at_most_20_seconds():
        summary, status = summarize(run), read_status(run)
        follower = RunFollower(run)
        follower.poll()
    assert follower.is_caught_up
    assert (str(path) in status.trouble) == place.startswith(("events", "machine"))
    assert (str(path) in summary.problem) == (place == "run.toml")


def test_reading_a_run_changes_nothing_and_ends_no_process(run):
    run.exit_file.write_text('{"time": 1, "code": 0}')
    foreign = subprocess.Popen(["sleep", "60"])
    try:
        run.record_keeper(foreign.pid)
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


@pytest.mark.parametrize("text", ["x" * 300_000, "secret" * 30_000, "a." * 100_000, "\\" * 100_000])
def test_long_words_are_searched_for_secrets_in_linear_time(text):
    with at_most_20_seconds():
        assert Redactor((), (), ())(text) == text


def test_images_of_examples_lie_within_the_run(run, outside):
    images = run.path / "examples"
    images.mkdir()
    (images / "0.png").write_bytes(b"image")
    (images / "link.png").symlink_to(outside / "mine.txt")
    (images / "loop.png").symlink_to("loop.png")
    os.mkfifo(images / "pipe.png")
    assert file_inside(run.path, "examples/0.png") == (images / "0.png").resolve()
    for name in ("link.png", "loop.png", "pipe.png", "none.png", "a\0b", ".", "../../../outside/mine.txt"):
        assert file_inside(images, name) is None, name
    assert file_inside(images, str(outside / "mine.txt")) is None
