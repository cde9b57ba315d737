"""Who trains on which device and who waits: the order as a file."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from core.base.files import ENGINE_LOCK, locked
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.queue import Move

posix = pytest.mark.skipif(os.name != "posix", reason="ends processes with POSIX signals")

SELF = KeeperRecord.of(os.getpid())
GONE = msgspec.structs.replace(SELF, started=SELF.started - 1000)
"""A process number that another process has now."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own: the queue of other tests is none of this test's."""
    path = tmp_path / "home"
    monkeypatch.setenv("HONE_HOME", str(path))
    return path


def order() -> list[str]:
    return [run.name for run in queue.waiting()]


def named(*names: str) -> list[RunFolder]:
    return [RunFolder(Path(f"/runs/{name}").absolute()) for name in names]


def ahead(run: RunFolder, device: str = "cpu") -> tuple[int, str] | None:
    awaited = queue.take_turn(run, device, SELF)
    return None if awaited is None else (awaited.ahead, awaited.behind)


class TestOrder:
    def test_the_first_one_trains_and_the_others_wait_behind_it_in_their_order(self):
        first, second, third = named("first", "second", "third")
        assert ahead(first) is None
        assert ahead(second) == (1, "first")
        assert ahead(third) == (2, "second")
        assert (order(), [run.name for run in queue.training()]) == (["second", "third"], ["first"])
        queue.leave(first)
        assert ahead(third) == (1, "second")
        assert ahead(second) is None
        assert ahead(third) == (1, "second")

    def test_who_asks_again_keeps_its_place(self):
        first, second, third = named("first", "second", "third")
        for run in (first, second, third, second):
            ahead(run)
        queue.enter(second, "cpu", SELF)
        assert order() == ["second", "third"]
        assert ahead(first) is None

    def test_only_runs_for_the_same_device_are_in_the_way(self):
        gpu, other_gpu, same_gpu, cpu, any_device = named("gpu", "other", "same", "cpu", "any")
        assert ahead(gpu, "cuda") is None
        assert ahead(other_gpu, "cuda:1") is None
        assert ahead(same_gpu, "cuda:0") == (1, "gpu")
        assert ahead(cpu, "cpu") is None
        assert ahead(any_device, "auto") == (4, "same")

    @pytest.mark.parametrize(
        ("to", "expected"),
        [
            (Move.FIRST, ["c", "a", "b", "d"]),
            (Move.UP, ["a", "c", "b", "d"]),
            (Move.DOWN, ["a", "b", "d", "c"]),
            (Move.LAST, ["a", "b", "d", "c"]),
            (1, ["c", "a", "b", "d"]),
            (2, ["a", "c", "b", "d"]),
            (3, ["a", "b", "c", "d"]),
            (9, ["a", "b", "d", "c"]),
        ],
    )
    def test_a_waiting_run_is_moved(self, to, expected):
        trains, *waiting = named("trains", "a", "b", "c", "d")
        for run in (trains, *waiting):
            ahead(run)
        assert queue.move(waiting[2], to)
        assert order() == expected
        assert [run.name for run in queue.training()] == ["trains"]

    def test_the_ends_of_the_queue_hold(self):
        trains, a, b = named("trains", "a", "b")
        for run in (trains, a, b):
            ahead(run)
        queue.move(a, Move.UP)
        queue.move(b, Move.DOWN)
        assert order() == ["a", "b"]

    def test_what_doesnt_wait_cant_be_moved(self):
        trains, stranger = named("trains", "stranger")
        ahead(trains)
        assert not queue.move(trains, Move.LAST)
        assert not queue.move(stranger, Move.FIRST)

    def test_one_whose_keeper_died_is_passed_over(self):
        dead, trains, waits = named("dead", "trains", "waits")
        queue.enter(dead, "cpu", GONE)
        assert ahead(trains) is None
        assert ahead(waits) == (1, "trains")
        assert order() == ["waits"]

    def test_an_engine_that_lost_its_keeper_still_has_the_device(self, tmp_path):
        orphan, waits = RunFolder(tmp_path), *named("waits")
        queue.hold(orphan, "cpu", GONE)
        with locked(tmp_path, name=ENGINE_LOCK):
            assert ahead(waits) == (1, orphan.name)
        assert ahead(waits) is None

    def test_runs_of_another_computer_with_the_same_home_keep_their_place_and_hold_up_nobody_here(self):
        there = msgspec.structs.replace(GONE, host="elsewhere", booted=0.0)
        there = msgspec.structs.replace(there, started=time.time())
        queue.enter(*named("there"), "cpu", there)
        assert ahead(*named("here")) is None
        assert order() == []
        first, second = named("first", "second")
        for run, keeper in ((first, SELF), (RunFolder(Path("/there-2").absolute()), there), (second, SELF)):
            queue.enter(run, "cpu", keeper)
        queue.move(second, Move.UP)
        assert order() == ["second", "first"]
        queue.move(second, Move.DOWN)
        assert order() == ["first", "second"]
        assert b"/there" in (queue._file()).read_bytes().replace(b"\\\\", b"/")

    @pytest.mark.parametrize("damage", [b"", b"nonsense\n", b"\xff\xfe\x00", b"[1, 2]\n{}\n", b"[" * 100_000])
    def test_a_damaged_file_is_an_empty_queue(self, damage):
        first, second = named("first", "second")
        ahead(first)
        ahead(second)
        queue._file().write_bytes(damage)
        assert order() == []
        assert ahead(second) is None
        assert ahead(first) == (1, "second")

    def test_a_damaged_line_costs_no_other(self):
        first, second = named("first", "second")
        ahead(first)
        ahead(second)
        queue._file().write_bytes(b'{"run": 3}\n' + queue._file().read_bytes() + b'{"run": "torn')
        assert order() == ["second"]

    def test_nobody_waits_where_there_is_no_home(self):
        assert (queue.waiting(), queue.training(), queue.changed_at()) == ([], [], None)


def test_a_run_whose_place_is_lost_takes_no_turn_before_it_is_entered_again():
    first, second = named("first", "second")
    assert ahead(first) is None
    assert ahead(second) == (1, "first")
    queue._file().unlink()
    awaited = queue.take_turn(second, "cpu", SELF, has_waited=True)
    assert awaited is not None
    assert (queue.training(), queue.waiting()) == ([], [])
    queue.hold(first, "cpu", SELF)
    queue.enter(second, "cpu", SELF)
    assert ahead(second) == (1, "first")
