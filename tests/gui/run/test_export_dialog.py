"""The dialog Export with exports that end as a test wants."""

import subprocess
import sys
import threading

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton

from core.base.errors import OptionsError, Problem, UserError
from core.base.jobs import JobCancelled, JobProgress
from core.jobs.export import Compared, ExportAgreement, ExportKind, ExportReport, NumberFormat
from core.runs.folder import RunFolder
from core.services.offers import FormatOffer, KindOffer
from gui.base.questions import Question
from gui.run import export_dialog
from gui.run.export_dialog import ExportSheet

NO_ADAPTER = "This run trained no LoRA adapter: its model is whole already."
OFFERS = (
    KindOffer(
        ExportKind.FOLDER,
        formats=(
            *(
                FormatOffer(each, size=3 << 20)
                for each in (NumberFormat.AUTO, NumberFormat.FP32, NumberFormat.BF16)
            ),
            FormatOffer(NumberFormat.Q8_0, "Only GGUF is quantized."),
        ),
    ),
    KindOffer(ExportKind.ONNX),
    KindOffer(ExportKind.HUB),
    KindOffer(ExportKind.ADAPTER, NO_ADAPTER, suits=False),
)
AGREEMENT = ExportAgreement(
    examples=16,
    held_out=16,
    compared=Compared.LABELS,
    equal=16,
    counted=16,
    largest=1e-7,
    allowed=1e-4,
    why="",
    holds=True,
)


class FakeExports:
    """Exports that wait for `gate`, then end with `end`: an error, or what is missing."""

    def __init__(self):
        self.wanted, self.end, self.gate, self.is_killed = None, "", threading.Event(), False

    def __call__(self, wanted):
        self.wanted = wanted
        return self

    def run(self, tell):
        tell(JobProgress(done=2, total=6, what="Writing the model"))
        self.gate.wait()
        if self.is_killed:
            raise JobCancelled("export")
        if isinstance(self.end, Exception):
            raise self.end
        path = self.wanted.folder or "https://huggingface.co/me/mine"
        return ExportReport(
            kind=self.wanted.kind,
            path=path,
            files=("README.md",),
            size=3 << 20,
            agreement=AGREEMENT,
            code="print(1)\n",
        )

    def kill(self):
        self.is_killed = True
        self.gate.set()


@pytest.fixture
def exports():
    return FakeExports()


@pytest.fixture
def make_sheet(qtbot, exports, tmp_path, monkeypatch):
    made = []

    def make(find=lambda _run: OFFERS, ask=lambda found, _hold: found):
        monkeypatch.setattr(export_dialog, "Export", exports)
        monkeypatch.setattr(export_dialog, "find_source", find)
        monkeypatch.setattr(export_dialog, "offers", ask)
        sheet = ExportSheet(RunFolder(tmp_path / "reviews"), "Reviews")
        qtbot.addWidget(sheet)
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        sheet.place.propose_in(tmp_path)
        made.append(sheet)
        sheet.show()
        return sheet

    yield make
    for sheet in made:
        sheet.done(0)


@pytest.fixture
def sheet(qtbot, make_sheet):
    sheet = make_sheet()
    qtbot.waitUntil(lambda: bool(sheet.kinds.rows))
    return sheet


def message(sheet):
    return "\n".join(label.text() for label in sheet.strip.findChildren(QLabel) if label.text())


def begin(qtbot, sheet):
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.status == "Writing the model…")


def export(qtbot, sheet, exports):
    exports.gate.set()
    sheet.take.click()
    qtbot.waitUntil(lambda: not sheet.is_running)


def test_kinds_that_cant_be_exported_come_last_with_the_reason(sheet):
    assert list(sheet.kinds.rows) == [ExportKind.FOLDER, ExportKind.ONNX, ExportKind.HUB, ExportKind.ADAPTER]
    assert sheet.kinds.chosen is ExportKind.FOLDER
    row = sheet.kinds.rows[ExportKind.ADAPTER]
    assert not row.button.isEnabled()
    assert row.words.text() == row.button.accessibleDescription() == NO_ADAPTER


def test_an_export_shows_its_progress_and_how_the_two_models_agree(qtbot, sheet, exports, tmp_path):
    numbers = sheet.place.numbers
    assert numbers.itemText(1) == "fp32: 4 bytes each · about 3.00 MB"
    assert not numbers.model().item(3).isEnabled()
    assert numbers.model().item(3).toolTip() == "Only GGUF is quantized."
    numbers.setCurrentIndex(2)
    begin(qtbot, sheet)
    assert sheet.bar.value() == 2
    assert not sheet.take.isEnabled()
    assert not sheet.kinds.isEnabled()
    folder = tmp_path / "reviews-folder"
    folder.mkdir()
    exports.gate.set()
    qtbot.waitUntil(lambda: not sheet.is_running)
    wanted = exports.wanted
    assert (wanted.kind, wanted.numbers) == (ExportKind.FOLDER, NumberFormat.BF16)
    assert wanted.folder == str(folder)
    assert "16 of 16 labels are the same" in message(sheet)
    assert "3.00 MB in" in message(sheet)
    assert sheet.show_folder.hasFocus()
    sheet.copy_code.click()
    assert QGuiApplication.clipboard().text() == "print(1)\n"
    assert sheet.place.folder == str(folder), "the one that was chosen stays"


def test_the_hub_takes_a_repository_and_a_typed_folder_stays(qtbot, sheet, exports, tmp_path):
    sheet.place.line.clear()
    qtbot.keyClicks(sheet.place.line, "/elsewhere/mine")
    sheet.kinds.choose(ExportKind.ONNX)
    assert sheet.place.folder == "/elsewhere/mine"
    assert sheet.place.wanted(RunFolder(tmp_path)).numbers is NumberFormat.AUTO
    assert not sheet.place.numbers.isEnabled()
    sheet.kinds.choose(ExportKind.HUB)
    sheet.place.repo.setText(" me/mine ")
    export(qtbot, sheet, exports)
    assert (exports.wanted.repo, exports.wanted.private, exports.wanted.folder) == ("me/mine", True, "")
    assert "https://huggingface.co/me/mine" in message(sheet)
    assert not sheet.show_folder.isVisible()


@pytest.mark.parametrize("by_closing", [False, True])
def test_an_export_is_cancelled_by_its_button_and_by_closing_if_confirmed(
    qtbot, sheet, exports, by_closing, monkeypatch
):
    begin(qtbot, sheet)
    answers = [False, True]
    monkeypatch.setattr(Question, "ask", lambda *_self, otherwise: answers.pop(0))
    if by_closing:
        sheet.reject()
        assert sheet.is_running
        assert not exports.is_killed
        sheet.reject()
    else:
        sheet.stop.click()
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert exports.is_killed
    assert by_closing or ("cancelled" in message(sheet) and sheet.take.isEnabled())


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (UserError("It doesn't answer as the trained one", "200 of 384"), "200 of 384"),
        (OptionsError((Problem("", "/there is not empty"),)), "/there is not empty"),
    ],
)
def test_why_an_export_failed_is_shown(qtbot, sheet, exports, end, words):
    exports.end = end
    export(qtbot, sheet, exports)
    assert words in message(sheet)


def test_a_run_without_a_model_offers_nothing(qtbot, make_sheet):
    def find(_run):
        raise UserError("reviews has no model to export")

    sheet = make_sheet(find)
    qtbot.waitUntil(lambda: "no model" in message(sheet))
    assert not sheet.take.isEnabled()
    assert not sheet.place.isVisible()
    assert all(button.text() for button in sheet.findChildren(QPushButton) if button.isVisible())


def test_closing_ends_what_the_list_of_formats_waits_for(qtbot, make_sheet, monkeypatch):
    begun: list[subprocess.Popen[bytes]] = []

    def ask(_found, hold):
        begun.append(hold(lambda: subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)))
        begun[0].wait()
        return OFFERS

    sheet = make_sheet(ask=ask)
    qtbot.waitUntil(lambda: bool(begun))
    sheet.done(0)  # which waits for the thread
    assert begun[0].returncode
    begun[0].stdin.close()
    assert not sheet.kinds.rows
