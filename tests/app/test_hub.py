"""The Hub's dialog with the real engine processes and a Hub on this computer: found, paused, continued, used."""

from PySide6.QtCore import Qt

from core.options.hub import RepoKind, names_here, partial_bytes
from gui.base.background import ask_real_engine
from gui.settings.model_browser import HubSheet
from tests.fakes.hub import WEIGHTS, a_hub

SECONDS_20 = 20_000


def test_a_download_is_paused_continued_and_used(qtbot, tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as hub:
        sheet = HubSheet(ask_real_engine, task="text-classification", task_title="Text classification")
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(sheet)
        sheet.show()
        sheet.words.setText("tiny")
        sheet.button.click()
        qtbot.waitUntil(lambda: bool(sheet.answer), timeout=SECONDS_20)
        hub.gate.clear()
        sheet.use.click()
        download, half = sheet.download, len(WEIGHTS) // 2
        qtbot.waitUntil(lambda: bool(download.progress) and download.progress.done > half, timeout=SECONDS_20)
        sheet.line.pause.click()
        assert not download.is_running
        download.close()
        assert names_here("org/tiny", RepoKind.MODEL) == {}
        assert partial_bytes("org/tiny", RepoKind.MODEL) > half
        hub.gate.set()
        with qtbot.waitSignal(sheet.chosen, timeout=SECONDS_20) as caught:
            sheet.line.pause.click()
        assert caught.args == ["org/tiny"]
        assert names_here("org/tiny", RepoKind.MODEL)["model.safetensors"] == len(WEIGHTS)
        assert hub.contents()[-1].range.startswith("bytes=")
        sheet.done(0)
