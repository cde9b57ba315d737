"""Work in threads: what is asked of the engine, at once or after the last change, and work on files in order."""

import threading

import pytest
import shiboken6
from PySide6.QtCore import QObject

from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled, JobProgress
from core.jobs.inspect import DataReport, InspectRequest
from core.options.device_support import MachineReport
from gui.base.background import Broken, EngineWork, FileWork, end_left
from gui.new_run.state import FormQuestion
from tests.fakes.jobs import CPU_ONLY, DIGITS, FakeEngine

FULL = OSError(28, "No space left on device", "notes.json")


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def closing(engine):
    """Closes what is made in a test."""
    made = []
    yield lambda work: made.append(work) or work
    engine.gate.set()
    for work in made:
        work.close()


@pytest.fixture
def job(qtbot, closing):
    return closing(EngineWork())


@pytest.fixture
def inspect(engine, job):
    """Asks the engine about data."""
    return lambda source, **how: job.ask(engine, "inspect", DataReport, request(source), **how)


@pytest.fixture
def typed(qtbot, engine, closing):
    return closing(FormQuestion(engine, "inspect", DataReport))


@pytest.fixture
def files(qtbot):
    files = FileWork()
    yield files
    files.end_work()


def request(source):
    return InspectRequest(asked={"data": {"train": source}})


# --- Functions


def test_work_is_done_in_a_thread_and_reports_its_progress_and_result(qtbot, closing):
    working, progress, done, threads = closing(EngineWork()), [], [], []

    def work(call):
        threads.append(threading.current_thread())
        call.tell(1)
        return "done"

    working.progress.connect(progress.append)
    working.done.connect(done.append)
    with qtbot.waitSignal(working.settled):
        working.start(work)
        assert working.is_running
    assert (progress, done) == ([1], ["done"])
    assert threads != [threading.main_thread()]
    assert not working.is_running


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (UserError("Too long"), "Too long"),
        (EngineCrashed("inspect", -9, "Killed"), "Hone's engine ended without an answer"),
        (FULL, "A file can't be read or written"),
    ],
)
def test_work_that_fails_says_why(qtbot, closing, error, title):
    def work(_call):
        raise error

    working = closing(EngineWork())
    with qtbot.waitSignal(working.failed) as failed:
        working.start(work)
    assert failed.args[0].title == title


def test_a_bug_in_the_work_is_shown_whole_and_is_a_failure_never_a_result(qtbot, closing, files):
    def work(*_call):
        raise ValueError("a bug for the test")

    emitted = []
    working = closing(EngineWork(done=emitted.append))
    for failing, start in ((working, working.start), (files, lambda work: files.put(work, emitted.append))):
        with qtbot.captureExceptions() as shown:
            with qtbot.waitSignal(failing.failed) as failed:
                start(work)
            files.end_work()
        assert [str(error) for _kind, error, _where in shown] == ["a bug for the test"]
        assert isinstance(failed.args[0], Broken)
    assert (emitted, working.is_running) == ([], False)


def test_work_may_be_deleted_before_it_is_done(qtbot):
    may_end, ended, parent = threading.Event(), [], QObject()
    working = EngineWork(parent)
    working.done.connect(lambda _: pytest.fail("it is deleted"))
    working.start(lambda _call: may_end.wait(5) and ended.append(1))
    qtbot.waitUntil(working._call.isRunning)
    shiboken6.delete(parent)
    may_end.set()
    end_left()
    qtbot.wait(1)
    assert ended == [1]


def test_work_whose_process_somebody_else_has_killed_has_no_result(qtbot, closing):
    def work(_call):
        raise JobCancelled("chat")

    emitted = []
    working = closing(EngineWork(done=emitted.append, failed=emitted.append))
    with qtbot.waitSignal(working.settled):
        working.start(work)
    assert emitted == []


def test_cancelled_work_emits_nothing_more(qtbot, closing):
    working, emitted, told = closing(EngineWork()), [], threading.Event()
    for signal in (working.progress, working.done, working.failed):
        signal.connect(emitted.append)
    working.start(lambda call: (call.tell(1), told.set()))
    assert told.wait(5)
    working.cancel()
    working.close()
    qtbot.wait(1)
    assert emitted == []


# --- Jobs of the engine


def test_a_newer_request_replaces_an_older_one(qtbot, engine, job, inspect):
    answers = []
    job.done.connect(answers.append)
    engine.gate.clear()
    inspect("pairs.tsv")
    inspect("builtin:digits")
    with qtbot.waitSignal(job.done):
        engine.gate.set()
    job.close()
    assert answers == [DIGITS]


def test_a_job_reports_its_progress_as_a_share_of_at_most_one(qtbot, engine, job, inspect):
    shares = []
    job.progress.connect(lambda progress: shares.append(progress.share))
    engine.progress = (JobProgress(done=1, total=4), JobProgress(done=5, total=4))
    with qtbot.waitSignal(job.done):
        inspect("pairs.tsv")
    assert shares == [0.25, 1.0]


def test_closing_ends_a_job_that_still_waits(engine, job, inspect):
    engine.gate.clear()
    inspect("pairs.tsv")
    job.close()
    assert not job.is_running


def test_an_answer_of_another_job_or_an_engine_that_cant_be_started_is_reported(qtbot, engine, job, inspect):
    def start(_job):
        raise OSError("no memory")

    engine.answers["inspect"] = CPU_ONLY
    with qtbot.waitSignal(job.failed) as failed:
        inspect("reviews.csv")
    assert isinstance(failed.args[0], Broken)
    with qtbot.waitSignal(job.failed) as failed:
        job.ask(start, "devices", MachineReport)
    assert failed.args[0].title == "Hone's engine can't be started"


# --- Jobs that wait for the last change


def test_work_that_is_delayed_is_replaced_or_cancelled_before_it_begins(qtbot, engine, job, inspect):
    inspect("pairs.tsv", after_ms=20)
    inspect("builtin:digits", after_ms=20)
    assert job.is_running
    with qtbot.waitSignal(job.done):
        pass
    assert [asked.source for asked in engine.inspected()] == ["builtin:digits"]
    inspect("pairs.tsv", after_ms=20)
    job.cancel()
    assert not job.is_running
    qtbot.wait(40)
    assert len(engine.inspected()) == 1


def test_of_quick_changes_only_the_last_is_asked_and_only_once(qtbot, engine, typed):
    for letters in ("b", "bu", "builtin:digits"):
        assert typed.set_request(request(letters))
    assert typed.is_waiting
    with qtbot.waitSignal(typed.changed):
        pass
    assert [asked.source for asked in engine.inspected()] == ["builtin:digits"]
    assert typed.report == DIGITS
    assert not typed.set_request(request("builtin:digits"))
    assert not typed.is_waiting
    typed.set_request(None)
    assert (typed.report, typed.is_waiting) == (None, False)


def test_a_deferred_request_waits_until_it_is_put_again(qtbot, typed):
    typed.set_request(request("builtin:digits"), is_deferred=True)
    assert typed.is_waiting
    assert not typed.is_running
    assert typed.set_request(request("builtin:digits"))
    with qtbot.waitSignal(typed.changed):
        pass
    assert typed.report == DIGITS


def test_a_request_that_is_held_is_asked_again_and_a_report_stays(qtbot, engine, typed):
    engine.gate.clear()
    typed.set_request(request("builtin:digits"))
    qtbot.waitUntil(lambda: len(engine.inspected()) == 1)
    typed.hold()
    engine.gate.set()
    with qtbot.waitSignal(typed.changed):
        typed.set_request(request("builtin:digits"))
    assert len(engine.inspected()) == 2
    typed.hold()
    assert not typed.is_waiting
    assert typed.report == DIGITS


# --- Files


def test_files_are_worked_on_in_a_thread_in_order_past_a_failure_and_to_the_end(qtbot, files):
    done, threads, failures = [], set(), []

    def work(number):
        threads.add(threading.get_ident())
        if number == 7:
            raise FULL
        return number

    files.failed.connect(failures.append)
    for number in range(20):
        files.put(lambda number=number: work(number), done.append)
    expected = [number for number in range(20) if number != 7]
    qtbot.waitUntil(lambda: done == expected, timeout=2000)
    assert [error.detail for error in failures] == ["notes.json: No space left on device"]
    assert threading.get_ident() not in threads
    for number in range(5):
        files.put(lambda number=number: done.append(number))
    files.end_work()
    assert done == [*expected, *range(5)]


def test_work_on_files_is_done_once_each_and_in_order_however_it_ends_while_more_is_put(qtbot):
    files, ran, told = FileWork(), [], []
    for number in range(3000):
        files.put(lambda number=number: ran.append(number) or number, told.append)
        if number % 7 == 0:
            qtbot.wait(0)
        if number % 500 == 0:
            files.end_work()
            assert ran == list(range(number + 1))
    qtbot.waitUntil(lambda: not files.is_running)
    assert ran == told == list(range(3000))
