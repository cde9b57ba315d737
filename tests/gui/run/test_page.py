import shutil
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QEnterEvent, QMouseEvent
from PySide6.QtWidgets import QLabel, QPushButton

from core.base.errors import UserError
from core.base.settings import Appearance
from core.runs import start
from core.runs.events import SCHEMA, Level, MessageRaised, MessageWithdrawn, Outcome, RunFinished, RunStarted
from core.runs.folder import Action, ExitRecord
from core.runs.status import State
from gui.base.theme import Theme
from gui.charts.axes import CLOCK_SCALE
from gui.run import header as run_header
from gui.run.header import RunAction
from gui.run.page import RunPage, RunView
from tests.fakes.run_stories import (
    FORECAST,
    OPTIONS,
    Plot,
    crash,
    finish,
    keep_alive,
    make_folder,
    opening,
    warn,
    write_story,
)
from tests.fakes.runs import write_events

KEEPER = Path(__file__).resolve().parents[2] / "fakes" / "keeper.py"


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


@pytest.fixture
def page(qtbot, theme):
    page = RunPage(theme)
    qtbot.addWidget(page)
    page.resize(1000, 780)
    page.show()
    yield page
    page.close_run()


@pytest.fixture
def open_run(qtbot, page):
    def open_it(run, state):
        page.show_run(run)
        qtbot.waitUntil(lambda: page.view.state is state, timeout=5000)
        return page.view

    return open_it


@pytest.fixture
def live(tmp_path):
    run = make_folder(tmp_path / "run")
    keep_alive(run)
    return run


def drawn(qtbot, chart, condition):
    qtbot.waitUntil(lambda: condition(chart.legend_text), timeout=3000)
    return chart.legend_text


def test_a_training_run_shows_how_far_it_is(qtbot, live, open_run):
    write_story(live, Plot(reached=90, start=time.time() - 30))
    view = open_run(live, State.TRAINING)
    header = view.header
    assert header.name.text() == "Handwritten digits"
    assert header.state_line.text() == "Training on the CPU, bf16 · step 90 of 360 · epoch 2 of 8"
    assert header.progress.value() == header.progress.maximum() // 4
    assert header.time_left.text().startswith("about ")
    assert header.buttons.stop.isVisible()
    assert not header.buttons.end.isVisible()
    assert not view.figures.isVisible()
    assert "eval" in drawn(qtbot, view.charts.loss, lambda text: "train" in text)
    assert "others" in drawn(qtbot, view.charts.memory, lambda text: "this run" in text)
    assert view.charts.metrics.legend_text == "Accuracy 87.0 % · F1 86.6 %"


def test_a_page_that_has_read_nothing_yet_says_nothing_of_where_the_run_stands(page, live):
    write_story(live, Plot(reached=90))
    page.show_run(live)
    view = page.view
    assert view.state is None
    header = view.header
    assert header.state_line.text() == ""
    buttons = header.buttons
    assert not any(
        button.isVisible() for button in (buttons.pause, buttons.stop, buttons.resume, header.progress)
    )
    assert not buttons.more.isEnabled()
    for chart in view.charts.charts:
        chart.redraw()
        assert chart._empty.text() == " "
        assert {axis.opacity() for axis in (chart._canvas.x_axis, chart._canvas.y_axis)} == {0.0}


def test_that_a_run_can_not_go_to_the_bin_yet_is_said_until_it_is_over(qtbot, page, live, open_run):
    clock = write_story(live, Plot(reached=40, start=time.time() - 10))
    view = open_run(live, State.TRAINING)
    page.bin.begin([live])
    qtbot.waitUntil(lambda: view.messages.titles() == ["It can't go to the bin yet"], timeout=2000)
    with qtbot.waitSignal(page.run_changed, timeout=5000):
        crash(live, clock)
    assert "It can't go to the bin yet" not in view.messages.titles()


def test_time_left_is_withheld_until_it_means_something(live, open_run):
    write_story(live, Plot(reached=3, start=time.time() - 3))
    assert open_run(live, State.TRAINING).header.time_left.text() == ""


def test_before_the_first_step_the_phase_stands_in_words(qtbot, live, open_run):
    write_events(live.events_file, *opening(Plot(start=time.time()))[:3])
    view = open_run(live, State.STARTING)
    line = view.header.state_line
    qtbot.waitUntil(lambda: line.text() == "Loading the model: torchvision:resnet18", timeout=2000)
    assert view.charts.loss.empty_text() == "No steps yet"
    assert view.header.time_left.text() == ""


def test_a_finished_run_sums_up(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    view = open_run(run, State.FINISHED)
    assert "Accuracy 98.1 %, F1 97.7 %, Speed 149 rows/s" in view.figures.text
    assert "Peak memory 2.60 GB" in view.figures.text
    assert view.header.state_line.text().startswith("Finished · step 360 of 360")
    assert not view.header.progress.isVisible()
    assert not view.header.buttons.stop.isVisible()
    assert view.details.metrics.rowCount() == 8
    assert ("Optimizer", "AdamW (fused)") in view.details.what_ran.rows()
    assert 'source = "torchvision:resnet18"' in view.details.options.toPlainText()


def test_what_was_measured_before_the_last_steps_is_no_result(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    write_story(run, Plot(reached=50))
    write_events(run.events_file, RunFinished(state=Outcome.STOPPED, seconds=12.0, steps=50))
    run.record_exit(ExitRecord(time=time.time(), code=0))
    text = open_run(run, State.STOPPED).figures.text
    assert text.startswith("Last evaluated at step 45 Loss ")
    assert " · Accuracy " in text
    assert ", Accuracy" not in text


def test_a_crash_is_shown_with_its_signal_and_the_end_of_the_log(qtbot, live, page, open_run):
    write_story(live, Plot(reached=40, start=time.time() - 10))
    view = open_run(live, State.TRAINING)
    with qtbot.waitSignal(page.run_changed, timeout=2000):
        crash(live, time.time())
    assert view.state is State.CRASHED
    assert view.messages.titles() == ["The training process was ended by SIGKILL"]
    qtbot.waitUntil(lambda: view.details.log.toPlainText().endswith("Training on cpu"), timeout=2000)
    assert view.details.log.isVisible()
    assert view.header.state_line.text().startswith("Crashed · after ")


def test_nan_losses_are_said_so(qtbot, live, open_run):
    write_story(live, Plot(reached=60, nan_from=50, start=time.time() - 20))
    view = open_run(live, State.TRAINING)
    assert "not a number since step 50" in drawn(qtbot, view.charts.loss, bool)


def test_nothing_but_nan_is_not_a_blank_chart(live, open_run):
    write_story(live, Plot(reached=10, nan_from=1, start=time.time() - 20))
    assert open_run(live, State.TRAINING).charts.loss.empty_text() == "Every loss so far is not a number"


def test_a_fix_opens_the_same_options_changed(qtbot, live, page, open_run):
    write_story(live, Plot(reached=40, start=time.time() - 10))
    warn(live)
    view = open_run(live, State.TRAINING)
    button = next(found for found in view.messages.findChildren(QPushButton) if "batch size" in found.text())
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    tree = asked.args[0]
    assert tree["memory"]["batch_size"] == 8
    assert tree["model"]["source"] == OPTIONS.model.source
    assert live.options().memory.batch_size == 32


def test_duplicate_opens_the_same_options(qtbot, live, page, open_run):
    write_story(live, Plot(reached=1, start=time.time()))
    view = open_run(live, State.TRAINING)
    with qtbot.waitSignal(page.edit_requested, timeout=1000) as asked:
        view.header.buttons.entries[RunAction.DUPLICATE].trigger()
    assert asked.args[0]["memory"]["batch_size"] == 32


def test_a_withdrawn_message_goes_away(qtbot, live, open_run):
    write_story(live, Plot(reached=40, start=time.time() - 10))
    warn(live)
    view = open_run(live, State.TRAINING)
    assert view.messages.titles() == ["Memory is nearly used up"]
    other = MessageRaised(id="other", level=Level.INFO, title="Another")
    write_events(live.events_file, other, MessageWithdrawn(id="memory-low"))
    qtbot.waitUntil(lambda: view.messages.titles() == ["Another"], timeout=2000)


def test_stop_asks_the_run_and_end_now_waits_its_time(qtbot, live, open_run, monkeypatch):
    write_story(live, Plot(reached=40, start=time.time() - 10))
    view = open_run(live, State.TRAINING)
    view.header.buttons.stop.click()
    qtbot.waitUntil(lambda: view.state is State.STOPPING, timeout=2000)
    assert [request.action for request in live.open_requests()] == [Action.STOP]
    assert not view.header.buttons.stop.isEnabled()
    assert not view.header.buttons.end.isVisible()
    monkeypatch.setattr(run_header, "PATIENCE_SECONDS", 0.0)
    qtbot.waitUntil(view.header.buttons.end.isVisible, timeout=2000)
    view.header.buttons.end.click()
    qtbot.waitUntil(lambda: Action.KILL in [found.action for found in live.open_requests()], timeout=2000)


def test_one_cursor_through_all_charts_and_exact_values_under_it(qtbot, tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    charts = open_run(run, State.FINISHED).charts
    drawn(qtbot, charts.loss, lambda text: "eval" in text)
    canvas = charts.loss._canvas
    qtbot.waitUntil(lambda: canvas._view.viewRange()[0][1] > 360, timeout=2000)
    x = canvas.mapFromScene(canvas._view.mapViewToScene(QPointF(180, 1)))
    where = QPointF(x)
    move = QMouseEvent(
        QMouseEvent.Type.MouseMove, where, where, Qt.MouseButton.NoButton, Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    canvas.mouseMoveEvent(move)
    assert charts.loss.legend_text.endswith(("step 179", "step 180", "step 181"))
    assert charts.step_time.legend_text.split(" · ")[-1] == charts.loss.legend_text.split(" · ")[-1]
    assert charts.memory.legend_text.split(" · ")[-1] in ("46 s", "47 s", "48 s", "49 s", "50 s")
    canvas.leaveEvent(QEnterEvent(where, where, where))
    assert "step" not in charts.loss.legend_text


def test_dragging_zooms_all_charts_and_a_double_click_resets(qtbot, tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    charts = open_run(run, State.FINISHED).charts
    charts.loss._canvas.selected.emit(100.0, 200.0)
    for chart in (charts.loss, charts.metrics, charts.step_time):
        qtbot.waitUntil(
            lambda c=chart: c._canvas._view.viewRange()[0] == pytest.approx([100, 200], abs=1), timeout=2000
        )
    low, high = charts.memory._x_range(CLOCK_SCALE)
    assert 20 < low < high < 60
    charts.step_time._canvas.reset.emit()
    assert charts.loss._x_range(charts.loss.x_scale())[0] == 0.0


def test_charts_take_the_colours_in_force(qtbot, theme, tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    charts = open_run(run, State.FINISHED).charts
    theme.set_appearance(Appearance.DARK)
    assert charts.loss._canvas.backgroundBrush().color().name() == theme.tokens.surface
    theme.set_appearance(Appearance.LIGHT)


def test_every_chart_and_button_has_a_name(live, open_run):
    write_story(live, Plot(reached=5, start=time.time()))
    view = open_run(live, State.TRAINING)
    assert all(chart._canvas.accessibleName() for chart in view.charts.charts)
    assert all(button.text() for button in view.findChildren(QPushButton))


def test_a_run_started_from_the_page_ends_on_it(qtbot, tmp_path, theme):
    run = make_folder(tmp_path / "run")
    command = [sys.executable, "-P", str(KEEPER), "finish", str(run.path)]
    view = RunView(theme, run, begin=partial(start.start, run, command))
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: view.state is State.FINISHED, timeout=10_000)
    assert "Accuracy 75.0 %" in view.figures.text
    view.close_view()


def test_a_run_that_did_not_start_says_why(qtbot, tmp_path, theme):
    run = make_folder(tmp_path / "run")
    view = RunView(theme, run, begin=partial(start.start, run, [str(tmp_path / "no such program")]))
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: view.state is State.CRASHED, timeout=5000)
    assert view.messages.titles() == ["The run can't be started"]
    view.close_view()


def test_a_folder_with_damaged_options_is_still_shown(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    run.options_file.write_text("task = [")
    run.record_exit(ExitRecord(time=time.time(), code=3, reason="It ended."))
    view = open_run(run, State.CRASHED)
    assert view.header.name.text() == "run"
    view.header.buttons.entries[RunAction.DUPLICATE].trigger()
    assert "run.toml" in view.messages.titles()[0]


def test_a_finished_run_says_where_its_model_is_and_shows_it(tmp_path, open_run, monkeypatch):
    run = make_folder(tmp_path / "run")
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    finish(run, Plot(), write_story(run, Plot()))
    view = open_run(run, State.FINISHED)
    assert view.model.isVisible()
    assert view.model.path.text() == str(run.model)
    opened = []
    monkeypatch.setattr("gui.run.page.reveal", opened.append)
    view.model.button.click()
    view.header.buttons.entries[RunAction.REVEAL].trigger()
    assert opened == [run.model, run.path]


def test_a_run_without_a_model_names_none(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    assert not open_run(run, State.FINISHED).model.isVisible()


def test_a_folder_that_cant_be_shown_is_named(tmp_path, open_run, monkeypatch):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    view = open_run(run, State.FINISHED)
    monkeypatch.setattr("gui.run.page.reveal", lambda path: UserError("Not shown", f"It is {path}"))
    view.header.buttons.entries[RunAction.REVEAL].trigger()
    view.header.buttons.entries[RunAction.REVEAL].trigger()
    assert view.messages.titles() == ["Not shown"]
    assert f"It is {run.path}" in [label.text() for label in view.messages.findChildren(QLabel)]
    monkeypatch.setattr("gui.run.page.reveal", lambda path: None)
    view.header.buttons.entries[RunAction.REVEAL].trigger()
    assert view.messages.titles() == []


def test_a_crashed_run_tells_of_the_checkpoint_that_was_kept(live, open_run):
    plot = Plot(reached=100, start=time.time() - 30)
    crash(live, write_story(live, plot))
    view = open_run(live, State.CRASHED)
    words = "\n".join(label.text() for label in view.messages.findChildren(QLabel))
    assert "\nIts checkpoint of step 90 is complete." in words


def test_a_run_whose_folder_was_removed_says_so(qtbot, live, open_run):
    write_story(live, Plot(reached=20, start=time.time() - 10))
    view = open_run(live, State.TRAINING)
    shutil.rmtree(live.path)
    qtbot.waitUntil(lambda: view.state is State.CRASHED, timeout=5000)
    assert view.messages.titles() == ["This run's folder was removed"]


def test_lines_that_cant_be_read_are_told_of(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    finish(run, Plot(), write_story(run, Plot()))
    with run.events_file.open("a") as file:
        file.write("no event\nnor this\n")
    view = open_run(run, State.FINISHED)
    assert view.messages.titles() == ["2 lines of what happened can't be read"]


def test_a_run_of_a_newer_hone_says_so(tmp_path, open_run):
    run = make_folder(tmp_path / "run")
    write_events(
        run.events_file,
        RunStarted(time=100.0, pid=1, schema=SCHEMA + 1),
        RunFinished(time=103.0, state=Outcome.FINISHED, seconds=2.0),
    )
    assert open_run(run, State.FINISHED).messages.titles() == ["A newer Hone wrote this run"]


def test_closing_leaves_the_run_and_ends_the_thread(qtbot, live, page, open_run):
    write_story(live, Plot(reached=5, start=time.time()))
    view = open_run(live, State.TRAINING)
    view.close_view()
    assert view.job.isFinished()
    page.close_run()
    assert page.view is None
    assert live.open_requests() == []


def test_a_run_that_fails_at_once_has_no_figures_but_says_how_long_it_took(tmp_path, open_run):
    run = make_folder(tmp_path / "failed")
    write_events(
        run.events_file,
        RunStarted(time=100.0, pid=1),
        RunFinished(time=103.0, state=Outcome.FAILED, seconds=2.0),
    )
    run.record_exit(ExitRecord(time=103.0, code=1))
    view = open_run(run, State.FAILED)
    assert view.figures.text == ""
    assert view.header.state_line.text() == "Failed · after 3 s"
    assert {chart.empty_text() for chart in view.charts.charts} == {
        "No step was made",
        "Never evaluated",
        "Never measured",
    }


def test_the_page_paints_its_own_background(qapp, page, theme):
    theme.apply()
    try:
        assert page.grab().toImage().pixelColor(3, 3).name() == theme.tokens.background
    finally:
        qapp.setStyleSheet("")


def test_a_run_that_the_system_ended_for_lack_of_memory_offers_what_to_do(live, page, open_run, qtbot):
    write_story(live, Plot(reached=40, start=time.time() - 10))
    view = open_run(live, State.TRAINING)
    write_events(live.events_file, FORECAST)
    with qtbot.waitSignal(page.run_changed, timeout=2000):
        live.record_exit(ExitRecord(time=time.time(), code=-9, signal="SIGKILL", out_of_memory=True))
    assert view.messages.titles() == ["Memory ran out"]
    with qtbot.waitSignal(view.edit_requested, timeout=2000) as wished:
        view.messages.fix_chosen.emit(FORECAST.fixes[0])
    assert wished.args[0]["memory"]["batch_size"] == 8


def test_the_forecast_of_a_finished_run_stands_in_what_ran_and_only_the_peak_in_its_figures(
    tmp_path, open_run
):
    run = make_folder(tmp_path / "run")
    clock = write_story(run, Plot())
    write_events(run.events_file, FORECAST)
    finish(run, Plot(), clock)
    view = open_run(run, State.FINISHED)
    assert view.figures.text.endswith("Peak memory 2.60 GB")
    assert dict(view.details.what_ran.rows())["Forecast"] == "2.50 GB"
