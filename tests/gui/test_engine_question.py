import pytest

from core.base.errors import Fix, UserError
from core.base.jobs import EngineCrashed, JobProgress
from core.options.device_support import MachineReport
from core.services.inspect import DataReport, InspectRequest
from gui.base.background import EngineBroke, EngineQuestion
from tests.fakes.asking import CPU_ONLY, DIGITS, PAIRS, FakeEngine


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def question(qtbot, engine):
    question = EngineQuestion(engine, "inspect", DataReport)
    yield question
    engine.gate.set()
    question.close()


def about(source):
    return InspectRequest(asked={"data": {"train": source}})


def test_an_answer_arrives_in_the_windows_thread(qtbot, engine):
    question = EngineQuestion(engine, "devices", MachineReport)
    with qtbot.waitSignal(question.answered) as caught:
        question.put()
        assert question.is_waiting
    assert caught.args == [CPU_ONLY]
    assert not question.is_waiting
    question.close()


def test_a_newer_question_takes_the_place_of_an_older_one(qtbot, engine, question):
    answers = []
    question.answered.connect(answers.append)
    engine.gate.clear()
    question.put(about("pairs.tsv"))
    question.put(about("builtin:digits"))
    with qtbot.waitSignal(question.answered):
        engine.gate.set()
    question.close()
    assert answers == [DIGITS]
    assert PAIRS not in answers


def test_how_far_it_is_is_told_of_the_newest_question_only(qtbot, engine, question):
    shares = []
    question.progressed.connect(shares.append)
    engine.progress = (JobProgress(done=1, total=4), JobProgress(done=5, total=4))
    with qtbot.waitSignal(question.answered):
        question.put(about("pairs.tsv"))
    assert shares == [0.25, 1.0]
    engine.gate.clear()
    question.put(about("pairs.tsv"))
    question.forget()
    engine.gate.set()
    question.close()
    qtbot.wait(1)
    assert len(shares) == 2


def test_what_the_person_can_mend_is_told(qtbot, engine, question):
    engine.answers["inspect"] = UserError("reviews.csv is empty", "It has a header only.", (Fix("Choose"),))
    with qtbot.waitSignal(question.failed) as caught:
        question.put(about("reviews.csv"))
    assert caught.args[0].title == "reviews.csv is empty"


@pytest.mark.parametrize("answer", [EngineCrashed("inspect", -9, "Killed"), OSError("no memory")])
def test_an_engine_that_breaks_is_told_calmly(qtbot, engine, question, answer):
    engine.answers["inspect"] = answer
    with qtbot.waitSignal(question.failed) as caught:
        question.put(about("reviews.csv"))
    assert isinstance(caught.args[0], UserError)
    assert isinstance(caught.args[0], EngineBroke) == isinstance(answer, EngineCrashed)


def test_an_answer_of_another_kind_is_told(qtbot, engine, question):
    engine.answers["inspect"] = CPU_ONLY
    with qtbot.waitSignal(question.failed) as caught:
        question.put(about("reviews.csv"))
    assert "can't be read" in caught.args[0].title


def test_closing_ends_what_still_waits(engine, question):
    engine.gate.clear()
    question.put(about("pairs.tsv"))
    question.close()
    assert not question.is_waiting
