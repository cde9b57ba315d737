"""The sheet of the Hub with the real engine processes, beside a Hub on this computer: found, paused, used."""

from PySide6.QtCore import Qt

from core.services.hub import Kind, names_here, partial_files
from gui.base.background import State, ask_real_engine
from gui.settings.model_browser import HubSheet
from tests.fakes.tiny_on_hub import WEIGHTS, a_hub

SECONDS_20 = 20_000
HALF = len(WEIGHTS) // 2


def done(sheet):
    return sheet.transfer.progress.done if sheet.transfer.progress else 0


def test_found_paused_gone_on_with_and_used(qtbot, tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as hub:
        sheet = HubSheet(ask_real_engine, task="text-classification", task_title="Text classification")
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(sheet)
        sheet.show()
        sheet.words.setText("tiny")
        sheet.button.click()
        qtbot.waitUntil(lambda: bool(sheet.search.answer), timeout=SECONDS_20)
        assert sheet.take.text() == "Download 3.93 KB and use"
        hub.gate.clear()
        sheet.take.click()
        qtbot.waitUntil(
            lambda: bool(sheet.transfer.progress) and sheet.transfer.progress.done > HALF, timeout=SECONDS_20
        )
        sheet.line.pause.click()
        qtbot.waitUntil(lambda: not sheet.transfer._threads, timeout=SECONDS_20)
        assert sheet.transfer.state is State.PAUSED
        assert names_here("org/tiny", Kind.MODEL) == {}
        assert sum(path.stat().st_size for path in partial_files("org/tiny", Kind.MODEL)) > HALF
        hub.gate.set()
        with qtbot.waitSignal(sheet.chosen, timeout=SECONDS_20) as caught:
            sheet.line.pause.click()
        assert caught.args == ["org/tiny"]
        assert names_here("org/tiny", Kind.MODEL)["model.safetensors"] == len(WEIGHTS)
        assert hub.contents()[-1].range.startswith("bytes=")
        sheet.done(0)


def test_given_up(qtbot, tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as hub:
        sheet = HubSheet(ask_real_engine)
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(sheet)
        sheet.show()
        sheet.words.setText("org/tiny")
        sheet.button.click()
        qtbot.waitUntil(lambda: bool(sheet.search.answer), timeout=SECONDS_20)
        hub.gate.clear()
        sheet.take.click()
        qtbot.waitUntil(lambda: bool(sheet.transfer.progress), timeout=SECONDS_20)
        sheet.line.cancel.click()
        folder = tmp_path / "hub" / "models--org--tiny"
        qtbot.waitUntil(lambda: not folder.exists(), timeout=SECONDS_20)
        sheet.done(0)
