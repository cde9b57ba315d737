from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDropEvent

from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed
from core.options import run_file
from core.options.choices import Task
from core.services.inspect import DataReport
from gui.new_run.header import MRPC
from gui.new_run.state import all_problems, check_form
from tests.fakes.asking import CPU_ONLY, PAIRS


def start_text(page):
    return page._outcome.start_text


def checks(page):
    return [(check.level, check.path) for check in page._outcome._checks.checks]


def await_reading(qtbot, page):
    qtbot.waitUntil(lambda: not page._reading.is_waiting)


def choose_text(page, model, data=""):
    tree = {"task": "text-classification", "model": {"source": str(model)}, "data": {"train": str(data)}}
    page.load_tree(tree)


def test_it_opens_with_the_first_run_ready(qtbot, page):
    assert start_text(page) == "Start training"
    with qtbot.waitSignal(page.start_requested) as caught:
        page.start()
    assert caught.args[0].output.name == "Handwritten digits"
    assert caught.args[0].data.train == "builtin:digits"


def test_the_button_names_what_is_missing(qtbot, page, model, pairs):
    choose_text(page, "")
    assert start_text(page) == "Choose a model to start from"
    choose_text(page, model)
    assert start_text(page) == "Choose the data to train on"
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
    choose_text(page, model, pairs)
    assert start_text(page) == "Reading the data…"
    await_reading(qtbot, page)
    assert start_text(page) == "Start training"


def test_columns_are_filled_with_what_the_data_holds(qtbot, page, engine, model, pairs):
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    data = page.tree()["data"]
    assert data["text_columns"] == ["first", "second"]
    assert data["label_column"] == "same"
    columns = page._options.fields.label_column.columns
    assert [columns.itemText(index) for index in range(1, columns.count())] == ["first", "second", "same"]
    assert len(engine.inspected()) == 1  # taking over a guess asks nothing new


def test_other_data_forgets_guessed_columns_but_not_chosen_ones(qtbot, page, engine, model, pairs):
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    other = pairs.with_name("other.tsv")
    other.write_text("x\ty\n")
    page.set_data(other)
    await_reading(qtbot, page)
    assert engine.inspected()[-1].asked["data"]["text_columns"] == []
    page._options.fields.label_column.columns.choose("first")
    page._options.fields.label_column.columns.activated.emit(1)
    page.set_data(pairs)
    await_reading(qtbot, page)
    assert engine.inspected()[-1].asked["data"]["label_column"] == "first"


def test_problems_of_the_data_stand_at_their_fields_with_remedies(qtbot, page, engine, model, pairs):
    fix = Fix("Use same", {"data.label_column": "same"})
    problem = Problem("data.label_column", "there is no column Same", (fix,))
    engine.answers["inspect"] = DataReport(
        source="x", format="TSV", rows=3, columns=PAIRS.columns, label_column="Same", problems=(problem,)
    )
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    assert page._options.form.row("data.label_column").problems == (problem,)
    assert start_text(page) == "Fix: Label column"
    engine.answers["inspect"] = PAIRS
    page._options.form.set_values(fix.changes)
    await_reading(qtbot, page)
    assert start_text(page) == "Start training"
    assert page.tree()["data"]["label_column"] == "same"


def test_data_that_cant_be_read_is_said_at_its_field(qtbot, page, engine, model, pairs):
    engine.answers["inspect"] = UserError("pairs.tsv is empty", "It holds a header only.")
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    message = page._options.form.row("data.train").problems[0].message
    assert message == "pairs.tsv is empty. It holds a header only"
    assert start_text(page) == "Fix: Training data"


def test_an_engine_that_breaks_over_the_data_is_no_reason_not_to_train(qtbot, page, engine, model, pairs):
    engine.answers["inspect"] = EngineCrashed("inspect", -11, "Segmentation fault")
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    assert start_text(page) == "Start training"
    assert ("warning", "") in checks(page)


def test_all_problems_are_listed_at_once_and_lead_to_their_fields(qtbot, page, model):
    choose_text(page, model, "/nowhere/at/all.csv")
    form = page._options.form
    form.set_values({"training.learning_rate": 20.0, "training.weight_decay": 3.0})
    listed = [path for level, path in checks(page) if level == "error"]
    assert set(listed) == {"data.train", "training.learning_rate", "training.weight_decay"}
    assert start_text(page) == "3 problems to fix"
    page._outcome._checks.path_chosen.emit("training.weight_decay")
    control = form.field("training.weight_decay").control
    assert control.isVisible()  # it was behind "More"
    viewport = page._scroll.viewport()
    qtbot.waitUntil(lambda: viewport.rect().contains(control.mapTo(viewport, control.rect().center())))
    assert page.focusWidget() is form.field("training.weight_decay").control


def test_the_summary_goes_on_beside_a_value_that_cant_be_read(page):
    page.load_tree({**page.tree(), "memory": {"batch_size": 24}})
    page._options.form.field("training.epochs").line.setText("many")
    assert start_text(page) == "Fix: Epochs"
    assert ("Batch", "24 × 1 = 24 rows") in page._outcome._rows.rows()


def test_only_what_cant_be_read_is_replaced_by_its_default():
    tree = {
        "task": "text-classification",
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
        "task": "text-classification",
        "model": {"source": ""},
        "data": {"train": "builtin:digits"},
        "device": {"name": "cpu", "precision": "fp16"},
        "training": {"epochs": "many"},
    }
    order = ("model.source", "data.train", "device.precision", "training.epochs")
    found = all_problems(check_form(tree), (), CPU_ONLY, order)
    assert tuple(problem.path for problem in found) == order


def test_the_summary_follows_the_form_while_it_has_problems(page):
    page.load_tree({**page.tree(), "model": {"source": ""}, "memory": {"batch_size": 24}})
    page._options.form.field("training.epochs").line.setText("many")
    page._options.form.set_values({"data.train": "/no/such/pictures"})
    rows = dict(page._outcome._rows.rows())
    assert rows["Steps"] == "–"
    assert rows["Batch"] == "24 × 1 = 24 rows"
    assert rows["Data"] == "pictures"
    page._options.form.set_values({"data.train": ""})
    assert dict(page._outcome._rows.rows())["Data"] == "choose the data"


def test_a_batch_of_nothing_is_told_at_its_field(qtbot, page):
    control = page._options.form.field("memory.batch_size").control
    control.selectAll()
    qtbot.keyClicks(control, "0")
    assert start_text(page) == "Fix: Batch size"
    assert page.tree()["memory"]["batch_size"] == 0
    assert dict(page._outcome._rows.rows())["Batch"] == "–"


def test_a_warm_up_longer_than_the_run_is_told_before_the_start(qtbot, page):
    await_reading(qtbot, page)  # the digits: some 225 steps
    page._options.form.set_values({"training.warmup": 5000.0})
    assert start_text(page) == "Fix: Warm-up"
    (problem,) = page._options.form.row("training.warmup").problems
    assert "no shorter than the run of" in problem.message
    page._options.form.set_values({"training.epochs": 5000.0})
    assert start_text(page) == "Start training"
    page._options.form.set_values({"training.epochs": 1.0})
    page._options.form.set_values(problem.fixes[0].changes)
    assert start_text(page) == "Start training"


def test_a_warm_up_longer_than_a_run_by_steps_is_told_once(qtbot, page):
    await_reading(qtbot, page)
    page._options.form.set_values({"training.warmup": 50.0, "training.max_steps": 10})
    assert len(page._options.form.row("training.warmup").problems) == 1


def test_what_the_machine_refuses_is_greyed_and_a_choice_of_it_a_problem(page):
    page.set_machine(CPU_ONLY)
    buttons = page._options.fields.device.segmented.buttons()
    assert not buttons["mps"].isEnabled()
    assert buttons["mps"].toolTip() == "MPS is the GPU of Apple computers."
    why = page._options.form.row("device.name").refusals
    assert why.summary == "Not available here: CUDA · MPS"
    assert why.details == ("No NVIDIA driver was found.", "MPS is the GPU of Apple computers.")
    page.load_tree({**page.tree(), "device": {"name": "mps"}})
    assert start_text(page) == "Fix: Device"


def test_changing_the_task_keeps_what_was_chosen_for_the_other(qtbot, page, model):
    page._options.form.set_values({"memory.batch_size": 7, "device.name": "cpu"})
    page._change_task(Task.TEXT_CLASSIFICATION)
    assert page.tree()["task"] == "text-classification"
    assert page.tree()["device"]["name"] == "cpu"
    assert page.tree()["training"]["learning_rate"] == 2e-5
    page._change_task(Task.IMAGE_CLASSIFICATION)
    assert page.tree()["memory"]["batch_size"] == 7
    assert page.tree()["model"]["source"] == "torchvision:resnet18"


def test_a_run_file_goes_in_and_out_unchanged(qtbot, page, tmp_path, model, pairs):
    written = tmp_path / "mine.hone"
    written.write_text(
        f'schema = 1\ntask = "text-classification"\n[model]\nsource = "{model.as_posix()}"\n'
        f'[data]\ntrain = "{pairs.as_posix()}"\ntext_columns = ["first"]\nlabel_column = "same"\n'
        "[training]\nepochs = 1\nlearning_rate = 3e-5\n"
    )
    page.load_file(written)
    saved = tmp_path / "saved.hone"
    page._save(saved)
    assert run_file.read(saved) == run_file.read(written)


def test_a_damaged_run_file_is_told_and_changes_nothing(page, tmp_path):
    before = page.tree()
    damaged = tmp_path / "damaged.hone"
    damaged.write_text("this is = = no TOML")
    page.load_file(damaged)
    assert page._strip.isVisible()
    assert page.tree() == before


def test_a_run_file_with_an_unknown_option_says_so(page, tmp_path):
    path = tmp_path / "old.hone"
    path.write_text('task = "image-classification"\n[memory]\nbatch = 3\n')
    page.load_file(path)
    assert page._strip.isVisible()


def test_the_paraphrases_ask_for_their_files(page):
    page.load_example(MRPC)
    assert page.tree()["data"]["train"] == ""
    assert start_text(page) == "Choose the data to train on"


def test_a_file_dropped_on_the_field_becomes_the_data(qtbot, page, model, pairs):
    choose_text(page, model)
    dropped = QMimeData()
    dropped.setUrls([QUrl.fromLocalFile(str(pairs))])
    line = page._options.fields.train.line
    where = line.rect().center().toPointF()
    copy = Qt.DropAction.CopyAction
    line.dropEvent(
        QDropEvent(where, copy, dropped, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    )
    assert Path(page.tree()["data"]["train"]) == pairs
    await_reading(qtbot, page)


def test_a_batch_larger_than_the_data_is_worth_a_word_but_no_problem(qtbot, page):
    await_reading(qtbot, page)
    page._options.form.set_values({"memory.batch_size": 4096})
    (advice,) = page._options.form.row("memory.batch_size").advice
    assert "rows to train on: an epoch is one step" in advice.message
    assert start_text(page) == "Start training"
    page._options.form.set_values(advice.fixes[0].changes)
    assert page._options.form.row("memory.batch_size").advice == ()


def test_the_start_button_stays_where_it_is_whatever_comes_in_above_it(qtbot, page, model, pairs):
    page.resize(1024, 700)
    page.show()
    button = page._outcome._start

    def place():
        return button.mapTo(page, button.rect().topLeft())

    qtbot.waitUntil(lambda: place().y() > 600)
    first = place()
    choose_text(page, "")
    qtbot.wait(0)
    assert place() == first
    choose_text(page, model, pairs)
    await_reading(qtbot, page)
    qtbot.wait(0)
    assert place() == first


def test_a_run_file_with_wrong_values_can_be_undone(page, tmp_path):
    before = page.tree()
    path = tmp_path / "wrong.hone"
    path.write_text('task = "text-classification"\n[memory]\nbatch_size = 0\n')
    page.load_file(path)
    assert page._strip.isVisible()
    assert page.tree()["memory"]["batch_size"] == 0
    page._changes._undo.click()
    assert page.tree() == before
