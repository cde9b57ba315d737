"""Finding a model on the Hub in the window: what each row and the button say, and what pressing it does."""

import msgspec
import pytest
from PySide6.QtCore import Qt

from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.base.settings import Settings, save
from core.services.hub import (
    Account,
    AccountRequest,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Found,
    Kind,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from gui.settings.model_browser import HubSheet

MB = 1 << 20
PLAIN = Found(
    id="org/plain", downloads=58_000_000, likes=7, size=268 * MB, parameters=67_000_000, licence="mit"
)  # fmt: skip
HALF = Found(id="org/half", size=268 * MB, here=120 * MB)
HERE = Found(id="org/here", size=90 * MB, here=90 * MB, complete=True)
GATED = Found(id="org/gated", size=90 * MB, gated=True)
PICKLED = Found(id="org/old", refusal="Its weights are pickled.", remedy="Convert it:", command="python -c 1")
ALL = (PLAIN, HALF, HERE, GATED, PICKLED)


@pytest.fixture
def engine(engine, monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    cached = (Cached(id="org/cached", kind=Kind.MODEL, size=5 * MB, complete=True),)
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=cached, total=5 * MB)
    engine.answers["hub-search"] = SearchAnswer(found=ALL)
    engine.answers["hub-download"] = Downloaded(path="/cache", files=3, size=268 * MB)
    engine.answers["hub-remove"] = Removed(freed=1)
    engine.answers["hub-account"] = Account(keychain="macOS Keychain")
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


def searched(qtbot, sheet, words="bert"):
    sheet.words.setText(words)
    sheet.button.click()
    qtbot.waitUntil(lambda: not sheet.is_searching)


def choose(sheet, found):
    sheet.results.selectRow(sheet.results.found.index(found))


@pytest.fixture
def loading(qtbot, sheet, engine):
    """A download that has come to 120 MB of 268 MB."""
    searched(qtbot, sheet)
    choose(sheet, PLAIN)
    engine.gate.clear()
    engine.progress = (JobProgress(done=120 * MB, total=268 * MB, what="model.safetensors"),)
    sheet.use.click()
    qtbot.waitUntil(lambda: sheet.download.progress is not None)
    return sheet


def row(sheet, number):
    return [sheet.results.item(number, column).text() for column in range(sheet.results.columnCount())]


def test_before_a_search_nobody_is_asked_and_what_is_here_can_be_used(qtbot, sheet, engine):
    assert asked(engine, "hub-search", SearchRequest) == []
    assert "when you press Search" in sheet.status.text()
    assert row(sheet, 0)[0] == "org/cached"
    with qtbot.waitSignal(sheet.chosen) as caught:
        sheet.use.click()
    assert caught.args == ["org/cached"]


def test_each_row_says_what_it_is_and_the_box_looks_beyond_the_task(qtbot, sheet, engine):
    searched(qtbot, sheet)
    bert = SearchRequest(words="bert", task="text-classification")
    assert asked(engine, "hub-search", SearchRequest) == [bert]
    assert row(sheet, 0) == ["org/plain", "268 MB", "67.0 million", "58,000,000", "7", "mit", ""]
    states = [row(sheet, number)[6] for number in range(1, 5)]
    assert states == ["45 % here", "✓ here", "gated", "can't be used"]
    assert sheet.status.text() == "5 found, the most downloaded first"
    sheet.suiting.click()
    qtbot.waitUntil(lambda: not sheet.is_searching)
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
    assert (sheet.use.text(), sheet.use.isEnabled()) == (words, enabled)


def test_why_one_cant_be_used_and_what_to_do(qtbot, sheet):
    searched(qtbot, sheet)
    choose(sheet, PICKLED)
    assert [sheet.details.refusal.text(), sheet.details.text.text()] == [
        "Its weights are pickled.",
        "Convert it:",
    ]
    assert sheet.details.command.text() == "python -c 1"
    assert sheet.details.command.isVisible()
    choose(sheet, PLAIN)
    assert not sheet.details.command.isVisible()


def test_a_download_is_shown_paused_continued_and_used(qtbot, loading, engine):
    sheet = loading
    assert sheet.line.isVisible()
    assert sheet.line.status.text().startswith("120 MB of 268 MB")
    assert not sheet.use.isEnabled()
    sheet.line.pause.click()
    assert not sheet.download.is_running
    assert sheet.line.status.text() == "Paused at 120 MB of 268 MB"
    assert sheet.line.pause.text() == "Resume"
    sheet.line.pause.click()
    assert sheet.download.is_running
    with qtbot.waitSignal(sheet.chosen) as caught:
        engine.gate.set()
    assert caught.args == ["org/plain"]
    assert asked(engine, "hub-download", DownloadRequest) == [DownloadRequest(id="org/plain")] * 2


def test_a_cancelled_download_is_deleted(qtbot, loading, engine):
    loading.line.cancel.click()
    assert not loading.line.isVisible()
    removing = [RemoveRequest(id="org/plain", only_partial=True)]
    qtbot.waitUntil(lambda: asked(engine, "hub-remove", RemoveRequest) == removing)


def test_a_failed_download_says_why_and_can_be_continued(qtbot, loading, engine):
    engine.answers["hub-download"] = UserError("The disk is full", "What has come is kept")
    with qtbot.waitSignal(loading.download._task.failed):
        engine.gate.set()
    assert loading.strip.isVisible()
    assert loading.strip.accessibleName() == "The disk is full"
    assert loading.line.status.text() == "Stopped at 120 MB of 268 MB"
    engine.answers["hub-download"] = Downloaded(path="/cache", files=3, size=268 * MB)
    with qtbot.waitSignal(loading.chosen):
        loading.line.pause.click()
        assert not loading.strip.isVisible()


def test_closing_pauses(loading, engine):
    loading.reject()
    assert not loading.download.is_running
    assert loading.download.request is not None
    assert asked(engine, "hub-remove", RemoveRequest) == [], "what has come stays"


def test_a_gated_one_asks_for_a_token_first(qtbot, sheet, engine):
    searched(qtbot, sheet)
    choose(sheet, GATED)
    assert "accept its terms" in sheet.details.text.text()
    sheet.use.click()
    panel = sheet.token.panel
    qtbot.waitUntil(lambda: "No token" in panel.status.text())
    panel.line.setText("hf_Secret42")
    engine.answers["hub-account"] = Account(place=TokenPlace.KEYCHAIN, keychain="macOS Keychain")
    engine.answers["hub-search"] = SearchAnswer(found=ALL, signed_in=True)
    with qtbot.waitSignal(panel.saved):
        panel.save.click()
    assert panel.line.text() == ""
    assert asked(engine, "hub-account", AccountRequest)[-1].token == "hf_Secret42"
    qtbot.waitUntil(lambda: not sheet.is_searching)
    choose(sheet, GATED)
    assert sheet.use.text() == "Download 90.0 MB and use"
    with qtbot.waitSignal(sheet.chosen):
        sheet.use.click()
    assert asked(engine, "hub-download", DownloadRequest) == [DownloadRequest(id="org/gated")]


def test_nothing_found(qtbot, sheet, engine):
    engine.answers["hub-search"] = SearchAnswer()
    searched(qtbot, sheet, "zebra")
    assert "has “zebra” in its name and suits the task" in sheet.results.empty.text()
    assert not sheet.use.isEnabled()


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
    assert "Asking" in sheet.results.empty.text()
    sheet.button.click()
    assert sheet.button.text() == "Search"
    assert not sheet.is_searching


def test_offline_only_what_is_here_can_be_used(qtbot, engine):
    save(Settings(offline=True))
    half = Cached(id="org/half", kind=Kind.MODEL, size=0, partial=3 * MB)
    here = engine.answers["hub-cached"].repos
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=(*here, half))
    sheet = HubSheet(engine)
    sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(sheet)
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 2)
    assert "“Work offline” in Settings prevents" in sheet.status.text()
    assert not sheet.button.isEnabled()
    assert sheet.use.isEnabled()
    sheet.results.selectRow(1)
    assert not sheet.use.isEnabled()
    sheet.done(0)


def test_the_form_takes_the_chosen_model(qtbot, page, engine):
    page.load_tree({"task": "chat", "model": {"source": ""}, "data": {"train": ""}})
    page._options.fields.model.hub.click()
    sheet = page.hub_sheet
    qtbot.waitUntil(lambda: sheet.results.rowCount() == 1)
    assert "Chat" in sheet.suiting.text()
    sheet.use.click()
    assert page._options.fields.model.value() == "org/cached"
    assert page.hub_sheet is None


def test_data_of_the_hub_with_its_subset(qtbot, page, engine):
    rows = Found(id="org/rows", kind=Kind.DATASET, complete=True)
    engine.answers["hub-search"] = SearchAnswer(found=(rows,))
    page._options.fields.train.hub_wanted.emit()
    sheet = page.hub_sheet
    searched(qtbot, sheet, "rows")
    assert asked(engine, "hub-search", SearchRequest)[-1].kind is Kind.DATASET
    assert sheet.use.text() == "Use"
    sheet.subset.setText("mrpc")
    assert sheet.use.text() == "Download and use", "which subsets are here, only the download finds out"
    with qtbot.waitSignal(sheet.chosen):
        sheet.use.click()
    subset = DownloadRequest(id="org/rows", kind=Kind.DATASET, subset="mrpc")
    assert asked(engine, "hub-download", DownloadRequest) == [subset]
    assert page._options.fields.train.value() == "hub:org/rows/mrpc"
