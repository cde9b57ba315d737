"""The New run page beside a machine and its methods: what is greyed, marked, said, and changed at one press."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from core.base.errors import Fix
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport
from core.options.importing import import_text
from core.options.presets import Preset, differences, presets
from core.options.presets import find_preset as find
from tests.fakes.asking import CPU_ONLY


def test_a_change_of_device_greys_other_choices(page):
    def device(name, refusals):
        return DeviceReport(name=name, title=name, available=True, refusals={"model.method": refusals})

    machine = MachineReport(
        devices=(device("mps", {"qlora": "has no MPS kernels"}), device("cpu", {})), automatic="mps"
    )
    page.set_machine(machine)
    buttons = page._options.form.field("model.method").segmented.buttons()
    assert not buttons["qlora"].isEnabled()
    page._options.fields.device.segmented.buttons()["cpu"].click()
    assert buttons["qlora"].isEnabled()
    assert page._options.form.row("model.method").refusals.summary == ""
    page._options.form.set_values(Fix("Let Hone choose", {"device.name": "auto"}).changes)
    assert not buttons["qlora"].isEnabled()


def test_what_automatic_comes_to_is_said_with_its_reason_until_it_is_chosen(page):
    page.set_machine(CPU_ONLY)
    row = page._options.form.row("device.precision")
    assert row.hint == "Automatic: fp32, this CPU has no bf16 hardware"
    row.field.segmented.buttons()["bf16"].click()
    assert row.hint == ""


def test_what_is_worth_knowing_stands_at_its_option_and_in_the_checks(page):
    page.set_machine(CPU_ONLY)
    page._options.form.set_values({"device.precision": "bf16"})
    said = page._options.form.row("device.precision").advice
    assert [advice.message for advice in said] == ["This CPU has no bf16 units: it works, slower than fp32."]
    listed = [(check.level, check.path) for check in page._outcome._checks.checks]
    assert ("warning", "device.precision") in listed
    assert page._outcome.start_text == "Start training"


def test_compilers_are_those_this_machine_lists(page):
    page.set_machine(CPU_ONLY)
    page._options.form.set_values({"device.compile_backend": "cudagraphs"})
    compilers = page._options.form.field("device.compile_backend").choices
    assert [compilers.itemText(index) for index in range(compilers.count())] == ["inductor", "cudagraphs"]
    assert compilers.refusal("cudagraphs") == "needs CUDA"
    assert page._options.form.field("device.compile_backend").value() == "cudagraphs"


def test_rows_and_headings_follow_every_change(page):
    page._options.open_more()
    card = page._options._cards[0]
    rank = page._options.form.row("model.lora_rank")
    assert not rank.isVisible()
    assert card._headings["LoRA"].isHidden()
    page._options.form.field("model.method").segmented.buttons()["lora"].click()
    assert rank.isVisible()
    assert card._headings["LoRA"].isVisible()


def visible_in_tab_order(page):
    widget, found = page, []
    while (widget := widget.nextInFocusChain()) is not page:
        if widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            found.append(widget)
    return found


def test_tab_goes_down_the_rows_also_below_more(qtbot, page, model, pairs):
    model_of_text = {"source": str(model), "method": "lora"}
    page.load_tree({"task": "text-classification", "model": model_of_text, "data": {"train": str(pairs)}})
    page._options.open_more()
    shown = [path for path in page._options.form.paths if page._options.form.applies(options_by_path()[path])]
    controls = [page._options.form.field(path).control for path in shown]
    order = [widget for widget in visible_in_tab_order(page) if widget in controls]
    assert order == [control for control in controls if control in order]
    assert len(order) > 30

    def heights() -> list[int]:
        return [control.mapTo(page._options, control.rect().topLeft()).y() for control in order]

    qtbot.waitUntil(lambda: heights() == sorted(heights()))  # texts that wrap make layouts go round twice


def test_a_preset_is_applied_listed_and_undone(page):
    page._options.form.set_values({"model.pretrained": True})
    before = page.tree()
    preset = find("fits-in-8-gb")
    page.apply_preset(preset)
    assert page.tree()["model"]["method"] == "lora"
    listed = {change.name: (change.before, change.after) for change in page._changes.changes}
    assert listed["Method"] == ("Full", "LoRA")
    assert listed["Activation checkpointing"] == ("Off", "On")
    assert page._changes.isVisible()
    page._options.form.set_values({"training.seed": 7})
    page._changes._undo.click()
    assert page._changes.isHidden()
    assert page.tree() == {**before, "training": {**before["training"], "seed": 7}}


def test_a_preset_of_another_task_takes_the_form_there_and_back(page):
    before = page.tree()
    preset = find("published-guide")
    page.apply_preset(preset)
    tree = page.tree()
    assert tree["task"] == "text-classification"
    assert tree["data"]["padding"] == "fixed"
    assert (tree["memory"]["batch_size"], tree["training"]["learning_rate"]) == (32, 2e-5)
    assert differences(tree, preset) == ()
    page._changes._undo.click()
    assert page.tree() == before


def test_both_tasks_forms_are_as_they_were_after_an_undo_across_tasks(page):
    page._options.form.set_values({"memory.batch_size": 7, "device.precision": "bf16"})
    images = page.tree()
    page._change_task(Task.TEXT_CLASSIFICATION)
    page._options.form.set_values({"memory.batch_size": 9})
    texts = page.tree()
    page._change_task(Task.IMAGE_CLASSIFICATION)
    page.apply_preset(find("published-guide"))
    page._changes._undo.click()
    assert page.tree() == images
    page._change_task(Task.TEXT_CLASSIFICATION)
    assert page.tree() == texts


def test_a_preset_of_another_task_says_what_it_changed_in_that_task_s_form(page):
    page.apply_preset(find("published-guide"))
    listed = {change.name: (change.before, change.after) for change in page._changes.changes}
    assert listed["Task"] == ("Image classification", "Text classification")
    assert listed["Batch size"] == ("16", "32")


def test_the_same_preset_again_changes_nothing_and_says_so(page):
    preset = find("fits-in-8-gb")
    page.apply_preset(preset)
    page.apply_preset(preset)
    assert page._changes.changes == ()
    assert page._changes._undo.isHidden()


def test_an_imported_script_is_laid_over_the_form(page):
    page._change_set.take_over(import_text("--learning_rate 3e-5 --use_lora --per_device_train_batch_size 4"))
    tree = page.tree()
    assert tree["task"] == "text-classification"
    assert (tree["training"]["learning_rate"], tree["memory"]["batch_size"]) == (3e-5, 4)
    assert tree["model"]["method"] == "lora"
    assert page._changes.isVisible()


def test_an_import_that_names_what_the_other_task_s_form_holds_is_taken_over(page):
    said = "--per_device_train_batch_size 32 --learning_rate 1e-3 --lr_scheduler_type cosine --num_train_epochs 5"
    before = page.tree()
    page._change_set.take_over(import_text(said))
    tree = page.tree()
    assert tree["memory"]["batch_size"] == 32
    training = tree["training"]
    assert (training["learning_rate"], training["schedule"], training["epochs"]) == (1e-3, "cosine", 5.0)
    page._changes._undo.click()
    assert page.tree() == before


def test_a_value_that_no_field_can_hold_is_not_listed_as_changed(page):
    page.load_tree({"task": "text-classification"})
    page.apply_preset(
        Preset("", "", "", {"training": {"learning_rate": "2e-"}, "data": {"max_length": "abc"}})
    )
    assert {change.name: change.after for change in page._changes.changes} == {"Learning rate": "2e-"}
    assert page.tree()["training"]["learning_rate"] == "2e-"


def test_columns_that_come_with_other_data_are_kept(qtbot, page, model, pairs):
    page.load_tree(
        {"task": "text-classification", "model": {"source": str(model)}, "data": {"train": str(pairs)}}
    )
    qtbot.waitUntil(lambda: bool(page._options._guesses.guessed))
    page._change_set.take_over(import_text("--train_file other.tsv --text_columns sentence1,sentence2"))
    assert page.tree()["data"]["text_columns"] == ["sentence1", "sentence2"]


def test_the_examples_menu_offers_every_preset(qtbot, page):
    buttons = {button.text(): button for button in page._header.findChildren(QPushButton)}
    actions = {action.text(): action for action in buttons["Examples"].menu().actions()}
    assert {preset.title for preset in presets()} <= set(actions)
    with qtbot.waitSignal(page._header.preset_chosen) as caught:
        actions["Fastest"].trigger()
    assert caught.args[0].name == "fastest"
    assert page._changes.isVisible()


def test_the_device_that_is_chosen_is_the_one_to_check(qtbot, page):
    page._options.form.set_values({"device.name": "cpu"})
    button = next(
        button for button in page._options.findChildren(QPushButton) if button.text() == "Check this device…"
    )
    with qtbot.waitSignal(page.check_requested) as caught:
        button.click()
    assert caught.args == ["cpu"]
