"""What all sources have in common: asked once too often, too slow, gone."""

import os
import threading
from collections.abc import Sequence
from threading import Event as Flag

import pytest

from core.base import system
from core.base.system import WORTH, ProcessTree
from core.monitor.system import Every, InBackground, Query
from core.runs.events import DiskSampled, Event
from tests.fakes.clock import FakeClock


class Counting:
    """Tells how often it was read."""

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> Sequence[Event]:
        self.count += 1
        return [DiskSampled(free=self.count, total=100)]


class Slow(Counting):
    """Takes until `done` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.done = Flag()

    def read(self) -> Sequence[Event]:
        assert self.done.wait(10)
        return super().read()


@pytest.mark.parametrize("failure", [OSError("gone"), None])
def test_a_query_that_fails_or_has_no_answer_is_not_asked_again(failure: Exception | None) -> None:
    asked = []

    def ask() -> int | None:
        asked.append(1)
        if len(asked) == 1:
            return 7
        if failure is not None:
            raise failure
        return None

    query = Query(ask, OSError)
    assert [query(), query(), query(), query()] == [7, None, None, None]
    assert len(asked) == 2


def test_a_zero_is_an_answer() -> None:
    query = Query(lambda: 0)
    assert [query(), query()] == [0, 0]


def test_a_bug_is_not_taken_for_a_missing_figure() -> None:
    with pytest.raises(ZeroDivisionError):
        Query(lambda: 1 // 0, OSError)()


def test_a_source_is_read_no_more_often_than_wanted() -> None:
    clock, source = FakeClock(100.0), Counting()
    seldom = Every(10.0, source, clock.monotonic)
    for clock.now, told in ((100.0, 1), (101.0, 0), (109.9, 0), (110.0, 1), (500.0, 1), (505.0, 0)):
        assert len(seldom.read()) == told


def test_nobody_waits_for_a_slow_source_and_what_it_tells_comes_later() -> None:
    source = Slow()
    behind = InBackground(source)
    assert behind.read() == []
    assert behind.read() == [], "still at it: no second reading is begun"
    source.done.set()
    behind.finish()
    assert source.count == 1
    assert [event.free for event in behind.read()] == [1]
    behind.finish()
    assert [event.free for event in behind.read()] == [2]
    behind.finish()


def test_a_source_behind_is_read_no_more_often_than_wanted() -> None:
    clock, source = FakeClock(100.0), Counting()
    behind = InBackground(source, every=10.0, clock=clock.monotonic)
    for clock.now, count in ((100.0, 1), (105.0, 1), (110.0, 2), (119.9, 2), (120.0, 3)):
        behind.read()
        behind.finish()
        assert source.count == count


def test_a_quick_source_is_waited_for_and_one_that_hangs_once_only() -> None:
    quick = InBackground(Counting(), patience=10.0)
    assert [event.free for event in quick.read()] == [1]
    stuck, source = Slow(), Counting()
    behind = InBackground(stuck, patience=0.01)
    assert [len(behind.read()) for _ in range(3)] == [0, 0, 0]
    assert len(source.read()) == 1, "others are read meanwhile"
    stuck.done.set()
    behind.finish()
    assert [event.free for event in behind.read()][:1] == [1]
    behind.finish()


def test_a_bug_of_a_source_behind_is_told_once_and_the_source_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: told.append(raised.exc_type))

    class Wrong(Counting):
        def read(self) -> Sequence[Event]:
            super().read()
            raise ZeroDivisionError

    source = Wrong()
    behind = InBackground(source)
    for _ in range(4):
        assert behind.read() == []
        behind.finish()
    assert (source.count, told) == (1, [ZeroDivisionError])


def test_processes_are_looked_for_no_more_often_than_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, cpu, looks = FakeClock(), FakeClock(), []

    def look(pid: int) -> list[str]:
        looks.append(pid)
        cpu.now += 0.006
        return [f"look {len(looks)}"]

    monkeypatch.setattr(system, "process_tree", look)
    tree = ProcessTree(7, clock.monotonic, cpu.monotonic)
    pause = 0.006 / WORTH
    for clock.now, found in (
        (0.0, 1),
        (0.9 * pause, 1),
        (1.01 * pause, 2),
        (1.5 * pause, 2),
        (2.1 * pause, 3),
    ):
        assert tree.read() == [f"look {found}"]


def test_the_first_process_of_a_tree_is_its_own() -> None:
    assert ProcessTree(os.getpid()).read()[0].pid == os.getpid()
    assert ProcessTree(None).read() == []
