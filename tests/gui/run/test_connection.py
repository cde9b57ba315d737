"""The page of a run on another computer: where it trains, and what is said while that can't be reached."""

import shutil
import time
from threading import Event

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from core.base.errors import DataError
from core.hosts.computers import Computer, save
from core.options import run_file
from core.options.data import DataOptions
from core.options.sections import DeviceOptions
from core.runs import start as starting
from core.runs.events import Action, CheckpointSaved, Level, MessageRaised, Outcome, RunFinished
from core.runs.folder import ExitRecord
from core.runs.status import State
from core.runs.summary import summarize
from gui.base import sending as asking
from gui.run import header as run_header
from gui.run import page as run_page
from gui.run.header import RunAction
from gui.runs.columns import RunColumn, RunRow, columns
from tests.fakes.on_screen import press
from tests.fakes.runs import OPTIONS, Plot, finish, link, pause, write_events, write_story

ELSEWHERE = replace(OPTIONS, device=DeviceOptions(name="cpu@workshop"))


def train(run, **how):
    run_file.write(ELSEWHERE, run.options_file)
    link(run, **how)
    return write_story(run, Plot(reached=90, start=time.time() - 60))


def test_the_page_says_where_a_run_trains_and_that_it_goes_on_there(qtbot, run, show):
    train(run)
    view = show(State.TRAINING)
    assert view.header.state_line.text().startswith("Training on the CPU on workshop, bf16 · step 90 of 360")
    assert (
        view.header.connection.text() == "Connected to workshop. Without a connection the run goes on there."
    )
    assert view.messages.titles() == []
    row = RunRow(summarize(run), None, "", columns())
    assert row.texts[RunColumn.DEVICE] == "CPU on workshop"


def test_a_lost_connection_is_told_and_ends_nothing(qtbot, run, show):
    train(run)
    view = show(State.TRAINING)
    link(run, connected=False, heard=time.time() - 118, problem="The connection was closed\nTry: x")
    qtbot.waitUntil(lambda: view.messages.titles() == ["Connection to workshop lost"], timeout=5000)
    detail = view.messages.findChildren(type(view.header.elapsed))
    told = "\n".join(label.text() for label in detail)
    assert "Last heard 2 min ago. The run goes on there; Hone keeps trying to connect." in told
    assert "The connection was closed" in told
    assert view.state is State.TRAINING
    assert view.header.connection.text() == "No connection to workshop now."
    link(run)
    qtbot.waitUntil(lambda: not view.messages.titles(), timeout=5000)
    assert view.header.connection.text().startswith("Connected to workshop")


def test_records_that_were_lost_there_and_are_kept_here_are_named_also_once_it_is_over(qtbot, run, show):
    finish(run, Plot(), train(run))
    link(run, over=True, kept=("events.jsonl.before-1",))
    view = show(State.FINISHED)
    title = "workshop has lost or changed records of this run"
    qtbot.waitUntil(lambda: view.messages.titles() == [title], timeout=5000)


def test_what_is_sent_and_brought_back_is_told(qtbot, run, show):
    run_file.write(ELSEWHERE, run.options_file)
    link(run, attempt=0, connected=False, heard=0.0)
    view = show(State.STARTING)
    assert view.header.connection.text() == "Connecting to workshop…"
    link(run, attempt=0, doing="sending the data, 34 of 120 MB")
    line = view.header.state_line
    qtbot.waitUntil(lambda: line.text() == "Sending the data, 34 of 120 MB", timeout=5000)
    link(run, attempt=0, connected=False, heard=0.0, problem="workshop doesn't answer")
    qtbot.waitUntil(lambda: view.messages.titles() == ["No connection to workshop"], timeout=5000)


def test_nothing_is_said_about_the_connection_of_a_run_that_has_ended(qtbot, run, show):
    finish(run, Plot(), train(run))
    link(run, connected=False, over=True)
    view = show(State.FINISHED)
    assert view.header.connection.isHidden()
    assert view.messages.titles() == []
    assert "CPU on workshop, bf16" in view.header.state_line.text()


def test_a_lost_connection_is_tried_at_once_or_given_up(qtbot, monkeypatch, run, show):
    train(run, connected=False, heard=time.time() - 60)
    view = show(State.TRAINING)
    qtbot.waitUntil(lambda: bool(view.messages.titles()), timeout=5000)
    offered = {button.text() for button in view.messages.findChildren(QPushButton)}
    assert "Try now" in offered
    assert "Give up…" not in offered, "it may come back soon"
    tried = []
    monkeypatch.setattr(starting, "follow_again", lambda *given, **how: tried.append((given, how)))
    press(view.messages, "Try now")
    qtbot.waitUntil(lambda: tried == [((run,), {"at_once": True})], timeout=5000)
    link(run, connected=False, heard=time.time() - 400)
    qtbot.waitUntil(
        lambda: "Give up…" in [button.text() for button in view.messages.findChildren(QPushButton)],
        timeout=5000,
    )
    answers = iter((False, True))
    monkeypatch.setattr(run_page.Question, "ask", lambda self, otherwise: next(answers))
    press(view.messages, "Give up…")
    assert not run.open_requests()
    press(view.messages, "Give up…")
    qtbot.waitUntil(lambda: bool(run.open_requests()), timeout=5000)
    assert run.open_requests()[0].action is Action.KILL


def test_a_run_that_is_paused_elsewhere_goes_on_from_its_checkpoint_there(run, show):
    clock = train(run)
    shutil.rmtree(run.checkpoints)
    ended = RunFinished(time=clock + 0.5, state=Outcome.PAUSED, steps=90)
    write_events(
        run.events_file,
        CheckpointSaved(time=clock + 0.4, step=90, path="checkpoints/checkpoint-90", bytes=1, seconds=0.1),
        ended,
    )
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))
    link(run, over=True)
    view = show(State.PAUSED)
    assert view.header.buttons.resume.text() == "Resume"
    assert "Continues from the checkpoint of step 90." in view.header.buttons.resume.toolTip()


def test_what_is_asked_of_a_run_out_of_reach_waits_until_it_is_reached(qtbot, monkeypatch, run, show):
    monkeypatch.setattr(run_header, "PATIENCE_SECONDS", 0.0)
    train(run, connected=False, heard=time.time() - 60)
    run.request(Action.PAUSE)
    view = show(State.PAUSING)
    qtbot.waitUntil(lambda: bool(view.messages.titles()), timeout=5000)
    assert view.header.state_line.text().startswith("Pausing – once workshop is reached · step 90 of 360")
    assert view.header.buttons.end.isHidden(), "it can't be ended there"
    link(run)
    qtbot.waitUntil(view.header.buttons.end.isVisible, timeout=5000)


def test_a_run_is_over_once_its_model_is_back(qtbot, run, show):
    clock = train(run)
    view = show(State.TRAINING)
    write_events(
        run.events_file, RunFinished(time=clock + 0.5, state=Outcome.FINISHED, steps=90, model_step=90)
    )
    link(run, doing="Bringing back model/model.safetensors: 3 of 44 MB")
    line = view.header.state_line
    qtbot.waitUntil(
        lambda: line.text().startswith("Bringing back model/model.safetensors: 3 of 44 MB"), timeout=5000
    )
    assert view.state is State.TRAINING
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    shutil.rmtree(run.checkpoints)
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))
    link(run, over=True)
    qtbot.waitUntil(lambda: view.state is State.FINISHED, timeout=5000)
    assert RunAction.TRY in view.header.buttons.offers()


def test_a_click_on_a_message_that_another_one_replaces_is_not_taken_for_that(qtbot, run, show, monkeypatch):
    train(run, connected=False, heard=time.time() - 118, problem="x")
    view = show(State.TRAINING)
    monkeypatch.setattr(view.messages, "underMouse", lambda: True)
    monkeypatch.setattr("gui.run.messages.IGNORE_MS", 50)
    ignores = Qt.WidgetAttribute.WA_TransparentForMouseEvents
    link(run)
    write_events(run.machine_file, MessageRaised(id="slow", level=Level.WARNING, title="Slow"))
    qtbot.waitUntil(lambda: view.messages.titles() == ["Slow"], timeout=5000)
    qtbot.waitUntil(lambda: not view.messages.testAttribute(ignores), timeout=2000)


@pytest.mark.parametrize("refusal", ["", "It lies in a hidden folder."])
def test_resuming_tells_that_what_would_be_sent_is_checked(refusal, qtbot, run, show, monkeypatch):
    """Then it asks, or says why not, and Resume is offered again."""
    save(Computer(name="workshop", address="me@10.0.0.7"))
    data = run.path.with_name("data.csv")
    data.touch()
    pause(run, Plot(reached=90), train(run))
    run_file.write(replace(ELSEWHERE, data=DataOptions(train=str(data))), run.options_file)
    go_on, questions = Event(), []

    def check(*_given):
        go_on.wait()
        if refusal:
            raise DataError("It isn't sent", refusal)
        return asking.SendingRequest("Send?", ())

    monkeypatch.setattr(asking, "request_for", check)
    monkeypatch.setattr(
        asking.Question, "ask", lambda question, _otherwise: questions.append(question) or False
    )
    view = show(State.PAUSED)
    view.header.buttons.resume.click()
    assert view.messages.titles() == [asking.CHECKING]
    assert not view.header.buttons.resume.isEnabled()
    go_on.set()
    said = ["It isn't sent"] if refusal else []
    qtbot.waitUntil(lambda: view.messages.titles() == said and view.header.buttons.resume.isEnabled())
    qtbot.waitUntil(lambda: len(questions) == (not refusal))
