"""The New run page: from the form to a run that can start, run files, tasks, presets and imports."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed
from core.base.settings import Appearance
from core.jobs.inspect import DataReport
from core.options import RENAMED, presets, run_file
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.declare import OptionKind
from core.options.device_support import DeviceReport, MachineReport
from core.options.importing import import_text
from core.options.presets import RESOURCES, find_example, find_preset
from core.options.sources import ANOTHER_MODEL
from core.sharing.script import LEFT_TO_HONE
from gui.base.theme import Theme
from gui.new_run.page import NewRunPage
from gui.new_run.state import all_problems, check_form
from gui.widgets.layout import tab_stops
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import CPU_ONLY, PAIRS, FakeEngine
from tests.fakes.memory import FakeMemory
from tests.fakes.on_screen import press
from tests.gui.new_run.steps import (
    TEXTS,
    await_reading,
    checks,
    drop,
    load,
    put,
    row,
    settle,
    start_text,
)


def test_it_opens_ready_and_its_button_names_what_is_missing_without_moving(qtbot, page, model, pairs):
    assert start_text(page) == "Start training"
    with qtbot.waitSignal(page.start_requested) as caught:
        page.start()
    assert caught.args[0].data.train == "builtin:digits"
    page.resize(1024, 700)
    button = page.outcome.start
    qtbot.waitUntil(lambda: button.mapTo(page, button.rect().topLeft()).y() > 600)
    place = button.mapTo(page, button.rect().topLeft())
    load(page, source="")
    assert start_text(page) == "Choose a model to start from"
    load(page, source=model, data="")
    assert start_text(page) == "Choose the data to train on"
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
    load(page, source=model, data=pairs)
    assert start_text(page) == "Start once the data is read"
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    qtbot.wait(0)
    assert button.mapTo(page, button.rect().topLeft()) == place


def test_the_guide_calls_the_button_of_each_first_run_by_its_name(qtbot, page, engine):
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "first-run.md").read_text(encoding="utf-8")
    (line,) = (line for line in guide.splitlines() if line.startswith("2. Press "))
    shown = {}
    page.set_machine(CPU_ONLY)
    for name in ("digits", "messages", "chat"):
        example = find_example(name)
        report = report_for(Task(example.tree["task"]), example.tree["data"]["train"])
        engine.answers["inspect"] = replace(report, findings=())
        page.load_example(example)
        await_reading(qtbot, page)
        settle(qtbot, page)
        shown[start_text(page)] = name
    assert re.findall(r"\*\*(.+?)\*\*", line) == list(shown)


def test_little_of_it_is_styled_before_it_is_shown(qtbot):
    """What is styled earlier is styled anew whenever it, or what it is in, gets a parent."""
    page = NewRunPage(Theme(Appearance.LIGHT), FakeEngine(), FakeMemory().tools)
    qtbot.addWidget(page)
    parts = page.findChildren(QWidget)
    styled = [part for part in parts if part.testAttribute(Qt.WidgetAttribute.WA_WState_Polished)]
    assert len(styled) < len(parts) / 5
    page.end_work()


def test_numbers_that_hone_chooses_say_so(page):
    options = [options_by_path()[path] for path in LEFT_TO_HONE]
    numbers = [option.path for option in options if option.kind is OptionKind.WHOLE]
    assert len(numbers) == 3
    for path in numbers:
        assert row(page, path).field.control.text().startswith("Automatic"), path


def test_problems_of_the_data_are_at_their_fields_with_remedies(qtbot, page, engine, model, pairs):
    fix = Fix("Use same", {"data.label_column": "same"})
    problem = Problem("data.label_column", "there is no column Same", (fix,))
    engine.answers["inspect"] = DataReport(
        source="x", format="TSV", rows=3, columns=PAIRS.columns, label_column="Same", problems=(problem,)
    )
    load(page, source=model, data=pairs)
    settle(qtbot, page)
    assert row(page, "data.label_column").problems == (problem,)
    assert start_text(page) == "Fix “Label column”"
    engine.answers["inspect"] = PAIRS
    press(row(page, "data.label_column"), fix.label)
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    engine.answers["inspect"] = UserError("pairs.tsv is empty", "It holds a header only.")
    page.reading.read_again()
    settle(qtbot, page)
    assert row(page, "data.train").problems[0].message == "pairs.tsv is empty"
    assert page.options.data.line.text.text() == "It holds a header only."
    assert start_text(page) == "Fix “Training data”"
    engine.answers["inspect"] = EngineCrashed("inspect", -11, "Segmentation fault")
    page.reading.read_again()
    settle(qtbot, page)
    assert start_text(page) == "Start training", "a fault of the engine is no reason not to train"
    assert ("warning", "") in checks(page)


def test_all_problems_are_listed_at_once_and_lead_to_their_fields(qtbot, page, model):
    load(page, source=model, data="/nowhere/at/all.csv")
    put(page, training__learning_rate=20.0, training__weight_decay=3.0)
    listed = {path for level, path in checks(page) if level == "error"}
    assert listed == {"data.train", "training.learning_rate", "training.weight_decay"}
    assert start_text(page) == "Fix 3 problems to start"
    page.outcome.checks.path_chosen.emit("training.weight_decay")
    control, viewport = row(page, "training.weight_decay").field.control, page.scroll_area.viewport()
    assert control.isVisible()  # it was behind "More"
    qtbot.waitUntil(lambda: viewport.rect().contains(control.mapTo(viewport, control.rect().center())))
    assert page.focusWidget() is control


def test_only_unreadable_values_are_replaced_by_defaults_and_each_problem_is_listed_once():
    device, training = (
        {"name": "cpu", "precision": "fp16"},
        {"epochs": "many", "learning_rate": 20.0, "seed": 7},
    )
    checked = check_form({"task": TEXTS, "model": {"source": ""}, "device": device, "training": training})
    options = checked.readable
    assert checked.options is None
    assert checked.unreadable == {"training.epochs", "training.learning_rate"}
    assert options.device.precision == "fp16"  # doesn't go with the CPU, but can be read
    assert (options.training.epochs, options.training.learning_rate, options.training.seed) == (3.0, 5e-5, 7)
    order = (
        *("model.source", "data.train", "device.precision"),
        *("training.epochs", "training.learning_rate"),
    )
    assert tuple(problem.path for problem in all_problems(checked, (), CPU_ONLY, order)) == order


def test_a_warm_up_longer_than_the_run_and_a_batch_larger_than_the_data(qtbot, page):
    settle(qtbot, page)  # the digits: some 225 steps
    put(page, training__warmup=5000.0)
    assert start_text(page) == "Fix “Warm-up”"
    (problem,) = row(page, "training.warmup").problems
    put(page, training__epochs=5000.0)
    assert start_text(page) == "Start training"
    put(page, training__epochs=1.0)
    page.options.form.set_values(problem.fixes[0].changes)
    assert start_text(page) == "Start training"
    put(page, memory__batch_size=4096)
    (advice,) = row(page, "memory.batch_size").advice
    assert start_text(page) == "Start training"
    page.options.form.set_values(advice.fixes[0].changes)
    assert row(page, "memory.batch_size").advice == ()


def test_a_machine_without_a_gpu(qtbot, page):
    page.set_machine(CPU_ONLY)
    buttons = page.options.fields.device.segmented.buttons()
    assert not buttons["mps"].isEnabled()
    assert buttons["mps"].toolTip() == "MPS is the GPU of Apple computers."
    why = row(page, "device.name").refusals
    assert why.summary == "Not available here: CUDA · MPS"
    assert why.details == ("No NVIDIA driver was found.", "MPS is the GPU of Apple computers.")
    precision = row(page, "device.precision")
    assert precision.hint == "Automatic: fp32, this CPU has no bf16 hardware"
    put(page, device__precision="bf16")
    assert precision.hint == ""
    assert len(precision.advice) == 1
    assert ("warning", "device.precision") in checks(page)
    assert start_text(page) == "Start training"
    page.load_tree({**page.tree(), "device": {"name": "mps"}})
    assert start_text(page) == "Fix “Device”"
    put(page, device__name="cpu")
    with qtbot.waitSignal(page.check_requested) as caught:
        press(page.options, "Check this device…")
    assert caught.args == ["cpu"]


def test_another_device_refuses_other_choices(page):
    refusals = {"model.method": {"qlora": "has no MPS kernels"}}
    mps = DeviceReport(name="mps", title="GPU", available=True, refusals=refusals)
    cpu = DeviceReport(name="cpu", title="CPU", available=True)
    page.set_machine(MachineReport(devices=(mps, cpu), automatic="mps"))
    button = row(page, "model.method").field.segmented.buttons()["qlora"]
    for name, is_offered in (("auto", False), ("cpu", True), ("mps", False)):
        page.options.fields.device.segmented.buttons()[name].click()
        assert button.isEnabled() == is_offered
        assert bool(row(page, "model.method").refusals.summary) != is_offered


def test_tab_goes_down_the_rows_also_below_more(qtbot, page, model, pairs):
    load(page, source=model, data=pairs, model={"method": "lora"})
    for card in page.options.cards:
        card.open()
    form = page.options.form
    controls = [form.field(path).control for path in form.paths if form.applies(options_by_path()[path])]
    order = [stop for stop in tab_stops(page) if stop in controls]
    assert order == [control for control in controls if control in order]
    assert len(order) > 30

    def heights() -> list[int]:
        return [control.mapTo(page.options, control.rect().topLeft()).y() for control in order]

    qtbot.waitUntil(lambda: heights() == sorted(heights()))  # texts that wrap make layouts go round twice


def test_a_run_file_is_opened_and_saved_unchanged(page, tmp_path, model, pairs):
    written, saved = tmp_path / "mine.hone", tmp_path / "saved.hone"
    written.write_text(
        f'schema = 1\ntask = "{TEXTS}"\n[model]\nsource = "{model.as_posix()}"\n'
        f'[data]\ntrain = "{pairs.as_posix()}"\ntext_columns = ["first"]\nlabel_column = "same"\n'
        "[training]\nepochs = 1\nlearning_rate = 3e-5\n"
    )
    page.load_file(written)
    page._save(saved)
    assert run_file.read(saved) == run_file.read(written)
    page.load_example(find_example("mrpc"))
    assert page.tree()["data"]["train"] == ""
    assert start_text(page) == "Choose the data to train on", "its files are the person's own"


def test_a_run_file_that_calls_its_task_by_its_title_is_opened(page, tmp_path):
    file = tmp_path / "writer.hone"
    file.write_text('task = "text-generation"\n[model]\nsource = "scratch:llama-tiny"\n')
    page.load_file(file)
    assert page.options.form.task is Task.CAUSAL_LM


def test_a_run_file_with_names_of_earlier_versions_is_opened_and_they_are_told(page, tmp_path, monkeypatch):
    monkeypatch.setitem(RENAMED, "training.passes", "training.epochs")
    file = tmp_path / "old.hone"
    file.write_text(f'task = "{TEXTS}"\n[training]\npasses = 7\n')
    page.load_file(file)
    assert page.tree()["training"]["epochs"] == 7
    said = " ".join(label.text() for label in page.strip.findChildren(QLabel))
    assert "training.passes is training.epochs here" in said


@pytest.mark.parametrize(
    ("text", "is_opened"),
    [
        ("this is = = no TOML", False),
        (f'task = "{TEXTS}"\n[memory]\nbatch = 3\n', True),
        (f'task = "{TEXTS}"\n[memory]\nbatch_size = 0\n', True),
    ],
)
def test_problems_of_a_run_file_are_shown_and_opening_it_can_be_undone(page, tmp_path, text, is_opened):
    put(page, training__epochs=9.0)
    before, path = page.tree(), tmp_path / "wrong.hone"
    path.write_text(text)
    page.load_file(path)
    assert page.strip.isVisible()
    assert (page.tree()["task"] == TEXTS) == is_opened
    if is_opened:
        page.strip.dismiss()  # it is newer
        press(page.changes, "Undo")
    assert page.tree() == before


def choose_task(page, task):
    tasks = page.header.tasks.choices
    tasks.setCurrentIndex(tasks.findData(str(task)))
    tasks.activated.emit(tasks.currentIndex())


def test_another_task_keeps_the_device_and_going_back_at_once_finds_the_first_as_it_was(page):
    put(page, memory__batch_size=7, device__name="cpu")
    choose_task(page, TEXTS)
    tree = page.tree()
    assert (tree["task"], tree["device"]["name"], tree["training"]["learning_rate"]) == (TEXTS, "cpu", 2e-5)
    choose_task(page, Task.IMAGE_CLASSIFICATION)
    tree = page.tree()
    assert (tree["memory"]["batch_size"], tree["model"]["source"]) == (7, "torchvision:resnet18")


def test_another_task_keeps_model_and_data_and_brings_back_none_of_earlier(
    page, answers, talks, pairs, model
):
    load(page, "chat", "some/old-model", talks)
    page.replace_tree(
        {"task": "causal-lm", "model": {"source": str(model)}, "data": {"train": str(pairs)}},
        "New run",
        "past run",
    )
    choose_task(page, Task.CHAT)
    assert (page.tree()["data"]["train"], page.tree()["model"]["source"]) == (str(pairs), str(model))


@pytest.mark.parametrize(
    ("source", "task", "then"),
    [
        ("scratch:bert-mini", Task.CAUSAL_LM, "scratch:llama-small"),
        ("scratch:bert-mini", Task.TOKEN_CLASSIFICATION, "scratch:bert-mini"),
        ("scratch:bert-mini", Task.PREFERENCE, ""),
        ("google-bert/bert-base-cased", Task.CHAT, "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ],
)
def test_a_model_that_another_task_refuses_gives_way_and_undo_brings_it_back(page, source, task, then):
    load(page, source=source)
    choose_task(page, task)
    assert page.options.form.value("model.source") == then
    page.stack.undo()
    assert page.options.form.value("model.source") == source


def test_another_task_by_a_fix_keeps_the_model_unless_one_is_for_texts_and_one_for_images(
    page, answers, talks
):
    load(page, "causal-lm", "scratch:llama-small")
    drop(page, talks)
    press(page.offer, "Change to “Chat”")
    assert page.tree()["model"]["source"] == "scratch:llama-small"
    assert page.focusWidget() is row(page, "data.train").field.control, "the focus stays in the form"
    page.header.task_chosen.emit(Task.CAUSAL_LM)
    page.remedies.propose_task()
    assert not page.offer.isVisible(), "the task that was just left is not offered again"
    load(page, source="some/bert")
    put(page, data__train="builtin:digits")
    page.remedies.propose_task()
    press(page.offer, "Change to “Image classification”")
    assert page.tree()["model"]["source"].startswith("torchvision:")


def test_a_chat_model_from_scratch_is_pretrained_first(qtbot, page, answers, talks):
    load(page, "chat", "scratch:llama-tiny", talks, model={"method": "lora"})
    await_reading(qtbot, page)
    before = page.tree()["training"]
    press(row(page, "model.method"), "Train all weights")
    assert page.tree()["training"] == before, "the rate and the epochs stay"
    checked = check_form(page.tree())
    assert (checked.readable.pretrains, checked.problems) == (True, ())


def changes(page):
    return {change.name: (change.before, change.after) for change in page.changes.changes}


def test_a_preset_is_applied_listed_and_undone(page):
    put(page, model__pretrained=True)
    before, preset = page.tree(), find_preset("fits-in-8-gb")
    page.apply_preset(preset)
    assert page.tree()["model"]["method"] == "lora"
    assert changes(page)[options_by_path()["model.method"].title] == ("Full", "LoRA")
    assert page.changes.isVisible()
    put(page, training__seed=7)
    press(page.changes, "Undo")
    assert page.changes.isHidden()
    assert page.tree() == {**before, "training": {**before["training"], "seed": 7}}
    page.stack.undo()
    assert page.tree()["model"]["method"] == "lora"
    page.apply_preset(preset)
    page.apply_preset(preset)
    assert changes(page) == {}


def test_a_message_about_one_option_goes_once_that_is_changed_by_hand(page):
    page.history.change("Stop after 50 steps", "", {"training.max_steps": 50})
    put(page, training__seed=7)
    assert page.changes.isVisible()
    put(page, training__max_steps=120)
    assert page.changes.isHidden()


def test_a_preset_of_another_task_changes_the_task_and_undo_returns(page):
    put(page, memory__batch_size=7, device__precision="bf16")
    images, preset = page.tree(), find_preset("published-guide")
    page.apply_preset(preset)
    assert presets.changes(page.tree(), preset.tree) == {}
    assert changes(page)["Task"] == ("Image classification", "Text classification")
    assert changes(page)["Batch size"] == ("7", "32")
    press(page.changes, "Undo")
    assert page.tree() == images


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("scratch:bert-mini", "BERT mini"),
        ("google-bert/bert-base-cased", "BERT"),
        ("run:/no/runs/2026-11-23-1116-first", "of the run “2026-11-23-1116-first”"),
    ],
)
def test_the_options_of_a_run_are_listed_in_words_and_its_start_leaves_them_for_a_next_one(
    page, answers, pairs, source, words
):
    data = {"train": str(pairs)}
    page.open_run({"task": TEXTS, "model": {"source": source}, "data": data, "output": {"name": "Reviews"}})
    assert words in {change.after for change in page.changes.changes}
    put(page, output__name="Reviews 2")
    page.begin_next("Reviews 2")
    assert page.tree()["output"].get("name") is None
    assert page.tree()["model"]["source"] == source


CHANGES = {
    "an example": lambda page, path: page.load_example(find_example("mrpc")),
    "a preset": lambda page, path: page.apply_preset(find_preset("published-guide")),
    "a run file": lambda page, path: page.load_file(RESOURCES / "examples" / "mrpc.hone"),
    "a remedy": lambda page, path: page.remedies.apply(
        Fix("Use it", {"task": "chat", "data.train": str(path)})
    ),
    "another task": lambda page, path: choose_task(page, TEXTS),
    "the options of a run": lambda page, path: page.replace_tree(
        {"task": "chat", "training": {"epochs": 2.0}}, "Run", "past run"
    ),
    "dropped data": drop,
    "data from outside": lambda page, path: page.set_data(path),
    "a reset": lambda page, path: page.start_afresh(),
    "a script": lambda page, path: page.history.import_options(import_text("--learning_rate 3e-5")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_whatever_changes_the_form_is_undone_and_done_again(page, pairs, change):
    form = page.options.form
    put(page, memory__batch_size=7)
    before, changed = page.tree(), form.changed_from()
    change(page, pairs)
    after, changed_after = page.tree(), form.changed_from()
    assert after != before
    page.stack.undo()
    assert (page.tree(), page.header.tasks.choices.currentData()) == (before, before["task"])
    assert form.changed_from() == changed
    page.stack.redo()
    assert (page.tree(), form.changed_from()) == (after, changed_after)
    page.stack.undo()
    page.stack.undo()
    assert page.tree()["memory"]["batch_size"] == 32


def test_an_imported_script_is_laid_over_the_form(qtbot, page, model, pairs):
    load(page, source=model, data=pairs)
    await_reading(qtbot, page)
    arguments = "--learning_rate 3e-5 --use_lora --per_device_train_batch_size 4"
    page.history.import_options(import_text(arguments))
    tree = page.tree()
    assert (tree["task"], tree["training"]["learning_rate"]) == (TEXTS, 3e-5)
    assert (tree["memory"]["batch_size"], tree["model"]["method"]) == (4, "lora")
    assert page.changes.isVisible()
    page.history.import_options(import_text("--train_file other.tsv --text_columns one,two"))
    assert page.tree()["data"]["text_columns"] == ["one", "two"], "they came with the other data"


def test_the_menu_offers_every_preset_and_example(qtbot, page):
    buttons = {button.text(): button for button in page.header.findChildren(QPushButton)}
    examples = {action.text(): action for action in buttons["Examples"].menu().actions()}
    assert {preset.title for preset in presets.presets()} <= set(examples)
    for action, signal in (
        (examples["Fastest"], page.header.preset_chosen),
        (examples["Recognize handwritten digits"], page.header.example_chosen),
    ):
        with qtbot.waitSignal(signal):
            action.trigger()


def test_own_data_in_place_of_an_example_begins_with_usual_values_and_undo_brings_back_the_examples(
    qtbot, page, engine, model, pairs
):
    page.load_example(find_example("messages"))
    settle(qtbot, page)
    subtitle = page.header.subtitle.text()
    put(page, model__source=str(model))
    assert page.header.subtitle.text() != subtitle
    assert row(page, "model.vocabulary").problems == ()
    assert "vocabulary" not in page.tree()["model"]
    put(page, data__train=str(pairs))
    await_reading(qtbot, page)
    assert not page.tree()["output"].get("name")
    assert page.tree()["training"]["epochs"] == 3
    assert "Epochs: 10 → 3" in page.changes.note.lines
    press(page.changes, "Undo")
    assert page.tree()["training"]["epochs"] == 10
    put(page, data__train=str(pairs.with_name("others.tsv")))
    settle(qtbot, page)
    assert page.tree()["training"]["epochs"] == 10, "the person has answered"


@pytest.mark.parametrize("vocabulary", [None, 4096])
def test_own_data_with_the_examples_model_has_usual_values_that_are_not_warned_about(
    qtbot, page, engine, talks, vocabulary
):
    report = replace(report_for(Task.CHAT, str(talks)), vocabulary=vocabulary)
    engine.answers["inspect"] = report
    page.load_example(find_example("chat"))
    settle(qtbot, page)
    put(page, data__train=str(talks), training__warmup=0.2)
    await_reading(qtbot, page)
    assert not page.tree()["output"].get("prompts")
    tree = page.tree()
    training = tree["training"]
    assert (training["learning_rate"], training["epochs"], training["warmup"]) == (1e-3, 10, 0.2)
    assert (tree["data"]["max_length"], tree["model"].get("vocabulary", 1024)) == (1024, vocabulary or 1024)
    assert page.options.form.row("training.learning_rate").advice == ()


def test_an_untouched_learning_rate_follows_model_and_method(page, model):
    load(page, "causal-lm", model)
    assert page.tree()["training"]["learning_rate"] == 5e-5
    for change, rate in (({"model__source": "scratch:llama-small"}, 1e-3), ({"model__source": str(model)}, 5e-5),
                         ({"model__method": "lora"}, 2e-4)):  # fmt: skip
        put(page, **change)
        assert page.tree()["training"]["learning_rate"] == rate
        assert "training.learning_rate" not in page.options.form.changed_from()
    put(page, training__learning_rate=3e-4)
    put(page, model__method="full")
    assert page.tree()["training"]["learning_rate"] == 3e-4


def test_the_learning_rate_of_an_example_gives_way_to_that_of_another_kind_of_model(page, model):
    page.load_example(find_example("chat"))
    assert page.tree()["training"]["learning_rate"] == 2e-3
    put(page, model__source="scratch:llama-medium")
    assert page.tree()["training"]["learning_rate"] == 2e-3
    put(page, model__source=str(model))
    assert page.tree()["training"]["learning_rate"] == 2e-5


def test_a_run_that_asks_for_another_model_opens_at_the_model(page, model):
    load(page, "causal-lm", model)
    page.open_run({**page.tree(), "model": {"source": ANOTHER_MODEL.changes["model.source"]}})
    assert page.focusWidget() is row(page, "model.source").field.control


MANY = replace(
    PAIRS, rows=20_000, train_rows=18_000, eval_rows=2000, labels={"0": 9000, "1": 9000}, first_labels=2
)
QUICK = {
    "enough": (MANY, {}, True),
    "limited already": (replace(MANY, train_rows=1200), {}, False),
    "hardly less": (replace(MANY, rows=2000, train_rows=1800, eval_rows=200), {}, False),
    "sorted by label": (replace(MANY, first_labels=1), {}, False),
    "only evaluated": (MANY, {"epochs": 0.0}, False),
    "a long warm-up": (MANY, {"warmup": 900.0, "epochs": 3.0}, False),
}


@pytest.mark.parametrize("case", QUICK.values(), ids=QUICK)
def test_a_quick_try_is_offered_where_it_is_one_and_leaves_the_form(qtbot, page, engine, pairs, case):
    report, training, is_offered = case
    engine.answers["inspect"] = replace(report, source=str(pairs))
    load(page, source="scratch:bert-mini", data=pairs, training=training)
    settle(qtbot, page)
    quick, before = page.outcome.quick, page.tree()
    assert quick.isVisibleTo(page) == is_offered
    if is_offered:
        with qtbot.waitSignal(page.quick_try_requested) as asked:
            quick.click()
        (options,) = asked.args
        assert options.data.max_train_samples == 1000
        assert options.output.name.endswith(" on pairs, quick try")
        assert page.tree() == before
