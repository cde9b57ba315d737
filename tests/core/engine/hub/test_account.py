"""The token: in the keychain or where other programs keep it, and in no text."""

from pathlib import Path

import keyring
import pytest

from core.base import jobs
from core.base.errors import UserError
from core.engine.hub.account import account, find_token, lend_token
from core.services.hub import Account, AccountAction, AccountRequest, TokenPlace
from tests.fakes.keychain import FakeKeychain, PlainFile

TOKEN = "hf_SecretOfAda42"
SAVE = AccountRequest(action=AccountAction.SAVE, token=TOKEN)
CHECK = AccountRequest(action=AccountAction.CHECK)
LOOK = AccountRequest()


@pytest.fixture
def keychain(hub):
    kept = FakeKeychain()
    before = keyring.get_keyring()
    keyring.set_keyring(kept)
    yield kept
    keyring.set_keyring(before)


def every_text(folder: Path) -> str:
    """All that lies in files of this folder."""
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_a_token_is_kept_in_the_keychain_and_in_no_file(hub, keychain, tmp_path):
    found = account(SAVE)
    assert (found.place, found.keychain) == (TokenPlace.KEYCHAIN, "macOS Keychain")
    assert list(keychain.kept.values()) == [TOKEN]
    assert find_token() == (TOKEN, TokenPlace.KEYCHAIN)
    assert TOKEN not in every_text(tmp_path)
    account(AccountRequest(action=AccountAction.REMOVE))
    assert keychain.kept == {}
    assert account(LOOK).place is TokenPlace.NOWHERE


def test_the_hub_says_whose_it_is(hub, keychain):
    hub.people[TOKEN] = "ada"
    account(SAVE)
    assert account(CHECK).name == "ada"
    assert [asked.path for asked in hub.asked] == ["/api/whoami-v2"], (
        "asked only when the person presses Check"
    )


def test_a_wrong_one_is_told_without_it(hub, keychain):
    account(SAVE)
    with pytest.raises(UserError) as caught:
        account(CHECK)
    assert "doesn't accept the token" in caught.value.detail
    assert TOKEN not in f"{caught.value.title} {caught.value.detail}"


def test_a_locked_keychain_says_so_and_keeps_its_secret(hub, keychain):
    keychain.is_locked = True
    with pytest.raises(UserError, match="doesn't let Hone in") as caught:
        account(SAVE)
    assert TOKEN not in caught.value.detail
    assert caught.value.__suppress_context__, "the chain of errors would quote it"
    assert find_token() == ("", TokenPlace.NOWHERE)


def test_where_there_is_no_keychain_others_files_still_count(hub, tmp_path):
    with pytest.raises(UserError, match="can't be kept") as caught:
        account(SAVE)
    assert "hf auth login" in caught.value.detail
    assert account(LOOK).refusal
    (tmp_path / "token").write_text(TOKEN)
    assert find_token() == (TOKEN, TokenPlace.FILE)


def test_a_keyring_that_writes_plain_files_is_no_keychain(hub, keychain):
    keyring.set_keyring(PlainFile())
    with pytest.raises(UserError, match="can't be kept"):
        account(SAVE)


def test_the_environment_goes_first(hub, keychain, monkeypatch):
    account(SAVE)
    lend_token()
    assert find_token() == (TOKEN, TokenPlace.ENVIRONMENT)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert find_token() == ("hf_other", TokenPlace.ENVIRONMENT)


@pytest.mark.parametrize("text", ["", "  ", "two words", "hf_ü"])
def test_what_is_no_token_is_not_kept(hub, keychain, text):
    with pytest.raises(UserError, match="no token"):
        account(AccountRequest(action=AccountAction.SAVE, token=text))
    assert keychain.kept == {}


def test_a_request_that_is_logged_says_no_token():
    assert TOKEN not in repr(SAVE)


def test_the_real_process_tells_of_no_keychain(hub):
    found = jobs.run_job("hub-account", LOOK, Account)
    assert found.refusal.startswith("This computer has no keychain")
