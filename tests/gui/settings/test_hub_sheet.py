"""Finding a model on the Hub in the window: what each row and the button say, and what pressing it does."""

from functools import partial

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.errors import UserError
from core.base.settings import Settings, save
from core.services.hub import (
    Account,
    AccountRequest,
    Cached,
    CacheReport,
    DownloadRequest,
    Found,
    Kind,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from gui.base.background import State
from gui.settings.model_browser import HubSheet
from tests.fakes.asking import FakeEngine
from tests.fakes.transfer import MB, FakeTransfers

PLAIN = Found(
    id="org/plain", downloads=58_000_000, likes=7, size=268 * MB, parameters=67_000_000, licence="mit"
)  # fmt: skip
HALF = Found(id="org/half", size=268 * MB, here=120 * MB)
HERE = Found(id="org/here", size=90 * MB, here=90 * MB, complete=True)
GATED = Found(id="org/gated", size=90 * MB, gated=True)
PICKLED = Found(id="org/old", refusal="Its weights are pickled.", remedy="Convert it:", command="python -c 1")
ALL = (PLAIN, HALF, HERE, GATED, PICKLED)


@pytest.fixture
def engine(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    engine = FakeEngine()
    cached = (Cached(id="org/cached", kind=Kind.MODEL, size=5 * MB, complete=True),)
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=cached, total=5 * MB)
    engine.answers["hub-search"] = SearchAnswer(found=ALL)
    engine.answers["hub-remove"] = Removed(freed=1)
    engine.answers["hub-account"] = Account(keychain="macOS Keychain")
    return engine


@pytest.fixture
def transfers():
    return FakeTransfers()


@pytest.fixture
def sheet(qtbot, engine, transfers):
    sheet = HubSheet(engine, task="text-classification", task_title="Text classification", make=transfers)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(sheet)
    sheet.show()
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 1)
    yield sheet
    transfers.go_on.set()
    engine.gate.set()
    sheet.done(0)


def asked(engine, job, kind):
    return [msgspec.json.decode(body, type=kind) for name, body in engine.requests if name == job]


def searched(qtbot, sheet, words="bert"):
    sheet.words.setText(words)
    sheet.button.click()
    qtbot.waitUntil(lambda: not sheet.search.is_searching)


def choose(sheet, found):
    sheet.results.selectRow(sheet.results.found.index(found))


def row(sheet, number):
    return [sheet.results.item(number, column).text() for column in range(sheet.results.columnCount())]


def test_before_a_search_nobody_is_asked_and_what_is_here_can_be_used(qtbot, sheet, engine):
    assert asked(engine, "hub-search", SearchRequest) == []
    assert "when you press Search" in sheet.status
    assert row(sheet, 0)[0] == "org/cached"
    with qtbot.waitSignal(sheet.chosen) as caught:
        sheet.take.click()
    assert caught.args == ["org/cached"]


def test_each_row_says_what_it_is(qtbot, sheet, engine):
    searched(qtbot, sheet)
    assert asked(engine, "hub-search", SearchRequest) == [
        SearchRequest(words="bert", task="text-classification")
    ]
    assert row(sheet, 0) == ["org/plain", "268 MB", "67.0 million", "58,000,000", "7", "mit", ""]
    assert [row(sheet, number)[6] for number in range(1, 5)] == [
        "45 % here",
        "✓ here",
        "gated",
        "can't be used",
    ]
    assert sheet.status == "5 found, the most downloaded first"


def test_the_box_looks_beyond_the_task(qtbot, sheet, engine):
    searched(qtbot, sheet)
    sheet.suiting.click()
    qtbot.waitUntil(lambda: not sheet.search.is_searching)
    assert asked(engine, "hub-search", SearchRequest)[-1] == SearchRequest(words="bert", task="")


@pytest.mark.parametrize(
    ("found", "words", "enabled"),
    [
        (PLAIN, "Download 268 MB and use", True),
        (HALF, "Download the other 148 MB and use", True),
        (HERE, "Use", True),
        (GATED, "Sign in first…", True),
        (PICKLED, "Can't be used", False),
    ],
)
def test_the_button_says_what_it_does(qtbot, sheet, found, words, enabled):
    searched(qtbot, sheet)
    choose(sheet, found)
    assert (sheet.take.text(), sheet.take.isEnabled()) == (words, enabled)


def test_why_one_can_t_be_used_and_what_to_do(qtbot, sheet):
    searched(qtbot, sheet)
    choose(sheet, PICKLED)
    assert sheet.details.words == "Its weights are pickled.\nConvert it:"
    assert sheet.details._command.text() == "python -c 1"
    assert sheet.details._command.isVisible()
    choose(sheet, PLAIN)
    assert not sheet.details._command.isVisible()


def test_downloaded_and_used(qtbot, sheet, transfers):
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.transfer.progress is not None)
    assert sheet.line.isVisible()
    assert sheet.line.words.startswith("120 MB of 268 MB")
    assert not sheet.take.isEnabled()
    with qtbot.waitSignal(sheet.chosen) as caught:
        transfers.go_on.set()
    assert caught.args == ["org/plain"]
    assert transfers.begun == [DownloadRequest(id="org/plain")]


def test_paused_and_gone_on_with(qtbot, sheet, transfers):
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.transfer.progress is not None)
    sheet.line.pause.click()
    assert sheet.transfer.state is State.PAUSED
    assert sheet.line.words == "Paused at 120 MB of 268 MB"
    assert sheet.line.pause.text() == "Go on"
    sheet.line.pause.click()
    assert sheet.transfer.state is State.RUNNING
    with qtbot.waitSignal(sheet.chosen):
        transfers.go_on.set()
    assert len(transfers.begun) == 2


def test_given_up(qtbot, sheet, engine):
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.transfer.progress is not None)
    sheet.line.cancel.click()
    assert not sheet.line.isVisible()
    removing = [RemoveRequest(id="org/plain", only_partial=True)]
    qtbot.waitUntil(lambda: asked(engine, "hub-remove", RemoveRequest) == removing)


def test_one_that_breaks_off_says_why_and_can_be_gone_on_with(qtbot, sheet, transfers):
    transfers.failure = UserError("The disk is full", "What has come is kept")
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    sheet.take.click()
    qtbot.waitUntil(lambda: sheet.transfer.state is State.FAILED)
    assert sheet.strip.isVisible()
    assert sheet.strip.accessibleName() == "The disk is full"
    assert sheet.line.words == "Stopped at 120 MB of 268 MB"
    transfers.failure = None
    sheet.line.pause.click()
    assert not sheet.strip.isVisible()
    with qtbot.waitSignal(sheet.chosen):
        transfers.go_on.set()


def test_closing_pauses(qtbot, sheet, transfers, engine):
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    sheet.take.click()
    sheet.reject()
    assert sheet.transfer.state is State.PAUSED
    assert asked(engine, "hub-remove", RemoveRequest) == [], "what has come stays"


def test_a_gated_one_asks_for_a_token_first(qtbot, sheet, engine, transfers):
    searched(qtbot, sheet)
    choose(sheet, GATED)
    assert "accepted its terms" in sheet.details.words
    sheet.take.click()
    panel = sheet.sheet.panel
    qtbot.waitUntil(lambda: "No token" in panel.status)
    panel.line.setText("hf_Secret42")
    engine.answers["hub-account"] = Account(place=TokenPlace.KEYCHAIN, keychain="macOS Keychain")
    engine.answers["hub-search"] = SearchAnswer(found=ALL, signed_in=True)
    with qtbot.waitSignal(panel.kept):
        panel.keep.click()
    assert panel.line.text() == ""
    assert asked(engine, "hub-account", AccountRequest)[-1].token == "hf_Secret42"
    qtbot.waitUntil(lambda: not sheet.search.is_searching)
    choose(sheet, GATED)
    assert sheet.take.text() == "Download 90.0 MB and use"
    sheet.take.click()
    assert transfers.begun == [DownloadRequest(id="org/gated")]


def test_nothing_found(qtbot, sheet, engine):
    engine.answers["hub-search"] = SearchAnswer()
    searched(qtbot, sheet, "zebra")
    assert "has “zebra” in its name and suits the task" in sheet.results.empty_words
    assert not sheet.take.isEnabled()


def test_a_search_that_fails_says_why(qtbot, sheet, engine):
    engine.answers["hub-search"] = UserError("huggingface.co can't be reached", "Is this computer online?")
    searched(qtbot, sheet)
    assert sheet.strip.accessibleName() == "huggingface.co can't be reached"
    assert row(sheet, 0)[0] == "org/cached", "what is here can be used all the same"


def test_a_search_can_be_stopped(qtbot, sheet, engine):
    engine.gate.clear()
    sheet.words.setText("bert")
    sheet.button.click()
    assert sheet.button.text() == "Stop"
    assert "Asking" in sheet.results.empty_words
    sheet.button.click()
    assert sheet.button.text() == "Search"
    assert not sheet.search.is_searching


def test_offline_only_what_is_here_can_be_used(qtbot, engine, transfers):
    save(Settings(offline=True))
    half = Cached(id="org/half", kind=Kind.MODEL, size=0, partial=3 * MB)
    here = engine.answers["hub-cached"].repos
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=(*here, half))
    sheet = HubSheet(engine, make=transfers)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(sheet)
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 2)
    assert "“Work offline” in Settings forbids" in sheet.status
    assert not sheet.button.isEnabled()
    assert sheet.take.isEnabled()
    sheet.results.selectRow(1)
    assert not sheet.take.isEnabled()
    sheet.done(0)


def test_the_form_takes_the_chosen_model(qtbot, page, engine, monkeypatch):
    page.load_tree({"task": "chat", "model": {"source": ""}, "data": {"train": ""}})
    page._options.fields.model.hub.click()
    sheet = page.hub_sheet
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 1)
    assert "Chat" in sheet.suiting.text()
    sheet.take.click()
    assert page._options.fields.model.value() == "org/cached"
    assert page.hub_sheet is None


def test_data_of_the_hub_with_its_subset(qtbot, page, engine, monkeypatch):
    rows = Found(id="org/rows", kind=Kind.DATASET, complete=True)
    engine.answers["hub-search"] = SearchAnswer(found=(rows,))
    transfers = FakeTransfers()
    transfers.go_on.set()
    monkeypatch.setattr("gui.new_run.page.HubSheet", partial(HubSheet, make=transfers))
    page._options.fields.train.hub_wanted.emit()
    sheet = page.hub_sheet
    searched(qtbot, sheet, "rows")
    assert asked(engine, "hub-search", SearchRequest)[-1].kind is Kind.DATASET
    assert sheet.take.text() == "Use"
    sheet.subset.setText("mrpc")
    assert sheet.take.text() == "Download and use", "which subsets are here, only the download finds out"
    with qtbot.waitSignal(sheet.chosen):
        sheet.take.click()
    assert transfers.begun == [DownloadRequest(id="org/rows", kind=Kind.DATASET, subset="mrpc")]
    assert page._options.fields.train.value() == "hub:org/rows/mrpc"
