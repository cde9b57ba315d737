"""Every dialog by keyboard: where it begins, where Tab leads, what Return presses, and that Escape closes it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QPushButton, QTabBar, QWidget

from core.base.settings import Appearance
from core.hosts.computers import Computer
from core.jobs.export import ExportKind
from core.jobs.hub import Account, Cached, CacheReport, SearchAnswer
from core.jobs.inspect import DataFinding, FindingLevel, FoundFile
from core.memory.explain import PartExplained
from core.memory.model import FitVerdict
from core.options.hub import RepoKind
from core.runs.events import TurnAwaited
from core.runs.folder import RunFolder
from core.runs.status import RunStatus
from core.services.autofit import Try
from core.services.offers import KindOffer
from gui.app.application import BugDialog, set_up
from gui.app.closing import Underway
from gui.app.closing import question_about as question_on_closing
from gui.app.guide import CONTENTS, GuideWindow
from gui.base.background import end_left
from gui.base.questions import MessageBox, Question, TrashDialog
from gui.base.theme import Role, Theme
from gui.new_run.data_panel import DataOverview, FilesSheet
from gui.new_run.device_field import TogetherSheet
from gui.new_run.header import ImportSheet
from gui.new_run.memory_dialogs import ExplainedSheet, FitSheet
from gui.new_run.sweep import SweepSheet
from gui.run import export_dialog
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet, Length, ModelTestSheet
from gui.run.share import SupportSheet
from gui.run.words import question_about as question_of_turn
from gui.settings.computers import ComputerSheet
from gui.settings.hub import TokenSheet
from gui.settings.model_browser import HubSheet
from gui.settings.page import DeviceCheckDialog
from gui.widgets.layout import Sheet
from tests.fakes.jobs import CHECKED, TRACED, FakeEngine
from tests.fakes.memory import MEASURED
from tests.fakes.on_screen import astray, cut_off, seen, spoken_name, unnamed
from tests.fakes.runs import OPTIONS, make_folder

ROOT = Path(__file__).parents[2]
CACHED = Cached(id="org/here", kind=RepoKind.MODEL, size=5 << 20, complete=True, changed=1.79e9)


@dataclass
class Stage:
    """What dialogs are made of: a window to be over, an engine that answers at once, a run."""

    parent: QWidget
    engine: FakeEngine
    run: RunFolder


class FakeFitting:
    """Tries once, and it fits."""

    changes = {"memory.batch_size": 2}
    reason = ""

    def on_begin(self, tell):
        self.tell = tell

    def tries(self):
        yield Try(
            title="Batch size 2",
            changes=self.changes,
            forecast=TRACED,
            slower=1.0,
            verdict=FitVerdict.FITS,
            measurement=MEASURED,
        )

    def stop(self):
        pass


def import_script(stage):
    sheet = ImportSheet(stage.parent)
    sheet.text.setPlainText("--learning_rate 3e-5")
    sheet.read_text()
    return sheet


def show_files(stage):
    found = (FoundFile("/data/a.png", "cut off"), FoundFile("/data/b.png", "cut off"))
    level = FindingLevel.PROBLEM
    finding = DataFinding(code="broken", level=level, message="2 images are cut off.", count=2, files=found)
    return FilesSheet(finding, stage.parent)


def explain(stage):
    part = PartExplained("weights", "Weights", 1 << 20, "The numbers of the model.", "4 × n", "PyTorch")
    return ExplainedSheet("By a formula.", 1 << 20, (part,), stage.parent)


def choose_token(stage):
    sheet = TokenSheet("org/gated", stage.engine, stage.parent)
    sheet.panel.line.setText("hf_a")
    return sheet


def find_models(stage):
    return HubSheet(stage.engine, stage.parent, task="chat", task_title="Chat")


def find_data(stage):
    return HubSheet(stage.engine, stage.parent, kind=RepoKind.DATASET)


def open_guide(_stage):
    guide = GuideWindow(Theme(Appearance.LIGHT))
    guide.open_chapter(CONTENTS)
    return guide


def ask_about_memory(stage):
    answers = {"apply": "Apply: Batch size 2", "anyway": "Start anyway"}
    return Question("This run doesn't fit", "It may end.", answers, stage.parent)


def ask_before_sending(stage):
    answers = {True: "Send"}
    return Question("Send 2 files?", "They leave.", answers, stage.parent, return_cancels=True)


def ask_about_trash(stage):
    dialog = TrashDialog(stage.parent)
    dialog.ask("Delete it?", "There is no trash.", "Delete", lambda: None)
    return dialog.box


def ask_on_closing(stage):
    runs = [Underway(stage.run, title, False, False) for title in ("Reviews", "Digits")]
    return question_on_closing(runs, stage.parent)


def ask_for_turn(stage):
    return question_of_turn(TurnAwaited(ahead=1, behind="one"), stage.parent)


@dataclass(frozen=True)
class Dialog:
    """A dialog, its main button, and where it begins: at a button or at another part by its (accessible) name.

    `returns`: Return presses the main button from there, with `modifier`; else it is for what has the focus.
    """

    make: Callable[[Stage], QDialog]
    main: str
    first: str
    returns: bool = True
    modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier


DIALOGS = {
    "import": Dialog(
        import_script,
        "Fill the form",
        "Script or command line",
        modifier=Qt.KeyboardModifier.ControlModifier,  # alone it begins a line
    ),
    "sweep": Dialog(
        lambda stage: SweepSheet(OPTIONS, lambda _values: "3 runs.", None, stage.parent),
        "Add to queue",
        "Values",
    ),
    "several computers": Dialog(
        lambda stage: TogetherSheet({"a": ["cpu"], "b": ["cpu"]}, ["a", "b"], stage.parent), "Use them", "a"
    ),
    "images in question": Dialog(show_files, "Close", "2 images are cut off.", returns=False),
    "what takes the memory": Dialog(explain, "Close", "Close"),
    "fit it for me": Dialog(
        lambda stage: FitSheet("Fit it for me", "Tests.", FakeFitting(), stage.parent), "Apply", "Tries"
    ),
    "export": Dialog(lambda stage: ExportSheet(stage.run, "Reviews", stage.parent), "Export", "Model folder"),
    "train longer": Dialog(
        lambda stage: ExtendSheet(Length(OPTIONS, RunStatus()), stage.parent),
        "Train longer",
        "How much longer",
    ),
    "test": Dialog(lambda stage: ModelTestSheet(stage.run, stage.parent), "Start test", "Validation file"),
    "support file": Dialog(lambda stage: SupportSheet(stage.run, "run", stage.parent), "Save…", "Files"),
    "add a computer": Dialog(lambda stage: ComputerSheet(None, stage.parent), "Add", "Address"),
    "change a computer": Dialog(
        lambda stage: ComputerSheet(Computer(name="a", address="me@a"), stage.parent), "Save", "Address"
    ),
    "token": Dialog(choose_token, "Save in the keychain", "Token"),
    "models on the Hub": Dialog(find_models, "Use", "Search the Hub", returns=False),
    "data on the Hub": Dialog(find_data, "Use", "Search the Hub", returns=False),
    "device check": Dialog(
        lambda stage: DeviceCheckDialog(stage.engine, "cpu", stage.parent), "Close", "Close"
    ),
    "bug report": Dialog(lambda stage: BugDialog("Traceback", stage.parent), "Copy report", "Copy report"),
    "guide": Dialog(open_guide, "", "User guide", returns=False),
    "an error": Dialog(lambda stage: MessageBox("Not shown", "It is gone.", stage.parent), "OK", "OK"),
    "too little memory": Dialog(ask_about_memory, "Apply: Batch size 2", "Apply: Batch size 2"),
    "before files are sent": Dialog(ask_before_sending, "Cancel", "Cancel"),
    "before runs are deleted": Dialog(ask_about_trash, "Cancel", "Cancel"),
    "closing": Dialog(ask_on_closing, "Close, keep training", "Close, keep training"),
    "turn": Dialog(ask_for_turn, "Add to queue", "Add to queue"),
}


@pytest.fixture
def stage(qtbot, qapp, tmp_path, own_home, monkeypatch):
    set_up(qapp)
    Theme(Appearance.LIGHT).apply()
    monkeypatch.setattr(export_dialog, "find_source", lambda _run: ())
    monkeypatch.setattr(
        export_dialog,
        "offers",
        lambda _found, _hold: (KindOffer(ExportKind.FOLDER), KindOffer(ExportKind.HUB)),
    )
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    parent = QWidget()
    parent.resize(1000, 700)
    qtbot.addWidget(parent)
    parent.show()
    engine = FakeEngine()
    engine.answers |= {
        "check-device": CHECKED,
        "hub-account": Account(keychain="macOS Keychain"),
        "hub-search": SearchAnswer(),
        "hub-cached": CacheReport(folder="/cache", repos=(CACHED,), total=1),
    }
    yield Stage(parent, engine, make_folder(tmp_path / "run"))
    end_left()
    qapp.setStyleSheet("")


def press(dialog, key, modifiers=Qt.KeyboardModifier.NoModifier):
    QTest.keyClick(dialog.focusWidget(), key, modifiers)


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_is_used_with_keys_alone(qtbot, stage, name):
    how, pressed = DIALOGS[name], []
    dialog = how.make(stage)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    dialog.show()
    dialog.activateWindow()
    qtbot.waitUntil(dialog.isActiveWindow)
    qtbot.waitUntil(lambda: spoken_name(dialog.focusWidget()) == how.first)
    first = dialog.focusWidget()
    assert astray(dialog) == []
    assert unnamed(dialog) == []
    first.setFocus()
    qtbot.waitUntil(lambda: cut_off(dialog) == [])

    buttons = {one.text(): one for one in seen(dialog, QPushButton)}
    drawn = [text for text, one in buttons.items() if one.property("role") == Role.PRIMARY]
    assert drawn == ([how.main] if how.main not in ("", "Close") else [])
    for text, button in buttons.items():
        if text == how.main and text != "Close" and isinstance(dialog, Sheet):
            button.clicked.disconnect()  # that it is pressed is enough
        button.clicked.connect(partial(pressed.append, text))
    if how.returns:
        qtbot.waitUntil(buttons[how.main].isEnabled)
    press(dialog, Qt.Key.Key_Return, how.modifier)
    assert pressed == ([how.main] if how.returns else [])
    dialog.show()
    press(dialog, Qt.Key.Key_Escape)
    qtbot.waitUntil(dialog.isHidden)


def test_enlarged_data_is_used_with_keys_alone(qtbot, make_window, tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text("first\tsecond\tsame\n")
    window = make_window(FakeEngine())
    window.pages.edit({"task": "text-classification", "data": {"train": str(data)}})
    panel = window.pages.new_run.findChild(DataOverview)
    qtbot.waitUntil(lambda: panel.has_table)
    panel.enlarge()
    dialog = panel.sheet
    dialog.activateWindow()
    qtbot.waitUntil(dialog.isActiveWindow)
    first = dialog.focusWidget()
    assert isinstance(first, QTabBar)
    assert astray(dialog) == []
    assert unnamed(dialog) == []
    first.setFocus()
    press(dialog, Qt.Key.Key_Return)
    assert panel.sheet is dialog
    press(dialog, Qt.Key.Key_Escape)
    assert panel.sheet is None


def test_every_kind_of_dialog_is_among_them():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "gui").rglob("*.py"))
    kinds = re.findall(r"^class (\w+)\((?:\w+, )?(?:Sheet|QDialog)\)", sources, re.MULTILINE)
    assert "ExportSheet" in kinds
    tried = Path(__file__).read_text("utf-8")
    assert [kind for kind in kinds if f"{kind}(" not in tried and kind != "Sheet"] == []
