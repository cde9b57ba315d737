"""A run that is paused, ends without a word or waits, on its page: what is said, what is offered, what goes on."""

import os
import sys
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from core.base.errors import FixAction, RunFolderError
from core.base.settings import Appearance
from core.runs import start
from core.runs.event_log import EventWriter
from core.runs.events import (
    CheckpointSaved,
    Level,
    MessageRaised,
    Outcome,
    RequestAnswered,
    RunFinished,
    RunStarted,
    TurnAwaited,
)
from core.runs.folder import ExitRecord
from core.runs.start import Extension
from core.runs.status import State
from gui.base.theme import Theme
from gui.run.extend_dialog import ExtendSheet
from gui.run.header import RunAction
from gui.run.page import RunView
from tests.fakes.run_stories import (
    FORECAST,
    Plot,
    crash,
    finish,
    keep_alive,
    keep_checkpoint,
    make_folder,
    write_story,
)
from tests.fakes.runs import write_events

KEEPER = Path(__file__).resolve().parents[2] / "fakes" / "keeper.py"


def command(run, scenario):
    return [sys.executable, "-P", str(KEEPER), scenario, str(run.path)]


@pytest.fixture
def show(qtbot):
    shown = []

    def make(run, state, **how):
        view = RunView(Theme(Appearance.LIGHT), run, **how)
        shown.append(view)
        qtbot.addWidget(view)
        view.show()
        qtbot.waitUntil(lambda: view.state is state, timeout=10_000)
        QApplication.processEvents()  # a button is shown an event after its layout has it
        return view

    yield make
    for view in shown:
        view.close_view()


def write_of_second(run, *events):
    """What the engine of the second attempt says."""
    writer = EventWriter(run.events_file, attempt=2)
    writer.write(*events)
    writer.close()


def words(view):
    return "\n".join(label.text() for label in view.messages.findChildren(QLabel))


def fix_button(view, title):
    shown = [button for button in view.messages.findChildren(QPushButton) if not button.isHidden()]
    return next(button for button in shown if button.text() == title)


def test_a_paused_run_goes_on_where_it_was_on_the_same_page(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    view = show(
        run,
        State.TRAINING,
        begin=partial(start.start, run, command(run, "wait")),
        resume=lambda run: start.resume(run, command(run, "wait")),
    )
    buttons = view.header.buttons
    assert buttons.pause.isVisible()
    assert not buttons.resume.isVisible()
    assert not buttons.entries[RunAction.EXTEND].isEnabled()
    assert buttons.entries[RunAction.EXTEND].toolTip().startswith("Pause it first")
    qtbot.waitUntil(lambda: len(view._history.loss) > 2, timeout=5000)
    buttons.pause.click()
    assert not buttons.pause.isEnabled()
    qtbot.waitUntil(lambda: view.state is State.PAUSED, timeout=10_000)
    paused_at = view._story.step
    line = view.header.state_line.text()
    assert line.startswith(f"Paused at step {paused_at} of 3")
    assert line.endswith("its memory is free")
    assert view.header.progress.isVisible()
    assert not buttons.pause.isVisible()
    buttons.resume.click()
    qtbot.waitUntil(lambda: view.state is State.TRAINING and view._story.attempt == 2, timeout=10_000)
    qtbot.waitUntil(lambda: view._story.step > paused_at, timeout=5000)
    assert view._history.loss.x[: paused_at + 1].tolist() == list(range(1, paused_at + 2))
    buttons.stop.click()
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=10_000)


def test_a_second_press_of_the_space_bar_does_not_stop_a_run_that_pauses(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    view = show(
        run,
        State.TRAINING,
        begin=partial(start.start, run, command(run, "wait")),
        resume=lambda run: start.resume(run, command(run, "wait")),
    )
    buttons = view.header.buttons
    qtbot.waitUntil(lambda: len(view._history.loss) > 2, timeout=5000)
    buttons.pause.setFocus()
    buttons.pause.click()
    assert view.window().focusWidget() is buttons
    qtbot.waitUntil(lambda: view.state is State.PAUSED, timeout=10_000)
    qtbot.waitUntil(lambda: view.window().focusWidget() is buttons.resume, timeout=5000)


def test_a_run_that_cant_go_on_says_why_and_offers_it_again(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    crash(run, write_story(run, Plot(reached=100)))

    def refuse(_run):
        raise RunFolderError("The run can't be started", "The disk is full.")

    view = show(run, State.CRASHED, resume=refuse)
    view.header.buttons.resume.click()
    qtbot.waitUntil(lambda: view.messages.titles() == ["The run can't be started"], timeout=5000)
    assert view.header.buttons.resume.isEnabled()


def test_a_crash_offers_to_go_on_from_the_last_checkpoint(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    crash(run, write_story(run, Plot(reached=100)))
    asked = []
    view = show(run, State.CRASHED, resume=asked.append)
    assert view.header.buttons.resume.text() == "Resume"
    assert "step 90" in view.header.buttons.resume.toolTip()
    fix_button(view, "Go on from step 90").click()
    qtbot.waitUntil(lambda: asked == [run], timeout=2000)


def test_a_crash_without_a_checkpoint_offers_to_start_again(tmp_path, show):
    run = make_folder(tmp_path / "run")
    crash(run, write_story(run, Plot(reached=20)))
    view = show(run, State.CRASHED)
    assert view.header.buttons.resume.text() == "Start again"
    assert fix_button(view, "Start again").isVisible()
    assert "checkpoint" not in words(view)


def test_a_run_whose_keeper_is_gone_too_says_what_may_have_happened(tmp_path, show):
    run = make_folder(tmp_path / "run")
    write_story(run, Plot(reached=100))
    keep_alive(run)
    mine = run.keeper_record()
    gone = msgspec.structs.replace(mine, booted=mine.booted - 9000, pid=mine.pid, started=mine.started - 9500)
    run.keeper_file.write_bytes(msgspec.json.encode(gone))
    view = show(run, State.CRASHED)
    assert view.messages.titles() == ["The training process is gone, and nobody was left to see how"]
    assert "The computer was restarted or switched off while it trained." in words(view)
    assert fix_button(view, "Go on from step 90").isVisible()


def test_after_lack_of_memory_its_remedies_come_before_going_on(tmp_path, show):
    run = make_folder(tmp_path / "run")
    write_story(run, Plot(reached=100))
    write_events(run.events_file, FORECAST)
    run.record_exit(ExitRecord(time=time.time(), code=-9, signal="SIGKILL", out_of_memory=True))
    view = show(run, State.CRASHED)
    titles = [button.text() for button in view.messages.findChildren(QPushButton)]
    assert titles[-1] == "Go on from step 90"
    assert titles[0] == FORECAST.fixes[0].label


def test_what_was_said_of_an_earlier_attempt_goes_once_it_goes_on(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    clock = write_story(run, Plot(reached=100))
    write_events(run.events_file, MessageRaised(id="old", level=Level.WARNING, title="Old", time=clock))
    crash(run, clock)
    view = show(run, State.CRASHED)
    assert "Old" in view.messages.titles()
    keep_alive(run, attempt=2)
    view.follow_again()
    qtbot.waitUntil(lambda: view.state is State.STARTING, timeout=5000)
    assert view.messages.titles() == []
    assert view.header.state_line.text() == "Starting"
    assert len(view._history.loss) == 100


def test_steps_beyond_the_checkpoint_are_hidden_once_it_goes_on(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    clock = write_story(run, Plot(reached=100))
    crash(run, clock)
    view = show(run, State.CRASHED)
    keep_alive(run, attempt=2)
    write_of_second(run, RunStarted(time=time.time(), pid=1, from_step=90))
    view.follow_again()
    qtbot.waitUntil(lambda: len(view._history.loss) == 90, timeout=5000)


def test_a_waiting_run_says_behind_whom(tmp_path, show):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=3, behind="digits"))
    view = show(run, State.QUEUED)
    assert view.header.state_line.text() == "Waiting for its turn behind digits and 2 more"
    assert view.header.buttons.stop.text() == "Leave the queue"
    assert not view.header.buttons.pause.isVisible()


def test_a_waiting_run_without_a_checkpoint_begins_anew(tmp_path, show):
    run = make_folder(tmp_path / "run")
    clock = write_story(run, Plot(reached=20))
    crash(run, clock)
    keep_alive(run, attempt=2)
    writer = EventWriter(run.machine_file, attempt=2)
    writer.write(TurnAwaited(time=clock + 1, ahead=1, behind="digits"))
    writer.close()
    view = show(run, State.QUEUED)
    assert view.header.state_line.text() == "Waiting for its turn behind digits · begins anew"


def test_what_left_the_queue_says_where_it_stands_and_how_it_crashed_before(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    clock = write_story(run, Plot(reached=100))
    crash(run, clock)
    before = run.exit_record()
    keep_alive(run, attempt=2)
    writer = EventWriter(run.machine_file, attempt=2)
    writer.write(RequestAnswered(time=clock + 2, request="r", action="stop", accepted=True))
    writer.close()
    left = "It was taken out of the queue."
    run.record_exit(ExitRecord(time=clock + 3, code=None, reason=left, attempt=2, before=before))
    asked = []
    view = show(run, State.STOPPED, resume=asked.append)
    assert view.messages.titles() == ["It waited for its turn, and did not go on"]
    said = words(view)
    for part in (left, "step 100", "checkpoint of step 90", "SIGKILL", "killed from outside"):
        assert part in said
    fix_button(view, "Go on from step 90").click()
    qtbot.waitUntil(lambda: asked == [run], timeout=2000)


def test_without_its_run_file_nothing_offers_to_go_on(tmp_path, show):
    run = make_folder(tmp_path / "run")
    crash(run, write_story(run, Plot(reached=100)))
    run.options_file.unlink()
    view = show(run, State.CRASHED)
    assert not view.header.buttons.resume.isEnabled()
    assert "run.toml" in view.header.buttons.resume.toolTip()
    assert "Go on" not in words(view)
    assert not [button for button in view.messages.findChildren(QPushButton) if "Go on" in button.text()]


def test_one_number_says_how_long_it_was_worked_on(tmp_path, show):
    run = make_folder(tmp_path / "run")
    first = [
        RunStarted(time=1000.0, pid=1),
        CheckpointSaved(time=1060.0, step=5, path="c", bytes=1, seconds=1.0),
    ]
    write_events(run.events_file, *first, RunFinished(time=1060.0, state=Outcome.PAUSED, steps=5))
    second = RunFinished(time=5060.0, state=Outcome.FINISHED, steps=9, seconds=3.0)
    write_of_second(run, RunStarted(time=5000.0, pid=2, from_step=5), second)
    run.record_exit(ExitRecord(time=5061.0, code=0, attempt=2))
    view = show(run, State.FINISHED)
    assert "Time 2 min" in view.figures.text


def test_a_finished_run_offers_what_can_be_done_with_its_model(tmp_path, show):
    run = make_folder(tmp_path / "run")
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    finish(run, Plot(), write_story(run, Plot()))
    view = show(run, State.FINISHED)
    buttons = view.header.buttons
    assert not buttons.resume.isVisible()
    enabled = [action.text() for action in buttons.menu.actions() if action.text() and action.isEnabled()]
    assert "Train longer…" in enabled
    assert "New run from its model" in enabled
    assert "Save now" not in enabled
    asked = []
    view.edit_requested.connect(asked.append)
    buttons.entries[RunAction.NEW_FROM_MODEL].trigger()
    assert asked[0]["model"]["source"] == f"run:{run.path}"
    assert asked[0]["data"]["train"] == "builtin:digits"


def test_a_paused_run_offers_no_older_model_and_its_checkpoint_for_export(tmp_path, show):
    run = make_folder(tmp_path / "run")
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    clock = write_story(run, Plot(reached=50))
    write_events(run.events_file, RunFinished(time=clock, state=Outcome.STOPPED, steps=50, seconds=9.0))
    paused = RunFinished(time=clock + 9, state=Outcome.PAUSED, steps=90, seconds=9.0)
    write_of_second(run, RunStarted(time=clock + 1, pid=2, from_step=50), paused)
    keep_checkpoint(run, 90)
    run.record_exit(ExitRecord(time=clock + 10, code=0, attempt=2))
    view = show(run, State.PAUSED)
    buttons = view.header.buttons
    assert not buttons.entries[RunAction.TRY].isEnabled()
    assert "export its checkpoint" in buttons.entries[RunAction.TRY].toolTip()
    assert buttons.entries[RunAction.EXPORT].isEnabled()
    assert not view.model.isVisible()


def test_a_finished_run_trains_longer_on_the_same_page(qtbot, tmp_path, show):
    run = make_folder(tmp_path / "run")
    os.utime(run.options_file, (0, 0))  # a new folder might be about to be started
    finish(run, Plot(), write_story(run, Plot()))
    asked = []

    def extend(run, to):
        asked.append(to)
        return start.extend(run, command(run, "wait"), epochs=to.epochs)

    view = show(run, State.FINISHED, extend=extend)
    view.header.buttons.entries[RunAction.EXTEND].trigger()
    sheet = view.findChild(ExtendSheet)
    sheet.start.click()
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=10_000)
    assert asked == [Extension(epochs=9.0)]
    assert "epochs = 9.0" in view.details.options.toPlainText()
    view.header.buttons.stop.click()
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=10_000)


def test_resuming_is_what_the_message_asks_for():
    assert not FixAction.RESUME.is_end


def test_a_waiting_run_names_the_one_before_it_by_its_title(tmp_path, show):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    write_events(
        run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="2026-01-01-x", title="My run")
    )
    assert show(run, State.QUEUED).header.state_line.text() == "Waiting for its turn behind “My run”"
