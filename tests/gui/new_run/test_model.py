"""The model in the form: where it comes from, and what the engine reports about it."""

import msgspec
import pytest

from core.base.errors import Fix, Problem
from core.base.jobs import EngineCrashed
from core.memory.model import Room
from core.options.choices import Task
from core.options.packing import Packing
from gui.new_run import model_field
from gui.new_run.model_field import listed_models
from gui.widgets.inputs import SECOND_LINE
from tests.fakes.jobs import CPU_ONLY, PAIRS
from tests.fakes.model_shapes import BERT, MODEL
from tests.gui.new_run.steps import TEXTS, checks, load, put, row, rows, settle, start_text

LORA = {"method": "lora", "lora_targets": ["q_proj"]}


def test_a_model_is_chosen_where_it_comes_from_and_scratch_models_suit_the_task(page, model):
    load(page, source="scratch:bert-tiny")
    field = page.options.fields.model
    assert field.value() == "scratch:bert-tiny"
    assert row(page, "model.vocabulary").isVisible()
    assert not row(page, "model.pretrained").isVisible()
    field.place.buttons()["folder"].click()
    assert page.tree()["model"]["source"] == ""
    assert not row(page, "model.vocabulary").isVisible()
    put(page, model__source=str(model))
    assert field.value() == str(model)
    load(page, "causal-lm")
    assert [model for model in offered(field) if model.startswith("scratch:")] == [
        "scratch:llama-tiny",
        "scratch:llama-small",
        "scratch:llama-medium",
    ]


def offered(field):
    """The sources of the list of models, without headings."""
    sources = (field.models.itemData(index) for index in range(field.models.count()))
    return [source for source in sources if source]


@pytest.mark.parametrize("task", Task)
def test_the_list_has_about_five_pretrained_models_for_each_task_and_says_which_are_here(
    page, task, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    load(page, task.value)
    models = [model for model in listed_models(task, 1024) if model.megabytes]
    assert 4 <= len(models) <= 6
    field = page.options.fields.model
    assert {model.source for model in models} <= set(offered(field))
    if task.reads_text:
        chosen = models[0]
        assert not chosen.is_here
        for name in ("refs", "snapshots/abc"):
            (tmp_path / f"models--{chosen.source.replace('/', '--')}" / name).mkdir(parents=True)
        (repository := tmp_path / f"models--{chosen.source.replace('/', '--')}").joinpath(
            "refs/main"
        ).write_text("abc")
        (repository / "snapshots/abc/model.safetensors").touch()
        field.models.reload()
        assert offered(field)[0] == chosen.source, "what works offline comes first"


@pytest.mark.parametrize("task", [task for task in Task if task.reads_text])
def test_models_that_know_the_persons_language_come_first(task, monkeypatch):
    assert not listed_models(task, 1024)[0].is_multilingual
    monkeypatch.setattr(model_field, "LANGUAGE", "ko")
    first = listed_models(task, 1024)[0]
    assert first.is_multilingual
    assert "many languages" in first.facts()


@pytest.mark.parametrize(
    ("free", "badge"),
    [
        (64 << 30, ""),  # activations aren't known, so it isn't known to fit
        (12 << 30, "too large without LoRA"),
        (1 << 30, "too large, even with LoRA"),
    ],
)
def test_a_model_of_the_list_that_is_known_not_to_fit_says_so(page, memory, monkeypatch, free, badge):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    load(page, "chat", model={"method": "full"})
    page.set_machine(CPU_ONLY)
    memory.room.room = Room(free=free, ceiling=64 << 30)
    page.options.fields.model.models.reload()
    models = page.options.fields.model.models
    facts = models.itemData(models.findData("Qwen/Qwen2.5-1.5B-Instruct"), SECOND_LINE)
    assert facts.endswith(badge)
    assert badge or not {"fit", "large"} & set(facts.split())


def test_only_past_runs_that_suit_the_task_are_offered(qtbot, page, tmp_path):
    for name, task in (("wrote", "causal-lm"), ("saw", "image-classification")):
        folder = tmp_path / "home" / "runs" / name
        (folder / "model").mkdir(parents=True)
        (folder / "run.toml").write_text(f'schema = 1\ntask = "{task}"\n')
        for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            (folder / "model" / file).write_text("{}")
    load(page, "chat")
    runs = page.options.fields.model.runs
    runs.reload()
    assert [runs.itemText(index) for index in range(runs.count())] == ["wrote"]
    page.options.fields.model.place.buttons()["run"].click()
    runs.setCurrentIndex(0)
    runs.activated.emit(0)
    source = page.tree()["model"]["source"]
    assert (source.startswith("run:"), source.endswith("wrote")) == (True, True)
    page.questions.model.set_request(None)
    page._refresh()
    qtbot.waitUntil(lambda: "Model of the run “wrote”" in [one.text for one in page.outcome.checks.checks])


def test_the_engine_is_asked_once_for_each_model_and_what_matters_to_it(qtbot, page, engine, model, pairs):
    load(page, source=model, data=pairs, model={"method": "lora"})
    assert rows(page)["Trained"] == "LoRA, rank 16"
    settle(qtbot, page)
    assert rows(page)["Trained"] == "LoRA, rank 16 · 1,538 of 109 million"
    request = engine.looked_at()[-1]
    assert (request.asked["model"]["source"], request.labels) == (str(model), len(PAIRS.labels))
    count = len(engine.looked_at())
    put(page, training__epochs=9.0, memory__batch_size=3)
    assert not page.questions.model.is_waiting
    row(page, "model.lora_alpha").field.line.setText("many")  # can't be read
    settle(qtbot, page)
    assert len(engine.looked_at()) == count
    row(page, "model.lora_alpha").field.line.setText("16")
    for number, (path, value) in enumerate(
        (("model.method", "full"), ("model.attention", "eager"), ("memory.activation_checkpointing", True)), 1
    ):
        page.options.form.set_values({path: value})
        settle(qtbot, page)
        section, name = path.split(".")
        assert engine.looked_at()[-1].asked[section][name] == value
        assert len(engine.looked_at()) == count + number
    assert rows(page)["Trained"] == "all 109 million parameters"
    shape = msgspec.structs.replace(BERT, packed=((Packing(8, 64), 10),))
    engine.answers["check-model"] = msgspec.structs.replace(MODEL, shape=shape)
    page.options.form.set_values({"model.method": "qlora"})
    settle(qtbot, page)
    assert rows(page)["Trained"].startswith("QLoRA, rank 16, base weights in 8 bits")


def test_a_model_that_is_not_here_is_not_asked_about(qtbot, page, engine, pairs, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/no/such/folder")
    settle(qtbot, page)
    engine.requests.clear()
    load(page, source="org/tiny", data=pairs, model=LORA)
    settle(qtbot, page)
    assert engine.looked_at() == []
    assert start_text(page) == "Start training"


def test_its_problems_are_at_their_fields_and_prevent_the_start(qtbot, page, engine, model, pairs):
    fix = Fix("All linear layers", {"model.lora_targets": []})
    problem = Problem("model.lora_targets", "no layer's name ends with q_proj", (fix,))
    engine.answers["check-model"] = msgspec.structs.replace(MODEL, problems=(problem,))
    load(page, source=model, data=pairs, model=LORA)
    settle(qtbot, page)
    assert row(page, "model.lora_targets").problems == (problem,)
    assert start_text(page) == "Fix “LoRA targets”"
    assert rows(page)["Trained"] == "LoRA, rank 16"
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
    engine.answers["check-model"] = MODEL
    page.options.form.set_values(fix.changes)
    settle(qtbot, page)
    assert start_text(page) == "Start training"


def test_a_start_waits_only_for_an_answer_that_may_refuse_it(qtbot, page, engine):
    settle(qtbot, page)
    engine.gate.clear()
    put(page, model__pretrained=True)
    assert page.questions.model.is_waiting
    assert start_text(page) == "Start training"
    put(page, model__method="head")
    assert start_text(page) == "Start once the model is checked"
    engine.gate.set()
    settle(qtbot, page)
    assert start_text(page) == "Start training"


def test_a_check_that_fails_does_not_prevent_training(qtbot, page, engine, model, pairs):
    engine.answers["check-model"] = EngineCrashed("check-model", -11, "Segmentation fault")
    load(page, source=model, data=pairs, model=LORA)
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    assert ("warning", "") in checks(page)


def test_a_context_shorter_than_the_longest_text_is_named(qtbot, page, model, pairs):
    load(page, TEXTS, model, pairs)
    settle(qtbot, page)
    length = row(page, "data.max_length")
    assert length.hint == ""
    put(page, data__max_length=1024, data__padding="fixed")
    assert "512 tokens" in length.hint
    assert rows(page)["Loading"].startswith("padded to 512 tokens")
    put(page, model__source="")
    assert length.hint == ""


def test_an_answer_about_the_same_model_and_method_is_kept(qtbot, page, engine, model, pairs):
    load(page, source=model, data=pairs, model=LORA)
    settle(qtbot, page)
    put(page, model__method="full")
    settle(qtbot, page)
    engine.requests.clear()
    put(page, model__method="lora", model__lora_alpha=3.0, training__learning_rate=0.5)
    assert page.questions.model.report is not None
    settle(qtbot, page)
    assert engine.looked_at() == []
