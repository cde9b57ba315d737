import threading

import pytest
import shiboken6
from PySide6.QtCore import QObject

from core.base.errors import Fix, UserError
from core.base.jobs import EngineCrashed, JobProgress
from core.options.device_support import MachineReport
from core.services.inspect import DataReport, InspectRequest
from gui.base.background import DebouncedTask, EngineBroke, FileWork, JobTask, Task, end_left
from tests.fakes.jobs import CPU_ONLY, DIGITS, FakeEngine


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def job(qtbot, engine):
    job = JobTask(engine, "inspect", DataReport)
    yield job
    engine.gate.set()
    job.close()


@pytest.fixture
def typed(qtbot, engine):
    typed = DebouncedTask(engine, "inspect", DataReport)
    yield typed
    engine.gate.set()
    typed.close()


@pytest.fixture
def files(qtbot):
    files = FileWork()
    yield files
    files.end_work()


def about(source):
    return InspectRequest(asked={"data": {"train": source}})


# Task


def test_a_task_tells_its_progress_and_its_result_in_the_windows_thread(qtbot):
    task, told, threads = Task(), [], []

    def work(call):
        threads.append(threading.current_thread())
        call.tell(1)
        return "done"

    task.progress.connect(told.append)
    found = []
    task.done.connect(found.append)
    with qtbot.waitSignal(task.settled):
        task.start(work)
        assert task.is_running
    assert found == ["done"]
    assert told == [1]
    assert threads != [threading.main_thread()]
    assert not task.is_running
    task.close()


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (UserError("Too long"), "Too long"),
        (EngineCrashed("inspect", -9, "Killed"), EngineBroke().title),
        (OSError(28, "No space left on device", "notes.json"), "A file can't be read or written"),
    ],
)
def test_a_task_that_fails_says_why(qtbot, error, title):
    def work(_call):
        raise error

    task = Task()
    with qtbot.waitSignal(task.failed) as caught:
        task.start(work)
    assert caught.args[0].title == title
    task.close()


def test_a_task_may_go_before_its_work_is_done(qtbot):
    may_end, ended, parent = threading.Event(), [], QObject()
    task = Task(parent)
    task.done.connect(lambda _: pytest.fail("nobody is left to be told"))
    task.start(lambda _call: may_end.wait(5) and ended.append(1))
    qtbot.waitUntil(task._call.isRunning)
    shiboken6.delete(parent)
    may_end.set()
    end_left()
    qtbot.wait(1)
    assert ended == [1]


# Engine jobs


def test_an_answer_arrives(qtbot, engine):
    job = JobTask(engine, "devices", MachineReport)
    with qtbot.waitSignal(job.done) as caught:
        job.put()
    assert caught.args == [CPU_ONLY]
    job.close()


def test_a_newer_request_takes_the_place_of_an_older_one(qtbot, engine, job):
    answers = []
    job.done.connect(answers.append)
    engine.gate.clear()
    job.put(about("pairs.tsv"))
    job.put(about("builtin:digits"))
    with qtbot.waitSignal(job.done):
        engine.gate.set()
    job.close()
    assert answers == [DIGITS]


def test_progress_is_that_of_the_newest_request_only(qtbot, engine, job):
    shares = []
    job.progress.connect(lambda progress: shares.append(progress.share))
    engine.progress = (JobProgress(done=1, total=4), JobProgress(done=5, total=4))
    with qtbot.waitSignal(job.done):
        job.put(about("pairs.tsv"))
    assert shares == [0.25, 1.0]
    engine.gate.clear()
    job.put(about("pairs.tsv"))
    job.cancel()
    engine.gate.set()
    job.close()
    qtbot.wait(1)
    assert len(shares) == 2


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (
            UserError("reviews.csv is empty", "It has a header only.", (Fix("Choose"),)),
            "reviews.csv is empty",
        ),
        (OSError("no memory"), "A file can't be read or written"),
        (CPU_ONLY, "The engine's answer can't be read"),
    ],
)
def test_a_job_that_fails_says_why(qtbot, engine, job, answer, title):
    engine.answers["inspect"] = answer
    with qtbot.waitSignal(job.failed) as caught:
        job.put(about("reviews.csv"))
    assert caught.args[0].title == title


def test_an_engine_that_can_not_be_started(qtbot):
    def start(_job):
        raise OSError("no memory")

    job = JobTask(start, "inspect", DataReport)
    with qtbot.waitSignal(job.failed) as caught:
        job.put()
    assert caught.args[0].title == "Hone's engine can't be started"
    job.close()


def test_closing_ends_what_still_waits(engine, job):
    engine.gate.clear()
    job.put(about("pairs.tsv"))
    job.close()
    assert not job.is_running


# Debounced jobs


def test_only_the_last_of_quick_changes_is_asked_and_only_once(qtbot, engine, typed):
    for letters in ("b", "bu", "builtin:digits"):
        assert typed.set_request(about(letters))
    assert typed.is_waiting
    with qtbot.waitSignal(typed.changed):
        pass
    assert [request.source for request in engine.inspected()] == ["builtin:digits"]
    assert typed.report == DIGITS
    assert not typed.set_request(about("builtin:digits"))
    assert not typed.is_waiting
    typed.set_request(None)
    assert typed.report is None
    assert not typed.is_waiting


def test_an_early_request_waits_until_it_is_time(qtbot, typed):
    typed.set_request(about("builtin:digits"), is_deferred=True)
    assert typed.is_waiting
    assert not typed._timer.isActive()
    assert typed.set_request(about("builtin:digits"))
    with qtbot.waitSignal(typed.changed):
        pass
    assert typed.report == DIGITS


def test_what_is_held_is_asked_again_and_what_is_known_stays(qtbot, engine, typed):
    engine.gate.clear()
    typed.set_request(about("builtin:digits"))
    qtbot.waitUntil(lambda: len(engine.inspected()) == 1)
    typed.hold()
    engine.gate.set()
    with qtbot.waitSignal(typed.changed):
        typed.set_request(about("builtin:digits"))
    assert len(engine.inspected()) == 2
    typed.hold()
    assert not typed.is_waiting
    assert typed.report == DIGITS


# Files


def test_files_are_worked_on_in_their_order(qtbot, files):
    done, threads = [], set()

    def work(number):
        threads.add(threading.get_ident())
        return number

    for number in range(20):
        files.put(lambda number=number: work(number), done.append)
    qtbot.waitUntil(lambda: len(done) == 20, timeout=2000)
    assert done == list(range(20))
    assert threading.get_ident() not in threads


def test_what_goes_wrong_is_told_and_the_next_file_is_worked_on(qtbot, files):
    def fail():
        raise OSError(28, "No space left on device", "notes.json")

    told, done = [], []
    files.failed.connect(told.append)
    files.put(fail)
    files.put(lambda: "done", done.append)
    qtbot.waitUntil(lambda: done == ["done"], timeout=2000)
    assert [error.detail for error in told] == ["notes.json: No space left on device"]


def test_ending_waits_for_all_that_was_asked_for(files):
    done = []
    for number in range(5):
        files.put(lambda number=number: done.append(number))
    files.end_work()
    assert done == list(range(5))
