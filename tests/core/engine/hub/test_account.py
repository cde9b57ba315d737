"""The token: in the keychain or where other programs keep it, and in no text."""

import keyring
import pytest

from core.base import jobs
from core.base.errors import UserError
from core.engine.hub.account import NO_KEYCHAIN, account, find_token, lend_token
from core.services.hub import Account, AccountAction, AccountRequest, TokenPlace
from tests.fakes.desktop import FakeKeychain, PlainFile

TOKEN = "hf_SecretOfAda42"
SAVE = AccountRequest(action=AccountAction.SAVE, token=TOKEN)
CHECK = AccountRequest(action=AccountAction.CHECK)
LOOK = AccountRequest()


@pytest.fixture
def keychain(hub):
    fake = FakeKeychain()
    before = keyring.get_keyring()
    keyring.set_keyring(fake)
    yield fake
    keyring.set_keyring(before)


def test_a_token_is_saved_in_the_keychain_and_in_no_file(hub, keychain, tmp_path):
    saved = account(SAVE)
    assert (saved.place, saved.keychain) == (TokenPlace.KEYCHAIN, "macOS Keychain")
    assert list(keychain.kept.values()) == [TOKEN]
    assert find_token() == (TOKEN, TokenPlace.KEYCHAIN)
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()
    ]
    assert TOKEN not in repr(SAVE)
    account(AccountRequest(action=AccountAction.REMOVE))
    assert keychain.kept == {}
    assert account(LOOK).place is TokenPlace.NOWHERE


def test_checking_asks_the_hub_for_the_owner(hub, keychain):
    with pytest.raises(UserError, match="no token to check"):
        account(CHECK)
    account(SAVE)
    assert hub.asked == []
    with pytest.raises(UserError, match="refuses") as wrong:
        account(CHECK)
    assert "doesn't accept the token" in wrong.value.detail
    assert TOKEN not in f"{wrong.value.title} {wrong.value.detail}"
    hub.people[TOKEN] = "ada"
    assert account(CHECK).name == "ada"
    assert {request.path for request in hub.asked} == {"/api/whoami-v2"}


def test_a_locked_keychain_is_reported_without_its_secret(hub, keychain):
    keychain.is_locked = True
    with pytest.raises(UserError) as caught:
        account(SAVE)
    assert TOKEN not in caught.value.detail
    assert caught.value.__suppress_context__, "the chain of errors would quote it"
    assert find_token() == ("", TokenPlace.NOWHERE)


@pytest.mark.parametrize("backend", [None, PlainFile])
def test_without_a_keychain_tokens_of_other_programs_are_used(hub, keychain, tmp_path, backend):
    if backend is None:
        keyring.set_keyring(keyring.backends.fail.Keyring())
    else:
        keyring.set_keyring(backend())
    with pytest.raises(UserError) as caught:
        account(SAVE)
    assert caught.value.detail == account(LOOK).refusal == NO_KEYCHAIN
    (tmp_path / "token").write_text(TOKEN)
    assert find_token() == (TOKEN, TokenPlace.FILE)


def test_the_environment_goes_first(hub, keychain, monkeypatch):
    account(SAVE)
    lend_token()
    assert find_token() == (TOKEN, TokenPlace.ENVIRONMENT)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert find_token() == ("hf_other", TokenPlace.ENVIRONMENT)


@pytest.mark.parametrize("text", ["", "  ", "two words", "hf_ü"])
def test_an_invalid_token_is_not_saved(hub, keychain, text):
    with pytest.raises(UserError):
        account(AccountRequest(action=AccountAction.SAVE, token=text))
    assert keychain.kept == {}


def test_the_real_process_reports_that_there_is_no_keychain(hub):
    assert jobs.run_job("hub-account", LOOK, Account).refusal == NO_KEYCHAIN
