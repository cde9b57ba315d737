import pytest

from gui.new_run.import_dialog import ImportSheet

COMMAND = "python run_glue.py --learning_rate 3e-5 --per_device_train_batch_size 8 --warmup_shape round"


@pytest.fixture
def sheet(qtbot):
    sheet = ImportSheet()
    qtbot.addWidget(sheet)
    sheet.show()
    return sheet


def test_what_is_pasted_is_listed_before_it_is_taken_over(qtbot, sheet):
    assert not sheet._take.isEnabled()
    sheet._text.setPlainText(COMMAND)
    qtbot.waitUntil(lambda: sheet.found is not None)  # without a press, after a pause in typing
    assert sheet._rows.headings() == ["Taken over", "Left out"]
    assert dict(sheet._rows.rows()) == {
        "learning_rate 3e-5": "Learning rate: 3e-5",
        "per_device_train_batch_size 8": "Batch size: 8",
        "group_by_length (not said)": "Group by length: Off",
        "fp16 and bf16 (not said)": "Precision: fp32",
        "warmup_shape": "Hone knows no such name",
    }
    with qtbot.waitSignal(sheet.imported) as caught:
        sheet._take.click()
    assert caught.args[0].tree["memory"] == {"batch_size": 8}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("--learning_rate 2e-", "Learning rate: 2e-"),
        ("--max_seq_length abc", "Maximum length: abc"),
        ('{"target_modules": 5}', "5"),
        ('{"seed": true}', "True"),
    ],
)
def test_half_typed_values_are_shown_as_they_stand(sheet, said, shown):
    sheet.set_text(said)
    assert any(shown in value for _, value in sheet._rows.rows())


def test_names_that_no_longer_exist_are_told_with_their_successor(sheet):
    sheet.set_text('{"optim": "adamw_hf", "overwrite_output_dir": true}')
    notes = " ".join([*sheet._rows.notes().values(), *dict(sheet._rows.rows()).values()])
    assert "adamw_torch has taken its place" in notes


def test_what_is_no_script_can_not_be_taken_over(sheet):
    sheet.set_text("Dear Hone, please train.")
    assert sheet.found is None
    assert "no names that Hone knows" in sheet._status.text()
    assert not sheet._take.isEnabled()


def test_a_file_is_read_and_shown(sheet, tmp_path):
    path = tmp_path / "train.sh"
    path.write_text(COMMAND)
    sheet.open_file(path)
    assert sheet._text.toPlainText() == COMMAND
    assert sheet.found.tree["training"] == {"learning_rate": 3e-5}


def test_a_file_that_cant_be_read_says_so(sheet, tmp_path):
    sheet.open_file(tmp_path / "nowhere.py")
    assert sheet._status.text().startswith("nowhere.py: can't be read")
    assert not sheet._take.isEnabled()
