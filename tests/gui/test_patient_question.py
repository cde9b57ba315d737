import pytest

from core.services.inspect import DataReport, InspectRequest
from gui.base.background import PatientQuestion
from tests.fakes.asking import DIGITS, FakeEngine


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def question(engine):
    question = PatientQuestion(engine, "inspect", DataReport)
    yield question
    engine.gate.set()
    question.close()


def about(source):
    return InspectRequest(asked={"data": {"train": source}})


def test_only_the_last_of_quick_changes_is_asked(qtbot, engine, question):
    for letters in ("b", "bu", "builtin:digits"):
        assert question.look_at(about(letters))
    assert question.is_waiting
    with qtbot.waitSignal(question.changed):
        pass
    assert [request.source for request in engine.inspected()] == ["builtin:digits"]
    assert question.report == DIGITS


def test_the_same_question_is_not_asked_twice(qtbot, engine, question):
    with qtbot.waitSignal(question.changed):
        question.look_at(about("builtin:digits"))
    assert not question.look_at(about("builtin:digits"))
    assert not question.is_waiting


def test_an_early_question_waits_until_it_is_time(qtbot, engine, question):
    question.look_at(about("builtin:digits"), is_early=True)
    assert question.is_waiting
    assert not question._timer.isActive()
    assert question.look_at(about("builtin:digits"))
    with qtbot.waitSignal(question.changed):
        pass
    assert question.report == DIGITS


def test_what_is_held_is_asked_again_and_what_is_known_stays(qtbot, engine, question):
    engine.gate.clear()
    question.look_at(about("builtin:digits"))
    qtbot.waitUntil(lambda: len(engine.inspected()) == 1)
    question.hold()
    engine.gate.set()
    with qtbot.waitSignal(question.changed):
        question.look_at(about("builtin:digits"))
    assert len(engine.inspected()) == 2
    question.hold()
    assert not question.is_waiting
    assert question.report == DIGITS


def test_nothing_to_ask_forgets_everything(qtbot, engine, question):
    with qtbot.waitSignal(question.changed):
        question.look_at(about("builtin:digits"))
    question.look_at(None)
    assert question.report is None
    assert not question.is_waiting
