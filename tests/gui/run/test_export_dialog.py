"""The sheet "Export", with exports that do as a test wants."""

import threading

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton

from core.base.errors import OptionsError, Problem, UserError
from core.base.jobs import JobCancelled, JobProgress
from core.runs.folder import RunFolder
from core.services.export import Agreement, Compared, ExportKind, ExportReport, NumberFormat, Offer, Wanted
from gui.run.export_dialog import ExportSheet

NO_ADAPTER = "This run trained no LoRA adapter: its model is whole already."
OFFERS = (
    Offer(ExportKind.ADAPTER, NO_ADAPTER),
    Offer(ExportKind.FOLDER),
    Offer(ExportKind.ONNX),
    Offer(ExportKind.HUB),
)
AGREEMENT = Agreement(
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


class InventedExport:
    """Waits for its gate, then ends as it should."""

    def __init__(self, wanted: Wanted, ends: object, gate: threading.Event) -> None:
        self.wanted, self._ends, self._gate = wanted, ends, gate
        self.is_killed = False

    def run(self, tell=None) -> ExportReport:
        tell(JobProgress(done=2, total=6, what="Writing the model"))
        self._gate.wait()
        if self.is_killed:
            raise JobCancelled("export")
        if isinstance(self._ends, Exception):
            raise self._ends
        return ExportReport(
            kind=self.wanted.kind,
            path=self.wanted.folder or "https://huggingface.co/me/mine",
            files=("README.md",),
            size=3 << 20,
            agreement=AGREEMENT,
            missing=self._ends or "",
        )

    def kill(self) -> None:
        self.is_killed = True
        self._gate.set()


class Exports:
    """Makes them; `ends` is what the next one comes to."""

    def __init__(self) -> None:
        self.made: list[InventedExport] = []
        self.ends: object = None
        self.gate = threading.Event()

    def __call__(self, wanted: Wanted) -> InventedExport:
        self.made.append(InventedExport(wanted, self.ends, self.gate))
        return self.made[-1]


@pytest.fixture
def exports():
    return Exports()


@pytest.fixture
def sheet(qtbot, exports, tmp_path):
    sheet = ExportSheet(RunFolder(tmp_path / "reviews"), "Reviews", make=exports, find=lambda _run: OFFERS)
    qtbot.addWidget(sheet)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    sheet.place.propose_in(tmp_path)
    sheet.show()
    qtbot.waitUntil(lambda: bool(sheet.kinds.rows))
    yield sheet
    sheet.reject()


def said(sheet) -> str:
    return "\n".join(label.text() for label in sheet.strip.findChildren(QLabel) if label.text())


def test_what_can_be_made_comes_first_and_the_rest_says_why_not(sheet):
    assert list(sheet.kinds.rows) == [ExportKind.FOLDER, ExportKind.ONNX, ExportKind.HUB, ExportKind.ADAPTER]
    assert sheet.kinds.chosen is ExportKind.FOLDER
    row = sheet.kinds.rows[ExportKind.ADAPTER]
    assert not row.button.isEnabled()
    assert row.words.text() == NO_ADAPTER
    assert row.button.accessibleDescription() == NO_ADAPTER


def test_it_exports_and_says_how_the_two_models_agree(qtbot, sheet, exports, tmp_path):
    sheet.place._numbers.setCurrentIndex(2)
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.status == "Writing the model…")
    assert sheet._bar.value() == 2
    assert not sheet.take.isEnabled()
    assert not sheet.kinds.isEnabled()
    (tmp_path / "reviews-folder").mkdir()
    exports.gate.set()
    qtbot.waitUntil(lambda: not sheet.is_running)
    wanted = exports.made[0].wanted
    assert (wanted.kind, wanted.numbers) == (ExportKind.FOLDER, NumberFormat.BF16)
    assert wanted.folder == str(tmp_path / "reviews-folder")
    assert "answers as the trained model" in said(sheet)
    assert "16 of 16 labels are the same" in said(sheet)
    assert "3.00 MB in" in said(sheet)
    assert sheet.show_folder.isVisible()
    assert sheet.place.folder == str(tmp_path / "reviews-folder-2"), "the other one is taken now"


def test_the_hub_takes_a_repository(qtbot, sheet, exports):
    sheet.kinds.choose(ExportKind.HUB)
    assert sheet.take.text() == "Export and upload"
    sheet.place._repo.setText(" me/mine ")
    exports.gate.set()
    sheet.take.click()
    qtbot.waitUntil(lambda: not sheet.is_running)
    wanted = exports.made[0].wanted
    assert (wanted.repo, wanted.private, wanted.folder) == ("me/mine", True, "")
    assert "https://huggingface.co/me/mine" in said(sheet)
    assert not sheet.show_folder.isVisible()


def test_it_can_be_cancelled(qtbot, sheet, exports):
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.status == "Writing the model…")
    sheet.stop.click()
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert exports.made[0].is_killed
    assert "cancelled" in said(sheet)
    assert sheet.take.isEnabled()


def test_closing_it_ends_what_is_under_way(qtbot, sheet, exports):
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.status == "Writing the model…")
    sheet.reject()
    assert exports.made[0].is_killed


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (UserError("It doesn't answer as the trained one", "200 of 384"), "200 of 384"),
        (OptionsError((Problem("", "/there is not empty"),)), "/there is not empty"),
        ("The GGUF file is missing", "incomplete"),
    ],
)
def test_what_went_wrong_is_said(qtbot, sheet, exports, ends, words):
    exports.ends = ends
    exports.gate.set()
    sheet.take.click()
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert words in said(sheet)


def test_a_folder_that_was_typed_stays(sheet, qtbot, tmp_path):
    sheet.place._line.clear()
    qtbot.keyClicks(sheet.place._line, "/elsewhere/mine")
    sheet.kinds.choose(ExportKind.ONNX)
    assert sheet.place.folder == "/elsewhere/mine"
    assert sheet.place.wanted(RunFolder(tmp_path)).numbers is NumberFormat.AUTO


def test_a_run_without_a_model_is_told(qtbot, tmp_path):
    def find(_run):
        raise UserError("reviews has no model to export")

    sheet = ExportSheet(RunFolder(tmp_path / "reviews"), "Reviews", find=find)
    qtbot.addWidget(sheet)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    sheet.show()
    qtbot.waitUntil(lambda: "no model" in said(sheet))
    assert not sheet.take.isEnabled()
    assert not sheet.place.isVisible()
    assert all(button.text() for button in sheet.findChildren(QPushButton) if button.isVisible())
    sheet.reject()
