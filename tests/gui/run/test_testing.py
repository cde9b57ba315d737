"""A run's page and the tests of its model: how one is asked for, what it shows, and how both lead to each other."""

import dataclasses
import gc
import time

import msgspec
import pytest
import shiboken6
from PySide6.QtCore import QThread
from PySide6.QtWidgets import QApplication

from core.options import run_file
from core.options.catalogue import with_changes
from core.options.choices import PreferenceLoss, Task
from core.runs.events import Evaluated, Outcome, Phase, PhaseChanged, RunFinished, RunPlanned, RunStarted
from core.runs.folder import ExitRecord
from core.runs.library import create_all, options_of_test
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end, summarize
from gui.run.extend_dialog import ModelTestSheet
from gui.run.header import RunAction, refusal
from gui.run.words import RunFacts, state_line
from tests.fakes.runs import OPTIONS, Plot, finish, keep_alive, make_folder, warn, write_events, write_story


def train(run):
    """A live run that has come to step 40."""
    keep_alive(run)
    return write_story(run, Plot(reached=40, start=time.time() - 20))


def finish_all(run):
    finish(run, Plot(), write_story(run, Plot()))


def test_a_finished_run_is_tested_on_a_file(qtbot, run, show, tmp_path):
    finish_all(run)
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    view = show(State.FINISHED)
    view.header.buttons.entries[RunAction.TEST].trigger()
    sheet = view.findChild(ModelTestSheet)
    sheet.start.click()
    assert sheet.problem.text() == "Choose a file or folder"
    sheet.data.line.setText(str(tmp_path / "gone.csv"))
    sheet.start.click()
    assert "There is no file or folder at" in sheet.problem.text()
    assert sheet.isVisible()
    (tmp_path / "gone.csv").write_text("text,label\n")
    with qtbot.waitSignal(view.test_requested) as asked:
        sheet.start.click()
    (options,) = asked.args
    assert (options.data.eval, options.only_evaluates) == (str(tmp_path / "gone.csv"), True)
    assert options.model.source == f"run:{run.path}"


@pytest.mark.parametrize("source", ["train.csv", ""])
def test_a_test_file_beside_the_training_data_is_offered(qtbot, run, tmp_path, source):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text("text,label\n")
    run_file.write(with_changes(OPTIONS, {"data.train": str(folder / source)}), run.options_file)
    sheet = ModelTestSheet(run)
    qtbot.addWidget(sheet)
    assert sheet.data.value() == str(folder / "test.csv")


def test_a_test_shows_its_result_and_leads_to_the_run(qtbot, run, show, tmp_path):
    tested = make_folder(tmp_path / "tested")
    model = msgspec.structs.replace(OPTIONS.model, source=f"run:{tested.path}", pretrained=True)
    training = msgspec.structs.replace(OPTIONS.training, epochs=0.0)
    options = msgspec.structs.replace(OPTIONS, model=model, training=training)
    run_file.write(options, run.options_file)
    metrics = {"eval_loss": 0.3, "eval_accuracy": 0.9}
    write_events(
        run.events_file,
        RunStarted(time=100.0, pid=1),
        RunPlanned(total_steps=0, epochs=0.0, train_samples=9, eval_samples=20, effective_batch=4),
        Evaluated(step=0, epoch=0.0, metrics=metrics, seconds=1.0, baseline=0.5),
        RunFinished(time=109.0, state=Outcome.FINISHED, metrics=metrics, seconds=2.0),
    )
    run.record_exit(ExitRecord(time=109.0, code=0))
    view = show(State.FINISHED)
    qtbot.waitUntil(view.messages.strip.isVisible)
    assert view.messages.strip.title.text() == "The model is right on 90.0 % of 20 examples"
    assert RunAction.COMPARE in view.header.buttons.offers()
    assert not view.header.buttons.offers() & {RunAction.TRY, RunAction.TEST, RunAction.EXPORT}
    assert not view.details.isTabVisible(0), "there are no steps to draw"
    assert "step" not in view.header.state_line.text()
    with qtbot.waitSignal(view.run_opened) as opened:
        view.header.other.click()
    assert opened.args == [tested]


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Outcome.STOPPED, "Show run 2 of 2, chat: “Pip” (Finished)"),
        (Outcome.FAILED, "Show run 2 of 2, chat: “Pip” (Finished)"),
        (Outcome.FINISHED, "Show run 2 of 2, chat: “Pip” (Finished)"),
        (Outcome.PAUSED, "Run 1 of 2: then “Pip” learns to chat"),
    ],
)
def test_the_first_of_two_runs_announces_the_second_until_it_is_over(run, show, monkeypatch, ended, words):
    chat = make_folder(run.path.with_name("chat"), with_changes(OPTIONS, {"output.name": "Pip"}))
    finish_all(chat)
    monkeypatch.setattr("core.runs.related.pretraining_pair", lambda _run: (run, chat))
    clock = write_story(run, Plot(reached=40))
    write_events(run.events_file, RunFinished(time=clock, state=ended, steps=40))
    run.record_exit(ExitRecord(time=clock, code=0))
    assert show(State(ended)).header.other.text() == words


def test_in_a_small_window_compare_is_in_the_menu_and_the_name_has_room(run, show):
    finish_all(run)
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    view = show(State.FINISHED)
    for width, is_button in ((1000, True), (780, False)):
        view.resize(width, 700)
        QApplication.processEvents()
        view._show_facts()
        buttons = view.header.buttons
        assert buttons.buttons[RunAction.COMPARE].isHidden() is not is_button
        assert buttons.entries[RunAction.COMPARE].isVisible() is not is_button


def test_a_run_leads_to_its_newest_test(qtbot, run, show, tmp_path, monkeypatch):
    finish_all(run)
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    (tmp_path / "test.csv").write_text("text,label\n")
    (test,) = create_all(options_of_test(run, str(tmp_path / "test.csv")), tmp_path)
    write_events(
        test.events_file,
        RunStarted(time=100.0, pid=1),
        RunPlanned(total_steps=0, epochs=0.0, train_samples=9, eval_samples=20, effective_batch=4),
        PhaseChanged(phase=Phase.EVALUATING, detail="3/12"),
        Evaluated(step=0, epoch=0.0, metrics={"eval_accuracy": 0.8}, seconds=1.0),
    )
    threads = []
    monkeypatch.setattr(
        "core.runs.related.summarize", lambda run: threads.append(QThread.currentThread()) or summarize(run)
    )
    view = show(State.FINISHED)
    assert view.header.other.text() == "Tested on test.csv: Accuracy 80.0 %"
    view._on_tick()
    assert set(threads) == {view.job}, "files are read in the thread that follows the run"
    with qtbot.waitSignal(view.run_opened) as opened:
        view.header.other.click()
    assert opened.args == [test]
    status = status_at_end(test, and_beginning=True)
    assert status.share_done == 0.25
    assert state_line(RunFacts(status=status, state=State.TRAINING)) == "Testing: 3 of 12 batches"
    view.hide()
    test.path.rename(tmp_path.with_name("deleted"))
    view.show()
    qtbot.waitUntil(view.header.other.isHidden)


def test_dismissing_a_warning_leaves_the_menu_as_it_is(qtbot, run, page):
    train(run)
    warn(run)
    page.show_run(run)
    view = page.view
    qtbot.waitUntil(lambda: bool(view.messages.strips), timeout=5000)
    for strip in list(view.messages.strips.values()):
        strip.dismiss()
    gc.collect()
    assert all(map(shiboken6.isValid, view.header.buttons.entries.values()))


def test_what_cannot_be_tested_says_why():
    facts = RunFacts(status=RunStatus(), state=State.FINISHED, options=OPTIONS, has_model=True)
    assert not refusal(RunAction.TEST, facts)
    assert "run.toml" in refusal(RunAction.TEST, dataclasses.replace(facts, options=None))
    preference = msgspec.structs.replace(OPTIONS, task=Task.PREFERENCE)
    assert "DPO" in refusal(RunAction.TEST, dataclasses.replace(facts, options=preference))
    without_reference = with_changes(preference, {"training.preference_loss": PreferenceLoss.ORPO})
    assert refusal(RunAction.TEST, dataclasses.replace(facts, options=without_reference)) == ""
