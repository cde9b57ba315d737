import pytest
from PySide6.QtWidgets import QWidget

from gui.new_run.header import ImportSheet

COMMAND = "python run_glue.py --learning_rate 3e-5 --per_device_train_batch_size 8 --warmup_shape round"


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    return window


@pytest.fixture
def sheet(window):
    sheet = ImportSheet(window)
    sheet.show()
    return sheet


def test_pasted_text_is_listed_before_it_is_taken_over(qtbot, sheet):
    assert not sheet.fill.isEnabled()
    sheet.text.setPlainText(COMMAND)
    qtbot.waitUntil(lambda: sheet.options is not None)  # after a pause in typing
    assert [title for title, _names in sheet.rows._shape] == ["Imported", "Left out"]
    assert dict(sheet.rows.rows()) == {
        "learning_rate 3e-5": "Learning rate: 3e-5",
        "per_device_train_batch_size 8": "Batch size: 8",
        "group_by_length (not given)": "Group by length: Off",
        "fp16 and bf16 (not given)": "Precision: fp32",
        "warmup_shape": "Unknown name",
    }
    with qtbot.waitSignal(sheet.imported) as caught:
        sheet.fill.click()
    assert caught.args[0].tree["memory"] == {"batch_size": 8}


def test_a_file_is_read_and_other_text_or_a_missing_file_refused(sheet, tmp_path):
    path = tmp_path / "train.sh"
    path.write_text(COMMAND)
    sheet.open_file(path)
    assert sheet.text.toPlainText() == COMMAND
    assert sheet.options.tree["training"] == {"learning_rate": 3e-5}
    sheet.open_file(tmp_path / "nowhere.py")
    assert sheet.status.text().startswith("nowhere.py: can't be read")
    assert not sheet.fill.isEnabled()
    sheet.text.setPlainText("Dear Hone, please train.")
    sheet.read_text()
    assert "no names that Hone knows" in sheet.status.text()
    assert not sheet.fill.isEnabled()
