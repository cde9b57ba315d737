"""The Hub in the window: finding and downloading a model, the token, and what is on this computer."""

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.base.settings import Settings, save
from core.jobs.hub import (
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Found,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from core.options.hub import RepoKind
from gui.settings.hub import CacheCard, HubCard
from gui.settings.model_browser import HubSheet

MB = 1 << 20
PLAIN = Found(
    id="org/plain", downloads=58_000_000, likes=7, size=268 * MB, parameters=67_000_000, licence="mit"
)
HALF = Found(id="org/half", size=268 * MB, here=120 * MB)
HERE = Found(id="org/here", size=90 * MB, here=90 * MB, complete=True)
GATED = Found(id="org/gated", size=90 * MB, gated=True)
PICKLED = Found(id="org/old", refusal="Its weights are pickled.", remedy="Look for a copy.")
ALL = (PLAIN, HALF, HERE, GATED, PICKLED)
CACHED = Cached(id="org/cached", kind=RepoKind.MODEL, size=5 * MB, complete=True, changed=1.79e9)
BEGUN = Cached(id="org/begun", kind=RepoKind.MODEL, size=0, partial=120 * MB)
ROWS = Cached(id="org/rows", kind=RepoKind.DATASET, size=MB, partial=MB)
IN_KEYCHAIN = Account(place=TokenPlace.KEYCHAIN, keychain="macOS Keychain")


@pytest.fixture
def engine(engine, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    engine.answers |= {
        "hub-cached": CacheReport(folder="/cache", repos=(CACHED,), total=5 * MB),
        "hub-search": SearchAnswer(found=ALL),
        "hub-download": Downloaded(path="/cache", files=3, size=268 * MB),
        "hub-remove": Removed(freed=1),
        "hub-account": Account(keychain="macOS Keychain"),
    }
    return engine


@pytest.fixture
def sheet(qtbot, engine):
    sheet = HubSheet(engine, task="text-classification", task_title="Text classification")
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(sheet)
    sheet.show()
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 1)
    yield sheet
    engine.gate.set()
    sheet.done(0)


def asked(engine, job, kind):
    return [msgspec.json.decode(body, type=kind) for name, body in engine.requests if name == job]


def search(qtbot, sheet, words="bert"):
    sheet.words.setText(words)
    sheet.button.click()
    qtbot.waitUntil(lambda: not sheet.is_searching)


def choose(sheet, found):
    sheet.results.selectRow(sheet.results.found.index(found))


def row(sheet, number):
    return [sheet.results.item(number, column).text() for column in range(sheet.results.columnCount())]


@pytest.fixture
def loading(qtbot, sheet, engine):
    """The sheet while it downloads, 120 of 268 MB so far."""
    search(qtbot, sheet)
    choose(sheet, PLAIN)
    engine.gate.clear()
    engine.progress = (JobProgress(done=120 * MB, total=268 * MB, what="model.safetensors"),)
    sheet.use.click()
    qtbot.waitUntil(lambda: sheet.download.progress is not None)
    return sheet


def test_a_search_asks_when_its_button_is_pressed(qtbot, sheet, engine):
    assert asked(engine, "hub-search", SearchRequest) == []
    assert "until you press Search" in sheet.status.text()
    assert row(sheet, 0)[0] == "org/cached"
    search(qtbot, sheet)
    assert asked(engine, "hub-search", SearchRequest) == [
        SearchRequest(words="bert", task="text-classification")
    ]
    assert row(sheet, 0) == ["org/plain", "268 MB", "67.0 million", "58,000,000", "7", "mit", ""]
    states = [row(sheet, number)[6] for number in range(1, 5)]
    assert states == ["45 % downloaded", "✓ downloaded", "gated", "can't be used"]
    sheet.suiting.click()
    qtbot.waitUntil(lambda: not sheet.is_searching)
    assert asked(engine, "hub-search", SearchRequest)[-1] == SearchRequest(words="bert", task="")
    for found, text, is_enabled in (
        (PLAIN, "Download 268 MB and use", True),
        (HALF, "Download the remaining 148 MB and use", True),
        (HERE, "Use", True),
        (GATED, "Sign in first…", True),
        (PICKLED, "Can't be used", False),
    ):
        choose(sheet, found)
        assert (sheet.use.text(), sheet.use.isEnabled()) == (text, is_enabled)
    details = sheet.details
    assert (details.refusal.text(), details.text.text()) == (PICKLED.refusal, PICKLED.remedy)
    engine.answers["hub-search"] = SearchAnswer()
    search(qtbot, sheet, "zebra")
    assert "“zebra”" in sheet.results.empty.text()
    assert not sheet.use.isEnabled()


def test_a_search_fails_or_is_stopped_and_what_is_here_can_be_used(qtbot, sheet, engine):
    engine.answers["hub-search"] = UserError("huggingface.co can't be reached", "Is this computer online?")
    search(qtbot, sheet)
    assert sheet.strip.accessibleName() == "huggingface.co can't be reached"
    assert row(sheet, 0)[0] == "org/cached"
    engine.gate.clear()
    sheet.button.click()
    assert sheet.button.text() == "Stop"
    sheet.button.click()
    assert sheet.button.text() == "Search"
    assert not sheet.is_searching
    with qtbot.waitSignal(sheet.chosen) as caught:
        sheet.use.click()
    assert caught.args == ["org/cached"]


def test_a_download_is_shown_paused_continued_and_used(qtbot, loading, engine):
    line = loading.line
    assert line.status.text().startswith("120 MB of 268 MB")
    assert not loading.use.isEnabled()
    line.pause.click()
    assert not loading.download.is_running
    assert line.status.text() == "Paused at 120 MB of 268 MB"
    engine.answers["hub-download"] = UserError("The disk is full", "What has come is kept")
    line.pause.click()
    with qtbot.waitSignal(loading.download._loading.failed):
        engine.gate.set()
    assert loading.strip.accessibleName() == "The disk is full"
    assert line.status.text() == "Stopped at 120 MB of 268 MB"
    engine.answers["hub-download"] = Downloaded(path="/cache", files=3, size=268 * MB)
    with qtbot.waitSignal(loading.chosen) as caught:
        line.pause.click()
        assert not loading.strip.isVisible()
    assert caught.args == ["org/plain"]
    assert asked(engine, "hub-download", DownloadRequest) == [DownloadRequest(id="org/plain")] * 3


def test_a_cancelled_download_is_deleted_and_closing_only_pauses_it(qtbot, loading, engine):
    loading.reject()
    assert not loading.download.is_running
    assert asked(engine, "hub-remove", RemoveRequest) == []
    loading.line.cancel.click()
    removing = [RemoveRequest(id="org/plain", only_partial=True)]
    qtbot.waitUntil(lambda: asked(engine, "hub-remove", RemoveRequest) == removing)


def test_files_of_a_cancelled_download_are_deleted_though_the_sheet_closes_at_once(qtbot, loading, engine):
    loading.line.cancel.click()
    loading.reject()
    removing = [RemoveRequest(id="org/plain", only_partial=True)]
    qtbot.waitUntil(lambda: asked(engine, "hub-remove", RemoveRequest) == removing)


def test_a_gated_model_asks_for_a_token_first(qtbot, sheet, engine):
    search(qtbot, sheet)
    choose(sheet, GATED)
    assert "accept terms" in sheet.details.text.text()
    sheet.use.click()
    panel = sheet.token.panel
    qtbot.waitUntil(lambda: "No token" in panel.status.text())
    panel.line.setText("hf_Secret42")
    assert "hf_Secret42" not in panel.line.displayText()
    engine.answers["hub-account"] = IN_KEYCHAIN
    engine.answers["hub-search"] = SearchAnswer(found=ALL, signed_in=True)
    with qtbot.waitSignal(panel.saved):
        panel.save.click()
    assert panel.line.text() == ""
    assert asked(engine, "hub-account", AccountRequest)[-1].token == "hf_Secret42"
    qtbot.waitUntil(lambda: not sheet.is_searching)
    choose(sheet, GATED)
    assert sheet.use.text() == "Download 90.0 MB and use"


def test_offline_only_what_is_here_can_be_used(qtbot, engine):
    save(Settings(offline=True))
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=(CACHED, BEGUN))
    sheet = HubSheet(engine)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(sheet)
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 2)
    assert "“Work offline” in Settings blocks" in sheet.status.text()
    assert not sheet.button.isEnabled()
    assert sheet.use.isEnabled()
    sheet.results.selectRow(1)
    assert not sheet.use.isEnabled()
    sheet.done(0)


def test_the_form_takes_the_chosen_model_or_data_with_its_subset(qtbot, page, engine):
    page.load_tree({"task": "chat", "model": {"source": ""}, "data": {"train": ""}})
    page.options.fields.model.hub.click()
    sheet = page.hub_sheet
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 1)
    sheet.use.click()
    assert page.options.fields.model.value() == "org/cached"
    assert page.hub_sheet is None
    engine.answers["hub-search"] = SearchAnswer(
        found=(Found(id="org/rows", kind=RepoKind.DATASET, complete=True),)
    )
    page.options.fields.train.hub_wanted.emit()
    sheet = page.hub_sheet
    search(qtbot, sheet, "rows")
    assert asked(engine, "hub-search", SearchRequest)[-1].kind is RepoKind.DATASET
    assert sheet.use.text() == "Use"
    sheet.subset.setText("mrpc")
    assert sheet.use.text() == "Download and use", "only the download finds out which subsets are here"
    with qtbot.waitSignal(sheet.chosen):
        sheet.use.click()
    subset = DownloadRequest(id="org/rows", kind=RepoKind.DATASET, subset="mrpc")
    assert asked(engine, "hub-download", DownloadRequest) == [subset]
    assert page.options.fields.train.value() == "hub:org/rows/mrpc"


def test_the_place_of_the_token_and_its_owner(qtbot, engine):
    engine.answers["hub-account"] = IN_KEYCHAIN
    card = HubCard(engine)
    qtbot.addWidget(card)
    assert engine.requests == [], "a card that nobody has seen asks for nothing"
    card.show()
    token = card.token
    qtbot.waitUntil(lambda: not token.work.is_running)
    assert token.status.text() == "A token is saved in macOS Keychain."
    assert [request.action for request in asked(engine, "hub-account", AccountRequest)] == [
        AccountAction.LOOK
    ]
    for press, answer, words in (
        (token.check, msgspec.structs.replace(IN_KEYCHAIN, name="ada"), "ada"),
        (token.check, UserError("huggingface.co refuses", "It doesn't accept the token"), "doesn't accept"),
        (token.remove, Account(keychain="macOS Keychain"), "No token"),
    ):
        engine.answers["hub-account"] = answer
        press.click()
        qtbot.waitUntil(lambda words=words: words in token.status.text())
    assert not token.remove.isEnabled()
    assert not token.check.isEnabled()
    engine.answers["hub-account"] = Account(refusal="This computer has no keychain.")
    token.look()
    qtbot.waitUntil(lambda: "no keychain" in token.status.text())
    assert not token.line.isEnabled()
    token.work.close()


def test_files_on_this_computer_are_listed_and_deleted_once_the_person_is_sure(qtbot, engine):
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=(CACHED, BEGUN, ROWS), total=127 * MB)
    card = CacheCard(engine)
    qtbot.addWidget(card)
    card.show()
    qtbot.waitUntil(lambda: card.table.rowCount() == 3)
    assert [[card.table.item(number, column).text() for column in range(3)] for number in range(3)] == [
        ["org/cached", "model", "5.00 MB"],
        ["org/begun", "model", "120 MB unfinished"],
        ["org/rows", "data", "1.00 MB + 1.00 MB unfinished"],
    ]
    assert card.text.text().startswith("In /cache")
    assert not card.delete.isEnabled()
    card.table.selectRow(0)
    assert card.delete.text() == "Delete 5.00 MB…"
    card.delete.click()
    assert "org/cached" in card.question.box.text()
    card.question.put_away()  # Cancel
    card.table.selectRow(2)
    engine.answers["hub-cached"] = CacheReport(folder="/cache")
    engine.gate.clear()
    card.delete.click()
    next(button for button in card.question.box.buttons() if button.text() == "Delete").click()
    card.table.selectRow(1)
    assert not card.delete.isEnabled()  # another one would leave the first half deleted
    engine.gate.set()
    qtbot.waitUntil(lambda: "Nothing downloaded yet" in card.text.text())
    assert asked(engine, "hub-remove", RemoveRequest) == [RemoveRequest(id="org/rows", kind=RepoKind.DATASET)]
    assert not card.table.isVisible()
    assert not card.delete.isVisible()
    card.close_work()
