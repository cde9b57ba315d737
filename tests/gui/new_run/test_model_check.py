"""What the form says of the model once the engine has looked at it."""

import msgspec
import pytest

from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed
from core.memory.model import OptionsRequest
from gui.new_run.state import ModelCheck
from tests.fakes.jobs import PAIRS
from tests.fakes.model_shapes import MODEL
from tests.gui.new_run.steps import load, rows, settle, start_text

LORA = {"method": "lora", "lora_targets": ["q_proj"]}


def choose(page, model, data, **options):
    load(page, source=model, data=data, model=options)


@pytest.fixture
def texts(page, model, pairs):
    """A function that asks for the model in a folder, trained on the pairs."""
    return lambda source=model, **asked: choose(page, source, pairs, **asked)


def warnings(page):
    return [check.text for check in page._outcome.checks.checks if check.level == "warning"]


def test_how_much_will_learn_is_told(qtbot, page, model, pairs):
    choose(page, model, pairs, method="lora")
    assert rows(page)["Trained"] == "LoRA, rank 16"
    settle(qtbot, page)
    assert rows(page)["Trained"] == "LoRA, rank 16 · 1,538 of 109 million"
    page._options.form.set_values({"model.method": "full"})
    settle(qtbot, page)
    assert rows(page)["Trained"] == "all 109 million weights"


def test_it_is_asked_once_and_with_the_labels_of_the_data(qtbot, page, engine, model, pairs):
    settle(qtbot, page)
    engine.requests.clear()
    choose(page, model, pairs)
    settle(qtbot, page)
    page._options.form.set_values({"training.epochs": 9.0, "memory.batch_size": 3})
    assert not page._questions.model.is_waiting
    (asked,) = engine.looked_at()
    assert asked.asked["model"]["source"] == str(model)
    assert asked.labels == len(PAIRS.labels)


@pytest.mark.parametrize(
    "change",
    [
        ("model.method", "head"),
        ("model.attention", "eager"),
        ("memory.activation_checkpointing", True),
    ],
)
def test_it_is_asked_again_when_what_is_asked_of_it_changes(qtbot, page, engine, texts, change):
    path, value = change
    texts()
    settle(qtbot, page)
    before = len(engine.looked_at())
    page._options.form.set_values({path: value})
    settle(qtbot, page)
    assert len(engine.looked_at()) == before + 1
    section, name = path.split(".")
    assert engine.looked_at()[-1].asked[section][name] == value


def test_a_model_that_is_not_here_is_not_asked_about(qtbot, page, engine, texts, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/no/such/folder")
    settle(qtbot, page)
    engine.requests.clear()
    texts("org/tiny", **LORA)
    settle(qtbot, page)
    assert engine.looked_at() == []
    assert start_text(page) == "Start training"


def test_its_problems_stand_at_their_fields_and_stop_the_start(qtbot, page, engine, model, pairs):
    fix = Fix("All linear layers", {"model.lora_targets": []})
    problem = Problem("model.lora_targets", "no layer's name ends with q_proj", (fix,))
    engine.answers["check-model"] = msgspec.structs.replace(MODEL, problems=(problem,))
    choose(page, model, pairs, **LORA)
    settle(qtbot, page)
    assert page._options.form.row("model.lora_targets").problems == (problem,)
    assert start_text(page) == "Fix: LoRA targets"
    assert rows(page)["Trained"] == "LoRA, rank 16"  # no figures of what can't be
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
    engine.answers["check-model"] = MODEL
    page._options.form.set_values(fix.changes)
    settle(qtbot, page)
    assert start_text(page) == "Start training"


def test_a_start_waits_only_for_an_answer_that_may_refuse_it(qtbot, page, engine, model):
    settle(qtbot, page)
    engine.gate.clear()
    page._options.form.set_values({"model.pretrained": True})
    assert page._questions.model.is_waiting
    assert start_text(page) == "Start training"
    page._options.form.set_values({"model.method": "head"})
    assert start_text(page) == "Checking the model…"
    engine.gate.set()
    settle(qtbot, page)
    assert start_text(page) == "Start training"


@pytest.mark.parametrize(
    "failure", [EngineCrashed("check-model", -11, "Segmentation fault"), UserError("No answer in time")]
)
def test_an_engine_that_cant_tell_is_no_reason_not_to_train(qtbot, page, engine, texts, failure):
    engine.answers["check-model"] = failure
    texts(**LORA)
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    assert any("could not be checked" in text for text in warnings(page))


def test_a_model_that_sees_less_than_is_asked_for_says_so(qtbot, page, model, pairs):
    choose(page, model, pairs)
    settle(qtbot, page)
    row = page._options.form.row("data.max_length")
    assert row.hint == ""
    page._options.form.set_values({"data.max_length": 1024, "data.padding": "fixed"})
    assert "512 tokens" in row.hint
    assert rows(page)["Loading"].startswith("padded to 512 tokens")
    page._options.form.set_values({"model.source": ""})
    assert row.hint == ""


def test_a_value_that_cant_be_read_asks_nothing(qtbot, page, engine, model, pairs):
    choose(page, model, pairs, method="lora")
    settle(qtbot, page)
    before = len(engine.looked_at())
    page._options.form.field("model.lora_alpha").line.setText("many")
    settle(qtbot, page)
    assert len(engine.looked_at()) == before


def test_the_newest_question_wins_and_closing_leaves_no_thread(qtbot, engine):
    def of(source):
        return OptionsRequest(asked={"task": "text-classification", "model": {"source": source}})

    check = ModelCheck(engine)
    engine.gate.clear()
    check.set_request(of("first"))
    qtbot.waitUntil(lambda: len(engine.looked_at()) == 1)
    check.set_request(of("second"))
    assert check.report is None
    engine.gate.set()
    with qtbot.waitSignal(check.changed):
        pass
    assert check.report == MODEL
    assert [request.asked["model"]["source"] for request in engine.looked_at()] == ["first", "second"]
    engine.gate.clear()
    check.set_request(of("third"))
    qtbot.waitUntil(lambda: len(engine.looked_at()) == 3)
    check.close()
    assert not check.is_waiting
