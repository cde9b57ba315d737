"""The card "Will it fit?": forecast, look-up, measurement, remedies, time box, and its dialogs."""

import dataclasses
from functools import partial

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.jobs.hub import ConfigFetched, ConfigRequest
from core.jobs.inspect import Lengths
from core.memory.estimate import scaled
from core.memory.model import FitVerdict, Parts, Room
from core.options import presets
from core.options.catalogue import with_changes
from core.runs import queue
from core.runs.events import TurnAwaited
from core.runs.library import options_of_runs
from core.runs.summary import Timing, timing_key
from gui.base.questions import Question
from gui.new_run.memory_card import TimeBox
from gui.new_run.memory_dialogs import DoesntFitAnswer, ExplainedSheet
from gui.new_run.memory_state import known_length, training_seconds
from tests.fakes.jobs import CPU_ONLY, PAIRS, TRACED
from tests.fakes.memory import GB, MB, MEASURED, RAN_OUT, hurry, let_trace
from tests.fakes.model_shapes import MODEL
from tests.fakes.model_shapes import asked as options_of_bert
from tests.fakes.on_screen import press
from tests.gui.new_run.steps import load, put, row, rows, settle, start_text

CHECKPOINTING = "Apply: Activation checkpointing"

replace = msgspec.structs.replace


def card(page):
    return page.outcome.fit


def run_time(page):
    return card(page).run_time.text()


def basis(page):
    return card(page).basis.text().partition(" at ")[0]


def parts(page):
    return {part.name: part.bytes for part in card(page).bar.parts}


def remedies(page):
    return {row.button.accessibleName(): row for row in card(page).ladder.rows}


def set_free(page, memory, size, ceiling=16 * GB):
    memory.room.room = Room(free=round(size), ceiling=ceiling)
    page.fit.read_room()


def measure(qtbot, page):
    card(page).measure.button.click()
    qtbot.waitUntil(lambda: basis(page) == "measured")


@pytest.fixture
def texts(qtbot, page, model, pairs):
    """The page with a text model and data that were both checked; the longest row isn't known yet."""
    hurry(page)
    page.set_machine(CPU_ONLY)
    load(page, source=model, data=pairs, of_data={"max_length": 128})
    settle(qtbot, page)
    return page


def await_refined(qtbot, page):
    let_trace(page)
    refined = page.fit.refined
    qtbot.waitUntil(lambda: refined.report is not None and not refined.is_waiting)


def test_the_forecast_follows_every_option_at_once(qtbot, texts, engine, memory):
    assert card(texts).headline.startswith("Fits · ")
    assert basis(texts) == "estimate"
    before, requests, forecasts = parts(texts), len(engine.requests), memory.forecasts
    assert set(before) >= {"weights", "optimizer", "activations", "overhead"}
    spoken = card(texts).bar.accessibleDescription()
    assert all(words in spoken for words in ("weights 418 MB", "free memory 8.00 GB", "all memory 16.0 GB"))
    put(texts, memory__batch_size=64)  # no event loop has turned: all of it happened in the change itself
    after = parts(texts)
    assert after["activations"] > 3 * before["activations"]
    assert after["weights"] == before["weights"]
    assert (len(engine.requests), memory.forecasts) == (requests, forecasts + 1)
    put(texts, memory__batch_size=10_000)
    more = parts(texts)
    put(texts, memory__batch_size=65_536)
    assert parts(texts) == more, "no batch is larger than the data"
    put(texts, memory__batch_size=16)
    engine.gate.clear()
    put(texts, model__method="lora")
    assert texts.questions.model.is_waiting
    assert parts(texts)["optimizer"] < before["optimizer"] / 10, "the shape is still known"
    engine.gate.set()
    settle(qtbot, texts)


def test_the_engine_s_forecast_is_shown_until_something_that_matters_changes(qtbot, texts, engine):
    put(texts, device__precision="fp16")
    assert not texts.fit.refined.is_waiting, "something is wrong"
    assert not card(texts).measure.button.isEnabled()
    put(texts, device__precision="auto")
    texts.fit.correction = 1.25  # by past runs
    await_refined(qtbot, texts)
    assert parts(texts)["weights"] == 500 * MB
    (request,) = engine.traced()
    assert (request.labels, request.asked["memory"]["batch_size"]) == (2, 16)
    put(texts, training__learning_rate=1e-4, training__epochs=9.0)
    assert parts(texts)["weights"] == 500 * MB
    put(texts, memory__batch_size=8)
    assert parts(texts)["weights"] != 500 * MB
    await_refined(qtbot, texts)
    assert [request.asked["memory"]["batch_size"] for request in engine.traced()] == [16, 8]
    engine.answers["forecast"] = EngineCrashed("forecast", -11, "Segmentation fault")
    with qtbot.waitSignal(texts.fit.refined.changed):
        put(texts, memory__batch_size=4)
    assert card(texts).headline.startswith("Fits"), "the formula is left"
    assert card(texts).note.isVisible()


def test_a_forecast_that_assumes_the_maximum_length_replaces_none_with_known_lengths(qtbot, texts, engine):
    engine.answers["forecast"] = replace(
        TRACED, longest_text=None
    )  # a model from scratch has no tokenizer yet
    before = texts.fit.forecast
    assert texts.fit.known_length is not None
    await_refined(qtbot, texts)
    assert texts.fit.forecast == before
    assert before.parts != TRACED.parts


def test_the_reason_is_given_while_nothing_can_be_forecast(qtbot, page, engine, model, pairs):
    missing = card(page).missing
    assert missing.text() == "Checking this computer…"
    page.set_machine(CPU_ONLY)
    for source, batch_size, words in (
        ("", 16, "Choose a model"),
        ("no/such/folder", 16, "needs the model on this computer"),
        (model, 16, "Checking the model…"),
        (model, 0, "can be read"),
    ):
        load(page, source=source, memory={"batch_size": batch_size})
        assert words in missing.text()
        assert not card(page).bar.isVisible()
        assert not card(page).measure.button.isVisible()
    engine.answers["check-model"] = replace(MODEL, shape=None)
    load(page, source=model, data=pairs)
    settle(qtbot, page)
    assert missing.text() == "The memory of this model isn't known before it runs."


def test_an_upper_bound_is_not_called_too_large(qtbot, page, engine, model, pairs):
    hurry(page)
    page.set_machine(CPU_ONLY)
    page.fit.tools.room.room = Room(free=5 * GB, ceiling=16 * GB)
    engine.answers["inspect"] = replace(PAIRS, lengths=None)  # the tokenizer isn't there
    load(page, source=model, data=pairs, of_data={"max_length": 512}, memory={"batch_size": 64})
    settle(qtbot, page)
    assert page.fit.is_upper_bound
    assert (page.fit.verdict, page.fit.forecast.verdict) == (FitVerdict.UNKNOWN, FitVerdict.TOO_LARGE)
    assert not card(page).ladder.is_open
    most = page.fit.forecast.parts.total
    engine.answers["inspect"] = replace(PAIRS, lengths=replace(PAIRS.lengths, longest=32))
    page.reading.read_again()
    settle(qtbot, page)
    assert page.fit.known_length == 32
    assert page.fit.forecast.parts.total < most / 2
    assert page.fit.verdict is FitVerdict.FITS


@pytest.mark.parametrize(
    ("tokens", "now", "known"),
    [
        (61, {}, 61),
        (61, {"max_length": 32}, 32),
        (61, {"max_length": 512}, 61),
        (128, {"max_length": 512}, None),  # it was truncated
        (128, {"max_length": 64}, 64),
        (61, {"train": "others.csv"}, None),
    ],
)
def test_the_longest_row_stays_known_while_the_same_texts_are_truncated_no_later(tokens, now, known):
    before = {"max_length": 128, "train": "texts.csv"}
    assert (
        known_length(options_of_bert(data={**before, **now}), options_of_bert(data=before), tokens) == known
    )


def test_of_another_computer_only_the_memory_in_total_is_known(texts, memory):
    memory.room.room = Room(free=8 * GB, ceiling=16 * GB)
    there = replace(CPU_ONLY.devices[2], name="cpu@workshop")
    texts.set_machine(replace(CPU_ONLY, devices=(*CPU_ONLY.devices, there)))
    put(texts, device__name="cpu@workshop")
    assert card(texts).headline.endswith("of 16.0 GB in total")


def test_free_memory_is_read_again_without_flicker_and_not_while_hidden(qtbot, texts, memory):
    set_free(texts, memory, 8 * GB - 10 * MB)
    assert card(texts).headline.endswith("of 8.00 GB free")
    set_free(texts, memory, 5 * GB)
    assert card(texts).headline.endswith("of 5.00 GB free")
    memory.room.room = None
    texts.fit.read_room()
    assert card(texts).headline.startswith("Takes ")
    assert card(texts).bar.limits == ()
    assert card(texts).timer.isActive()
    texts.hide()
    assert not card(texts).timer.isActive()


class TestLookup:
    """A model on the Hub, of which only the description is fetched."""

    @pytest.fixture
    def snapshot(self, tmp_path, monkeypatch, engine):
        """A folder in the cache of the Hub, which the engine fills when it fetches the model's config."""
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
    def elsewhere(self, qtbot, page, snapshot, pairs):
        """The page with a model that is not on this computer."""
        hurry(page)
        page.set_machine(CPU_ONLY)
        load(page, source="org/tiny", data=pairs)
        settle(qtbot, page)
        return page

    def test_a_press_fetches_it_and_the_forecast_appears(self, qtbot, elsewhere, engine, snapshot):
        line, measuring = card(elsewhere).lookup, card(elsewhere).measure
        assert "isn't on this computer yet" in card(elsewhere).missing.text()
        assert all(word in line.label.text() for word in ("config.json", "huggingface.co"))
        assert "fetch-config" not in [job for job, _ in engine.requests]
        engine.gate.clear()
        line.button.setFocus()
        line.button.click()
        assert line.label.text() == "Downloading config.json from huggingface.co…"
        assert line.button.text() == "Cancel"
        engine.gate.set()
        qtbot.waitUntil(lambda: card(elsewhere).headline.startswith("Fits · "))
        (body,) = [body for job, body in engine.requests if job == "fetch-config"]
        assert msgspec.json.decode(body, type=ConfigRequest).source == "org/tiny"
        assert not line.isVisible()
        assert rows(elsewhere)["Downloads"] == "the model, once, from the Hugging Face Hub"
        assert start_text(elsewhere) == "Start training"
        assert elsewhere.window().focusWidget() is measuring.button, "it is in the same place"
        row(elsewhere, "model.source").field.control.setFocus()
        card(elsewhere).show_state()
        assert not measuring.button.isEnabled()
        (snapshot / "model.safetensors").touch()
        put(elsewhere, memory__batch_size=8)
        assert measuring.button.isEnabled()

    def test_one_of_the_list_is_forecast_by_its_parameters(self, qtbot, elsewhere, engine, pairs, memory):
        set_free(elsewhere, memory, 14 * GB)
        load(elsewhere, "causal-lm", "Qwen/Qwen2.5-1.5B", pairs, model={"method": "full"})
        settle(qtbot, elsewhere)
        assert elsewhere.fit.verdict is FitVerdict.TOO_LARGE
        remedy = next(each for each in elsewhere.fit.remedies() if each.name == "lora")
        assert elsewhere.fit.verdict_after(remedy) is not FitVerdict.TOO_LARGE
        assert "fits" not in card(elsewhere).worth(remedy), "once applied, it only may fit"
        assert card(elsewhere).measure.button.text() == "Look up details"
        card(elsewhere).measure.button.click()
        assert elsewhere.fit.lookup.is_running

    def test_a_failed_or_cancelled_one_can_be_repeated_unless_hone_is_offline(
        self, qtbot, elsewhere, engine, pairs, monkeypatch
    ):
        line, lookup = card(elsewhere).lookup, elsewhere.fit.lookup
        engine.answers["fetch-config"] = UserError("The Hub can't be reached", "Is this computer online?")
        line.button.click()
        qtbot.waitUntil(lambda: not lookup.is_running)
        assert line.label.text() == "The Hub can't be reached. Is this computer online?"
        asked = []
        monkeypatch.setattr(
            Question, "ask", lambda self, otherwise: asked.append(self) or DoesntFitAnswer.WITH_REMEDY
        )
        elsewhere.start()
        assert "Is this computer online?" in asked[0].informativeText()
        assert elsewhere.focusWidget() is row(elsewhere, "model.source").field.control
        engine.gate.clear()
        monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org/models")
        for cancel in (line.button.click, partial(load, elsewhere, source="org/other", data=pairs)):
            line.button.click()
            assert lookup.is_running
            cancel()
            assert not lookup.is_running
            assert line.button.text() == "Look up details"
        assert "from hub.example.org" in line.label.text()
        engine.gate.set()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        load(elsewhere, source="org/another", data=pairs)
        assert not line.isVisible()
        assert "HF_HUB_OFFLINE" in card(elsewhere).missing.text()


def test_the_memory_is_among_the_checks_in_the_words_of_its_card(qtbot, texts, memory):
    def check():
        return next((one.text, one.level) for one in texts.outcome.checks.checks if "Memory" in one.text)

    assert check() == ("Memory: Fits", None)
    set_free(texts, memory, texts.fit.forecast.parts.total * 1.05)
    assert check() == ("Memory: Fits tightly", "warning")
    await_refined(qtbot, texts)
    set_free(texts, memory, GB)
    assert check() == ("Memory: Doesn't fit", "error")
    texts.set_machine(None)
    assert check() == ("Memory: not known yet", "info")


class TestTime:
    """The line above Start."""

    def test_it_stands_only_on_what_was_measured_here(self, qtbot, texts, memory):
        unknown = "Press Measure to see how long it takes."
        assert run_time(texts) == unknown
        past = Timing("Yesterday", 40, 9, 3.0, 600.0, 10.0, 5.0)
        memory.timings = {(timing_key(texts.fit.case.options), "Old processor"): past}
        texts.fit.resume()
        qtbot.waitUntil(lambda: run_time(texts) != unknown)
        assert run_time(texts) == "Takes about 10 min, estimated from the run “Yesterday”."
        put(texts, training__epochs=6.0)
        assert run_time(texts) == "Takes about 12 min, estimated from the run “Yesterday”."
        put(texts, training__early_stopping_patience=2)
        assert run_time(texts).startswith("Takes at most about 12 min")
        put(texts, memory__batch_size=8)
        assert run_time(texts) == unknown
        put(texts, memory__batch_size=16)
        measure(qtbot, texts)
        assert run_time(texts).endswith(", as measured, evaluations estimated.")

    def test_an_unchanged_example_says_what_the_welcome_page_said(self, qtbot, page):
        page.set_machine(CPU_ONLY)
        page.load_example(presets.find_example("digits"))
        expected = "About 1 min on two processor cores. Press Measure for this computer."
        qtbot.waitUntil(lambda: run_time(page) == expected)
        put(page, data__train="gone.csv")
        assert "two processor cores" not in run_time(page), "at once, before it is known to be missing"
        put(page, data__train="builtin:digits")
        assert run_time(page) == expected
        put(page, training__epochs=50.0)
        assert "two processor cores" not in run_time(page)

    def test_both_runs_of_a_pair_are_timed(self, qtbot, page, talks, memory):
        page.set_machine(CPU_ONLY)
        load(page, "chat", "scratch:llama-tiny", talks)
        settle(qtbot, page)
        first, second = (timing_key(options) for options in options_of_runs(page.fit.case.options))
        chat = Timing("Pip", 16, 3, 3.0, 120.0, 0.0, 0.0)
        before = dataclasses.replace(chat, seconds=60.0)
        basis = "estimated from the run “Pip”"
        for past, expected in (
            ({second: chat}, "Run 2 (chat) takes {}2 min, {}. Run 1 (pretraining) can't be measured."),
            (
                {first: before},
                "Run 1 (pretraining) takes {}1 min, {}. The time of run 2 (chat) isn't known yet.",
            ),
            ({first: before, second: chat}, "Takes {}3 min (1 min to pretrain, 2 min to chat), {}."),
        ):
            memory.timings = {(key, "Old processor"): timing for key, timing in past.items()}
            put(page, training__early_stopping_patience=0)
            page.fit.resume()
            qtbot.waitUntil(lambda text=expected: run_time(page) == text.format("about ", basis))
            put(page, training__early_stopping_patience=2)
            assert run_time(page) == expected.format("at most about ", basis)


class TestMeasuring:
    def test_it_is_shown_and_kept_while_only_other_options_change(self, qtbot, texts, memory):
        button, label = card(texts).measure.button, card(texts).measure.label
        assert texts.known_memory is None  # the run makes the forecast itself
        memory.dry_runs.gate.clear()
        button.click()
        assert button.text() == "Cancel"
        assert label.text().endswith("0\u00a0s")
        readings = memory.room.readings
        texts.fit.read_room()
        assert memory.room.readings == readings, "the dry run uses it"
        memory.dry_runs.gate.set()
        qtbot.waitUntil(lambda: basis(texts) == "measured")
        assert memory.dry_runs.asked[0].device.name == "cpu"
        assert parts(texts)["weights"] == MEASURED.parts.weights
        assert label.text() == "500 ms a step"
        assert run_time(texts).endswith(", as measured, evaluations estimated.")
        assert not texts.fit.refined.is_waiting  # there is no better figure
        assert texts.known_memory.parts == MEASURED.parts
        before = run_time(texts)
        put(texts, training__epochs=300.0)
        assert run_time(texts) != before  # a hundred times as long
        for batch_size, shown in ((16, "measured"), (8, "estimate"), (16, "measured")):
            put(texts, memory__batch_size=batch_size)
            assert basis(texts) == shown

    def test_it_is_cancelled_by_its_button_a_change_that_matters_and_a_start(self, qtbot, texts, memory):
        memory.dry_runs.gate.clear()
        button = card(texts).measure.button
        for killed, cancel in enumerate(
            (button.click, partial(put, texts, memory__batch_size=8), texts.start), start=1
        ):
            button.click()
            put(texts, training__learning_rate=killed * 1e-5)
            assert button.text() == "Cancel"
            cancel()
            assert memory.dry_runs.killed == killed
            assert not texts.fit.measuring.is_running
            settle(qtbot, texts)

    def test_it_says_that_other_programs_slowed_it(self, qtbot, texts, memory):
        for share, words in ((0.1, "500 ms a step"), (0.65, "Slowed: other programs use 65 % of the CPU.")):
            memory.dry_runs.answer = replace(MEASURED, other_load=share)
            put(texts, memory__batch_size=8 if share > 0.5 else 16)
            settle(qtbot, texts)
            measure(qtbot, texts)
            assert words in card(texts).measure.label.text()
            assert texts.fit.timed.measurement.was_disturbed == (share > 0.5)

    def test_its_seconds_stay_in_one_line(self, texts, memory, monkeypatch):
        memory.dry_runs.gate.clear()
        card(texts).measure.button.click()
        texts.fit._began -= 61
        card(texts).show_state()
        assert card(texts).measure.label.text().endswith("1\u00a0min\u00a001\u00a0s")
        card(texts).measure.button.click()

    def test_a_failed_dry_run_is_explained(self, qtbot, texts, memory):
        for failure, words in (
            (UserError("The data can't be read", "It is gone."), "The data can't be read. It is gone."),
            (OSError(2, "No such file"), "Hone's engine can't be started."),
        ):
            memory.dry_runs.answer = failure
            with qtbot.waitSignal(texts.fit.measuring.failed):
                card(texts).measure.button.click()
            assert card(texts).note.text().startswith(words)
        assert basis(texts) == "estimate"

    def test_memory_that_ran_out_is_an_answer_with_remedies(self, qtbot, texts, memory):
        memory.dry_runs.answer = RAN_OUT
        assert not card(texts).ladder.is_open
        measure(qtbot, texts)
        assert card(texts).headline == "Doesn't fit · memory ran out at 3.00 GB"
        assert card(texts).note.text() == RAN_OUT.out_of_memory
        assert card(texts).ladder.is_open
        assert CHECKPOINTING in remedies(texts)
        assert list(parts(texts)) == ["this run"]
        assert start_text(texts) == "Start training"  # the person may try all the same
        assert texts.known_memory is None
        assert [text[:8] for text in explained(texts).values()] == ["3.00 GB."]

    def test_a_time_box_sets_as_many_steps_as_fit_into_it(self, qtbot, texts):
        box, time = card(texts).time_box, card(texts).time
        assert not box.isVisible()
        measure(qtbot, texts)
        assert explained(texts)["Weights"].startswith("418 MB. ")
        qtbot.waitUntil(box.isVisible)
        assert not card(texts).set_steps.isEnabled(), "the run takes 34 s: it must not become longer"
        put(texts, training__epochs=100.0)
        time.lineEdit().setText("10 min")
        time.interpretText()
        press(box, "Set steps")
        assert texts.tree()["training"]["max_steps"] == 1157  # at half a second each, with evaluations
        assert "about 10 min" in run_time(texts)
        put(texts, training__max_steps=None)
        card(texts).set_steps.setFocus()
        press(box, "Set steps")
        assert texts.window().focusWidget() is card(texts).set_steps
        card(texts).time.setFocus()
        time.setValue(600)
        press(box, "Set steps")
        assert "max_steps" not in texts.tree()["training"]
        assert not card(texts).set_steps.isEnabled()

    def test_a_measurement_holds_for_other_numbers_of_examples_with_the_same_longest_one(
        self, qtbot, texts, engine
    ):
        measure(qtbot, texts)
        put(texts, data__max_train_samples=200)
        settle(qtbot, texts)
        assert basis(texts) == "measured"
        engine.answers["inspect"] = replace(PAIRS, lengths=replace(PAIRS.lengths, longest=32))
        put(texts, data__max_train_samples=100)
        settle(qtbot, texts)
        assert basis(texts) == "estimate"
        assert "500 ms a step" in card(texts).measure.label.text()


def explained(page):
    card(page).ladder.explain.click()
    (sheet,) = card(page).findChildren(ExplainedSheet)
    sheet.reject()
    return dict(sheet.rows.rows())


@pytest.mark.parametrize(
    ("share", "start", "end", "is_open"),
    [
        (0.9, "Doesn't fit", " too much", True),
        (1.05, "Fits tightly", " free", True),
        (2.0, "Fits", " free", False),
    ],
)
def test_remedies_unfold_where_memory_is_short(texts, memory, *, share, start, end, is_open):
    set_free(texts, memory, share * texts.fit.forecast.parts.total)
    assert texts.fit.forecast.parts.total == sum(parts(texts).values())
    assert card(texts).headline.startswith(f"{start} · ")
    assert card(texts).headline.endswith(end)
    assert card(texts).ladder.is_open == is_open


@pytest.mark.parametrize("measured", [None, 0.7, 1.4])
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_each_batch_that_is_offered_fits_by_the_forecast_by_which_another_does_not(
    texts, memory, measured, share
):
    size = "memory.batch_size"
    for batch in (16, 64, 20_000):
        put(texts, memory__batch_size=batch, memory__gradient_accumulation_steps=1)
        if measured is not None:
            figures = scaled(texts.fit.forecast.parts, measured)
            found = replace(MEASURED, parts=figures, peak=figures.total)
            texts.fit.add_measurement(texts.fit.case.options, found)
        set_free(texts, memory, share * texts.fit.forecast.parts.total)
        hints = [fix.changes for hint in row(texts, size).advice for fix in hint.fixes]
        steps = [one.changes for one in texts.fit.remedies() if one.name == "batch"]
        for changes in (*hints, *(one for one in steps if one[size] > 1)):  # nothing is smaller than 1
            texts.options.form.set_values(changes)
            assert texts.fit.verdict in (FitVerdict.FITS, FitVerdict.TIGHT), changes


def test_a_batch_larger_than_the_data_has_the_usual_one_as_remedy_if_that_fits(texts, memory):
    put(texts, memory__batch_size=20_000)
    fixes = [fix.label for hint in row(texts, "memory.batch_size").advice for fix in hint.fixes]
    assert fixes == ["Use 16"]
    set_free(texts, memory, 1 * GB)
    (hint,) = row(texts, "memory.batch_size").advice
    assert (hint.fixes, "an epoch is one step" in hint.message) == ((), True)


def test_a_remedy_is_applied_and_undone(texts, memory):
    set_free(texts, memory, 2 * GB)
    before, remedy = texts.tree(), remedies(texts)[CHECKPOINTING]
    (advice,) = [row for name, row in remedies(texts).items() if "smaller model" in name]
    assert advice.button.isHidden()
    assert remedy.worth.text().startswith("−")
    shown = card(texts).ladder.rows
    put(texts, training__learning_rate=1e-4)
    assert card(texts).ladder.rows == shown, "the button under the pointer stays"
    put(texts, training__learning_rate=before["training"]["learning_rate"])
    remedy.button.click()
    assert texts.tree()["memory"]["activation_checkpointing"] is True
    assert CHECKPOINTING not in remedies(texts)
    press(texts.changes, "Undo")
    assert texts.tree() == before


class TestStart:
    @pytest.fixture
    def asked(self, monkeypatch):
        """Stands in for a person who gives `answer` to every question; `offered` are the answers of each."""

        class Asked:
            answer = DoesntFitAnswer.NEVER
            offered = []

        def take(question, _otherwise):
            answers = question.says()
            Asked.offered = [*Asked.offered, list(answers.values())]
            assert (
                answers.get(question.defaultButton().text()) is not DoesntFitAnswer.ANYWAY
            )  # Return takes no risk
            return Asked.answer

        monkeypatch.setattr(Question, "ask", take)
        return Asked

    def test_a_run_that_does_not_fit_starts_only_after_a_question(self, qtbot, texts, memory, asked):
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        assert asked.offered == []  # it fits
        set_free(texts, memory, 3 * GB)
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.outcome.start.click()
        asked.answer = DoesntFitAnswer.ANYWAY
        with qtbot.waitSignal(texts.start_requested):
            texts.outcome.start.click()
        put(texts, training__learning_rate=1e-4)  # it takes as much
        settle(qtbot, texts)
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        assert asked.offered == 2 * [[DoesntFitAnswer.WITH_REMEDY, DoesntFitAnswer.ANYWAY]]
        put(texts, memory__batch_size=64)
        settle(qtbot, texts)
        asked.answer = DoesntFitAnswer.WITH_REMEDY
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.start()
        assert len(asked.offered) == 3
        assert texts.fit.verdict is not FitVerdict.TOO_LARGE
        set_free(texts, memory, GB)  # no single remedy is enough
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.start()
        assert texts.fit_actions.sheet is not None
        texts.fit_actions.close()

    def test_a_run_that_waits_is_compared_with_all_memory(self, qtbot, texts, memory, asked, monkeypatch):
        monkeypatch.setattr(queue, "ahead_of", lambda _device: TurnAwaited(behind="Other", ahead=1))
        memory.room.room = Room(free=GB, ceiling=16 * GB)
        with qtbot.waitSignal(texts.start_requested):
            texts.start()
        readings = memory.room.readings
        texts.fit.read_room()
        assert memory.room.readings == readings, "the run is to have the memory"
        texts.show_error(UserError("The run can't be started"))
        assert memory.room.readings == readings + 1
        memory.room.room = Room(free=GB, ceiling=2 * GB)
        with qtbot.assertNotEmitted(texts.start_requested):
            texts.start()
        assert len(asked.offered) == 1


def by_batch(options):
    """A quarter of a gigabyte for each sample, of 2 GB."""
    size = options.memory.batch_size * GB // 4
    message = "It didn't fit." if size > 2 * GB else ""
    return replace(MEASURED, peak=size, parts=Parts(activations=size), out_of_memory=message)


class TestFitSheet:
    @pytest.fixture
    def short(self, texts, memory):
        """A page whose run does not fit."""
        memory.dry_runs.answer = by_batch
        set_free(texts, memory, 2 * GB, 4 * GB)
        return texts

    def open(self, qtbot, page):
        card(page).ladder.fit.click()
        sheet = page.fit_actions.sheet
        qtbot.waitUntil(lambda: not sheet.is_running)
        return sheet

    def test_it_tries_until_something_fits_and_applies_that(self, qtbot, short):
        before, sheet = short.tree(), self.open(qtbot, short)
        chosen = sheet.table.chosen
        assert sheet.table.rowCount() > 1
        assert chosen.changes["memory.batch_size"] < 8
        assert sheet.table.item(sheet.table.tries.index(chosen), 3).text() == "✓ fits"
        assert sheet.status.text().startswith("Suggestion: ")
        assert short.tree() == before  # nothing changes before it is applied
        sheet.apply.click()
        assert short.tree()["memory"]["batch_size"] == chosen.changes["memory.batch_size"]
        assert basis(short) == "measured"
        assert short.fit_actions.sheet is None
        press(short.changes, "Undo")
        assert short.tree() == before

    def test_stopping_or_closing_it_ends_the_dry_run_and_the_page_continues(self, qtbot, short, memory):
        memory.dry_runs.gate.clear()
        for end in ("stop", "reject"):
            card(short).ladder.fit.click()
            sheet = short.fit_actions.sheet
            readings, killed = memory.room.readings, memory.dry_runs.killed
            qtbot.waitUntil(lambda sheet=sheet: sheet.table.rowCount() > 1)
            assert not sheet.table.tries, "they are planned"
            sheet.stop.click() if end == "stop" else sheet.reject()
            qtbot.waitUntil(lambda sheet=sheet: not sheet.is_running)
            assert memory.dry_runs.killed == killed + 1
            assert not sheet.apply.isEnabled()
            sheet.reject()
            assert memory.room.readings > readings
            assert short.fit.refined.is_waiting

    def test_a_run_that_fits_or_fails_needs_no_change(self, qtbot, short, memory):
        memory.dry_runs.answer = UserError("The data is gone")
        sheet = self.open(qtbot, short)
        assert sheet.table.item(0, 3).text() == "✕ failed"
        assert "The data is gone" in sheet.table.item(0, 0).toolTip()
        sheet.reject()
        memory.dry_runs.answer = MEASURED
        set_free(short, memory, 6 * GB, 8 * GB)
        sheet = self.open(qtbot, short)
        assert sheet.table.chosen.changes == {}
        assert not sheet.apply.isEnabled()
        sheet.reject()


def test_the_time_of_a_run_has_its_steps_and_a_forward_pass_for_each_validation_example():
    run = partial(options_of_bert, memory={"batch_size": 1}, training={"epochs": 2.0, "eval_steps": 0.25})
    assert training_seconds(run(), 100, 0.5, 0.0) == 100
    assert training_seconds(run(), 100, 0.5, 0.3) == 100 + 4 * 100 * 0.3 * 0.5 / 3
    assert training_seconds(run(model={"method": "head"}), 100, 0.5, 0.3) == 160


@pytest.mark.parametrize(
    ("training", "minutes", "most"),
    [
        ({"epochs": 2.0}, 1, 110),
        ({"epochs": 2.0}, 2, None),  # 200 steps take 100 s, and compiling 5 s
        ({"epochs": 2.0, "max_steps": 100}, 1, 110),
        ({"epochs": 2.0, "max_steps": 100}, 2, None),
        ({"epochs": 2.0, "max_steps": 1000}, 2, 230),
        ({"epochs": 2.0, "max_steps": 1000}, 60, 1000),
    ],
)
def test_a_limit_of_time_makes_no_run_longer_than_its_epochs(qtbot, texts, training, minutes, most):
    state, options = texts.fit, options_of_bert(memory={"batch_size": 1}, training=training)
    state.case = dataclasses.replace(state.case, options=options, trained=100, validation=0.0)
    state.add_measurement(options, replace(MEASURED, compile_seconds=5.0, run_seconds=50.0))
    assert state.steps_within(minutes)[0] == most


def test_a_limit_of_time_leaves_room_for_evaluations_and_says_how_much_of_the_data_is_seen(qtbot, texts):
    put(texts, training__eval_steps=5.0, training__epochs=20.0, data__eval_fraction=0.5)
    settle(qtbot, texts)
    measure(qtbot, texts)
    card(texts).time.setValue(1)
    text = card(texts).fits.text()
    steps = texts.fit.steps_within(1)[0]
    assert text == f"Fits with maximum steps {steps}"
    assert steps < 2 * 60 / 1.5, "half a second each, and the evaluations"
    assert "as measured, evaluations estimated" in run_time(texts)
    put(texts, memory__batch_size=2)
    settle(qtbot, texts)
    card(texts).measure.button.click()
    qtbot.waitUntil(lambda: "of one epoch" in card(texts).fits.text())
    assert "shorter texts or a smaller model" in card(texts).fits.text()
    press(card(texts).time_box, "Set steps")
    assert card(texts).fits.text().startswith("The run fits into this time: ")
    assert sum(seconds for seconds, _title in texts.fit.expected) <= 60


def test_a_limit_of_time_counts_both_runs_of_a_chat_model_from_scratch(qtbot, page, answers, talks):
    page.set_machine(CPU_ONLY)
    load(page, "chat", "scratch:llama-small", talks, model={"method": "full"})
    settle(qtbot, page)
    state = page.fit
    state.case = dataclasses.replace(state.case, trained=6400)
    state.add_measurement(state.case.options, replace(MEASURED, total_steps=None, run_seconds=None))
    steps = state.steps_within(20)[0]
    runs = state._expected(state.case, with_changes(state.case.options, {"training.max_steps": steps}))
    assert len(runs) == 2
    assert 1140 < sum(seconds for seconds, _title in runs) <= 1200
    assert all(seconds > 200 for seconds, _title in runs)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("10 min", "10 min"),
        ("1.5 h", "1.5 h"),
        ("1,5h", "1.5 h"),
        ("90", "1.5 h"),
        ("1 h 20 min", "1 h 20 min"),
        ("2 hours", "2 h"),
        ("soon", "1 h"),
        ("", "1 h"),
        ("1.2.3 h", "1 h"),
    ],
)
def test_a_time_is_read_in_minutes_or_hours_and_stays_if_it_cannot_be_read(qtbot, typed, shown):
    box = TimeBox()
    qtbot.addWidget(box)
    refused = []
    box.refused.connect(refused.append)
    box.lineEdit().setText(typed)
    box.interpretText()
    assert box.text() == shown
    assert bool(refused) == (shown == "1 h")


def test_a_chat_model_from_scratch_is_forecast_by_its_larger_run(qtbot, page, answers, talks):
    page.set_machine(CPU_ONLY)
    load(page, "chat", "scratch:llama-small", talks, model={"method": "full"})
    put(page, data__max_length=512)
    settle(qtbot, page)
    state = page.fit
    state.lengths = Lengths(unit="tokens", edges=(0, 40, 80), counts=(60, 4), longest=64, median=30)
    for batch, larger in ((4, 0), (64, 1)):  # their text fills six blocks of 512 tokens
        options = with_changes(state.case.options, {"memory.batch_size": batch})
        state.case = dataclasses.replace(state.case, trained=64, options=options)
        state._longest = options, 64
        state._follow()
        assert state.forecast.parts == state._pair[larger].parts
        assert state._pair[larger].parts.total > state._pair[1 - larger].parts.total
    assert state.pair, "both are told"
