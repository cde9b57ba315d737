"""The Hub in Settings: working offline, the token, and what lies on this computer."""

import msgspec
import pytest

from core.base.errors import UserError
from core.base.settings import Settings
from core.services.hub import (
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    Kind,
    Removed,
    RemoveRequest,
    TokenPlace,
)
from gui.settings.hub import CacheCard, HubCard
from gui.settings.page import SettingsPage
from tests.fakes.jobs import FakeEngine

MB = 1 << 20
REPOS = (
    Cached(id="org/large", kind=Kind.MODEL, size=91 * MB, complete=True, changed=1.79e9),
    Cached(id="org/begun", kind=Kind.MODEL, size=0, partial=120 * MB),
    Cached(id="org/rows", kind=Kind.DATASET, size=MB, partial=MB),
)
KEPT = Account(place=TokenPlace.KEYCHAIN, keychain="macOS Keychain")


@pytest.fixture
def engine():
    engine = FakeEngine()
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=REPOS, total=213 * MB)
    engine.answers["hub-account"] = KEPT
    engine.answers["hub-remove"] = Removed(freed=1)
    return engine


@pytest.fixture
def card(qtbot, engine):
    card = HubCard(engine)
    qtbot.addWidget(card)
    card.show()
    qtbot.waitUntil(lambda: not card.token.task.is_running)
    yield card
    card.token.task.close()


def actions(engine):
    return [
        msgspec.json.decode(body, type=AccountRequest).action
        for job, body in engine.requests
        if job == "hub-account"
    ]


def test_working_offline_is_a_setting(qtbot, engine):
    page = SettingsPage(Settings(), ask=engine)
    qtbot.addWidget(page)
    with qtbot.waitSignal(page.settings_changed) as caught:
        page.hub.offline.click()
    assert caught.args == [Settings(offline=True)]
    page.close_questions()
    assert engine.requests == [], "a page that nobody has seen asks for nothing"


def test_where_the_token_is_and_whose(qtbot, card, engine):
    assert card.token.status.text() == "A token is saved in macOS Keychain."
    assert actions(engine) == [AccountAction.LOOK]
    engine.answers["hub-account"] = msgspec.structs.replace(KEPT, name="ada")
    card.token.check.click()
    qtbot.waitUntil(lambda: "ada" in card.token.status.text())
    engine.answers["hub-account"] = Account(keychain="macOS Keychain")
    card.token.remove.click()
    qtbot.waitUntil(lambda: "No token" in card.token.status.text())
    assert not card.token.remove.isEnabled()
    assert not card.token.check.isEnabled()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (UserError("huggingface.co refuses", "It doesn't accept the token"), "doesn't accept the token"),
        (Account(refusal="This computer has no keychain."), "no keychain"),
    ],
)
def test_a_refusal_is_shown(qtbot, card, engine, answer, words):
    card.token.line.setText("hf_Secret42")
    assert "hf_Secret42" not in card.token.line.displayText()
    engine.answers["hub-account"] = answer
    card.token.check.click()
    qtbot.waitUntil(lambda: words in card.token.status.text())
    assert card.token.save.isEnabled() == card.token.line.isEnabled() == isinstance(answer, UserError)


@pytest.fixture
def cache(qtbot, engine):
    card = CacheCard(engine)
    qtbot.addWidget(card)
    card.show()
    qtbot.waitUntil(lambda: card.table.rowCount() == 3)
    yield card
    card.close_tasks()


def cells(card, row):
    return [card.table.item(row, column).text() for column in range(3)]


def test_what_lies_here_and_how_much(cache):
    assert cells(cache, 0) == ["org/large", "model", "91.0 MB"]
    assert cells(cache, 1) == ["org/begun", "model", "120 MB unfinished"]
    assert cells(cache, 2) == ["org/rows", "data", "1.00 MB + 1.00 MB unfinished"]
    assert cache._trailing.text() == "213 MB"
    assert cache.text.text().startswith("In /cache")


def test_it_is_deleted_once_the_person_is_sure(qtbot, cache, engine):
    assert not cache.delete.isEnabled()
    cache.table.selectRow(0)
    assert cache.delete.text() == "Delete 91.0 MB…"
    cache.delete.click()
    assert "org/large" in cache.question.box.text()
    cache.question.put_away()  # Cancel
    cache.table.selectRow(2)
    engine.answers["hub-cached"] = CacheReport(folder="/cache", repos=REPOS[:2], total=1)
    engine.gate.clear()
    cache.delete.click()
    next(button for button in cache.question.box.buttons() if button.text() == "Delete").click()
    cache.table.selectRow(1)
    assert not cache.delete.isEnabled()  # another one would leave the first half deleted
    engine.gate.set()
    qtbot.waitUntil(lambda: cache.table.rowCount() == 2)
    removed = [
        msgspec.json.decode(body, type=RemoveRequest) for job, body in engine.requests if job == "hub-remove"
    ]
    assert removed == [RemoveRequest(id="org/rows", kind=Kind.DATASET)]


def test_nothing_here(qtbot, engine):
    engine.answers["hub-cached"] = CacheReport(folder="/cache")
    card = CacheCard(engine)
    qtbot.addWidget(card)
    card.show()
    qtbot.waitUntil(lambda: not card._reading.is_running)
    assert "Nothing yet" in card.text.text()
    assert not card.table.isVisible()
    assert not card.delete.isVisible()
    card.close_tasks()
