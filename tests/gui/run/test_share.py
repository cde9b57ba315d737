"""Taking a run elsewhere from its page: a script, a report, and a support file that is looked through first."""

import threading
import zipfile

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QWidget

from core.base.errors import UserError
from core.runs.events import Level
from gui.base.background import end_left
from gui.run.share import RunSharing, SupportSheet
from tests.fakes.runs import Plot, finish, make_folder, write_story


@pytest.fixture
def make_sharing(qtbot, tmp_path, monkeypatch):
    run = make_folder(tmp_path / "2026-11-21-digits")
    plot = Plot(steps=40, epochs=2, reached=40)
    finish(run, plot, write_story(run, plot))
    run.log_file.write_text("token hf_abcdefgh12345678\n")
    page = QWidget()
    qtbot.addWidget(page)
    page.show()
    made = []

    def make(file="", write=None):
        """Shares a run; of file dialogs, the answer is `file`."""

        def choose(_parent, _title, place, _kinds=""):
            sharing.offered.append(place)
            return str(file), ""

        sharing = RunSharing(run, page)
        monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
        monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: sharing.opened.append(url.toLocalFile()))
        monkeypatch.setattr("gui.run.share.save_script_of_run", write)
        sharing.offered, sharing.opened, sharing.messages = [], [], []
        sharing.reported.connect(sharing.messages.append)
        made.append(sharing)
        return sharing

    yield make
    for sharing in made:
        sharing.close()
    end_left()


def last_message(qtbot, sharing):
    qtbot.waitUntil(lambda: not sharing.is_busy, timeout=5000)
    return sharing.messages[-1]


def test_the_script_is_saved_where_the_person_likes_or_the_reason_is_shown(qtbot, make_sharing, tmp_path):
    def write(_run, folder, _ask):
        folder.mkdir()
        (folder / "train.py").write_text("import torch\n")

    def refuse(_run, _folder, _ask):
        raise UserError("reviews.csv is gone", "There is nothing at /data/reviews.csv.")

    sharing = make_sharing()
    sharing.save_script()
    assert sharing.messages == [], "no place was chosen"
    assert sharing.offered[0].endswith("2026-11-21-digits-script")
    sharing = make_sharing(tmp_path / "mine", write)
    sharing.save_script()
    message = last_message(qtbot, sharing)
    assert message.level is Level.INFO
    assert str(tmp_path / "mine" / "train.py") in message.detail
    assert sharing.opened == [str(tmp_path / "mine")]
    sharing = make_sharing(tmp_path / "other", refuse)
    sharing.save_script()
    assert last_message(qtbot, sharing).level is Level.WARNING
    assert sharing.messages[-1].title == "reviews.csv is gone"


def test_a_report_that_cant_be_written_names_its_folder(qtbot, make_sharing, tmp_path):
    sharing = make_sharing(tmp_path / "nowhere" / "page.html")
    sharing.save_report()
    message = last_message(qtbot, sharing)
    assert message.detail == f"There is no folder at {tmp_path / 'nowhere'}."
    assert message.fixes
    assert sharing.opened == []


@pytest.mark.parametrize("leave", [SupportSheet.reject, SupportSheet.close])
def test_the_dialog_closes_while_a_support_file_is_collected(qtbot, make_sharing, monkeypatch, leave):
    may_end, begun = threading.Event(), threading.Event()
    monkeypatch.setattr("core.sharing.support.collect", lambda _run: begun.set() or (may_end.wait(5) and ()))
    sharing = make_sharing()
    sharing.show_support()
    assert begun.wait(5)
    (sheet,) = sharing.parent().findChildren(SupportSheet)
    with qtbot.waitSignal(sheet.destroyed, timeout=5000):
        leave(sheet)
    may_end.set()


def test_the_support_file_is_shown_without_secrets_and_saved(qtbot, make_sharing, tmp_path):
    sharing = make_sharing(tmp_path / "for-help")
    sharing.show_support()
    (sheet,) = sharing.parent().findChildren(SupportSheet)
    qtbot.waitUntil(sheet.save.isEnabled, timeout=5000)
    names = [sheet.files.item(row).text().split()[0] for row in range(sheet.files.count())]
    assert names[:2] == ["about.txt", "run.toml"]
    sheet.files.setCurrentRow(names.index("log.txt"))
    assert "[secret]" in sheet.text.toPlainText()
    assert "hf_" not in sheet.text.toPlainText()
    with qtbot.waitSignal(sheet.accepted, timeout=5000):
        sheet.save.click()
    assert sharing.offered[0].endswith("2026-11-21-digits-support.zip")
    with zipfile.ZipFile(tmp_path / "for-help.zip") as archive:
        assert [name.removeprefix("support/") for name in archive.namelist()] == names
