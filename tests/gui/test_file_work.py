import threading

import pytest

from core.base.errors import UserError
from gui.base.background import FileWork


@pytest.fixture
def work(qtbot):
    work = FileWork()
    yield work
    work.end_work()


def test_jobs_are_done_in_their_order_away_from_the_window(qtbot, work):
    done, threads = [], set()

    def job(number):
        threads.add(threading.get_ident())
        return number

    for number in range(20):
        work.put(lambda number=number: job(number), done.append)
    qtbot.waitUntil(lambda: len(done) == 20, timeout=2000)
    assert done == list(range(20))
    assert threading.get_ident() not in threads


def test_what_goes_wrong_is_told_and_the_next_job_is_done(qtbot, work):
    def fail():
        raise OSError(28, "No space left on device", "notes.json")

    def refuse():
        raise UserError("Too long")

    told, done = [], []
    work.failed.connect(told.append)
    work.put(fail)
    work.put(refuse)
    work.put(lambda: "done", done.append)
    qtbot.waitUntil(lambda: done == ["done"], timeout=2000)
    assert [error.title for error in told] == ["A file can't be written", "Too long"]
    assert told[0].detail == "notes.json: No space left on device"


def test_ending_waits_for_all_that_was_asked_for(work):
    done = []
    for number in range(5):
        work.put(lambda number=number: done.append(number))
    work.end_work()
    assert done == list(range(5))
    assert not work.isRunning()
