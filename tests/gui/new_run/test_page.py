"""The New run page: from the form to a run that can start, run files, tasks, presets and imports."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed
from core.options import run_file
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport
from core.options.importing import import_text
from core.options.presets import differences, find_preset, presets
from core.services.inspect import DataReport
from gui.new_run.header import MRPC
from gui.new_run.state import all_problems, check_form
from tests.fakes.jobs import CPU_ONLY, PAIRS
from tests.gui.new_run.steps import TEXTS, checks, drop, load, press, put, row, rows, settle, start_text


def test_it_opens_with_the_first_run_ready(qtbot, page):
    assert start_text(page) == "Start training"
    with qtbot.waitSignal(page.start_requested) as caught:
        page.start()
    assert (caught.args[0].output.name, caught.args[0].data.train) == ("Handwritten digits", "builtin:digits")


def test_the_button_names_what_is_missing_and_stays_where_it_is(qtbot, page, model, pairs):
    page.resize(1024, 700)
    button = page._outcome.start
    qtbot.waitUntil(lambda: button.mapTo(page, button.rect().topLeft()).y() > 600)
    place = button.mapTo(page, button.rect().topLeft())
    load(page, source="")
    assert start_text(page) == "Choose a model to start from"
    load(page, source=model, data="")
    assert start_text(page) == "Choose the data to train on"
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
    load(page, source=model, data=pairs)
    assert start_text(page) == "Reading the data…"
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    qtbot.wait(0)
    assert button.mapTo(page, button.rect().topLeft()) == place


def test_columns_are_filled_with_what_the_data_holds(qtbot, page, engine, model, pairs):
    load(page, source=model, data=pairs)
    settle(qtbot, page)
    data = page.tree()["data"]
    assert (data["text_columns"], data["label_column"]) == (["first", "second"], "same")
    asked = [one for one in engine.inspected() if one.source == str(pairs)]
    assert len(asked) == 1  # taking over a guess asks nothing new


def test_problems_of_the_data_stand_at_their_fields_with_remedies(qtbot, page, engine, model, pairs):
    fix = Fix("Use same", {"data.label_column": "same"})
    problem = Problem("data.label_column", "there is no column Same", (fix,))
    engine.answers["inspect"] = DataReport(
        source="x", format="TSV", rows=3, columns=PAIRS.columns, label_column="Same", problems=(problem,)
    )
    load(page, source=model, data=pairs)
    settle(qtbot, page)
    assert row(page, "data.label_column").problems == (problem,)
    assert start_text(page) == "Fix: Label column"
    engine.answers["inspect"] = PAIRS
    press(row(page, "data.label_column"), "Use same")
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    engine.answers["inspect"] = UserError("pairs.tsv is empty", "It holds a header only.")
    page._reading.read_again()
    settle(qtbot, page)
    assert row(page, "data.train").problems[0].message == "pairs.tsv is empty. It holds a header only"
    assert start_text(page) == "Fix: Training data"


def test_an_engine_that_breaks_over_the_data_is_no_reason_not_to_train(qtbot, page, engine, model, pairs):
    engine.answers["inspect"] = EngineCrashed("inspect", -11, "Segmentation fault")
    load(page, source=model, data=pairs)
    settle(qtbot, page)
    assert start_text(page) == "Start training"
    assert ("warning", "") in checks(page)


def test_all_problems_are_listed_at_once_and_lead_to_their_fields(qtbot, page, model):
    load(page, source=model, data="/nowhere/at/all.csv")
    put(page, training__learning_rate=20.0, training__weight_decay=3.0)
    listed = {path for level, path in checks(page) if level == "error"}
    assert listed == {"data.train", "training.learning_rate", "training.weight_decay"}
    assert start_text(page) == "3 problems to fix"
    page._outcome.checks.path_chosen.emit("training.weight_decay")
    control, viewport = row(page, "training.weight_decay").field.control, page._scroll.viewport()
    assert control.isVisible()  # it was behind "More"
    qtbot.waitUntil(lambda: viewport.rect().contains(control.mapTo(viewport, control.rect().center())))
    assert page.focusWidget() is control


def test_only_what_cant_be_read_is_replaced_by_its_default():
    tree = {
        "task": TEXTS,
        "device": {"name": "cpu", "precision": "fp16"},
        "training": {"epochs": "many", "learning_rate": 20.0, "seed": 7},
    }
    checked = check_form(tree)
    options = checked.readable
    assert checked.options is None
    assert checked.unreadable == {"training.epochs", "training.learning_rate"}
    assert options.device.precision == "fp16"  # doesn't go with the CPU, but can be read
    assert (options.training.epochs, options.training.learning_rate, options.training.seed) == (3.0, 5e-5, 7)
    assert tree["training"]["epochs"] == "many"


def test_problems_stand_in_the_order_of_the_form_and_only_once():
    tree = {
        "task": TEXTS,
        "model": {"source": ""},
        "data": {"train": "builtin:digits"},
        "device": {"name": "cpu", "precision": "fp16"},
        "training": {"epochs": "many"},
    }
    order = ("model.source", "data.train", "device.precision", "training.epochs")
    found = all_problems(check_form(tree), (), CPU_ONLY, order)
    assert tuple(problem.path for problem in found) == order


def test_the_summary_follows_the_form_while_it_has_problems(qtbot, page):
    page.load_tree({**page.tree(), "model": {"source": ""}, "memory": {"batch_size": 24}})
    row(page, "training.epochs").field.line.setText("many")
    put(page, data__train="/no/such/pictures")
    assert (rows(page)["Steps"], rows(page)["Batch"], rows(page)["Data"]) == (
        "–",
        "24 × 1 = 24 examples",
        "pictures",
    )
    put(page, data__train="")
    assert rows(page)["Data"] == "choose the data"
    control = row(page, "memory.batch_size").field.control
    control.selectAll()
    qtbot.keyClicks(control, "0")
    assert page.tree()["memory"]["batch_size"] == 0
    assert rows(page)["Batch"] == "–"


def test_a_warm_up_longer_than_the_run_is_told_before_the_start(qtbot, page):
    settle(qtbot, page)  # the digits: some 225 steps
    put(page, training__warmup=5000.0)
    assert start_text(page) == "Fix: Warm-up"
    (problem,) = row(page, "training.warmup").problems
    put(page, training__epochs=5000.0)
    assert start_text(page) == "Start training"
    put(page, training__epochs=1.0)
    page._options.form.set_values(problem.fixes[0].changes)
    assert start_text(page) == "Start training"
    put(page, training__warmup=50.0, training__max_steps=10)
    assert len(row(page, "training.warmup").problems) == 1


def test_a_batch_larger_than_the_data_is_worth_a_word_but_no_problem(qtbot, page):
    settle(qtbot, page)
    put(page, memory__batch_size=4096)
    (advice,) = row(page, "memory.batch_size").advice
    assert start_text(page) == "Start training"
    page._options.form.set_values(advice.fixes[0].changes)
    assert row(page, "memory.batch_size").advice == ()


class TestMachine:
    def test_what_it_refuses_is_greyed_and_a_choice_of_it_a_problem(self, page):
        page.set_machine(CPU_ONLY)
        buttons = page._options.fields.device.segmented.buttons()
        assert not buttons["mps"].isEnabled()
        assert buttons["mps"].toolTip() == "MPS is the GPU of Apple computers."
        why = row(page, "device.name").refusals
        assert why.summary == "Not available here: CUDA · MPS"
        assert why.details == ("No NVIDIA driver was found.", "MPS is the GPU of Apple computers.")
        page.load_tree({**page.tree(), "device": {"name": "mps"}})
        assert start_text(page) == "Fix: Device"

    def test_a_change_of_device_greys_other_choices(self, page):
        def device(name, refusals):
            return DeviceReport(name=name, title=name, available=True, refusals={"model.method": refusals})

        devices = (device("mps", {"qlora": "has no MPS kernels"}), device("cpu", {}))
        page.set_machine(MachineReport(devices=devices, automatic="mps"))
        button = row(page, "model.method").field.segmented.buttons()["qlora"]
        assert not button.isEnabled()
        page._options.fields.device.segmented.buttons()["cpu"].click()
        assert button.isEnabled()
        assert row(page, "model.method").refusals.summary == ""
        put(page, device__name="auto")
        assert not button.isEnabled()

    def test_what_automatic_comes_to_and_what_is_worth_knowing_stand_at_the_option(self, page):
        page.set_machine(CPU_ONLY)
        precision = row(page, "device.precision")
        assert precision.hint == "Automatic: fp32, this CPU has no bf16 hardware"
        precision.field.segmented.buttons()["bf16"].click()
        assert precision.hint == ""
        assert len(precision.advice) == 1
        assert ("warning", "device.precision") in checks(page)
        assert start_text(page) == "Start training"

    def test_the_device_that_is_chosen_is_the_one_to_check(self, qtbot, page):
        put(page, device__name="cpu")
        with qtbot.waitSignal(page.check_requested) as caught:
            press(page._options, "Check this device…")
        assert caught.args == ["cpu"]


def test_tab_goes_down_the_rows_also_below_more(qtbot, page, model, pairs):
    load(page, source=model, data=pairs, model={"method": "lora"})
    page._options.open_more()
    form = page._options.form
    controls = [form.field(path).control for path in form.paths if form.applies(options_by_path()[path])]
    widget, order = page, []
    while (widget := widget.nextInFocusChain()) is not page:
        if widget in controls and widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            order.append(widget)
    assert order == [control for control in controls if control in order]
    assert len(order) > 30

    def heights() -> list[int]:
        return [control.mapTo(page._options, control.rect().topLeft()).y() for control in order]

    qtbot.waitUntil(lambda: heights() == sorted(heights()))  # texts that wrap make layouts go round twice


class TestRunFiles:
    def test_one_goes_in_and_out_unchanged(self, page, tmp_path, model, pairs):
        written, saved = tmp_path / "mine.hone", tmp_path / "saved.hone"
        written.write_text(
            f'schema = 1\ntask = "{TEXTS}"\n[model]\nsource = "{model.as_posix()}"\n'
            f'[data]\ntrain = "{pairs.as_posix()}"\ntext_columns = ["first"]\nlabel_column = "same"\n'
            "[training]\nepochs = 1\nlearning_rate = 3e-5\n"
        )
        page.load_file(written)
        page._save(saved)
        assert run_file.read(saved) == run_file.read(written)

    def test_a_damaged_one_is_told_and_changes_nothing(self, page, tmp_path):
        before, path = page.tree(), tmp_path / "damaged.hone"
        path.write_text("this is = = no TOML")
        page.load_file(path)
        assert page._strip.isVisible()
        assert page.tree() == before

    @pytest.mark.parametrize("text", ["[memory]\nbatch = 3\n", "[memory]\nbatch_size = 0\n"])
    def test_one_with_wrong_values_says_so_and_can_be_undone(self, page, tmp_path, text):
        put(page, training__epochs=9.0)
        before, path = page.tree(), tmp_path / "wrong.hone"
        path.write_text(f'task = "{TEXTS}"\n{text}')
        page.load_file(path)
        assert page._strip.isVisible()
        assert page.tree()["task"] == TEXTS
        press(page._changes, "Undo")
        assert page.tree() == before

    def test_the_paraphrases_ask_for_their_files(self, page):
        page.load_example(MRPC)
        assert page.tree()["data"]["train"] == ""
        assert start_text(page) == "Choose the data to train on"


class TestTasks:
    def test_changing_it_keeps_what_was_chosen_for_the_other(self, page):
        put(page, memory__batch_size=7, device__name="cpu")
        page._change_task(Task.TEXT_CLASSIFICATION)
        tree = page.tree()
        assert (tree["task"], tree["device"]["name"], tree["training"]["learning_rate"]) == (
            TEXTS,
            "cpu",
            2e-5,
        )
        page._change_task(Task.IMAGE_CLASSIFICATION)
        tree = page.tree()
        assert (tree["memory"]["batch_size"], tree["model"]["source"]) == (7, "torchvision:resnet18")

    def test_another_begins_with_the_data_that_was_chosen_and_a_model_that_can_do_it(
        self, page, talks, model
    ):
        load(page, "chat", model, talks, memory={"batch_size": 3})
        for task, source in (
            (Task.PREFERENCE, str(model)),
            (Task.TEXT_CLASSIFICATION, ""),  # what writes is no first choice for a classifier
        ):
            page._change_task(task)
            assert (page.tree()["data"]["train"], page.tree()["model"]["source"]) == (str(talks), source)
        page._change_task(Task.CHAT)
        assert page.tree()["memory"]["batch_size"] == 3

    def test_changing_it_by_a_fix_brings_no_model_that_cannot_do_it(self, page, answers, talks):
        load(page, "causal-lm", "scratch:llama-small")
        drop(page, talks)
        press(page._strip, "Change to “Chat”")
        assert page.tree()["model"]["source"] == ""
        load(page, source="some/bert")
        put(page, data__train="builtin:digits")
        page._remedies.propose_task()
        press(page._strip, "Change to “Image classification”")
        assert page.tree()["model"]["source"].startswith("torchvision:")


class TestChanges:
    def test_a_preset_is_applied_listed_and_undone(self, page):
        put(page, model__pretrained=True)
        before, preset = page.tree(), find_preset("fits-in-8-gb")
        page.apply_preset(preset)
        assert page.tree()["model"]["method"] == "lora"
        listed = {change.name: (change.before, change.after) for change in page._changes.changes}
        assert listed[options_by_path()["model.method"].title] == ("Full", "LoRA")
        assert page._changes.isVisible()
        put(page, training__seed=7)
        press(page._changes, "Undo")
        assert page._changes.isHidden()
        assert page.tree() == {**before, "training": {**before["training"], "seed": 7}}
        page.apply_preset(preset)
        page.apply_preset(preset)
        assert page._changes.changes == ()

    def test_a_preset_of_another_task_takes_the_form_there_and_back(self, page):
        put(page, memory__batch_size=7, device__precision="bf16")
        images = page.tree()
        page._change_task(Task.TEXT_CLASSIFICATION)
        put(page, memory__batch_size=9)
        texts = page.tree()
        page._change_task(Task.IMAGE_CLASSIFICATION)
        preset = find_preset("published-guide")
        page.apply_preset(preset)
        assert differences(page.tree(), preset) == ()
        listed = {change.name: (change.before, change.after) for change in page._changes.changes}
        assert listed["Task"] == ("Image classification", "Text classification")
        assert listed["Batch size"] == ("9", "32")
        press(page._changes, "Undo")
        assert page.tree() == images
        page._change_task(Task.TEXT_CLASSIFICATION)
        assert page.tree() == texts

    def test_an_imported_script_is_laid_over_the_form(self, page):
        said = "--learning_rate 3e-5 --use_lora --per_device_train_batch_size 4"
        page._change_set.import_options(import_text(said))
        tree = page.tree()
        assert (tree["task"], tree["training"]["learning_rate"]) == (TEXTS, 3e-5)
        assert (tree["memory"]["batch_size"], tree["model"]["method"]) == (4, "lora")
        assert page._changes.isVisible()

    def test_columns_that_come_with_other_data_are_kept(self, qtbot, page, model, pairs):
        load(page, source=model, data=pairs)
        qtbot.waitUntil(lambda: bool(page._options.guesses.guessed))
        page._change_set.import_options(
            import_text("--train_file other.tsv --text_columns sentence1,sentence2")
        )
        assert page.tree()["data"]["text_columns"] == ["sentence1", "sentence2"]

    def test_the_examples_menu_offers_every_preset(self, qtbot, page):
        buttons = {button.text(): button for button in page._header.findChildren(QPushButton)}
        actions = {action.text(): action for action in buttons["Examples"].menu().actions()}
        assert {preset.title for preset in presets()} <= set(actions)
        with qtbot.waitSignal(page._header.preset_chosen) as caught:
            actions["Fastest"].trigger()
        assert caught.args[0].name == "fastest"
        with qtbot.waitSignal(page._header.example_chosen) as caught:
            actions["Handwritten digits"].trigger()
        menu = {action.text(): action for action in buttons["Open"].menu().actions()}
        for text, signal in (
            ("Reset", page._header.reset_chosen),
            ("Import from a script…", page._header.import_chosen),
        ):
            with qtbot.waitSignal(signal):
                menu[text].trigger()
