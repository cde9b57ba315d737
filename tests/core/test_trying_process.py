"""Talking to the process that holds a model: what is asked, stopped, refused, and that nothing stays behind."""

import psutil
import pytest

from core.base import ceiling
from core.base.errors import OutOfMemory, UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.services.chat import (
    Answered,
    Ask,
    EndedBy,
    Load,
    Loaded,
    NotAnswered,
    Piece,
    Stop,
    Texts,
    TryProcess,
    Which,
)
from tests.fakes.try_process import command

LOAD = Load(run="/runs/one", which=Which.TRAINED)


def texts(*words: str) -> Texts:
    return Texts(texts=words)


def test_questions_are_answered_one_by_one_until_it_is_closed() -> None:
    process = TryProcess(LOAD, command())
    for number, word in enumerate(("good", "refuse"), 1):
        process.say(Ask(id=number, given=texts(word)))
    told = []
    for line in process.lines():
        told.append(line)
        if isinstance(line, NotAnswered):
            process.close()
    assert [type(line) for line in told] == [Loaded, Answered, NotAnswered]
    assert told[1].chances[0].label == "yes"
    assert not psutil.pid_exists(process.pid)


def test_a_long_answer_is_stopped_and_the_process_stays() -> None:
    process = TryProcess(LOAD, command())
    process.say(Ask(id=1, given=texts("long")))
    answers = []
    for line in process.lines():
        if isinstance(line, Piece):
            process.say(Stop(id=1))
            process.say(Ask(id=2, given=texts("good")))
        if isinstance(line, Answered):
            answers.append(line)
            if line.id == 2:
                process.close()
    assert [one.id for one in answers] == [1, 2]
    assert answers[0].ended_by is EndedBy.PERSON


def test_a_model_that_can_t_be_loaded_is_the_person_s_to_mend() -> None:
    process = TryProcess(LOAD, command("refuse"))
    with pytest.raises(UserError, match="is gone") as told:
        list(process.lines())
    assert told.value.fixes[0].label == "Put it back"
    assert not psutil.pid_exists(process.pid)


def test_a_tokenizer_that_never_ends_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ceiling.SECONDS, ceiling.Pace.QUICK, 0.5)
    process = TryProcess(LOAD, command("spin"))
    with pytest.raises(UserError, match="The tokenizer"):
        list(process.lines())
    assert not psutil.pid_exists(process.pid)


def test_a_crash_brings_what_it_printed() -> None:
    process = TryProcess(LOAD, command())
    process.say(Ask(id=1, given=texts("crash")))
    with pytest.raises(EngineCrashed, match="a bug in the fake model"):
        list(process.lines())


def test_a_process_that_the_system_ends_was_short_of_memory() -> None:
    process = TryProcess(LOAD, command("hang"))
    psutil.Process(process.pid).kill()
    with pytest.raises(OutOfMemory, match="ended the model's process"):
        list(process.lines())


def test_what_nobody_understands_ends_it() -> None:
    process = TryProcess(LOAD, command("nonsense"))
    with pytest.raises(EngineCrashed, match="no line of ours"):
        list(process.lines())
    assert not psutil.pid_exists(process.pid)


def test_killed_while_it_loads() -> None:
    process = TryProcess(LOAD, command("hang"))
    process.kill()
    with pytest.raises(JobCancelled):
        list(process.lines())
    assert not psutil.pid_exists(process.pid)
