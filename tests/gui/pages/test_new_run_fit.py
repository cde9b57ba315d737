"""The card "Will it fit?" on the real page: forecast, trace, measurement, ladder, time box."""

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.memory.model import Room, Verdict
from core.runs import queue
from core.runs.events import TurnAwaited
from gui.base.trash import Question
from gui.new_run.memory_dialogs import ExplainedSheet, Start
from tests.fakes.asking import CPU_ONLY, MODEL, TRACED
from tests.fakes.memory import GB, MB, MEASURED, RAN_OUT, hurry, let_trace

TEXTS = "text-classification"


def settle(qtbot, page):
    questions = page._questions
    qtbot.waitUntil(lambda: not (questions.data.is_waiting or questions.model.is_waiting))


def card(page):
    return page._outcome.fit


def basis(page):
    return card(page)._basis.text()


def parts(page):
    return {part.name: part.bytes for part in card(page)._bar.parts}


def measure_words(page):
    return card(page)._measure.words


def ladder(page):
    return {row.button.accessibleName(): row for row in card(page)._ladder.rows}


@pytest.fixture
def texts(qtbot, page, model, pairs):
    """The page with a text model and data, all of it looked at; nothing traced yet."""
    hurry(page)
    page.set_machine(CPU_ONLY)
    tree = {"task": TEXTS, "model": {"source": str(model)}, "data": {"train": str(pairs), "max_length": 128}}
    page.load_tree(tree)
    settle(qtbot, page)
    return page


def await_trace(qtbot, page):
    let_trace(page)
    qtbot.waitUntil(lambda: page._fit.refined.report is not None and not page._fit.refined.is_waiting)


def test_the_forecast_appears_as_soon_as_the_model_is_known(texts):
    assert card(texts).headline.startswith("Fits · ")
    assert card(texts).headline.endswith("of 8.00 GB free")
    assert basis(texts) == "forecast"
    assert set(parts(texts)) >= {"weights", "optimizer", "activations", "overhead"}
    bar = card(texts)._bar
    assert "weights 418 MB" in bar.accessibleDescription()
    assert "8.00 GB free now" in bar.accessibleDescription()
    assert "16.0 GB in all" in bar.accessibleDescription()


def test_it_moves_at_once_and_asks_no_engine_meanwhile(texts, engine, memory):
    before, asked, forecasts = parts(texts), len(engine.requests), memory.forecasts
    texts._options.form.set_values({"memory.batch_size": 64})
    after = parts(texts)  # no event loop has turned: all of it happened in the change itself
    assert after["activations"] > 3 * before["activations"]
    assert after["weights"] == before["weights"]
    assert len(engine.requests) == asked
    assert memory.forecasts == forecasts + 1


def test_a_batch_larger_than_the_data_takes_what_the_data_takes(texts):
    texts._options.form.set_values({"memory.batch_size": 10_000})
    more = parts(texts)
    texts._options.form.set_values({"memory.batch_size": 65_536})
    assert parts(texts) == more


def test_the_shape_stays_known_while_only_other_options_change(qtbot, texts, engine):
    engine.gate.clear()
    before = parts(texts)
    texts._options.form.set_values({"model.method": "lora"})
    assert texts._questions.model.is_waiting
    assert parts(texts)["optimizer"] < before["optimizer"] / 10
    engine.gate.set()
    settle(qtbot, texts)


def test_a_trace_takes_the_formula_s_place_until_something_that_matters_changes(qtbot, texts, engine):
    await_trace(qtbot, texts)
    assert parts(texts)["overhead"] == 300 * MB  # buffers with it
    (asked,) = engine.traced()
    assert (asked.labels, asked.asked["memory"]["batch_size"]) == (2, 16)
    texts._options.form.set_values({"training.learning_rate": 1e-4, "training.epochs": 9.0})
    assert basis(texts) == "forecast"
    texts._options.form.set_values({"memory.batch_size": 8})
    assert basis(texts) == "forecast"
    await_trace(qtbot, texts)
    assert [request.asked["memory"]["batch_size"] for request in engine.traced()] == [16, 8]


def test_the_formula_learns_from_a_trace_how_long_the_texts_are(qtbot, texts):
    before = parts(texts)["activations"]
    await_trace(qtbot, texts)
    texts._options.form.set_values({"memory.batch_size": 17})
    assert basis(texts) == "forecast"
    assert parts(texts)["activations"] < 0.7 * before  # 64 tokens where 128 were allowed


def test_the_ladder_learns_from_a_trace_that_padding_is_wasted(qtbot, texts, engine, memory):
    wasted = {"Apply: Rows of 64 tokens", "Apply: Pad to the batch's longest"}
    engine.answers["forecast"] = msgspec.structs.replace(TRACED, length=128, longest_text=61)
    memory.room.room = Room(free=GB, ceiling=2 * GB)
    texts._options.form.set_values({"data.padding": "fixed"})
    texts._fit.read_room()
    padded = parts(texts)["activations"]
    assert not wasted & set(ladder(texts))
    await_trace(qtbot, texts)
    assert wasted < set(ladder(texts))
    card(texts).remedy_chosen.emit(next(r for r in texts._fit.remedies() if r.name == "length"))
    assert basis(texts) == "forecast"
    assert parts(texts)["activations"] < 0.7 * padded
    assert "Apply: Rows of 64 tokens" not in ladder(texts)


def test_a_trace_waits_until_nothing_is_wrong(qtbot, texts, engine):
    texts._options.form.set_values({"device.precision": "fp16"})
    assert not texts._fit.refined.is_waiting
    texts._options.form.set_values({"device.precision": "auto"})
    await_trace(qtbot, texts)
    assert {request.asked["device"]["precision"] for request in engine.traced()} == {"auto"}


@pytest.mark.parametrize(
    "failure", [EngineCrashed("forecast", -11, "Segmentation fault"), UserError("No answer")]
)
def test_a_trace_that_fails_leaves_the_formula(qtbot, texts, engine, failure):
    engine.answers["forecast"] = failure
    with qtbot.waitSignal(texts._fit.refined.changed):
        let_trace(texts)
    assert basis(texts) == "forecast"
    assert card(texts).headline.startswith("Fits")
    assert card(texts)._note.isVisible()


def test_what_is_missing_is_said_calmly(qtbot, page, model):
    assert card(page)._missing.text() == "Looking at this computer…"
    page.set_machine(CPU_ONLY)
    page.load_tree({"task": TEXTS, "model": {"source": ""}})
    assert "Choose a model" in card(page)._missing.text()
    page.load_tree({"task": TEXTS, "model": {"source": "no/such/folder"}})
    assert "once the model is on this computer" in card(page)._missing.text()
    assert not card(page)._bar.isVisible()
    assert not card(page)._measure.button.isVisible()
    page.load_tree({"task": TEXTS, "model": {"source": str(model)}})
    assert card(page)._missing.text() == "Looking at the model…"
    page.load_tree({"task": TEXTS, "model": {"source": str(model)}, "memory": {"batch_size": 0}})
    assert "can be read" in card(page)._missing.text()


def test_measuring_says_what_it_does_and_then_what_it_found(qtbot, texts, memory):
    memory.dry_runs.gate.clear()
    button = card(texts)._measure.button
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert button.text() == "Cancel"
    assert measure_words(texts).startswith("Training a few steps on your longest texts…")
    memory.dry_runs.gate.set()
    qtbot.waitUntil(lambda: basis(texts) == "measured just now")
    (asked,) = memory.dry_runs.asked
    assert asked.device.name == "cpu"
    assert parts(texts)["weights"] == MEASURED.parts.weights
    assert measure_words(texts).startswith("500 ms a step · about ")
    assert "done at" in measure_words(texts)
    assert not texts._fit.refined.is_waiting  # nothing better is to be had


def test_a_measurement_is_kept_while_only_other_options_change(qtbot, texts):
    card(texts)._measure.button.click()
    qtbot.waitUntil(lambda: basis(texts) == "measured just now")
    before = measure_words(texts)
    texts._options.form.set_values({"training.epochs": 300.0})
    assert basis(texts) == "measured just now"
    assert measure_words(texts) != before  # a hundred times as long
    texts._options.form.set_values({"memory.batch_size": 8})
    assert basis(texts) == "forecast"
    texts._options.form.set_values({"memory.batch_size": 16})
    assert basis(texts) == "measured just now"


def test_measuring_can_be_given_up_and_a_change_gives_it_up(qtbot, texts, memory):
    memory.dry_runs.gate.clear()
    button = card(texts)._measure.button
    button.click()
    qtbot.waitUntil(lambda: bool(memory.dry_runs.asked))
    button.click()
    assert button.text() == "Measure"
    qtbot.waitUntil(lambda: memory.dry_runs.killed == 1)
    button.click()
    qtbot.waitUntil(lambda: len(memory.dry_runs.asked) == 2)
    texts._options.form.set_values({"training.seed": 3})
    assert button.text() == "Cancel"
    texts._options.form.set_values({"memory.batch_size": 8})
    assert button.text() == "Measure"
    assert memory.dry_runs.killed == 2


def test_a_dry_run_that_fails_says_why(qtbot, texts, memory):
    memory.dry_runs.answer = UserError("The data can't be read", "reviews.csv is gone.")
    with qtbot.waitSignal(texts._fit.measuring.failed):
        card(texts)._measure.button.click()
    assert card(texts)._note.text() == "The data can't be read. reviews.csv is gone."
    assert basis(texts) == "forecast"


def test_a_form_with_a_problem_is_not_measured(texts):
    texts._options.form.set_values({"device.precision": "fp16"})
    assert not card(texts)._measure.button.isEnabled()


def test_memory_that_ran_out_is_an_answer_with_the_ladder(qtbot, texts, memory):
    memory.dry_runs.answer = RAN_OUT
    assert not card(texts)._ladder.is_open
    card(texts)._measure.button.click()
    qtbot.waitUntil(lambda: basis(texts) == "measured just now")
    assert card(texts).headline == "Doesn't fit · memory ran out at 3.00 GB"
    assert card(texts)._note.text() == RAN_OUT.out_of_memory
    assert card(texts)._ladder.is_open
    assert "Apply: Compute activations again" in ladder(texts)
    assert list(parts(texts)) == ["held in all"]
    assert texts._outcome.start_text == "Start training"  # the person may try all the same
    assert texts.known_memory is None  # that moment's figures are not what the run takes


@pytest.mark.parametrize(
    ("free", "verdict", "is_open"),
    [(0.9, "Doesn't fit", True), (1.05, "Fits tightly", True), (2.0, "Fits", False)],
)
def test_the_ladder_unfolds_by_itself_where_memory_is_short(texts, memory, free, verdict, is_open):
    total = sum(parts(texts).values())
    memory.room.room = Room(free=round(free * total), ceiling=16 * GB)
    texts._fit.read_room()
    assert card(texts).headline.startswith(f"{verdict} · ")
    assert card(texts)._ladder.is_open == is_open


def test_a_remedy_says_what_it_is_worth_is_applied_and_undone(texts, memory):
    memory.room.room = Room(free=2 * GB, ceiling=16 * GB)
    texts._fit.read_room()
    before = texts.tree()
    row = ladder(texts)["Apply: Compute activations again"]
    assert row.worth.text().startswith("−")
    assert "slower" in row.worth.text()
    assert row.button.toolTip()
    row.button.click()
    assert texts.tree()["memory"]["activation_checkpointing"] is True
    assert [change.name for change in texts._changes.changes] == ["Activation checkpointing"]
    assert "Apply: Compute activations again" not in ladder(texts)
    texts._changes._undo.click()
    assert texts.tree() == before


def test_advice_has_no_button(texts, memory):
    card(texts)._ladder.open(True)
    (advice,) = [row for row in card(texts)._ladder.rows if "smaller model" in row.button.accessibleName()]
    assert advice.button.isHidden()


def test_rows_keep_their_buttons_while_only_figures_change(texts, memory):
    card(texts)._ladder.open(True)
    before = card(texts)._ladder.rows
    texts._options.form.set_values({"training.learning_rate": 1e-4})
    memory.room.room = Room(free=7 * GB, ceiling=16 * GB)
    texts._fit.read_room()
    assert card(texts)._ladder.rows == before  # or the button under the pointer would go away


def test_free_memory_is_read_anew_but_does_not_flicker(texts, memory):
    memory.room.room = Room(free=8 * GB - 10 * MB, ceiling=16 * GB)
    texts._fit.read_room()
    assert card(texts).headline.endswith("of 8.00 GB free")
    memory.room.room = Room(free=5 * GB, ceiling=16 * GB)
    texts._fit.read_room()
    assert card(texts).headline.endswith("of 5.00 GB free")


def test_free_memory_is_not_read_while_a_dry_run_takes_it_nor_while_nobody_looks(qtbot, texts, memory):
    assert card(texts)._timer.isActive()
    memory.dry_runs.gate.clear()
    card(texts)._measure.button.click()
    before = memory.room.readings
    texts._fit.read_room()
    assert memory.room.readings == before
    memory.dry_runs.gate.set()
    qtbot.waitUntil(lambda: not texts._fit.measuring.is_running)
    texts.hide()
    assert not card(texts)._timer.isActive()


def test_a_room_nobody_knows_leaves_the_figure(texts, memory):
    memory.room.room = None
    texts._fit.read_room()
    assert card(texts).headline.startswith("Takes ")
    assert card(texts)._bar.limits == ()


def test_a_time_box_sets_the_steps_by_what_was_measured_and_can_be_undone(qtbot, texts):
    box = card(texts)._time_box
    assert not box.isVisible()
    card(texts)._measure.button.click()
    qtbot.waitUntil(box.isVisible)
    before = texts.tree()
    box.hours.setValue(2.0)
    box.button.click()
    assert texts.tree()["training"]["max_steps"] == 14_400  # at half a second each
    assert "about 2 h" in measure_words(texts)
    texts._changes._undo.click()
    assert texts.tree() == before


def test_a_time_box_sets_no_more_steps_than_are_worth_their_time(qtbot, texts, memory):
    memory.dry_runs.answer = msgspec.structs.replace(MEASURED, train_samples=1600)
    card(texts)._measure.button.click()
    box = card(texts)._time_box
    qtbot.waitUntil(box.isVisible)
    tree = texts.tree()["memory"]
    per_epoch = 1600 // (tree["batch_size"] * tree["gradient_accumulation_steps"])
    box.hours.setValue(3.0)
    box.button.click()
    assert texts.tree()["training"]["max_steps"] == 20 * per_epoch
    assert "21,600 would fit into 3 h" in texts._changes._words.text()
    box.hours.setValue(0.1)
    box.button.click()
    assert texts.tree()["training"]["max_steps"] == 720, "fewer fit"


def test_every_part_is_explained(qtbot, texts):
    await_trace(qtbot, texts)
    card(texts)._explain.click()
    (sheet,) = card(texts).findChildren(ExplainedSheet)
    assert sheet.rows.headings() == ["Parts"]
    shown = dict(sheet.rows.rows())
    assert shown["Weights"].startswith("400 MB. ")
    assert "Source: " in sheet.rows.notes()["Optimizer state"]
    sheet.reject()


def test_what_was_ended_from_outside_is_explained_as_the_whole_that_it_is(qtbot, texts, memory):
    memory.dry_runs.answer = RAN_OUT
    card(texts)._measure.button.click()
    qtbot.waitUntil(lambda: basis(texts) == "measured just now")
    card(texts)._explain.click()
    (sheet,) = card(texts).findChildren(ExplainedSheet)
    ((title, words),) = sheet.rows.rows()
    assert (title, words[:8]) == ("Held in all", "3.00 GB.")
    sheet.reject()


def test_a_start_gives_up_what_runs_beside_the_window(qtbot, texts, memory):
    memory.dry_runs.gate.clear()
    card(texts)._measure.button.click()
    qtbot.waitUntil(lambda: bool(memory.dry_runs.asked))
    with qtbot.waitSignal(texts.start_requested):
        texts.start()
    assert memory.dry_runs.killed == 1
    assert not texts._fit.measuring.is_running


class Asked:
    """Stands in for a person who gives `answer` to every question; keeps what each offered."""

    def __init__(self, monkeypatch):
        self.answer = Start.NEVER
        self.offered = []
        monkeypatch.setattr(Question, "ask", lambda question, _otherwise: self._take(question))

    def _take(self, question):
        says = question.says()
        self.offered.append(list(says.values()))
        assert says.get(question.defaultButton().text()) is not Start.ANYWAY  # Return takes no risk
        return self.answer


@pytest.fixture
def asked(monkeypatch):
    return Asked(monkeypatch)


def test_what_does_not_fit_is_started_only_once_that_was_asked(qtbot, texts, memory, asked):
    with qtbot.waitSignal(texts.start_requested):
        texts.start()
    assert asked.offered == []  # it fits
    memory.room.room = Room(free=3 * GB, ceiling=16 * GB)
    with qtbot.assertNotEmitted(texts.start_requested):
        texts._outcome._start.click()
    asked.answer = Start.ANYWAY
    with qtbot.waitSignal(texts.start_requested):
        texts._outcome._start.click()
    texts._options.form.set_values({"training.learning_rate": 1e-4})  # it takes as much
    settle(qtbot, texts)
    with qtbot.waitSignal(texts.start_requested):
        texts.start()
    assert asked.offered == 2 * [[Start.WITH_REMEDY, Start.ANYWAY]]
    texts._options.form.set_values({"memory.batch_size": 64})
    settle(qtbot, texts)
    asked.answer = Start.WITH_REMEDY
    with qtbot.assertNotEmitted(texts.start_requested):
        texts.start()
    assert len(asked.offered) == 3
    assert texts._changes.changes
    assert texts._fit.verdict is not Verdict.TOO_LARGE


def test_where_no_remedy_is_enough_hone_looks_for_several(qtbot, texts, memory, asked, model):
    memory.room.room = Room(free=2 * GB, ceiling=16 * GB)
    asked.answer = Start.WITH_REMEDY
    with qtbot.assertNotEmitted(texts.start_requested):
        texts.start()
    assert texts._fit_actions.sheet is not None
    texts._fit_actions.close()
    (model / "model.safetensors").unlink()  # nothing to make dry runs with
    texts.load_tree(texts.tree())
    settle(qtbot, texts)
    asked.answer = Start.NEVER
    with qtbot.assertNotEmitted(texts.start_requested):
        texts.start()
    assert asked.offered[0] == [Start.WITH_REMEDY, Start.ANYWAY]


def test_what_has_to_wait_is_held_against_all_the_memory_there_is(qtbot, texts, memory, asked, monkeypatch):
    monkeypatch.setattr(queue, "ahead_of", lambda _device: TurnAwaited(behind="Other", ahead=1))
    memory.room.room = Room(free=GB, ceiling=16 * GB)
    with qtbot.waitSignal(texts.start_requested):
        texts.start()
    memory.room.room = Room(free=GB, ceiling=2 * GB)
    with qtbot.assertNotEmitted(texts.start_requested):
        texts.start()
    assert len(asked.offered) == 1


def test_a_start_that_failed_lets_the_card_go_on(texts, memory):
    texts.start()
    readings = memory.room.readings
    texts._fit.read_room()
    assert memory.room.readings == readings  # the run is to have the memory
    texts.show_error(UserError("The run can't be started"))
    assert memory.room.readings == readings + 1
    assert texts._fit.refined.is_waiting


def test_what_is_known_goes_along_with_the_run(qtbot, texts):
    assert texts.known_memory is None  # the run makes a better forecast by formula itself
    card(texts)._measure.button.click()
    qtbot.waitUntil(lambda: basis(texts) == "measured just now")
    assert texts.known_memory.parts == MEASURED.parts


def test_past_runs_correct_a_trace_too(qtbot, texts):
    texts._fit.correction = 1.25
    await_trace(qtbot, texts)
    assert parts(texts)["weights"] == 500 * MB


def test_a_model_without_a_shape_says_that_it_can_t_be_told(qtbot, page, engine, model, pairs):
    engine.answers["check-model"] = msgspec.structs.replace(MODEL, shape=None)
    page.set_machine(CPU_ONLY)
    page.load_tree({"task": TEXTS, "model": {"source": str(model)}, "data": {"train": str(pairs)}})
    settle(qtbot, page)
    assert card(page)._missing.text() == "What this model takes can't be told before it runs."
