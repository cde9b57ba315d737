"""The card "Will it fit?" on the real page: forecast, look-up, measurement, remedies, time box, and its dialogs."""

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.memory.model import Basis, Forecast, ModelReport, Parts, Room, Verdict
from core.memory.remedies import Remedy
from core.runs import queue
from core.runs.events import TurnAwaited
from core.services.hub import ConfigFetched, ConfigRequest
from gui.base.trash import Question
from gui.new_run.memory_card import (
    bar_parts,
    headline,
    saving_text,
    time_text,
)
from gui.new_run.memory_dialogs import ExplainedSheet, Start
from gui.new_run.memory_state import Measured, known_length
from tests.fakes.jobs import CPU_ONLY, TRACED
from tests.fakes.memory import GB, MB, MEASURED, RAN_OUT, hurry, let_trace
from tests.fakes.model_shapes import MODEL
from tests.fakes.model_shapes import asked as asked_of_bert
from tests.gui.new_run.steps import load, press, put, rows, settle, start_text

CHECKPOINTING = "Apply: Activation checkpointing"


def card(page):
    return page._outcome.fit


def basis(page):
    return card(page)._basis.text()


def parts(page):
    return {part.name: part.bytes for part in card(page)._bar.parts}


def total(page):
    return sum(parts(page).values())


def measuring(page):
    return card(page)._measure


def ladder(page):
    return {row.button.accessibleName(): row for row in card(page).ladder.rows}


def free(page, memory, size, ceiling=16 * GB):
    memory.room.room = Room(free=round(size), ceiling=ceiling)
    page._fit.read_room()


def measure(qtbot, page):
    measuring(page).button.click()
    qtbot.waitUntil(lambda: basis(page) == "measured just now")


@pytest.fixture
def texts(qtbot, page, model, pairs):
    """The page with a text model and data, all of it looked at; the engine has told no longest row yet."""
    hurry(page)
    page.set_machine(CPU_ONLY)
    load(page, source=model, data=pairs, of_data={"max_length": 128})
    settle(qtbot, page)
    return page


def await_refined(qtbot, page):
    let_trace(page)
    refined = page._fit.refined
    qtbot.waitUntil(lambda: refined.report is not None and not refined.is_waiting)


class TestForecast:
    def test_it_appears_as_soon_as_the_model_is_known(self, texts):
        assert card(texts).headline.startswith("Fits · ")
        assert basis(texts) == "forecast"
        assert set(parts(texts)) >= {"weights", "optimizer", "activations", "overhead"}
        said = card(texts)._bar.accessibleDescription()
        assert all(words in said for words in ("weights 418 MB", "free now 8.00 GB", "in total 16.0 GB"))

    def test_it_moves_at_once_and_asks_no_engine_meanwhile(self, texts, engine, memory):
        before, asked, forecasts = parts(texts), len(engine.requests), memory.forecasts
        put(texts, memory__batch_size=64)
        after = parts(texts)  # no event loop has turned: all of it happened in the change itself
        assert after["activations"] > 3 * before["activations"]
        assert after["weights"] == before["weights"]
        assert (len(engine.requests), memory.forecasts) == (asked, forecasts + 1)
        put(texts, memory__batch_size=10_000)
        more = parts(texts)
        put(texts, memory__batch_size=65_536)
        assert parts(texts) == more  # no batch is larger than the data

    def test_the_shape_stays_known_while_only_other_options_change(self, qtbot, texts, engine):
        engine.gate.clear()
        before = parts(texts)
        put(texts, model__method="lora")
        assert texts._questions.model.is_waiting
        assert parts(texts)["optimizer"] < before["optimizer"] / 10
        engine.gate.set()
        settle(qtbot, texts)

    def test_the_engine_s_takes_its_place_until_something_that_matters_changes(self, qtbot, texts, engine):
        await_refined(qtbot, texts)
        assert parts(texts)["overhead"] == 300 * MB  # buffers with it
        (asked,) = engine.traced()
        assert (asked.labels, asked.asked["memory"]["batch_size"]) == (2, 16)
        put(texts, training__learning_rate=1e-4, training__epochs=9.0)
        assert parts(texts)["overhead"] == 300 * MB
        put(texts, memory__batch_size=8)
        assert parts(texts)["overhead"] != 300 * MB
        await_refined(qtbot, texts)
        assert [request.asked["memory"]["batch_size"] for request in engine.traced()] == [16, 8]

    def test_the_remedies_learn_that_padding_is_wasted(self, qtbot, texts, engine, memory):
        wasted = {"Apply: Rows of 64 tokens", "Apply: Pad to the batch's longest"}
        engine.answers["forecast"] = msgspec.structs.replace(TRACED, length=128, longest_text=61)
        put(texts, data__padding="fixed")
        free(texts, memory, GB, 2 * GB)
        padded = parts(texts)["activations"]
        assert not wasted & set(ladder(texts))
        await_refined(qtbot, texts)
        assert wasted < set(ladder(texts))
        card(texts).ladder.remedy_chosen.emit(
            next(one for one in texts._fit.remedies() if one.name == "length")
        )
        assert parts(texts)["activations"] < 0.7 * padded
        assert "Apply: Rows of 64 tokens" not in ladder(texts)

    def test_the_engine_is_asked_once_nothing_is_wrong(self, qtbot, texts, engine):
        put(texts, device__precision="fp16")
        assert not texts._fit.refined.is_waiting
        assert not measuring(texts).button.isEnabled()
        put(texts, device__precision="auto")
        await_refined(qtbot, texts)
        assert {request.asked["device"]["precision"] for request in engine.traced()} == {"auto"}

    @pytest.mark.parametrize("failure", [EngineCrashed("forecast", -11, "Fault"), UserError("No answer")])
    def test_an_engine_that_fails_leaves_the_formula(self, qtbot, texts, engine, failure):
        engine.answers["forecast"] = failure
        with qtbot.waitSignal(texts._fit.refined.changed):
            let_trace(texts)
        assert card(texts).headline.startswith("Fits")
        assert card(texts)._note.isVisible()

    def test_what_is_missing_is_said_calmly(self, qtbot, page, engine, model, pairs):
        missing = card(page)._missing
        assert missing.text() == "Checking this computer…"
        page.set_machine(CPU_ONLY)
        load(page, source="")
        assert "Choose a model" in missing.text()
        load(page, source="no/such/folder")
        assert "needs the model on this computer" in missing.text()
        assert not card(page)._bar.isVisible()
        assert not measuring(page).button.isVisible()
        load(page, source=model)
        assert missing.text() == "Checking the model…"
        load(page, source=model, memory={"batch_size": 0})
        assert "can be read" in missing.text()
        engine.answers["check-model"] = msgspec.structs.replace(MODEL, shape=None)
        load(page, source=model, data=pairs)
        settle(qtbot, page)
        assert missing.text() == "The memory of this model isn't known before it runs."

    def test_past_runs_correct_it(self, qtbot, texts):
        texts._fit.correction = 1.25
        await_refined(qtbot, texts)
        assert parts(texts)["weights"] == 500 * MB

    @pytest.mark.parametrize(
        ("tokens", "now", "known"),
        [
            (61, {}, 61),
            (61, {"padding": "fixed"}, 61),
            (61, {"max_length": 64}, 61),
            (61, {"max_length": 32}, 32),
            (61, {"max_length": 512}, 61),
            (128, {"max_length": 512}, None),  # it was cut off
            (128, {"max_length": 64}, 64),
            (61, {"train": "others.csv"}, None),
        ],
    )
    def test_the_longest_row_stays_known_where_the_same_texts_are_cut_no_later(self, tokens, now, known):
        found = {"max_length": 128, "train": "texts.csv"}
        before, after = asked_of_bert(data=found), asked_of_bert(data={**found, **now})
        assert known_length(after, before, tokens) == known


class TestRoom:
    def test_free_memory_is_read_anew_but_does_not_flicker(self, texts, memory):
        free(texts, memory, 8 * GB - 10 * MB)
        assert card(texts).headline.endswith("of 8.00 GB free")
        free(texts, memory, 5 * GB)
        assert card(texts).headline.endswith("of 5.00 GB free")
        memory.room.room = None
        texts._fit.read_room()
        assert card(texts).headline.startswith("Takes ")
        assert card(texts)._bar.limits == ()

    def test_it_is_not_read_while_a_dry_run_takes_it_nor_while_the_card_is_hidden(self, qtbot, texts, memory):
        assert card(texts)._timer.isActive()
        memory.dry_runs.gate.clear()
        measuring(texts).button.click()
        before = memory.room.readings
        texts._fit.read_room()
        assert memory.room.readings == before
        memory.dry_runs.gate.set()
        qtbot.waitUntil(lambda: not texts._fit.measuring.is_running)
        texts.hide()
        assert not card(texts)._timer.isActive()


class TestLookup:
    @pytest.fixture
    def cache(self, tmp_path, monkeypatch, engine):
        """An empty cache of the Hub, into which the engine fetches what is asked for."""
        snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"
        refs = snapshot.parents[1] / "refs"
        refs.mkdir(parents=True)
        (refs / "main").write_text("abc")

        def fetch(_request):
            snapshot.mkdir(parents=True)
            (snapshot / "config.json").touch()
            return ConfigFetched(path=str(snapshot / "config.json"))

        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE")
        engine.answers["fetch-config"] = fetch
        return snapshot

    @pytest.fixture
    def elsewhere(self, qtbot, page, cache, pairs):
        """The page with a model that is not on this computer."""
        hurry(page)
        page.set_machine(CPU_ONLY)
        load(page, source="org/tiny", data=pairs)
        settle(qtbot, page)
        return page

    def line(self, page):
        return card(page)._lookup

    def fetches(self, engine):
        asked = [body for job, body in engine.requests if job == "fetch-config"]
        return [msgspec.json.decode(body, type=ConfigRequest).source for body in asked]

    def test_a_press_fetches_it_and_the_forecast_appears(self, qtbot, elsewhere, engine):
        line = self.line(elsewhere)
        assert "isn't on this computer yet" in card(elsewhere)._missing.text()
        assert all(word in line.label.text() for word in ("config.json", "huggingface.co"))
        assert self.fetches(engine) == []
        engine.gate.clear()
        qtbot.mouseClick(line.button, Qt.MouseButton.LeftButton)
        assert line.label.text() == "Downloading config.json from huggingface.co…"
        assert line.button.text() == "Cancel"
        engine.gate.set()
        qtbot.waitUntil(lambda: card(elsewhere).headline.startswith("Fits · "))
        assert self.fetches(engine) == ["org/tiny"]
        assert not line.isVisible()

    def test_the_weights_are_still_to_come(self, qtbot, elsewhere, cache):
        self.line(elsewhere).button.click()
        qtbot.waitUntil(lambda: bool(card(elsewhere).headline))
        assert rows(elsewhere)["Downloads"] == "the model, once, from the Hugging Face Hub"
        assert start_text(elsewhere) == "Start training"
        assert not measuring(elsewhere).button.isEnabled()
        assert "once the weights are here" in measuring(elsewhere).label.text()
        (cache / "model.safetensors").touch()
        put(elsewhere, memory__batch_size=8)
        assert measuring(elsewhere).button.isEnabled()

    def test_a_mirror_is_named_and_a_ban_is_kept(self, elsewhere, monkeypatch, pairs):
        monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org/models")
        load(elsewhere, source="org/other", data=pairs)
        assert "from hub.example.org" in self.line(elsewhere).label.text()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        load(elsewhere, source="org/another", data=pairs)
        assert not self.line(elsewhere).isVisible()
        assert "HF_HUB_OFFLINE" in card(elsewhere)._missing.text()

    def test_a_failure_is_said_and_it_can_be_tried_again(self, qtbot, elsewhere, engine):
        fetch = engine.answers["fetch-config"]
        engine.answers["fetch-config"] = UserError("The Hub can't be reached", "Is this computer online?")
        self.line(elsewhere).button.click()
        qtbot.waitUntil(lambda: not elsewhere._fit.lookup.is_running)
        assert self.line(elsewhere).label.text() == "The Hub can't be reached. Is this computer online?"
        engine.answers["fetch-config"] = fetch
        self.line(elsewhere).button.click()
        qtbot.waitUntil(lambda: bool(card(elsewhere).headline))

    def test_it_can_be_given_up_and_another_model_gives_it_up(self, qtbot, elsewhere, engine, pairs):
        button = self.line(elsewhere).button
        engine.gate.clear()
        button.click()
        qtbot.waitUntil(lambda: len(self.fetches(engine)) == 1)
        button.click()
        assert button.text() == "Look up its size"
        button.click()
        assert elsewhere._fit.lookup.is_running
        load(elsewhere, source="org/other", data=pairs)
        assert not elsewhere._fit.lookup.is_running
        assert button.text() == "Look up its size"
        engine.gate.set()

    def test_an_older_version_in_the_cache_can_be_looked_up_too(self, qtbot, page, cache, engine, pairs):
        """Its config is there, but not that of the newest version; the engine then knows nothing."""
        answers = iter((ModelReport(), MODEL))
        engine.answers["check-model"] = lambda _request: next(answers)
        engine.answers["fetch-config"] = ConfigFetched(path="")
        cache.mkdir(parents=True)
        (cache / "config.json").touch()
        page.set_machine(CPU_ONLY)
        load(page, source="org/tiny", data=pairs)
        settle(qtbot, page)
        self.line(page).button.click()
        qtbot.waitUntil(lambda: bool(card(page).headline))


class TestMeasuring:
    def test_it_says_what_it_does_and_then_what_it_found(self, qtbot, texts, memory):
        assert texts.known_memory is None  # the run makes the forecast itself
        memory.dry_runs.gate.clear()
        qtbot.mouseClick(measuring(texts).button, Qt.MouseButton.LeftButton)
        assert measuring(texts).button.text() == "Cancel"
        assert measuring(texts).label.text().startswith("Training a few steps on the longest examples…")
        memory.dry_runs.gate.set()
        qtbot.waitUntil(lambda: basis(texts) == "measured just now")
        (asked,) = memory.dry_runs.asked
        assert asked.device.name == "cpu"
        assert parts(texts)["weights"] == MEASURED.parts.weights
        assert measuring(texts).label.text().startswith("500 ms a step · about ")
        assert not texts._fit.refined.is_waiting  # nothing better is to be had
        assert texts.known_memory.parts == MEASURED.parts

    def test_it_is_kept_while_only_other_options_change(self, qtbot, texts):
        measure(qtbot, texts)
        before = measuring(texts).label.text()
        put(texts, training__epochs=300.0)
        assert basis(texts) == "measured just now"
        assert measuring(texts).label.text() != before  # a hundred times as long
        put(texts, memory__batch_size=8)
        assert basis(texts) == "forecast"
        put(texts, memory__batch_size=16)
        assert basis(texts) == "measured just now"

    def test_it_can_be_given_up_and_a_change_or_a_start_gives_it_up(self, qtbot, texts, memory):
        memory.dry_runs.gate.clear()
        button = measuring(texts).button
        button.click()
        button.click()
        assert button.text() == "Measure"
        qtbot.waitUntil(lambda: memory.dry_runs.killed == 1)
        button.click()
        put(texts, training__seed=3)
        assert button.text() == "Cancel"
        put(texts, memory__batch_size=8)
        assert button.text() == "Measure"
        assert memory.dry_runs.killed == 2
        settle(qtbot, texts)
        button.click()
        assert button.text() == "Cancel"
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        assert memory.dry_runs.killed == 3
        assert not texts._fit.measuring.is_running

    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            (UserError("The data can't be read", "It is gone."), "The data can't be read. It is gone."),
            (OSError(2, "No such file"), "Hone's engine can't be started."),
        ],
    )
    def test_a_dry_run_that_fails_says_why(self, qtbot, texts, memory, failure, words):
        memory.dry_runs.answer = failure
        with qtbot.waitSignal(texts._fit.measuring.failed):
            measuring(texts).button.click()
        assert card(texts)._note.text().startswith(words)
        assert basis(texts) == "forecast"

    def test_memory_that_ran_out_is_an_answer_with_remedies(self, qtbot, texts, memory):
        memory.dry_runs.answer = RAN_OUT
        assert not card(texts).ladder.is_open
        measure(qtbot, texts)
        assert card(texts).headline == "Doesn't fit · memory ran out at 3.00 GB"
        assert card(texts)._note.text() == RAN_OUT.out_of_memory
        assert card(texts).ladder.is_open
        assert CHECKPOINTING in ladder(texts)
        assert list(parts(texts)) == ["in total"]
        assert start_text(texts) == "Start training"  # the person may try all the same
        assert texts.known_memory is None  # that moment's figures are not what the run takes

    def test_a_time_box_sets_no_more_steps_than_are_worth_their_time(self, qtbot, texts, memory):
        box, hours_box = card(texts)._time_box, card(texts).hours
        assert not box.isVisible()
        measure(qtbot, texts)
        qtbot.waitUntil(box.isVisible)
        before = texts.tree()
        hours_box.setValue(2.0)
        press(box, "Set steps")
        assert texts.tree()["training"]["max_steps"] == 14_400  # at half a second each
        assert "about 2 h" in measuring(texts).label.text()
        press(texts._changes, "Undo")
        assert texts.tree() == before
        memory.dry_runs.answer = msgspec.structs.replace(MEASURED, train_samples=1600)
        measuring(texts).button.click()
        qtbot.waitUntil(lambda: not texts._fit.measuring.is_running)
        size = before["memory"]["batch_size"] * before["memory"]["gradient_accumulation_steps"]
        for hours, steps in ((3.0, 20 * (1600 // size)), (0.1, 720)):
            hours_box.setValue(hours)
            press(box, "Set steps")
            assert texts.tree()["training"]["max_steps"] == steps

    @pytest.mark.parametrize("answer", [MEASURED, RAN_OUT])
    def test_every_part_is_explained_or_only_the_whole(self, qtbot, texts, memory, answer):
        memory.dry_runs.answer = answer
        measure(qtbot, texts)
        card(texts).ladder.explain.click()
        (sheet,) = card(texts).findChildren(ExplainedSheet)
        shown = dict(sheet.rows.rows())
        if answer is MEASURED:
            assert shown["Weights"].startswith("418 MB. ")
            assert "Source: " in sheet.rows.notes()["Optimizer state"]
        else:
            assert [words[:8] for words in shown.values()] == ["3.00 GB."]
        sheet.reject()


class TestRemedies:
    @pytest.mark.parametrize(
        ("share", "verdict", "is_open"),
        [(0.9, "Doesn't fit", True), (1.05, "Fits tightly", True), (2.0, "Fits", False)],
    )
    def test_they_unfold_where_memory_is_short(self, texts, memory, share, verdict, is_open):
        free(texts, memory, share * total(texts))
        assert card(texts).headline.startswith(f"{verdict} · ")
        assert card(texts).ladder.is_open == is_open

    def test_one_says_what_it_is_worth_is_applied_and_undone(self, texts, memory):
        free(texts, memory, 2 * GB)
        before, again = texts.tree(), ladder(texts)[CHECKPOINTING]
        assert again.worth.text().startswith("−")
        assert again.button.toolTip()
        again.button.click()
        assert texts.tree()["memory"]["activation_checkpointing"] is True
        assert len(texts._changes.changes) == 1
        assert CHECKPOINTING not in ladder(texts)
        press(texts._changes, "Undo")
        assert texts.tree() == before

    def test_advice_has_no_button_and_rows_stay_while_only_figures_change(self, texts, memory):
        card(texts).ladder.link.setChecked(True)
        (advice,) = [one for name, one in ladder(texts).items() if "smaller model" in name]
        assert advice.button.isHidden()
        before = card(texts).ladder.rows
        put(texts, training__learning_rate=1e-4)
        free(texts, memory, 7 * GB)
        assert card(texts).ladder.rows == before  # or the button under the pointer would go away


class TestStart:
    @pytest.fixture
    def asked(self, monkeypatch):
        """Stands in for a person who gives `answer` to every question; `offered` is what each offered."""

        class Asked:
            answer = Start.NEVER
            offered = []

        def take(question, _otherwise):
            says = question.says()
            Asked.offered = [*Asked.offered, list(says.values())]
            assert says.get(question.defaultButton().text()) is not Start.ANYWAY  # Return takes no risk
            return Asked.answer

        monkeypatch.setattr(Question, "ask", take)
        return Asked

    def test_what_does_not_fit_is_started_only_once_that_was_asked(self, qtbot, texts, memory, asked):
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        assert asked.offered == []  # it fits
        free(texts, memory, 3 * GB)
        with qtbot.assertNotEmitted(texts.start_requested):
            texts._outcome.start.click()
        asked.answer = Start.ANYWAY
        with qtbot.waitSignal(texts.start_requested):
            texts._outcome.start.click()
        put(texts, training__learning_rate=1e-4)  # it takes as much
        settle(qtbot, texts)
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        assert asked.offered == 2 * [[Start.WITH_REMEDY, Start.ANYWAY]]
        put(texts, memory__batch_size=64)
        settle(qtbot, texts)
        asked.answer = Start.WITH_REMEDY
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.start()
        assert len(asked.offered) == 3
        assert texts._fit.verdict is not Verdict.TOO_LARGE

    def test_where_no_remedy_is_enough_hone_looks_for_several(self, qtbot, texts, memory, asked, model):
        free(texts, memory, 2 * GB)
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

    def test_what_has_to_wait_is_compared_with_all_the_memory_there_is(
        self, qtbot, texts, memory, asked, monkeypatch
    ):
        monkeypatch.setattr(queue, "ahead_of", lambda _device: TurnAwaited(behind="Other", ahead=1))
        memory.room.room = Room(free=GB, ceiling=16 * GB)
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        memory.room.room = Room(free=GB, ceiling=2 * GB)
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.start()
        assert len(asked.offered) == 1

    def test_one_that_failed_lets_the_card_go_on(self, texts, memory):
        texts.start()
        readings = memory.room.readings
        texts._fit.read_room()
        assert memory.room.readings == readings  # the run is to have the memory
        texts.show_error(UserError("The run can't be started"))
        assert memory.room.readings == readings + 1
        assert texts._fit.refined.is_waiting


def by_batch(options):
    """A quarter of a gigabyte a sample."""
    size = options.memory.batch_size * GB // 4
    said = "It didn't fit." if size > 2 * GB else ""
    return msgspec.structs.replace(MEASURED, peak=size, parts=Parts(activations=size), out_of_memory=said)


def by_checkpointing(options):
    again = options.memory.activation_checkpointing
    size, seconds = 2 * GB - (312 * MB if again else 0), 0.56 if again else 0.5
    return msgspec.structs.replace(MEASURED, peak=size, parts=Parts(activations=size), step_seconds=seconds)


class TestFitSheet:
    @pytest.fixture
    def short(self, qtbot, texts, memory):
        """A page whose run does not fit as asked."""
        memory.dry_runs.answer = by_batch
        free(texts, memory, 2 * GB, 4 * GB)
        return texts

    def open(self, qtbot, page, button="fit", *, is_awaited=True):
        getattr(card(page).ladder, button).click()
        sheet = page._fit_actions.sheet
        if is_awaited:
            qtbot.waitUntil(lambda: not sheet.is_running)
        return sheet

    def test_it_tries_until_something_fits_and_applies_that(self, qtbot, short):
        before, sheet = short.tree(), self.open(qtbot, short)
        found = sheet.table.chosen
        assert sheet.table.rowCount() > 1
        assert found.changes["memory.batch_size"] < 8
        assert sheet.table.item(sheet.table.tries.index(found), 3).text() == "✓ fits"
        assert sheet.status.text().startswith("Result: ")
        assert short.tree() == before  # nothing changes before it is applied
        sheet.apply.click()
        assert short.tree()["memory"]["batch_size"] == found.changes["memory.batch_size"]
        assert basis(short) == "measured just now"
        assert short._fit_actions.sheet is None
        press(short._changes, "Undo")
        assert short.tree() == before

    def test_it_can_be_stopped(self, qtbot, short, memory):
        memory.dry_runs.gate.clear()
        sheet = self.open(qtbot, short, is_awaited=False)
        qtbot.waitUntil(lambda: sheet.status.text().startswith("Trying: "))
        assert len(memory.dry_runs.asked) == 1
        sheet._stop.click()
        qtbot.waitUntil(lambda: not sheet.is_running)
        assert memory.dry_runs.killed == 1
        assert not sheet.apply.isEnabled()
        sheet.reject()

    def test_closing_it_ends_what_runs_and_the_page_goes_on(self, qtbot, short, memory):
        memory.dry_runs.gate.clear()
        sheet = self.open(qtbot, short, is_awaited=False)
        qtbot.waitUntil(lambda: len(memory.dry_runs.asked) == 1)
        readings, restored = memory.room.readings, QShowEvent()
        restored.spontaneous = lambda: True  # the window was minimised, and is no longer
        card(short).showEvent(restored)
        assert memory.room.readings == readings
        sheet.reject()
        assert memory.dry_runs.killed == 1
        assert memory.room.readings == readings + 1
        assert short._fit.refined.is_waiting

    def test_what_fits_as_it_is_needs_no_change(self, qtbot, short, memory):
        memory.dry_runs.answer = MEASURED
        free(short, memory, 6 * GB, 8 * GB)
        sheet = self.open(qtbot, short)
        assert "fits as it is" in sheet.status.text()
        assert not sheet.apply.isEnabled()
        sheet.reject()

    def test_each_remedy_is_measured_and_any_that_fits_can_be_taken(self, qtbot, short):
        sheet = self.open(qtbot, short, "each")
        titles = [done.title for done in sheet.table.tries]
        assert titles[0] == "As requested"
        assert "Activation checkpointing" in titles
        (small,) = [done for done in sheet.table.tries if "memory.batch_size" in done.changes]
        sheet.table.choose(next(done for done in sheet.table.tries if done is not small))
        assert not sheet.apply.isEnabled()  # it doesn't fit
        sheet.table.choose(small)
        assert sheet.apply.isEnabled() == (small.verdict in ("fits", "tight"))
        sheet.reject()

    def test_a_run_that_fails_for_another_reason_says_which(self, qtbot, short, memory):
        memory.dry_runs.answer = UserError("The data is gone")
        sheet = self.open(qtbot, short)
        assert sheet.table.item(0, 3).text() == "✕ failed"
        assert "The data is gone" in sheet.table.item(0, 0).toolTip()
        sheet.reject()

    def test_what_each_remedy_was_measured_to_bring_stays_beside_it(self, qtbot, short, memory):
        memory.dry_runs.answer = by_checkpointing
        free(short, memory, 8 * GB)
        card(short).ladder.link.setChecked(True)
        self.open(qtbot, short, "each").reject()
        again = ladder(short)[CHECKPOINTING]
        assert again.worth.text() == "−312 MB · 12 % slower (measured)"
        again.button.click()
        assert basis(short) == "measured just now"
        assert short._fit.forecast.parts.total == 2 * GB - 312 * MB


FORECAST = Forecast(
    basis=Basis.FORMULA,
    device="cpu",
    parts=Parts(weights=4 * GB, temporary=1 * GB, overhead=1 * GB),
    room=Room(free=8 * GB, ceiling=16 * GB),
)
REMEDY = Remedy(
    name="batch", title="Less", help="Why.", changes={"memory.batch_size": 1}, saves=GB, forecast=FORECAST
)


class TestWords:
    @pytest.mark.parametrize(
        ("free", "verdict", "figures", "role"),
        [
            (8, "Fits", "6.00 GB of 8.00 GB free", "verdict-good"),
            (6.5, "Fits tightly", "6.00 GB of 6.50 GB free", "verdict-tight"),
            (2.9, "Doesn't fit", "6.00 GB, that is 3.10 GB too much", "verdict-bad"),
        ],
    )
    def test_the_headline(self, free, verdict, figures, role):
        room = Room(free=round(free * GB), ceiling=16 * GB)
        said = headline(msgspec.structs.replace(FORECAST, room=room))
        assert said == (verdict, figures, role)

    def test_the_bar_adds_up_to_the_whole(self):
        parts = Parts(weights=1, gradients=2, optimizer=3, activations=4, temporary=5, overhead=6)
        for is_undivided in (False, True):
            shown = bar_parts(parts, is_undivided=is_undivided)
            assert sum(part.bytes for part in shown) == parts.total
        assert RAN_OUT.is_undivided
        assert not MEASURED.is_undivided

    @pytest.mark.parametrize(
        ("now", "after", "words"),
        [
            (Verdict.FITS, Verdict.FITS, "−1.00 GB · no slower"),
            (Verdict.TOO_LARGE, Verdict.TOO_LARGE, "−1.00 GB · no slower"),
            (Verdict.TOO_LARGE, Verdict.TIGHT, "−1.00 GB, then it fits · no slower"),
            (Verdict.TIGHT, Verdict.FITS, "−1.00 GB, then with room to spare · no slower"),
        ],
    )
    def test_what_a_remedy_is_worth(self, now, after, words):
        assert saving_text(REMEDY, now, after) == words
        assert saving_text(msgspec.structs.replace(REMEDY, changes={}), now, after) == "Why."

    @pytest.mark.parametrize(
        ("before", "peak", "seconds", "words"),
        [
            ((4 * GB, 1.0), 3 * GB, 1.12, "−1.00 GB · 12 % slower (measured)"),
            ((4 * GB, 1.0), 5 * GB, 0.7, "+1.00 GB · 30 % faster (measured)"),
            ((4 * GB, 1.0), 4 * GB, 1.0, "−0 B · no slower (measured)"),
            ((4 * GB, 1.0), 3 * GB, 2.5, "−1.00 GB · 2.50 times as long (measured)"),
            (None, 2 * GB, 2.5, "2.00 GB in total, then it fits (measured)"),
        ],
    )
    def test_what_was_measured_of_it_goes_before_what_is_forecast(self, before, peak, seconds, words):
        def measured(peak, seconds):
            return Measured(msgspec.structs.replace(MEASURED, peak=peak, step_seconds=seconds), 0.0)

        ran_out = Measured(RAN_OUT, 0.0)
        now = Verdict.FITS if before else Verdict.TOO_LARGE
        without = measured(*before) if before else ran_out
        assert saving_text(REMEDY, now, Verdict.FITS, without, measured(peak, seconds)) == words
        assert "ran out" in saving_text(REMEDY, now, now, None, ran_out)

    def test_the_finish_time_counts_compiling_in_and_tells_it_apart(self):
        words = time_text(0.5, 720.0, 31.0)
        assert words.startswith("500 ms a step · about 12 min, done at ")
        assert words.endswith("30 s of it to compile")
        assert time_text(0.5, None, 0.0) == "500 ms a step"

    def test_steps_of_the_form_count_not_those_of_the_dry_run(self):
        measured = Measured(msgspec.structs.replace(MEASURED, compile_seconds=5.0, run_seconds=50.0), 0.0)
        assert measured.pace == 0.5
        assert (measured.run_seconds(200), measured.run_seconds(None)) == (105.0, 50.0)
        assert (measured.steps_within(1.0), measured.steps_within(0.001)) == ((3600 - 5) * 2, 1)
        untimed = msgspec.structs.replace(MEASURED, step_seconds=None, run_seconds=None)
        assert Measured(untimed, 0.0).pace is None
