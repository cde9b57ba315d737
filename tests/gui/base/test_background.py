"""Work in threads: tasks, jobs of the engine, jobs that wait for the last change, and work on files in order."""

import threading

import pytest
import shiboken6
from PySide6.QtCore import QObject

from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobProgress
from core.jobs.inspect import DataReport, InspectRequest
from core.options.device_support import MachineReport
from gui.base.background import Broken, DebouncedTask, FileWork, JobTask, Task, end_left
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
def job(qtbot, engine, closing):
    return closing(JobTask(engine, "inspect", DataReport))


@pytest.fixture
def typed(qtbot, engine, closing):
    return closing(DebouncedTask(engine, "inspect", DataReport))


@pytest.fixture
def files(qtbot):
    files = FileWork()
    yield files
    files.end_work()


def request(source):
    return InspectRequest(asked={"data": {"train": source}})


# --- Tasks


def test_a_task_works_in_a_thread_and_reports_its_progress_and_result(qtbot, closing):
    task, progress, done, threads = closing(Task()), [], [], []

    def work(call):
        threads.append(threading.current_thread())
        call.tell(1)
        return "done"

    task.progress.connect(progress.append)
    task.done.connect(done.append)
    with qtbot.waitSignal(task.settled):
        task.start(work)
        assert task.is_running
    assert (progress, done) == ([1], ["done"])
    assert threads != [threading.main_thread()]
    assert not task.is_running


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (UserError("Too long"), "Too long"),
        (EngineCrashed("inspect", -9, "Killed"), "Hone's engine ended without an answer"),
        (FULL, "A file can't be read or written"),
    ],
)
def test_a_task_that_fails_says_why(qtbot, closing, error, title):
    def work(_call):
        raise error

    task = closing(Task())
    with qtbot.waitSignal(task.failed) as failed:
        task.start(work)
    assert failed.args[0].title == title


def test_a_bug_in_the_work_is_shown_whole_and_is_a_failure_never_a_result(qtbot, closing, files):
    def work(*_call):
        raise ValueError("a bug for the test")

    emitted = []
    task = closing(Task(done=emitted.append))
    for failing, start in ((task, task.start), (files, lambda work: files.put(work, emitted.append))):
        with qtbot.captureExceptions() as shown:
            with qtbot.waitSignal(failing.failed) as failed:
                start(work)
            files.end_work()
        assert [str(error) for _kind, error, _where in shown] == ["a bug for the test"]
        assert isinstance(failed.args[0], Broken)
    assert (emitted, task.is_running) == ([], False)


def test_a_task_may_be_deleted_before_its_work_is_done(qtbot):
    may_end, ended, parent = threading.Event(), [], QObject()
    task = Task(parent)
    task.done.connect(lambda _: pytest.fail("the task is deleted"))
    task.start(lambda _call: may_end.wait(5) and ended.append(1))
    qtbot.waitUntil(task._call.isRunning)
    shiboken6.delete(parent)
    may_end.set()
    end_left()
    qtbot.wait(1)
    assert ended == [1]


def test_a_cancelled_task_emits_nothing_more(qtbot, closing):
    task, emitted, told = closing(Task()), [], threading.Event()
    for signal in (task.progress, task.done, task.failed):
        signal.connect(emitted.append)
    task.start(lambda call: (call.tell(1), told.set()))
    assert told.wait(5)
    task.cancel()
    task.close()
    qtbot.wait(1)
    assert emitted == []


# --- Jobs of the engine


def test_a_newer_request_replaces_an_older_one(qtbot, engine, job):
    answers = []
    job.done.connect(answers.append)
    engine.gate.clear()
    job.put(request("pairs.tsv"))
    job.put(request("builtin:digits"))
    with qtbot.waitSignal(job.done):
        engine.gate.set()
    job.close()
    assert answers == [DIGITS]


def test_a_job_reports_its_progress_as_a_share_of_at_most_one(qtbot, engine, job):
    shares = []
    job.progress.connect(lambda progress: shares.append(progress.share))
    engine.progress = (JobProgress(done=1, total=4), JobProgress(done=5, total=4))
    with qtbot.waitSignal(job.done):
        job.put(request("pairs.tsv"))
    assert shares == [0.25, 1.0]


def test_closing_ends_a_job_that_still_waits(engine, job):
    engine.gate.clear()
    job.put(request("pairs.tsv"))
    job.close()
    assert not job.is_running


def test_an_answer_of_another_job_or_an_engine_that_cant_be_started_is_reported(qtbot, engine, closing, job):
    def start(_job):
        raise OSError("no memory")

    engine.answers["inspect"] = CPU_ONLY
    with qtbot.waitSignal(job.failed) as failed:
        job.put(request("reviews.csv"))
    assert isinstance(failed.args[0], Broken)
    unstartable = closing(JobTask(start, "devices", MachineReport))
    with qtbot.waitSignal(unstartable.failed) as failed:
        unstartable.put()
    assert failed.args[0].title == "Hone's engine can't be started"


# --- Jobs that wait for the last change


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
    assert not typed._timer.isActive()
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
