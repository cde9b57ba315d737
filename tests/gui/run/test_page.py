"""The page of a run in each of its states: what it shows, what it offers, what goes on."""

import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow, QPushButton

from core.base.errors import Fix, FixAction, RunFolderError, UserError
from core.monitor.recent import END, REVEAL, STOP
from core.runs import start
from core.runs.events import (
    Action,
    CheckpointSaved,
    Example,
    ExamplesChosen,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    RequestAnswered,
    RunFinished,
    RunStarted,
    TurnAwaited,
)
from core.runs.folder import ExitRecord
from core.runs.queue import LiveRuns, Move
from core.runs.start import Extension
from core.runs.status import State
from core.runs.summary import summarize
from gui.app.notifications import Notifications
from gui.run import header as run_header
from gui.run.extend_dialog import ExtendSheet
from gui.run.header import RunAction
from gui.run.messages import VERDICT
from gui.run.words import BeginTurn
from tests.fakes.charts import legend_of
from tests.fakes.desktop import FakeTray
from tests.fakes.runs import (
    FORECAST,
    OPTIONS,
    Plot,
    crash,
    finish,
    keep_alive,
    keep_checkpoint,
    make_folder,
    opening,
    pause,
    record_keeper,
    warn,
    write_events,
    write_story,
)

KEEPER = Path(__file__).resolve().parents[2] / "fakes" / "keeper.py"


def command(run, scenario):
    return [sys.executable, "-P", str(KEEPER), scenario, str(run.path)]


# --- Runs in each state


def train(run, reached=40, **plot):
    """A live run that has come so far."""
    keep_alive(run)
    return write_story(run, Plot(reached=reached, start=time.time() - 20, **plot))


def finish_all(run):
    finish(run, Plot(), write_story(run, Plot()))


def kill(run, reached=100):
    clock = write_story(run, Plot(reached=reached))
    crash(run, clock)
    return clock


def await_turn(run, **figures):
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), **figures))


def wait_without_checkpoint(run):
    clock = kill(run, 20)
    keep_alive(run, attempt=2)
    write_events(run.machine_file, TurnAwaited(time=clock + 1, ahead=1, behind="digits"), attempt=2)


def fail_at_once(run):
    events = RunStarted(time=100.0, pid=1), RunFinished(time=103.0, state=Outcome.FAILED, seconds=2.0)
    write_events(run.events_file, *events)
    run.record_exit(ExitRecord(time=103.0, code=1))


def damage(run):
    finish_all(run)
    with run.events_file.open("a") as file:
        file.write("no event\nnor this\n")


def lose_keeper(run):
    write_story(run, Plot(reached=100))
    keep_alive(run)
    mine = run.keeper_record()
    record_keeper(run, booted=mine.booted - 9000, started=mine.started - 9500)


def leave_queue(run):
    clock = kill(run)
    before = run.exit_record()
    keep_alive(run, attempt=2)
    write_events(
        run.machine_file,
        RequestAnswered(time=clock + 2, request="r", action="stop", accepted=True),
        attempt=2,
    )
    reason = "It was removed from the queue."
    run.record_exit(ExitRecord(time=clock + 3, code=None, reason=reason, attempt=2, before=before))


def run_out_of_memory(run):
    write_story(run, Plot(reached=100))
    write_events(run.events_file, FORECAST)
    run.record_exit(ExitRecord(time=time.time(), code=-9, signal="SIGKILL", out_of_memory=True))


# --- What a view shows


def words(view):
    return "\n".join(label.text() for label in view.messages.findChildren(QLabel))


def fixes(view):
    """The buttons of the messages by their text."""
    shown = [button for strip in view.messages.strips.values() for button in strip.findChildren(QPushButton)]
    return {button.text(): button for button in shown if button.text() not in ("", "Dismiss")}


def requests(run):
    return [request.action for request in run.open_requests()]


BEHIND = partial(await_turn, ahead=3, behind="digits")
BY_TITLE = partial(await_turn, ahead=1, behind="x", title="My run")
TRAINED = "Training on the CPU, bf16 · step 90 of 360 · epoch 2 of 8"
FINISHED = "Finished · step 360 of 360 · epoch 8 of 8 · CPU, bf16"
WAITS = "Queued behind "
KILLED = "The training process was ended by SIGKILL"
UNREAD = "Not all of this run can be read"
UNKNOWN = "The training process has ended, and the reason is unknown"
REMOVED = "Removed from the queue before it resumed"


RESUMES, ANEW = "Resume, Stop and save model", "Start again, Stop and save model"


@pytest.mark.parametrize(
    "case",
    [
        (partial(train, reached=90), State.TRAINING, TRAINED, "Pause, Stop and save model", {}),
        (BEHIND, State.QUEUED, WAITS + "digits and 2 more", "Start now, Pause, Remove from the queue", {}),
        (BY_TITLE, State.QUEUED, WAITS + "“My run”", "Start now, Pause, Remove from the queue", {}),
        (
            wait_without_checkpoint,
            State.QUEUED,
            WAITS + "digits · starts from the beginning",
            "Start now, Pause, Remove from the queue",
            {},
        ),
        (finish_all, State.FINISHED, FINISHED, "", {}),
        (fail_at_once, State.FAILED, "Failed · after 3 s", ANEW, {}),
        (damage, State.FINISHED, "Finished · ", "", {UNREAD: ""}),
        (
            kill,
            State.CRASHED,
            "Crashed · after ",
            RESUMES,
            {KILLED: "checkpoint of step 90 is complete"},
        ),
        (
            partial(kill, reached=20),
            State.CRASHED,
            "Crashed · after ",
            ANEW,
            {KILLED: ""},
        ),
        (
            lose_keeper,
            State.CRASHED,
            "Crashed",
            RESUMES,
            {UNKNOWN: "The computer was restarted"},
        ),
        (run_out_of_memory, State.CRASHED, "Crashed", RESUMES, {"Memory ran out": ""}),
        (
            leave_queue,
            State.STOPPED,
            "Stopped",
            RESUMES,
            {REMOVED: "killed by another process"},
        ),
    ],
)
def test_every_state_has_its_line_its_buttons_and_its_messages(run, show, case):
    prepare, state, line, offered, messages = case
    prepare(run)
    view = show(state)
    buttons = view.header.buttons
    assert view.header.state_line.text().startswith(line)
    shown = (buttons.resume, buttons.pause, buttons.stop, buttons.end)
    assert ", ".join(button.text() for button in shown if button.isVisible()) == offered
    assert view.messages.titles() == list(messages)
    assert all(part in words(view) for part in messages.values())
    assert view.header.progress.isVisible() == (not state.is_over)
    assert all(button.text() for button in view.findChildren(QPushButton) if not button.isHidden())


def at(action=None, **plot):
    def prepare(run):
        clock = train(run, 90, **plot)
        if action is not None:
            run.request(action)
        write_events(run.events_file, MessageRaised(time=clock, id="x", level=Level.INFO, title="x"))

    return prepare


def in_phase(phase, detail="", action=None):
    def prepare(run):
        clock = train(run, 90)
        if action is not None:
            run.request(action)
        write_events(run.events_file, ExamplesChosen(time=clock, examples=(Example(given="a"),) * 16))
        write_events(run.events_file, PhaseChanged(time=clock, phase=phase, detail=detail))

    return prepare


def reopened(run):
    """A paused run that was resumed while another trains, before its keeper has written anything."""
    pause(run, Plot(reached=90), write_story(run, Plot(reached=90, start=time.time() - 60)))
    run.exit_file.unlink()
    keep_alive(run, attempt=2)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="x", title="B"), attempt=2)


def end_as(outcome):
    def prepare(run):
        clock = write_story(run, Plot(reached=90))
        ended = RunFinished(time=clock + 1, state=outcome, steps=90, seconds=9.0)
        write_events(run.events_file, ended)
        run.record_exit(ExitRecord(time=clock + 2, code=0))

    return prepare


def start_up(run):
    keep_alive(run)
    write_events(run.events_file, RunStarted(time=time.time(), pid=1))


STOPS = "Pause, Stop and save model"


@pytest.mark.parametrize(
    "case",
    [
        (BY_TITLE, State.QUEUED, "Queued", "Queued behind", "Start now, Pause, Remove from the queue"),
        (
            reopened,
            State.QUEUED,
            "Queued",
            "Queued behind “B” · step 90",
            "Start now, Pause, Remove from the queue",
        ),
        (start_up, State.STARTING, "Starting", "Starting", "Pause, Stop"),
        (at(), State.TRAINING, "25 %", "Training on", STOPS),
        (at(steps=90, epochs=2), State.TRAINING, "99 %", "Training on", STOPS),
        (in_phase(Phase.EVALUATING), State.TRAINING, "25 %", "Evaluating · step 90", STOPS),
        (in_phase(Phase.EVALUATING, "examples"), State.TRAINING, "25 %", "Making 16 sample", STOPS),
        (in_phase(Phase.SAVING), State.TRAINING, "25 %", "Saving · step 90", STOPS),
        (at(Action.PAUSE), State.PAUSING, "Pausing", "Pausing – finishing this step… · step 90", STOPS),
        (
            in_phase(Phase.SAVING, action=Action.PAUSE),
            State.PAUSING,
            "Pausing",
            "Pausing – saving checkpoint…",
            STOPS,
        ),
        (at(Action.STOP), State.STOPPING, "Stopping", "Stopping – finishing this step… · step 90", STOPS),
        (
            in_phase(Phase.EVALUATING, "3/9", Action.STOP),
            State.STOPPING,
            "Stopping",
            "Stopping · Evaluating, 3 / 9 batches · step 90",
            "Pause, Skip evaluation",
        ),
        (
            in_phase(Phase.SAVING, action=Action.STOP),
            State.STOPPING,
            "Stopping",
            "Stopping – saving model…",
            STOPS,
        ),
        (
            end_as(Outcome.PAUSED),
            State.PAUSED,
            "Paused",
            "Paused, memory released · step 90",
            RESUMES,
        ),
        (end_as(Outcome.STOPPED), State.STOPPED, "Stopped", "Stopped · ", RESUMES),
        (end_as(Outcome.FAILED), State.FAILED, "Failed", "Failed · ", RESUMES),
        (kill, State.CRASHED, "Crashed", "Crashed · ", RESUMES),
        (finish_all, State.FINISHED, "Finished", "Finished · ", ""),
    ],
)
def test_list_title_notification_page_and_buttons_agree_on_the_state(qtbot, run, show, case):
    prepare, state, title, line, buttons = case
    prepare(run)
    window = QMainWindow()
    qtbot.addWidget(window)
    notifications = Notifications(window, lambda: True, lambda: None, lambda _badge: None, FakeTray)
    live = LiveRuns()
    live.follow(run, starts=True)
    ended = live.look(run.path.parent)
    FakeTray.made.clear()
    for end in ended:
        notifications.notify_end(end)
    notifications.show_live(live.live)
    told = [note[0] for icon in FakeTray.made for note in icon.shown] or [window.windowTitle()]
    assert told[0].startswith((f"{title} · ", f"{title}: "))
    assert summarize(run).state is state
    view = show(None)
    states = []
    view.state_changed.connect(states.append)
    qtbot.waitUntil(lambda: view.header.state_line.text().startswith(line), timeout=10_000)
    assert set(states) <= {state}, "it was never said to be in another"
    actions = view.header.buttons
    shown = (actions.resume, actions.pause, actions.stop)
    assert ", ".join(button.text() for button in shown if not button.isHidden()) == buttons


# --- While it trains


def figures_of(view):
    return ", ".join(f"{title} {value}" for title, value in view.figures.shown)


def test_a_training_run_shows_how_far_it_is_and_what_would_help(qtbot, run, show):
    train(run, 90)
    warn(run)
    view = show(State.TRAINING)
    header = view.header
    assert header.name.text() == "Handwritten digits"
    assert header.progress.value() == header.progress.maximum() // 4
    assert header.time_left.text().startswith("about ")
    assert figures_of(view).startswith("Training loss ")
    assert "Accuracy 87.0 %" in figures_of(view)
    qtbot.waitUntil(lambda: "train" in legend_of(view.charts.loss), timeout=3000)
    assert legend_of(view.charts.metrics) == "Accuracy 87.0 % · F1 86.6 %"
    assert all(chart.canvas.accessibleName() for chart in view.charts.charts)
    opened = []
    view.edit_requested.connect(opened.append)
    next(button for title, button in fixes(view).items() if "batch size" in title).click()
    header.buttons.entries[RunAction.DUPLICATE].trigger()
    assert [tree["memory"]["batch_size"] for tree in opened] == [8, 32]
    assert opened[0]["model"]["source"] == OPTIONS.model.source
    other = MessageRaised(id="other", level=Level.INFO, title="Another")
    write_events(run.events_file, other, MessageWithdrawn(id="memory-low"))
    qtbot.waitUntil(lambda: view.messages.titles() == ["Another"], timeout=2000)


def test_nothing_is_offered_before_the_state_is_known(run, show):
    finish_all(run)
    view = show(None)
    header = view.header
    assert not any(b.isVisible() for b in (header.buttons.pause, header.buttons.stop, header.progress))
    assert not header.buttons.more.isEnabled()
    for chart in view.charts.charts:
        chart.redraw()
        assert chart.empty.text() == " "


def test_before_the_first_step_the_phase_is_shown(qtbot, run, show):
    keep_alive(run)
    write_events(run.events_file, *opening(Plot(start=time.time()))[:3])
    view = show(State.STARTING)
    line = view.header.state_line
    qtbot.waitUntil(lambda: line.text() == "Loading the model: torchvision:resnet18", timeout=2000)
    assert view.charts.loss.empty_text() == "No steps yet"
    assert view.header.time_left.text() == "working out the time"


@pytest.mark.parametrize(
    ("nan_from", "text"), [(50, "not a number since step 50"), (1, "Every loss so far is NaN")]
)
def test_nan_losses_are_named(qtbot, run, show, nan_from, text):
    train(run, 60, nan_from=nan_from)
    loss = show(State.TRAINING).charts.loss
    qtbot.waitUntil(lambda: text in legend_of(loss), timeout=3000)


def test_stop_and_end_now_by_the_buttons_and_by_a_message(qtbot, run, show, monkeypatch):
    train(run)
    stuck = MessageRaised(id="a", level=Level.WARNING, title="Stuck?", fixes=(STOP, END, REVEAL))
    write_events(run.machine_file, stuck)
    view = show(State.TRAINING)
    buttons = view.header.buttons
    qtbot.waitUntil(lambda: view.messages.titles() == ["Stuck?"], timeout=5000)
    shown = []
    monkeypatch.setattr("gui.run.page.reveal", shown.append)
    fixes(view)["Show the folder"].click()
    assert (shown, requests(run)) == ([run.path], [])
    for _ in range(2):
        fixes(view)["Stop and save model"].click()
    qtbot.waitUntil(lambda: view.state is State.STOPPING, timeout=2000)
    assert requests(run) == [Action.STOP]
    assert not buttons.stop.isEnabled()
    assert not buttons.end.isVisible()
    monkeypatch.setattr(run_header, "PATIENCE_SECONDS", 0.0)
    qtbot.waitUntil(buttons.end.isVisible, timeout=2000)
    fixes(view)["End now"].click()
    qtbot.waitUntil(lambda: sorted(requests(run)) == [Action.KILL, Action.STOP], timeout=2000)
    run.record_exit(ExitRecord(time=time.time(), code=-9))
    qtbot.waitUntil(lambda: sorted(fixes(view)) == ["Show the folder", "Start again"], timeout=5000)


def test_a_paused_run_is_resumed_on_the_same_page(qtbot, run, show):
    begin = partial(start.start, run, command(run, "wait"))
    view = show(
        State.TRAINING, begin=begin, resume=lambda run, longer: start.resume(run, command(run, "wait"))
    )
    buttons = view.header.buttons
    assert buttons.entries[RunAction.EXTEND].toolTip() == "Pause the run first."
    qtbot.waitUntil(lambda: len(view.history.loss) > 2, timeout=5000)
    buttons.pause.setFocus()
    buttons.pause.click()
    assert not buttons.pause.isEnabled()
    assert view.window().focusWidget() is buttons, "a second press of the space bar must not stop it"
    qtbot.waitUntil(lambda: view.state is State.PAUSED, timeout=10_000)
    qtbot.waitUntil(lambda: view.window().focusWidget() is buttons.resume, timeout=5000)
    paused_at = view.status.step
    assert view.header.state_line.text().startswith(f"Paused, memory released · step {paused_at} of 3")
    assert view.header.progress.isVisible()
    buttons.resume.click()
    qtbot.waitUntil(lambda: view.state is State.TRAINING and view.status.step > paused_at, timeout=10_000)
    assert view.status.attempt == 2
    assert view.history.loss.x[: paused_at + 1].tolist() == list(range(1, paused_at + 2))
    buttons.stop.click()
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=10_000)


def test_a_run_whose_folder_was_removed_shows_it(qtbot, run, show):
    train(run)
    view = show(State.TRAINING)
    shutil.rmtree(run.path)
    qtbot.waitUntil(lambda: view.state is State.CRASHED, timeout=5000)
    assert view.messages.titles() == ["This run's folder was removed"]


# --- After its end


def test_a_finished_run_sums_up_and_offers_its_model(qtbot, run, show, monkeypatch):
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    clock = write_story(run, Plot())
    write_events(run.events_file, FORECAST)
    finish(run, Plot(), clock)
    view = show(State.FINISHED)
    assert "Accuracy 98.1 %, F1 97.7 %, Throughput 149 examples/s" in figures_of(view)
    assert figures_of(view).endswith("Peak memory 2.60 GB")
    qtbot.waitUntil(lambda: view.details.metrics.rowCount() == 8)
    assert ("Optimizer", "AdamW (fused)") in view.details.what_ran.rows()
    assert 'source = "torchvision:resnet18"' in view.details.options.toPlainText()
    entries = view.header.buttons.entries
    assert {action for action, entry in entries.items() if entry.isVisible() and not entry.isEnabled()} == {
        RunAction.SAVE
    }
    opened, edited = [], []
    monkeypatch.setattr("gui.run.page.reveal", opened.append)
    view.edit_requested.connect(edited.append)
    entries[RunAction.EXTEND].trigger()
    (sheet,) = view.findChildren(ExtendSheet)
    sheet.how.buttons()["anew"].click()
    sheet.start.click()
    assert edited[0]["model"]["source"] == f"run:{run.path}"
    assert edited[0]["data"]["train"] == "builtin:digits"
    entries[RunAction.REVEAL].trigger()
    assert opened == [run.path]
    monkeypatch.setattr("gui.run.page.reveal", lambda path: UserError("Not shown", f"It is {path}"))
    entries[RunAction.REVEAL].trigger()
    assert view.messages.titles() == ["Not shown"]
    assert f"It is {run.path}" in words(view)
    monkeypatch.setattr("gui.run.page.reveal", lambda path: None)
    entries[RunAction.REVEAL].trigger()
    assert view.messages.titles() == []


def test_a_stopped_run_with_a_model_offers_it_as_a_finished_one(run, show):
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    write_story(run, Plot(reached=50))
    write_events(run.events_file, RunFinished(state=Outcome.STOPPED, seconds=12.0, steps=50))
    run.record_exit(ExitRecord(time=time.time(), code=0))
    make_folder(run.path.with_name("another"))
    buttons = show(State.STOPPED).header.buttons
    entries = {action for action, entry in buttons.entries.items() if entry.isVisible()}
    assert not entries & {RunAction.TRY, RunAction.EXPORT, RunAction.COMPARE}
    assert {RunAction.TRY, RunAction.EXPORT, RunAction.COMPARE, RunAction.RESUME} <= buttons.offers()


def test_an_evaluation_before_the_last_steps_is_no_result(run, show):
    write_story(run, Plot(reached=50))
    write_events(run.events_file, RunFinished(state=Outcome.STOPPED, seconds=12.0, steps=50))
    run.record_exit(ExitRecord(time=time.time(), code=0))
    assert "Accuracy" not in figures_of(show(State.STOPPED))


def test_the_time_of_a_resumed_run_leaves_the_pause_out(run, show):
    saved = CheckpointSaved(time=1060.0, step=5, path="c", bytes=1, seconds=1.0)
    paused = RunFinished(time=1060.0, state=Outcome.PAUSED, steps=5)
    write_events(run.events_file, RunStarted(time=1000.0, pid=1), saved, paused)
    done = RunFinished(time=5060.0, state=Outcome.FINISHED, steps=9, seconds=3.0)
    write_events(run.events_file, RunStarted(time=5000.0, pid=2, from_step=5), done, attempt=2)
    run.record_exit(ExitRecord(time=5061.0, code=0, attempt=2))
    assert "Time 2 min" in figures_of(show(State.FINISHED))


def test_after_memory_ran_out_its_remedies_come_before_resuming(qtbot, run, show):
    run_out_of_memory(run)
    view = show(State.CRASHED)
    titles = list(fixes(view))
    assert (titles[0], titles[-1]) == (FORECAST.fixes[0].label, "Resume from step 90")
    with qtbot.waitSignal(view.edit_requested, timeout=2000) as edited:
        fixes(view)[titles[0]].click()
    assert edited.args[0]["memory"]["batch_size"] == 8


@pytest.mark.qt_log_ignore("This plugin does not support")  # no screen
def test_the_worst_message_is_shown_the_others_are_counted_and_what_is_dismissed_stays_so(qtbot, run, page):
    finish_all(run)
    for level, title in ((Level.INFO, "No header"), (Level.WARNING, "Slow"), (Level.INFO, "Copies")):
        write_events(run.events_file, MessageRaised(id=title, level=level, title=title))
    page.show_run(run)
    messages = page.view.messages
    qtbot.waitUntil(lambda: messages.titles() == ["Slow", "No header", "Copies"], timeout=5000)
    # What came of it is more important than what was slow. It is shown when the engine has ended.
    qtbot.waitUntil(lambda: messages.top.id == VERDICT, timeout=5000)
    assert messages.more.text() == "3 more"
    messages.more.click()
    assert messages.panel.isVisible()
    assert messages.column.itemAt(0).widget() is messages.strips[VERDICT]
    assert {name for name, strip in messages.strips.items() if not strip.is_closable} == {VERDICT}
    messages.strips["Copies"].dismiss()
    messages.strips["Slow"].dismiss()
    assert (messages.more.text(), messages.titles()) == ("1 more", ["No header"])
    messages.panel.close()
    page.end_work()
    page.show_run(run)
    messages = page.view.messages
    qtbot.waitUntil(lambda: messages.titles() == ["No header"], timeout=5000)


def test_nothing_that_can_be_clicked_moves_while_a_run_starts_trains_warns_and_ends(qtbot, run, page):
    page.resize(1130, 740)  # of a window of 1366 x 768
    clock = train(run, 8)
    page.show_run(run)
    view = page.view
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=5000)

    def places():
        QApplication.processEvents()
        tabs, charts = view.details, [view.charts.loss, view.charts.metrics, view.charts.memory]
        shown = [tabs.tabBar(), view.header.buttons.more, *charts]
        return [widget.mapTo(view, QPoint()) for widget in shown] + [chart.size() for chart in charts]

    before = places()
    title = "Steps take 11.7 s instead of 2.61 s: other programs use 56 % of the CPU"
    pause = Fix("Pause", action=FixAction.PAUSE)
    slow = MessageRaised(time=clock, id="slow", level=Level.WARNING, title=title, fixes=(pause,))
    write_events(run.events_file, slow)
    qtbot.waitUntil(lambda: view.messages.titles() == [title], timeout=5000)
    qtbot.waitUntil(lambda: places() == before, timeout=2000)  # once all layouts are done
    view.messages.strip.dismiss()
    qtbot.waitUntil(lambda: places() == before, timeout=2000)
    finish(run, Plot(reached=8), clock)
    qtbot.waitUntil(lambda: view.state is State.FINISHED, timeout=5000)
    qtbot.waitUntil(lambda: not view.messages.strip.isHidden(), timeout=5000)
    qtbot.waitUntil(lambda: places() == before, timeout=2000)


def test_two_rows_of_charts_are_seen_in_a_small_window(qtbot, run, page):
    page.resize(1024 - 192, 700 - 24)
    finish_all(run)
    page.show_run(run)
    view = page.view
    qtbot.waitUntil(lambda: view.state is State.FINISHED, timeout=5000)
    QApplication.processEvents()
    for chart in (view.charts.loss, view.charts.memory):
        assert chart.mapTo(page, QPoint(0, chart.height())).y() <= page.height()


def test_a_button_that_comes_below_the_pointer_takes_no_click_at_once(qtbot, run, show, monkeypatch):
    train(run, 90)
    view = show(State.TRAINING)
    buttons, ignores = view.header.buttons, Qt.WidgetAttribute.WA_TransparentForMouseEvents
    monkeypatch.setattr("gui.run.messages.IGNORE_MS", 50)
    monkeypatch.setattr(buttons, "underMouse", lambda: True)
    view._show_facts()
    assert not buttons.testAttribute(ignores), "they are as they were"
    monkeypatch.setattr(view, "_state", State.FINISHED)
    view._show_facts()
    assert buttons.testAttribute(ignores)
    qtbot.waitUntil(lambda: not buttons.testAttribute(ignores), timeout=2000)


def test_a_run_that_cant_be_resumed_shows_why_and_offers_it_again(qtbot, run, show):
    kill(run)
    resumed = []

    def refuse(run, longer):
        resumed.append(run)
        raise RunFolderError("The run can't be started", "The disk is full.")

    view = show(State.CRASHED, resume=refuse)
    fixes(view)["Resume from step 90"].click()
    qtbot.waitUntil(lambda: view.messages.titles() == ["The run can't be started"], timeout=5000)
    assert resumed == [run]
    assert view.header.buttons.resume.isEnabled()


@pytest.mark.parametrize(
    "case", [(BeginTurn.WAIT, [{}]), (BeginTurn.NOW, [{"queued": False}]), (BeginTurn.NEVER, [])]
)
def test_resuming_on_a_busy_device_is_asked_about(qtbot, run, show, monkeypatch, case):
    turn, resumed = case
    monkeypatch.setattr(
        "core.runs.queue.ahead_of", lambda device, **_run: TurnAwaited(ahead=1, behind="x", title="X")
    )
    monkeypatch.setattr("gui.run.page.ask_turn", lambda awaited, _: turn)
    kill(run)
    begun = []

    def resume(run, longer, **how):
        begun.append(how)
        raise RunFolderError("The run can't be started", "The disk is full.")

    view = show(State.CRASHED, resume=resume)
    view.header.buttons.resume.click()
    qtbot.waitUntil(lambda: begun == resumed and view.header.buttons.resume.isEnabled(), timeout=5000)


@pytest.mark.parametrize("agreed", [True, False])
def test_a_queued_run_is_started_now_if_that_is_confirmed(run, show, monkeypatch, agreed):
    await_turn(run, ahead=1, behind="x", title="X")
    asked, moved = [], []
    monkeypatch.setattr("gui.run.page.starts_now", lambda awaited, _: asked.append(awaited.title) or agreed)
    view = show(State.QUEUED)
    view.move_requested.connect(lambda run, to: moved.append((run, to)))
    view.header.buttons.resume.click()
    assert (asked, moved) == (["X"], [(run, Move.NOW)] if agreed else [])


def test_a_run_that_waits_for_a_model_cannot_be_started_now(run, show):
    await_turn(run, ahead=1, behind="x", title="X", is_source=True)
    assert show(State.QUEUED).header.buttons.resume.isHidden()


def test_messages_of_an_earlier_attempt_go_when_it_is_resumed(qtbot, run, show):
    clock = write_story(run, Plot(reached=100))
    write_events(run.events_file, MessageRaised(id="old", level=Level.WARNING, title="Old", time=clock))
    crash(run, clock)
    view = show(State.CRASHED)
    assert "Old" in view.messages.titles()
    keep_alive(run, attempt=2)
    view.follow_again()
    qtbot.waitUntil(lambda: view.state is State.STARTING, timeout=5000)
    assert view.messages.titles() == []
    assert view.header.state_line.text().startswith("Starting")
    assert len(view.history.loss) == 100
    write_events(run.events_file, RunStarted(time=time.time(), pid=1, from_step=90), attempt=2)
    qtbot.waitUntil(lambda: len(view.history.loss) == 90, timeout=5000)


@pytest.mark.parametrize("options", [None, "task = ["])
def test_without_a_readable_run_file_the_run_is_shown_and_offers_no_more_than_it_can(run, show, options):
    kill(run)
    run.options_file.unlink()
    if options is not None:
        run.options_file.write_text(options)
    view = show(State.CRASHED)
    assert view.header.name.text() == "run"
    if options is None:
        assert not view.header.buttons.resume.isEnabled()
        assert "run.toml" in view.header.buttons.resume.toolTip()
        assert not [title for title in fixes(view) if "Resume" in title]
    else:
        view.header.buttons.entries[RunAction.DUPLICATE].trigger()
        assert "run.toml" in view.messages.titles()[0]


def test_a_paused_run_offers_its_checkpoint_for_export_and_its_earlier_model_to_try(run, show):
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    clock = write_story(run, Plot(reached=50))
    write_events(run.events_file, RunFinished(time=clock, state=Outcome.STOPPED, steps=50, seconds=9.0))
    paused = RunFinished(time=clock + 9, state=Outcome.PAUSED, steps=90, seconds=9.0)
    write_events(run.events_file, RunStarted(time=clock + 1, pid=2, from_step=50), paused, attempt=2)
    keep_checkpoint(run, 90)
    run.record_exit(ExitRecord(time=clock + 10, code=0, attempt=2))
    view = show(State.PAUSED)
    entries = view.header.buttons.entries
    assert entries[RunAction.TRY].isEnabled(), "the earlier model can be tried"
    assert entries[RunAction.EXPORT].isEnabled()


def test_a_finished_run_trains_longer_on_the_same_page(qtbot, run, show):
    os.utime(run.options_file, (0, 0))  # a new folder might be about to be started
    finish_all(run)
    extensions = []

    def extend(run, longer):
        extensions.append(longer)
        return start.resume(run, command(run, "wait"), longer=longer)

    view = show(State.FINISHED, resume=extend)
    view.header.buttons.entries[RunAction.EXTEND].trigger()
    view.findChild(ExtendSheet).start.click()
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=10_000)
    assert extensions == [Extension(epochs=9.0)]
    assert "epochs = 9.0" in view.details.options.toPlainText()
    view.header.buttons.stop.click()
    qtbot.waitUntil(lambda: view.state is State.STOPPED, timeout=10_000)


def test_a_run_that_didnt_start_shows_why(run, tmp_path, show):
    view = show(State.CRASHED, begin=partial(start.start, run, [str(tmp_path / "no such program")]))
    assert view.messages.titles() == ["The run can't be started"]


# --- The page around the view


def test_a_crash_shows_the_log(qtbot, run, page):
    train(run)
    page.show_run(run)
    view = page.view
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=5000)
    with qtbot.waitSignal(page.run_changed, timeout=5000):
        crash(run, time.time())
    qtbot.waitUntil(lambda: view.details.log.toPlainText().endswith("Training on cpu"), timeout=2000)
    assert view.details.log.isVisible()


def test_a_dismissed_warning_stays_so_with_other_figures_but_not_with_another_cause(qtbot, run, page):
    train(run)

    def raise_one(name, title, level=Level.WARNING):
        write_events(run.events_file, MessageRaised(id=name, level=level, title=title))

    def titles():
        return page.view.messages.titles()

    raise_one("slowed", "Steps take 4.31 s instead of 1.02 s (python)")
    page.show_run(run)
    qtbot.waitUntil(lambda: len(titles()) == 1, timeout=5000)
    page.view.messages.strip.dismiss()
    raise_one("slowed", "Steps take 8.9 s instead of 1.1 s (rustc)")
    raise_one("disk", "The disk is nearly full")
    qtbot.waitUntil(lambda: titles() == ["The disk is nearly full"], timeout=5000)
    page.view.messages.strips["disk"].dismiss()
    raise_one("disk", "The disk has no space for the next checkpoint")
    raise_one("failed", "Stopped at step 5", Level.ERROR)
    qtbot.waitUntil(lambda: len(titles()) == 2, timeout=5000)
    page.view.messages.strips["failed"].dismiss()
    raise_one("failed", "Stopped at step 6", Level.ERROR)
    qtbot.waitUntil(lambda: "Stopped at step 6" in titles(), timeout=5000)
    assert "The disk has no space for the next checkpoint" in titles()


def test_closing_leaves_the_run_and_ends_the_thread(qtbot, run, page):
    train(run, 5)
    page.show_run(run)
    view = page.view
    qtbot.waitUntil(lambda: view.state is State.TRAINING, timeout=5000)
    view.close_view()
    assert view.job.isFinished()
    page.end_work()
    assert page.view is None
    assert requests(run) == []
