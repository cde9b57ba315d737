"""Taking a run elsewhere from its page: a script on the clipboard, a report opened, a support file looked through."""

import threading
import zipfile
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from core.base.errors import UserError
from core.runs.events import Level
from gui.base.background import end_left
from gui.run.share import RunSharing, SupportSheet
from tests.fakes.runs import Plot, finish, make_folder, write_story

SCRIPT = "import torch\nprint(1)\n"


class Asked:
    """Chooses the file a test says, and keeps what was opened and told."""

    def __init__(self, place: Path | str = "") -> None:
        self.place = str(place)
        self.offered = ""
        self.opened: list[str] = []
        self.messages: list[object] = []

    def choose(self, _parent: object, _title: str, place: str, _kinds: str) -> str:
        self.offered = place
        return self.place

    def open_file(self, url: object) -> None:
        self.opened.append(url.toLocalFile())


@pytest.fixture
def run(tmp_path):
    run = make_folder(tmp_path / "2026-11-21-digits")
    plot = Plot(steps=40, epochs=2, reached=40)
    finish(run, plot, write_story(run, plot))
    run.log_file.write_text("token hf_abcdefgh12345678\n")
    return run


@pytest.fixture
def sharing(qtbot, run):
    def make(asked, write=lambda _run, _ask: SCRIPT):
        page = QWidget()
        qtbot.addWidget(page)
        page.show()
        sharing = RunSharing(run, page, choose=asked.choose, open_file=asked.open_file, write_script=write)
        sharing.reported.connect(asked.messages.append)
        made.append(sharing)
        return sharing

    made = []
    yield make
    for sharing in made:
        sharing.close()
    end_left()


def wait(qtbot, sharing):
    qtbot.waitUntil(lambda: not sharing.is_busy, timeout=5000)


def test_the_script_is_copied(qtbot, sharing):
    asked = Asked()
    found = sharing(asked)
    found.copy_script()
    wait(qtbot, found)
    assert QGuiApplication.clipboard().text() == SCRIPT
    assert [message.title for message in asked.messages] == [
        "Writing the script…",
        "The script is on the clipboard",
    ]


def test_why_there_is_no_script_is_said(qtbot, sharing):
    def refuse(_run, _ask):
        raise UserError("reviews.csv is gone", "There is nothing at /data/reviews.csv.")

    asked = Asked()
    found = sharing(asked, refuse)
    found.copy_script()
    wait(qtbot, found)
    assert (asked.messages[-1].level, asked.messages[-1].title) == (Level.WARNING, "reviews.csv is gone")


def test_a_report_that_can_not_be_written_is_no_bug(qtbot, sharing, tmp_path):
    asked = Asked(tmp_path / "nowhere" / "page.html")
    found = sharing(asked)
    found.save_report()
    wait(qtbot, found)
    assert asked.messages[-1].title == "page.html can't be written"
    assert asked.messages[-1].detail == f"There is no folder at {tmp_path / 'nowhere'}."
    assert asked.messages[-1].fixes
    assert asked.opened == []


@pytest.mark.parametrize("leave", [SupportSheet.reject, SupportSheet.close])
def test_nobody_waits_for_a_support_file(qtbot, sharing, monkeypatch, leave):
    may_end, begun = threading.Event(), threading.Event()
    monkeypatch.setattr("core.sharing.support.collect", lambda _run: begun.set() or (may_end.wait(5) and ()))
    found = sharing(Asked(""))
    found.show_support()
    assert begun.wait(5)
    (sheet,) = found.parent().findChildren(SupportSheet)
    with qtbot.waitSignal(sheet.destroyed, timeout=5000):
        leave(sheet)
    may_end.set()


def test_the_support_file_is_looked_through_and_saved(qtbot, sharing, tmp_path):
    asked = Asked(tmp_path / "for-help")
    found = sharing(asked)
    found.show_support()
    (sheet,) = found.parent().findChildren(SupportSheet)
    qtbot.waitUntil(sheet.save.isEnabled, timeout=5000)
    names = [sheet.files.item(row).text().split()[0] for row in range(sheet.files.count())]
    assert names[:2] == ["about.txt", "run.toml"]
    sheet.files.setCurrentRow(names.index("log.txt"))
    assert "[secret]" in sheet.text.toPlainText()
    assert "hf_" not in sheet.text.toPlainText()
    with qtbot.waitSignal(sheet.accepted, timeout=5000):
        sheet.save.click()
    assert asked.offered.endswith("2026-11-21-digits-support.zip")
    with zipfile.ZipFile(tmp_path / "for-help.zip") as archive:
        assert [name.removeprefix("support/") for name in archive.namelist()] == names
