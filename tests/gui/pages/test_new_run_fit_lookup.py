"""A model on the Hub that isn't on this computer: its size is looked up when the button is pressed, and only then."""

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.errors import Problem, UserError
from core.memory.model import ModelReport
from core.services.hub import ConfigFetched, ConfigRequest
from tests.fakes.asking import CPU_ONLY, MODEL
from tests.fakes.memory import hurry

TEXTS = "text-classification"


def card(page):
    return page._outcome.fit


def line(page):
    return card(page)._lookup


def settle(qtbot, page):
    questions = page._questions
    qtbot.waitUntil(lambda: not (questions.data.is_waiting or questions.model.is_waiting))


def fetches(engine):
    return [
        msgspec.json.decode(body, type=ConfigRequest).source
        for job, body in engine.requests
        if job == "fetch-config"
    ]


@pytest.fixture
def cache(tmp_path, monkeypatch, engine):
    """An empty cache of the Hub, into which the engine fetches what is asked for."""
    snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"

    def fetch(_request):
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").touch()
        return ConfigFetched(path=str(snapshot / "config.json"))

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    engine.answers["fetch-config"] = fetch
    return snapshot


def choose(page, source, pairs):
    page.load_tree({"task": TEXTS, "model": {"source": source}, "data": {"train": str(pairs)}})


@pytest.fixture
def elsewhere(qtbot, page, cache, pairs):
    """The page with a model that is not on this computer."""
    hurry(page)
    page.set_machine(CPU_ONLY)
    choose(page, "org/tiny", pairs)
    settle(qtbot, page)
    return page


def test_nothing_is_fetched_before_it_is_asked_for(elsewhere, engine):
    assert "isn't on this computer yet" in card(elsewhere)._missing.text()
    assert line(elsewhere).button.isVisible()
    assert line(elsewhere).button.text() == "Look up its size"
    assert line(elsewhere).words == (
        "Fetches only what describes the model, from huggingface.co: config.json, a few KB"
    )
    assert fetches(engine) == []


def test_a_press_fetches_it_and_the_forecast_appears(qtbot, elsewhere, engine):
    engine.gate.clear()
    qtbot.mouseClick(line(elsewhere).button, Qt.MouseButton.LeftButton)
    assert line(elsewhere).words == "Fetching config.json from huggingface.co…"
    assert line(elsewhere).button.text() == "Cancel"
    engine.gate.set()
    qtbot.waitUntil(lambda: card(elsewhere).headline.startswith("Fits · "))
    assert fetches(engine) == ["org/tiny"]
    assert not line(elsewhere).isVisible()


def test_the_weights_are_still_to_come(qtbot, elsewhere, cache):
    line(elsewhere).button.click()
    qtbot.waitUntil(lambda: bool(card(elsewhere).headline))
    rows = dict(elsewhere._outcome._rows.rows())
    assert rows["Downloads"] == "the model, once, from the Hugging Face Hub"
    assert elsewhere._outcome.start_text == "Start training"
    measure = card(elsewhere)._measure
    assert not measure.button.isEnabled()
    assert measure.words == "Can be measured once the weights are here: the first run fetches them"
    assert not elsewhere._fit.can_measure
    (cache / "model.safetensors").touch()
    elsewhere._options.form.set_values({"memory.batch_size": 8})
    assert measure.button.isEnabled()


def test_a_mirror_is_named(elsewhere, monkeypatch, pairs):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org/models")
    choose(elsewhere, "org/other", pairs)
    assert "from hub.example.org:" in line(elsewhere).words


def test_what_stood_in_the_way_is_said_and_it_can_be_tried_again(qtbot, elsewhere, engine):
    fetch = engine.answers["fetch-config"]
    engine.answers["fetch-config"] = UserError("huggingface.co can't be reached", "Is this computer online?")
    line(elsewhere).button.click()
    qtbot.waitUntil(lambda: not elsewhere._fit.lookup.is_running)
    assert line(elsewhere).words == "huggingface.co can't be reached. Is this computer online?"
    engine.answers["fetch-config"] = fetch
    line(elsewhere).button.click()
    qtbot.waitUntil(lambda: bool(card(elsewhere).headline))


def test_it_can_be_given_up_and_another_model_gives_it_up(qtbot, elsewhere, engine, pairs):
    engine.gate.clear()
    line(elsewhere).button.click()
    qtbot.waitUntil(lambda: len(fetches(engine)) == 1)
    line(elsewhere).button.click()
    assert line(elsewhere).button.text() == "Look up its size"
    line(elsewhere).button.click()
    assert elsewhere._fit.lookup.is_running
    choose(elsewhere, "org/other", pairs)
    assert not elsewhere._fit.lookup.is_running
    assert line(elsewhere).button.text() == "Look up its size"
    engine.gate.set()


def test_an_older_version_in_the_cache_can_be_looked_up_too(qtbot, page, cache, engine, pairs):
    """Its config is there, but not that of the newest version; the engine then knows nothing."""
    answers = iter((ModelReport(), MODEL))
    engine.answers["check-model"] = lambda _request: next(answers)
    engine.answers["fetch-config"] = ConfigFetched(path="")
    cache.mkdir(parents=True)
    (cache / "config.json").touch()
    page.set_machine(CPU_ONLY)
    choose(page, "org/tiny", pairs)
    settle(qtbot, page)
    line(page).button.click()
    qtbot.waitUntil(lambda: bool(card(page).headline))


def test_a_model_with_code_of_its_own_is_refused_at_its_field(qtbot, elsewhere, engine):
    problem = Problem("model.source", "org/tiny needs its own code to run.")
    engine.answers["check-model"] = ModelReport(problems=(problem,))
    line(elsewhere).button.click()
    qtbot.waitUntil(lambda: elsewhere._options.form.row("model.source").problems == (problem,))
    assert elsewhere._outcome.start_text.startswith("Fix: ")
    assert not line(elsewhere).isVisible()


def test_where_the_person_forbids_it_there_is_no_button(elsewhere, monkeypatch, pairs):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    choose(elsewhere, "org/other", pairs)
    assert not line(elsewhere).isVisible()
    assert "HF_HUB_OFFLINE forbids to fetch it" in card(elsewhere)._missing.text()


def test_what_can_be_told_already_is_not_looked_up(qtbot, page, model, pairs):
    page.set_machine(CPU_ONLY)
    assert not line(page).isVisible()
    choose(page, str(model), pairs)
    settle(qtbot, page)
    assert not line(page).isVisible()
