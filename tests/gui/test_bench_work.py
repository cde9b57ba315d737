"""The thread of a benchmark: what it tells, how it is cancelled, and that none is left."""

import threading

import pytest

from core.base.errors import OptionsError, Problem
from core.benchmark.plan import Kind
from gui.benchmark.setup import Benchmarking, Ending
from tests.fakes.bench import plan
from tests.fakes.held_bench import BF16, LORA, PLAIN, HeldBenches, always


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def benches():
    return HeldBenches()


@pytest.fixture
def measuring(qtbot):
    measuring = Benchmarking()
    measuring.told = []
    measuring.results = []
    measuring.changed.connect(lambda: measuring.told.append(measuring.underway))
    measuring.measured.connect(measuring.results.append)
    yield measuring
    measuring.close()


def start(measuring, benches, made=None):
    measuring.start(Kind.METHODS, always(made or benches.plan), benches.make)


def test_results_come_pass_by_pass_and_then_the_end(qtbot, measuring, benches):
    with qtbot.waitSignal(measuring.ended) as ended:
        start(measuring, benches)
        assert measuring.is_running
    assert ended.args == [Ending.DONE]
    assert not measuring.is_running
    figures = [[row.is_measured for row in result.rows] for result in measuring.results]
    assert figures[0] == [False, False, False]
    assert figures[1:3] == [[True, False, False], [True, True, False]]
    assert measuring.results[-1].is_whole
    begun = [told.rung.name for told in measuring.told if told is not None]
    assert begun == ["plain", "bf16"]
    assert measuring.plan is benches.plan


def test_a_rung_that_fails_is_a_row_with_its_reason(qtbot, measuring, benches):
    benches.failing.add("plain")
    with qtbot.waitSignal(measuring.ended) as ended:
        start(measuring, benches)
    first, second, third = measuring.results[-1].rows
    assert ended.args == [Ending.DONE]
    assert first.reason == "The engine ended by itself."
    assert second.is_measured
    assert third.reason == "needs the package peft"


def test_cancelling_keeps_what_is_done(qtbot, measuring, benches):
    benches.waiting.add("bf16")
    start(measuring, benches)
    qtbot.waitUntil(lambda: measuring.underway is not None and measuring.underway.rung.name == "bf16")
    with qtbot.waitSignal(measuring.ended) as ended:
        measuring.cancel()
        assert measuring.is_stopping
    assert ended.args == [Ending.CANCELLED]
    assert [row.is_measured for row in benches.kept[-1].rows] == [True, False, False]
    assert not benches.kept[-1].is_whole


def test_one_cancelled_before_its_plan_is_made_measures_nothing(qtbot, measuring, benches):
    is_wanted = threading.Event()

    def make_plan():
        is_wanted.wait()
        return benches.plan

    measuring.start(Kind.DEVICES, make_plan, benches.make)
    with qtbot.waitSignal(measuring.ended) as ended:
        measuring.cancel()
        is_wanted.set()
    assert ended.args == [Ending.CANCELLED]
    assert benches.beside == []
    assert measuring.results == []


def test_a_plan_that_cant_be_made_is_told(qtbot, measuring, benches):
    def refuse():
        raise OptionsError((Problem("model.source", "isn't there"),), "The benchmark")

    with qtbot.waitSignals([measuring.failed, measuring.ended]):
        measuring.start(Kind.METHODS, refuse, benches.make)
    assert not measuring.is_running
    with qtbot.waitSignal(measuring.ended) as ended:  # and the next one is measured
        start(measuring, benches)
    assert ended.args == [Ending.DONE]


def test_a_result_that_cant_be_kept_is_told_once_it_is_whole(qtbot, measuring, benches):
    benches.is_full = True
    told = []
    measuring.ended.connect(told.append)
    with qtbot.waitSignal(measuring.failed) as failed:
        start(measuring, benches)
    assert told == [Ending.DONE]
    assert "No space left" in failed.args[0].detail
    assert measuring.results[-1].rows[1].is_measured


def test_only_one_is_measured_at_a_time(qtbot, measuring, benches):
    benches.waiting.add("plain")
    start(measuring, benches)
    measuring.start(Kind.DEVICES, always(plan(BF16)), benches.make)
    assert measuring.kind is Kind.METHODS
    qtbot.waitUntil(lambda: measuring.underway is not None)
    assert len(benches.beside) == 1


def test_closing_ends_the_pass_and_waits_for_the_thread(qtbot, measuring, benches):
    benches.waiting |= {"plain", "bf16"}
    start(measuring, benches, plan(PLAIN, BF16, LORA, passes=9))
    qtbot.waitUntil(lambda: measuring.underway is not None)
    measuring.close()
    assert benches.kept == []
    start(measuring, benches)  # the application ends: nothing begins any more
    assert len(benches.beside) == 1
