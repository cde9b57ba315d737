"""Who trains on which device and who waits: the order as a file."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base.errors import UserError
from core.base.files import ENGINE_LOCK, locked
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.queue import Move

SELF = KeeperRecord.of(os.getpid())
GONE = replace(SELF, started=0.0)
"""The record of another process, which had the number that this one has now."""


def order() -> list[str]:
    return [run.name for run in queue.waiting()]


def training() -> list[str]:
    return [run.name for run in queue.training()]


def named(name: str) -> RunFolder:
    return RunFolder(Path(f"/runs/{name}").absolute())


def ahead(name: str, device: str = "cpu") -> tuple[int, str] | None:
    """What is ahead of a run when it tries to take its turn."""
    awaited = queue.take_turn(named(name), device, SELF)
    return None if awaited is None else (awaited.ahead, awaited.behind)


def test_the_first_trains_and_the_others_wait_in_their_order():
    assert (queue.waiting(), queue.training()) == ([], [])
    assert [ahead(name) for name in ("a", "b", "c", "b")] == [None, (1, "a"), (2, "b"), (1, "a")]
    queue.enter(named("b"), "cpu", SELF)
    assert (order(), training()) == (["b", "c"], ["a"])
    queue.leave(named("a"))
    assert [ahead(name) for name in ("c", "b", "c")] == [(1, "b"), None, (1, "b")]


def test_only_runs_for_the_same_device_are_in_the_way():
    assert ahead("gpu", "cuda") is None
    assert ahead("other", "cuda:1") is None
    assert ahead("same", "cuda:0") == (1, "gpu")
    assert ahead("cpu", "cpu") is None
    assert ahead("any", "auto") == (4, "same")


@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [
        ("c", Move.FIRST, "cabd"),
        ("c", Move.UP, "acbd"),
        ("c", Move.DOWN, "abdc"),
        ("c", Move.LAST, "abdc"),
        ("c", 1, "cabd"),
        ("c", 2, "acbd"),
        ("c", 9, "abdc"),
        ("a", Move.UP, "abcd"),
        ("d", Move.DOWN, "abcd"),
    ],
)
def test_a_waiting_run_is_moved(name, to, expected):
    for run in ("trains", *"abcd"):
        ahead(run)
    assert queue.move(named(name), to)
    assert (order(), training()) == (list(expected), ["trains"])
    assert not queue.move(named("trains"), Move.LAST)
    assert not queue.move(named("stranger"), Move.FIRST)


@pytest.mark.parametrize(
    ("name", "to", "expected"), [("chat", Move.FIRST, "a base chat"), ("base", Move.LAST, "a base chat"),
                                 ("base", Move.FIRST, "base a chat"), ("chat", 1, "a base chat")]
)  # fmt: skip
def test_a_run_is_never_moved_ahead_of_the_one_whose_model_it_needs(name, to, expected, monkeypatch):
    sources = {named("chat").path: str(named("base").path)}
    monkeypatch.setattr(queue, "source_of", lambda run: sources.get(run.path, ""))
    for run in ("a", "base", "chat"):
        queue.enter(named(run), "cpu", SELF)
    assert queue.move(named(name), to)
    assert order() == expected.split()


def test_a_run_that_is_started_now_has_its_turn_beside_what_trains():
    for run in ("trains", "a", "b"):
        ahead(run)
    assert queue.move(named("b"), Move.NOW)
    assert ahead("b") is None
    assert (order(), sorted(training())) == (["a"], ["b", "trains"])
    assert ahead("a") == (2, "b")
    assert not queue.move(named("b"), Move.NOW)


def test_a_run_that_needs_a_model_is_not_started_before_that_is_there(monkeypatch):
    monkeypatch.setattr(queue, "source_of", lambda run: str(named("base").path) if "chat" in run.name else "")
    for run in ("trains", "base", "chat"):
        queue.enter(named(run), "cpu", SELF)
    with pytest.raises(UserError, match="can't start now") as refused:
        queue.move(named("chat"), Move.NOW)
    assert "“base”" in refused.value.detail
    assert order() == ["trains", "base", "chat"]


def test_a_run_whose_keeper_died_is_passed_over_but_not_one_whose_engine_lives(tmp_path):
    queue.enter(named("dead"), "cpu", GONE)
    orphan = RunFolder(tmp_path)
    queue.hold(orphan, "cpu", GONE)
    with locked(tmp_path, name=ENGINE_LOCK):
        assert ahead("waits") == (1, orphan.name)
        assert order() == ["waits"]
    assert ahead("waits") is None


def test_runs_of_another_computer_with_the_same_home_keep_their_place_and_block_none_here():
    there = replace(SELF, host="elsewhere", booted=0.0, started=time.time())
    queue.enter(named("there"), "cpu", there)
    assert ahead("here") is None
    for name, keeper in (("first", SELF), ("there-2", there), ("second", SELF)):
        queue.enter(named(name), "cpu", keeper)
    queue.move(named("second"), Move.UP)
    assert order() == ["second", "first"]
    queue.move(named("second"), Move.DOWN)
    assert order() == ["first", "second"]
    assert queue._file().read_bytes().count(b"there") == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense\n", b"\xff\xfe\x00", b"[1, 2]\n{}\n", b"[" * 100_000])
def test_a_damaged_file_is_an_empty_queue_and_a_damaged_line_costs_no_other(damage):
    ahead("first")
    ahead("second")
    whole = queue._file().read_bytes()
    queue._file().write_bytes(damage + b"\n" + whole + b'{"run": "torn')
    assert order() == ["second"]
    queue._file().write_bytes(damage)
    assert order() == []
    assert ahead("second") is None
    assert ahead("first") == (1, "second")


def test_a_run_whose_place_is_lost_takes_no_turn_before_it_is_entered_again():
    ahead("first")
    ahead("second")
    queue._file().unlink()
    assert queue.take_turn(named("second"), "cpu", SELF, has_waited=True) is not None
    assert (training(), order()) == ([], [])
    queue.hold(named("first"), "cpu", SELF)
    queue.enter(named("second"), "cpu", SELF)
    assert ahead("second") == (1, "first")


def test_a_home_that_was_moved_is_not_made_again(home):
    ahead("first")
    home.rename(home.with_name("moved"))
    with pytest.raises(OSError, match="queue"):
        queue.leave(named("first"))
    assert not home.exists()


RACER = """
import os, sys
from pathlib import Path
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
name, log = sys.argv[1:]
run, keeper = RunFolder(Path(name)), KeeperRecord.of(os.getpid())
for turn in range(4):
    while queue.take_turn(run, "auto", keeper) is not None:
        pass
    with open(log, "ab", buffering=0) as file:
        file.write(f"begin {name}\\n".encode())
        sum(range(200_000))
        file.write(f"end {name}\\n".encode())
    queue.leave(run)
"""


def test_of_processes_that_race_no_two_have_their_turn_at_once(tmp_path):
    log = tmp_path / "log"
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path / name), str(log)]) for name in "abc"
    ]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 2 * 3 * 4
    for begin, end in zip(lines[::2], lines[1::2], strict=True):
        assert (begin.split()[0], end.split()[0], begin.split()[1]) == ("begin", "end", end.split()[1])


def test_a_run_on_another_computer_waits_for_none_here():
    ahead("trains")
    assert queue.ahead_of("cpu") is not None
    assert queue.ahead_of("cpu@workshop") is None
