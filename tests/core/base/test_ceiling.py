"""The limits of memory and time for reading a stranger's files: what exceeds them is ended with an explanation."""

import sys
import tempfile
from pathlib import Path
from typing import Any

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
from core.jobs.inspect import InspectRequest
from core.options.choices import Task
from core.runs.event_log import RunFollower
from core.runs.status import State
from tests.fakes.models import instructions, save_tiny_talker, write_json
from tests.fakes.runs import FAKES, follow_until, new_run, start

MB, GB = 1 << 20, 1 << 30


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """Neither an engine nor a file is left behind."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = set(psutil.Process().children())
    yield
    _, alive = psutil.wait_procs(set(psutil.Process().children()) - before, 5)
    assert not alive
    assert list((tmp_path / "temporary").glob("hone-reading-*")) == []


def fake(scenario: str, limit: int | None = None) -> EngineJob:
    command = [sys.executable, "-P", str(FAKES / "job.py"), scenario]
    return EngineJob(scenario, command, limit=lambda _memory: limit)


def test_a_job_that_reads_too_long_is_ended_but_not_one_that_makes_progress(monkeypatch):
    monkeypatch.setitem(ceiling.SECONDS, Pace.QUICK, 1.0)
    assert fake("alive").ask(b"{}") == b"{}"
    with pytest.raises(UserError, match="A template") as caught:
        fake("spin").ask()
    assert caught.value.fixes


def test_a_job_that_takes_too_much_memory_is_ended():
    with pytest.raises(RanOut, match=r"row 3 of a\.parquet") as caught:
        fake("eat", 150 * MB).ask()
    assert 150 * MB < caught.value.held < 1000 * MB
    assert caught.value.fixes


@pytest.mark.parametrize("scenario", ["spin", "eat"])
def test_a_run_that_reads_too_long_or_too_much_has_failed_with_the_explanation(tmp_path, scenario):
    run = new_run(tmp_path)
    keeper, follower = start(run, scenario), RunFollower(run)
    follow_until(follower, keeper, lambda: follower.is_over, 60.0)
    keeper.wait()
    follower.poll()
    assert follower.state is State.FAILED
    message = follower.status.messages["failed"]
    assert message.title.startswith("The chat template")
    assert message.fixes


@pytest.mark.parametrize(
    ("platform", "used", "least", "most"),
    [("linux", 0, 63, 63), ("linux", 62, 0, 2), ("darwin", 62, 31, 31)],
)
def test_the_limit_follows_what_is_free(monkeypatch, platform, used, least, most):
    monkeypatch.setattr(sys, "platform", platform)
    room = room_for_reading(SystemMemory(used=used * GB, total=64 * GB, swap=0))
    assert least * GB <= room <= most * GB


def test_only_reading_is_limited_and_not_hones_own_work(monkeypatch):
    watched, own = Ceiling(limit=1), psutil.Process().pid
    ceiling.say()  # jobs that another test ran in this process have read something, too
    try:
        assert watched.look(own) is None
        monkeypatch.setenv(*watched.environment.popitem())
        with ceiling.reading("a stranger's file"):
            assert isinstance(watched.look(own), RanOut)
        assert watched.look(own) is None
    finally:
        watched.close()


# --- What a stranger may write, read by the real engine


def refused(job: str, request: msgspec.Struct, limit: int = 64 * GB) -> UserError:
    with pytest.raises(UserError) as caught:
        EngineJob(job, limit=lambda _memory: limit).ask(msgspec.json.encode(request))
    return caught.value


def chat(folder: Path, template: str) -> dict[str, Any]:
    model, data = folder / "model", folder / "chat.json"
    save_tiny_talker(model, template)
    write_json(data, instructions())
    return {"task": Task.CHAT.value, "model": {"source": str(model)}, "data": {"train": str(data)}}


def test_a_template_that_writes_without_end(tmp_path):
    tree = chat(tmp_path, "{{ 'a' * 10 ** 10 }}")
    error = refused("inspect", InspectRequest(asked=tree), 1024 * MB)
    assert isinstance(error, RanOut)
    assert "chat template" in error.title


def test_a_template_that_counts_without_end(tmp_path, monkeypatch):
    monkeypatch.setitem(ceiling.SECONDS, Pace.QUICK, 8.0)  # enough to import the libraries that read a model
    count = "{% for one in range(100000) %}"
    tree = chat(tmp_path, f"{count * 3}{'{% endfor %}' * 3}")
    error = refused("inspect", InspectRequest(asked=tree))
    assert not isinstance(error, RanOut)
    assert "chat template" in error.title


def test_cells_that_unpack_to_far_more_than_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * 16, pa.int32()), pa.array(["x" * 50_000_000]))
    table = pa.table({"text": cells.cast(pa.string()), "label": ["a", "b"] * 8})
    parquet.write_table(table, path, compression="zstd")
    assert path.stat().st_size < MB
    tree = {"task": Task.TEXT_CLASSIFICATION.value, "data": {"train": str(path)}}
    error = refused("inspect", InspectRequest(asked=tree), 700 * MB)
    assert isinstance(error, RanOut)
    assert "a.parquet" in error.title
