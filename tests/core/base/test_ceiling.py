"""The ceiling of memory and time over what is read of a stranger's: what goes beyond is ended, in one sentence."""

import json
import sys
import tempfile
from pathlib import Path

import msgspec
import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base import ceiling
from core.base.ceiling import Ceiling, Pace, RanOut, room_for_reading
from core.base.errors import UserError
from core.base.jobs import EngineJob
from core.base.system import SystemMemory
from core.memory.model import OptionsRequest
from core.options import Tree
from core.options.choices import Task
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import Level, MessageRaised
from core.runs.status import State
from core.services.inspect import InspectRequest
from tests.fakes.models import instructions, save_tiny_talker, write_json
from tests.fakes.runs import FAKES, follow_until, new_run, start

MB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """Neither an engine nor a file is left behind."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = {child.pid for child in psutil.Process().children()}
    yield
    _, alive = psutil.wait_procs([one for one in psutil.Process().children() if one.pid not in before], 5)
    assert not alive
    assert list((tmp_path / "temporary").glob("hone-reading-*")) == []


def fake(scenario: str, limit: int | None = None) -> EngineJob:
    command = [sys.executable, "-P", str(FAKES / "job.py"), scenario]
    return EngineJob(scenario, command, limit=lambda _memory: limit)


def test_what_spins_is_ended_and_named(monkeypatch):
    monkeypatch.setitem(ceiling.SECONDS, Pace.QUICK, 0.5)
    with pytest.raises(UserError, match="A template") as caught:
        fake("spin").ask()
    assert caught.value.fixes


def test_what_takes_too_much_memory_is_ended_and_named():
    with pytest.raises(RanOut, match=r"row 3 of a\.parquet") as caught:
        fake("eat", 150 * MB).ask()
    assert 150 * MB < caught.value.held < 1000 * MB
    assert caught.value.fixes


def test_what_goes_on_from_row_to_row_may_take_as_long_as_it_wants(monkeypatch):
    monkeypatch.setitem(ceiling.SECONDS, Pace.QUICK, 1.0)
    assert fake("alive").ask(b"{}") == b"{}"


def test_the_limit_follows_what_is_free_and_leaves_a_share(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert room_for_reading(SystemMemory(used=0, total=64 << 30, swap=0)) == 63 << 30
    assert room_for_reading(SystemMemory(used=62 << 30, total=64 << 30, swap=0)) < 2 << 30
    monkeypatch.setattr(sys, "platform", "darwin")
    assert room_for_reading(SystemMemory(used=62 << 30, total=64 << 30, swap=0)) == 31 << 30


def test_hones_own_work_takes_what_it_needs(monkeypatch):
    watched = Ceiling(limit=1)
    try:
        assert watched.look(psutil.Process().pid) is None
        monkeypatch.setenv(*watched.environment.popitem())
        with ceiling.reading("a stranger's file"):
            assert isinstance(watched.look(psutil.Process().pid), RanOut)
        assert watched.look(psutil.Process().pid) is None
    finally:
        watched.close()


@pytest.mark.parametrize("scenario", ["spin", "eat"])
def test_a_run_that_reads_too_long_or_too_much_fails_with_the_sentence(tmp_path, scenario):
    run = new_run(tmp_path)
    keeper = start(run, scenario)
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: follower.is_over, 60.0)
    keeper.wait()
    follower.poll()
    assert follower.state is State.FAILED
    (told,) = [event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)]
    assert (told.id, told.level) == ("failed", Level.ERROR)
    assert told.title.startswith("The chat template")
    assert told.fixes


def ask(job: str, request: msgspec.Struct, limit: int = 64 << 30) -> UserError:
    with pytest.raises(UserError) as caught:
        EngineJob(job, limit=lambda _memory: limit).ask(msgspec.json.encode(request))
    return caught.value


def chat(folder: Path, template: str) -> InspectRequest:
    save_tiny_talker(folder / "model", template)
    write_json(folder / "chat.json", instructions())
    asked: Tree = {
        "task": Task.CHAT.value,
        "model": {"source": str(folder / "model")},
        "data": {"train": str(folder / "chat.json")},
    }
    return InspectRequest(asked=asked)


@pytest.fixture
def impatient(monkeypatch):
    """Little time, but enough to import the libraries that read a model."""
    monkeypatch.setitem(ceiling.SECONDS, Pace.QUICK, 10.0)


@pytest.mark.usefixtures("impatient")
def test_a_template_that_never_ends(tmp_path):
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    error = ask("inspect", chat(tmp_path, loop))
    assert not isinstance(error, RanOut)
    assert "chat template" in error.title


def test_a_template_that_writes_without_end(tmp_path):
    error = ask("inspect", chat(tmp_path, "{{ 'a' * 10 ** 10 }}"), 1024 * MB)
    assert isinstance(error, RanOut)
    assert "chat template" in error.title


@pytest.mark.usefixtures("impatient")
def test_a_config_of_a_million_layers(tmp_path):
    asked = chat(tmp_path, "x").asked
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "num_hidden_layers": 10**6, "layer_types": None}))
    error = ask("check-model", OptionsRequest(asked=asked))
    assert "config" in error.title
    assert str(tmp_path / "model") in error.title


def test_cells_that_unpack_to_far_more_than_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * 16, pa.int32()), pa.array(["x" * 50_000_000]))
    parquet.write_table(
        pa.table({"text": cells.cast(pa.string()), "label": ["a", "b"] * 8}), path, compression="zstd"
    )
    assert path.stat().st_size < MB
    asked: Tree = {"task": Task.TEXT_CLASSIFICATION.value, "data": {"train": str(path)}}
    error = ask("inspect", InspectRequest(asked=asked), 700 * MB)
    assert isinstance(error, RanOut)
    assert "a.parquet" in error.title
